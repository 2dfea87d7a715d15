"""What becomes of an admitted event."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core.errors import InternalError
from mcpl_core.host.dedupe import SeenEvents, event_key
from mcpl_core.host.delivery import Delivery
from mcpl_core.host.events import EventAnswer, EventQueue, HostEvent, WakeSignal
from mcpl_core.treatment import Behavior, Debounce, Immediate, Mute, Throttle, Treatment

KEY = event_key("s", "e1")


NOW = Immediate()


def event(behavior: Behavior = NOW, server: str = "s") -> HostEvent:
    return HostEvent(server=server, tags=("t:x",), treatment=Treatment(behavior, None, 0))


def delivery(handler: Any = None, limit: int = 10, **options: Any) -> Delivery:
    return Delivery(EventQueue(limit), SeenEvents(), handler, **options)


@pytest.mark.anyio
async def test_an_event_is_queued_once_and_its_copies_get_its_answer() -> None:
    made = delivery()
    assert made.find(KEY) is None
    assert made.enqueue(KEY, event(), 10) == EventAnswer()
    assert made.find(KEY) == EventAnswer()
    assert (await anext(made.queue)).wake


@pytest.mark.anyio
async def test_without_room_the_event_is_not_seen() -> None:
    made = delivery(limit=1)
    made.enqueue(event_key("s", "0"), event(), 0)
    assert made.enqueue(KEY, event(), 0) == EventAnswer(accepted=False, reason="queue_full")
    assert made.find(KEY) is None
    await anext(made.queue)
    assert made.enqueue(KEY, event(), 0).accepted


@pytest.mark.anyio
@pytest.mark.parametrize(("behavior", "wakes"), [(Immediate(), True), (Mute(), False), (Debounce(5), False)])
async def test_the_wake_is_decided_on_delivery(behavior: Behavior, wakes: bool) -> None:
    made = delivery()
    made.enqueue(KEY, event(behavior), 0)
    assert (await anext(made.queue)).wake is wakes


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("returned", "answer"),
    [(None, EventAnswer()), (EventAnswer(inference_id="inf"), EventAnswer(inference_id="inf")), ("?", EventAnswer())],
)
async def test_a_handler_decides_the_answer(returned: Any, answer: EventAnswer) -> None:
    calls: list[HostEvent] = []

    async def later(each: HostEvent) -> Any:
        calls.append(each)
        return returned

    def at_once(each: HostEvent) -> Any:
        calls.append(each)
        return returned

    for handler in (later, at_once):
        made = delivery(handler)
        assert await made.handle(KEY, event()) == answer
        assert await made.handle(KEY, event()) == answer
    assert len(calls) == 2


@pytest.mark.anyio
async def test_copies_wait_for_the_first_one() -> None:
    go, calls = anyio.Event(), []

    async def handler(each: HostEvent) -> EventAnswer:
        calls.append(each)
        await go.wait()
        return EventAnswer(inference_id="inf")

    made = delivery(handler)
    answers: list[EventAnswer] = []

    async def one() -> None:
        answers.append(await made.handle(KEY, event()))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(one)
            await anyio.wait_all_tasks_blocked()
            go.set()
    assert len(calls) == 1
    assert answers == [EventAnswer(inference_id="inf")] * 3


@pytest.mark.anyio
async def test_an_event_whose_handler_failed_may_come_again() -> None:
    fail, go = [True], anyio.Event()

    async def handler(each: HostEvent) -> None:
        await go.wait()
        if fail.pop():
            raise RuntimeError("no")

    made = delivery(handler)
    raised: list[BaseException] = []

    async def one() -> None:
        try:
            await made.handle(KEY, event())
        except (RuntimeError, InternalError) as exc:
            raised.append(exc)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        tasks.start_soon(one)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert sorted(type(exc).__name__ for exc in raised) == ["InternalError", "RuntimeError"]
    fail.append(False)
    assert (await made.handle(KEY, event())).accepted


@pytest.mark.anyio
async def test_events_that_are_handled_are_bounded_for_each_server() -> None:
    go = anyio.Event()

    async def handler(each: HostEvent) -> None:
        await go.wait()

    made = delivery(handler, limit=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.handle, event_key("s", "0"), event())
        await anyio.wait_all_tasks_blocked()
        assert await made.handle(KEY, event()) == EventAnswer(accepted=False, reason="queue_full")
        tasks.start_soon(made.handle, event_key("t", "0"), event(server="t"))
        await anyio.wait_all_tasks_blocked()
        go.set()


@pytest.mark.anyio
async def test_late_wakes_are_told_when_they_are_due() -> None:
    made = delivery()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.run)
            await anyio.wait_all_tasks_blocked()
            for number in range(3):
                made.enqueue(event_key("s", str(number)), event(Debounce(20)), 0)
            got = [await anext(made.queue) for _ in range(4)]
            tasks.cancel_scope.cancel()
    assert [each.wake for each in got] == [False, False, False, True]
    signal = got[-1]
    assert isinstance(signal, WakeSignal) and (signal.events, signal.tags) == (3, ("t:x",))


@pytest.mark.anyio
async def test_an_earlier_wake_moves_the_timer() -> None:
    now = [0.0]
    made = delivery(clock=lambda: now[0])
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.run)
            made.enqueue(event_key("s", "1"), event(Debounce(3_600_000)), 0)
            await anyio.wait_all_tasks_blocked()
            made.enqueue(event_key("t", "1"), event(Debounce(1), "t"), 0)
            now[0] = 1.0
            got = [await anext(made.queue) for _ in range(3)]
            tasks.cancel_scope.cancel()
    assert [(each.server, each.wake) for each in got] == [("s", False), ("t", False), ("t", True)]


@pytest.mark.anyio
async def test_handlers_get_late_wakes_and_what_they_raise_is_reported() -> None:
    reports: list[BaseException] = []
    told = anyio.Event()

    async def handler(each: HostEvent) -> None:
        if isinstance(each, WakeSignal):
            told.set()
            raise RuntimeError("no")

    made = delivery(handler, report=reports.append)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.run)
            await made.handle(KEY, event(Throttle(5)))
            await made.handle(event_key("s", "2"), event(Throttle(5)))
            await told.wait()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert [type(report) for report in reports] == [RuntimeError]


@pytest.mark.anyio
async def test_what_the_host_announces_is_delivered_and_never_raises() -> None:
    made = delivery(limit=1)
    made.enqueue(KEY, event(), 0)
    await made.announce(event(Mute()))
    assert [each.wake for each in (await anext(made.queue), await anext(made.queue))] == [True, False]
    reports: list[BaseException] = []

    def handler(each: HostEvent) -> None:
        raise RuntimeError("no")

    await delivery(handler, report=reports.append).announce(event())
    await delivery(handler).announce(event())
    assert len(reports) == 1


@pytest.mark.anyio
async def test_a_forgotten_server_is_not_woken_for() -> None:
    made = delivery()
    made.enqueue(KEY, event(Debounce(1)), 0)
    made.forget("s")
    assert made.scheduler.deadline() is None
