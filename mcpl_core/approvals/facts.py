"""Gathering facts in a transaction, and keeping what time and runs do to a record.

Owns: which rows belong to a question. Does not own: the checks (``checks``), and what follows from them (``gateway``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .checks import Facts, refreshed
from .claims import ClaimKey
from .errors import refuse
from .events import ApprovalEvent, EventKind
from .records import ApprovalRecord
from .runs import Run, ToolCall
from .store import Transaction

__all__ = ("claim_key", "keep_refreshed", "load_facts", "load_record", "log")


def log(tx: Transaction, approval_id: str, kind: EventKind, now_ms: int, **facts: Any) -> None:
    """Adds to the story of an approval."""
    tx.append_event(ApprovalEvent(approval_id, kind, now_ms, facts))


def load_record(tx: Transaction, approval_id: str) -> ApprovalRecord:
    """The record.

    Raises:
        ApprovalError: ``approval_not_found``.
    """
    record = tx.record(approval_id)
    if record is None:
        refuse("approval_not_found")
    return record


def load_facts(tx: Transaction, run_id: str, approval_id: str, now_ms: int) -> Facts:
    """What is kept of a run and one of its approvals."""
    run = tx.run(run_id)
    return Facts(
        now_ms,
        run=run,
        root=None if run is None else tx.run(run.root_run_id),
        checkpoint=tx.checkpoint(run_id),
        record=tx.record(approval_id),
        claim=tx.claim_of(approval_id),
        receipt=tx.receipt_of(approval_id),
    )


def keep_refreshed(tx: Transaction, facts: Facts) -> Facts:
    """The facts with the record as time and its run have made it, which is saved if that is news."""
    record, run, root = facts.record, facts.run, facts.root
    if record is None or run is None or root is None:
        return facts
    used = facts.claim is not None or facts.receipt is not None
    current = refreshed(record, run, root, now_ms=facts.now_ms, used=used)
    if current is record:
        return facts
    tx.save_record(current)
    log(tx, record.approval_id, _KINDS[current.status], facts.now_ms, revision=current.revision)
    return replace(facts, record=current)


_KINDS: dict[str, EventKind] = {"expired": "expired", "canceled": "canceled"}


def claim_key(run: Run, call: ToolCall, approval_id: str) -> ClaimKey:
    """What the effect of a call is named by: its own key, else its approval."""
    return ClaimKey(run.principal_id, call.tool_name, call.idempotency_key or approval_id)
