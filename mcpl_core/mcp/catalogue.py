"""The tools that a client knows, and under which names.

Owns: one catalogue made of one listing, whole; the next one replaces it at once or not at all. Names with a prefix are
looked up here and never taken apart. Does not own: listing (``listing``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ..errors import InvalidValueError
from ..host.tools import ToolTable
from .checks import JsonSchemaValidator, ToolChecks
from .extras import WarningLedger, read_extras
from .listing import Listing
from .tools import McpTool, ToolCaller

__all__ = ("Catalogue", "CatalogueMaker")

_logger = logging.getLogger("mcpl_core.mcp")


class Catalogue:
    """The tools of one listing.

    Args:
        tools: in the server's order.
        number: counts the listings of a client.
    """

    def __init__(self, tools: tuple[McpTool, ...], number: int) -> None:
        self.tools = tools
        self.number = number
        self._by_name = {tool.name: tool for tool in tools}
        self._by_tool = {tool.tool: tool for tool in tools}

    def __iter__(self) -> Iterator[McpTool]:
        return iter(self.tools)

    def find(self, name: str) -> McpTool:
        """The tool behind a name of ours.

        Raises:
            InvalidValueError: no tool was listed under it (``unknown_tool``).
        """
        try:
            return self._by_name[name]
        except (KeyError, TypeError):
            raise InvalidValueError("unknown_tool", f"no tool is listed as {str(name)[:80]!r}") from None

    def of_server(self, tool: str) -> McpTool | None:
        """The tool that the server calls so."""
        return self._by_tool.get(tool)


class CatalogueMaker:
    """Makes the catalogues of one client.

    Args:
        source: the client's name.
        prefix: stands before each name, as ``<prefix>__<tool>``, cut and marked where models would not accept it;
            ``None``: the server's names as they are.
        validator: see ``ToolChecks``.
        call: what a tool is called through.
    """

    def __init__(
        self, source: str, prefix: str | None, validator: JsonSchemaValidator | None, call: ToolCaller
    ) -> None:
        self._source = source
        self._prefix = prefix
        self._validator = validator
        self._call = call
        self._ledger = WarningLedger()
        #: A name stays what it is over all listings.
        self._names = ToolTable()
        self._number = 0

    def make(self, listing: Listing) -> Catalogue:
        """The catalogue of a listing."""
        if listing.dropped:
            _logger.warning("%s: %d entries of its list are no tools", self._source, listing.dropped)
        self._number += 1
        return Catalogue(tuple(map(self._tool, listing.tools)), self._number)

    def _tool(self, definition: dict[str, object]) -> McpTool:
        tool = str(definition["name"])
        name = tool if self._prefix is None else self._names.add(self._prefix, definition).name
        return McpTool(
            name=name,
            source=self._source,
            tool=tool,
            definition=definition,
            checks=ToolChecks(self._source, definition, self._validator),
            extras=read_extras(self._source, definition, self._ledger),
            _call=self._call,
        )
