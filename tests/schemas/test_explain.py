"""Where a value does not fit: the place and the keyword, for every keyword, and how much looking for them costs."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.schemas import SchemaValidator, SchemaViolation
from mcpl_core.schemas import explain as explain_module

reference: Any = importlib.import_module("jsonschema")
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
CIRCLE = {"properties": {"kind": {"const": "circle"}, "r": NUMBER}, "required": ["kind", "r"]}
SQUARE = {"properties": {"kind": {"enum": ["square"]}, "side": NUMBER}, "required": ["kind", "side"]}


def violation(schema: Any, value: Any, **options: Any) -> SchemaViolation:
    with pytest.raises(SchemaViolation) as caught:
        SchemaValidator(schema, defaults=False, **options).check(value)
    return caught.value


@pytest.mark.parametrize(
    ("schema", "value", "pointer", "keyword"),
    [
        (TEXT, 5, "", "type"),
        ({"enum": [1, 2]}, 3, "", "enum"),
        ({"const": 1}, 2, "", "const"),
        ({"minimum": 1}, 0, "", "minimum"),
        ({"maximum": 1}, 2, "", "maximum"),
        ({"exclusiveMinimum": 1}, 1, "", "exclusiveMinimum"),
        ({"exclusiveMaximum": 1}, 1, "", "exclusiveMaximum"),
        ({"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True}, 1, "", "minimum"),
        ({"$schema": DRAFT_4, "maximum": 1, "exclusiveMaximum": True}, 1, "", "maximum"),
        ({"multipleOf": 2}, 3, "", "multipleOf"),
        ({"minLength": 2}, "a", "", "minLength"),
        ({"maxLength": 2}, "abc", "", "maxLength"),
        ({"pattern": "^a"}, "b", "", "pattern"),
        ({"minItems": 1}, [], "", "minItems"),
        ({"maxItems": 1}, [1, 2], "", "maxItems"),
        ({"uniqueItems": True}, [1, 1.0], "", "uniqueItems"),
        ({"minProperties": 1}, {}, "", "minProperties"),
        ({"maxProperties": 0}, {"a": 1}, "", "maxProperties"),
        ({"required": ["a", "b"]}, {"a": 1}, "", "required"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "", "dependentRequired"),
        # Into members and elements.
        ({"properties": {"a": {"properties": {"b": TEXT}}}}, {"a": {"b": 1}}, "/a/b", "type"),
        ({"properties": {"a": False}}, {"a": 1}, "/a", ""),
        ({"patternProperties": {"^x": TEXT}}, {"a": 1, "xy": 1}, "/xy", "type"),
        ({"additionalProperties": TEXT, "properties": {"a": True}}, {"a": 1, "b": 1}, "/b", "type"),
        ({"additionalProperties": False, "properties": {"a": True}}, {"a": 1, "b": 1}, "", "additionalProperties"),
        (
            {"additionalProperties": False, "patternProperties": {"^x": True}},
            {"x": 1, "b": 1},
            "",
            "additionalProperties",
        ),
        ({"additionalProperties": False, "properties": {"a": TEXT}}, {"a": 1}, "/a", "type"),
        ({"items": TEXT}, ["a", 1], "/1", "type"),
        ({"prefixItems": [TEXT, NUMBER], "items": False}, ["a", "b"], "/1", "type"),
        ({"prefixItems": [TEXT], "items": False}, ["a", "b"], "/1", ""),
        ({"prefixItems": [TEXT], "items": NUMBER}, ["a", "b"], "/1", "type"),
        ({"$schema": DRAFT_7, "items": [TEXT], "additionalItems": NUMBER}, ["a", "b"], "/1", "type"),
        ({"$schema": DRAFT_7, "items": TEXT, "additionalItems": False}, ["a", 1], "/1", "type"),
        ({"$schema": DRAFT_7, "items": [TEXT]}, [1], "/0", "type"),
        ({"properties": {"a/b~c": {"items": TEXT}}}, {"a/b~c": [1]}, "/a~1b~0c/0", "type"),
        # To the same value, elsewhere in the schema.
        ({"$ref": "#/$defs/a", "$defs": {"a": TEXT}}, 1, "", "type"),
        ({"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", **TEXT}}}, 1, "", "type"),
        ({"$schema": DRAFT_7, "$ref": "#/definitions/a", "type": "null", "definitions": {"a": TEXT}}, 1, "", "type"),
        ({"allOf": [NUMBER, {"minimum": 3}]}, 1, "", "minimum"),
        ({"if": NUMBER, "then": {"minimum": 3}, "else": TEXT}, 1, "", "minimum"),
        ({"if": NUMBER, "then": {"minimum": 3}, "else": TEXT}, None, "", "type"),
        ({"if": NUMBER, "then": {"minimum": 3}, "allOf": [TEXT]}, None, "", "type"),
        ({"not": NUMBER}, 1, "", "not"),
        ({"contains": TEXT}, [1], "", "contains"),
        ({"contains": TEXT, "minContains": 2}, ["a", 1], "", "contains"),
        ({"contains": TEXT, "maxContains": 1}, ["a", "b"], "", "contains"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "", "propertyNames"),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, "", "required"),
        ({"$schema": DRAFT_7, "dependencies": {"a": ["b"]}}, {"a": 1}, "", "dependencies"),
        ({"$schema": DRAFT_7, "dependencies": {"x": ["y"], "a": {"required": ["b"]}}}, {"a": 1}, "", "required"),
        ({"$schema": DRAFT_7, "dependencies": {"a": False}}, {"a": 1}, "", ""),
        ({"unevaluatedProperties": False, "properties": {"a": True}}, {"b": 1}, "", "unevaluatedProperties"),
        ({"unevaluatedItems": False, "prefixItems": [True]}, [1, 2], "", "unevaluatedItems"),
        (False, 1, "", ""),
        # Alternatives.
        ({"anyOf": [TEXT, NUMBER]}, None, "", "anyOf"),
        ({"anyOf": [{"minimum": 3}, {"maximum": 1}]}, 2, "", "anyOf"),
        ({"oneOf": [NUMBER, {"minimum": 3}]}, 4, "", "oneOf"),
        ({"anyOf": [{"type": "null"}, {"type": "array", "items": TEXT}]}, ["a", 1], "/1", "type"),
        ({"oneOf": [CIRCLE, SQUARE]}, {"kind": "square", "side": "x"}, "/side", "type"),
        ({"oneOf": [CIRCLE, SQUARE]}, {"kind": "circle"}, "", "required"),
        ({"oneOf": [CIRCLE, SQUARE]}, {"kind": "line"}, "", "oneOf"),
        (
            {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}], "$defs": {"a": {**TEXT, "minLength": 2}}},
            "a",
            "",
            "minLength",
        ),
        ({"anyOf": [False, {**TEXT, "minLength": 2}]}, "a", "", "minLength"),
        ({"oneOf": [TEXT, NUMBER], "anyOf": [{"minimum": 3}]}, 1, "", "minimum"),
    ],
)
def test_the_place_and_the_keyword_are_found(schema: Any, value: Any, pointer: str, keyword: str) -> None:
    found = violation(schema, value)
    assert (found.pointer, found.keyword) == (pointer, keyword)


def test_formats_are_told_where_they_are_checked() -> None:
    assert violation({"format": "date"}, "x", formats=True).keyword == "format"


def test_alternatives_that_are_types_are_told_as_types() -> None:
    assert all(kind in violation({"anyOf": [TEXT, NUMBER]}, None).detail for kind in ("string", "number"))
    assert "number" not in violation({"anyOf": [TEXT, {"enum": [1]}]}, None).detail


def test_a_member_that_is_not_known_comes_with_those_that_are() -> None:
    found = violation({"properties": {"row": NUMBER}, "additionalProperties": False}, {"column": 1})
    assert '"column"' in found.detail
    assert '"row"' in found.detail


def test_references_in_a_circle_end() -> None:
    circle = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    schema = {
        "allOf": [{"$ref": "#/$defs/a"}],
        "$defs": circle,
        "anyOf": [{"$ref": "#/$defs/a"}, TEXT],
        "unevaluatedItems": False,
    }
    assert violation(schema, [1]).pointer == ""


def test_a_choice_among_references_in_a_circle_ends() -> None:
    circle = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    schema = {"$defs": circle, "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}
    assert violation(schema, 1).keyword == "oneOf"


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternatives_that_nest_or_recur_are_told_in_time(keyword: str) -> None:
    """The library's own account of these has millions of parts."""
    levels = 15
    twice = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(levels)}
    nested = {"$ref": "#/$defs/d0", "$defs": {**twice, f"d{levels}": NUMBER}}
    assert violation(nested, "x").keyword == keyword
    value: Any = 1
    for _ in range(200):
        value = [value]
    recurring = {"type": ["array", "null"], "items": {keyword: [{"$ref": "#"}, {"$ref": "#"}]}}
    assert violation(recurring, value).keyword == keyword


