"""What differs between two manifests: their domains, and their members (SPEC 17.1, 17.3).

Owns: the comparison of two trees as received. Does not own: what a difference leads to (``impacts``), or
telling anybody (``tracker`` for a server).

Compared is what the digest sees: set-valued arrays in any order, ``true`` unlike ``1``, ``1`` like ``1.0``. A
member that is absent, one that is null and one that is empty are three. Identifiers are not checked, and
``version`` and ``revision`` belong to no domain, so that two manifests with one revision may still differ and
two with different ones may differ in nothing that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mcpl_core.capabilities import NOT_CAPABILITIES
from mcpl_core.protocol.manifest import CHANGE_DOMAINS, ChangeDomain
from mcpl_core.trees import Place, at_place

from .digest import normalized_manifest
from .jcs import canonical_bytes

__all__ = ("DomainTexts", "MemberChange", "changed_domains", "differing_domains", "domain_texts", "member_changes")

#: The canonical text of each domain; empty for a domain whose carrier is absent.
DomainTexts = Mapping[ChangeDomain, bytes]


def changed_domains(previous: Any, current: Any) -> tuple[ChangeDomain, ...]:
    """The domains in which two manifests differ, in the order of SPEC 17.1.

    Args:
        previous: the manifest before; ``None`` when it is not known, and then every domain may have changed.
        current: the manifest now.

    Raises:
        InvalidValueError: one is no object (``manifest_not_object``), or no JSON (``non_finite_number``,
            ``not_json``).
    """
    return differing_domains(None if previous is None else domain_texts(previous), domain_texts(current))


def differing_domains(previous: DomainTexts | None, current: DomainTexts) -> tuple[ChangeDomain, ...]:
    """``changed_domains`` of two manifests that are at hand as ``domain_texts``."""
    if previous is None:
        return CHANGE_DOMAINS
    return tuple(domain for domain in CHANGE_DOMAINS if previous[domain] != current[domain])


def domain_texts(manifest: Any) -> DomainTexts:
    """The canonical text of each domain: equal texts mean no change in that domain.

    Raises:
        InvalidValueError: as for ``changed_domains``.
    """
    root = normalized_manifest(manifest)
    capabilities = {name: value for name, value in root.items() if name not in NOT_CAPABILITIES}
    features, ontologies = b"", b""
    if "featureSets" in root:
        declared = root["featureSets"]
        features = canonical_bytes(_without_ontologies(declared))
        # The carrier of every ontology: its appearing and its change of type count in this domain too.
        ontologies = canonical_bytes(_ontologies(declared))
    return {
        "capabilities": canonical_bytes(capabilities),
        "featureSets": features,
        "tagOntology": ontologies,
    }


def _without_ontologies(declared: Any) -> Any:
    if not isinstance(declared, dict):
        return declared
    return {
        name: {key: value for key, value in entry.items() if key != "tagOntology"} if isinstance(entry, dict) else entry
        for name, entry in declared.items()
    }


def _ontologies(declared: Any) -> Any:
    if not isinstance(declared, dict):
        return declared
    return {
        name: entry["tagOntology"]
        for name, entry in declared.items()
        if isinstance(entry, dict) and "tagOntology" in entry
    }


@dataclass(frozen=True, slots=True)
class MemberChange:
    """One member that differs.

    Attributes:
        kind: what became of it.
        path: where, as ``$.a["b.c"]``. An array counts as a whole.
    """

    kind: Literal["added", "removed", "changed"]
    path: str


def member_changes(previous: Any, current: Any) -> tuple[MemberChange, ...]:
    """The outermost members that were added or removed, and the innermost ones that changed, sorted by path.

    ``version`` is a member like any other here; ``revision`` is not looked at.

    Raises:
        InvalidValueError: as for ``changed_domains``; a member that has no counterpart is not looked into.
    """
    changes: list[MemberChange] = []
    pairs: list[tuple[Place, Any, Any]] = [(None, normalized_manifest(previous), normalized_manifest(current))]
    for place, before, after in pairs:
        for name in before.keys() | after.keys():
            where = (place, name)
            if name not in after:
                changes.append(MemberChange("removed", at_place(where)))
            elif name not in before:
                changes.append(MemberChange("added", at_place(where)))
            elif isinstance(before[name], dict) and isinstance(after[name], dict):
                pairs.append((where, before[name], after[name]))
            elif canonical_bytes(before[name]) != canonical_bytes(after[name]):
                changes.append(MemberChange("changed", at_place(where)))
    return tuple(sorted(changes, key=lambda change: change.path))
