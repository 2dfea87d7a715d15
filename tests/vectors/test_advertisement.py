"""Runs ``vectors/advertisement.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.capabilities import CAPABILITY_PATHS, VOCABULARY, advertised_capabilities_from_initialize

FILE = Path(__file__).parents[2] / "vectors" / "advertisement.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


@pytest.mark.spec("5.1-1", "5.1-2", "5.1-3", "5.4-2", "R-caps-1", "R-caps-5")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    given = case["input"]
    vocabulary = VOCABULARY.extend(*given.get("extensions", ()))
    advertised = advertised_capabilities_from_initialize(given["capabilities"], vocabulary)
    assert {"advertised": sorted(advertised)} == case["expected"]


def test_the_cases_reach_every_path() -> None:
    reached = {path for case in CASES for path in case["expected"]["advertised"]}
    assert reached >= set(CAPABILITY_PATHS)
    assert len(CASES) >= 25
