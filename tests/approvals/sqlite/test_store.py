"""The SQLite store: its file, its pragmas, its thread. What every store promises is in the contract suite."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import anyio
import pytest

from mcpl_core.approvals import ApprovalError, ApprovalStorageError, Run, SqliteApprovalStore
from mcpl_core.errors import InvalidValueError

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


async def _refused(store: SqliteApprovalStore) -> None:
    with pytest.raises(ApprovalStorageError):
        async with store:
            pytest.fail("it was opened")


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
