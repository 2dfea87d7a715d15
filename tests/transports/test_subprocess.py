"""Real child processes: how they end by themselves, how they are ended, and what is left of them (nothing)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpl_core.errors import InvalidValueError, ProcessExitedError, TransportError
from mcpl_core.transports.subprocess import SubprocessTransport
from tests.transports.recording import (
    LIMIT,
    RecordingSink,
    event_loop,
    is_behind,
    resident_megabytes,
    started,
    turns,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("no_leaks", "no_children"),
    pytest.mark.skipif(sys.platform == "win32", reason="not promised there"),
]

#: Sends back each line as it came.
ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""

#: What the scripts below begin with.
HEAD = "import os, signal, subprocess, sys, time\n"


@pytest.fixture
def no_children() -> Any:
    """Fails the test when a child process is left, dead or alive."""
    yield
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def python(code: str, **options: Any) -> SubprocessTransport:
    options = {"close_timeout": 5.0, "terminate_timeout": 5.0} | options
    return SubprocessTransport([sys.executable, "-c", HEAD + code], **options)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody reaps has ended, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def ended(pid: int) -> None:
    """Returns when a process that is not our child has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with anyio.fail_after(LIMIT):
        await anyio.wait_readable(fd)
    os.close(fd)


async def test_both_ways() -> None:
    transport = python(ECHO)
    async with started(transport) as sink:
        for number in range(1000):
            transport.write(b"%d" % number)
        transport.write(b"x" * 3_000_000)
        assert await sink.until_messages(1001)
        assert sink.messages[:1000] == [b"%d" % number for number in range(1000)]
        assert sink.messages[1000] == b"x" * 3_000_000
        assert transport.pid is not None
        assert transport.returncode is None
        assert transport.name == Path(sys.executable).name


async def test_the_end_of_its_input_is_an_ordinary_end() -> None:
    transport = python(ECHO)
    async with started(transport) as sink:
        transport.write(b"last")
        await transport.send_eof()
        assert await sink.until_input_ended() is None
        assert sink.messages == [b"last"]
        assert transport.returncode == 0


async def test_exit_with_status_zero_loses_nothing() -> None:
    transport = python("sys.stdout.write('one\\n' * 10_000 + 'last')")
    async with started(transport) as sink:
        assert await sink.until_input_ended() is None
        assert len(sink.messages) == 10_001
        assert sink.messages[-1] == b"last"


async def test_exit_with_another_status_tells_why() -> None:
    transport = python("print('whole'); sys.stderr.write('what went wrong\\n'); sys.exit(3)")
    async with started(transport) as sink:
        error = await sink.until_input_ended()
        assert isinstance(error, ProcessExitedError)
        assert error.returncode == 3
        assert error.stderr == "what went wrong"
        assert error.command == Path(sys.executable).name
        assert sink.messages == [b"whole"]
        assert transport.returncode == 3


async def test_exit_at_once() -> None:
    for _ in range(5):
        async with started(SubprocessTransport(["false"])) as sink:
            error = await sink.until_input_ended()
            assert isinstance(error, ProcessExitedError)
            assert error.returncode == 1


async def test_killed_in_the_middle_of_a_message() -> None:
    transport = python("os.write(1, b'whole\\n{\"cut'); time.sleep(100)")
    async with started(transport) as sink:
        await sink.until_messages(1)
        assert transport.pid is not None
        os.kill(transport.pid, signal.SIGKILL)
        error = await sink.until_input_ended()
        assert isinstance(error, ProcessExitedError)
        assert error.returncode == -signal.SIGKILL
        # The end of the input ends the last line, whatever is in it.
        assert sink.messages == [b"whole", b'{"cut']


async def test_a_grandchild_that_holds_the_pipe_open() -> None:
    code = (
        "child = subprocess.Popen(['sleep', '100'])\n"
        "os.write(1, b'%d\\n' % child.pid + b'y\\n' * 100_000)\n"
        "os.write(2, b'left\\n')\n"
        "os._exit(9)"
    )
    transport = python(code)
    async with started(transport) as sink:
        error = await sink.until_input_ended()
        assert isinstance(error, ProcessExitedError)
        assert (error.returncode, error.stderr) == (9, "left")
        assert len(sink.messages) == 100_001
        grandchild = int(sink.messages[0])
        assert alive(grandchild)
    await ended(grandchild)


