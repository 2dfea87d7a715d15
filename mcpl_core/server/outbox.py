"""Events on their way to hosts: kept until a host answered them (SPEC 9.4).

Owns: which events wait for which principal, which connections still owe an answer, the bound, and how long to wait
before a retry. Does not own: sending (``session``), the file behind it (``store``), and the grant.

An event is made once, with one ``eventId`` for all its retries. It goes to every connection of its principal that is
ready when it is pushed; it is done when one of them answered it and none of the others is still at it. One that no
connection took waits for the next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from ..protocol import PushEventParams

__all__ = ("DEFAULT_OUTBOX_LIMIT", "Outbox", "OutboxEntry", "OutboxStore", "retry_delay")

#: Events kept for one principal; beyond it the oldest is dropped.
DEFAULT_OUTBOX_LIMIT = 1000


class OutboxStore(Protocol):
    """Where events outlive the process. Calls come from one thread and return when the change will survive."""

    def load(self) -> Iterable[tuple[str, PushEventParams]]:
        """Everything kept, as ``(principal, event)``, oldest first."""

    def add(self, principal: str, event: PushEventParams) -> None:
        """Keeps an event."""

    def remove(self, principal: str, event_id: str) -> None:
        """Forgets an event; nothing happens when it is not there."""

    def close(self) -> None:
        """Releases what the store holds."""


@dataclass(slots=True)
class OutboxEntry:
    """An event for one principal.

    Attributes:
        event: the params, the same for every attempt.
        owing: connections that took it and did not answer yet.
        answered: one of them did.
    """

    event: PushEventParams
    owing: set[Hashable] = field(default_factory=set)
    answered: bool = False


class Outbox:
    """Events by principal.

    Args:
        limit: events kept for one principal.
        store: where they outlive the process; left out, they do not.
    """

    def __init__(self, limit: int = DEFAULT_OUTBOX_LIMIT, store: OutboxStore | None = None) -> None:
        self.limit = limit
        self.dropped = 0
        self._store = store
        self._entries: dict[str, OrderedDict[str, OutboxEntry]] = {}
        for principal, event in store.load() if store is not None else ():
            self._entries.setdefault(principal, OrderedDict())[event.event_id] = OutboxEntry(event)

    @property
    def principals(self) -> tuple[str, ...]:
        """Who has events waiting."""
        return tuple(self._entries)

    def waiting(self, principal: str) -> int:
        """How many events wait for a principal."""
        return len(self._of(principal))

    def put(self, principal: str, event: PushEventParams, connections: Iterable[Hashable] = ()) -> None:
        """Keeps an event; ``connections``: those that are to send it, none when the principal is away."""
        entries = self._entries.setdefault(principal, OrderedDict())
        entries[event.event_id] = OutboxEntry(event, set(connections))
        if self._store is not None:
            self._store.add(principal, event)
        while len(entries) > self.limit:
            self.dropped += 1
            self._remove(principal, next(iter(entries)))

    def claim(self, principal: str, connection: Hashable) -> None:
        """A connection became ready: it takes what no other connection is at."""
        for entry in self._of(principal).values():
            if not entry.owing and not entry.answered:
                entry.owing.add(connection)

    def next(self, principal: str, connection: Hashable) -> PushEventParams | None:
        """The oldest event that this connection owes."""
        for entry in self._of(principal).values():
            if connection in entry.owing:
                return entry.event
        return None

    def settle(self, principal: str, connection: Hashable, event_id: str) -> None:
        """The host answered the event, with whatever answer, on this connection."""
        entry = self._of(principal).get(event_id)
        if entry is not None:
            entry.answered = True
            entry.owing.discard(connection)
            if not entry.owing:
                self._remove(principal, event_id)

    def release(self, principal: str, connection: Hashable) -> None:
        """A connection ended: what it owed is done if another one answered it, else it waits for the next."""
        for event_id, entry in list(self._of(principal).items()):
            entry.owing.discard(connection)
            if entry.answered and not entry.owing:
                self._remove(principal, event_id)

    def forget(self, principal: str) -> None:
        """Drops all events of a principal."""
        for event_id in list(self._of(principal)):
            self._remove(principal, event_id)

    def close(self) -> None:
        """Releases the store."""
        if self._store is not None:
            self._store.close()

    def _of(self, principal: str) -> OrderedDict[str, OutboxEntry]:
        return self._entries.get(principal, OrderedDict())

    def _remove(self, principal: str, event_id: str) -> None:
        entries = self._entries[principal]
        del entries[event_id]
        if not entries:
            del self._entries[principal]
        if self._store is not None:
            self._store.remove(principal, event_id)


def retry_delay(attempt: int, first: float, longest: float) -> float:
    """Seconds to wait before attempt number ``attempt`` + 1, counted from 1: doubled each time, up to ``longest``."""
    return float(min(longest, first * 2 ** min(attempt - 1, 30)))
