"""MCP's tools, with the ``state`` members of SPEC 8.

Owns: ``tools/list``, ``tools/call`` and ``notifications/tools/list_changed`` as MCPL peers use them. Does not
own: schemas and their checking, and the other products of MCP.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from ..content import HasContent
from ..errors import InvalidValueError
from .base import EmptyParams, WireMessage, read_item, read_items
from .state import StateRecord

__all__ = (
    "Tool",
    "ToolsCallParams",
    "ToolsCallResult",
    "ToolsListChangedParams",
    "ToolsListParams",
    "ToolsListResult",
)


class Tool(WireMessage, frozen=True, kw_only=True):
    """A tool definition (MCP). A host that passes tools on passes on the JSON tree, not this view of it."""

    name: str
    input_schema: dict[str, Any]
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    output_schema: dict[str, Any] | UnsetType = UNSET
    annotations: Any = UNSET


class ToolsListParams(WireMessage, frozen=True, kw_only=True):
    """Ask for tools. ``cursor`` is what the page before said; an empty string is a cursor too."""

    cursor: str | None | UnsetType = UNSET


class ToolsListResult(WireMessage, frozen=True, kw_only=True):
    """A page of tools.

    Attributes:
        tools: as received; ``read_tools`` reads them one by one.
        next_cursor: null or absent on the last page.
    """

    tools: list[Any]
    next_cursor: str | None | UnsetType = UNSET

    def read_tools(self) -> list[Tool | InvalidValueError]:
        """Each tool, or what is wrong with it, in order."""
        return read_items(self.tools, Tool, "$.tools")


class ToolsCallParams(WireMessage, frozen=True, kw_only=True):
    """Call a tool.

    Attributes:
        state: the state that the host keeps for the tool, any JSON (SPEC 8.4).
        checkpoint: or the name of a state that the server keeps.
    """

    name: str
    arguments: dict[str, Any] | UnsetType = UNSET
    state: Any = UNSET
    checkpoint: str | UnsetType = UNSET


class ToolsCallResult(HasContent, WireMessage, frozen=True, kw_only=True):
    """What a tool answered.

    Attributes:
        content: blocks in MCP's shapes, as received.
        structured_content: the same as JSON, where the tool has an output schema.
        is_error: the tool failed, and ``content`` says how.
        state: as received, since a plain MCP server may mean something else by it; ``read_state`` reads it.
    """

    content: list[Any] = []
    structured_content: Any = UNSET
    is_error: bool = False
    state: Any = UNSET

    def read_state(self) -> StateRecord | InvalidValueError | UnsetType:
        """The state record (SPEC 8.2), what is wrong with it, or ``UNSET`` when there is none."""
        return UNSET if self.state is UNSET else read_item(self.state, StateRecord, "$.state")


class ToolsListChangedParams(EmptyParams, frozen=True, kw_only=True):
    """``notifications/tools/list_changed`` says nothing more."""
