"""Strict reading and writing of the records: every member is named in a table, and none is missing or unknown.

Owns: the checks of single members and the walk over a table. Does not own: which members a record has (``records``,
``claims``, ``runs``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

from ..catalog.bounded import SAFE_INTEGER, copy_bounded
from ..catalog.identity import IDENTITY_BUDGET
from ..errors import InvalidValueError
from ..trees import at_key, json_object, string_value

__all__ = (
    "MAX_TEXT",
    "Field",
    "JsonRecord",
    "check_fields",
    "frozen_object",
    "identity",
    "integer",
    "literal",
    "optional",
    "plain_value",
    "read_fields",
    "seconds",
    "storable",
    "write_fields",
)

#: Characters of an identifying text.
MAX_TEXT: Final = 1024


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a record.

    Attributes:
        name: the attribute.
        wire: the member's name in JSON.
        read: checks a plain value and returns what the attribute holds; gets the value and its path.
        write: makes the plain value of an attribute.
    """

    name: str
    wire: str
    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any] = field(default=lambda value: plain_value(value))


def plain_value(value: Any) -> Any:
    """A record as its plain JSON object; anything else as it is."""
    to_json = getattr(value, "to_json", None)
    return value if to_json is None else to_json()


def read_fields(value: Any, fields: Sequence[Field], path: str = "$") -> dict[str, Any]:
    """The attributes of a record.

    Raises:
        InvalidValueError: ``unknown_member``, ``missing_member``, or what is wrong with a member.
    """
    members = json_object(value, path)
    known = {each.wire for each in fields}
    for wire in members:
        if wire not in known:
            raise InvalidValueError("unknown_member", "a member that this record does not have", at_key(path, wire))
    for wire in sorted(known - members.keys()):
        raise InvalidValueError("missing_member", f"{wire} is missing", path)
    return {each.name: each.read(members[each.wire], at_key(path, each.wire)) for each in fields}


def write_fields(record: Any, fields: Sequence[Field]) -> dict[str, Any]:
    """The plain JSON object of a record."""
    return {each.wire: each.write(getattr(record, each.name)) for each in fields}


class JsonRecord:
    """A frozen dataclass whose members are those of ``_members``, which a subclass sets."""

    __slots__ = ()
    _members: ClassVar[Sequence[Field]]

    def to_json(self) -> dict[str, Any]:
        """The plain JSON object."""
        return write_fields(self, self._members)

    @classmethod
    def from_json(cls, value: Any, path: str = "$") -> Self:
        """Reads one.

        Raises:
            InvalidValueError: it is none, or has a member too many or too few.
        """
        return cls(**read_fields(value, cls._members, path))


def check_fields(record: Any, fields: Sequence[Field]) -> None:
    """Checks a record that was made by a constructor: each attribute is what reading its member would give.

    Raises:
        InvalidValueError: one is not.
    """
    for each in fields:
        each.read(each.write(getattr(record, each.name)), at_key("$", each.wire))


def identity(value: Any, path: str = "$") -> str:
    """Text that names something: 1 to 1,024 characters without white space around them.

    Raises:
        InvalidValueError: ``not_string`` or ``identity``; so are NUL and lone surrogates, which no store keeps.
    """
    text = string_value(value, path)
    if not 0 < len(text) <= MAX_TEXT or text != text.strip():
        raise InvalidValueError("identity", f"1 to {MAX_TEXT} characters without white space around them", path)
    if not storable(text):
        raise InvalidValueError("identity", "a character that cannot be kept", path)
    return text


def storable(text: str) -> bool:
    """Whether every database keeps the text: no NUL, no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def seconds(value: Any, path: str = "$") -> float:
    """A time to wait, in seconds; it may be 0.

    Raises:
        InvalidValueError: ``seconds``: no number, below 0, or over a day.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 86_400:
        raise InvalidValueError("seconds", "seconds, at most a day", path)
    return float(value)


def integer(minimum: int = 0) -> Callable[[Any, str], int]:
    """Reads an integer from ``minimum`` to 2**53 - 1; no booleans."""

    def read(value: Any, path: str) -> int:
        if type(value) is not int or not minimum <= value <= SAFE_INTEGER:
            raise InvalidValueError("integer", f"an integer of at least {minimum}", path)
        return value

    return read


def literal(*allowed: Any) -> Callable[[Any, str], Any]:
    """Reads one of a few values."""

    def read(value: Any, path: str) -> Any:
        if not any(type(value) is type(each) and value == each for each in allowed):
            raise InvalidValueError("literal", f"one of {', '.join(map(str, allowed))}", path)
        return value

    return read


def optional(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Reads ``null`` as ``None``, and everything else with ``read``."""
    return lambda value, path: None if value is None else read(value, path)


def frozen_object(value: Any, path: str = "$") -> Mapping[str, Any]:
    """A JSON object that nobody can change any more, detached from what it was made of.

    Raises:
        InvalidValueError: no object (``not_object``), or a value without an identity digest.
    """
    if not isinstance(value, Mapping):
        raise InvalidValueError("not_object", "expected an object", path)
    frozen: Mapping[str, Any] = _frozen(copy_bounded(value, IDENTITY_BUDGET))
    return frozen


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({name: _frozen(member) for name, member in value.items()})
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
