"""The way in: from the transport's push to whoever takes the message.

Owns: waking the task that waits for an answer, the queue of requests and notifications, who may take from it, and
when reading stops. Does not own: what a text means (``wire.peer``), when the connection closes, and handlers.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from .dispatch import Dispatcher
from .errors import ConnectionClosedError, MalformedMessageError, TransportError
from .inbox import Inbox, InboxLimits
from .observers import Observers
from .transports.base import Transport
from .transports.loop import EventLoop, Waiter
from .wire.messages import Notification, Request
from .wire.peer import Answer, Event, Peer, PeerState, Problem, Refusal, Trigger

__all__ = ("Intake",)

logger = logging.getLogger("mcpl_core")


class Intake:
    """The sink of a connection's transport.

    Args:
        peer: what a text means.
        transport: who is asked to stop and to go on reading.
        limits: how much may wait unread.
        discard_unread: past the hard limit drop notifications instead of closing.
        observers: who is told of messages and problems.
        move: moves the connection to another state, with the error that is the reason.
        write: writes an answer to a malformed message, without waiting.
    """

    def __init__(
        self,
        peer: Peer[Waiter],
        transport: Transport,
        limits: InboxLimits,
        discard_unread: bool,
        observers: Observers,
        move: Callable[[Trigger, BaseException | None], None],
        write: Callable[[bytes], None],
    ) -> None:
        self._peer = peer
        self._transport = transport
        self._discard_unread = discard_unread
        self._observers = observers
        self._move = move
        self._write = write
        self.inbox = Inbox(limits)
        self.dispatcher: Dispatcher | None = None
        #: Whether reading was stopped, so that callers on a hot path can look before they call ``resume``.
        self.paused = False
        self.received = self.malformed = self.stray = self.discarded = 0
        # Tasks in `next`: those that wait, and those that were woken and did not run yet.
        self._receivers: deque[Waiter] = deque()
        self._claims: set[Waiter] = set()

    # -- the sink

    def messages_received(self, messages: list[bytes]) -> None:
        """See ``Sink``."""
        if self._peer.state is PeerState.CLOSED:
            return
        self.received += len(messages)
        receive = self._peer.receive
        for text in messages:
            event = receive(text)
            if isinstance(event, Answer):
                if not event.waiter.done():
                    event.waiter.set_result(event.result)
            elif isinstance(event, Request | Notification):
                if not self._arrived(event, len(text)):
                    return
            else:
                self._settle(event)
        self.wake()
        self.balance()

    def message_malformed(self, error: MalformedMessageError) -> None:
        """See ``Sink``."""
        if self._peer.state is not PeerState.CLOSED:
            self.malformed += 1
            self._observers.report(error)

    def input_ended(self, error: TransportError | None) -> None:
        """See ``Sink``."""
        if error is not None:
            self._move(Trigger.INPUT_FAILED, error)
        elif self.dispatcher is not None:
            self._move(Trigger.INPUT_ENDED_SERVING, None)
        else:
            self._move(Trigger.INPUT_ENDED, None)

    def output_failed(self, error: TransportError | None) -> None:
        """See ``Sink``."""
        self._move(Trigger.OUTPUT_FAILED, error)

    def _arrived(self, message: Request | Notification, size: int) -> bool:
        """Queues a message; false when that closed the connection."""
        if self._observers.message:
            self._observers.arrived(message)
        if self.dispatcher is not None:
            if message.method == "notifications/cancelled":
                self.dispatcher.cancel_taken_back()
            if self.dispatcher.handle_inline(message):
                return True
        if not self.inbox.full:
            self.inbox.put(message, size)
        elif self._discard_unread and isinstance(message, Notification):
            self.discarded += 1
        else:
            self._move(Trigger.INPUT_FAILED, self.inbox.overflow())
            return False
        return True

    def _settle(self, event: Event[Waiter]) -> None:
        if isinstance(event, Refusal):
            if not event.waiter.done():
                event.waiter.set_exception(event.error)
        elif isinstance(event, Problem):
            self.malformed += 1
            if event.reply is not None:
                self._write(event.reply)
            self._observers.report(event.error)
        else:
            self.stray += 1
            logger.info("%s: a response that nobody waits for", self._observers.name)

    # -- taking

    async def next(self, loop: EventLoop, reason: Callable[[], BaseException | None]) -> Request | Notification:
        """The oldest message, when there is one; ``reason`` tells why the connection closed.

        Raises:
            ConnectionClosedError: closed, and nothing is left.
        """
        while len(self.inbox) <= len(self._claims):
            if self._peer.state is PeerState.CLOSED:
                raise ConnectionClosedError(None, reason())
            waiter = loop.waiter()
            self._receivers.append(waiter)
            try:
                await waiter
            except BaseException:
                if waiter in self._claims:
                    # Woken and cancelled in one turn: the message is the next one's.
                    self._claims.discard(waiter)
                    self.wake()
                elif waiter in self._receivers:
                    self._receivers.remove(waiter)
                raise
            self._claims.discard(waiter)
        return self.take()

    def take(self) -> Request | Notification:
        """The oldest message; there must be one."""
        message = self.inbox.take()
        if self.paused and self.inbox.low:
            self.resume()
        return message

    @property
    def awaited(self) -> bool:
        """Whether a task waits in ``next``."""
        return bool(self._receivers) or bool(self._claims)

    def wake(self) -> None:
        """Wakes as many takers as there are messages for."""
        if not self.inbox:
            return
        if self.dispatcher is not None:
            self.dispatcher.wake()
        while self._receivers and len(self.inbox) > len(self._claims):
            self._claim(self._receivers.popleft())

    def wake_all(self) -> None:
        """The connection closed: whoever gets none of what is left learns that it did."""
        self.wake()
        while self._receivers:
            waiter = self._receivers.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _claim(self, waiter: Waiter) -> None:
        # A receiver that was just cancelled is done already and takes nothing.
        if not waiter.done():
            self._claims.add(waiter)
            waiter.set_result(None)

    # -- flow

    def balance(self) -> None:
        """Stops reading when enough waits unread and we wait for no reply; a reply would be behind it."""
        if not self.paused and self.inbox.high and not self._peer.pending and self._peer.state is not PeerState.CLOSED:
            self.paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Goes on reading."""
        self.paused = False
        if self._peer.state is not PeerState.CLOSED:
            self._transport.resume_reading()
