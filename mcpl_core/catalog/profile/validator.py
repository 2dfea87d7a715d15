"""Whether a value fits a compiled schema, in a bounded number of steps.

Owns: what each keyword means for a value, equality of JSON values, and the count of steps. Does not own: the reading of
schemas (``compiler``). Lengths of strings are counted in code points. Nothing is coerced.

A value that meets a schema is one step, and so is each pair of values that is compared; comparisons of ``uniqueItems``
go pair by pair, branches are tried all. What costs more than the budget is refused, however it would have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

from ...errors import InvalidValueError
from ...trees import Place
from ..bounded import copy_bounded
from .budgets import ProfileBudgets
from .errors import ProfileMismatchError, mismatch

__all__ = ("Node", "validate")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    """One compiled schema. ``None`` is a keyword that is not there.

    Attributes:
        types: Python types of plain JSON; empty: any.
        const: a tuple of the one value.
        bounds: the keywords that are numbers.
        closed: whether there are only the declared members.
    """

    types: frozenset[type]
    any_of: tuple[Node, ...] | None
    one_of: tuple[Node, ...] | None
    enum: tuple[Any, ...] | None
    const: tuple[Any] | None
    bounds: Mapping[str, int | float]
    unique: bool
    items: Node | None
    properties: Mapping[str, Node]
    required: tuple[str, ...]
    closed: bool

    def __repr__(self) -> str:
        return "<Node>"


def validate(root: Node, value: Any, budgets: ProfileBudgets) -> dict[str, Any]:
    """A copy of ``value``, which fits.

    Raises:
        ProfileMismatchError: it does not.
    """
    problem: InvalidValueError | None = None
    copied: dict[str, Any] = {}
    try:
        copied = copy_bounded(value, budgets.output)
    except InvalidValueError as exc:
        problem = exc
    if problem is not None:
        raise ProfileMismatchError(problem.code, problem.detail)
    _Validation(budgets.steps).check(root, copied, None)
    return copied


#: What a validation comes to: nothing, or the keyword that was failed and where.
_Failure: TypeAlias = tuple[str, Place] | None


class _Validation:
    def __init__(self, steps: int) -> None:
        self._steps = steps

    def check(self, node: Node, value: Any, place: Place) -> None:
        failure = self._failure(node, value, place)
        if failure is not None:
            mismatch(*failure)

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            mismatch("steps", None, "it takes too many steps to tell")

    def _failure(self, node: Node, value: Any, place: Place) -> _Failure:
        self._step()
        return (
            self._branches(node, value, place)
            or self._simple(node, value, place)
            or (self._array(node, value, place) if type(value) is list else None)
            or (self._object(node, value, place) if type(value) is dict else None)
        )

    def _branches(self, node: Node, value: Any, place: Place) -> _Failure:
        if node.any_of is not None and self._matches(node.any_of, value, place) == 0:
            return "anyOf", place
        if node.one_of is not None and self._matches(node.one_of, value, place) != 1:
            return "oneOf", place
        return None

    def _matches(self, branches: tuple[Node, ...], value: Any, place: Place) -> int:
        return sum([self._failure(branch, value, place) is None for branch in branches])

    def _simple(self, node: Node, value: Any, place: Place) -> _Failure:
        if node.types and type(value) not in node.types:
            return "type", place
        if node.enum is not None and not any(self._equal(value, one) for one in node.enum):
            return "enum", place
        if node.const is not None and not self._equal(value, node.const[0]):
            return "const", place
        if type(value) is str:
            return self._within(node, len(value), "minLength", "maxLength", place)
        if type(value) is int or type(value) is float:
            return self._within(node, value, "minimum", "maximum", place)
        return None

    def _within(self, node: Node, size: int | float, least: str, most: str, place: Place) -> _Failure:
        if size < node.bounds.get(least, size):
            return least, place
        if size > node.bounds.get(most, size):
            return most, place
        return None

    def _array(self, node: Node, value: list[Any], place: Place) -> _Failure:
        failure = self._within(node, len(value), "minItems", "maxItems", place)
        if failure is not None:
            return failure
        if node.unique and any(self._equal(*pair) for pair in combinations(value, 2)):
            return "uniqueItems", place
        if node.items is None:
            return None
        return self._first(node.items, enumerate(value), place)

    def _object(self, node: Node, value: dict[str, Any], place: Place) -> _Failure:
        for name in node.required:
            if name not in value:
                return "required", (place, name)
        if node.closed and not value.keys() <= node.properties.keys():
            # Without the name of the member: it is the value's own.
            return "additionalProperties", place
        for name, child in node.properties.items():
            if name in value:
                failure = self._failure(child, value[name], (place, name))
                if failure is not None:
                    return failure
        return None

    def _first(self, node: Node, items: Iterable[tuple[int, Any]], place: Place) -> _Failure:
        return next((bad for index, item in items if (bad := self._failure(node, item, (place, index)))), None)

    def _equal(self, left: Any, right: Any) -> bool:
        """Equality of JSON values: ``1`` and ``1.5`` are numbers, ``true`` is none."""
        self._step()
        if type(left) is dict and type(right) is dict:
            return left.keys() == right.keys() and all(self._equal(left[name], right[name]) for name in left)
        if type(left) is list and type(right) is list:
            return len(left) == len(right) and all(map(self._equal, left, right))
        return type(left) is type(right) and bool(left == right)
