"""The SQLite store: its file, its pragmas, its thread. What every store promises is in the contract suite."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.approvals import ApprovalError, ApprovalStorageError, Run, SqliteApprovalStore, Transaction
from mcpl_core.approvals.sqlite.store import _MEANINGS
from mcpl_core.errors import InvalidValueError
from tests.approvals.world import Host

LIMIT = 30.0
RUN = Run("run", "run", "alice", "preset")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "approvals.db"


@pytest.fixture
def no_database(tmp_path: Path) -> Path:
    made = tmp_path / "text.db"
    made.write_bytes(b"this is no database, whatever its name says" * 50)
    return made


async def _refused(store: SqliteApprovalStore) -> str:
    with pytest.raises(ApprovalStorageError) as caught:
        async with store:
            pytest.fail("it was opened")
    return caught.value.detail


@pytest.mark.anyio
async def test_what_makes_a_commit_last(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(path) as store:
            seen = await store.read(
                lambda tx: [
                    tx._execute(f"PRAGMA {name}", ())[0][0]  # type: ignore[attr-defined]
                    for name in ("journal_mode", "synchronous", "query_only")
                ]
            )
            assert seen == ["wal", 2, 1]
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()


@pytest.mark.anyio
async def test_one_thread_does_it_all(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(path) as store:
            names: set[str] = set()

            async def look() -> None:
                names.add(await store.read(lambda tx: threading.current_thread().name))

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(look)
            assert names == {"mcpl-approvals_0"}


@pytest.mark.anyio
async def test_a_file_of_somebody_else(path: Path, no_database: Path) -> None:
    with anyio.fail_after(LIMIT):
        await _refused(SqliteApprovalStore(no_database))
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE notes (x)")
        database.close()
        await _refused(SqliteApprovalStore(path))
        database = sqlite3.connect(path)
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("notes",)]
        database.close()


@pytest.mark.anyio
async def test_a_file_that_is_not_there(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        await _refused(SqliteApprovalStore(path, create=False))
        assert os.listdir(path.parent) == []
        await _refused(SqliteApprovalStore(path / "no" / "folder.db"))
        async with SqliteApprovalStore(path):
            pass
        async with SqliteApprovalStore(path, create=False) as store:
            assert await store.read(lambda tx: tx.open_work()) == (0, 0)


@pytest.mark.anyio
async def test_another_process_that_does_not_let_go(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(path, busy_timeout=0.0) as store:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(ApprovalStorageError):
                await store.write(lambda tx: tx.save_run(RUN))
            assert await store.read(lambda tx: tx.run("run")) is None
            other.execute("ROLLBACK")
            other.close()
            await store.write(lambda tx: tx.save_run(RUN))


@pytest.mark.anyio
async def test_many_hosts_make_the_file_at_once(path: Path) -> None:
    with anyio.fail_after(LIMIT):

        async def start() -> None:
            async with SqliteApprovalStore(path) as store:
                await store.activate()
                assert await store.read(lambda tx: tx.records()) == []

        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(start)


@pytest.mark.anyio
async def test_it_is_closed_also_when_the_caller_is_cancelled(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        with anyio.CancelScope() as scope:
            async with SqliteApprovalStore(path) as store:
                scope.cancel()
        with pytest.raises(ApprovalStorageError):
            await store.read(lambda tx: None)
        # The last one to close a file takes its log away.
        assert os.listdir(path.parent) == ["approvals.db"]


@pytest.mark.anyio
async def test_nobody_else_reads_it_unless_they_are_let(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(path) as store:
            await store.write(lambda tx: tx.save_run(RUN))
            assert {name: _mode(path.with_name(name)) for name in os.listdir(path.parent)} == {
                "approvals.db": 0o600,
                "approvals.db-wal": 0o600,
                "approvals.db-shm": 0o600,
            }
        os.chmod(path, 0o640)
        async with SqliteApprovalStore(path):
            assert _mode(path) == 0o640


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.anyio
@pytest.mark.parametrize("name", [":memory:", "file:approvals.db?mode=memory", ""])
async def test_a_name_is_the_name_of_a_file(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    store = SqliteApprovalStore(name)
    monkeypatch.chdir("/")
    with anyio.fail_after(LIMIT):
        if not name:
            await _refused(store)
            return
        async with store:
            await store.write(lambda tx: tx.save_run(RUN))
        assert os.listdir(path.parent) == [name]


async def _use(store: SqliteApprovalStore) -> None:
    with pytest.raises(ApprovalStorageError):
        await store.write(lambda tx: tx.save_run(RUN))
    with pytest.raises(ApprovalStorageError):
        await store.read(lambda tx: tx.run("run"))


@pytest.mark.anyio
async def test_a_file_that_is_taken_away_or_replaced_is_used_no_more(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(path) as store:
            for name in os.listdir(path.parent):
                os.rename(path.with_name(name), path.with_name(f"moved-{name}"))
            await _use(store)
            async with SqliteApprovalStore(path) as other:
                await other.write(lambda tx: tx.save_run(RUN))
                await _use(store)


@pytest.mark.anyio
async def test_a_file_of_two_names(path: Path) -> None:
    """Each name would have a log of its own, and neither would see the claims of the other."""
    second = path.with_name("second.db")
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(path) as store:
            os.link(path, second)
            await _use(store)
        await _refused(SqliteApprovalStore(second))
        os.unlink(second)
        os.symlink(path, second)
        async with SqliteApprovalStore(path) as store, SqliteApprovalStore(second) as other:
            await store.write(lambda tx: tx.save_run(RUN))
            assert await other.read(lambda tx: tx.run("run")) == RUN


@pytest.mark.anyio
async def test_what_is_no_file(path: Path) -> None:
    os.mkfifo(path)
    with anyio.fail_after(LIMIT):
        await _refused(SqliteApprovalStore(path))
        await _refused(SqliteApprovalStore(path.parent))


@pytest.mark.anyio
@pytest.mark.parametrize("format", [0, -1, 3, 99])
async def test_a_format_that_nobody_knows(path: Path, format: int) -> None:
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(path) as store:
            other = sqlite3.connect(path)
            other.execute(f"PRAGMA user_version = {format}")
            other.close()
            for again in (store, SqliteApprovalStore(path)):
                with pytest.raises(ApprovalError) as caught:
                    if again is store:
                        await again.read(lambda tx: tx.run("run"))
                    else:
                        await again.__aenter__()
                assert caught.value.code == "approval_storage_version"


@pytest.mark.anyio
async def test_text_that_is_none(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(path) as store:
            await store.write(lambda tx: tx.save_run(RUN))
            other = sqlite3.connect(path, isolation_level=None)
            for damage in ("CAST(X'7bff7d' AS TEXT)", "X'7b7d'", "7", "0.5"):
                other.execute(f"UPDATE mcpl_runs SET body = {damage}")
                with pytest.raises(ApprovalError) as caught:
                    await store.read(lambda tx: tx.run("run"))
                assert caught.value.code == "approval_record_conflict"
            other.close()


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), True, "1", None, 90_000])
def test_a_time_to_wait_is_one(path: Path, timeout: float) -> None:
    with pytest.raises(InvalidValueError):
        SqliteApprovalStore(path, busy_timeout=timeout)


@pytest.mark.anyio
async def test_a_store_that_was_not_entered(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        store = SqliteApprovalStore(path)
        await _use(store)
        await store.aclose()
        assert os.listdir(path.parent) == []


@pytest.mark.anyio
async def test_nobody_else_reads_it_from_its_first_moment_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is killed right after making it leaves no file that others can read."""

    def cut_off(store: SqliteApprovalStore) -> None:
        raise OSError("cut off")

    monkeypatch.setattr(SqliteApprovalStore, "_found", cut_off)
    before = os.umask(0)
    try:
        with anyio.fail_after(LIMIT):
            await _refused(SqliteApprovalStore(path))
    finally:
        os.umask(before)
    assert os.listdir(path.parent) == ["approvals.db"] and _mode(path) == 0o600


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["a\0b.db", "a?mode=memory#x%41.db", "é .db"])
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_name_means_nothing_else(path: Path, name: str, read_only: bool) -> None:
    with anyio.fail_after(LIMIT):
        if "\0" in name:
            await _refused(SqliteApprovalStore(path.with_name(name), read_only=read_only))
            assert os.listdir(path.parent) == []
            return
        async with SqliteApprovalStore(path.parent / name):
            pass
        async with SqliteApprovalStore(path.parent / name, read_only=read_only) as store:
            assert await store.read(lambda tx: tx.open_work()) == (0, 0)
        assert os.listdir(path.parent) == [name]


