"""The engine of two tasks, over AnyIO streams on real sockets, asyncio streams, and streams that the test plays."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteReceiveStream, ByteSendStream, ByteStream, SocketAttribute, SocketListener, SocketStream

from mcpl_core.errors import TransportError
from mcpl_core.transports.base import WRITE_HIGH_WATER
from mcpl_core.transports.byte_streams import AnyioSink, AnyioSource
from mcpl_core.transports.streams import stream_transport
from tests.transports.recording import LIMIT, RecordingSink, event_loop, is_asyncio, started, turns

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]


@asynccontextmanager
async def socket_pair() -> AsyncIterator[tuple[SocketStream, SocketStream]]:
    """Two AnyIO streams that are each other's peer."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        (one_listener,) = listener.listeners
        assert isinstance(one_listener, SocketListener)
        near = await anyio.connect_tcp("127.0.0.1", one_listener.extra(SocketAttribute.local_port))
        far = await one_listener.accept()
        async with near, far:
            yield near, far


class PlayedStream(ByteStream):
    """A stream that does what the test says, and counts."""

    def __init__(self) -> None:
        self.incoming: list[bytes | Exception] = []
        self.sent: list[bytes] = []
        self.closed = 0
        self.eof = 0
        self.failure: Exception | None = None
        self.on_send: Callable[[], Awaitable[object]] | None = None
        self.on_close: Callable[[], Awaitable[object]] | None = None

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self.incoming:
            await anyio.sleep_forever()
        item = self.incoming.pop(0)
        await anyio.lowlevel.checkpoint()
        if isinstance(item, Exception):
            raise item
        return item

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if self.on_send is not None:
            await self.on_send()
        if self.failure is not None:
            raise self.failure
        self.sent.append(item)

    async def send_eof(self) -> None:
        self.eof += 1

    async def aclose(self) -> None:
        self.closed += 1
        if self.on_close is not None:
            await self.on_close()


async def test_both_ways_over_a_socket() -> None:
    async with socket_pair() as (near, far), started(stream_transport(near)) as sink:
        await far.send(b'{"a":1}\n{"b"')
        await far.send(b":2}\nlast")
        await sink.until_messages(2)
        await far.send_eof()
        assert await sink.until_input_ended() is None
        assert sink.messages == [b'{"a":1}', b'{"b":2}', b"last"]


async def test_messages_of_one_turn_are_joined() -> None:
    stream = PlayedStream()
    transport = stream_transport(stream)
    async with started(transport):
        for number in range(100):
            transport.write(b"%d" % number)
        await transport.aclose()
        assert b"".join(stream.sent) == b"".join(b"%d\n" % number for number in range(100))
        assert len(stream.sent) == 1


async def test_a_message_with_line_endings_stays_one_line() -> None:
    stream = PlayedStream()
    transport = stream_transport(stream)
    large = b'{\r\n"a":1,\n"b":"' + b"x" * 100_000 + b'"}'
    async with started(transport):
        transport.write(b'{\n"a":1}')
        transport.write(large)
        await transport.aclose()
    assert b"".join(stream.sent) == b'{ "a":1}\n' + large.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


async def test_a_long_message_is_not_copied() -> None:
    stream = PlayedStream()
    transport = stream_transport(stream)
    large = b"x" * 100_000
    async with started(transport):
        transport.write(b"a")
        transport.write(large)
        transport.write(b"b")
        await transport.aclose()
    assert b"".join(stream.sent) == b"a\n" + large + b"\nb\n"
    assert any(data is large for data in stream.sent)


async def test_sends_stay_below_a_bound() -> None:
    stream = PlayedStream()
    transport = stream_transport(stream)
    async with started(transport):
        for _ in range(100):
            transport.write(b"x" * 10_000)
        await transport.aclose()
    assert max(map(len, stream.sent)) <= 64 * 1024
    assert b"".join(stream.sent) == (b"x" * 10_000 + b"\n") * 100


async def test_it_falls_behind_and_catches_up() -> None:
    stream = PlayedStream()
    gate = anyio.Event()
    stream.on_send = gate.wait
    transport = stream_transport(stream)
    drained: list[int] = []

    async def drain(number: int) -> None:
        await transport.drain()
        drained.append(number)

    async with started(transport), anyio.create_task_group() as tasks:
        await transport.drain()
        transport.write(b"x" * WRITE_HIGH_WATER)
        assert transport.behind
        for number in range(3):
            tasks.start_soon(drain, number)
        with anyio.move_on_after(0.01):
            await transport.drain()
        assert drained == []
        gate.set()
        with anyio.fail_after(LIMIT):
            await transport.drain()
        await turns()
        assert sorted(drained) == [0, 1, 2]
        assert not transport.behind


