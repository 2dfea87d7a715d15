"""Blocks that are cancelled: the same promises on asyncio, uvloop and trio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcpl_core.transports.guards import CancelGuard
from tests.transports.recording import running

pytestmark = pytest.mark.anyio


class Worker:
    """A task that runs blocks under one guard, and a log of how they ended."""

    def __init__(self) -> None:
        self.guard: CancelGuard | None = None
        self.log: list[str] = []
        self.blocked = anyio.Event()

    async def block(self, body: Callable[[], Any]) -> None:
        assert self.guard is not None
        self.blocked = anyio.Event()
        with self.guard:
            await body()
            self.log.append("returned")
        self.log.append("after")

    async def forever(self) -> None:
        self.blocked.set()
        await anyio.sleep_forever()

    def cancel(self) -> None:
        assert self.guard is not None
        self.guard.cancel()


@pytest.fixture
def worker() -> Worker:
    return Worker()


async def run(worker: Worker, *bodies: Callable[[], Any], cancel: int = 1) -> None:
    """Runs the blocks one after the other in one task, and cancels each once it waits."""

    async def work() -> None:
        async with running() as loop:
            worker.guard = loop.cancel_guard()
            for body in bodies:
                await worker.block(body)
            worker.log.append("end")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        for _ in bodies:
            await anyio.wait_all_tasks_blocked()
            for _ in range(cancel):
                worker.cancel()


async def test_a_guard_cancels_its_block_and_nothing_else(worker: Worker) -> None:
    await run(worker, worker.forever, worker.forever)
    assert worker.log == ["after", "after", "end"]


async def test_a_guard_cancelled_twice(worker: Worker) -> None:
    await run(worker, worker.forever, worker.forever, cancel=2)
    assert worker.log == ["after", "after", "end"]


async def test_a_block_may_ignore_its_cancellation(worker: Worker) -> None:
    async def stubborn() -> None:
        try:
            await worker.forever()
        except anyio.get_cancelled_exc_class():
            worker.log.append("ignored")

    await run(worker, stubborn, worker.forever)
    assert worker.log == ["ignored", "returned", "after", "after", "end"]


async def test_a_block_that_fails_while_it_is_cancelled(worker: Worker) -> None:
    async def failing() -> None:
        try:
            await worker.forever()
        finally:
            worker.log.append("cleaned")
            raise KeyError("failed")

    async def caught() -> None:
        assert worker.guard is not None
        with pytest.raises(KeyError), worker.guard:
            await failing()
        await checkpoint()

    async def work() -> None:
        async with running() as loop:
            worker.guard = loop.cancel_guard()
            await caught()
            worker.log.append("end")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        worker.cancel()
    assert worker.log == ["cleaned", "end"]


async def test_scopes_and_task_groups_inside_a_block(worker: Worker) -> None:
    async def structured() -> None:
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            with anyio.fail_after(60), anyio.CancelScope():
                await worker.forever()

    await run(worker, structured, structured)
    assert worker.log == ["after", "after", "end"]


async def test_a_guard_outside_its_block_does_nothing(worker: Worker) -> None:
    async with running() as loop:
        guard = loop.cancel_guard()
        guard.cancel()
        with guard:
            await checkpoint()
        guard.cancel()
        await checkpoint()


async def test_a_block_that_is_cancelled_by_its_own_step_and_awaits_nothing_more() -> None:
    async with running() as loop:
        guard = loop.cancel_guard()
        with guard:
            guard.cancel()
        await checkpoint()
        with guard:
            await checkpoint()
            guard.cancel()
        await checkpoint()
        await checkpoint()
        # A block after it can still be cancelled.
        with guard:
            loop.call_soon(guard.cancel)
            await anyio.sleep_forever()


async def test_a_block_that_is_cancelled_by_its_own_step_and_awaits_something() -> None:
    async with running() as loop:
        guard = loop.cancel_guard()
        with guard:
            guard.cancel()
            await anyio.sleep_forever()
        await checkpoint()


async def test_the_cancellation_of_the_task_passes_through(worker: Worker) -> None:
    async with anyio.create_task_group() as tasks:

        async def work() -> None:
            async with running() as loop:
                worker.guard = loop.cancel_guard()
                await worker.block(worker.forever)

        tasks.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert worker.log == []


async def test_both_cancelled_in_one_turn(worker: Worker) -> None:
    async with anyio.create_task_group() as tasks:

        async def work() -> None:
            async with running() as loop:
                worker.guard = loop.cancel_guard()
                await worker.block(worker.forever)
                await checkpoint()
                worker.log.append("went on")

        tasks.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        worker.cancel()
        tasks.cancel_scope.cancel()
    assert "went on" not in worker.log


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})], ids=["asyncio"])
class TestAsyncio:
    """What trio cannot do at all."""

    async def test_a_cancelled_future_in_the_block_is_a_failure_of_the_block(self) -> None:
        async with running() as loop:
            guard = loop.cancel_guard()
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            with pytest.raises(RuntimeError), guard:
                await future
            await checkpoint()

    async def test_a_request_that_was_there_before_the_block_is_not_its_own(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        async with running() as loop:
            guard = loop.cancel_guard()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await checkpoint()
            assert task.cancelling() == 1
            with guard:
                loop.call_soon(guard.cancel)
                await anyio.sleep_forever()
            assert task.cancelling() == 1
            task.uncancel()

    async def test_a_native_cancellation_passes_through(self) -> None:
        async with running() as loop:
            guard = loop.cancel_guard()
            task = asyncio.current_task()
            assert task is not None
            loop.call_soon(task.cancel)
            with pytest.raises(asyncio.CancelledError), guard:
                await anyio.sleep_forever()
            assert task.uncancel() == 0

    async def test_asyncio_timeouts_inside_a_block(self) -> None:
        async with running() as loop:
            guard = loop.cancel_guard()
            with pytest.raises(TimeoutError), guard:
                async with asyncio.timeout(0.001):
                    await anyio.sleep_forever()
            with guard:
                loop.call_soon(guard.cancel)
                async with asyncio.timeout(60):
                    await anyio.sleep_forever()
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
