"""Going through approvals past those that are damaged, in both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from mcpl_core.approvals import ApprovalRecord, DamagedRow, approval_id_of, reconcile
from mcpl_core.approvals.listing import each_record, past_damage
from mcpl_core.approvals.store import Transaction
from tests.approvals.databases import DATABASES, Database, database_for
from tests.approvals.world import LIFE, LIMIT, Host, command, refused

RUNS = ("a", "b", "c", "d")
BAD = approval_id_of("b", "call")
_APPROVAL = f"UPDATE mcpl_approvals SET {{}} WHERE approval_id = '{BAD}'"
_RUN = "UPDATE mcpl_runs SET {} WHERE run_id = 'b'"

#: What another program may have left of one approval.
DAMAGE = {
    "no JSON": _APPROVAL.format("body = '{'"),
    "empty": _APPROVAL.format("body = ''"),
    "another thing": _APPROVAL.format("body = '[7]'"),
    "a member is missing": _APPROVAL.format("body = '{}'"),
    "a member of a later version": _APPROVAL.format("""body = replace(body, '{"', '{"quorum":2,"')"""),
    "a status that there is not": _APPROVAL.format(
        """status = 'paused', body = replace(body, '"pending"', '"paused"')"""
    ),
    "the column says otherwise": _APPROVAL.format("tool_name = 'erase'"),
    "another intent": _APPROVAL.format("""body = replace(body, '"value":"x"', '"value":"y"')"""),
    "nested without end": _APPROVAL.format(f"body = '{'[' * 100_000}'"),
    "a number without end": _APPROVAL.format(f"""body = replace(body, '"revision":1', '"revision":{"1" * 5_000}')"""),
}
#: And of what belongs to it.
DAMAGED_PARTS = {
    "run, no JSON": _RUN.format("body = 'x'"),
    "run, a status that there is not": _RUN.format("status = 'paused', body = replace(body, 'running', 'paused')"),
    "claim": f"INSERT INTO mcpl_claims VALUES ('alice', 'store_value', 'k', '{BAD}', '{{}}')",
    "receipt": f"INSERT INTO mcpl_receipts VALUES ('alice', 'store_value', 'k', '{BAD}', NULL, '{{}}')",
}


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with database_for(request.param, tmp_path) as made:
        yield made


async def _proposed(host: Host) -> dict[str, ApprovalRecord]:
    found = {}
    for run_id in RUNS:
        run, lease = await host.ready(run_id)
        found[run_id] = await host.propose(run, lease)
    return found


@asynccontextmanager
async def _standing(database: Database) -> AsyncIterator[tuple[Host, dict[str, ApprovalRecord], list[DamagedRow]]]:
    """A host with one proposal for each of its runs, and what it is told of damage."""
    told: list[DamagedRow] = []
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            host = Host(store, on_damage=told.append)
            yield host, await _proposed(host), told


async def _others_are_left(host: Host, records: dict[str, ApprovalRecord], told: list[DamagedRow]) -> None:
    """Whatever is about ``b`` is refused, and the rest of them work."""
    with refused("approval_record_conflict"):
        await host.decide(records["b"])
    with refused("approval_record_conflict"):
        await host.gateway.refresh(BAD)
    with refused("approval_record_conflict"):
        await reconcile(host.gateway, BAD, intent_digest="digest", principal_id="bob", not_executed=True)
    await host.decide(records["a"], "reject")
    told.clear()
    host.clock.now += LIFE
    changed = await host.gateway.expire()
    assert set(changed) == {records[name].approval_id for name in "cd"}
    assert await host.gateway.expire() == ()
    assert {row.id for row in told} <= {BAD}


@pytest.mark.anyio
@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_approval_stops_no_other(database: Database, damage: str) -> None:
    async with _standing(database) as (host, records, told):
        database.execute(DAMAGE[damage])
        good = [each for each in await host.gateway.list() if each.approval_id != BAD]
        assert {each.approval_id for each in good} == {records[name].approval_id for name in "acd"}
        assert await host.gateway.list() == good
        assert [row.id for row in told] == [BAD, BAD]
        assert told[0].reason.startswith("mcpl_approvals: ")
        # What was left out counts for no limit, and hides nothing.
        assert [each for size in (1, 2, 3) for each in await host.gateway.list(limit=size)] == [
            each for size in (1, 2, 3) for each in good[:size]
        ]
        assert len(await host.gateway.list(after=BAD)) == len([row for row in good if _later(database, row)])
        with refused("approval_record_conflict"):
            await host.gateway.get(BAD)
        await _others_are_left(host, records, told)


def _later(database: Database, record: ApprovalRecord) -> bool:
    # All were made at once: then the ids are the order.
    return record.approval_id > BAD


@pytest.mark.anyio
@pytest.mark.parametrize("damage", DAMAGED_PARTS)
async def test_damage_around_an_approval_stops_no_other(database: Database, damage: str) -> None:
    async with _standing(database) as (host, records, told):
        database.execute(DAMAGED_PARTS[damage])
        assert len(await host.gateway.list()) == len(RUNS) and told == []
        found = await host.gateway.diagnose()
        assert sum(found.statuses.values()) == len(RUNS)
        assert {row.id for row in told} <= {BAD} and found.damaged == len(told)
        await _others_are_left(host, records, told)


@pytest.mark.anyio
@pytest.mark.parametrize("column", ["tool_name", "status", "body", "run_id", "created_at_ms"])
async def test_a_column_without_a_value(database: Database, column: str) -> None:
    async with _standing(database) as (host, records, told):
        _let_it_be_empty(database, column)
        database.execute(_APPROVAL.format(f"{column} = NULL"))
        assert len(await host.gateway.list()) == 3
        assert [row.id for row in told] == [BAD]
        found = await host.gateway.diagnose()
        assert (found.damaged, found.statuses["pending"]) == (1, 3 if column == "status" else 4)
        await _others_are_left(host, records, told)


def _let_it_be_empty(database: Database, column: str) -> None:
    if database.name == "postgres":
        database.execute(f"ALTER TABLE mcpl_approvals ALTER COLUMN {column} DROP NOT NULL")
        return
    for statement in (
        "CREATE TABLE other AS SELECT * FROM mcpl_approvals",
        "DROP TABLE mcpl_approvals",
        "ALTER TABLE other RENAME TO mcpl_approvals",
        "CREATE UNIQUE INDEX by_id ON mcpl_approvals (approval_id)",
    ):
        database.execute(statement)


@pytest.mark.anyio
async def test_rows_that_nothing_names_do_not_end_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite lets a key be empty. More of them than fit on a page come first, and nothing comes after such a one."""
    monkeypatch.setattr("mcpl_core.approvals.listing.PAGE", 2)
    told: list[DamagedRow] = []
    with anyio.fail_after(LIMIT), database_for("sqlite", tmp_path) as database:
        async with database.open() as store:
            host = Host(store, on_damage=told.append)
            records = await _proposed(host)
            for number in range(5):
                database.execute(
                    "INSERT INTO mcpl_approvals VALUES"
                    f" (NULL, 'run', 'lost-{number}', 'tool', 'pending', X'00', '{{}}')"
                )
                database.execute(f"UPDATE mcpl_approvals SET created_at_ms = -1 WHERE call_id = 'lost-{number}'")
            assert {each.intent.run_id for each in await host.gateway.list()} == records.keys()
            assert sorted("lost" in row.id for row in told) == [True] * 5


