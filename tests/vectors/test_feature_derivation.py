"""Runs ``vectors/feature-derivation.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.capabilities import VOCABULARY
from mcpl_core.grants import GrantState, derive_feature_sets, grant_from_update
from mcpl_core.receipts import AcceptedReceipt, degradation_receipt, read_receipt

FILE = Path(__file__).parents[2] / "vectors" / "feature-derivation.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


def run(given: dict[str, Any]) -> dict[str, Any]:
    grant = GrantState()
    if "update" in given:
        grant = grant_from_update(None, given["update"], "request").state
    declared = given.get("featureSets")
    vocabulary = VOCABULARY.extend(*given.get("extensions", ()))
    return {
        "featureSets": {
            name: {
                "enabled": status.enabled,
                "reason": status.reason,
                "missingCapabilities": list(status.missing_capabilities),
                "unrecognized": list(status.unrecognized),
            }
            for name, status in derive_feature_sets(declared, grant, vocabulary).items()
        },
        "receipt": degradation_receipt(declared, grant, vocabulary=vocabulary).to_wire(),
    }


@pytest.mark.spec("5.3-9", "5.3-10", "5.3-11", "6.2-2", "6.2-3", "6.3-1", "6.4-1", "6.4-2", "6.7-6", "6.7-9")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    assert run(case["input"]) == case["expected"]


@pytest.mark.spec("6.7-8")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_host_can_read_the_receipt(case: dict[str, Any]) -> None:
    receipt = read_receipt(case["expected"]["receipt"])
    assert isinstance(receipt, AcceptedReceipt)
    assert receipt.to_wire() == case["expected"]["receipt"]


def test_the_file_has_every_reason() -> None:
    reasons = {status["reason"] for case in CASES for status in case["expected"]["featureSets"].values()}
    assert reasons == {None, "invalid_uses", "host_disabled", "not_selected", "capability_denied"}
    assert len(CASES) >= 25
