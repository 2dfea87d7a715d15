"""One JSON value to its text and back: the only decode and the only encode of values in the package.

Owns: reading values (plain or typed), writing them, the checks that JSON parsers leave out (UTF-8, depth),
and turning every codec failure into an error of ours. Does not own: what a message is (``messages``).

Three facts shape it. msgspec checks grammar in members that it skips but not their UTF-8, so whole texts are
checked first (``utf8_flaw``). Lone surrogate escapes (``\\ud800``), which JavaScript peers may send, are refused by
msgspec, so a text that it refuses and that holds one goes through ``json``. msgspec writes NaN and the infinities as
``null``, so an output with a ``null`` in it is looked at again.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar, overload

import msgspec
from msgspec import UNSET, Raw

from ..errors import InvalidValueError, UnencodableError

__all__ = (
    "decode_plain",
    "decode_value",
    "depth_exceeds",
    "dump_ascii",
    "encode_value",
    "has_surrogate_escape",
    "hide_surrogates",
    "load_lenient",
    "show_surrogates",
    "utf8_flaw",
)

T = TypeVar("T")
_SURROGATE = re.compile(rb"\\u(?=[dD][89a-fA-F][0-9a-fA-F]{2})")


def has_surrogate_escape(text: bytes) -> bool:
    """Whether ``text`` holds an escape of a surrogate, paired or alone."""
    return _SURROGATE.search(text) is not None


def utf8_flaw(text: bytes) -> str:
    """What is wrong with ``text`` as UTF-8; empty when nothing is."""
    try:
        text.decode()
    except UnicodeDecodeError as exc:
        return f"{exc.reason} at byte {exc.start}"
    return ""


_BRACKETS = bytes(1 if byte in b"[{" else 0xFF if byte in b"]}" else byte for byte in range(256))
_LEAF = b"\x01\xff"
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))


def depth_exceeds(text: bytes, limit: int) -> bool:
    """Whether arrays and objects of a JSON text nest deeper than ``limit``; at C speed: it sees every large message.

    Of a text that is not JSON the answer may be either.
    """
    if not _has_more(text, limit):
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes with nothing between them never change what is inside a string and what is not.
    marks = text.translate(_BRACKETS, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    # Most brackets hold no others. Taking away those that do not takes away exactly one level.
    while limit and marks.count(_LEAF) * 8 >= len(marks) > 0:
        marks = marks.replace(_LEAF, b"")
        limit -= 1
    return max(accumulate(memoryview(marks).cast("b")), default=0) > limit


def _has_more(text: bytes, limit: int) -> bool:
    """Whether more than ``limit`` arrays and objects begin in ``text``. Looking from one to the next is many times
    faster than ``count``, which goes byte by byte."""
    find = text.find
    for bracket in (0x7B, 0x5B):
        at = find(bracket)
        while at >= 0:
            if not limit:
                return True
            limit -= 1
            at = find(bracket, at + 1)
    return False


#: What ``decode_value`` does with most texts, without what it does with the others: it raises what the codec raises.
decode_plain = msgspec.json.Decoder().decode


@lru_cache(maxsize=512)
def _kept_decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type)


def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    try:
        return _kept_decoder(type)
    except TypeError:
        # ``Annotated`` may carry what has no hash. A type that msgspec does not know raises once more.
        return msgspec.json.Decoder(type)


@overload
def decode_value(raw: bytes | Raw) -> Any: ...
@overload
def decode_value(raw: bytes | Raw, type: type[T]) -> T: ...
@overload
def decode_value(raw: bytes | Raw, type: Any) -> Any: ...
def decode_value(raw: bytes | Raw, type: Any = Any) -> Any:
    """Reads one JSON value, such as the ``raw_params`` of a message, as plain JSON or as ``type``.

    The text comes from a message that was read here, or its UTF-8 was checked: members that ``type`` does not
    have are not looked into. Lone surrogates are read wherever ``type`` says ``str`` or ``Any``.

    Raises:
        InvalidValueError: it does not fit, or holds a number that no double can (code ``type``), or is no JSON
            (``json``); ``path`` says where.
        TypeError: ``type`` is no type that can be read from JSON.
    """
    try:
        return decode_plain(raw) if type is Any else _decoder(type).decode(raw)
    except msgspec.ValidationError as exc:
        raise _misfit(exc) from exc
    except (msgspec.DecodeError, RecursionError) as exc:
        text = bytes(raw)
        if not has_surrogate_escape(text):
            raise InvalidValueError("json", str(exc)) from exc
    try:
        return msgspec.convert(load_lenient(text), type, str_keys=True)
    except msgspec.ValidationError as exc:
        raise _misfit(exc) from exc
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise InvalidValueError("json", str(exc)) from exc
    except ValueError as exc:
        # Out of range, or a lone surrogate where only certain texts fit.
        raise InvalidValueError("type", str(exc)) from exc


def _misfit(exc: msgspec.ValidationError) -> InvalidValueError:
    detail, _, where = str(exc).partition(" - at ")
    # "`$.a`", or "`key` in `$.a`"; nothing when it is the whole value.
    return InvalidValueError("type", detail, where.rstrip("`").rpartition("`")[2] or "$")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is out of range")
    return number


def _refuse_constant(text: str) -> None:
    raise json.JSONDecodeError(f"{text} is not JSON", text, 0)


def load_lenient(text: bytes) -> Any:
    """Reads JSON text that may hold lone surrogate escapes, and is otherwise as strict as the fast decoder.

    Raises:
        ValueError: it is no JSON, or holds a number that no double can.
        RecursionError: it nests too deep for the interpreter.
    """
    return json.loads(text.decode(), parse_float=_finite, parse_constant=_refuse_constant)


def hide_surrogates(text: bytes) -> bytes:
    """JSON text in UTF-8 with its surrogate escapes made invisible to the fast decoder; ``show_surrogates`` undoes it.

    0xFE and 0xFF occur in no UTF-8, and the fast decoder does not look into strings that it leaves raw. Backslashes
    that escape each other are hidden too, lest the second be taken for the beginning of an escape.
    """
    return _SURROGATE.sub(b"\xff", text.replace(b"\\\\", b"\xfe"))


def show_surrogates(text: bytes) -> bytes:
    """What ``hide_surrogates`` was given."""
    return text.replace(b"\xff", b"\\u").replace(b"\xfe", b"\\\\")


def encode_value(value: Any) -> bytes:
    """The JSON text of ``value``, with U+2028 and U+2029 escaped (they end a line for some peers).

    ``Raw`` stands in it as it is: it must be JSON, and where it has line breaks, so has the text.

    Raises:
        UnencodableError: a non-finite number, a type without a JSON form, or nesting without end.
    """
    try:
        text = _encode(value)
        if len(text) <= _LONG:
            in_doubt = text.rfind(b"null") >= 0
        else:
            in_doubt = not _is_surely_finite(value) and _null(text) is not None
        if in_doubt:
            _refuse_non_finite(value)
    except UnicodeEncodeError:
        return _encode_escaped(value)
    except _FAILURES as exc:
        raise UnencodableError(str(exc)) from exc
    if not text.isascii() and 0xE2 in text:
        text = text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return text


#: What the codecs raise at a value that they cannot write.
_FAILURES = (TypeError, ValueError, RecursionError, NotImplementedError, OverflowError)


def _may_hold_non_finite(packed: bytes) -> bool:
    """Whether a double that is not finite stands in MessagePack text: 0xCB, then 0x7F or 0xFF, then 0xF0 or more. In
    UTF-8 the first of these is never followed by the second."""
    find = packed.find
    at = find(0xCB)
    while at >= 0:
        head = packed[at + 1 : at + 3]
        if head >= b"\xff\xf0" or b"\x7f\xf0" <= head <= b"\x7f\xff":
            return True
        at = find(0xCB, at + 1)
    return False


def _is_surely_finite(value: Any) -> bool:
    """Whether a look at few values shows that all are finite. For long strings that is a thousand times faster than
    looking for ``null`` in their text."""
    stack = [value]
    for _ in range(_FEW):
        if not stack:
            return True
        item = stack.pop()
        kind = type(item)
        if kind is dict:
            stack += item.values()
        elif kind is list:
            stack += item
        elif isinstance(item, msgspec.Struct):
            stack += msgspec.structs.astuple(item)
        elif kind is float:
            if not math.isfinite(item):
                return False
        elif kind not in _FINITE:
            return False
        if len(stack) > _FEW:
            return False
    return not stack


def _refuse_non_finite(value: Any) -> None:
    """Raises at NaN and the infinities, which are written as ``null`` in JSON; in MessagePack they are themselves.

    It writes small integers and packed bytes too, so what looks like one is looked for once more, value by value.
    """
    try:
        if not _may_hold_non_finite(_pack(value)):
            return
    except OverflowError:
        # MessagePack has no integers beyond 64 bits.
        pass
    stack = [msgspec.to_builtins(value, enc_hook=_skip_raw)]
    while stack:
        item = stack.pop()
        if type(item) is float:
            if not math.isfinite(item):
                raise UnencodableError(f"{item} is not a JSON number")
        elif type(item) is dict:
            stack.extend(item.values())
        elif type(item) is list or type(item) is tuple:
            stack.extend(item)


def _skip_raw(value: Any) -> None:
    """``Raw`` is JSON text already: it cannot hold a number that is not JSON."""


def _encode_escaped(value: Any) -> bytes:
    """A value with lone surrogates in its strings: every character above ASCII is written as an escape."""
    try:
        return dump_ascii(msgspec.to_builtins(value, str_keys=True, enc_hook=_open_raw))
    except _FAILURES as exc:
        raise UnencodableError(str(exc)) from exc


def _open_raw(value: Any) -> Any:
    if isinstance(value, Raw):
        return decode_value(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def dump_ascii(value: Any) -> bytes:
    """The text of a plain JSON value with every character above ASCII escaped; lone surrogates stay alone.

    Raises:
        ValueError: a non-finite number.
        TypeError: a value that is not plain JSON.
    """
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


#: A text of more bytes than this is not searched when there are so few values in it that they can be looked at.
_LONG = 4096
_FEW = 64
_FINITE = frozenset({str, int, bool, type(None), Raw, type(UNSET)})
#: The fastest search of long texts; of short ones it is `rfind` (`in` first tries the needle as a number).
_null = re.compile(b"null").search
_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
