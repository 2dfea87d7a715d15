"""Strict reading over a table."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

from mcpl_core.approvals.fields import (
    Field,
    check_fields,
    frozen_object,
    identity,
    integer,
    literal,
    optional,
    read_fields,
    write_fields,
)
from mcpl_core.errors import InvalidValueError


@dataclass
class Pair:
    name: str
    size: int


FIELDS = (Field("name", "theName", identity), Field("size", "theSize", integer(2)))


def test_both_ways() -> None:
    assert read_fields({"theName": "a", "theSize": 2}, FIELDS) == {"name": "a", "size": 2}
    assert write_fields(Pair("a", 2), FIELDS) == {"theName": "a", "theSize": 2}
    check_fields(Pair("a", 2), FIELDS)


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        ({"theName": "a"}, "missing_member", "$.p"),
        ({}, "missing_member", "$.p"),
        ({"theName": "a", "theSize": 2, "more.less": 1}, "unknown_member", '$.p["more.less"]'),
        ({"theName": "", "theSize": 2}, "identity", "$.p.theName"),
        ({"theName": "a", "theSize": 1}, "integer", "$.p.theSize"),
        ({"theName": "a", "theSize": 2.0}, "integer", "$.p.theSize"),
        ({"theName": "a", "theSize": True}, "integer", "$.p.theSize"),
        ({1: 1}, "not_json", "$.p"),
        (None, "not_object", "$.p"),
    ],
)
def test_the_error_says_where(value: Any, code: str, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        read_fields(value, FIELDS, "$.p")
    assert (caught.value.code, caught.value.path) == (code, path)


def test_what_a_constructor_was_given_is_checked_by_the_same_table() -> None:
    with pytest.raises(InvalidValueError) as caught:
        check_fields(Pair("a", 1), FIELDS)
    assert caught.value.path == "$.theSize"


def test_a_literal_is_of_its_type() -> None:
    read = literal(1, "x")
    assert read(1, "$") == 1 and read("x", "$") == "x"
    for value in (True, 1.0, "y", None):
        with pytest.raises(InvalidValueError):
            read(value, "$")


def test_null_where_it_may_be() -> None:
    assert optional(integer())(None, "$") is None
    assert optional(integer())(3, "$") == 3
    with pytest.raises(InvalidValueError):
        optional(integer())("3", "$")


def test_a_frozen_object_shares_nothing() -> None:
    inner: dict[str, Any] = {"list": [{"a": 1}]}
    frozen = frozen_object(MappingProxyType(inner))
    inner["list"][0]["a"] = 2
    assert frozen == {"list": ({"a": 1},)}
    with pytest.raises(TypeError):
        frozen["b"] = 1  # type: ignore[index]


def test_a_frozen_object_is_an_object() -> None:
    with pytest.raises(InvalidValueError) as caught:
        frozen_object([1], "$.x")
    assert (caught.value.code, caught.value.path) == ("not_object", "$.x")
