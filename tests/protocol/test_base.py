from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.base import (
    EmptyParams,
    EmptyResult,
    Integer,
    RequestId,
    WireMessage,
    WireStruct,
    misfit,
    read_item,
    read_items,
    whole_numbers,
)
from mcpl_core.wire.values import decode_value, encode_value


class Inner(WireStruct, frozen=True, kw_only=True):
    turn_index: Integer
    request_id: RequestId | UnsetType = UNSET
    branch_point: Integer | None | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "turn_index", "request_id", "branch_point")


class Outer(WireMessage, frozen=True, kw_only=True):
    inner_parts: list[Inner]


def test_names_are_camel_case_on_the_wire() -> None:
    assert encode_value(Inner(turn_index=1)) == b'{"turnIndex":1}'


def test_values_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Inner(turn_index=1).turn_index = 2  # type: ignore[misc]


def test_repr_shows_what_is_there() -> None:
    assert repr(Inner(turn_index=1)) == "Inner(turn_index=1)"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1", 1),
        (b"1.0", 1),
        (b"-0.0", 0),
        (b"1e3", 1000),
        (b"9007199254740992.0", 2**53),
        (b"123456789012345678901", 123456789012345678901),
    ],
)
def test_integers_as_javascript_writes_them(text: bytes, value: int) -> None:
    read = decode_value(b'{"turnIndex":' + text + b"}", Inner)
    assert read.turn_index == value
    assert type(read.turn_index) is int


@pytest.mark.parametrize("text", [b"1.5", b"1e300", b"9007199254740994.0"])
def test_floats_that_are_no_integer(text: bytes) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b'{"innerParts":[{"turnIndex":1},{"turnIndex":' + text + b"}]}", type=Outer)
    error = misfit(caught.value, "$.params")
    assert (error.code, error.path) == ("type", "$.params.innerParts[1].turnIndex")


@pytest.mark.parametrize("text", [b'"1"', b"true", b"null", b"[1]", b"{}"])
def test_what_is_no_number_is_no_integer(text: bytes) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_value(b'{"turnIndex":' + text + b"}", Inner)
    assert (caught.value.code, caught.value.path) == ("type", "$.turnIndex")


def test_every_named_member_is_made_whole() -> None:
    read = decode_value(b'{"turnIndex":1.0,"requestId":2.0,"branchPoint":3.0}', Inner)
    assert encode_value(read) == b'{"turnIndex":1,"requestId":2,"branchPoint":3}'
    assert decode_value(b'{"turnIndex":1,"requestId":"2","branchPoint":null}', Inner) == Inner(
        turn_index=1, request_id="2", branch_point=None
    )


def test_a_python_float_is_checked_too() -> None:
    with pytest.raises(InvalidValueError) as caught:
        Inner(turn_index=1, branch_point=float("inf"))  # type: ignore[arg-type]
    assert caught.value.path == "$.branchPoint"


def test_misfit_at_the_root() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b"[]", type=Inner)
    assert (misfit(caught.value).path, misfit(caught.value, "$.a").path) == ("$", "$.a")
    assert "object" in misfit(caught.value).detail


def test_misfit_keeps_a_path_that_a_peer_wrote_apart() -> None:
    class Word(msgspec.Struct, forbid_unknown_fields=True):
        pass

    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert([{"x - at `$.y`": 1}], list[Word])
    assert misfit(caught.value).path == "$[0]"


@pytest.mark.parametrize(
    ("meta", "found"),
    [(UNSET, UNSET), (None, UNSET), (5, UNSET), ([], UNSET), ({}, UNSET), ({"a": None}, None), ({"a": 1}, 1)],
)
def test_slots(meta: Any, found: Any) -> None:
    assert EmptyParams(meta=meta).slot("a") == found


@pytest.mark.parametrize("meta", [b"null", b"5", b'"x"', b"[]", b'{"a":1}'])
def test_no_meta_fails_a_message(meta: bytes) -> None:
    text = b'{"_meta":' + meta + b"}"
    assert encode_value(decode_value(text, EmptyResult)) == text


def test_read_item() -> None:
    assert read_item({"turnIndex": 1.0}, Inner) == Inner(turn_index=1)
    ready = Inner(turn_index=1)
    assert read_item(ready, Inner) is ready
    assert read_item("a", str) == "a"
    cases: list[tuple[Any, str]] = [
        ({"turnIndex": "1"}, "$.x.turnIndex"),
        ({"turnIndex": 1.5}, "$.x.turnIndex"),
        (5, "$.x"),
        # JSON can carry them, and numbers and constants cannot.
        ({"turnIndex": "\ud800"}, "$.x"),
        ({"\ud800": 1}, "$.x"),
    ]
    for bad, path in cases:
        error = read_item(bad, Inner, "$.x")
        assert isinstance(error, InvalidValueError)
        assert (error.code, error.path) == ("type", path)


def test_read_items() -> None:
    read = read_items([{"turnIndex": 1}, None, Inner(turn_index=2)], Inner, "$.x")
    assert [read[0], read[2]] == [Inner(turn_index=1), Inner(turn_index=2)]
    assert isinstance(read[1], InvalidValueError)
    assert read[1].path == "$.x[1]"
    assert read_items(UNSET, Inner) == []
    assert read_items((), Inner) == []
    (error,) = read_items({"turnIndex": 1}, Inner, "$.x")
    assert isinstance(error, InvalidValueError)
    assert (error.code, error.path) == ("type", "$.x")
