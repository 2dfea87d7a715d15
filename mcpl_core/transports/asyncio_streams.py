"""The halves on asyncio and uvloop: protocols on the event loop's own pipe and socket transports.

Owns: the fastest way in and out on asyncio. What comes in goes from the read callback to the sink without a task
switch. The first message of a loop turn is written at once; those that follow in the same turn, and answers that are
written while the sink is being fed, are joined: 8 messages, then 16, and so on. A long message goes alone, so what is
joined stays below 128 KiB. Does not own: framing and the order of closing (``lines``), and where a socket comes from
(``sockets``).
"""

from __future__ import annotations

import asyncio
import io
import math
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio

from ..wire.framing import encode_line
from .base import BURST, JOIN_FIRST, JOIN_MOST, WRITE_HIGH_WATER
from .lines import JOIN_BYTES, LINGER, READ_SIZE, Input, InputEvents, Output, OutputEvents
from .loop import AsyncioLoop, Gate

__all__ = ("AsyncioInput", "AsyncioOutput", "Carrier", "Dial", "connect")

#: Bytes of a message of which eight, and of one of which 64 are joined: a write stays below twice ``JOIN_BYTES``.
_JOIN_LIMIT, _SHORT = JOIN_BYTES // JOIN_FIRST, JOIN_BYTES // JOIN_MOST


#: What a half stands on when nobody else connects it: one end of a FIFO, or a connected stream socket.
Carrier = io.FileIO | socket.socket


class AsyncioInput(Input):
    """What comes in over a FIFO or a socket.

    Args:
        events: whom to tell.
        loop: the event loop.
        carrier: what it stands on, and owns; ``None`` when ``connect`` puts it on a transport together with an output.
    """

    def __init__(self, events: InputEvents, loop: AsyncioLoop, carrier: Carrier | None = None) -> None:
        self.events = events
        self._loop = loop
        self._carrier = carrier
        self._transport: asyncio.ReadTransport | None = None
        self._lost = anyio.Event()

    async def begin(self) -> None:
        if self._carrier is not None:
            await _attach(self._carrier, self, None, self._loop)

    def connected(self, transport: Any) -> None:
        """For the protocol."""
        self._transport = transport
        if hasattr(transport, "max_size"):  # asyncio's own, not uvloop's
            transport.max_size = READ_SIZE

    def disconnected(self) -> None:
        """There is no transport after all."""
        self._transport = None

    def lost(self, cause: BaseException | None) -> None:
        """For the protocol."""
        self._lost.set()
        self.events.input_lost(cause)

    def pause(self) -> None:
        if self._transport is not None and not self._lost.is_set():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._lost.is_set():
            self._transport.resume_reading()

    def stop(self) -> None:
        if self._carrier is None:
            # The output closes both. TLS says goodbye both ways; the peer's would never be read while paused.
            self.resume()
        elif self._transport is not None:
            self._transport.close()

    async def released(self) -> None:
        if self._transport is not None:
            await self._lost.wait()
        elif self._carrier is not None:
            self._carrier.close()


