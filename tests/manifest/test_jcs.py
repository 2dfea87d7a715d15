"""Canonical JSON: against RFC 8785's own numbers, against another implementation, and past what that one takes."""

from __future__ import annotations

import enum
import json
import math
import struct
from collections import OrderedDict
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.manifest import jcs
from mcpl_core.manifest.jcs import canonical_bytes, canonical_json, copy_tree, ecmascript_number

# RFC 8785, Appendix B: IEEE 754 bits and the text of the number.
RFC_NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.spec("17.2-2")
@pytest.mark.parametrize(("bits", "text"), RFC_NUMBERS)
def test_the_numbers_of_rfc_8785(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert ecmascript_number(number) == text
    assert canonical_json(number) == text
    assert canonical_json({"n": [number]}) == f'{{"n":[{text}]}}'


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-17, "-17"),
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (-(2**53) - 1, "-9007199254740992"),
        (2**53 + 3, "9007199254740996"),
        (10**20, "100000000000000000000"),
        (10**21, "1e+21"),
        (1.0, "1"),
        (-1.0, "-1"),
        (1e20, "100000000000000000000"),
        (1e-7, "1e-7"),
        (-1.5e-9, "-1.5e-9"),
        (0.0001, "0.0001"),
        (1e15, "1000000000000000"),
        (123456.789, "123456.789"),
    ],
)
def test_other_numbers(number: float, text: str) -> None:
    assert ecmascript_number(number) == text
    assert canonical_json([number]) == f"[{text}]"


@pytest.mark.parametrize("value", [None, True, "1", b"1", [1], 1j])
def test_what_is_no_number_has_no_text_as_one(value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        ecmascript_number(value)
    assert caught.value.code == "not_json"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**400, -(10**309), 2**1024])
def test_a_number_outside_json_is_refused(number: float) -> None:
    with pytest.raises(InvalidValueError) as alone:
        ecmascript_number(number)
    assert (alone.value.code, alone.value.path) == ("non_finite_number", "$")
    with pytest.raises(InvalidValueError) as inside:
        canonical_json({"a b": [0, {"c": number}]})
    assert (inside.value.code, inside.value.path) == ("non_finite_number", '$["a b"][1].c')


def test_an_integer_that_rounds_to_the_largest_double_is_accepted() -> None:
    assert ecmascript_number(2**1024 - 2**970 - 1) == "1.7976931348623157e+308"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('"\\/', r'"\"\\/"'),
        ("\b\t\n\f\r", r'"\b\t\n\f\r"'),
        ("\x00\x01\x1f\x0b", r'"\u0000\u0001\u001f\u000b"'),
        ("\x7f\x80\u2028\u2029", '"\x7f\x80\u2028\u2029"'),
        ("e\u0301 \u00e9 \U0001f602", '"e\u0301 \u00e9 \U0001f602"'),
        ("a\ud800b", r'"a\ud800b"'),
        ("\udfff\ud800", r'"\udfff\ud800"'),
        ("\ud83d\ude02", '"\U0001f602"'),
        ("\ud83d\ud83d\ude02\ude02", '"\\ud83d\U0001f602\\ude02"'),
    ],
)
def test_strings(text: str, written: str) -> None:
    assert canonical_json(text) == written
    assert canonical_json({text: [text]}) == f"{{{written}:[{written}]}}"


@pytest.mark.parametrize(
    "names",
    [
        # RFC 8785, 3.2.3
        ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"],
        ["\U00010000", "\ue000", "\uffff"],
        ["\ud7ff", "\ud800", "\U00010000", "\udbff", "\udc00", "\uffff"],
        ["", "a", "aa", "b"],
    ],
)
def test_members_stand_in_the_order_of_utf_16(names: list[str]) -> None:
    for order in (names, names[::-1]):
        text = canonical_json(dict.fromkeys(order, 0))
        assert list(json.loads(text)) == names


def test_names_that_are_one_name_leave_one_member() -> None:
    assert canonical_json({"\ud83d\ude02": 1, "\U0001f602": 2}) == '{"\U0001f602":2}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        ({}, "{}"),
        ([], "[]"),
        ((), "[]"),
        ({"a": (1, [2, {}], None)}, '{"a":[1,[2,{}],null]}'),
        ([1.0, [], {}, {"b": True, "a": [1.0]}], '[1,[],{},{"a":[1],"b":true}]'),
    ],
)
def test_other_values(value: Any, text: str) -> None:
    assert canonical_json(value) == text
    assert canonical_bytes(value) == text.encode()


