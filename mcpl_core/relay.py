"""Pass-through between two transports, in both directions, without decoding what passes.

Owns: the order of things between two carriers: back-pressure (a side that does not keep up holds back the other, so
memory stays bounded), how an end passes from one side to the other, and who sees the messages. Does not own: the
carriers and their framing (``transports``): a message that came over a WebSocket with line breaks in it leaves as one
line where the other side wants lines. What is passed on is equal byte for byte but for that.

By custom the left side is the host's and the right side the server's. Directions are told as the left side sees them,
``"sent"`` from left to right, so that one observer serves a relay and a tap.

How it ends. The input of one side ends: so does the output of the other, after what was passed on; a WebSocket, which
cannot end one direction alone, says goodbye instead. Both ended: the relay is over. The output of a side ends under
us: nothing that the other side says can arrive any more, and what is still on the way from it has ``grace`` seconds. A
side fails: both are closed, and the failure is raised.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup, TaskStatus

from .errors import LocalProtocolError, MalformedMessageError, McplError, TransportError
from .observers import Observers
from .transports.base import Listener, Transport
from .transports.loop import EventLoop, Gate, TimerHandle, current_loop
from .transports.tap import Direction, TapObserver
from .wire.values import utf8_flaw

__all__ = ("DEFAULT_GRACE", "Relay", "RelayListener", "RelayStats")

_logger = logging.getLogger("mcpl_core")

#: Seconds for what is still on its way, once one side takes nothing any more.
DEFAULT_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class RelayStats:
    """Counters of one relay, as of one moment.

    Attributes:
        sent, received: messages passed from left to right, and from right to left.
        sent_bytes, received_bytes: their bytes, without framing.
        dropped: frames that were no message: over-long, binary, not UTF-8.
    """

    sent: int
    received: int
    sent_bytes: int
    received_bytes: int
    dropped: int


class _Lane:
    """One direction: the sink of its source, and the task that waits for its target."""

    def __init__(self, relay: Relay, direction: Direction, source: Transport, target: Transport) -> None:
        self._relay = relay
        self._direction = direction
        self._source = source
        self._target = target
        self.messages = 0
        self.bytes = 0
        #: Nothing more will be passed on.
        self.done = False
        #: The target takes nothing any more.
        self._blocked = False
        self._ended = False
        self._behind = False
        #: What came in before both sides were open.
        self._early: list[bytes] | None = []
        self._wake: Gate | None = None

    # -- the sink of the source

    def messages_received(self, messages: list[bytes]) -> None:
        """See ``Sink``."""
        if self._early is not None:
            self._early += messages
            self._source.pause_reading()
            return
        if self._blocked:
            return
        for message in messages:
            if not message.isascii() and (flaw := utf8_flaw(message)):
                # A WebSocket peer would end the connection over it.
                self.message_malformed(MalformedMessageError("invalid-utf8", flaw, message))
                continue
            self.messages += 1
            self.bytes += len(message)
            self._relay._show(self._direction, message)
            self._target.write(message)
        if self._target.behind and not self._behind:
            self._behind = True
            self._source.pause_reading()
            self._look()

    def message_malformed(self, error: MalformedMessageError) -> None:
        """See ``Sink``."""
        self._relay._dropped(error)

    def input_ended(self, error: TransportError | None) -> None:
        """See ``Sink``."""
        self._ended = True
        self._look()
        if error is not None:
            self._relay._end(error)

    def output_failed(self, error: TransportError | None) -> None:
        """See ``Sink``: the output of our source, where the other lane leads to."""
        self._relay._output_failed(self, error)

    # -- the way to the target

    def block(self) -> None:
        """The target takes nothing any more."""
        self._blocked = True
        self._source.pause_reading()
        self._look()

    def start(self, loop: EventLoop) -> None:
        """Both sides are open: passes on what came in meanwhile, and goes on."""
        self._wake = Gate(loop)
        early, self._early = self._early, None
        if early:
            self.messages_received(early)
            if not self._behind:
                self._source.resume_reading()
        loop.tasks.start_soon(self._run, name=f"mcpl relay {self._direction}")

    def _look(self) -> None:
        if self._wake is not None:
            self._wake.open()

    async def _run(self) -> None:
        assert self._wake is not None
        while not self._blocked and (self._behind or not self._ended):
            if not self._behind:
                await self._wake.wait()
                continue
            await self._target.drain()
            self._behind = False
            if not self._blocked:
                self._source.resume_reading()
        if not self._blocked:
            await self._target.drain()
            await self._target.send_eof()
        self.done = True
        self._relay._lane_done()


class Relay:
    """Passes messages between two transports, and owns both. Used once.

    Args:
        left, right: the two sides, not started. The right one is opened first: nothing is taken from the left, which
            may be this process's own input, when nobody is there to take it.
        grace: seconds for what is still on its way, once one side takes nothing any more.
    """

    def __init__(self, left: Transport, right: Transport, *, grace: float = DEFAULT_GRACE) -> None:
        self.left = left
        self.right = right
        self.grace = grace
        self._to_right = _Lane(self, "sent", left, right)
        self._to_left = _Lane(self, "received", right, left)
        self._observers = Observers(f"{left.name} - {right.name}")
        self._messages: list[TapObserver] = []
        self._dropped_count = 0
        self._started = False
        self._over = False
        self._error: TransportError | None = None
        self._output_error: TransportError | None = None
        self._opening: anyio.CancelScope | None = None
        self._loop: EventLoop | None = None
        self._wake: Gate | None = None
        self._timer: TimerHandle | None = None

    @property
    def stats(self) -> RelayStats:
        """The counters as of now."""
        sent, received = self._to_right, self._to_left
        return RelayStats(sent.messages, received.messages, sent.bytes, received.bytes, self._dropped_count)

    def on_message(self, observer: TapObserver) -> Callable[[], None]:
        """Calls ``observer`` with ``"sent"`` (left to right) or ``"received"`` and each message, before it is passed
        on. What it raises is reported; the message is passed on all the same. Returns the call that ends it."""
        return Observers.add(self._messages, observer)

    def on_error(self, observer: Callable[[BaseException], object]) -> Callable[[], None]:
        """Calls ``observer`` with what is reported and does not end the relay: frames that were dropped, failures of
        observers. With no observer the ``mcpl_core`` logger gets them. Returns the call that ends it."""
        return Observers.add(self._observers.error, observer)

    async def run(self) -> None:
        """Opens both sides and passes messages on until the relay is over; then both are closed. Cancelling it
        releases both at once.

        Raises:
            TransportError: a side could not be opened, or failed.
            LocalProtocolError: it ran before.
        """
        if self._started:
            raise LocalProtocolError("a relay runs once")
        self._started = True
        async with _task_group() as tasks:
            try:
                with anyio.CancelScope() as self._opening:
                    await self._open(current_loop(tasks))
                while not self._over:
                    assert self._wake is not None
                    await self._wake.wait()
            finally:
                await self._close()
        error = self._error or self._output_error
        if error is not None:
            raise error

    def stop(self) -> None:
        """Ends the relay in an orderly way: what was passed on is flushed within the bounds of the transports, and
        ``run`` returns. Before ``run`` it makes that return at once. Any number of calls."""
        self._end(None)

    async def _open(self, loop: EventLoop) -> None:
        if self._over:
            return
        self._loop, self._wake = loop, Gate(loop)
        await self.right.start(self._to_left, loop)
        await self.left.start(self._to_right, loop)
        self._to_right.start(loop)
        self._to_left.start(loop)

    async def _close(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        # At the same time: when this is cancelled, each of them is told.
        async with anyio.create_task_group() as closing:
            closing.start_soon(self.left.aclose)
            closing.start_soon(self.right.aclose)

    # -- what the lanes tell

    def _show(self, direction: Direction, message: bytes) -> None:
        for observer in tuple(self._messages):
            try:
                observer(direction, message)
            except Exception as exc:
                self._observers.report(exc)

    def _dropped(self, error: MalformedMessageError) -> None:
        self._dropped_count += 1
        self._observers.report(error)

    def _output_failed(self, lane: _Lane, error: TransportError | None) -> None:
        self._output_error = self._output_error or error
        other = self._to_left if lane is self._to_right else self._to_right
        other.block()
        if self._loop is not None and self._timer is None:
            self._timer = self._loop.call_at(self._loop.time() + self.grace, self.stop)

    def _lane_done(self) -> None:
        if self._to_right.done and self._to_left.done:
            self._end(None)

    def _end(self, error: TransportError | None) -> None:
        if self._over:
            return
        self._over = True
        self._error = error
        if self._opening is not None:
            self._opening.cancel()
        if self._wake is not None:
            self._wake.open()


class RelayListener:
    """Relays every peer of a listener to a transport of its own: a stdio server becomes one that many reach.

    Args:
        listener: what accepts; owned by this one.
        connect: makes the right side for each peer, not started. What it raises is logged, and the peer let go.
        opened: called with each relay before it runs, to add observers.
        ended: called with each relay when it is over, and with the error that ended it, if one did. Left out: errors
            go to the ``mcpl_core`` logger.
        grace: as for ``Relay``.
    """

    def __init__(
        self,
        listener: Listener,
        connect: Callable[[], Transport],
        *,
        opened: Callable[[Relay], object] | None = None,
        ended: Callable[[Relay, McplError | None], object] | None = None,
        grace: float = DEFAULT_GRACE,
    ) -> None:
        self._listener = listener
        self._connect = connect
        self._opened = opened
        self._ended = ended
        self._grace = grace
        self._running: set[Relay] = set()
        self._stopped = anyio.Event()
        self._idle = anyio.Event()

    @property
    def endpoint(self) -> str:
        """Where it listens, with the real port."""
        return self._listener.endpoint

    async def run(self, *, task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED) -> None:
        """Accepts peers until ``stop``; then no more are accepted and each relay is ended in an orderly way.
        Cancelling it releases everything at once.

        Args:
            task_status: told the endpoint once it listens (``TaskGroup.start``).

        Raises:
            TransportError: the address cannot be bound.
        """
        async with _task_group() as tasks:
            try:
                loop = current_loop(tasks)

                def accepted(transport: Transport) -> None:
                    tasks.start_soon(self._relay, transport, name="mcpl relay")

                await self._listener.start(loop, accepted)
                task_status.started(self.endpoint)
                await self._stopped.wait()
            finally:
                await self._listener.aclose()
            for relay in tuple(self._running):
                relay.stop()
            while self._running:
                self._idle = anyio.Event()
                await self._idle.wait()

    def stop(self) -> None:
        """Makes ``run`` end in an orderly way. Any number of calls."""
        self._stopped.set()

    async def _relay(self, left: Transport) -> None:
        try:
            relay = Relay(left, self._connect(), grace=self._grace)
        except Exception:
            _logger.exception("%s: no relay for %s", self.endpoint, left.name)
            await left.aclose()
            return
        error: McplError | None = None
        self._running.add(relay)
        try:
            if self._opened is not None:
                self._opened(relay)
            if self._stopped.is_set():
                relay.stop()
            await relay.run()
        except McplError as exc:
            error = exc
        finally:
            self._running.discard(relay)
            self._idle.set()
        if self._ended is not None:
            self._ended(relay, error)
        elif error is not None:
            relay._observers.report(error)


@asynccontextmanager
async def _task_group() -> AsyncIterator[TaskGroup]:
    """A task group whose block's own exception comes out as it is, not inside a group."""
    tasks = anyio.create_task_group()
    await tasks.__aenter__()
    try:
        yield tasks
    finally:
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)
