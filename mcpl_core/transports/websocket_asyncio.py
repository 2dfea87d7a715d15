"""WebSockets on asyncio and uvloop: the sans-I/O parts on an ``asyncio.Protocol``.

Owns: the asyncio transport of one WebSocket, and taking over a connection of the library. No task runs for a
connection, and none per message. Does not own: the order of things (``websocket_engine``).
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from ssl import SSLContext
from typing import Any, cast

import anyio
from websockets.asyncio.client import connect_http_proxy
from websockets.asyncio.connection import Connection
from websockets.frames import Frame
from websockets.http11 import Request, Response
from websockets.protocol import Protocol

from ..errors import TransportError
from .base import BURST, JOIN_FIRST, JOIN_MOST, WRITE_HIGH_WATER, Sink
from .loop import EventLoop
from .websocket_address import Address
from .websocket_engine import Engine, WebSocketSettings, peer_name
from .websocket_outgoing import LARGE_MESSAGE

__all__ = ("AsyncioEngine", "AsyncioServer", "dial", "discard", "listen", "take_over")

#: The first message of a turn of the loop leaves at once; the others in groups, after this many bytes, or at its end.
_JOINED_BYTES = 64 * 1024

#: One read; larger ones push the data out of the processor's cache before it is parsed.
_READ_BYTES = 64 * 1024


class AsyncioEngine(Engine, asyncio.Protocol):
    """A WebSocket on an asyncio transport.

    Args:
        protocol: the library's state machine.
        settings: see there.
        made: called when the transport is there.
        taken: the library's connection that this one takes over.
    """

    def __init__(
        self,
        protocol: Protocol,
        settings: WebSocketSettings,
        made: Callable[[AsyncioEngine], object] | None = None,
        taken: Connection | None = None,
    ) -> None:
        super().__init__(protocol, settings)
        self._made = made
        self._taken = taken
        self._io = asyncio.get_running_loop()
        self._time = time.monotonic  # uvloop's own clock counts milliseconds
        self._head: asyncio.Future[Request | Response | TransportError] = self._io.create_future()
        self._behind = False
        #: What waits because the transport is behind: large frames, and whatever was written after them. An empty
        #: ``bytes`` is the end of the output.
        self._backlog: deque[bytes | Iterator[bytes | memoryview]] = deque()
        self._joined: list[bytes] = []
        self._joined_messages = 0
        self._joined_bytes = 0
        self._join = JOIN_FIRST
        self._in_turn = False
        #: When the last message left that was not joined.
        self._written = -math.inf
        self._transport: asyncio.Transport

    # ------------------------------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(WRITE_HIGH_WATER)
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_BYTES
        if self._made is not None:
            self._made(self)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._paused or self._held:
            self._keep(data)
        else:
            self._feed(data)

    def _keep(self, data: bytes) -> None:
        if self._handshake is None or self._head.done():
            self._held.append(data)
            return
        try:
            event = self._handshake.receive(data)
        except TransportError as exc:
            self._head.set_result(exc)
        else:
            if event is not None:
                self._head.set_result(event)
                self._transport.pause_reading()

    def eof_received(self) -> None:
        self._end_head(None)
        self._carrier_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head(exc)
        if self._taken is not None:
            self._taken.connection_lost(exc)
        self._carrier_lost(exc)

    def _end_head(self, cause: BaseException | None) -> None:
        if not self._head.done():
            error = TransportError("the connection ended during the opening handshake")
            error.__cause__ = cause
            self._head.set_result(error)

    def pause_writing(self) -> None:
        self._behind = True

    def resume_writing(self) -> None:
        self._behind = False
        self._work_off()
        if not self._behind:
            self._caught_up()

    # ------------------------------------------------------------------------------------ Engine

    async def exchange(self) -> Request | Response:
        await self.send_head()
        outcome = await self._head
        if isinstance(outcome, TransportError):
            raise outcome
        return outcome

    async def send_head(self) -> None:
        self._send_control()

    async def release(self) -> None:
        self._outgoing.close(1001)
        self._send_control()
        if not self._lost:
            self._transport.close()
        try:
            with anyio.move_on_after(self._settings.close_timeout):
                await self._gone.wait()
        finally:
            self.abort()

    def abort(self) -> None:
        if not self._lost:
            self._transport.abort()

    @property
    def peer(self) -> str:
        return peer_name(self._transport.get_extra_info("peername"))

    @property
    def behind(self) -> bool:
        return self._behind

    def write(self, message: bytes) -> None:
        if self._output_ended:
            return
        if len(message) >= LARGE_MESSAGE:
            self._flush()
            self._backlog.append(self._outgoing.encode_large(message))
            self._work_off()
        elif self._in_turn or self._feeding:
            self._join_up(message)
        elif (now := self._time()) - self._written < BURST:
            self._in_turn = True
            self._io.call_soon(self._end_turn)
            self._join_up(message)
        else:
            # Alone, as far as can be told; that it was would have to be heard from the loop, which costs a turn.
            self._written = now
            self._put(self._outgoing.encode(message))

    def _join_up(self, message: bytes) -> None:
        self._joined += self._outgoing.encode_parts(message)
        self._joined_messages += 1
        self._joined_bytes += len(message)
        if self._joined_bytes >= _JOINED_BYTES:
            self._flush()
        elif self._joined_messages >= self._join and not self._feeding:
            self._flush()
            self._join = min(self._join * 2, JOIN_MOST)

    def _end_turn(self) -> None:
        self._in_turn = False
        self._join = JOIN_FIRST
        self._flush()

    def _flush(self) -> None:
        if self._joined:
            data = b"".join(self._joined)
            self._joined.clear()
            self._joined_messages = self._joined_bytes = 0
            self._put(data)

    def _send(self, parts: list[bytes]) -> None:
        data = b"".join(parts)
        if data:
            self._put(data)
        if not parts[-1]:
            self._put(b"")

    def _put(self, data: bytes) -> None:
        if self._backlog:
            self._backlog.append(data)
        else:
            self._hand_over(data)

    def _work_off(self) -> None:
        while self._backlog and not self._behind:
            first = self._backlog[0]
            piece = first if isinstance(first, bytes) else next(first, None)
            if piece is None or piece is first:
                self._backlog.popleft()
            if piece is not None:
                self._hand_over(piece)

    def _hand_over(self, data: bytes | memoryview) -> None:
        if self._eof or self._lost:
            self._backlog.clear()
        elif data:
            self._transport.write(data)
        elif not self._transport.can_write_eof():
            # TLS has no half-close; there the transport is closed when what was written has left.
            self._transport.close()
        elif not self._transport.is_closing():
            # The peer may have gone already; the transport tells of it itself.
            with suppress(OSError):
                self._transport.write_eof()

    def _pause_carrier(self) -> None:
        self._transport.pause_reading()

    def _resume_carrier(self) -> None:
        self._transport.resume_reading()


async def dial(address: Address, protocol: Protocol, settings: WebSocketSettings) -> AsyncioEngine:
    """Connects to where the address says, through its proxy and with TLS if it has them.

    Raises:
        OSError: nobody answers there, or TLS failed.
        ProxyError: the proxy refuses.
    """
    loop = asyncio.get_running_loop()
    engine = AsyncioEngine(protocol, settings)
    if address.unix_path is not None:
        await loop.create_unix_connection(lambda: engine, address.unix_path)
    elif address.proxy is None:
        await loop.create_connection(
            lambda: engine,
            address.host,
            address.port,
            ssl=address.tls,
            server_hostname=None if address.tls is None else address.host,
        )
    else:
        tunnel = await connect_http_proxy(address.proxy, address.uri, ssl=address.proxy_tls)
        try:
            await _enter_tunnel(tunnel, engine, address)
        except BaseException:
            tunnel.abort()
            raise
    return engine


async def _enter_tunnel(tunnel: asyncio.Transport, engine: AsyncioEngine, address: Address) -> None:
    if address.tls is None:
        tunnel.set_protocol(engine)
        engine.connection_made(tunnel)
        return
    loop = asyncio.get_running_loop()
    secure = await loop.start_tls(tunnel, engine, address.tls, server_hostname=address.host)
    if secure is None:  # pragma: no cover - the type allows it for a transport that closed meanwhile
        raise ConnectionAbortedError("the proxy closed the connection")
    engine.connection_made(secure)


class AsyncioServer:
    """What ``listen`` returns."""

    def __init__(self, servers: Sequence[asyncio.Server]) -> None:
        self._servers = servers

    async def aclose(self) -> None:
        """Stops accepting."""
        for server in self._servers:
            server.close()
        # uvloop closes the sockets in the next turn of the loop.
        await asyncio.sleep(0)


async def listen(
    sockets: Sequence[socket.socket],
    tls: SSLContext | None,
    make: Callable[[], tuple[Protocol, WebSocketSettings]],
    accepted: Callable[[Engine], object],
    loop: EventLoop,
    handshake_timeout: float,
) -> AsyncioServer:
    """Accepts on bound sockets.

    Args:
        sockets: bound stream sockets.
        tls: the server's TLS, or ``None``.
        make: what the engine of a peer is made of.
        accepted: called with the engine of each peer, before its opening handshake.
        loop: the services of the event loop.
        handshake_timeout: seconds for the TLS handshake of a peer.
    """
    io = asyncio.get_running_loop()

    def factory() -> AsyncioEngine:
        return AsyncioEngine(*make(), made=accepted)

    timeout = None if tls is None else handshake_timeout
    servers = []
    for sock in sockets:
        create: Any = io.create_unix_server if sock.family == getattr(socket, "AF_UNIX", None) else io.create_server
        servers.append(await create(factory, sock=sock, ssl=tls, ssl_handshake_timeout=timeout))
    return AsyncioServer(servers)


async def discard(ws: Connection, settings: WebSocketSettings) -> None:
    """Closes a connection of the library that was not taken over."""
    try:
        with anyio.move_on_after(settings.close_timeout):
            await ws.close(1001)
    finally:
        ws.transport.abort()


def take_over(ws: Connection, settings: WebSocketSettings, sink: Sink, loop: EventLoop) -> AsyncioEngine:
    """Goes on with an open connection of the library. From then on the library hears of it only that it ended."""
    frames: list[Frame] = list(ws.recv_messages.frames.queue)
    ws.recv_messages.frames.queue.clear()
    if ws.connection_lost_waiter.done():
        engine = AsyncioEngine(ws.protocol, settings)
        engine._carrier_lost(ws.connection_exc)
    else:
        engine = AsyncioEngine(ws.protocol, settings, taken=ws)
        if ws.keepalive_task is not None:
            ws.keepalive_task.cancel()
        ws.transport.pause_reading()
        ws.transport.set_protocol(engine)
        engine.connection_made(ws.transport)
    engine.attach(sink, loop, frames)
    return engine
