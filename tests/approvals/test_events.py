"""Events: kinds, strictness, immutability."""

from __future__ import annotations

import json

import pytest

from mcpl_core.approvals.events import EVENT_KINDS, ApprovalEvent, EventKind
from mcpl_core.errors import InvalidValueError


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_through_json(kind: EventKind) -> None:
    event = ApprovalEvent("approval", kind, 1, {"principalId": "bob", "list": [1]})
    assert ApprovalEvent.from_json(json.loads(json.dumps(event.to_json()))) == event


def test_an_event_stays_as_it_is() -> None:
    facts = {"list": [1]}
    event = ApprovalEvent("approval", "proposed", 1, facts)
    facts["list"].append(2)
    assert event.facts == {"list": (1,)}
    with pytest.raises(TypeError):
        event.facts["more"] = 1  # type: ignore[index]


def test_what_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        ApprovalEvent("approval", "guessed", 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError):
        ApprovalEvent("approval", "proposed", -1)
    with pytest.raises(InvalidValueError):
        ApprovalEvent.from_json({"approvalId": "a", "kind": "proposed", "atMs": 1})
