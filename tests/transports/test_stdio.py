"""Standard input and output: in this process, with its descriptors exchanged, and in real programs."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.errors import LocalProtocolError, TransportError
from mcpl_core.transports.stdio import StdioTransport
from tests.transports.recording import LIMIT, RecordingSink, event_loop, read_from, started

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("no_leaks"),
    pytest.mark.skipif(sys.platform == "win32", reason="not promised there"),
]

#: Answers each line, until its input ends.
PROGRAM = """
import os, subprocess, sys
import anyio
from mcpl_core.transports.loop import current_loop
from mcpl_core.transports.stdio import StdioTransport

class Sink:
    def messages_received(self, messages):
        for message in messages:
            print("stray print")
            os.write(1, b"stray write\\n")
            if message == b"run":
                subprocess.run(["sh", "-c", "echo from a child; cat"], check=True)
            transport.write(b"re " + message)
    def message_malformed(self, error):
        transport.write(b"malformed")
    def input_ended(self, error):
        self.error = error
        done.set()
    def output_failed(self, error):
        done.set()

async def main():
    global transport, done
    done = anyio.Event()
    transport = StdioTransport(max_message_bytes=1 << 22)
    async with anyio.create_task_group() as tasks:
        await transport.start(Sink(), current_loop(tasks))
        await done.wait()
        await transport.aclose()
        tasks.cancel_scope.cancel()
    print("printed afterwards")

