"""Runs ``vectors/changed-domains.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.manifest import changed_domains

FILE = Path(__file__).parents[2] / "vectors" / "changed-domains.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


@pytest.mark.spec("17.1-2", "17.1-9", "17.3-4", "R-man-4", "R-man-5")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    given = case["input"]
    assert {"domains": list(changed_domains(given.get("previous"), given["current"]))} == case["expected"]


@pytest.mark.parametrize("case", [case for case in CASES if "previous" in case["input"]], ids=lambda case: case["name"])
def test_case_the_other_way_round(case: dict[str, Any]) -> None:
    given = case["input"]
    assert {"domains": list(changed_domains(given["current"], given["previous"]))} == case["expected"]


def test_the_file_has_every_outcome() -> None:
    outcomes = {tuple(case["expected"]["domains"]) for case in CASES}
    assert {domain for outcome in outcomes for domain in outcome} == {"capabilities", "featureSets", "tagOntology"}
    assert () in outcomes
    assert len(CASES) >= 25
