"""A child process that speaks over its standard input and output.

Owns: the life of the child. It is its own group, never ours; its standard error is drained always; it ends with the
transport, within a bound: its input is closed, then its group is terminated, then killed. A child that has ended
ends the connection, even if somebody else holds its pipes open, but only after what lies in them was read. Does not
own: framing and pipes (``lines``, ``descriptors``), processes and signals (``children``). Promised on Linux and macOS.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath

import anyio

from ..errors import InvalidValueError, ProcessExitedError, TransportError
from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from .base import DEFAULT_CLOSE_TIMEOUT
from .children import Child, safe_environment
from .descriptors import available, open_input, open_output
from .lines import Input, LineTransport
from .loop import EventLoop, TimerHandle
from .stderr_tail import StderrTail

__all__ = ("DEFAULT_TERMINATE_TIMEOUT", "SubprocessTransport")

#: Seconds that the group has after SIGTERM.
DEFAULT_TERMINATE_TIMEOUT = 2.0

#: Seconds between the end of a pipe and the end of the process, while they are taken for one event.
_EXIT_GRACE = 0.5

#: Seconds for a killed process to be gone; only one that hangs inside the kernel takes longer.
_KILL_TIMEOUT = 1.0


class SubprocessTransport(LineTransport):
    """Lines over the standard input and output of a child process.

    A child that exits with status 0 is an ordinary end of input; any other end of it is a ``ProcessExitedError``.

    Args:
        command: the program and its arguments, never a shell line.
        env: variables added to the environment.
        cwd: the child's working directory.
        inherit_env: whether the child gets all of our environment instead of a small safe part of it.
        replace_env: the environment to add to, in the place of ours.
        on_stderr: called with each line of its standard error. The last 50 lines (16 KiB) are kept for errors.
        terminate_timeout: seconds that its group has to end after SIGTERM, before SIGKILL.
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that ``aclose`` gives the child to read what was written and, at the end of its input,
            to exit by itself.

    Attributes:
        pid: the child's number, once started.
        returncode: its exit status, or minus the signal number, once it has ended.

    Raises:
        TypeError: ``command`` is a string, or holds something that is no string and no path.
        InvalidValueError: ``command`` is empty or holds a NUL.
    """

    pid: int | None = None
    returncode: int | None = None

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        inherit_env: bool = False,
        replace_env: Mapping[str, str] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        terminate_timeout: float = DEFAULT_TERMINATE_TIMEOUT,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        super().__init__(max_message_bytes=max_message_bytes, close_timeout=close_timeout)
        self._command = _checked(command)
        self.name = PurePath(self._command[0]).name
        self._env = env
        self._cwd = cwd
        self._inherit_env = inherit_env
        self._replace_env = replace_env
        self._terminate_timeout = terminate_timeout
        self._child: Child | None = None
        self._watching: anyio.CancelScope | None = None
        self._stderr: Input | None = None
        self._tail = StderrTail(on_stderr, self._stderr_progress)
        #: Bytes that lay in the pipes when the child ended, and are not read yet.
        self._stdout_left = 0
        self._stderr_left = 0
        self._stdout_over = False
        #: What became of the pipes before the child's end was known.
        self._lost: list[Callable[[], None]] = []
        self._grace: TimerHandle | None = None

    async def _open(self, loop: EventLoop) -> None:
        if sys.platform == "win32":
            raise TransportError(f"{self.name}: child processes are not served on this system")
        try:
            child = Child(self._command, env=self._environment(), cwd=self._cwd)
        except (OSError, ValueError) as error:
            # The name in an OSError tells a missing program from a missing directory.
            raise TransportError(f"{self._command[0]} cannot be started: {error}") from error
        self._child = child
        self.pid = child.pid
        self._output = open_output(child.stdin, self, loop)
        self._input = open_input(child.stdout, self, loop)
        self._stderr = open_input(child.stderr, self._tail, loop)
        await self._stderr.begin()
        self._watching = anyio.CancelScope()
        loop.tasks.start_soon(self._watch, child, self._watching, name="mcpl child")

    def _environment(self) -> dict[str, str]:
        if self._replace_env is None and not self._inherit_env:
            return safe_environment(os.environ, self._env)
        return dict(os.environ if self._replace_env is None else self._replace_env) | dict(self._env or {})

    # How it ends by itself.

    async def _watch(self, child: Child, scope: anyio.CancelScope) -> None:
        with scope:
            self.returncode = await child.wait()
            if not self._silent:
                self._stdout_left = 0 if self._stdout_over else available(child.stdout) + self._input.held
                self._stderr_left = 0 if self._tail.over else available(child.stderr)
                self._settle()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.returncode is not None:
            self._stdout_left -= len(data)
            self._settle()

    def _stderr_progress(self, size: int) -> None:
        self._stderr_left = 0 if self._tail.over else self._stderr_left - size
        if self.returncode is not None:
            self._settle()

    def input_lost(self, cause: BaseException | None) -> None:
        self._stdout_over = True
        self._stdout_left = 0
        self._pipe_lost(lambda: super(SubprocessTransport, self).input_lost(cause))

    def output_lost(self, cause: BaseException | None) -> None:
        self._pipe_lost(lambda: super(SubprocessTransport, self).output_lost(cause))

    def _pipe_lost(self, tell: Callable[[], None]) -> None:
        """A pipe is lost mostly because the child ends; what it ended with says more."""
        self._lost.append(tell)
        if self._grace is None:
            self._grace = self._loop.call_at(self._loop.time() + _EXIT_GRACE, self._grace_over)
        self._settle()

    def _grace_over(self) -> None:
        """The child lives on without the pipe."""
        if self.returncode is None:
            self._grace = None
            self._tell_lost()

    def _tell_lost(self) -> None:
        lost, self._lost = self._lost, []
        for tell in lost:
            tell()

    def _settle(self) -> None:
        """Tells of the child's end once what it left in its pipes was read."""
        if self.returncode is None or self._stdout_left > 0 or self._stderr_left > 0 or self._silent:
            return
        if not self._started:
            self._loop.call_soon(self._settle)
            return
        if not self._input_told:
            failed = self.returncode != 0
            error = ProcessExitedError(self.name, self.returncode, str(self._tail)) if failed else None
            self._end_input(error, cut_off=False)
        self._tell_lost()

    # How it is ended.

    async def _say_goodbye(self) -> None:
        child = self._child
        if child is None:
            return
        # What it still writes is dropped, and must not keep it from ending.
        self._input.resume()
        with anyio.move_on_after(self.close_timeout):
            await self._output.finish()
            await child.wait()
        asked = not child.reap()
        if asked:
            child.signal(signal.SIGTERM)
            with anyio.move_on_after(self._terminate_timeout):
                await child.wait()
        if child.reap() and child.has_group():
            if not asked:
                child.signal(signal.SIGTERM)
            with anyio.move_on_after(self._terminate_timeout):
                await child.group_ended()

    async def _let_go(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        if self._grace is not None:
            self._grace.cancel()
        if self._child is not None:
            self._child.signal(signal.SIGKILL)
            with anyio.move_on_after(_KILL_TIMEOUT, shield=True):
                self.returncode = await self._child.wait()
            self._child.reap()
        if self._stderr is not None:
            self._stderr.stop()
            with anyio.move_on_after(_KILL_TIMEOUT, shield=True):
                await self._stderr.released()
        await super()._let_go()


def _checked(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    if isinstance(command, str | bytes | os.PathLike) or not isinstance(command, Iterable):
        raise TypeError(f"a command is a sequence of a program and its arguments, not {command!r}")
    words = [os.fspath(word) for word in command]
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"the words of a command are strings or paths, not {word!r}")
        if "\0" in word:
            raise InvalidValueError("command", "a word of the command holds a NUL character")
    if not words or not words[0]:
        raise InvalidValueError("command", "the command names no program")
    return words
