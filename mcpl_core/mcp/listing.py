"""Reading a list of tools to its end.

Owns: one listing over all its pages, and what of a page is no tool. Does not own: keeping it, and what a tool is
(``catalogue``, ``tools``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from anyio.lowlevel import checkpoint_if_cancelled

from ..errors import InvalidResultError
from ..protocol import method
from .errors import IncompleteReason, McpToolListIncompleteError

__all__ = ("MOST_REQUESTS", "Listing", "list_all_tools")

#: Requests for one listing; a bound on requests, not on tools.
MOST_REQUESTS: Final = 100


@dataclass(frozen=True, slots=True)
class Listing:
    """A whole list.

    Attributes:
        tools: the definitions, as received, each name once.
        dropped: entries that were no tools, or of a name that was there already.
        requests: how many pages it had.
    """

    tools: tuple[dict[str, Any], ...]
    dropped: int
    requests: int


async def list_all_tools(
    server: str, ask: Callable[[dict[str, Any] | None], Awaitable[dict[str, Any]]], limit: int = MOST_REQUESTS
) -> Listing:
    """Asks for page after page until one names no next one. An empty string is a cursor, null is none.

    Args:
        server: the name that the caller gave the server.
        ask: sends ``tools/list`` with these params: nothing for the first page, ``{"cursor": ...}`` for the others.
        limit: how many requests are sent at most.

    Raises:
        McpToolListIncompleteError: there are more pages, or a cursor came twice.
        InvalidResultError: a page is none.
    """
    tools: dict[str, dict[str, Any]] = {}
    dropped = 0
    seen: set[str] = set()
    params: dict[str, Any] | None = None
    reason: IncompleteReason = "limit"
    asked = 0
    while asked < limit:
        # A caller that gave up asks for nothing more, and takes nothing that comes.
        await checkpoint_if_cancelled()
        page = await ask(params)
        await checkpoint_if_cancelled()
        asked += 1
        dropped += _take(page, tools)
        cursor = page.get("nextCursor")
        if cursor is None:
            return Listing(tuple(tools.values()), dropped, asked)
        if not isinstance(cursor, str):
            raise InvalidResultError(method.TOOLS_LIST, "a cursor is a string", "$.nextCursor")
        if cursor in seen:
            reason = "repeated-cursor"
            break
        seen.add(cursor)
        params = {"cursor": cursor}
    raise McpToolListIncompleteError(server, reason, asked, tuple(tools.values()))


def _take(page: dict[str, Any], tools: dict[str, dict[str, Any]]) -> int:
    """Adds the tools of a page; how many entries were none."""
    entries = page.get("tools")
    if not isinstance(entries, list):
        raise InvalidResultError(method.TOOLS_LIST, "tools is an array", "$.tools")
    dropped = 0
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and name and name not in tools:
            tools[name] = entry
        else:
            dropped += 1
    return dropped
