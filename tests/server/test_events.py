"""The params of an event."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from mcpl_core import InvalidValueError
from mcpl_core.server import FeatureSet
from mcpl_core.server.events import event_params


def wire(params: Any) -> Any:
    return msgspec.to_builtins(params)


@pytest.mark.spec("9.2-1", "6.5-1")
def test_everything_that_is_required_is_there() -> None:
    event = wire(event_params(FeatureSet("a.b", "x", ("pushEvents",)), "hello"))
    assert set(event) == {"featureSet", "eventId", "timestamp", "payload"}
    assert event["featureSet"] == "a.b"
    assert event["payload"] == {"content": [{"type": "text", "text": "hello"}]}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", event["timestamp"])


def test_each_event_has_an_id_of_its_own() -> None:
    assert event_params("a", "x").event_id != event_params("a", "x").event_id


def test_what_is_given_is_taken() -> None:
    event = wire(
        event_params("a", [], tags=["a:b", "a:b"], origin={"x": 1}, event_id="e1", timestamp="2026-01-01T00:00:00Z")
    )
    assert event == {
        "featureSet": "a",
        "eventId": "e1",
        "timestamp": "2026-01-01T00:00:00Z",
        "origin": {"x": 1},
        "tags": ["a:b"],
        "payload": {"content": []},
    }


@pytest.mark.spec("16.1-5", "R-tags-3")
@pytest.mark.parametrize("tags", [["mention"], ["a:b", ":x"], "a:b", [3]])
def test_no_tag_without_a_namespace_is_sent(tags: Any) -> None:
    with pytest.raises(InvalidValueError):
        event_params("a", "x", tags=tags)


def test_content_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        event_params("a", 3)
