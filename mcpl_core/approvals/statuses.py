"""The statuses of an approval and every step between them, as one table.

Owns: what may follow what. Does not own: when a step is taken, and its audit (``gateway``).

A decision is final, but an approval that nobody used yet can still expire or be canceled with its run; one that was
used (a claim or a receipt exists) never changes again.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

__all__ = ("STATUSES", "TRANSITIONS", "Status", "Step", "due_step", "following")

Status: TypeAlias = Literal["pending", "approved", "rejected", "expired", "canceled"]
Step: TypeAlias = Literal["approve", "reject", "expire", "cancel"]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)

#: (status, step) -> status. What is not here does not happen. The steps from ``approved`` are for an unused approval.
TRANSITIONS: Final[dict[tuple[Status, Step], Status]] = {
    ("pending", "approve"): "approved",
    ("pending", "reject"): "rejected",
    ("pending", "expire"): "expired",
    ("pending", "cancel"): "canceled",
    ("approved", "expire"): "expired",
    ("approved", "cancel"): "canceled",
}


def following(status: Status, step: Step, *, used: bool = False) -> Status | None:
    """The status after a step; ``None`` when the step is not open."""
    return None if used else TRANSITIONS.get((status, step))


def due_step(*, now_ms: int, expires_at_ms: int, canceled: bool) -> Step | None:
    """The step that time or the run asks for; a run that was canceled comes before an expiry."""
    if canceled:
        return "cancel"
    return "expire" if now_ms >= expires_at_ms else None
