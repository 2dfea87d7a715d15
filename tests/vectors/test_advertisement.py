"""Runs ``vectors/advertisement.json``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpl_core.capabilities import CAPABILITY_PATHS
from mcpl_core.cli.families import differences
from mcpl_core.cli.vectors import Case, read_vectors

CASES = read_vectors(str(Path(__file__).parents[2] / "vectors" / "advertisement.json")).cases


@pytest.mark.spec("5.1-1", "5.1-2", "5.1-3", "5.4-2", "R-caps-1", "R-caps-5")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert differences("advertisement", case) == []


def test_the_cases_reach_every_path() -> None:
    reached = {path for case in CASES for path in case.expected["advertised"]}
    assert reached >= set(CAPABILITY_PATHS)
    assert len(CASES) >= 25
