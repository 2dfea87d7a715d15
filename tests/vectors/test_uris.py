"""Runs ``vectors/uris.json``, and the file that ``MCPL_URI_VECTORS`` names: in our shape, or as a table of RFC-004."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpl_core.cli.families import differences
from mcpl_core.cli.vectors import Case, VectorFile, read_vectors
from mcpl_core.uris import McplUri

OURS = str(Path(__file__).parents[2] / "vectors" / "uris.json")
FILES = [read_vectors(path) for path in (OURS, os.environ.get("MCPL_URI_VECTORS")) if path]
CASES = [case for file in FILES for case in file.cases]
ACCEPTED = [case for case in CASES if "canonicalUri" in case.expected]


@pytest.mark.spec(
    "RFC4-8.1-1", "RFC4-8.2-1", "RFC4-2-1", "RFC4-2-2", "RFC4-2-4", "RFC4-2.1-1", "RFC4-2.1-2", "RFC4-2.1-3",
    "RFC4-2.1-4", "RFC4-2.1-5", "RFC4-3-1", "RFC4-3-2", "RFC4-3.2-1", "RFC4-3.2-2", "R-uri-1", "R-uri-2",
)  # fmt: skip
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert differences("uris", case) == []


@pytest.mark.spec("RFC4-3-1", "RFC4-5-1")
@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_a_canonical_form_is_its_own(case: Case) -> None:
    uri, again = McplUri.parse(case.input["uri"]), McplUri.parse(case.expected["canonicalUri"])
    assert uri.configured == case.input["uri"]
    assert (again.configured, again.canonical, again.resolved) == (uri.canonical, uri.canonical, uri.resolved)
    assert again == uri


@pytest.mark.parametrize("file", FILES, ids=lambda file: Path(file.path).name)
def test_the_file_has_both_outcomes(file: VectorFile) -> None:
    assert file.family == "uris"
    assert sum("canonicalUri" in case.expected for case in file.cases) >= 13
    assert sum("error" in case.expected for case in file.cases) >= 7
