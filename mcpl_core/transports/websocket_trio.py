"""WebSockets on trio: the connection of the ``websockets`` library between one reader and one writer task.

Owns: the trio carrier of one WebSocket, and taking over a connection of the library. The library's connection reads and
hands its bytes to us; a writer task sends everything that piled up since its last turn. Does not own: the order of
things (``websocket_engine``).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from errno import EMFILE, ENFILE, ENOBUFS, ENOMEM
from ssl import SSLContext
from typing import Any, cast

import trio
from websockets.frames import Frame
from websockets.http11 import Request, Response
from websockets.protocol import Protocol
from websockets.trio.client import connect_http_proxy
from websockets.trio.connection import Connection

from ..errors import TransportError
from .base import WRITE_HIGH_WATER, Sink
from .loop import EventLoop, Waiter
from .websocket_address import Address
from .websocket_engine import Engine, WebSocketSettings, peer_name
from .websocket_outgoing import LARGE_MESSAGE

__all__ = ("TrioEngine", "TrioServer", "dial", "discard", "listen", "take_over")

_READ_BYTES = 64 * 1024
_LOW_WATER = WRITE_HIGH_WATER // 4

#: ``accept`` fails like this when there are too many open files; that passes.
_TRANSIENT = frozenset((EMFILE, ENFILE, ENOMEM, ENOBUFS))
_TRANSIENT_PAUSE = 0.1

_BACKLOG = 128


class TrioEngine(Engine):
    """A WebSocket on a trio stream.

    Args:
        protocol: the library's state machine.
        settings: see there.
        stream: what carries the bytes.
        taken: the library's connection over it, when there is one already.
    """

    def __init__(
        self, protocol: Protocol, settings: WebSocketSettings, stream: trio.abc.Stream, taken: Connection | None = None
    ) -> None:
        super().__init__(protocol, settings)
        self._stream = stream
        self._connection = taken
        self._queue: list[bytes] = []
        self._queued = 0
        self._behind = False
        self._idle: Waiter | None = None
        self._writing = False
        self._taken_over = False

    # ------------------------------------------------------------------------------------ Engine

    async def exchange(self) -> Request | Response:
        assert self._handshake is not None
        await self.send_head()
        while True:
            try:
                data = await self._stream.receive_some(_READ_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
                raise TransportError("the connection ended during the opening handshake") from exc
            if not data:
                raise TransportError("the connection ended during the opening handshake")
            event = self._handshake.receive(bytes(data))
            if event is not None:
                return event

    async def send_head(self) -> None:
        parts = self._outgoing.control()
        try:
            await self._stream.send_all(b"".join(parts))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            raise TransportError("the connection ended during the opening handshake") from exc

    async def release(self) -> None:
        self._outgoing.close(1001)
        try:
            with trio.move_on_after(self._settings.close_timeout):
                await self.send_head()
                await self._stream.aclose()
        except TransportError:
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        if self._lost:
            return
        stream = _carrier(self._stream)
        if isinstance(stream, trio.SocketStream):
            stream.socket.close()
        elif self._loop is not None:
            self._loop.tasks.start_soon(trio.aclose_forcefully, stream)
        self._carrier_lost()

    def attach(self, sink: Sink, loop: EventLoop, frames: Sequence[Frame] | None = None) -> None:
        super().attach(sink, loop, frames)
        if self._lost:
            return
        connection = self._connection
        self._taken_over = connection is not None
        if connection is None:
            # What the library wants of a nursery is ``start_soon``.
            nursery = cast(trio.Nursery, loop.tasks)
            connection = Connection(nursery, self._stream, self.protocol, ping_interval=None, max_queue=None)
            self._connection = connection
        # The library's reader hands over what it reads through these two.
        tap: Any = self.protocol
        tap.receive_data = self._received
        tap.receive_eof = self._ended
        self._pause_carrier()
        self._writing = True
        loop.tasks.start_soon(self._write_queue, loop)

    def _received(self, data: bytes | bytearray) -> None:
        self._heard = True
        data = bytes(data)
        if self._paused or self._held:
            self._held.append(data)
        else:
            self._feed(data)

    def _ended(self) -> None:
        connection = self._connection
        self._carrier_lost(None if connection is None else connection.connection_exc)

    @property
    def peer(self) -> str:
        stream = _carrier(self._stream)
        try:
            return peer_name(stream.socket.getpeername()) if isinstance(stream, trio.SocketStream) else ""
        except OSError:
            return ""

    @property
    def behind(self) -> bool:
        return self._behind

    def write(self, message: bytes) -> None:
        if not self._output_ended:
            self._send(list(self._outgoing.encode_parts(message)))

    def _flush(self) -> None:
        pass

    def _send(self, parts: list[bytes]) -> None:
        self._queue += parts
        self._queued += sum(map(len, parts))
        if self._queued > WRITE_HIGH_WATER:
            self._behind = True
        if self._idle is not None:
            idle, self._idle = self._idle, None
            if not idle.done():
                idle.set_result(None)

    def _pause_carrier(self) -> None:
        connection = self._connection
        if connection is not None and connection.recv_flow_control is None:
            connection.pause_reading()

    def _resume_carrier(self) -> None:
        connection = self._connection
        if connection is not None and connection.recv_flow_control is not None:
            connection.resume_reading()

    def _can_say_goodbye(self) -> bool:
        return self._writing

    # ------------------------------------------------------------------------------------ writer

    async def _write_queue(self, loop: EventLoop) -> None:
        connection = self._connection
        assert connection is not None
        try:
            while not self._lost:
                if not self._queue:
                    self._idle = loop.waiter()
                    await self._idle
                    continue
                queue, self._queue = self._queue, []
                for data in _joined(queue):
                    # A connection that we made has nothing of its own to send; but its reader takes this lock after
                    # each read, so holding it while a peer takes nothing would stop our reading, too, and two peers
                    # that both send much would wait for each other. One that was taken over may still send a ping.
                    if self._taken_over:
                        async with connection.send_lock:
                            await self._write_out(data)
                    else:
                        await self._write_out(data)
                    self._written(len(data))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            self._output_broke(exc)
        finally:
            self._writing = False

    async def _write_out(self, data: bytes) -> None:
        if data:
            await self._stream.send_all(data)
        elif isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()
        else:
            await self._stream.aclose()

    def _written(self, size: int) -> None:
        self._queued -= size
        if self._behind and self._queued <= _LOW_WATER:
            self._behind = False
            self._caught_up()

    def _carrier_lost(self, cause: BaseException | None = None) -> None:
        super()._carrier_lost(cause)
        self._send([])  # wakes the writer, which then ends


def _carrier(stream: trio.abc.Stream) -> trio.abc.Stream:
    """What lies below TLS."""
    while isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    return stream


def _joined(parts: list[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces: short ones joined, long ones as they are. An empty one, the end of the
    output, stays by itself."""
    pending: list[bytes] = []
    size = 0
    for part in parts:
        if pending and (not part or size + len(part) > LARGE_MESSAGE):
            yield b"".join(pending)
            pending, size = [], 0
        if not part or len(part) >= LARGE_MESSAGE:
            yield part
        else:
            pending.append(part)
            size += len(part)
    if pending:
        yield b"".join(pending)


