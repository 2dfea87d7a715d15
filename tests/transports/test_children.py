"""Child processes as leaders of their own group."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from mcpl_core.transports.children import Child, safe_environment
from tests.transports.recording import LIMIT

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("no_leaks"),
    pytest.mark.skipif(sys.platform == "win32", reason="not promised there"),
]


@contextmanager
def child_of(code: str, **options: str) -> Iterator[Child]:
    child = Child([sys.executable, "-c", code], env=os.environ, **options)
    try:
        yield child
    finally:
        child.signal(signal.SIGKILL)
        for fd in (child.stdin, child.stdout, child.stderr):
            os.close(fd)
        child._popen.wait()


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"


@pytest.fixture(params=["watched", "thread"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the end is noticed: where the system tells, and where it does not."""
    if request.param == "thread":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif not hasattr(os, "pidfd_open"):
        pytest.skip("not on this system")
    way: str = request.param
    return way


async def test_exit_status(way: str) -> None:
    with child_of("raise SystemExit(7)") as child, anyio.fail_after(LIMIT):
        assert await child.wait() == 7
        assert await child.wait() == 7
        if way == "watched" and sys.platform == "linux":
            assert is_zombie(child.pid)
            assert child.has_group()
        assert child.reap()
        assert not child.has_group()
        assert await child.wait() == 7
        child.signal(signal.SIGKILL)


async def test_killed_by_a_signal(way: str) -> None:
    with child_of("import time; time.sleep(100)") as child, anyio.fail_after(LIMIT):
        assert not child.reap()
        child.signal(signal.SIGTERM)
        assert await child.wait() == -signal.SIGTERM
        assert child.reap()


async def test_many_may_wait_and_be_cancelled(way: str) -> None:
    statuses: list[int] = []
    with child_of("input(); raise SystemExit(3)") as child, anyio.fail_after(LIMIT):

        async def wait() -> None:
            statuses.append(await child.wait())

        with anyio.move_on_after(0.01) as scope:
            await child.wait()
        assert scope.cancelled_caught
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(wait)
            os.write(child.stdin, b"\n")
        assert statuses == [3, 3]


async def test_a_status_that_somebody_else_took() -> None:
    with child_of("pass") as child, anyio.fail_after(LIMIT):
        await child.wait()
        os.waitpid(child.pid, 0)  # noqa: ASYNC222 - it has ended
        assert child._status() == 0
        assert child.reap()
        assert await child.wait() == 0


async def test_its_own_session_and_group() -> None:
    with child_of("import os; os.write(1, b'%d %d' % (os.getsid(0), os.getpgid(0))); input()") as child:
        session, group = os.read(child.stdout, 100).split()
        assert int(session) == int(group) == child.pid
        assert os.getpgid(0) != child.pid


async def test_the_group_outlives_its_leader() -> None:
    code = "import subprocess, sys; subprocess.Popen(['sleep', '100'], stdout=2); raise SystemExit(0)"
    with child_of(code) as child, anyio.fail_after(LIMIT):
        assert await child.wait() == 0
        assert child.reap()
        assert child.has_group()
        with anyio.move_on_after(0.05) as scope:
            await child.group_ended()
        assert scope.cancelled_caught
        child.signal(signal.SIGTERM)
        await child.group_ended()
        # Whether or not somebody has reaped the orphan by now.
        child.signal(signal.SIGKILL)


async def test_working_directory(tmp_path: Path) -> None:
    with child_of("import os; os.write(1, os.getcwd().encode())", cwd=str(tmp_path)) as child, anyio.fail_after(LIMIT):
        await child.wait()
        assert os.read(child.stdout, 1000).decode() == str(tmp_path)


@pytest.mark.parametrize(
    ("command", "cwd", "error"),
    [
        (["/nonexistent/program"], None, FileNotFoundError),
        ([sys.executable], "/nonexistent", FileNotFoundError),
        ([os.devnull], None, PermissionError),
    ],
)
async def test_what_cannot_be_started_leaves_nothing(
    command: list[str], cwd: str | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Child(command, env={}, cwd=cwd)


async def test_no_descriptors_left_for_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = os.pipe
    made: list[tuple[int, int]] = []

    def scarce() -> tuple[int, int]:
        if len(made) == 2:
            raise OSError(24, "Too many open files")
        made.append(pipe())
        return made[-1]

    monkeypatch.setattr(os, "pipe", scarce)
    with pytest.raises(OSError):
        Child([sys.executable], env={})


def test_large_pipes() -> None:
    if sys.platform != "linux":
        pytest.skip("not on this system")
    import fcntl

    with child_of("input()") as child:
        assert fcntl.fcntl(child.stdin, fcntl.F_GETPIPE_SZ) == 1 << 20
        assert fcntl.fcntl(child.stdout, fcntl.F_GETPIPE_SZ) == 1 << 20


def test_the_safe_environment() -> None:
    environ = {"PATH": "/bin", "HOME": "/root", "SECRET_TOKEN": "x", "LD_PRELOAD": "x"}
    assert safe_environment(environ, None) == {"PATH": "/bin", "HOME": "/root"}
    assert safe_environment(environ, {"A": "1", "PATH": "/usr"}) == {"PATH": "/usr", "HOME": "/root", "A": "1"}
