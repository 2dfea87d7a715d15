"""Blocking files and descriptors behind threads."""

from __future__ import annotations

import io
import os
import pty
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mcpl_core.errors import TransportError
from mcpl_core.transports.files import FileSink, FileSource, is_binary_file
from mcpl_core.transports.streams import stream_transport
from tests.transports.recording import LIMIT, RecordingSink, event_loop, read_from, started, turns

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks", "no_threads")]


@pytest.fixture
def no_threads() -> Any:
    """Fails the test when one of our threads is left that does not end by itself."""
    yield
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("mcpl")]
    for thread in ours:
        thread.join(1)
    assert [thread.name for thread in ours if thread.is_alive()] == []


async def test_files_on_disk(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"one\ntwo\n" + b"x" * 200_000 + b"\nlast")
    with source.open("rb") as receive:
        send = target.open("wb")
        transport = stream_transport(receive, send)
        async with started(transport) as sink:
            assert await sink.until_input_ended() is None
            assert [len(message) for message in sink.messages] == [3, 3, 200_000, 4]
            for number in range(1000):
                transport.write(b"%d" % number)
            transport.write(b"y" * 1_000_000)
        assert send.closed
        assert not receive.closed
    assert target.read_bytes() == b"".join(b"%d\n" % number for number in range(1000)) + b"y" * 1_000_000 + b"\n"


async def test_pipes_both_ways() -> None:
    in_receive, in_send = os.pipe()
    out_receive, out_send = os.pipe()
    with (
        os.fdopen(in_receive, "rb") as receive,
        os.fdopen(in_send, "wb", 0) as feed,
        os.fdopen(out_receive, "rb") as out,
    ):
        transport = stream_transport(receive, os.fdopen(out_send, "wb"))
        async with started(transport) as sink:
            feed.write(b"hello\nwor")
            await sink.until_messages(1)
            transport.write(b"answer")
            assert await anyio.to_thread.run_sync(out.readline) == b"answer\n"
            feed.write(b"ld")
            feed.close()
            assert await sink.until_input_ended() is None
            assert sink.messages == [b"hello", b"world"]
        assert out.read() == b""


async def test_what_a_buffered_reader_read_ahead_comes_first() -> None:
    in_receive, in_send = os.pipe()
    with os.fdopen(in_receive, "rb") as receive, os.fdopen(in_send, "wb", 0) as feed:
        feed.write(b"secret\nfirst\nsec")
        assert receive.readline() == b"secret\n"
        transport = stream_transport(receive, io.BytesIO())
        async with started(transport) as sink:
            assert await sink.until_messages(1) == [b"first"]
            feed.write(b"ond\n")
            assert await sink.until_messages(2) == [b"first", b"second"]
        assert os.get_blocking(receive.fileno())


async def test_what_a_buffered_reader_read_ahead_of_a_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"header\nfirst\nsecond\n")
    with (tmp_path / "in").open("rb") as receive:
        assert receive.readline() == b"header\n"
        async with started(stream_transport(receive, io.BytesIO())) as sink:
            assert await sink.until_input_ended() is None
            assert sink.messages == [b"first", b"second"]


async def test_a_reader_that_waits_is_let_go() -> None:
    in_receive, in_send = os.pipe()
    with os.fdopen(in_receive, "rb") as receive, os.fdopen(in_send, "wb", 0) as feed:
        transport = stream_transport(receive, io.BytesIO())
        async with started(transport) as sink:
            await turns()
            with anyio.fail_after(LIMIT):
                await transport.aclose()
            assert sink.log == []
        # Nothing was taken from the caller.
        feed.write(b"afterwards\n")
        assert receive.readline() == b"afterwards\n"


async def test_pausing_stops_reading() -> None:
    in_receive, in_send = os.pipe()
    with os.fdopen(in_receive, "rb", 0) as receive, os.fdopen(in_send, "wb", 0) as feed:
        transport = stream_transport(receive, io.BytesIO())
        sink = RecordingSink()
        sink.on_messages = lambda _: transport.pause_reading()
        async with started(transport, sink):
            feed.write(b"1\n")
            await sink.until_messages(1)
            feed.write(b"2\n")
            await turns(20)
            assert sink.messages == [b"1"]
            transport.resume_reading()
            await sink.until_messages(2)


async def test_closing_a_stuck_writer_is_bounded() -> None:
    out_receive, out_send = os.pipe()
    send = os.fdopen(out_send, "wb", 0)
    transport = stream_transport(io.BytesIO(), send, close_timeout=0.01)
    async with started(transport) as sink:
        await sink.until_input_ended()
        transport.write(b"x" * 1_000_000)
        assert transport.behind
        with anyio.fail_after(LIMIT):
            await transport.aclose()
    assert send.closed
    os.close(out_receive)


async def test_a_writer_whose_reader_goes() -> None:
    out_receive, out_send = os.pipe()
    os.close(out_receive)
    transport = stream_transport(io.BytesIO(), os.fdopen(out_send, "wb", 0))
    async with started(transport) as sink:
        transport.write(b"x")
        error = await sink.until_output_failed()
        assert isinstance(error, TransportError)
        assert isinstance(error.__cause__, BrokenPipeError)


