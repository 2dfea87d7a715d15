"""What the tests of approvals share: a clock by hand, a server that is a function, and a host in any state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.approvals import (
    ApprovalCode,
    ApprovalError,
    ApprovalGateway,
    ApprovalRecord,
    ApprovalRequired,
    ApprovalStore,
    Checkpoint,
    DecisionCommand,
    DecisionReceipt,
    DurableWrites,
    Idempotency,
    Outcome,
    Run,
    RunLease,
    RunLedger,
    SqliteApprovalStore,
    SteadyClock,
    ToolCall,
    approval_id_of,
)
from mcpl_core.approvals.records import Verdict
from mcpl_core.approvals.steps import Step
from mcpl_core.catalog import ApprovalBinding, CallContext, CatalogLimits, CatalogMonitor, Lease, WriteRegistration
from mcpl_core.catalog.calls import BoundTool
from mcpl_core.catalog.peers.base import PeerFailure, PeerMethod, PeerReply, PeerResult
from mcpl_core.catalog.profile import compile_schema

#: Seconds after which a test has failed.
LIMIT = 30.0
#: When every test begins, in milliseconds since the epoch.
START = 1_700_000_000_000
LIFE = 60_000
TOOL = "store_value"
ARGUMENTS: dict[str, Any] = {"value": "x", "count": 1}
SUCCESS: dict[str, Any] = {"content": [{"type": "text", "text": "stored"}]}
SCHEMA = {
    "type": "object",
    "properties": {"value": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["value"],
    "additionalProperties": False,
}


class HandClock:
    """A clock that is set by hand."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@dataclass
class Server:
    """A peer whose answer is what ``answer`` makes, and which counts what it is asked."""

    answer: Callable[[dict[str, Any]], PeerReply] = lambda params: PeerResult(SUCCESS)
    calls: list[dict[str, Any]] = field(default_factory=list)
    hangs: bool = False
    until: anyio.Event | None = None
    entered: anyio.Event = field(default_factory=anyio.Event)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return {"tools": {}}

    @property
    def may_repeat(self) -> bool:
        return False

    def watch(self, monitor: CatalogMonitor) -> Callable[[], None]:
        return lambda: None

    async def request(self, method: PeerMethod, params: dict[str, Any]) -> PeerReply:
        assert method == "tools/call"
        self.calls.append(params)
        self.entered.set()
        if self.until is not None:
            await self.until.wait()
        if self.hangs:
            await anyio.sleep_forever()
        return self.answer(params)


def failing(code: Any, *, submitted: bool = True) -> Callable[[dict[str, Any]], PeerReply]:
    return lambda params: PeerFailure(code, submitted)


BINDING = ApprovalBinding(
    binding_id="values",
    binding_revision="c" * 64,
    scope_id="tenant",
    scope_revision="1",
    effect="write",
)


def registration(
    server: Server,
    *,
    binding: ApprovalBinding = BINDING,
    monitor: CatalogMonitor | None = None,
    scope: Callable[[CallContext, dict[str, Any]], object] = lambda context, arguments: True,
    timer: Callable[[float], anyio.CancelScope] = anyio.move_on_after,
) -> WriteRegistration:
    if monitor is None:
        monitor = CatalogMonitor()
        monitor.accept_version("2025-11-25")
    tool = BoundTool(
        peer=server,
        remote_name="store",
        lease=Lease(monitor),
        input=compile_schema(SCHEMA),
        output=None,
        scope=scope,
        limits=CatalogLimits(),
        timer=timer,
    )
    return WriteRegistration(
        server_id="values",
        remote_name="store",
        local_name=TOOL,
        title="Store a value",
        description="",
        catalog_digest=binding.binding_revision,
        _tool=tool,
        approval_binding=binding,
        host_binding_revision="1",
    )


