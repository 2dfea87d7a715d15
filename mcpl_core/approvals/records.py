"""Intents, decisions and approval records: immutable values, read strictly, and their digests.

Owns: the shapes, what must agree within one record, and the digests ``purra.approval-intent/v1`` and
``purra.approval-key/v1`` (over ``purra.json-identity/v1``). Does not own: when a record changes (``gateway``), and
authority: a record, like a digest, proves equality only and permits nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from ..catalog.bounded import copy_bounded
from ..catalog.identity import IDENTITY_BUDGET, identity_digest
from ..errors import InvalidValueError
from .fields import (
    Field,
    JsonRecord,
    check_fields,
    frozen_object,
    identity,
    integer,
    literal,
    plain_value,
    read_fields,
    write_fields,
)
from .statuses import STATUSES, Status

__all__ = (
    "INTENT_PROFILE",
    "KEY_PROFILE",
    "ApprovalIntent",
    "ApprovalRecord",
    "Decision",
    "DecisionCommand",
    "DecisionReceipt",
    "Effect",
    "Verdict",
    "approval_id_of",
    "arguments_digest",
)

INTENT_PROFILE: Final = "purra.approval-intent/v1"
KEY_PROFILE: Final = "purra.approval-key/v1"

Effect: TypeAlias = Literal["write", "destructive"]
Verdict: TypeAlias = Literal["approve", "reject"]

_OUTCOMES: Final[dict[Verdict, Status]] = {"approve": "approved", "reject": "rejected"}


def _plain(value: Any) -> Any:
    return copy_bounded(value, IDENTITY_BUDGET)


def approval_id_of(run_id: str, tool_call_id: str) -> str:
    """The id of the approval of one call of one run: asking twice is asking for the same."""
    return identity_digest({"profile": KEY_PROFILE, "runId": run_id, "toolCallId": tool_call_id})


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """The identity digest of a call's arguments."""
    return identity_digest(arguments)


_INTENT = (
    Field("schema_version", "schemaVersion", literal(1)),
    Field("run_id", "runId", identity),
    Field("root_run_id", "rootRunId", identity),
    Field("tool_call_id", "toolCallId", identity),
    Field("tool_name", "toolName", identity),
    Field("arguments", "arguments", frozen_object, _plain),
    Field("preset_fingerprint", "presetFingerprint", identity),
    Field("binding_id", "bindingId", identity),
    Field("binding_revision", "bindingRevision", identity),
    Field("scope_id", "scopeId", identity),
    Field("scope_revision", "scopeRevision", identity),
    Field("effect", "effect", literal("write", "destructive")),
)


@dataclass(frozen=True, slots=True)
class ApprovalIntent(JsonRecord):
    """What is to be approved: one exact call, under one exact binding, in one configuration of one run.

    Attributes:
        run_id: the run that makes the call.
        root_run_id: the run that it belongs to; itself when it stands alone.
        tool_call_id: the call.
        tool_name: the tool's local name.
        arguments: the validated arguments; immutable, ``1.0`` is ``1``.
        preset_fingerprint: digest of the run's configuration.
        binding_id: the host's binding of the tool.
        binding_revision: the digest of the whole write catalog that the binding is part of.
        scope_id: the scope that is checked.
        scope_revision: its revision.
        effect: ``write`` or ``destructive``.
        schema_version: 1.

    Raises:
        InvalidValueError: a member is not what it must be, or the arguments have no identity digest.
    """

    _members = _INTENT

    run_id: str
    root_run_id: str
    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(repr=False)
    preset_fingerprint: str
    binding_id: str
    binding_revision: str
    scope_id: str
    scope_revision: str
    effect: Effect
    schema_version: Literal[1] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", frozen_object(self.arguments, "$.arguments"))
        check_fields(self, _INTENT)

    @property
    def digest(self) -> str:
        """The digest that a decision names."""
        return identity_digest({"profile": INTENT_PROFILE, "intent": self.to_json()})


_COMMAND = (
    Field("approval_id", "approvalId", identity),
    Field("expected_revision", "expectedRevision", integer(1)),
    Field("intent_digest", "intentDigest", identity),
    Field("command_key", "commandKey", identity),
    Field("decision", "decision", literal("approve", "reject")),
)