@pytest.mark.anyio
async def test_a_revision_that_nothing_can_follow(database: Database) -> None:
    """It can be read, and not be moved on."""
    async with _standing(database) as (host, _, told):
        database.execute(_APPROVAL.format(f"""body = replace(body, '"revision":1', '"revision":{2**53 - 1}')"""))
        host.clock.now += LIFE
        assert len(await host.gateway.list()) == 4
        assert len(await host.gateway.expire()) == 3
        assert (await host.gateway.diagnose()).damaged == 1
        assert [row.id for row in told] == [BAD, BAD]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "damage", ["DELETE FROM {} WHERE position = 1", "UPDATE {} SET position = 7 WHERE position = 2"]
)
async def test_a_story_with_gaps_goes_on(database: Database, damage: str) -> None:
    """An event that another program took away leaves room, and no place that is taken twice."""
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            host = Host(store)
            run, lease = await host.ready("b")
            record = await host.propose(run, lease)
            await host.decide(record)
            before = await host.kinds(record)
            database.execute(damage.format("mcpl_approval_events"))
            host.clock.now += LIFE
            assert await host.gateway.expire() == (BAD,)
            assert await host.kinds(record) == [*before[-1 if "DELETE" in damage else 0 :], "expired"]


@pytest.mark.anyio
async def test_a_place_that_nothing_can_follow(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            host = Host(store)
            run, lease = await host.ready("b")
            record = await host.propose(run, lease)
            await host.decide(record)
            database.execute(f"UPDATE mcpl_approval_events SET position = {2**63 - 1} WHERE position = 2")
            host.clock.now += LIFE
            assert await host.gateway.expire() == (BAD,)
            assert await host.kinds(record) == ["proposed", "expired", "approved"]


@pytest.mark.anyio
async def test_two_workers_expire_each_once(database: Database) -> None:
    """One has a clock that is ahead; what it found to be over stays over for the other."""
    with anyio.fail_after(LIMIT):
        async with database.open() as store, database.open() as second:
            host, other = Host(store), Host(second)
            records = await _proposed(host)
            host.clock.now += LIFE
            other.clock.now += LIFE * 1_000
            found: list[str] = []

            async def expire(worker: Host) -> None:
                found.extend(await worker.gateway.expire())

            async with anyio.create_task_group() as tasks:
                for worker in (host, other, host, other):
                    tasks.start_soon(expire, worker)
            assert sorted(found) == sorted(each.approval_id for each in records.values())
            late = Host(store)
            for record in records.values():
                assert await late.kinds(record) == ["proposed", "expired"]
                with refused("approval_expired"):
                    await late.decide(record)


@pytest.mark.anyio
async def test_a_decision_that_was_given_is_told_again_whatever_became_of_its_run(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            host = Host(store)
            run, lease = await host.ready("b")
            record = await host.propose(run, lease)
            given = await host.decide(record)
            database.execute(DAMAGED_PARTS["run, no JSON"])
            again = await host.gateway.decide(command(record), principal_id="bob")
            assert again == given


@pytest.mark.anyio
async def test_an_end_that_is_not_there(tmp_path: Path) -> None:
    with anyio.fail_after(LIMIT), database_for("sqlite", tmp_path) as database:
        async with database.open() as store:
            with refused("approval_not_found"):
                await store.read(lambda tx: next(each_record(tx, lambda row: None, after="other")))


@pytest.mark.anyio
async def test_pages_are_read_as_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.approvals.listing.PAGE", 1)
    with anyio.fail_after(LIMIT), database_for("sqlite", tmp_path) as database:
        async with database.open() as store:
            host = Host(store)
            records = await _proposed(host)
            skips: list[Any] = []

            def look(tx: Transaction) -> list[ApprovalRecord]:
                read = tx.records

                def counted(**wanted: Any) -> list[ApprovalRecord]:
                    skips.append(wanted["skip"])
                    return read(**wanted)

                monkeypatch.setattr(tx, "records", counted)
                return list(islice(each_record(tx, lambda row: None), 2))

            assert await store.read(look) == sorted(records.values(), key=lambda each: each.approval_id)[:2]
            assert skips == [0, 1]


@pytest.mark.parametrize(("rows", "asked"), [(0, [1]), (1, [1, 1]), (7, [1, 1, 2, 4]), (9, [1, 1, 2, 4, 8])])
def test_the_end_is_a_few_questions_away(rows: int, asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.approvals.listing.PAGE", 1)
    limits: list[int] = []

    class Rows:
        def records(self, *, skip: int, limit: int, **wanted: object) -> list[int]:
            limits.append(limit)
            return list(range(rows))[skip : skip + limit]

    assert [*each_record(cast(Transaction, Rows()), lambda row: None)] == [*range(rows)]
    assert limits == asked


@pytest.mark.anyio
async def test_each_row_is_told_once_and_after_the_transaction() -> None:
    told: list[str] = []
    row = DamagedRow("id", "reason")

    async def transact(work: Any) -> Any:
        found = [work(None), work(None)][-1]
        told.append("over")
        return found

    def work(tx: Any, tell: Any) -> int:
        tell(row)
        tell(row)
        return 7

    assert await past_damage(transact, work, lambda each: told.append(each.id)) == 7
    assert told == ["over", "id"]
