"""What must hold before an approval is asked for, decided or used: tables of checks over facts.

Owns: the order of the checks and the code of each. Does not own: gathering the facts, and acting on the answer
(``gateway``). Nothing here waits, sends or stores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from .claims import Claim, Receipt
from .errors import ApprovalCode
from .records import ApprovalIntent, ApprovalRecord, DecisionCommand, arguments_digest
from .runs import Checkpoint, Run, RunLease, ToolCall
from .statuses import Status, due_step, following

__all__ = (
    "BINDING_MEMBERS",
    "CREATE_CHECKS",
    "DECISION_CHECKS",
    "DISPATCH_CHECKS",
    "PREPARE_CHECKS",
    "RECEIPT_CHECKS",
    "REPLAY_CHECKS",
    "RESUME_CHECKS",
    "RUN_CHECKS",
    "SEND_CHECKS",
    "Check",
    "Facts",
    "batch_refusal",
    "binding_matches",
    "deadline",
    "first_refusal",
    "refreshed",
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the checks look at, as it was found in one transaction. ``None``: there is none.

    Attributes:
        now_ms: the host's clock.
        run: the run that makes the call.
        root: the run that it belongs to.
        lease: what the worker shows.
        checkpoint: what is kept of the run, or is about to be.
        call: the call that is asked for.
        intent: what is to be approved, when approval is asked for.
        record: the approval.
        command: the decision that is given.
        binding: the current identity of the tool's registration.
        claim: what was begun under this approval, or under the call's key.
        receipt: what is known to have come of it.
    """

    now_ms: int
    run: Run | None = None
    root: Run | None = None
    lease: RunLease | None = None
    checkpoint: Checkpoint | None = None
    call: ToolCall | None = None
    intent: ApprovalIntent | None = None
    record: ApprovalRecord | None = None
    command: DecisionCommand | None = None
    binding: Mapping[str, Any] | None = None
    claim: Claim | None = None
    receipt: Receipt | None = None


#: Looks at the facts and says whether something is wrong.
Check: TypeAlias = Callable[[Facts], bool]

#: Members of a registration's identity -> attribute of an intent.
BINDING_MEMBERS: Final[dict[str, str]] = {
    "bindingId": "binding_id",
    "bindingRevision": "binding_revision",
    "scopeId": "scope_id",
    "scopeRevision": "scope_revision",
    "effect": "effect",
}


def binding_matches(intent: ApprovalIntent, binding: Mapping[str, Any]) -> bool:
    """Whether a registration is the one that an intent was made under: every member, and no other."""
    return binding.keys() == BINDING_MEMBERS.keys() and all(
        getattr(intent, attribute) == binding[member] for member, attribute in BINDING_MEMBERS.items()
    )


def deadline(record: ApprovalRecord, run: Run, root: Run) -> int:
    """The moment from which on a record is over: its own expiry, or a deadline before it."""
    return min([record.expires_at_ms, *(each.deadline_ms for each in (run, root) if each.deadline_ms is not None)])


def refreshed(record: ApprovalRecord, run: Run, root: Run, *, now_ms: int, used: bool) -> ApprovalRecord:
    """The record after what time and its run have done to it: itself, or expired or canceled."""
    step = due_step(now_ms=now_ms, expires_at_ms=deadline(record, run, root), canceled=run.over or root.over)
    status = None if step is None else following(record.status, step, used=used)
    return record if status is None else replace(record, status=status, revision=record.revision + 1)


def batch_refusal(tools: Sequence[str], durable: Collection[str]) -> ApprovalCode | None:
    """Whether a batch of calls may be made: one that needs an approval stands alone.

    Args:
        tools: the tool of each call.
        durable: the tools that need one.
    """
    return "approval_batch_unsupported" if len(tools) > 1 and any(tool in durable for tool in tools) else None


def _lease_lost(facts: Facts) -> bool:
    return facts.run is None or facts.lease is None or not facts.run.held_by(facts.lease, facts.now_ms)


def _other_run(facts: Facts) -> bool:
    subject = facts.intent or (facts.record.intent if facts.record is not None else None)
    if subject is None or facts.run is None or facts.root is None:
        return True
    return (facts.run.run_id, facts.run.root_run_id) != (subject.run_id, subject.root_run_id)


def _unsettled(facts: Facts) -> bool:
    return facts.run is None or facts.checkpoint is None or not facts.run.settled(facts.checkpoint.invocation_id)


def _not_alone(facts: Facts) -> bool:
    return facts.checkpoint is not None and len(facts.checkpoint.calls) != 1


def _intent_of_another_call(facts: Facts) -> bool:
    checkpoint, intent = facts.checkpoint, facts.intent
    return checkpoint is None or intent is None or not _same_call(checkpoint, checkpoint.calls[0], intent)


def _call_of_another_checkpoint(facts: Facts) -> bool:
    checkpoint, call, record = facts.checkpoint, facts.call, facts.record
    if checkpoint is None or call is None or record is None or len(checkpoint.calls) != 1:
        return True
    return checkpoint.calls[0].digest != call.digest or not _same_call(checkpoint, call, record.intent)


