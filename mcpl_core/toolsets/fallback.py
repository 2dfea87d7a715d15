"""The tools with which a host without hints works toolsets (SPEC_NOTES R-toolsets-6).

Owns: what they answer. Does not own: their definitions (``wire``), and opening and closing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec import Raw

from ..content import ContentBlock
from ..server import ToolResult
from ..server.results import error_result, tool_result
from ..server.schemas import ResultSchema
from .catalog import Catalog
from .instances import DeclaredToolset, Opened
from .link import Link
from .principal import OpenInstance
from .runtime import Call, Runtime
from .targets import find_target, usable

__all__ = ("Fallback",)

_Open: TypeAlias = Callable[[Call, str, dict[str, Any] | None], Awaitable[Opened]]
_Close: TypeAlias = Callable[[Call, DeclaredToolset, str | None], Awaitable[bool]]


class Fallback:
    """These tools, for all connections.

    Args:
        runtime: all principals.
        catalog: all toolsets.
    """

    def __init__(self, runtime: Runtime, catalog: Catalog) -> None:
        self._runtime = runtime
        self._catalog = catalog

    async def use(self, name: str, call: Call, arguments: dict[str, Any], open: _Open, close: _Close) -> Raw:
        """Calls one.

        Args:
            name: which.
            call: the call that it is.
            arguments: checked against its schema.
            open, close: what opens and closes for a call.

        Raises:
            RpcError: in words for the model.
        """
        link = call.link
        if name == "toolset_open":
            opened = await open(call, arguments["toolset"], arguments.get("options"))
            return self._show(link, *opened)
        toolset = self._runtime.instances.declared(arguments["toolset"])
        instance = arguments.get("instance")
        if name == "toolset_close":
            return await self._close(call, toolset, instance, close)
        target = find_target(link.principal, toolset.name, toolset.facts.instances, instance, {})
        if not isinstance(target, OpenInstance):
            return error_result(target.text)
        link.chosen[toolset.name] = str(target.key[1])
        return self._show(link, target, await self._runtime.instances.questions.content(target.body))

    async def _close(self, call: Call, toolset: DeclaredToolset, instance: str | None, close: _Close) -> Raw:
        link = call.link
        target = find_target(link.principal, toolset.name, toolset.facts.instances, instance, link.chosen)
        if not isinstance(target, OpenInstance):
            return error_result(target.text)
        await close(call, toolset, target.key[1])
        shown = {
            tool
            for opened in link.principal.instances(toolset.name)
            for tool in link.principal.presence.get(opened.key) or ()
        }
        names = [tool for tool in toolset.facts.names if tool in shown]
        return _result([f"{_called(target)} is closed.", f"{toolset.name}: {usable(names)}"])

    def _show(self, link: Link, opened: OpenInstance, content: list[ContentBlock]) -> Raw:
        visible = link.principal.presence.get(opened.key) or ()
        return _result([*content, f"{_called(opened)}: {usable(visible)}"])


def _called(opened: OpenInstance) -> str:
    toolset, instance = opened.key
    return toolset if instance is None else instance


def _result(content: list[Any]) -> Raw:
    return tool_result(ResultSchema(), ToolResult(content))