# Reading alone.


@pytest.fixture
def shared() -> Iterator[Path]:
    """A store in a folder that everybody gets to."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder) / "approvals.db"
        os.chmod(folder, 0o755)


@contextmanager
def _reader(path: Path, *, folder: int = 0o555) -> Iterator[None]:
    """Somebody who may read whatever is there now, and change nothing. Root may do anything, so it is somebody else."""
    for name in os.listdir(path.parent):
        os.chmod(path.with_name(name), 0o444)
    os.chmod(path.parent, folder)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        os.chmod(path.parent, 0o755)


async def _seen(path: Path, run_id: str = "run") -> Run | None:
    async with SqliteApprovalStore(path, read_only=True) as store:
        found: Run | None = await store.read(lambda tx: tx.run(run_id))
        return found


async def _saved(path: Path, run: Run = RUN) -> None:
    async with SqliteApprovalStore(path) as store:
        await store.write(lambda tx: tx.save_run(run))


@pytest.mark.anyio
async def test_whoever_may_only_read_reads_and_leaves_nothing_behind(shared: Path) -> None:
    with anyio.fail_after(LIMIT):
        await _saved(shared)
        with _reader(shared):
            assert await _seen(shared) == RUN
        # Also where a log could be made: it would be the reader's, and the owner could not use it.
        with _reader(shared, folder=0o777):
            assert await _seen(shared) == RUN
        assert os.listdir(shared.parent) == ["approvals.db"]
        assert await _seen(shared) == RUN
        assert os.listdir(shared.parent) == ["approvals.db"]


@pytest.mark.anyio
@pytest.mark.parametrize("folder", [0o555, 0o777])
async def test_whoever_may_only_read_does_not_write(shared: Path, folder: int) -> None:
    with anyio.fail_after(LIMIT):
        await _saved(shared)
        with _reader(shared, folder=folder):
            assert (await _refused(SqliteApprovalStore(shared))).endswith(_MEANINGS[sqlite3.SQLITE_READONLY][0])
        assert os.listdir(shared.parent) == ["approvals.db"]
        with _reader(shared, folder=0o555):
            await _refused(SqliteApprovalStore(shared.with_name("other.db")))


@pytest.mark.anyio
@pytest.mark.parametrize("link", [False, True])
async def test_reading_beside_a_host_that_writes(shared: Path, link: bool) -> None:
    name = shared
    if link:
        name = shared.with_name("link.db")
        os.symlink(shared, name)
    begun, go_on = threading.Event(), threading.Event()

    def write(tx: Transaction) -> None:
        tx.save_run(replace(RUN, status="failed"))
        begun.set()
        assert go_on.wait(LIMIT)

    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(shared) as writer:
            await writer.write(lambda tx: tx.save_run(RUN))
            with _reader(shared):
                async with (
                    SqliteApprovalStore(name, read_only=True, busy_timeout=0) as store,
                    anyio.create_task_group() as tasks,
                ):
                    tasks.start_soon(writer.write, write)
                    assert await anyio.to_thread.run_sync(begun.wait, LIMIT)
                    # Who writes keeps nobody from reading, nor from opening it.
                    assert await store.read(lambda tx: tx.run("run")) == RUN == await _seen(name)
                    go_on.set()
                    while await store.read(lambda tx: tx.run("run")) == RUN:
                        await anyio.lowlevel.checkpoint()
        # The log is gone with the last one who wrote.
        with _reader(shared):
            found = await _seen(name)
            assert found is not None and found.status == "failed"


@contextmanager
def _left_behind(shared: Path, *suffixes: str) -> Iterator[Path]:
    """What a host leaves that is killed: the file and its log."""
    folder = shared.parent / "left"
    folder.mkdir()
    for suffix in ("", *suffixes):
        shutil.copy(f"{shared}{suffix}", folder)
    yield folder / shared.name
    os.chmod(folder, 0o755)


@pytest.mark.anyio
async def test_what_a_killed_host_left(shared: Path) -> None:
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(shared) as writer:
            await writer.write(lambda tx: tx.save_run(RUN))
            with _left_behind(shared, "-wal", "-shm") as path:
                with _reader(path):
                    assert await _seen(path) == RUN


@pytest.mark.anyio
async def test_a_log_that_cannot_be_read_is_not_passed_over(shared: Path) -> None:
    """What is in it is committed: without it a decision could be missing."""
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(shared) as writer:
            await writer.write(lambda tx: tx.save_run(RUN))
            with _left_behind(shared, "-wal") as path:
                # Where it could be made it would be the reader's, and keep the owner out.
                with _reader(path, folder=0o777):
                    await _refused(SqliteApprovalStore(path, read_only=True))
                assert sorted(os.listdir(path.parent)) == ["approvals.db", "approvals.db-wal"]
                with _reader(path):
                    refusal = await _refused(SqliteApprovalStore(path, read_only=True))
                    assert refusal.endswith(_MEANINGS[sqlite3.SQLITE_CANTOPEN][1])
                    if os.getuid() == 0:
                        os.seteuid(0)
                        os.chmod(f"{path}-wal", 0o600)
                        os.seteuid(65534)
                        await _refused(SqliteApprovalStore(path, read_only=True))
                # Whoever may write can read it.
                for name in os.listdir(path.parent):
                    os.chmod(path.with_name(name), 0o644)
                assert await _seen(path) == RUN


@pytest.mark.anyio
async def test_a_write_that_was_cut_off_is_not_seen_in_part(shared: Path) -> None:
    """As another program would write, which turned the log off."""
    with anyio.fail_after(LIMIT):
        await _saved(shared)
        other = sqlite3.connect(shared, isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = DELETE",
            "PRAGMA cache_size = 1",
            "BEGIN",
            "UPDATE mcpl_runs SET body = '{}'",
            "CREATE TABLE more AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 99)"
            " SELECT hex(zeroblob(9000)) FROM n",
        ):
            other.execute(statement)
        with _left_behind(shared, "-journal") as path:
            other.close()
            with _reader(path):
                refusal = await _refused(SqliteApprovalStore(path, read_only=True))
                assert refusal.endswith(_MEANINGS[sqlite3.SQLITE_READONLY][1])
            for name in os.listdir(path.parent):
                os.chmod(path.with_name(name), 0o644)
            async with SqliteApprovalStore(path) as store:
                assert await store.read(lambda tx: tx.run("run")) == RUN


@pytest.mark.anyio
@pytest.mark.parametrize("fails", [False, True])
async def test_a_file_that_changes_while_it_is_read_is_read_again(path: Path, fails: bool) -> None:
    later, looks = replace(RUN, status="failed"), 0

    def look(tx: Transaction) -> Run | None:
        nonlocal looks
        looks += 1
        if looks == 1:
            _write_and_leave(path, later)
            if fails:
                raise ApprovalError("approval_record_conflict")
        return tx.run("run")

    with anyio.fail_after(LIMIT):
        await _saved(path)
        async with SqliteApprovalStore(path, read_only=True) as store:
            assert await store.read(look) == later
            assert looks == 2
            # What it says of a file that stands still is the answer.
            with pytest.raises(KeyError):
                await store.read(lambda tx: os.environ["no such variable"])


@pytest.mark.anyio
@pytest.mark.parametrize("leaves", [True, False])
async def test_a_log_that_is_gone_before_it_is_opened(
    path: Path, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one who wrote put it into the file, and where nobody may make one there is nothing to open."""
    later, fails = replace(RUN, status="failed"), 0
    with anyio.fail_after(LIMIT):
        await _saved(path)
        async with SqliteApprovalStore(path, read_only=True) as store:
            writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            writer.execute("UPDATE mcpl_runs SET status = 'failed', body = replace(body, 'running', 'failed')")
            connect = store._connect

            def late(how: str) -> None:
                nonlocal fails
                if "immutable" in how:
                    return connect(how)
                fails += 1
                if leaves:
                    writer.close()
                raise sqlite3.OperationalError("unable to open database file")

            monkeypatch.setattr(store, "_connect", late)
            if leaves:
                assert await store.read(lambda tx: tx.run("run")) == later
            else:
                with pytest.raises(ApprovalStorageError):
                    await store.read(lambda tx: tx.run("run"))
            assert fails == 1
            writer.close()


