"""Feature sets as a server declares them, and the advertisement that follows (SPEC 5.1, 6.1, 6.2, 8.1, 16.4).

Owns: ``FeatureSet``, and what one declaration adds to a manifest. Does not own: the manifest in force and its digest
(``manifest``), and what a host grants.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..capabilities import VOCABULARY, Vocabulary, validate_uses
from ..errors import LocalProtocolError
from ..manifest import is_identifier
from ..ontology import parse_ontology

__all__ = ("FeatureSet", "advertise", "declare", "name_of")

_NO_PROBLEM = "deprecated_alias"


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """A feature set, as ``McplServer.feature_set`` declares it.

    Attributes:
        name: dot-separated (SPEC 6.3).
        description: for people.
        uses: the capability paths it uses (SPEC 6.2).
        rollback: its tools keep state that can go back (SPEC 8.1).
        tag_ontology: the tags its events carry (SPEC 16.4), as the JSON object; ``None``: not declared.
    """

    name: str
    description: str
    uses: tuple[str, ...]
    rollback: bool = False
    tag_ontology: dict[str, Any] | None = None

    def declaration(self) -> dict[str, Any]:
        """The entry in the manifest."""
        entry: dict[str, Any] = {"description": self.description, "uses": list(self.uses)}
        if self.rollback:
            entry["rollback"] = True
        if self.tag_ontology is not None:
            entry["tagOntology"] = self.tag_ontology
        return entry


def name_of(feature_set: FeatureSet | str) -> str:
    """The name, of either."""
    return feature_set.name if isinstance(feature_set, FeatureSet) else feature_set


def declare(manifest: dict[str, Any], feature_set: FeatureSet, vocabulary: Vocabulary = VOCABULARY) -> None:
    """Adds a feature set, and the advertisement of what it uses, to a manifest.

    Raises:
        LocalProtocolError: a host would find the declaration invalid and disable the set, or the name is taken.
    """
    name = feature_set.name
    if not is_identifier(name):
        raise LocalProtocolError(f"{name!r} is no name for a feature set: only A-Z a-z 0-9 . _ : * -")
    check = validate_uses(list(feature_set.uses), vocabulary)
    if not check.valid:
        unknown = ", ".join(map(repr, check.unrecognized)) or "nothing"
        raise LocalProtocolError(f"feature set {name}: uses must name capability paths, not {unknown}")
    if feature_set.tag_ontology is not None:
        problems = [p for p in parse_ontology(feature_set.tag_ontology).problems if p.code != _NO_PROBLEM]
        if problems:
            raise LocalProtocolError(f"feature set {name}: tag ontology at {problems[0].path}: {problems[0].detail}")
    declared = manifest.setdefault("featureSets", {})
    if not isinstance(declared, dict) or name in declared:
        raise LocalProtocolError(f"feature set {name} is declared already, or cannot be")
    declared[name] = feature_set.declaration()
    advertise(manifest, feature_set.uses, vocabulary)


def advertise(manifest: dict[str, Any], paths: Iterable[str], vocabulary: Vocabulary = VOCABULARY) -> None:
    """Adds to a manifest what advertises these paths (SPEC 5.1); what is advertised already stays as it is.

    A path that MCP's own object advertises (``tools``) adds nothing here.

    Raises:
        LocalProtocolError: something is no capability path.
    """
    rows = {row.path: row for row in vocabulary.capabilities}
    for path in paths:
        if path not in rows:
            raise LocalProtocolError(f"{path!r} is no capability path")
        if not rows[path].outer and path not in vocabulary.advertised(manifest):
            _advertise(manifest, path, any(other.startswith(path + ".") for other in rows))


def _advertise(node: dict[str, Any], path: str, has_inner: bool) -> None:
    *parents, leaf = path.split(".")
    for name in parents:
        below = node.get(name)
        if not isinstance(below, dict):
            below = node[name] = {}
        node = below
    # True stands for every leaf beneath: where there are some, an object advertises the path alone.
    node[leaf] = {} if has_inner else True