def _same_call(checkpoint: Checkpoint, call: ToolCall, intent: ApprovalIntent) -> bool:
    return (checkpoint.run_id, call.call_id, call.tool_name, arguments_digest(call.arguments)) == (
        intent.run_id,
        intent.tool_call_id,
        intent.tool_name,
        arguments_digest(intent.arguments),
    )


def _reconfigured(facts: Facts) -> bool:
    subject = facts.intent or (facts.record.intent if facts.record is not None else None)
    return facts.run is None or subject is None or facts.run.preset_fingerprint != subject.preset_fingerprint


def _over(facts: Facts) -> bool:
    return any(each is None or each.over for each in (facts.run, facts.root))


def _not_found(facts: Facts) -> bool:
    return facts.record is None


def _other_intent(facts: Facts) -> bool:
    record, intent = facts.record, facts.intent
    return record is not None and intent is not None and record.intent.digest != intent.digest


def _rebound(facts: Facts) -> bool:
    return facts.record is None or facts.binding is None or not binding_matches(facts.record.intent, facts.binding)


def _stale_command(facts: Facts) -> bool:
    record, command = facts.record, facts.command
    return (
        record is None
        or command is None
        or (command.expected_revision, command.intent_digest) != (record.revision, record.intent.digest)
    )


def _receipt_of_another_approval(facts: Facts) -> bool:
    record, receipt = facts.record, facts.receipt
    association = receipt.claim.association if receipt is not None else None
    if record is None or record.decision is None or association is None:
        return True
    return (association.approval_id, association.intent_digest, association.approval_revision) != (
        record.approval_id,
        record.intent.digest,
        record.decision.revision,
    )


def _claimed(facts: Facts) -> bool:
    return facts.claim is not None


def _status(*statuses: Status) -> Check:
    return lambda facts: facts.record is not None and facts.record.status in statuses


def _already_over(facts: Facts) -> bool:
    record, run, root = facts.record, facts.run, facts.root
    return record is not None and run is not None and root is not None and facts.now_ms >= deadline(record, run, root)


#: Who may touch a run at all.
RUN_CHECKS: Final[tuple[tuple[ApprovalCode, Check], ...]] = (("agent_run_lease_lost", _lease_lost),)

#: Before approval is asked for.
PREPARE_CHECKS: Final[tuple[tuple[ApprovalCode, Check], ...]] = (
    *RUN_CHECKS,
    ("approval_batch_unsupported", _not_alone),
    ("approval_checkpoint_conflict", _intent_of_another_call),
    ("approval_run_conflict", _other_run),
    ("approval_invocation_unsettled", _unsettled),
    ("approval_intent_conflict", _other_intent),
    ("approval_configuration_mismatch", _reconfigured),
)

#: Before a record is made.
CREATE_CHECKS: Final[tuple[tuple[ApprovalCode, Check], ...]] = (("approval_run_terminal", _over),)

#: After a record was found, or made, and refreshed: whether its run may go on.
RESUME_CHECKS: Final[tuple[tuple[ApprovalCode, Check], ...]] = (
    ("approval_rejected", _status("rejected")),
    ("approval_expired", _status("expired")),
    ("approval_canceled", _status("canceled")),
)

#: Before a decision is taken; the record has been refreshed.
DECISION_CHECKS: Final[tuple[tuple[ApprovalCode, Check], ...]] = (
    ("approval_run_conflict", _other_run),
    ("approval_expired", _status("expired")),
    ("approval_canceled", _status("canceled")),
    ("approval_revision_conflict", _stale_command),
    ("approval_revision_conflict", _status("approved", "rejected")),
    ("approval_configuration_mismatch", _reconfigured),
)

#: Before anything is said about a call, also about one that was made.
REPLAY_CHECKS: Final[tuple[tuple[ApprovalCode, Check], ...]] = (
    *RUN_CHECKS,
    ("approval_not_found", _not_found),
    ("approval_run_conflict", _other_run),
    ("approval_checkpoint_conflict", _call_of_another_checkpoint),
    ("approval_invocation_unsettled", _unsettled),
)

#: Before a receipt answers for a call.
RECEIPT_CHECKS: Final[tuple[tuple[ApprovalCode, Check], ...]] = (
    ("approval_claim_conflict", _receipt_of_another_approval),
)

#: Before a call is made; the record has been refreshed.
DISPATCH_CHECKS: Final[tuple[tuple[ApprovalCode, Check], ...]] = (
    ("approval_claim_conflict", _claimed),
    ("approval_pending", _status("pending")),
    ("approval_rejected", _status("rejected")),
    ("approval_expired", _status("expired")),
    ("approval_canceled", _status("canceled")),
    ("approval_canceled", _over),
    ("approval_expired", _already_over),
    ("approval_configuration_mismatch", _reconfigured),
    ("approval_intent_conflict", _rebound),
)


#: After the claim, right before the request.
SEND_CHECKS: Final[tuple[tuple[ApprovalCode, Check], ...]] = (
    *RUN_CHECKS,
    ("approval_canceled", _over),
    ("approval_expired", _already_over),
    ("approval_configuration_mismatch", _reconfigured),
)


def first_refusal(facts: Facts, checks: Sequence[tuple[ApprovalCode, Check]]) -> ApprovalCode | None:
    """The code of the first check that finds something; ``None`` when all is well."""
    return next((code for code, wrong in checks if wrong(facts)), None)
