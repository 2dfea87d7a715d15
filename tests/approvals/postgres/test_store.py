"""The PostgreSQL store: connecting, its schema, its locks. What every store promises is in the contract suite."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from mcpl_core.approvals import ApprovalError, ApprovalStorageError, PostgresApprovalStore, Run, Transaction
from mcpl_core.errors import InvalidValueError, LocalProtocolError
from tests.approvals.databases import POSTGRES_DSN, Database, needs_postgres, postgres_database
from tests.approvals.world import Host

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
                holding, done = threading.Event(), threading.Event()

                def hold(tx: Transaction) -> None:
                    holding.set()
                    assert done.wait(LIMIT)

                tasks.start_soon(first.write, hold)
                assert await anyio.to_thread.run_sync(holding.wait, LIMIT)
                with pytest.raises(ApprovalStorageError):
                    await second.write(lambda tx: tx.save_run(RUN))
                # Who only reads waits for nobody.
                assert await second.read(lambda tx: tx.run("run")) is None
                done.set()


@pytest.mark.parametrize("dsn", ["hunter2", "postgresql://u:hunter2@[x", "host=a hunter2", None, 7])
def test_what_is_no_address_is_not_repeated(dsn: Any) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(InvalidValueError) as caught:
        PostgresApprovalStore(dsn)
    assert caught.value.code == "dsn"
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    assert "hunter2" not in str(caught.value)


@needs_postgres
@pytest.mark.anyio
@pytest.mark.parametrize(("given", "kept"), [(0, "1ms"), (0.0001, "1ms"), (2, "2s")])
async def test_there_is_always_an_end_of_waiting(database: Database, given: float, kept: str) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open():
            pass
        async with PostgresApprovalStore(POSTGRES_DSN, schema=database.target, lock_timeout=given) as store:
            shown = await store.read(lambda tx: tx._execute("SHOW lock_timeout", ()))  # type: ignore[attr-defined]
            assert shown == [(kept,)]


@needs_postgres
@pytest.mark.anyio
async def test_it_leaves_nothing_set_behind(database: Database) -> None:
    """Another program may have the connection next, of a pooler."""
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            connection = store._connection
            for name in ("search_path", "synchronous_commit", "lock_timeout"):
                shown = connection.execute(f"SELECT setting = reset_val FROM pg_settings WHERE name = '{name}'")
                assert shown.fetchall() == [(True,)]


@needs_postgres
@pytest.mark.anyio
async def test_who_waited_sees_what_was_committed_meanwhile(database: Database) -> None:
    """Also where the server's default would show it the state of before it waited."""
    dsn = f"{POSTGRES_DSN} options='-c default_transaction_isolation=serializable'"
    holding, go_on = threading.Event(), threading.Event()
    found: list[Run | None] = []

    def hold(tx: Transaction) -> None:
        holding.set()
        assert go_on.wait(LIMIT)
        tx.save_run(RUN)

    with anyio.fail_after(LIMIT):
        async with (
            database.open() as first,
            PostgresApprovalStore(dsn, schema=database.target) as second,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(first.write, hold)
            assert await anyio.to_thread.run_sync(holding.wait, LIMIT)

            async def wait() -> None:
                found.append(await second.write(lambda tx: tx.run("run")))

            tasks.start_soon(wait)
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%mcpl_format%'"
            while not database.execute(waiting):
                await anyio.lowlevel.checkpoint()
            go_on.set()
        assert found == [RUN]


@needs_postgres
@pytest.mark.anyio
async def test_a_store_without_a_format(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            for damage in ("UPDATE mcpl_format SET format = 0", "DELETE FROM mcpl_format"):
                database.execute(damage)
                with pytest.raises(ApprovalError) as caught:
                    await store.write(lambda tx: tx.save_run(RUN))
                assert caught.value.code == "approval_storage_version"


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


@needs_postgres
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_lets_go_at_any_statement_of_a_dispatch(database: Database) -> None:
    """Nothing was sent, and the next host makes the call; or what came of it is recorded over a new connection."""
    with anyio.fail_after(LIMIT):
        async with database.open() as store, database.open() as second:
            execute, statements, fatal = store._execute, 0, 0

            def counted(statement: str, values: Any = ()) -> Any:
                nonlocal statements
                statements += 1
                if statements == fatal:
                    database.execute(f"SELECT pg_terminate_backend({store._connection.info.backend_pid}, 5000)")
                return execute(statement, values)

            store._execute = counted
            found = set()
            for number in range(40):
                host = Host(store)
                lease, record = await host.approved(f"run-{number}")
                statements, fatal = 0, number * 3
                outcome: str
                again: str
                try:
                    outcome = (await host.dispatch(lease)).effect_state
                except ApprovalStorageError:
                    outcome = "failed"
                other, sent = Host(second, server=host.server), len(host.server.calls)
                try:
                    again = (await other.dispatch(lease)).effect_state
                except ApprovalError as exc:
                    again = exc.code
                assert len(host.server.calls) == 1
                found.add((outcome, sent, again))
                if number and statements < fatal:
                    break
            assert found == {("committed", 1, "committed"), ("failed", 0, "committed")}


@needs_postgres
@pytest.mark.anyio
async def test_a_store_that_is_not_there(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        with pytest.raises(ApprovalStorageError):
            async with PostgresApprovalStore(POSTGRES_DSN, schema=database.target, create=False):
                pytest.fail("it was opened")
        made = "SELECT 1 FROM information_schema.schemata WHERE schema_name = current_schema()"
        assert database.execute(made) == []
        async with database.open():
            pass
        async with PostgresApprovalStore(POSTGRES_DSN, schema=database.target, create=False) as store:
            assert await store.read(lambda tx: tx.records()) == []


@needs_postgres
@pytest.mark.anyio
async def test_a_host_that_may_make_nothing(database: Database) -> None:
    role = f"{database.target}_host"
    rights = (
        f"CREATE ROLE {role}",
        f"GRANT USAGE ON SCHEMA {database.target} TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {database.target} TO {role}",
    )
    with anyio.fail_after(LIMIT):
        async with database.open():
            pass
        try:
            for right in rights:
                database.execute(right)
            dsn = f"{POSTGRES_DSN} options='-c role={role}'"
            async with PostgresApprovalStore(dsn, schema=database.target) as store:
                await store.write(lambda tx: tx.save_run(RUN))
                assert await store.read(lambda tx: tx.run("run")) == RUN
        finally:
            for end in ("DROP OWNED BY", "DROP ROLE"):
                database.execute(f"{end} {role}")


@needs_postgres
@pytest.mark.anyio
async def test_a_store_that_is_there_is_opened_by_reading_alone(database: Database) -> None:
    """A standby lets nobody write, and a role may have no right to."""
    role = f"{database.target}_reader"
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.write(lambda tx: tx.save_run(RUN))
        rights = (
            "CREATE ROLE {r}",
            "GRANT USAGE ON SCHEMA {s} TO {r}",
            "GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO {r}",
        )
        try:
            for right in rights:
                database.execute(right.format(r=role, s=database.target))
            store = PostgresApprovalStore(f"{POSTGRES_DSN} options='-c role={role}'", schema=database.target)
            execute, modes = store._execute, set()

            def noted(statement: str, values: Any = ()) -> Any:
                modes.update(execute("SHOW transaction_read_only"))
                return execute(statement, values)

            store._execute = noted  # type: ignore[method-assign]
            async with store:
                assert await store.read(lambda tx: tx.run("run")) == RUN
                assert modes == {("on",)}
                with pytest.raises(ApprovalStorageError):
                    await store.write(lambda tx: tx.save_run(RUN))
        finally:
            for end in ("DROP OWNED BY", "DROP ROLE"):
                database.execute(f"{end} {role}")
