"""Defaults: what a value leaves out and its schema names a default for.

Owns: finding defaults through ``properties``, ``items``, ``prefixItems``, ``allOf`` and ``$ref`` within the schema, and
filling them in. Does not own: whether the filled value is valid (``validator``).

Defaults inside ``anyOf``, ``oneOf`` and ``if`` are never filled in: which branch holds is known only after checking,
and a default must not decide it. A ``default`` fills a missing member of an object, and a missing element that
directly follows the last one of an array; it does not replace a ``null``, and nothing is made only to hold a default
deeper down. A default that was filled in is filled itself. Where several stand for one member, the nearest holds: its
own, then the one its ``$ref`` leads to, then those of ``allOf`` in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from ..manifest import copy_tree
from ..trees import at_steps
from .bounds import SchemaLimits
from .errors import SchemaError, SchemaViolation
from .references import DRAFT_2020, References

__all__ = ("Defaults",)

#: How much longer than a check by the library it takes to look at one value for one schema here.
_STEP: Final = 500

_Object: TypeAlias = dict[str, Any]


class Defaults:
    """The defaults of one schema.

    Args:
        references: the schema, and where its references lead.
        limits: ``max_filled`` bounds what one call adds, ``max_value_depth`` how deep it goes.

    Attributes:
        holders: the schemas whose ``default`` may be filled in.

    Raises:
        SchemaError: a default that would be filled into itself for ever, or defaults that grow beyond ``max_filled``
            (``default``).
    """

    def __init__(self, references: References, limits: SchemaLimits) -> None:
        self._references = references
        self._tuples = "prefixItems" if references.dialect == DRAFT_2020 else "items"
        self._limits = limits
        self._known_parts: dict[int, tuple[_Object, ...]] = {}
        reached = self._reach()
        self.holders = tuple({id(holder): holder for holder in self._insertable(reached)}.values())
        self._useful = _leading_to(reached, self.holders)
        self._rehearse(schema for schema, _ in reached.values())

    def fill(self, value: Any) -> Any:
        """``value`` with its defaults. What changes is new, the rest is shared; ``value`` itself is never changed.

        Raises:
            SchemaViolation: more would be filled in than ``max_filled``, or ``value`` nests too deeply (``keyword`` is
                ``"default"``).
        """
        return self.fill_part(self._references.root.schema, value)

    def fill_part(self, schema: Any, value: Any) -> Any:
        """As ``fill``, for a value that stands where ``schema``, one of the document's schemas, applies."""
        try:
            return _Filling(self, self._limits).fill(schema, value, 0)
        except _Unfillable as exc:
            raise SchemaViolation((), "default", exc.detail) from None

    def parts(self, schema: _Object) -> tuple[_Object, ...]:
        """The schemas that apply wherever ``schema`` does, the nearest first."""
        known = self._known_parts.get(id(schema))
        if known is None:
            found: dict[int, _Object] = {}
            unfinished: list[Any] = [schema]
            while unfinished:
                part = unfinished.pop()
                if isinstance(part, dict) and id(part) not in found:
                    found[id(part)] = part
                    target = self._references.target(part)
                    beside = [] if self._silenced(part) else _list(part, "allOf")
                    unfinished += [*reversed(beside), *([target.schema] if target else [])]
            known = self._known_parts[id(schema)] = tuple(
                part for part in found.values() if part is schema or not self._silenced(part)
            )
        return known

    def holder(self, schema: Any) -> _Object | None:
        """The schema that has the default of a value that stands where ``schema`` applies."""
        if not isinstance(schema, dict):
            return None
        return next((part for part in self.parts(schema) if "default" in part and not self._silenced(part)), None)

    def useful(self, schema: Any) -> bool:
        """Whether filling a value that stands where ``schema`` applies can add anything."""
        return id(schema) in self._useful

    def place(self, schema: _Object) -> str:
        """Where in the document the default of ``schema`` stands, as ``$.a.default``."""
        return at_steps((*self._references.place(schema).steps, "default"))

    def prefix(self, schema: _Object) -> list[Any]:
        """The schemas of the first elements."""
        return [] if self._silenced(schema) else _list(schema, self._tuples)

    def members(self, schema: _Object, value: Any) -> Iterator[tuple[Any, Any]]:
        """The steps to members and elements that ``value`` has, each with a schema that applies to it and is useful."""
        if isinstance(value, dict):
            yield from ((name, sub) for name, sub in self._properties(schema) if name in value and self.useful(sub))
            return
        prefix = self.prefix(schema)
        yield from ((index, sub) for index, sub in enumerate(prefix[: len(value)]) if self.useful(sub))
        rest = schema.get("items")
        if isinstance(rest, dict) and self.useful(rest) and not self._silenced(schema):
            yield from ((index, rest) for index in range(len(prefix), len(value)))

    def missing(self, schema: _Object, value: Any) -> Iterator[tuple[Any, Any]]:
        """The steps to members that ``value`` lacks, or to the element after its last, each with its schema."""
        if isinstance(value, dict):
            yield from ((name, sub) for name, sub in self._properties(schema) if name not in value)
        else:
            yield from ((len(value), sub) for sub in self.prefix(schema)[len(value) :][:1])

    def _silenced(self, schema: _Object) -> bool:
        """Only the reference of ``schema`` counts."""
        return self._references.lonely and "$ref" in schema

    def _properties(self, schema: _Object) -> list[tuple[str, Any]]:
        properties = schema.get("properties")
        return [*properties.items()] if isinstance(properties, dict) and not self._silenced(schema) else []

    def _reach(self) -> dict[int, tuple[_Object, list[_Object]]]:
        """All that filling may come to, by identity, and what each leads to directly."""
        reached: dict[int, tuple[_Object, list[_Object]]] = {}
        unfinished: list[Any] = [self._references.root.schema]
        while unfinished:
            schema = unfinished.pop()
            if not isinstance(schema, dict) or id(schema) in reached:
                continue
            target = self._references.target(schema)
            below: list[Any] = [target.schema] if target else []
            if not self._silenced(schema):
                below += [sub for _, sub in self._properties(schema)]
                below += [*_list(schema, "allOf"), *self.prefix(schema), schema.get("items")]
            reached[id(schema)] = (schema, [sub for sub in below if isinstance(sub, dict)])
            unfinished += below
        return reached

    def _insertable(self, reached: dict[int, tuple[_Object, list[_Object]]]) -> Iterator[_Object]:
        for schema, _ in reached.values():
            subs = [*(sub for _, sub in self._properties(schema)), *self.prefix(schema)]
            yield from (holder for sub in subs if (holder := self.holder(sub)) is not None)

    def _rehearse(self, schemas: Iterator[_Object]) -> None:
        """Fills empty values, so that defaults without an end are found before the first value comes."""
        filling = _Filling(self, self._limits)
        for schema in schemas:
            empties: tuple[Any, ...] = ({}, [])
            for empty in empties:
                try:
                    filling.fill(schema, empty, 0)
                except _Unfillable as exc:
                    raise SchemaError("default", exc.detail, self.place(exc.holder or schema)) from None


