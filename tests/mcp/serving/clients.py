"""Clients made of bytes, for tests of what serves MCP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio

from mcpl_core import McplConnection
from mcpl_core.mcp.serving.answers import Answers, Identity
from mcpl_core.mcp.serving.call import Peer
from mcpl_core.mcp.serving.calling import CallRunner
from mcpl_core.mcp.serving.ledger import McpRuntime
from mcpl_core.mcp.serving.middleware import MiddlewareChain
from mcpl_core.server.calling import Caller
from tests.server.raw_host import Lines, RawHost, memory_byte_streams

__all__ = ("LIMIT", "MODERN", "Reply", "answers_of", "call_body", "connection_pair", "modern_headers", "post", "runner")

#: Seconds after which a test has failed.
LIMIT = 10.0

MODERN = "2026-07-28"


def runner(*links: Any, credentials: Any = None, reports: list[BaseException] | None = None) -> CallRunner:
    """Runs calls, and keeps what it reports."""
    kept: Callable[[BaseException], object] = (reports if reports is not None else []).append
    return CallRunner(MiddlewareChain(links), Caller(5), credentials, kept)


def answers_of(
    *capabilities: Any, reports: list[BaseException] | None = None, instructions: str | None = None
) -> Answers:
    """Answers for everybody from one ledger."""
    offer = McpRuntime(*capabilities)

    async def everybody(peer: Peer) -> McpRuntime:
        return offer

    kinds = frozenset(kind for kind in ("tools", "resources", "prompts") if getattr(offer, kind))
    identity = Identity("unit", "1.2.3", instructions=instructions)
    return Answers(identity, everybody, lambda: kinds, runner(reports=reports))


@asynccontextmanager
async def connection_pair() -> AsyncIterator[tuple[RawHost, McplConnection]]:
    """A raw client, and a connection at its other end that nobody entered yet."""
    ours, theirs = memory_byte_streams()
    with anyio.fail_after(LIMIT):
        async with ours, theirs:
            yield RawHost(Lines(ours)), McplConnection.from_streams(theirs)


class Reply(NamedTuple):
    """What came over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        """The last JSON-RPC message, of a JSON body or of a stream of events."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return self.messages[-1]
        return json.loads(self.body)

    @property
    def messages(self) -> list[Any]:
        """All messages of a stream of events."""
        lines = self.body.decode().splitlines()
        return [json.loads(line[5:]) for line in lines if line.startswith("data:") and line[5:].strip()]


def call_body(method: str, params: Any = None, *, id: Any = 1) -> bytes:
    """A JSON-RPC request."""
    return json.dumps(
        {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})
    ).encode()


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    """The routing headers of the era without a handshake."""
    return {"mcp-protocol-version": MODERN, "mcp-method": method} | ({} if name is None else {"mcp-name": name})


async def post(
    port: int,
    body: bytes,
    headers: Mapping[str, str | None] | None = None,
    *,
    path: str = "/mcp",
    method: str = "POST",
) -> Reply:
    """One request over a socket of its own, written by hand; a header of ``None`` is left out."""
    given: dict[str, str | None] = {
        "host": f"127.0.0.1:{port}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "content-length": str(len(body)),
        "connection": "close",
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value is not None)
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body)
        return _parsed(await _all(stream))


async def _all(stream: Any) -> bytes:
    received = b""
    while True:
        try:
            received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received


def _parsed(received: bytes) -> Reply:
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = _unchunked(body)
    return Reply(int(status_line.split()[1]), headers, body)


def _unchunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size or b"0", 16)
        whole, body = whole + rest[:length], rest[length + 2 :]
        if not length:
            break
    return whole
