"""The way out: who waits when the transport is behind, and what those may write who cannot wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from mcpl_core.errors import TransportError
from mcpl_core.outlet import TURN, Outlet
from mcpl_core.transports.loop import EventLoop, current_loop
from mcpl_core.transports.memory import ScriptedTransport

pytestmark = pytest.mark.anyio


class Sink:
    """Takes what nobody should push here."""

    def __getattr__(self, name: str) -> None:
        raise AssertionError(name)


class Out:
    """An outlet over a scripted transport, and what it told."""

    def __init__(self, loop: EventLoop, hard_bytes: int = 10) -> None:
        self.transport = ScriptedTransport()
        self.failures: list[TransportError] = []
        self.reliefs = 0
        self.outlet = Outlet(self.transport, hard_bytes, self._failed, self._relieved)
        self.loop = loop

    async def send(self, text: bytes) -> None:
        """What a connection does with a text that somebody may wait for."""
        if self.outlet.write(text):
            await self.outlet.rest(len(text))

    def _failed(self, error: TransportError) -> None:
        self.failures.append(error)

    def _relieved(self) -> None:
        self.reliefs += 1


@asynccontextmanager
async def started() -> AsyncIterator[Out]:
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            out = Out(current_loop(tasks))
            await out.transport.start(Sink(), out.loop)  # type: ignore[arg-type]
            out.outlet.start(out.loop)
            yield out
            tasks.cancel_scope.cancel()


async def test_texts_go_out_in_order_and_are_counted() -> None:
    async with started() as out:
        out.outlet.write(b"1")
        await out.send(b"2")
        out.outlet.push(b"3")
        assert out.transport.sent == [b"1", b"2", b"3"]
        assert (out.outlet.sent, out.outlet.pushed) == (3, 0)


async def test_before_the_start_nobody_waits() -> None:
    async with anyio.create_task_group() as tasks:
        out = Out(current_loop(tasks))
        out.transport.stalled = True
        out.outlet.push(b"1")
        await out.outlet.caught_up()
        out.outlet.release()
        assert out.transport.sent == [b"1"]


async def test_a_sender_hands_over_at_once_and_waits_until_the_transport_caught_up() -> None:
    async with started() as out:
        out.transport.stalled = True
        done: list[bytes] = []

        async def send(text: bytes) -> None:
            await out.send(text)
            done.append(text)

        async with anyio.create_task_group() as tasks:
            for text in (b"1", b"2", b"3"):
                tasks.start_soon(send, text)
            await anyio.wait_all_tasks_blocked()
            assert sorted(out.transport.sent) == [b"1", b"2", b"3"]
            assert done == []
            out.transport.release()
        assert sorted(done) == [b"1", b"2", b"3"]


async def test_one_task_watches_for_all_and_again_the_next_time() -> None:
    async with started() as out:
        drains = 0
        drain = out.transport.drain

        async def counted() -> None:
            nonlocal drains
            drains += 1
            await drain()

        out.transport.drain = counted  # type: ignore[method-assign]
        for expected in (1, 2):
            out.transport.stalled = True
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(out.send, b"x")
                await anyio.wait_all_tasks_blocked()
                out.transport.release()
            assert drains == expected


def test_so_it_is_where_nobody_said_which_library_runs() -> None:
    """In a callback of the application's under ``asyncio.run`` AnyIO begins no task by itself."""

    async def main() -> None:
        async with started() as out:
            out.transport.stalled = True
            asyncio.get_running_loop().call_soon(out.outlet.push, b"1")
            await anyio.wait_all_tasks_blocked()
            assert out.outlet.pushed == 1
            out.transport.release()
            await anyio.wait_all_tasks_blocked()
            assert (out.outlet.pushed, out.reliefs) == (0, 1)

    asyncio.run(main())


async def test_release_lets_senders_go_though_the_transport_is_behind() -> None:
    async with started() as out:
        out.transport.stalled = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(out.send, b"x")
            await anyio.wait_all_tasks_blocked()
            out.outlet.release()
        assert out.transport.stalled


async def test_a_transport_that_fails_while_it_drains_lets_senders_go() -> None:
    async def broken() -> None:
        raise KeyError("a bug of the transport")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with started() as out:
            out.transport.stalled = True
            out.transport.drain = broken  # type: ignore[method-assign]
            with anyio.CancelScope(shield=True):
                await out.send(b"x")
    assert caught.group_contains(KeyError)


async def test_what_is_pushed_while_the_transport_is_behind_is_counted_until_it_caught_up() -> None:
    async with started() as out:
        out.transport.stalled = True
        out.outlet.push(b"12345")
        out.outlet.push(b"6789")
        assert (out.outlet.pushed, out.reliefs) == (9, 0)
        await anyio.wait_all_tasks_blocked()
        out.transport.release()
        await anyio.wait_all_tasks_blocked()
        assert (out.outlet.pushed, out.reliefs, out.failures) == (0, 1, [])
        out.outlet.release()
        assert out.reliefs == 1


async def test_more_than_that_closes() -> None:
    async with started() as out:
        out.transport.stalled = True
        out.outlet.push(b"1234567890")
        assert out.failures == []
        out.outlet.push(b"x")
        assert [type(error) for error in out.failures] == [TransportError]
        assert out.outlet.pushed == 11


async def test_what_was_given_up_while_the_transport_is_behind_counts_too() -> None:
    async with started() as out:
        out.transport.stalled = True
        with anyio.move_on_after(0):
            await out.send(b"12345")
        out.outlet.give_up(5)
        assert (out.failures, out.outlet.pushed) == ([], 0)
        out.outlet.push(b"x")
        assert [type(error) for error in out.failures] == [TransportError]


async def test_what_was_given_up_is_forgotten_when_the_transport_caught_up() -> None:
    async with started() as out:
        out.outlet.give_up(1000)
        for _ in range(3):
            out.transport.stalled = True
            out.outlet.give_up(8)
            await anyio.wait_all_tasks_blocked()
            out.transport.release()
            await anyio.wait_all_tasks_blocked()
        assert (out.failures, out.reliefs) == ([], 0)


async def test_a_sender_that_never_waits_gives_others_their_turn() -> None:
    async with started() as out:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            for _ in range(10 * TURN):
                await out.send(b"x")
            tasks.cancel_scope.cancel()
        assert turns >= 8


async def test_cancelling_a_sender_that_waits_leaves_its_text_sent() -> None:
    async with started() as out:
        out.transport.stalled = True
        with anyio.move_on_after(0):
            await out.send(b"x")
        assert out.transport.sent == [b"x"]
        out.transport.release()
        await out.send(b"y")
        assert out.transport.sent == [b"x", b"y"]