async def test_a_grandchild_that_goes_on_talking() -> None:
    transport = python("subprocess.Popen(['yes']); sys.stdin.readline(); os._exit(9)")
    async with started(transport) as sink:
        await sink.until_messages(1)
        transport.write(b"go on")
        error = await sink.until_input_ended()
        assert isinstance(error, ProcessExitedError)


async def test_what_lies_in_the_pipe_is_read_before_the_end_also_after_a_pause() -> None:
    transport = python("os.write(1, b'1\\n'); sys.stdin.readline(); os.write(1, b'2\\n3'); os._exit(4)")
    sink = RecordingSink()
    sink.on_messages = lambda _: transport.pause_reading()
    async with started(transport, sink):
        await sink.until_messages(1)
        transport.write(b"go on")
        assert transport._child is not None
        with anyio.fail_after(LIMIT):
            await transport._child.wait()
        await turns(20)
        assert sink.log == ["messages"]
        sink.on_messages = None
        transport.resume_reading()
        error = await sink.until_input_ended()
        assert isinstance(error, ProcessExitedError)
        assert sink.messages == [b"1", b"2", b"3"]


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long the end of a pipe is taken for the child's."""
    monkeypatch.setattr("mcpl_core.transports.subprocess._EXIT_GRACE", 0.02)


@pytest.mark.usefixtures("short_grace")
async def test_a_child_that_closes_its_output_and_lives_on() -> None:
    transport = python("os.write(1, b'bye\\n'); os.close(1); time.sleep(100)", close_timeout=0.05)
    async with started(transport) as sink:
        assert await sink.until_input_ended() is None
        assert transport.returncode is None
        assert sink.messages == [b"bye"]


@pytest.mark.usefixtures("short_grace")
async def test_a_child_that_closes_its_input_and_lives_on() -> None:
    transport = python("os.close(0); os.write(1, b'deaf\\n'); time.sleep(100)", close_timeout=0.05)
    async with started(transport) as sink:
        await sink.until_messages(1)
        transport.write(b"x")
        await sink.until_output_failed()
        assert sink.log == ["messages", "output"]


@pytest.mark.usefixtures("short_grace")
async def test_a_child_that_closes_its_input_then_its_output() -> None:
    code = (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.close(0); os.write(1, b'deaf\\n')\n"
        "signal.sigwait([signal.SIGUSR1]); os.close(1); time.sleep(100)"
    )
    transport = python(code, close_timeout=0.05)
    async with started(transport) as sink:
        await sink.until_messages(1)
        transport.write(b"x")
        await sink.until_output_failed()
        assert transport._child is not None
        os.kill(transport._child.pid, signal.SIGUSR1)
        assert await sink.until_input_ended() is None
        # Which of the two is seen first is nobody's promise.
        assert (sorted(sink.log[:2]), sink.log[2:]) == (["messages", "output"], ["input"])


async def test_a_child_that_ends_while_we_write_tells_its_status_not_the_broken_pipe() -> None:
    transport = python("os.write(2, b'no more\\n'); os._exit(5)")
    async with started(transport) as sink:
        for _ in range(100):
            transport.write(b"x" * 50_000)
        error = await sink.until_input_ended()
        assert isinstance(error, ProcessExitedError)
        assert error.returncode == 5
        assert sink.log[0] == "input"


async def test_the_ladder_begins_with_the_end_of_its_input(tmp_path: Path) -> None:
    transport = python(f"sys.stdin.read(); open({str(tmp_path / 'gentle')!r}, 'w').close()")
    async with started(transport) as sink:
        pass
    assert (tmp_path / "gentle").exists()
    assert sink.log == []


async def test_then_comes_a_request_to_terminate(tmp_path: Path) -> None:
    code = (
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(tmp_path / 'asked')!r}, 'w').close(), os._exit(0)))\n"
        "os.write(1, b'ready\\n')\n"
        "while True: time.sleep(100)"
    )
    transport = python(code, close_timeout=0.05)
    async with started(transport) as sink:
        await sink.until_messages(1)
    assert (tmp_path / "asked").exists()


