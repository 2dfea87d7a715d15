"""Telling the application of the host's inferences, in order (SPEC 10.5).

Owns: the queue between the wire and the application's functions, the timer for missing terminals, and the one task
that works the queue off while there is something in it. Does not own: which notice counts (``lifecycle``).

What a quick function did is done before any later message of the host is looked at (these notices are order-sensitive).
One that takes long holds up the notices behind it, and other messages for a moment only: it may well wait for what such
a message brings, an inference of its own for example, before which the host calls this server's hooks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import anyio

from ..errors import LocalProtocolError
from ..protocol import InferenceLifecycleParams
from ..transports.loop import EventLoop, TimerHandle
from .lifecycle import LifecycleTracker

__all__ = ("InferenceFeed",)

#: Notices that may wait for the application. SPEC 10.5 lets them be lost; memory does not.
_MOST_WAITING: Final = 10_000

#: Seconds that later messages wait for the application to hear a notice.
_MOMENT: Final = 0.1


class InferenceFeed:
    """The host's inferences on one connection.

    Args:
        timeout: seconds an inference may stay open.
        loop: clock and timer.
        spawn: starts a task of the connection.
        tell: calls the application's functions; never raises.
        report: what is told of a host's defects.
    """

    def __init__(
        self,
        timeout: float,
        loop: EventLoop,
        spawn: Callable[[Callable[[], Coroutine[Any, Any, Any]]], object],
        tell: Callable[[InferenceLifecycleParams], Awaitable[None]],
        report: Callable[[BaseException], object],
    ) -> None:
        self._tracker = LifecycleTracker(timeout)
        self._loop = loop
        self._spawn = spawn
        self._tell = tell
        self._report = report
        self._waiting: deque[InferenceLifecycleParams] = deque()
        #: Set when the task that works at present has ended.
        self._worked_off: anyio.Event | None = None
        self._timer: TimerHandle | None = None

    def take(self, notice: InferenceLifecycleParams) -> bool:
        """Takes a notice from the wire; true when the application begins to hear it now."""
        idle = self._worked_off is None
        taken = self._tracker.take(notice, self._loop.time())
        if taken.defect is not None:
            self._report(LocalProtocolError(taken.defect))
        if taken.passed_on:
            self._put(notice)
        self._watch()
        return idle and self._worked_off is not None

    async def heard(self) -> None:
        """Returns when the application heard what was taken, or after a moment."""
        if self._worked_off is not None:
            with anyio.move_on_after(_MOMENT):
                await self._worked_off.wait()

    async def close(self) -> None:
        """The connection ended: so did every inference. Returns when the application heard all; call it again when it
        was cancelled."""
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.extend(self._tracker.end_all())
        if self._worked_off is not None:
            await self._worked_off.wait()
        await self._work_off()

    def _put(self, notice: InferenceLifecycleParams) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            self._report(LocalProtocolError(f"{_MOST_WAITING} notices of inferences wait; one was dropped"))
            return
        self._waiting.append(notice)
        if self._worked_off is None:
            self._worked_off = anyio.Event()
            self._spawn(self._work)

    async def _work(self) -> None:
        try:
            await self._work_off()
        finally:
            worked_off, self._worked_off = self._worked_off, None
            assert worked_off is not None
            worked_off.set()

    async def _work_off(self) -> None:
        while self._waiting:
            await self._tell(self._waiting.popleft())

    def _watch(self) -> None:
        """Sets the timer for the inference that is overdue first. A timer that comes too early is set again."""
        deadline = self._tracker.deadline()
        if self._timer is None and deadline is not None:
            self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        for notice in self._tracker.expire(self._loop.time()):
            self._put(notice)
        self._watch()
