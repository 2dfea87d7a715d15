"""Runs ``vectors/grant-update.json``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpl_core.cli.families import differences
from mcpl_core.cli.vectors import Case, read_vectors

CASES = read_vectors(str(Path(__file__).parents[2] / "vectors" / "grant-update.json")).cases


@pytest.mark.spec("5.3-8", "5.3-12", "5.4-9", "6.7-1", "6.7-3", "6.7-4", "6.7-5", "R-grant-2", "R-grant-6")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert differences("grant-update", case) == []


def test_the_file_has_every_outcome() -> None:
    codes = {case.expected["malformed"]["code"] for case in CASES if case.expected["malformed"]}
    assert codes == {"not_object", "not_array", "not_string", "path_in_both_lists"}
    assert len(CASES) >= 25
