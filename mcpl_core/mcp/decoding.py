"""Bounds of decoding, for values that a server chose.

Owns: how deep and how many, and how long a JSON text may be before it is read. Does not own: bounds of what is carried
(the connection's), and which value is decoded (``results``).
"""

from __future__ import annotations

from typing import Any, Final, Literal

from ..errors import InvalidValueError
from ..wire.values import decode_value, depth_exceeds

__all__ = ("MOST_DEPTH", "MOST_TEXT", "MOST_VALUES", "BoundFault", "broken_bound", "read_json_text", "utf16_length")

#: Containers inside each other.
MOST_DEPTH: Final = 64
#: Values of every kind, containers included; the names of members are none.
MOST_VALUES: Final = 1_000_000
#: UTF-16 code units of a JSON text, as other implementations count; a character beyond U+FFFF has two.
MOST_TEXT: Final = 16_000_000

BoundFault = Literal["too-deep", "too-many-values", "text-too-long", "text-not-json"]


def broken_bound(value: Any) -> BoundFault | None:
    """Which bound a value of plain JSON breaks; ``None`` when none. A value that holds itself is too deep."""
    level: list[Any] = [value]
    depth = seen = 0
    # Level by level: the memory is that of one level, and nothing recurses.
    while level:
        seen += len(level)
        below: list[Any] = []
        containers = 0
        for each in level:
            if isinstance(each, dict):
                containers += 1
                below += each.values()
            elif isinstance(each, list | tuple):
                containers += 1
                below += each
            if seen + len(below) > MOST_VALUES:
                return "too-many-values"
        depth += containers > 0
        if depth > MOST_DEPTH:
            return "too-deep"
        level = below
    return None


def utf16_length(text: str) -> int:
    """UTF-16 code units of a text."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def read_json_text(text: str) -> tuple[Any, BoundFault | None]:
    """A JSON text as a value within all bounds, or which of them it breaks. Surrounding white space counts as JSON, any
    other prose does not."""
    if len(text) > MOST_TEXT or utf16_length(text) > MOST_TEXT:
        return None, "text-too-long"
    try:
        raw = text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no JSON text holds as a character
        return None, "text-not-json"
    if depth_exceeds(raw, MOST_DEPTH):
        return None, "too-deep"
    try:
        value = decode_value(raw)
    except InvalidValueError:
        return None, "text-not-json"
    return value, broken_bound(value)
