"""Where a value does not fit its schema.

Owns: the way from the root of a schema down to the one place that failed. Does not own: whether a value fits; every
verdict is the library's (``Judge``). And not the words (``sentences``).

The library's own account of a failure holds all branches of all alternatives, and grows exponentially where they nest
or recur. So it is never asked for: one place is looked for, with a bounded number of verdicts on each level. Of
alternatives (``anyOf``, ``oneOf``) the way leads on where only one can be meant: the others are of another type, or the
constant of some member tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from .errors import SchemaViolation
from .references import DRAFT_2020, Place, References, Schema, Steps
from .sentences import MOST_NAMES, SENTENCES, missing_members, unknown_members

__all__ = ("Judge", "explain")

_Object: TypeAlias = dict[str, Any]
#: Keywords that hold no schema, in the order in which they are told: what a value is comes before how much of it.
_ASSERTIONS: Final = (
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
    "dependentRequired",
)  # fmt: skip
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_HOPS: Final = 32
#: For one value.
_VERDICTS: Final = 200_000
#: Values that are looked at for all verdicts on one value, as often as they are.
_LOOKS: Final = 200_000_000


class Judge(Protocol):
    """Verdicts of the library."""

    def fits(self, steps: Steps, value: Any) -> bool:
        """Whether ``value`` is valid by the schema that stands there in the document."""
        ...

    def meets(self, keywords: _Object, value: Any) -> bool:
        """Whether ``value`` is valid by these keywords alone, without any reference."""
        ...

    def matches(self, pattern: str, name: str) -> bool:
        """Whether the name of a member matches a pattern of the document."""
        ...


def explain(references: References, judge: Judge, value: Any, looks: int = _LOOKS) -> SchemaViolation:
    """The violation of a value that the whole schema refuses.

    Args:
        looks: at how many values the verdicts may look, each as often as they do.
    """
    return _Search(references, _Bounded(judge, _sizes(value), looks)).run(value)


def _sizes(value: Any) -> dict[int, int]:
    """The containers in a value, by identity -> how many values are in each, itself included."""
    sizes: dict[int, int] = {}
    unfinished = [(value, False)]
    while unfinished:
        container, counted = unfinished.pop()
        if not isinstance(container, dict | list | tuple) or (not counted and id(container) in sizes):
            continue
        members = container.values() if isinstance(container, dict) else container
        if counted:
            sizes[id(container)] = 1 + sum(sizes.get(id(member), 1) for member in members)
        else:
            unfinished.append((container, True))
            unfinished += [(member, False) for member in members]
    return sizes


class _Spent(Exception):
    pass


class _Bounded:
    """A judge that gives so many verdicts, on values of so many values, and no more: finding the place must not cost
    much more than the check."""

    def __init__(self, judge: Judge, sizes: dict[int, int], looks: int, verdicts: int = _VERDICTS) -> None:
        self._judge = judge
        self._sizes = sizes
        self._looks = looks
        self._left = verdicts

    def _spend(self, value: Any) -> Judge:
        self._left -= 1
        self._looks -= self._sizes.get(id(value), 1)
        if self._left < 0 or self._looks < 0:
            raise _Spent
        return self._judge

    def fits(self, steps: Steps, value: Any) -> bool:
        return self._spend(value).fits(steps, value)

    def meets(self, keywords: _Object, value: Any) -> bool:
        return self._spend(value).meets(keywords, value)

    def matches(self, pattern: str, name: str) -> bool:
        return self._spend(name).matches(pattern, name)


class _Turn(NamedTuple):
    """Where the search goes on: a schema, the value there, and the steps into the value."""

    place: Place
    value: Any
    steps: Steps = ()


class _Fault(NamedTuple):
    """Where it ends."""

    keyword: str
    detail: str


class _Search:
    def __init__(self, references: References, judge: Judge) -> None:
        self._references = references
        self._judge = judge

    def run(self, value: Any) -> SchemaViolation:
        turn = _Turn(self._references.root, value)
        path: Steps = ()
        seen: set[tuple[Steps, int]] = set()
        while True:
            schema = turn.place.schema
            if not isinstance(schema, dict):
                return SchemaViolation(path, "", "nothing is allowed here")
            found = None
            if (path, id(schema)) not in seen:
                seen.add((path, id(schema)))
                try:
                    found = self._look(turn.place, schema, turn.value)
                except _Spent:
                    return SchemaViolation(path, "", "does not fit its schema somewhere in here")
            if isinstance(found, _Turn):
                turn, path = found, path + found.steps
                continue
            fault = found or _remaining(schema, turn.value)
            return SchemaViolation(path, *fault)

    def _look(self, place: Place, schema: _Object, value: Any) -> _Turn | _Fault | None:
        lonely = self._references.lonely and "$ref" in schema
        looks = (self._referred,) if lonely else (self._asserted, self._below, self._referred, self._beside)
        for look in looks:
            if (found := look(place, schema, value)) is not None:
                return found
        return None

    def _asserted(self, place: Place, schema: _Object, value: Any) -> _Fault | None:
        for keyword in _ASSERTIONS:
            if keyword in schema and not self._meets(schema, keyword, value):
                return _Fault(keyword, SENTENCES[keyword](schema[keyword], value))
        if "required" in schema and not self._meets(schema, "required", value):
            return _Fault("required", missing_members(schema["required"], value))
        return None

    def _meets(self, schema: _Object, keyword: str, value: Any) -> bool:
        # Draft 4 says by a boolean whether a bound is exclusive.
        pair = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}.get(keyword, "")
        beside = {pair: schema[pair]} if isinstance(schema.get(pair), bool) else {}
        return self._judge.meets({keyword: schema[keyword], **beside}, value)

    def _below(self, place: Place, schema: _Object, value: Any) -> _Turn | _Fault | None:
        if isinstance(value, dict):
            return self._unknown(place, schema, value) or self._first(self._members(place, schema, value))
        if isinstance(value, list | tuple):
            return self._first(self._elements(place, schema, value))
        return None

    def _first(self, turns: Iterable[_Turn]) -> _Turn | None:
        return next((turn for turn in turns if not self._judge.fits(turn.place.steps, turn.value)), None)

    def _unknown(self, place: Place, schema: _Object, value: _Object) -> _Fault | None:
        if schema.get("additionalProperties", True) is not False:
            return None
        unknown = list(islice(self._additional(schema, value), MOST_NAMES + 1))
        known = [*_map(schema, "properties")]
        return _Fault("additionalProperties", unknown_members(unknown, known)) if unknown else None

    def _additional(self, schema: _Object, value: _Object) -> Iterator[str]:
        properties, patterns = _map(schema, "properties"), _map(schema, "patternProperties")
        for name in value:
            if name not in properties and not any(self._judge.matches(pattern, name) for pattern in patterns):
                yield name

    def _members(self, place: Place, schema: _Object, value: _Object) -> Iterator[_Turn]:
        for name, sub in _map(schema, "properties").items():
            if name in value:
                yield _Turn(_inside(place, sub, "properties", name), value[name], (name,))
        for pattern, sub in _map(schema, "patternProperties").items():
            for name in value:
                if self._judge.matches(pattern, name):
                    yield _Turn(_inside(place, sub, "patternProperties", pattern), value[name], (name,))
        rest = schema.get("additionalProperties")
        if isinstance(rest, dict):
            for name in self._additional(schema, value):
                yield _Turn(_inside(place, rest, "additionalProperties"), value[name], (name,))

    def _elements(self, place: Place, schema: _Object, value: Sequence[Any]) -> Iterator[_Turn]:
        listed = "prefixItems" if self._references.dialect == DRAFT_2020 else "items"
        prefix = schema.get(listed)
        prefix = prefix if isinstance(prefix, list) else []
        for index, (sub, element) in enumerate(zip(prefix, value, strict=False)):
            yield _Turn(_inside(place, sub, listed, index), element, (index,))
        others = "items" if listed == "prefixItems" or not prefix else "additionalItems"
        rest = schema.get(others)
        if isinstance(rest, dict | bool):
            for index in range(len(prefix), len(value)):
                yield _Turn(_inside(place, rest, others), value[index], (index,))

    def _referred(self, place: Place, schema: _Object, value: Any) -> _Turn | None:
        return self._first(_Turn(target, value) for target in self._references.targets(schema))

    def _beside(self, place: Place, schema: _Object, value: Any) -> _Turn | _Fault | None:
        """Schemas that apply to the same value."""
        listed = _branches(place, schema, "allOf")
        found = self._first(_Turn(branch, value) for branch in listed) or self._conditional(place, schema, value)
        if found is not None:
            return found
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                choice = self._choice(keyword, _branches(place, schema, keyword), value)
                if choice is not None:
                    return choice
        return self._whole(place, schema, value)

    def _conditional(self, place: Place, schema: _Object, value: Any) -> _Turn | None:
        if "if" not in schema:
            return None
        branch = "then" if self._judge.fits((*place.steps, "if"), value) else "else"
        sub = schema.get(branch)
        return self._first([_Turn(_inside(place, sub, branch), value)]) if isinstance(sub, dict | bool) else None

    def _choice(self, keyword: str, branches: list[Place], value: Any) -> _Turn | _Fault | None:
        fitting = sum(self._judge.fits(branch.steps, value) for branch in branches)
        if fitting == 0:
            meant = [branch for branch in branches if self._may_be_meant(branch, value)]
            if len(meant) == 1:
                return _Turn(meant[0], value)
            return _Fault(keyword, SENTENCES["anyOf"](branches, value) if meant else _no_type(branches, value))
        if fitting > 1 and keyword == "oneOf":
            return _Fault(keyword, f"fits {fitting} of the {len(branches)} allowed forms and must fit exactly one")
        return None

    def _may_be_meant(self, place: Place, value: Any) -> bool:
        """Whether the type and the constants of a branch, its own or those that it refers to, allow ``value``."""
        schema = place.schema
        for _ in range(_HOPS):
            if not isinstance(schema, dict) or not self._tells(schema, value):
                return False
            target = self._references.target(schema)
            if target is None:
                return True
            schema = target.schema
        return True

    def _tells(self, schema: _Object, value: Any) -> bool:
        for keyword in ("type", "const", "enum"):
            if keyword in schema and not self._judge.meets({keyword: schema[keyword]}, value):
                return False
        if not isinstance(value, dict):
            return True
        return all(
            self._judge.meets({keyword: sub[keyword]}, value[name])
            for name, sub in _map(schema, "properties").items()
            if name in value and isinstance(sub, dict)
            for keyword in ("const", "enum")
            if keyword in sub
        )

    def _whole(self, place: Place, schema: _Object, value: Any) -> _Turn | _Fault | None:
        if "not" in schema and self._judge.fits((*place.steps, "not"), value):
            return _Fault("not", SENTENCES["not"](None, value))
        if isinstance(value, list | tuple) and "contains" in schema:
            return self._contains(place, schema, value)
        if isinstance(value, dict):
            return self._named(place, schema, value) or self._dependent(place, schema, value)
        return None

    def _contains(self, place: Place, schema: _Object, value: Sequence[Any]) -> _Fault | None:
        held = sum(self._judge.fits((*place.steps, "contains"), element) for element in value)
        least, most = schema.get("minContains", 1), schema.get("maxContains", held)
        return None if least <= held <= most else _Fault("contains", SENTENCES["contains"](None, value))

    def _named(self, place: Place, schema: _Object, value: _Object) -> _Fault | None:
        if "propertyNames" not in schema:
            return None
        steps = (*place.steps, "propertyNames")
        wrong = list(islice((name for name in value if not self._judge.fits(steps, name)), MOST_NAMES + 1))
        return _Fault("propertyNames", unknown_members(wrong, [])) if wrong else None

    def _dependent(self, place: Place, schema: _Object, value: _Object) -> _Turn | _Fault | None:
        for keyword in ("dependentSchemas", "dependencies"):
            for name, sub in _map(schema, keyword).items():
                if name not in value:
                    continue
                if isinstance(sub, list):
                    if any(needed not in value for needed in sub):
                        return _Fault(keyword, missing_members(sub, value))
                elif found := self._first([_Turn(_inside(place, sub, keyword, name), value)]):
                    return found
        return None


def _remaining(schema: Schema, value: Any) -> _Fault:
    """Keywords that look at what all the others did; and whatever else the library knows."""
    for keyword in _UNEVALUATED:
        if isinstance(schema, dict) and keyword in schema:
            return _Fault(keyword, SENTENCES[keyword](schema[keyword], value))
    return _Fault("", "does not fit its schema")


def _no_type(branches: list[Place], value: Any) -> str:
    """The types that are allowed, where every branch has one; else as for branches that cannot be told apart."""
    kinds = [branch.schema.get("type") for branch in branches if isinstance(branch.schema, dict)]
    if len(kinds) == len(branches) and all(isinstance(kind, str) for kind in kinds):
        return SENTENCES["type"]([*dict.fromkeys(kinds)], value)
    return SENTENCES["anyOf"](branches, value)


def _map(schema: _Object, keyword: str) -> _Object:
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}


def _inside(place: Place, sub: Schema, *steps: str | int) -> Place:
    return Place(sub, (*place.steps, *steps))


def _branches(place: Place, schema: _Object, keyword: str) -> list[Place]:
    value = schema.get(keyword)
    return [_inside(place, sub, keyword, index) for index, sub in enumerate(value)] if isinstance(value, list) else []