@pytest.mark.anyio
@pytest.mark.parametrize("refuses", [True, False])
async def test_beside_a_host_that_writes_nothing_is_asked_again(path: Path, refuses: bool) -> None:
    """The log keeps what is read as it was."""
    looks = 0

    def look(tx: Transaction) -> None:
        nonlocal looks
        looks += 1
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("PRAGMA user_version = 1")
        other.execute("PRAGMA wal_checkpoint(FULL)")
        other.close()
        if refuses:
            raise ApprovalError("approval_not_found")

    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(path) as writer:
            await writer.write(lambda tx: tx.save_run(RUN))
            async with SqliteApprovalStore(path, read_only=True) as store:
                with pytest.raises(ApprovalError) if refuses else nullcontext():
                    await store.read(look)
        assert looks == 1


def _write_and_leave(path: Path, run: Run) -> None:
    anyio.run(_saved, path, run)


@pytest.mark.anyio
async def test_a_file_that_never_stands_still(path: Path) -> None:
    looks = 0

    def look(tx: Transaction) -> None:
        nonlocal looks
        looks += 1
        _write_and_leave(path, replace(RUN, lease_epoch=looks))

    with anyio.fail_after(LIMIT):
        await _saved(path)
        async with SqliteApprovalStore(path, read_only=True) as store:
            with pytest.raises(ApprovalStorageError):
                await store.read(look)
            assert looks == 10


