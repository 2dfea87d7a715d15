"""Sending what the outbox holds for one connection (SPEC 9.3, 9.4).

Owns: attempts, their back-off, which answer ends them, and the one task that sends while there is something to send.
Does not own: what waits (``outbox``), and the grant (``policy``).

Events begin in order, several at a time: one that a host does not answer, or does not take yet, holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ..errors import (
    CapabilityDenied,
    ConnectionClosedError,
    ConnectionTimeoutError,
    FeatureSetNotEnabled,
    InternalError,
    LocalProtocolError,
    McplError,
    UnknownFeatureSet,
)
from ..protocol import PushEventParams, method
from .calls import HostCalls
from .offer import Settings
from .outbox import Attempts, Outbox, retry_delay

__all__ = ("Delivery",)

#: What a host answers when it would take the event later.
_TEMPORARY = "queue_full"


class Delivery:
    """The events on their way to one host.

    Args:
        outbox: what waits.
        principal: for whom.
        calls: the host.
        settings: how often, how long.
        clock: seconds, of the event loop.
        spawn: starts a task of the connection.
    """

    def __init__(
        self,
        outbox: Outbox,
        principal: str,
        calls: HostCalls,
        settings: Settings,
        clock: Callable[[], float],
        spawn: Callable[[Callable[[], Coroutine[Any, Any, Any]]], object],
    ) -> None:
        self._outbox = outbox
        self._principal = principal
        self._calls = calls
        self._settings = settings
        self._clock = clock
        self._spawn = spawn
        self._working = False
        self._over = False
        self._under_way = 0
        self._news = anyio.Event()

    # -- what the outbox asks

    def may_take(self, event: PushEventParams) -> bool:
        """See ``Taker``."""
        entry = self._calls.methods[method.PUSH_EVENT]
        return not self._over and self._calls.policy.denial(entry, event.feature_set) is None

    def wake(self) -> None:
        """See ``Taker``."""
        self._news.set()
        if not self._working:
            self._working = True
            self._spawn(self._work)

    # -- sending

    async def _work(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    self._news = anyio.Event()
                    pause = await self._begin_due(tasks)
                    if pause is None and not self._under_way:
                        break
                    with anyio.move_on_after(pause):
                        await self._news.wait()
        finally:
            self._working = False
        if self._news.is_set():
            # It came while the last attempt was put away.
            self.wake()

    async def _begin_due(self, tasks: TaskGroup) -> float | None:
        """Begins what is due; returns the seconds until the next is, ``None`` when nothing is left that waits."""
        while self._under_way < self._settings.event_window:
            now = self._clock()
            # Not all are looked at for each that begins: what is due is near the front.
            owed = self._outbox.owed(self._principal, self)
            due = next(((event, attempts) for event, attempts in owed if attempts.due <= now), None)
            if due is None:
                owed = self._outbox.owed(self._principal, self)
                return min((attempts.due - now for _, attempts in owed), default=None)
            # Returns when the event was handed to the transport, so that the next one follows it.
            await tasks.start(self._attempt, *due)
        return None

    async def _attempt(
        self, event: PushEventParams, attempts: Attempts, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        attempts.count += 1
        attempts.under_way = True
        self._under_way += 1
        sent = False

        def on_sent(_: object) -> None:
            nonlocal sent
            sent = True
            task_status.started()

        try:
            if await self._is_done(event, attempts, on_sent):
                self._outbox.settle(self._principal, self, event.event_id)
            else:
                settings = self._settings
                pause = retry_delay(attempts.count, settings.first_retry, settings.longest_retry)
                attempts.due = self._clock() + pause
        finally:
            attempts.under_way = False
            self._under_way -= 1
            self._news.set()
            if not sent:
                task_status.started()
        await self._flush()

    async def _is_done(self, event: PushEventParams, attempts: Attempts, on_sent: Callable[[object], None]) -> bool:
        """Whether the host answered, with whatever answer; false when the event is to be tried again."""
        try:
            answer = await self._calls.send_event(event, timeout=self._settings.event_timeout, on_sent=on_sent)
        except ConnectionTimeoutError:
            return False
        except ConnectionClosedError:
            # Nothing goes out here any more: the events are for whoever may take them, and cost this end nothing.
            self._over = True
            attempts.under_way = False
            self._outbox.reassign(self._principal)
            return False
        except InternalError as exc:
            return self._given_up(attempts, exc)
        except (CapabilityDenied, FeatureSetNotEnabled, UnknownFeatureSet) as exc:
            if not self.may_take(event):
                # A reduction, here or there: the event waits for another policy, and for whoever may take it.
                attempts.under_way = False
                self._outbox.reassign(self._principal)
                return False
            self._calls.connection.report(exc)
        except McplError as exc:
            self._calls.connection.report(exc)
        else:
            if not answer.accepted and answer.reason == _TEMPORARY:
                put_off = LocalProtocolError(f"event {event.event_id} was put off again and again and is given up")
                return self._given_up(attempts, put_off)
        return True

    def _given_up(self, attempts: Attempts, error: McplError) -> bool:
        """A host that fails at an event again and again has answered it."""
        if attempts.count < self._settings.event_attempts:
            return False
        self._calls.connection.report(error)
        return True

    async def _flush(self) -> None:
        try:
            await self._outbox.flush()
        except McplError as exc:
            self._calls.connection.report(exc)