class _Unfillable(Exception):
    def __init__(self, detail: str, holder: _Object | None = None) -> None:
        self.detail = detail
        self.holder = holder


class _Filling:
    """One run over one value."""

    def __init__(self, defaults: Defaults, limits: SchemaLimits) -> None:
        self._defaults = defaults
        self._budget = limits.max_filled
        self._steps = limits.max_work // _STEP
        self._deepest = limits.max_value_depth
        #: The holders of the defaults that are being filled right now.
        self._open: set[int] = set()

    def fill(self, schema: Any, value: Any, depth: int) -> Any:
        if not isinstance(value, dict | list | tuple) or not self._defaults.useful(schema):
            return value
        if depth > self._deepest:
            raise _Unfillable("it nests too deeply for defaults to be filled in")
        parts = self._defaults.parts(schema)
        filled, holders = self._complete(parts, value)
        for part in parts:
            for step, sub in self._defaults.members(part, filled):
                self._steps -= 1
                if self._steps < 0:
                    raise _Unfillable("it is too large for what its defaults would look at")
                opened = holders.get(step)
                self._open.add(opened) if opened else None
                member = self.fill(sub, filled[step], depth + 1)
                self._open.discard(opened) if opened else None
                if member is not filled[step]:
                    filled = _own(filled, value)
                    filled[step] = member
        return filled

    def _complete(self, parts: tuple[_Object, ...], value: Any) -> tuple[Any, dict[Any, int]]:
        """``value`` with what is missing at its own level, and the holders of what was added."""
        filled = value
        holders: dict[Any, int] = {}
        before = -1
        while len(filled) != before:
            before = len(filled)
            for part in parts:
                for step, sub in [*self._defaults.missing(part, filled)]:
                    if (holder := self._defaults.holder(sub)) is not None:
                        filled = _own(filled, value)
                        default = self._take(holder)
                        filled.append(default) if isinstance(filled, list) else filled.__setitem__(step, default)
                        holders[step] = id(holder)
        return filled, holders

    def _take(self, holder: _Object) -> Any:
        if id(holder) in self._open:
            raise _Unfillable("the default holds itself and never ends", holder)
        self._budget -= _size(holder["default"])
        if self._budget < 0:
            raise _Unfillable("its defaults grow too large", holder)
        return copy_tree(holder["default"])


def _own(filled: Any, given: Any) -> Any:
    """A container that may be changed."""
    if filled is not given:
        return filled
    return dict(given) if isinstance(given, dict) else list(given)


def _list(schema: _Object, keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _size(value: Any) -> int:
    size = 0
    unfinished = [value]
    while unfinished:
        value = unfinished.pop()
        size += 1
        if isinstance(value, dict | list):
            unfinished += value.values() if isinstance(value, dict) else value
    return size


def _leading_to(reached: dict[int, tuple[_Object, list[_Object]]], holders: tuple[_Object, ...]) -> set[int]:
    """All from which a default is reached, the holders themselves included."""
    above: dict[int, list[int]] = {}
    for number, (_, below) in reached.items():
        for sub in below:
            above.setdefault(id(sub), []).append(number)
    found = {id(holder) for holder in holders}
    unfinished = list(found)
    while unfinished:
        fresh = [number for number in above.get(unfinished.pop(), ()) if number not in found]
        found.update(fresh)
        unfinished += fresh
    return found