@pytest.mark.anyio
async def test_a_store_for_reading_refuses_to_write(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        await _refused(SqliteApprovalStore(path, read_only=True))
        assert os.listdir(path.parent) == []
        await _saved(path)
        async with SqliteApprovalStore(path, read_only=True) as store:
            with pytest.raises(ApprovalStorageError) as writing:
                await store.write(lambda tx: pytest.fail("it was begun"))
            with pytest.raises(ApprovalStorageError) as enabling:
                await store.activate()
            assert await store.read(lambda tx: tx.run("run")) == RUN
            # It is open, and has nothing open.
            assert store._database is None
            with pytest.raises(ApprovalStorageError) as unopened:
                await SqliteApprovalStore(path).write(lambda tx: pytest.fail("it was begun"))
            assert writing.value.detail == enabling.value.detail != unopened.value.detail
            with pytest.raises(ApprovalStorageError):
                await store.read(lambda tx: tx.save_run(RUN))
            with pytest.raises(ApprovalError) as caught:
                await store.read(lambda tx: tx.records())
            assert caught.value.code == "approval_storage_not_enabled"
            os.rename(path, path.with_name("moved.db"))
            with pytest.raises(ApprovalStorageError):
                await store.read(lambda tx: tx.run("run"))
            await _saved(path)
            with pytest.raises(ApprovalStorageError):
                await store.read(lambda tx: tx.run("run"))
        store = SqliteApprovalStore(path, read_only=True)
        await _use(store)
        await store.aclose()


@pytest.mark.anyio
async def test_what_is_no_store_is_not_read(path: Path, no_database: Path) -> None:
    with anyio.fail_after(LIMIT):
        sqlite3.connect(path).close()
        other = sqlite3.connect(path.with_name("other.db"))
        other.execute("CREATE TABLE notes (x)")
        other.close()
        for name in (no_database, path, path.with_name("other.db"), path.parent):
            await _refused(SqliteApprovalStore(name, read_only=True))
        async with SqliteApprovalStore(path):
            pass
        other = sqlite3.connect(path)
        other.execute("PRAGMA user_version = 99")
        other.close()
        with pytest.raises(ApprovalError) as caught:
            await SqliteApprovalStore(path, read_only=True).__aenter__()
        assert caught.value.code == "approval_storage_version"


# A disk that is full, or fails.


def _failing(store: Any, at: int, times: int) -> list[str]:
    """Lets the statements from ``at`` on fail, ``times`` of them. Returns those that were begun."""
    execute, begun = store._execute, []

    def counted(statement: str, values: Any = ()) -> Any:
        begun.append(statement)
        if at <= len(begun) < at + times:
            raise sqlite3.OperationalError("database or disk is full")
        return execute(statement, values)

    store._execute = counted
    return begun


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_disk_that_is_full_at_any_statement_of_a_dispatch(path: Path, times: int) -> None:
    """Whatever fails, and its undoing with it: nothing is sent twice, and afterwards the store works as before."""
    found = set()
    with anyio.fail_after(LIMIT):
        for at in range(1, 100):
            async with SqliteApprovalStore(path.with_name(f"{at}.db")) as store:
                await store.activate()
                host = Host(store)
                lease, record = await host.approved()
                begun = _failing(store, at, times)
                outcome: str
                again: str
                try:
                    outcome = (await host.dispatch(lease)).effect_state
                except ApprovalStorageError:
                    outcome = "failed"
                met, sent = len(begun), len(host.server.calls)
                del store._execute
                try:
                    again = (await host.dispatch(lease)).effect_state
                except ApprovalError as exc:
                    again = exc.code
                assert len(host.server.calls) == int((sent, again) != (0, "approval_claim_conflict"))
                assert await host.receipted(record) is (again == "committed")
                found.add((outcome, sent, again))
                if met < at:
                    break
        # Where what is known could not be recorded, in two tries, the claim stays.
        lost = {("failed", sent, "approval_claim_conflict") for sent in range(times - 1)}
        assert found == {("committed", 1, "committed"), ("failed", 0, "committed")} | lost


@pytest.mark.anyio
async def test_what_could_not_be_undone_binds_nobody_later(path: Path) -> None:
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(path) as store:
            await store.write(lambda tx: tx.save_run(RUN))
            for use in (store.read, store.write):
                _failing(store, 4, 9)
                with pytest.raises(ApprovalStorageError):
                    await use(lambda tx: tx.run("run"))
                del store._execute
                await store.write(lambda tx: tx.save_run(RUN))
                assert await store.read(lambda tx: tx.run("run")) == RUN


@pytest.mark.anyio
@pytest.mark.parametrize("patience", [LIMIT, 0.0])
async def test_another_process_makes_the_file_now(path: Path, patience: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite does not wait where two would turn the log on at once."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE x (y)")
    other.execute("DROP TABLE x")
    other.execute("BEGIN EXCLUSIVE")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            other.rollback()

    monkeypatch.setattr("mcpl_core.approvals.sqlite.store.sleep", wait)
    store = SqliteApprovalStore(path, busy_timeout=patience)
    connect = store._connect

    def impatient(how: str) -> None:
        connect(how)
        assert store._database is not None
        store._database.execute("PRAGMA busy_timeout = 0")

    monkeypatch.setattr(store, "_connect", impatient)
    with anyio.fail_after(LIMIT):
        if not patience:
            await _refused(store)
        else:
            async with store:
                assert await store.read(lambda tx: tx.open_work()) == (0, 0)
        assert len(waits) == (3 if patience else 0)
    other.close()


@pytest.mark.anyio
async def test_what_waiting_does_not_mend_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.approvals.sqlite.store.sleep", lambda seconds: pytest.fail("it waited"))
    with anyio.fail_after(LIMIT):
        store = SqliteApprovalStore(path)
        _failing(store, 1, 9)
        await _refused(store)
