"""The gate: asking for an approval, deciding it, and looking at it.

Owns: ``prepare`` (the run is suspended), ``decide``, expiry, and reading. Does not own: using an approval
(``dispatching``), clearing what is unknown (``reconciling``), the checks (``checks``) and the database (``store``).

Every operation is a transaction or two; none is held open while anybody is asked. A refusal that is due to time or to
the run is kept before it is raised: what was over once stays over.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeAlias

from anyio.lowlevel import checkpoint_if_cancelled

from ..errors import InvalidValueError
from .checks import CREATE_CHECKS, DECISION_CHECKS, PREPARE_CHECKS, RESUME_CHECKS, Facts, deadline, first_refusal
from .clock import Clock, SteadyClock
from .damage import DamagedRow, OnDamage, readable
from .diagnosis import Diagnosis, diagnose
from .errors import ApprovalCode, ApprovalError, ApprovalRequired, refuse
from .events import ApprovalEvent, EventKind
from .facts import keep_refreshed, load_facts, load_record, log
from .fields import identity, integer, optional
from .ledger import released
from .listing import each_record, past_damage
from .preview import preview_of
from .records import ApprovalIntent, ApprovalRecord, Decision, DecisionCommand, DecisionReceipt, approval_id_of
from .runs import Checkpoint, RunLease
from .statuses import Status, following
from .steps import StepHook, no_hook
from .store import ApprovalStore, Transaction

__all__ = ("ApprovalGateway", "Authorizer")

#: ``authorize(principal_id, record, command)``, sync or async: whether this principal may decide this. Only the literal
#: ``True`` allows. The principal is the one that the host authenticated, never one that a model or a server names.
Authorizer: TypeAlias = Callable[[str, ApprovalRecord, DecisionCommand], object | Awaitable[object]]

_logger = logging.getLogger("mcpl_core.approvals")


def _warn(row: DamagedRow) -> None:
    _logger.warning("%s is passed by: %s", row.id, row.reason)


class ApprovalGateway:
    """The gate of one store.

    Args:
        store: where approvals are kept; enabled (``activate``).
        authorize: who may decide.
        clock: the host's clock.
        on_step: is told each step (``steps``).
        on_damage: is told each approval that ``list``, ``expire`` or ``diagnose`` passed by, since a row of it or of
            its run cannot be read; left out: it is logged. What is about that approval alone is refused with
            ``approval_record_conflict``.
    """

    def __init__(
        self,
        store: ApprovalStore,
        *,
        authorize: Authorizer,
        clock: Clock | None = None,
        on_step: StepHook = no_hook,
        on_damage: OnDamage = _warn,
    ) -> None:
        if not callable(authorize):
            raise InvalidValueError("authorizer", "somebody must say who may decide", "$.authorize")
        self._store = store
        self._authorize = authorize
        self.clock: Clock = clock if isinstance(clock, SteadyClock) else SteadyClock(*([clock] if clock else []))
        self._step = on_step
        self._on_damage = on_damage

    @property
    def store(self) -> ApprovalStore:
        """Where approvals are kept."""
        return self._store

    @property
    def on_step(self) -> StepHook:
        """What is told each step."""
        return self._step

    async def prepare(
        self, lease: RunLease, checkpoint: Checkpoint, intent: ApprovalIntent, *, expires_at_ms: int
    ) -> ApprovalRecord:
        """Asks for an approval: intent and checkpoint are saved together, and the run is given back.

        Asking again, after a restart or when it was decided, finds the same record; its expiry does not change.

        Args:
            lease: that of the worker.
            checkpoint: where the run stands: one call, of a settled model invocation.
            intent: made of that call and of the registration that holds now.
            expires_at_ms: milliseconds since the epoch; a deadline of the run or of its root comes first.

        Returns:
            The record, when it is approved, or was used: the call may be dispatched.

        Raises:
            ApprovalRequired: nobody decided yet: the worker is to leave the run. The lease is given back.
            ApprovalError: a check failed; unless it says that the approval is over, nothing was saved.
        """
        integer()(expires_at_ms, "$.expires_at_ms")
        approval_id = approval_id_of(intent.run_id, intent.tool_call_id)
        self._step("prepare.begun")

        def work(tx: Transaction) -> Facts | ApprovalCode:
            loaded = load_facts(tx, lease.run_id, approval_id, self.clock())
            facts = replace(loaded, lease=lease, checkpoint=checkpoint, intent=intent)
            code = first_refusal(facts, PREPARE_CHECKS)
            if code is None and facts.record is None:
                code = first_refusal(facts, CREATE_CHECKS)
            elif code is None and loaded.checkpoint != checkpoint:
                # The run has moved on, or somebody edited its call.
                code = "approval_checkpoint_conflict"
            if code is not None:
                return code
            facts = keep_refreshed(tx, facts) if facts.record else self._create(tx, facts, intent, expires_at_ms)
            if facts.claim is None and facts.receipt is None:
                code = first_refusal(facts, RESUME_CHECKS)
            if facts.record is not None and facts.record.status == "pending" and facts.run is not None:
                tx.save_run(released(facts.run))
            return code or facts

        found = await self._store.write(work)
        self._step("prepare.committed")
        if isinstance(found, str):
            refuse(found)
        assert found.record is not None
        if found.record.status == "pending":
            raise ApprovalRequired(intent.run_id, approval_id)
        return found.record

    def _create(self, tx: Transaction, facts: Facts, intent: ApprovalIntent, expires_at_ms: int) -> Facts:
        run, root, checkpoint, now = facts.run, facts.root, facts.checkpoint, facts.now_ms
        assert run is not None and root is not None and checkpoint is not None
        if now >= expires_at_ms:
            refuse("approval_expired")
        record = ApprovalRecord(
            approval_id_of(intent.run_id, intent.tool_call_id), intent, 1, "pending", now, expires_at_ms
        )
        capped = deadline(record, run, root)
        if now >= capped:
            refuse("approval_expired")
        record = replace(record, expires_at_ms=capped)
        tx.save_record(record)
        log(tx, record.approval_id, "proposed", now, revision=1, intentDigest=intent.digest, expiresAtMs=capped)
        self._step("prepare.record_saved")
        tx.save_checkpoint(checkpoint)
        self._step("prepare.checkpoint_saved")
        return replace(facts, record=record)

    async def decide(
        self, command: DecisionCommand, *, principal_id: str, preview_digest: str | None = None
    ) -> DecisionReceipt:
        """Approves or rejects.

        Args:
            command: what is decided, and what the approver looked at.
            principal_id: who decides, as the host authenticated them.
            preview_digest: hash of what the approver was shown (``preview``); it is compared and kept.

        Returns:
            The receipt; the first one again when the same principal gives the same command again.

        Raises:
            ApprovalError: the authorizer or a check refused.
        """
        identity(principal_id, "$.principal_id")
        observed = await self._store.read(lambda tx: load_record(tx, command.approval_id))
        if not await self._allowed(principal_id, observed, command):
            refuse("approval_authorization_denied")
        self._step("decide.authorized")

        def work(tx: Transaction) -> DecisionReceipt | ApprovalCode:
            record = load_record(tx, command.approval_id)
            given = record.decision
            if given is not None and given.command.command_key == command.command_key:
                if (given.command, given.principal_id) != (command, principal_id) or record.receipt is None:
                    return "approval_command_conflict"
                return record.receipt
            facts = replace(load_facts(tx, record.intent.run_id, record.approval_id, self.clock()), command=command)
            facts = keep_refreshed(tx, facts)
            code = first_refusal(facts, DECISION_CHECKS)
            if code is None and preview_digest not in (None, preview_of(record).digest):
                code = "approval_preview_conflict"
            return code or self._decided(tx, record, command, principal_id, preview_digest, facts.now_ms)

        found = await self._store.write(work)
        self._step("decide.committed")
        if isinstance(found, str):
            refuse(found)
        return found

    def _decided(
        self,
        tx: Transaction,
        record: ApprovalRecord,
        command: DecisionCommand,
        principal_id: str,
        preview_digest: str | None,
        now: int,
    ) -> DecisionReceipt:
        status = following(record.status, command.decision)
        revision = record.revision + 1
        assert status is not None
        # The clock of the host that asked may be ahead of this one.
        decision = Decision(command, principal_id, max(now, record.created_at_ms), revision)
        record = replace(record, status=status, revision=revision, decision=decision)
        tx.save_record(record)
        seen = {} if preview_digest is None else {"previewDigest": preview_digest}
        kind: EventKind = "approved" if status == "approved" else "rejected"
        log(tx, record.approval_id, kind, now, revision=revision, principalId=principal_id, **seen)
        self._step("decide.record_saved")
        assert record.receipt is not None
        return record.receipt

    async def _allowed(self, principal_id: str, record: ApprovalRecord, command: DecisionCommand) -> bool:
        await checkpoint_if_cancelled()
        try:
            verdict = self._authorize(principal_id, record, command)
            if inspect.isawaitable(verdict):
                verdict = await verdict
        except Exception as exc:
            raise ApprovalError("approval_authorization_failed") from exc
        return verdict is True

    async def get(self, approval_id: str) -> ApprovalRecord:
        """The record as it is kept.

        Raises:
            ApprovalError: ``approval_not_found``.
        """
        return await self._store.read(lambda tx: load_record(tx, approval_id))

    async def list(
        self,
        *,
        status: Status | None = None,
        run_id: str | None = None,
        tool_name: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[ApprovalRecord]:
        """The records that fit, as they are kept, oldest first.

        Args:
            status, run_id, tool_name: what they are to have.
            limit: how many at most; ``None``: all there are.
            after: the id of the last one that was seen, which may be damaged: those that come after it.

        Raises:
            ApprovalError: ``approval_not_found``: there is no approval ``after``.
            InvalidValueError: the limit is none.
        """
        optional(integer(1))(limit, "$.limit")

        def work(tx: Transaction, tell: OnDamage) -> list[ApprovalRecord]:
            found = each_record(tx, tell, status=status, run_id=run_id, tool_name=tool_name, after=after)
            return list(islice(found, limit))

        return await past_damage(self._store.read, work, self._on_damage)

    async def events(self, approval_id: str) -> tuple[ApprovalEvent, ...]:
        """The story of an approval, in order."""
        return tuple(await self._store.read(lambda tx: tx.events(approval_id)))

    async def refresh(self, approval_id: str) -> ApprovalRecord:
        """The record after what time and its run have done to it, which is kept.

        Raises:
            ApprovalError: ``approval_not_found``.
        """

        def work(tx: Transaction) -> ApprovalRecord:
            record = load_record(tx, approval_id)
            facts = keep_refreshed(tx, load_facts(tx, record.intent.run_id, approval_id, self.clock()))
            return facts.record or record

        return await self._store.write(work)

    async def expire(self) -> tuple[str, ...]:
        """Keeps of every open approval what time and its run have done to it. Returns the ids of those that changed."""

        def work(tx: Transaction, tell: OnDamage) -> tuple[str, ...]:
            now = self.clock()
            return tuple(
                record.approval_id
                for record in tx.open_records(on_damage=tell)
                if readable(record.approval_id, partial(_changes, tx, record, now), tell)
            )

        return await past_damage(self._store.write, work, self._on_damage)

    async def diagnose(self, run_id: str | None = None) -> Diagnosis:
        """Counts what there is, without changing or permitting anything.

        Args:
            run_id: of one run; left out: of all.
        """

        def work(tx: Transaction, tell: OnDamage) -> Diagnosis:
            return diagnose(tx, run_id, self.clock(), tell)

        return await past_damage(self._store.read, work, self._on_damage)


def _changes(tx: Transaction, record: ApprovalRecord, now_ms: int) -> bool:
    facts = load_facts(tx, record.intent.run_id, record.approval_id, now_ms)
    return keep_refreshed(tx, facts) is not facts
