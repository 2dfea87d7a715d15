"""Checking what a host sends against a JSON Schema: the shape of a checker, and of the hook that makes one.

Owns: the ``validate`` hook of ``ToolsetServer``, as types, and its use. Does not own: the checker that is used when
none is given (``schemas``).

``validate=`` receives one JSON Schema, a plain JSON object: the ``inputSchema`` of a tool, or the options schema of a
toolset. It is called once for each schema, when the tool or toolset is declared, and returns a ``Checker`` for values
of it; what it raises, the declaration raises. For each call the checker first gets ``fill(value)`` with the arguments
as received (always an object) and returns them with defaults filled in, the same object or another; then
``check(value)`` with what ``fill`` returned, and the tool gets that. ``check`` returns nothing, or raises
``InvalidValueError`` (``SchemaViolation`` is one), whose ``path`` and ``detail`` the host's model reads; whatever else
it raises is reported, and the call fails. Both are called in the event loop and must not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ..errors import InvalidValueError

__all__ = ("Checker", "Validate", "checked_object")


class Checker(Protocol):
    """Knows one schema."""

    def fill(self, value: Any, /) -> Any:
        """The value with the schema's defaults where it has none of its own. It is not changed itself."""

    def check(self, value: Any, /) -> None:
        """Returns when the value fits.

        Raises:
            InvalidValueError: it does not; ``path`` says where.
        """


#: From a schema to its checker.
Validate: TypeAlias = Callable[[dict[str, Any]], Checker]


def checked_object(checker: Checker, value: dict[str, Any]) -> dict[str, Any]:
    """The object with defaults filled in, once it fits.

    Raises:
        InvalidValueError: it does not fit.
    """
    filled = checker.fill(value)
    checker.check(filled)
    if not isinstance(filled, dict):
        raise InvalidValueError("type", "an object", "$")
    return filled
