"""``featureSets/update`` and its receipt; the declaration of a feature set (SPEC 5.3, 6.2, 6.7).

Owns: the shapes, and that a refusal names its consequence. Does not own: what an update does to a grant
(``grants``), making and judging receipts (``receipts``), and whether a declaration is valid
(``capabilities.validate_uses``).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from ..errors import InvalidValueError
from .base import WireMessage, WireStruct

__all__ = (
    "FeatureSetDeclaration",
    "FeatureSetsUpdateNotice",
    "FeatureSetsUpdateParams",
    "FeatureSetsUpdateResult",
    "UnavailableFeatureEntry",
)


class FeatureSetDeclaration(WireStruct, frozen=True, kw_only=True):
    """One member of the manifest's ``featureSets``; its name is the key there (SPEC 6.2, 8.1, 16.4).

    Attributes:
        uses: capability paths. Kept as received, since one bad declaration disables its own set and nothing
            else; ``capabilities.validate_uses`` judges it.
        rollback: whether ``state/rollback`` is offered.
        tag_ontology: a hint catalogue, as received.
    """

    description: str | UnsetType = UNSET
    uses: Any = UNSET
    rollback: bool | UnsetType = UNSET
    tag_ontology: Any = UNSET


class FeatureSetsUpdateParams(WireMessage, frozen=True, kw_only=True):
    """A policy, sent as a Request (SPEC 5.3).

    Attributes:
        effective_capabilities: the grant. Absent: nothing is granted.
        denied_capabilities: diagnostic, without a part in any decision (SPEC 5.4).
        enabled: the only declared sets to be enabled. Absent: no set is excluded by name.
        disabled: declared sets to be disabled.
    """

    effective_capabilities: list[str] | UnsetType = UNSET
    denied_capabilities: list[str] | UnsetType = UNSET
    enabled: list[str] | UnsetType = UNSET
    disabled: list[str] | UnsetType = UNSET


class FeatureSetsUpdateNotice(WireMessage, frozen=True, kw_only=True):
    """A policy, sent as a Notification: only a well-formed ``disabled`` of it counts (SPEC 6.7).

    The members are kept as received, so that what does not count cannot spoil what does.
    """

    effective_capabilities: Any = UNSET
    denied_capabilities: Any = UNSET
    enabled: Any = UNSET
    disabled: Any = UNSET


class UnavailableFeatureEntry(WireStruct, frozen=True, kw_only=True):
    """One degraded feature set in a receipt (SPEC 6.7).

    Attributes:
        effect: what follows for the set, such as ``disabled``.
        reason: ``invalid_uses`` when the declaration itself is at fault.
    """

    feature_set: str
    effect: str
    missing_capabilities: list[str] | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class FeatureSetsUpdateResult(WireMessage, frozen=True, kw_only=True):
    """A degradation receipt: what the server will do, never what it is entitled to (SPEC 6.7).

    Attributes:
        accepted: whether it goes on as MCPL server.
        mode: ``degraded`` when something is unavailable, otherwise left out.
        notes: for people.
        fallback: what follows from a refusal; required then, without a meaning otherwise.

    Raises:
        InvalidValueError: ``accepted`` is false and there is no ``fallback`` (``missing``).
    """

    accepted: bool
    mode: str | UnsetType = UNSET
    unavailable_features: list[UnavailableFeatureEntry] | UnsetType = UNSET
    notes: list[Any] | UnsetType = UNSET
    fallback: Literal["mcp-only", "close"] | UnsetType = UNSET
    missing_capabilities: list[str] | UnsetType = UNSET
    reason: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not self.accepted and self.fallback is UNSET:
            raise InvalidValueError("missing", "a refusal names its fallback", "$.fallback")
