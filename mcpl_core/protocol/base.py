"""What all params and result types share.

Owns: the struct bases, the integers that JavaScript writes as ``1.0``, ``_meta`` slots, and the reading of
one member at a time where one bad member must not fail the rest. Does not own: any method's shape, and the
decoding of whole params (``codec``).

The types follow four rules. Members have their camelCase names on the wire. Members that a type does not
know are ignored (SPEC 8). An absent member is ``UNSET``, which is falsy; ``None`` is JSON null and stands
only where null has a meaning. Members that are passed on and never judged (``origin``, ``metadata``) are
plain JSON. Constructing one checks nothing but what it says under ``Raises``; decoding one checks everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from ..errors import InvalidValueError

__all__ = (
    "EmptyParams",
    "EmptyResult",
    "Integer",
    "RequestId",
    "WireMessage",
    "WireStruct",
    "misfit",
    "read_item",
    "read_items",
    "read_plain",
    "whole_numbers",
)

T = TypeVar("T")

if TYPE_CHECKING:
    #: An integer member. Decoding also takes a float without a fraction; see ``whole_numbers``.
    Integer: TypeAlias = int
    #: A JSON-RPC id, or a token of that kind, inside params. ``1`` and ``"1"`` are different ones.
    RequestId: TypeAlias = int | str
else:
    Integer = int | float
    RequestId = int | float | str


class WireStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", repr_omit_defaults=True):
    """A JSON object inside params or a result."""


class WireMessage(WireStruct, frozen=True, kw_only=True):
    """Params, or a result.

    Attributes:
        meta: the ``_meta`` member (MCP), as received; use ``slot`` to look into it.
    """

    meta: Any = msgspec.field(name="_meta", default=UNSET)

    def slot(self, name: str) -> Any:
        """The member ``name`` of ``_meta``; ``UNSET`` when there is none, whatever ``_meta`` is."""
        return self.meta.get(name, UNSET) if isinstance(self.meta, dict) else UNSET


class EmptyParams(WireMessage, frozen=True, kw_only=True):
    """Params without members of their own; they may be left out on the wire."""


class EmptyResult(WireMessage, frozen=True, kw_only=True):
    """A result that says only that the request was served."""


def whole_numbers(value: msgspec.Struct, *names: str) -> None:
    """Makes the named ``Integer`` and ``RequestId`` members of a new struct integers.

    JavaScript has one number type, so a peer may write ``1.0`` for ``1``.

    Raises:
        InvalidValueError: a number has a fraction, or is a float beyond 2^53, no one integer (``type``).
    """
    for name in names:
        number = getattr(value, name)
        if type(number) is not float:
            continue
        if not number.is_integer() or abs(number) > 2**53:
            member = value.__struct_encode_fields__[value.__struct_fields__.index(name)]
            raise InvalidValueError("type", f"Expected `int`, got {number!r}", f"$.{member}")
        msgspec.structs.force_setattr(value, name, int(number))


def misfit(exc: msgspec.ValidationError, path: str = "$") -> InvalidValueError:
    """Our error for a value that does not fit its type.

    Args:
        exc: what msgspec raised. When a struct of ours refused itself, its own error is continued.
        path: where the value stands.
    """
    detail, _, inner = str(exc).rpartition(" - at `")
    if not detail:
        detail, inner = inner, "$"
    path += inner.rstrip("`")[1:]
    own = exc.__cause__
    if isinstance(own, InvalidValueError):
        return InvalidValueError(own.code, own.detail, path + own.path[1:])
    return InvalidValueError("type", detail, path)


def read_plain(value: Any, kind: type[T], path: str = "$") -> T:
    """Plain JSON as ``kind``.

    Raises:
        InvalidValueError: it does not fit (``type``), also for a lone surrogate where only certain texts fit.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        raise misfit(exc, path) from exc
    except ValueError as exc:
        raise InvalidValueError("type", str(exc), path) from exc


def read_item(value: Any, kind: type[T], path: str = "$") -> T | InvalidValueError:
    """One member as ``kind``, or what is wrong with it. Never raises.

    Args:
        value: plain JSON, or a ``kind`` already.
        kind: a params or result type, or another type that msgspec knows.
        path: where the member stands.
    """
    if isinstance(value, kind):
        return value
    try:
        return read_plain(value, kind, path)
    except InvalidValueError as exc:
        return exc


def read_items(values: Any, kind: type[T], path: str = "$") -> list[T | InvalidValueError]:
    """Each member of an array as ``kind``, or what is wrong with it, in order. Never raises.

    Args:
        values: an array as received; ``UNSET`` reads as an empty one, anything else as one error.
        kind: the type of a member.
        path: where the array stands.
    """
    if values is UNSET:
        return []
    if not isinstance(values, list | tuple):
        return [InvalidValueError("type", "Expected `array`", path)]
    return [read_item(value, kind, f"{path}[{index}]") for index, value in enumerate(values)]
