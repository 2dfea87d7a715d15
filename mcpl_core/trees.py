"""Checks on plain JSON trees that name the place of what is wrong.

Owns: the path notation of ``InvalidValueError.path`` (``$.a["b.c"][0]``) and the three checks that every
reader of an untyped tree needs. Does not own: what the members mean; each reader does.
"""

from __future__ import annotations

import json
import re
from typing import Any

from mcpl_core.errors import InvalidValueError

__all__ = ("at_index", "at_key", "json_object", "string_list", "string_value")

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def at_key(path: str, key: str) -> str:
    """The path of member ``key``: ``$.a``, or ``$["a.b"]`` when the key is not a plain word."""
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{json.dumps(key)}]"


def at_index(path: str, index: int) -> str:
    """The path of element ``index``: ``$[0]``."""
    return f"{path}[{index}]"


def json_object(value: Any, path: str = "$") -> dict[str, Any]:
    """``value`` as a JSON object.

    Raises:
        InvalidValueError: it is something else (``not_object``).
    """
    if not isinstance(value, dict):
        raise InvalidValueError("not_object", f"expected an object, got {_kind(value)}", path)
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
    return tuple(string_value(element, at_index(path, index)) for index, element in enumerate(value))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "a boolean", str: "a string", dict: "an object", list: "an array"}.get(
        type(value), "a number" if isinstance(value, int | float) else type(value).__name__
    )
