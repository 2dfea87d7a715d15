"""Events of one principal on their way: in a result, to connections, or held (SPEC_NOTES R-toolsets-4, R-toolsets-5).

Owns: who is to get an event, which are held and in what order, and when one is done. Pure. Does not own: sending
(``delivery``), and results (``calling``).

An event is done when somebody answered it, whatever the answer, or a result carried it. One that nobody could take is
held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from ..content import parse_content
from ..protocol import CarriedEvent, PushEventParams
from .wire import carried_event

__all__ = ("EventBook", "Taker", "ToolsetEvent")


class Taker(Protocol):
    """A connection, as events see it. Compared by identity."""

    queue: deque[ToolsetEvent]

    def may_take_events(self) -> bool:
        """Whether an event may be pushed there now."""

    def wake(self) -> None:
        """There may be something to send."""


class ToolsetEvent:
    """One event.

    Attributes:
        params: what is pushed; its id is made once, with the event.
        number: counts the events of the principal.
        takers: the connections that have it to push.
        riding: it waits for the result of its call.
        done: somebody has it.
        tried: it was sent to somebody who may have got it and did not answer.
    """

    __slots__ = ("done", "number", "params", "riding", "takers", "tried")

    def __init__(self, params: PushEventParams, number: int) -> None:
        self.params = params
        self.number = number
        self.takers: dict[Taker, None] = {}
        self.riding = False
        self.done = False
        self.tried = False

    def carried(self) -> CarriedEvent:
        """As it stands in a result."""
        params = self.params
        return carried_event(
            params.event_id, params.timestamp, parse_content(params.payload.content), params.tags or ()
        )

    @property
    def text(self) -> str:
        """What it says, for a host that reads text."""
        return self.params.payload.text


class EventBook:
    """The events of one principal.

    Args:
        limit: how many are held; beyond it the oldest is dropped.

    Attributes:
        dropped: how many were.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[str, ToolsetEvent] = {}
        self._numbers = 0
        self.dropped = 0

    @property
    def held(self) -> list[ToolsetEvent]:
        """What is held, oldest first."""
        return list(self._held.values())

    def raise_event(self, params: PushEventParams, takers: Iterable[Taker], caller: Taker | None) -> ToolsetEvent:
        """An event happened.

        Args:
            takers: the connections of the principal.
            caller: the connection whose call caused it, and whose result is to carry it.
        """
        self._numbers += 1
        event = ToolsetEvent(params, self._numbers)
        event.riding = caller is not None
        for taker in takers:
            if taker is not caller:
                self._offer(event, taker)
        self._settle(event)
        return event

    def rode(self, events: Iterable[ToolsetEvent]) -> None:
        """A result carries them."""
        for event in events:
            event.riding, event.done = False, True
            self._settle(event)

    def left_behind(self, events: Iterable[ToolsetEvent], caller: Taker | None) -> None:
        """No result carries them: they are pushed like others, also on the connection of their call (``None``: it
        ended)."""
        for event in events:
            event.riding = False
            if caller is not None:
                self._offer(event, caller)
            self._settle(event)

    def answered(self, event: ToolsetEvent, taker: Taker) -> None:
        """A host answered it, with whatever answer, or will never."""
        event.done = True
        self.given_back(event, taker)

    def given_back(self, event: ToolsetEvent, taker: Taker) -> None:
        """This connection cannot push it."""
        if event in taker.queue:
            taker.queue.remove(event)
        event.takers.pop(taker, None)
        self._settle(event)

    def leave(self, taker: Taker) -> None:
        """A connection ended."""
        for event in list(taker.queue):
            self.given_back(event, taker)

    def release(self, taker: Taker) -> None:
        """A list was answered on this connection: it gets what is held."""
        for event in self.held:
            if not event.takers:
                self._offer(event, taker)

    def readable(self) -> list[ToolsetEvent]:
        """What is held and on its way to nobody, for a host that reads events as text. See ``read``."""
        return [event for event in self._held.values() if not event.takers]

    def read(self, events: Iterable[ToolsetEvent]) -> None:
        """They stand in a result as text."""
        for event in events:
            event.done = True
            self._settle(event)

    def forget(self) -> None:
        """Nobody is left to be told."""
        self._held.clear()

    def _offer(self, event: ToolsetEvent, taker: Taker) -> None:
        if not taker.may_take_events():
            return
        event.takers[taker] = None
        taker.queue.append(event)
        if len(taker.queue) > self._limit + 1:
            # The first may be under way. A host that answers none costs no more than one that is away.
            self.dropped += 1
            self.answered(taker.queue[1], taker)
        taker.wake()

    def _settle(self, event: ToolsetEvent) -> None:
        id = event.params.event_id
        if event.done:
            self._held.pop(id, None)
        elif not event.takers and not event.riding and id not in self._held:
            later = self._held and next(reversed(self._held.values())).number > event.number
            self._held[id] = event
            if later:
                self._held = {e.params.event_id: e for e in sorted(self._held.values(), key=lambda e: e.number)}
            if len(self._held) > self._limit:
                self.dropped += 1
                del self._held[next(iter(self._held))]
