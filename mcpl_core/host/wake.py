"""When events wake the model: immediately, after quiet, once in a period, one in so many, or never (SPEC 16.7).

Owns: the running counts and times of debounce, throttle and sample, and which wakes are due. Pure: time is an argument,
in seconds on any clock that does not go back. Does not own: which behaviour an event has (``policy``), timers, and the
events themselves, which are delivered at once whatever is decided here.

- ``immediate`` wakes.
- ``mute`` does not.
- ``debounce`` wakes once nothing of its kind came for that long.
- ``throttle`` wakes at once, and then once at the end of each period in which more came.
- ``sample`` wakes for the first event of each so many.

A wake covers everything that was delivered before on the same channel of the same server, so that a mention does not
leave a debounced wake for the chatter before it.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..treatment import Behavior, Debounce, Immediate, Sample, Throttle, Treatment

__all__ = ("DEFAULT_WAKE_SOURCES", "DueWake", "WakeScheduler")

#: Channels whose counts and times are kept; beyond it the one that was quiet longest starts anew.
DEFAULT_WAKE_SOURCES: Final = 10_000


class _Key(NamedTuple):
    """What is counted together: one source and the rule that chose the behaviour (``None``: the default)."""

    server: str
    channel: str | None
    rule: int | None


class DueWake(NamedTuple):
    """A wake whose time has come.

    Attributes:
        server, channel: of the events behind it; ``None``: pushed events.
        treatment: theirs.
        events: how many they are.
        tags: of the last one.
    """

    server: str
    channel: str | None
    treatment: Treatment
    events: int
    tags: tuple[str, ...]


@dataclass(slots=True)
class _Running:
    """Where the events of one key stand.

    Attributes:
        until: when the quiet is long enough, or the period is over.
        events: delivered without a wake since the last one.
        count: all of a sample.
        listed: it has an entry in the heap.
    """

    treatment: Treatment
    tags: tuple[str, ...] = ()
    until: float = 0.0
    events: int = 0
    count: int = 0
    listed: bool = False

    @property
    def period(self) -> float:
        behavior = self.treatment.behavior
        return (behavior.per_ms or 0) / 1000 if isinstance(behavior, Throttle) else 0.0


class WakeScheduler:
    """Decides for all servers of a host.

    Args:
        sources: how many channels are kept apart.
    """

    def __init__(self, sources: int = DEFAULT_WAKE_SOURCES) -> None:
        self._limit = sources
        self._sources: OrderedDict[tuple[str, str | None], dict[int | None, _Running]] = OrderedDict()
        #: One entry for each key that waits, at its time or an earlier one.
        self._heap: list[tuple[float, int, _Key]] = []
        self._order = 0

    def judge(self, server: str, channel: str | None, treatment: Treatment, tags: tuple[str, ...], now: float) -> bool:
        """Whether an event that is delivered now wakes now. A wake that comes later is told by ``due``."""
        key = _Key(server, channel, treatment.index)
        wakes = self._wakes(key, treatment, tags, now)
        if wakes:
            self._cover(key)
        return wakes

    def _wakes(self, key: _Key, treatment: Treatment, tags: tuple[str, ...], now: float) -> bool:
        behavior: Behavior = treatment.behavior
        if isinstance(behavior, Immediate):
            return True
        if not isinstance(behavior, Debounce | Throttle | Sample):
            return False
        running = self._of(key, treatment)
        running.tags = tags
        if isinstance(behavior, Sample):
            running.count += 1
            return (running.count - 1) % behavior.every == 0
        if isinstance(behavior, Debounce):
            running.until = now + (behavior.ms or 0) / 1000
        elif now >= running.until:
            running.until = now + running.period
            return True
        running.events += 1
        self._list(key, running)
        return False

    def deadline(self) -> float | None:
        """When ``due`` has something to say, ``None`` while nothing waits."""
        while self._heap:
            when, order, key = self._heap[0]
            running = self._find(key)
            if running is None or not running.events:
                heapq.heappop(self._heap)
                if running is not None:
                    running.listed = False
            elif running.until > when:
                heapq.heapreplace(self._heap, (running.until, order, key))
            else:
                return when
        return None

    def due(self, now: float) -> list[DueWake]:
        """The wakes whose time has come, in the order of their times. Each is told once."""
        told = []
        while (when := self.deadline()) is not None and when <= now:
            key = self._heap[0][2]
            running = self._sources[key.server, key.channel][key.rule]
            told.append(DueWake(key.server, key.channel, running.treatment, running.events, running.tags))
            self._cover(key)
            # The next period of a throttle begins with this wake.
            running.until = now + running.period
        return told

    def forget(self, server: str) -> None:
        """Drops everything of a server."""
        for source in [source for source in self._sources if source[0] == server]:
            del self._sources[source]

    def _find(self, key: _Key) -> _Running | None:
        return self._sources.get((key.server, key.channel), {}).get(key.rule)

    def _of(self, key: _Key, treatment: Treatment) -> _Running:
        source = (key.server, key.channel)
        rules = self._sources.setdefault(source, {})
        self._sources.move_to_end(source)
        while len(self._sources) > self._limit:
            self._sources.popitem(last=False)
        running = rules.get(key.rule)
        if running is None or running.treatment.behavior != treatment.behavior:
            # A policy may have put another behaviour at that place.
            running = rules[key.rule] = _Running(treatment)
        return running

    def _list(self, key: _Key, running: _Running) -> None:
        if not running.listed:
            running.listed = True
            self._order += 1
            heapq.heappush(self._heap, (running.until, self._order, key))

    def _cover(self, key: _Key) -> None:
        for running in self._sources.get((key.server, key.channel), {}).values():
            running.events = 0
