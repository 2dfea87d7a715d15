"""Asking for an approval, deciding it, and time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.approvals import (
    ApprovalError,
    ApprovalGateway,
    ApprovalRequired,
    SqliteApprovalStore,
    intent_of,
    preview_of,
)
from mcpl_core.errors import InvalidValueError
from tests.approvals.databases import sqlite_database
from tests.approvals.world import (
    APPROVAL_ID,
    ARGUMENTS,
    LIFE,
    LIMIT,
    START,
    HandClock,
    Host,
    checkpoint,
    command,
    host_at,
    refused,
    tool_call,
)

# Asking


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-4")
async def test_asking_saves_both_and_gives_the_run_back(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        with pytest.raises(ApprovalRequired) as caught:
            await host.writes.prepare(run, lease, checkpoint(), expires_at_ms=START + LIFE)
        assert (caught.value.run_id, caught.value.approval_id) == ("run", APPROVAL_ID)
    async with host_at(tmp_path) as host:
        record = await host.gateway.get(APPROVAL_ID)
        assert (record.status, record.revision, record.created_at_ms) == ("pending", 1, START)
        assert record.intent.arguments == ARGUMENTS
        assert await host.store.read(lambda tx: tx.checkpoint("run")) == checkpoint()
        again = await host.ledger.acquire("run", "second")
        assert again.epoch == 2
        assert host.server.calls == []


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-4")
async def test_asking_again_finds_the_same_record_and_no_later_end(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        first = await host.propose(run, lease)
        host.clock.now += 10
        lease = await host.ledger.acquire("run", "second", ttl_ms=LIFE)
        assert await host.propose(run, lease, life=LIFE * 2) == first
        assert await host.kinds(first) == ["proposed"]
        await host.decide(first)
        lease = await host.ledger.acquire("run", "second", ttl_ms=LIFE)
        record = await host.writes.prepare(run, lease, checkpoint(), expires_at_ms=START + LIFE * 9)
        assert (record.status, record.expires_at_ms) == ("approved", START + LIFE)


@pytest.mark.anyio
async def test_the_end_is_capped_by_run_and_root(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.ledger.begin("root", principal_id="alice", preset_fingerprint="p", deadline_ms=START + 500)
        for name, own, end in (("a", None, 500), ("b", START + 300, 300), ("c", START + 900, 500)):
            run, lease = await host.ready(name, root_run_id="root", deadline_ms=own)
            assert (await host.propose(run, lease)).expires_at_ms == START + end


@pytest.mark.anyio
async def test_what_is_over_before_it_begins(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready(deadline_ms=START + 5)
        for end, at in ((START, START), (START + LIFE, START + 5)):
            host.clock.now = at
            with refused("approval_expired"):
                await host.writes.prepare(run, lease, checkpoint(), expires_at_ms=end)
        assert await host.gateway.list() == []
        assert await host.store.read(lambda tx: tx.checkpoint("run")) is None
        with pytest.raises(InvalidValueError):
            await host.writes.prepare(run, lease, checkpoint(), expires_at_ms=-1)


@pytest.mark.anyio
async def test_each_check_of_asking(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        intent = intent_of(run, tool_call(), host.registrations.get)
        cases: list[tuple[Any, ...]] = [
            ("agent_run_lease_lost", replace(lease, epoch=9), checkpoint(), intent),
            ("agent_run_lease_lost", replace(lease, run_id="other"), checkpoint(), intent),
            ("approval_batch_unsupported", lease, checkpoint(calls=(tool_call(), tool_call(call_id="b"))), intent),
            ("approval_checkpoint_conflict", lease, checkpoint(tool_call(arguments={"value": "y"})), intent),
            ("approval_checkpoint_conflict", lease, checkpoint(tool_call(call_id="b")), intent),
            ("approval_checkpoint_conflict", lease, checkpoint(tool_call(tool_name="erase")), intent),
            ("approval_checkpoint_conflict", lease, checkpoint(run_id="other"), intent),
            ("approval_run_conflict", lease, checkpoint(), replace(intent, root_run_id="other")),
            ("approval_invocation_unsettled", lease, checkpoint(invocation_id="later"), intent),
            ("approval_configuration_mismatch", lease, checkpoint(), replace(intent, preset_fingerprint="other")),
        ]
        for code, shown, at, asked in cases:
            with refused(code):
                await host.gateway.prepare(shown, at, asked, expires_at_ms=START + LIFE)
        await host.ledger.begin_invocation(lease, "next")
        with refused("approval_invocation_unsettled"):
            await host.gateway.prepare(lease, checkpoint(), intent, expires_at_ms=START + LIFE)
        await host.ledger.settle_invocation(lease, "next")
        await host.ledger.cancel("run")
        with refused("approval_run_terminal"):
            await host.gateway.prepare(lease, checkpoint(invocation_id="next"), intent, expires_at_ms=START + LIFE)
        assert await host.gateway.list() == []


@pytest.mark.anyio
@pytest.mark.parametrize("member", ["binding_id", "binding_revision", "scope_id", "scope_revision"])
async def test_asking_the_same_under_another_authority(tmp_path: Path, member: str) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        await host.propose(run, lease)
        lease = await host.ledger.acquire("run", "second")
        host.rebind(**{member: "other"})
        with refused("approval_intent_conflict"):
            await host.writes.prepare(run, lease, checkpoint(), expires_at_ms=START + LIFE)


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["reject", "expire", "cancel"])
async def test_a_run_whose_approval_is_over_does_not_go_on(tmp_path: Path, how: str) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        if how == "reject":
            await host.decide(record, "reject")
        elif how == "expire":
            host.clock.now += LIFE
        else:
            await host.ledger.cancel("run")
        lease = await host.ledger.acquire("run", "second")
        code: Any = {"reject": "approval_rejected", "expire": "approval_expired", "cancel": "approval_canceled"}[how]
        with refused(code):
            await host.writes.prepare(run, lease, checkpoint(), expires_at_ms=START + LIFE)
        assert f"approval_{(await host.gateway.get(APPROVAL_ID)).status}" == code


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-4")
async def test_a_run_that_moved_on_and_a_call_that_was_edited(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        await host.propose(run, lease)
        for call in (tool_call(idempotency_key="k"), tool_call(call_id="later")):
            lease = await host.ledger.acquire("run", "second")
            if call.call_id == "later":
                await host.propose(run, lease, call)
                lease = await host.ledger.acquire("run", "second")
                call = tool_call()
            with refused("approval_checkpoint_conflict"):
                await host.writes.prepare(run, lease, checkpoint(call), expires_at_ms=START + LIFE)
            await host.ledger.release(lease)
        kept = await host.store.read(lambda tx: tx.checkpoint("run"))
        assert kept is not None and kept.calls[0].call_id == "later"


# Deciding


@pytest.mark.anyio
async def test_a_record_whose_run_is_lost(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        sqlite_database(tmp_path).execute("DELETE FROM mcpl_runs")
        with refused("approval_run_conflict"):
            await host.decide(record)
        assert await host.gateway.expire() == ()


@pytest.mark.anyio
async def test_approving_and_rejecting(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        for run_id, decision, status in (("a", "approve", "approved"), ("b", "reject", "rejected")):
            run, lease = await host.ready(run_id)
            record = await host.propose(run, lease)
            host.clock.now += 7
            receipt = await host.decide(record, decision)  # type: ignore[arg-type]
            kept = await host.gateway.get(record.approval_id)
            assert (receipt.status, receipt.revision, receipt.decided_at_ms) == (status, 2, host.clock.now)
            assert (kept.status, kept.revision) == (status, 2)
            assert kept.decision is not None and kept.decision.principal_id == "bob"
            assert kept.receipt == receipt
            assert await host.kinds(record) == ["proposed", status]


@pytest.mark.anyio
async def test_the_same_command_gets_the_same_receipt_also_later(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        receipt = await host.decide(record)
        host.clock.now += LIFE * 2
        assert await host.decide(record) == receipt
        assert (await host.gateway.refresh(APPROVAL_ID)).status == "expired"
        assert await host.decide(record) == receipt
        with refused("approval_command_conflict"):
            await host.decide(record, "reject")
        with refused("approval_command_conflict"):
            await host.decide(record, principal="eve")
        with refused("approval_command_conflict"):
            await host.gateway.decide(replace(command(record), expected_revision=2), principal_id="bob")


@pytest.mark.anyio
async def test_what_was_looked_at_must_be_what_is_there(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        for change in ({"expected_revision": 2}, {"intent_digest": "0" * 64}):
            with refused("approval_revision_conflict"):
                await host.gateway.decide(replace(command(record), **change), principal_id="bob")
        with refused("approval_not_found"):
            await host.gateway.decide(replace(command(record), approval_id="other"), principal_id="bob")
        await host.decide(record, "reject")
        # A second decision, with a key of its own, on either revision.
        for revision in (1, 2):
            later = replace(command(record, key="second"), expected_revision=revision)
            with refused("approval_revision_conflict"):
                await host.gateway.decide(later, principal_id="bob")
        assert (await host.gateway.get(APPROVAL_ID)).status == "rejected"


@pytest.mark.anyio
async def test_an_approval_for_one_call_is_none_for_another(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        harmless = await host.propose(run, lease)
        other, lease = await host.ready("other")
        harmful = await host.propose(other, lease, tool_call(arguments={"value": "everything"}))
        swapped = replace(command(harmless), approval_id=harmful.approval_id)
        with refused("approval_revision_conflict"):
            await host.gateway.decide(swapped, principal_id="bob")
        assert (await host.gateway.get(harmful.approval_id)).status == "pending"


@pytest.mark.anyio
@pytest.mark.parametrize("verdict", [None, False, 1, "yes", "True", object(), [True]])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.spec("R-approvals-11")
async def test_only_true_allows(tmp_path: Path, verdict: Any, asynchronous: bool) -> None:
    async def later(*facts: Any) -> Any:
        return verdict

    async with host_at(tmp_path, authorize=later if asynchronous else lambda *facts: verdict) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        with refused("approval_authorization_denied"):
            await host.decide(record)
        assert (await host.gateway.get(APPROVAL_ID)).status == "pending"


@pytest.mark.anyio
async def test_the_authorizer_sees_who_and_what(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def authorize(*facts: Any) -> bool:
        seen.append(facts)
        return True

    async with host_at(tmp_path, authorize=authorize) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        await host.decide(record)
        assert seen == [("bob", record, command(record))]


@pytest.mark.anyio
async def test_an_authorizer_that_fails(tmp_path: Path) -> None:
    def authorize(*facts: Any) -> bool:
        raise LookupError("no directory")

    async with host_at(tmp_path, authorize=authorize) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        with pytest.raises(ApprovalError) as caught:
            await host.decide(record)
        assert caught.value.code == "approval_authorization_failed"
        assert isinstance(caught.value.__cause__, LookupError)
        assert (await host.gateway.get(APPROVAL_ID)).status == "pending"


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-11")
async def test_no_transaction_is_open_while_somebody_is_asked(tmp_path: Path) -> None:
    """Everything is looked at again after the authorizer answered."""
    host: Host

    async def authorize(*facts: Any) -> bool:
        await host.ledger.cancel("run")
        return True

    async with host_at(tmp_path, authorize=authorize) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        with refused("approval_canceled"):
            await host.decide(record)
        assert (await host.gateway.get(APPROVAL_ID)).status == "canceled"


@pytest.mark.anyio
async def test_the_first_of_two_decisions_counts(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        codes: list[str] = []

        async def decide(key: str) -> None:
            try:
                codes.append((await host.decide(record, "approve" if key == "a" else "reject", key=key)).status)
            except ApprovalError as exc:
                codes.append(exc.code)

        async with anyio.create_task_group() as tasks:
            for key in "ab":
                tasks.start_soon(decide, key)
        assert sorted(codes) in (["approval_revision_conflict", "approved"], ["approval_revision_conflict", "rejected"])


@pytest.mark.anyio
async def test_the_configuration_at_the_decision(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        kept = await host.ledger.find("run")
        assert kept is not None
        await host.store.write(lambda tx: tx.save_run(replace(kept, preset_fingerprint="other")))
        with refused("approval_configuration_mismatch"):
            await host.decide(record)


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-12")
async def test_the_preview_that_was_seen(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        with refused("approval_preview_conflict"):
            await host.gateway.decide(command(record), principal_id="bob", preview_digest="0" * 64)
        digest = preview_of(record).digest
        await host.gateway.decide(command(record), principal_id="bob", preview_digest=digest)
        approved = (await host.gateway.events(APPROVAL_ID))[-1]
        assert (approved.kind, approved.facts["previewDigest"], approved.facts["principalId"]) == (
            "approved",
            digest,
            "bob",
        )


@pytest.mark.anyio
@pytest.mark.parametrize("principal", ["", " bob", None])
async def test_somebody_decides(tmp_path: Path, principal: Any) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        with pytest.raises(InvalidValueError):
            await host.gateway.decide(command(record), principal_id=principal)


# Time


@pytest.mark.anyio
@pytest.mark.parametrize("after", [-1, 0, 1])
async def test_the_last_moment(tmp_path: Path, after: int) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        host.clock.now = START + LIFE + after
        if after < 0:
            assert (await host.decide(record)).status == "approved"
            return
        with refused("approval_expired"):
            await host.decide(record)
        assert (await host.gateway.get(APPROVAL_ID)).status == "expired"


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-3")
async def test_a_clock_that_goes_back_revives_nothing(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        host.clock.now = START + LIFE
        with refused("approval_expired"):
            await host.decide(record)
        host.clock.now = START
        with refused("approval_expired"):
            await host.decide(record, key="again")
    # Nor does a host whose clock is behind from the beginning.
    async with host_at(tmp_path) as host:
        with refused("approval_expired"):
            await host.decide(record, key="again")
        assert await host.kinds(record) == ["proposed", "expired"]


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-3")
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_an_approver_whose_clock_is_behind(tmp_path: Path, decision: Any) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        approver = Host(host.store, clock=HandClock(START - LIFE))
        receipt = await approver.decide(record, decision)
        assert receipt.decided_at_ms == record.created_at_ms == START
        assert await approver.decide(record, decision) == receipt
    async with host_at(tmp_path) as host:
        kept = await host.gateway.get(APPROVAL_ID)
        assert kept.receipt == receipt


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-3")
async def test_a_time_that_was_only_seen_in_this_process_counts_too(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        host.clock.now = START + LIFE
        assert (await host.gateway.diagnose()).statuses["expired"] == 1
        host.clock.now = START
        with refused("approval_expired"):
            await host.decide(record)


@pytest.mark.anyio
async def test_reopening_does_not_begin_the_time_anew(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
    async with host_at(tmp_path) as host:
        host.clock.now = START + LIFE - 1
        assert (await host.gateway.refresh(APPROVAL_ID)).expires_at_ms == record.expires_at_ms
        host.clock.now += 1
        assert (await host.gateway.refresh(APPROVAL_ID)).status == "expired"
        assert (await host.gateway.refresh(APPROVAL_ID)).revision == 2


@pytest.mark.anyio
async def test_sweeping(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        records = {}
        for run_id in ("due", "canceled", "approved", "used", "rejected", "young"):
            run, lease = await host.ready(run_id)
            records[run_id] = await host.propose(run, lease, life=LIFE * (9 if run_id in ("canceled", "young") else 1))
        for run_id in ("approved", "used"):
            await host.decide(records[run_id])
        await host.decide(records["rejected"], "reject")
        await host.dispatch(await host.ledger.acquire("used", "worker"))
        await host.ledger.cancel("canceled")
        host.clock.now += LIFE
        changed = set(await host.gateway.expire())
        assert changed == {records[run_id].approval_id for run_id in ("due", "canceled", "approved")}
        assert await host.gateway.expire() == ()
        found = {record.intent.run_id: record.status for record in await host.gateway.list()}
        assert found == {
            "due": "expired",
            "canceled": "canceled",
            "approved": "expired",
            "used": "approved",
            "rejected": "rejected",
            "young": "pending",
        }
        assert [record.intent.run_id for record in await host.gateway.list(status="pending")] == ["young"]
        assert [record.intent.run_id for record in await host.gateway.list(run_id="used", tool_name="store_value")] == [
            "used"
        ]


# The rest


@pytest.mark.anyio
async def test_a_store_that_is_not_enabled(tmp_path: Path) -> None:
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(tmp_path / "new.db") as store:
            host = Host(store)
            run, lease = await host.ready()
            for operation in (
                host.propose(run, lease),
                host.gateway.get("x"),
                host.gateway.list(),
                host.dispatch(lease),
                host.gateway.expire(),
                host.gateway.diagnose(),
            ):
                with refused("approval_storage_not_enabled"):
                    await operation


@pytest.mark.anyio
async def test_somebody_must_say_who_may_decide(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        with pytest.raises(InvalidValueError):
            ApprovalGateway(host.store, authorize=None)  # type: ignore[arg-type]
        with refused("approval_not_found"):
            await host.gateway.refresh("other")


@pytest.mark.anyio
async def test_the_steps_of_asking_and_deciding(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        await host.decide(await host.propose(run, lease))
        assert host.steps == [
            "prepare.begun",
            "prepare.record_saved",
            "prepare.checkpoint_saved",
            "prepare.committed",
            "decide.authorized",
            "decide.record_saved",
            "decide.committed",
        ]


@pytest.mark.anyio
@pytest.mark.parametrize("step", ["prepare.record_saved", "prepare.checkpoint_saved"])
@pytest.mark.spec("R-approvals-4")
async def test_intent_and_checkpoint_are_saved_together_or_not_at_all(tmp_path: Path, step: str) -> None:
    def cut(at: str) -> None:
        if at == step:
            raise KeyboardInterrupt

    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        host.on_step = cut
        with pytest.raises(BaseException) as caught:
            await host.propose(run, lease)
        assert isinstance(caught.value, KeyboardInterrupt)
        assert await host.gateway.list() == []
        assert await host.store.read(lambda tx: tx.checkpoint("run")) is None
        assert await host.gateway.events(APPROVAL_ID) == ()


@pytest.mark.anyio
async def test_asking_again_after_the_call_was_made(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, _ = await host.approved()
        await host.dispatch(lease)
        run = await host.ledger.find("run")
        assert run is not None
        host.clock.now += LIFE
        record = await host.writes.prepare(run, lease, checkpoint(), expires_at_ms=START + LIFE * 2)
        assert record.status == "approved"
        assert len(host.server.calls) == 1


@pytest.mark.anyio
async def test_a_list_page_by_page(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        made = []
        for number in range(3):
            host.clock.now += 1
            run, lease = await host.ready(f"run-{number}")
            made.append(await host.propose(run, lease))
        assert await host.gateway.list() == made
        assert await host.gateway.list(limit=2) == made[:2]
        assert await host.gateway.list(limit=2, after=made[1].approval_id) == made[2:]
        with refused("approval_not_found"):
            await host.gateway.list(after="nothing")
        for limit in (0, -1, True, "1"):
            with pytest.raises(InvalidValueError):
                await host.gateway.list(limit=limit)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_what_is_passed_by_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        await host.propose(run, lease)
        sqlite_database(tmp_path).execute('UPDATE mcpl_approvals SET body = \'{"token": "hunter2"\'')
        for operation in (host.gateway.list, host.gateway.expire, host.gateway.diagnose):
            caplog.clear()
            await operation()
            (line,) = caplog.record_tuples
            assert line[0] == "mcpl_core.approvals" and APPROVAL_ID in line[2] and "hunter2" not in line[2]
