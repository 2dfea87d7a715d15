"""Flow: who waits for whom, that memory stays bounded, and that nobody waits for each other without end."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcpl_core.connection import McplConnection
from mcpl_core.dispatch import Handlers, Router
from mcpl_core.errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    MethodNotFound,
    QueueOverflowError,
    TransportError,
)
from mcpl_core.inbox import InboxLimits
from mcpl_core.transports.base import WRITE_HIGH_WATER
from mcpl_core.transports.memory import MemoryTransport, ScriptedTransport
from mcpl_core.wire.messages import Request

pytestmark = pytest.mark.anyio

SMALL = InboxLimits(high_messages=4, high_bytes=100_000, hard_messages=40, hard_bytes=1_000_000)


def paused(transport: ScriptedTransport) -> bool:
    """As a call, so that the type checker does not take it for unchanging."""
    return transport.paused


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await checkpoint()


def notes(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"jsonrpc": "2.0", "method": "n", "params": [number]} for number in range(start, start + count)]


@asynccontextmanager
async def scripted(**options: Any) -> AsyncIterator[tuple[McplConnection, ScriptedTransport]]:
    transport = ScriptedTransport()
    with anyio.fail_after(5):
        async with McplConnection(transport, **options) as connection:
            await turns(3)
            yield connection, transport


@asynccontextmanager
async def pair(**options: Any) -> AsyncIterator[tuple[McplConnection, McplConnection]]:
    left, right = McplConnection.memory_pair(**options)
    with anyio.fail_after(20):
        async with left, right:
            yield left, right


# ---------------------------------------------------------------------------------------- reading


async def test_reading_stops_when_enough_is_unread_and_goes_on_when_half_of_it_was_taken() -> None:
    async with scripted(limits=SMALL) as (connection, transport):
        transport.feed(*notes(4))
        assert paused(transport)
        transport.feed(*notes(10, start=4))
        await turns()
        assert connection.stats.queued == 4
        received = [(await connection.next_message()).params[0]]
        assert paused(transport)
        received.append((await connection.next_message()).params[0])
        assert not paused(transport)
        await turns()
        assert paused(transport)
        while len(received) < 14:
            received.append((await connection.next_message()).params[0])
        assert received == list(range(14))


async def test_while_a_reply_is_awaited_reading_goes_on() -> None:
    async with scripted(limits=SMALL) as (connection, transport):
        transport.feed(*notes(5))
        assert paused(transport)
        results: list[Any] = []

        async def request() -> None:
            results.append(await connection.send_request("m"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await turns()
            assert not paused(transport)
            # The reply is behind what is not read yet.
            transport.feed(*notes(10))
            transport.feed({"jsonrpc": "2.0", "id": 1, "result": "reply"})
        assert results == ["reply"]
        assert connection.stats.queued == 15
        assert paused(transport)


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_a_request_that_was_given_up_holds_reading_open_no_longer(how: str) -> None:
    async with scripted(limits=SMALL) as (connection, transport):
        transport.feed(*notes(5))
        with anyio.move_on_after(0.001 if how == "cancelled" else 5):
            try:
                await connection.send_request("m", timeout=0.001 if how == "timed out" else 5)
            except Exception:
                assert how == "timed out"
        assert paused(transport)


async def test_past_the_hard_limit_it_closes_and_says_what_filled_the_queue() -> None:
    async with scripted(limits=SMALL) as (connection, transport):
        outcomes: list[str | None] = []

        async def request() -> None:
            with pytest.raises(ConnectionClosedError) as caught:
                await connection.send_request("m")
            outcomes.append(caught.value.outcome)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await turns()
            transport.feed(*notes(50))
        error = connection.close_reason
        assert isinstance(error, QueueOverflowError)
        assert (error.messages, error.method, outcomes) == (40, "n", ["no-response"])
        # What came before can still be read.
        assert [message.params[0] async for message in connection] == list(range(40))


async def test_or_what_nobody_reads_is_dropped_and_counted() -> None:
    async with scripted(limits=SMALL, discard_unread=True) as (connection, transport):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.send_request, "m")
            await turns()
            transport.feed(*notes(50), {"jsonrpc": "2.0", "id": 1, "result": None})
        assert (connection.stats.discarded, connection.stats.queued, connection.is_closed) == (10, 40, False)


async def test_one_message_over_the_hard_limit_is_taken() -> None:
    async with scripted(limits=InboxLimits(10, 100, 20, 200)) as (connection, transport):
        transport.feed({"jsonrpc": "2.0", "method": "big", "params": ["x" * 1000]})
        assert (await connection.next_message()).method == "big"


# ---------------------------------------------------------------------------------------- writing


async def test_senders_wait_while_the_transport_is_behind() -> None:
    async with scripted() as (connection, transport):
        transport.stalled = True
        transport.feed({"jsonrpc": "2.0", "id": 1, "method": "r"}, {"jsonrpc": "2.0", "id": 2, "method": "r"})
        done: list[str] = []

        async def wait(name: str, call: Any) -> None:
            await call
            done.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, "notification", connection.send_notification("n"))
            tasks.start_soon(wait, "response", connection.send_response(1, None))
            tasks.start_soon(wait, "error", connection.send_error(2, 1, "x"))
            await turns()
            # Handed over at once; then they wait.
            assert (len(transport.sent), done) == (3, [])
            transport.release()
        assert sorted(done) == ["error", "notification", "response"]


async def test_a_request_waits_for_its_answer_only() -> None:
    async with scripted() as (connection, transport):
        transport.stalled = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.send_request, "m")
            await turns()
            transport.feed({"jsonrpc": "2.0", "id": 1, "result": None})


async def test_a_stalled_peer_costs_a_waiting_sender_no_memory() -> None:
    """200 MB for a peer whose application reads nothing."""
    payload = "x" * 100_000
    async with pair() as (left, right):
        sent = 0

        async def send() -> None:
            nonlocal sent
            for _ in range(2_000):
                await left.send_notification("n", [payload])
                sent += 1

        tracemalloc.start()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send)
                for _ in range(1_000):
                    await checkpoint()
                _, peak = tracemalloc.get_traced_memory()
                stalled_at = sent
                queued = right.stats.queued_bytes
                tasks.cancel_scope.cancel()
        finally:
            tracemalloc.stop()
        limits = InboxLimits()
        assert limits.high_bytes <= queued <= limits.high_bytes + 2 * WRITE_HIGH_WATER
        assert stalled_at < 200
        # Each queued message is one copy, of which the encoder allocates up to half as much again.
        assert peak < 1.5 * queued + 10 * WRITE_HIGH_WATER
        received = 0
        while received < stalled_at:
            await right.next_message()
            received += 1


@pytest.mark.parametrize("how", ["cancelled", "timed out", "notification"])
async def test_who_gives_up_again_and_again_fills_no_memory(how: str) -> None:
    async with scripted(limits=InboxLimits(hard_bytes=5_000)) as (connection, transport):
        connection.on_error(lambda error: None)
        transport.stalled = True
        for _ in range(10):
            with anyio.move_on_after(0.001), suppress(ConnectionClosedError, ConnectionTimeoutError):
                if how == "notification":
                    await connection.send_notification("m", ["x" * 1_000])
                else:
                    timeout = 0.0005 if how == "timed out" else 5
                    await connection.send_request("m", ["x" * 1_000], timeout=timeout)
        assert isinstance(connection.close_reason, TransportError)
        # Answers and cancellations included.
        assert sum(map(len, transport.sent)) < 7_000


async def test_a_request_that_was_refused_was_read() -> None:
    async with scripted(limits=InboxLimits(hard_bytes=1_000)) as (connection, transport):
        transport.stalled = True

        async def request() -> None:
            with pytest.raises(MethodNotFound):
                await connection.send_request("m", ["x" * 2_000])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await turns()
            transport.feed({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}})
        assert not connection.is_closed


async def test_a_sender_goes_on_when_the_peer_reads_again() -> None:
    async with pair(limits=SMALL) as (left, right):
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                for number in range(300):
                    await left.send_notification("n", [number, "x" * 10_000])

            tasks.start_soon(send)
            await turns(100)
            assert left.stats.sent < 100
            numbers = [(await right.next_message()).params[0] for _ in range(300)]
        assert numbers == list(range(300))


# ---------------------------------------------------------------------------------------- no deadlock


async def test_peers_that_call_each_other_recursively() -> None:
    async with pair() as (left, right), anyio.create_task_group() as tasks:

        def router(me: McplConnection) -> Handlers:
            async def count_down(message: Request) -> list[int]:
                number = message.params[0]
                if number == 0:
                    return [0]
                return [number, *await me.send_request("count_down", [number - 1])]

            return {"count_down": count_down}

        tasks.start_soon(left.serve, router(left))
        tasks.start_soon(right.serve, router(right))
        assert await left.send_request("count_down", [50]) == list(range(50, -1, -1))
        await left.aclose()


async def test_a_handler_that_waits_for_the_peer_while_the_queue_is_full() -> None:
    """All handlers wait for replies, and those are behind more than the queue takes before it stops reading."""
    async with pair(limits=SMALL) as (left, right), anyio.create_task_group() as tasks:

        async def ask_back(message: Request) -> int:
            answer: int = await right.send_request("double", message.params)
            return answer

        tasks.start_soon(lambda: right.serve({"m": ask_back, "n": lambda message: None}, limit=2))
        tasks.start_soon(left.serve, {"double": lambda message: message.params[0] * 2})
        results: dict[int, int] = {}

        async def request(number: int) -> None:
            results[number] = await left.send_request("m", [number])

        async with anyio.create_task_group() as requests:
            for number in range(20):
                requests.start_soon(request, number)
        assert results == {number: number * 2 for number in range(20)}
        await left.aclose()


async def test_both_flood_each_other_and_answer_at_once() -> None:
    router = Router()
    router.add("echo", lambda message: message.params, inline=True)
    async with pair() as (left, right), anyio.create_task_group() as tasks:
        tasks.start_soon(left.serve, router)
        tasks.start_soon(right.serve, router)
        answered = 0

        async def flood(connection: McplConnection) -> None:
            nonlocal answered
            for number in range(50):
                payload = [number, "x" * 5_000]
                assert await connection.send_request("echo", payload) == payload
                answered += 1

        async with anyio.create_task_group() as floods:
            for _ in range(20):
                floods.start_soon(flood, left)
                floods.start_soon(flood, right)
        assert answered == 2_000
        await left.aclose()


async def test_a_peer_that_floods_requests_and_reads_no_answers_is_stopped() -> None:
    """Inline answers cannot wait: reading stops until the peer takes them."""
    router = Router()
    router.add("ping", lambda message: "x" * 1_000, inline=True)
    async with pair() as (left, right), anyio.create_task_group() as tasks:
        tasks.start_soon(right.serve, router)
        assert isinstance(left.transport, MemoryTransport)
        left.transport.pause_reading()
        for id in range(20_000):
            left.transport.write(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % id)
            if id % 100 == 0:
                await turns(2)
        await turns()
        assert right.stats.sent < 1_000
        assert not right.is_closed
        left.transport.resume_reading()
        while right.stats.sent < 20_000:
            await checkpoint()
        tasks.cancel_scope.cancel()
