"""Checks on plain trees: what they take, and the place that they name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.trees import (
    at_index,
    at_key,
    at_place,
    at_steps,
    each_string,
    json_object,
    json_pointer,
    string_list,
    string_value,
)


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


@pytest.mark.parametrize(("key", "path"), [(5, "$[int]"), (None, "$[NoneType]"), (("a", "b"), "$[tuple]")])
def test_a_key_that_no_object_of_json_has_is_shown_by_its_type(key: Any, path: str) -> None:
    assert at_key("$", key) == path


def test_paths_compose() -> None:
    assert at_index(at_key(at_key("$", "a"), "b.c"), 0) == '$.a["b.c"][0]'
    assert at_steps(["a", "b.c", 0]) == '$.a["b.c"][0]'
    assert at_steps([]) == "$"
    assert at_place((((None, "a"), "b.c"), 0)) == '$.a["b.c"][0]'
    assert at_place(None) == "$"


def test_a_deep_path_is_made_in_one_go() -> None:
    assert at_steps(["a"] * 200_000) == "$" + ".a" * 200_000


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


@pytest.mark.parametrize("value", [{1: 2}, {"a": 1, None: 2}, {("a",): 1}])
def test_an_object_has_strings_for_names(value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        json_object(value, "$.here")
    assert (caught.value.code, caught.value.path) == ("not_json", "$.here")


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


@pytest.mark.parametrize("value", [["a", "b"], ("a", "b"), {"a": 1, "b": 2}, iter("ab"), (c for c in "ab")])
def test_any_iterable_of_strings_will_do_as_an_argument(value: Any) -> None:
    assert each_string(value) == ("a", "b")


@pytest.mark.parametrize("value", ["ab", b"ab", bytearray(b"ab"), None, 5])
def test_a_bare_string_is_no_iterable_of_strings(value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        each_string(value, "$.here")
    assert (caught.value.code, caught.value.path) == ("not_array", "$.here")


def test_each_string_names_the_one_that_is_none() -> None:
    with pytest.raises(InvalidValueError) as caught:
        each_string((x for x in ("a", 5)), "$.here")
    assert (caught.value.code, caught.value.path) == ("not_string", "$.here[1]")


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "null"), (True, "a boolean"), (1, "a number"), (1.5, "a number"), ([], "an array"), (b"", "bytes")],
)
def test_a_refusal_says_what_came_in_the_words_of_json(value: Any, kind: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        string_value(value)
    assert caught.value.detail.endswith(kind)


@pytest.mark.parametrize(
    ("steps", "pointer"),
    [((), ""), (("a", 0), "/a/0"), (("",), "/"), (("a/b", "m~n"), "/a~1b/m~0n"), (("~1",), "/~01")],
)
def test_json_pointers_escape_what_separates(steps: tuple[str | int, ...], pointer: str) -> None:
    assert json_pointer(steps) == pointer
