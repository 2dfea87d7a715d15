"""Events that were handled before, and what their servers were told (SPEC 9.4).

Owns: the memory of ids with their first answers, bounded for each server. Does not own: the file behind it (``store``),
and what is being handled right now (``delivery``). An id is seen once its event was handled: one that found no room, or
whose handler failed, may come again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from .events import EventAnswer

__all__ = ("DEFAULT_SEEN_LIMIT", "EventKey", "SeenEvents", "SeenStore", "event_key")

#: Ids that are remembered of one server; beyond it the oldest is forgotten.
DEFAULT_SEEN_LIMIT: Final = 10_000

#: Characters of an id that are kept as they are; a longer one is kept as its hash.
_LONGEST: Final = 128


class EventKey(NamedTuple):
    """What makes an event the same event.

    Attributes:
        server: the id that the host gave the server.
        channel: the channel of a message, ``None`` for a pushed event.
        id: ``eventId`` or ``messageId``.
    """

    server: str
    channel: str | None
    id: str


def event_key(server: str, id: str, channel: str | None = None) -> EventKey:
    """The key of an event; of bounded size, however long a server's words are."""
    return EventKey(server, None if channel is None else _bounded(channel), _bounded(id))


def _bounded(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return "sha256:" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class SeenStore(Protocol):
    """Where ids outlive the process: ``mcpl_core.host.store.FileSeenStore``, or one's own. Calls come from one
    thread."""

    def load(self) -> Iterable[tuple[EventKey, EventAnswer]]:
        """Everything kept, oldest first."""

    def add(self, key: EventKey, answer: EventAnswer) -> None:
        """Keeps an id, or another answer for one that is there."""

    def remove(self, key: EventKey) -> None:
        """Forgets an id; nothing happens when it is not there."""

    def close(self) -> None:
        """Releases what the store holds."""


class SeenEvents:
    """The handled events of all servers of a host. Lives longer than any connection.

    Args:
        limit: ids that are remembered of one server.
        store: where they outlive the process; left out, they do not.
    """

    def __init__(self, limit: int = DEFAULT_SEEN_LIMIT, store: SeenStore | None = None) -> None:
        self.limit = limit
        self._store = store
        self._seen: dict[str, OrderedDict[EventKey, EventAnswer]] = {}
        for key, answer in store.load() if store is not None else ():
            self._seen.setdefault(key.server, OrderedDict())[key] = answer
        for answers in self._seen.values():
            self._trim(answers)

    def find(self, key: EventKey) -> EventAnswer | None:
        """What was answered to an event, ``None`` for one that was not seen."""
        answers = self._seen.get(key.server)
        return None if answers is None else answers.get(key)

    def settle(self, key: EventKey, answer: EventAnswer) -> None:
        """The event was handled."""
        answers = self._seen.setdefault(key.server, OrderedDict())
        answers[key] = answer
        if self._store is not None:
            self._store.add(key, answer)
        self._trim(answers)

    def forget(self, server: str) -> None:
        """Drops what was seen of a server."""
        for key in self._seen.pop(server, ()):
            if self._store is not None:
                self._store.remove(key)

    def close(self) -> None:
        """Releases the store."""
        if self._store is not None:
            self._store.close()

    def _trim(self, answers: OrderedDict[EventKey, EventAnswer]) -> None:
        while len(answers) > self.limit:
            key, _ = answers.popitem(last=False)
            if self._store is not None:
                self._store.remove(key)
