"""The pair in memory and the scripted transport, without a connection on top."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcpl_core.errors import LocalProtocolError, MalformedMessageError, TransportError
from mcpl_core.transports.base import WRITE_HIGH_WATER, Transport
from mcpl_core.transports.memory import MemoryTransport, ScriptedTransport, memory_transports
from tests.transports.recording import running

pytestmark = pytest.mark.anyio


class Recorder:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.log: list[object] = []
        self.news = anyio.Event()

    def _tell(self, what: object) -> None:
        self.log.append(what)
        self.news.set()

    def messages_received(self, messages: list[bytes]) -> None:
        self._tell(messages)

    def message_malformed(self, error: MalformedMessageError) -> None:
        self._tell((error.kind, error.excerpt))

    def input_ended(self, error: TransportError | None) -> None:
        self._tell(("input ended", error))

    def output_failed(self, error: TransportError | None) -> None:
        self._tell(("output failed", error))

    async def until(self, count: int) -> list[object]:
        while len(self.log) < count:
            self.news = anyio.Event()
            await self.news.wait()
        return self.log


@asynccontextmanager
async def pair(
    **options: int,
) -> AsyncIterator[tuple[MemoryTransport, Recorder, MemoryTransport, Recorder]]:
    async with running() as loop:
        left, right = memory_transports(**options)
        at_left, at_right = Recorder(), Recorder()
        await left.start(at_left, loop)
        await right.start(at_right, loop)
        yield left, at_left, right, at_right


def behind(transport: Transport) -> bool:
    """As a call, so that the type checker does not take it for unchanging."""
    return transport.behind


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await checkpoint()
    await anyio.wait_all_tasks_blocked()


# ---------------------------------------------------------------------------------------- memory


async def test_messages_go_both_ways_in_a_later_turn_and_in_order() -> None:
    async with pair() as (left, at_left, right, at_right):
        left.write(b"1")
        left.write(b"2")
        right.write(b"3")
        assert (at_left.log, at_right.log) == ([], [])
        assert await at_right.until(1) == [[b"1", b"2"]]
        assert await at_left.until(1) == [[b"3"]]
        left.write(b"4")
        assert await at_right.until(2) == [[b"1", b"2"], [b"4"]]


async def test_what_was_written_before_the_other_end_started_arrives() -> None:
    async with running() as loop:
        left, right = memory_transports()
        await left.start(Recorder(), loop)
        left.write(b"early")
        await left.send_eof()
        await turns()
        at_right = Recorder()
        await right.start(at_right, loop)
        assert at_right.log == []
        assert await at_right.until(2) == [[b"early"], ("input ended", None)]


async def test_a_message_that_is_too_long_is_reported_and_those_behind_it_arrive() -> None:
    async with pair(max_message_bytes=4) as (left, _, _, at_right):
        left.write(b"1234")
        left.write(b"12345")
        left.write(b"6")
        assert await at_right.until(2) == [("too-long", b"12345"), [b"1234", b"6"]]
        left.write(b"too long again")
        assert (await at_right.until(3))[2:] == [("too-long", b"too long again")]


async def test_half_close() -> None:
    async with pair() as (left, at_left, right, at_right):
        left.write(b"last")
        await left.send_eof()
        await left.send_eof()
        left.write(b"after the end")
        assert await at_right.until(2) == [[b"last"], ("input ended", None)]
        right.write(b"answer")
        assert await at_left.until(1) == [[b"answer"]]
        await turns()
        assert (len(at_left.log), len(at_right.log)) == (1, 2)


async def test_closing_ends_the_other_input_after_what_was_written() -> None:
    async with pair() as (left, at_left, right, at_right):
        right.write(b"lost")
        left.write(b"kept")
        await left.aclose()
        assert await at_right.until(2) == [[b"kept"], ("input ended", None)]
        await left.aclose()
        await turns()
        assert at_left.log == []
        assert len(at_right.log) == 2


async def test_writing_to_an_end_that_is_closed_fails_the_output_once() -> None:
    async with pair() as (left, at_left, right, _):
        await right.aclose()
        left.write(b"1")
        left.write(b"2")
        assert not behind(left)
        assert set(await at_left.until(2)) == {("input ended", None), ("output failed", None)}
        left.write(b"3")
        await turns()
        assert len(at_left.log) == 2


async def test_a_failed_output_is_not_told_after_closing() -> None:
    async with pair() as (left, at_left, right, _):
        await right.aclose()
        left.write(b"1")
        await left.aclose()
        await turns()
        assert at_left.log == []


async def test_both_closed() -> None:
    async with pair() as (left, at_left, right, at_right):
        await left.aclose()
        await right.aclose()
        await turns()
        assert (at_left.log, at_right.log) == ([], [])


async def test_a_paused_end_gets_nothing_until_it_resumes() -> None:
    async with pair() as (left, _, right, at_right):
        left.write(b"scheduled")
        right.pause_reading()
        right.pause_reading()
        left.write(b"1")
        await left.send_eof()
        await turns()
        assert at_right.log == []
        right.resume_reading()
        right.resume_reading()
        assert at_right.log == []
        assert await at_right.until(2) == [[b"scheduled", b"1"], ("input ended", None)]
        right.resume_reading()
        await turns()
        assert len(at_right.log) == 2


async def test_a_sender_is_behind_while_the_other_end_reads_nothing() -> None:
    async with pair() as (left, _, right, _):
        right.pause_reading()
        left.write(bytes(WRITE_HIGH_WATER))
        assert not behind(left)
        await left.drain()
        left.write(b"x")
        assert behind(left)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(left.drain)
            tasks.start_soon(left.drain)
            await turns()
            assert behind(left)
            right.resume_reading()
        assert not behind(left)


@pytest.mark.parametrize("who", ["left", "right"])
async def test_closing_releases_who_waits(who: str) -> None:
    async with pair() as (left, _, right, _):
        right.pause_reading()
        left.write(bytes(WRITE_HIGH_WATER + 1))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(left.drain)
            await turns()
            assert behind(left)
            await (left if who == "left" else right).aclose()
        assert not behind(left)


async def test_sending_eof_releases_who_waits() -> None:
    async with pair() as (left, _, right, _):
        right.pause_reading()
        left.write(bytes(WRITE_HIGH_WATER + 1))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(left.drain)
            await turns()
            await left.send_eof()


async def test_an_end_may_be_closed_before_it_starts() -> None:
    async with running() as loop:
        left, right = memory_transports()
        at_left = Recorder()
        await left.start(at_left, loop)
        await right.aclose()
        assert await at_left.until(1) == [("input ended", None)]
        with pytest.raises(LocalProtocolError):
            await right.start(Recorder(), loop)


async def test_writing_to_a_closed_end_before_starting() -> None:
    async with running() as loop:
        left, right = memory_transports()
        await right.aclose()
        left.write(b"lost")
        await left.drain()
        at_left = Recorder()
        await left.start(at_left, loop)
        assert await at_left.until(1) == [("input ended", None)]


async def test_an_end_starts_once() -> None:
    async with pair() as (left, _, _, _):
        async with running() as loop:
            with pytest.raises(LocalProtocolError):
                await left.start(Recorder(), loop)


async def test_an_end_without_another_takes_and_gives_nothing() -> None:
    async with running() as loop:
        lonely, sink = MemoryTransport(), Recorder()
        await lonely.start(sink, loop)
        lonely.write(b"x")
        assert not behind(lonely)
        await lonely.send_eof()
        await lonely.aclose()
        await turns()
        assert sink.log == []


async def test_a_stalled_end_costs_a_waiting_sender_no_memory() -> None:
    """200 MB for an end that reads nothing: what the sender did not hand over yet exists only once."""
    message = bytes(100_000)
    async with pair() as (left, _, right, _):
        right.pause_reading()

        async def send() -> None:
            for _ in range(2_000):
                left.write(bytes(message))
                await left.drain()

        tracemalloc.start()
        try:
            with anyio.move_on_after(0.05):
                await send()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 2_000_000


# ---------------------------------------------------------------------------------------- scripted


@asynccontextmanager
async def scripted() -> AsyncIterator[tuple[ScriptedTransport, Recorder]]:
    async with running() as loop:
        transport, sink = ScriptedTransport(), Recorder()
        await transport.start(sink, loop)
        await turns()
        yield transport, sink


async def test_the_script_acts_at_once() -> None:
    async with scripted() as (transport, sink):
        transport.feed(b'{"a":1}', '{"b":"é"}', {"c": [None]})
        assert sink.log == [[b'{"a":1}', '{"b":"é"}'.encode(), b'{"c":[null]}']]
        transport.malformed(MalformedMessageError("binary", "", b"\x00"))
        failure = TransportError("reset")
        transport.end(failure)
        transport.fail_output(failure)
        assert sink.log[1:] == [("binary", b"\x00"), ("input ended", failure), ("output failed", failure)]


async def test_what_is_scripted_before_the_start_acts_in_the_first_turn_after_it() -> None:
    async with running() as loop:
        transport, sink = ScriptedTransport(), Recorder()
        transport.feed(b"1")
        transport.end()
        transport.fail_output()
        await transport.start(sink, loop)
        assert sink.log == []
        assert await sink.until(3) == [[b"1"], ("input ended", None), ("output failed", None)]


async def test_a_script_that_is_closed_before_its_first_turn_does_not_act() -> None:
    async with running() as loop:
        transport, sink = ScriptedTransport(), Recorder()
        transport.feed(b"1")
        await transport.start(sink, loop)
        await transport.aclose()
        await turns()
        assert sink.log == []


async def test_while_paused_the_script_is_kept() -> None:
    async with scripted() as (transport, sink):
        transport.pause_reading()
        assert transport.paused
        transport.feed(b"1")
        transport.end()
        assert sink.log == []
        transport.fail_output()
        assert sink.log == [("output failed", None)]
        transport.resume_reading()
        assert len(sink.log) == 1
        assert (await sink.until(3))[1:] == [[b"1"], ("input ended", None)]


async def test_what_is_fed_from_within_the_sink_comes_after_what_is_being_pushed() -> None:
    class Feeding(Recorder):
        def messages_received(self, messages: list[bytes]) -> None:
            if messages == [b"1"]:
                transport.feed(b"2")
            super().messages_received(messages)

    async with running() as loop:
        transport, sink = ScriptedTransport(), Feeding()
        await transport.start(sink, loop)
        await turns()
        transport.feed(b"1")
        assert sink.log == [[b"1"], [b"2"]]


async def test_what_was_sent() -> None:
    async with scripted() as (transport, _):
        transport.write(b'{"id":1}')
        transport.write(b'{"id":2}')
        assert await transport.next_sent() == {"id": 1}
        assert await transport.next_sent() == {"id": 2}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.next_sent)
            await turns()
            transport.write(b"[]")
        assert transport.sent == [b'{"id":1}', b'{"id":2}', b"[]"]


async def test_next_sent_needs_a_started_transport() -> None:
    with pytest.raises(LocalProtocolError):
        await ScriptedTransport().next_sent()


async def test_stalling() -> None:
    async with scripted() as (transport, _):
        assert not behind(transport)
        await transport.drain()
        transport.stalled = True
        assert behind(transport)
        for release in (transport.release, transport.fail_output):
            transport.stalled = True
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(transport.drain)
                await turns()
                release()
            assert not behind(transport)


async def test_closing_counts_and_releases() -> None:
    async with scripted() as (transport, sink):
        transport.stalled = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.drain)
            await turns()
            await transport.send_eof()
            await transport.aclose()
        await transport.aclose()
        transport.feed(b"1")
        transport.fail_output()
        assert (transport.eof_sent, transport.closed, sink.log) == (1, 2, [])


async def test_a_script_that_was_never_started() -> None:
    transport = ScriptedTransport()
    transport.stalled = True
    transport.write(b"kept")
    await transport.drain()
    transport.resume_reading()
    transport.release()
    await transport.aclose()
    assert (transport.sent, transport.closed, isinstance(transport, Transport)) == ([b"kept"], 1, True)
