"""Any course of events at the gate, beside a model of it: one approval, a clock by hand, hosts that come and go.

What must hold at each moment: the status is the model's; there is at most one write that was not proved unmade;
terminal is terminal; what is unknown stays so until somebody says more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.strategies import integers, sampled_from

from mcpl_core.approvals import (
    ApprovalError,
    ApprovalRecord,
    ApprovalRequired,
    Outcome,
    RunLease,
    SqliteApprovalStore,
    reconcile,
)
from mcpl_core.approvals.statuses import following
from mcpl_core.catalog.peers.base import PeerResult
from tests.approvals.world import (
    LIFE,
    START,
    SUCCESS,
    TOOL,
    HandClock,
    Host,
    Server,
    checkpoint,
    failing,
    registration,
)

ANSWERS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "success": (lambda params: PeerResult(SUCCESS), "committed"),
    "error": (failing("mcp_protocol_error"), "unknown"),
    "unsent": (failing("mcp_connection_closed", submitted=False), "not_started"),
}


class Gate(RuleBasedStateMachine):
    """The gate, and beside it what it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.portal = anyio.from_thread.start_blocking_portal("asyncio")
        self.call = self.portal.__enter__().call
        self.clock = HandClock()
        self.server = Server()
        self.status: str | None = None
        self.claimed = False
        self.receipt = False
        self.canceled = False
        self.latest = START
        self.writes = 0
        self.proved = 0
        self.revision = 0
        self.keys = 0
        self._open()

    def _open(self) -> None:
        self.store = SqliteApprovalStore(Path(self.folder.name) / "approvals.db")
        self.call(self.store.__aenter__)
        self.call(self.store.activate)
        self.host = Host(self.store, clock=self.clock, server=self.server)

    def teardown(self) -> None:
        self.call(self.store.aclose)
        self.portal.__exit__(None, None, None)
        self.folder.cleanup()

    # What the model knows.

    @property
    def used(self) -> bool:
        return self.claimed or self.receipt

    def _step(self, step: Any) -> bool:
        status = following(self.status, step, used=self.used)  # type: ignore[arg-type]
        if status is None:
            return False
        self.status = status
        return True

    def _time(self) -> None:
        """A host that writes looks at the clock; one that was opened again knows only its own."""
        self.latest = max(self.latest, self.clock.now)
        if self.canceled:
            self._step("cancel")
        elif self.latest >= START + LIFE:
            self._step("expire")

    def _refused(self, work: Callable[..., Any], *args: Any) -> str | None:
        try:
            self.call(work, *args)
        except ApprovalError as exc:
            return exc.code
        return None

    # What can happen.

    @initialize()
    def ask(self) -> None:
        async def work() -> None:
            run, lease = await self.host.ready(deadline_ms=None)
            try:
                await self.host.writes.prepare(run, lease, checkpoint(), expires_at_ms=START + LIFE)
            except ApprovalRequired as signal:
                self.approval_id = signal.approval_id

        self.call(work)
        self.status = "pending"
        self.record: ApprovalRecord = self.call(self.host.gateway.get, self.approval_id)

    @rule(decision=sampled_from(["approve", "reject"]))
    def decide(self, decision: Any) -> None:
        before = self.status
        self.keys += 1
        self._time()
        allowed = self.status == "pending"

        async def work() -> None:
            await self.host.decide(self.record, decision, key=f"key-{self.keys}")

        code = self._refused(work)
        assert (code is None) == allowed, code
        if allowed:
            assert self._step(decision)
        elif before in ("expired", "canceled") or self.status in ("expired", "canceled"):
            assert code == f"approval_{self.status}"
        else:
            assert code == "approval_revision_conflict"

    @rule(answer=sampled_from(sorted(ANSWERS)))
    def dispatch(self, answer: str) -> None:
        self.server.answer, effect = ANSWERS[answer]
        was_receipt, was_claimed = self.receipt, self.claimed
        sent = len(self.server.calls)

        async def work() -> str:
            lease = await self._lease()
            try:
                return (await self.host.dispatch(lease)).effect_state
            finally:
                await self.host.ledger.release(lease)

        try:
            found = self.call(work)
        except ApprovalError as exc:
            found = exc.code
        self.latest = max(self.latest, self.clock.now)
        if was_receipt:
            assert found == "committed"
        elif was_claimed:
            assert found == "approval_claim_conflict"
        else:
            self._time()
            if self.status == "approved":
                assert found == effect
                self.claimed, self.receipt = effect == "unknown", effect == "committed"
                self.writes += effect != "not_started"
                assert len(self.server.calls) == sent + 1
                return
            assert found == f"approval_{self.status}"
        assert len(self.server.calls) == sent

    async def _lease(self) -> RunLease:
        return await self.host.ledger.acquire("run", "worker", ttl_ms=LIFE)

    @rule(known=sampled_from([True, False]))
    def find_out(self, known: bool) -> None:
        async def work() -> None:
            facts: dict[str, Any] = {"result": Outcome("committed")} if known else {"not_executed": True}
            digest = self.record.intent.digest
            await reconcile(self.host.gateway, self.approval_id, intent_digest=digest, principal_id="bob", **facts)

        code = self._refused(work)
        self.latest = max(self.latest, self.clock.now)
        assert (code is None) == self.claimed, code
        if self.claimed:
            self.claimed, self.receipt = False, known
            self.proved += not known

    @rule(by=integers(-2 * LIFE, LIFE // 2))
    def time_passes(self, by: int) -> None:
        self.clock.now = max(START, self.clock.now + by)

    @precondition(lambda self: not self.canceled)
    @rule()
    def cancel(self) -> None:
        self.call(self.host.ledger.cancel, "run")
        self.latest = max(self.latest, self.clock.now)
        self.canceled = True

    @rule()
    def sweep(self) -> None:
        self.call(self.host.gateway.expire)
        self._time()

    @rule()
    def start_again(self) -> None:
        """A host that is closed knows afterwards only what was kept: a time that no transaction saw is gone."""
        self.call(self.host.gateway.expire)
        self._time()
        self.call(self.store.aclose)
        self.latest = self.clock.now
        self._open()

    @rule()
    def discover_again(self) -> None:
        self.host.registrations[TOOL] = registration(self.server)

    # What must hold.

    @invariant()
    def the_model_is_right(self) -> None:
        if self.status is None:
            return
        record: ApprovalRecord = self.call(self.host.gateway.get, self.approval_id)
        assert record.status == self.status
        assert record.revision >= self.revision
        self.revision = record.revision
        record_final = record.status in ("rejected", "expired", "canceled")
        assert not (record_final and self.used)

    @invariant()
    def at_most_one_write(self) -> None:
        assert self.writes <= 1 + self.proved


TestGate = Gate.TestCase
TestGate.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
