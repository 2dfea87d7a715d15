"""Tools of many servers under names that are unique and that models accept (MCP; SPEC 3.3).

Owns: the names, the table behind them, and reading all pages of a list. Does not own: calling a tool (``remote``), and
schemas; a definition is passed on as the JSON that came, with another name.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from msgspec import UNSET

from ..errors import InvalidResultError, InvalidValueError
from ..protocol import ToolsListResult, method

__all__ = ("LONGEST_NAME", "HostTool", "ToolTable", "exposed_name", "list_tools")

#: Characters that every model's interface accepts in the name of a tool.
LONGEST_NAME: Final = 64
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")
_HASH: Final = 8

#: Tools of one server, over all pages.
_MOST_TOOLS: Final = 10_000


@dataclass(frozen=True, slots=True)
class HostTool:
    """One tool of one server.

    Attributes:
        name: the name to show to a model and to call it by.
        server: the id of its server.
        tool: its name there.
        definition: the tool as the server described it, with ``name`` in the place of its own.
    """

    name: str
    server: str
    tool: str
    definition: dict[str, Any]


def exposed_name(server: str, tool: str, *, mark: int = 0) -> str:
    """``<server>__<tool>``; with eight digits of a hash of it at its end where it is too long, has characters that
    models do not accept, or is another tool's already (``mark``, which counts how often it was)."""
    plain = f"{server}__{tool}"
    name = _REFUSED.sub("_", plain)
    if len(name) <= LONGEST_NAME and name == plain and not mark:
        return name
    source = f"{server}\0{tool}" + "\0" * (mark - 1) if mark else plain
    digits = sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: LONGEST_NAME - _HASH - 1]}_{digits}"


class ToolTable:
    """Exposed name -> server and tool. A name is never taken apart; it is looked up here."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._tools: dict[str, tuple[str, str]] = {}

    def add(self, server: str, definition: dict[str, Any]) -> HostTool:
        """The tool under its name, the same one each time."""
        tool = definition["name"]
        name = self._names.get((server, tool))
        if name is None:
            name = exposed_name(server, tool)
            mark = 0
            # A server can call a tool as the next name would be.
            while name in self._tools:
                mark += 1
                name = exposed_name(server, tool, mark=mark)
            self._names[server, tool] = name
            self._tools[name] = (server, tool)
        return HostTool(name, server, tool, {**definition, "name": name})

    def find(self, name: str) -> tuple[str, str]:
        """Server and tool behind a name.

        Raises:
            InvalidValueError: no tool was listed under it (``unknown_tool``).
        """
        try:
            return self._tools[name]
        except KeyError:
            text = f"no server that may be called lists a tool as {name[:80]!r}"
            raise InvalidValueError("unknown_tool", text) from None

    def forget(self, server: str) -> None:
        """Drops the tools of a server."""
        for key in [key for key in self._names if key[0] == server]:
            del self._tools[self._names.pop(key)]


async def list_tools(
    ask: Callable[[dict[str, Any]], Awaitable[ToolsListResult]], pages: int
) -> tuple[list[dict[str, Any]], int]:
    """All tools of a server, over all pages.

    Args:
        ask: sends ``tools/list`` with these params.
        pages: how many pages are asked for at most.

    Returns:
        The definitions as they came, each name once, and how many entries were no tools.

    Raises:
        InvalidResultError: a cursor came twice, or there are more pages or tools than that; a list cut short would
            pass for a whole one.
    """
    tools: dict[str, dict[str, Any]] = {}
    dropped = 0
    seen: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(pages):
        page = await ask(params)
        for value in page.tools:
            if isinstance(value, dict) and isinstance(value.get("name"), str) and value["name"] not in tools:
                tools[value["name"]] = value
            else:
                dropped += 1
        cursor = page.next_cursor
        if cursor is None or cursor is UNSET:
            return list(tools.values()), dropped
        if cursor in seen:
            raise InvalidResultError(method.TOOLS_LIST, "a cursor came twice", "$.nextCursor")
        if len(tools) > _MOST_TOOLS:
            raise InvalidResultError(method.TOOLS_LIST, f"more than {_MOST_TOOLS} tools", "$.tools")
        seen.add(cursor)
        params = {"cursor": cursor}
    raise InvalidResultError(method.TOOLS_LIST, f"more than {pages} pages", "$.nextCursor")
