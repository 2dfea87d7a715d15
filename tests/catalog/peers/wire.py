"""A server made of JSON texts, and every kind of peer at its other end.

It knows JSON and nothing of this package's wire code. A new kind of peer is a row of ``PEERS``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio

from mcpl_core import McplConnection
from mcpl_core.catalog import ConnectionPeer, HostPeer, RawPeer, SdkNotices, SdkPeer, ToolPeer
from mcpl_core.host import HostPolicy, connect_server
from mcpl_core.mcp import mcp_client
from mcpl_core.mcp.native import native_session
from tests.catalog.kit import text_result, tool
from tests.server.raw_host import memory_byte_streams

__all__ = ("PEERS", "WireServer", "client_peer", "connection_peer", "host_peer", "raw_peer", "sdk_peer")

Json = dict[str, Any]
Factory = Callable[["WireServer"], AbstractAsyncContextManager[ToolPeer]]


class WireServer:
    """The other end.

    Args:
        tools: what it lists.
        version: the version that it answers the handshake with, whatever was asked for.
        capabilities: that it advertises.

    Attributes:
        received: everything that came, in order.
        call: what it does at a ``tools/call``; answers with a text unless a test puts something else here.
    """

    def __init__(
        self, tools: list[Json] | None = None, *, version: str = "2025-11-25", capabilities: Any = None
    ) -> None:
        self.tools = [tool()] if tools is None else tools
        self.version = version
        self.capabilities = {"tools": {"listChanged": True}} if capabilities is None else capabilities
        self.received: list[Json] = []
        self.call: Callable[[Json], Awaitable[None]] = self._found
        self.vanish: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
        self._send: Callable[[bytes], Awaitable[None]] | None = None
        self._heard = anyio.Event()

    def attach(self, send: Callable[[bytes], Awaitable[None]], vanish: Callable[[], Awaitable[None]]) -> None:
        self._send, self.vanish = send, vanish

    async def handle(self, text: bytes) -> None:
        """One message of the client."""
        message = json.loads(text)
        self.received.append(message)
        match message.get("method"):
            case "initialize":
                info = {"name": "wire", "version": "1"}
                await self.answer(
                    message,
                    {"protocolVersion": self.version, "capabilities": self.capabilities, "serverInfo": info},
                )
            case "tools/list":
                await self.answer(message, {"tools": self.tools})
            case "tools/call":
                await self.call(message)
        heard, self._heard = self._heard, anyio.Event()
        heard.set()

    async def heard(self, method: str) -> Json:
        """The first message of a method, as soon as it is there."""
        while True:
            for message in self.received:
                if message.get("method") == method:
                    return message
            await self._heard.wait()

    def methods(self) -> list[Any]:
        """What came after the handshake."""
        begun = [message.get("method") for message in self.received].index("notifications/initialized")
        return [message.get("method") for message in self.received[begun + 1 :]]

    async def _found(self, message: Json) -> None:
        await self.answer(message, text_result("found"))

    async def answer(self, message: Json, result: Any) -> None:
        await self.send({"id": message["id"], "result": result})

    async def error(self, message: Json, code: int, text: str) -> None:
        await self.send({"id": message["id"], "error": {"code": code, "message": text, "data": text}})

    async def changed(self) -> None:
        """The list of tools changed, it says."""
        await self.send({"method": "notifications/tools/list_changed"})

    async def send(self, message: Json) -> None:
        assert self._send is not None
        await self._send(json.dumps({"jsonrpc": "2.0", **message}).encode())


@asynccontextmanager
async def _connection(server: WireServer) -> AsyncIterator[McplConnection]:
    """A connection to the server, not entered."""
    near, far = memory_byte_streams()

    async def pump() -> None:
        rest = b""
        async for data in far:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                await server.handle(line)

    server.attach(lambda text: far.send(text + b"\n"), far.aclose)
    with anyio.fail_after(10):
        async with near, far, anyio.create_task_group() as tasks:

            async def run() -> None:
                try:
                    await pump()
                except anyio.ClosedResourceError:
                    pass

            tasks.start_soon(run)
            yield McplConnection.from_streams(near)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def connection_peer(server: WireServer) -> AsyncIterator[ToolPeer]:
    """A connection that was initialized by hand, without any capability of a client."""
    async with _connection(server) as connection, connection, anyio.create_task_group() as tasks:
        tasks.start_soon(connection.serve, {})
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        answer = await connection.send_request("initialize", params)
        await connection.send_notification("notifications/initialized")
        yield ConnectionPeer(connection, answer)
        await connection.aclose()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def host_peer(server: WireServer) -> AsyncIterator[ToolPeer]:
    """A server of an MCPL host."""
    async with _connection(server) as connection:
        async with connect_server(connection, policy=HostPolicy.allow("tools"), server="wire") as session:
            yield HostPeer(session)


@asynccontextmanager
async def raw_peer(server: WireServer) -> AsyncIterator[ToolPeer]:
    """An MCP session of this package's client."""
    async with _connection(server) as connection:

        async def dial() -> McplConnection:
            return connection

        async with native_session(dial, client_info={"name": "c", "version": "1"}, timeout=30.0) as session:
            yield RawPeer(session)


@asynccontextmanager
async def client_peer(server: WireServer) -> AsyncIterator[ToolPeer]:
    """The session that a client of this package has now."""
    async with _connection(server) as connection:
        async with mcp_client("wire", transport=lambda: connection, reconnect=None) as client:
            yield RawPeer(client.session)


@asynccontextmanager
async def sdk_peer(server: WireServer) -> AsyncIterator[ToolPeer]:
    """A session of the official SDK."""
    from mcp import ClientSession
    from mcp.shared.memory import create_client_server_memory_streams
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    notices = SdkNotices()
    with anyio.fail_after(10):
        async with (
            create_client_server_memory_streams() as ((near_read, near_write), (far_read, far_write)),
            anyio.create_task_group() as tasks,
        ):

            async def pump() -> None:
                async for item in far_read:
                    assert isinstance(item, SessionMessage)
                    await server.handle(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

            async def send(text: bytes) -> None:
                await far_write.send(SessionMessage(jsonrpc_message_adapter.validate_json(text)))

            server.attach(send, far_write.aclose)
            tasks.start_soon(pump)
            async with ClientSession(near_read, near_write, message_handler=notices) as session:
                await session.initialize()
                yield SdkPeer(session, notices)
            tasks.cancel_scope.cancel()


PEERS: dict[str, Factory] = {
    "connection": connection_peer,
    "host": host_peer,
    "raw": raw_peer,
    "client": client_peer,
    "sdk": sdk_peer,
}
