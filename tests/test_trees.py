"""Checks on plain trees: what they take, and the place that they name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.trees import at_index, at_key, json_object, string_list, string_value


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a", "$.a"),
        ("_a9", "$._a9"),
        ("9a", '$["9a"]'),
        ("memory.retrieval", '$["memory.retrieval"]'),
        ("a b", '$["a b"]'),
        ("", '$[""]'),
        ('say "x"', '$["say \\"x\\""]'),
        ("a\n", '$["a\\n"]'),
        ("é", '$["\\u00e9"]'),
        ("\ud800", '$["\\ud800"]'),
    ],
)
def test_at_key(key: str, path: str) -> None:
    assert at_key("$", key) == path


def test_paths_compose() -> None:
    assert at_index(at_key(at_key("$", "a"), "b.c"), 0) == '$.a["b.c"][0]'


@given(st.text())
def test_a_quoted_key_can_be_read_back(key: str) -> None:
    path = at_key("$", key)
    assert path == f"$.{key}" or json.loads(path.removeprefix("$[").removesuffix("]")) == key


def test_the_checks_return_what_they_were_given() -> None:
    assert json_object({"a": 1}) == {"a": 1}
    assert string_value("x") == "x"
    assert string_list(["b", "a", "b"]) == ("b", "a", "b")
    assert string_list(("a",)) == ("a",)
    assert string_list([]) == ()


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "s", [], [{}]])
def test_json_object_refuses(value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        json_object(value, "$.here")
    assert (caught.value.code, caught.value.path) == ("not_object", "$.here")


@pytest.mark.parametrize("value", [None, True, 1, 1.5, [], {}, b"s", object()])
def test_string_value_refuses(value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        string_value(value, "$.here")
    assert (caught.value.code, caught.value.path) == ("not_string", "$.here")


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        (None, "not_array", "$.here"),
        ("tools", "not_array", "$.here"),
        ({"tools": True}, "not_array", "$.here"),
        ({"tools"}, "not_array", "$.here"),
        (["a", None], "not_string", "$.here[1]"),
        ([["a"]], "not_string", "$.here[0]"),
        (["a", "b", 3, 4], "not_string", "$.here[2]"),
    ],
)
def test_string_list_refuses(value: Any, code: str, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        string_list(value, "$.here")
    assert (caught.value.code, caught.value.path) == (code, path)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "null"), (True, "a boolean"), (1, "a number"), (1.5, "a number"), ([], "an array"), (b"", "bytes")],
)
def test_a_refusal_says_what_came_in_the_words_of_json(value: Any, kind: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        string_value(value)
    assert caught.value.detail.endswith(kind)
