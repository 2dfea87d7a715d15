"""The engine on asyncio's and uvloop's own transports: when it writes, what it joins, and how it ends."""

from __future__ import annotations

import asyncio
import io
import os
import random
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from mcpl_core.errors import TransportError
from mcpl_core.transports.asyncio_streams import AsyncioInput, AsyncioOutput, connect
from mcpl_core.transports.base import BURST, WRITE_HIGH_WATER
from mcpl_core.transports.lines import LineTransport
from mcpl_core.transports.loop import AsyncioLoop, EventLoop
from tests.transports.recording import LIMIT, RecordingSink, event_loop, is_behind, started, turns

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """There is no trio here."""
    if request.param:
        pytest.importorskip("uvloop")
    return "asyncio", {"use_uvloop": request.param}


class PipeLines(LineTransport):
    """Over two descriptors of FIFOs or sockets."""

    name = "pipes"

    def __init__(self, receive: int | socket.socket, send: int | socket.socket, **options: Any) -> None:
        super().__init__(**options)
        self.receive = receive if isinstance(receive, socket.socket) else os.fdopen(receive, "rb", 0)
        self.send = send if isinstance(send, socket.socket) else os.fdopen(send, "wb", 0)

    async def _open(self, loop: EventLoop) -> None:
        assert isinstance(loop, AsyncioLoop)
        self._output = AsyncioOutput(self, loop, self.send, half_close=isinstance(self.send, socket.socket))
        self._input = AsyncioInput(self, loop, self.receive)


class SocketLines(LineTransport):
    """Both ways over one socket."""

    name = "socket"

    def __init__(self, sock: socket.socket, **options: Any) -> None:
        super().__init__(**options)
        self.sock = sock

    async def _open(self, loop: EventLoop) -> None:
        assert isinstance(loop, AsyncioLoop)
        self._input = input = AsyncioInput(self, loop)
        self._output = AsyncioOutput(self, loop, self.sock, input=input, half_close=True)


class Ends:
    """Our ends of the pipes, blocking."""

    def __init__(self, receive: int, send: int) -> None:
        self.receive: int | None = receive
        self.send: int | None = send

    def read(self, size: int = 1 << 20) -> bytes:
        assert self.receive is not None
        return os.read(self.receive, size)

    def write(self, data: bytes) -> None:
        assert self.send is not None
        os.write(self.send, data)

    def close_receive(self) -> None:
        receive, self.receive = self.receive, None
        if receive is not None:
            os.close(receive)

    def close_send(self) -> None:
        send, self.send = self.send, None
        if send is not None:
            os.close(send)


