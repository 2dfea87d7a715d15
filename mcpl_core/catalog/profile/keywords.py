"""The vocabulary of the profile: which keywords there are, and what each may be set to.

Owns: the table. Does not own: where schemas stand inside schemas (``compiler``), and what keywords mean for a value
(``validator``). What is not in the table is refused, annotations included: a keyword that is passed over is a promise
that nobody keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ("DIALECT", "KEYWORDS", "ORDERED", "TYPES")

#: The only dialect that a root schema may declare.
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

#: The names of types, and the Python types of plain JSON behind them. An integral double is an integer by then.
TYPES: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType(
    {
        "array": (list,),
        "boolean": (bool,),
        "integer": (int,),
        "null": (type(None),),
        "number": (int, float),
        "object": (dict,),
        "string": (str,),
    }
)

#: Pairs of which the first must not be more than the second.
ORDERED: Final = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum"))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _filled(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _names(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(name, str) and name for name in value)
    return texts and len(set(value)) == len(value)


def _types(value: Any) -> bool:
    return (
        _text(value) and value in TYPES or (_filled(value) and _names(value) and all(name in TYPES for name in value))
    )


def _anything(value: Any) -> bool:
    return True


def _object(value: Any) -> bool:
    return isinstance(value, dict)


#: Keyword -> whether this may be its value. Schemas below are checked where they stand. ``null`` is a value of
#: ``const`` alone.
KEYWORDS: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "additionalProperties": _flag,
        "anyOf": _filled,
        "const": _anything,
        "description": _text,
        "enum": _filled,
        "items": _object,
        "maxItems": _count,
        "maxLength": _count,
        "maximum": _number,
        "minItems": _count,
        "minLength": _count,
        "minimum": _number,
        "oneOf": _filled,
        "properties": _object,
        "required": _names,
        "title": _text,
        "type": _types,
        "uniqueItems": _flag,
    }
)
