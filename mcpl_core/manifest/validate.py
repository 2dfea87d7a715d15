"""Reading a received manifest so that what is wrong in it costs as little as possible (SPEC 6.4, 17.5).

Owns: the check of each part, and what is left when a part fails. Does not own: the comparison with another
manifest (``diff``, ``impacts``), or what a host does after many manifests that it could not read.

A manifest that is an object can always be used: what it does not advertise is not there, and a declaration
that fails is off. So each removal shows, whatever else is wrong. Only a root of another type says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mcpl_core.capabilities import VOCABULARY, UsesCheck, Vocabulary, validate_uses
from mcpl_core.errors import InvalidValueError
from mcpl_core.ontology import TagOntology, parse_ontology
from mcpl_core.trees import at_key, json_object

from .digest import is_manifest_revision, manifest_digest, ontology_digest

__all__ = ("ManifestProblem", "ManifestReading", "validate_manifest")


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    """One thing that is wrong with a manifest.

    Attributes:
        code: ``version``, ``revision_form``, ``revision_mismatch`` (a defect of the server, no reason to reject
            anything), ``capability_type``, ``feature_sets_type``, ``feature_set_type``, ``description``,
            ``invalid_uses``; what the digest refuses (``identifier_charset``, ``non_finite_number``,
            ``not_json``); or a code of ``ontology.OntologyProblem``.
        path: where, ``$`` being the manifest.
        detail: what is wrong there.
    """

    code: str
    path: str
    detail: str


@dataclass(frozen=True, slots=True)
class ManifestReading:
    """What ``validate_manifest`` took and what it left.

    Attributes:
        manifest: the tree as received, and no copy of it.
        digest: its revision, computed here; ``None`` when the digest refuses it.
        capabilities: the paths that it advertises, ``tools`` never among them.
        feature_sets: the ``featureSets`` member, empty when it is no object; for ``derive_feature_sets``.
        uses: the check of each set's ``uses``.
        ontologies: what could be read of each ``tagOntology``, by feature set.
        ontology_digests: the digest of each, for ``Acceptances``.
        problems: worth a diagnostic each.
    """

    manifest: dict[str, Any]
    digest: str | None
    capabilities: frozenset[str]
    feature_sets: dict[str, Any]
    uses: Mapping[str, UsesCheck]
    ontologies: Mapping[str, TagOntology]
    ontology_digests: Mapping[str, str]
    problems: tuple[ManifestProblem, ...] = ()

    @property
    def invalid_feature_sets(self) -> tuple[str, ...]:
        """The sets whose ``uses`` fails, in order of declaration. They are off, reason ``invalid_uses``."""
        return tuple(name for name, check in self.uses.items() if not check.valid)


def validate_manifest(manifest: Any, vocabulary: Vocabulary = VOCABULARY) -> ManifestReading:
    """Read a manifest (the ``experimental.mcpl`` object), at ``initialize`` or after a fetch.

    Args:
        manifest: the JSON value as received.
        vocabulary: the capability paths that are known.

    Raises:
        InvalidValueError: it is no object (``manifest_not_object``). A host has then learned nothing and keeps
            the manifest that it has (SPEC 17.5).
    """
    if not isinstance(manifest, dict):
        raise InvalidValueError("manifest_not_object", "a manifest is a JSON object")
    problems = [*_head_problems(manifest), *_capability_problems(manifest, vocabulary)]
    digest = None
    try:
        digest = manifest_digest(manifest)
    except InvalidValueError as error:
        problems.append(ManifestProblem(error.code, error.path, error.detail))
    else:
        problems += _revision_problems(manifest, digest)
    reader = _FeatureSetReader(vocabulary, problems, {}, {}, {})
    feature_sets = reader.read(manifest)
    return ManifestReading(
        manifest,
        digest,
        vocabulary.advertised(manifest),
        feature_sets,
        reader.uses,
        reader.ontologies,
        reader.digests,
        tuple(problems),
    )


def _head_problems(manifest: dict[str, Any]) -> Iterator[ManifestProblem]:
    if not isinstance(manifest.get("version"), str):
        yield ManifestProblem("version", "$.version", "expected a string")
    if "revision" in manifest and not is_manifest_revision(manifest["revision"]):
        yield ManifestProblem("revision_form", "$.revision", "expected sha256: and 43 characters of base64url")


def _revision_problems(manifest: dict[str, Any], digest: str) -> Iterator[ManifestProblem]:
    announced = manifest.get("revision")
    if is_manifest_revision(announced) and announced != digest:
        yield ManifestProblem("revision_mismatch", "$.revision", f"the digest of this manifest is {digest}")


def _capability_problems(manifest: dict[str, Any], vocabulary: Vocabulary) -> list[ManifestProblem]:
    """What stands at a capability or above one and is neither a boolean nor an object: it advertises nothing."""
    found: dict[str, ManifestProblem] = {}
    for row in vocabulary.capabilities:
        node, path = manifest, "$"
        for segment in () if row.outer else row.path.split("."):
            if segment not in node:
                break
            node, path = node[segment], at_key(path, segment)
            if not isinstance(node, dict):
                if not isinstance(node, bool):
                    found[path] = ManifestProblem("capability_type", path, "expected a boolean or an object")
                break
    return list(found.values())


@dataclass(slots=True)
class _FeatureSetReader:
    vocabulary: Vocabulary
    problems: list[ManifestProblem]
    uses: dict[str, UsesCheck]
    ontologies: dict[str, TagOntology]
    digests: dict[str, str]

    def note(self, code: str, path: str, detail: str) -> None:
        self.problems.append(ManifestProblem(code, path, detail))

    def read(self, manifest: dict[str, Any]) -> dict[str, Any]:
        try:
            declared = json_object(manifest.get("featureSets", {}))
        except InvalidValueError:
            self.note("feature_sets_type", "$.featureSets", "expected an object keyed by name")
            return {}
        for name, entry in declared.items():
            self._feature_set(name, entry, at_key("$.featureSets", name))
        return declared

    def _feature_set(self, name: str, entry: Any, path: str) -> None:
        if not isinstance(entry, dict):
            self.note("feature_set_type", path, "expected an object")
            entry = {}
        elif not isinstance(entry.get("description"), str):
            self.note("description", f"{path}.description", "expected a string")
        self.uses[name] = check = validate_uses(entry.get("uses"), self.vocabulary)
        if not check.valid:
            self.note("invalid_uses", f"{path}.uses", "expected capability paths, at least one")
        if "tagOntology" in entry:
            self._ontology(name, entry["tagOntology"], f"{path}.tagOntology")

    def _ontology(self, name: str, value: Any, path: str) -> None:
        reading = parse_ontology(value)
        self.ontologies[name] = reading.ontology
        for problem in reading.problems:
            self.note(problem.code, path + problem.path.removeprefix("$"), problem.detail)
        try:
            self.digests[name] = ontology_digest(value)
        except InvalidValueError:
            pass  # the digest of the manifest met it too and is reported; no acceptance can be bound to it
