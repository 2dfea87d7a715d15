"""The vocabulary of the profile, word by word."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.catalog.profile.compiler import compile_schema
from mcpl_core.catalog.profile.errors import SchemaProfileError
from mcpl_core.catalog.profile.keywords import KEYWORDS, TYPES
from tests.catalog.kit import FIXTURES


def test_the_vocabulary_is_closed() -> None:
    assert set(KEYWORDS) == {
        "additionalProperties", "anyOf", "oneOf", "const", "description", "enum", "items", "minimum", "maximum",
        "minLength", "maxLength", "minItems", "maxItems", "properties", "required", "title", "type", "uniqueItems",
    }  # fmt: skip
    assert set(TYPES) == {"array", "boolean", "integer", "null", "number", "object", "string"}


@pytest.mark.spec("R-catalog-2")
@pytest.mark.parametrize("case", FIXTURES["schemas"], ids=lambda case: str(case["name"]))
def test_schemas_inside_and_outside(case: dict[str, Any]) -> None:
    if case["supported"]:
        compile_schema(case["schema"])
    else:
        with pytest.raises(SchemaProfileError):
            compile_schema(case["schema"])


@pytest.mark.parametrize("keyword", sorted(set(KEYWORDS) - {"const"}))
def test_null_is_the_value_of_no_keyword_but_one(keyword: str) -> None:
    with pytest.raises(SchemaProfileError):
        compile_schema({"type": "object", "properties": {"a": {keyword: None}}})