@asynccontextmanager
async def pipes(**options: Any) -> AsyncIterator[tuple[PipeLines, Ends]]:
    """A transport over two pipes."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    ends = Ends(ours_in, ours_out)
    try:
        yield PipeLines(theirs_in, theirs_out, **options), ends
    finally:
        ends.close_receive()
        ends.close_send()


class Clock:
    """Stands still, so that what a test writes is written in one moment."""

    def __init__(self, output: AsyncioOutput) -> None:
        self.now = 0.0
        output._time = lambda: self.now


async def read_all(sock: socket.socket, size: int) -> bytes:
    """``size`` bytes from a blocking socket, without blocking the loop."""
    sock.setblocking(False)
    parts: list[bytes] = []
    with anyio.fail_after(LIMIT):
        while size > 0:
            await anyio.wait_readable(sock)
            parts.append(sock.recv(1 << 20))
            size -= len(parts[-1])
    return b"".join(parts)


async def test_both_ways_over_pipes() -> None:
    async with pipes() as (transport, ends), started(transport) as sink:
        ends.write(b"one\ntwo\nla")
        ends.write(b"st")
        await sink.until_messages(2)
        transport.write(b"answer")
        await turns()
        assert ends.read() == b"answer\n"
        ends.close_send()
        assert await sink.until_input_ended() is None
        assert sink.messages == [b"one", b"two", b"last"]
        transport.write(b"still")
        await turns()
        assert ends.read() == b"still\n"


async def test_the_first_message_of_a_turn_is_written_at_once_and_the_rest_joined() -> None:
    async with pipes() as (transport, ends), started(transport):
        written: list[bytes] = []
        output = transport._output
        assert isinstance(output, AsyncioOutput)
        put, clock = output._put, Clock(output)

        def record(data: bytes) -> None:
            written.append(data)
            put(data)

        output._put = record
        for _ in range(2):  # one turn as the other
            for number in range(1 + 8 + 16 + 32 + 64 + 64 + 3):
                transport.write(b"%d" % number)
            assert [data.count(b"\n") for data in written] == [1, 8, 16, 32, 64, 64]
            await turns()
            assert [data.count(b"\n") for data in written[6:]] == [3]
            assert b"".join(written).split() == [b"%d" % number for number in range(188)]
            assert ends.read() == b"".join(written)
            written.clear()
            clock.now += 1
        transport.write(b"next turn")
        assert written == [b"next turn\n"]
        await turns()
        assert len(written) == 1


async def test_joined_messages_are_bounded_by_size() -> None:
    async with pipes() as (transport, ends), started(transport):
        written: list[int] = []
        output = transport._output
        assert isinstance(output, AsyncioOutput)
        output._put = lambda data: written.append(len(data))
        Clock(output)
        for size in (8192, 8192, 8193, *[8192] * 9, 65536):
            transport.write(b"x" * size)
        assert written == [8193, 8193, 8194, 8 * 8193, 8193, 65537]
        await turns()
        assert len(written) == 6
        for size in (*[10] * 30, *[8192] * 9, *[1024] * 65):
            transport.write(b"x" * size)
        assert written[6:] == [8 * 11, 16 * 11, 6 * 11 + 2 * 8193, 7 * 8193 + 57 * 1025]
        # Never more than seven long ones and 57 short ones.
        assert max(written) < 128 * 1024


async def test_answers_written_while_the_sink_is_fed_leave_with_one_write() -> None:
    async with pipes() as (transport, ends):
        sink = RecordingSink()

        def answer(messages: list[bytes]) -> None:
            for message in messages:
                transport.write(b"re " + message)

        sink.on_messages = answer
        async with started(transport, sink):
            written: list[bytes] = []
            output = transport._output
            assert isinstance(output, AsyncioOutput)
            output._put = written.append
            ends.write(b"1\n2\n3\n")
            await sink.until_messages(3)
            assert written == [b"re 1\nre 2\nre 3\n"]
            ends.write(b"".join(b"%d\n" % number for number in range(10)))
            await sink.until_messages(13)
            assert written[1:] == [b"".join(b"re %d\n" % n for n in range(8)), b"re 8\nre 9\n"]
            # What is written in the turn of a first write stays behind it.
            written.clear()
            Clock(output)
            transport.write(b"a")
            transport.data_received(b"b\n")
            transport.write(b"c")
            transport.write(b"d")
            await turns()
            assert written == [b"a\n", b"re b\n", b"c\nd\n"]


async def test_messages_that_come_one_by_one_cost_no_turn_of_the_loop() -> None:
    async with pipes() as (transport, _), started(transport):
        output = transport._output
        assert isinstance(output, AsyncioOutput)
        written: list[bytes] = []
        asked: list[object] = []
        output._put, output._call_soon, clock = written.append, asked.append, Clock(output)  # type: ignore[assignment]
        for number in range(3):
            transport.write(b"%d" % number)
            clock.now += 1
        assert (written, asked) == ([b"0\n", b"1\n", b"2\n"], [])
        transport.write(b"3")
        transport.write(b"4")
        assert (written[3:], asked) == ([b"3\n"], [output._turn_over])


async def test_so_it_is_by_a_clock_that_is_finer_than_the_loops() -> None:
    """uvloop's own counts milliseconds, in each of which many messages may come one by one."""
    async with pipes() as (transport, _), started(transport):
        output = transport._output
        assert isinstance(output, AsyncioOutput)
        written: list[bytes] = []
        output._put = written.append
        for number in range(3):
            transport.write(b"%d" % number)
            assert len(written) == number + 1
            begun = time.monotonic()
            while time.monotonic() - begun < 2 * BURST:
                pass


