"""How much work a check is at most, worked out before it is done.

Owns: how many schemas apply to one value at most, wherever it stands in a value of some depth. Pure. Does not own: the
limits, and counting values (``bounds``).

The unit is one schema at one value; for patterns, one of their steps at one character. Where a schema does not lead
back to itself, depth does not matter. Where it does, what applies may multiply with each level of the value. The
library remembers verdicts of what recurs, but only from where a schema came twice on one way down; so two bounds are
found and the lower one holds: level by level, and along all ways on which no schema comes twice, times the number of
those ways, for the second round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from .bounds import groups
from .references import Place, References

__all__ = ("BOUNDLESS", "Weigh", "Width", "text_weight")

#: More than any limit.
BOUNDLESS: Final = 1 << 60
#: Terms of all the sums of one schema. No schema that means something comes near.
_MOST_TERMS: Final = 200_000
#: Ways down that are followed, and how far.
_MOST_WAYS: Final = 5_000
_LONGEST_WAY: Final = 100
#: Members of a keyword's value that take as long as a schema.
_MEMBERS: Final = 4

_BESIDE: Final = ("not", "if", "then", "else")
_BESIDE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_BESIDE_MAPS: Final = ("dependentSchemas", "dependencies")
_UNEVALUATED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_FEWEST_BRANCHES: Final = 3
#: Beside a reference these change nothing.
_SILENT: Final = frozenset(
    {"$ref", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
#: What takes as long as so many schemas.
_SLOW: Final = {
    "pattern": 4,
    "uniqueItems": 8,
    "multipleOf": 150,
    "contains": 2,
    "unevaluatedProperties": 4,
    "format": 4,
}
#: How long a name takes with one pattern.
_NAME: Final = 2
#: Stands for schemas that are no work themselves.
_ANY: Final[dict[str, Any]] = {}

_REPEATED: Final = re.compile(r"(\)?)\{(\d{1,6})(?:,(\d{0,6}))?\}")
#: The steps of a pattern that count for a character. Of those that have more, few are worse.
_MOST_STEPS: Final = 500

#: What one schema costs beside those in it.
Weigh: TypeAlias = Callable[[dict[str, Any]], int]
#: Schemas by identity -> how often each applies to the same value.
_Bag: TypeAlias = dict[int, int]


class Width:
    """What applies to one value.

    Args:
        references: the schema.
        weigh: what one schema costs beside those in it.
    """

    def __init__(self, references: References, weigh: Weigh | None = None) -> None:
        self._root = id(references.root.schema)
        try:
            self._plan = _plan(references, weigh or _weight)
        except _OverrunError:
            self._plan = _Plan({self._root: BOUNDLESS}, {self._root: []})
        self._most = _along_ways(self._plan, self._root)
        self._levels = [self._plan.here]
        self._settled = False

    def at(self, depth: int) -> int:
        """How much work one value inside of a value of this depth is at most."""
        # A choice and what is chosen stand at the same value.
        depth = 2 * depth + 1
        while not self._settled and len(self._levels) <= depth and self._levels[-1][self._root] < self._most:
            last = self._levels[-1]
            level = {entry: self._plan.widest(entry, last) for entry in last}
            self._settled = level == last
            self._levels.append(level)
        return min(self._most, self._levels[min(depth, len(self._levels) - 1)][self._root])


class _Plan(NamedTuple):
    """Where one schema leads.

    Attributes:
        here: the schemas that may be the first ones at a value -> what they and those beside them cost there.
        below: the same -> for each place below that value what applies there.
    """

    here: dict[int, int]
    below: dict[int, list[_Bag]]

    def widest(self, entry: int, widths: Mapping[int, int]) -> int:
        """The most at a value or below it, once it is known for what is below."""
        return max(self.here[entry], self.most(entry, widths))

    def most(self, entry: int, counts: Mapping[int, int]) -> int:
        """The highest sum of all places."""
        sums = (sum(times * counts[child] for child, times in bag.items()) for bag in self.below[entry])
        return min(BOUNDLESS, max(sums, default=0))


class _OverrunError(Exception):
    pass


def _plan(references: References, weigh: Weigh) -> _Plan:
    schemas: dict[int, dict[str, Any]] = {}
    beside: dict[int, list[int]] = {}
    unfinished = list(_objects([references.root.schema]))
    while unfinished:
        schema = unfinished.pop()
        if id(schema) not in schemas:
            schemas[id(schema)] = schema
            found = list(_objects(_beside(references, schema)))
            beside[id(schema)] = [id(each) for each in found]
            unfinished += [*found, *_objects(sub for kind in _keyed(references, schema) for sub in kind.all())]
    bags = _bags(schemas, beside)
    plan = _Plan({}, {})
    terms = 0
    entries = [id(references.root.schema)]
    while entries:
        entry = entries.pop()
        if entry in plan.here:
            continue
        bag = bags.get(entry, {})
        choice = _choice(references, schemas[entry]) if entry in schemas else []
        plan.here[entry] = min(BOUNDLESS, sum(times * weigh(schemas[each]) for each, times in bag.items()) or 1)
        applied = [(schemas[each], times) for each, times in bag.items()]
        plan.below[entry] = [{id(branch): 1} for branch in choice] or _places(references, applied)
        terms += sum(map(len, plan.below[entry]))
        if terms > _MOST_TERMS:
            raise _OverrunError
        entries += {child for place in plan.below[entry] for child in place}
    return plan


def _bags(schemas: dict[int, dict[str, Any]], beside: dict[int, list[int]]) -> dict[int, _Bag]:
    """Each schema -> all that apply to the same value with it, itself included."""
    bags: dict[int, _Bag] = {}
    #: What is looked at to know what a schema leaves unevaluated: all beside it, once more on each level.
    looks: dict[int, _Bag] = {}
    terms = 0
    group, order = groups(beside)
    for number, members in enumerate(order):
        bag: _Bag = dict.fromkeys(members, 1)
        look: _Bag = {}
        for member in members:
            others = [other for other in beside[member] if group[other] != number]
            if len(beside[member]) - len(others) > 1:
                # It leads back to itself at the same value, and by more than one way.
                raise _OverrunError
            for other in others:
                terms += len(bags[other]) + len(looks[other])
                _merge(bag, bags[other])
                _merge(look, bags[other])
                _merge(look, looks[other])
        if any(schemas[member].keys() & _UNEVALUATED for member in members):
            _merge(bag, look)
        if terms > _MOST_TERMS:
            raise _OverrunError
        for member in members:
            bags[member], looks[member] = bag, look
    return bags


def _merge(bag: _Bag, other: _Bag) -> None:
    for each, times in other.items():
        bag[each] = min(BOUNDLESS, bag.get(each, 0) + times)


def _beside(references: References, schema: dict[str, Any]) -> Iterator[Any]:
    yield from (target.schema for target in references.targets(schema))
    if references.lonely and "$ref" in schema:
        return
    yield from (schema.get(keyword) for keyword in _BESIDE)
    for keyword in _BESIDE_LISTS:
        yield from _list(schema, keyword)
    for keyword in _BESIDE_MAPS:
        yield from _map(schema, keyword).values()


class _Keyed(NamedTuple):
    """What a schema says of members, or of elements: for some by name or index, for the others, and for all."""

    named: dict[Any, Any]
    others: list[Any]
    every: list[Any]

    def all(self) -> list[Any]:
        return [*self.named.values(), *self.others, *self.every]


def _keyed(references: References, schema: dict[str, Any]) -> tuple[_Keyed, ...]:
    if references.lonely and "$ref" in schema:
        return ()
    patterns = _map(schema, "patternProperties")
    listed = _list(schema, "prefixItems") or _list(schema, "items")
    members = _Keyed(
        _map(schema, "properties"),
        [schema.get("additionalProperties"), schema.get("unevaluatedProperties")],
        [*patterns.values(), *[_ANY] * (_NAME * len(patterns)), schema.get("propertyNames")],
    )
    elements = _Keyed(
        dict(enumerate(listed)),
        [schema.get("items"), schema.get("additionalItems"), schema.get("unevaluatedItems")],
        [schema.get("contains")],
    )
    return members, elements


def _choice(references: References, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The branches of a schema that is nothing but a choice by the constant of one member. The library looks at that
    first, from three branches on, and goes into one alone."""
    keyword = "oneOf" if "oneOf" in schema else "anyOf"
    if not schema.keys() <= _SILENT - {"$ref"} | {keyword, "discriminator"}:
        return []
    listed = _list(schema, keyword)
    branches = [_meant(references, branch) for branch in _objects(listed)]
    if len(branches) < _FEWEST_BRANCHES or len(branches) < len(listed):
        return []
    names = (name for name in _map(branches[0], "properties") if _are_told_apart(branches, name))
    return branches if any(True for _ in names) else []


