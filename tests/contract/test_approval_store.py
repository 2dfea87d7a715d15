"""One suite over both stores of approvals: what ``ApprovalStore`` promises."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from mcpl_core.approvals import (
    ApprovalError,
    ApprovalEvent,
    ApprovalStorageError,
    Association,
    Checkpoint,
    Claim,
    ClaimKey,
    DecisionCommand,
    Outcome,
    Receipt,
    Run,
    ToolCall,
    Transaction,
)
from mcpl_core.approvals.records import ApprovalIntent, ApprovalRecord, Decision, approval_id_of
from mcpl_core.errors import InvalidValueError
from tests.approvals.databases import DATABASES, Database, database_for

LIMIT = 30.0

RUN = Run("run", "run", "alice", "preset", deadline_ms=5_000)
CALL = ToolCall("call", "store_value", {"value": "é\x00\u2028", "n": 0.5})
CHECKPOINT = Checkpoint("run", "invocation", (CALL,))
KEY = ClaimKey("alice", "store_value", "key")
CLAIM = Claim(KEY, "digest", 1_000, Association("approval", "digest", 2, "run", "worker", 1))
RECEIPT = Receipt(CLAIM, Outcome("committed", {"text": ["é"]}), 1_001)


def record(call_id: str = "call", tool_name: str = "store_value", created_at_ms: int = 1_000) -> ApprovalRecord:
    intent = ApprovalIntent(
        "run", "run", call_id, tool_name, CALL.arguments, "preset", "values", "catalog", "tenant", "7", "write"
    )
    return ApprovalRecord(approval_id_of("run", call_id), intent, 1, "pending", created_at_ms, 9_000)


def approved(made: ApprovalRecord) -> ApprovalRecord:
    command = DecisionCommand(made.approval_id, 1, made.intent.digest, "key", "approve")
    return replace(made, status="approved", revision=2, decision=Decision(command, "bob", 2_000, 2))


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with database_for(request.param, tmp_path) as made:
        yield made


@pytest.mark.anyio
async def test_everything_that_is_kept_comes_back_after_reopening(database: Database) -> None:
    made, other = record(), record("other", "erase", 900)

    def save(tx: Transaction) -> None:
        tx.save_run(RUN)
        tx.save_checkpoint(CHECKPOINT)
        tx.save_record(made)
        tx.save_record(other)
        tx.save_claim(CLAIM)
        tx.save_receipt(RECEIPT)
        tx.append_event(ApprovalEvent(made.approval_id, "proposed", 1_000, {"revision": 1}))
        tx.append_event(ApprovalEvent(made.approval_id, "approved", 2_000))
        tx.append_event(ApprovalEvent(other.approval_id, "proposed", 900))

    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.write(save)
            await store.write(lambda tx: tx.save_record(approved(made)))
        async with database.open() as store:

            def look(tx: Transaction) -> None:
                assert (tx.run("run"), tx.run("other")) == (RUN, None)
                assert (tx.checkpoint("run"), tx.checkpoint("other")) == (CHECKPOINT, None)
                assert tx.record(made.approval_id) == approved(made)
                assert tx.record("nothing") is None
                assert tx.records() == [other, approved(made)]
                assert tx.records(status="approved") == [approved(made)]
                assert tx.records(tool_name="erase", run_id="run") == [other]
                assert tx.records(run_id="nothing") == []
                assert tx.open_records() == [other, approved(made)]
                assert tx.claim(KEY) == tx.claim_of("approval") == CLAIM
                assert tx.claims() == [CLAIM]
                assert (tx.claim(replace(KEY, key="x")), tx.claim_of("x")) == (None, None)
                assert tx.receipt(KEY) == tx.receipt_of("approval") == RECEIPT
                assert (tx.receipt(replace(KEY, key="x")), tx.receipt_of("x")) == (None, None)
                assert [event.kind for event in tx.events(made.approval_id)] == ["proposed", "approved"]
                assert tx.events(made.approval_id)[0].facts == {"revision": 1}
                assert tx.open_work() == (1, 1)

            await store.read(look)


@pytest.mark.anyio
async def test_rows_are_replaced_and_taken_away(database: Database) -> None:
    def change(tx: Transaction) -> None:
        tx.save_run(RUN)
        tx.save_run(replace(RUN, status="completed"))
        tx.save_checkpoint(CHECKPOINT)
        tx.save_checkpoint(replace(CHECKPOINT, invocation_id="next"))
        tx.save_claim(CLAIM)
        tx.save_claim(replace(CLAIM, error_code="mcp_timeout"))
        tx.save_receipt(replace(RECEIPT, expires_at_ms=2_000))
        tx.save_receipt(replace(RECEIPT, claim=replace(CLAIM, association=None), expires_at_ms=3_000))
        tx.remove_claim(replace(KEY, key="x"))

    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.write(change)
            assert await store.read(lambda tx: tx.run("run")) == replace(RUN, status="completed")
            assert (await store.read(lambda tx: tx.checkpoint("run"))).invocation_id == "next"
            assert (await store.read(lambda tx: tx.claim(KEY))).error_code == "mcp_timeout"
            assert await store.read(lambda tx: tx.receipt_of("approval")) is None
            assert await store.write(lambda tx: tx.remove_expired_receipts(2_999)) == 0
            assert await store.write(lambda tx: tx.remove_expired_receipts(3_000)) == 1
            assert await store.read(lambda tx: tx.receipt(KEY)) is None
            await store.write(lambda tx: tx.remove_claim(KEY))
            assert await store.read(lambda tx: tx.open_work()) == (0, 0)


@pytest.mark.anyio
@pytest.mark.parametrize("use", ["claim", "receipt"])
async def test_what_was_used_is_open_no_more(database: Database, use: str) -> None:
    made = approved(record())
    association = Association(made.approval_id, made.intent.digest, 2, "run", "worker", 1)
    claim = replace(CLAIM, association=association)
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.write(lambda tx: tx.save_record(made))
            assert await store.read(lambda tx: tx.open_records()) == [made]
            await store.write(
                lambda tx: tx.save_claim(claim) if use == "claim" else tx.save_receipt(replace(RECEIPT, claim=claim))
            )
            assert await store.read(lambda tx: tx.open_records()) == []


@pytest.mark.anyio
async def test_a_transaction_that_raises_leaves_nothing(database: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.save_run(RUN)
        tx.save_claim(CLAIM)
        raise KeyError("on purpose")

    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            with pytest.raises(KeyError):
                await store.write(work)
            assert await store.read(lambda tx: tx.open_work()) == (0, 0)
            await store.write(lambda tx: tx.save_run(RUN))
            assert await store.read(lambda tx: tx.run("run")) == RUN


@pytest.mark.anyio
async def test_reading_cannot_write(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            with pytest.raises(ApprovalStorageError):
                await store.read(lambda tx: tx.save_run(RUN))
            assert await store.read(lambda tx: tx.run("run")) is None
            await store.write(lambda tx: tx.save_run(RUN))


@pytest.mark.anyio
async def test_one_claim_for_an_approval_whatever_its_key(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.write(lambda tx: tx.save_claim(CLAIM))
            with pytest.raises(ApprovalStorageError):
                await store.write(lambda tx: tx.save_claim(replace(CLAIM, key=replace(KEY, key="other"))))
            assert await store.read(lambda tx: tx.claims()) == [CLAIM]


@pytest.mark.anyio
async def test_approvals_are_off_until_they_are_enabled(database: Database) -> None:
    uses = [
        lambda tx: tx.record("x"),
        lambda tx: tx.records(),
        lambda tx: tx.save_record(record()),
        lambda tx: tx.events("x"),
        lambda tx: tx.append_event(ApprovalEvent("x", "proposed", 1)),
    ]
    with anyio.fail_after(LIMIT):
        async with database.open(activated=False) as store:
            for use in uses:
                with pytest.raises(ApprovalError) as caught:
                    await store.write(use)
                assert caught.value.code == "approval_storage_not_enabled"
            await store.write(lambda tx: tx.save_run(RUN))
            await store.write(lambda tx: tx.save_run(replace(RUN, status="completed")))
            await store.activate()
            await store.activate()
            for use in uses:
                await store.write(use)
        async with database.open(activated=False) as store:
            assert await store.read(lambda tx: tx.records()) == [record()]


@pytest.mark.anyio
@pytest.mark.parametrize("what", ["run", "claim"])
@pytest.mark.spec("R-approvals-9")
async def test_they_are_not_enabled_while_something_is_open(database: Database, what: str) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open(activated=False) as store:
            await store.write(lambda tx: tx.save_run(RUN) if what == "run" else tx.save_claim(CLAIM))
            with pytest.raises(ApprovalError) as caught:
                await store.activate()
            assert caught.value.code == "approval_activation_pending"
            with pytest.raises(ApprovalError):
                await store.read(lambda tx: tx.records())


@pytest.mark.anyio
async def test_enabling_what_another_host_enabled_goes_on_for_both(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open(activated=False) as first, database.open(activated=False) as second:
            await second.activate()
            await first.write(lambda tx: tx.save_record(record()))
            assert await second.read(lambda tx: tx.records()) == [record()]


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-9")
async def test_a_writer_that_does_not_know_the_format_writes_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"mcpl_core.approvals.{database.name}.store.KNOWN_FORMAT"
    with anyio.fail_after(LIMIT):
        async with database.open(activated=False) as older, database.open(activated=False) as newer:
            monkeypatch.setattr(module, 1)
            await older.write(lambda tx: tx.save_run(replace(RUN, status="failed")))
            monkeypatch.undo()
            await newer.activate()
            monkeypatch.setattr(module, 1)
            for operation in (
                older.write(lambda tx: tx.save_run(RUN)),
                older.read(lambda tx: tx.run("run")),
                older.activate(),
            ):
                with pytest.raises(ApprovalError) as caught:
                    await operation
                assert caught.value.code == "approval_storage_version"
            with pytest.raises(ApprovalError) as caught:
                async with database.open(activated=False):
                    pytest.fail("it was opened")
            assert caught.value.code == "approval_storage_version"
            monkeypatch.undo()
            kept = await newer.read(lambda tx: tx.run("run"))
            assert kept is not None and kept.status == "failed"


_DAMAGE = {
    "a column says otherwise": "UPDATE mcpl_approvals SET status = 'approved'",
    "no JSON": "UPDATE mcpl_approvals SET body = '{'",
    "a member is missing": "UPDATE mcpl_approvals SET body = '{}'",
    "other arguments": """UPDATE mcpl_approvals SET body = replace(body, '0.5', '0.25')""",
    "another tool": """UPDATE mcpl_approvals SET tool_name = 'erase'""",
}

#: The same of the other tables: what is read of each.
_DAMAGED_ROWS = {
    "mcpl_runs": (["status = 'failed'", "root_run_id = 'other'", "body = '[]'"], lambda tx: tx.run("run")),
    "mcpl_checkpoints": (["body = replace(body, 'run', 'ruin')", "body = ''"], lambda tx: tx.checkpoint("run")),
    "mcpl_claims": (["approval_id = 'other'", "approval_id = NULL", "body = 'null'"], lambda tx: tx.claim(KEY)),
    "mcpl_receipts": (["expires_at_ms = 1", "approval_id = 'other'", "body = '7'"], lambda tx: tx.receipt(KEY)),
    "mcpl_approval_events": (["kind = 'approved'", "body = '{}'"], lambda tx: tx.events(record().approval_id)),
}


@pytest.mark.anyio
@pytest.mark.parametrize("damage", _DAMAGE)
async def test_a_damaged_record_is_refused(database: Database, damage: str) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.write(lambda tx: tx.save_record(record()))
            database.execute(_DAMAGE[damage])
            for read in (lambda tx: tx.record(record().approval_id), lambda tx: tx.records()):
                with pytest.raises(ApprovalError) as caught:
                    await store.read(read)
                assert caught.value.code == "approval_record_conflict"
                assert record().approval_id in str(caught.value)


@pytest.mark.anyio
@pytest.mark.parametrize("table", _DAMAGED_ROWS)
async def test_any_damaged_row_is_refused(database: Database, table: str) -> None:
    damages, read = _DAMAGED_ROWS[table]

    def save(tx: Transaction) -> None:
        tx.save_run(RUN)
        tx.save_checkpoint(CHECKPOINT)
        tx.save_claim(CLAIM)
        tx.save_receipt(RECEIPT)

    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.write(lambda tx: tx.append_event(ApprovalEvent(record().approval_id, "proposed", 1_000)))
            for damage in damages:
                await store.write(save)
                database.execute(f"UPDATE {table} SET {damage}")
                with pytest.raises(ApprovalError) as caught:
                    await store.read(read)
                assert caught.value.code == "approval_record_conflict"
                assert caught.value.row is not None and caught.value.row in str(caught.value)
                if table != "mcpl_approval_events":
                    database.execute(f"DELETE FROM {table}")


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-10")
async def test_two_hosts_take_turns(database: Database) -> None:
    """A counter in a run's epoch: no increment of the two is lost."""

    def count(tx: Transaction) -> None:
        run = tx.run("run")
        assert run is not None
        tx.save_run(replace(run, lease_epoch=run.lease_epoch + 1))

    async def work(store: object) -> None:
        for _ in range(10):
            await store.write(count)  # type: ignore[attr-defined]

    with anyio.fail_after(LIMIT):
        async with database.open() as first, database.open() as second:
            await first.write(lambda tx: tx.save_run(RUN))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(work, first)
                tasks.start_soon(work, second)
            run = await first.read(lambda tx: tx.run("run"))
            assert run is not None and run.lease_epoch == 20


