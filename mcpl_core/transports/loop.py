"""What asyncio and trio do differently, in one place.

Owns: a value that one task waits for and any code sets, the waiting of many for one event, calls in the next turn, and
timers; each with the cheapest means of its event loop. Does not own: the cancelling of a block (``guards``), tasks
(AnyIO's task group, ``tasks``) and I/O.

Futures and ``call_at`` of asyncio are used as they are: an AnyIO event or cancel scope per message would cost a
multiple of the message itself. On trio the same interface stands on ``trio.lowlevel``.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.abc import TaskGroup

from .guards import AsyncioGuard, CancelGuard, TrioGuard

if TYPE_CHECKING:
    import outcome

__all__ = (
    "AsyncioLoop",
    "EventLoop",
    "Gate",
    "TellingWaiter",
    "TimerHandle",
    "TrioLoop",
    "Waiter",
    "current_loop",
    "name_library",
    "reject",
)


class Waiter(Protocol):
    """A value that one task awaits and that is set once, from synchronous code, in the same event loop."""

    def done(self) -> bool:
        """Whether a value or an exception was set, or the wait was cancelled."""

    def set_result(self, result: Any, /) -> None:
        """Wakes the task with a value."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Wakes the task with an exception."""

    def __await__(self) -> Generator[Any, Any, Any]: ...


def reject(waiter: Waiter, error: BaseException) -> None:
    """Wakes the task with ``error``, if it still waits."""
    if waiter.done():
        return
    waiter.set_exception(error)
    if isinstance(waiter, asyncio.Future):
        # A task that is cancelled in this very turn never looks; asyncio would log that nobody did.
        waiter.exception()


class TellingWaiter:
    """A waiter that calls ``tell`` with its value in the very turn in which it is set, before its task is woken.

    Args:
        waiter: what the task awaits.
        tell: what it raises, the task gets instead of the value.
    """

    __slots__ = ("_tell", "_waiter")

    def __init__(self, waiter: Waiter, tell: Callable[[Any], object]) -> None:
        self._waiter = waiter
        self._tell = tell

    def done(self) -> bool:
        return self._waiter.done()

    def set_result(self, result: Any, /) -> None:
        try:
            self._tell(result)
        except Exception as exc:
            reject(self._waiter, exc)
        else:
            if not self._waiter.done():
                self._waiter.set_result(result)

    def set_exception(self, exception: BaseException, /) -> None:
        reject(self._waiter, exception)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._waiter.__await__()


class TimerHandle(Protocol):
    """A call that is to be made later."""

    def cancel(self) -> None:
        """The call is not made; nothing happens when it was made already."""


