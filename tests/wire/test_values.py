"""One JSON value in and out: exact, strict, and never an error that is not ours."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import sys
import uuid
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from mcpl_core.errors import InvalidValueError, UnencodableError
from mcpl_core.wire.framing import encode_line
from mcpl_core.wire.values import (
    decode_value,
    depth_exceeds,
    dump_ascii,
    encode_value,
    has_surrogate_escape,
    hide_surrogates,
    load_lenient,
    show_surrogates,
    utf8_flaw,
)

#: Characters of all kinds, lone surrogates among them.
TEXT = st.text(st.characters(codec=None) | st.sampled_from('\ud800\udfff\u2028\u2029\u0085\x0b\x7f"\\'), max_size=12)
INTEGERS = st.integers() | st.integers(-(2**70), 2**70) | st.sampled_from([2**53 + 1, 2**63, 2**64, -(2**63) - 1])
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


def exact(value: Any) -> str:
    """A text in which ``1``, ``1.0`` and ``True`` differ, and ``-0.0`` and ``0.0`` too."""
    return repr(value)


class Point(msgspec.Struct):
    x: int
    label: str = ""
    rest: Any = None


class Colour(enum.Enum):
    RED = "red"


class Edge(enum.Enum):
    END = math.inf


@dataclasses.dataclass
class Plain:
    value: Any


# -- in and out


@pytest.mark.spec("R-wire-8")
@given(JSON)
@example("\ud800")
@example({"\udfff": ["\ud83d", "\ude00", "\U0001f600", 2**200, -0.0, 1e-320]})
@example([None, "null", 1.5])
def test_decoding_undoes_encoding(value: Any) -> None:
    text = encode_value(value)
    assert exact(decode_value(text)) == exact(value)
    assert exact(decode_value(Raw(text))) == exact(value)


ENCODABLE = st.recursive(
    SCALARS
    | st.binary(max_size=8)
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.sampled_from(Colour)
    | JSON.map(lambda value: Raw(json.dumps(value, indent=1, ensure_ascii=True).encode()))
    | st.builds(Raw, st.just('{\r\n\t"\u2028": 1.0 }'.encode())),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(TEXT | st.integers() | st.uuids(), inner, max_size=3)
        | st.builds(Point, st.integers(), TEXT, inner)
        | st.builds(Plain, inner)
        | st.frozensets(TEXT, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.spec("R-wire-1")
@given(ENCODABLE)
def test_what_can_be_written_is_one_line_of_utf8(value: Any) -> None:
    text = encode_line(encode_value(value))
    assert text.endswith(b"\n")
    assert b"\n" not in text[:-1] and b"\r" not in text
    assert not set("\u2028\u2029") & set(text.decode())
    json.loads(text, parse_constant=pytest.fail)
    decode_value(text)


@given(st.recursive(JSON | st.floats(), lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8))
@example([math.nan, None])
@example([math.inf, "\ud800"])
@example([-math.inf, 2**70])
@example([{"a": [Point(1, rest=math.nan)]}])
@example(Plain([math.inf]))
@example(Edge.END)
@example((1.0, math.nan))
@example({1: math.nan})
def test_numbers_that_are_not_finite_are_not_written(value: Any) -> None:
    """Whether there is one is asked of a walk that knows all these types. Long texts go another way."""
    for whole in (value, ["x" * 5000, value], {"few": Plain(value), "long": "x" * 5000}, [value] * 5 + ["x" * 5000]):
        try:
            text = encode_value(whole)
        except UnencodableError:
            assert _has_non_finite(value)
        else:
            assert not _has_non_finite(value)
            decode_value(text)


def test_many_values_in_a_long_text() -> None:
    numbers: list[Any] = [*range(2000), {"a": [1.5]}]
    assert decode_value(encode_value(numbers)) == numbers
    numbers[-1]["a"] += [math.inf]
    with pytest.raises(UnencodableError):
        encode_value(numbers)
    # Few at a time, and too many in all to be looked at; the last one that would be is not finite.
    with pytest.raises(UnencodableError):
        encode_value(["x" * 5000, [math.nan, *range(40)], [*range(40)]])


def _has_non_finite(value: Any) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case dict():
            return any(map(_has_non_finite, value.values()))
        case list() | tuple():
            return any(map(_has_non_finite, value))
        case Point():
            return _has_non_finite(value.rest)
        case Plain() | Edge():
            return _has_non_finite(value.value)
    return False


@pytest.mark.spec("R-wire-10")
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -math.nan])
def test_each_number_that_is_not_finite(number: float) -> None:
    for value in (number, [number], {"a": {"b": number}}, {"n": None, "x": (1, number)}, ["\ud800", number]):
        with pytest.raises(UnencodableError):
            encode_value(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [None, 1.5, "null"],
        "null",
        {"null": 1},
        {"a": None, "b": 2**70},
        {"a": None, "b": [2**70, (1.5, {"c": -(2**70)})]},
        [None, Raw(b"[null,1.5]")],
        [None, b"\xcb\x7f\xf8", 0x7FF8],
        {"a": None, "b": Plain(b"\xcb\xff\xf0"), "c": {math.nan: 1}},
    ],
)
def test_null_is_no_number(value: Any) -> None:
    text = encode_value(value)
    assert b"null" in text
    assert text == msgspec.json.encode(value)


@pytest.mark.parametrize("value", [-0.0, 0.1, 5e-324, 1.7976931348623157e308, 2**53 + 1, 2**64, -(2**63) - 1, 10**4000])
def test_numbers_keep_every_digit(value: float) -> None:
    assert exact(decode_value(encode_value([value]))) == exact([value])
    assert exact(decode_value(encode_value([value, "\ud800"]))) == exact([value, "\ud800"])


@pytest.mark.spec("R-wire-1")
def test_line_and_paragraph_separators_are_escaped() -> None:
    assert encode_value(["\u2028", {"\u2029": "\u0085\x7fé"}]) == '["\\u2028",{"\\u2029":"\u0085\x7fé"}]'.encode()
    assert encode_value(Raw('"\u2028"'.encode())) == b'"\\u2028"'


@pytest.mark.spec("R-wire-8")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\ud800", b'"\\ud800"'),
        ("\udc00\ud800", b'"\\udc00\\ud800"'),
        ({"\udfff": [None]}, b'{"\\udfff":[null]}'),
        (["\ud800", "é\u2028\U0001f600"], b'["\\ud800","\\u00e9\\u2028\\ud83d\\ude00"]'),
        (["\ud800", {1: 2, 1.5: 3}], b'["\\ud800",{"1":2,"1.5":3}]'),
        (["\ud800", Raw(b'{ "a" : [1.0, "\\udfff"] }')], b'["\\ud800",{"a":[1.0,"\\udfff"]}]'),
        (Point(1, "\ud800", b"\0"), b'{"x":1,"label":"\\ud800","rest":"AA=="}'),
    ],
)
def test_lone_surrogates_are_written_as_escapes(value: Any, text: bytes) -> None:
    assert encode_value(value) == text


def _endless() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


UNENCODABLE: list[Any] = [
    object(),
    1j,
    UNSET,
    {"a": UNSET},
    {None: 1},
    {True: 1},
    {(1, 2): 1},
    iter(()),
    _endless(),
    [None, object()],
    ["\ud800", object()],
    ["\ud800", UNSET],
    ["\ud800", {None: 1}],
    ["\ud800", {True: 1}],
    ["\ud800", _endless()],
    ["\ud800", Raw(b"1e400")],
    ["\ud800", Raw(b"{")],
    10**5000,
    [None, 10**5000],
    ["\ud800", 10**5000],
]


@pytest.mark.parametrize("value", UNENCODABLE, ids=lambda value: type(value).__name__)
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    with pytest.raises(UnencodableError) as caught:
        encode_value(value)
    assert caught.value.detail


def test_plain_values_in_ascii() -> None:
    assert dump_ascii({"é": ["\ud800", "\u2028", None, 1.0]}) == b'{"\\u00e9":["\\ud800","\\u2028",null,1.0]}'
    with pytest.raises(ValueError):
        dump_ascii(math.nan)
    with pytest.raises(TypeError):
        dump_ascii(object())


# -- in


@pytest.mark.parametrize(
    ("text", "type", "code", "path"),
    [
        (b"", Any, "json", "$"),
        (b"{", Any, "json", "$"),
        (b"[1] 2", Any, "json", "$"),
        (b"nul", Any, "json", "$"),
        (b"NaN", Any, "json", "$"),
        (b"-Infinity", Any, "json", "$"),
        (b'"\xff"', Any, "json", "$"),
        (b'{"\xff":1}', Any, "json", "$"),
        (b'"\\q"', Any, "json", "$"),
        (b'"\x01"', Any, "json", "$"),
        (b"\xef\xbb\xbf1", Any, "json", "$"),
        (b'["\\ud800"', Any, "json", "$"),
        (b'["\\ud800",NaN]', Any, "json", "$"),
        (b'["\\ud800","\xff"]', Any, "json", "$"),
        (b"[" * 5000 + b"]" * 5000, Any, "json", "$"),
        (b'["\\ud800",' * 3000 + b"1" + b"]" * 3000, Any, "json", "$"),
        (b"[1e400]", Any, "type", "$[0]"),
        (b"1" + b"0" * 5000, Any, "type", "$"),
        (b'["\\ud800",1e400]', Any, "type", "$"),
        (b'["\\ud800",-1e400]', Any, "type", "$"),
        (b'["\\ud800",1' + b"0" * 5000 + b"]", Any, "type", "$"),
        (b'"a"', int, "type", "$"),
        (b'{"x":"a"}', Point, "type", "$.x"),
        (b'[{"x":1},{"x":null}]', list[Point], "type", "$[1].x"),
        (b'{"a":1}', dict[int, int], "type", "$"),
        (b'{"x":"\\ud800"}', Point, "type", "$"),
        (b'[{"x":1},{"x":null,"label":"\\ud800"}]', list[Point], "type", "$[1].x"),
        (b'[{"label":"\\ud800","x":1},{"x":null}]', list[Point], "type", "$[1].x"),
        (b'"\\ud800"', Literal["a"], "type", "$"),
        (b'"\\ud800"', uuid.UUID, "type", "$"),
        (b'{"x":1,"\\ud800":2}', Point, "type", "$"),
    ],
)
def test_what_cannot_be_read_is_an_error_of_ours(text: bytes, type: Any, code: str, path: str) -> None:
    for raw in (text, Raw(text)):
        with pytest.raises(InvalidValueError) as caught:
            decode_value(raw, type)
        assert (caught.value.code, caught.value.path) == (code, path)
        assert caught.value.detail


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        (b' {"x": 1, "label": "l", "more": [1]} ', Point, Point(1, "l")),
        (b'{"x":1,"label":"\\ud800"}', Point, Point(1, "\ud800")),
        (b'{"x":1,"rest":{"\\ud800":1.0}}', Point, Point(1, rest={"\ud800": 1.0})),
        (b'{"1":"\\ud800"}', dict[int, str], {1: "\ud800"}),
        (b'["\\ud800","2020-01-02"]', tuple[str, date], ("\ud800", date(2020, 1, 2))),
        (b'"\\ud83d\\ude00"', str, "\U0001f600"),
        (b'"\\\\ud800"', str, "\\ud800"),
        (b'"\\ud83d\\ude00\\ud83d"', str, "\U0001f600\ud83d"),
        (b"null", int | None, None),
        (b'{"a":1,"a":2}', Any, {"a": 2}),
        (b'{"a":"\\ud800","a":2}', Any, {"a": 2}),
        (b"3", Annotated[int, {"no": "hash"}], 3),
        (b"[3]", list[Annotated[int, ["no hash"]]], [3]),
        (b"12345678901234567890123", Any, 12345678901234567890123),
        (b"1e2", Any, 100.0),
        (b"1.50", Decimal, Decimal("1.50")),
    ],
)
def test_typed_values(text: bytes, type: Any, value: Any) -> None:
    assert exact(decode_value(text, type)) == exact(value)
    assert exact(decode_value(Raw(text), type)) == exact(value)


def test_a_type_that_is_none_is_the_callers_mistake() -> None:
    with pytest.raises(TypeError):
        decode_value(b"1", 1)


def test_absent_stays_absent() -> None:
    class Member(msgspec.Struct):
        value: int | None | UnsetType = UNSET

    assert decode_value(b"{}", Member).value is UNSET
    assert decode_value(b'{"value":null}', Member).value is None


@given(
    st.binary(max_size=60)
    | st.lists(st.sampled_from(list('[]{}",:\\u d8e01.-ntf')), max_size=40).map("".join).map(str.encode)
)
@example(b'["\\ud800",1e400]')
def test_bytes_are_read_or_refused(text: bytes) -> None:
    try:
        value = decode_value(text)
    except InvalidValueError:
        return
    assert exact(decode_value(encode_value(value))) == exact(value)


@given(JSON, st.sampled_from([Any, int, str, Point, dict[str, Any], list[Any], list[Point], dict[int, str]]))
def test_any_json_fits_or_is_refused(value: Any, type: Any) -> None:
    try:
        decode_value(encode_value(value), type)
    except InvalidValueError as error:
        assert error.code == "type"


@given(JSON)
def test_the_slow_reader_agrees_with_the_fast_one(value: Any) -> None:
    text = dump_ascii(value)
    assert exact(load_lenient(text)) == exact(value)
    try:
        fast = msgspec.json.decode(text)
    except msgspec.DecodeError:
        assert has_surrogate_escape(text)
    else:
        assert exact(fast) == exact(value)


@pytest.mark.parametrize("text", [b"1e400", b"NaN", b"Infinity", b"", b"[1", b"\xff", b"1" * 5000])
def test_the_slow_reader_is_strict(text: bytes) -> None:
    with pytest.raises(ValueError):
        load_lenient(text)


# -- what parsers leave out


@pytest.mark.spec("R-wire-9")
@given(st.binary(max_size=30))
@example(b"\xed\xa0\x80")
@example(b"\xc0\xaf")
@example(b"\xf5\x80\x80\x80")
@example(b"abc\xe2\x80")
def test_utf8(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as exc:
        assert str(exc.start) in utf8_flaw(text)
    else:
        assert utf8_flaw(text) == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"\\ud800", True),
        (b"x\\uDfFf", True),
        (b"\\ud83d\\ude00", True),
        (b"\\ud7ff\\ue000", False),
        (b"\\ud80", False),
        (b"\\ud8zz", False),
        (b"ud800", False),
    ],
)
def test_surrogate_escapes_are_found(text: bytes, found: bool) -> None:
    assert has_surrogate_escape(text) is found


@given(st.lists(st.sampled_from(["\\", '"', "u", "\\ud800", "\\uDFFF", "\\\\", "d8", "a", "é", "\\n"]), max_size=30))
def test_hidden_surrogates_are_shown_again(parts: list[str]) -> None:
    text = "".join(parts).encode()
    hidden = hide_surrogates(text)
    assert show_surrogates(hidden) == text
    assert not has_surrogate_escape(hidden)


@given(JSON)
def test_hidden_surrogates_hide_nothing_else(value: Any) -> None:
    """What is left is the same JSON to a reader that does not look into strings."""
    hidden = hide_surrogates(dump_ascii({"a": value}))
    (raw,) = msgspec.json.decode(hidden, type=dict[str, Raw]).values()
    assert exact(load_lenient(show_surrogates(bytes(raw)))) == exact(value)


def _depth(text: bytes) -> int:
    """A walk without tricks."""
    depth = deepest = 0
    in_string = escaped = False
    for char in text.decode():
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


TRICKY = st.text(st.sampled_from('[]{}"\\a\u2028é'), max_size=10)
NESTED = st.recursive(
    TRICKY | st.none(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TRICKY, inner, max_size=4),
    max_leaves=60,
)


@given(NESTED, st.lists(NESTED, max_size=3), st.integers(0, 5), st.sampled_from([None, 1]), st.booleans())
@example([[], [[]]], [], 0, None, True)
@example([[[]], [], [], [[], [[]]], []], [], 0, None, True)
@example({"]": {"[": [{}, {"}": "{"}]}}, ["\\", '"', "]]"], 3, 1, False)
def test_depth_is_exact(value: Any, beside: list[Any], more: int, indent: int | None, ascii: bool) -> None:
    for _ in range(more):
        value = [*beside, value]
    text = json.dumps(value, indent=indent, ensure_ascii=ascii).encode()
    depth = _depth(text)
    assert [depth_exceeds(text, limit) for limit in range(depth + 3)] == [True] * depth + [False] * 3


@pytest.mark.parametrize("limit", [1, 2, 5, 255, 256])
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"[":['])
def test_depth_at_the_limit(opening: bytes, limit: int) -> None:
    closing = opening[::-1].translate(bytes.maketrans(b"[{", b"]}"), b'a":')
    closing = b"]}]" if opening.startswith(b"[{") else closing
    times = limit * 2
    text = opening * times + b"1" + closing * times
    depth = _depth(text)
    assert not depth_exceeds(text, depth)
    assert depth_exceeds(text, depth - 1)


@pytest.mark.parametrize(
    "text",
    [
        b'["' + b"[" * 1000 + b'"]',
        b'["' + b'\\"[' * 1000 + b'"]',
        b'["\\\\","' + b"{" * 1000 + b'"]',
        b'["' + b"\\\\" * 1000 + b'","[[[[[["]',
        b"[" + b"[],{}," * 1000 + b"[]]",
        b'["",' * 4 + b'""' + b"]" * 4,
    ],
)
def test_brackets_that_are_no_depth(text: bytes) -> None:
    json.loads(text)
    assert not depth_exceeds(text, 4)


@given(st.binary(max_size=40), st.integers(0, 5))
def test_depth_of_bytes_that_are_no_json(text: bytes, limit: int) -> None:
    assert depth_exceeds(text, limit) in (True, False)


@pytest.mark.parametrize(
    "unit",
    [b"[", b"]", b"[]", b'"["', b'"', b"\\", b'\\"', b"[[[[[[[[]]]]]]]],", b'["]"', b"[{[[", b'"[["[]'],
)
def test_depth_takes_a_bounded_number_of_passes(unit: bytes) -> None:
    """Each call of a method of ``bytes`` goes through the text once; a longer text needs no more of them."""

    def passes(size: int) -> int:
        text, calls = unit * (size // len(unit)), 0

        def count(frame: object, event: str, function: object) -> None:
            nonlocal calls
            calls += event == "c_call" and type(getattr(function, "__self__", None)) is bytes

        sys.setprofile(count)
        try:
            depth_exceeds(text, 256)
        finally:
            sys.setprofile(None)
        return calls

    assert 0 < passes(1 << 18) <= passes(1 << 14) + 2
