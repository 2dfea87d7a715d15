"""Reading the results of tools."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.mcp.errors import McpResultError, McpToolError
from mcpl_core.mcp.results import McpAnswer, ResultMode, read_answer, shape_of
from tests.mcp.peers import text

SECRET = "canary-7f3a"


def value_of(result: dict[str, Any], mode: ResultMode = "text") -> Any:
    return read_answer("files", "read", result, mode).value


def fault_of(result: dict[str, Any], mode: ResultMode = "text") -> str:
    with pytest.raises(McpResultError) as caught:
        read_answer("files", "read", result, mode)
    error = caught.value
    assert (error.server, error.tool, error.method) == ("files", "read", "tools/call")
    assert SECRET not in str(error) + repr(error.args)
    return error.fault


# -- text


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (text("one", "two"), "one\ntwo"),
        (text(), ""),
        (text("a", structuredContent={"b": 1}), "a"),
        ({"content": [{"type": "image", "data": "..."}, {"type": "text", "text": "x"}]}, "[image]\nx"),
        ({"content": [{"type": "resource", "resource": {"text": "no"}}]}, "[resource]"),
        ({"content": [{"type": "text"}, {"type": "text", "text": 7}]}, "[text]\n[text]"),
        ({"content": [None, 1, "x", {}, {"type": ""}, {"type": 3}]}, "\n".join(["[unknown]"] * 6)),
        ({"content": [{"type": "k" * 99}]}, f"[{'k' * 40}]"),
    ],
)
def test_text_blocks_are_joined_and_others_named(result: dict[str, Any], expected: str) -> None:
    assert value_of(result) == expected


@pytest.mark.spec("R-mcp-4")
@pytest.mark.parametrize(
    ("value", "expected"), [("as it is", "as it is"), (7, "7"), ({"a": [1, None]}, '{"a":[1,null]}'), (None, "null")]
)
@pytest.mark.parametrize("beside", [{}, {"content": []}, {"content": None}, {"content": [], "isError": False}])
def test_the_result_of_earlier_versions(value: Any, expected: str, beside: dict[str, Any]) -> None:
    assert value_of({"toolResult": value, **beside}) == expected


def test_content_that_says_something_wins() -> None:
    assert value_of(text("new", toolResult="old")) == "new"


def test_an_earlier_result_without_a_json_form() -> None:
    loop: dict[str, Any] = {}
    loop[SECRET] = loop
    for value in (loop, float("nan"), object()):
        assert fault_of({"toolResult": {"a": value}}) == "shape"


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"structuredContent": {"a": SECRET}},
        {"content": SECRET},
        {"content": {"a": SECRET}},
        {"content": None},
        {"content": 7},
        {"data": SECRET, "more": [SECRET]},
    ],
)
def test_a_result_that_is_none(result: dict[str, Any]) -> None:
    assert fault_of(result) == "shape"


def test_a_shape_names_a_few_members_and_nothing_else() -> None:
    assert shape_of({f"m{number}": SECRET for number in range(9)}).count("'m") == 8
    assert shape_of({"x" * 99: 1}) == f"an object with '{'x' * 40}'"
    kinds: dict[str, Any] = {"null": None, "a string": "", "a truth value": True, "an array": [], "a number": 1.5}
    assert {shape_of(value) for value in kinds.values()} == kinds.keys()
    assert (shape_of({}), shape_of({1: 2}), shape_of(b"")) == ("an empty object", "an empty object", "a bytes")


# -- errors


@pytest.mark.parametrize("mode", ["text", "structured", "structured-or-json"])
def test_a_failed_tool_is_an_error_in_every_mode(mode: ResultMode) -> None:
    result = text("no such file", structuredContent={"a": 1}, isError=True)
    with pytest.raises(McpToolError) as caught:
        read_answer("files", "read", result, mode)
    assert (caught.value.server, caught.value.tool, caught.value.text) == ("files", "read", "no such file")
    assert caught.value.result == result


def test_only_true_says_that_a_tool_failed() -> None:
    assert value_of(text("fine", isError=False)) == value_of(text("fine", isError=None)) == "fine"
    with pytest.raises(McpToolError) as caught:
        value_of({"isError": True})
    assert caught.value.text == ""


@pytest.mark.spec("R-mcp-19")
@pytest.mark.parametrize("mode", ["text", "structured", "structured-or-json"])
@pytest.mark.parametrize("failed", [1, 0, "true", "false", "", [], {SECRET: SECRET}])
def test_what_does_not_say_whether_it_failed_is_no_success(failed: Any, mode: ResultMode) -> None:
    with pytest.raises(McpResultError) as caught:
        read_answer("s", "t", text("{}", structuredContent={}, isError=failed), mode)
    assert (caught.value.fault, caught.value.path) == ("shape", "$.isError")


@pytest.mark.parametrize("kind", ["task", "input_required", None, 7, SECRET * 9])
def test_a_kind_of_result_that_is_not_spoken(kind: Any) -> None:
    with pytest.raises(McpResultError) as caught:
        value_of(text("x", resultType=kind))
    assert (caught.value.fault, caught.value.path) == ("result-type", "$.resultType")
    assert len(str(caught.value)) < 200
    assert value_of(text("x", resultType="complete")) == "x"


# -- structured


def test_structured_content_is_an_object() -> None:
    result = text('{"b": 2}', structuredContent={"a": 1})
    assert value_of(result, "structured") == {"a": 1}
    assert value_of(result, "structured-or-json") == {"a": 1}


@pytest.mark.spec("R-mcp-2")
@pytest.mark.parametrize("mode", ["structured", "structured-or-json"])
@pytest.mark.parametrize("bad", [[1], "x", 7, True, None])
def test_bad_structured_content_has_no_fallback(mode: ResultMode, bad: Any) -> None:
    assert fault_of(text('{"b": 2}', structuredContent=bad), mode) == "structured-not-object"


@pytest.mark.spec("R-mcp-2")
@pytest.mark.parametrize(
    ("result", "strict", "lenient"),
    [
        (text('{"b": 2}'), "structured-missing", {"b": 2}),
        (text(' {"b": 2}\n'), "structured-missing", {"b": 2}),
        (text("[1]"), "structured-missing", "text-not-object"),
        (text("7"), "structured-missing", "text-not-object"),
        (text('Result: {"b": 2}'), "structured-missing", "text-not-json"),
        (text("{}", "{}"), "structured-missing", "not-one-text"),
        (text(), "structured-missing", "not-one-text"),
        ({"content": [{"type": "image"}]}, "structured-missing", "not-one-text"),
        ({"content": [{"type": "text", "text": None}]}, "structured-missing", "not-one-text"),
        ({"content": [7]}, "structured-missing", "not-one-text"),
        ({"toolResult": {"b": 2}}, "structured-missing", "not-one-text"),
        (text("[" * 65 + "]" * 65), "structured-missing", "too-deep"),
    ],
)
def test_one_text_that_is_an_object(result: dict[str, Any], strict: str, lenient: Any) -> None:
    assert fault_of(result, "structured") == strict
    if isinstance(lenient, dict):
        assert value_of(result, "structured-or-json") == lenient
    else:
        assert fault_of(result, "structured-or-json") == lenient


def test_structured_content_is_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(63):
        deep = {"a": deep}
    assert value_of({"structuredContent": deep}, "structured") == deep
    assert fault_of({"structuredContent": {"a": deep}}, "structured") == "too-deep"
    assert fault_of({"structuredContent": {"a": [0] * 1_000_000}}, "structured") == "too-many-values"


def test_both_forms_of_an_answer_are_there() -> None:
    answer = read_answer("s", "t", text("a", structuredContent=[1]), "text")
    assert (answer.value, answer.structured, answer.content) == ("a", [1], [{"type": "text", "text": "a"}])
    assert (McpAnswer("", {}).structured, McpAnswer("", {"content": 7}).content) == (None, [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("content", "structuredContent", "toolResult", "isError"), JSON)),
    st.sampled_from(["text", "structured", "structured-or-json"]),
)
def test_no_result_crashes_the_reader(result: dict[str, Any], mode: ResultMode) -> None:
    try:
        value = value_of(result, mode)
    except (McpResultError, McpToolError):
        return
    assert isinstance(value, str if mode == "text" else dict)
