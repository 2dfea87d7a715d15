"""Runs as far as the gate needs them: who works on one, until when, in which configuration, and where it stands.

Owns: the records ``Run``, ``ToolCall`` and ``Checkpoint``, the proof ``RunLease``, and the checks on them. Does not
own: the operations that change a run (``ledger``), and anything else that a host knows of its runs.

Times are milliseconds since the epoch and come from the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

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
    optional,
    plain_value,
)

__all__ = ("RUN_STATUSES", "Checkpoint", "RunLease", "Run", "RunStatus", "ToolCall")

RunStatus: TypeAlias = Literal["running", "completed", "failed", "canceled"]

RUN_STATUSES: Final[tuple[RunStatus, ...]] = get_args(RunStatus)


@dataclass(frozen=True, slots=True)
class RunLease:
    """The proof that a worker holds a run.

    Attributes:
        run_id: the run.
        owner: the worker.
        epoch: how often the run was taken before, and this time; a later one ends all earlier.
    """

    run_id: str
    owner: str
    epoch: int


_RUN = (
    Field("run_id", "runId", identity),
    Field("root_run_id", "rootRunId", identity),
    Field("principal_id", "principalId", identity),
    Field("preset_fingerprint", "presetFingerprint", identity),
    Field("status", "status", literal(*RUN_STATUSES)),
    Field("deadline_ms", "deadlineMs", optional(integer())),
    Field("cancel_requested_ms", "cancelRequestedMs", optional(integer())),
    Field("lease_owner", "leaseOwner", optional(identity)),
    Field("lease_epoch", "leaseEpoch", integer()),
    Field("lease_expires_ms", "leaseExpiresMs", optional(integer())),
    Field("open_invocation", "openInvocation", optional(identity)),
    Field("settled_invocation", "settledInvocation", optional(identity)),
)


@dataclass(frozen=True, slots=True)
class Run(JsonRecord):
    """A run.

    Attributes:
        run_id: its id.
        root_run_id: the run that it belongs to; itself when it stands alone.
        principal_id: on whose behalf it acts.
        preset_fingerprint: digest of its configuration.
        status: ``running``, or how it ended.
        deadline_ms: from this moment on nothing is dispatched; ``None``: no deadline.
        cancel_requested_ms: when somebody asked it to end; ``None``: nobody did.
        lease_owner: who works on it; ``None``: nobody.
        lease_epoch: of the last lease; 0: it was never taken.
        lease_expires_ms: from this moment on the lease is void.
        open_invocation: the model invocation whose outcome is not known yet.
        settled_invocation: the last one whose outcome is.
    """

    _members = _RUN

    run_id: str
    root_run_id: str
    principal_id: str
    preset_fingerprint: str
    status: RunStatus = "running"
    deadline_ms: int | None = None
    cancel_requested_ms: int | None = None
    lease_owner: str | None = None
    lease_epoch: int = 0
    lease_expires_ms: int | None = None
    open_invocation: str | None = None
    settled_invocation: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, _RUN)
        if (self.lease_owner is None) != (self.lease_expires_ms is None):
            raise InvalidValueError("conflict", "a lease has an owner and an end", "$.leaseOwner")

    @property
    def over(self) -> bool:
        """Whether it ended, or was asked to."""
        return self.status != "running" or self.cancel_requested_ms is not None

    def idle(self, now_ms: int) -> bool:
        """Whether nobody holds it."""
        return self.lease_expires_ms is None or now_ms >= self.lease_expires_ms

    def held_by(self, lease: RunLease, now_ms: int) -> bool:
        """Whether ``lease`` is good."""
        return (
            lease.run_id == self.run_id
            and lease.owner == self.lease_owner
            and lease.epoch == self.lease_epoch
            and not self.idle(now_ms)
        )

    def settled(self, invocation_id: str) -> bool:
        """Whether the invocation is settled and no other is open."""
        return self.open_invocation is None and self.settled_invocation == invocation_id


_CALL = (
    Field("call_id", "callId", identity),
    Field("tool_name", "toolName", identity),
    Field("arguments", "arguments", frozen_object, lambda value: copy_bounded(value, IDENTITY_BUDGET)),
    Field("idempotency_key", "idempotencyKey", optional(identity)),
)


@dataclass(frozen=True, slots=True)
class ToolCall(JsonRecord):
    """One call that a model asked for.

    Attributes:
        call_id: unique in its run.
        tool_name: the tool's local name.
        arguments: immutable; ``1.0`` is ``1``.
        idempotency_key: names the effect across runs of one principal: a call with the same key, tool and arguments has
            it once. ``None``: the call is its own.
    """

    _members = _CALL

    call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(repr=False)
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", frozen_object(self.arguments, "$.arguments"))
        check_fields(self, _CALL)

    @property
    def digest(self) -> str:
        """The identity digest of the call: all of it."""
        return identity_digest(self.to_json())


def _read_calls(value: Any, path: str) -> tuple[ToolCall, ...]:
    if not isinstance(value, list) or not value:
        raise InvalidValueError("not_array", "expected the calls of a batch", path)
    return tuple(ToolCall.from_json(each, f"{path}[{index}]") for index, each in enumerate(value))


_CHECKPOINT = (
    Field("schema_version", "schemaVersion", literal(1)),
    Field("phase", "phase", literal("tool_ready")),
    Field("run_id", "runId", identity),
    Field("invocation_id", "invocationId", identity),
    Field("calls", "calls", _read_calls, lambda calls: [plain_value(call) for call in calls]),
)


@dataclass(frozen=True, slots=True)
class Checkpoint(JsonRecord):
    """Where a run stands: its model has spoken, and the tools that it asked for are about to be called.

    Attributes:
        run_id: the run.
        invocation_id: the model invocation that asked for them.
        calls: the whole batch, at least one.
        phase: ``tool_ready``.
        schema_version: 1.
    """

    _members = _CHECKPOINT

    run_id: str
    invocation_id: str
    calls: tuple[ToolCall, ...]
    phase: Literal["tool_ready"] = "tool_ready"
    schema_version: Literal[1] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "calls", tuple(self.calls))
        check_fields(self, _CHECKPOINT)