async def test_waiting_for_room_ends_with_the_output() -> None:
    stream = PlayedStream()
    stream.failure = anyio.BrokenResourceError()
    transport = stream_transport(stream)
    async with started(transport) as sink:
        transport.write(b"x" * (WRITE_HIGH_WATER + 1))
        with anyio.fail_after(LIMIT):
            await transport.drain()
        error = await sink.until_output_failed()
        assert isinstance(error, TransportError)
        assert isinstance(error.__cause__, anyio.BrokenResourceError)
        transport.write(b"dropped")
        assert not transport.behind
        await turns()
        assert sink.log == ["output"]


async def test_pausing_stops_reading() -> None:
    stream = PlayedStream()
    stream.incoming = [b"1\n", b"2\n", b"3\n"]
    transport = stream_transport(stream)
    sink = RecordingSink()
    sink.on_messages = lambda _: transport.pause_reading()
    async with started(transport, sink):
        await sink.until_messages(1)
        await turns(20)
        assert sink.messages == [b"1"]
        assert len(stream.incoming) == 1, "at most one read beyond what was pushed"
        sink.on_messages = None
        transport.resume_reading()
        transport.resume_reading()
        await sink.until_messages(3)
        assert sink.messages == [b"1", b"2", b"3"]


async def test_what_arrives_while_paused_waits() -> None:
    async with socket_pair() as (near, far):
        transport = stream_transport(near)
        async with started(transport) as sink:
            transport.pause_reading()
            await far.send(b"early\n")
            await turns(20)
            assert sink.messages == []
            transport.resume_reading()
            await sink.until_messages(1)


async def test_closing_while_paused_with_something_held() -> None:
    stream = PlayedStream()
    stream.incoming = [b"1\n", b"2\n"]
    transport = stream_transport(stream)
    sink = RecordingSink()
    sink.on_messages = lambda _: transport.pause_reading()
    async with started(transport, sink):
        await sink.until_messages(1)
        await turns(20)
    assert sink.messages == [b"1"]
    assert stream.closed == 1


@pytest.mark.parametrize("failure", [anyio.BrokenResourceError(), OSError(5, "odd"), RuntimeError("odd")])
async def test_an_input_that_fails(failure: Exception) -> None:
    stream = PlayedStream()
    stream.incoming = [b"whole\ncut", failure]
    async with started(stream_transport(stream)) as sink:
        error = await sink.until_input_ended()
        assert isinstance(error, TransportError)
        assert error.__cause__ is failure
        assert sink.messages == [b"whole"]


@pytest.mark.parametrize("end", [anyio.EndOfStream(), anyio.ClosedResourceError()])
async def test_an_input_that_ends_or_is_closed_under_us(end: Exception) -> None:
    stream = PlayedStream()
    stream.incoming = [b"whole\nlast", end]
    async with started(stream_transport(stream)) as sink:
        assert await sink.until_input_ended() is None
        assert sink.messages == [b"whole", b"last"]


async def test_an_output_closed_under_us_has_no_error() -> None:
    stream = PlayedStream()
    stream.failure = anyio.ClosedResourceError()
    transport = stream_transport(stream)
    async with started(transport) as sink:
        transport.write(b"x")
        assert await sink.until_output_failed() is None


async def test_the_input_stays_the_callers() -> None:
    receive, send = PlayedStream(), PlayedStream()
    receive.incoming = [b"1\n"]
    transport = stream_transport(receive, send)
    async with started(transport) as sink:
        await sink.until_messages(1)
        await transport.aclose()
        await transport.aclose()
        assert (receive.closed, send.closed) == (0, 1)
        receive.incoming = [b"afterwards"]
        assert await receive.receive() == b"afterwards"


async def test_half_close() -> None:
    async with socket_pair() as (near, far):
        transport = stream_transport(near)
        async with started(transport) as sink:
            transport.write(b"last")
            await transport.send_eof()
            await transport.send_eof()
            transport.write(b"dropped")
            assert await far.receive() == b"last\n"
            with pytest.raises(anyio.EndOfStream):
                await far.receive()
            await far.send(b"answer\n")
            assert await sink.until_messages(1) == [b"answer"]
            assert sink.log == ["messages"]


async def test_half_close_of_a_stream_that_only_sends() -> None:
    class OnlySends(ByteSendStream):
        closed = 0

        async def send(self, item: bytes) -> None:
            await anyio.lowlevel.checkpoint()

        async def aclose(self) -> None:
            self.closed += 1

    receive, send = PlayedStream(), OnlySends()
    transport = stream_transport(receive, send)
    async with started(transport) as sink:
        await transport.send_eof()
        await turns()
        assert send.closed == 1
        receive.incoming = [b"x"]
        assert sink.log == []
    assert send.closed == 1


async def test_half_close_where_the_stream_has_none() -> None:
    class Tls(PlayedStream):
        async def send_eof(self) -> None:
            raise NotImplementedError

    stream = Tls()
    transport = stream_transport(stream)
    async with started(transport):
        await transport.send_eof()
        await turns()
        assert stream.closed == 1
    assert stream.closed == 1


