from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.base import read_item, read_items
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.protocol.push import PushEventParams
from mcpl_core.protocol.tools import Tool, ToolsCallResult
from mcpl_core.protocol.toolsets import (
    META_EVENTS,
    META_HINTS,
    META_PRESENCE,
    AccessTokenParams,
    AccessTokenResult,
    CarriedEvent,
    HintChange,
    ToolPresence,
    ToolsetsChangedParams,
    ToolsetsCloseResult,
    ToolsetsListResult,
    ToolsetsOpenParams,
    ToolsetsOpenResult,
    read_hints,
)
from mcpl_core.wire.values import encode_value

HINT = b'{"rev":7,"toolset":"game","open":true,"visible":["play","pass"],"instance":"game-1"}'
CHANGE = HintChange(rev=7, toolset="game", open=True, visible=["play", "pass"], instance="game-1")
LIST = (
    b'{"rev":0,"toolsets":[{"name":"game","title":"Go","summary":"Play","default":"closed","instances":true,'
    b'"open":true,"tools":["play"],"visible":["play"],"optionsSchema":{},"openInstances":[{"id":"game-1","title":"Go",'
    b'"visible":["play"],"content":[{"type":"text","text":"Your move"}],"openedAt":"2026-01-01T00:00:00Z"}]}],'
    b'"ended":[{"toolset":"game","instance":"game-0","title":"Go","reason":"idle","endedAt":"2026-01-01T00:00:00Z"}]}'
)


def test_presence() -> None:
    tool = Tool(
        name="play",
        input_schema={},
        meta={META_PRESENCE: {"kind": "dynamic", "visible": True, "toolset": "game"}},
    )
    presence = read_item(tool.slot(META_PRESENCE), ToolPresence)
    assert presence == ToolPresence(kind="dynamic", visible=True, toolset="game")
    assert decode_typed(b'{"kind":"static","visible":true}', ToolPresence).toolset is UNSET


def test_hints_of_every_carrier() -> None:
    result = decode_typed(b'{"content":[],"_meta":{"mcpl/hints":[' + HINT + b"]}}", ToolsCallResult)
    assert read_hints(result.slot(META_HINTS)) == [CHANGE]
    event = decode_typed(
        b'{"featureSet":"a","eventId":"e","timestamp":"t","payload":{"content":""},"hints":[' + HINT + b"]}",
        PushEventParams,
    )
    assert read_hints(event.hints) == [CHANGE]
    changed = decode_typed(b'{"hints":[' + HINT + b"]}", ToolsetsChangedParams)
    assert read_hints(changed.hints) == [CHANGE]
    assert encode_value(CHANGE) == HINT


@pytest.mark.parametrize("hints", [None, 5, {}, "x"])
def test_bad_hints_do_not_fail_an_event(hints: Any) -> None:
    event = decode_typed(
        encode_value(
            {
                "featureSet": "a",
                "eventId": "e",
                "timestamp": "t",
                "payload": {"content": ""},
                "hints": hints,
            }
        ),
        PushEventParams,
    )
    (error,) = read_hints(event.hints)
    assert isinstance(error, InvalidValueError)
    assert error.path == "$.hints"


def test_bad_hints_are_told_one_by_one() -> None:
    good, bad = read_hints([CHANGE, {"rev": 1.5, "toolset": "a", "open": True, "visible": []}], "$.x")
    assert good == CHANGE
    assert isinstance(bad, InvalidValueError)
    assert bad.path == "$.x[1].rev"
    assert read_hints(UNSET) == []


def test_events_in_a_result() -> None:
    result = ToolsCallResult(meta={META_EVENTS: [{"eventId": "e", "timestamp": "t", "content": "hi", "tags": []}]})
    (event,) = read_items(result.slot(META_EVENTS), CarriedEvent)
    assert isinstance(event, CarriedEvent)
    assert (event.event_id, event.text, event.tags) == ("e", "hi", [])


@pytest.mark.spec("R-toolsets-1")
def test_a_full_statement() -> None:
    statement = decode_typed(LIST, ToolsetsListResult)
    (toolset,) = statement.toolsets
    assert toolset.open_instances
    assert toolset.open_instances[0].text == "Your move"
    assert statement.ended[0].reason == "idle"
    assert encode_value(statement) == LIST
    assert decode_typed(b'{"rev":3.0,"toolsets":[]}', ToolsetsListResult) == ToolsetsListResult(rev=3, toolsets=[])


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [(b'"closed"', b'"ajar"', "$.toolsets[0].default"), (b'"idle"', b'"bored"', "$.ended[0].reason")],
)
def test_closed_vocabularies(old: bytes, new: bytes, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(LIST.replace(old, new), ToolsetsListResult)
    assert caught.value.path == path


def test_opening_and_closing() -> None:
    for kind, text in [
        (ToolsetsOpenParams, b'{"toolset":"game","options":{"size":9},"instance":"mine"}'),
        (ToolsetsOpenResult, b'{"toolset":"game","title":"Go","content":[],"visible":["play"],"instance":"game-1"}'),
        (ToolsetsCloseResult, b'{"closed":false}'),
    ]:
        assert encode_value(decode_typed(text, kind)) == text


def test_access() -> None:
    text = b'{"audience":"https://api.example","reason":"to read","scopes":["read"]}'
    assert encode_value(decode_typed(text, AccessTokenParams)) == text
    token = decode_typed(
        b'{"token":"s3cret","expiresAt":"2026-01-01T00:00:00Z","tokenType":"Bearer"}', AccessTokenResult
    )
    assert token == AccessTokenResult(token="s3cret", expires_at="2026-01-01T00:00:00Z")
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(b'{"token":"s3cret","expiresAt":"x","tokenType":"MAC"}', AccessTokenResult)
    assert caught.value.path == "$.tokenType"
    assert "s3cret" not in str(caught.value)


def test_a_token_is_never_shown() -> None:
    token = AccessTokenResult(token="s3cret", expires_at="soon")
    shown = [repr(token), str(token), f"{token}", repr([token]), repr(list(token.__rich_repr__()))]
    assert all("soon" in text and "s3cret" not in text for text in shown)
