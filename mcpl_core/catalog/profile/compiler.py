"""From a schema to something that validates: ``purra.output-schema/v1``.

Owns: the reading of a schema, once, within its budgets; everything that the profile does not have is refused here,
before any value is looked at. Does not own: the table of keywords (``keywords``) and the validation (``validator``).
This is not JSON Schema at large; other parts of the package have that, under other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ...errors import InvalidValueError
from ...trees import Place
from ..bounded import copy_bounded, freeze
from .budgets import ProfileBudgets
from .errors import SchemaProfileError, unsupported
from .keywords import DIALECT, KEYWORDS, ORDERED, TYPES
from .validator import Node, validate

__all__ = ("OUTPUT_SCHEMA_PROFILE", "CompiledSchema", "compile_schema")

OUTPUT_SCHEMA_PROFILE: Final = "purra.output-schema/v1"

_DEFAULT: Final = ProfileBudgets()


@dataclass(frozen=True, slots=True, eq=False)
class CompiledSchema:
    """A schema of the profile.

    Attributes:
        schema: as it came, ``$schema`` included; immutable all the way down.
        budgets: what it and each value may cost.
    """

    schema: Mapping[str, Any]
    budgets: ProfileBudgets
    _root: Node

    def __repr__(self) -> str:
        return f"<CompiledSchema {OUTPUT_SCHEMA_PROFILE}>"

    def validate(self, value: Any) -> dict[str, Any]:
        """A copy of ``value`` that fits. Nothing is coerced: the copy is the same JSON value.

        Raises:
            ProfileMismatchError: it does not fit, is no plain JSON, or is over a budget.
        """
        return validate(self._root, value, self.budgets)


def compile_schema(schema: Any, budgets: ProfileBudgets = _DEFAULT) -> CompiledSchema:
    """Compiles a schema whose root is ``type: object``.

    Args:
        schema: plain JSON. ``$schema`` may stand at its root, as the 2020-12 URI exactly; nothing is ever fetched.
        budgets: what may be spent. The declaration counts towards the bytes, and not towards depth and nodes.

    Raises:
        SchemaProfileError: it is outside the profile, or over a budget.
    """
    if not isinstance(schema, Mapping):
        unsupported("root", "a schema is an object", None)
    declared = "$schema" in schema
    allowed = replace(budgets.schema, nodes=budgets.schema_nodes + 2) if declared else budgets.schema
    problem: InvalidValueError | None = None
    copied: dict[str, Any] = {}
    try:
        copied = copy_bounded(schema, allowed)
    except InvalidValueError as exc:
        problem = exc
    if problem is not None:
        raise SchemaProfileError(problem.code, problem.detail)
    body = {name: value for name, value in copied.items() if name != "$schema"}
    if declared and copied["$schema"] != DIALECT:
        unsupported("dialect", "another dialect than 2020-12", None)
    if body.get("type") != "object":
        unsupported("root", "the root is not of type object", None)
    return CompiledSchema(freeze(copied), budgets, _node(body, None))


def _node(schema: Any, place: Place) -> Node:
    if not isinstance(schema, dict):
        unsupported("schema", "a schema is an object", place)
    for keyword, value in schema.items():
        check = KEYWORDS.get(keyword)
        if check is None:
            unsupported("keyword", "a keyword that the profile does not have", place)
        if not check(value):
            unsupported(keyword, "not a value of this keyword", (place, keyword))
    for least, most in ORDERED:
        if least in schema and most in schema and schema[least] > schema[most]:
            unsupported(least, f"more than {most}", (place, least))
    kinds = schema.get("type", ())
    return Node(
        types=frozenset(kind for name in ([kinds] if isinstance(kinds, str) else kinds) for kind in TYPES[name]),
        any_of=_branches(schema, "anyOf", place),
        one_of=_branches(schema, "oneOf", place),
        enum=None if "enum" not in schema else tuple(schema["enum"]),
        const=(schema["const"],) if "const" in schema else None,
        bounds={name: schema[name] for pair in ORDERED for name in pair if name in schema},
        unique=schema.get("uniqueItems", False),
        items=_node(schema["items"], (place, "items")) if "items" in schema else None,
        properties={
            name: _node(child, ((place, "properties"), name)) for name, child in schema.get("properties", {}).items()
        },
        required=tuple(schema.get("required", ())),
        closed=schema.get("additionalProperties") is False,
    )


def _branches(schema: dict[str, Any], keyword: str, place: Place) -> tuple[Node, ...] | None:
    if keyword not in schema:
        return None
    return tuple(_node(child, ((place, keyword), index)) for index, child in enumerate(schema[keyword]))
