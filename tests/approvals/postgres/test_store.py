"""The PostgreSQL store: connecting, its schema, its locks. What every store promises is in the contract suite."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import anyio
import pytest

from mcpl_core.approvals import ApprovalStorageError, PostgresApprovalStore, Run
from mcpl_core.errors import InvalidValueError, LocalProtocolError
from tests.approvals.databases import POSTGRES_DSN, Database, needs_postgres, postgres_database

LIMIT = 30.0
RUN = Run("run", "run", "alice", "preset")


@pytest.fixture
def database() -> Iterator[Database]:
    with postgres_database() as made:
        yield made


@pytest.mark.parametrize("schema", ["", "a-b", "A", 'x"; DROP SCHEMA public; --', "a" * 64, "1a"])
def test_a_schema_has_a_plain_name(schema: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        PostgresApprovalStore("", schema=schema)
    assert caught.value.code == "schema"


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LocalProtocolError) as caught:
        PostgresApprovalStore("")
    assert "mcp-live-core[postgres]" in str(caught.value)


@pytest.mark.anyio
async def test_nobody_there_and_no_secret_in_the_error() -> None:
    pytest.importorskip("psycopg")
    with anyio.fail_after(LIMIT), pytest.raises(ApprovalStorageError) as caught:
        async with PostgresApprovalStore("host=127.0.0.1 port=1 user=u password=hunter2 connect_timeout=2"):
            pytest.fail("it was opened")
    assert "hunter2" not in str(caught.value)


@needs_postgres
@pytest.mark.anyio
async def test_a_connection_that_is_lost_is_made_anew(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.write(lambda tx: tx.save_run(RUN))
            ((backend,),) = await store.read(lambda tx: tx._execute("SELECT pg_backend_pid()", ()))
            database.execute(f"SELECT pg_terminate_backend({backend}, 5000)")
            with pytest.raises(ApprovalStorageError):
                await store.read(lambda tx: tx.run("run"))
            assert await store.read(lambda tx: tx.run("run")) == RUN


@needs_postgres
@pytest.mark.anyio
@pytest.mark.spec("R-approvals-10")
async def test_a_host_that_does_not_let_go(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as first:
            impatient = PostgresApprovalStore(POSTGRES_DSN, schema=database.target, lock_timeout=0.05)
            async with impatient as second, anyio.create_task_group() as tasks:
                holding, done = anyio.Event(), anyio.Event()

                async def hold() -> None:
                    await first.write(
                        lambda tx: (anyio.from_thread.run_sync(holding.set), anyio.from_thread.run(done.wait))
                    )

                tasks.start_soon(hold)
                await holding.wait()
                with pytest.raises(ApprovalStorageError):
                    await second.write(lambda tx: tx.save_run(RUN))
                # Who only reads waits for nobody.
                assert await second.read(lambda tx: tx.run("run")) is None
                done.set()


@needs_postgres
@pytest.mark.anyio
async def test_a_commit_waits_for_the_disk(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            assert await store.read(lambda tx: tx._execute("SHOW synchronous_commit", ())) == [("on",)]


@needs_postgres
@pytest.mark.anyio
async def test_two_hosts_make_the_schema_at_once(database: Database) -> None:
    with anyio.fail_after(LIMIT):

        async def start() -> None:
            async with database.open() as store:
                assert await store.read(lambda tx: tx.records()) == []

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(start)
