"""Claims, receipts and outcomes through JSON, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mcpl_core.approvals.claims import Association, Claim, ClaimKey, Outcome, Receipt
from mcpl_core.errors import InvalidValueError

KEY = ClaimKey("alice", "store_value", "key")
ASSOCIATION = Association("approval", "digest", 2, "run", "worker", 3)
CLAIM = Claim(KEY, "arguments", 1_000, ASSOCIATION)
OUTCOME = Outcome("committed", {"text": ["stored"], "structured": None})


@pytest.mark.parametrize(
    "record",
    [
        ASSOCIATION,
        CLAIM,
        Claim(KEY, "arguments", 1_000, error_code="mcp_timeout"),
        OUTCOME,
        Outcome("unknown", None, "mcp_timeout"),
        Receipt(CLAIM, OUTCOME, 1_001),
        Receipt(CLAIM, Outcome("not_started"), 1_001, 2_000, "reconciliation", "bob"),
    ],
)
def test_through_json(record: Any) -> None:
    text = json.loads(json.dumps(record.to_json()))
    assert type(record).from_json(text) == record
    with pytest.raises(InvalidValueError) as caught:
        type(record).from_json(text | {"more": 1})
    assert caught.value.code == "unknown_member"
    for member in text:
        with pytest.raises(InvalidValueError) as caught:
            type(record).from_json({name: value for name, value in text.items() if name != member})
        assert caught.value.code == "missing_member"


@pytest.mark.parametrize(
    "make",
    [
        lambda: ClaimKey("", "tool", "key"),
        lambda: ClaimKey("alice", "tool", "k" * 1025),
        lambda: Association("approval", "digest", 1, "run", "worker", 3),
        lambda: Association("approval", "digest", 2, "run", "worker", 0),
        lambda: Claim(KEY, "", 1_000),
        lambda: Claim(KEY, "arguments", -1),
        lambda: Outcome("done"),  # type: ignore[arg-type]
        lambda: Outcome("committed", object()),
        lambda: Outcome("committed", {"n": float("inf")}),
        lambda: Receipt(CLAIM, Outcome("unknown"), 1),
        lambda: Receipt(CLAIM, OUTCOME, 1, source="guess"),  # type: ignore[arg-type]
    ],
)
def test_what_they_refuse(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidValueError):
        make()


def test_a_result_is_a_copy() -> None:
    result = {"text": ["a"]}
    outcome = Outcome("committed", result)
    result["text"].append("b")
    assert outcome.result == {"text": ["a"]}
