"""RFC 8785 canonical JSON over plain trees (SPEC 17.2).

Owns: member order by UTF-16 code units, ECMAScript numbers and string escapes, and the copy of a plain tree.
Does not own: what a manifest leaves out or sorts before it is hashed (``digest``).

A plain tree is made of ``dict`` with string keys, ``list`` (or ``tuple``), ``str``, ``bool``, ``int``,
``float`` and ``None``. Two writers give the same text. The fast one is msgspec's, with sorted members; it is
used only where its text is known to be RFC 8785: with numbers that it writes alike, or that are spelled for it,
and without a member name whose place differs between UTF-8 and UTF-16 order. The exact one takes everything else,
to any depth.

Three readings beyond RFC 8785, so that no JSON value is refused: an integer beyond 2**53 is the double that it
is in ECMAScript, a lone surrogate is written as a lowercase escape, two surrogates that form a pair are the
character they form.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from mcpl_core.errors import InvalidValueError
from mcpl_core.trees import at_steps

__all__ = ("canonical_bytes", "canonical_json", "copy_tree", "ecmascript_number")

#: Up to here every integer is a double, and is written the same way by everybody.
_EXACT_INTEGER = 2**53

#: Deeper trees are written by the exact writer, which does not recurse.
_FAST_DEPTH = 64

#: A level of so many containers may be so wide only because one of them is there many times, perhaps in itself.
_WIDE = 1000

#: Types whose values both writers write alike.
_SPELLED = frozenset({str, bool, type(None)})

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_quote = json.JSONEncoder(ensure_ascii=False).encode
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def canonical_json(value: Any) -> str:
    """The RFC 8785 text of a plain JSON tree.

    Raises:
        InvalidValueError: a number that JSON cannot carry (``non_finite_number``; an integer beyond the range
            of doubles too), or something that is no JSON value (``not_json``: another type, a member name that
            is no string, a container inside itself). ``path`` says where.
    """
    return canonical_bytes(value).decode()


def canonical_bytes(value: Any) -> bytes:
    """The UTF-8 bytes of ``canonical_json``.

    Raises:
        InvalidValueError: as for ``canonical_json``.
    """
    names, alike = _scan(value)
    # From U+D800 up the order of UTF-16 is another than that of UTF-8, which msgspec sorts by.
    if names is not None and (names.isascii() or max(names) < "\ud800"):
        try:
            return _encode_sorted(value if alike else _respelled(value))
        except (UnicodeEncodeError, InvalidValueError):
            pass  # a lone surrogate; a number that is refused, whose place the exact writer knows
    return _exact(value).encode()


def ecmascript_number(value: int | float) -> str:
    """The text that ECMAScript's ``Number::toString`` gives a number, and with it RFC 8785 (3.2.2.3).

    Raises:
        InvalidValueError: the number is not finite or beyond the range of doubles (``non_finite_number``), or it is
            no number (``not_json``).
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValueError("not_json", f"no number, but of type {type(value).__name__}")
    if isinstance(value, int) and -_EXACT_INTEGER <= value <= _EXACT_INTEGER:
        return str(int(value))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidValueError("non_finite_number", "JSON has no such number")
    if number == 0:
        return "0"
    return _shortest(number)


def _shortest(number: float) -> str:
    """Python's ``repr`` has the digits that ECMAScript asks for; only the place of the point differs."""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The value is 0.DIGITS times ten to the power of ``point``.
    point = int(exponent or 0) + len(digits) - len(fraction)
    digits = digits.rstrip("0")
    sign = "-" if number < 0 else ""
    if len(digits) <= point <= 21:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"


def copy_tree(value: Any) -> Any:
    """A copy of a plain tree that shares no container with it, to any depth. Tuples become lists.

    Raises:
        InvalidValueError: a container is inside itself (``not_json``).
    """
    holder: list[Any] = [value]
    # A container of the copy whose members are still those of the original, and which of the original's it is; or
    # None, when all below that one is copied.
    unfinished: list[tuple[Any, int]] = [(holder, 0)]
    open_now: set[int] = set()
    while unfinished:
        container, original = unfinished.pop()
        if container is None:
            open_now.discard(original)
            continue
        if original in open_now:
            _exact(value)  # refuses it, and says where
        open_now.add(original)
        unfinished.append((None, original))
        places: Iterable[Any] = container if isinstance(container, dict) else range(len(container))
        for place in places:
            member = container[place]
            if isinstance(member, dict | list | tuple):
                container[place] = dict(member) if isinstance(member, dict) else list(member)
                unfinished.append((container[place], id(member)))
    return holder[0]


