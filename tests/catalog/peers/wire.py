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

__all__ = ("PEERS", "WireServer", "client_peer", "connection_peer", "host_peer", "http_peer", "raw_peer", "sdk_peer")

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


class _HttpWire:
    """The texts of a ``WireServer`` over Streamable HTTP: each answer stands in the stream of its request."""

    def __init__(self, server: WireServer) -> None:
        from tests.mcp.http import scripted_server

        self._http = scripted_server
        self._server = server
        self._open: dict[Any, Any] = {}
        #: What came while no request was open; it stands before the next answer.
        self._early: list[bytes] = []
        self._listening: Any = None
        self._over = anyio.Event()
        self.vanished: Any = None

    async def script(self, seen: Any) -> Any:
        if seen.rpc == "GET":
            self._listening = seen
            await self._http.stream_events(seen)
            await anyio.sleep_forever()
        if seen.method != "POST" or seen.rpc == "server/discover":
            return None
        if "id" not in seen.message or "method" not in seen.message:
            await self._server.handle(seen.body)
            return self._http.Reply(202)
        self._open[seen.message["id"]] = seen
        await self._server.handle(seen.body)
        while seen.message["id"] in self._open:
            await self._over.wait()
        if self.vanished is seen:
            raise self._http.Reset
        return seen.reply if seen.rpc == "initialize" else None

    def _tell(self) -> None:
        over, self._over = self._over, anyio.Event()
        over.set()

    async def send(self, text: bytes) -> None:
        event = b"event: message\ndata: " + text + b"\n\n"
        try:
            message = json.loads(text)
        except ValueError:
            message = {}
        answered = self._open.get(message.get("id")) if "method" not in message else None
        if answered is not None and answered.rpc == "initialize":
            headers = {"content-type": "application/json", "mcp-session-id": "s"}
            answered.reply = self._http.Reply(200, headers, text)
        elif answered is None and "method" in message and "id" in message:
            await self._http.stream_events(self._listening, event)
        elif answered is None and not self._open:
            self._early.append(event)
        else:
            early = b"".join(self._early)
            self._early.clear()
            last = answered or list(self._open.values())[-1]
            if answered is not None:
                # Now: what is sent while this is, belongs to others.
                del self._open[message["id"]]
            try:
                await self._http.stream_events(last, early + event, done=answered is not None)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                # Nobody waits for it any longer.
                pass
        if answered is not None:
            self._open.pop(message["id"], None)
            self._tell()

    async def vanish(self) -> None:
        _, self.vanished = self._open.popitem()
        self._tell()


@asynccontextmanager
async def http_peer(server: WireServer) -> AsyncIterator[ToolPeer]:
    """A session of this package over Streamable HTTP."""
    from tests.mcp.http.opened import opened
    from tests.mcp.http.scripted_server import ScriptedServer, serving

    wire = _HttpWire(server)
    server.attach(wire.send, wire.vanish)
    with anyio.fail_after(10):
        async with serving(ScriptedServer(wire.script)) as http, opened(http, retry_on_throttle=False) as session:
            await http.wait_for(lambda: bool(http.of("GET")))
            yield RawPeer(session)


PEERS: dict[str, Factory] = {
    "connection": connection_peer,
    "host": host_peer,
    "raw": raw_peer,
    "client": client_peer,
    "http": http_peer,
    "sdk": sdk_peer,
}
