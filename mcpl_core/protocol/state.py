"""State that moves between server and host (SPEC 8, and the state extension: SPEC_NOTES R-ext-1).

Owns: ``state/rollback``, the record that ``tools/call`` results carry, and the extension's ``state/update``
and ``state/get``. Does not own: the tree of checkpoints, and applying a patch.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from .base import WireMessage, WireStruct

__all__ = (
    "StateForm",
    "StateGetParams",
    "StateGetResult",
    "StateRecord",
    "StateRollbackParams",
    "StateRollbackResult",
    "StateUpdateParams",
    "StateUpdateResult",
    "state_form",
)

#: What a record holds: the whole state, a change of it, neither (the server keeps it), or, wrongly, both.
StateForm: TypeAlias = Literal["data", "patch", "opaque", "both"]


def state_form(data: Any, patch: Any) -> StateForm:
    """Which form a record with these members has; ``UNSET`` is absent, ``None`` is a state of null."""
    if data is UNSET:
        return "opaque" if patch is UNSET else "patch"
    return "data" if patch is UNSET else "both"


class StateRecord(WireStruct, frozen=True, kw_only=True):
    """The ``state`` member of a ``tools/call`` result (SPEC 8.2, 8.3).

    Attributes:
        checkpoint: the id of the state that now holds.
        parent: the state before; ``None`` for the first, absent when the server does not say.
        data: the whole state. ``None`` is a state of null, not an absent one.
        patch: the change from ``parent`` (RFC 6902).
    """

    checkpoint: str
    parent: str | None | UnsetType = UNSET
    data: Any = UNSET
    patch: list[dict[str, Any]] | UnsetType = UNSET

    @property
    def form(self) -> StateForm:
        return state_form(self.data, self.patch)


class StateUpdateParams(WireMessage, frozen=True, kw_only=True):
    """A change of state outside of any call (state extension); attributes as ``StateRecord``.

    Attributes:
        parent: required here; ``None`` for the first.
    """

    feature_set: str
    checkpoint: str
    parent: str | None
    data: Any = UNSET
    patch: list[dict[str, Any]] | UnsetType = UNSET

    @property
    def form(self) -> StateForm:
        return state_form(self.data, self.patch)


class StateUpdateResult(WireMessage, frozen=True, kw_only=True):
    """Whether the host recorded it (state extension); a refusal is a result, not an error."""

    accepted: bool
    reason: str | UnsetType = UNSET


class StateGetParams(WireMessage, frozen=True, kw_only=True):
    """Ask for the state that the host keeps for a feature set (state extension)."""

    feature_set: str


class StateGetResult(WireMessage, frozen=True, kw_only=True):
    """The current state (state extension). ``checkpoint`` is ``None`` when nothing was recorded yet."""

    checkpoint: str | None
    data: Any = UNSET


class StateRollbackParams(WireMessage, frozen=True, kw_only=True):
    """Go back to a checkpoint (SPEC 8.5)."""

    feature_set: str
    checkpoint: str


class StateRollbackResult(WireMessage, frozen=True, kw_only=True):
    """How far that went (SPEC 8.6).

    Attributes:
        reason: why it failed.
        data: the whole state at ``checkpoint`` (state extension).
    """

    checkpoint: str
    success: bool
    reason: str | UnsetType = UNSET
    data: Any = UNSET
