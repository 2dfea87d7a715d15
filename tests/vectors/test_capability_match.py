"""Runs ``vectors/capability-match.json``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpl_core.cli.families import differences
from mcpl_core.cli.vectors import Case, read_vectors
from mcpl_core.grants import GrantState

CASES = read_vectors(str(Path(__file__).parents[2] / "vectors" / "capability-match.json")).cases


@pytest.mark.spec("5.4-3", "5.4-4", "5.4-5", "5.4-6")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert differences("capability-match", case) == []


@pytest.mark.spec("5.4-3", "5.4-4", "5.4-5", "5.4-6")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_grant_of_these_entries_says_the_same(case: Case) -> None:
    entries = case.input["entries"]
    if isinstance(entries, list) and all(isinstance(entry, str) for entry in entries):
        assert GrantState(tuple(entries), ready=True).allows(case.input["path"]) is case.expected["granted"]


def test_the_file_has_cases_of_both_outcomes() -> None:
    assert {case.expected["granted"] for case in CASES} == {True, False}
    assert len(CASES) >= 25
