"""What an operator may see of approvals: counts and words from fixed lists, read and never changed.

Owns: the report. Does not own: any authority: a diagnosis permits nothing, and an unknown effect stays unknown in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from .checks import refreshed
from .damage import DamagedRow, OnDamage, readable
from .records import ApprovalRecord
from .statuses import Status
from .store import Transaction

__all__ = ("Diagnosis", "diagnose", "status_now")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Counts.

    Attributes:
        statuses: approvals by what their status is *now*: one that ran out counts as expired, also while that is not
            kept yet.
        unknown_effects: claims; of all runs, also those of keyed calls without an approval.
        receipts: approvals whose effect is known.
        open_runs: runs that have not ended.
        damaged: approvals, and the run that was asked about, of which that could not be found out, since a row is
            damaged. A status that is one is counted above; those that never change again were not looked into.
        authority: ``diagnosis_only``.
    """

    statuses: dict[Status, int]
    unknown_effects: int
    receipts: int
    open_runs: int
    damaged: int = 0
    authority: Literal["diagnosis_only"] = "diagnosis_only"

    def to_json(self) -> dict[str, Any]:
        """The plain JSON object."""
        return {
            "authority": self.authority,
            "statuses": dict(self.statuses),
            "unknownEffects": self.unknown_effects,
            "receipts": self.receipts,
            "openRuns": self.open_runs,
            "damaged": self.damaged,
        }


def status_now(tx: Transaction, record: ApprovalRecord, now_ms: int) -> Status:
    """The status that a refresh would keep. Nothing is written."""
    run = tx.run(record.intent.run_id)
    root = None if run is None else tx.run(run.root_run_id)
    if run is None or root is None:
        return record.status
    used = tx.claim_of(record.approval_id) is not None or tx.receipt_of(record.approval_id) is not None
    return refreshed(record, run, root, now_ms=now_ms, used=used).status


def diagnose(tx: Transaction, run_id: str | None, now_ms: int, on_damage: OnDamage) -> Diagnosis:
    """Counts what there is, of one run or of all."""
    damaged: dict[str, DamagedRow] = {}

    def tell(row: DamagedRow) -> None:
        damaged[row.id] = row
        on_damage(row)

    statuses = tx.count_records(run_id, on_damage=tell)
    for record in tx.open_records(run_id, on_damage=tell):
        # The others are what is kept of them, whatever the time is.
        now = readable(record.approval_id, partial(status_now, tx, record, now_ms), tell)
        if now is not None:
            statuses[record.status] -= 1
            statuses[now] += 1
    unknown, receipts = tx.count_used(run_id)
    if run_id is None:
        open_runs, unknown = tx.open_work()
    else:
        run = readable(run_id, lambda: tx.run(run_id), tell)
        open_runs = int(run is not None and run.status == "running")
    return Diagnosis(statuses, unknown, receipts, open_runs, len(damaged))
