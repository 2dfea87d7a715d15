"""Transports inside one process: a pair that talks to itself, and one that a test scripts.

Owns: ``memory_transports`` (two ends in one event loop, with back-pressure and half-close) and
``ScriptedTransport`` (a peer made of calls). Both are public: a project that builds on this package can test its
code without a process or a socket. Does not own: JSON; a message is ``bytes`` here as everywhere.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from ..errors import LocalProtocolError, MalformedMessageError, TransportError
from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from ..wire.values import decode_value, encode_value
from .base import WRITE_HIGH_WATER, Sink, Transport
from .loop import EventLoop, Waiter

__all__ = ("MemoryTransport", "ScriptedTransport", "memory_transports")


class _Gate:
    """Tasks that wait until a condition changes."""

    def __init__(self) -> None:
        self._waiters: list[Waiter] = []

    async def wait(self, loop: EventLoop) -> None:
        waiter = loop.waiter()
        self._waiters.append(waiter)
        await waiter

    def open(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class MemoryTransport(Transport):
    """One end of ``memory_transports``. Messages are handed over in a later turn, as over any wire."""

    name = "memory"

    def __init__(self, *, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        super().__init__(max_message_bytes=max_message_bytes)
        self._other: MemoryTransport | None = None
        self._sink: Sink | None = None
        self._loop: EventLoop | None = None
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        #: The other end will write no more.
        self._input_ended = False
        self._output_ended = False
        self._paused = False
        self._scheduled = False
        self._gate = _Gate()

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        self._sink, self._loop = sink, loop
        self._schedule()

    def write(self, message: bytes) -> None:
        if not self._output_ended and self._other is not None:
            self._other._take(message)

    @property
    def behind(self) -> bool:
        return self._other is not None and not self._output_ended and self._other._inbox_bytes > WRITE_HIGH_WATER

    async def drain(self) -> None:
        while self.behind:
            assert self._loop is not None
            await self._gate.wait(self._loop)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._schedule()

    async def send_eof(self) -> None:
        self._end_output()

    async def aclose(self) -> None:
        self._sink = None
        self._end_output()
        self._inbox.clear()
        self._inbox_bytes = 0
        if self._other is not None:
            # What the other end writes from now on is lost, as on a closed socket.
            self._other._output_ended = True
            self._other._gate.open()

    def _end_output(self) -> None:
        if not self._output_ended:
            self._output_ended = True
            self._gate.open()
        if self._other is not None and not self._other._input_ended:
            self._other._input_ended = True
            self._other._schedule()

    def _take(self, message: bytes) -> None:
        self._inbox.append(message)
        self._inbox_bytes += len(message)
        self._schedule()

    def _schedule(self) -> None:
        if self._loop is None or self._sink is None or self._scheduled or self._paused:
            return
        if self._inbox or self._input_ended:
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        sink = self._sink
        if sink is None or self._paused:
            return
        messages, self._inbox, self._inbox_bytes = list(self._inbox), deque(), 0
        if self._other is not None:
            self._other._gate.open()
        if messages:
            self._push(sink, messages)
        elif self._input_ended:
            self._sink = None
            sink.input_ended(None)
        self._schedule()

    def _push(self, sink: Sink, messages: list[bytes]) -> None:
        fitting = [message for message in messages if len(message) <= self.max_message_bytes]
        for message in messages:
            if len(message) > self.max_message_bytes:
                detail = f"a message of more than {self.max_message_bytes} bytes"
                sink.message_malformed(MalformedMessageError("too-long", detail, message))
        if fitting:
            sink.messages_received(fitting)


def memory_transports(
    *, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
) -> tuple[MemoryTransport, MemoryTransport]:
    """Two transports that are each other's peer, for one event loop."""
    left = MemoryTransport(max_message_bytes=max_message_bytes)
    right = MemoryTransport(max_message_bytes=max_message_bytes)
    left._other, right._other = right, left
    return left, right


class ScriptedTransport(Transport):
    """A transport whose peer is the test.

    Calls that push (``feed``, ``end``, ``fail_output``, ``malformed``) act at once; before ``start`` they are kept
    and act in the first turn after it.

    Attributes:
        sent: what was written, in order.
        stalled: set it to make the transport ``behind``; ``release`` undoes that and wakes who waits.
        paused: whether reading is paused. What is fed meanwhile is kept until it resumes.
        eof_sent, closed: how often each was asked for.
    """

    name = "script"

    def __init__(self, *, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        super().__init__(max_message_bytes=max_message_bytes)
        self.sent: list[bytes] = []
        self.stalled = False
        self.paused = False
        self.eof_sent = 0
        self.closed = 0
        self._sink: Sink | None = None
        self._loop: EventLoop | None = None
        self._script: deque[tuple[str, Any]] = deque()
        self._gate = _Gate()
        self._sent_gate = _Gate()
        self._taken = 0

    # -- the test's side

    def feed(self, *messages: bytes | str | dict[str, Any]) -> None:
        """Pushes messages as if one read had brought them: texts, or values to encode."""
        self._act("messages_received", [self._text(message) for message in messages])

    def malformed(self, error: MalformedMessageError) -> None:
        """Pushes a frame that is no message."""
        self._act("message_malformed", error)

    def end(self, error: TransportError | None = None) -> None:
        """Ends the input."""
        self._act("input_ended", error)

    def fail_output(self, error: TransportError | None = None) -> None:
        """Ends the output under the connection."""
        self.stalled = False
        self._gate.open()
        self._act("output_failed", error)

    def release(self) -> None:
        """The carrier has caught up."""
        self.stalled = False
        self._gate.open()

    async def next_sent(self) -> Any:
        """The next message that was written and not yet returned here, as plain JSON; waits for it."""
        while len(self.sent) <= self._taken:
            if self._loop is None:
                raise LocalProtocolError("the transport was not started")
            await self._sent_gate.wait(self._loop)
        self._taken += 1
        return decode_value(self.sent[self._taken - 1])

    @staticmethod
    def _text(message: bytes | str | dict[str, Any]) -> bytes:
        if isinstance(message, bytes):
            return message
        return message.encode() if isinstance(message, str) else encode_value(message)

    def _act(self, what: str, argument: Any) -> None:
        self._script.append((what, argument))
        self._play()

    def _play(self) -> None:
        while self._script and self._sink is not None and not self.paused:
            what, argument = self._script.popleft()
            getattr(self._sink, what)(argument)

    # -- the connection's side

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        self._loop = loop

        def begin() -> None:
            if not self.closed:
                self._sink = sink
                self._play()

        loop.call_soon(begin)

    def write(self, message: bytes) -> None:
        self.sent.append(message)
        self._sent_gate.open()

    @property
    def behind(self) -> bool:
        return self.stalled

    async def drain(self) -> None:
        while self.stalled:
            assert self._loop is not None
            await self._gate.wait(self._loop)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False
        if self._loop is not None:
            self._loop.call_soon(self._play)

    async def send_eof(self) -> None:
        self.eof_sent += 1

    async def aclose(self) -> None:
        self.closed += 1
        self._sink = None
        self.release()
