"""JSON Patch on the state that a host keeps (RFC 6902, RFC 6901; SPEC 8.3).

Owns: the bounds of a patch, checked before each operation is carried out, and that it is applied as a whole or not at
all. Does not own: the operations themselves (the library ``jsonpatch``, extra ``host``), and the state (``state``).

A patch is a small program from a server. What it may cost is known before it is spent: ``copy`` can double a document
with each operation, so the size of the result is counted along, and so is the work of looking at values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..errors import InvalidValueError
from ..wire.values import decode_value, encode_value

__all__ = ("PatchLimits", "apply_patch")

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_ESCAPE = re.compile(r"~(?![01])")
_MISSING: Final = object()

#: What stands for one value beside its characters.
_NODE: Final = 8


@dataclass(frozen=True, slots=True)
class PatchLimits:
    """What a patch may cost.

    Attributes:
        operations: how many there may be.
        size: of the document, before and after each operation: its characters, and 8 for each value.
        work: sizes of all values that are looked at.
        depth: of the document.
        pointer: characters of a pointer.
    """

    operations: int = 1000
    size: int = 4 * 1024 * 1024
    work: int = 32 * 1024 * 1024
    depth: int = 64
    pointer: int = 4096


def apply_patch(document: Any, operations: Any, limits: PatchLimits = PatchLimits()) -> Any:
    """The document after all operations; the given one stays as it is.

    Args:
        document: plain JSON.
        operations: the patch, as received.
        limits: see ``PatchLimits``.

    Raises:
        InvalidValueError: nothing was changed. ``path`` names the operation; ``code`` is ``patch_form``,
            ``patch_pointer``, ``patch_target`` (there is nothing, or no container), ``patch_test`` (a test failed), or
            ``patch_limit``.
        ModuleNotFoundError: the extra ``host`` is not installed.
    """
    try:
        import jsonpatch
    except ModuleNotFoundError as exc:
        raise ModuleNotFoundError("JSON Patch needs: pip install 'mcp-live-core[host]'", name="jsonpatch") from exc
    if not isinstance(operations, list):
        raise InvalidValueError("patch_form", "a patch is an array of operations")
    if len(operations) > limits.operations:
        raise InvalidValueError("patch_limit", f"more than {limits.operations} operations")
    cost = _Cost(limits)
    cost.size = cost.measure(document, 0, "$")
    result = decode_value(encode_value(document))
    for index, operation in enumerate(operations):
        where = f"$[{index}]"
        _Operation(operation, where, cost).check(result)
        try:
            result = jsonpatch.JsonPatch([operation]).apply(result, in_place=True)
        except Exception as exc:  # whatever the library raises, the document is a copy
            raise InvalidValueError("patch_target", f"it cannot be applied: {type(exc).__name__}", where) from exc
    return result


class _Cost:
    """What was spent.

    Attributes:
        size: of the document as it is now.
    """

    def __init__(self, limits: PatchLimits) -> None:
        self.limits = limits
        self.size = 0
        self._work = 0

    def grow(self, by: int, where: str) -> None:
        self.size += by
        if self.size > self.limits.size:
            raise InvalidValueError("patch_limit", f"the document would be larger than {self.limits.size}", where)

    def spend(self, work: int, where: str) -> None:
        self._work += work
        if self._work > self.limits.work:
            raise InvalidValueError("patch_limit", "the patch takes too much work", where)

    def measure(self, value: Any, depth: int, where: str) -> int:
        """The size of a value that stands ``depth`` levels deep."""
        size = 0
        level = [value]
        while level:
            depth += 1
            if depth > self.limits.depth:
                raise InvalidValueError("patch_limit", f"deeper than {self.limits.depth} levels", where)
            below: list[Any] = []
            for item in level:
                own = _own_size(item)
                size += own
                self.spend(own, where)
                if isinstance(item, dict):
                    below += item.values()
                elif isinstance(item, list):
                    below += item
            level = below
        return size


def _own_size(value: Any) -> int:
    if isinstance(value, str):
        return _NODE + len(value)
    return _NODE + (sum(map(len, value)) if isinstance(value, dict) else 0)


class _Operation:
    """One operation: whether it can be carried out, and what that costs. Its check changes ``cost.size`` only."""

    def __init__(self, operation: Any, where: str, cost: _Cost) -> None:
        if not isinstance(operation, dict):
            raise InvalidValueError("patch_form", "an operation is an object", where)
        self._operation = operation
        self._where = where
        self._cost = cost
        self._path = self._pointer("path")

    def check(self, document: Any) -> None:
        name = self._operation.get("op")
        check = _CHECKS.get(name) if isinstance(name, str) else None
        if check is None:
            raise InvalidValueError("patch_form", "op is add, remove, replace, move, copy or test", self._where)
        check(self, document)

    def add(self, document: Any) -> None:
        self._place(document, self._measure(self._value(), self._path))

    def remove(self, document: Any) -> None:
        if not self._path:
            raise InvalidValueError("patch_target", "the whole document cannot be removed", self._where)
        self._cost.size -= self._measure(self._find(document, self._path), self._path)

    def replace(self, document: Any) -> None:
        old = self._measure(self._find(document, self._path), self._path)
        self._cost.grow(self._measure(self._value(), self._path) - old, self._where)

    def move(self, document: Any) -> None:
        source = self._pointer("from")
        if source == self._path[: len(source)] and source != self._path:
            raise InvalidValueError("patch_target", "a value cannot be moved into itself", self._where)
        size = self._measure(self._find(document, source), self._path)
        if source != self._path:
            # It is taken out before it is put in; what stands at the target is found after that, by the library.
            self._cost.size -= size
            self._cost.grow(size, self._where)

    def copy(self, document: Any) -> None:
        source = self._find(document, self._pointer("from"))
        self._place(document, self._measure(source, self._path))

    def test(self, document: Any) -> None:
        found = self._find(document, self._path)
        if not self._equal(found, self._value()):
            raise InvalidValueError("patch_test", "the value is another one", self._where)

    # -- parts

    def _place(self, document: Any, size: int) -> None:
        """A value of ``size`` is put at the path; one that stands there, in an object, goes."""
        old = 0
        if not self._path:
            old = self._cost.size
        else:
            parent = self._find(document, self._path[:-1])
            token = self._path[-1]
            if isinstance(parent, dict):
                present = parent.get(token, _MISSING)
                old = -len(token) if present is _MISSING else self._measure(present, self._path)
            elif isinstance(parent, list):
                if token != "-" and not (_INDEX.fullmatch(token) and int(token) <= len(parent)):
                    raise InvalidValueError("patch_target", "no such place in the array", self._where)
            else:
                raise InvalidValueError("patch_target", "the parent is no container", self._where)
        self._cost.grow(size - old, self._where)

    def _measure(self, value: Any, path: list[str]) -> int:
        return self._cost.measure(value, len(path), self._where)

    def _value(self) -> Any:
        if "value" not in self._operation:
            raise InvalidValueError("patch_form", "there is no value", self._where)
        return self._operation["value"]

    def _pointer(self, name: str) -> list[str]:
        text = self._operation.get(name)
        if not isinstance(text, str):
            raise InvalidValueError("patch_form", f"{name} is a pointer", self._where)
        if len(text) > self._cost.limits.pointer:
            raise InvalidValueError("patch_limit", f"{name} is too long", self._where)
        if (text and not text.startswith("/")) or _ESCAPE.search(text):
            raise InvalidValueError("patch_pointer", f"{name} is no JSON Pointer", self._where)
        return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]

    def _find(self, document: Any, path: list[str]) -> Any:
        value = document
        self._cost.spend(len(path), self._where)
        for token in path:
            if isinstance(value, dict) and token in value:
                value = value[token]
            elif isinstance(value, list) and _INDEX.fullmatch(token) and int(token) < len(value):
                value = value[int(token)]
            else:
                raise InvalidValueError("patch_target", "there is nothing at the pointer", self._where)
        return value

    def _equal(self, one: Any, other: Any) -> bool:
        """As JSON: ``true`` is not 1, and 1 is 1.0."""
        pairs = [(one, other)]
        while pairs:
            a, b = pairs.pop()
            self._cost.spend(_own_size(a), self._where)
            if isinstance(a, dict) and isinstance(b, dict):
                if a.keys() != b.keys():
                    return False
                pairs += [(value, b[name]) for name, value in a.items()]
            elif isinstance(a, list) and isinstance(b, list):
                if len(a) != len(b):
                    return False
                pairs += zip(a, b, strict=True)
            elif isinstance(a, bool) != isinstance(b, bool) or a != b:
                return False
        return True


_CHECKS: Final[dict[str, Callable[[_Operation, Any], None]]] = {
    "add": _Operation.add,
    "remove": _Operation.remove,
    "replace": _Operation.replace,
    "move": _Operation.move,
    "copy": _Operation.copy,
    "test": _Operation.test,
}
