"""The queue of events."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from mcpl_core.host.events import EventQueue, HostEvent, ManifestReceipt, WakeSignal
from mcpl_core.manifest import Impact


def event(server: str = "s", *tags: str) -> HostEvent:
    return HostEvent(server=server, tags=tags)


def test_each_server_has_its_own_bound() -> None:
    queue = EventQueue(limit=2)
    assert [queue.put(event("loud")) for _ in range(4)] == [True, True, False, False]
    assert queue.put(event("quiet"))
    assert queue.refused == {"loud": 2}
    assert len(queue) == 3


def test_bytes_are_bounded_but_for_a_single_event() -> None:
    queue = EventQueue(max_bytes=100)
    assert queue.put(event(), 1000)
    assert not queue.put(event(), 1)
    assert queue.put(event("other"), 60)
    assert not queue.has_room("other", 41)
    assert queue.has_room("other", 40)


def test_the_host_speaks_of_a_server_that_filled_its_places() -> None:
    queue = EventQueue(limit=1)
    assert queue.put(event())
    assert [queue.put(event(), own=True) for _ in range(2)] == [True, False]


async def taken(queue: EventQueue, count: int) -> list[HostEvent]:
    return [await anext(queue) for _ in range(count)]


@pytest.mark.anyio
async def test_events_come_in_order_and_make_room() -> None:
    queue = EventQueue(limit=2, max_bytes=10)
    queue.put(event("s", "a:1"), 5)
    queue.put(event("t", "a:2"), 5)
    queue.put(event("s", "a:3"), 5)
    assert not queue.has_room("s")
    assert [each.tags for each in await taken(queue, 3)] == [("a:1",), ("a:2",), ("a:3",)]
    assert queue.has_room("s", 10)


@pytest.mark.anyio
async def test_a_taker_waits_and_each_event_goes_to_one() -> None:
    queue = EventQueue()
    got: list[HostEvent] = []

    async def take() -> None:
        got.append(await anext(queue))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            tasks.start_soon(take)
            await anyio.lowlevel.checkpoint()
            queue.put(event("a"))
            queue.put(event("b"))
    assert sorted(each.server for each in got) == ["a", "b"]


@pytest.mark.anyio
async def test_a_taker_that_is_cancelled_as_it_is_woken_loses_no_event() -> None:
    queue = EventQueue()
    got: list[HostEvent] = []

    async def take() -> None:
        got.extend([each async for each in queue])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()

            async def cancelled() -> None:
                with scope:
                    got.append(await anext(queue))

            tasks.start_soon(cancelled)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            queue.put(event())
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            queue.close()
    assert len(got) == 1


def test_a_task_that_asyncio_cancels_as_it_is_woken_hands_its_event_on() -> None:
    async def main() -> list[HostEvent]:
        queue = EventQueue()
        first, second = (asyncio.ensure_future(taken(queue, 1)) for _ in range(2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        queue.put(event())
        first.cancel()
        async with asyncio.timeout(5):
            got = await second
        assert first.cancelled()
        return got

    assert asyncio.run(main()) == [event()]


@pytest.mark.anyio
async def test_a_cancelled_taker_leaves_the_line() -> None:
    queue = EventQueue()
    with anyio.move_on_after(0):
        await anext(queue)
    queue.put(event())
    assert await anext(queue) == event()


@pytest.mark.anyio
async def test_closing_ends_the_iteration_after_what_is_left() -> None:
    queue = EventQueue()
    queue.put(event())
    queue.close()
    assert not queue.put(event())
    assert [each async for each in queue] == [event()]
    async with anyio.create_task_group() as tasks:
        other = EventQueue()

        async def drain() -> None:
            assert [each async for each in other] == []

        tasks.start_soon(drain)
        await anyio.wait_all_tasks_blocked()
        other.close()


def test_what_the_host_makes_has_a_text() -> None:
    receipt = ManifestReceipt(server="s", revision=None, impacts=(Impact("capability-revoked", "applied", "tools"),))
    assert receipt.text == "capability-revoked: tools (applied)"
    signal = WakeSignal(server="s", channel="c", events=3)
    assert (signal.text, signal.channel_id, receipt.channel_id) == ("", "c", None)