class Host:
    """A host over one store. Its parts can be exchanged at any time, as those of a host that starts again are."""

    def __init__(
        self,
        store: ApprovalStore,
        *,
        clock: HandClock | None = None,
        server: Server | None = None,
        authorize: Callable[..., object] = lambda principal, record, command: True,
        **parts: Any,
    ) -> None:
        self.store = store
        self.clock = clock or HandClock()
        self.server = server or Server()
        self.registrations: dict[str, WriteRegistration] = {TOOL: registration(self.server)}
        self.steps: list[Step] = []
        self.on_step: Callable[[Step], object] = lambda step: None
        steady = SteadyClock(self.clock)
        self.gateway = ApprovalGateway(store, authorize=authorize, clock=steady, on_step=self._told, **parts)
        self.ledger = RunLedger(store, steady)
        self.idempotency = Idempotency(store, steady, ttl_ms=1_000)
        self.writes = DurableWrites(
            approvals=self.gateway, idempotency=self.idempotency, checkpointed={TOOL}, find=self.registrations.get
        )

    def _told(self, step: Step) -> None:
        self.steps.append(step)
        self.on_step(step)

    async def ready(self, run_id: str = "run", **facts: Any) -> tuple[Run, RunLease]:
        """A run whose model asked for tools, and the worker that holds it."""
        facts = {"principal_id": "alice", "preset_fingerprint": "preset"} | facts
        run = await self.ledger.begin(run_id, **facts)
        lease = await self.ledger.acquire(run_id, "worker", ttl_ms=10 * LIFE)
        await self.ledger.begin_invocation(lease, "invocation")
        await self.ledger.settle_invocation(lease, "invocation")
        return run, lease

    async def propose(
        self, run: Run, lease: RunLease, call: ToolCall | None = None, *, life: int = LIFE
    ) -> ApprovalRecord:
        """The record of a call after the run was suspended for it."""
        wanted = call or tool_call()
        try:
            await self.writes.prepare(run, lease, checkpoint(wanted, run.run_id), expires_at_ms=self.clock.now + life)
        except ApprovalRequired as signal:
            return await self.gateway.get(signal.approval_id)
        raise AssertionError("it was decided before")

    async def decide(
        self, record: ApprovalRecord, decision: Verdict = "approve", *, principal: str = "bob", key: str = "key"
    ) -> DecisionReceipt:
        return await self.gateway.decide(command(record, decision, key=key), principal_id=principal)

    async def approved(
        self, run_id: str = "run", call: ToolCall | None = None, **facts: Any
    ) -> tuple[RunLease, ApprovalRecord]:
        """An approved call, and a worker that took the run up again."""
        run, lease = await self.ready(run_id, **facts)
        record = await self.propose(run, lease, call)
        await self.decide(record)
        return await self.ledger.acquire(run_id, "second", ttl_ms=10 * LIFE), record

    async def dispatch(self, lease: RunLease, call: ToolCall | None = None) -> Outcome:
        return await self.writes.dispatch(lease, call or tool_call())

    async def kinds(self, record: ApprovalRecord) -> list[str]:
        return [event.kind for event in await self.gateway.events(record.approval_id)]

    async def claimed(self, record: ApprovalRecord) -> bool:
        return await self.store.read(lambda tx: tx.claim_of(record.approval_id)) is not None

    async def receipted(self, record: ApprovalRecord) -> bool:
        return await self.store.read(lambda tx: tx.receipt_of(record.approval_id)) is not None

    def rebind(self, **changes: Any) -> None:
        """The host discovered again, and something differs."""
        self.registrations[TOOL] = registration(self.server, binding=replace(BINDING, **changes))


def tool_call(**changes: Any) -> ToolCall:
    return ToolCall(**({"call_id": "call", "tool_name": TOOL, "arguments": ARGUMENTS} | changes))


def checkpoint(call: ToolCall | None = None, run_id: str = "run", **changes: Any) -> Checkpoint:
    return Checkpoint(**({"run_id": run_id, "invocation_id": "invocation", "calls": (call or tool_call(),)} | changes))


def command(record: ApprovalRecord, decision: Verdict = "approve", *, key: str = "key") -> DecisionCommand:
    return record.command(decision, key)


APPROVAL_ID = approval_id_of("run", "call")


@asynccontextmanager
async def host_at(folder: Path, **parts: Any) -> AsyncIterator[Host]:
    """A host over an SQLite file in ``folder``; the same one each time."""
    with anyio.fail_after(LIMIT):
        async with SqliteApprovalStore(folder / "approvals.db") as store:
            await store.activate()
            yield Host(store, **parts)


@contextmanager
def refused(code: ApprovalCode) -> Iterator[None]:
    """The block is refused with ``code``."""
    with pytest.raises(ApprovalError) as caught:
        yield
    assert caught.value.code == code