class EventLoop(ABC):
    """The services of the running event loop that a connection and its transport need.

    Attributes:
        tasks: the task group that owns every task of the connection.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self.tasks = tasks

    @abstractmethod
    def time(self) -> float:
        """The loop's clock, in seconds."""

    @abstractmethod
    def waiter(self) -> Waiter:
        """A new waiter."""

    @abstractmethod
    def call_soon(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` in a later turn of the loop, in the order of the calls to this method."""

    @abstractmethod
    def call_at(self, when: float, callback: Callable[[], object]) -> TimerHandle:
        """Calls ``callback`` when the loop's clock has reached ``when``."""

    @abstractmethod
    def cancel_guard(self) -> CancelGuard:
        """A guard for blocks of the current task."""


class Gate:
    """Any number of tasks that wait until something happens, again and again.

    Args:
        loop: the event loop of those tasks.
    """

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._waiting: dict[Waiter, None] = {}

    async def wait(self) -> None:
        """Returns after the next ``open``."""
        waiter = self._loop.waiter()
        self._waiting[waiter] = None
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)

    def open(self) -> None:
        """Lets through all that wait now, in the order in which they came."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)


class AsyncioLoop(EventLoop):
    """asyncio and uvloop."""

    def __init__(self, tasks: TaskGroup) -> None:
        super().__init__(tasks)
        self.loop = asyncio.get_running_loop()
        self.time = self.loop.time  # type: ignore[method-assign]
        make = self.loop.create_future
        if type(make()) is asyncio.Future:
            make = partial(asyncio.Future, loop=self.loop)  # as it does, with a call less
        self.waiter = make  # type: ignore[method-assign]
        # uvloop's timers count milliseconds and are rounded: without this half of one, every other comes early.
        self._later = 0.0 if isinstance(self.loop, asyncio.BaseEventLoop) else 0.0005

    def time(self) -> float:  # pragma: no cover - replaced in __init__, which saves a call per message
        return self.loop.time()

    def waiter(self) -> Waiter:  # pragma: no cover - as above
        return self.loop.create_future()

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.loop.call_soon(_called, callback)

    def call_at(self, when: float, callback: Callable[[], object]) -> TimerHandle:
        return self.loop.call_at(when + self._later, _called, callback)

    def cancel_guard(self) -> CancelGuard:
        return AsyncioGuard()


class _TrioTimer:
    __slots__ = ("_loop", "callback")

    def __init__(self, loop: TrioLoop, callback: Callable[[], object]) -> None:
        self._loop = loop
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._loop._timer_cancelled()


class _TrioWaiter:
    __slots__ = ("_done", "_outcome", "_task", "_trio")

    def __init__(self, trio: Any) -> None:
        self._trio = trio
        self._done = False
        #: What was set before anybody waited. Not kept for longer: an exception would hold the frames that hold us.
        self._outcome: outcome.Outcome[Any] | None = None
        self._task: Any = None

    def done(self) -> bool:
        return self._done

    def set_result(self, result: Any, /) -> None:
        self._set(self._trio.outcome.Value(result))

    def set_exception(self, exception: BaseException, /) -> None:
        self._set(self._trio.outcome.Error(exception))

    def _set(self, outcome: outcome.Outcome[Any]) -> None:
        self._done = True
        if self._task is None:
            self._outcome = outcome
        else:
            task, self._task = self._task, None
            self._trio.reschedule(task, outcome)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        if self._done:
            await self._trio.checkpoint()
            outcome, self._outcome = self._outcome, None
            assert outcome is not None
            try:
                return outcome.unwrap()
            finally:
                del outcome
        self._task = self._trio.current_task()

        def abort(_: object) -> Any:
            self._task = None
            self._done = True
            return self._trio.abort_succeeded

        return await self._trio.wait_task_rescheduled(abort)


class _TrioParts:
    """The names of trio that are needed per message, looked up once."""

    def __init__(self) -> None:
        import outcome
        import trio

        self.outcome = outcome
        self.checkpoint = trio.lowlevel.checkpoint
        self.current_task = trio.lowlevel.current_task
        self.reschedule = trio.lowlevel.reschedule
        self.wait_task_rescheduled = trio.lowlevel.wait_task_rescheduled
        self.abort_succeeded = trio.lowlevel.Abort.SUCCEEDED
        self.current_time = trio.current_time
        self.cancel_scope = trio.CancelScope
        self.run_sync_soon = trio.lowlevel.current_trio_token().run_sync_soon


class TrioLoop(EventLoop):
    """trio. Timers run in one task of ``tasks``, started with the first of them."""

    def __init__(self, tasks: TaskGroup) -> None:
        super().__init__(tasks)
        self._trio = _TrioParts()
        self._timers: list[tuple[float, int, _TrioTimer]] = []
        #: How many of them were cancelled.
        self._cancelled = 0
        self._order = count()
        self._earlier: anyio.Event | None = None

    def time(self) -> float:
        now: float = self._trio.current_time()
        return now

    def waiter(self) -> Waiter:
        return _TrioWaiter(self._trio)

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._trio.run_sync_soon(callback)

    def call_at(self, when: float, callback: Callable[[], object]) -> TimerHandle:
        timer = _TrioTimer(self, callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        if self._earlier is None:
            self._earlier = anyio.Event()
            self.tasks.start_soon(self._run_timers, name="mcpl timers")
        elif self._timers[0][2] is timer:
            self._earlier.set()
        return timer

    def cancel_guard(self) -> CancelGuard:
        return TrioGuard(self._trio.cancel_scope)

    def _timer_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _run_due(self) -> None:
        now = self.time()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._cancelled -= 1
            else:
                callback()

    async def _run_timers(self) -> None:
        while True:
            self._run_due()
            self._earlier = anyio.Event()
            wait = self._timers[0][0] - self.time() if self._timers else float("inf")
            with anyio.move_on_after(wait):
                await self._earlier.wait()


def current_loop(tasks: TaskGroup) -> EventLoop:
    """The services of the event loop that runs now."""
    trio = sys.modules.get("trio")
    return TrioLoop(tasks) if trio is not None and trio.lowlevel.in_trio_run() else AsyncioLoop(tasks)


def name_library() -> None:
    """Says that asyncio runs, in a callback of it, as ``anyio.run`` does and ``asyncio.run`` does not: where sniffio is
    installed AnyIO asks it before it begins a task, and without a current task that knows only what it was told. To be
    called first in every callback that may lead to a task, and where an application's own callback may begin one."""
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None and sniffio.current_async_library_cvar.get() is None:
        if asyncio._get_running_loop() is not None:
            sniffio.current_async_library_cvar.set("asyncio")


def _called(callback: Callable[[], object]) -> None:
    name_library()
    callback()
