"""The services of the event loop: the same promises on asyncio, uvloop and trio."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from typing import Any

import anyio
import pytest
import sniffio
from anyio.lowlevel import checkpoint

from mcpl_core.transports.loop import (
    AsyncioLoop,
    Gate,
    TellingWaiter,
    TrioLoop,
    Waiter,
    name_library,
    reject,
)
from tests.transports.recording import running

pytestmark = pytest.mark.anyio


def on_trio(backend: tuple[str, dict[str, Any]]) -> bool:
    return backend[0] == "trio"


async def test_the_loop_is_that_which_runs(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    async with running() as loop:
        assert type(loop) is (TrioLoop if on_trio(anyio_backend) else AsyncioLoop)
        assert abs(loop.time() - anyio.current_time()) < 1


# ---------------------------------------------------------------------------------------- waiters


async def test_a_waiter_that_was_set_already() -> None:
    async with running() as loop:
        waiter = loop.waiter()
        assert not waiter.done()
        waiter.set_result("x")
        assert waiter.done()
        assert await waiter == "x"


async def test_a_waiter_that_is_set_while_a_task_waits() -> None:
    async with running() as loop:
        waiter = loop.waiter()
        loop.call_soon(lambda: waiter.set_result(7))
        assert await waiter == 7


async def test_a_waiter_with_an_exception() -> None:
    async with running() as loop:
        early, late = loop.waiter(), loop.waiter()
        early.set_exception(KeyError("early"))
        with pytest.raises(KeyError):
            await early
        loop.call_soon(lambda: late.set_exception(KeyError("late")))
        with pytest.raises(KeyError):
            await late


async def test_tasks_wake_in_the_order_in_which_their_waiters_are_set(
    anyio_backend: tuple[str, dict[str, Any]],
) -> None:
    async with running() as loop:
        waiters = [loop.waiter() for _ in range(5)]
        woken: list[int] = []

        async def wait(number: int) -> None:
            await waiters[number]
            woken.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(wait, number)
            await anyio.wait_all_tasks_blocked()
            for waiter in waiters:
                waiter.set_result(None)
        # trio shuffles the tasks of one turn on purpose.
        assert (sorted(woken) if on_trio(anyio_backend) else woken) == [0, 1, 2, 3, 4]


async def test_a_wait_that_was_cancelled_takes_nothing() -> None:
    async with running() as loop:
        waiter = loop.waiter()
        with anyio.CancelScope() as scope:
            loop.call_soon(scope.cancel)
            await waiter
        assert waiter.done()
        reject(waiter, KeyError())


async def test_set_and_cancelled_in_one_turn() -> None:
    """What happens: cancelled, and the waiter counts as done all the same."""
    async with running() as loop:
        waiter = loop.waiter()

        def both(scope: anyio.CancelScope) -> None:
            waiter.set_result(1)
            scope.cancel()

        results = []
        with anyio.CancelScope() as scope:
            loop.call_soon(lambda: both(scope))
            results.append(await waiter)
            await checkpoint()
        assert waiter.done()
        assert scope.cancelled_caught


async def test_a_rejection_that_nobody_looks_at_is_not_logged(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    complaints: list[Any] = []
    async with running() as loop:
        if not on_trio(anyio_backend):
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        waiter: Waiter | None = loop.waiter()
        assert waiter is not None
        reject(waiter, KeyError())
        assert waiter.done()
        waiter = None
        gc.collect()
        await checkpoint()
        waiter = loop.waiter()
        reject(waiter, KeyError("first"))
        reject(waiter, KeyError("second"))
        with pytest.raises(KeyError, match="first"):
            await waiter
    assert complaints == []


async def test_a_telling_waiter_tells_before_its_task_wakes() -> None:
    async with running() as loop:
        log: list[str] = []
        waiter = TellingWaiter(loop.waiter(), log.append)
        assert not waiter.done()

        def set_it() -> None:
            waiter.set_result("x")
            assert log == ["x"]
            assert waiter.done()

        loop.call_soon(set_it)
        assert await waiter == "x"
        assert log == ["x"]


async def test_what_is_raised_while_it_tells_its_task_gets() -> None:
    async with running() as loop:

        def failing(value: object) -> None:
            raise KeyError(value)

        waiter = TellingWaiter(loop.waiter(), failing)
        waiter.set_result("x")
        with pytest.raises(KeyError):
            await waiter
        refused = TellingWaiter(loop.waiter(), failing)
        reject(refused, IndexError())
        reject(refused, KeyError())
        with pytest.raises(IndexError):
            await refused


async def test_telling_may_end_the_wait_otherwise() -> None:
    async with running() as loop:
        inner = loop.waiter()
        waiter = TellingWaiter(inner, lambda value: inner.set_result("otherwise"))
        waiter.set_result("x")
        assert await waiter == "otherwise"


@pytest.mark.parametrize("debug", [False, True])
async def test_a_waiter_on_asyncio_is_a_future_of_its_loop(
    anyio_backend: tuple[str, dict[str, Any]], debug: bool
) -> None:
    async with running() as loop:
        if on_trio(anyio_backend):
            return
        own = asyncio.get_running_loop()
        before = own.get_debug()
        own.set_debug(debug)
        waiter = loop.waiter()
        own.set_debug(before)
        assert isinstance(waiter, asyncio.Future)
        assert waiter.get_loop() is own
        assert (getattr(waiter, "_source_traceback", None) is not None) is debug
        waiter.cancel()


async def test_an_event_loop_with_futures_of_its_own_makes_the_waiters(
    anyio_backend: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Own(asyncio.Future[Any]):
        pass

    async with anyio.create_task_group() as tasks:
        if not on_trio(anyio_backend):
            own = asyncio.get_running_loop()

            class Making:
                """The running loop, but for the futures."""

                def create_future(self) -> Own:
                    return Own(loop=own)

                def __getattr__(self, name: str) -> Any:
                    return getattr(own, name)

            monkeypatch.setattr(asyncio, "get_running_loop", Making)
            assert type(AsyncioLoop(tasks).waiter()) is Own


# ---------------------------------------------------------------------------------------- calls


async def test_call_soon_calls_in_a_later_turn_and_in_order() -> None:
    async with running() as loop:
        calls: list[int] = []
        done = anyio.Event()
        for number in range(3):
            loop.call_soon(lambda number=number: calls.append(number))  # type: ignore[misc]
        loop.call_soon(done.set)
        assert calls == []
        await done.wait()
        assert calls == [0, 1, 2]


async def test_timers_fire_in_the_order_of_their_times() -> None:
    async with running() as loop:
        fired: list[str] = []
        done = anyio.Event()
        now = loop.time()
        loop.call_at(now + 0.03, done.set)
        loop.call_at(now + 0.02, lambda: fired.append("second"))
        loop.call_at(now + 0.01, lambda: fired.append("first"))
        assert fired == []
        await done.wait()
        assert fired == ["first", "second"]
        assert loop.time() >= now + 0.02


async def test_no_timer_fires_early() -> None:
    """Also on uvloop, whose own count whole milliseconds. Read to the microsecond: the clocks are floats."""
    async with running() as loop:
        early: list[float] = []
        done = anyio.Event()
        start = loop.time()
        for number in range(40):
            when = start + 0.001 + number * 0.000_25
            loop.call_at(when, lambda when=when: early.append(when) if loop.time() < when - 1e-6 else None)  # type: ignore[misc]
        loop.call_at(start + 0.02, done.set)
        await done.wait()
        assert early == []


async def test_a_timer_whose_time_is_over_fires_in_a_later_turn() -> None:
    async with running() as loop:
        done = anyio.Event()
        loop.call_at(loop.time() - 1, done.set)
        assert not done.is_set()
        await done.wait()


async def test_a_timer_that_was_cancelled_does_not_fire() -> None:
    async with running() as loop:
        fired: list[str] = []
        done = anyio.Event()
        timer = loop.call_at(loop.time() + 0.005, lambda: fired.append("cancelled"))
        last = loop.call_at(loop.time() + 0.01, done.set)
        timer.cancel()
        timer.cancel()
        await done.wait()
        last.cancel()
        assert fired == []


async def test_an_earlier_timer_overtakes_one_that_is_waited_for() -> None:
    async with running() as loop:
        loop.call_at(loop.time() + 100, lambda: pytest.fail("too late"))
        await anyio.wait_all_tasks_blocked()
        done = anyio.Event()
        loop.call_at(loop.time() + 0.001, done.set)
        await done.wait()


async def test_a_timer_may_set_another() -> None:
    async with running() as loop:
        done = anyio.Event()
        loop.call_at(loop.time(), lambda: loop.call_at(loop.time(), done.set))
        await done.wait()


async def test_a_timer_that_never_comes() -> None:
    async with running() as loop:
        timer = loop.call_at(float("inf"), lambda: pytest.fail("never"))
        done = anyio.Event()
        loop.call_at(loop.time(), done.set)
        await done.wait()
        timer.cancel()


async def test_cancelled_timers_are_not_kept() -> None:
    async with running() as loop:
        for _ in range(10_000):
            loop.call_at(loop.time() + 1000, lambda: None).cancel()
        kept = loop.call_at(loop.time() + 1000, lambda: None)
        if isinstance(loop, TrioLoop):
            assert len(loop._timers) < 200
            await anyio.wait_all_tasks_blocked()
        done = anyio.Event()
        loop.call_at(loop.time(), done.set)
        await done.wait()
        kept.cancel()


# ---------------------------------------------------------------------------------------- gates


async def test_a_gate_lets_through_all_that_wait_now() -> None:
    async with running() as loop:
        gate = Gate(loop)
        passed: list[int] = []

        async def wait(number: int) -> None:
            await gate.wait()
            passed.append(number)

        gate.open()
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(wait, number)
            await anyio.wait_all_tasks_blocked()
            assert passed == []
            gate.open()
            gate.open()
        assert sorted(passed) == [0, 1, 2]


async def test_a_gate_forgets_who_was_cancelled() -> None:
    async with running() as loop:
        gate = Gate(loop)
        for _ in range(100):
            with anyio.move_on_after(0):
                await gate.wait()
        assert len(gate._waiting) == 0
        gate.open()


# ---------------------------------------------------------------------------------------- callbacks


def test_a_callback_of_asyncio_says_which_library_runs() -> None:
    """In one under ``asyncio.run`` AnyIO begins no task by itself."""
    begun: list[str] = []

    async def task(name: str) -> None:
        begun.append(name)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:

            def callback() -> None:
                name_library()
                tasks.start_soon(task, "task")

            asyncio.get_running_loop().call_soon(callback)
            await checkpoint()

    asyncio.run(main())
    assert begun == ["task"]


def test_where_no_loop_runs_nothing_is_said() -> None:
    said = contextvars.Context()
    said.run(name_library)
    assert len(said) == 0
    anyio.run(checkpoint)


async def test_what_was_said_stays(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    name_library()
    assert sniffio.current_async_library() == anyio_backend[0]
