"""Every shape, made and read."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from mcpl_core import InvalidValueError
from mcpl_core.content import text_content
from mcpl_core.protocol import CarriedEvent, HintChange, ToolPresence, ToolsetsCloseResult
from mcpl_core.toolsets import wire
from mcpl_core.wire.values import decode_value, encode_value


def plain(value: Any) -> Any:
    return decode_value(encode_value(value))


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (wire.is_server_name, ["a", "A_b-9", "x" * 64], ["", "a.b", "x" * 65, None, 3]),
        (wire.is_toolset_name, ["a", "a.b:c_d-e", "x" * 40], ["", "x" * 41, "a/b", None]),
        (wire.is_instance_id, ["a", "A.b:c_d-9", "x" * 64], ["", "x" * 65, "a b", "a\n", None]),
    ],
)
def test_names(check: Any, good: list[Any], bad: list[Any]) -> None:
    assert [name for name in good if not check(name)] == []
    assert [name for name in bad if check(name)] == []


def test_an_id_of_the_longest_name_is_an_id() -> None:
    assert wire.is_instance_id(wire.minted_id("x" * 40, 10**20))
    assert wire.instance_id_taken_from(wire.minted_id("a-1", 20)) == ("a-1", 20)
    for id in ("a", "a-0", "a-01", "a-", "-1", "a-1x"):
        assert wire.instance_id_taken_from(id) is None


def test_times() -> None:
    assert wire.time_text(1_800_000_000.5) == "2027-01-15T08:00:00.500Z"
    for text in ("2027-01-15T08:00:00.500Z", "2027-01-15T09:00:00.5+01:00", "2027-01-15T08:00:00.500"):
        assert wire.read_time(text) == 1_800_000_000.5
    for bad in ("soon", None, 3):
        with pytest.raises(InvalidValueError):
            wire.read_time(bad)


def test_who_understands() -> None:
    assert wire.understands_toolsets(dict(wire.ADVERTISEMENT))
    others: list[Any] = [None, True, {}, {"toolsets": 1}, {"toolsets": {}}, []]
    for other in others:
        assert not wire.understands_toolsets(other)


def test_presence_on_a_listed_tool() -> None:
    listed = plain(wire.listed_tool({"name": "up", "_meta": {"own": 1}}, "dynamic", True, "game"))
    assert listed == {
        "name": "up",
        "_meta": {"own": 1, "mcpl/presence": {"kind": "dynamic", "visible": True, "toolset": "game"}},
    }
    assert wire.read_presence(listed) == ToolPresence(kind="dynamic", visible=True, toolset="game")
    static = plain(wire.listed_tool({"name": "a"}, "static", True))
    assert static["_meta"] == {"mcpl/presence": {"kind": "static", "visible": True}}
    silent: list[Any] = [{}, {"_meta": 3}, {"_meta": {}}, None, 3]
    for nothing in silent:
        assert wire.read_presence(nothing) is None
    assert isinstance(wire.read_presence({"_meta": {"mcpl/presence": None}}), InvalidValueError)


def test_changes_and_their_carriers() -> None:
    opened = wire.hint_change(7, ("game", "game-1"), ["play", "pass"])
    closed = wire.hint_change(8, ("lamp", None), None)
    assert plain([opened, closed]) == [
        {"rev": 7, "toolset": "game", "instance": "game-1", "open": True, "visible": ["play", "pass"]},
        {"rev": 8, "toolset": "lamp", "open": False, "visible": []},
    ]
    assert plain(wire.changed_params([opened])) == {"hints": [plain(opened)]}
    result = wire.with_slots(Raw(b'{"content":[],"_meta":{"own":1}}'), [opened])
    assert decode_value(result)["_meta"] == {"own": 1, "mcpl/hints": [plain(opened)]}
    assert wire.read_result_hints(result) == wire.read_result_hints(decode_value(result)) == [opened]
    (bad,) = wire.read_result_hints({"_meta": {"mcpl/hints": [{"rev": 1}]}})
    assert isinstance(bad, InvalidValueError) and bad.path.startswith("$._meta.mcpl/hints[0]")
    silent: list[Any] = [{}, {"_meta": None}, [], None, Raw(b"3")]
    for nothing in silent:
        assert wire.read_result_hints(nothing) == []


def test_a_result_that_carries_nothing_stays_as_it_is() -> None:
    result = Raw(b'{"content": []}')
    assert wire.with_slots(result) is result


def test_events_and_text_in_a_result() -> None:
    event = wire.carried_event("e", "t", [text_content("it moved")], ["game:a"])
    result = decode_value(wire.with_slots(Raw(b'{"content":[{"type":"text","text":"ok"}]}'), (), [event], ["more"]))
    assert result == {
        "content": [{"type": "text", "text": "ok"}, {"type": "text", "text": "more"}],
        "_meta": {
            "mcpl/events": [
                {
                    "eventId": "e",
                    "timestamp": "t",
                    "content": [{"type": "text", "text": "it moved"}],
                    "tags": ["game:a"],
                }
            ]
        },
    }
    (read,) = wire.read_events(result)
    assert isinstance(read, CarriedEvent) and read.text == "it moved"
    assert "tags" not in plain(wire.carried_event("e", "t", []))
    assert decode_value(wire.with_slots(Raw(b"{}"), text=["a"])) == {"content": [{"type": "text", "text": "a"}]}


def test_the_instance_of_a_call() -> None:
    assert wire.read_instance(wire.call_meta("game-1")) == "game-1"
    assert [wire.read_instance(meta) for meta in (None, {}, 3, {"mcpl/instance": None})] == [None] * 4
    with pytest.raises(InvalidValueError):
        wire.read_instance({"mcpl/instance": 3})


def test_results_of_toolset_methods() -> None:
    instance = wire.instance_statement("game-1", "Go", ["play"], [text_content("hi")], 1_800_000_000)
    toolset = wire.toolset_statement(
        "game",
        title="Go",
        summary="Play",
        default="closed",
        tools=("play",),
        visible=["play"],
        open=True,
        options_schema={"type": "object"},
        instances=[instance],
    )
    ended = wire.ended_statement(("game", "game-0"), "Old", "idle", 1_800_000_000)
    assert decode_value(wire.list_result(3, [toolset], [ended])) == {
        "rev": 3,
        "toolsets": [
            {
                "name": "game",
                "title": "Go",
                "summary": "Play",
                "default": "closed",
                "instances": True,
                "open": True,
                "tools": ["play"],
                "visible": ["play"],
                "optionsSchema": {"type": "object"},
                "openInstances": [
                    {
                        "id": "game-1",
                        "title": "Go",
                        "visible": ["play"],
                        "content": [{"type": "text", "text": "hi"}],
                        "openedAt": "2027-01-15T08:00:00.000Z",
                    }
                ],
            }
        ],
        "ended": [
            {
                "toolset": "game",
                "instance": "game-0",
                "title": "Old",
                "reason": "idle",
                "endedAt": "2027-01-15T08:00:00.000Z",
            }
        ],
    }
    lamp = plain(wire.toolset_statement("lamp", title="", summary="", default="open", tools=(), visible=(), open=False))
    assert lamp["instances"] is False and not {"openInstances", "optionsSchema"} & set(lamp)
    assert decode_value(wire.open_result(("game", "g"), "Go", [], ["play"])) == {
        "toolset": "game",
        "instance": "g",
        "title": "Go",
        "content": [],
        "visible": ["play"],
    }
    assert "instance" not in decode_value(wire.open_result(("lamp", None), "L", [], []))
    assert decode_value(wire.close_result(False)) == {"closed": False}


def test_the_tools_for_hosts_without_hints() -> None:
    assert wire.fallback_definitions({}, []) == []
    assert [tool["name"] for tool in wire.fallback_definitions({"a": ""}, [])] == ["toolset_open", "toolset_close"]
    open, close, use = wire.fallback_definitions({"a": "Alpha", "b": "Beta"}, ["b"])
    assert (open["name"], close["name"], use["name"]) == wire.FALLBACK_TOOLS
    assert open["description"].endswith("\na: Alpha\nb: Beta")
    assert open["inputSchema"]["properties"]["toolset"]["enum"] == ["a", "b"]
    assert open["inputSchema"]["required"] == close["inputSchema"]["required"] == ["toolset"]
    assert use["inputSchema"]["properties"]["toolset"]["enum"] == ["b"]
    assert use["inputSchema"]["required"] == ["toolset", "instance"]


def test_asking_for_access() -> None:
    assert plain(wire.access_params("https://a")) == {"audience": "https://a"}
    assert plain(wire.access_params("https://a", ["r"], "why")) == {
        "audience": "https://a",
        "reason": "why",
        "scopes": ["r"],
    }


def test_a_change_is_the_type_of_the_protocol() -> None:
    assert isinstance(wire.hint_change(1, ("a", None), []), HintChange)


@pytest.mark.parametrize("value", [{"kind": "\ud800"}, {"\ud800": 1}, "\ud800", ["\ud800"]])
def test_what_is_no_text_is_no_presence_and_no_hint(value: Any) -> None:
    assert isinstance(wire.read_presence({"_meta": {"mcpl/presence": value}}), InvalidValueError)
    hints = wire.read_result_hints({"_meta": {"mcpl/hints": [value]}})
    assert [isinstance(each, InvalidValueError) for each in hints] == [True]


@pytest.mark.parametrize(
    ("value", "is_one"), [("ä", True), ("", True), ("a\ud800", False), ("\udfff", False), (1, False)]
)
def test_which_texts_are_text(value: Any, is_one: bool) -> None:
    assert wire.is_text(value) is is_one


def test_a_result_is_read_as_its_type_or_not_at_all() -> None:
    result = wire.read_result(wire.close_result(True), ToolsetsCloseResult)
    assert result is not None and result.closed
    assert wire.read_result(Raw(b"[]"), ToolsetsCloseResult) is None
