"""Runs ``vectors/identity-digests.json``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpl_core.cli.families import differences
from mcpl_core.cli.vectors import Case, read_vectors

FILE = read_vectors(str(Path(__file__).parents[2] / "vectors" / "identity-digests.json"))
KINDS = ("value", "valueText", "intent", "call")


@pytest.mark.spec("R-catalog-1", "R-approvals-1")
@pytest.mark.parametrize("case", FILE.cases, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert differences("identity-digests", case) == []


def test_the_file_has_every_kind_and_no_two_digests_for_nothing() -> None:
    assert {name for case in FILE.cases for name in case.input} == set(KINDS)
    digests = {case.name: case.expected["digest"] for case in FILE.cases if "digest" in case.expected}
    for same in (
        ("one", "one-with-a-fraction"),
        ("zero", "minus-zero"),
        ("intent", "intent-arguments-in-another-order"),
    ):
        assert digests.pop(same[0]) == digests[same[1]]
    assert len(set(digests.values())) == len(digests)