async def test_a_long_message_is_not_copied_and_keeps_its_place() -> None:
    async with pipes() as (transport, ends), started(transport):
        written: list[bytes] = []
        output = transport._output
        assert isinstance(output, AsyncioOutput)
        output._put = written.append
        large = b"x" * 100_000
        for message in (b"a", b"b", large, b"c"):
            transport.write(message)
        transport.write(b"{\n" + large)
        await turns()
        assert b"".join(written) == b"a\nb\n" + large + b"\nc\n{ " + large + b"\n"
        assert any(data is large for data in written)


async def test_line_endings_in_a_message() -> None:
    async with pipes() as (transport, ends), started(transport):
        transport.write(b'{\r\n"a":1}')
        assert ends.read() == b'{  "a":1}\n'
        for joined in ((b"1", b"2\n2", b"3", b"4\r4"), (b"1", b"2\n2", b"3"), (b"1", b"2\r2", b"3")):
            for message in joined:
                transport.write(message)
            await turns()
            assert ends.read() == b"".join(
                message.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n" for message in joined
            )


async def test_reads_are_bounded() -> None:
    near, far = socket.socketpair()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with far:
        transport = SocketLines(near)
        sizes: list[int] = []
        received = transport.data_received

        def record(data: bytes) -> None:
            sizes.append(len(data))
            received(data)

        transport.data_received = record  # type: ignore[method-assign]
        async with started(transport) as sink:
            transport.pause_reading()
            far.sendall(b"x" * 150_000 + b"\n")
            transport.resume_reading()
            await sink.until_messages(1)
            assert max(sizes) <= (
                64 * 1024 if isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop) else 256_000
            )


async def test_falling_behind_and_catching_up() -> None:
    near, far = socket.socketpair()
    with far:
        transport = SocketLines(near)
        async with started(transport), anyio.create_task_group() as tasks:
            sent = 0
            while not is_behind(transport):
                transport.write(b"x" * 50_000)
                sent += 50_001
            woken: list[int] = []

            async def drain(number: int) -> None:
                await transport.drain()
                woken.append(number)

            for number in range(3):
                tasks.start_soon(drain, number)
            with anyio.move_on_after(0.01):
                await transport.drain()
            assert woken == []
            assert len(await read_all(far, sent)) == sent
            with anyio.fail_after(LIMIT):
                await transport.drain()
            await turns()
            assert woken == [0, 1, 2]
            assert not is_behind(transport)
            with anyio.fail_after(LIMIT):
                await transport.drain()


async def test_the_peer_goes_while_somebody_waits_for_room() -> None:
    near, far = socket.socketpair()
    transport = SocketLines(near)
    async with started(transport) as sink, anyio.create_task_group() as tasks:
        while not is_behind(transport):
            transport.write(b"x" * 50_000)
        tasks.start_soon(transport.drain)
        await turns()
        far.close()
        error = await sink.until_output_failed()
        assert isinstance(error, TransportError)
        assert isinstance(error.__cause__, OSError)
        assert not is_behind(transport)
        transport.write(b"dropped")
        await transport.drain()


async def test_pausing_stops_reading() -> None:
    async with pipes() as (transport, ends):
        sink = RecordingSink()
        sink.on_messages = lambda _: transport.pause_reading()
        async with started(transport, sink):
            ends.write(b"1\n")
            await sink.until_messages(1)
            transport.pause_reading()
            ends.write(b"2\n")
            await turns(20)
            assert sink.messages == [b"1"]
            transport.resume_reading()
            transport.resume_reading()
            await sink.until_messages(2)
        transport.pause_reading()
        transport.resume_reading()


