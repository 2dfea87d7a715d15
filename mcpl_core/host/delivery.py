"""How admitted events reach the application: a queue to take from, or a handler that is called.

Owns: what becomes of one event (seen before, no room, queued, handled), wakes that come later, and the timer behind
them. Does not own: admission, the queue and the scheduler themselves (``events``, ``wake``), and answering a server.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import anyio

from ..errors import InternalError
from .dedupe import EventKey, SeenEvents
from .events import EventAnswer, EventQueue, HostEvent, WakeSignal
from .wake import WakeScheduler

__all__ = ("Delivery", "EventHandler")

#: Takes a ``HostEvent``; may return an ``EventAnswer`` for the server, or an awaitable of one.
EventHandler = Callable[[HostEvent], Any]
E = TypeVar("E", bound=HostEvent)

_FULL = EventAnswer(accepted=False, reason="queue_full")


class Delivery:
    """The events of all servers of a host.

    Args:
        queue: where events wait when there is no handler.
        seen: the events that were handled.
        handler: is called with each event; left out, events are queued.
        scheduler: decides which event wakes.
        clock: seconds; left out, the event loop's.
        report: is told what the handler raised for an event that no server waits for.
    """

    def __init__(
        self,
        queue: EventQueue,
        seen: SeenEvents,
        handler: EventHandler | None = None,
        *,
        scheduler: WakeScheduler | None = None,
        clock: Callable[[], float] = anyio.current_time,
        report: Callable[[BaseException], object] = lambda _: None,
    ) -> None:
        self.queue = queue
        self.seen = seen
        self.handler = handler
        self.scheduler = scheduler if scheduler is not None else WakeScheduler()
        self._clock = clock
        self._report = report
        self._handling: dict[EventKey, anyio.Event] = {}
        self._open: Counter[str] = Counter()
        self._armed: float | None = None
        self._nudge = anyio.Event()

    def find(self, key: EventKey) -> EventAnswer | None:
        """What was answered to an event that was handled before."""
        return self.seen.find(key)

    def enqueue(self, key: EventKey, event: HostEvent, size: int) -> EventAnswer:
        """Puts an event into the queue, at once; the answer for its server. ``size``: its bytes on the wire."""
        if not self.queue.has_room(event.server, size):
            self.queue.refused[event.server] += 1
            return _FULL
        self.queue.put(self._judged(event), size)
        answer = EventAnswer()
        self.seen.settle(key, answer)
        return answer

    async def handle(self, key: EventKey, event: HostEvent) -> EventAnswer:
        """Calls the handler with an event, once for all its copies; the answer for its server.

        Raises:
            InternalError: the handler failed for the copy that was handled; the event may come again.
        """
        first = self._handling.get(key)
        if first is not None:
            await first.wait()
        if (seen := self.seen.find(key)) is not None:
            return seen
        if first is not None:
            raise InternalError
        if self._open[event.server] >= self.queue.limit:
            return _FULL
        return await self._handle_first(key, event)

    async def _handle_first(self, key: EventKey, event: HostEvent) -> EventAnswer:
        self._handling[key] = done = anyio.Event()
        self._open[event.server] += 1
        try:
            answer = await self._call(self._judged(event))
            self.seen.settle(key, answer)
            return answer
        finally:
            self._open[event.server] -= 1
            del self._handling[key]
            done.set()

    async def announce(self, event: HostEvent) -> None:
        """Delivers an event of the host's own making; no server waits for it."""
        event = self._judged(event)
        if self.handler is None:
            self.queue.put(event, own=True)
            return
        try:
            await self._call(event)
        except Exception as exc:
            self._report(exc)

    def forget(self, server: str) -> None:
        """A server is gone for good: its late wakes do not come."""
        self.scheduler.forget(server)

    async def run(self) -> None:
        """Tells of wakes whose time has come, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                self._nudge = anyio.Event()
                self._armed = self.scheduler.deadline()
                wait = float("inf") if self._armed is None else self._armed - self._clock()
                with anyio.move_on_after(wait):
                    await self._nudge.wait()
                for due in self.scheduler.due(self._clock()):
                    signal = WakeSignal(
                        server=due.server,
                        tags=due.tags,
                        treatment=due.treatment,
                        channel=due.channel,
                        events=due.events,
                    )
                    if self.handler is None:
                        self.queue.put(signal, own=True)
                    else:
                        tasks.start_soon(self._tell, signal)

    async def _tell(self, event: HostEvent) -> None:
        try:
            await self._call(event)
        except Exception as exc:
            self._report(exc)

    async def _call(self, event: HostEvent) -> EventAnswer:
        assert self.handler is not None
        answer = self.handler(event)
        if inspect.isawaitable(answer):
            answer = await answer
        return answer if isinstance(answer, EventAnswer) else EventAnswer()

    def _judged(self, event: E) -> E:
        """The event with its wake decided; it is delivered right after."""
        assert event.treatment is not None
        wake = self.scheduler.judge(event.server, event.channel_id, event.treatment, event.tags, self._clock())
        deadline = self.scheduler.deadline()
        if deadline is not None and (self._armed is None or deadline < self._armed):
            self._nudge.set()
        return replace(event, wake=wake)