def _are_told_apart(branches: list[dict[str, Any]], name: str) -> bool:
    told = {
        constant
        for branch in branches
        if branch.get("type") == "object" and name in _list(branch, "required")
        if isinstance(constant := _map(_map(branch, "properties"), name).get("const"), str)
    }
    return len(told) == len(branches)


def _places(references: References, applied: list[tuple[dict[str, Any], int]]) -> list[_Bag]:
    """What applies at each place below a value, by what applies to it."""
    read = [(_keyed(references, schema), times) for schema, times in applied]
    places: list[_Bag] = []
    for kind in (0, 1):
        rules = [(kinds[kind], times) for kinds, times in read if kinds]
        keys = {key for rule, _ in rules for key in rule.named}
        open_rules = [(rule, times) for rule, times in rules if list(_objects([*rule.others, *rule.every]))]
        if len(keys) * len(open_rules) > _MOST_TERMS:
            raise _OverrunError
        # What no schema names stands for all that is not named.
        found: dict[Any, _Bag] = {key: {} for key in (*keys, None)}
        for rule, times in rules:
            for key, sub in rule.named.items():
                _add(references, found[key], [sub], times)
        for rule, times in open_rules:
            for key, bag in found.items():
                _add(references, bag, rule.every if key in rule.named else [*rule.others, *rule.every], times)
        places += [bag for bag in found.values() if bag]
    return places


