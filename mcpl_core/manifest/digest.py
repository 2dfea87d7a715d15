"""The revision of a manifest: its canonical content digest (SPEC 17.1, 17.2).

Owns: which arrays are sets, what is left out, the hash and its spelling. Does not own: canonical JSON itself
(``jcs``), which strings are identifiers (``identifiers``), or whether a manifest is valid (``validate``): one
that fails validation has a digest all the same, so that any two libraries give it the same one.

The digest refuses three things only: a root that is no object (``manifest_not_object``), an identifier outside
``[A-Za-z0-9._:*-]`` (``identifier_charset``), and a number that JSON cannot carry (``non_finite_number``).
Everything with another shape than the manifest's is hashed as it stands.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from mcpl_core.errors import InvalidValueError
from mcpl_core.trees import each_string

from .identifiers import all_strings, check_identifiers
from .jcs import canonical_bytes, copy_tree

__all__ = (
    "is_manifest_revision",
    "manifest_canonical_json",
    "manifest_digest",
    "normalized_manifest",
    "ontology_digest",
    "sort_set",
    "with_revision",
)

_revision = re.compile(r"sha256:[A-Za-z0-9_-]{43}").fullmatch


def is_manifest_revision(value: object) -> bool:
    """Whether ``value`` has the form of a revision (SPEC Appendix B.3). Says nothing about what it is of."""
    return isinstance(value, str) and _revision(value) is not None


def sort_set(strings: Iterable[str]) -> list[str]:
    """The members of a set-valued array in their order: UTF-8 bytes ascending, each once (SPEC 17.2).

    Raises:
        InvalidValueError: a member is no string (``not_string``), or it is a bare string or nothing to iterate over
            (``not_array``).
    """
    # Python compares code points, which is the order of their UTF-8 bytes.
    return sorted(set(each_string(strings)))


def manifest_digest(manifest: Any) -> str:
    """The revision of a manifest (the ``experimental.mcpl`` object, with or without a ``revision`` of its own).

    Returns:
        ``sha256:`` and 43 characters of unpadded base64url.

    Raises:
        InvalidValueError: ``manifest_not_object``, ``identifier_charset`` or ``non_finite_number``; ``not_json``
            for a tree that no JSON text has.
    """
    return _spelled(_canonical(manifest))


def manifest_canonical_json(manifest: Any) -> str:
    """The text that ``manifest_digest`` hashes.

    Raises:
        InvalidValueError: as for ``manifest_digest``.
    """
    return _canonical(manifest).decode()


def ontology_digest(ontology: Any) -> str:
    """The digest of one ``tagOntology`` member, to which an acceptance is bound (SPEC 16.5, 17.5).

    Computed like a revision, over the member alone, but without a look at its identifiers.

    Raises:
        InvalidValueError: ``non_finite_number`` or ``not_json``.
    """
    return _spelled(canonical_bytes(_ontology(ontology) if isinstance(ontology, dict) else ontology))


def with_revision(manifest: Any) -> dict[str, Any]:
    """A copy of the manifest that carries its revision; one that it carried before is replaced.

    Raises:
        InvalidValueError: as for ``manifest_digest``.
    """
    revision = manifest_digest(manifest)
    return {**copy_tree(_without_revision(manifest)), "revision": revision}


def normalized_manifest(manifest: Any) -> dict[str, Any]:
    """A copy without ``revision`` and with its set-valued arrays in order: what the digest sees.

    Identifiers are not checked: a host compares what it received, valid or not.

    Raises:
        InvalidValueError: it is no object (``manifest_not_object``).
    """
    copy: dict[str, Any] = copy_tree(_sets_in_order(manifest))
    return copy


def _spelled(canonical: bytes) -> str:
    return "sha256:" + urlsafe_b64encode(sha256(canonical).digest()).rstrip(b"=").decode()


def _canonical(manifest: Any) -> bytes:
    canonical = canonical_bytes(_sets_in_order(manifest))
    check_identifiers(manifest)  # second, since the writer stops at a container inside itself
    return canonical


def _without_revision(manifest: Any) -> dict[str, Any]:
    if not isinstance(manifest, dict):
        raise InvalidValueError("manifest_not_object", "a manifest is a JSON object")
    return {name: value for name, value in manifest.items() if name != "revision"}


def _sets_in_order(manifest: Any) -> dict[str, Any]:
    """The set-valued arrays sorted; the containers on the way to them are copied, all others shared."""
    root = _without_revision(manifest)
    if isinstance(feature_sets := root.get("featureSets"), dict):
        root["featureSets"] = {name: _feature_set(declared) for name, declared in feature_sets.items()}
    return root


def _feature_set(declared: Any) -> Any:
    if not isinstance(declared, dict):
        return declared
    copy = _with_set(declared, "uses")
    if isinstance(ontology := copy.get("tagOntology"), dict):
        copy["tagOntology"] = _ontology(ontology)
    return copy


def _ontology(ontology: dict[str, Any]) -> dict[str, Any]:
    copy = _with_set(ontology, "coreTags")
    if isinstance(tags := copy.get("tags"), dict):
        copy["tags"] = {name: _with_set(tag, "implies") if isinstance(tag, dict) else tag for name, tag in tags.items()}
    return copy


def _with_set(node: dict[str, Any], name: str) -> dict[str, Any]:
    copy = dict(node)
    if (strings := all_strings(node.get(name))) is not None:
        copy[name] = sorted(set(strings))
    return copy
