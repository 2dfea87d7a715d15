"""Compiling schemas: budgets, the declared dialect, and nothing raised but one error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.catalog.profile.budgets import ProfileBudgets
from mcpl_core.catalog.profile.compiler import OUTPUT_SCHEMA_PROFILE, compile_schema
from mcpl_core.catalog.profile.errors import SchemaProfileError
from mcpl_core.catalog.profile.keywords import DIALECT, KEYWORDS

Json = dict[str, Any]


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def refused(schema: Any, budgets: ProfileBudgets | None = None) -> str:
    with pytest.raises(SchemaProfileError) as caught:
        compile_schema(schema, budgets or ProfileBudgets())
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    return caught.value.code


def test_the_profile_has_its_published_name() -> None:
    assert OUTPUT_SCHEMA_PROFILE == "purra.output-schema/v1"
    assert OUTPUT_SCHEMA_PROFILE in repr(compile_schema({"type": "object"}))


@pytest.mark.spec("R-catalog-2")
def test_bytes_are_those_of_the_whole_schema_with_its_declaration() -> None:
    schema: Json = {"type": "object", "description": ""}
    schema["description"] = "é" * ((65_536 - size(schema)) // 2)
    assert size(schema) in (65_535, 65_536)
    schema["title"] = ""
    schema["description"] = schema["description"][:-10]
    schema["title"] = "x" * (65_536 - size(schema))
    assert size(schema) == 65_536
    compile_schema(schema)
    assert refused({**schema, "title": schema["title"] + "x"}) == "too_large"
    declared = {"$schema": DIALECT, "type": "object"}
    compile_schema(declared, ProfileBudgets(schema_bytes=size(declared)))
    assert refused(declared, ProfileBudgets(schema_bytes=size(declared) - 1)) == "too_large"
    assert refused({**schema, "$schema": DIALECT}) == "too_large"


def test_depth_at_its_edge() -> None:
    def deep(levels: int) -> Json:
        # Each schema inside "items" is one level down, and its "type" another.
        schema: Json = {"type": "array"}
        for _ in range(levels - 2):
            schema = {"items": schema}
        return {"type": "object", "properties": {"a": schema}}

    compile_schema(deep(31))
    assert refused(deep(32)) == "too_deep"


def test_nodes_at_their_edge() -> None:
    # The root, "type" and its value, "properties" and its object, then two for each property.
    fitting = {"type": "object", "properties": {f"p{index}": {} for index in range(2045)}, "title": "x"}
    assert 5 + 2 * 2045 == 4_095
    del fitting["title"]
    compile_schema(fitting)
    assert refused({**fitting, "title": "x"}) == "too_many_nodes"
    declared = {"$schema": DIALECT, "type": "object"}
    compile_schema(declared, ProfileBudgets(schema_nodes=3))
    assert refused(declared, ProfileBudgets(schema_nodes=2)) == "too_many_nodes"


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (True, "root"),
        ([], "root"),
        ({}, "root"),
        ({"type": "array"}, "root"),
        ({"type": ["object"]}, "root"),
        ({"$schema": DIALECT + "#", "type": "object"}, "dialect"),
        ({"$schema": [DIALECT], "type": "object"}, "dialect"),
        ({"type": "object", "$ref": "https://example.com/never-fetched"}, "keyword"),
        ({"type": "object", "properties": {"a": {"enum": []}}}, "enum"),
        ({"type": "object", "properties": {"a": {"type": "array", "items": []}}}, "items"),
        ({"type": "object", "oneOf": [{}, 1]}, "schema"),
        ({"type": "object", "properties": {"a": {"minimum": 2, "maximum": 1}}}, "minimum"),
        ({"type": "object", "properties": {"a": {"const": 2**53}}}, "number"),
        ({"type": "object", "properties": {"a": {"const": float("nan")}}}, "number"),
        ({"type": "object", "properties": {"a": {"const": "\ud800"}}}, "surrogate"),
        ({"type": "object", "properties": {"a": {"const": object()}}}, "not_json"),
    ],
)
def test_why_a_schema_is_refused(schema: Any, code: str) -> None:
    assert refused(schema) == code


def test_the_schema_is_kept_as_it_came_and_cannot_be_changed() -> None:
    schema: Json = {"$schema": DIALECT, "type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    compiled = compile_schema(schema)
    schema["properties"]["a"]["enum"].append(3)
    assert compiled.schema["$schema"] == DIALECT
    assert compiled.schema["properties"]["a"]["enum"] == (1, 2)
    for container, key in (
        (compiled.schema, "type"),
        (compiled.schema["properties"], "a"),
        (compiled.schema["required"], 0),
    ):
        target: Any = container
        with pytest.raises(TypeError):
            target[key] = None
    with pytest.raises(AttributeError):
        compiled.schema = {}  # type: ignore[misc]


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**54) | st.floats() | st.text(max_size=4),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=6,
)
keywords = st.sampled_from([*KEYWORDS, "$schema", "$ref", "format"])
schemas = st.recursive(
    st.dictionaries(keywords, plain, max_size=4),
    lambda below: st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.text(max_size=3), below, max_size=2),
            "items": below,
            "anyOf": st.lists(below, max_size=2),
        },
    ),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(schemas | plain)
def test_no_schema_raises_anything_else(schema: Any) -> None:
    try:
        compile_schema(schema)
    except SchemaProfileError as exc:
        assert exc.__context__ is None
