"""The thread of a store: one thing after the other, whatever becomes of those who asked."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from mcpl_core.approvals import ApprovalStorageError
from mcpl_core.approvals.worker import StoreThread

LIMIT = 30.0


class Held:
    """Something that a thread does until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> str:
        self.thread = threading.current_thread()
        self.begun.set()
        assert self.go_on.wait(LIMIT)
        return "done"

    async def wait(self) -> None:
        assert await anyio.to_thread.run_sync(self.begun.wait, LIMIT)


def nothing() -> None:
    return None


@pytest.mark.anyio
async def test_what_is_raised_comes_out() -> None:
    worker = StoreThread()
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0)
    assert await worker.run(lambda: 7) == 7
    await worker.close(nothing)


@pytest.mark.anyio
async def test_who_is_cancelled_hands_nothing_over() -> None:
    worker, held = StoreThread(), Held()
    with anyio.fail_after(LIMIT):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await worker.run(held)
        assert await worker.run(lambda: 7) == 7
        assert not held.begun.is_set()
        await worker.close(nothing)


@pytest.mark.anyio
async def test_who_is_cancelled_in_its_turn_learns_the_result() -> None:
    worker, held = StoreThread(), Held()
    found: list[str] = []

    async def ask() -> None:
        found.append(await worker.run(held))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await held.wait()
            tasks.cancel_scope.cancel()
            held.go_on.set()
        assert found == ["done"]
        await worker.close(nothing)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_asyncio_cancels_lets_nobody_in_between() -> None:
    worker, held, second = StoreThread(), Held(), Held()
    second.go_on.set()
    with anyio.fail_after(LIMIT):
        first = asyncio.create_task(worker.run(held))
        await held.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        after = asyncio.create_task(worker.run(second))
        await anyio.wait_all_tasks_blocked()
        assert not second.begun.is_set()
        held.go_on.set()
        assert await after == "done"
        await worker.close(nothing)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_is_under_way_loses_nothing_that_is_handed_over() -> None:
    worker, held = StoreThread(), Held()
    held.go_on.set()

    async def cancelled() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await worker.run(held)

    with anyio.fail_after(LIMIT):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(cancelled())
        await held.wait()
        await worker.close(nothing)


@pytest.mark.anyio
async def test_many_who_wait_take_no_place_of_others() -> None:
    worker, held = StoreThread(), Held()
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(LIMIT):
            tasks.start_soon(worker.run, held)
            for _ in range(60):
                tasks.start_soon(worker.run, nothing)
            await held.wait()
            assert await anyio.to_thread.run_sync(lambda: 7) == 7
            held.go_on.set()
    await worker.close(nothing)


@pytest.mark.anyio
async def test_closing_comes_last_once_and_ends_the_thread() -> None:
    worker, held, ends = StoreThread(), Held(), []
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.run, held)
            await held.wait()
            tasks.start_soon(worker.close, lambda: ends.append("first"))
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(worker.close, lambda: ends.append("second"))
            await anyio.wait_all_tasks_blocked()
            assert ends == []
            with pytest.raises(ApprovalStorageError):
                await worker.run(nothing)
            held.go_on.set()
        assert ends == ["first"]
        assert held.thread is not None
        await anyio.to_thread.run_sync(held.thread.join, LIMIT)
        assert not held.thread.is_alive()
        with pytest.raises(ApprovalStorageError):
            await worker.run(nothing)


@pytest.mark.anyio
async def test_it_closes_also_for_who_is_cancelled() -> None:
    worker, ends = StoreThread(), []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await worker.close(lambda: ends.append("closed"))
    assert ends == ["closed"]
