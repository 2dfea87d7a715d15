"""A detached copy of a JSON value within a budget of depth, nodes and bytes.

Owns: the one walk that everything foreign goes through before anything else looks at it: plain JSON types only, no
container inside itself, numbers that every JSON implementation reads alike. Does not own: what the values mean
(``profile``), digests (``identity``).

A node is a value or a member name; the root is at depth 0. Bytes are those of the compact UTF-8 JSON text, with numbers
as ECMAScript writes them. An integral double becomes the integer that it is (``1.0`` is ``1``, ``-0.0`` is ``0``): JSON
has one kind of number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ..errors import InvalidValueError
from ..manifest.jcs import ecmascript_number

__all__ = ("SAFE_INTEGER", "JsonBudget", "copy_bounded", "freeze")

#: The largest integer that is an integer in every implementation.
SAFE_INTEGER: Final = 2**53 - 1

_text = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class JsonBudget:
    """What a value may cost.

    Attributes:
        depth: levels below the root.
        nodes: values and member names.
        bytes: of its compact JSON text in UTF-8.
    """

    depth: int
    nodes: int
    bytes: int


def copy_bounded(value: Any, budget: JsonBudget) -> Any:
    """A copy of ``value`` that shares no container with it, made of ``dict``, ``list``, ``str``, ``int``, ``float``,
    ``bool`` and ``None``.

    Raises:
        InvalidValueError: ``not_json`` (another type, a name that is no string, a container inside itself),
            ``surrogate`` (a lone one has no UTF-8), ``number`` (not finite, or an integer beyond 2**53 - 1),
            ``too_deep``, ``too_many_nodes``, ``too_large``. Neither path nor detail holds anything of the value.
    """
    copier = _Copier(budget)
    return copier.copy(value, 0)


def freeze(value: Any) -> Any:
    """Plain JSON that cannot be changed: mapping proxies and tuples all the way down."""
    if isinstance(value, Mapping):
        return MappingProxyType({name: freeze(member) for name, member in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


class _Copier:
    def __init__(self, budget: JsonBudget) -> None:
        self._budget = budget
        self._nodes = 0
        self._bytes = 0
        self._open: set[int] = set()

    def copy(self, value: Any, depth: int) -> Any:
        self._node(depth)
        if value is None or value is True:
            self._spend(4)
            return value
        if value is False:
            self._spend(5)
            return value
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, Mapping):
            return self._inside(value, self._object, depth)
        if isinstance(value, list | tuple):
            return self._inside(value, self._array, depth)
        raise InvalidValueError("not_json", "a type that JSON does not have")

    def _node(self, depth: int) -> None:
        self._nodes += 1
        if self._nodes > self._budget.nodes:
            raise InvalidValueError("too_many_nodes", f"more than {self._budget.nodes} nodes")
        if depth > self._budget.depth:
            raise InvalidValueError("too_deep", f"more than {self._budget.depth} levels")

    def _spend(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._budget.bytes:
            raise InvalidValueError("too_large", f"more than {self._budget.bytes} bytes")

    def _string(self, value: str) -> str:
        # Characters first: a text that is too long anyhow is not encoded.
        if len(value) > self._budget.bytes:
            raise InvalidValueError("too_large", f"more than {self._budget.bytes} bytes")
        size = -1
        plain = str(value)
        try:
            size = len(_text(plain))
        except UnicodeEncodeError:
            pass
        if size < 0:
            raise InvalidValueError("surrogate", "a lone surrogate")
        self._spend(size)
        return plain

    def _number(self, value: int | float) -> int | float:
        number: int | float = value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidValueError("number", "not finite")
            number = int(value) if value.is_integer() else float(value)
        if isinstance(number, int):
            if not -SAFE_INTEGER <= number <= SAFE_INTEGER:
                raise InvalidValueError("number", "an integer beyond 2**53 - 1")
            number = int(number)
        self._spend(len(ecmascript_number(number)))
        return number

    def _inside(self, value: Any, copy: Any, depth: int) -> Any:
        if id(value) in self._open:
            raise InvalidValueError("not_json", "a container inside itself")
        self._open.add(id(value))
        try:
            # The brackets, and a comma between members.
            self._spend(2 + max(0, len(value) - 1))
            return copy(value, depth + 1)
        finally:
            self._open.discard(id(value))

    def _object(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for name, member in value.items():
            if not isinstance(name, str):
                raise InvalidValueError("not_json", "a member name that is no string")
            self._node(depth)
            self._spend(1)
            copied[self._string(name)] = self.copy(member, depth)
        return copied

    def _array(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        return [self.copy(item, depth) for item in value]
