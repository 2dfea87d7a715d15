"""Copies within a budget."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.catalog.bounded import SAFE_INTEGER, JsonBudget, copy_bounded, freeze
from mcpl_core.errors import InvalidValueError
from mcpl_core.manifest.jcs import canonical_bytes
from tests.catalog.kit import nested

ROOMY = JsonBudget(depth=64, nodes=10_000, bytes=100_000)

texts = st.text(st.characters(codec="utf-8"), max_size=6)
trees = st.recursive(
    st.none() | st.booleans() | st.integers(-SAFE_INTEGER, SAFE_INTEGER) | st.floats(-1e6, 1e6) | texts,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(texts, below, max_size=4),
    max_leaves=10,
)


def code(value: Any, budget: JsonBudget = ROOMY) -> str:
    with pytest.raises(InvalidValueError) as caught:
        copy_bounded(value, budget)
    assert caught.value.path == "$"
    assert caught.value.__context__ is None
    return caught.value.code


def nodes(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + nodes(member) for member in value.values())
    return 1 + sum(map(nodes, value)) if isinstance(value, list) else 1


@settings(max_examples=120, deadline=None)
@given(trees)
def test_the_budgets_are_exact(tree: Any) -> None:
    copied = copy_bounded(tree, ROOMY)
    assert copied == tree
    size = len(canonical_bytes(tree))
    exact = JsonBudget(depth=64, nodes=nodes(tree), bytes=size)
    copy_bounded(tree, exact)
    assert code(tree, JsonBudget(64, exact.nodes - 1, exact.bytes)) == "too_many_nodes"
    assert code(tree, JsonBudget(64, exact.nodes, exact.bytes - 1)) == "too_large"


def test_depth_is_counted_from_the_root() -> None:
    copy_bounded(nested(3), JsonBudget(3, 100, 100))
    assert code(nested(3), JsonBudget(2, 100, 100)) == "too_deep"
    assert copy_bounded("x", JsonBudget(0, 1, 3)) == "x"
    assert code({"a": 1}, JsonBudget(0, 100, 100)) == "too_deep"


def test_what_is_copied_is_plain() -> None:
    class Text(str):
        pass

    class Number(int):
        pass

    copied = copy_bounded(MappingProxyType({Text("a"): (Number(1), 2.0, -0.0, 0.5)}), ROOMY)
    assert copied == {"a": [1, 2, 0, 0.5]}
    assert [type(item) for item in copied["a"]] == [int, int, int, float]
    assert [type(name) for name in copied] == [str]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"x", "not_json"),
        ({1: 1}, "not_json"),
        (float("-inf"), "number"),
        (SAFE_INTEGER + 1, "number"),
        (1e300, "number"),
        ("\udc00", "surrogate"),
        ({"\udc00": 1}, "surrogate"),
    ],
)
def test_what_is_no_plain_json(value: Any, expected: str) -> None:
    assert code(value) == expected


def test_a_long_text_is_refused_before_it_is_encoded() -> None:
    assert code("x" * 11, JsonBudget(1, 10, 10)) == "too_large"


def test_knots_end() -> None:
    knot: dict[str, Any] = {}
    knot["a"] = [knot]
    assert code(knot) == "not_json"


def test_frozen_all_the_way_down() -> None:
    frozen = freeze({"a": [1, {"b": [2]}], "c": "x"})
    assert isinstance(frozen, MappingProxyType)
    assert frozen["a"][1]["b"] == (2,)
    assert copy_bounded(frozen, ROOMY) == {"a": [1, {"b": [2]}], "c": "x"}
