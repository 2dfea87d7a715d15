"""Runs ``vectors/capability-match.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.capabilities import capability_granted

FILE = Path(__file__).parents[2] / "vectors" / "capability-match.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


@pytest.mark.spec("5.4-3", "5.4-4", "5.4-5", "5.4-6")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    given = case["input"]
    assert {"granted": capability_granted(given["entries"], given["path"])} == case["expected"]


def test_the_file_has_cases_of_both_outcomes() -> None:
    assert {case["expected"]["granted"] for case in CASES} == {True, False}
    assert len(CASES) >= 25
