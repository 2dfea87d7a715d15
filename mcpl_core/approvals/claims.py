"""Claims and receipts: what was begun, and what is known to have come of it.

Owns: the records. A claim is written before anything is sent, and outlives the process; a receipt takes its place once
the effect is known. Does not own: when (``idempotency``, ``gateway``).

A claim without a receipt means ``unknown``, whatever happened to the process that wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from ..catalog.bounded import copy_bounded
from ..catalog.errors import EffectState
from ..catalog.identity import IDENTITY_BUDGET
from ..errors import InvalidValueError
from .fields import Field, JsonRecord, check_fields, identity, integer, literal, optional, read_fields, write_fields

__all__ = ("Association", "Claim", "ClaimKey", "Outcome", "Receipt", "ReceiptSource", "new_attempt")

#: How a receipt came to be: by the answer to the call, or by somebody who looked.
ReceiptSource: TypeAlias = Literal["answer", "reconciliation"]


def new_attempt() -> str:
    """A name that no other claim has."""
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class ClaimKey:
    """What an effect is named by.

    Attributes:
        principal_id: on whose behalf.
        tool_name: the tool.
        key: the idempotency key; for an approved call without one, the approval's id.
    """

    principal_id: str
    tool_name: str
    key: str

    def __post_init__(self) -> None:
        check_fields(self, _KEY)


_KEY = (
    Field("principal_id", "principalId", identity),
    Field("tool_name", "toolName", identity),
    Field("key", "key", identity),
)


_ASSOCIATION = (
    Field("approval_id", "approvalId", identity),
    Field("intent_digest", "intentDigest", identity),
    Field("approval_revision", "approvalRevision", integer(2)),
    Field("run_id", "runId", identity),
    Field("lease_owner", "leaseOwner", identity),
    Field("lease_epoch", "leaseEpoch", integer(1)),
)


@dataclass(frozen=True, slots=True)
class Association(JsonRecord):
    """The approval that a claim was made under.

    Attributes:
        approval_id: the approval.
        intent_digest: of its intent.
        approval_revision: the revision that the decision made.
        run_id: the run.
        lease_owner: the worker that claimed it.
        lease_epoch: its lease.
    """

    _members = _ASSOCIATION

    approval_id: str
    intent_digest: str
    approval_revision: int
    run_id: str
    lease_owner: str
    lease_epoch: int

    def __post_init__(self) -> None:
        check_fields(self, _ASSOCIATION)


@dataclass(frozen=True, slots=True)
class Claim:
    """A call that was begun.

    Attributes:
        key: what it is named by.
        arguments_digest: identity digest of its arguments.
        claimed_at_ms: when, in milliseconds since the epoch.
        association: the approval, if it has one.
        error_code: why its effect is unknown, when the process lived to say so.
        attempt: names this claim. One that is made for the same key later, after this one was taken back, has another.
    """

    key: ClaimKey
    arguments_digest: str
    claimed_at_ms: int
    association: Association | None = None
    error_code: str | None = None
    attempt: str = field(default_factory=new_attempt)

    def __post_init__(self) -> None:
        check_fields(self, _CLAIM)

    def to_json(self) -> dict[str, Any]:
        """The plain JSON object."""
        return write_fields(self.key, _KEY) | write_fields(self, _CLAIM)

    @classmethod
    def from_json(cls, value: Any, path: str = "$") -> Claim:
        """Reads one.

        Raises:
            InvalidValueError: it is none.
        """
        return cls(**_with_key(read_fields(value, (*_KEY, *_CLAIM), path)))


_CLAIM = (
    Field("arguments_digest", "argumentsDigest", identity),
    Field("claimed_at_ms", "claimedAtMs", integer()),
    Field("association", "association", optional(Association.from_json)),
    Field("error_code", "errorCode", optional(identity)),
    Field("attempt", "attempt", identity),
)


def _with_key(members: dict[str, Any]) -> dict[str, Any]:
    key = ClaimKey(**{each.name: members.pop(each.name) for each in _KEY})
    return members | {"key": key}


def _json(value: Any, path: str) -> Any:
    try:
        return copy_bounded(value, IDENTITY_BUDGET)
    except InvalidValueError as exc:
        raise InvalidValueError(exc.code, exc.detail, path) from exc


_OUTCOME = (
    Field("effect_state", "effectState", literal("committed", "not_started", "unknown")),
    Field("result", "result", _json),
    Field("error_code", "errorCode", optional(identity)),
)


@dataclass(frozen=True, slots=True)
class Outcome(JsonRecord):
    """What came of a call.

    Attributes:
        effect_state: what is *known* of the effect: ``committed``, ``not_started`` or ``unknown``.
        result: plain JSON for the model, such as ``{"text": [...], "structured": ...}``; of a failure, empty.
        error_code: why it failed; ``None``: it did not.
    """

    _members = _OUTCOME

    effect_state: EffectState
    result: Any = field(default=None, repr=False)
    error_code: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "result", _json(self.result, "$.result"))
        check_fields(self, _OUTCOME)


_RECEIPT = (
    Field("claim", "claim", Claim.from_json),
    Field("outcome", "outcome", Outcome.from_json),
    Field("completed_at_ms", "completedAtMs", integer()),
    Field("expires_at_ms", "expiresAtMs", optional(integer())),
    Field("source", "source", literal("answer", "reconciliation")),
    Field("principal_id", "principalId", optional(identity)),
)


@dataclass(frozen=True, slots=True)
class Receipt(JsonRecord):
    """A call whose effect is known.

    Attributes:
        claim: what was begun.
        outcome: what came of it; its effect is known.
        completed_at_ms: when it was recorded.
        expires_at_ms: from this moment on its key is free again; ``None``: never.
        source: ``answer`` or ``reconciliation``.
        principal_id: who reconciled it; ``None`` otherwise.
    """

    _members = _RECEIPT

    claim: Claim
    outcome: Outcome
    completed_at_ms: int
    expires_at_ms: int | None = None
    source: ReceiptSource = "answer"
    principal_id: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, _RECEIPT)
        if self.outcome.effect_state == "unknown":
            raise InvalidValueError("conflict", "an unknown effect has no receipt", "$.outcome.effectState")

    def over(self, now_ms: int) -> bool:
        """Whether its key is free again."""
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms
