"""Clearing a claim by what somebody found out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.approvals import ApprovalRecord, Outcome, reconcile
from mcpl_core.catalog.peers.base import PeerResult
from mcpl_core.errors import InvalidValueError
from tests.approvals.world import APPROVAL_ID, LIFE, SUCCESS, Host, failing, host_at, refused

FOUND = Outcome("committed", {"text": ["it is there"]})


async def _unknown(host: Host, *, idle: bool = True) -> tuple[Any, ApprovalRecord]:
    lease, record = await host.approved()
    host.server.answer = failing("mcp_timeout")
    await host.dispatch(lease)
    if idle:
        await host.ledger.release(lease)
    return lease, record


async def _reconcile(host: Host, record: ApprovalRecord, **facts: Any) -> None:
    await reconcile(
        host.gateway,
        facts.pop("approval_id", record.approval_id),
        intent_digest=facts.pop("intent_digest", record.intent.digest),
        principal_id=facts.pop("principal_id", "bob"),
        **facts,
    )


@pytest.mark.anyio
@pytest.mark.parametrize("result", [FOUND, Outcome("not_started", None, "gone")])
@pytest.mark.spec("R-approvals-7")
async def test_with_a_known_result_the_approval_is_used_up(tmp_path: Path, result: Outcome) -> None:
    async with host_at(tmp_path) as host:
        _, record = await _unknown(host)
        await _reconcile(host, record, result=result, evidence="ledger, page 3")
        assert not await host.claimed(record)
        receipt = await host.store.read(lambda tx: tx.receipt_of(APPROVAL_ID))
        assert receipt is not None
        assert (receipt.source, receipt.principal_id, receipt.outcome) == ("reconciliation", "bob", result)
        lease = await host.ledger.acquire("run", "third")
        assert await host.dispatch(lease) == result
        assert len(host.server.calls) == 1
        told = (await host.gateway.events(APPROVAL_ID))[-1]
        assert told.kind == "reconciled"
        assert (told.facts["principalId"], told.facts["evidence"]) == ("bob", "ledger, page 3")


@pytest.mark.anyio
async def test_with_proof_that_it_was_not_made_it_can_be_made(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        _, record = await _unknown(host)
        await _reconcile(host, record, not_executed=True)
        host.server.answer = lambda params: PeerResult(SUCCESS)
        lease = await host.ledger.acquire("run", "third")
        assert (await host.dispatch(lease)).effect_state == "committed"
        assert len(host.server.calls) == 2


@pytest.mark.anyio
async def test_what_ran_out_in_the_meantime_is_not_revived(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        _, record = await _unknown(host)
        host.clock.now += LIFE
        await _reconcile(host, record, not_executed=True)
        lease = await host.ledger.acquire("run", "third")
        with refused("approval_expired"):
            await host.dispatch(lease)
        assert len(host.server.calls) == 1


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-7")
async def test_only_on_an_idle_run(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await _unknown(host, idle=False)
        for facts in ({"result": FOUND}, {"not_executed": True}):
            with refused("approval_reconciliation_requires_idle_run"):
                await _reconcile(host, record, **facts)
        assert await host.claimed(record)
        host.clock.now += LIFE * 10
        await _reconcile(host, record, result=FOUND)


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-7")
async def test_what_does_not_fit_keeps_the_claim(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        _, record = await _unknown(host)
        for code, facts in (
            ("approval_claim_conflict", {"intent_digest": "0" * 64, "result": FOUND}),
            ("approval_not_found", {"approval_id": "other", "result": FOUND}),
            ("approval_reconciliation_requires_known_effect", {"result": Outcome("unknown")}),
        ):
            with refused(code):  # type: ignore[arg-type]
                await _reconcile(host, record, **facts)
        for wrong in (
            {},
            {"result": FOUND, "not_executed": True},
            {"not_executed": 1},
            {"result": FOUND, "principal_id": ""},
            {"result": FOUND, "evidence": ""},
        ):
            with pytest.raises(InvalidValueError):
                await _reconcile(host, record, **wrong)
        claim = await host.store.read(lambda tx: tx.claim_of(APPROVAL_ID))
        assert claim is not None and claim.association is not None
        later = replace(claim, association=replace(claim.association, approval_revision=3))
        await host.store.write(lambda tx: tx.save_claim(later))
        with refused("approval_claim_conflict"):
            await _reconcile(host, record, result=FOUND)
        assert await host.claimed(record)


@pytest.mark.anyio
async def test_nothing_to_clear(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        await host.ledger.release(lease)
        with refused("approval_claim_conflict"):
            await _reconcile(host, record, not_executed=True)
        lease = await host.ledger.acquire("run", "third")
        await host.dispatch(lease)
        await host.ledger.release(lease)
        for facts in ({"not_executed": True}, {"result": FOUND}):
            with refused("approval_claim_conflict"):
                await _reconcile(host, record, **facts)


@pytest.mark.anyio
@pytest.mark.parametrize("status", ["completed", "failed", "canceled"])
async def test_a_run_that_ended_stays_ended(tmp_path: Path, status: Any) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await _unknown(host, idle=False)
        await host.ledger.finish(lease, status)
        await _reconcile(host, record, result=FOUND)
        run = await host.ledger.find("run")
        assert run is not None and run.status == status
        with refused("approval_run_terminal"):
            await host.ledger.acquire("run", "third")


@pytest.mark.anyio
async def test_the_steps(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        _, record = await _unknown(host)
        await _reconcile(host, record, result=FOUND)
        assert host.steps[-2:] == ["reconcile.saved", "reconcile.committed"]
