"""What an operator may see of approvals: counts and words from fixed lists, read and never changed.

Owns: the report. Does not own: any authority: a diagnosis permits nothing, and an unknown effect stays unknown in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Literal

from .checks import refreshed
from .records import ApprovalRecord
from .statuses import STATUSES, Status
from .store import Transaction

__all__ = ("Diagnosis", "diagnose", "status_now")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Counts.

    Attributes:
        statuses: approvals by what their status is *now*: one that ran out counts as expired, also while that is not
            kept yet.
        unknown_effects: claims without a receipt.
        receipts: approvals whose effect is known.
        open_runs: runs that have not ended.
        authority: ``diagnosis_only``.
    """

    statuses: dict[Status, int]
    unknown_effects: int
    receipts: int
    open_runs: int
    authority: Literal["diagnosis_only"] = "diagnosis_only"

    def to_json(self) -> dict[str, Any]:
        """The plain JSON object."""
        return {
            "authority": self.authority,
            "statuses": dict(self.statuses),
            "unknownEffects": self.unknown_effects,
            "receipts": self.receipts,
            "openRuns": self.open_runs,
        }


_NONE: Final = dict.fromkeys(STATUSES, 0)


def status_now(tx: Transaction, record: ApprovalRecord, now_ms: int) -> Status:
    """The status that a refresh would keep. Nothing is written."""
    run = tx.run(record.intent.run_id)
    root = None if run is None else tx.run(run.root_run_id)
    if run is None or root is None:
        return record.status
    used = tx.claim_of(record.approval_id) is not None or tx.receipt_of(record.approval_id) is not None
    return refreshed(record, run, root, now_ms=now_ms, used=used).status


def diagnose(tx: Transaction, run_id: str | None, now_ms: int) -> Diagnosis:
    """Counts what there is, of one run or of all."""
    records = tx.records(run_id=run_id)
    statuses: Counter[Status] = Counter(status_now(tx, record, now_ms) for record in records)
    if run_id is None:
        open_runs, unknown = tx.open_work()
    else:
        run = tx.run(run_id)
        open_runs = int(run is not None and run.status == "running")
        unknown = sum(tx.claim_of(record.approval_id) is not None for record in records)
    receipts = sum(tx.receipt_of(record.approval_id) is not None for record in records)
    return Diagnosis(_NONE | dict(statuses), unknown, receipts, open_runs)
