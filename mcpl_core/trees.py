"""Checks on plain JSON trees that name the place of what is wrong.

Owns: the path notation of ``InvalidValueError.path`` (``$.a["b.c"][0]``) and the checks that every reader of an
untyped value needs. Does not own: what the members mean; each reader does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from mcpl_core.errors import InvalidValueError

__all__ = (
    "Place",
    "at_index",
    "at_key",
    "at_place",
    "at_steps",
    "each_string",
    "json_object",
    "json_pointer",
    "string_list",
    "string_value",
)

#: A place from the inside out: the container's place and the step from there; ``None`` is the root. A walk keeps one
#: for each part at no cost, and only the place of what it finds is spelled out.
Place: TypeAlias = tuple[Any, str | int] | None

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def at_key(path: str, key: Any) -> str:
    """The path of member ``key``: ``$.a``, or ``$["a.b"]`` when the key is not a plain word.

    A key that is no string, as no JSON object has, is shown by its type.
    """
    return path + _key_step(key)


def at_index(path: str, index: int) -> str:
    """The path of element ``index``: ``$[0]``."""
    return f"{path}[{index}]"


def at_steps(steps: Iterable[str | int]) -> str:
    """The path of a place: member names and indices from the root on. At any depth it is made in one go."""
    return "$" + "".join(at_index("", step) if isinstance(step, int) else _key_step(step) for step in steps)


def at_place(place: Place) -> str:
    """The path of a place."""
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return at_steps(reversed(steps))


def json_pointer(steps: Iterable[str | int]) -> str:
    """The same place as a JSON pointer (RFC 6901), for those who use that notation; empty for the root."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def _key_step(key: Any) -> str:
    if not isinstance(key, str):
        return f"[{type(key).__name__}]"
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key)}]"


def json_object(value: Any, path: str = "$") -> dict[str, Any]:
    """``value`` as a JSON object.

    Raises:
        InvalidValueError: it is something else (``not_object``), or has a member name that is no string
            (``not_json``).
    """
    if not isinstance(value, dict):
        raise InvalidValueError("not_object", f"expected an object, got {_kind(value)}", path)
    for name in value:
        if not isinstance(name, str):
            raise InvalidValueError("not_json", f"a member name that is {_kind(name)}", path)
    return value


def string_value(value: Any, path: str = "$") -> str:
    """``value`` as a string.

    Raises:
        InvalidValueError: it is something else (``not_string``).
    """
    if not isinstance(value, str):
        raise InvalidValueError("not_string", f"expected a string, got {_kind(value)}", path)
    return value


def string_list(value: Any, path: str = "$") -> tuple[str, ...]:
    """``value`` as an array of strings, in order and without removing repetitions.

    Raises:
        InvalidValueError: it is no array (``not_array``), or an element is no string (``not_string``).
    """
    if not isinstance(value, list | tuple):
        raise InvalidValueError("not_array", f"expected an array of strings, got {_kind(value)}", path)
    for index, element in enumerate(value):
        if not isinstance(element, str):
            string_value(element, at_index(path, index))
    return tuple(value)


def each_string(value: Any, path: str = "$") -> tuple[str, ...]:
    """The strings of an argument that may be any iterable of them: a set, a generator, a dict's keys.

    A bare string is refused: it is an iterable of letters, and the one wrong argument that would pass unnoticed.

    Raises:
        InvalidValueError: as for ``string_list``.
    """
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray):
        value = tuple(value)
    return string_list(value, path)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "a boolean", str: "a string", dict: "an object", list: "an array"}.get(
        type(value), "a number" if isinstance(value, int | float) else type(value).__name__
    )
