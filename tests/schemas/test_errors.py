"""The exceptions of the validator: facts as attributes, and no text without a bound."""

from __future__ import annotations

import pickle

import pytest

from mcpl_core import InvalidValueError, McplError
from mcpl_core.schemas import SchemaError, SchemaLibraryMissingError, SchemaTooLargeError, SchemaViolation

ALL = [
    SchemaError("reference", "it leads to no schema", "$.a"),
    SchemaTooLargeError("max_depth", 32, "$.a"),
    SchemaViolation(("a", 0), "type", "must be of type string, not 5"),
    SchemaLibraryMissingError(),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_they_belong_to_the_tree_and_can_be_copied(error: McplError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(error, McplError)
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_a_violation_names_its_place_in_both_notations() -> None:
    violation = SchemaViolation(("a b", 0, "c/d"), "type", "must be of type string, not 5")
    assert (violation.path, violation.pointer) == ('$["a b"][0]["c/d"]', "/a b/0/c~1d")
    assert (violation.code, violation.keyword, violation.steps) == ("type", "type", ("a b", 0, "c/d"))
    assert isinstance(violation, InvalidValueError)


def test_a_violation_without_a_keyword_has_a_code_all_the_same() -> None:
    violation = SchemaViolation((), "", "nothing is allowed here")
    assert (violation.code, violation.keyword, violation.path, violation.pointer) == ("schema", "", "$", "")


def test_the_sentence_of_a_violation_cuts_a_long_path_and_the_pointer_does_not() -> None:
    violation = SchemaViolation(("x" * 100_000,), "type", "must be of type string, not 5")
    assert len(str(violation)) < 300
    assert len(violation.pointer) == 100_001


def test_a_limit_is_named() -> None:
    error = SchemaTooLargeError("max_nodes", 4_096, "$.a")
    assert (error.code, error.limit, error.allowed, error.path) == ("limit", "max_nodes", 4_096, "$.a")


def test_a_missing_library_says_what_to_install() -> None:
    error = SchemaLibraryMissingError()
    assert isinstance(error, ImportError)
    assert (error.library, error.extras) == ("jsonschema-rs", ("toolsets", "mcp"))
    assert all(f"mcp-live-core[{extra}]" in str(error) for extra in error.extras)
