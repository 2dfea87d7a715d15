"""Runs ``vectors/tags.json``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpl_core.cli.families import differences
from mcpl_core.cli.vectors import Case, read_vectors
from mcpl_core.tags import CHAT_TAGS

CASES = read_vectors(str(Path(__file__).parents[2] / "vectors" / "tags.json")).cases


@pytest.mark.spec(
    "16.1-1", "16.1-3", "16.1-4", "16.3-1", "16.3-4", "16.3-5", "16.5-1", "16.5-2", "16.7-1", "16.7-2",
    "16.7-3", "16.7-4", "R-tags-1", "R-tags-2", "R-tags-3", "R-tags-5",
)  # fmt: skip
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert differences("tags", case) == []


def test_the_file_has_every_outcome() -> None:
    outcomes = [case.expected for case in CASES]
    assert {drop["code"] for expected in outcomes for drop in expected.get("dropped", ())} == {
        "not_array", "not_string", "tag_namespace", "tag_syntax",
    }  # fmt: skip
    assert any("malformed" in expected for expected in outcomes)
    assert {tag for expected in outcomes for tag in expected.get("tags", ())} & CHAT_TAGS.keys()
    assert len(CASES) >= 25