def _add(references: References, bag: _Bag, schemas: list[Any], times: int) -> None:
    for schema in _objects(schemas):
        _merge(bag, {id(_meant(references, schema)): times})


def _meant(references: References, schema: dict[str, Any]) -> dict[str, Any]:
    """What a schema refers to that says nothing itself: what recurs is known by its one name."""
    met = {id(schema)}
    while schema.keys() <= _SILENT and isinstance(target := references.target(schema), Place):
        if not isinstance(target.schema, dict) or id(target.schema) in met:
            break
        schema = target.schema
        met.add(id(schema))
    return schema


def _along_ways(plan: _Plan, root: int) -> int:
    """The most at one value, where a schema that comes again on the same way is not followed."""
    graph = {entry: list({child for bag in bags for child in bag}) for entry, bags in plan.below.items()}
    group, order = groups(graph)
    known: dict[int, int] = {}
    for members in order:
        recurs = len(members) > 1 or members[0] in graph[members[0]]
        if not recurs:
            known[members[0]] = plan.widest(members[0], known)
            continue
        ways = _Ways(plan, group, known)
        found = {member: ways.follow(member, frozenset()) for member in members}
        known.update((member, min(BOUNDLESS, width * ends)) for member, (width, ends) in found.items())
    return known[root]


class _Ways:
    """The ways through schemas that lead back to themselves."""

    def __init__(self, plan: _Plan, group: dict[int, int], known: dict[int, int]) -> None:
        self._plan, self._group, self._known = plan, group, known
        self._left = _MOST_WAYS

    def follow(self, entry: int, above: frozenset[int]) -> tuple[int, int]:
        """The most at one value from here on, behind these; and how many ways end at one value, at most."""
        way = above | {entry}
        self._left -= 1
        if self._left < 0 or len(way) > _LONGEST_WAY:
            return BOUNDLESS, BOUNDLESS
        widths: dict[int, int] = {}
        ends: dict[int, int] = {}
        for child in {child for place in self._plan.below[entry] for child in place}:
            if self._group[child] != self._group[entry]:
                widths[child], ends[child] = self._known[child], 0
            else:
                widths[child], ends[child] = (1, 1) if child in way else self.follow(child, way)
        return self._plan.widest(entry, widths), max(1, self._plan.most(entry, ends))


def _weight(schema: dict[str, Any]) -> int:
    """What one schema costs beside those in it."""
    size = sum(len(value) for value in schema.values() if isinstance(value, dict | list))
    unfinished = [schema.get("enum"), schema.get("const")]
    while unfinished:
        value = unfinished.pop()
        if isinstance(value, dict | list):
            size += len(value)
            unfinished += value.values() if isinstance(value, dict) else value
    return 1 + size // _MEMBERS + sum(_SLOW[keyword] for keyword in schema.keys() & _SLOW.keys())


def text_weight(schema: dict[str, Any]) -> int:
    """What the patterns of one schema cost for each character of a text."""
    patterns = [schema.get("pattern"), *_map(schema, "patternProperties")]
    return sum(_steps(pattern) for pattern in patterns if isinstance(pattern, str))


def _steps(pattern: str) -> int:
    """How many steps of a pattern may be open at once: its length, with what is repeated so and so often."""
    steps, times = len(pattern), 1
    for closed, least, most in _REPEATED.findall(pattern):
        number = max(int(least), int(most or 0))
        steps, times = (steps, times * max(number, 1)) if closed else (steps + number, times)
    return min(steps * times, _MOST_STEPS)


def _objects(schemas: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Those that are objects: one that is ``true`` or ``false`` is no work."""
    return (schema for schema in schemas if isinstance(schema, dict))


def _map(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}


def _list(schema: dict[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []
