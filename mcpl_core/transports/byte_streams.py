"""The halves on any asynchronous byte stream: one task that receives, one task that sends.

Owns: the engine for everything that is not asyncio's own transports, that is AnyIO streams on both backends, asyncio's
``StreamReader`` and ``StreamWriter``, all of trio, and files behind threads; what is written while a send is under
way is joined into the next one. Does not own: framing (``lines``), and how one kind of stream receives and sends:
that is a ``ByteSource`` or a ``ByteSink``, here for AnyIO and asyncio, in ``trio_streams`` and ``files`` for the rest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Protocol

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, ByteStream

from ..wire.framing import encode_line
from .base import WRITE_HIGH_WATER
from .lines import JOIN_BYTES, READ_SIZE, Input, InputEvents, Output, OutputEvents
from .loop import EventLoop, Gate, Waiter

__all__ = (
    "AnyioSink",
    "AnyioSource",
    "ByteSink",
    "ByteSource",
    "StreamReaderSource",
    "StreamWriterSink",
    "TaskInput",
    "TaskOutput",
)


class ByteSource(Protocol):
    """Where bytes come from."""

    async def receive(self) -> bytes:
        """Some bytes; empty at the end, and also when somebody closed the stream. Whatever else it raises is a
        failure. Cancelling it loses nothing, as far as the stream allows."""

    async def aclose(self) -> None:
        """Lets go; called once. What belongs to the caller is left open."""


class ByteSink(Protocol):
    """Where bytes go to."""

    def send_nowait(self, data: bytes, /) -> int:
        """Sends as much of ``data`` as goes without waiting; how many bytes. A sink that cannot know sends nothing.
        Never called while ``send`` is under way."""

    async def send(self, data: bytes, /) -> None:
        """All of ``data``.

        Raises:
            anyio.ClosedResourceError: somebody closed the stream. Whatever else it raises is a failure.
        """

    async def send_eof(self) -> None:
        """Ends this direction, in a way that the peer sees."""

    async def aclose(self) -> None:
        """Closes; may wait for what was sent. Called once, unless ``abort`` is."""

    async def abort(self) -> None:
        """Closes without waiting for anything. Called once, unless ``aclose`` is."""


class TaskInput(Input):
    """One task that receives.

    Args:
        events: whom to tell.
        loop: the event loop whose task group owns the task.
        source: where bytes come from.
    """

    def __init__(self, events: InputEvents, loop: EventLoop, source: ByteSource) -> None:
        self._events = events
        self._loop = loop
        self._source = source
        self._scope = anyio.CancelScope()
        self._begun = False
        self._done = anyio.Event()
        self._paused = False
        self._go: Waiter | None = None

    async def begin(self) -> None:
        self._loop.tasks.start_soon(self._run, name="mcpl receive")
        self._begun = True

    async def _run(self) -> None:
        try:
            with self._scope:
                try:
                    await self._receive()
                except Exception as cause:  # a foreign stream may raise anything; it ends this direction only
                    self._events.input_lost(cause)
                else:
                    self._events.input_lost(None)
        finally:
            self._done.set()

    async def _receive(self) -> None:
        receive, push = self._source.receive, self._events.data_received
        while data := await receive():
            # Not before receiving: what arrives while paused waits here, one read of it.
            while self._paused:
                self.held = len(data)
                self._go = self._loop.waiter()
                await self._go
            self.held = 0
            push(data)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._go is not None and not self._go.done():
            self._go.set_result(None)

    def stop(self) -> None:
        self._scope.cancel()

    async def released(self) -> None:
        if self._begun:
            await self._done.wait()
        await self._source.aclose()


class TaskOutput(Output):
    """One task that sends.

    Args:
        events: whom to tell.
        loop: the event loop whose task group owns the task.
        sink: where bytes go to.
    """

    def __init__(self, events: OutputEvents, loop: EventLoop, sink: ByteSink) -> None:
        self._events = events
        self._loop = loop
        self._sink = sink
        self._scope = anyio.CancelScope()
        self._begun = False
        self._done = anyio.Event()
        self._queue: deque[bytes] = deque()
        #: Bytes in the queue and in the send that is under way.
        self._size = 0
        self._wake: Waiter | None = None
        #: The task waits for something to do.
        self._idle = False
        #: Nothing more is taken.
        self._ended = False
        self._eof = False
        self._sink_closed = False
        self._room = Gate(loop)

    async def begin(self) -> None:
        self._loop.tasks.start_soon(self._run, name="mcpl send")
        self._begun = True

    def write(self, message: bytes) -> None:
        if self._ended:
            return
        if len(message) > JOIN_BYTES and 10 not in message and 13 not in message:
            # Never copied: its line ending is joined with what follows.
            self._queue.append(message)
            self._queue.append(b"\n")
            self._size += len(message) + 1
        else:
            line = encode_line(message)
            if self._idle:
                # The first of a turn; the task joins what follows, and ends the turn.
                self._idle = False
                line = line[self._sink.send_nowait(line) :]
            if line:
                self._queue.append(line)
                self._size += len(line)
        if self._size > WRITE_HIGH_WATER:
            self._events.behind = True
        self._awake()

    def _awake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _run(self) -> None:
        try:
            with self._scope:
                try:
                    await self._send()
                except anyio.ClosedResourceError:
                    self._fail(None)
                except Exception as cause:  # as in TaskInput
                    self._fail(cause)
        finally:
            self._end()
            self._done.set()

    async def _send(self) -> None:
        while True:
            while self._queue:
                data = self._take()
                await self._sink.send(data)
                self._size -= len(data)
                if self._events.behind and self._size <= WRITE_HIGH_WATER:
                    self._events.behind = False
                    self._room.open()
            if self._ended:
                break
            self._wake = self._loop.waiter()
            self._idle = True
            await self._wake
        if self._eof:
            await self._sink.send_eof()

    def _take(self) -> bytes:
        queue = self._queue
        first = queue.popleft()
        room = JOIN_BYTES - len(first)
        if not queue or room < len(queue[0]):
            return first
        parts = [first]
        while queue and len(queue[0]) <= room:
            room -= len(queue[0])
            parts.append(queue.popleft())
        return b"".join(parts)

    def _fail(self, cause: BaseException | None) -> None:
        self._end()
        self._events.output_lost(cause)

    def _end(self) -> None:
        self._ended = True
        self._idle = False
        self._events.behind = False
        self._room.open()

    async def drain(self) -> None:
        while self._events.behind:
            await self._room.wait()

    async def send_eof(self) -> None:
        if not self._ended:
            self._eof = True
            self._end()
            self._awake()

    async def finish(self) -> None:
        self._end()
        self._awake()
        if self._begun:
            await self._done.wait()
        if not self._sink_closed:
            with suppress(Exception):  # nothing is left to be told
                await self._sink.aclose()
            self._sink_closed = True

    def abort(self) -> None:
        self._end()
        self._scope.cancel()

    async def released(self) -> None:
        if self._begun:
            await self._done.wait()
        if not self._sink_closed:
            self._sink_closed = True
            with suppress(Exception):
                await self._sink.abort()


class AnyioSource:
    """An AnyIO stream that receives. It stays the caller's."""

    def __init__(self, stream: ByteReceiveStream) -> None:
        self._stream = stream

    async def receive(self) -> bytes:
        try:
            return await self._stream.receive(READ_SIZE)
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return b""

    async def aclose(self) -> None:
        pass


class AnyioSink:
    """An AnyIO stream that sends."""

    def __init__(self, stream: ByteSendStream) -> None:
        self._stream = stream
        self._closed = False

    def send_nowait(self, data: bytes) -> int:
        return 0

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def send_eof(self) -> None:
        if isinstance(self._stream, ByteStream):
            with suppress(NotImplementedError):  # TLS
                await self._stream.send_eof()
                return
        await self.aclose()

    async def aclose(self) -> None:
        if not self._closed:
            await self._stream.aclose()
            self._closed = True

    async def abort(self) -> None:
        if not self._closed:
            self._closed = True
            await anyio.aclose_forcefully(self._stream)


class StreamReaderSource:
    """asyncio's reader. It stays the caller's."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def receive(self) -> bytes:
        return await self._reader.read(READ_SIZE)

    async def aclose(self) -> None:
        pass


class StreamWriterSink:
    """asyncio's writer."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def send_nowait(self, data: bytes) -> int:
        return 0

    async def send(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise anyio.ClosedResourceError
        self._writer.write(data)
        await self._writer.drain()

    async def send_eof(self) -> None:
        if self._writer.can_write_eof():
            self._writer.write_eof()
        else:
            self._writer.close()

    async def aclose(self) -> None:
        self._writer.close()
        # Cancelled without a shield it would cancel the one future that everybody waits for who closes this writer.
        await asyncio.shield(self._writer.wait_closed())

    async def abort(self) -> None:
        self._writer.transport.abort()
