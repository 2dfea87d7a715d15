"""Validating values: each keyword, agreement with JSON Schema, and a bound on the work."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.catalog.profile.budgets import ProfileBudgets
from mcpl_core.catalog.profile.compiler import CompiledSchema, compile_schema
from mcpl_core.catalog.profile.errors import ProfileMismatchError
from tests.catalog.kit import FIXTURES, nested

Json = dict[str, Any]
jsonschema = pytest.importorskip("jsonschema")


def fits(compiled: CompiledSchema, value: Any) -> bool:
    try:
        compiled.validate(value)
    except ProfileMismatchError as exc:
        assert exc.__context__ is None
        return False
    return True


def code(compiled: CompiledSchema, value: Any) -> str:
    with pytest.raises(ProfileMismatchError) as caught:
        compiled.validate(value)
    return caught.value.code


@pytest.mark.spec("R-catalog-2")
@pytest.mark.parametrize("case", FIXTURES["values"], ids=lambda case: str(case["name"]))
def test_values(case: Json) -> None:
    assert fits(compile_schema(case["schema"]), case["value"]) is case["fits"]


def test_the_copy_is_the_same_value_and_shares_nothing() -> None:
    value: Json = {"a": [1.0, {"b": -0.0}], "t": ("x",)}
    copied = compile_schema({"type": "object"}).validate(value)
    assert copied == {"a": [1, {"b": 0}], "t": ["x"]}
    assert type(copied["a"][0]) is int and copied["a"] is not value["a"]


@pytest.mark.parametrize(
    ("schema", "value", "keyword", "path"),
    [
        ({"properties": {"a": {"type": "string"}}}, {"a": 1}, "type", "$.a"),
        ({"properties": {"a": {"items": {"minimum": 1}}}}, {"a": [1, 0]}, "minimum", "$.a[1]"),
        ({"required": ["a"]}, {}, "required", "$.a"),
        # A name that the schema does not know is the value's own, and stays with it.
        ({"additionalProperties": False}, {"secret": 1}, "additionalProperties", "$"),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [1, 1]}, "uniqueItems", "$.a"),
    ],
)
def test_a_mismatch_names_keyword_and_place(schema: Json, value: Any, keyword: str, path: str) -> None:
    with pytest.raises(ProfileMismatchError) as caught:
        compile_schema({"type": "object", **schema}).validate(value)
    assert (caught.value.code, caught.value.path) == (keyword, path)
    assert "secret" not in str(caught.value)


def test_values_at_the_edges_of_their_budgets() -> None:
    anything = compile_schema({"type": "object"})
    # {"a":"..."} is eight bytes and the text.
    assert fits(anything, {"a": "x" * (1_048_576 - 8)})
    assert code(anything, {"a": "x" * (1_048_576 - 7)}) == "too_large"
    assert fits(anything, {"a": nested(63)})
    assert code(anything, {"a": nested(64)}) == "too_deep"
    assert fits(anything, {"a": [0] * (65_536 - 3)})
    assert code(anything, {"a": [0] * (65_536 - 2)}) == "too_many_nodes"
    small = compile_schema({"type": "object"}, ProfileBudgets(output_bytes=8))
    assert fits(small, {"a": "é"[:0]}) and code(small, {"a": "x"}) == "too_large"


@pytest.mark.spec("R-catalog-2")
def test_steps_at_their_edge() -> None:
    schema = {"type": "object", "properties": {"a": {"items": {}}}}
    # The root, the array, and one for each item.
    assert fits(compile_schema(schema, ProfileBudgets(steps=5)), {"a": [1, 2, 3]})
    assert code(compile_schema(schema, ProfileBudgets(steps=4)), {"a": [1, 2, 3]}) == "steps"


@pytest.mark.spec("R-catalog-2")
def test_bombs_end_at_the_budget_of_steps() -> None:
    unique = compile_schema({"type": "object", "properties": {"a": {"uniqueItems": True}}})
    assert fits(unique, {"a": list(range(447))})
    assert code(unique, {"a": list(range(450))}) == "steps"
    others: list[Json] = [{"const": 1}] * 499
    branches = compile_schema({"type": "object", "properties": {"a": {"items": {"oneOf": [{"const": 0}, *others]}}}})
    assert fits(branches, {"a": [0] * 99})
    assert code(branches, {"a": [0] * 100}) == "steps"


def test_the_budget_of_steps_is_for_each_validation_anew() -> None:
    compiled = compile_schema({"type": "object"}, ProfileBudgets(steps=1))
    assert [fits(compiled, {}) for _ in range(3)] == [True] * 3


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -0.0])
    | st.sampled_from(["", "a", "ab", "é"])
)
values = st.recursive(
    scalars,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abc"), below, max_size=2),
    max_leaves=6,
)
names = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])
counts = st.integers(0, 2)
leaves = st.fixed_dictionaries(
    {},
    optional={
        "type": names | st.lists(names, min_size=1, max_size=2, unique=True),
        "const": values,
        "enum": st.lists(values, min_size=1, max_size=2),
        "minimum": st.integers(-2, 0),
        "maximum": st.integers(0, 2),
        "minLength": st.just(1),
        "maxLength": st.integers(1, 2),
        "maxItems": counts,
        "uniqueItems": st.booleans(),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "additionalProperties": st.booleans(),
    },
)
schemas = st.recursive(
    leaves,
    lambda below: st.builds(
        lambda leaf, more: {**leaf, **more},
        leaves,
        st.fixed_dictionaries(
            {},
            optional={
                "items": below,
                "properties": st.dictionaries(st.sampled_from("abc"), below, max_size=2),
                "anyOf": st.lists(below, min_size=1, max_size=2),
                "oneOf": st.lists(below, min_size=1, max_size=2),
            },
        ),
    ),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(schemas, values)
def test_it_agrees_with_json_schema_on_its_vocabulary(schema: Json, value: Any) -> None:
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    theirs: Any = partial(jsonschema.Draft202012Validator(whole).is_valid)
    assert fits(compile_schema(whole), {"x": value}) == theirs({"x": value})


@settings(max_examples=80, deadline=None)
@given(schemas, st.recursive(st.floats() | st.integers() | st.text() | st.binary(), st.lists, max_leaves=5))
def test_no_value_raises_anything_else(schema: Json, value: Any) -> None:
    compiled = compile_schema({"type": "object", "properties": {"x": schema}})
    fits(compiled, value)
    fits(compiled, {"x": value})
