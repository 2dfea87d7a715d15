"""Vector files: where they are, and the shapes that they come in.

Owns: finding this package's own files and reading a file into cases of one shape. Does not own: running a case
(``families``).

Read are files of this package's shape (``family`` and ``cases``), the digest file that the specification's
repository publishes, and a table of URIs in the same manner (``vectors``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidValueError
from ..trees import json_object
from .output import CommandError, read_json
from .resources import resource_path

__all__ = ("Case", "VectorFile", "own_files", "read_vectors")


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    Attributes:
        name: unique in its file.
        input: what the family's function takes.
        expected: what it must give.
    """

    name: str
    input: dict[str, Any]
    expected: dict[str, Any]


@dataclass(frozen=True, slots=True)
class VectorFile:
    """One file.

    Attributes:
        path: where it was read.
        family: what its cases are about.
        cases: in order.
    """

    path: str
    family: str
    cases: tuple[Case, ...]


def own_files() -> list[str]:
    """The files that come with this package.

    Raises:
        CommandError: none came.
    """
    try:
        return [str(path) for path in sorted(resource_path("vectors").glob("*.json"))]
    except FileNotFoundError as exc:
        raise CommandError(f"{exc}: name a file") from exc


def read_vectors(path: str) -> VectorFile:
    """Read one file.

    Raises:
        CommandError: it cannot be read or has another shape.
    """
    document = read_json(path)
    if not isinstance(document, dict):
        document = {}
    try:
        if "cases" in document:
            return VectorFile(path, str(document["family"]), tuple(_own(document["cases"])))
        if "sortVectors" in document:
            return VectorFile(path, "manifest-digest", tuple(_published_digests(document)))
        if "vectors" in document:
            return VectorFile(path, "uris", tuple(_published_uris(document["vectors"])))
    except (KeyError, TypeError, AttributeError, InvalidValueError) as exc:
        raise CommandError(f"{path} is no vector file that this version reads: {exc!r} in a case") from exc
    raise CommandError(f"{path} is no vector file: it has neither cases nor vectors")


def _own(cases: Iterable[dict[str, Any]]) -> Iterator[Case]:
    return (Case(str(case["name"]), json_object(case["input"]), json_object(case["expected"])) for case in cases)


_DIGEST_FACTS = ("canonicalJson", "sha256Hex", "digest")


def _published_digests(document: dict[str, Any]) -> Iterator[Case]:
    manifests = {vector["name"]: vector["input"] for vector in document["vectors"]}
    for vector in document["vectors"]:
        given: dict[str, Any] = {"manifest": vector["input"]}
        expected = _outcome(vector, _DIGEST_FACTS)
        for relation, same in (("sameDigestAs", True), ("differentDigestFrom", False)):
            if relation in vector:
                given["other"] = manifests[vector[relation]]
                expected["sameDigest"] = same
        yield Case(vector["name"], given, expected)
    for vector in document["sortVectors"]:
        yield Case(vector["name"], {"set": vector["input"]}, {"sorted": vector["sorted"]})


def _published_uris(vectors: Iterable[dict[str, Any]]) -> Iterator[Case]:
    for vector in vectors:
        yield Case(vector["name"], {"uri": vector["input"]}, _outcome(vector, ("canonicalUri", "resolvedTransport")))


def _outcome(vector: dict[str, Any], facts: Iterable[str]) -> dict[str, Any]:
    if "expectError" in vector:
        return {"error": vector["expectError"]}
    return {name: vector[name] for name in facts}
