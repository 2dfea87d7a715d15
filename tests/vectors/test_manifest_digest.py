"""Runs ``vectors/manifest-digest.json``, or the file that ``MCPL_DIGEST_VECTORS`` names.

That file may have the shape of ours or the one that the specification's own repository publishes, so a frozen
or newer copy can be run as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.manifest import manifest_canonical_json, manifest_digest, sort_set

OURS = Path(__file__).parents[2] / "vectors" / "manifest-digest.json"
FILE = Path(os.environ.get("MCPL_DIGEST_VECTORS") or OURS)
DOCUMENT: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def cases() -> list[dict[str, Any]]:
    """The file's cases in our shape."""
    if "cases" in DOCUMENT:
        return list(DOCUMENT["cases"])
    published = [
        {
            "name": vector["name"],
            "input": {"manifest": vector["input"]},
            "expected": {"error": vector["expectError"]}
            if "expectError" in vector
            else {name: vector[name] for name in ("canonicalJson", "sha256Hex", "digest")},
        }
        for vector in DOCUMENT["vectors"]
    ]
    return published + [
        {"name": vector["name"], "input": {"set": vector["input"]}, "expected": {"sorted": vector["sorted"]}}
        for vector in DOCUMENT["sortVectors"]
    ]


CASES = cases()


def digest(manifest: Any) -> dict[str, Any]:
    try:
        text = manifest_canonical_json(manifest)
        return {
            "canonicalJson": text,
            "sha256Hex": hashlib.sha256(text.encode()).hexdigest(),
            "digest": manifest_digest(manifest),
        }
    except InvalidValueError as error:
        return {"error": error.code}


def run(given: dict[str, Any]) -> dict[str, Any]:
    if "set" in given:
        return {"sorted": sort_set(given["set"])}
    return digest(json.loads(given["manifestText"]) if "manifestText" in given else given["manifest"])


@pytest.mark.spec(
    "17.2-1", "17.2-2", "17.2-3", "17.2-4", "17.2-5", "17.2-6", "17.2-7", "17.2-9", "17.2-10", "17.2-11", "17.2-12",
    "17.2-13", "17.2-14", "17.2-15", "17.2-16", "17.2-18", "R-man-1", "R-man-2", "R-man-3",
)  # fmt: skip
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    assert run(case["input"]) == case["expected"]


def test_the_relations_between_published_vectors_hold() -> None:
    vectors = DOCUMENT.get("vectors", [])
    digests = {vector["name"]: digest(vector["input"]).get("digest") for vector in vectors}
    for vector in vectors:
        name = vector["name"]
        assert digests[vector.get("sameDigestAs", name)] == digests[name]
        if "differentDigestFrom" in vector:
            assert digests[vector["differentDigestFrom"]] != digests[name]


def test_the_file_has_every_outcome() -> None:
    outcomes = [case["expected"] for case in CASES]
    assert "identifier_charset" in {outcome.get("error") for outcome in outcomes}
    assert sum("digest" in outcome for outcome in outcomes) >= 15
    assert sum("sorted" in outcome for outcome in outcomes) >= 4