async def test_and_then_the_end() -> None:
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(1, b'ready\\n')\nwhile True: time.sleep(100)"
    transport = python(code, close_timeout=0.05, terminate_timeout=0.05)
    async with started(transport) as sink:
        await sink.until_messages(1)
        with anyio.fail_after(LIMIT):
            await transport.aclose()
    assert transport.returncode == -signal.SIGKILL
    assert transport.pid is not None
    assert not alive(transport.pid)


async def test_the_whole_group_ends() -> None:
    code = (
        "stubborn = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);'\n"
        "stubborn += 'print(1, flush=True); time.sleep(100)'\n"
        "child = subprocess.Popen([sys.executable, '-c', stubborn], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "os.write(1, b'%d\\n' % child.pid)\n"
        "sys.stdin.read()"
    )
    transport = python(code, terminate_timeout=0.05)
    async with started(transport) as sink:
        grandchild = int((await sink.until_messages(1))[0])
        assert alive(grandchild)
    await ended(grandchild)
    assert not alive(grandchild)


async def test_the_rest_of_the_group_is_asked_first(tmp_path: Path) -> None:
    gentle = (
        "import os, signal, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(tmp_path / 'asked')!r}, 'w').close(), os._exit(0)))\n"
        "print(1, flush=True)\n"
        "time.sleep(100)"
    )
    code = (
        f"child = subprocess.Popen([sys.executable, '-c', {gentle!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "os.write(1, b'%d\\n' % child.pid)\n"
        "sys.stdin.read()"
    )
    transport = python(code)
    async with started(transport) as sink:
        grandchild = int((await sink.until_messages(1))[0])
    await ended(grandchild)
    assert (tmp_path / "asked").exists()


async def test_closing_flushes() -> None:
    transport = python("data = sys.stdin.buffer.read(); sys.stderr.write(str(len(data)))", close_timeout=LIMIT)
    lines: list[str] = []
    transport._tail._on_line = lines.append
    async with started(transport):
        for _ in range(50):
            transport.write(b"x" * 100_000)
        assert is_behind(transport)
    assert lines == [str(50 * 100_001)]


async def test_closing_while_the_child_talks_and_nobody_reads() -> None:
    code = (
        "import threading\nthreading.Thread(target=lambda: os.write(1, b'x\\n' * 5_000_000)).start()\nsys.stdin.read()"
    )
    transport = python(code)
    async with started(transport) as sink:
        transport.pause_reading()
        await turns()
        assert sink.log == []
    # It wrote all it had and ended by itself.
    assert transport._child is not None
    assert transport._child._popen.returncode == 0


async def test_a_cancelled_aclose_kills_at_once() -> None:
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(1, b'ready\\n')\nwhile True: time.sleep(100)"
    transport = python(code, close_timeout=LIMIT)
    async with started(transport) as sink:
        await sink.until_messages(1)
        with anyio.fail_after(LIMIT), anyio.move_on_after(0.05) as scope:
            await transport.aclose()
        assert scope.cancelled_caught
        assert transport.pid is not None
        assert not alive(transport.pid)
        await transport.aclose()


async def test_closing_when_the_tasks_are_gone() -> None:
    transport, sink = python(ECHO), RecordingSink()
    async with event_loop() as loop:
        await transport.start(sink, loop)
        await turns()
    with anyio.fail_after(LIMIT):
        await transport.aclose()
    assert sink.log == []


async def test_a_cancelled_start_leaves_nothing() -> None:
    async with event_loop() as loop:
        with anyio.CancelScope() as scope:
            scope.cancel()
            transport = python("time.sleep(100)", close_timeout=0.05)
            await transport.start(RecordingSink(), loop)
            await anyio.lowlevel.checkpoint()
        await transport.aclose()


async def test_a_start_that_fails_half_way_leaves_nothing() -> None:
    async with event_loop() as loop:
        pass
    transport = python("time.sleep(100)")
    with pytest.raises(Exception):  # noqa: B017 - the backends differ
        await transport.start(RecordingSink(), loop)
        # asyncio takes a task into a group that was cancelled.
        await transport.aclose()
        raise RuntimeError


@pytest.mark.parametrize(
    ("command", "cwd"),
    [(["/nonexistent/program", "secret-argument"], None), ([os.devnull], None), (["true"], "/nonexistent/directory")],
)
async def test_what_cannot_be_started(command: list[str], cwd: str | None) -> None:
    transport = SubprocessTransport(command, cwd=cwd)
    async with event_loop() as loop:
        with pytest.raises(TransportError) as caught:
            await transport.start(RecordingSink(), loop)
        assert isinstance(caught.value.__cause__, OSError)
        assert command[0] in caught.value.detail
        assert "secret" not in caught.value.detail
        await transport.aclose()


