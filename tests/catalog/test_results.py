"""Reading results: the order of the checks and the limits at their edges. The cases are in the fixtures."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.catalog.limits import CatalogLimits
from mcpl_core.catalog.profile import compile_schema
from mcpl_core.catalog.results import Envelope, json_size, read_result
from tests.catalog.kit import OUTPUT, text_result

LIMITS = CatalogLimits()


def size(value: Any) -> int:
    found = json_size(value)
    assert found is not None
    return found


def test_bytes_of_the_whole_result_at_the_limit() -> None:
    result = text_result("é", _meta={"x": 1})
    assert isinstance(read_result(result, None, CatalogLimits(max_result_bytes=size(result))), Envelope)
    assert read_result(result, None, CatalogLimits(max_result_bytes=size(result) - 1)) == "mcp_result_too_large"
    fitting = text_result("x" * (65_536 - size(text_result(""))))
    assert isinstance(read_result(fitting, None, LIMITS), Envelope)
    over = text_result("x" * (65_537 - size(text_result(""))))
    assert read_result(over, None, LIMITS) == "mcp_result_too_large"


def test_blocks_at_the_limit() -> None:
    assert isinstance(read_result(text_result("a", "b"), None, CatalogLimits(max_content_blocks=2)), Envelope)
    assert read_result(text_result("a", "b"), None, CatalogLimits(max_content_blocks=1)) == "mcp_result_too_large"
    assert isinstance(read_result(text_result(*["a"] * 128), None, LIMITS), Envelope)
    assert read_result(text_result(*["a"] * 129), None, LIMITS) == "mcp_result_too_large"


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "text",
        {},
        {"content": None},
        {"content": [], "isError": "no"},
        {"content": [], "isError": None},
        {"content": [None]},
        {"content": [{"text": "x"}]},
        {"content": [{"type": ["text"], "text": "x"}]},
        {"content": [{"type": "text", "text": "\ud800"}]},
        {"content": [], "structuredContent": {"a": "\ud800"}},
        {"content": [], "structuredContent": {"a": 2**60}},
        {"content": [], "structuredContent": "x"},
        {"content": [], "x": float("nan")},
        {"content": [], "x": object()},
    ],
)
def test_what_is_no_result(value: Any) -> None:
    assert read_result(value, None, LIMITS) == "mcp_result_invalid"


def test_an_error_is_an_error_whatever_else_it_says() -> None:
    result = {"content": [{"type": "image"}] * 200, "isError": True, "structuredContent": 7}
    assert read_result(result, compile_schema(OUTPUT), LIMITS) == "mcp_tool_error"


def test_what_is_read_is_immutable_and_shown_to_nobody_by_accident() -> None:
    found: Any = read_result({"content": [], "structuredContent": {"count": 1.0}}, compile_schema(OUTPUT), LIMITS)
    assert found.structured == {"count": 1} and type(found.structured["count"]) is int
    with pytest.raises(TypeError):
        found.structured["count"] = 2
    assert repr(found) == "<Envelope>"
    assert read_result(text_result("é😀"), None, LIMITS) == Envelope(("é😀",), None)
