"""What a server may declare about a tool beyond MCP's own members: ``_meta["mcpl/tool"]``.

Owns: the few fields, and their reading: one that is wrong is dropped, with one warning, one that is not known is
ignored, and nothing raises. Declarations only: nothing here governs whether, when or how often a tool runs. Does not
own: MCP's members (``tools``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

__all__ = ("EXTRAS_KEY", "MOST_WARNINGS", "ToolExtras", "WarningLedger", "read_extras")

EXTRAS_KEY: Final = "mcpl/tool"
#: Warnings that one ledger remembers; when it is full nothing more is warned of.
MOST_WARNINGS: Final = 500
_LONGEST = 64
_MOST = 32

_logger = logging.getLogger("mcpl_core.mcp")


@dataclass(frozen=True, slots=True)
class ToolExtras:
    """The declarations of one tool.

    Attributes:
        category: where it belongs, one short text.
        tags: short texts, in the server's order.
        needs: names of services whose credentials it will need.
        time: whether it looks at the time of the call (``_meta["mcpl/time"]``).
    """

    category: str | None = None
    tags: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    time: bool = False


class WarningLedger:
    """What was warned of already, so that a server that is wrong a million times is told of once."""

    def __init__(self, limit: int = MOST_WARNINGS) -> None:
        self._limit = limit
        self._seen: set[tuple[str, str, str]] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def warn(self, server: str, tool: str, field: str) -> None:
        """Logs a dropped field once; its name and place, never its value."""
        key = (server, tool, field)
        if key in self._seen or len(self._seen) >= self._limit:
            return
        self._seen.add(key)
        _logger.warning("%s: _meta[%r].%s of the tool %.64r is dropped", server, EXTRAS_KEY, field, tool)


def read_extras(server: str, definition: dict[str, Any], ledger: WarningLedger) -> ToolExtras:
    """The declarations of a tool, as far as they are well formed. Never raises."""
    meta = definition.get("_meta")
    declared = meta.get(EXTRAS_KEY) if isinstance(meta, dict) else None
    if declared is None:
        return ToolExtras()
    tool = str(definition.get("name"))
    if not isinstance(declared, dict):
        ledger.warn(server, tool, "*")
        return ToolExtras()
    found: dict[str, Any] = {}
    for field in fields(ToolExtras):
        if field.name in declared:
            value = declared[field.name]
            if _FORMS[field.name](value):
                found[field.name] = tuple(value) if isinstance(value, list) else value
            else:
                ledger.warn(server, tool, field.name)
    return ToolExtras(**found)


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()


def _are_short(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= _MOST and all(map(_is_short, value))


_FORMS: Final[dict[str, Callable[[Any], bool]]] = {
    "category": _is_short,
    "tags": _are_short,
    "needs": _are_short,
    "time": lambda value: isinstance(value, bool),
}
