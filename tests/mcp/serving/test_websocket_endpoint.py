"""Served over WebSockets: a text message is a message, a connection a handshake."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.errors import (
    ConnectionClosedError,
    InvalidRequest,
    InvalidValueError,
    LocalProtocolError,
    TransportError,
    UpgradeRefusedError,
)
from mcpl_core.mcp.serving import ListeningHandle, ServedTool, WebSocketEndpoint, serve_tools, websocket_transport
from tests.mcp.serving.clients import LIMIT, answers_of

pytestmark = pytest.mark.anyio

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
WHO = ServedTool("who", lambda arguments, call: f"{call.peer.principal} over {call.peer.transport}")


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[ListeningHandle]:
    with anyio.fail_after(LIMIT):
        async with serve_tools([WHO], "websocket", port=0, **options) as handle:
            yield handle


def dialled(handle: ListeningHandle, path: str = "/mcp", **headers: str) -> McplConnection:
    return McplConnection.connect(
        f"ws://127.0.0.1:{handle.port}{path}", transport_options={"headers": headers} if headers else None
    )


async def who(connection: McplConnection) -> str:
    await connection.send_request("initialize", HELLO)
    result = await connection.send_request("tools/call", {"name": "who"})
    text: str = result["content"][0]["text"]
    return text


async def test_clients_side_by_side_and_one_after_the_other() -> None:
    async with served() as handle:
        assert handle.address == ("127.0.0.1", handle.port)
        async with dialled(handle) as first, dialled(handle) as second:
            assert await who(first) == "local over websocket"
            assert await who(second) == "local over websocket"
            with pytest.raises(InvalidRequest):
                await first.send_request("initialize", HELLO)
        async with dialled(handle) as third:
            assert await who(third) == "local over websocket"


async def refused(handle: ListeningHandle, path: str = "/mcp", **headers: str) -> int | None:
    with pytest.raises(UpgradeRefusedError) as caught:
        async with dialled(handle, path, **headers):
            pass
    return caught.value.status


async def test_who_may_not_connect_never_reaches_a_tool() -> None:
    def authenticate(request: Any) -> Any:
        return {"ann-key": "ann", "yes-key": True}.get(request.token)

    async with served(origins=["https://app.example"], authenticate=authenticate, max_connections=1) as handle:
        key = {"Authorization": "Bearer ann-key"}
        assert await refused(handle) == 401
        assert await refused(handle, path="/other", **key) == 404
        assert await refused(handle, Origin="https://evil.example", **key) == 403
        async with dialled(handle, Origin="https://app.example", **key) as client:
            assert await who(client) == "ann over websocket"
            assert await refused(handle, **key) == 503


async def test_an_authenticate_that_only_lets_in_knows_nobody() -> None:
    async with served(authenticate=lambda request: True) as handle, dialled(handle) as client:
        assert await who(client) == "local over websocket"


async def test_an_authenticate_that_fails_ends_nothing_and_tells_no_log(caplog: pytest.LogCaptureFixture) -> None:
    def authenticate(request: Any) -> Any:
        if request.token == "broken":
            raise ValueError("CANARY")
        if request.token == "leaving":
            raise SystemExit("CANARY")
        return "ann"

    async with served(authenticate=authenticate) as handle:
        for token in ("broken", "leaving"):
            assert await refused(handle, Authorization=f"Bearer {token}") == 500
        async with dialled(handle) as client:
            assert await who(client) == "ann over websocket"
    assert "CANARY" not in caplog.text


async def test_closing_ends_every_connection() -> None:
    async with served() as handle, dialled(handle) as client:
        await who(client)
        await handle.close()
        await handle.close()
        with pytest.raises(ConnectionClosedError):
            await client.next_message()
        with pytest.raises(TransportError):
            async with dialled(handle):
                pass


async def test_a_client_that_breaks_touches_no_other() -> None:
    async with served() as handle, dialled(handle) as other:
        stream = await anyio.connect_tcp("127.0.0.1", handle.port)
        await stream.send(b"\x00garbage\r\n\r\n")
        await stream.aclose()
        assert await who(other) == "local over websocket"


async def test_a_connection_that_cannot_be_served_is_reported_alone() -> None:
    endpoint = websocket_transport(0)
    connection, _ = McplConnection.memory_pair()
    reported: list[BaseException] = []
    async with connection:
        await endpoint._serve(answers_of(WHO, reports=reported), connection)
    assert [type(error) for error in reported] == [LocalProtocolError]


def test_options_are_checked_at_construction() -> None:
    for options, code in (({"port": 70_000}, "port"), ({"port": 0, "path": "mcp"}, "path")):
        with pytest.raises(InvalidValueError) as caught:
            websocket_transport(**options)
        assert caught.value.code == code
    with pytest.raises(TypeError):
        websocket_transport(0, origins="https://app.example")
    with pytest.raises(AttributeError):
        _ = WebSocketEndpoint(0, host="::1").port