async def test_half_close_over_pipes() -> None:
    async with pipes() as (transport, ends), started(transport) as sink:
        transport.write(b"a")
        transport.write(b"b")
        await transport.send_eof()
        await transport.send_eof()
        transport.write(b"dropped")
        await turns()
        assert ends.read() == b"a\nb\n"
        assert ends.read() == b""
        ends.write(b"answer\n")
        assert await sink.until_messages(1) == [b"answer"]
        assert sink.log == ["messages"]


async def test_half_close_over_a_socket_both_ways() -> None:
    near, far = socket.socketpair()
    with far:
        transport = SocketLines(near)
        async with started(transport) as sink:
            transport.write(b"a")
            await transport.send_eof()
            await turns()
            assert far.recv(100) == b"a\n"
            assert far.recv(100) == b""
            far.sendall(b"answer")
            far.shutdown(socket.SHUT_WR)
            assert await sink.until_input_ended() is None
            assert sink.messages == [b"answer"]
            assert sink.log == ["messages", "input"]


async def test_half_close_when_the_peer_has_gone_unnoticed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = socket.create_connection(listener.getsockname())
        near, _ = listener.accept()
    transport = SocketLines(near)
    async with started(transport) as sink:
        transport.pause_reading()
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        await transport.send_eof()
        transport.resume_reading()
        await sink.until_input_ended()


async def test_half_close_by_the_peer() -> None:
    near, far = socket.socketpair()
    with far:
        transport = SocketLines(near)
        async with started(transport) as sink:
            far.shutdown(socket.SHUT_WR)
            assert await sink.until_input_ended() is None
            transport.write(b"still")
            await turns()
            assert far.recv(100) == b"still\n"
            assert sink.log == ["input"]


async def test_a_pipe_whose_reader_goes() -> None:
    async with pipes() as (transport, ends), started(transport) as sink:
        ends.close_receive()
        transport.write(b"x")
        await sink.until_output_failed()
        assert sink.log == ["output"]
        ends.write(b"goes on\n")
        assert await sink.until_messages(1) == [b"goes on"]


async def test_a_reset() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    far = socket.create_connection(listener.getsockname())
    near, _ = listener.accept()
    listener.close()
    transport = SocketLines(near)
    async with started(transport) as sink:
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.send(b"whole\ncut")
        await sink.until_messages(1)
        far.close()
        error = await sink.until_input_ended()
        assert isinstance(error, TransportError)
        assert isinstance(error.__cause__, ConnectionResetError)
        await sink.until_output_failed()
        assert sink.messages == [b"whole"]
        assert sink.log == ["messages", "input", "output"]


async def test_closing_flushes() -> None:
    near, far = socket.socketpair()
    with far:
        transport = SocketLines(near)
        async with started(transport), anyio.create_task_group() as tasks:
            for _ in range(20):
                transport.write(b"x" * 300_000)
            transport.write(b"last")
            tasks.start_soon(transport.aclose)
            received = await read_all(far, 20 * 300_001 + 5)
            assert received.endswith(b"x\nlast\n")
            with anyio.fail_after(LIMIT):
                await transport.aclose()


async def test_closing_a_stuck_peer_is_bounded() -> None:
    near, far = socket.socketpair()
    with far:
        transport = SocketLines(near, close_timeout=0.01)
        async with started(transport) as sink:
            transport.write(b"x" * 5_000_000)
            with anyio.fail_after(LIMIT):
                await transport.aclose()
            assert sink.log == []
    async with pipes(close_timeout=0.01) as (lines, _), started(lines):
        lines.write(b"x" * 5_000_000)
        assert lines.behind
        with anyio.fail_after(LIMIT):
            await lines.aclose()


