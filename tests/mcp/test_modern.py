"""Sessions without a handshake."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection, Request, RpcError
from mcpl_core.errors import ConnectionTimeoutError, InvalidResultError, MethodNotFound
from mcpl_core.mcp.connecting import mcp_client
from mcpl_core.mcp.modern import MODERN_VERSIONS, ModernSession, ProbingSession
from mcpl_core.mcp.transports import StdioTransport
from tests.mcp.peers import LIMIT, FakeServer, served

pytestmark = pytest.mark.anyio

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
INFO = {"name": "mcp-live-core", "version": "0"}


class Modern(FakeServer):
    """A server that knows ``server/discover``, and settles on the era of the first request."""

    discovery: Any = {
        "supportedVersions": [VERSION],
        "capabilities": {"tools": {}},
        "instructions": "Be kind.",
        "_meta": {f"{PREFIX}serverInfo": {"name": "modern", "version": "2"}},
    }
    settled = 0

    def _initialize(self, request: Request) -> Any:
        if self.settled == len(self.connections):
            raise RpcError(-32022)
        return super()._initialize(request)

    def routes(self) -> dict[str, Callable[[Request], Any]]:
        return {**super().routes(), "server/discover": self._discover}

    def _discover(self, request: Request) -> Any:
        self.settled = len(self.connections)
        if isinstance(self.discovery, Exception):
            raise self.discovery
        return self.discovery() if callable(self.discovery) else self.discovery


async def test_every_request_says_which_version_it_speaks() -> None:
    server = Modern()
    handlers: Any = {"roots/list": lambda params: {"roots": []}}
    async with served(server):
        async with mcp_client("m", transport=server.connect, era="modern", handlers=handlers) as client:
            session = client.session
            assert isinstance(session, ModernSession)
            assert (session.protocol_version, session.server_info) == (VERSION, {"name": "modern", "version": "2"})
            assert (session.capabilities, session.instructions) == ({"tools": {}}, "Be kind.")
            assert (
                await client.call("echo", {"a": 1}, meta={"own": 1, f"{PREFIX}protocolVersion": "mine"}) == "{'a': 1}"
            )
            await client.request("resources/list", {"_meta": 7})
    assert [each["method"] for each in server.heard] == [
        "server/discover",
        "tools/list",
        "tools/call",
        "resources/list",
    ]
    metas = [each["params"]["_meta"] for each in server.heard]
    for meta in metas:
        assert meta[f"{PREFIX}protocolVersion"] == VERSION
        assert meta[f"{PREFIX}clientInfo"]["name"] == "mcp-live-core"
        assert meta[f"{PREFIX}clientCapabilities"] == {"roots": {}}
    assert metas[2]["own"] == 1


@pytest.mark.spec("R-mcp-1")
@pytest.mark.parametrize(
    ("discovery", "error"),
    [
        ({"supportedVersions": ["2027-01-01"]}, InvalidResultError),
        ({"supportedVersions": VERSION}, InvalidResultError),
        ({}, InvalidResultError),
        (MethodNotFound(), MethodNotFound),
    ],
)
async def test_a_server_of_another_era_is_refused_or_greeted(discovery: Any, error: type[Exception]) -> None:
    server = Modern()
    server.discovery = discovery
    async with served(server):
        with pytest.raises(error):
            async with mcp_client("m", transport=server.connect, era="modern"):
                raise AssertionError("it opened")
        assert server.of("initialize") == []
        async with mcp_client("m", transport=server.connect, era="auto") as client:
            assert client.session.protocol_version == "2025-11-25"
            assert await client.call("echo") == "{}"
            assert len(server.connections) == 3


async def test_odd_members_read_as_absent() -> None:
    server = Modern()
    server.discovery = {"supportedVersions": [VERSION], "_meta": 7, "capabilities": 7}
    async with served(server), mcp_client("m", transport=server.connect, era="auto") as client:
        assert (client.session.server_info, client.session.capabilities) == ({}, {})
        assert client.session.protocol_version == MODERN_VERSIONS[-1]


@pytest.mark.parametrize("timeout", [0.0, None])
async def test_silence_is_not_waited_for_long(timeout: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.mcp.modern.PROBE_TIMEOUT", 0.0)
    server = Modern()
    server.discovery = anyio.sleep_forever
    async with served(server):
        if timeout is None:
            async with mcp_client("m", transport=server.connect, era="auto", timeout=None) as client:
                assert client.session.protocol_version == "2025-11-25"
        else:
            with pytest.raises(ConnectionTimeoutError):
                async with mcp_client("m", transport=server.connect, era="modern", timeout=timeout):
                    raise AssertionError("it opened")


@pytest.mark.parametrize("anyio_backend", [("asyncio", {})])
@pytest.mark.parametrize(("timeout", "patience"), [(None, 10.0), (60.0, 10.0), (3.0, 3.0), (0.0, 0.0)])
async def test_a_probe_waits_ten_seconds_at_most(timeout: float | None, patience: float) -> None:
    connection, _ = McplConnection.memory_pair()
    assert ProbingSession(connection, timeout)._patience() == patience
    assert ModernSession(connection, timeout)._patience() == timeout


async def test_the_official_server_speaks_it_over_stdio() -> None:
    transport = StdioTransport([sys.executable, str(Path(__file__).with_name("official_stdio.py"))])
    with anyio.fail_after(LIMIT):
        async with mcp_client("official", transport=transport, era="auto", result_mode="structured") as client:
            assert client.session.protocol_version == VERSION
            assert client.session.server_info["name"] == "official"
            assert await client.call("add", {"a": 1, "b": 2}) == {"sum": 3}
