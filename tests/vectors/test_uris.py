"""Runs ``vectors/uris.json``, or the file that ``MCPL_URI_VECTORS`` names: in our shape, or as a table of RFC-004."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.uris import McplUri

OURS = Path(__file__).parents[2] / "vectors" / "uris.json"
FILE = Path(os.environ.get("MCPL_URI_VECTORS") or OURS)
DOCUMENT: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def cases() -> list[dict[str, Any]]:
    """The file's cases in our shape."""
    if "cases" in DOCUMENT:
        return list(DOCUMENT["cases"])
    return [
        {
            "name": vector["name"],
            "input": {"uri": vector["input"]},
            "expected": {"error": vector["expectError"]}
            if "expectError" in vector
            else {name: vector[name] for name in ("canonicalUri", "resolvedTransport")},
        }
        for vector in DOCUMENT["vectors"]
    ]


CASES = cases()


def run(text: str) -> dict[str, str]:
    try:
        uri = McplUri.parse(text)
    except InvalidValueError as error:
        return {"error": error.code}
    assert uri.configured == text
    return {"canonicalUri": uri.canonical, "resolvedTransport": uri.resolved}


@pytest.mark.spec(
    "RFC4-8.1-1", "RFC4-8.2-1", "RFC4-2-1", "RFC4-2-2", "RFC4-2-4", "RFC4-2.1-1", "RFC4-2.1-2", "RFC4-2.1-3",
    "RFC4-2.1-4", "RFC4-2.1-5", "RFC4-3-1", "RFC4-3-2", "RFC4-3.2-1", "RFC4-3.2-2", "R-uri-1", "R-uri-2",
)  # fmt: skip
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    assert run(case["input"]["uri"]) == case["expected"]


@pytest.mark.spec("RFC4-3-1")
@pytest.mark.parametrize(
    "uri", [case["expected"]["canonicalUri"] for case in CASES if "canonicalUri" in case["expected"]]
)
def test_a_canonical_form_is_its_own(uri: str) -> None:
    assert run(uri)["canonicalUri"] == uri


def test_the_file_has_both_outcomes() -> None:
    assert sum("canonicalUri" in case["expected"] for case in CASES) >= 13
    assert sum("error" in case["expected"] for case in CASES) >= 7
