"""Where messages differ, and which answers to which."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from mcpl_core.errors import InvalidValueError
from mcpl_core.testing.comparing import Ignored, ParsedMessage, id_key, member_differences, with_member

NOTHING = Ignored()


@pytest.mark.parametrize(
    ("text", "kind", "key"),
    [
        (b'{"id":1,"method":"m"}', "request", ("request", "m")),
        (b'{"method":"m"}', "notification", ("notification", "m")),
        (b'{"id":1,"result":{}}', "response", ("response", "int", 1)),
        (b'{"id":1.0,"result":{}}', "response", ("response", "int", 1)),
        (b'{"id":"1","error":{}}', "response", ("response", "str", "1")),
        (b'{"id":null,"error":{}}', "response", ("response", "other", "None")),
        (b'{"id":1}', "other", ("other",)),
        (b"{}", "other", ("other",)),
        (b"[]", "other", ("other",)),
        (b"oops", "other", ("other",)),
        (b"[" * 9000, "other", ("other",)),
    ],
)
def test_what_a_message_is(text: bytes, kind: str, key: tuple[Any, ...]) -> None:
    message = ParsedMessage.parse(text)
    assert (message.kind, message.key, message.text) == (kind, key, text)
    assert message.title


def test_the_title_says_what_it_is() -> None:
    assert ParsedMessage.parse(b'{"method":"push/event"}').title == "push/event"
    assert "7" in ParsedMessage.parse(b'{"id":7,"result":1}').title
    assert "no JSON-RPC" in ParsedMessage.parse(b"oops").title


@pytest.mark.parametrize(
    ("recorded", "live", "found"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, []),
        ({"a": 1}, {"a": True}, [("$.a", 1, True)]),
        ({"a": None}, {}, [("$.a", None, UNSET)]),
        ({}, {"a.b": []}, [('$["a.b"]', UNSET, [])]),
        ({"a": [1, 2]}, {"a": [1, 3, 4]}, [("$.a[1]", 2, 3), ("$.a[2]", UNSET, 4)]),
        ({"a": [1]}, {"a": []}, [("$.a[0]", 1, UNSET)]),
        ({"a": {}}, {"a": []}, [("$.a", {}, [])]),
        ("x", "x", []),
        ("x", 1, [("$", "x", 1)]),
        ({"b": {"c": 1}, "a": 0}, {"b": {"c": 2}, "a": 1}, [("$.b.c", 1, 2), ("$.a", 0, 1)]),
    ],
)
def test_where_two_values_differ(recorded: Any, live: Any, found: list[Any]) -> None:
    assert member_differences(recorded, live, NOTHING) == found


def test_depth_is_no_trouble() -> None:
    one: Any = 1
    two: Any = 2
    for _ in range(5000):
        one, two = [one], [two]
    ((path, before, after),) = member_differences(one, two, NOTHING)
    assert (path.count("[0]"), before, after) == (5000, 1, 2)


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ([], ["$.a.at", "$.b[0].at", "$.b[1].n", "$.at"]),
        (["at"], ["$.b[1].n"]),
        (["$.at"], ["$.a.at", "$.b[0].at", "$.b[1].n"]),
        (["$.*.at"], ["$.b[0].at", "$.b[1].n", "$.at"]),
        (["$.b[*].at", "$.a"], ["$.b[1].n", "$.at"]),
        (["$.b"], ["$.a.at", "$.at"]),
        (["$"], []),
        (["b", "a", "$.at"], []),
    ],
)
def test_what_may_differ(rules: list[str], left: list[str]) -> None:
    recorded = {"a": {"at": 1}, "b": [{"at": 1}, {"n": 1}], "at": 1}
    live = {"a": {"at": 2}, "b": [{"at": 2}, {"n": 2}], "at": 2}
    assert [path for path, _, _ in member_differences(recorded, live, Ignored.parse(rules))] == left


def test_exact_paths_may_differ_besides() -> None:
    assert member_differences({"a": 1, "b": 1}, {"a": 2, "b": 2}, NOTHING, ["$.a"]) == [("$.b", 1, 2)]


def test_ids() -> None:
    ids: list[Any] = [1, "1", 1.5, True, None, {}]
    keys = [id_key(id) for id in ids]
    assert len(set(keys)) == len(keys)
    assert id_key(1) == id_key(1.0)


def test_another_value_and_nothing_else_changes() -> None:
    text = rb'{"jsonrpc":"2.0", "id": 7 ,"params":{"requestId": 7,"x":[1.0,  2],"y":"\ud800 \\ud800"}}'
    assert with_member(text, ("id",), b'"a"') == (
        rb'{"jsonrpc":"2.0","id":"a","params":{"requestId": 7,"x":[1.0,  2],"y":"\ud800 \\ud800"}}'
    )
    assert with_member(text, ("params", "requestId"), b"9") == (
        rb'{"jsonrpc":"2.0","id":7,"params":{"requestId":9,"x":[1.0,  2],"y":"\ud800 \\ud800"}}'
    )
    with pytest.raises(InvalidValueError) as caught:
        with_member(text, ("nothing",), b"1")
    assert caught.value.code == "member"
