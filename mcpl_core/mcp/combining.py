"""The tools of several clients under one roof, with names that are unique and that models accept.

Owns: the names, and the way back from a name to its client and tool, which is a table and no splitting. Does not own:
the clients; they are opened and closed by whoever made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import anyio

from ..errors import InvalidValueError
from ..host.tools import ToolTable
from .client import McpClient
from .results import McpAnswer
from .tools import McpTool

__all__ = ("McpTools",)


class McpTools:
    """The tools of several clients, named ``<prefix>__<tool>``; cut and marked with a hash where that is too long, has
    characters that models do not accept, or is another tool's already.

    Args:
        clients: prefix -> client, in the order in which their tools are listed.

    Raises:
        InvalidValueError: a prefix is empty.
    """

    def __init__(self, clients: Mapping[str, McpClient]) -> None:
        if not all(isinstance(prefix, str) and prefix for prefix in clients):
            raise InvalidValueError("prefix", "a prefix is a text", "$.clients")
        self._clients = dict(clients)
        self._table = ToolTable()
        self._tools: dict[str, McpTool] = {}
        self._failures: dict[str, Exception] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._clients)

    @property
    def failures(self) -> Mapping[str, Exception]:
        """Prefix -> why a client's tools were not listed the last time."""
        return MappingProxyType(self._failures)

    async def tools(self, *, refresh: bool = False) -> list[McpTool]:
        """The tools of all clients. Those of a client that cannot list are left out, and ``failures`` says why.

        Args:
            refresh: whether they are all listed anew.
        """
        lists: dict[str, list[McpTool]] = {}
        failures: dict[str, Exception] = {}

        async def ask(prefix: str, client: McpClient) -> None:
            try:
                lists[prefix] = await (client.refresh() if refresh else client.tools())
            except Exception as exc:
                # Of a connection of the caller's own it may be any. It costs the other clients nothing.
                failures[prefix] = exc

        async with anyio.create_task_group() as tasks:
            for prefix, client in self._clients.items():
                tasks.start_soon(ask, prefix, client)
        found = [self._named(prefix, tool) for prefix in self._clients for tool in lists.get(prefix, ())]
        self._tools = {tool.name: tool for tool in found}
        self._failures = failures
        return found

    def _named(self, prefix: str, tool: McpTool) -> McpTool:
        return replace(tool, name=self._table.add(prefix, {"name": tool.tool}).name)

    def origin(self, name: str) -> tuple[str, str]:
        """Prefix and tool behind a name that ``tools`` gave.

        Raises:
            InvalidValueError: it gave none such (``unknown_tool``).
        """
        return self._table.find(name)

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> str | dict[str, Any]:
        """Calls a tool by the name that ``tools`` gave it; everything else as ``McpClient.call``."""
        return (await self.answer(name, arguments, **options)).value

    async def answer(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> McpAnswer:
        """As ``call``, with the whole result; see ``McpClient.answer``."""
        if not self._tools:
            await self.tools()
        prefix, _ = self.origin(name)
        tool = self._tools.get(name)
        if tool is None:
            raise InvalidValueError("unknown_tool", f"no tool is listed as {name[:80]!r}")
        return await self._clients[prefix].answer(tool, arguments, **options)
