"""Reading all pages of ``tools/list`` within the limits of a catalog.

Owns: paging, its limits and the defects of a list. Does not own: which tools matter (``discovery``). Descriptions and
schemas of tools are not looked at here: a tool that nobody selected may have any.
"""

from __future__ import annotations

from typing import Any, Final

from .calls import Timer, ask
from .errors import CatalogError
from .limits import CatalogLimits
from .monitor import Lease
from .peers.base import PeerFailure, ToolPeer
from .results import json_size

__all__ = ("LONGEST_CURSOR", "list_tools")

#: Bytes of a cursor in UTF-8.
LONGEST_CURSOR: Final = 512


async def list_tools(peer: ToolPeer, lease: Lease, limits: CatalogLimits, timer: Timer) -> dict[str, dict[str, Any]]:
    """All tools of a server by name, as it described them.

    Raises:
        CatalogError: the request failed (its code); the list changed meanwhile, or the connection closed
            (``mcp_catalog_stale``, ``mcp_connection_closed``); ``mcp_result_invalid``: an answer is no list of tools;
            ``mcp_name_conflict``, ``mcp_pagination_invalid``, ``mcp_catalog_limit_exceeded``.
    """
    tools: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    spent = 0
    params: dict[str, Any] = {}
    for _ in range(limits.max_pages):
        page = await _page(peer, params, limits, timer)
        lease.check()
        spent += _size(page)
        if spent > limits.max_catalog_bytes or len(tools) + len(page["tools"]) > limits.max_tools:
            raise CatalogError("mcp_catalog_limit_exceeded")
        for tool in page["tools"]:
            if tool["name"] in tools:
                raise CatalogError("mcp_name_conflict")
            tools[tool["name"]] = tool
        cursor = page.get("nextCursor")
        if cursor is None:
            return tools
        if not _follows(cursor, seen):
            raise CatalogError("mcp_pagination_invalid")
        seen.add(cursor)
        params = {"cursor": cursor}
    raise CatalogError("mcp_catalog_limit_exceeded")


async def _page(peer: ToolPeer, params: dict[str, Any], limits: CatalogLimits, timer: Timer) -> dict[str, Any]:
    reply = await ask(peer, "tools/list", params, limits, timer)
    if isinstance(reply, PeerFailure):
        raise CatalogError(reply.code)
    page = reply.value
    if not isinstance(page, dict) or not isinstance(page.get("tools"), list):
        raise CatalogError("mcp_result_invalid")
    if not all(isinstance(tool, dict) and isinstance(tool.get("name"), str) for tool in page["tools"]):
        raise CatalogError("mcp_result_invalid")
    return page


def _size(page: dict[str, Any]) -> int:
    size = json_size(page)
    if size is None:
        raise CatalogError("mcp_result_invalid")
    return size


def _follows(cursor: Any, seen: set[str]) -> bool:
    """Whether it is a cursor. An empty one is: only an absent one ends the list."""
    if not isinstance(cursor, str) or cursor in seen:
        return False
    return len(cursor.encode("utf-8", "surrogatepass")) <= LONGEST_CURSOR
