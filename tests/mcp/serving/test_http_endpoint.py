"""HTTP before the first request: what is refused, what is said, where it listens."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from typing import Any

import anyio
import pytest

from mcpl_core.errors import InvalidValueError, TransportError
from mcpl_core.mcp.serving import HttpEndpoint, McpUnsupportedError, http_transport
from mcpl_core.mcp.serving.running import Runner
from tests.mcp.serving.clients import LIMIT, answers_of, call_body, post

pytestmark = pytest.mark.anyio

ASYNCIO = [("asyncio", {"use_uvloop": False})]


def size(text: str) -> int:
    return len(text)


async def started(endpoint: HttpEndpoint, runner: Runner) -> int:
    await runner.start(endpoint, answers_of(size))
    return endpoint.port


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"port": -1}, "port"),
        ({"port": 0, "max_body_bytes": 0}, "max_body_bytes"),
        ({"port": 0, "max_connections": 0}, "max_connections"),
        ({"port": 0, "client_timeout": None}, "client_timeout"),
        ({"port": 0, "grace": -1}, "grace"),
        ({"port": 0, "path": "mcp"}, "path"),
        ({"port": 0, "allowed_hosts": "mcp.example"}, "allowed_hosts"),
    ],
)
@pytest.mark.parametrize("anyio_backend", ASYNCIO)
async def test_values_out_of_range_are_refused_at_construction(
    options: dict[str, Any], code: str, anyio_backend: Any
) -> None:
    with pytest.raises(InvalidValueError) as refused:
        HttpEndpoint(**options)
    assert refused.value.code == code


@pytest.mark.parametrize("anyio_backend", [("trio", {})])
@pytest.mark.spec("R-mcpserve-2")
async def test_trio_is_refused_at_construction(anyio_backend: Any) -> None:
    with pytest.raises(McpUnsupportedError) as refused:
        http_transport(0)
    assert refused.value.code == "event-loop"


def test_trio_is_refused_at_the_start_when_nothing_ran_before() -> None:
    endpoint = http_transport(0)

    async def main() -> None:
        async with Runner() as runner:
            with pytest.raises(McpUnsupportedError) as refused:
                await started(endpoint, runner)
            assert refused.value.code == "event-loop"

    anyio.run(main, backend="trio")


@pytest.mark.parametrize("anyio_backend", ASYNCIO)
async def test_the_address_is_what_the_system_says(anyio_backend: Any) -> None:
    endpoint = http_transport(0)
    with pytest.raises(AttributeError):
        _ = endpoint.port
    with anyio.fail_after(LIMIT):
        async with Runner() as runner:
            port = await started(endpoint, runner)
            assert endpoint.address == ("127.0.0.1", port)
            assert (await post(port, call_body("ping"))).status == 200
            with pytest.raises(TransportError):
                async with Runner() as other:
                    await started(http_transport(port), other)
        # Nothing listens any more.
        with pytest.raises(OSError):
            await anyio.connect_tcp("127.0.0.1", port)


@pytest.mark.parametrize("anyio_backend", ASYNCIO)
async def test_a_name_of_both_kinds_binds_its_first_address_of_version_four(
    anyio_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def both(host: str, port: int, **options: Any) -> list[Any]:
        six = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))
        four = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.1", "127.0.0.2")]
        return [six, *four]

    monkeypatch.setattr(anyio, "getaddrinfo", both)
    endpoint = http_transport(0, host="localhost")
    with anyio.fail_after(LIMIT):
        async with Runner() as runner:
            await started(endpoint, runner)
            assert endpoint.address == ("127.0.0.1", endpoint.port)


@pytest.mark.parametrize("anyio_backend", ASYNCIO)
async def test_a_name_that_is_nowhere_cannot_be_bound(anyio_backend: Any) -> None:
    with anyio.fail_after(LIMIT):
        async with Runner() as runner:
            with pytest.raises(TransportError):
                await started(http_transport(0, host="192.0.2.1"), runner)


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        ({"host": "127.0.0.1"}, 0),
        ({"host": "localhost"}, 0),
        ({"host": "0.0.0.0"}, 1),
        ({"host": "0.0.0.0", "allowed_hosts": ["mcp.example"]}, 0),
        ({"host": "0.0.0.0", "allowed_hosts": "any"}, 0),
    ],
)
@pytest.mark.parametrize("anyio_backend", ASYNCIO)
async def test_one_warning_when_every_host_name_is_served(
    options: dict[str, Any], warnings: int, anyio_backend: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with anyio.fail_after(LIMIT):
        async with Runner() as runner:
            port = await started(http_transport(0, **options), runner)
            for _ in range(2):
                await post(port, call_body("ping"))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == warnings
    assert all("allowed_hosts" in text for text in said)


@pytest.mark.parametrize("anyio_backend", ASYNCIO)
async def test_one_that_was_stopped_before_it_began_serves_nobody(anyio_backend: Any) -> None:
    endpoint = http_transport(0)
    await endpoint.stop()
    with anyio.fail_after(LIMIT):
        await endpoint.run(answers_of(size), lambda: None)
    assert endpoint.address is not None


@pytest.mark.parametrize("blocked", ["mcp", "uvicorn"])
def test_a_missing_library_is_one_error_at_construction(blocked: str) -> None:
    code = f"""
import json, sys
sys.modules[{blocked!r}] = None
from mcpl_core.mcp import McpExtraMissingError
from mcpl_core.mcp.serving import McpToolServer, http_transport, serve_tools, stdio_transport
def size(text: str) -> int: return len(text)
stdio_transport()
serve_tools([size])
try:
    serve_tools([size], "http", port=0)
except McpExtraMissingError as error:
    print(json.dumps([error.extra, "mcp-live-core[mcp]" in str(error), McpToolServer().list_tools()]))
"""
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(run.stdout) == ["mcp", True, []]
