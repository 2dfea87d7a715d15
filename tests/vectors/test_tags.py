"""Runs ``vectors/tags.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.ontology import Acceptance, Acceptances, parse_ontology
from mcpl_core.tags import CHAT_TAGS, expand_tags, read_tags
from mcpl_core.treatment import behavior_to_wire, choose_treatment, parse_behavior, parse_rules

FILE = Path(__file__).parents[2] / "vectors" / "tags.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


def run(given: dict[str, Any]) -> dict[str, Any]:
    source = given.get("source", "producer")
    try:
        rules = parse_rules(given.get("rules", []))
    except InvalidValueError as error:
        return {"malformed": {"code": error.code, "path": error.path}}
    ontology = parse_ontology(given.get("ontology", msgspec.UNSET))
    accepted = Acceptances()
    if given.get("accepted"):
        act = Acceptance(source, "set", "sha256:shown", "operator", ontology.ontology)
        accepted = accepted.accept(act, current_digest="sha256:shown")
    reading = read_tags(given.get("tags", msgspec.UNSET))
    tags = expand_tags(reading.tags, accepted.edges(source, "set"))
    treatment = choose_treatment(
        (*rules, *accepted.rules()),
        tags,
        source=source,
        channel=given.get("channel"),
        default=parse_behavior(given.get("default", "immediate")),
    )
    actual = {
        "tags": sorted(tags),
        "dropped": [{"code": drop.code, "path": drop.path} for drop in reading.dropped],
        "treatment": behavior_to_wire(treatment.behavior),
        "rule": treatment.index,
    }
    if "ontology" in given:
        actual["problems"] = [{"code": problem.code, "path": problem.path} for problem in ontology.problems]
    return actual


@pytest.mark.spec(
    "16.1-1", "16.1-3", "16.1-4", "16.3-1", "16.3-4", "16.3-5", "16.5-1", "16.5-2", "16.7-1", "16.7-2",
    "16.7-3", "16.7-4", "R-tags-1", "R-tags-2", "R-tags-3", "R-tags-5",
)  # fmt: skip
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    assert run(case["input"]) == case["expected"]


def test_the_file_has_every_outcome() -> None:
    outcomes = [case["expected"] for case in CASES]
    assert {drop["code"] for expected in outcomes for drop in expected.get("dropped", ())} == {
        "not_array", "not_string", "tag_namespace", "tag_syntax",
    }  # fmt: skip
    assert any("malformed" in expected for expected in outcomes)
    assert {tag for expected in outcomes for tag in expected.get("tags", ())} & CHAT_TAGS.keys()
    assert len(CASES) >= 25
