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
from .loop import EventLoop, Gate

__all__ = ("MemoryTransport", "ScriptedTransport", "memory_transports")


class MemoryTransport(Transport):
    """One end of ``memory_transports``. Messages are handed over in a later turn, as over any wire."""

    name = "memory"

    def __init__(self, *, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        super().__init__(max_message_bytes=max_message_bytes)
        self._other: MemoryTransport | None = None
        self._sink: Sink | None = None
        self._loop: EventLoop | None = None
        self._gate: Gate | None = None
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        #: The other end will write no more.
        self._input_ended = False
        self._input_told = False
        #: The other end reads no more. Found out by writing, as on a socket.
        self._output_broken = False
        self._output_ended = False
        self._closed = False
        self._paused = False
        self._scheduled = False

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        if self._loop is not None or self._closed:
            raise LocalProtocolError("a transport is started once")
        self._sink, self._loop, self._gate = sink, loop, Gate(loop)
        self._schedule()

    def write(self, message: bytes) -> None:
        if self._output_ended or self._other is None:
            return
        if self._output_broken:
            self._fail_output()
        else:
            self._other._take(message)

    @property
    def behind(self) -> bool:
        other = self._other
        return other is not None and other._inbox_bytes > WRITE_HIGH_WATER and not self._output_ended

    async def drain(self) -> None:
        while self.behind and self._gate is not None:
            await self._gate.wait()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._schedule()

    async def send_eof(self) -> None:
        self._end_output()

    async def aclose(self) -> None:
        self._closed = True
        self._sink = None
        self._end_output()
        self._drop_inbox()
        if self._other is not None:
            # What the other end writes from now on is lost.
            self._other._output_broken = True

    def _end_output(self) -> None:
        if not self._output_ended:
            self._output_ended = True
            self._open_gate()
        if self._other is not None and not self._other._input_ended:
            self._other._input_ended = True
            self._other._schedule()

    def _fail_output(self) -> None:
        self._output_ended = True
        self._open_gate()
        if self._loop is not None:
            self._loop.call_soon(self._tell_failure)

    def _tell_failure(self) -> None:
        if self._sink is not None:
            self._sink.output_failed(None)

    def _open_gate(self) -> None:
        if self._gate is not None:
            self._gate.open()

    def _take(self, message: bytes) -> None:
        self._inbox.append(message)
        self._inbox_bytes += len(message)
        self._schedule()

    def _drop_inbox(self) -> list[bytes]:
        messages, self._inbox, self._inbox_bytes = list(self._inbox), deque(), 0
        if self._other is not None:
            self._other._open_gate()
        return messages

    def _schedule(self) -> None:
        if self._loop is None or self._sink is None or self._scheduled or self._paused:
            return
        if self._inbox or (self._input_ended and not self._input_told):
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        sink = self._sink
        if sink is None or self._paused:
            return
        messages = self._drop_inbox()
        if messages:
            self._push(sink, messages)
            self._schedule()
        else:
            self._input_told = True
            sink.input_ended(None)

    def _push(self, sink: Sink, messages: list[bytes]) -> None:
        fitting = []
        for message in messages:
            if len(message) <= self.max_message_bytes:
                fitting.append(message)
            else:
                detail = f"a message of more than {self.max_message_bytes} bytes"
                sink.message_malformed(MalformedMessageError("too-long", detail, message[:200]))
        if fitting:
            sink.messages_received(fitting)


def memory_transports(*, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> tuple[MemoryTransport, MemoryTransport]:
    """Two transports that are each other's peer, for one event loop."""
    left = MemoryTransport(max_message_bytes=max_message_bytes)
    right = MemoryTransport(max_message_bytes=max_message_bytes)
    left._other, right._other = right, left
    return left, right


class ScriptedTransport(Transport):
    """A transport whose peer is the test.

    Calls that push (``feed``, ``malformed``, ``end``, ``fail_output``) act at once; before ``start`` they are kept
    and act in the first turn after it. While reading is paused everything but ``fail_output`` is kept, too.

    Attributes:
        sent: what was written, in order.
        stalled: set it to make the transport ``behind``; ``release`` undoes that and wakes who waits.
        paused: whether reading is paused.
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
        self._gate: Gate | None = None
        self._sent_gate: Gate | None = None
        self._script: deque[tuple[str, Any]] = deque()
        self._playing = False
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
        self.release()
        if self._sink is not None:
            self._sink.output_failed(error)
        else:
            self._act("output_failed", error)

    def release(self) -> None:
        """The carrier has caught up."""
        self.stalled = False
        if self._gate is not None:
            self._gate.open()

    async def next_sent(self) -> Any:
        """The next message that was written and not yet returned here, as plain JSON; waits for it."""
        while len(self.sent) <= self._taken:
            if self._sent_gate is None:
                raise LocalProtocolError("the transport was not started")
            await self._sent_gate.wait()
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
        if self._playing:
            return
        self._playing = True
        try:
            while self._script and self._sink is not None and not self.paused:
                what, argument = self._script.popleft()
                getattr(self._sink, what)(argument)
        finally:
            self._playing = False

    # -- the connection's side

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        self._loop = loop
        self._gate, self._sent_gate = Gate(loop), Gate(loop)

        def begin() -> None:
            if not self.closed:
                self._sink = sink
                self._play()

        loop.call_soon(begin)

    def write(self, message: bytes) -> None:
        self.sent.append(message)
        if self._sent_gate is not None:
            self._sent_gate.open()

    @property
    def behind(self) -> bool:
        return self.stalled

    async def drain(self) -> None:
        while self.stalled and self._gate is not None:
            await self._gate.wait()

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