async def test_the_end_of_the_output() -> None:
    out_receive, out_send = os.pipe()
    in_receive, in_send = os.pipe()
    send = os.fdopen(out_send, "wb")
    send.write(b"before\n")
    with (
        os.fdopen(in_receive, "rb", 0) as receive,
        os.fdopen(out_receive, "rb") as out,
        os.fdopen(in_send, "wb", 0) as feed,
    ):
        transport = stream_transport(receive, send)
        async with started(transport) as sink:
            transport.write(b"last")
            await transport.send_eof()
            assert await anyio.to_thread.run_sync(out.read) == b"before\nlast\n"
            feed.write(b"answer\n")
            await sink.until_messages(1)
            assert sink.log == ["messages"]


async def test_objects_without_a_descriptor() -> None:
    class Shouting(io.RawIOBase):
        """Takes a few bytes at a time."""

        def __init__(self) -> None:
            self.taken: list[bytes] = []

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int | None:
            if len(self.taken) == 1:
                self.taken.append(b"")
                return None
            self.taken.append(bytes(data[:3]))
            return len(self.taken[-1])

    send = Shouting()
    transport = stream_transport(io.BytesIO(b"one\ntwo"), send)
    async with started(transport) as sink:
        assert await sink.until_input_ended() is None
        assert sink.messages == [b"one", b"two"]
        transport.write(b"hello world")
    assert b"".join(send.taken) == b"hello world\n"
    assert send.closed


async def test_an_object_that_reads_piece_by_piece() -> None:
    class Pieces(io.RawIOBase):
        pieces = [b"a\nb", b"\n", None]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int | None:
            piece = self.pieces.pop(0)
            if piece is None:
                raise OSError(5, "odd")
            buffer[: len(piece)] = piece
            return len(piece)

    async with started(stream_transport(Pieces(), io.BytesIO())) as sink:
        error = await sink.until_input_ended()
        assert isinstance(error, TransportError)
        assert isinstance(error.__cause__, OSError)
        assert sink.messages == [b"a", b"b"]


async def test_files_that_are_closed_already(tmp_path: Path) -> None:
    receive, send = (tmp_path / "x").open("wb+"), (tmp_path / "x").open("wb")
    receive.close()
    send.close()
    transport = stream_transport(receive, send)
    async with started(transport) as sink:
        assert await sink.until_input_ended() is None
        transport.write(b"x")
        assert await sink.until_output_failed() is None
    closed = io.BytesIO()
    closed.close()
    async with started(stream_transport(closed, closed)) as sink:
        assert await sink.until_input_ended() is None


async def test_a_terminal() -> None:
    ours, theirs = pty.openpty()
    async with event_loop() as loop:
        source, sink = FileSource(loop, os.dup(theirs)), FileSink(loop, theirs)
        os.write(ours, b"typed\n")
        with anyio.fail_after(LIMIT):
            assert await source.receive() == b"typed\n"
            await sink.send(b"shown\n")
        seen = b""
        while not seen.endswith(b"shown\r\n"):
            seen += await read_from(ours)
        os.write(ours, b"\x04")
        with anyio.fail_after(LIMIT):
            assert await source.receive() == b""
            with anyio.move_on_after(0.01):
                await source.receive()
            await sink.aclose()
            await source.aclose()
        os.close(ours)


async def test_a_terminal_that_was_hung_up() -> None:
    ours, theirs = pty.openpty()
    async with event_loop() as loop:
        source = FileSource(loop, theirs)
        os.close(ours)
        with anyio.fail_after(LIMIT):
            assert await source.receive() == b""
        await source.aclose()


async def test_the_other_end_of_a_terminal_that_was_hung_up() -> None:
    """Whose read fails with EIO."""
    ours, theirs = pty.openpty()
    async with event_loop() as loop:
        source = FileSource(loop, ours)
        os.close(theirs)
        with anyio.fail_after(LIMIT):
            assert await source.receive() == b""
        await source.aclose()


async def test_a_descriptor_that_somebody_made_non_blocking() -> None:
    receive, send = os.pipe()
    os.set_blocking(receive, False)
    os.set_blocking(send, False)
    async with event_loop() as loop, anyio.create_task_group() as tasks:
        source, sink = FileSource(loop, receive), FileSink(loop, send)
        tasks.start_soon(sink.send, b"x" * 300_000)
        received = 0
        with anyio.fail_after(LIMIT):
            while received < 300_000:
                received += len(await source.receive())
            await sink.aclose()
            await sink.abort()
            assert await source.receive() == b""
            await source.aclose()


async def test_a_write_that_is_cancelled_ends_when_it_is_aborted() -> None:
    receive, send = os.pipe()
    async with event_loop() as loop:
        sink = FileSink(loop, send)
        with anyio.move_on_after(0.01):
            await sink.send(b"x" * 300_000)
        with anyio.fail_after(LIMIT):
            await sink.abort()
    os.close(receive)


def test_what_counts_as_a_binary_file() -> None:
    assert is_binary_file(io.BytesIO())
    assert not is_binary_file(io.StringIO())
    assert not is_binary_file("file")