backend = sys.argv[1]
options = {"use_uvloop": backend == "uvloop"} if backend != "trio" else {}
anyio.run(main, backend="trio" if backend == "trio" else "asyncio", backend_options=options)
"""


@pytest.fixture
def backend(anyio_backend: tuple[str, dict[str, Any]]) -> str:
    return "uvloop" if anyio_backend[1].get("use_uvloop") else anyio_backend[0]


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    return [sys.executable, "-W", "error", str(tmp_path / "program.py")]


@contextmanager
def exchanged(receive: int | None, send: int | None) -> Iterator[None]:
    """Puts other descriptors in the place of 0 and 1 of this process; ``None``: closed."""
    sys.stdout.flush()
    kept = [(target, os.dup(target)) for target in (0, 1)]
    try:
        for target, source in ((0, receive), (1, send)):
            if source is None:
                os.close(target)
            else:
                os.dup2(source, target)
        yield
    finally:
        for target, copy in kept:
            os.dup2(copy, target)
            os.close(copy)


class Wire:
    """Our ends of what stands for standard input and output within the block.

    Not a fixture: between its set-up and the test pytest puts its own descriptors there.
    """

    def __init__(self) -> None:
        self.receive, self.feed = os.pipe()
        self.out, self.send = os.pipe()
        self._exchanged = exchanged(self.receive, self.send)

    def __enter__(self) -> Wire:
        self._exchanged.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._exchanged.__exit__(None, None, None)
        for fd in (self.receive, self.feed, self.out, self.send):
            with suppress(OSError):
                os.close(fd)


async def test_both_ways_and_nothing_else_reaches_the_wire(capfd: pytest.CaptureFixture[str]) -> None:
    with Wire() as wire:
        transport = StdioTransport()
        async with started(transport) as sink:
            os.write(wire.feed, b"in\n")
            await sink.until_messages(1)
            os.write(1, b"stray\n")
            transport.write(b"out")
            assert os.read(0, 100) == b""
            assert await read_from(wire.out) == b"out\n"
            assert not os.get_inheritable(wire.out)
            os.write(wire.feed, b"last")
            os.close(wire.feed)
            assert await sink.until_input_ended() is None
            assert sink.messages == [b"in", b"last"]
        os.write(1, b"again the wire\n")
        assert await read_from(wire.out) == b"again the wire\n"
        assert "stray" in capfd.readouterr().err


async def test_descriptors_are_left_as_they_were_found() -> None:
    with Wire():
        before = [(os.fstat(fd).st_ino, os.get_blocking(fd), os.get_inheritable(fd)) for fd in (0, 1)]
        for _ in range(2):
            async with started(StdioTransport()):
                assert os.fstat(0).st_ino != before[0][0]
                assert os.path.samestat(os.fstat(1), os.fstat(2))
            assert [(os.fstat(fd).st_ino, os.get_blocking(fd), os.get_inheritable(fd)) for fd in (0, 1)] == before


async def test_what_was_printed_and_not_flushed_never_reaches_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    with Wire() as wire:
        with os.fdopen(1, "w", closefd=False) as stdout:
            monkeypatch.setattr(sys, "stdout", stdout)
            stdout.write("before, and during")
            async with started(StdioTransport()):
                pass
            monkeypatch.undo()
        os.set_blocking(wire.out, False)
        with pytest.raises(BlockingIOError):
            os.read(wire.out, 100)


async def test_one_at_a_time() -> None:
    with Wire() as wire:
        async with started(StdioTransport()) as sink, event_loop() as loop:
            second = StdioTransport()
            with pytest.raises(LocalProtocolError):
                await second.start(RecordingSink(), loop)
            os.write(wire.feed, b"still here\n")
            await sink.until_messages(1)
        async with started(StdioTransport()):
            pass


@pytest.mark.parametrize("closed", [0, 1])
async def test_a_closed_standard_stream(closed: int) -> None:
    with Wire() as wire:
        with exchanged(None if closed == 0 else wire.receive, None if closed == 1 else wire.send):
            async with event_loop() as loop:
                with pytest.raises(TransportError) as caught:
                    await StdioTransport().start(RecordingSink(), loop)
            assert isinstance(caught.value.__cause__, OSError)
        async with started(StdioTransport()):
            pass


async def test_without_standard_error() -> None:
    with Wire():
        kept = os.dup(2)
        os.close(2)
        try:
            async with started(StdioTransport()):
                os.write(1, b"nowhere")
        finally:
            os.dup2(kept, 2)
            os.close(kept)


async def test_without_a_python_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    with Wire():
        monkeypatch.setattr(sys, "stdout", None)
        async with started(StdioTransport()):
            pass
        monkeypatch.undo()


async def test_half_close() -> None:
    with Wire() as wire:
        transport = StdioTransport()
        async with started(transport) as sink:
            transport.write(b"last")
            await transport.send_eof()
            os.write(wire.feed, b"goes on\n")
            await sink.until_messages(1)
            assert await read_from(wire.out) == b"last\n"


async def test_one_socket_for_both(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    near, far = socket.socketpair()
    with near, far, exchanged(near.fileno(), near.fileno()):
        transport = StdioTransport()
        async with started(transport) as sink:
            for number in range(100):
                far.sendall(b"in\n")
                await sink.until_messages(number + 1)
                transport.write(b"out")
                assert await read_from(far.fileno()) == b"out\n"
            far.shutdown(socket.SHUT_WR)
            assert await sink.until_input_ended() is None
            assert sink.log == ["messages", "input"]
        assert os.get_blocking(near.fileno())


async def test_two_sockets() -> None:
    """As Node gives them to its child processes."""
    theirs_in, ours_out = socket.socketpair()
    ours_in, theirs_out = socket.socketpair()
    with theirs_in, ours_out, ours_in, theirs_out, exchanged(theirs_in.fileno(), theirs_out.fileno()):
        transport = StdioTransport()
        async with started(transport) as sink:
            ours_out.sendall(b"in\n")
            await sink.until_messages(1)
            transport.write(b"out")
            assert await read_from(ours_in.fileno()) == b"out\n"
        assert os.get_blocking(theirs_in.fileno())
        assert os.get_blocking(theirs_out.fileno())


async def test_the_null_device() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    with exchanged(null, null):
        transport, sink = StdioTransport(), RecordingSink()
        async with event_loop() as loop:
            await transport.start(sink, loop)
            assert sink.log == []
            assert await sink.until_input_ended() is None
            transport.write(b"nowhere")
            await transport.aclose()
    os.close(null)


async def test_regular_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"one\ntwo")
    receive = os.open(tmp_path / "in", os.O_RDONLY)
    send = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    with exchanged(receive, send):
        transport = StdioTransport()
        async with started(transport) as sink:
            assert await sink.until_input_ended() is None
            assert sink.messages == [b"one", b"two"]
            transport.write(b"x" * 1_000_000)
    os.close(receive)
    os.close(send)
    assert (tmp_path / "out").read_bytes() == b"x" * 1_000_000 + b"\n"


async def test_a_terminal_waits_for_nobody_at_the_end() -> None:
    ours, theirs = pty.openpty()
    with exchanged(theirs, theirs):
        transport = StdioTransport()
        async with started(transport) as sink:
            os.write(ours, b"typed\n")
            await sink.until_messages(1)
            transport.write(b"shown")
            with anyio.fail_after(LIMIT):
                await transport.aclose()
        assert os.get_blocking(theirs)
    seen = b""
    while not seen.endswith(b"shown\r\n"):
        seen += await read_from(ours)
    assert seen.startswith(b"typed\r\n")
    os.close(ours)
    os.close(theirs)


def test_importing_touches_nothing() -> None:
    code = (
        "import os; before = [os.fstat(fd) for fd in (0, 1)], os.listdir('/dev/fd')\n"
        "import mcpl_core.transports.stdio\n"
        "assert before == ([os.fstat(fd) for fd in (0, 1)], os.listdir('/dev/fd'))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT, stdin=subprocess.PIPE)


class TestPrograms:
    def run(self, program: list[str], backend: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*program, backend], check=True, timeout=60, **options)

    def test_pipes(self, program: list[str], backend: str) -> None:
        done = self.run(program, backend, input=b"1\nrun\n2" + b"x" * 5_000_000 + b"\n3", capture_output=True)
        assert done.stdout == b"re 1\nre run\nmalformed\nre 3\nprinted afterwards\n"
        assert done.stderr.count(b"stray print") == 3
        assert done.stderr.count(b"stray write") == 3
        assert done.stderr.count(b"from a child") == 1

    def test_a_large_answer(self, program: list[str], backend: str) -> None:
        message = b"x" * 3_000_000
        done = self.run(program, backend, input=message, capture_output=True)
        assert done.stdout == b"re " + message + b"\nprinted afterwards\n"

    def test_files(self, program: list[str], backend: str, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(b"1\n2")
        with (tmp_path / "in").open("rb") as receive, (tmp_path / "out").open("wb") as send:
            self.run(program, backend, stdin=receive, stdout=send, stderr=subprocess.DEVNULL)
        assert (tmp_path / "out").read_bytes() == b"re 1\nre 2\nprinted afterwards\n"

    def test_no_input(self, program: list[str], backend: str) -> None:
        done = self.run(program, backend, stdin=subprocess.DEVNULL, capture_output=True)
        assert done.stdout == b"printed afterwards\n"
        assert done.stderr == b""

    @pytest.mark.parametrize("closed", ["<&-", ">&-"])
    def test_a_stream_that_was_never_open(self, program: list[str], backend: str, closed: str) -> None:
        # The event loop of the program has got its number.
        if backend == "uvloop":
            pytest.skip("it gives up by itself: it closes none of the first three descriptors")
        command = ["sh", "-c", f'exec "$@" {closed}', "sh", *program, backend]
        done = subprocess.run(command, timeout=60, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 1
        assert b"mcpl_core.errors.TransportError: " in done.stderr
        assert b"OSError" not in done.stderr

    def test_a_reader_that_goes(self, program: list[str], backend: str) -> None:
        with subprocess.Popen([*program, backend], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=-3) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(b"1\n")
            child.stdin.flush()
            assert child.stdout.readline() == b"re 1\n"
            child.stdout.close()
            child.stdin.write(b"2\n")
            child.stdin.flush()
            child.wait(LIMIT)

    def test_a_terminal(self, program: list[str], backend: str) -> None:
        ours, theirs = pty.openpty()
        child = subprocess.Popen([*program, backend], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.write(ours, b"1\n")
        seen = b""
        while b"re 1\r\n" not in seen:
            seen += os.read(ours, 1000)
        os.write(ours, b"\x04")
        assert child.wait(LIMIT) == 0
        os.close(ours)
