"""Using an approval: at most one request, and what is recorded of it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.approvals import ApprovalStorageError, ClaimKey, Outcome, RunLease, Transaction, reconcile
from mcpl_core.catalog import CallContext, CatalogMonitor, GateRequiredError
from mcpl_core.catalog.peers.base import PeerResult
from mcpl_core.catalog.profile import compile_schema
from tests.approvals.databases import sqlite_database
from tests.approvals.world import (
    APPROVAL_ID,
    ARGUMENTS,
    LIFE,
    START,
    SUCCESS,
    TOOL,
    HandClock,
    Host,
    Server,
    checkpoint,
    failing,
    host_at,
    refused,
    registration,
    tool_call,
)

DONE = Outcome("committed", {"text": ["stored"], "structured": None})


@pytest.mark.anyio
async def test_an_approved_call_is_made_once(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        assert await host.dispatch(lease) == DONE
        assert host.server.calls == [{"name": "store", "arguments": ARGUMENTS}]
        assert await host.dispatch(lease) == DONE
        assert len(host.server.calls) == 1
        receipt = await host.store.read(lambda tx: tx.receipt_of(APPROVAL_ID))
        assert receipt is not None and receipt.claim.association is not None
        assert receipt.claim.association.intent_digest == record.intent.digest
        assert (receipt.source, receipt.expires_at_ms) == ("answer", None)
        assert await host.kinds(record) == ["proposed", "approved", "executed", "returned"]
        assert not await host.claimed(record)


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-6")
async def test_a_receipt_outlives_everything(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        await host.dispatch(lease)
    async with host_at(tmp_path) as host:
        await host.ledger.cancel("run")
        host.clock.now = START + LIFE * 3
        lease = await host.ledger.acquire("run", "third", ttl_ms=LIFE * 20) if await _idle(host) else lease
        assert await host.dispatch(lease) == DONE
        assert host.server.calls == []
        assert (await host.gateway.refresh(APPROVAL_ID)).status == "approved"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "change", [{"intent_digest": "other"}, {"approval_revision": 9}, None], ids=["digest", "revision", "none"]
)
async def test_a_receipt_of_something_else_answers_nothing(tmp_path: Path, change: dict[str, Any] | None) -> None:
    async with host_at(tmp_path) as host:
        lease, _ = await host.approved()
        await host.dispatch(lease)

        def swap(tx: Transaction) -> None:
            receipt = tx.receipt_of(APPROVAL_ID)
            assert receipt is not None and receipt.claim.association is not None
            other = replace(receipt.claim.association, **(change or {}))
            tx.save_receipt(replace(receipt, claim=replace(receipt.claim, association=other)))

        await host.store.write(swap)
        if change is None:
            assert await host.dispatch(lease) == DONE
        else:
            with refused("approval_claim_conflict"):
                await host.dispatch(lease)
        assert len(host.server.calls) == 1


async def _idle(host: Host) -> bool:
    run = await host.ledger.find("run")
    return run is not None and run.idle(host.clock.now)


# Checks before the claim


async def _lost(host: Host, lease: RunLease) -> RunLease:
    return replace(lease, epoch=lease.epoch + 1)


async def _expired_lease(host: Host, lease: RunLease) -> RunLease:
    host.clock.now += LIFE * 10
    return lease


async def _expired(host: Host, lease: RunLease) -> RunLease:
    host.clock.now += LIFE
    return lease


async def _canceled(host: Host, lease: RunLease) -> RunLease:
    await host.ledger.cancel("run")
    return lease


async def _reconfigured(host: Host, lease: RunLease) -> RunLease:
    run = await host.ledger.find("run")
    assert run is not None
    await host.store.write(lambda tx: tx.save_run(replace(run, preset_fingerprint="other")))
    return lease


async def _thinking(host: Host, lease: RunLease) -> RunLease:
    await host.ledger.begin_invocation(lease, "next")
    return lease


async def _moved_on(host: Host, lease: RunLease) -> RunLease:
    await host.store.write(lambda tx: tx.save_checkpoint(checkpoint(tool_call(call_id="later"))))
    return lease


async def _rebound(host: Host, lease: RunLease) -> RunLease:
    host.rebind(scope_revision="2")
    return lease


async def _renamed(host: Host, lease: RunLease) -> RunLease:
    host.registrations[TOOL] = replace(host.registrations[TOOL], local_name="other")
    return lease


async def _unbound(host: Host, lease: RunLease) -> RunLease:
    del host.registrations[TOOL]
    return lease


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("agent_run_lease_lost", _lost),
        ("agent_run_lease_lost", _expired_lease),
        ("approval_expired", _expired),
        ("approval_canceled", _canceled),
        ("approval_configuration_mismatch", _reconfigured),
        ("approval_invocation_unsettled", _thinking),
        ("approval_checkpoint_conflict", _moved_on),
        ("approval_intent_conflict", _rebound),
        ("approval_intent_conflict", _unbound),
        ("approval_intent_conflict", _renamed),
    ],
)
async def test_each_check_of_a_dispatch(tmp_path: Path, code: Any, change: Callable[..., Any]) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        lease = await change(host, lease)
        with refused(code):
            await host.dispatch(lease)
        assert host.server.calls == []
        assert not await host.claimed(record)


@pytest.mark.anyio
@pytest.mark.parametrize("decision", [None, "reject"])
async def test_without_an_approval(tmp_path: Path, decision: Any) -> None:
    async with host_at(tmp_path) as host:
        run, lease = await host.ready()
        with refused("approval_not_found"):
            await host.dispatch(lease)
        record = await host.propose(run, lease)
        if decision:
            await host.decide(record, decision)
        lease = await host.ledger.acquire("run", "second")
        with refused("approval_rejected" if decision else "approval_pending"):
            await host.dispatch(lease)
        assert host.server.calls == []


@pytest.mark.anyio
async def test_a_root_that_was_canceled_or_ran_out(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        for root, code in (("a", "approval_canceled"), ("b", "approval_expired")):
            deadline = START + LIFE // 2 if root == "b" else None
            await host.ledger.begin(root, principal_id="alice", preset_fingerprint="p", deadline_ms=deadline)
            lease, _ = await host.approved(f"child-{root}", root_run_id=root)
            if root == "a":
                await host.ledger.cancel(root)
            else:
                host.clock.now = START + LIFE // 2
            with refused(code):  # type: ignore[arg-type]
                await host.dispatch(lease)
        assert host.server.calls == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    "call",
    [
        tool_call(arguments={"value": "everything"}),
        tool_call(arguments=ARGUMENTS | {"count": 2}),
        tool_call(arguments={"value": "x"}),
        tool_call(idempotency_key="other"),
    ],
)
async def test_edited_arguments(tmp_path: Path, call: Any) -> None:
    async with host_at(tmp_path) as host:
        lease, _ = await host.approved()
        with refused("approval_checkpoint_conflict"):
            await host.dispatch(lease, call)
        # Also when the checkpoint was edited along with the call.
        await host.store.write(lambda tx: tx.save_checkpoint(checkpoint(call)))
        if call.idempotency_key is None:
            with refused("approval_checkpoint_conflict"):
                await host.dispatch(lease, call)
        assert host.server.calls == []


@pytest.mark.anyio
async def test_an_approval_of_another_call_does_not_help(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.approved("harmless")
        run, lease = await host.ready("harmful")
        await host.propose(run, lease, tool_call(arguments={"value": "everything"}))
        lease = await host.ledger.acquire("harmful", "third")
        with refused("approval_pending"):
            await host.dispatch(lease, tool_call(arguments={"value": "everything"}))
        # The lease of the run that has an approval is no lease of this one.
        with refused("agent_run_lease_lost"):
            await host.dispatch(replace(lease, run_id="harmless"), tool_call())
        assert host.server.calls == []


@pytest.mark.anyio
@pytest.mark.parametrize("member", ["binding_id", "binding_revision", "scope_id", "scope_revision", "effect"])
@pytest.mark.spec("R-approvals-1")
async def test_whatever_changes_in_the_authority_makes_the_approval_void(tmp_path: Path, member: str) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        host.rebind(**{member: "destructive" if member == "effect" else "other"})
        with refused("approval_intent_conflict"):
            await host.dispatch(lease)
        assert host.server.calls == [] and not await host.claimed(record)


@pytest.mark.anyio
async def test_the_registration_is_compared_again_right_before_the_request(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()

        def rotate(step: str) -> None:
            if step == "dispatch.claimed":
                host.rebind(scope_revision="2")

        host.on_step = rotate
        with refused("approval_intent_conflict"):
            await host.dispatch(lease)
        assert host.server.calls == []
        assert not await host.claimed(record)
        assert (await host.kinds(record))[-2:] == ["executed", "released"]


# Known: nothing was sent


def _stale() -> CatalogMonitor:
    monitor = CatalogMonitor()
    monitor.accept_version("2025-11-25")
    return monitor


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("mcp_scope_denied", "scope"),
        ("mcp_catalog_stale", "stale"),
        ("mcp_connection_closed", "closed"),
        ("mcp_invalid_arguments", "schema"),
        ("mcp_connection_closed", "unsent"),
    ],
)
@pytest.mark.spec("R-approvals-5")
async def test_a_rejection_before_sending_frees_the_approval(tmp_path: Path, code: Any, how: str) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        monitor = _stale()
        good = host.registrations[TOOL]
        host.registrations[TOOL] = registration(
            host.server, monitor=monitor, scope=(lambda c, a: False) if how == "scope" else (lambda c, a: True)
        )
        if how == "stale":
            monitor.list_changed()
        elif how == "closed":
            monitor.close()
        elif how == "unsent":
            host.server.answer = failing(code, submitted=False)
        elif how == "schema":
            tight = replace(good._tool, input=compile_schema({"type": "object", "additionalProperties": False}))
            host.registrations[TOOL] = replace(good, _tool=tight)
        outcome = await host.dispatch(lease)
        assert outcome == Outcome("not_started", {"text": [], "structured": None}, code)
        assert not await host.claimed(record) and not await host.receipted(record)
        sent = len(host.server.calls)
        assert sent == (how == "unsent")
        host.registrations[TOOL] = good
        host.server.answer = lambda params: PeerResult(SUCCESS)
        assert await host.dispatch(lease) == DONE
        assert len(host.server.calls) == sent + 1
        assert await host.kinds(record) == ["proposed", "approved", "executed", "released", "executed", "returned"]


@pytest.mark.anyio
async def test_a_scope_that_was_revoked_after_the_approval(tmp_path: Path) -> None:
    allowed = [True]
    seen: list[CallContext] = []

    def scope(context: CallContext, arguments: dict[str, Any]) -> bool:
        seen.append(context)
        arguments["value"] = "changed by the check"
        return allowed[0]

    async with host_at(tmp_path) as host:
        host.registrations[TOOL] = registration(host.server, scope=scope)
        lease, _ = await host.approved()
        allowed[0] = False
        assert (await host.dispatch(lease)).error_code == "mcp_scope_denied"
        assert host.server.calls == []
        allowed[0] = True
        await host.writes.dispatch(lease, tool_call(), agent_id="agent")
        assert host.server.calls == [{"name": "store", "arguments": ARGUMENTS}]
        context = seen[-1]
        assert (context.principal, context.run_id, context.root_run_id, context.agent_id) == (
            "alice",
            "run",
            "run",
            "agent",
        )
        assert (context.lease_owner, context.lease_epoch) == ("second", lease.epoch)


# Not known


def _changes_list(host: Host, monitor: CatalogMonitor) -> Callable[[dict[str, Any]], PeerResult]:
    def answer(params: dict[str, Any]) -> PeerResult:
        monitor.list_changed()
        return PeerResult(SUCCESS)

    return answer


UNKNOWN: dict[str, tuple[str, Any]] = {
    "an error": ("mcp_protocol_error", failing("mcp_protocol_error")),
    "the connection is gone": ("mcp_connection_closed", failing("mcp_connection_closed")),
    "the carrier failed": ("mcp_transport_error", failing("mcp_transport_error")),
    "the peer's own timeout": ("mcp_timeout", failing("mcp_timeout")),
    "isError": ("mcp_tool_error", lambda params: PeerResult({"content": [], "isError": True})),
    "invalid": ("mcp_result_invalid", lambda params: PeerResult({"content": 7})),
    "unsupported": ("mcp_result_unsupported", lambda params: PeerResult({"content": [{"type": "image"}]})),
    "too large": (
        "mcp_result_too_large",
        lambda params: PeerResult({"content": [{"type": "text", "text": "x" * 70_000}]}),
    ),
    "the list changed": ("mcp_catalog_stale", None),
}


@pytest.mark.anyio
@pytest.mark.parametrize("how", UNKNOWN)
@pytest.mark.spec("R-approvals-5")
async def test_what_proves_nothing_leaves_the_claim(tmp_path: Path, how: str) -> None:
    code, answer = UNKNOWN[how]
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        monitor = _stale()
        host.registrations[TOOL] = registration(host.server, monitor=monitor)
        host.server.answer = answer or _changes_list(host, monitor)
        outcome = await host.dispatch(lease)
        assert (outcome.effect_state, outcome.error_code) == ("unknown", code)
        assert outcome.result == {"text": [], "structured": None}
        claim = await host.store.read(lambda tx: tx.claim_of(APPROVAL_ID))
        assert claim is not None and claim.error_code == code
        assert not await host.receipted(record)
        assert (await host.kinds(record))[-1] == "unknown"
    async with host_at(tmp_path) as host:
        with refused("approval_claim_conflict"):
            await host.dispatch(lease)
        assert host.server.calls == []
        host.clock.now += LIFE * 2
        assert (await host.gateway.refresh(APPROVAL_ID)).status == "approved"


@pytest.mark.anyio
async def test_no_answer_in_time(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        host.server.hangs = True
        host.registrations[TOOL] = registration(host.server, timer=lambda seconds: anyio.move_on_after(0))
        outcome = await host.dispatch(lease)
        assert (outcome.effect_state, outcome.error_code) == ("unknown", "mcp_timeout")
        assert await host.claimed(record)


@pytest.mark.anyio
async def test_a_caller_that_is_cancelled_after_sending(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        host.server.hangs = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.dispatch, lease)
            await host.server.entered.wait()
            tasks.cancel_scope.cancel()
        claim = await host.store.read(lambda tx: tx.claim_of(APPROVAL_ID))
        assert claim is not None and claim.error_code == "mcp_canceled"
        assert (await host.kinds(record))[-1] == "unknown"
        with refused("approval_claim_conflict"):
            await host.dispatch(lease)
        assert len(host.server.calls) == 1


@pytest.mark.anyio
async def test_a_caller_that_is_cancelled_before_sending(tmp_path: Path) -> None:
    asked, never = anyio.Event(), anyio.Event()

    async def scope(context: CallContext, arguments: dict[str, Any]) -> bool:
        asked.set()
        await never.wait()
        return True

    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        host.registrations[TOOL] = registration(host.server, scope=scope)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.dispatch, lease)
            await asked.wait()
            tasks.cancel_scope.cancel()
        assert host.server.calls == []
        assert not await host.claimed(record)
        assert (await host.kinds(record))[-1] == "released"


class Cutting:
    """A store that cancels whoever asks it, at one of its transactions."""

    def __init__(self, store: Any, cut: Callable[[int], None]) -> None:
        self._store = store
        self._cut = cut
        self.moments = 0

    async def _do(self, operation: Any, work: Any) -> Any:
        self._tell()
        found = await operation(work)
        self._tell()
        return found

    def _tell(self) -> None:
        self.moments += 1
        self._cut(self.moments)

    async def write(self, work: Any) -> Any:
        return await self._do(self._store.write, work)

    async def read(self, work: Any) -> Any:
        return await self._do(self._store.read, work)


@pytest.mark.anyio
@pytest.mark.parametrize("natively", [False, True])
@pytest.mark.parametrize("moment", range(1, 7))
async def test_a_caller_that_is_cancelled_at_any_transaction(
    tmp_path: Path, moment: int, natively: bool, anyio_backend: Any
) -> None:
    """Before and after the claim, the last look and the outcome. Whatever happened, it happened once, and is known."""
    if natively and "trio" in str(anyio_backend):
        pytest.skip("a cancellation of asyncio's own")
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        scope = anyio.CancelScope()
        task: list[asyncio.Task[Outcome]] = []

        def cut(now: int) -> None:
            if now == moment:
                task[0].cancel() if natively else scope.cancel()

        cutting = Cutting(host.store, cut)
        other = Host(cutting, server=host.server)  # type: ignore[arg-type]
        if natively:
            task.append(asyncio.create_task(other.dispatch(lease)))
            with pytest.raises(asyncio.CancelledError):
                await task[0]
        else:
            with scope:
                await other.dispatch(lease)
        sent = len(host.server.calls)
        assert await host.dispatch(lease) == DONE
        assert len(host.server.calls) == 1
        assert await host.receipted(record) is True
        assert sent == (moment > (3 if natively else 4))


@pytest.mark.anyio
@pytest.mark.parametrize("again", [True, False])
@pytest.mark.spec("R-approvals-5")
async def test_a_store_that_fails_after_the_claim_was_committed(tmp_path: Path, again: bool) -> None:
    """Whether the claim is there is not known then; that nothing was sent is."""

    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        lost = {1: "after"} if again else {1: "after", 2: "before"}
        losing = Host(Losing(host.store, lost), server=host.server)  # type: ignore[arg-type]
        with pytest.raises(ApprovalStorageError):
            await losing.dispatch(lease)
        assert await host.claimed(record) is not again
        if again:
            assert await host.dispatch(lease) == DONE
            assert (await host.kinds(record))[-4:] == ["executed", "released", "executed", "returned"]
        assert len(host.server.calls) == again


class Losing(Cutting):
    """A store whose connection is lost at some of its transactions, before or after they were committed."""

    def __init__(self, store: Any, lost: dict[int, str]) -> None:
        super().__init__(store, lambda moment: None)
        self._lost = lost

    async def _do(self, operation: Any, work: Any) -> Any:
        self.moments += 1
        when = self._lost.get(self.moments)
        if when == "before":
            raise ApprovalStorageError("on purpose")
        found = await operation(work)
        if when == "after":
            raise ApprovalStorageError("on purpose")
        return found


@pytest.mark.anyio
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("outcome", ["committed", "unknown", "not_started"])
async def test_a_connection_that_was_lost_while_the_call_took_its_time(tmp_path: Path, when: str, outcome: str) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        if outcome != "committed":
            host.server.answer = failing("mcp_connection_closed", submitted=outcome == "unknown")
        losing = Host(Losing(host.store, {3: when}), server=host.server)  # type: ignore[arg-type]
        losing.registrations = host.registrations
        assert (await losing.dispatch(lease)).effect_state == outcome
        assert await host.receipted(record) is (outcome == "committed")
        assert await host.claimed(record) is (outcome == "unknown")
        if outcome == "committed":
            assert (await host.kinds(record))[-2:] == ["executed", "returned"]
        assert len(host.server.calls) == 1


@pytest.mark.anyio
async def test_a_store_that_stays_away_keeps_the_claim(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        losing = Host(Losing(host.store, {3: "before", 4: "before"}), server=host.server)  # type: ignore[arg-type]
        with pytest.raises(ApprovalStorageError):
            await losing.dispatch(lease)
        assert await host.claimed(record) and len(host.server.calls) == 1


@pytest.mark.anyio
async def test_only_its_own_claim_is_taken_back(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host, anyio.create_task_group() as tasks:
        lease, record = await host.approved()
        host.server.until = anyio.Event()
        tasks.start_soon(host.dispatch, lease)
        await host.server.entered.wait()
        losing = Host(Losing(host.store, {1: "before"}), server=host.server)  # type: ignore[arg-type]
        with pytest.raises(ApprovalStorageError):
            await losing.dispatch(lease)
        assert await host.claimed(record)
        host.server.until.set()


# The same call from two sides


@pytest.mark.anyio
async def test_one_of_many_that_dispatch_at_once(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, _ = await host.approved()
        codes: list[str] = []

        async def go() -> None:
            try:
                codes.append((await host.dispatch(lease)).effect_state)
            except Exception as exc:
                codes.append(exc.code)  # type: ignore[attr-defined]

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(go)
        assert len(host.server.calls) == 1
        assert codes.count("committed") >= 1
        assert set(codes) <= {"committed", "approval_claim_conflict"}


@pytest.mark.anyio
@pytest.mark.parametrize("settled", ["released", "done", "claimed again"])
@pytest.mark.parametrize("late", ["committed", "not_started", "unknown"])
@pytest.mark.spec("R-approvals-7")
async def test_an_answer_that_comes_when_somebody_has_settled_it(tmp_path: Path, settled: str, late: str) -> None:
    """The lease ran out while the server was silent, and an operator said what became of the call."""
    answers: dict[str, Any] = {
        "committed": lambda params: PeerResult(SUCCESS),
        "not_started": failing("mcp_connection_closed", submitted=False),
        "unknown": failing("mcp_timeout"),
    }
    go_on = anyio.Event()
    async with host_at(tmp_path) as host, anyio.create_task_group() as tasks:
        lease, record = await host.approved()
        host.server.answer = answers[late]
        host.server.until = go_on
        done = anyio.Event()

        async def first() -> None:
            await host.dispatch(lease)
            done.set()

        tasks.start_soon(first)
        await host.server.entered.wait()
        other = Host(host.store, clock=host.clock, server=Server(failing("mcp_timeout")))
        run = await host.ledger.find("run")
        assert run is not None
        await host.store.write(lambda tx: tx.save_run(replace(run, lease_owner=None, lease_expires_ms=None)))
        await reconcile(
            host.gateway,
            APPROVAL_ID,
            intent_digest=record.intent.digest,
            principal_id="bob",
            **({"result": Outcome("committed", "found")} if settled == "done" else {"not_executed": True}),
        )
        if settled == "claimed again":
            again = await other.ledger.acquire("run", "third")
            assert (await other.dispatch(again)).effect_state == "unknown"
        before = await host.store.read(lambda tx: tx.claim_of(APPROVAL_ID))
        go_on.set()
        await done.wait()
        # Nothing of the later claim is touched, and what was found stays; only a success that nobody knew of is kept.
        assert await host.store.read(lambda tx: tx.claim_of(APPROVAL_ID)) == before
        receipt = await host.store.read(lambda tx: tx.receipt_of(APPROVAL_ID))
        if settled == "done":
            assert receipt is not None and receipt.outcome.result == "found"
        else:
            assert (receipt is not None) == (settled == "released" and late == "committed")
        assert len(await host.kinds(record)) == (7 if settled == "claimed again" else 5)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("change", "again"),
    [
        ("approval_claim_conflict", "committed"),
        ("approval_claim_conflict", "unknown"),
        ("agent_run_lease_lost", None),
        ("approval_canceled", None),
        ("approval_expired", None),
        ("approval_configuration_mismatch", None),
    ],
)
@pytest.mark.spec("R-approvals-13")
async def test_what_changed_while_the_scope_was_asked(tmp_path: Path, change: Any, again: str | None) -> None:
    """A scope check may wait for anybody; meanwhile an operator may have proved that the call was not made."""
    asked, go_on = anyio.Event(), anyio.Event()

    async def scope(context: CallContext, arguments: dict[str, Any]) -> bool:
        asked.set()
        await go_on.wait()
        return True

    async with host_at(tmp_path) as host, anyio.create_task_group() as tasks:
        lease, record = await host.approved()
        good = host.registrations[TOOL]
        host.registrations[TOOL] = registration(host.server, scope=scope)

        async def first() -> None:
            with refused(change):
                await host.dispatch(lease)

        tasks.start_soon(first)
        await asked.wait()
        requests = 0
        if change == "approval_claim_conflict":
            later = Host(host.store, clock=HandClock(START + LIFE * 11), server=host.server)
            await reconcile(
                later.gateway,
                APPROVAL_ID,
                intent_digest=record.intent.digest,
                principal_id="bob",
                not_executed=True,
            )
            host.registrations[TOOL] = good
            # The same worker again, under the same lease: also that is another claim.
            if again == "unknown":
                host.server.answer = failing("mcp_timeout")
            assert (await host.dispatch(lease)).effect_state == again
            requests = 1
        elif change == "agent_run_lease_lost":
            host.clock.now += LIFE * 10
        elif change == "approval_expired":
            host.clock.now += LIFE
        elif change == "approval_canceled":
            await _canceled(host, lease)
        else:
            await _reconfigured(host, lease)
        go_on.set()
    assert len(host.server.calls) == requests
    async with host_at(tmp_path) as host:
        assert await host.receipted(record) is (again == "committed")
        assert await host.claimed(record) is (again == "unknown")
        assert (await host.kinds(record))[-1] == ("unknown" if again == "unknown" else "released")


# Idempotency keys


async def _made_by_key(host: Host, answer: str = "made") -> None:
    async def operation() -> Outcome:
        return Outcome("committed", answer)

    await host.idempotency.execute_once(ClaimKey("alice", TOOL, "invoice-7"), ARGUMENTS, operation)


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-8")
async def test_a_key_whose_receipt_is_over_is_used_once_more_and_no_more(tmp_path: Path) -> None:
    keyed = tool_call(idempotency_key="invoice-7")
    async with host_at(tmp_path) as host:
        await _made_by_key(host)
        host.clock.now += 1_000
        lease, record = await host.approved(call=keyed)
        for _ in range(2):
            assert await host.dispatch(lease, keyed) == DONE
        assert len(host.server.calls) == 1
        assert await host.receipted(record)


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-8")
async def test_what_answered_an_approved_call_answers_it_for_good(tmp_path: Path) -> None:
    keyed = tool_call(idempotency_key="invoice-7")
    async with host_at(tmp_path) as host:
        await _made_by_key(host)
        lease, _ = await host.approved(call=keyed)
        for _ in range(2):
            assert (await host.dispatch(lease, keyed)).result == "made"
            host.clock.now += LIFE // 2
            assert await host.idempotency.forget_expired() == 0
        assert host.server.calls == []


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-7", "R-approvals-8")
async def test_a_late_success_beside_the_receipt_of_its_key(tmp_path: Path) -> None:
    """The approved call hung, was said not to be made, and its key was used by another call: one effect too many
    already; the approval must not lead to a third."""
    keyed = tool_call(idempotency_key="invoice-7")
    async with host_at(tmp_path) as host, anyio.create_task_group() as tasks:
        lease, record = await host.approved(call=keyed)
        host.server.until = anyio.Event()
        tasks.start_soon(host.dispatch, lease, keyed)
        await host.server.entered.wait()
        later = Host(host.store, clock=HandClock(START + LIFE * 11))
        await reconcile(
            later.gateway, APPROVAL_ID, intent_digest=record.intent.digest, principal_id="bob", not_executed=True
        )
        await _made_by_key(host)
        host.server.until.set()
    async with host_at(tmp_path) as host:
        host.clock.now += LIFE // 2
        assert (await host.dispatch(lease, keyed)).result == "made"
        assert host.server.calls == []


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-6")
async def test_one_key_has_one_effect_across_runs(tmp_path: Path) -> None:
    keyed = tool_call(idempotency_key="invoice-7")
    async with host_at(tmp_path) as host:
        first, _ = await host.approved("first", keyed)
        second, _ = await host.approved("second", keyed)
        assert await host.dispatch(first, keyed) == DONE
        assert await host.dispatch(second, keyed) == DONE
        assert len(host.server.calls) == 1
        other = tool_call(idempotency_key="invoice-7", arguments={"value": "y"})
        third, _ = await host.approved("third", other)
        with refused("idempotency_key_conflict"):
            await host.dispatch(third, other)
        stranger, _ = await host.approved("fourth", keyed, principal_id="mallory")
        assert await host.dispatch(stranger, keyed) == DONE
        assert len(host.server.calls) == 2


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-6")
async def test_a_key_in_flight(tmp_path: Path) -> None:
    keyed = tool_call(idempotency_key="invoice-7")
    async with host_at(tmp_path) as host:
        first, _ = await host.approved("first", keyed)
        second, _ = await host.approved("second", keyed)
        host.server.answer = failing("mcp_timeout")
        assert (await host.dispatch(first, keyed)).effect_state == "unknown"
        with refused("idempotency_in_flight"):
            await host.dispatch(second, keyed)
        assert len(host.server.calls) == 1


# Ways around the gate


@pytest.mark.anyio
async def test_the_handler_is_no_way_around(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.approved()
        for way in (host.registrations[TOOL], host.registrations[TOOL].call):
            with pytest.raises(GateRequiredError):
                way(ARGUMENTS)
        assert host.server.calls == []


@pytest.mark.anyio
async def test_the_claim_is_on_the_disk_before_anything_is_sent(tmp_path: Path) -> None:
    seen: list[int] = []

    def look(params: dict[str, Any]) -> PeerResult:
        other = sqlite3.connect(tmp_path / "approvals.db")
        seen.append(other.execute("SELECT COUNT(*) FROM mcpl_claims").fetchone()[0])
        other.close()
        return PeerResult(SUCCESS)

    async with host_at(tmp_path) as host:
        lease, _ = await host.approved()
        host.server.answer = look
        await host.dispatch(lease)
        assert seen == [1]
        assert host.steps[-7:] == [
            "dispatch.begun",
            "dispatch.claim_saved",
            "dispatch.claimed",
            "dispatch.permitted",
            "dispatch.answered",
            "dispatch.outcome_saved",
            "dispatch.recorded",
        ]


@pytest.mark.anyio
async def test_nothing_that_a_server_said_is_in_what_is_recorded(tmp_path: Path) -> None:
    canary = "canary-7d1f"
    answers = [
        lambda params: PeerResult({"content": [{"type": "text", "text": canary}], "isError": True}),
        lambda params: PeerResult({"content": [{"type": canary}]}),
    ]
    async with host_at(tmp_path) as host:
        for number, answer in enumerate(answers):
            host.server.answer = answer
            lease, record = await host.approved(f"run-{number}")
            outcome = await host.dispatch(lease)
            events = await host.gateway.events(record.approval_id)
            assert canary not in repr([outcome.to_json(), *[event.to_json() for event in events]])
    assert [name for name in os.listdir(tmp_path) if canary.encode() in _bytes(tmp_path / name)] == []


def _bytes(path: Path) -> bytes:
    return path.read_bytes()


@pytest.mark.anyio
async def test_a_claim_that_is_damaged_while_the_call_is_made(tmp_path: Path) -> None:
    """The call was sent: no refusal may say otherwise, and it is not sent again."""
    database = sqlite_database(tmp_path)
    async with host_at(tmp_path) as host:
        lease, _ = await host.approved()

        def answer(params: dict[str, Any]) -> Any:
            database.execute("UPDATE mcpl_claims SET body = '{'")
            return PeerResult(SUCCESS)

        host.server.answer = answer
        with pytest.raises(ApprovalStorageError):
            await host.dispatch(lease)
        with refused("approval_record_conflict"):
            await host.dispatch(lease)
        assert len(host.server.calls) == 1
