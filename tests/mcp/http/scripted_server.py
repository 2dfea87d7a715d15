"""A small HTTP/1.1 server for tests: each request is recorded and answered by a function of the test."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from anyio.abc import SocketAttribute, SocketStream

REASONS = {200: "OK", 202: "Accepted", 204: "No Content"}


@dataclass
class Seen:
    """One request as it came."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    stream: SocketStream = field(repr=False)

    def header(self, name: str) -> str | None:
        found = [value for each, value in self.headers if each.lower() == name.lower()]
        return found[0] if found else None

    @property
    def message(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body) if self.body else {}
        return value

    @property
    def rpc(self) -> str:
        """The JSON-RPC method, or the HTTP method of a request without a message."""
        return str(self.message.get("method", "answer")) if self.body else self.method


@dataclass
class Reply:
    """What is sent back."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Reset(Exception):
    """Raised by a script: the connection is reset without an answer."""


Script: TypeAlias = Callable[[Seen], Awaitable[Reply | None]]


def result(seen: Seen, value: Any, **headers: str) -> Reply:
    """A JSON-RPC result as JSON."""
    text = json.dumps({"jsonrpc": "2.0", "id": seen.message["id"], "result": value}).encode()
    return Reply(200, {"content-type": "application/json", **headers}, text)


def error(seen: Seen, code: int, message: str, data: Any = None, status: int = 200) -> Reply:
    """A JSON-RPC error as JSON."""
    detail = {"code": code, "message": message} | ({} if data is None else {"data": data})
    text = json.dumps({"jsonrpc": "2.0", "id": seen.message["id"], "error": detail}).encode()
    return Reply(status, {"content-type": "application/json"}, text)


def events(*messages: Any) -> bytes:
    """The text of server-sent events."""
    return b"".join(b"event: message\ndata: " + json.dumps(each).encode() + b"\n\n" for each in messages)


def initialized(seen: Seen, **headers: str) -> Reply:
    """The answer to ``initialize``."""
    info = {"name": "scripted", "version": "1", "odd": True}
    value = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "experimental": {"odd": {"deep": [1, None]}}},
        "serverInfo": info,
        "instructions": "be kind",
    }
    return result(seen, value, **headers)


class ScriptedServer:
    """Answers by the rules of the handshake era what the test's script leaves alone (``None``)."""

    def __init__(self, script: Script | None = None, session: str | None = "session-1") -> None:
        self.script = script
        self.session = session
        self.seen: list[Seen] = []
        self.url = ""
        self.port = 0
        #: Connections that are open now.
        self.open = 0
        self.changed = anyio.Event()

    def of(self, rpc: str) -> list[Seen]:
        """The requests of one kind."""
        return [seen for seen in self.seen if seen.rpc == rpc]

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(5):
            while not condition():
                await self.changed.wait()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def _reply(self, seen: Seen) -> Reply | None:
        reply = await self.script(seen) if self.script is not None else None
        return reply if reply is not None else await self.usual(seen)

    async def usual(self, seen: Seen) -> Reply | None:
        """The handshake, an empty list, an echo."""
        session = {} if self.session is None else {"mcp-session-id": self.session}
        match seen.rpc:
            case "initialize":
                return initialized(seen, **session)
            case "server/discover":
                return error(seen, -32601, "Method not found", status=400)
            case "GET":
                return Reply(405)
            case "DELETE":
                return Reply(204)
            case "tools/list":
                return result(seen, {"tools": [], "odd": {"x": None}})
            case "tools/call":
                return result(seen, {"content": [], "structuredContent": seen.message["params"]})
        return Reply(202)

    async def _serve(self, stream: SocketStream) -> None:
        self.open += 1
        try:
            async with stream:
                try:
                    await self._converse(stream)
                except Reset:
                    # With nothing to linger for, closing sends a reset.
                    raw = stream.extra(SocketAttribute.raw_socket)
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self.open -= 1
            self._tell()

    async def _converse(self, stream: SocketStream) -> None:
        buffer = b""
        while True:
            while b"\r\n\r\n" not in buffer:
                buffer += await stream.receive()
            head, _, buffer = buffer.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = first.split(" ", 2)
            headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
            length = int({n.lower(): v for n, v in headers}.get("content-length", "0"))
            while len(buffer) < length:
                buffer += await stream.receive()
            body, buffer = buffer[:length], buffer[length:]
            seen = Seen(method, path, headers, body, stream)
            self.seen.append(seen)
            self._tell()
            await self._send(stream, await self._reply(seen))

    async def _send(self, stream: SocketStream, reply: Reply | None) -> None:
        if reply is None:
            raise anyio.ClosedResourceError
        headers = {"content-length": str(len(reply.body)), **reply.headers}
        if reply.status in (204, 304):
            del headers["content-length"]
        head = f"HTTP/1.1 {reply.status} {REASONS.get(reply.status, 'Status')}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await stream.send(head.encode("latin-1") + b"\r\n" + reply.body)


@asynccontextmanager
async def serving(server: ScriptedServer, path: str = "/mcp") -> AsyncIterator[ScriptedServer]:
    """Listens on a free port of this machine while the block runs."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server.port = listener.extra(SocketAttribute.local_port)
    server.url = f"http://127.0.0.1:{server.port}{path}"
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, server._serve)
            try:
                yield server
            except Exception as exc:
                failure = exc
            finally:
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await listener.aclose()
    if failure is not None:
        raise failure


async def stream_events(seen: Seen, text: bytes = b"", *, done: bool = False) -> None:
    """Begins a stream of events, or goes on with it, on the connection of a request."""
    head = b""
    if not getattr(seen, "began", False):
        seen.began = True  # type: ignore[attr-defined]
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    await seen.stream.send(head + text)
    if done:
        await seen.stream.aclose()
