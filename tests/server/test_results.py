"""From what a tool returned to a ``tools/call`` result."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core import (
    InvalidValueError,
    UnencodableError,
    image_content,
    resource_content,
    text_content,
)
from mcpl_core.protocol import StateRecord, ToolsCallResult
from mcpl_core.server.results import WHOLE_RESULTS, ToolResult, error_result, tool_result
from mcpl_core.server.schemas import ResultSchema, result_schema

NOTHING = ResultSchema()


@dataclass
class Point:
    x: int
    when: datetime.date | None = None


def wire(value: Any, hint: Any = Any) -> Any:
    promised = result_schema(hint, "t", WHOLE_RESULTS)
    result = json.loads(bytes(tool_result(promised, value)))
    if promised.schema is not None:
        assert jsonschema_rs.validator_for(promised.schema).is_valid(result["structuredContent"])
    return result


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


class Other(dict[Any, Any]):
    """An object that is looked at in every way."""


@given(
    st.dictionaries(
        st.text(max_size=4) | st.integers(-9, 9),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.lists(st.integers()),
        max_size=4,
    ),
    st.sampled_from([Any, dict[str, Any], dict[str, int], Point]),
)
def test_a_flat_object_is_answered_as_any_other(value: dict[Any, Any], hint: Any) -> None:
    promised = result_schema(hint, "t", WHOLE_RESULTS)
    found: list[Any] = []
    for each in (value, Other(value)):
        try:
            found.append(bytes(tool_result(promised, each)))
        except (InvalidValueError, UnencodableError) as exc:
            found.append((type(exc), str(exc)))
    assert found[0] == found[1]


@pytest.mark.parametrize("hint", [Any, str, str | None])
def test_a_text_is_content_alone(hint: Any) -> None:
    assert wire("a", hint) == {"content": [text("a")]}


@pytest.mark.parametrize("hint", [Any, None, str | None])
def test_nothing_is_no_content(hint: Any) -> None:
    assert wire(None, hint) == {"content": []}


def test_blocks_stay_as_they_are_in_the_shape_of_mcp() -> None:
    image = image_content(b"\x00", "image/png")
    assert wire(image) == {"content": [image]}
    assert wire(["a", image]) == {"content": [text("a"), image]}
    assert wire(resource_content("memory://1"))["content"][0]["type"] == "resource_link"


@pytest.mark.parametrize(
    ("value", "hint", "structured"),
    [
        ({"a": 1}, Any, {"a": 1}),
        ({"a": 1}, dict[str, int], {"a": 1}),
        (Point(1), Point, {"x": 1, "when": None}),
        (Point(1, datetime.date(2026, 1, 2)), Point, {"x": 1, "when": "2026-01-02"}),
        (3, Any, {"result": 3}),
        (3, int, {"result": 3}),
        (3, float, {"result": 3}),
        ([1, "a"], Any, {"result": [1, "a"]}),
        ([], list[int], {"result": []}),
        ([], Any, {"result": []}),
        (True, bool, {"result": True}),
        (None, int | None, {"result": None}),
        (None, Point | None, {"result": None}),
        (Point(1), Point | None, {"result": {"x": 1, "when": None}}),
        ({"a"}, set[str], {"result": ["a"]}),
        ({1: "a"}, dict[int, str], {"1": "a"}),
    ],
)
def test_everything_else_is_structured_with_its_text(value: Any, hint: Any, structured: Any) -> None:
    result = wire(value, hint)
    assert set(result) == {"content", "structuredContent"}
    assert result["structuredContent"] == structured
    (block,) = result["content"]
    assert json.loads(block["text"]) == (structured if "result" not in structured else structured["result"])


def test_with_a_schema_a_text_is_both() -> None:
    assert wire("a", Literal["a", "b"]) == {"content": [text("a")], "structuredContent": {"result": "a"}}


def test_with_a_schema_blocks_are_both() -> None:
    assert wire([text_content("a")], list[Any]) == {
        "content": [text("a")],
        "structuredContent": {"result": [text("a")]},
    }


@pytest.mark.parametrize(
    ("value", "hint"),
    [("x", int), (None, int), (3, Point), ({"y": 1}, Point), ({"x": "1"}, Point), ("c", Literal["a"]), (True, int)],
)
def test_a_promise_that_is_not_kept_is_no_result(value: Any, hint: Any) -> None:
    with pytest.raises(InvalidValueError):
        wire(value, hint)


@pytest.mark.parametrize("value", [object(), float("nan"), {"a": object()}, {1, object()}, {(): 1}, lambda: 1])
def test_what_json_cannot_carry_is_no_result(value: Any) -> None:
    with pytest.raises(UnencodableError):
        tool_result(NOTHING, value)


def test_what_nests_deeper_than_peers_read_is_no_result() -> None:
    deep: Any = 1
    for _ in range(250):
        deep = [deep]
    with pytest.raises(UnencodableError):
        tool_result(NOTHING, deep)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UnencodableError):
        tool_result(NOTHING, endless)


def test_lone_surrogates_survive() -> None:
    assert wire({"a": "\ud800"})["structuredContent"] == {"a": "\ud800"}


# -- ToolResult


def test_a_whole_result_says_all() -> None:
    value = ToolResult(
        ["a", text_content("b")],
        structured={"n": 1},
        is_error=True,
        state=StateRecord(checkpoint="c2", parent="c1", patch=[{"op": "add", "path": "/n", "value": 1}]),
        meta={"k": "v"},
    )
    assert wire(value) == {
        "content": [text("a"), text("b")],
        "structuredContent": {"n": 1},
        "isError": True,
        "state": {"checkpoint": "c2", "parent": "c1", "patch": [{"op": "add", "path": "/n", "value": 1}]},
        "_meta": {"k": "v"},
    }


def test_a_whole_result_without_anything() -> None:
    assert wire(ToolResult()) == {"content": []}


def test_structured_content_alone_has_its_text() -> None:
    assert wire(ToolResult(structured={"n": 1}))["content"] == [text('{"n":1}')]


def test_the_three_states_of_a_state_stay_apart() -> None:
    def state(**members: Any) -> Any:
        return wire(ToolResult(state=StateRecord(checkpoint="c", **members)))["state"]

    assert state() == {"checkpoint": "c"}
    assert state(parent=None, data=None) == {"checkpoint": "c", "parent": None, "data": None}
    assert state(data={}) == {"checkpoint": "c", "data": {}}
    with pytest.raises(InvalidValueError):
        state(data={}, patch=[])
    plain: Any = {"checkpoint": "c"}
    with pytest.raises(InvalidValueError) as caught:
        wire(ToolResult(state=plain))
    assert caught.value.path == "$.state"


@pytest.mark.parametrize("structured", [3, [1], "a", None])
def test_structured_content_is_an_object(structured: Any) -> None:
    with pytest.raises(InvalidValueError):
        wire(ToolResult(structured=structured))


@pytest.mark.parametrize("meta", [None, [1], "x"])
def test_meta_is_an_object(meta: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        wire(ToolResult("x", meta=meta))
    assert refused.value.path == "$._meta"


def test_with_a_given_schema_structured_content_must_be_there() -> None:
    promised = ResultSchema({"type": "object"})
    with pytest.raises(InvalidValueError):
        tool_result(promised, ToolResult("a"))
    with pytest.raises(InvalidValueError):
        tool_result(promised, "a")
    assert json.loads(bytes(tool_result(promised, ToolResult("a", is_error=True))))["isError"]
    assert json.loads(bytes(tool_result(promised, {"a": 1})))["structuredContent"] == {"a": 1}


def test_a_result_of_the_wire_goes_out_as_it_is() -> None:
    result = ToolsCallResult(content=[text("a")], structured_content={"a": 1}, meta={"m": 1})
    expected = {"content": [text("a")], "structuredContent": {"a": 1}, "isError": False, "_meta": {"m": 1}}
    assert wire(result) == expected


def test_content_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        wire(ToolResult(3))


def test_an_error() -> None:
    assert json.loads(bytes(error_result("no"))) == {"content": [text("no")], "isError": True}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_any_json_comes_back(value: Any) -> None:
    result = msgspec.json.decode(bytes(tool_result(NOTHING, value)))
    if value is None or isinstance(value, str):
        assert "structuredContent" not in result
        return
    structured = result["structuredContent"]
    assert (structured if isinstance(value, dict) else structured["result"]) == value
    assert msgspec.json.decode(result["content"][0]["text"]) == value
