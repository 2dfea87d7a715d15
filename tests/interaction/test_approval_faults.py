"""Writes that survive a crash without happening twice: real processes, killed at every step of the gate.

Every host is a process that is ended by SIGKILL; the server is another one, with a ledger that is on the disk before
anything else happens. Nothing here depends on how long anything takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

from mcpl_core.approvals import ApprovalError, Outcome, reconcile
from mcpl_core.approvals.clock import wall_clock_ms
from mcpl_core.approvals.steps import STEPS
from tests.approvals import acceptance
from tests.approvals.acceptance import CALL, MODES, RUN, Host, connected, entries, written
from tests.approvals.databases import DATABASES, Database, database_for
from tests.approvals.forge import APPROVAL_ID, SERVER

LIMIT = 60.0
#: Milliseconds after which the lease of a killed host is over, and the approval is not.
LATER = 5 * 60 * 1000
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def anyio_backend() -> str:
    """Processes take their time, and what is tried here does not depend on the event loop."""
    return "asyncio"


class Forge:
    """See ``tests/approvals/forge.py``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.approvals.forge"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, *hosts: dict[str, Any], together: bool = False) -> list[int]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"hosts": hosts, "together": together}).encode() + b"\n")
        self._process.stdin.flush()
        statuses: list[int] = json.loads(self._process.stdout.readline())["statuses"]
        return statuses

    def close(self) -> None:
        self._process.communicate(timeout=LIMIT)


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


def host_job(database: Database, folder: Path, **changes: Any) -> dict[str, Any]:
    job = {
        "database": [database.name, database.target],
        "folder": str(folder),
        "mode": "success",
        "life": "whole",
        "kill_at": None,
        "ahead": 0,
        "result": str(folder / "result"),
    }
    return job | changes


class Found(NamedTuple):
    """What a host left behind when it was killed.

    Attributes:
        status: of the approval; ``None``: there is none, and no checkpoint.
        claimed: whether its claim is there.
        writes: how often the value was written.
        resumed: what the next host comes to.
    """

    status: str | None
    claimed: bool
    writes: int
    resumed: str


NOTHING = Found(None, False, 0, "committed")
PENDING = Found("pending", False, 0, "committed")
UNSENT = Found("approved", True, 0, "approval_claim_conflict")
SENT = Found("approved", True, 1, "approval_claim_conflict")

#: Where the host is killed -> what is found.
MATRIX: dict[str, Found] = {
    "prepare.begun": NOTHING,
    "prepare.record_saved": NOTHING,
    "prepare.checkpoint_saved": NOTHING,
    "prepare.committed": PENDING,
    "decide.authorized": PENDING,
    "decide.record_saved": PENDING,
    "decide.committed": Found("approved", False, 0, "committed"),
    "dispatch.begun": Found("approved", False, 0, "committed"),
    "dispatch.claim_saved": Found("approved", False, 0, "committed"),
    "dispatch.claimed": UNSENT,
    "dispatch.permitted": UNSENT,
    "kill_before_write": UNSENT,
    "kill_after_write": SENT,
    "dispatch.answered": SENT,
    "dispatch.outcome_saved": SENT,
    "dispatch.recorded": Found("approved", False, 1, "committed"),
}


def test_the_matrix_has_every_step() -> None:
    of_the_gate = [step for step in STEPS if not step.startswith("reconcile.")]
    assert [step for step in MATRIX if not step.startswith("kill_")] == of_the_gate


def _requests(folder: Path) -> int:
    return len([each for each in entries(folder) if each["event"] == "received"])


async def _resume(host: Host, folder: Path) -> str:
    """What a host does that finds a run: ask if nobody asked, have it decided, dispatch."""
    async with connected(host, folder, SERVER, sys.executable, "success"):
        found = await host.store.read(lambda tx: tx.record(APPROVAL_ID))
        if found is None:
            await host.approve(await host.ask())
        elif found.status == "pending":
            await host.approve(APPROVAL_ID)
        try:
            return (await host.dispatch("resumed")).effect_state
        except ApprovalError as exc:
            return exc.code


def _later() -> int:
    return wall_clock_ms() + LATER


async def _killed(forge: Forge, database: Database, folder: Path, where: str) -> None:
    kill_at, mode = (None, where) if where.startswith("kill_") else (where, "success")
    async with database.open():
        pass
    assert forge.run(host_job(database, folder, kill_at=kill_at, mode=mode)) == [-9]
    # Its server ends with it, and lets go of the ledger.
    entries(folder)


async def _check(forge: Forge, database: Database, folder: Path, where: str) -> None:
    expected = MATRIX[where]
    await _killed(forge, database, folder, where)
    async with database.open() as store:
        record = await store.read(lambda tx: tx.record(APPROVAL_ID))
        checkpoint = await store.read(lambda tx: tx.checkpoint(RUN))
        claim = await store.read(lambda tx: tx.claim_of(APPROVAL_ID))
        assert (None if record is None else record.status, claim is not None) == (expected.status, expected.claimed)
        assert (checkpoint is None) == (record is None)
        assert written(folder) == expected.writes
        host = Host(store, clock=_later)
        for _ in range(2):
            assert await _resume(host, folder) == expected.resumed
    at_most_once = 1 if expected.resumed == "committed" else expected.writes
    assert written(folder) == at_most_once
    assert _requests(folder) == max(at_most_once, int(where == "kill_before_write"))


