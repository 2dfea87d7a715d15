"""Looking without touching."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpl_core.approvals import DamagedRow
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
            "damaged": 0,
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
            "damaged": 0,
        }
        assert (await host.gateway.diagnose("unknown")).to_json() == {
            "authority": "diagnosis_only",
            "statuses": {"pending": 0, "approved": 1, "rejected": 0, "expired": 0, "canceled": 0},
            "unknownEffects": 1,
            "receipts": 0,
            "openRuns": 0,
            "damaged": 0,
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


@pytest.mark.anyio
async def test_what_is_damaged_is_counted_and_the_rest_too(tmp_path: Path) -> None:
    database = sqlite_database(tmp_path)
    told: list[DamagedRow] = []
    async with host_at(tmp_path, on_damage=told.append) as host:
        ids = {}
        for name in ("status", "body", "run", "good"):
            run, lease = await host.ready(name)
            ids[name] = (await host.propose(run, lease)).approval_id
        database.execute("UPDATE mcpl_approvals SET status = 'paused' WHERE run_id = 'status'")
        database.execute("UPDATE mcpl_approvals SET body = '{' WHERE run_id = 'body'")
        database.execute("UPDATE mcpl_runs SET body = '{' WHERE run_id = 'run'")
        host.clock.now += LIFE
        found = await host.gateway.diagnose()
        # What is kept of the two that have a status counts; what time did to them is not known.
        assert found.statuses == {"pending": 2, "approved": 0, "rejected": 0, "expired": 1, "canceled": 0}
        assert (found.damaged, found.open_runs, found.to_json()["damaged"]) == (3, 4, 3)
        assert {row.id for row in told} == {ids["status"], ids["body"], ids["run"]}
        told.clear()
        assert (await host.gateway.diagnose("good")).damaged == 0
        assert told == []


@pytest.mark.anyio
async def test_a_run_that_is_damaged(tmp_path: Path) -> None:
    told: list[DamagedRow] = []
    async with host_at(tmp_path, on_damage=told.append) as host:
        await host.ready()
        sqlite_database(tmp_path).execute("UPDATE mcpl_runs SET body = '{'")
        found = await host.gateway.diagnose("run")
        assert (found.open_runs, found.damaged, [row.id for row in told]) == (0, 1, ["run"])
