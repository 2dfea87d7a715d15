"""Runs ``vectors/changed-domains.json``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpl_core.cli.families import differences
from mcpl_core.cli.vectors import Case, read_vectors

CASES = read_vectors(str(Path(__file__).parents[2] / "vectors" / "changed-domains.json")).cases


@pytest.mark.spec("17.1-2", "17.1-9", "17.3-4", "R-man-4", "R-man-5")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert differences("changed-domains", case) == []


@pytest.mark.parametrize("case", [case for case in CASES if "previous" in case.input], ids=lambda case: case.name)
def test_case_the_other_way_round(case: Case) -> None:
    exchanged = {"previous": case.input["current"], "current": case.input["previous"]}
    assert differences("changed-domains", Case(case.name, exchanged, case.expected)) == []


def test_the_file_has_every_outcome() -> None:
    outcomes = {tuple(case.expected["domains"]) for case in CASES}
    assert {domain for outcome in outcomes for domain in outcome} == {"capabilities", "featureSets", "tagOntology"}
    assert () in outcomes
    assert len(CASES) >= 25
