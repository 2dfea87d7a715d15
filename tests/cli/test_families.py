"""The families: each has its file, and a case that expects something else than the answer fails.

That each file passes is shown in ``tests/vectors``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.cli.families import FAMILIES, Difference, differences
from mcpl_core.cli.vectors import Case, own_files, read_vectors

OWN = {read_vectors(path).family: read_vectors(path) for path in own_files()}


def test_every_file_has_a_family_and_every_family_a_file() -> None:
    assert OWN.keys() == FAMILIES.keys()
    assert [family for family, file in OWN.items() if Path(file.path).stem != family] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_every_file_is_run_by_a_test_of_its_own(family: str) -> None:
    assert (Path(__file__).parents[1] / "vectors" / f"test_{family.replace('-', '_')}.py").is_file()
    assert len(OWN[family].cases) >= 25
    assert len({case.name for case in OWN[family].cases}) == len(OWN[family].cases)


@pytest.mark.parametrize("family", FAMILIES)
def test_another_expectation_fails(family: str) -> None:
    for case in OWN[family].cases:
        for member, value in case.expected.items():
            wrong: Any = {**case.expected, member: [value]}
            expected = differences(family, Case(case.name, case.input, wrong))
            assert [found.member for found in expected] == [member]
        found = differences(family, Case(case.name, case.input, {}))
        assert {item.member for item in found} == case.expected.keys()
        assert {item.expected for item in found} == {"absent"}


def test_a_missing_answer_is_a_difference() -> None:
    case = Case(
        "a", {"uri": "mcpl://h"}, {"error": "host", "canonicalUri": "mcpl://h/", "resolvedTransport": "wss://h/"}
    )
    assert differences("uris", case) == [Difference("error", '"host"', "absent")]


def test_a_case_that_cannot_be_run_fails() -> None:
    (found,) = differences("uris", Case("a", {"url": "mcpl://h"}, {"error": "host"}))
    assert found.member == "" and "KeyError" in found.actual


@pytest.mark.parametrize(("expected", "passes"), [(True, True), (1, False), ("true", False), (None, False)])
def test_values_are_compared_as_json(expected: Any, passes: bool) -> None:
    case = Case("a", {"entries": ["*"], "path": "tools"}, {"granted": expected})
    assert (differences("capability-match", case) == []) is passes


def test_a_number_is_the_same_number_in_another_spelling() -> None:
    case = next(case for case in OWN["tags"].cases if case.expected.get("rule") == 0)
    assert differences("tags", Case(case.name, case.input, {**case.expected, "rule": 0.0})) == []
    assert differences("tags", Case(case.name, case.input, {**case.expected, "rule": False})) != []


@pytest.mark.parametrize(("other", "same"), [({"a": True, "revision": "x"}, True), ({"a": False}, False)])
def test_the_digests_of_two_manifests(other: dict[str, Any], same: bool) -> None:
    answer = FAMILIES["manifest-digest"]({"manifest": {"a": True}, "other": other})
    assert answer["sameDigest"] is same


def test_the_shapes_in_the_files_are_told_beside_them() -> None:
    sections = (Path(OWN["uris"].path).parent / "README.md").read_text(encoding="utf-8").split("\n## ")
    told = {title: text for title, _, text in (section.partition("\n") for section in sections[1:])}
    assert told.keys() == FAMILIES.keys()
    for family, file in OWN.items():
        note = json.loads(Path(file.path).read_text(encoding="utf-8"))["$schema"]
        assert f"vectors/README.md, section {family}." in note
        members = {member for case in file.cases for member in (*case.input, *case.expected)}
        assert [member for member in members if member not in told[family]] == []