def test_the_search_gives_up_where_it_would_cost_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_module._Bounded.__init__, "__defaults__", (50,))
    found = violation({"properties": {"a": {"items": TEXT}}}, {"a": ["x"] * 100 + [1]})
    assert (found.pointer, found.code) == ("/a", "schema")
    assert violation({"properties": {"a": {"items": TEXT}}}, {"a": ["x"] * 10 + [1]}).pointer == "/a/10"


def test_many_members_and_patterns_are_told_in_time() -> None:
    patterns: dict[str, Any] = {f"^a{n}": TEXT for n in range(1_000)}
    value = {f"b{n}": "x" for n in range(2_000)}
    assert (
        violation({"patternProperties": patterns, "additionalProperties": False}, value).keyword
        == "additionalProperties"
    )
    members = {f"p{n}": TEXT for n in range(1_000)}
    assert violation({"properties": members}, {**dict.fromkeys(members, "x"), "p999": 1}).pointer == "/p999"


def test_no_sentence_is_long() -> None:
    wide = {f"name{n}" * 100: TEXT for n in range(20)}
    value = dict.fromkeys(wide, 1)
    assert len(str(violation({"properties": wide}, value))) < 500
    assert len(str(violation({"properties": wide, "additionalProperties": False}, {"x" * 100_000: 1}))) < 5_000


