"""What a model is told about a value that does not fit: one sentence for each keyword of JSON Schema.

Owns: the words. Does not own: which keyword failed, and where (``explain``). No sentence repeats a value of any length,
nor a long part of a schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

__all__ = ("MOST_NAMES", "SENTENCES", "brief", "missing_members", "names", "unknown_members")

_LONGEST: Final = 60
#: Names that one sentence shows, of many.
MOST_NAMES: Final = 8
#: More bits than any number that is shown; writing out a longer one takes time.
_MOST_BITS: Final = 128

_Sentence: TypeAlias = Callable[[Any, Any], str]


def brief(value: Any) -> str:
    """A value in some eighty characters at most: scalars as JSON, long strings cut, containers by their size."""
    match value:
        case dict():
            return f"an object with {_count(len(value), 'member')}"
        case list() | tuple():
            return f"an array of {_count(len(value), 'element')}"
        case str() if len(value) > _LONGEST:
            return f"{_quote(value[:_LONGEST])}... ({len(value)} characters)"
        case int() if value.bit_length() > _MOST_BITS:
            return "a very large number"
        case _:
            return _quote(value)


def names(values: Iterable[Any], most: int = MOST_NAMES) -> str:
    """Several values, the first ones only where there are many."""
    shown = [brief(value) for value in values]
    more = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {more} more" if more > 0 else "")


def missing_members(required: list[Any], value: dict[str, Any]) -> str:
    """What ``required`` says."""
    return f"lacks {names(name for name in required if name not in value)}"


def unknown_members(unknown: list[str], known: list[str]) -> str:
    """What a refused member name says; with the names that are known, for a model to choose from.

    Args:
        unknown: those that are refused; more than ``MOST_NAMES`` of them stand for any number.
    """
    shown = names(unknown[:MOST_NAMES]) + (" and others" if len(unknown) > MOST_NAMES else "")
    return f"must not have {shown}" + (f"; known are {names(known, 20)}" if known else "")


def _types(wanted: Any, value: Any) -> str:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    return f"must be of type {' or '.join(map(str, kinds))}, not {brief(value)}"


def _dependent(wanted: dict[str, list[Any]], value: dict[str, Any]) -> str:
    lacking = {n for name, needed in wanted.items() if name in value for n in needed if n not in value}
    return f"lacks {names(sorted(lacking))}, which other members call for"


def _counted(bound: str, thing: str) -> _Sentence:
    return lambda wanted, value: f"must have {bound} {_count(wanted, thing)}, not {len(value)}"


def _compared(words: str) -> _Sentence:
    return lambda wanted, value: f"must be {words} {brief(wanted)}, not {brief(value)}"


#: Keyword -> the sentence, from the keyword's own value and the value that it refuses.
SENTENCES: Final[dict[str, _Sentence]] = {
    "type": _types,
    "enum": lambda wanted, value: f"must be one of {names(wanted, 20)}, not {brief(value)}",
    "const": _compared("exactly"),
    "minimum": _compared("at least"),
    "maximum": _compared("at most"),
    "exclusiveMinimum": _compared("more than"),
    "exclusiveMaximum": _compared("less than"),
    "multipleOf": _compared("a multiple of"),
    "minLength": _counted("at least", "character"),
    "maxLength": _counted("at most", "character"),
    "pattern": lambda wanted, value: f"must match the pattern {brief(wanted)}, unlike {brief(value)}",
    "format": lambda wanted, value: f"must have the format {brief(wanted)}, unlike {brief(value)}",
    "minItems": _counted("at least", "element"),
    "maxItems": _counted("at most", "element"),
    "uniqueItems": lambda wanted, value: "must not hold the same element twice",
    "minProperties": _counted("at least", "member"),
    "maxProperties": _counted("at most", "member"),
    "dependentRequired": _dependent,
    "contains": lambda wanted, value: "does not hold the elements that it must hold, or too many of them",
    "not": lambda wanted, value: f"must not be what it is: {brief(value)}",
    "anyOf": lambda wanted, value: f"fits none of the {len(wanted)} allowed forms: {brief(value)}",
    "unevaluatedProperties": lambda wanted, value: "has members that are not allowed",
    "unevaluatedItems": lambda wanted, value: "has elements that are not allowed",
}


def _count(number: Any, thing: str) -> str:
    return f"{brief(number)} {thing}" + ("" if number == 1 else "s")


def _quote(value: Any) -> str:
    # A lone surrogate is shown as its escape: a sentence goes to logs and terminals too.
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
