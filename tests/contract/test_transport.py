"""What every transport owes to a connection on top of it, on every event loop.

One suite over the rows of ``links.LINKS``; the far side does what it is told over the wire (``peer.Peer``).
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from msgspec import Raw

from mcpl_core.errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    MalformedMessageError,
    MessageTooLargeError,
    MethodNotFound,
    TransportError,
)
from mcpl_core.inbox import InboxLimits
from mcpl_core.transports.base import WRITE_HIGH_WATER
from tests.contract.links import LINKS, Link, Row
from tests.transports.recording import open_descriptors

pytestmark = pytest.mark.anyio

#: Seconds after which a test that waits has failed.
LIMIT = 20.0

UNICODE = "a\u2028b\u2029c\x85d\ve\ff \U0001f600 \u0000 \ud83d \r\n \ufeff end"


def backend_name(anyio_backend: tuple[str, dict[str, Any]]) -> str:
    return "uvloop" if anyio_backend[1].get("use_uvloop") else anyio_backend[0]


@pytest.fixture(params=LINKS)
def row(request: pytest.FixtureRequest, anyio_backend: tuple[str, dict[str, Any]]) -> Row:
    row = LINKS[request.param]
    if backend_name(anyio_backend) not in row.backends:
        pytest.skip("not on this event loop")
    return row


@pytest.fixture(autouse=True)
async def nothing_is_left(anyio_backend: tuple[str, dict[str, Any]]) -> AsyncIterator[None]:
    """No descriptor and no task is there after a test that was not there before."""
    descriptors, tasks = open_descriptors(), living_tasks(anyio_backend)
    yield
    for _ in range(5):
        await checkpoint()
    gc.collect()
    left = open_descriptors() - descriptors
    if backend_name(anyio_backend) == "uvloop":
        # libuv keeps one in reserve, from its first stream on.
        left -= Counter({"/dev/null": 1})
    assert left == Counter()
    assert living_tasks(anyio_backend) <= tasks


def living_tasks(anyio_backend: tuple[str, dict[str, Any]]) -> int:
    if anyio_backend[0] == "trio":
        import trio

        # The threads of a process-wide cache do not count; they are no tasks.
        return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())


@asynccontextmanager
async def open_link(row: Row, **options: Any) -> AsyncIterator[Link]:
    with anyio.fail_after(LIMIT):
        async with row.factory(**options) as link:
            yield link


async def collected(link: Link) -> list[Any]:
    result: list[Any] = await link.near.send_request("collected")
    return result


# ---------------------------------------------------------------------------------------- messages


async def test_both_directions(row: Row) -> None:
    async with open_link(row) as link, anyio.create_task_group() as tasks:
        assert await link.near.send_request("echo", {"a": [1, None, True, 1.5, "x"]}) == {
            "a": [1, None, True, 1.5, "x"]
        }
        with pytest.raises(MethodNotFound):
            await link.near.send_request("no/such")
        tasks.start_soon(link.near.serve, {"double": lambda message: message.params[0] * 2})
        assert await link.near.send_request("ask_back", ["double", [21]]) == 42
        await link.near.aclose()


async def test_many_requests_at_once_both_ways(row: Row) -> None:
    async with open_link(row) as link, anyio.create_task_group() as tasks:
        tasks.start_soon(link.near.serve, {"double": lambda message: message.params[0] * 2})
        results: dict[int, Any] = {}

        async def ask(number: int) -> None:
            if number % 2:
                results[number] = await link.near.send_request("ask_back", ["double", [number]])
            else:
                results[number] = (await link.near.send_request("echo", [number]))[0] * 2

        async with anyio.create_task_group() as requests:
            for number in range(200):
                requests.start_soon(ask, number)
        assert results == {number: number * 2 for number in range(200)}
        await link.near.aclose()


async def test_a_thousand_messages_from_concurrent_senders_arrive_whole_and_in_order(row: Row) -> None:
    async with open_link(row) as link:

        async def send(sender: int) -> None:
            for number in range(250):
                await link.near.send_notification("collect", [sender, number, "x" * (number % 50)])

        async with anyio.create_task_group() as tasks:
            for sender in range(4):
                tasks.start_soon(send, sender)
        arrived = await collected(link)
        assert len(arrived) == 1000
        for sender in range(4):
            assert [item[1:] for item in arrived if item[0] == sender] == [[n, "x" * (n % 50)] for n in range(250)]


async def test_and_back(row: Row) -> None:
    async with open_link(row) as link:
        await link.near.send_notification("flood", [4, 250, 20])
        arrived = [(await link.near.next_message()).params for _ in range(1000)]
        for sender in range(4):
            assert [item[1:] for item in arrived if item[0] == sender] == [[n, "x" * 20] for n in range(250)]


async def test_a_large_message_both_ways(row: Row) -> None:
    text = "0123456789abcdef" * (1024 * 1024 // 16)
    async with open_link(row) as link:
        assert await link.near.send_request("echo", [text]) == [text]
        # Small ones overtake nothing.
        for number in range(5):
            await link.near.send_notification("collect", [number, text if number % 2 else ""])
        assert await link.near.send_request("numbers") == [0, 1, 2, 3, 4]


async def test_every_character_arrives_as_it_is(row: Row) -> None:
    async with open_link(row) as link:
        assert await link.near.send_request("echo", {UNICODE: UNICODE}) == {UNICODE: UNICODE}


async def test_newlines_between_the_tokens_of_a_message(row: Row) -> None:
    async with open_link(row) as link:
        pretty = Raw(b'{\n  "a": [\r\n    1,\n    2\n  ],\n  "text": "one\\ntwo"\n}')
        await link.near.send_notification("collect", pretty)
        assert await collected(link) == [{"a": [1, 2], "text": "one\ntwo"}]


# ---------------------------------------------------------------------------------------- limits


async def test_a_message_over_the_limit_is_not_sent(row: Row) -> None:
    async with open_link(row, max_message_bytes=10_000) as link:
        sent = link.near.stats.sent
        for call in (
            link.near.send_request("echo", ["x" * 10_000]),
            link.near.send_notification("collect", ["x" * 10_000]),
        ):
            with pytest.raises(MessageTooLargeError):
                await call
        assert link.near.stats.sent == sent
        assert await link.near.send_request("echo", ["x" * 9_000]) == ["x" * 9_000]


async def test_a_message_over_the_limit_that_comes_in(row: Row) -> None:
    async with open_link(row, max_message_bytes=10_000) as link:
        errors: list[BaseException] = []
        link.near.on_error(errors.append)
        await link.near.send_notification("flood", [1, 1, 5_000])
        assert len((await link.near.next_message()).params[2]) == 5_000
        await link.near.send_notification("flood", [1, 1, 50_000])
        await link.near.send_notification("flood", [1, 1, 6_000])
        if row.skips_oversize:
            assert len((await link.near.next_message()).params[2]) == 6_000
            assert await link.near.send_request("echo", [1]) == [1]
            assert [getattr(error, "kind", error) for error in errors] == ["too-long"]
        else:
            with pytest.raises(ConnectionClosedError):
                await link.near.next_message()
            assert getattr(link.near.close_reason, "close_code", None) == 1009
            assert errors[-1] is link.near.close_reason


async def test_what_is_no_message_is_reported_and_those_behind_it_arrive(row: Row) -> None:
    async with open_link(row) as link:
        errors: list[BaseException] = []
        link.near.on_error(errors.append)
        await link.near.send_request("raw", ["Welcome to my server!"])
        await link.near.send_request("raw", ["[1]"])
        await link.near.send_notification("flood", [1, 1, 3])
        assert (await link.near.next_message()).params == [0, 0, "xxx"]
        assert [error.kind for error in errors if isinstance(error, MalformedMessageError)] == ["not-json", "batch"]
        link.near.transport.write(b'{"neither": "JSON", nor')
        await link.near.send_notification("collect", ["behind"])
        assert await collected(link) == [["behind"]]
        # The batch was answered once, by an error without an id; it was reported there, and not answered again.
        assert await link.near.send_request("errors") == ["InvalidRequest", "not-json"]
        assert not link.near.is_closed


# ---------------------------------------------------------------------------------------- flow


async def test_a_sender_waits_while_the_far_side_reads_nothing(row: Row) -> None:
    async with open_link(row) as link:
        await link.near.send_request("echo", [])
        link.stall()
        done: list[int] = []

        async def send() -> None:
            for number in range(400):
                await link.near.send_notification("collect", [number, "x" * 50_000])
                done.append(number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            while not link.near.transport.behind:
                await checkpoint()
            # A sender that did not wait would come to its end here.
            await anyio.wait_all_tasks_blocked()
            # 20 MB were to be sent; what fits is what the transport holds, and what its carrier does.
            assert len(done) < 200
            link.resume()
        assert await link.near.send_request("numbers") == list(range(400))


async def test_reading_stops_while_nobody_takes(row: Row) -> None:
    limits = InboxLimits(high_messages=10_000, high_bytes=200_000, hard_messages=10_000, hard_bytes=100_000_000)
    async with open_link(row, limits=limits) as link:
        await link.near.send_notification("flood", [1, 400, 50_000])
        while link.near.stats.queued_bytes < 200_000:
            await checkpoint()
        most, numbers = 0, []
        for _ in range(400):
            # Turns enough for several reads: without a pause the 20 MB would pile up.
            for _ in range(20):
                await checkpoint()
            most = max(most, link.near.stats.queued_bytes)
            numbers.append((await link.near.next_message()).params[1])
        # Past the mark by no more than one read of the carrier brought.
        assert 200_000 <= most <= 200_000 + 2 * WRITE_HIGH_WATER
        assert numbers == list(range(400))
        assert await link.near.send_request("echo", [1]) == [1]


# ---------------------------------------------------------------------------------------- requests


async def test_timeouts_and_cancelling_reach_the_far_side(row: Row) -> None:
    async with open_link(row) as link:
        # Once more where the far side was late: a request that is taken back before it is handled never is.
        while await link.near.send_request("cancelled") < 1:
            with pytest.raises(ConnectionTimeoutError):
                await link.near.send_request("hang", timeout=0.02)
        before = await link.near.send_request("cancelled")
        while await link.near.send_request("cancelled") <= before:
            with anyio.move_on_after(0.02):
                await link.near.send_request("hang")
        assert (link.near.stats.pending, link.near.stats.stray) == (0, 0)


# ---------------------------------------------------------------------------------------- the end


async def test_closing_sends_what_was_handed_over_before(row: Row) -> None:
    async with open_link(row) as link:
        await link.near.send_request("echo", [])
        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(link.near.send_notification, "collect", [number, "x" * 1_000])
        await link.near.aclose()
        assert link.near.is_closed
        assert link.near.close_reason is None
        assert await link.ended() == 100


async def test_when_the_far_side_closes_iteration_ends_after_what_came_before(row: Row) -> None:
    async with open_link(row) as link:
        errors: list[BaseException] = []
        link.near.on_error(errors.append)
        await link.near.send_notification("flood", [1, 50, 10])
        first = await link.near.next_message()
        await link.near.send_notification("close")
        numbers = [first.params[1]] + [message.params[1] async for message in link.near]
        assert numbers == list(range(50))
        assert link.near.is_closed
        assert (errors, link.near.close_reason) == ([], None)
        with pytest.raises(ConnectionClosedError) as caught:
            await link.near.send_request("echo")
        assert caught.value.outcome == "not-sent"
        await link.near.send_notification("collect")
        await link.ended()


async def test_when_the_far_side_vanishes_who_waits_learns_of_it(row: Row) -> None:
    async with open_link(row) as link:
        log: list[Any] = []
        link.near.on_error(log.append)
        link.near.on_close(lambda: log.append("close"))
        await link.near.send_request("echo", [])
        async with anyio.create_task_group() as tasks:

            async def hang() -> None:
                with pytest.raises(ConnectionClosedError) as caught:
                    await link.near.send_request("hang", timeout=None)
                assert caught.value.outcome == "no-response"

            tasks.start_soon(hang)
            tasks.start_soon(hang)
            await anyio.wait_all_tasks_blocked()
            link.vanish()
            assert [message async for message in link.near] == []
        assert link.near.is_closed
        reason = link.near.close_reason
        assert reason is None or isinstance(reason, TransportError)
        assert log == ([] if reason is None else [reason]) + ["close"]


async def test_when_the_far_side_vanishes_handlers_that_run_are_cancelled(row: Row) -> None:
    async with open_link(row) as link:
        started, cancelled = anyio.Event(), anyio.Event()

        async def hang(message: object) -> None:
            try:
                started.set()
                await anyio.sleep_forever()
            finally:
                cancelled.set()

        async with anyio.create_task_group() as tasks:
            # It asks us, and we are to ask it: whatever waits on either side must come to its end.
            tasks.start_soon(link.near.send_notification, "ask_back", ["hang", []])
            tasks.start_soon(lambda: link.near.serve({"hang": hang}, grace=0.05))
            await started.wait()
            link.vanish()
        assert cancelled.is_set()
        assert link.near.is_closed


async def test_our_half_close(row: Row) -> None:
    """The far side still answers what it has accepted, where the carrier can do that."""
    async with open_link(row) as link:
        outcomes: list[Any] = []

        async def ask(number: int) -> None:
            try:
                outcomes.append(await link.near.send_request("echo_later", [number]))
            except ConnectionClosedError as error:
                outcomes.append(error.outcome)

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(ask, number)
            await checkpoint()
            await checkpoint()
            await link.near.send_eof()
            assert not link.near.is_closed
            await link.near.send_notification("collect", ["after the end"])
            assert [message async for message in link.near] == []
        assert len(outcomes) == 3
        if row.half_close:
            assert sorted(outcomes) == [[0], [1], [2]]
        assert await link.ended() == 0


async def test_the_far_sides_half_close(row: Row) -> None:
    if not row.far_half_close:
        pytest.skip("its carrier cannot")
    async with open_link(row) as link:
        errors: list[BaseException] = []
        link.near.on_error(errors.append)
        await link.near.send_notification("flood", [1, 5, 10])
        first = await link.near.next_message()
        await link.near.send_notification("half_close")
        assert [first.params[1]] + [message.params[1] async for message in link.near] == [0, 1, 2, 3, 4]
        assert (link.near.is_closed, link.near.close_reason, errors) == (True, None, [])


async def test_leaving_by_cancellation_waits_for_nobody(row: Row) -> None:
    """The far side reads nothing, and much is still to be sent."""
    with anyio.fail_after(LIMIT):
        with anyio.CancelScope() as scope:
            async with row.factory() as link:
                await link.near.send_request("echo", [])
                link.stall()
                with anyio.move_on_after(0.05):
                    while True:
                        await link.near.send_notification("collect", ["x" * 100_000])
                scope.cancel()
                await checkpoint()
        assert scope.cancelled_caught
        assert link.near.is_closed


async def test_closing_is_bounded_though_the_far_side_reads_nothing(row: Row) -> None:
    async with open_link(row, **row.hasty) as link:
        await link.near.send_request("echo", [])
        link.near.transport.close_timeout = 0.05
        link.stall()
        with anyio.move_on_after(0.05):
            while True:
                await link.near.send_notification("collect", ["x" * 100_000])
        await link.near.aclose()
        assert link.near.is_closed
        link.resume()


@pytest.mark.parametrize("both", [False, True], ids=["near", "both"])
async def test_opened_and_closed_by_other_tasks_again_and_again(row: Row, both: bool) -> None:
    rounds = 3 if row is LINKS["child over stdio"] else 20
    for _ in range(rounds):
        async with open_link(row) as link:
            async with anyio.create_task_group() as tasks:
                if both:
                    tasks.start_soon(link.near.send_notification, "close")
                for _ in range(2):
                    tasks.start_soon(link.near.aclose)
                async for _ in link.near:
                    pass
            assert link.near.is_closed


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which descriptors are open")
def test_the_check_for_leaks_sees_one() -> None:
    before = open_descriptors()
    with open(__file__, "rb"):
        assert sum((open_descriptors() - before).values()) == 1
