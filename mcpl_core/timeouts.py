"""The timeouts of all requests of a connection, behind one timer.

Owns: when the next request is due. Does not own: what happens to it then.

A timer or a cancel scope per request costs more than the request, and so does any entry of its own. Almost all requests
of a connection have the same timeout, and the pending ones stand in the order in which they were sent. So while such
requests wait, a tick now and then notes how far the ids have come; once a note is as old as the timeout, all up to it
are due. Only a request with a timeout of its own, or with none, gets an entry; where the usual timeout is so short that
ticks would come faster than loops tell the time, each does.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import Any

from .errors import InvalidValueError
from .transports.loop import EventLoop, TimerHandle
from .wire.messages import Id

__all__ = ("TICKS", "Deadlines", "Expired")

#: Ticks in one usual timeout; by so much of it a request may wait too long.
TICKS = 64
#: Seconds of the shortest usual timeout that ticks watch.
_SHORTEST = TICKS * 0.001


class Expired(Exception):
    """The time of a request is over.

    Attributes:
        timeout: seconds it was given.
    """

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        self.timeout = timeout


class Deadlines:
    """Deadlines of requests, and the one timer for whatever comes next.

    Args:
        loop: clock and timer.
        pending: the requests that still wait, by their ids, in the order of sending; an id that left it has no
            deadline any more.
        expire: called with the id of each request whose time is up, and the seconds it was given; perhaps again, should
            it be pending for much longer.
        usual: seconds that most requests wait; ``None``: they wait without end.
    """

    __slots__ = (
        "_at",
        "_expire",
        "_extended",
        "_heap",
        "_loop",
        "_marks",
        "_others",
        "_pending",
        "_tick_at",
        "_timer",
        "usual",
        "watching",
    )

    def __init__(
        self,
        loop: EventLoop,
        pending: dict[Any, Any],
        expire: Callable[[int, float], object],
        usual: float | None = None,
    ) -> None:
        self._loop = loop
        self._pending = pending
        self._expire = expire
        #: Where it is too short for ticks, equal to no timeout at all.
        self.usual = usual if usual is None or usual >= _SHORTEST else math.nan
        #: Requests of the usual timeout are watched as they are; a first one after a while must be added.
        self.watching = usual is None
        #: When, and the last id that was sent by then; the oldest first.
        self._marks: deque[tuple[float, int]] = deque()
        self._tick_at = math.inf
        #: Deadlines of their own: when, the id, and the seconds it was given.
        self._heap: list[tuple[float, int, float]] = []
        #: The ids that do not have the usual timeout: those in the heap, and those that wait without end.
        self._others: set[int] = set()
        #: Later deadlines of requests that were given more time meanwhile.
        self._extended: dict[int, float] = {}
        self._timer: TimerHandle | None = None
        self._at = math.inf

    @staticmethod
    def check(timeout: float | None) -> None:
        """To be called before anything is done with a ``timeout`` that is not watched as it is.

        Raises:
            InvalidValueError: it is NaN.
            TypeError, OverflowError: it is no number, or not one that can be added to a time.
        """
        if timeout is not None and math.isnan(0.0 + timeout):
            # It compares with nothing: the heap would lose its order.
            raise InvalidValueError("timeout", "NaN is no number of seconds")

    def due(self, timeout: float) -> float:
        """When ``timeout`` seconds from now are over, on the loop's clock.

        Raises:
            InvalidValueError: ``timeout`` is not a number.
        """
        self.check(timeout)
        return self._loop.time() + timeout

    def add(self, id: int, timeout: float | None) -> None:
        """Watches a request that waits for ``timeout`` seconds, which were checked, or without end. It is among the
        pending already. Not needed where the timeout is the ``usual`` one while ``watching``."""
        if timeout == self.usual:
            if not self.watching:
                self.watching = True
                self._tick_at = self._loop.time() + self._tick_length
                self._arm()
            return
        others = self._others
        others.add(id)
        if timeout is not None:
            heappush(self._heap, (self._loop.time() + timeout, id, timeout))
            self._arm()
        if len(others) > 64 + 4 * len(self._pending):
            # Most are answered. A rebuild is paid for by the requests since the one before.
            self._others = others.intersection(self._pending)
            self._heap = [entry for entry in self._heap if entry[1] in self._pending]
            heapify(self._heap)

    def extend(self, id: Id, when: float) -> None:
        """Makes a pending request due at ``when`` on the loop's clock, if that is later than it is due now."""
        extended = self._extended
        if id in self._pending and isinstance(id, int):
            extended[id] = max(when, extended.get(id, when))
        if len(extended) > 64 + 4 * len(self._pending):
            self._extended = {id: when for id, when in extended.items() if id in self._pending}

    def close(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._at = self._tick_at = math.inf
        self._heap.clear()
        self._others.clear()
        self._extended.clear()
        self._marks.clear()

    @property
    def _tick_length(self) -> float:
        return (self.usual or 0.0) / TICKS

    def _arm(self) -> None:
        """Sets the timer for whatever comes first."""
        when = min(self._tick_at, self._heap[0][0]) if self._heap else self._tick_at
        if when < self._at:
            if self._timer is not None:
                self._timer.cancel()
            self._at = when
            self._timer = self._loop.call_at(when, self._sweep)

    def _sweep(self) -> None:
        self._timer, self._at = None, math.inf
        now = self._loop.time()
        if self._tick_at <= now:
            self._tick(now)
        while self._heap and (self._heap[0][0] <= now or self._heap[0][1] not in self._pending):
            when, id, timeout = heappop(self._heap)
            if id in self._pending:
                self._come_up(id, when, timeout)
            else:
                self._others.discard(id)
        self._arm()

    def _tick(self, now: float) -> None:
        """Notes how far the ids have come, and looks for requests of the usual timeout that are due."""
        pending, others, marks = self._pending, self._others, self._marks
        if pending.keys() <= others:
            self.watching = False
            self._tick_at = math.inf
            marks.clear()
            return
        usual = self.usual or 0.0
        marks.append((now, next(reversed(pending))))
        last = 0
        while marks[0][0] + usual <= now:
            _, last = marks.popleft()
        self._tick_at = min(now + self._tick_length, marks[0][0] + usual)
        for id in list(takewhile(lambda id: id <= last, pending)) if last else ():
            if id in pending and id not in others:
                self._come_up(id, now, usual)

    def _come_up(self, id: int, when: float, timeout: float) -> None:
        """The request ``id`` was due at ``when``; it may have been given more time."""
        later = self._extended.pop(id, when)
        if later > when:
            self._others.add(id)
            heappush(self._heap, (later, id, timeout))
        else:
            self._others.discard(id)
            self._expire(id, timeout)