async def dial(address: Address, protocol: Protocol, settings: WebSocketSettings) -> TrioEngine:
    """Connects to where the address says, through its proxy and with TLS if it has them.

    Raises:
        OSError: nobody answers there, or TLS failed.
        ProxyError: the proxy refuses.
    """
    stream: trio.abc.Stream
    try:
        if address.unix_path is not None:
            stream = await trio.open_unix_socket(address.unix_path)
        elif address.proxy is None:
            stream = await trio.open_tcp_stream(address.host, address.port)
        else:
            stream = await connect_http_proxy(address.proxy, address.uri, ssl=address.proxy_tls)
        if address.tls is not None:
            stream = await _secured(stream, address.tls, address.host)
    except trio.BrokenResourceError as exc:
        raise ConnectionError(str(exc.__cause__ or "the connection broke")) from exc
    return TrioEngine(protocol, settings, stream)


async def _secured(stream: trio.abc.Stream, tls: SSLContext, host: str) -> trio.abc.Stream:
    secure: trio.SSLStream[trio.abc.Stream] = trio.SSLStream(stream, tls, server_hostname=host, https_compatible=True)
    try:
        await secure.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return secure


class TrioServer:
    """What ``listen`` returns."""

    def __init__(self, listeners: Sequence[trio.SocketListener], serve: Callable[[trio.SocketStream], None]) -> None:
        self._listeners = listeners
        self._serve = serve
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Accepts until closed."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                for listener in self._listeners:
                    nursery.start_soon(self._accept, listener)

    async def _accept(self, listener: trio.SocketListener) -> None:
        while True:
            try:
                self._serve(await listener.accept())
            except trio.ClosedResourceError:
                return
            except OSError as exc:
                if exc.errno not in _TRANSIENT:
                    raise
                await trio.sleep(_TRANSIENT_PAUSE)

    async def aclose(self) -> None:
        """Stops accepting."""
        self._scope.cancel()
        for listener in self._listeners:
            listener.socket.close()


async def listen(
    sockets: Sequence[socket.socket],
    tls: SSLContext | None,
    make: Callable[[], tuple[Protocol, WebSocketSettings]],
    accepted: Callable[[Engine], object],
    loop: EventLoop,
    handshake_timeout: float,
) -> TrioServer:
    """Accepts on bound sockets.

    Args:
        sockets: bound stream sockets, not blocking.
        tls: the server's TLS, or ``None``.
        make: what the engine of a peer is made of.
        accepted: called with the engine of each peer, before its opening handshake.
        loop: whose tasks accept.
        handshake_timeout: not used here; the TLS handshake is a part of the opening handshake.
    """

    def serve(connected: trio.SocketStream) -> None:
        stream: trio.abc.Stream = connected
        if tls is not None:
            stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        protocol, settings = make()
        accepted(TrioEngine(protocol, settings, stream))

    listeners = []
    for sock in sockets:
        sock.listen(_BACKLOG)
        listeners.append(trio.SocketListener(trio.socket.from_stdlib_socket(sock)))
    server = TrioServer(listeners, serve)
    loop.tasks.start_soon(server.run, name="mcpl websocket listener")
    return server


async def discard(ws: Connection, settings: WebSocketSettings) -> None:
    """Closes a connection of the library that was not taken over."""
    try:
        with trio.move_on_after(settings.close_timeout):
            await ws.aclose(1001)
    finally:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(ws.stream)


def take_over(ws: Connection, settings: WebSocketSettings, sink: Sink, loop: EventLoop) -> TrioEngine:
    """Goes on with an open connection of the library, whose own reader keeps reading for us."""
    engine = TrioEngine(ws.protocol, settings, ws.stream, ws)
    frames: list[Frame] = []
    while True:
        try:
            frames.append(ws.recv_messages.recv_frames.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
            break
    # Its keep-alive has no switch. Without a timeout it pings, and gives nobody up.
    ws.ping_timeout = None
    if ws.stream_closed.is_set():
        engine._carrier_lost(ws.connection_exc)
    engine.attach(sink, loop, frames)
    return engine
