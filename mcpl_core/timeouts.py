"""The timeouts of all requests of a connection, behind one timer.

Owns: when the next request is due. Does not own: what happens to it then.

A timer or a cancel scope per request costs more than the request: here a request adds one entry to a heap, almost
always at its end, and an answered one is left there until it comes up or the heap is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from .errors import InvalidValueError
from .transports.loop import EventLoop, TimerHandle
from .wire.messages import Id

__all__ = ("Deadline", "Deadlines")


class Deadline(NamedTuple):
    """When a request is due.

    Attributes:
        when: on the loop's clock, in seconds.
        id: the id of the request, which is one of ours.
        timeout: seconds it was given.
        method: its method.
    """

    when: float
    id: int
    timeout: float
    method: str


#: A ``Deadline`` as it stands in the heap: a named tuple takes five times as long to make.
_Entry = tuple[float, int, float, str]


class Deadlines:
    """Deadlines of requests, and the one timer for the earliest.

    Args:
        loop: clock and timer.
        pending: the ids that still wait; an id that left it has no deadline any more.
        expire: called for each request whose time is up.
    """

    __slots__ = ("_at", "_expire", "_extended", "_heap", "_loop", "_pending", "_timer")

    def __init__(self, loop: EventLoop, pending: Collection[Id], expire: Callable[[Deadline], object]) -> None:
        self._loop = loop
        self._pending = pending
        self._expire = expire
        self._heap: list[_Entry] = []
        #: Later deadlines of requests whose first one still stands in the heap.
        self._extended: dict[Id, float] = {}
        self._timer: TimerHandle | None = None
        self._at = 0.0

    @staticmethod
    def check(timeout: float) -> None:
        """Looks whether ``timeout`` can be used, before anything is done with it.

        Raises:
            InvalidValueError: it is NaN.
            TypeError: it is no number at all.
        """
        if not (timeout >= 0 or timeout < 0):
            # It compares with nothing: the heap would lose its order.
            raise InvalidValueError("timeout", "NaN is no number of seconds")

    def due(self, timeout: float) -> float:
        """When ``timeout`` seconds from now are over, on the loop's clock.

        Raises:
            InvalidValueError: ``timeout`` is not a number.
        """
        self.check(timeout)
        return self._loop.time() + timeout

    def add(self, id: int, timeout: float, method: str) -> None:
        """Watches a request that is due in ``timeout`` seconds, which were checked; it is among the pending already."""
        when = self._loop.time() + timeout
        heap = self._heap
        heappush(heap, (when, id, timeout, method))
        if self._timer is None or when < self._at:
            self._arm(when)
        if len(heap) > 64 + 4 * len(self._pending):
            # Most are answered. A rebuild is paid for by the requests since the one before.
            heap[:] = [entry for entry in heap if entry[1] in self._pending]
            heapify(heap)

    def extend(self, id: Id, when: float) -> None:
        """Makes a pending request due at ``when`` on the loop's clock, if that is later than it is due now."""
        extended = self._extended
        if id in self._pending:
            extended[id] = max(when, extended.get(id, when))
        if len(extended) > 64 + 4 * len(self._pending):
            self._extended = {id: when for id, when in extended.items() if id in self._pending}

    def close(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap.clear()
        self._extended.clear()

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = when
        self._timer = self._loop.call_at(when, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now = self._loop.time()
        heap, pending = self._heap, self._pending
        while heap and (heap[0][0] <= now or heap[0][1] not in pending):
            deadline = Deadline(*heappop(heap))
            when = self._extended.pop(deadline.id, 0.0) if self._extended else 0.0
            if deadline.id not in pending:
                continue
            if when > deadline.when:
                heappush(heap, (when, *deadline[1:]))
            else:
                self._expire(deadline)
        if heap and self._timer is None:
            self._arm(heap[0][0])