def test_subclasses_are_what_they_extend() -> None:
    class Word(str):
        __slots__ = ()

    class Color(enum.StrEnum):
        RED = "red"

    class Level(enum.IntEnum):
        HIGH = 3

    class Half(float):
        __slots__ = ()

    value: dict[str, Any] = OrderedDict(
        {Word("w"): Word("v"), Color.RED: Color.RED, "n": [Level.HIGH, Half(0.5), True]}
    )
    assert canonical_json(value) == canonical_json(dict(value)) == '{"n":[3,0.5,true],"red":"red","w":"v"}'


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (b"bytes", "$"),
        ({"a": {1, 2}}, "$.a"),
        ([0, object()], "$[1]"),
        ({"a": [{1: 2}]}, "$.a[0]"),
        ({"x": {"a": 1, None: 2}}, "$.x"),
        ([1j], "$[0]"),
    ],
)
def test_what_is_no_json_value_is_refused(value: Any, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        canonical_json(value)
    assert (caught.value.code, caught.value.path) == ("not_json", path)


def test_a_container_inside_itself_is_refused() -> None:
    cycle: dict[str, Any] = {"a": [{}]}
    cycle["a"][0]["b"] = cycle
    with pytest.raises(InvalidValueError) as caught:
        canonical_json(cycle)
    assert (caught.value.code, caught.value.path) == ("not_json", "$.a[0].b")


@pytest.mark.parametrize("copies", [1, 2, 3_000])
def test_a_container_inside_itself_is_refused_however_often(copies: int) -> None:
    cycle: list[Any] = []
    cycle += [cycle] * copies
    for function in (canonical_json, copy_tree):
        with pytest.raises(InvalidValueError) as caught:
            function({"a": [1.0, cycle]})
        assert (caught.value.code, caught.value.path) == ("not_json", "$.a[1][0]")


def test_a_container_in_two_places_is_no_cycle() -> None:
    shared = {"n": 1.0}
    assert canonical_json([shared, {"again": shared}]) == '[{"n":1},{"again":{"n":1}}]'
    many = [shared] * 3_000
    text = "[" + ",".join(['{"n":1}'] * 3_000) + "]"
    assert canonical_json([many, many]) == f"[{text},{text}]"
    copy = copy_tree([shared, [shared, shared]])
    assert copy == [shared, [shared, shared]]
    assert len({id(tree) for tree in (shared, copy[0], *copy[1])}) == 4


@pytest.mark.parametrize("depth", [1, 63, 64, 65, 1_000, 20_000])
def test_depth_is_no_limit(depth: int) -> None:
    tree: Any = {}
    for _ in range(depth):
        tree = {"a": [tree]}
    assert canonical_json(tree) == '{"a":[' * depth + "{}" + "]}" * depth
    assert canonical_json(copy_tree(tree)) == canonical_json(tree)


def test_a_copy_shares_nothing_with_its_original() -> None:
    original: dict[str, Any] = {"a": [{"b": (1, {"c": None})}], "d": {}, "e": "text"}
    copy = copy_tree(original)
    assert copy == {"a": [{"b": [1, {"c": None}]}], "d": {}, "e": "text"}
    copy["a"][0]["b"][1]["c"] = copy["d"]["x"] = copy["f"] = 1
    assert original == {"a": [{"b": (1, {"c": None})}], "d": {}, "e": "text"}
    others: list[Any] = [None, "a", 1.5, []]
    assert [copy_tree(value) for value in others] == others


_CHARACTERS = 'ab"\\\x00\x1f\x7f\x80\u00e9\u2028\ud7ff\ue000\ufb33\uffff\U00010000\U0001f602'
_strings = st.text(_CHARACTERS, max_size=4) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_scalars = st.none() | st.booleans() | _strings | _numbers
_trees = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_strings, inner, max_size=5), max_leaves=25
)


@pytest.mark.spec("17.2-2")
@given(_trees)
@example({"\U0001f602": 1, "\ufb33": 2})
@example([1e20, 1e16, 1e-5, 0.0001, -0.0, 5e-324])
def test_another_implementation_writes_the_same(tree: Any) -> None:
    assert canonical_bytes(tree) == rfc8785.dumps(tree)


@given(_trees)
@example([1e20, 1e16, 1e-5, 0.0001, -0.0, 5e-324])
def test_the_fast_writer_and_the_exact_one_write_the_same(tree: Any) -> None:
    assert canonical_json(tree) == jcs._exact(tree)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.floats(1e-5, 1e17))
def test_every_double_is_written_alike(number: float) -> None:
    assert ecmascript_number(number).encode() == rfc8785.dumps(number)
    assert canonical_bytes([number, -number]) == rfc8785.dumps([number, -number])
    assert float(ecmascript_number(number)) == number


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(_anything)
def test_canonical_text_is_json_and_its_own_canonical_text(tree: Any) -> None:
    text = canonical_json(tree)
    assert canonical_json(json.loads(text)) == text
    assert canonical_json(copy_tree(tree)) == text


@given(_trees, st.randoms(use_true_random=False))
def test_the_order_of_members_means_nothing(tree: Any, random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            items = list(value.items())
            random.shuffle(items)
            return {name: shuffled(member) for name, member in items}
        return [shuffled(member) for member in value] if isinstance(value, list) else value

    assert canonical_bytes(shuffled(tree)) == canonical_bytes(tree)