NAMES = st.sampled_from(["a", "b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=6,
)
LEAVES = st.one_of(
    st.builds(
        lambda t: {"type": t}, st.sampled_from(["string", "number", "integer", "object", "array", "null", "boolean"])
    ),
    st.builds(lambda v: {"const": v}, VALUES),
    st.builds(lambda v: {"enum": v}, st.lists(VALUES, min_size=1, max_size=3)),
    st.builds(lambda k, n: {k: n}, st.sampled_from(["minimum", "maximum", "exclusiveMinimum"]), st.integers(-1, 2)),
    st.builds(
        lambda k, n: {k: n}, st.sampled_from(["minLength", "maxItems", "minItems", "maxProperties"]), st.integers(0, 2)
    ),
    st.builds(lambda n: {"required": n}, st.lists(NAMES, unique=True, max_size=2)),
    st.sampled_from([{"pattern": "^a"}, {"uniqueItems": True}, {"multipleOf": 2}]),
)
#: References that lead on only with a part of the value: the other implementation would follow others for ever.
REFERENCES = st.sampled_from(
    [
        {"$ref": "#/$defs/x"},
        {"items": {"$ref": "#"}},
        {"properties": {"a": {"$ref": "#"}}},
        {"not": {"items": {"$ref": "#"}}},
    ]
)


def _schemas(leaves: Any) -> Any:
    return st.recursive(
        leaves | st.booleans(),
        lambda inner: st.one_of(
            st.builds(lambda p: {"properties": p}, st.dictionaries(NAMES, inner, min_size=1, max_size=2)),
            st.builds(
                lambda k, s: {k: s}, st.sampled_from(["items", "additionalProperties", "not", "contains"]), inner
            ),
            st.builds(lambda k, s: {k: s}, st.sampled_from(["propertyNames", "unevaluatedProperties"]), inner),
            st.builds(
                lambda k, s: {k: s},
                st.sampled_from(["allOf", "anyOf", "oneOf"]),
                st.lists(inner, min_size=1, max_size=3),
            ),
            st.builds(lambda s: {"prefixItems": s}, st.lists(inner, min_size=1, max_size=2)),
            st.builds(lambda i, t, e: {"if": i, "then": t, "else": e}, inner, inner, inner),
            st.builds(lambda s: {"dependentSchemas": {"a": s}}, inner),
            st.builds(lambda a, b: {**a, **b} if isinstance(a, dict) and isinstance(b, dict) else a, inner, inner),
        ),
        max_leaves=6,
    )


PLAIN = _schemas(LEAVES)
SCHEMAS = _schemas(LEAVES | REFERENCES)


def _places(errors: Any, base: tuple[Any, ...] = ()) -> set[tuple[Any, ...]]:
    """All places at which the other implementation finds fault, those of alternatives included."""
    found = set()
    for error in errors:
        place = base + tuple(error.path)
        found |= {place} | _places(error.context or (), place)
    return found


@settings(max_examples=250, deadline=None)
@given(schema=SCHEMAS, extra=PLAIN, value=VALUES)
def test_verdicts_and_places_are_those_of_another_implementation(schema: Any, extra: Any, value: Any) -> None:
    document = (
        {**schema, "$defs": {"x": extra}} if isinstance(schema, dict) else {"allOf": [schema], "$defs": {"x": extra}}
    )
    validator = SchemaValidator(document, defaults=False)
    errors = [*reference.Draft202012Validator(document).iter_errors(value)]
    if not errors:
        validator.check(value)
        return
    with pytest.raises(SchemaViolation) as caught:
        validator.check(value)
    # The other one puts what a ``false`` refuses at the place above.
    assert caught.value.steps in _places(errors) or caught.value.keyword == "", json.dumps([document, value])
