"""Where the schemas of a document are, and what its references lead to."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.schemas import SchemaError
from mcpl_core.schemas.references import DIALECTS, DRAFT_2020, References, subschemas

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
TEXT = {"type": "string"}


def leads_to(schema: dict[str, Any], *steps: str) -> Any:
    """Where the reference leads that stands at these steps."""
    value: Any = schema
    for step in steps:
        value = value[step]
    target = References(schema).target(value)
    return None if target is None else target.steps


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"$ref": "#"}, ()),
        ({"$ref": "#/$defs/a", "$defs": {"a": TEXT}}, ("$defs", "a")),
        ({"$ref": "#/$defs/a~1b~0%20c", "$defs": {"a/b~ c": TEXT}}, ("$defs", "a/b~ c")),
        ({"$ref": "#/allOf/1", "allOf": [True, TEXT]}, ("allOf", 1)),
        ({"$ref": "#k", "$defs": {"a": {"$anchor": "k"}}}, ("$defs", "a")),
        ({"$ref": "#k", "$defs": {"a": {"$dynamicAnchor": "k"}}}, ("$defs", "a")),
        ({"$ref": "#/components/a", "components": {"a": TEXT}}, ("components", "a")),
        ({"$id": "https://a.example/x", "$ref": "y", "$defs": {"a": {"$id": "y"}}}, ("$defs", "a")),
        ({"$id": "https://a.example/x", "$ref": "https://a.example/x"}, ()),
        ({"$id": "urn:x:root", "$ref": "#/$defs/a", "$defs": {"a": TEXT}}, ("$defs", "a")),
        ({"$ref": "other#/b", "$defs": {"a": {"$id": "other", "b": TEXT}}}, ("$defs", "a", "b")),
        ({"$schema": DRAFT_7, "$ref": "#k", "definitions": {"a": {"$id": "#k"}}}, ("definitions", "a")),
        ({"$schema": DRAFT_4, "$ref": "#k", "definitions": {"a": {"id": "#k"}}}, ("definitions", "a")),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, None),
        (TEXT, None),
    ],
)
def test_references_lead_to_places_in_the_document(schema: dict[str, Any], where: Any) -> None:
    assert leads_to(schema) == where


def test_a_pointer_starts_at_its_own_resource() -> None:
    inner = {"$id": "https://a.example/inner", "$ref": "#/$defs/x", "$defs": {"x": TEXT}}
    schema = {"properties": {"p": inner}, "$defs": {"x": {"type": "number"}}}
    assert leads_to(schema, "properties", "p") == ("properties", "p", "$defs", "x")


def test_a_reference_found_behind_a_reference_is_followed_too() -> None:
    schema = {"$ref": "#/x/a", "x": {"a": {"$ref": "#/x/b"}, "b": TEXT}}
    assert leads_to(schema, "x", "a") == ("x", "b")


def test_dynamic_references_count_as_references_but_are_no_ref() -> None:
    schema = {"$dynamicRef": "#k", "$dynamicAnchor": "k"}
    references = References(schema)
    assert [target.steps for target in references.targets(schema)] == [()]
    assert references.target(schema) is None


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"$ref": "https://a.example/x"}, '$["$ref"]'),
        ({"$ref": "x.json"}, '$["$ref"]'),
        ({"$ref": "file:///etc/passwd"}, '$["$ref"]'),
        ({"$ref": "http://[x"}, '$["$ref"]'),
        ({"$ref": "//[x/y"}, '$["$ref"]'),
        ({"$ref": "#/$defs/a"}, '$["$ref"]'),
        ({"$ref": "#nowhere"}, '$["$ref"]'),
        ({"$ref": "#/allOf/1", "allOf": [True]}, '$["$ref"]'),
        ({"$ref": "#/allOf/01", "allOf": [True, True]}, '$["$ref"]'),
        ({"$ref": "#/title", "title": "x"}, '$["$ref"]'),
        ({"$ref": "#/type/x", "type": "string"}, '$["$ref"]'),
        ({"properties": {"a": {"$ref": "https://a.example/x"}}}, '$.properties.a["$ref"]'),
        ({"$defs": {"a": {"$dynamicRef": "#x"}}}, '$["$defs"].a["$dynamicRef"]'),
    ],
)
def test_what_leads_nowhere_is_refused(schema: dict[str, Any], path: str) -> None:
    with pytest.raises(SchemaError) as caught:
        References(schema)
    assert (caught.value.code, caught.value.path) == ("reference", path)


@pytest.mark.parametrize("keyword", ["const", "default", "examples", "x-note"])
def test_what_only_looks_like_a_reference_is_none(keyword: str) -> None:
    assert References({keyword: {"$ref": "https://a.example/x"}}).target({}) is None


def test_a_reference_that_is_no_text_is_left_to_the_library() -> None:
    assert References({"$ref": 5}).targets({"$ref": 5}) == []


@pytest.mark.parametrize(
    ("named", "dialect"),
    [
        *DIALECTS.items(),
        (DRAFT_7, "Draft7Validator"),
        ("https://json-schema.org/draft-07/schema#", "Draft7Validator"),
        ("http://json-schema.org/draft/2020-12/schema", DRAFT_2020),
    ],
)
def test_the_dialect_is_what_the_schema_says(named: str, dialect: str) -> None:
    assert References({"$schema": named}).dialect == dialect


@pytest.mark.parametrize("schema", [{}, True, False])
def test_without_a_word_the_dialect_is_2020_12(schema: Any) -> None:
    assert References(schema).dialect == DRAFT_2020


@pytest.mark.parametrize(
    "named", ["https://a.example/dialect", "https://json-schema.org/draft-07/schema##", "urn:x", "", 5, None]
)
def test_an_unknown_dialect_is_refused(named: Any) -> None:
    with pytest.raises(SchemaError) as caught:
        References({"$schema": named})
    assert (caught.value.code, caught.value.path) == ("dialect", '$["$schema"]')


@pytest.mark.parametrize(
    ("dialect", "lonely"), [(DRAFT_7, True), ("https://json-schema.org/draft/2019-09/schema", False)]
)
def test_in_older_dialects_a_reference_silences_what_stands_beside_it(dialect: str, lonely: bool) -> None:
    schema = {
        "$schema": dialect,
        "definitions": {"a": {"$id": "https://a.example/x", "$ref": "#/definitions/b"}, "b": {}},
    }
    assert References({"$schema": dialect}).lonely is lonely
    if lonely:
        assert leads_to(schema, "definitions", "a") == ("definitions", "b")
    else:
        with pytest.raises(SchemaError):
            References(schema)


def test_subschemas_are_those_of_keywords_that_hold_schemas() -> None:
    schema: dict[str, Any] = {
        "properties": {"a": TEXT, "b": 5},
        "dependencies": {"a": ["b"], "c": True},
        "items": TEXT,
        "allOf": [TEXT, 5],
        "enum": [{}],
        "$defs": {"d": TEXT},
        "not": 5,
    }
    found = [steps for steps, _ in subschemas(schema)]
    assert found == [("properties", "a"), ("dependencies", "c"), ("items",), ("allOf", 0), ("$defs", "d")]
    assert ("$defs", "d") not in [steps for steps, _ in subschemas(schema, stored=False)]
    assert [steps for steps, _ in subschemas({"items": [TEXT]})] == [("items", 0)]
