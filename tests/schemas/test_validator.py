"""The validator of one schema: what it takes, what it never does, and what it costs."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.schemas import (
    Checker,
    SchemaError,
    SchemaLibraryMissingError,
    SchemaLimits,
    SchemaTooLargeError,
    SchemaValidator,
    SchemaViolation,
    ValidatorFactory,
)

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
#: What a popular library writes for an e-mail address.
LOOK_AROUND = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.mark.parametrize(
    "reference",
    [
        {"$ref": "http://127.0.0.1:{port}/s.json"},
        {"$schema": "http://127.0.0.1:{port}/meta"},
        {"$dynamicRef": "http://127.0.0.1:{port}/s#a"},
    ],
)
@pytest.mark.spec("R-schema-2")
def test_nothing_is_fetched(listener: socket.socket, reference: dict[str, str]) -> None:
    port = listener.getsockname()[1]
    schema = {keyword: uri.replace("{port}", str(port)) for keyword, uri in reference.items()}
    for document in (schema, {"$defs": {"a": schema}}, {"properties": {"a": {"allOf": [schema]}}}):
        try:
            SchemaValidator(document).check({"a": 1})
        except SchemaError as exc:
            assert exc.code in {"reference", "dialect"}
        else:
            assert "$schema" in reference  # below the root it chooses no dialect, and is not asked for
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_the_library_would_not_fetch_either(listener: socket.socket) -> None:
    """Should a reference ever escape our own reading of the schema."""
    import jsonschema_rs

    from mcpl_core.schemas.validator import refuse_retrieval

    port = listener.getsockname()[1]
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.Draft202012Validator({"$ref": f"http://127.0.0.1:{port}/s"}, retriever=refuse_retrieval)
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize(
    ("schema", "code", "path"),
    [
        ([], "not_schema", "$"),
        ({"type": "strin"}, "not_schema", "$.type"),
        ({"properties": {"a": {"minimum": "x"}}}, "not_schema", "$.properties.a.minimum"),
        ({"const": "\ud800"}, "not_schema", "$"),
        ({"$schema": "https://a.example/s"}, "dialect", '$["$schema"]'),
        ({"$ref": "https://a.example/s"}, "reference", '$["$ref"]'),
        ({"properties": {"a": {"pattern": "("}}}, "pattern", "$.properties.a.pattern"),
        ({"pattern": "(a{999}){999}"}, "pattern", "$.pattern"),
        ({"patternProperties": {"(": {}}}, "pattern", '$.patternProperties["("]'),
        ({"properties": {"a": {"type": "string", "default": 1}}}, "default", "$.properties.a.default"),
        ({"properties": {"a": {"$ref": "#", "default": {}}}}, "default", "$.properties.a.default"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_construction(schema: Any, code: str, path: str) -> None:
    with pytest.raises(SchemaError) as caught:
        SchemaValidator(schema)
    assert (caught.value.code, caught.value.path) == (code, path)


def test_what_the_library_cannot_resolve_is_refused_all_the_same() -> None:
    """A URI that is none."""
    with pytest.raises(SchemaError) as caught:
        SchemaValidator({"$id": ":::"})
    assert caught.value.code == "reference"


@pytest.mark.parametrize(
    ("schema", "limits"),
    [
        ({"title": "x" * 65_536}, SchemaLimits()),
        ({"not": {"not": {}}}, SchemaLimits(max_depth=2)),
        ({"allOf": [{"$ref": "#/$defs/a"}] * 3, "$defs": {"a": {}}}, SchemaLimits(max_expansions=2)),
    ],
)
def test_a_schema_is_bounded_before_it_is_compiled(schema: Any, limits: SchemaLimits) -> None:
    with pytest.raises(SchemaTooLargeError):
        SchemaValidator(schema, limits=limits)


def test_the_schema_is_copied() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"default": [1]}}}
    validator = SchemaValidator(schema)
    schema["properties"]["a"]["default"].append(2)
    assert validator.fill({}) == {"a": [1]}


@pytest.mark.spec("R-schema-1")
def test_the_dialect_is_2020_12_when_the_schema_does_not_say() -> None:
    SchemaValidator({"prefixItems": [True], "items": False}).check([1])
    with pytest.raises(SchemaViolation):
        SchemaValidator({"prefixItems": [True], "items": False}).check([1, 2])
    for named in (DRAFT_7, DRAFT_7.replace("http:", "https:")):
        SchemaValidator({"$schema": named, "prefixItems": [False]}).check([1])


def test_filling_and_checking_are_two_things() -> None:
    validator = SchemaValidator({"properties": {"a": {"type": "integer", "default": 1}}, "required": ["a"]})
    given: dict[str, Any] = {}
    filled = validator.fill(given)
    validator.check(filled)
    with pytest.raises(SchemaViolation):
        validator.check(given)
    assert (given, filled) == ({}, {"a": 1})


def test_without_defaults_nothing_is_filled_and_none_is_judged() -> None:
    validator = SchemaValidator({"properties": {"a": {"type": "string", "default": None}}}, defaults=False)
    value: dict[str, Any] = {}
    assert validator.fill(value) is value


def test_a_default_is_judged_as_it_is_filled_in() -> None:
    inner = {"type": "object", "properties": {"b": {"default": 1}}, "required": ["b"]}
    assert SchemaValidator({"properties": {"a": {**inner, "default": {}}}}).fill({}) == {"a": {"b": 1}}


@pytest.mark.spec("R-schema-1")
def test_a_format_is_an_annotation_unless_it_is_asked_for() -> None:
    for dialect in ({}, {"$schema": DRAFT_7}):
        SchemaValidator({**dialect, "format": "date"}).check("x")
        with pytest.raises(SchemaViolation):
            SchemaValidator({**dialect, "format": "date"}, formats=True).check("x")
        SchemaValidator({**dialect, "format": "of-nobody"}, formats=True).check("x")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("^(a+)+$", "a" * 50_000 + "b"), ("^(a|a)*$", "a" * 50_000 + "b"), ("(.*)*x", "a" * 50_000)],
)
@pytest.mark.spec("R-schema-5")
def test_hostile_patterns_take_linear_time(pattern: str, text: str) -> None:
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern: False}}):
        validator = SchemaValidator(schema)
        assert not validator.backtracking
    with pytest.raises(SchemaViolation):
        SchemaValidator({"pattern": pattern}).check(text)


def test_look_around_is_taken_within_bounds() -> None:
    validator = SchemaValidator({"items": {"pattern": LOOK_AROUND}})
    assert validator.backtracking
    validator.check(["someone.else+tag@mail.a.example"])
    with pytest.raises(SchemaViolation):
        validator.check(["some..one@a.example"])


@pytest.mark.parametrize("pattern", [r"(?=(a+)+b)(a+)+\1c", r"^(a+)+\1$", r"(?=(.*)x)(a+)+\2z"])
@pytest.mark.spec("R-schema-5")
def test_patterns_that_backtrack_end(pattern: str) -> None:
    validator = SchemaValidator({"pattern": pattern})
    with pytest.raises(SchemaViolation) as caught:
        validator.check("a" * 10_000)
    assert caught.value.keyword == "pattern"


def test_patterns_that_backtrack_are_not_run_on_long_texts() -> None:
    limits = SchemaLimits(max_backtracking_text=100)
    validator = SchemaValidator({"properties": {"a": {"pattern": "^(?=x)"}}}, limits=limits)
    validator.check({"a": "x", "b": "y" * 97})
    with pytest.raises(SchemaViolation) as caught:
        validator.check({"a": "x", "b": "y" * 98})
    assert caught.value.keyword == "pattern"
    SchemaValidator({"properties": {"a": {"pattern": "^x"}}}, limits=limits).check({"a": "x", "b": "y" * 500})


def test_look_around_can_be_refused() -> None:
    with pytest.raises(SchemaError) as caught:
        SchemaValidator({"pattern": LOOK_AROUND}, backtracking=False)
    assert caught.value.code == "pattern"


@pytest.mark.parametrize("value", [object(), {1: 2}, {"a": {3}}, {"a": [object()]}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(SchemaViolation) as caught:
        SchemaValidator({"properties": {"a": {"items": {"type": "string"}, "type": ["array", "string"]}}}).check(value)
    assert (caught.value.code, caught.value.pointer) == ("schema", "")


def test_a_value_that_nests_too_deeply_is_refused() -> None:
    value: Any = []
    for _ in range(300_000):
        value = [value]
    with pytest.raises(SchemaViolation) as caught:
        SchemaValidator({"items": {"$ref": "#"}}).check(value)
    assert caught.value.code == "schema"
    while value:  # the interpreter would take it apart recursively
        value = value.pop()


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": ["a\ud800b"]}, ("\ud800",)])
def test_lone_surrogates_are_text(value: Any) -> None:
    SchemaValidator({"type": ["string", "object", "array"]}).check(value)
    with pytest.raises(SchemaViolation) as caught:
        SchemaValidator({"type": "null"}).check(value)
    assert caught.value.keyword == "type"


def test_lone_surrogates_are_counted_wherever_the_schema_looks() -> None:
    names, elements = {"maxLength": 1}, {"items": {"maxLength": 3}}
    validator = SchemaValidator({"propertyNames": names, "additionalProperties": elements})
    validator.check({"\udfff": ["a\ud800b", "é"], "k": (1, None)})
    with pytest.raises(SchemaViolation) as caught:
        validator.check({"\udfff": ["a\ud800bc"]})
    assert caught.value.keyword == "maxLength"
    with pytest.raises(SchemaViolation) as caught:
        validator.check({"\udfff\ud800": []})
    assert caught.value.keyword == "propertyNames"


def test_surrogates_beside_other_values_change_nothing() -> None:
    SchemaValidator({"properties": {"a": {"maxLength": 1}, "b": {"const": 5}}}).check(
        {"a": "\ud800", "b": 5, "c": None}
    )


def test_embedded_resources_are_explained_like_others() -> None:
    inner = {
        "$id": "https://a.example/inner",
        "properties": {"x": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "number"}},
    }
    with pytest.raises(SchemaViolation) as caught:
        SchemaValidator({"$id": "https://a.example/outer", "properties": {"p": inner}}).check({"p": {"x": "y"}})
    assert (caught.value.pointer, caught.value.keyword) == ("/p/x", "type")


def test_meta_schemas_are_known() -> None:
    validator = SchemaValidator({"$ref": "https://json-schema.org/draft/2020-12/schema"})
    validator.check({"type": "string"})
    with pytest.raises(SchemaViolation):
        validator.check({"type": 5})


def test_a_boolean_is_a_schema() -> None:
    SchemaValidator(True).check(5)
    with pytest.raises(SchemaViolation):
        SchemaValidator(False).check(5)


def test_it_is_a_checker_and_the_class_makes_them() -> None:
    factory: ValidatorFactory = SchemaValidator
    checker: Checker = factory({"properties": {"a": {"default": 1}}})
    assert checker.fill({}) == {"a": 1}


def test_without_the_library_construction_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(SchemaLibraryMissingError) as caught:
        SchemaValidator({})
    assert caught.value.library == "jsonschema-rs"


def test_the_library_is_loaded_by_the_first_validator_only() -> None:
    assert importlib.util.find_spec("jsonschema_rs") is not None
    code = (
        "import sys, mcpl_core.schemas as s; before = 'jsonschema_rs' in sys.modules; s.SchemaValidator({});"
        "print(before, 'jsonschema_rs' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["False", "True"]


KEYWORDS = (
    "$ref", "$id", "$anchor", "$defs", "$dynamicRef", "$dynamicAnchor", "$schema", "type", "properties", "items",
    "prefixItems", "allOf", "anyOf", "oneOf", "not", "if", "then", "default", "enum", "const", "pattern",
    "patternProperties",
    "required", "additionalProperties", "dependentRequired", "dependencies", "contains", "unevaluatedProperties",
    "propertyNames",
)  # fmt: skip
WORDS = st.sampled_from(
    ["#", "#/$defs/a", "#a", "a", "object", "(", "x:y", "http://a.example/", "\ud800", "%", "#/%ff"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS) | WORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(schema=ANYTHING, value=ANYTHING)
def test_whatever_comes_the_errors_are_ours(schema: Any, value: Any) -> None:
    try:
        validator = SchemaValidator(schema)
    except SchemaError:
        return
    try:
        validator.check(validator.fill(value))
    except SchemaViolation as exc:
        assert len(str(exc)) < 1_000


SUITE = sorted((Path(__file__).parent / "suite").glob("*.json"))
#: What is not in the suite's own files.
ELSEWHERE = "http://localhost:1234/"


@pytest.mark.parametrize("path", SUITE, ids=lambda path: path.stem)
@pytest.mark.spec("R-schema-1")
def test_the_official_suite(path: Path) -> None:
    for case in json.loads(path.read_text(encoding="utf-8")):
        try:
            validator = SchemaValidator(case["schema"], defaults=False)
        except SchemaError as exc:
            assert exc.code in {"reference", "dialect"}, case["description"]
            assert ELSEWHERE in json.dumps(case["schema"]), case["description"]
            continue
        assert path.stem != "refRemote", case["description"]
        for test in case["tests"]:
            if test["valid"]:
                validator.check(test["data"])
            else:
                with pytest.raises(SchemaViolation):
                    validator.check(test["data"])


def test_the_suite_is_there() -> None:
    assert len(SUITE) == 14