class AsyncioOutput(Output):
    """What goes out over a FIFO or a socket.

    Args:
        events: whom to tell.
        loop: the event loop.
        carrier: what it stands on, and owns; ``None`` when ``connect`` puts it on a transport.
        input: the other direction of the same socket.
        half_close: whether one direction can be ended alone (a socket without TLS).
    """

    def __init__(
        self,
        events: OutputEvents,
        loop: AsyncioLoop,
        carrier: Carrier | None = None,
        *,
        input: AsyncioInput | None = None,
        half_close: bool = False,
    ) -> None:
        self._events = events
        self._loop = loop
        self._carrier = carrier
        self._input = input
        self._half_close = half_close
        self._call_soon = loop.loop.call_soon
        self._time = time.monotonic  # uvloop's own clock counts milliseconds
        #: When the last message went out that was not joined.
        self._written = -math.inf
        self._transport: Any = None
        self._put: Callable[[bytes], None] = self._drop
        #: Messages are joined: this turn has had its write, or the sink is being fed.
        self._joining = False
        self._held = False
        self._lines: list[bytes] = []
        #: How many are joined into the next write.
        self._join = JOIN_FIRST
        #: Nothing more is taken: after ``send_eof``, ``finish`` or ``abort``, or since the transport was lost.
        self._ended = False
        self._room = Gate(loop)
        #: The other direction of the socket has ended.
        self._peer_ended = anyio.Event()
        self._lost = anyio.Event()

    async def begin(self) -> None:
        if self._carrier is not None:
            await _attach(self._carrier, self._input, self, self._loop)

    def connected(self, transport: Any) -> None:
        """For the protocol."""
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self._put = transport.write

    def write(self, message: bytes) -> None:
        if len(message) > _JOIN_LIMIT:
            self._write_long(message)
        elif self._joining:
            lines = self._lines
            lines.append(message)
            if len(lines) >= (self._join if len(message) <= _SHORT else JOIN_FIRST):
                self._flush()
                # Whoever sends on and on in one turn keeps the peer busy in any case: ever fewer writes for them.
                self._join = min(self._join * 2, JOIN_MOST)
        elif not self._ended:
            # That a turn is over must be heard from the loop, which costs another turn. So the first message does not
            # ask; one that follows at once does, and is joined with those behind it.
            now = self._time()
            if now - self._written < BURST:
                self._joining = True
                self._call_soon(self._turn_over)
                self._lines.append(message)
            else:
                self._written = now
                self._put(encode_line(message))

    def _write_long(self, message: bytes) -> None:
        self._flush()
        if len(message) > JOIN_BYTES and 10 not in message and 13 not in message:
            # Two writes cost less than a copy.
            self._put(message)
            self._put(b"\n")
        else:
            self._put(encode_line(message))

    def _turn_over(self) -> None:
        self._joining = False
        self._join = JOIN_FIRST
        self._flush()

    def hold(self) -> None:
        self._held = self._joining
        self._joining = True

    def let_go(self) -> None:
        self._joining = self._held
        self._join = JOIN_FIRST
        if self._lines:
            self._flush()

    def _flush(self) -> None:
        lines = self._lines
        if lines:
            data = b"".join(lines)
            if 10 in data or 13 in data:
                # Somebody's message was pretty-printed. Looking here costs less than looking at each.
                data = b"".join(map(encode_line, lines))
            else:
                lines.append(b"")
                data = b"\n".join(lines)
            lines.clear()
            self._put(data)

    def _drop(self, data: bytes) -> None:
        """Where data goes when there is no transport."""

    def pause(self) -> None:
        """For the protocol: the transport's buffer is full."""
        self._events.behind = not self._ended

    def resume(self) -> None:
        """For the protocol: it has room again."""
        self._events.behind = False
        self._room.open()

    def disconnected(self) -> None:
        """There is no transport after all."""
        self._end()
        self._transport = None

    def lost(self, cause: BaseException | None) -> None:
        """For the protocol."""
        on_purpose = self._ended
        self._end()
        self._peer_ended.set()
        self._lost.set()
        if cause is not None or not on_purpose:
            self._events.output_lost(cause)

    def _end(self) -> None:
        self._ended = True
        self._put = self._drop
        self._lines.clear()
        self.resume()

    async def drain(self) -> None:
        while self._events.behind:
            await self._room.wait()

    async def send_eof(self) -> None:
        if not self._ended:
            self._flush()
            self._end()
            if self._half_close:
                # The peer may have gone already; the transport tells of it itself.
                with suppress(OSError):
                    self._transport.write_eof()
            else:
                self._transport.close()

    def peer_ended(self) -> None:
        """For the protocol."""
        self._peer_ended.set()

    async def finish(self) -> None:
        if self._half_close and self._transport is not None and not self._transport.is_closing():
            await self._linger()
        self._flush()
        self._end()
        if self._transport is not None:
            self._transport.close()
            await self._lost.wait()

    async def _linger(self) -> None:
        """Sends everything, then the end, and gives the peer a moment to do the same."""
        # The transport tells when nothing is left to be sent, as it tells when there is room.
        self._transport.set_write_buffer_limits(high=0)
        await self.send_eof()
        while not self._transport.is_closing() and self._transport.get_write_buffer_size():
            await self._room.wait()
        with anyio.move_on_after(LINGER):
            await self._peer_ended.wait()

    def abort(self) -> None:
        self._end()
        if self._transport is not None and not self._lost.is_set():
            self._transport.abort()

    async def released(self) -> None:
        if self._transport is not None:
            await self._lost.wait()
        elif self._carrier is not None:
            self._carrier.close()


class _Protocol(asyncio.Protocol):
    """Passes the callbacks of one asyncio transport on to the halves that stand on it."""

    def __init__(self, input: AsyncioInput | None, output: AsyncioOutput | None, *, keep_open: bool = False) -> None:
        self._input = input
        self._output = output
        self._keep_open = keep_open
        if input is not None:
            # One call less for each read.
            self.data_received = input.events.data_received  # type: ignore[method-assign, assignment]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._input is not None:
            self._input.connected(transport)
        if self._output is not None:
            self._output.connected(transport)

    def data_received(self, data: bytes) -> None:
        """Without an input: nobody listens."""

    def eof_received(self) -> bool:
        if self._input is not None:
            self._input.events.input_lost(None)
        if self._output is not None:
            self._output.peer_ended()
        return self._keep_open

    def pause_writing(self) -> None:
        if self._output is not None:
            self._output.pause()

    def resume_writing(self) -> None:
        if self._output is not None:
            self._output.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._input is not None:
            self._input.lost(exc)
        if self._output is not None:
            self._output.lost(exc)


#: Connects a transport, given what makes its protocol.
Dial = Callable[[Callable[[], asyncio.Protocol]], Awaitable[object]]


async def connect(input: AsyncioInput, output: AsyncioOutput, dial: Dial, *, half_close: bool) -> None:
    """Puts both halves on the socket that ``dial`` connects.

    Raises:
        OSError: whatever ``dial`` raises.
    """
    try:
        await dial(lambda: _Protocol(input, output, keep_open=half_close))
    except BaseException:
        # Whoever dialled closes what it has, and does not always tell (uvloop).
        input.disconnected()
        output.disconnected()
        raise


async def _attach(
    carrier: Carrier, input: AsyncioInput | None, output: AsyncioOutput | None, loop: AsyncioLoop
) -> None:
    def protocol() -> asyncio.Protocol:
        return _Protocol(input, output, keep_open=True)

    with anyio.CancelScope(shield=True):  # one turn of the loop
        if isinstance(carrier, io.FileIO):
            if input is not None:
                await loop.loop.connect_read_pipe(protocol, carrier)
            else:
                await loop.loop.connect_write_pipe(protocol, carrier)
        elif carrier.family == getattr(socket, "AF_UNIX", None):
            await loop.loop.create_unix_connection(protocol, sock=carrier)
        else:
            await loop.loop.create_connection(protocol, sock=carrier)
