"""The SQLite store: its file, its pragmas, its thread. What every store promises is in the contract suite."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import anyio
import pytest

from mcpl_core.approvals import ApprovalStorageError, Run, SqliteApprovalStore

LIMIT = 30.0


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
                await store.write(lambda tx: tx.save_run(Run("run", "run", "alice", "preset")))
            assert await store.read(lambda tx: tx.run("run")) is None
            other.execute("ROLLBACK")
            other.close()
            await store.write(lambda tx: tx.save_run(Run("run", "run", "alice", "preset")))


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
