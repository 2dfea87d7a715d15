"""Clients that hold a connection and say nothing, or too little."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio
import pytest

from mcpl_core.mcp.serving import serve_tools
from mcpl_core.mcp.serving.http_connection import SPARE_CONNECTIONS
from tests.mcp.serving.clients import LIMIT, call_body, modern_headers, post

pytest.importorskip("uvicorn")

pytestmark = pytest.mark.anyio

BODY = call_body("tools/list")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The HTTP server runs on asyncio alone."""
    return "asyncio", {"use_uvloop": False}


def size(text: str) -> int:
    return len(text)


def head(port: int, *more: str) -> bytes:
    lines = (
        "POST /mcp HTTP/1.1",
        f"host: 127.0.0.1:{port}",
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        *more,
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def rest(stream: anyio.abc.ByteReceiveStream) -> bytes:
    """What comes until the server hangs up."""
    received = b""
    while True:
        try:
            received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received


@pytest.mark.spec("R-mcpserve-16")
async def test_a_client_that_does_not_say_what_it_wants_is_hung_up_on() -> None:
    with anyio.fail_after(LIMIT):
        async with serve_tools([size], "http", port=0, client_timeout=0.3) as handle:
            port = handle.port
            whole = head(port, f"content-length: {len(BODY)}") + BODY
            refused = head(port, "origin: null", "content-length: 9000") + b"x"

            async def begins(beginning: bytes) -> None:
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    if beginning:
                        await stream.send(beginning)
                    said = await rest(stream)
                assert (b" 403 " in said) if beginning is refused else said == b"", beginning

            chunk = head(port, "transfer-encoding: chunked") + b"5\r\nabc"
            async with anyio.create_task_group() as tasks:
                for beginning in (b"", whole[:20], whole[:-5], chunk, refused):
                    tasks.start_soon(begins, beginning)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(whole)
                said = b""
                while not said.endswith(b"0\r\n\r\n"):
                    said += await stream.receive()
                assert b" 200 " in said
                await stream.send(whole[:20])
                assert await rest(stream) == b""
            assert (await post(port, BODY)).status == 200


@pytest.mark.parametrize("more", [{}, modern_headers("tools/list")], ids=["legacy", "modern"])
async def test_a_client_that_goes_before_its_request_is_there_is_no_error(
    more: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(LIMIT):
        async with serve_tools([size], "http", port=0, max_connections=1) as handle:
            lines = [f"{name}: {value}" for name, value in more.items()]
            async with await anyio.connect_tcp("127.0.0.1", handle.port) as stream:
                await stream.send(head(handle.port, "content-length: 9000", "expect: 100-continue", *lines) + b"x")
                assert b"100" in await stream.receive()
            await gone(handle.port)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("bound", [{"client_timeout": 0.05, "max_connections": 1}, {"grace": 0}])
@pytest.mark.spec("R-mcpserve-16")
async def test_a_client_that_does_not_take_its_answer_is_hung_up_on(bound: dict[str, Any]) -> None:
    length = 15_000_000  # more than the kernel keeps

    async def much() -> str:
        return "x" * length

    body = call_body("tools/call", {"name": "much"})
    with anyio.fail_after(LIMIT):
        async with serve_tools([much], "http", port=0, **bound) as handle:
            async with await anyio.connect_tcp("127.0.0.1", handle.port) as stream:
                await stream.send(head(handle.port, f"content-length: {len(body)}") + body)
                begun = await stream.receive()
                if "grace" in bound:
                    await handle.close()
                else:
                    await gone(handle.port)
                assert len(begun + await rest(stream)) < length


async def test_a_client_that_takes_its_answer_is_kept() -> None:
    async def much() -> str:
        return "x" * 15_000_000

    body = call_body("tools/call", {"name": "much"})
    with anyio.fail_after(LIMIT):
        async with serve_tools([much, size], "http", port=0, client_timeout=0.3) as handle:
            async with await anyio.connect_tcp("127.0.0.1", handle.port) as stream:
                await stream.send(head(handle.port, f"content-length: {len(body)}") + body)
                said = b""
                while not said.endswith(b"0\r\n\r\n"):
                    said = said[-4:] + await stream.receive()
                # Until the time of one that came later is over.
                async with await anyio.connect_tcp("127.0.0.1", handle.port) as silent:
                    assert await rest(silent) == b""
                await stream.send(head(handle.port, f"content-length: {len(BODY)}", "connection: close") + BODY)
                assert b" 200 " in await rest(stream)


async def gone(port: int) -> None:
    """Returns when the one place for a client is free."""
    said = b""
    while b" 200 " not in said:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            # A loaded machine may hang up on this one, too.
            with suppress(anyio.BrokenResourceError):
                await stream.send(head(port, f"content-length: {len(BODY)}", "connection: close") + BODY)
            said = await rest(stream)


async def test_a_call_may_last_longer_than_its_request() -> None:
    began, later = anyio.Event(), anyio.Event()
    replies: list[Any] = []

    async def wait() -> str:
        began.set()
        await later.wait()
        return "done"

    with anyio.fail_after(LIMIT):
        async with serve_tools([wait], "http", port=0, client_timeout=0.3) as handle:
            async with anyio.create_task_group() as tasks:

                async def asking() -> None:
                    replies.append(await post(handle.port, call_body("tools/call", {"name": "wait"})))

                tasks.start_soon(asking)
                await began.wait()
                # Until the time of one that came later is over.
                async with await anyio.connect_tcp("127.0.0.1", handle.port) as silent:
                    assert await rest(silent) == b""
                later.set()
    assert replies[0].message["result"]["content"][0]["text"] == "done"


@pytest.mark.spec("R-mcpserve-16")
async def test_clients_that_are_far_too_many_are_not_kept() -> None:
    with anyio.fail_after(LIMIT):
        async with serve_tools([size], "http", port=0, max_connections=1) as handle, AsyncExitStack() as open_ones:
            streams = [
                await open_ones.enter_async_context(await anyio.connect_tcp("127.0.0.1", handle.port))
                for _ in range(SPARE_CONNECTIONS + 2)
            ]
            # The limit and the spare ones are kept; this one is not.
            one_more = await open_ones.enter_async_context(await anyio.connect_tcp("127.0.0.1", handle.port))
            assert await rest(one_more) == b""
            await streams[-1].send(head(handle.port, f"content-length: {len(BODY)}", "connection: close") + BODY)
            assert b" 503 " in await rest(streams[-1])
            await open_ones.aclose()
