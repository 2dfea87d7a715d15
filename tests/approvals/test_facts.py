"""Gathering facts, and keeping what time and runs do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mcpl_core.approvals import Transaction
from mcpl_core.approvals.facts import claim_key, keep_refreshed, load_facts, load_record, log
from tests.approvals.world import APPROVAL_ID, LIFE, START, checkpoint, host_at, refused, tool_call


@pytest.mark.anyio
async def test_what_belongs_to_a_question(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.ledger.begin("root", principal_id="alice", preset_fingerprint="p")
        lease, record = await host.approved("run", root_run_id="root")
        facts = await host.store.read(lambda tx: load_facts(tx, "run", APPROVAL_ID, START))
        assert facts.run is not None and facts.root is not None
        assert (facts.run.run_id, facts.root.run_id, facts.record) == (
            "run",
            "root",
            await host.gateway.get(APPROVAL_ID),
        )
        assert facts.checkpoint == checkpoint()
        assert (facts.claim, facts.receipt) == (None, None)
        await host.dispatch(lease)
        facts = await host.store.read(lambda tx: load_facts(tx, "run", APPROVAL_ID, START))
        assert facts.receipt is not None
        nothing = await host.store.read(lambda tx: load_facts(tx, "other", "other", START))
        assert (nothing.run, nothing.root, nothing.record, nothing.checkpoint) == (None, None, None, None)
        assert record.intent.root_run_id == "root"


@pytest.mark.anyio
async def test_refreshing_is_kept_once(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)

        async def refresh(now: int) -> tuple[bool, str]:
            def work(tx: Transaction) -> tuple[bool, str]:
                facts = load_facts(tx, "run", APPROVAL_ID, now)
                kept = keep_refreshed(tx, facts)
                assert kept.record is not None
                return kept is facts, kept.record.status

            return await host.store.write(work)

        assert await refresh(START + LIFE - 1) == (True, "pending")
        assert await refresh(START + LIFE) == (False, "expired")
        assert await refresh(START + LIFE) == (True, "expired")
        assert await host.kinds(record) == ["proposed", "expired"]


@pytest.mark.anyio
async def test_a_record_that_is_not_there(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        with refused("approval_not_found"):
            await host.store.read(lambda tx: load_record(tx, "other"))
        await host.store.write(lambda tx: log(tx, "x", "proposed", 1, revision=1))
        assert [event.facts for event in await host.gateway.events("x")] == [{"revision": 1}]


@pytest.mark.anyio
async def test_what_an_effect_is_named_by(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, _ = await host.ready()
        assert claim_key(run, tool_call(), "approval").key == "approval"
        keyed = claim_key(replace(run, principal_id="bob"), tool_call(idempotency_key="k"), "approval")
        assert (keyed.principal_id, keyed.tool_name, keyed.key) == ("bob", "store_value", "k")