@dataclass(frozen=True, slots=True)
class DecisionCommand(JsonRecord):
    """A decision as an approver gives it.

    Attributes:
        approval_id: what is decided.
        expected_revision: the revision that was looked at.
        intent_digest: the digest that was looked at.
        command_key: names this decision: giving it again changes nothing.
        decision: ``approve`` or ``reject``.

    Raises:
        InvalidValueError: a member is not what it must be.
    """

    _members = _COMMAND

    approval_id: str
    expected_revision: int
    intent_digest: str
    command_key: str
    decision: Verdict

    def __post_init__(self) -> None:
        check_fields(self, _COMMAND)


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that was taken: the audit of a record.

    Attributes:
        command: what was asked.
        principal_id: who asked, as the host authenticated them.
        decided_at_ms: when, in milliseconds since the epoch.
        revision: the revision that it made.
    """

    command: DecisionCommand
    principal_id: str
    decided_at_ms: int
    revision: int

    def __post_init__(self) -> None:
        check_fields(self, _DECISION)

    def to_json(self) -> dict[str, Any]:
        """The plain JSON object."""
        return write_fields(self, _DECISION)


_DECISION = (
    Field("command", "command", DecisionCommand.from_json),
    Field("principal_id", "principalId", identity),
    Field("decided_at_ms", "decidedAtMs", integer()),
    Field("revision", "revision", integer(2)),
)


def _read_decision(value: Any, path: str) -> Decision | None:
    return None if value == {} else Decision(**read_fields(value, _DECISION, path))


@dataclass(frozen=True, slots=True)
class DecisionReceipt:
    """What an approver is told, the same each time the same command is given.

    Attributes:
        approval_id: what was decided.
        intent_digest: its digest.
        command_key: the command's key.
        status: ``approved`` or ``rejected``.
        revision: the revision that the decision made.
        decided_at_ms: when.
    """

    approval_id: str
    intent_digest: str
    command_key: str
    status: Status
    revision: int
    decided_at_ms: int

    def to_json(self) -> dict[str, Any]:
        """The plain JSON object."""
        return {
            "approvalId": self.approval_id,
            "intentDigest": self.intent_digest,
            "commandKey": self.command_key,
            "status": self.status,
            "revision": self.revision,
            "decidedAtMs": self.decided_at_ms,
        }


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """An approval as it is kept.

    Attributes:
        approval_id: ``approval_id_of`` the intent's run and call.
        intent: what is to be approved.
        revision: from 1, one more with each change.
        status: see ``statuses``.
        created_at_ms: milliseconds since the epoch.
        expires_at_ms: from this moment on it is over.
        decision: the decision; ``None`` when there was none. In JSON ``decisionAudit``, empty when there was none.

    Raises:
        InvalidValueError: a member is not what it must be (or ``conflict``: members contradict each other).
    """

    approval_id: str
    intent: ApprovalIntent
    revision: int
    status: Status
    created_at_ms: int
    expires_at_ms: int
    decision: Decision | None = None

    def __post_init__(self) -> None:
        check_fields(self, _RECORD)
        if self.approval_id != approval_id_of(self.intent.run_id, self.intent.tool_call_id):
            raise InvalidValueError("conflict", "the id is that of another call", "$.approvalId")
        if self.expires_at_ms <= self.created_at_ms:
            raise InvalidValueError("conflict", "it was over before it was made", "$.expiresAtMs")
        if self.decision is None:
            if self.status in _OUTCOMES.values():
                raise InvalidValueError("conflict", "nobody decided that", "$.status")
        elif not self._fits(self.decision):
            raise InvalidValueError("conflict", "the decision is about something else", "$.decisionAudit")

    def _fits(self, decision: Decision) -> bool:
        command = decision.command
        outcome = _OUTCOMES[command.decision]
        return (
            command.approval_id == self.approval_id
            and command.intent_digest == self.intent.digest
            and command.expected_revision + 1 == decision.revision <= self.revision
            and self.created_at_ms <= decision.decided_at_ms < self.expires_at_ms
            # What was approved may have expired, or have been canceled, since.
            and (self.status == outcome or (outcome == "approved" and self.status in {"expired", "canceled"}))
        )

    @property
    def receipt(self) -> DecisionReceipt | None:
        """What the approver is told; ``None`` before a decision."""
        if self.decision is None:
            return None
        command = self.decision.command
        return DecisionReceipt(
            self.approval_id,
            command.intent_digest,
            command.command_key,
            _OUTCOMES[command.decision],
            self.decision.revision,
            self.decision.decided_at_ms,
        )

    def command(self, decision: Verdict, command_key: str) -> DecisionCommand:
        """The decision of somebody who looked at this revision.

        Args:
            decision: ``approve`` or ``reject``.
            command_key: names the decision.

        Raises:
            InvalidValueError: the decision or the key is none.
        """
        return DecisionCommand(self.approval_id, self.revision, self.intent.digest, command_key, decision)

    def to_json(self) -> dict[str, Any]:
        """The plain JSON object, with the digest of the intent."""
        return {"intentDigest": self.intent.digest} | write_fields(self, _RECORD)

    @classmethod
    def from_json(cls, value: Any, path: str = "$") -> ApprovalRecord:
        """Reads one, and computes the digest of its intent again.

        Raises:
            InvalidValueError: it is none, contradicts itself, or its digest is another one.
        """
        members = read_fields(value, (_DIGEST, *_RECORD), path)
        digest = members.pop("intent_digest")
        record = cls(**members)
        if record.intent.digest != digest:
            raise InvalidValueError("conflict", "the intent has another digest", "$.intentDigest")
        return record


_DIGEST = Field("intent_digest", "intentDigest", identity)
_RECORD = (
    Field("approval_id", "approvalId", identity),
    Field("intent", "intent", ApprovalIntent.from_json),
    Field("revision", "revision", integer(1)),
    Field("status", "status", literal(*STATUSES)),
    Field("created_at_ms", "createdAtMs", integer()),
    Field("expires_at_ms", "expiresAtMs", integer(1)),
    Field(
        "decision",
        "decisionAudit",
        _read_decision,
        lambda decision: {} if decision is None else plain_value(decision),
    ),
)
