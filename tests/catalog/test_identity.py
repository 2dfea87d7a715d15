"""``purra.json-identity/v1``: the public vector, and what is the same and what is not."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.catalog.identity import IDENTITY_BUDGET, JSON_IDENTITY_PROFILE, identity_digest, identity_text
from mcpl_core.errors import InvalidValueError

#: A snapshot whose digest is published.
VECTOR: dict[str, Any] = {
    "schemaVersion": 1,
    "serverId": "fixture",
    "protocolVersion": "2025-11-25",
    "entries": [
        {
            "remoteName": "remote.search",
            "localName": "search",
            "description": "Search documents",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "q": {"type": "string", "maxLength": 1},
                    "n": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["q"],
                "additionalProperties": False,
            },
            "outputSchema": {
                "type": "object",
                "properties": {"count": {"type": "integer"}},
                "required": ["count"],
                "additionalProperties": False,
            },
            "policy": {"mode": "read", "title": "Search", "riskLevel": "read"},
            "concurrencySafe": True,
        }
    ],
}
VECTOR_DIGEST = "8cb096a7199b89dd4fcdcdae1f23b91b9d29ba0146efbbba79cd1a557e62349d"

numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e9, 1e9, allow_nan=False)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
trees = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(texts, below, max_size=4),
    max_leaves=12,
)


@pytest.mark.spec("R-catalog-1")
def test_the_published_vector() -> None:
    assert identity_digest(VECTOR) == VECTOR_DIGEST
    assert identity_digest(json.loads(json.dumps(VECTOR))) == VECTOR_DIGEST


@pytest.mark.spec("R-catalog-1")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "n"),
        (True, "t"),
        (False, "f"),
        (1, "d3ff0000000000000"),
        (1.0, "d3ff0000000000000"),
        (-0.0, "d0000000000000000"),
        (0.5, "d3fe0000000000000"),
        ("é", "s2:c3a9"),
        ("", "s0:"),
        ([], "a0:"),
        ([None, []], "a2:na0:"),
        ((True,), "a1:t"),
        ({}, "o0:"),
        ({"b": False, "a": None}, "o2:s1:61ns1:62f"),
        # Sorted by code points: U+FFFD is before U+10000, which in UTF-16 begins with U+D800.
        ({"\U00010000": None, "\ufffd": None}, "o2:s3:efbfbdns4:f0908080n"),
    ],
)
def test_the_text_of_each_kind_of_value(value: Any, text: str) -> None:
    assert identity_text(value) == text
    assert identity_digest(value) == sha256(f"{JSON_IDENTITY_PROFILE}\n{text}".encode()).hexdigest()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (2**53, "number"),
        (-(2**53), "number"),
        (float(2**53), "number"),
        (1e300, "number"),
        (float("nan"), "number"),
        (float("inf"), "number"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        ({1: 2}, "not_json"),
        (b"bytes", "not_json"),
        ({"a": object()}, "not_json"),
        ({1, 2}, "not_json"),
        ("x" * (IDENTITY_BUDGET.bytes - 1), "too_large"),
        ([0] * IDENTITY_BUDGET.nodes, "too_many_nodes"),
    ],
)
def test_what_has_no_identity(value: Any, code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        identity_digest(value)
    assert caught.value.code == code


def test_the_budgets_at_their_edges() -> None:
    assert identity_text("x" * (IDENTITY_BUDGET.bytes - 2)).startswith("s1048574:")
    assert identity_text([0] * (IDENTITY_BUDGET.nodes - 1)).startswith("a65535:")
    deep: Any = None
    for _ in range(IDENTITY_BUDGET.depth):
        deep = [deep]
    assert identity_text(deep).endswith("a1:n")
    with pytest.raises(InvalidValueError) as caught:
        identity_text([deep])
    assert caught.value.code == "too_deep"


def test_a_container_inside_itself_is_refused() -> None:
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(InvalidValueError) as caught:
        identity_digest(knot)
    assert caught.value.code == "not_json"
    shared: list[Any] = [1]
    assert identity_text([shared, shared]) == identity_text([[1], [1]])


@settings(max_examples=60, deadline=None)
@given(trees, st.randoms())
def test_the_order_of_members_does_not_matter(tree: Any, random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            names = list(value)
            random.shuffle(names)
            return {name: shuffled(value[name]) for name in names}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    assert identity_text(shuffled(tree)) == identity_text(tree)
    assert re.fullmatch(r"[0-9a-f]{64}", identity_digest(tree))


@settings(max_examples=80, deadline=None)
@given(trees, trees)
def test_equal_texts_are_equal_values(one: Any, other: Any) -> None:
    def same(left: Any, right: Any) -> bool:
        if isinstance(left, bool) or isinstance(right, bool):
            return left is right
        if isinstance(left, dict) and isinstance(right, dict):
            return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
        if isinstance(left, list) and isinstance(right, list):
            return len(left) == len(right) and all(map(same, left, right))
        return bool(left == right)

    assert (identity_text(one) == identity_text(other)) == same(one, other)
    assert identity_text([one]) != identity_text({"a": one})


@settings(max_examples=60, deadline=None)
@given(st.recursive(st.floats() | st.integers() | st.text() | st.binary() | st.none(), st.lists, max_leaves=8))
def test_nothing_else_is_ever_raised(value: Any) -> None:
    try:
        identity_digest(value)
    except InvalidValueError:
        pass