async def test_a_cancelled_aclose_releases_at_once() -> None:
    near, far = socket.socketpair()
    with far:
        transport = SocketLines(near, close_timeout=LIMIT)
        async with started(transport):
            transport.write(b"x" * 5_000_000)
            with anyio.fail_after(LIMIT), anyio.move_on_after(0.01) as scope:
                await transport.aclose()
            assert scope.cancelled_caught


async def test_closing_while_paused() -> None:
    near, far = socket.socketpair()
    with far:
        transport = SocketLines(near)
        async with started(transport):
            transport.pause_reading()
            far.sendall(b"unread\n")
            with anyio.fail_after(LIMIT):
                await transport.aclose()


async def test_sockets_as_separate_halves() -> None:
    theirs_in, ours_out = socket.socketpair()
    ours_in, theirs_out = socket.socketpair()
    with ours_out, ours_in:
        transport = PipeLines(theirs_in, theirs_out)
        async with started(transport) as sink:
            ours_out.sendall(b"in\n")
            await sink.until_messages(1)
            transport.write(b"out")
            await turns()
            assert ours_in.recv(100) == b"out\n"
            ours_in.sendall(b"nobody listens here\n")
            await turns()
            ours_out.shutdown(socket.SHUT_WR)
            assert await sink.until_input_ended() is None
            await transport.send_eof()
            await turns()
            assert ours_in.recv(100) == b""
            assert sink.messages == [b"in"]


async def test_what_never_began_is_released() -> None:
    async with pipes() as (transport, _), event_loop() as loop:
        await transport._open(loop)
        with anyio.fail_after(LIMIT):
            await transport.aclose()
    assert isinstance(transport.receive, io.FileIO)
    assert transport.receive.closed


async def test_halves_that_were_never_connected() -> None:
    async with event_loop() as loop:
        assert isinstance(loop, AsyncioLoop)
        sink = RecordingSink()
        transport = SocketLines(socket.socket())
        input = AsyncioInput(transport, loop)
        output = AsyncioOutput(transport, loop)

        async def dial(factory: object) -> None:
            raise ConnectionRefusedError

        with pytest.raises(ConnectionRefusedError):
            await connect(input, output, dial, half_close=True)
        input.pause()
        input.resume()
        input.stop()
        output.write(b"dropped")
        await turns()
        output.abort()
        with anyio.fail_after(LIMIT):
            await output.finish()
            await output.released()
            await input.released()
        assert sink.log == []
        transport.sock.close()


async def test_what_waits_is_bounded_by_the_high_water_mark() -> None:
    async with pipes() as (transport, _), started(transport):
        written = 0
        while not is_behind(transport):
            transport.write(b"x" * 10_000)
            written += 10_001
        assert written <= WRITE_HIGH_WATER + (1 << 20) + 100_000
        transport.close_timeout = 0.01


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_overtakes_what_a_full_pipe_left_over(seed: int) -> None:
    chance = random.Random(seed)
    async with pipes() as (transport, ends), started(transport):
        assert ends.receive is not None
        os.set_blocking(ends.receive, False)
        output = transport._output
        assert isinstance(output, AsyncioOutput)
        expected, received, held = bytearray(), bytearray(), set()

        def take(size: int) -> None:
            with suppress(BlockingIOError):
                received.extend(ends.read(size))

        for number in range(200):
            message = b"%d:" % number + b"x" * chance.choice([1, 100, 5_000, 70_000])
            transport.write(message)
            expected += message + b"\n"
            held.add(output._transport.get_write_buffer_size() > 0)
            if chance.random() < 0.5:
                take(chance.choice([1, 4_096, 100_000, 1_000_000]))
            if chance.random() < 0.2:
                await turns(chance.randrange(3))
        while len(received) < len(expected):
            await turns(1)
            take(1_000_000)
        assert received == expected
        assert True in held
