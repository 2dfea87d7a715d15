"""Runs ``vectors/manifest-digest.json``, and the file that ``MCPL_DIGEST_VECTORS`` names.

That file may have the shape of ours or the one that the specification's own repository publishes, so a frozen
or newer copy can be run as it is.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpl_core.cli.families import differences
from mcpl_core.cli.vectors import Case, VectorFile, read_vectors

OURS = str(Path(__file__).parents[2] / "vectors" / "manifest-digest.json")
FILES = [read_vectors(path) for path in (OURS, os.environ.get("MCPL_DIGEST_VECTORS")) if path]


@pytest.mark.spec(
    "17.2-1", "17.2-2", "17.2-3", "17.2-4", "17.2-5", "17.2-6", "17.2-7", "17.2-9", "17.2-10", "17.2-11", "17.2-12",
    "17.2-13", "17.2-14", "17.2-15", "17.2-16", "17.2-18", "R-man-1", "R-man-2", "R-man-3", "R-man-8",
)  # fmt: skip
@pytest.mark.parametrize("case", [case for file in FILES for case in file.cases], ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert differences("manifest-digest", case) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: Path(file.path).name)
def test_the_file_has_every_outcome(file: VectorFile) -> None:
    assert file.family == "manifest-digest"
    outcomes = [case.expected for case in file.cases]
    assert "identifier_charset" in {outcome.get("error") for outcome in outcomes}
    assert sum("digest" in outcome for outcome in outcomes) >= 15
    assert sum("sorted" in outcome for outcome in outcomes) >= 4
