"""Defaults: through which keywords, in which order, and that every run ends."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.schemas import SchemaError, SchemaLimits, SchemaViolation
from mcpl_core.schemas.defaults import Defaults
from mcpl_core.schemas.references import References

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
LIMITS = SchemaLimits()
ONE = {"default": 1}


def fill(schema: Any, value: Any, limits: SchemaLimits = LIMITS) -> Any:
    before = copy.deepcopy(value)
    filled = Defaults(References(copy.deepcopy(schema)), limits).fill(value)
    assert value == before
    return filled


def test_what_stands_beside_a_reference_is_silent_in_older_dialects() -> None:
    beside = {"$ref": "#/definitions/a", "allOf": [{"properties": {"y": ONE}, "default": {}}], **ONE}
    schema = {"properties": {"x": beside}, "definitions": {"a": {"properties": {"z": ONE}}}}
    assert (fill(schema, {}), fill(schema, {"x": {}})) == ({"x": 1}, {"x": {"z": 1, "y": 1}})
    older = {"$schema": DRAFT_7, **schema}
    assert (fill(older, {}), fill(older, {"x": {}})) == ({}, {"x": {"z": 1}})


@pytest.mark.parametrize(
    ("schema", "value", "filled"),
    [
        ({"properties": {"a": ONE}}, {}, {"a": 1}),
        ({"properties": {"a": ONE}}, {"a": 2}, {"a": 2}),
        ({"properties": {"a": ONE}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"default": None}}}, {}, {"a": None}),
        ({"properties": {"a": ONE}}, [], []),
        ({"properties": {"a": ONE}}, "text", "text"),
        ({"properties": {"a": {"properties": {"b": ONE}}}}, {"a": {}}, {"a": {"b": 1}}),
        # Nothing is made only to hold a default deeper down; a default that is there is filled itself.
        ({"properties": {"a": {"properties": {"b": ONE}}}}, {}, {}),
        ({"properties": {"a": {"default": {}, "properties": {"b": ONE}}}}, {}, {"a": {"b": 1}}),
        ({"items": {"properties": {"a": ONE}}}, [{}, 5, {"a": 2}], [{"a": 1}, 5, {"a": 2}]),
        ({"items": ONE}, [], []),
        ({"prefixItems": [ONE, {"default": 2}]}, [], [1, 2]),
        ({"prefixItems": [ONE, {}, {"default": 3}]}, [], [1]),
        ({"prefixItems": [ONE, {"properties": {"a": ONE}}]}, [7, {}], [7, {"a": 1}]),
        ({"prefixItems": [{}], "items": {"properties": {"a": ONE}}}, [{}, {}], [{}, {"a": 1}]),
        ({"prefixItems": [ONE]}, (), [1]),
        ({"allOf": [{"properties": {"a": ONE}}, {"properties": {"b": {"default": 2}}}]}, {}, {"a": 1, "b": 2}),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": ONE}}}}, {}, {"a": 1}),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": ONE}}, {}, {"a": 1}),
        ({"properties": {"a": {"allOf": [{}, ONE]}}}, {}, {"a": 1}),
        ({"properties": {"a": {"$ref": "#"}, "b": ONE}}, {"a": {"a": {}}}, {"a": {"a": {"b": 1}, "b": 1}, "b": 1}),
        # A member that another part of the schema fills in is filled by all parts.
        (
            {"properties": {"a": {"properties": {"b": ONE}}}, "allOf": [{"properties": {"a": {"default": {}}}}]},
            {},
            {"a": {"b": 1}},
        ),
    ],
)
@pytest.mark.spec("R-schema-4")
def test_defaults_are_filled_in(schema: Any, value: Any, filled: Any) -> None:
    assert fill(schema, value) == filled


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"properties": {"a": ONE}}]},
        {"oneOf": [{"properties": {"a": ONE}}]},
        {"if": {"properties": {"a": ONE}}, "then": {"properties": {"a": ONE}}, "else": {"properties": {"a": ONE}}},
        {"not": {"properties": {"a": ONE}}},
        {"dependentSchemas": {"k": {"properties": {"a": ONE}}}},
        {"additionalProperties": ONE, "patternProperties": {"a": ONE}},
        {"properties": {"a": {"anyOf": [ONE]}}},
        {"default": {"a": 1}},
        {"$defs": {"x": {"properties": {"a": ONE}}}},
        {"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x", "properties": {"a": ONE}}}},
        True,
        False,
    ],
)
@pytest.mark.spec("R-schema-4")
def test_nothing_else_is_filled_in(schema: Any) -> None:
    value = {"k": 1}
    assert fill(schema, value) is value


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"default": 1, "$ref": "#/$defs/x"}}, "$defs": {"x": {"default": 2}}},
        {"properties": {"a": {"default": 1, "allOf": [{"default": 2}]}}},
        {"properties": {"a": {"$ref": "#/$defs/x", "allOf": [{"default": 2}]}}, "$defs": {"x": {"default": 1}}},
        {"properties": {"a": {"allOf": [{"default": 1}, {"default": 2}]}}},
        {"properties": {"a": {"default": 1}}, "allOf": [{"properties": {"a": {"default": 2}}}]},
    ],
)
@pytest.mark.spec("R-schema-4")
def test_the_nearest_default_holds(schema: Any) -> None:
    assert fill(schema, {}) == {"a": 1}


def test_in_older_dialects_a_reference_silences_the_default_beside_it() -> None:
    definitions = {"x": {"default": 2}, "y": {"$ref": "#/definitions/z", "properties": {"a": ONE}}, "z": {}}
    schema = {
        "$schema": DRAFT_7,
        "properties": {"b": {"default": 1, "$ref": "#/definitions/x"}},
        "definitions": definitions,
    }
    assert fill(schema, {}) == {"b": 2}
    assert fill({"$schema": DRAFT_7, "allOf": [{"$ref": "#/definitions/y"}], "definitions": definitions}, {}) == {}


def test_in_older_dialects_items_may_list_the_first_elements() -> None:
    schema = {"$schema": DRAFT_7, "items": [ONE, {"default": 2}]}
    assert fill(schema, [5]) == [5, 2]
    assert fill({"$schema": DRAFT_7, "prefixItems": [ONE]}, []) == []


def test_what_did_not_change_is_shared_and_what_was_filled_in_is_not() -> None:
    schema = {"properties": {"a": {"default": [[]]}, "b": {}, "c": {"properties": {"d": ONE}}}}
    defaults = Defaults(References(schema), LIMITS)
    value: dict[str, Any] = {"b": {}, "c": {}}
    filled = defaults.fill(value)
    assert filled["b"] is value["b"]
    assert filled["c"] is not value["c"]
    filled["a"][0].append(1)
    assert defaults.fill(value)["a"] == [[]]


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"properties": {"a": {"$ref": "#", "default": {}}}}, "$.properties.a.default"),
        ({"prefixItems": [{"$ref": "#", "default": []}]}, "$.prefixItems[0].default"),
        (
            {
                "properties": {"a": {"default": {}, "properties": {"b": {"default": {}, "$ref": "#"}}}},
            },
            "$.properties.a.default",
        ),
        # Only together do the two parts never end.
        (
            {
                "allOf": [
                    {"properties": {"a": {"default": {}, "properties": {"b": {"default": {}}}}}},
                    {"properties": {"a": {"properties": {"b": {"$ref": "#"}}}}},
                ]
            },
            "$.allOf[0].properties.a.default",
        ),
    ],
)
@pytest.mark.spec("R-schema-4")
def test_a_default_without_an_end_is_found_at_construction(schema: Any, path: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Defaults(References(schema), LIMITS)
    assert (caught.value.code, caught.value.path) == ("default", path)


def test_defaults_that_double_on_each_level_are_found_at_construction() -> None:
    levels = 20
    definitions: dict[str, Any] = {
        f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}", "default": {}} for k in "ab"}} for n in range(levels)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {}}}
    with pytest.raises(SchemaError) as caught:
        Defaults(References(schema), LIMITS)
    assert caught.value.code == "default"


def test_one_call_adds_no_more_than_its_limit() -> None:
    schema = {"items": {"properties": {"a": {"default": [0, 0]}}}}
    limits = SchemaLimits(max_filled=300)
    assert len(fill(schema, [{}] * 100, limits)) == 100
    with pytest.raises(SchemaViolation) as caught:
        fill(schema, [{}] * 101, limits)
    assert caught.value.keyword == "default"


def test_parts_that_meet_only_in_a_value_end_too() -> None:
    """Each part ends where it is rehearsed; only a value that has ``p`` brings them together."""
    first: dict[str, Any] = {"properties": {"p": {"properties": {"b": {"default": {"p": {}}}}}}}
    second = {"properties": {"p": {"properties": {"b": {"$ref": "#"}}}}}
    with pytest.raises(SchemaViolation) as caught:
        fill({"allOf": [first, second]}, {"p": {}})
    assert caught.value.keyword == "default"


def test_a_value_that_nests_too_deeply_is_refused() -> None:
    value: Any = {}
    for _ in range(1_000):
        value = {"a": value}
    schema = {"properties": {"a": {"$ref": "#"}, "b": ONE}}
    with pytest.raises(SchemaViolation) as caught:
        Defaults(References(schema), LIMITS).fill(value)
    assert caught.value.keyword == "default"


def test_values_as_deep_as_the_wire_takes_are_filled() -> None:
    value: Any = {}
    for _ in range(255):
        value = {"a": value}
    filled = Defaults(References({"properties": {"a": {"$ref": "#"}, "b": ONE}}), LIMITS).fill(value)
    depth = 0
    while "a" in filled:
        assert filled["b"] == 1
        filled, depth = filled["a"], depth + 1
    assert depth == 255


NAMES = st.sampled_from(["a", "b"])
SCHEMAS = st.recursive(
    st.one_of(st.just({}), st.just(ONE), st.sampled_from([{"$ref": "#"}, {"$ref": "#/$defs/x"}])),
    lambda inner: st.one_of(
        st.builds(lambda p: {"properties": p}, st.dictionaries(NAMES, inner, max_size=2)),
        st.builds(lambda p: {"prefixItems": p}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda p: {"allOf": p}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda s, d: {**s, "default": d}, inner, st.sampled_from([1, {}, [], {"a": {}}])),
        st.builds(lambda s: {"items": s}, inner),
    ),
    max_leaves=8,
)
VALUES = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(schema=SCHEMAS, extra=SCHEMAS, value=VALUES)
def test_filling_always_ends_keeps_what_is_there_and_twice_is_once(schema: Any, extra: Any, value: Any) -> None:
    try:
        filled = fill({**schema, "$defs": {"x": extra}}, value)
    except (SchemaError, SchemaViolation) as exc:
        assert exc.code == "default"
        return
    assert _keeps(value, filled)
    assert fill({**schema, "$defs": {"x": extra}}, filled) == filled


def _keeps(value: Any, filled: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(filled, dict) and all(name in filled and _keeps(m, filled[name]) for name, m in value.items())
    if isinstance(value, list):
        return isinstance(filled, list) and all(map(_keeps, value, filled)) and len(filled) >= len(value)
    return bool(value == filled)
