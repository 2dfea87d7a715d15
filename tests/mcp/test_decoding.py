"""Bounds of decoding."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.mcp import decoding
from mcpl_core.mcp.decoding import MOST_DEPTH, broken_bound, read_json_text, utf16_length


def nested(depth: int, kind: str) -> Any:
    value: Any = []
    for number in range(depth - 1):
        value = [value] if kind == "list" or (kind == "mixed" and number % 2) else {"a": value}
    return value


@pytest.mark.parametrize("kind", ["list", "dict", "mixed"])
def test_depth_at_its_bound_and_beyond(kind: str) -> None:
    assert broken_bound(nested(MOST_DEPTH, kind)) is None
    assert broken_bound(nested(MOST_DEPTH + 1, kind)) == "too-deep"
    assert broken_bound([[1, "two", None], {"a": ()}]) is None


def test_what_is_no_container_adds_no_depth() -> None:
    value: Any = {"a": 0}
    for _ in range(MOST_DEPTH - 1):
        value = [value, "x"]
    assert broken_bound(value) is None
    assert broken_bound([value]) == "too-deep"


@pytest.mark.spec("R-mcp-3")
def test_the_numbers_are_the_published_ones() -> None:
    assert (decoding.MOST_DEPTH, decoding.MOST_VALUES, decoding.MOST_TEXT) == (64, 1_000_000, 16_000_000)


@pytest.mark.spec("R-mcp-3")
def test_values_at_their_bound_and_beyond() -> None:
    assert broken_bound({"a": [0] * 999_998}) is None
    assert broken_bound({"a": [0] * 999_999}) == "too-many-values"
    assert broken_bound([{"x": 0}] * 500_000) == "too-many-values"


def test_what_holds_itself_is_too_deep() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert broken_bound(loop) == "too-deep"


@pytest.mark.parametrize(
    ("text", "units"), [("", 0), ("abc", 3), ("\u00e9", 1), ("\U0001f600", 2), ("a\U0001f600b", 4), ("\ud800", 1)]
)
def test_utf16_units(text: str, units: int) -> None:
    assert utf16_length(text) == units


@pytest.mark.spec("R-mcp-3")
def test_a_text_is_measured_in_utf16_units_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MOST_TEXT", 10)
    assert read_json_text('"' + 8 * "x" + '"') == (8 * "x", None)
    assert read_json_text('"' + 9 * "x" + '"') == (None, "text-too-long")
    assert read_json_text('"' + 4 * "\U0001f600" + '"') == (4 * "\U0001f600", None)
    assert read_json_text('"' + 4 * "\U0001f600" + 'x"') == (None, "text-too-long")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (' {"a": [1, 2.5, null]}\n', ({"a": [1, 2.5, None]}, None)),
        ('Here it is: {"a": 1}', (None, "text-not-json")),
        ('{"a": 1} done', (None, "text-not-json")),
        ("", (None, "text-not-json")),
        ("NaN", (None, "text-not-json")),
        ('"\ud800"', (None, "text-not-json")),
        ("[" * 64 + "]" * 64, (nested(64, "list"), None)),
        ("[" * 65 + "]" * 65, (None, "too-deep")),
        ("[" * 100_000, (None, "too-deep")),
    ],
)
def test_reading_a_json_text(text: str, expected: Any) -> None:
    assert read_json_text(text) == expected


def test_too_many_values_in_a_text() -> None:
    value, fault = read_json_text("[" + ",".join(["0"] * 1_000_000) + "]")
    assert fault == "too-many-values"
    assert isinstance(value, list)


@given(st.text(max_size=40))
def test_no_text_is_too_strange(text: str) -> None:
    value, fault = read_json_text(text)
    assert fault is None or value is None
