"""What the tests of the commands share: the command as a child process, plain or on a pseudo-terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Seconds after which a child that should have ended has failed.
LIMIT = 30.0

MCPL = [sys.executable, "-m", "mcpl_core"]
ECHO_SERVER = [sys.executable, str(Path(__file__).resolve().parents[2] / "examples" / "echo_server.py")]


def mcpl(*arguments: str, input: bytes = b"", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    done = subprocess.run(
        [*MCPL, *arguments], input=input, capture_output=True, timeout=LIMIT, env=os.environ | (env or {})
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


class Lines:
    """The lines of a pipe, one after the other, none waited for longer than the limit."""

    def __init__(self, stream: Any) -> None:
        self._fd: int = stream.fileno()
        self._buffer = b""

    def next(self) -> str:
        """The next line without its end; empty at the end of the pipe."""
        deadline = time.monotonic() + LIMIT
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "nothing came"
            data = os.read(self._fd, 65536)
            if not data:
                break
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()


class Running:
    """The command while it runs, its output and its errors read line by line."""

    def __init__(self, arguments: tuple[str, ...], env: dict[str, str] | None) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*MCPL, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=os.environ | (env or {})
        )
        self.pid = self.process.pid
        self._out, self._err = Lines(self.process.stdout), Lines(self.process.stderr)

    def say(self, *messages: Any) -> None:
        """Writes messages to its input."""
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def out(self) -> str:
        """The next line of its output."""
        return self._out.next()

    def err(self) -> str:
        """The next line of its errors."""
        return self._err.next()

    def err_until(self, part: str) -> str:
        """The next line of its errors that has ``part`` in it."""
        while part not in (line := self.err()):
            assert line, f"{part!r} never came"
        return line

    def end(self, number: int | None = None) -> int:
        """Sends a signal, or ends its input, and waits; its exit status."""
        assert self.process.stdin is not None
        if number is None:
            self.process.stdin.close()
        else:
            self.process.send_signal(number)
        return self.process.wait(LIMIT)


@contextmanager
def running(*arguments: str, env: dict[str, str] | None = None) -> Iterator[Running]:
    """Runs the command for the length of a block."""
    child = Running(arguments, env)
    try:
        yield child
    finally:
        child.process.kill()
        child.process.wait()
        for stream in (child.process.stdin, child.process.stdout, child.process.stderr):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                pass


@contextmanager
def relay_to(
    *target: str, listen: str = "ws://127.0.0.1:0", options: tuple[str, ...] = ()
) -> Iterator[tuple[str, Running]]:
    """Runs ``mcpl relay --listen``; yields where it listens."""
    with running("relay", "--listen", listen, *options, *target) as child:
        endpoint = child.err_until("listening on").rpartition(" ")[2]
        yield endpoint, child


class Terminal:
    """The command on a pseudo-terminal."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        master, slave = pty.openpty()
        env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
        env.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [*MCPL, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            start_new_session=True,
            close_fds=True,
        )
        os.close(slave)
        self._master = master
        self.text = ""

    def until(self, part: str) -> str:
        """Reads until ``part`` was shown; all that was shown."""
        deadline = time.monotonic() + LIMIT
        while part not in self.text:
            assert self._read(deadline), f"{part!r} was never shown: {self.text!r}"
        return self.text

    def press_ctrl_c(self) -> None:
        """As a terminal does: a signal to the whole group in its foreground."""
        os.killpg(self.process.pid, signal.SIGINT)

    def type(self, text: str) -> None:
        """Types."""
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Reads to the end; the exit status."""
        deadline = time.monotonic() + LIMIT
        while self._read(deadline):
            pass
        return self.process.wait(LIMIT)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more was shown after {self.text!r}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def close(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    """Runs the command on a pseudo-terminal for the length of a block."""
    child = Terminal(arguments)
    try:
        yield child
    finally:
        child.close()


def is_alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int) -> bool:
    """Whether a process ends, within the limit."""
    deadline = time.monotonic() + LIMIT
    while is_alive(pid) and time.monotonic() < deadline:
        select.select([], [], [], 0.01)
    return not is_alive(pid)
