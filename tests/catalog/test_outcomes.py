"""Outcomes whose parts cannot contradict each other."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from mcpl_core.catalog.bounded import freeze
from mcpl_core.catalog.errors import CALL_CODES, CODES
from mcpl_core.catalog.outcomes import CallOutcome, failed, succeeded
from mcpl_core.errors import InvalidValueError


def test_a_success_and_its_envelope() -> None:
    outcome = succeeded(("é", "b"), freeze({"a": [1]}), "committed")
    assert outcome.ok and outcome.error_code is None
    assert outcome.envelope() == {"text": ["é", "b"], "structured": {"a": [1]}}
    assert json.loads(outcome.to_text()) == outcome.envelope()
    assert outcome.to_text() == '{"text":["é","b"],"structured":{"a":[1]}}'
    outcome.envelope()["structured"]["a"].append(2)
    assert outcome.envelope()["structured"] == {"a": [1]}


@pytest.mark.parametrize("code", sorted(CALL_CODES))
def test_every_failure_has_an_empty_envelope(code: Any) -> None:
    outcome = failed(code, "unknown")
    assert not outcome.ok
    assert outcome.to_text() == '{"text":[],"structured":null}'


def test_what_is_shown_of_it() -> None:
    assert repr(failed("mcp_timeout", "unknown")) == "<CallOutcome mcp_timeout effect=unknown>"
    shown = "<CallOutcome ok texts=2 structured=True effect=committed>"
    assert repr(succeeded(("a", "b"), {}, "committed")) == shown


def test_it_cannot_be_changed() -> None:
    outcome: Any = failed("mcp_timeout", "unknown")
    with pytest.raises(FrozenInstanceError):
        outcome.effect = "committed"


@pytest.mark.parametrize(
    "parts",
    [
        {"effect": "unknown"},
        {"effect": "done"},
        {"effect": "committed", "error_code": "mcp_timeout"},
        {"effect": "unknown", "error_code": "mcp_timeout", "text": ("x",)},
        {"effect": "unknown", "error_code": "mcp_timeout", "structured": {}},
        {"effect": "unknown", "error_code": "no_such_code"},
        *({"effect": "unknown", "error_code": code} for code in sorted(set(CODES) - CALL_CODES)),
    ],
)
def test_contradictions_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        CallOutcome(**parts)
    assert caught.value.code == "outcome"
