"""What is served, by kind: tools, resources, prompts.

Owns: the registration of the three, and that the last one of a name wins within its kind. Does not own: projecting the
tools of a registry (``projection``), and answering requests (``answers``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import unquote

from ...errors import LocalProtocolError
from .functions import function_tool
from .tools import ServableTool, checked_tool

__all__ = ("Capability", "McpRuntime", "Offer", "Prompt", "PromptArgument", "Resource", "as_tool", "create_mcp_runtime")

#: A variable of a URI template (RFC 6570, level 1).
_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Resource:
    """Something to read.

    Attributes:
        name: its name; unique among resources.
        uri: where it is; with variables in braces (``notes://{id}``) it is a template, each variable a path segment.
        read: ``read(uri, variables)``, sync or async: a text, bytes, or a list of MCP's contents.
        mime_type, title, description: as in MCP.
    """

    name: str
    uri: str
    read: Callable[[str, dict[str, str]], Any]
    mime_type: str | None = None
    title: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        names = _VARIABLE.findall(self.uri)
        if len(set(names)) != len(names):
            raise LocalProtocolError(f"resource {self.name}: a variable of its template stands there twice")

    @property
    def is_template(self) -> bool:
        """Whether its URI has variables."""
        return _VARIABLE.search(self.uri) is not None

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables, decoded, when it is what ``uri`` names; else ``None``. Each has at least one character, and,
        where several of them share a segment, as few as possible."""
        segments, given = self.uri.split("/"), uri.split("/")
        if len(segments) != len(given):
            return None
        found: dict[str, str] = {}
        for segment, text in zip(segments, given, strict=True):
            values = _values(_VARIABLE.split(segment), text)
            if values is None:
                return None
            found.update(values)
        return {name: unquote(value) for name, value in found.items()}

    def entry(self) -> dict[str, Any]:
        """As ``resources/list`` or ``resources/templates/list`` shows it."""
        where = {"uriTemplate" if self.is_template else "uri": self.uri}
        return {
            **where,
            "name": self.name,
            **_given(self, ("title", "title"), ("description", "description")),
        } | _given(self, ("mimeType", "mime_type"))


def _values(parts: Sequence[str], text: str) -> dict[str, str] | None:
    """Matches a text with literals and variables in turn. Never goes back, unlike a regular expression, which somebody
    could keep busy for days with a long URI."""
    first, last, names = parts[0], parts[-1], parts[1::2]
    if not names:
        return {} if text == first else None
    end = len(text) - len(last)
    if not text.startswith(first) or not text.endswith(last):
        return None
    values, at = {}, len(first)
    for name, literal in zip(names[:-1], parts[2::2], strict=False):
        found = text.find(literal, at + 1, end)
        if found < 0:
            return None
        values[name], at = text[at:found], found + len(literal)
    values[names[-1]] = text[at:end]
    return values if at < end else None


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One argument of a prompt.

    Attributes:
        name, description, required: as in MCP.
    """

    name: str
    description: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt.

    Attributes:
        name: its name; unique among prompts.
        get: ``get(arguments)``, sync or async: a text of the user, or a list of MCP's messages.
        arguments, title, description: as in MCP.
    """

    name: str
    get: Callable[[dict[str, str]], Any]
    arguments: tuple[PromptArgument, ...] = ()
    title: str | None = None
    description: str | None = None

    def entry(self) -> dict[str, Any]:
        """As ``prompts/list`` shows it."""
        shown = {"name": self.name, **_given(self, ("title", "title"), ("description", "description"))}
        if self.arguments:
            shown["arguments"] = [
                {"name": each.name, **_given(each, ("description", "description")), "required": each.required}
                for each in self.arguments
            ]
        return shown


def _given(source: Any, *members: tuple[str, str]) -> dict[str, Any]:
    values = ((member, getattr(source, attribute)) for member, attribute in members)
    return {member: value for member, value in values if value is not None}


#: What can be registered; its type says of which kind it is. A function is a tool.
Capability: TypeAlias = ServableTool | Resource | Prompt | Callable[..., Any]


class Offer(Protocol):
    """What one caller is served, by name."""

    @property
    def tools(self) -> Mapping[str, ServableTool]: ...
    @property
    def resources(self) -> Mapping[str, Resource]: ...
    @property
    def prompts(self) -> Mapping[str, Prompt]: ...


class McpRuntime:
    """The ledger of what is served. It may change while it is served: a list shows what is there when it is asked for.

    Args:
        capabilities: registered one by one.

    Raises:
        ServingRefusedError, LocalProtocolError: as ``register_capability``.
    """

    def __init__(self, *capabilities: Capability) -> None:
        self._tools: dict[str, ServableTool] = {}
        self._resources: dict[str, Resource] = {}
        self._prompts: dict[str, Prompt] = {}
        for capability in capabilities:
            self.register_capability(capability)

    @property
    def tools(self) -> Mapping[str, ServableTool]:
        """The tools by name, in the order of registration."""
        return self._tools

    @property
    def resources(self) -> Mapping[str, Resource]:
        """The resources by name, in the order of registration."""
        return self._resources

    @property
    def prompts(self) -> Mapping[str, Prompt]:
        """The prompts by name, in the order of registration."""
        return self._prompts

    def register_capability(self, capability: Capability) -> None:
        """Registers a tool, a resource or a prompt. It takes the place of one of its kind with the same name; across
        kinds a name may stand for several.

        Raises:
            ServingRefusedError: it is none of the three, or a tool that cannot be told to a client.
            LocalProtocolError: a function cannot be made a tool.
        """
        if isinstance(capability, Resource):
            self._resources[capability.name] = capability
        elif isinstance(capability, Prompt):
            self._prompts[capability.name] = capability
        else:
            tool = as_tool(capability)
            self._tools[tool.name] = tool


def as_tool(tool: Any) -> ServableTool:
    """The tool itself when it has a tool's shape; else the function as a tool.

    Raises:
        ServingRefusedError, LocalProtocolError: it is neither, or cannot be told to a client.
    """
    if callable(tool) and not hasattr(tool, "execute"):
        return checked_tool(function_tool(tool))
    return checked_tool(tool)


def create_mcp_runtime(*capabilities: Capability) -> McpRuntime:
    """A ledger, with ``capabilities`` registered in their order; otherwise as ``McpRuntime``."""
    return McpRuntime(*capabilities)
