"""Runs ``vectors/feature-derivation.json``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpl_core.cli.families import differences
from mcpl_core.cli.vectors import Case, read_vectors
from mcpl_core.receipts import AcceptedReceipt, read_receipt

CASES = read_vectors(str(Path(__file__).parents[2] / "vectors" / "feature-derivation.json")).cases


@pytest.mark.spec("5.3-9", "5.3-10", "5.3-11", "6.2-2", "6.2-3", "6.3-1", "6.4-1", "6.4-2", "6.7-6", "6.7-9")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert differences("feature-derivation", case) == []


@pytest.mark.spec("6.7-8")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_host_can_read_the_receipt(case: Case) -> None:
    receipt = read_receipt(case.expected["receipt"])
    assert isinstance(receipt, AcceptedReceipt)
    assert receipt.to_wire() == case.expected["receipt"]


def test_the_file_has_every_reason() -> None:
    reasons = {status["reason"] for case in CASES for status in case.expected["featureSets"].values()}
    assert reasons == {None, "invalid_uses", "host_disabled", "not_selected", "capability_denied"}
    assert len(CASES) >= 25
