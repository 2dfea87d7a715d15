"""Runs in a store: taking, keeping, leaving and ending them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.approvals import RunLease
from mcpl_core.approvals.ledger import released
from mcpl_core.errors import InvalidValueError
from tests.approvals.world import START, host_at, refused

FACTS: dict[str, Any] = {"principal_id": "alice", "preset_fingerprint": "preset"}


@pytest.mark.anyio
async def test_a_run_is_begun_once(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run = await host.ledger.begin("run", **FACTS)
        assert (run.root_run_id, run.status, run.lease_epoch) == ("run", "running", 0)
        lease = await host.ledger.acquire("run", "worker")
        again = await host.ledger.begin("run", **FACTS)
        assert again.lease_owner == "worker"
        for change in ({"principal_id": "bob"}, {"preset_fingerprint": "x"}, {"deadline_ms": 5}):
            with refused("approval_run_conflict"):
                await host.ledger.begin("run", **FACTS | change)
        assert await host.ledger.find("run") == again
        assert await host.ledger.find("other") is None
        await host.ledger.release(lease)


@pytest.mark.anyio
async def test_the_root_is_there_first(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        with refused("approval_run_conflict"):
            await host.ledger.begin("child", root_run_id="root", **FACTS)
        await host.ledger.begin("root", **FACTS)
        child = await host.ledger.begin("child", root_run_id="root", **FACTS)
        assert child.root_run_id == "root"
        assert await host.ledger.begin("child", root_run_id="root", **FACTS) == child
        # What ends a root ends what belongs to it: that is one step, and the principal's own.
        for other in ({"root_run_id": "child"}, {"root_run_id": "root", "principal_id": "mallory"}):
            with refused("approval_run_conflict"):
                await host.ledger.begin("grandchild", **FACTS | other)


@pytest.mark.anyio
async def test_one_worker_at_a_time(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.ledger.begin("run", **FACTS)
        first = await host.ledger.acquire("run", "first", ttl_ms=1_000)
        host.clock.now = START + 999
        with refused("agent_run_lease_lost"):
            await host.ledger.acquire("run", "second")
        await host.ledger.renew(first, ttl_ms=1_000)
        host.clock.now = START + 1_998
        with refused("agent_run_lease_lost"):
            await host.ledger.acquire("run", "second")
        host.clock.now = START + 1_999
        second = await host.ledger.acquire("run", "second")
        assert (first.epoch, second.epoch) == (1, 2)
        for operation in (
            host.ledger.renew(first),
            host.ledger.release(first),
            host.ledger.finish(first, "completed"),
            host.ledger.begin_invocation(first, "i"),
            host.ledger.settle_invocation(first, "i"),
            host.ledger.renew(replace(second, owner="other")),
            host.ledger.renew(replace(second, epoch=3)),
        ):
            with refused("agent_run_lease_lost"):
                await operation
        await host.ledger.release(second)
        third = await host.ledger.acquire("run", "first")
        assert third.epoch == 3


@pytest.mark.anyio
async def test_a_clock_that_goes_back_revives_no_lease(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.ledger.begin("run", **FACTS)
        lease = await host.ledger.acquire("run", "first", ttl_ms=10)
        host.clock.now = START + 10
        with refused("agent_run_lease_lost"):
            await host.ledger.renew(lease)
        host.clock.now = START
        with refused("agent_run_lease_lost"):
            await host.ledger.renew(lease)


@pytest.mark.anyio
async def test_a_run_that_ended_is_not_taken(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.ledger.begin("run", **FACTS)
        lease = await host.ledger.acquire("run", "worker")
        with pytest.raises(InvalidValueError):
            await host.ledger.finish(lease, "running")  # type: ignore[arg-type]
        await host.ledger.finish(lease, "failed")
        with refused("approval_run_terminal"):
            await host.ledger.acquire("run", "worker")
        await host.ledger.cancel("run")
        run = await host.ledger.find("run")
        assert run is not None and (run.status, run.cancel_requested_ms, run.lease_owner) == ("failed", None, None)


@pytest.mark.anyio
async def test_asking_a_run_to_end(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.ledger.begin("run", **FACTS)
        await host.ledger.cancel("run")
        host.clock.now += 5
        await host.ledger.cancel("run")
        run = await host.ledger.find("run")
        assert run is not None and run.cancel_requested_ms == START and run.over
        with refused("approval_run_conflict"):
            await host.ledger.cancel("other")


@pytest.mark.anyio
async def test_one_invocation_at_a_time(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.ledger.begin("run", **FACTS)
        lease = await host.ledger.acquire("run", "worker")
        with refused("approval_invocation_unsettled"):
            await host.ledger.settle_invocation(lease, "i")
        await host.ledger.begin_invocation(lease, "i")
        await host.ledger.begin_invocation(lease, "i")
        for operation in (host.ledger.begin_invocation(lease, "j"), host.ledger.settle_invocation(lease, "j")):
            with refused("approval_invocation_unsettled"):
                await operation
        await host.ledger.settle_invocation(lease, "i")
        run = await host.ledger.find("run")
        assert run is not None and run.settled("i")


@pytest.mark.anyio
@pytest.mark.parametrize("ttl", [0, -1, True, 1.5])
async def test_a_lease_lasts_some_whole_time(tmp_path: Path, ttl: Any) -> None:
    async with host_at(tmp_path) as host:
        await host.ledger.begin("run", **FACTS)
        with pytest.raises(InvalidValueError):
            await host.ledger.acquire("run", "worker", ttl_ms=ttl)
        with pytest.raises(InvalidValueError):
            await host.ledger.acquire("run", " ")
        with pytest.raises(InvalidValueError):
            await host.ledger.renew(RunLease("run", "worker", 1), ttl_ms=ttl)
        run = await host.ledger.find("run")
        assert run is not None and released(run) == run
