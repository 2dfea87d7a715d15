"""Looking without touching."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpl_core.approvals.diagnosis import status_now
from tests.approvals.databases import sqlite_database
from tests.approvals.world import LIFE, failing, host_at

_TABLES = ("mcpl_runs", "mcpl_checkpoints", "mcpl_claims", "mcpl_receipts", "mcpl_approvals", "mcpl_approval_events")


@pytest.mark.anyio
async def test_counts(tmp_path: Path) -> None:
    database = sqlite_database(tmp_path)
    async with host_at(tmp_path) as host:
        assert (await host.gateway.diagnose()).to_json() == {
            "authority": "diagnosis_only",
            "statuses": {"pending": 0, "approved": 0, "rejected": 0, "expired": 0, "canceled": 0},
            "unknownEffects": 0,
            "receipts": 0,
            "openRuns": 0,
        }
        for name in ("pending", "rejected", "canceled"):
            run, lease = await host.ready(name)
            record = await host.propose(run, lease, life=LIFE * 5)
            if name == "rejected":
                await host.decide(record, "reject")
            if name == "canceled":
                await host.ledger.cancel(name)
        await host.dispatch((await host.approved("used"))[0])
        await host.approved("expired")
        lease, record = await host.approved("unknown")
        host.server.answer = failing("mcp_timeout")
        await host.dispatch(lease)
        await host.ledger.finish(lease, "failed")
        host.clock.now += LIFE
        before = [database.execute(f"SELECT * FROM {table}") for table in _TABLES]
        found = await host.gateway.diagnose()
        assert found.to_json() == {
            "authority": "diagnosis_only",
            "statuses": {"pending": 1, "approved": 2, "rejected": 1, "expired": 1, "canceled": 1},
            "unknownEffects": 1,
            "receipts": 1,
            "openRuns": 5,
        }
        assert (await host.gateway.diagnose("unknown")).to_json() == {
            "authority": "diagnosis_only",
            "statuses": {"pending": 0, "approved": 1, "rejected": 0, "expired": 0, "canceled": 0},
            "unknownEffects": 1,
            "receipts": 0,
            "openRuns": 0,
        }
        assert (await host.gateway.diagnose("nobody")).open_runs == 0
        assert [database.execute(f"SELECT * FROM {table}") for table in _TABLES] == before
        json.dumps(found.to_json())


@pytest.mark.anyio
async def test_the_status_of_an_approval_whose_run_is_lost(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        record = await host.propose(run, lease)
        sqlite_database(tmp_path).execute("DELETE FROM mcpl_runs")
        assert await host.store.read(lambda tx: status_now(tx, record, host.clock.now + LIFE)) == "pending"
