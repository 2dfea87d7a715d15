"""What belongs to one principal, and not to its connections: open toolsets and instances, ended ones, ids, events.

Owns: the state and its rules. Pure; times are arguments. Does not own: opening and closing (``instances``), sending,
and storing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, Final

from ..errors import InvalidParams
from ..protocol import EndedInstance, EndReason
from .events import EventBook
from .presence import Presence
from .wire import Key, ended_statement, instance_id_taken_from, is_instance_id, minted_id

__all__ = ("ENDED_KEPT", "OpenInstance", "Principal")

#: How many ended instances are told of; beyond it the oldest is forgotten.
ENDED_KEPT: Final = 256
#: The number of an id that a host may propose in the form in which they are made here.
_HIGHEST: Final = 10**12


class OpenInstance:
    """An instance, or a toolset without instances, that is open.

    Attributes:
        key: which.
        body: what the application's ``open`` returned.
        title: when it was opened; it may have another one now.
        opened_at: seconds since the epoch.
        closing: its end has begun; nobody calls it any more.
        asked: how often it was asked what is visible; ``answered``: the number of the answer that is in force.
    """

    __slots__ = ("answered", "asked", "body", "closing", "key", "opened_at", "title")

    def __init__(self, key: Key, body: Any, title: str, opened_at: float) -> None:
        self.key = key
        self.body = body
        self.title = title
        self.opened_at = opened_at
        self.closing = False
        self.asked = self.answered = 0

    def ended(self, reason: EndReason, now: float) -> EndedInstance | None:
        """The record of its end; a toolset without instances leaves none."""
        toolset, id = self.key
        return None if id is None else ended_statement((toolset, id), self.title, reason, now)


class Principal:
    """The state of one principal.

    Args:
        name: who.
        toolsets: the names of those that have instances.
        held_events: how many events are held.
        open_limit: how many instances may be open at once.

    Attributes:
        presence: what is visible.
        events: what is to be told.
        counters: toolset -> the highest number of an id that was used.
        defaults_opened: of the toolsets that are open by default, those that were opened once.
        idle_since: when its last connection ended; ``None`` while there is one.
        forgotten: nothing of it is kept any more.
    """

    def __init__(self, name: str, toolsets: Collection[str], held_events: int, open_limit: int) -> None:
        self.name = name
        self._open_limit = open_limit
        self._toolsets = frozenset(toolsets)
        self.presence = Presence()
        self.events = EventBook(held_events)
        self.counters: dict[str, int] = {}
        self.defaults_opened: set[str] = set()
        self.idle_since: float | None = None
        self.forgotten = False
        self._open: dict[Key, OpenInstance] = {}
        self._of: dict[str, dict[Key, OpenInstance]] = {}
        self._by_id: dict[str, OpenInstance] = {}
        self._reserved: set[str] = set()
        self._ended: deque[EndedInstance] = deque(maxlen=ENDED_KEPT)

    # -- what is open

    def get(self, key: Key) -> OpenInstance | None:
        """What is open there."""
        return self._open.get(key)

    def open(self) -> list[OpenInstance]:
        """Everything that is open, in the order of opening."""
        return list(self._open.values())

    def instances(self, toolset: str) -> list[OpenInstance]:
        """What is open of one toolset, in the order of opening."""
        return list(self._of.get(toolset, {}).values())

    def find(self, id: str) -> OpenInstance | None:
        """The open instance of this id, whatever its toolset."""
        return self._by_id.get(id)

    def add(self, opened: OpenInstance, visible: tuple[str, ...]) -> None:
        """It is open from now on."""
        toolset, id = opened.key
        self._open[opened.key] = opened
        self._of.setdefault(toolset, {})[opened.key] = opened
        if id is not None:
            self._by_id[id] = opened
            self._reserved.discard(id)
        self.presence.set(opened.key, visible)

    def remove(self, key: Key) -> OpenInstance | None:
        """It is open no more; returns what was."""
        opened = self._open.pop(key, None)
        if opened is not None:
            del self._of[key[0]][key]
            self._by_id.pop(key[1] or "", None)
            self.presence.set(key, None)
        return opened

    # -- what ended

    def end(self, record: EndedInstance) -> EndedInstance | None:
        """An instance that was removed has ended. Returns the record that this one pushes out."""
        oldest = self._ended[0] if len(self._ended) == ENDED_KEPT else None
        self._ended.append(record)
        return oldest

    def ended(self) -> Iterator[EndedInstance]:
        """The records, oldest first."""
        return iter(self._ended)

    # -- ids

    def reserve(self, toolset: str, proposed: str | None = None) -> str:
        """An id for a new instance, nobody else's until ``add`` or ``release``.

        Args:
            proposed: by the host; left out, it is made here, and never one that was used before.

        Raises:
            InvalidParams: the proposed one is taken, or is no id; or as many are open as may be (``data.limit``).
        """
        if len(self._by_id) + len(self._reserved) >= self._open_limit:
            text = f"{self._open_limit} instances are open, and no more can be: close one first"
            raise InvalidParams(message=text, data={"path": "$.toolset", "limit": self._open_limit})
        if proposed is None:
            self.counters[toolset] = number = self.counters.get(toolset, 0) + 1
            id = minted_id(toolset, number)
        else:
            id = self._proposed(proposed)
        self._reserved.add(id)
        return id

    def _proposed(self, id: str) -> str:
        made_as = instance_id_taken_from(id)
        if made_as is not None and made_as[0] not in self._toolsets:
            made_as = None
        # Those that are made from then on would soon be none.
        if not is_instance_id(id) or (made_as is not None and made_as[1] > _HIGHEST):
            raise InvalidParams(message="no id for an instance", data={"path": "$.instance", "instance": id})
        # An id as they are made here counts as made: none that was used comes again.
        used = made_as is not None and made_as[1] <= self.counters.get(made_as[0], 0)
        known = any(record.instance == id for record in self._ended)
        if used or known or id in self._reserved or self.find(id) is not None:
            raise InvalidParams(message="the id is taken", data={"path": "$.instance", "instance": id})
        if made_as is not None:
            self.counters[made_as[0]] = made_as[1]
        return id

    def release(self, id: str | None) -> None:
        """A reserved id is not used after all. One that was made is not made again."""
        self._reserved.discard(id or "")

    # -- rest

    def due(self, idle_close: float) -> float | None:
        """When it is to be forgotten, in seconds since the epoch; ``None``: not while things are as they are.

        Args:
            idle_close: seconds without a connection; 0: never.
        """
        return None if self.idle_since is None or idle_close <= 0 else self.idle_since + idle_close
