"""One JSON value to its text and back: the only decode and the only encode of values in the package.

Owns: reading values (plain or typed), writing them, the checks that JSON parsers leave out (UTF-8, depth),
and turning every codec failure into an error of ours. Does not own: what a message is (``messages``).

Three facts shape it. msgspec checks grammar in members that it skips but not their UTF-8, so whole texts are
checked first. Lone surrogate escapes (``\\ud800``), which JavaScript peers may send, are refused by msgspec,
so a text that it refuses and that holds one goes through ``json``. msgspec writes NaN and the infinities as
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
from msgspec import Raw

from ..errors import InvalidValueError, UnencodableError

__all__ = (
    "decode_value",
    "depth_exceeds",
    "dump_ascii",
    "encode_value",
    "has_surrogate_escape",
    "load_lenient",
    "utf8_flaw",
)

T = TypeVar("T")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


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
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))


def depth_exceeds(text: bytes, limit: int) -> bool:
    """Whether arrays and objects nest deeper than ``limit``; at C speed: it sees every large message."""
    if text.count(b"[") + text.count(b"{") <= limit:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes with nothing between them never change what is inside a string and what is not.
    marks = text.translate(_BRACKETS, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    return max(accumulate(memoryview(marks).cast("b")), default=0) > limit


@lru_cache(maxsize=512)
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type)


@overload
def decode_value(raw: bytes | Raw) -> Any: ...
@overload
def decode_value(raw: bytes | Raw, type: type[T]) -> T: ...
@overload
def decode_value(raw: bytes | Raw, type: Any) -> Any: ...
def decode_value(raw: bytes | Raw, type: Any = Any) -> Any:
    """Reads one JSON value, such as the ``raw_params`` of a message, as plain JSON or as ``type``.

    Raises:
        InvalidValueError: it does not fit (code ``type``), or is no JSON (``json``); ``path`` says where.
    """
    try:
        return _decoder(type).decode(raw)
    except msgspec.ValidationError as exc:
        raise _misfit(exc) from exc
    except (msgspec.DecodeError, RecursionError) as exc:
        text = bytes(raw)
        if not has_surrogate_escape(text):
            raise InvalidValueError("json", str(exc)) from exc
    try:
        return msgspec.convert(load_lenient(text), type)
    except msgspec.ValidationError as exc:
        raise _misfit(exc) from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidValueError("json", str(exc)) from exc


def _misfit(exc: msgspec.ValidationError) -> InvalidValueError:
    detail, _, path = str(exc).partition(" - at `")
    return InvalidValueError("type", detail, path.rstrip("`") or "$")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is out of range")
    return number


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def load_lenient(text: bytes) -> Any:
    """Reads JSON text that may hold lone surrogate escapes, and is otherwise as strict as the fast decoder.

    Raises:
        ValueError: it is no JSON, or holds a number that no double can.
    """
    return json.loads(text.decode(), parse_float=_finite, parse_constant=_refuse_constant)


def encode_value(value: Any) -> bytes:
    """The JSON text of ``value``: one line, with U+2028 and U+2029 escaped (they end a line for some peers).

    Raises:
        UnencodableError: a non-finite number, a type without a JSON form, or nesting without end.
    """
    try:
        text = _encode(value)
    except UnicodeEncodeError:
        return _encode_escaped(value)
    except (TypeError, ValueError, RecursionError, NotImplementedError) as exc:
        raise UnencodableError(str(exc)) from exc
    if b"null" in text:
        _refuse_non_finite(value)
    if not text.isascii():
        text = text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return text


def _refuse_non_finite(value: Any) -> None:
    """Walks what msgspec would write, since it writes NaN and the infinities as ``null``."""
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


def _open_raw(value: Any) -> Any:
    return decode_value(value)


def _encode_escaped(value: Any) -> bytes:
    """A value with lone surrogates in its strings: every character above ASCII is written as an escape."""
    _refuse_non_finite(value)
    return dump_ascii(msgspec.to_builtins(value, enc_hook=_open_raw))


def dump_ascii(value: Any) -> bytes:
    """The text of a plain JSON value with every character above ASCII escaped; lone surrogates stay alone."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


_encode = msgspec.json.Encoder().encode
