"""The bounds of a schema from elsewhere, checked before anything is compiled.

Owns: the limits, and the four counts: bytes, depth, nodes, and the references that unfolding would expand. Does not
own: where references lead (``references``), and the limits of values (the wire's).

A small schema can stand for a very large one: with ``$ref`` each level can double the next. So expansions are counted
before they are spent. A reference back into a schema that is just being expanded counts once and is not followed: a
recursive schema is as large as the values it meets, and those have bounds of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..errors import InvalidValueError
from ..manifest import canonical_bytes
from ..trees import at_place
from .errors import SchemaError, SchemaTooLargeError, SchemaViolation
from .references import References, Schema, subschemas

__all__ = ("Measure", "SchemaLimits", "check_bounds", "check_value", "count_expansions", "groups")

#: Of one value. So many come over no wire, but a value that holds itself twice has more of them on each level.
_MOST_CONTAINERS: Final = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLimits:
    """What a schema may measure.

    Attributes:
        max_bytes: bytes of its canonical form (RFC 8785).
        max_depth: levels of objects and arrays, the outermost included.
        max_nodes: JSON values, containers included.
        max_expansions: references that unfolding it would expand.
        max_filled: values that one call of ``fill`` may add.
        max_value_depth: levels of objects and arrays of a value.
        max_backtracking_text: characters of a value that is checked with patterns that may backtrack.
        max_work: schemas that apply to a value, summed up over all values in the value that is checked; and steps of
            patterns that apply to a character, over all characters (``work``).

    Raises:
        InvalidValueError: a limit below one (``limit``).
    """

    max_bytes: int = 65_536
    max_depth: int = 32
    max_nodes: int = 4_096
    max_expansions: int = 100_000
    max_filled: int = 100_000
    max_value_depth: int = 256
    max_backtracking_text: int = 65_536
    max_work: int = 200_000_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise InvalidValueError("limit", "a limit is at least one", f"$.{name}")


def check_bounds(schema: Any, limits: SchemaLimits) -> None:
    """Checks size and form of a schema; its references are counted by ``count_expansions``.

    Raises:
        SchemaTooLargeError: it is over a limit.
        SchemaError: it is neither an object nor a boolean, or holds what JSON does not have (``not_schema``).
    """
    if not isinstance(schema, dict | bool):
        raise SchemaError("not_schema", f"a schema is an object or a boolean, this is of type {type(schema).__name__}")
    _check_shape(schema, limits)
    try:
        size = len(canonical_bytes(schema))
    except InvalidValueError as exc:
        raise SchemaError("not_schema", exc.detail, exc.path) from exc
    if size > limits.max_bytes:
        raise SchemaTooLargeError("max_bytes", limits.max_bytes)


def _check_shape(schema: Schema, limits: SchemaLimits) -> None:
    # A container inside itself ends here too: it is deeper than any limit.
    nodes = 1
    level: list[tuple[Any, Any]] = [(schema, None)]
    depth = 0
    while level:
        below: list[tuple[Any, Any]] = []
        depth += 1
        for value, place in level:
            if not isinstance(value, dict | list | tuple):
                continue
            if depth > limits.max_depth:
                raise SchemaTooLargeError("max_depth", limits.max_depth, at_place(place))
            nodes += len(value)
            if nodes > limits.max_nodes:
                raise SchemaTooLargeError("max_nodes", limits.max_nodes, at_place(place))
            members = value.items() if isinstance(value, dict) else enumerate(value)
            below += [(member, (place, step)) for step, member in members]
        level = below


class Measure(NamedTuple):
    """What a value measures.

    Attributes:
        values: it and all values in it.
        depth: levels of objects and arrays.
        characters: of all texts, names of members included; 0 when they were not asked for.
    """

    values: int
    depth: int
    characters: int


def check_value(value: Any, limits: SchemaLimits, *, text: bool = False, patterns: bool = False) -> Measure:
    """Measures a value, and checks its depth, and with ``text`` how much text it has, names of members included.

    Args:
        text: its schema has patterns that may backtrack.
        patterns: its schema has patterns.

    Raises:
        SchemaViolation: it is over ``max_value_depth`` (``keyword`` is empty), or over ``max_backtracking_text``
            (``pattern``).
    """
    level = [value]
    characters = containers = depth = values = 0
    while level:
        values += len(level)
        if text or patterns:
            characters += sum(len(member) for member in level if isinstance(member, str))
        level = [member for member in level if isinstance(member, dict | list | tuple)]
        containers += len(level)
        depth += bool(level)
        if level and depth > limits.max_value_depth or containers > _MOST_CONTAINERS:
            raise SchemaViolation((), "", f"nests more than {limits.max_value_depth} levels deep")
        level = [*_members(level, text or patterns)]
    if text and characters > limits.max_backtracking_text:
        raise SchemaViolation((), "pattern", "has more text than the patterns of its schema may be run on")
    return Measure(values, depth, characters)


def _members(level: list[Any], text: bool) -> Iterator[Any]:
    for container in level:
        if isinstance(container, dict):
            yield from container.values()
            if text:
                yield from container
        else:
            yield from container


def count_expansions(references: References, limits: SchemaLimits) -> int:
    """How many references unfolding the schema expands.

    Raises:
        SchemaTooLargeError: more than ``max_expansions``.
    """
    graph = _reference_graph(references)
    group, order = groups(graph)
    costs: list[int] = []
    for number, members in enumerate(order):
        # Groups come in an order in which everything that one leads to stands before it.
        costs.append(
            sum(
                1 + (0 if group[target] == number else costs[group[target]])
                for member in members
                for target in graph[member]
            )
        )
    total = costs[group[id(references.root.schema)]]
    if total > limits.max_expansions:
        raise SchemaTooLargeError("max_expansions", limits.max_expansions)
    return total


def _reference_graph(references: References) -> dict[int, list[int]]:
    """The root and all that references lead to -> what the references in there lead to, repetitions kept."""
    graph: dict[int, list[int]] = {}
    unfinished: list[Schema] = [references.root.schema]
    while unfinished:
        start = unfinished.pop()
        if id(start) in graph:
            continue
        found: list[Schema] = []
        inside: list[Schema] = [start]
        while inside:
            schema = inside.pop()
            if isinstance(schema, dict):
                found += [target.schema for target in references.targets(schema)]
                inside += [sub for _, sub in subschemas(schema, stored=False)]
        graph[id(start)] = [id(target) for target in found]
        unfinished += found
    return graph


def groups(graph: Mapping[int, Sequence[int]]) -> tuple[dict[int, int], list[list[int]]]:
    """The groups of what leads back to itself (Tarjan's strongly connected components), without recursion.

    Returns:
        The number of each vertex's group, and the groups; each leads only to itself and to earlier ones.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    group: dict[int, int] = {}
    order: list[list[int]] = []
    stack: list[int] = []
    for root in graph:
        path = [(root, iter(graph[root]))] if root not in index else []
        while path:
            vertex, successors = path[-1]
            if vertex not in index:
                index[vertex] = low[vertex] = len(index)
                stack.append(vertex)
            for successor in successors:
                if successor not in index:
                    path.append((successor, iter(graph[successor])))
                    break
                if successor not in group:
                    low[vertex] = min(low[vertex], index[successor])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[vertex])
                if low[vertex] == index[vertex]:
                    cut = stack.index(vertex)
                    order.append(stack[cut:])
                    del stack[cut:]
                    group.update(dict.fromkeys(order[-1], len(order) - 1))
    return group, order