async def test_a_flood_of_standard_error() -> None:
    code = "sys.stderr.write(('x' * 99 + '\\n') * 100_000 + 'end')\nprint('done', flush=True)\nsys.stdin.read()"
    lines: list[int] = []
    transport = python(code, on_stderr=lambda line: lines.append(len(line)))
    async with started(transport) as sink:
        await sink.until_messages(1)
    assert len(lines) == 100_001
    assert str(transport._tail).endswith("x\nend")


async def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    monkeypatch.setenv("HOME", str(tmp_path))
    code = "print([os.environ.get(name) for name in ('SECRET_TOKEN', 'HOME', 'ADDED')], os.getcwd())"
    for inherit, expected in ((False, None), (True, "hidden")):
        transport = python(code, env={"ADDED": "1"}, cwd=tmp_path, inherit_env=inherit)
        async with started(transport) as sink:
            assert await sink.until_input_ended() is None
            assert sink.messages == [f"{[expected, str(tmp_path), '1']} {tmp_path}".encode()]


async def test_an_environment_may_be_replaced() -> None:
    transport = python(
        "print(sorted(os.environ))", env={"ADDED": "1"}, replace_env={"ONLY": "1", "LC_CTYPE": "C.UTF-8"}
    )
    async with started(transport) as sink:
        assert await sink.until_input_ended() is None
        assert sink.messages == [b"['ADDED', 'LC_CTYPE', 'ONLY']"]


async def test_a_command_may_hold_paths(tmp_path: Path) -> None:
    script = tmp_path / "script with spaces; and more"
    script.write_text("print('here')")
    async with started(SubprocessTransport([Path(sys.executable), script])) as sink:
        assert await sink.until_input_ended() is None
        assert sink.messages == [b"here"]


@pytest.mark.parametrize(
    "wrong", ["python server.py", b"python", Path("python"), 3, None, [1], [b"python"], ["a", None]]
)
def test_a_command_is_a_sequence_of_words(wrong: Any) -> None:
    with pytest.raises(TypeError):
        SubprocessTransport(wrong)


@pytest.mark.parametrize("wrong", [[], [""], ["a\0b"]])
def test_a_command_names_a_program(wrong: list[str]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        SubprocessTransport(wrong)
    assert caught.value.code == "command"


async def test_the_child_gets_no_descriptor_of_ours() -> None:
    code = "print(sorted(int(name) for name in os.listdir('/proc/self/fd')))"
    if sys.platform != "linux":
        pytest.skip("not on this system")
    async with started(python(code)) as sink:
        await sink.until_input_ended()
        # The fourth is the one that lists them.
        assert sink.messages == [b"[0, 1, 2, 3]"]


async def test_memory_stays_bounded_when_the_child_does_not_read() -> None:
    transport = python("os.write(1, b'ready\\n'); time.sleep(1000)", close_timeout=0.05)
    async with started(transport) as sink:
        await sink.until_messages(1)
        message, before, offered, waited = b"x" * 1000, resident_megabytes(), 0, 0
        while offered < 200_000_000 and waited == 0:
            transport.write(message)
            offered += len(message)
            if transport.behind:
                with anyio.move_on_after(0.05) as scope:
                    await transport.drain()
                waited += scope.cancelled_caught
        assert waited == 1, "drain waits"
        assert offered < 4_000_000
        assert resident_megabytes() - before < 20


async def test_memory_stays_flat_when_we_do_not_read() -> None:
    code = "os.write(1, b'ready\\n')\nline = b'x' * 999 + b'\\n'\nfor _ in range(200_000): os.write(1, line)"
    transport = python(code, close_timeout=0.05)
    sink = RecordingSink()
    sink.on_messages = lambda _: transport.pause_reading()
    async with started(transport, sink):
        await sink.until_messages(1)
        before, count = resident_megabytes(), len(sink.messages)
        with anyio.move_on_after(0.3):
            await sink.until(lambda: False)
        assert len(sink.messages) - count <= 66
        assert resident_megabytes() - before < 10
        sink.on_messages = None
        transport.resume_reading()
        await sink.until_messages(100_000)