def _respelled(value: Any) -> Any:
    """The tree, of no more than ``_FAST_DEPTH`` levels, with its numbers as the text that ECMAScript gives them."""
    kind = type(value)
    if kind is dict:
        return {name: member if type(member) in _SPELLED else _respelled(member) for name, member in value.items()}
    if kind is list or kind is tuple:
        return [member if type(member) in _SPELLED else _respelled(member) for member in value]
    if kind is float or (kind is int and not -_EXACT_INTEGER <= value <= _EXACT_INTEGER):
        return msgspec.Raw(ecmascript_number(value))
    return value


def _scan(root: Any) -> tuple[str | None, bool]:
    """What decides about the fast writer.

    Level by level rather than recursively: it is the hot path, and the number of levels is the depth.

    Returns:
        All member names as one text, or ``None`` when only the exact writer will do; and whether msgspec writes
        every number as ECMAScript does.
    """
    names: list[str] = []
    alike = True
    level = [root]
    for _ in range(_FAST_DEPTH):
        below: list[Any] = []
        for node in level:
            kind = type(node)
            if kind is dict:
                names += node
                node = node.values()
            elif kind is not list and kind is not tuple:
                return None, False
            if not _numbers_alike(node, below):
                alike = False
        if not below:
            return _joined(names), alike
        if len(below) > _WIDE and len(set(map(id, below))) < len(below):
            return None, False
        level = below
    return None, False


def _numbers_alike(values: Iterable[Any], below: list[Any]) -> bool:
    """Whether msgspec writes the numbers among ``values`` as ECMAScript does; moves what is left to ``below``."""
    alike = True
    for value in values:
        kind = type(value)
        if kind is str or kind is bool or value is None:
            continue
        if kind is int:
            if not -_EXACT_INTEGER <= value <= _EXACT_INTEGER:
                alike = False
        elif kind is float:
            # Both write these with a point and without an exponent.
            if value.is_integer() or not 1e-4 <= abs(value) < 1e15:
                alike = False
        else:
            below.append(value)
    return alike


def _joined(names: list[str]) -> str | None:
    try:
        return "".join(names)
    except TypeError:  # a name that is no string
        return None


@dataclass(slots=True)
class _Frame:
    """A container being written: what is left of it, the text that ends it, and where the writer is in it."""

    parts: Iterator[tuple[str, str | int, Any]]
    end: str
    identity: int
    place: str | int = 0


def _exact(root: Any) -> str:
    out: list[str] = []
    frames = [_Frame(iter([("", 0, root)]), "", 0)]
    open_now: set[int] = set()
    while frames:
        frame = frames[-1]
        for lead, place, value in frame.parts:
            frame.place = place
            out.append(lead)
            if isinstance(value, dict | list | tuple):
                if id(value) in open_now:
                    raise InvalidValueError("not_json", "a container inside itself", _path(frames))
                open_now.add(id(value))
                out.append("{" if isinstance(value, dict) else "[")
                frames.append(_open(value, frames))
                break
            out.append(_scalar(value, frames))
        else:
            out.append(frame.end)
            open_now.discard(frame.identity)
            frames.pop()
    return "".join(out)


def _open(value: dict[Any, Any] | list[Any] | tuple[Any, ...], frames: list[_Frame]) -> _Frame:
    if not isinstance(value, dict):
        elements = (("," if index else "", index, item) for index, item in enumerate(value))
        return _Frame(elements, "]", id(value))
    for name in value:
        if not isinstance(name, str):
            raise InvalidValueError("not_json", f"a member name of type {type(name).__name__}", _path(frames))
    return _Frame(_members(value), "}", id(value))


def _members(value: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The members in UTF-16 order. Names that are one name once their surrogates pair up: the last one."""
    named = {_paired(name): (name, item) for name, item in value.items()}
    comma = ""
    for paired in sorted(named, key=_utf16):
        name, item = named[paired]
        yield f"{comma}{_string(paired)}:", name, item
        comma = ","


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _paired(text: str) -> str:
    """The text with each pair of surrogates joined into the character that it is."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _utf16(text).decode("utf-16-be", "surrogatepass")


def _string(text: str) -> str:
    if text.isascii():
        return _quote(text)
    return _SURROGATE.sub(_escape, _quote(_paired(text)))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _scalar(value: Any, frames: list[_Frame]) -> str:
    if isinstance(value, str):
        return _string(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, int | float):
        raise InvalidValueError("not_json", f"a value of type {type(value).__name__}", _path(frames))
    try:
        return ecmascript_number(value)
    except InvalidValueError as exc:
        raise InvalidValueError(exc.code, exc.detail, _path(frames)) from None


def _path(frames: list[_Frame]) -> str:
    return at_steps(frame.place for frame in frames[1:])
