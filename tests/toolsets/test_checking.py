"""Checking, and the hook."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core import InvalidValueError
from mcpl_core.schemas import SchemaError, SchemaViolation
from mcpl_core.toolsets.checking import checked_object, checker_of

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "default": 3}}, "additionalProperties": False}


def test_defaults_come_first_and_the_value_stays_as_it_is() -> None:
    checker, value = checker_of(SCHEMA, None), dict[str, Any]()
    assert checked_object(checker, value) == {"a": 3}
    assert value == {}
    with pytest.raises(SchemaViolation) as caught:
        checked_object(checker, {"a": "x"})
    assert caught.value.path == "$.a"


def test_a_schema_that_cannot_be_used() -> None:
    with pytest.raises(SchemaError):
        checker_of({"type": "nothing"}, None)


def test_the_hook_gets_the_schema_and_its_checker_the_values() -> None:
    seen: list[Any] = []

    class Checker:
        def fill(self, value: Any) -> Any:
            seen.append(value)
            return value.get("instead", {"filled": True})

        def check(self, value: Any) -> None:
            seen.append(value)
            if value == {"bad": 1}:
                raise InvalidValueError("own", "not this", "$.bad")

    def validate(schema: Any) -> Checker:
        seen.append(schema)
        return Checker()

    checker = checker_of(SCHEMA, validate)
    assert checked_object(checker, {"b": 1}) == {"filled": True}
    assert seen == [SCHEMA, {"b": 1}, {"filled": True}]
    for instead, path in ({"bad": 1}, "$.bad"), ([], "$"):
        with pytest.raises(InvalidValueError) as caught:
            checked_object(checker, {"instead": instead})
        assert caught.value.path == path
