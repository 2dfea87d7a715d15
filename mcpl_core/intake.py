"""The way in: from the transport's push to whoever takes the message.

Owns: waking the task that waits for an answer, the queue of requests and notifications, who may take from it, and
when reading stops. Does not own: what a text means (``wire.peer``), when the connection closes, and handlers.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from anyio.lowlevel import checkpoint

from .dispatch import Dispatcher
from .errors import ConnectionClosedError, MalformedMessageError, TransportError
from .inbox import Inbox, InboxLimits
from .observers import Observers
from .outlet import TURN, Outlet
from .transports.base import Transport
from .transports.loop import EventLoop, Waiter, name_library, reject
from .wire.messages import Notification, Request, Success
from .wire.peer import CANCELLED, CLOSED, Answer, Event, Peer, Problem, Refusal, Stray, Trigger

__all__ = ("Intake",)

_logger = logging.getLogger("mcpl_core")


class Intake:
    """The sink of a connection's transport.

    Args:
        peer: what a text means.
        transport: who is asked to stop and to go on reading.
        outlet: takes the answers to malformed messages.
        limits: how much may wait unread.
        discard_unread: past the hard limit drop notifications instead of closing.
        observers: who is told of messages and problems.
        move: moves the connection to another state, with the error that is the reason.
    """

    def __init__(
        self,
        peer: Peer[Waiter],
        transport: Transport,
        outlet: Outlet,
        limits: InboxLimits,
        discard_unread: bool,
        observers: Observers,
        move: Callable[[Trigger, BaseException | None], None],
    ) -> None:
        self._peer = peer
        self._transport = transport
        self._outlet = outlet
        self._discard_unread = discard_unread
        self._observers = observers
        self._move = move
        self.inbox = Inbox(limits)
        self.dispatcher: Dispatcher | None = None
        #: Why the connection closed.
        self.reason: BaseException | None = None
        self._closed = False
        #: Whether reading was stopped, so that callers on a hot path can look before they call ``resume``.
        self.paused = False
        self.received = self.malformed = self.stray = self.discarded = 0
        # Tasks in `next`: those that wait, and those that were woken and did not run yet.
        self._receivers: deque[Waiter] = deque()
        self._claims: set[Waiter] = set()
        self._taken_in_a_row = 0

    # -- the sink

    def messages_received(self, messages: list[bytes]) -> None:
        """See ``Sink``."""
        peer, pending, inbox = self._peer, self._peer.pending, self.inbox
        if peer.state is CLOSED:
            return
        name_library()
        self.received += len(messages)
        observing = self._observers.message
        for message, text in zip(peer.read(messages), messages, strict=True):
            # The first two cases are for speed alone: the last does the same.
            if type(message) is Success and (waiter := pending.pop(message.id, None)) is not None:
                if not waiter.done():
                    waiter.set_result(message.result)
            elif type(message) is Notification and message.method != CANCELLED and not observing:
                # Whoever was told of an earlier text may have begun to serve, or ended it.
                if (
                    (dispatcher := self.dispatcher) is None
                    or (handler := dispatcher.inline.get(message.method)) is None
                    or not dispatcher.handle_inline(handler, message)
                ):
                    self._queue(message, len(text))
            else:
                self._take_in(peer.accept(message, text), len(text))
            if self._closed:
                return
        if inbox:
            self.wake()
        self.balance()

    def message_malformed(self, error: MalformedMessageError) -> None:
        """See ``Sink``."""
        name_library()
        if not self._closed:
            self.malformed += 1
            self._observers.report(error)

    def input_ended(self, error: TransportError | None) -> None:
        """See ``Sink``."""
        name_library()
        if error is not None:
            self._move(Trigger.INPUT_FAILED, error)
        elif self.dispatcher is not None:
            self._move(Trigger.INPUT_ENDED_SERVING, None)
        else:
            self._move(Trigger.INPUT_ENDED, None)

    def output_failed(self, error: TransportError | None) -> None:
        """See ``Sink``."""
        name_library()
        self._move(Trigger.OUTPUT_FAILED, error)

    def _take_in(self, event: Event[Waiter], size: int) -> None:
        """Does what is to be done at once with what came, and queues the rest. ``size``: of its text, in bytes."""
        if isinstance(event, Answer):
            if not event.waiter.done():
                event.waiter.set_result(event.result)
        elif type(event) is Request or type(event) is Notification:
            if self._observers.message:
                self._observers.arrived(event)
            dispatcher = self.dispatcher
            if dispatcher is not None and event.method == CANCELLED:
                dispatcher.cancel_taken_back()
            handler = None if dispatcher is None else dispatcher.inline.get(event.method)
            if handler is None or dispatcher is None or not dispatcher.handle_inline(handler, event):
                self._queue(event, size)
        else:
            self._settle(event)

    def _queue(self, message: Request | Notification, size: int) -> None:
        """Queues a message; when the queue is full, it is dropped, or the connection closes."""
        if self.inbox.put(message, size):
            return
        if self._discard_unread and isinstance(message, Notification):
            self.discarded += 1
        else:
            self._move(Trigger.INPUT_FAILED, self.inbox.overflow())

    def _settle(self, event: Refusal[Waiter] | Problem | Stray) -> None:
        """Wakes who waits for an error, or reports what is no message."""
        if isinstance(event, Refusal):
            reject(event.waiter, event.error)
        elif isinstance(event, Problem):
            self.malformed += 1
            self._observers.report(event.error)
            if event.reply is not None and self._peer.can_send:
                self._outlet.push(event.reply)
        else:
            self.stray += 1
            _logger.info("%s: a response that nobody waits for", self._observers.name)

    # -- taking

    async def next(self, loop: EventLoop, *, iterating: bool = False) -> Request | Notification:
        """The oldest message, when there is one.

        Raises:
            ConnectionClosedError: closed, and nothing is left; ``StopAsyncIteration`` instead when ``iterating``.
        """
        if self._taken_in_a_row >= TURN:
            self._taken_in_a_row = 0
            await checkpoint()
        inbox = self.inbox
        while len(inbox) <= len(self._claims):
            if self._closed:
                raise StopAsyncIteration if iterating else ConnectionClosedError(None, self.reason)
            await self._wait(loop)
        self._taken_in_a_row += 1
        message = inbox.take()
        if self.paused:
            self.relieve()
        return message

    async def _wait(self, loop: EventLoop) -> None:
        waiter = loop.waiter()
        self._receivers.append(waiter)
        self._taken_in_a_row = 0
        try:
            await waiter
        except BaseException:
            if waiter in self._receivers:
                self._receivers.remove(waiter)
            elif waiter in self._claims:
                # Woken and cancelled in one turn: the message is the next one's.
                self._claims.discard(waiter)
                self.wake()
            raise
        self._claims.discard(waiter)

    def take(self) -> Request | Notification:
        """The oldest message; there must be one."""
        message = self.inbox.take()
        if self.paused:
            self.relieve()
        return message

    @property
    def has_takers(self) -> bool:
        """Whether a task waits in ``next``."""
        return bool(self._receivers) or bool(self._claims)

    def wake(self) -> None:
        """Wakes as many takers as there are messages for."""
        if not self.inbox:
            return
        if self.dispatcher is not None:
            self.dispatcher.wake()
        while self._receivers and len(self.inbox) > len(self._claims):
            waiter = self._receivers.popleft()
            # A receiver that was just cancelled is done already and takes nothing.
            if not waiter.done():
                self._claims.add(waiter)
                waiter.set_result(None)

    def close(self, reason: BaseException | None) -> None:
        """The connection closed: whoever gets none of what is left learns that it did, and why."""
        self._closed = True
        self.reason = reason
        self.wake()
        while self._receivers:
            waiter = self._receivers.popleft()
            if not waiter.done():
                waiter.set_result(None)

    # -- flow

    def balance(self) -> None:
        """Stops reading when enough waits, unread here or unread at the peer, and we wait for no reply: that would
        be behind what we do not read."""
        if self.paused or self._peer.pending or not (self.inbox.high or self._outlet.pushed):
            return
        if not self._closed:
            self.paused = True
            self._transport.pause_reading()

    def relieve(self) -> None:
        """Goes on reading when neither waits any more."""
        if self.paused and self.inbox.low and not self._outlet.pushed:
            self.resume()

    def resume(self) -> None:
        """Goes on reading."""
        self.paused = False
        if not self._closed:
            self._transport.resume_reading()