@pytest.mark.anyio
@pytest.mark.parametrize("where", MATRIX)
async def test_a_host_that_is_killed(forge: Forge, tmp_path: Path, where: str) -> None:
    with anyio.fail_after(LIMIT), database_for("sqlite", tmp_path) as database:
        await _check(forge, database, tmp_path, where)


@pytest.mark.anyio
@pytest.mark.parametrize("name", DATABASES[1:])
@pytest.mark.parametrize("where", [where for where, found in MATRIX.items() if found.status == "approved"])
async def test_a_host_that_is_killed_elsewhere(forge: Forge, tmp_path: Path, name: str, where: str) -> None:
    with anyio.fail_after(LIMIT), database_for(name, tmp_path) as database:
        await _check(forge, database, tmp_path, where)


@pytest.mark.anyio
@pytest.mark.parametrize(("where", "proof"), [("dispatch.claimed", "not made"), ("dispatch.answered", "made")])
async def test_what_somebody_found_out_clears_it(forge: Forge, tmp_path: Path, where: str, proof: str) -> None:
    with anyio.fail_after(LIMIT), database_for("sqlite", tmp_path) as database:
        await _killed(forge, database, tmp_path, where)
        async with database.open() as store:
            host = Host(store, clock=_later)
            record = await host.gateway.get(APPROVAL_ID)
            facts: dict[str, Any] = (
                {"not_executed": True} if proof == "not made" else {"result": Outcome("committed", "found")}
            )
            await reconcile(host.gateway, APPROVAL_ID, intent_digest=record.intent.digest, principal_id="bob", **facts)
            assert await _resume(host, tmp_path) == "committed"
        assert written(tmp_path) == _requests(tmp_path) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("name", DATABASES)
async def test_a_keyed_call_that_is_killed_in_the_middle(forge: Forge, tmp_path: Path, name: str) -> None:
    with anyio.fail_after(LIMIT), database_for(name, tmp_path) as database:
        async with database.open():
            pass
        assert forge.run(host_job(database, tmp_path, life="keyed", kill_at="dispatch.answered")) == [-9]
        job = host_job(database, tmp_path, life="keyed")
        assert forge.run(job) == [0]
        assert await anyio.Path(job["result"]).read_text(encoding="utf-8") == "idempotency_in_flight"


@pytest.mark.anyio
@pytest.mark.parametrize(("kill_at", "claimed"), [("reconcile.saved", True), ("reconcile.committed", False)])
async def test_an_operator_that_is_killed(forge: Forge, tmp_path: Path, kill_at: str, claimed: bool) -> None:
    with anyio.fail_after(LIMIT), database_for("sqlite", tmp_path) as database:
        await _killed(forge, database, tmp_path, "dispatch.answered")
        assert forge.run(host_job(database, tmp_path, life="reconcile", kill_at=kill_at, ahead=LATER)) == [-9]
        async with database.open() as store:
            claim = await store.read(lambda tx: tx.claim_of(APPROVAL_ID))
            receipt = await store.read(lambda tx: tx.receipt_of(APPROVAL_ID))
            assert (claim is not None, receipt is None) == (claimed, claimed)


@pytest.mark.anyio
@pytest.mark.parametrize("name", DATABASES)
async def test_hosts_that_race_for_one_claim(forge: Forge, tmp_path: Path, name: str) -> None:
    with anyio.fail_after(LIMIT), database_for(name, tmp_path) as database:
        async with database.open() as store:
            host = Host(store)
            async with connected(host, tmp_path, SERVER, sys.executable, "success"):
                await host.approve(await host.ask())
            await host.ledger.acquire(RUN, "shared")
        folders = [tmp_path / str(number) for number in range(3)]
        for folder in folders:
            os.mkdir(folder)
        jobs = [host_job(database, folder, life="shared") for folder in folders]
        assert forge.run(*jobs, together=True) == [0, 0, 0]
        results = [await anyio.Path(job["result"]).read_text(encoding="utf-8") for job in jobs]
        assert sum(map(_requests, folders)) == sum(map(written, folders)) == 1
        assert "committed" in results
        assert set(results) <= {"committed", "approval_claim_conflict"}


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("mode", MODES)
async def test_the_five_ways_in_which_a_write_can_end(tmp_path: Path, mode: str) -> None:
    with anyio.fail_after(LIMIT):
        await acceptance.run(mode, tmp_path, SERVER, sys.executable)


def test_the_call_is_the_one_value() -> None:
    assert dict(CALL.arguments) == {"value": "the one value"}
