"""How approvals are shown.

Owns: the lines for people and the JSON for programs. Does not own: the commands (``approvals``).

Whatever a model or a server may have had a hand in is written as printable ASCII on one line: nothing in it moves the
cursor, turns the writing direction or looks like a line of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..approvals import ApprovalEvent, ApprovalRecord, Claim, DamagedRow, Receipt, preview_of
from ..approvals.preview import visible
from ..approvals.statuses import Status
from .output import Output

__all__ = ("Shown", "list_json", "show_list", "show_one", "shown_json")

_COLOURS = {"pending": "yellow", "approved": "green", "rejected": "red"}


@dataclass(frozen=True, slots=True)
class Shown:
    """All that there is to see of an approval.

    Attributes:
        record: as it is kept.
        status: as time and its run have made it, kept or not.
        claim: what was begun, and is not known.
        receipt: what is known.
        events: its story.
        damaged: which of these could not be read, and why; the status is the one that is kept then.
    """

    record: ApprovalRecord
    status: Status
    claim: Claim | None
    receipt: Receipt | None
    events: Sequence[ApprovalEvent]
    damaged: Sequence[DamagedRow] = ()

    @property
    def effect(self) -> str:
        """``none``: the call was not made; ``unknown``; or what its receipt says."""
        if self.receipt is not None:
            return self.receipt.outcome.effect_state
        unread = any(row.id in ("claim", "receipt") for row in self.damaged)
        return "unknown" if unread or self.claim is not None else "none"


def _time(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"


def list_json(rows: Sequence[tuple[ApprovalRecord, Status]]) -> list[dict[str, Any]]:
    """The list for programs."""
    return [record.to_json() | {"statusNow": status} for record, status in rows]


def show_list(output: Output, rows: Sequence[tuple[ApprovalRecord, Status]]) -> None:
    """The list for people."""
    if not rows:
        output.line("no approvals")
        return
    output.table(
        ("approval", "status", "revision", "effect", "tool", "run", "expires"),
        [
            (
                record.approval_id,
                status,
                record.revision,
                record.intent.effect,
                visible(record.intent.tool_name),
                visible(record.intent.run_id),
                _time(record.expires_at_ms),
            )
            for record, status in rows
        ],
    )


def shown_json(shown: Shown) -> dict[str, Any]:
    """One approval for programs."""
    return {
        "record": shown.record.to_json(),
        "statusNow": shown.status,
        "effect": shown.effect,
        "previewDigest": preview_of(shown.record).digest,
        "preview": preview_of(shown.record).text,
        "claim": None if shown.claim is None else shown.claim.to_json(),
        "receipt": None if shown.receipt is None else shown.receipt.to_json(),
        "events": [event.to_json() for event in shown.events],
        "damaged": [{"what": row.id, "reason": row.reason} for row in shown.damaged],
    }


def show_one(output: Output, shown: Shown) -> None:
    """One approval for people: what is approved, line for line what is hashed, and then what became of it."""
    record, preview = shown.record, preview_of(shown.record)
    for line in preview.text.split("\n"):
        output.line(line)
    output.line("")
    output.line(f"preview       {preview.digest}", "bold")
    output.line(f"revision      {record.revision}", "bold")
    output.line(f"status        {shown.status}", _COLOURS.get(shown.status, ""))
    output.line(f"expires       {_time(record.expires_at_ms)}")
    output.line(f"effect known  {shown.effect}", "red" if shown.effect == "unknown" else "")
    for event in shown.events:
        facts = ", ".join(
            f"{visible(name)} {visible(str(value))}" for name, value in event.facts.items() if value is not None
        )
        output.line(f"{_time(event.at_ms)}  {event.kind:<10}  {facts}")
    for row in shown.damaged:
        output.line(f"damaged       {row.id}: {row.reason}", "red")
