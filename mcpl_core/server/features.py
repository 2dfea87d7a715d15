"""Feature sets as a server declares them, and the advertisement that follows (SPEC 5.1, 6.1, 6.2, 8.1, 16.4).

Owns: ``FeatureSet`` and the manifest tree built from declarations. Does not own: validation and digest (``manifest``),
and what a host grants.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..capabilities import VOCABULARY, Vocabulary, validate_uses
from ..errors import LocalProtocolError
from ..manifest import is_identifier
from ..protocol import MCPL_VERSION

__all__ = ("FeatureSet", "advertisement", "build_manifest", "name_of")


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """A declared feature set.

    Attributes:
        name: dot-separated (SPEC 6.3).
        description: for people.
        uses: the capability paths it uses (SPEC 6.2).
        rollback: its tools keep state that can go back (SPEC 8.1).
        tag_ontology: the tags its events carry (SPEC 16.4), as the JSON object; ``None``: not declared.

    Raises:
        LocalProtocolError: the name has a character that no identifier may have, or ``uses`` is empty or names
            something that is no capability path. A host would disable the set; here it is found at once.
    """

    name: str
    description: str
    uses: tuple[str, ...]
    rollback: bool = False
    tag_ontology: dict[str, Any] | None = None
    vocabulary: Vocabulary = VOCABULARY

    def __post_init__(self) -> None:
        check = validate_uses(list(self.uses), self.vocabulary)
        if not check.valid:
            unknown = ", ".join(map(repr, check.unrecognized)) or "nothing"
            raise LocalProtocolError(f"feature set {self.name}: uses must name capability paths, not {unknown}")
        if not is_identifier(self.name):
            raise LocalProtocolError(f"{self.name!r} is no name for a feature set: only A-Z a-z 0-9 . _ : * -")

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


def advertisement(paths: Iterable[str], vocabulary: Vocabulary = VOCABULARY) -> dict[str, Any]:
    """The members of a manifest that advertise exactly these paths (SPEC 5.1).

    ``true`` means every leaf beneath, so a path that has others beneath it becomes an object.
    """
    wanted = frozenset(paths)
    tree: dict[str, Any] = {}
    for path in vocabulary:
        inner = any(other.startswith(path + ".") for other in vocabulary)
        if path not in wanted or path == "tools":
            continue
        *parents, leaf = path.split(".")
        node = tree
        for name in parents:
            node = node.setdefault(name, {})
        if inner:
            node.setdefault(leaf, {})
        else:
            node[leaf] = True
    return tree


def build_manifest(
    feature_sets: Iterable[FeatureSet],
    capabilities: Iterable[str] = (),
    extra: dict[str, Any] | None = None,
    vocabulary: Vocabulary = VOCABULARY,
) -> dict[str, Any]:
    """The ``experimental.mcpl`` object, without its revision (SPEC 17.1).

    Args:
        feature_sets: what is declared; the paths that they use are advertised.
        capabilities: further paths to advertise.
        extra: further members, as they are to stand there.
        vocabulary: the paths that are known.
    """
    sets = list(feature_sets)
    paths = {path for feature_set in sets for path in feature_set.uses} | set(capabilities)
    manifest = {"version": MCPL_VERSION, **advertisement(paths, vocabulary), **(extra or {})}
    if sets:
        manifest["featureSets"] = {feature_set.name: feature_set.declaration() for feature_set in sets}
    return manifest
