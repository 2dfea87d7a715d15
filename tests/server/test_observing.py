"""Telling the application of the host's inferences, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from mcpl_core.protocol import InferenceLifecycleParams, LifecyclePhase
from mcpl_core.server import observing
from mcpl_core.server.observing import InferenceFeed
from mcpl_core.transports.loop import EventLoop, TimerHandle

pytestmark = pytest.mark.anyio


class Handle:
    def __init__(self, timers: list[Any], entry: Any) -> None:
        self.timers, self.entry = timers, entry

    def cancel(self) -> None:
        if self.entry in self.timers:
            self.timers.remove(self.entry)


class FakeLoop(EventLoop):
    """A clock that the test moves."""

    def __init__(self, tasks: TaskGroup) -> None:
        super().__init__(tasks)
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object]) -> TimerHandle:
        self.timers.append((when, callback))
        return Handle(self.timers, self.timers[-1])

    def move(self, now: float) -> None:
        self.now = now
        for entry in [entry for entry in self.timers if entry[0] <= now]:
            self.timers.remove(entry)
            entry[1]()

    def waiter(self) -> Any:
        raise NotImplementedError

    def call_soon(self, callback: Callable[[], object]) -> None:
        raise NotImplementedError

    def cancel_guard(self) -> Any:
        raise NotImplementedError


class Setup:
    def __init__(self, tasks: TaskGroup) -> None:
        self.loop = FakeLoop(tasks)
        self.heard: list[tuple[str, str]] = []
        self.reported: list[BaseException] = []
        self.spawned = 0
        self.hold: anyio.Event | None = None
        self.feed = InferenceFeed(10, self.loop, self.spawn, self.tell, self.reported.append)

    def spawn(self, function: Any) -> None:
        self.spawned += 1
        self.loop.tasks.start_soon(function)

    async def tell(self, notice: InferenceLifecycleParams) -> None:
        if self.hold is not None:
            await self.hold.wait()
        self.heard.append((notice.inference_id, notice.phase))

    def take(self, id: str, phase: LifecyclePhase) -> bool:
        return self.feed.take(InferenceLifecycleParams(inference_id=id, phase=phase))


@asynccontextmanager
async def feeding() -> AsyncIterator[Setup]:
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            yield Setup(tasks)
            tasks.cancel_scope.cancel()


async def test_notices_are_told_in_order_by_one_task_that_ends() -> None:
    async with feeding() as made:
        made.take("a", "started")
        made.take("b", "started")
        made.take("a", "completed")
        assert made.heard == []
        await anyio.wait_all_tasks_blocked()
        assert made.heard == [("a", "started"), ("b", "started"), ("a", "completed")]
        assert made.spawned == 1
        made.take("b", "aborted")
        await anyio.wait_all_tasks_blocked()
        assert (made.heard[-1], made.spawned) == (("b", "aborted"), 2)


async def test_what_was_taken_can_be_waited_for_as_long_as_it_is_quick() -> None:
    async with feeding() as made:
        assert made.take("a", "started")
        await made.feed.heard()
        assert made.heard == [("a", "started")]
        await made.feed.heard()
        made.hold = anyio.Event()
        assert made.take("a", "completed")
        begun = anyio.current_time()
        await made.feed.heard()
        assert len(made.heard) == 1
        assert anyio.current_time() - begun < 2
        # Behind one that takes long nothing begins now, so nobody waits for it.
        assert not made.take("b", "started")
        assert not made.take("a", "failed")


@pytest.mark.spec("10.5-5", "10.5-6")
async def test_defects_are_reported_and_a_second_terminal_is_not_told() -> None:
    async with feeding() as made:
        made.take("a", "completed")
        made.take("a", "failed")
        await anyio.wait_all_tasks_blocked()
        assert made.heard == [("a", "completed")]
        assert len(made.reported) == 2


@pytest.mark.spec("10.5-7", "10.5-8")
async def test_the_safety_timeout_ends_what_was_never_heard_of_again() -> None:
    async with feeding() as made:
        made.take("a", "started")
        made.loop.now = 5
        made.take("b", "started")
        made.take("c", "started")
        assert len(made.loop.timers) == 1
        made.loop.move(10)
        made.take("c", "completed")
        made.loop.move(15)
        await anyio.wait_all_tasks_blocked()
        ended = [entry for entry in made.heard if entry[1] != "started"]
        assert ended == [("a", "failed"), ("c", "completed"), ("b", "failed")]
        assert made.loop.timers == []


async def test_a_timer_that_comes_too_early_is_set_again() -> None:
    async with feeding() as made:
        made.take("a", "started")
        made.loop.now = 9
        made.take("b", "started")
        made.take("a", "completed")
        made.loop.move(10)
        assert [when for when, _ in made.loop.timers] == [19]


async def test_closing_ends_everything_in_order_after_what_still_waits() -> None:
    async with feeding() as made:
        made.hold = anyio.Event()
        made.take("a", "started")
        made.take("b", "started")
        await anyio.wait_all_tasks_blocked()
        made.take("a", "completed")
        async with anyio.create_task_group() as closing:
            closing.start_soon(made.feed.close)
            await anyio.wait_all_tasks_blocked()
            assert made.heard == []
            made.hold.set()
        assert made.heard == [("a", "started"), ("b", "started"), ("a", "completed"), ("b", "failed")]
        assert made.loop.timers == []
        await made.feed.close()
        assert len(made.heard) == 4


async def test_closing_may_be_cancelled_and_called_again() -> None:
    async with feeding() as made:
        made.hold = anyio.Event()
        made.take("a", "started")
        await anyio.wait_all_tasks_blocked()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await made.feed.close()
        made.hold.set()
        await made.feed.close()
        assert made.heard == [("a", "started"), ("a", "failed")]


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "_MOST_WAITING", 2)
    async with feeding() as made:
        for id in "abc":
            made.take(id, "started")
        await anyio.wait_all_tasks_blocked()
        assert made.heard == [("a", "started"), ("b", "started")]
        assert len(made.reported) == 1
