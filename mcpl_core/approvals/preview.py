"""What an approver is shown, and the hash of it.

Owns: the text, line for line, made of nothing but the intent and its times, and its SHA-256. Does not own: where it is
shown (``mcpl approvals show``).

Characters that a terminal acts upon, or that look like nothing, are escapes: what is hashed is what is seen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ..catalog.bounded import copy_bounded
from ..catalog.identity import IDENTITY_BUDGET
from .records import ApprovalRecord

__all__ = ("Preview", "preview_of", "visible")


@dataclass(frozen=True, slots=True)
class Preview:
    """What an approver is shown.

    Attributes:
        text: lines of printable ASCII; the arguments as JSON with sorted members.
        digest: SHA-256 of the text, 64 hexadecimal digits.
    """

    text: str
    digest: str


def preview_of(record: ApprovalRecord) -> Preview:
    """What is shown of a record. It does not change with the record's status."""
    intent = record.intent
    rows: tuple[tuple[str, Any], ...] = (
        ("approval", record.approval_id),
        ("intent digest", intent.digest),
        ("tool", intent.tool_name),
        ("effect", intent.effect),
        ("run", intent.run_id),
        ("root run", intent.root_run_id),
        ("call", intent.tool_call_id),
        ("binding", f"{intent.binding_id} at {intent.binding_revision}"),
        ("scope", f"{intent.scope_id} at {intent.scope_revision}"),
        ("preset", intent.preset_fingerprint),
        ("created at ms", record.created_at_ms),
        ("expires at ms", record.expires_at_ms),
    )
    lines = [f"{name:<14}{visible(str(value))}" for name, value in rows]
    arguments = copy_bounded(intent.arguments, IDENTITY_BUDGET)
    lines += [
        "arguments",
        json.dumps(arguments, ensure_ascii=True, sort_keys=True, indent=2).replace("\x7f", "\\u007f"),
    ]
    text = "\n".join(lines)
    return Preview(text, sha256(text.encode("ascii")).hexdigest())


def visible(text: str) -> str:
    """Text from elsewhere as printable ASCII on one line: whatever else is in it stands there as an escape."""
    return json.dumps(text, ensure_ascii=True)[1:-1].replace("\x7f", "\\u007f")