async def test_closing_flushes() -> None:
    async with socket_pair() as (near, far), anyio.create_task_group() as tasks:
        received: list[bytes] = []
        complete = anyio.Event()

        async def receive() -> None:
            received.extend([data async for data in far])
            complete.set()

        transport = stream_transport(near)
        async with started(transport):
            for _ in range(20):
                transport.write(b"x" * 300_000)
            assert transport.behind
            tasks.start_soon(receive)
            await transport.aclose()
        with anyio.fail_after(LIMIT):
            await complete.wait()
        assert b"".join(received) == (b"x" * 300_000 + b"\n") * 20
        tasks.cancel_scope.cancel()


async def test_closing_a_stuck_peer_is_bounded() -> None:
    stream = PlayedStream()
    stream.on_send = anyio.sleep_forever
    transport = stream_transport(stream, close_timeout=0.01)
    async with started(transport):
        transport.write(b"never taken")
        await turns()
        with anyio.fail_after(LIMIT):
            await transport.aclose()
        assert stream.closed == 1
        assert stream.sent == []


async def test_a_stream_that_hangs_or_fails_when_it_is_closed() -> None:
    async def fail() -> None:
        raise OSError("odd")

    for behaviour in (anyio.sleep_forever, fail):
        stream = PlayedStream()
        stream.on_close = behaviour
        transport = stream_transport(stream, close_timeout=0.01)
        async with started(transport):
            with anyio.fail_after(LIMIT):
                await transport.aclose()


async def test_closing_from_another_task_and_when_the_tasks_are_gone() -> None:
    stream = PlayedStream()
    transport = stream_transport(stream)
    sink = RecordingSink()
    async with event_loop() as loop:
        await transport.start(sink, loop)
        await turns()
    # The task group was cancelled and took both tasks with it.
    with anyio.fail_after(LIMIT):
        await transport.aclose()
    assert stream.closed == 1
    assert sink.log == []


async def test_a_start_that_cannot_begin_closes_the_output() -> None:
    stream = PlayedStream()
    transport = stream_transport(stream)
    async with event_loop() as loop:
        pass
    with pytest.raises(Exception):  # noqa: B017 - the backends differ
        await transport.start(RecordingSink(), loop)
    assert stream.closed == 1


class TestAsyncioStreams:
    @asynccontextmanager
    async def pair(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, socket.socket]]:
        near, far = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=near)
        with far:
            yield reader, writer, far
        writer.close()

    async def test_both_ways(self, anyio_backend: tuple[str, dict[str, Any]]) -> None:
        if not is_asyncio(anyio_backend):
            pytest.skip("asyncio's own")
        async with self.pair() as (reader, writer, far):
            transport = stream_transport(reader, writer)
            async with started(transport) as sink:
                far.sendall(b"in\n" + b"x" * 200_000 + b"\n")
                await sink.until_messages(2)
                transport.write(b"out")
                await transport.send_eof()
                await turns()
                assert far.recv(100) == b"out\n"
                assert far.recv(100) == b""
                far.shutdown(socket.SHUT_WR)
                assert await sink.until_input_ended() is None
                assert sink.log == ["messages", "input"]

    async def test_closing_bounded_and_complete(self, anyio_backend: tuple[str, dict[str, Any]]) -> None:
        if not is_asyncio(anyio_backend):
            pytest.skip("asyncio's own")
        async with self.pair() as (reader, writer, _):
            transport = stream_transport(reader, writer, close_timeout=0.01)
            async with started(transport):
                transport.write(b"x" * 5_000_000)
                await turns()
                with anyio.fail_after(LIMIT):
                    await transport.aclose()
            assert writer.transport.is_closing()
            # The caller may wait for it, too, and learns that it was aborted.
            with anyio.fail_after(LIMIT), suppress(OSError):
                await writer.wait_closed()

    async def test_a_writer_closed_under_us(self, anyio_backend: tuple[str, dict[str, Any]]) -> None:
        if not is_asyncio(anyio_backend):
            pytest.skip("asyncio's own")
        async with self.pair() as (reader, writer, _):
            transport = stream_transport(reader, writer)
            async with started(transport) as sink:
                writer.close()
                transport.write(b"x")
                assert await sink.until_output_failed() is None


async def test_adapters_keep_to_what_they_were_given() -> None:
    class OnlyReceives(ByteReceiveStream):
        async def receive(self, max_bytes: int = 65536) -> bytes:
            assert max_bytes == 64 * 1024
            raise anyio.EndOfStream

        async def aclose(self) -> None:
            raise AssertionError("the caller's")

    source = AnyioSource(OnlyReceives())
    assert await source.receive() == b""
    await source.aclose()
    stream = PlayedStream()
    sink = AnyioSink(stream)
    await sink.aclose()
    await sink.aclose()
    await sink.abort()
    assert stream.closed == 1
