"""The story of an approval: one event for each thing that happened to it, never changed, never taken back.

Owns: the kinds and the record. Does not own: who reads them. An event is evidence for people; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from ..catalog.bounded import copy_bounded
from ..catalog.identity import IDENTITY_BUDGET
from .fields import (
    Field,
    JsonRecord,
    check_fields,
    frozen_object,
    identity,
    integer,
    literal,
)

__all__ = ("EVENT_KINDS", "ApprovalEvent", "EventKind")

EventKind: TypeAlias = Literal[
    "proposed",  # intent and checkpoint were saved
    "approved",
    "rejected",
    "expired",
    "canceled",
    "executed",  # the call was claimed, and from here on may have been made
    "returned",  # its effect is known
    "unknown",  # it came to an end that proves nothing
    "released",  # the claim was taken back before anything was sent
    "reconciled",  # somebody found out
]

EVENT_KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)


_EVENT = (
    Field("approval_id", "approvalId", identity),
    Field("kind", "kind", literal(*EVENT_KINDS)),
    Field("at_ms", "atMs", integer()),
    Field("facts", "facts", frozen_object, lambda value: copy_bounded(value, IDENTITY_BUDGET)),
)


@dataclass(frozen=True, slots=True)
class ApprovalEvent(JsonRecord):
    """One thing that happened.

    Attributes:
        approval_id: the approval.
        kind: see ``EventKind``.
        at_ms: the host's clock, in milliseconds since the epoch.
        facts: plain JSON, immutable: principals, revisions, digests and codes; no argument and no result.
    """

    _members = _EVENT

    approval_id: str
    kind: EventKind
    at_ms: int
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", frozen_object(self.facts, "$.facts"))
        check_fields(self, _EVENT)
