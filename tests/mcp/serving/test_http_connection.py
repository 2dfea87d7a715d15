"""Clients that hold a connection and say nothing, or too little."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from mcpl_core.mcp.serving import serve_tools
from mcpl_core.mcp.serving.http_connection import SPARE_CONNECTIONS
from tests.mcp.serving.clients import LIMIT, call_body, post

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
        async with serve_tools([size], "http", port=0, receive_timeout=0.05) as handle:
            port = handle.port
            whole = head(port, f"content-length: {len(BODY)}") + BODY
            beginnings = (
                b"",
                whole[:20],
                whole[:-5],
                head(port, "transfer-encoding: chunked") + b"5\r\nabc",
                head(port, "origin: null", "content-length: 9000") + b"x",
            )
            for beginning in beginnings:
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    if beginning:
                        await stream.send(beginning)
                    said = await rest(stream)
                assert (b" 403 " in said) if b"origin" in beginning else said == b"", beginning
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(whole)
                said = b""
                while not said.endswith(b"0\r\n\r\n"):
                    said += await stream.receive()
                assert b" 200 " in said
                await stream.send(whole[:20])
                assert await rest(stream) == b""
            assert (await post(port, BODY)).status == 200


async def test_a_call_may_last_longer_than_its_request() -> None:
    began = anyio.Event()

    async def wait() -> str:
        began.set()
        await anyio.sleep(0.1)
        return "done"

    with anyio.fail_after(LIMIT):
        async with serve_tools([wait], "http", port=0, receive_timeout=0.05) as handle:
            reply = await post(handle.port, call_body("tools/call", {"name": "wait"}))
            assert reply.message["result"]["content"][0]["text"] == "done"


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
