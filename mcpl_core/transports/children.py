"""A child process as the leader of its own group.

Owns: spawning it, noticing that it ended, signals to its whole group, and reaping it. Where the system can (Linux) a
child that has ended stays a zombie until it is reaped here, so that its number, and its group's, cannot have been
given to somebody else when a signal is sent. Does not own: what is said over its pipes, and when it must end
(``subprocess``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio
import anyio.to_thread

from .descriptors import enlarge_pipe

__all__ = ("Child", "safe_environment")

#: What a program needs to find its way, and nothing that is secret.
_SAFE_VARIABLES = (
    ("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE")
    + ("PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE")
    if sys.platform == "win32"
    else ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
)

#: Seconds between two looks at a group whose leader is gone, at first and at most; nothing tells when its last member
#: ends.
_GROUP_POLL = (0.005, 0.1)


def safe_environment(environ: Mapping[str, str], extra: Mapping[str, str] | None) -> dict[str, str]:
    """The few usual variables of ``environ``, and all of ``extra``."""
    return {name: environ[name] for name in _SAFE_VARIABLES if name in environ} | dict(extra or {})


class Child:
    """A child process with pipes for its standard streams.

    Attributes:
        pid: its number, and its group's.
        stdin, stdout, stderr: our ends of the pipes; whoever takes them closes them.

    Raises:
        OSError: there is no such program, or it cannot be run.
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: str | os.PathLike[str] | None = None
    ) -> None:
        theirs: list[int] = []
        ours: list[int] = []
        try:
            for their_end in (0, 1, 1):
                pair = os.pipe()
                theirs.append(pair[their_end])
                ours.append(pair[1 - their_end])
            self._popen = subprocess.Popen(
                command,
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        except BaseException:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self.pid = self._popen.pid
        self._group_is_gone = False
        self.stdin, self.stdout, self.stderr = ours
        for fd in (self.stdin, self.stdout):
            enlarge_pipe(fd)

    async def wait(self) -> int:
        """Returns when the process has ended: its exit status, or minus the signal number. Any number may wait."""
        if not hasattr(os, "pidfd_open"):
            # A thread of its own; it ends with the process.
            limiter = anyio.CapacityLimiter(1)
            return await anyio.to_thread.run_sync(self._wait_and_reap, abandon_on_cancel=True, limiter=limiter)
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:  # reaped already
            return self._popen.wait()
        try:
            await anyio.wait_readable(fd)
        finally:
            os.close(fd)
        return self._status()

    def _status(self) -> int:
        try:
            # Looks, and leaves the zombie where it is.
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # reaped already, or the process ignores SIGCHLD
            status = None
        if status is None:
            return self._popen.wait()
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status

    def _wait_and_reap(self) -> int:
        status = self._popen.wait()
        self.has_group()
        return status

    def reap(self) -> bool:
        """Takes the process away if it has ended; whether it has. Never waits."""
        return self._popen.poll() is not None

    def has_group(self) -> bool:
        """Whether its group has members. Before it is reaped the process itself is one, dead or alive."""
        if not self._group_is_gone:
            try:
                os.killpg(self.pid, 0)
            except (ProcessLookupError, PermissionError):
                # From now on the number may be given to others.
                self._group_is_gone = True
        return not self._group_is_gone

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the whole group, as far as there is one."""
        if self.has_group():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def group_ended(self) -> None:
        """Returns when the group has no living members any more; only after ``reap``."""
        delay, longest = _GROUP_POLL
        while self.has_group() and not _all_zombies(self.pid):
            await anyio.sleep(delay)
            delay = min(2 * delay, longest)


def _all_zombies(group: int) -> bool:
    """Whether all members of the group have ended, as far as the system tells (Linux).

    Orphans may wait long to be reaped: in a container by a first process that does not care.
    """
    living = False
    for directory in os.listdir("/proc") if sys.platform == "linux" else ():
        with suppress(OSError), open(f"/proc/{directory}/stat", "rb") as file:
            # pid (name) state parent group ...; the name may hold anything.
            state, _, member_of = file.read().rpartition(b")")[2].split()[:3]
            living |= int(member_of) == group and state not in b"ZX"
    return sys.platform == "linux" and not living
