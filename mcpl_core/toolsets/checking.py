"""Checking what a host sends against a JSON Schema: the ``validate`` hook of ``ToolsetServer``, and its use.

Owns: what the hook receives and returns. Does not own: the checker that is used when none is given (``schemas``).

``validate=`` receives one JSON Schema, a plain JSON object: the ``inputSchema`` of a tool, or the options schema of a
toolset. It is called once for each schema, when the tool or toolset is declared, and returns a ``Checker`` for values
of it; what it raises, the declaration raises. For each call the checker first gets ``fill(value)`` with the arguments
as received (always an object) and returns them with defaults filled in, the same object or another; then
``check(value)`` with what ``fill`` returned, and the tool gets that. ``check`` returns nothing, or raises
``SchemaViolation`` or any other ``InvalidValueError``, whose ``path`` and ``detail`` the host's model reads; so may
``fill``. Whatever else they raise is reported, and the call fails. Both are called in the event loop and must not wait.
"""

from __future__ import annotations

from typing import Any

from ..errors import InvalidValueError
from ..schemas import Checker, SchemaValidator, ValidatorFactory

__all__ = ("Validate", "checked_object", "checker_of")

#: From a schema to its checker.
Validate = ValidatorFactory


def checker_of(schema: dict[str, Any], validate: Validate | None) -> Checker:
    """The checker of a schema that was declared.

    Args:
        validate: the hook; ``None``: ``SchemaValidator``.

    Raises:
        SchemaError: the schema cannot be used.
        SchemaLibraryMissingError: the extra ``toolsets`` is not installed.
    """
    return SchemaValidator(schema) if validate is None else validate(schema)


def checked_object(checker: Checker, value: dict[str, Any]) -> dict[str, Any]:
    """The object with defaults filled in, once it fits.

    Raises:
        InvalidValueError: it does not fit, or is no object any more.
    """
    filled = checker.fill(value)
    checker.check(filled)
    if not isinstance(filled, dict):
        raise InvalidValueError("type", "an object is wanted")
    return filled
