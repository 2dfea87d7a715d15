"""What a model is told: one sentence, never long, and a sentence for every keyword that can be told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.schemas.sentences import SENTENCES, brief, missing_members, names, unknown_members

HUGE = "x" * 100_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("é", '"é"'),
        ("\ud800", '"\\ud800"'),
        ("x" * 60, '"' + "x" * 60 + '"'),
        ({"a": HUGE}, "an object with 1 member"),
        ([], "an array of 0 elements"),
        ((1, 2), "an array of 2 elements"),
        pytest.param(10**5_000, "a very large number", id="large"),
        (2**128 - 1, str(2**128 - 1)),
    ],
)
def test_values_are_shown_briefly(value: Any, text: str) -> None:
    assert brief(value) == text


def test_a_long_text_is_cut_and_measured() -> None:
    assert len(brief(HUGE)) < 100
    assert "100000" in brief(HUGE)


@settings(deadline=None)
@given(JSON)
def test_nothing_is_shown_at_length(value: Any) -> None:
    assert len(brief(value)) <= 450  # sixty characters, each an escape at worst


def test_of_many_names_the_first_are_shown() -> None:
    assert names(["a", "b"]) == '"a", "b"'
    assert names("abc", most=2) == '"a", "b" and 1 more'
    assert len(names([HUGE] * 1_000)) < 1_000


def test_missing_and_unknown_members_are_named() -> None:
    assert '"b"' in missing_members(["a", "b"], {"a": 1})
    assert '"a"' not in missing_members(["a", "b"], {"a": 1})
    assert all(name in unknown_members(["x"], ["a", "b"]) for name in ('"x"', '"a"', '"b"'))
    assert '"x"' in unknown_members(["x"], [])
    many = unknown_members([f"n{number}" for number in range(9)], [])
    assert '"n7"' in many
    assert '"n8"' not in many


CASES: dict[str, tuple[Any, Any]] = {
    "type": (["string", "null"], HUGE),
    "enum": ([HUGE] * 1_000, HUGE),
    "const": (HUGE, HUGE),
    "minimum": (1, 10**5_000),
    "maximum": (1, 10**5_000),
    "exclusiveMinimum": (1, 1),
    "exclusiveMaximum": (1, 1),
    "multipleOf": (2, 3),
    "minLength": (10**5_000, HUGE),
    "maxLength": (5, HUGE),
    "pattern": (HUGE, HUGE),
    "format": ("date", HUGE),
    "minItems": (1, []),
    "maxItems": (1, [HUGE, HUGE]),
    "uniqueItems": (True, [HUGE, HUGE]),
    "minProperties": (1, {}),
    "maxProperties": (1, {HUGE: 1, "b": 1}),
    "dependentRequired": ({"a": ["b", HUGE]}, {"a": 1}),
    "contains": (None, [HUGE]),
    "not": (None, HUGE),
    "anyOf": ([True] * 5_000, HUGE),
    "unevaluatedProperties": (False, {HUGE: 1}),
    "unevaluatedItems": (False, [HUGE]),
}


@pytest.mark.parametrize("keyword", SENTENCES)
def test_no_sentence_repeats_a_huge_value(keyword: str) -> None:
    wanted, value = CASES[keyword]
    sentence = SENTENCES[keyword](wanted, value)
    assert 10 < len(sentence) < 2_000
    assert HUGE not in sentence


@pytest.mark.parametrize(
    ("keyword", "shown"),
    [("type", ["string", "null", "5"]), ("enum", ['"a"', '"b"', "5"]), ("minimum", ["7", "5"]), ("maxLength", ["7"])],
)
def test_a_sentence_says_what_is_expected_and_what_came(keyword: str, shown: list[str]) -> None:
    wanted: Any = {"type": ["string", "null"], "enum": ["a", "b"], "minimum": 7, "maxLength": 7}[keyword]
    sentence = SENTENCES[keyword](wanted, "longer than it" if keyword == "maxLength" else 5)
    assert [part for part in shown if part not in sentence] == []
