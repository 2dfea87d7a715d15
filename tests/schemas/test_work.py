"""How much work a check is at most: what recurs, what doubles, and what honest schemas come to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.schemas import SchemaLimits, SchemaTooLargeError, SchemaValidator, SchemaViolation
from mcpl_core.schemas.explain import explain
from mcpl_core.schemas.references import References
from mcpl_core.schemas.work import BOUNDLESS, Width, text_weight

LIMIT = SchemaLimits().max_work
#: What an honest tool has at most.
HONEST_VALUES = 100_000


def width(schema: Any) -> Width:
    return Width(References(json.loads(json.dumps(schema))))


def doubling(levels: int, leaf: dict[str, Any], name: str = "d") -> dict[str, Any]:
    """Definitions of which each refers to the next one twice."""
    twice = {f"{name}{n}": {"allOf": [{"$ref": f"#/$defs/{name}{n + 1}"}] * 2} for n in range(levels)}
    return {**twice, f"{name}{levels}": leaf}


def loops(groups: int, levels: int) -> dict[str, Any]:
    """As many groups of definitions, each of which leads to the next at the elements, and the last to the first."""
    defs: dict[str, Any] = {}
    for group in range(groups):
        leaf = {"items": {"$ref": f"#/$defs/g{(group + 1) % groups}-0"}}
        defs |= doubling(levels, leaf, f"g{group}-")
    return {"$ref": "#/$defs/g0-0", "$defs": defs}


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def components(kinds: int) -> dict[str, Any]:
    """What a user interface is made of: a choice by the constant of a member, with children of the same."""
    branches = {
        f"k{n}": {
            "type": "object",
            "properties": {
                "children": {"type": "array", "items": {"$ref": "#/$defs/any"}},
                "kind": {"const": f"k{n}"},
                "text": {"type": "string"},
            },
            "required": ["kind"],
            "additionalProperties": False,
        }
        for n in range(kinds)
    }
    return {
        "$ref": "#/$defs/any",
        "$defs": {"any": {"oneOf": [{"$ref": f"#/$defs/{n}"} for n in branches]}, **branches},
    }


JSON_VALUE = {
    "$ref": "#/$defs/json",
    "$defs": {
        "json": {
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": {"$ref": "#/$defs/json"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
            ]
        }
    },
}
MUTUAL = {
    "$ref": "#/$defs/t0",
    "$defs": {
        f"t{n}": {"type": "object", "properties": {f"m{m}": {"$ref": f"#/$defs/t{m}"} for m in range(12)}}
        for n in range(12)
    },
}
ROWS = {
    "items": {
        "type": "object",
        "properties": {f"p{n}": {"type": ["string", "null"], "maxLength": 9} for n in range(400)},
        "required": [f"p{n}" for n in range(400)],
        "additionalProperties": False,
    }
}


MAP = {"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}, "items": {"$ref": "#"}}


@pytest.mark.parametrize("schema", [{"type": "object"}, True, MAP, JSON_VALUE, MUTUAL, ROWS, components(20)])
@pytest.mark.parametrize("depth", [1, 8, 256])
@pytest.mark.spec("R-schema-6")
def test_honest_schemas_are_checked_whatever_their_values(schema: Any, depth: int) -> None:
    assert width(schema).at(depth) * HONEST_VALUES <= LIMIT


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"$ref": "#/$defs/d0"}, "$defs": doubling(14, {"type": "integer"})},
        {"items": {"allOf": [{"multipleOf": 0.01}] * 1_000}},
        loops(1, 7),
        loops(3, 4),
        loops(20, 1),
    ],
)
@pytest.mark.spec("R-schema-6")
def test_what_multiplies_is_known_before_it_is_done(schema: Any) -> None:
    deep = width(schema).at(40)
    assert deep * HONEST_VALUES > LIMIT
    assert width(schema).at(0) < deep or width(schema).at(40) == deep


@pytest.mark.parametrize(
    "schema",
    [
        loops(1, 14),
        {
            "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{m}"} for m in range(8)]} for n in range(8)},
            "$ref": "#/$defs/d0",
        },
        {
            "$ref": "#/$defs/d0",
            "$defs": {f"d{n}": {"not": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(800)} | {"d800": {}},
        },
    ],
)
@pytest.mark.spec("R-schema-6")
def test_a_schema_that_is_too_much_for_any_value_is_none(schema: Any) -> None:
    with pytest.raises(SchemaTooLargeError) as caught:
        SchemaValidator(schema)
    assert (caught.value.limit, caught.value.allowed) == ("max_work", LIMIT)


def unevaluated(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": True}}
    for _ in range(levels):
        schema = {"if": schema, "unevaluatedProperties": False}
    return schema


def test_what_is_unevaluated_is_looked_at_once_more_on_each_level() -> None:
    widths = [width(unevaluated(levels)).at(1) for levels in range(1, 12)]
    assert all(after >= 2 * before for before, after in zip(widths, widths[1:], strict=False))
    with pytest.raises(SchemaTooLargeError):
        SchemaValidator(unevaluated(28))


def test_what_is_unevaluated_on_top_looks_at_each_level_below() -> None:
    schema: dict[str, Any] = {"properties": {"a": True}}
    for _ in range(14):
        schema = {"if": schema}
    assert width({**schema, "unevaluatedProperties": False}).at(1) >= 14 * 14 // 2


def test_a_schema_that_leads_to_itself_at_the_same_value_is_finite() -> None:
    assert width({"$ref": "#"}).at(5) == 1
    assert width({"anyOf": [{"$ref": "#"}, {"type": "string"}]}).at(5) < 10


def test_the_limit_holds_exactly() -> None:
    schema: dict[str, Any] = {"items": {"allOf": [{}] * 9}}
    each = width(schema).at(1)
    value = [0] * 9
    SchemaValidator(schema, limits=SchemaLimits(max_work=10 * each)).check(value)
    with pytest.raises(SchemaViolation) as caught:
        SchemaValidator(schema, limits=SchemaLimits(max_work=10 * each - 1)).check(value)
    assert (caught.value.code, caught.value.keyword, caught.value.steps) == ("schema", "", ())


@pytest.mark.parametrize("levels", [3, 5, 8])
def test_a_loop_is_counted_for_its_second_round_too(levels: int) -> None:
    # The library comes to the last definition so often, for each value.
    assert width(loops(1, levels)).at(20) >= 4**levels


def test_members_of_different_names_are_different_values() -> None:
    apart = {"properties": {str(n): {"allOf": [{"title": "x"}] * 4} for n in range(50)}}
    beside = {"allOf": [{"properties": {"a": {"allOf": [{"title": "x"}] * 4}}}] * 50}
    assert width(apart).at(1) < 20
    assert width(beside).at(1) >= 50 * 4


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"^a": True, "^b": True}, "additionalProperties": {"allOf": [{}] * 30}},
        {"properties": {"a": {}}, "unevaluatedProperties": {"allOf": [{}] * 30}},
        {"propertyNames": {"allOf": [{}] * 30}},
        {"contains": {"allOf": [{}] * 30}},
        {"prefixItems": [{"allOf": [{}] * 30}]},
        {"prefixItems": [{}], "items": {"allOf": [{}] * 30}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}], "additionalItems": {"allOf": [{}] * 30}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": {"allOf": [{}] * 30}, "b": ["c"]}},
        {"dependentSchemas": {"a": {"allOf": [{}] * 30}}},
        {"if": {"allOf": [{}] * 10}, "then": {"allOf": [{}] * 10}, "else": {"not": {"oneOf": [{}] * 10}}},
        {"enum": [{"a": list(range(60))}, {"a": list(range(60))}]},
    ],
)
def test_every_keyword_that_applies_schemas_counts(schema: dict[str, Any]) -> None:
    assert width(schema).at(1) >= 30


def test_what_a_lonely_reference_silences_does_not_count() -> None:
    silenced: dict[str, Any] = {
        "$ref": "#/definitions/x",
        "allOf": [{}] * 50,
        "items": {"allOf": [{}] * 50},
        "definitions": {"x": {}},
    }
    old = {"$schema": "http://json-schema.org/draft-07/schema#", **silenced}
    assert width(old).at(1) < 20
    assert width(silenced).at(1) >= 50


@pytest.mark.parametrize(
    "spoil",
    [
        lambda branch: branch.pop("type"),
        lambda branch: branch["required"].clear(),
        lambda branch: branch["properties"]["kind"].update(const="k0"),
        lambda branch: branch["properties"]["kind"].update(const=7),
    ],
)
def test_a_choice_that_nothing_decides_is_all_its_branches(spoil: Any) -> None:
    schema = components(6)
    decided = width(schema).at(30)
    spoil(schema["$defs"]["k3"])
    assert width(schema).at(30) > 3 * decided


SCHEMAS = st.recursive(
    st.sampled_from([True, {}, {"type": "integer"}, {"$ref": "#"}, {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]),
    lambda inner: st.one_of(
        st.builds(
            lambda keyword, subs: {keyword: subs},
            st.sampled_from(["allOf", "anyOf", "oneOf"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.builds(
            lambda keyword, sub: {keyword: sub},
            st.sampled_from(["items", "not", "contains", "additionalProperties"]),
            inner,
        ),
        st.builds(lambda a, b: {"properties": {"a": a, "b": b}}, inner, inner),
    ),
    max_leaves=8,
)


@given(SCHEMAS, SCHEMAS, SCHEMAS)
def test_more_depth_is_never_less_work(root: Any, a: Any, b: Any) -> None:
    found = width({"allOf": [root], "$defs": {"a": a, "b": b}})
    widths = [found.at(depth) for depth in (0, 1, 2, 5, 9)]
    assert widths == sorted(widths)
    assert 1 <= widths[0] and widths[-1] <= BOUNDLESS


def test_an_explanation_is_no_more_work_than_a_check() -> None:
    schema: dict[str, Any] = {"items": {"type": "integer"}}
    for _ in range(10):
        schema = {"anyOf": [schema]}
    value = ["a"] + [0] * 100
    found = SchemaValidator(schema)
    with pytest.raises(SchemaViolation) as caught:
        found.check(value)
    assert caught.value.steps == (0,)
    least = width(schema).at(1) * 101
    with pytest.raises(SchemaViolation) as caught:
        SchemaValidator(schema, limits=SchemaLimits(max_work=least)).check(value)
    assert (caught.value.code, caught.value.steps) == ("schema", ())


def test_filling_in_defaults_ends() -> None:
    schema: dict[str, Any] = {"allOf": [{"properties": {"a": {"$ref": "#"}}}] * 2, "properties": {"z": {"default": 1}}}
    value: Any = {}
    for _ in range(60):
        value = {"a": value}
    with pytest.raises(SchemaViolation) as caught:
        SchemaValidator(json.loads(json.dumps(schema)), limits=SchemaLimits(max_work=1_000_000)).fill(value)
    assert caught.value.keyword == "default"


def test_no_more_is_looked_at_for_an_explanation_than_is_allowed() -> None:
    class Refusing:
        looks = 0

        def fits(self, steps: Any, value: Any) -> bool:
            self.looks += 1 + (len(value) if isinstance(value, list) else 0)
            return False

        def meets(self, keywords: Any, value: Any) -> bool:
            return True

        def matches(self, pattern: str, name: str) -> bool:
            raise AssertionError

    schema: dict[str, Any] = {"items": {"type": "integer"}}
    for _ in range(14):
        schema = {"allOf": [schema]}
    found = explain(References(schema), judge := Refusing(), [0] * 99, looks=1_000)
    assert (found.steps, judge.looks) == ((), 1_000)


@pytest.mark.parametrize(
    ("schema", "least"),
    [
        ({"items": {"uniqueItems": True}}, 8),
        ({"items": {"pattern": "a"}}, 4),
        ({"patternProperties": {f"^{n}": True for n in range(100)}}, 200),
        ({"items": {"multipleOf": 3}}, 100),
    ],
)
def test_what_is_slow_counts_more(schema: Any, least: int) -> None:
    assert width(schema).at(1) >= least


def chosen(branches: list[Any]) -> int:
    """The width of branches that all go on to the same, ten times over."""
    defs: dict[str, Any] = {"d10": {"type": "integer"}}
    for n in range(10):
        below = {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}}
        defs[f"d{n}"] = {
            "oneOf": [
                branch if branch is True else {**branch, "properties": {**branch["properties"], **below["properties"]}}
                for branch in branches
            ]
        }
    return width({"$ref": "#/$defs/d0", "$defs": defs}).at(20)


def kind(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": {"const": name}}, "required": ["kind"]}


def test_the_library_decides_between_three_branches_and_more() -> None:
    three = [kind(name) for name in "abc"]
    assert chosen(three) < 100
    assert chosen(three[:2]) >= 2**10
    assert chosen([*three, True]) >= 3**10


def text_width(schema: Any) -> int:
    return Width(References(json.loads(json.dumps(schema))), text_weight).at(9)


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("^[a-z]+$", 8, 8),
        ("[ab]*a[ab]{200}x", 200, 220),
        ("[ab]{2,200}", 200, 220),
        ("[ab]{200,}", 200, 220),
        ("([ab]{20}){20}", 400, 500),
        ("[ab]{9000}", 500, 500),
        ("x{0}(a){0}", 10, 10),
        ("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", 60, 110),
    ],
)
@pytest.mark.spec("R-schema-6")
def test_the_steps_of_a_pattern(pattern: str, least: int, most: int) -> None:
    assert least <= text_width({"items": {"pattern": pattern}}) <= most
    assert least <= text_width({"patternProperties": {pattern: {}}}) <= most
    assert text_width({"allOf": [{"pattern": pattern}] * 3, "properties": {"a": {"minLength": 1}}}) >= 3 * least


def test_patterns_are_run_on_so_much_text_and_no_more() -> None:
    schema = {"items": {"pattern": "^a{1,90}"}, "propertyNames": {"minLength": 0}}
    limits = SchemaLimits(max_work=1_000 * text_width(schema))
    found = SchemaValidator(schema, limits=limits)
    found.check(["a" * 500] * 2)
    with pytest.raises(SchemaViolation) as caught:
        found.check(["a" * 500, "a" * 501])
    assert caught.value.keyword == "pattern"
    # Text costs where there are patterns.
    SchemaValidator({"items": {"minLength": 1}}, limits=limits).check(["a" * 5_000] * 2)


def test_honest_patterns_are_run_on_honest_texts() -> None:
    assert (
        text_width({"properties": {f"p{n}": {"pattern": r"^[A-Za-z0-9_.-]{1,64}$"} for n in range(200)}}) * 1_000_000
        < LIMIT
    )


@pytest.mark.parametrize("others", ["additionalProperties", "unevaluatedProperties"])
def test_what_is_said_of_a_member_is_not_said_of_the_others_too(others: str) -> None:
    schema = {"properties": {"a": {"allOf": [{}] * 30}}, others: {"allOf": [{}] * 30}}
    assert 30 <= width(schema).at(1) < 60
