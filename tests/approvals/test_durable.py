"""The wiring of a host: complete or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.approvals import DurableWrites, Idempotency, SqliteApprovalStore, intent_of
from mcpl_core.catalog import CatalogError, CatalogMonitor
from mcpl_core.errors import InvalidValueError
from tests.approvals.world import (
    ARGUMENTS,
    BINDING,
    LIFE,
    START,
    TOOL,
    checkpoint,
    host_at,
    refused,
    registration,
    tool_call,
)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "missing",
    [{"approvals": None}, {"idempotency": None}, {"checkpointed": None}, {"checkpointed": ()}, {"approvals": 1}],
)
async def test_all_three_or_none(tmp_path: Path, missing: dict[str, Any]) -> None:
    async with host_at(tmp_path) as host:
        parts: dict[str, Any] = {"approvals": host.gateway, "idempotency": host.idempotency, "checkpointed": {TOOL}}
        DurableWrites(**parts, find=host.registrations.get)
        with refused("approval_idempotency_unavailable"):
            DurableWrites(**parts | missing, find=host.registrations.get)
        assert host.server.calls == []


@pytest.mark.anyio
async def test_the_receipts_of_another_store(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host, SqliteApprovalStore(tmp_path / "other.db") as other:
        with refused("approval_idempotency_unavailable"):
            DurableWrites(
                approvals=host.gateway,
                idempotency=Idempotency(other, host.gateway.clock),
                checkpointed={TOOL},
                find=host.registrations.get,
            )
        with pytest.raises(InvalidValueError):
            DurableWrites(
                approvals=host.gateway, idempotency=host.idempotency, checkpointed={""}, find=host.registrations.get
            )


@pytest.mark.anyio
@pytest.mark.parametrize("tools", [[TOOL, TOOL], [TOOL, "read"], ["read", "read", TOOL]])
async def test_a_write_is_alone_in_its_batch(tmp_path: Path, tools: Sequence[str]) -> None:
    async with host_at(tmp_path) as host:
        with refused("approval_batch_unsupported"):
            host.writes.admit(tools)
        run, lease = await host.ready()
        calls = tuple(tool_call(call_id=str(number), tool_name=name) for number, name in enumerate(tools))
        with refused("approval_batch_unsupported"):
            await host.writes.prepare(run, lease, checkpoint(calls=calls), expires_at_ms=START + LIFE)
        assert await host.gateway.list() == []


@pytest.mark.anyio
async def test_batches_that_may_be_made(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        for tools in ([TOOL], ["read", "read"], []):
            host.writes.admit(tools)


@pytest.mark.anyio
async def test_a_tool_without_checkpoints_does_not_go_through(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        other = tool_call(tool_name="other")
        with refused("approval_idempotency_unavailable"):
            await host.writes.prepare(run, lease, checkpoint(other), expires_at_ms=START + LIFE)
        with refused("approval_idempotency_unavailable"):
            await host.writes.dispatch(lease, other)
        assert (host.writes.approvals, host.writes.idempotency) == (host.gateway, host.idempotency)


@pytest.mark.anyio
async def test_the_intent_of_a_call(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, _ = await host.ready()
        intent = intent_of(run, tool_call(), host.registrations.get)
        assert intent.arguments == ARGUMENTS
        assert {name: intent.to_json()[name] for name in BINDING.to_json()} == BINDING.to_json()
        assert (intent.run_id, intent.root_run_id, intent.preset_fingerprint) == ("run", "run", "preset")
        with refused("approval_intent_conflict"):
            intent_of(run, tool_call(tool_name="other"), host.registrations.get)
        for arguments in ({}, {"value": 1}, {"value": "x", "more": 1}, {"value": "x", "count": 1.5}):
            with pytest.raises(CatalogError) as caught:
                intent_of(run, tool_call(arguments=arguments), host.registrations.get)
            assert caught.value.code == "mcp_invalid_arguments"


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["mcp_catalog_stale", "mcp_connection_closed"])
async def test_no_intent_under_a_catalog_that_does_not_hold(tmp_path: Path, end: str) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        monitor = CatalogMonitor()
        monitor.accept_version("2025-11-25")
        host.registrations[TOOL] = registration(host.server, monitor=monitor)
        if end == "mcp_catalog_stale":
            monitor.list_changed()
        else:
            monitor.close()
        with pytest.raises(CatalogError) as caught:
            await host.writes.prepare(run, lease, checkpoint(), expires_at_ms=START + LIFE)
        assert caught.value.code == end
        assert await host.gateway.list() == []


@pytest.mark.anyio
async def test_no_intent_under_another_name(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run, _ = await host.ready()
        with refused("approval_intent_conflict"):
            intent_of(run, tool_call(tool_name="other"), lambda name: host.registrations[TOOL])
