"""Runs ``vectors/grant-update.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpl_core.grants import UpdateOutcome, grant_from_update

FILE = Path(__file__).parents[2] / "vectors" / "grant-update.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


def run(messages: list[dict[str, Any]]) -> dict[str, Any]:
    outcome: UpdateOutcome | None = None
    for message in messages:
        state = None if outcome is None else outcome.state
        outcome = grant_from_update(state, message.get("params", msgspec.UNSET), message["form"])
    assert outcome is not None
    enabled = outcome.state.enabled_feature_sets
    malformed = outcome.malformed
    return {
        "state": {
            "effectiveCapabilities": list(outcome.state.effective_capabilities),
            "enabled": None if enabled is None else list(enabled),
            "disabled": list(outcome.state.disabled_feature_sets),
            "ready": outcome.state.ready,
        },
        "malformed": malformed and {"code": malformed.code, "path": malformed.path},
        "conflicts": list(outcome.conflicts),
        "discarded": list(outcome.discarded),
    }


@pytest.mark.spec("5.3-8", "5.3-12", "5.4-9", "6.7-1", "6.7-3", "6.7-4", "6.7-5", "R-grant-2", "R-grant-6")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    assert run(case["input"]["messages"]) == case["expected"]


def test_the_file_has_every_outcome() -> None:
    codes = {case["expected"]["malformed"]["code"] for case in CASES if case["expected"]["malformed"]}
    assert codes == {"not_object", "not_array", "not_string", "path_in_both_lists"}
    assert len(CASES) >= 25
