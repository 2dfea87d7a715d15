"""The bounds of schemas and values: what is counted, and that nothing is spent before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core import InvalidValueError
from mcpl_core.schemas import SchemaError, SchemaLimits, SchemaTooLargeError, SchemaViolation
from mcpl_core.schemas.bounds import check_bounds, check_value, count_expansions
from mcpl_core.schemas.references import References

LIMITS = SchemaLimits()


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"not": value}
    return value


def bomb(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    """A schema in which each level refers to the next twice."""
    twice = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**json.loads(json.dumps(twice)), f"d{levels}": {"type": "string"}}}


def expansions(schema: Any, limits: SchemaLimits = LIMITS) -> int:
    return count_expansions(References(schema), limits)


def test_the_limits_are_the_published_ones() -> None:
    assert (LIMITS.max_bytes, LIMITS.max_depth, LIMITS.max_nodes, LIMITS.max_expansions) == (65_536, 32, 4_096, 100_000)


@pytest.mark.parametrize("name", SchemaLimits.__slots__)
def test_a_limit_is_at_least_one(name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        SchemaLimits(**{name: 0})
    assert (caught.value.code, caught.value.path) == ("limit", f"$.{name}")
    assert SchemaLimits(**{name: 1}) is not None


@pytest.mark.parametrize(
    ("fits", "breaks", "limit"),
    [
        ({"title": "x" * (65_536 - 12)}, {"title": "x" * (65_536 - 11)}, "max_bytes"),
        ({"title": "é" * ((65_536 - 12) // 2)}, {"title": "é" * ((65_536 - 10) // 2)}, "max_bytes"),
        (nested(32), nested(33), "max_depth"),
        ({"enum": [0] * 4_094}, {"enum": [0] * 4_095}, "max_nodes"),
        ({"enum": list(range(4_094))}, {"properties": {str(n): True for n in range(4_095)}}, "max_nodes"),
    ],
)
@pytest.mark.spec("R-schema-3")
def test_each_limit_holds_exactly(fits: Any, breaks: Any, limit: str) -> None:
    check_bounds(fits, LIMITS)
    with pytest.raises(SchemaTooLargeError) as caught:
        check_bounds(breaks, LIMITS)
    assert (caught.value.limit, caught.value.allowed) == (limit, getattr(LIMITS, limit))


def test_the_place_that_is_too_deep_is_named() -> None:
    with pytest.raises(SchemaTooLargeError) as caught:
        check_bounds({"a": [{"b": {}}]}, SchemaLimits(max_depth=3))
    assert caught.value.path == "$.a[0].b"


def test_a_schema_inside_itself_ends_at_the_depth() -> None:
    schema: dict[str, Any] = {}
    schema["not"] = schema
    with pytest.raises(SchemaTooLargeError) as caught:
        check_bounds(schema, LIMITS)
    assert caught.value.limit == "max_depth"


@pytest.mark.parametrize("schema", [None, 5, "x", [], [{}]])
def test_a_schema_is_an_object_or_a_boolean(schema: Any) -> None:
    with pytest.raises(SchemaError) as caught:
        check_bounds(schema, LIMITS)
    assert (caught.value.code, caught.value.path) == ("not_schema", "$")


@pytest.mark.parametrize("value", [float("nan"), object(), {1: 2}, b""])
def test_what_is_no_json_is_no_schema(value: Any) -> None:
    with pytest.raises(SchemaError) as caught:
        check_bounds({"const": [value]}, LIMITS)
    assert caught.value.code == "not_schema"
    assert caught.value.path.startswith("$.const[0]")


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        (True, 0),
        ({}, 0),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, 1),
        # Definitions that nothing refers to are not unfolded.
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {}}}, 0),
        (bomb(1), 3),
        (bomb(4), 1 + 2 + 4 + 8 + 16),
        # Back into what is just being unfolded: once for each reference.
        ({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}, 2),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, 3),
        # Twice into a recursive schema, each time with its own one reference.
        (
            {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
            4,
        ),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, 0),
    ],
)
def test_expansions_are_counted(schema: Any, count: int) -> None:
    assert expansions(schema) == count


@pytest.mark.spec("R-schema-3")
def test_a_bomb_is_refused_before_it_is_lit() -> None:
    assert expansions(bomb(15)) == 2**16 - 1
    for levels in (16, 40):
        with pytest.raises(SchemaTooLargeError) as caught:
            expansions(bomb(levels))
        assert caught.value.limit == "max_expansions"


def test_many_schemas_that_all_refer_to_each_other_are_no_bomb() -> None:
    definitions = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{m}"} for m in range(20)]} for n in range(20)}
    assert expansions({"$ref": "#/$defs/d0", "$defs": definitions}) == 1 + 20 * 20


def simple_count(edges: dict[int, list[int]], start: int) -> int:
    """The count by its definition, on a graph without cycles: every reference is entered."""
    return sum(1 + simple_count(edges, target) for target in edges[start])


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=1, max_size=7))
def test_without_recursion_the_count_is_that_of_the_unfolded_tree(links: list[list[int]]) -> None:
    edges = {n: [n + 1 + t for t in targets if n + 1 + t < len(links)] for n, targets in enumerate(links)}
    definitions = {str(n): {"allOf": [{"$ref": f"#/$defs/{t}"} for t in targets]} for n, targets in edges.items()}
    assert expansions({"$ref": "#/$defs/0", "$defs": definitions}) == 1 + simple_count(edges, 0)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=6))
def test_every_graph_of_references_has_a_count(links: list[list[int]]) -> None:
    definitions = {
        str(n): {"allOf": [{"$ref": f"#/$defs/{t % len(links)}"} for t in targets]} for n, targets in enumerate(links)
    }
    assert expansions({"$ref": "#/$defs/0", "$defs": definitions}) >= 1


def test_values_have_a_depth() -> None:
    value: Any = 1
    for _ in range(256):
        value = [value]
    check_value(value, LIMITS)
    for deeper in ([value], {"a": value}):
        with pytest.raises(SchemaViolation) as caught:
            check_value(deeper, LIMITS)
        assert (caught.value.code, caught.value.keyword) == ("schema", "")


def test_a_value_that_holds_itself_twice_is_refused_in_time() -> None:
    value: list[Any] = []
    value += [value, value]
    with pytest.raises(SchemaViolation):
        check_value(value, LIMITS)


def test_text_is_counted_only_when_asked_for() -> None:
    limits = SchemaLimits(max_backtracking_text=10)
    check_value({"abcde": ["fgh", {"": "ij"}]}, limits, text=True)
    check_value("x" * 11, limits)
    for value in ("x" * 11, {"abcde": ["fgh", {"k": "ij"}]}, ["x" * 6, "y" * 5]):
        with pytest.raises(SchemaViolation) as caught:
            check_value(value, limits, text=True)
        assert caught.value.keyword == "pattern"
