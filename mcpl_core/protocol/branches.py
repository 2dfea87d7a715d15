"""The host's branches of a conversation, as a server sees and proposes them (SPEC_NOTES R-ext-1).

Owns: the shapes of all ``branches/*`` methods. Does not own: branches; they are the host's, which may refuse
everything.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from .base import Integer, WireMessage, WireStruct, whole_numbers

__all__ = (
    "BranchEvent",
    "BranchInfo",
    "BranchesChangedParams",
    "BranchesCreateParams",
    "BranchesCreateResult",
    "BranchesCurrentParams",
    "BranchesCurrentResult",
    "BranchesDeleteParams",
    "BranchesDeleteResult",
    "BranchesListParams",
    "BranchesListResult",
    "BranchesSwitchParams",
    "BranchesSwitchResult",
)

BranchEvent: TypeAlias = Literal["created", "switched", "deleted"]


class BranchInfo(WireStruct, frozen=True, kw_only=True):
    """One branch.

    Attributes:
        head: the sequence number of its last entry.
        parent: the branch it came from, ``None`` for the root.
        branch_point: where it left its parent, as a sequence number.
    """

    name: str
    head: Integer
    is_current: bool
    parent: str | None | UnsetType = UNSET
    branch_point: Integer | None | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "head", "branch_point")


class BranchesListParams(WireMessage, frozen=True, kw_only=True):
    """Ask for all branches."""

    feature_set: str


class BranchesListResult(WireMessage, frozen=True, kw_only=True):
    """All branches."""

    branches: list[BranchInfo]


class BranchesCurrentParams(WireMessage, frozen=True, kw_only=True):
    """Ask for the current branch."""

    feature_set: str


class BranchesCurrentResult(WireMessage, frozen=True, kw_only=True):
    """The current branch."""

    name: str
    head: Integer

    def __post_init__(self) -> None:
        whole_numbers(self, "head")


class BranchesCreateParams(WireMessage, frozen=True, kw_only=True):
    """Propose a branch.

    Attributes:
        source: ``from`` on the wire: the branch to leave, the current one when absent.
        at_checkpoint: where to leave it, its head when absent.
    """

    feature_set: str
    name: str
    source: str | UnsetType = msgspec.field(name="from", default=UNSET)
    at_checkpoint: str | UnsetType = UNSET


class BranchesCreateResult(WireMessage, frozen=True, kw_only=True):
    """What became of it. The host may have chosen another ``name``; some hosts say only ``accepted``."""

    accepted: bool
    name: str | UnsetType = UNSET
    head: Integer | UnsetType = UNSET
    reason: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "head")


class BranchesSwitchParams(WireMessage, frozen=True, kw_only=True):
    """Propose another current branch."""

    feature_set: str
    name: str


class BranchesSwitchResult(WireMessage, frozen=True, kw_only=True):
    """What became of it; ``previous`` is the branch that was current."""

    accepted: bool
    name: str | UnsetType = UNSET
    head: Integer | UnsetType = UNSET
    previous: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "head")


class BranchesDeleteParams(WireMessage, frozen=True, kw_only=True):
    """Propose that a branch goes."""

    feature_set: str
    name: str


class BranchesDeleteResult(WireMessage, frozen=True, kw_only=True):
    """What became of it."""

    accepted: bool
    name: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class BranchesChangedParams(WireMessage, frozen=True, kw_only=True):
    """A branch came, went, or became current, whoever did it.

    Attributes:
        branch: the branch in question.
        previous: which one was current, when one was switched to.
        head: of the created or current branch.
        parent: of the created one.
    """

    event: BranchEvent
    branch: str
    previous: str | UnsetType = UNSET
    head: Integer | UnsetType = UNSET
    parent: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "head")