@pytest.mark.anyio
async def test_a_writer_that_is_cancelled_in_the_middle_commits(database: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        begun.set()
        assert go_on.wait(LIMIT)
        tx.save_run(RUN)

    with anyio.fail_after(LIMIT):
        async with database.open() as store, anyio.create_task_group() as tasks:
            tasks.start_soon(store.write, work)
            assert await anyio.to_thread.run_sync(begun.wait, LIMIT)
            tasks.cancel_scope.cancel()
            go_on.set()
            with anyio.CancelScope(shield=True):
                assert await store.read(lambda tx: tx.run("run")) == RUN


@pytest.mark.anyio
async def test_a_store_that_is_closed(database: Database) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.aclose()
            await store.aclose()
            for operation in (store.write(lambda tx: None), store.read(lambda tx: None), store.activate()):
                with pytest.raises(ApprovalStorageError):
                    await operation


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
async def test_a_key_that_no_store_keeps(database: Database, text: str) -> None:
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            for look in (
                lambda tx: tx.run(text),
                lambda tx: tx.checkpoint(text),
                lambda tx: tx.record(text),
                lambda tx: tx.records(run_id=text),
                lambda tx: tx.claim_of(text),
                lambda tx: tx.events(text),
            ):
                with pytest.raises(InvalidValueError):
                    await store.read(look)


@pytest.mark.anyio
async def test_a_list_page_by_page(database: Database) -> None:
    made = [record(f"call-{number}", "erase" if number % 3 else "store_value", 1_000) for number in range(7)]
    made = sorted(made, key=lambda each: each.approval_id) + [record("last", created_at_ms=1_001)]

    def save(tx: Transaction) -> None:
        for each in reversed(made):
            tx.save_record(each)

    def pages(tx: Transaction, size: int, **wanted: str) -> list[ApprovalRecord]:
        found: list[ApprovalRecord] = []
        while page := tx.records(limit=size, after=found[-1].approval_id if found else None, **wanted):  # type: ignore[arg-type]
            assert len(page) <= size
            found += page
        return found

    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.write(save)
            for size in (1, 3, 8, 100):
                assert await store.read(lambda tx, size=size: pages(tx, size)) == made
                erased = [each for each in made if each.intent.tool_name == "erase"]
                assert await store.read(lambda tx, size=size: pages(tx, size, tool_name="erase")) == erased
            assert await store.read(lambda tx: tx.records(after="nothing")) == []


@pytest.mark.anyio
async def test_counting(database: Database) -> None:
    made = [approved(record(str(number))) for number in range(3)]

    def save(tx: Transaction) -> None:
        tx.save_record(record("pending"))
        for each in made:
            tx.save_record(each)
        associations = [Association(each.approval_id, "digest", 2, "run", "worker", 1) for each in made]
        tx.save_claim(replace(CLAIM, association=associations[0]))
        tx.save_claim(Claim(replace(KEY, key="alone"), "digest", 1))
        tx.save_receipt(replace(RECEIPT, claim=Claim(replace(KEY, key="1"), "digest", 1, associations[1])))

    nothing = {"pending": 0, "approved": 0, "rejected": 0, "expired": 0, "canceled": 0}
    with anyio.fail_after(LIMIT):
        async with database.open() as store:
            await store.write(save)
            for run_id in (None, "run"):
                counts = await store.read(lambda tx, run_id=run_id: (tx.count_records(run_id), tx.count_used(run_id)))
                assert counts == (nothing | {"pending": 1, "approved": 3}, (1, 1))
                open_ones = await store.read(lambda tx, run_id=run_id: tx.open_records(run_id))
                assert {each.approval_id for each in open_ones} == {record("pending").approval_id, made[2].approval_id}
            other = await store.read(lambda tx: (tx.count_records("x"), tx.count_used("x"), tx.open_records("x")))
            assert other == (nothing, (0, 0), [])
            database.execute("UPDATE mcpl_approvals SET status = 'granted'")
            with pytest.raises(ApprovalError) as caught:
                await store.read(lambda tx: tx.count_records())
            assert caught.value.code == "approval_record_conflict"
