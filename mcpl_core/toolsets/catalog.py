"""The tools of a server with toolsets: all of them, in one fixed order (SPEC_NOTES R-toolsets-2).

Owns: which tool belongs where, the full list, and checking arguments. Pure. Does not own: which tools outside of
toolsets there are (``McplServer``), and what is visible (``presence``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..errors import LocalProtocolError
from ..schemas import Checker
from ..server import ServerTool
from ..wire.values import encode_value
from .checking import Validate, checked_object, checker_of
from .declaration import Toolset, read_toolset
from .instances import DeclaredToolset
from .principal import Principal
from .wire import FALLBACK_TOOLS, fallback_definitions, is_toolset_name, listed_tool

__all__ = ("Catalog",)


class Catalog:
    """What is declared.

    Args:
        toolsets: by name; ``Toolset`` or classes.
        run: what a tool of a toolset calls, with the context and the arguments.
        validate: the hook; ``None``: ``SchemaValidator``.

    Attributes:
        toolsets: as declared, by name, in order.
        tools: the tools of all toolsets, by name, in order.
        fallback: the tools for hosts without hints.

    Raises:
        LocalProtocolError: a name is none, or is taken.
        SchemaError: a schema cannot be used.
    """

    def __init__(self, toolsets: Mapping[str, Any], run: Any, validate: Validate | None) -> None:
        self._validate = validate
        self._checkers: dict[str, Checker] = {}
        self._toolset_of: dict[str, str] = {}
        self.toolsets: dict[str, DeclaredToolset] = {}
        self.tools: dict[str, ServerTool] = {}
        for name, declared in toolsets.items():
            self._add(name, declared, run)
        with_instances = [name for name, toolset in self.toolsets.items() if toolset.facts.instances]
        self.fallback: dict[str, ServerTool] = {}
        described = {name: _description(toolset.facts) for name, toolset in self.toolsets.items()}
        for definition in fallback_definitions(described, with_instances):
            tool = ServerTool(definition["name"], run, definition["inputSchema"], description=definition["description"])
            self.fallback[tool.name] = tool
            self._checkers[tool.name] = checker_of(tool.input_schema, validate)

    def _add(self, name: Any, declared: Any, run: Any) -> None:
        if not is_toolset_name(name):
            raise LocalProtocolError(f"{name!r:.80} is no name for a toolset: 1 to 40 of A-Z a-z 0-9 . _ : -")
        facts = read_toolset(declared)
        options = None if facts.options is None else checker_of(dict(facts.options), self._validate)
        self.toolsets[name] = DeclaredToolset(name, facts, options)
        for tool in facts.server_tools.values():
            self.require_free(tool.name)
            self._toolset_of[tool.name] = name
            self._checkers[tool.name] = checker_of(tool.input_schema, self._validate)
            # The context says which instance is meant, the tool's name which of its tools.
            self.tools[tool.name] = replace(tool, function=run, context="ctx", whole="args")

    def require_free(self, name: str) -> None:
        """A tool is to have this name.

        Raises:
            LocalProtocolError: it is taken, or kept for the tools for hosts without hints.
        """
        if name in self._toolset_of or name in FALLBACK_TOOLS:
            raise LocalProtocolError(f"tool {name}: the name is taken")

    def checker(self, tool: ServerTool) -> Checker:
        """What checks the arguments of a tool that is about to be declared outside of toolsets; see ``learn``.

        Raises:
            LocalProtocolError: see ``require_free``.
            SchemaError: its schema cannot be used.
        """
        self.require_free(tool.name)
        return checker_of(tool.input_schema, self._validate)

    def learn(self, name: str, checker: Checker) -> None:
        """A tool outside of toolsets was declared."""
        self._checkers[name] = checker

    def toolset_of(self, tool: str) -> DeclaredToolset | None:
        """The toolset that a tool belongs to."""
        name = self._toolset_of.get(tool)
        return None if name is None else self.toolsets[name]

    def arguments(self, tool: ServerTool, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with defaults filled in.

        Raises:
            InvalidValueError: they do not fit; ``path`` says where.
        """
        return checked_object(self._checkers[tool.name], arguments)

    def list_tools(self, own: Iterable[ServerTool], principal: Principal, fallback: bool) -> list[dict[str, Any]]:
        """All tools, with what is visible for this principal now.

        Args:
            own: the tools outside of toolsets, in order.
            fallback: with the tools for hosts without hints.
        """
        shown: dict[str, set[str]] = {}
        for (toolset, _), visible in principal.presence:
            shown.setdefault(toolset, set()).update(visible)
        static = [listed_tool(tool.definition(), "static", True) for tool in own]
        dynamic = [
            listed_tool(tool.definition(), "dynamic", name in shown.get(toolset, ()), toolset)
            for name, tool in self.tools.items()
            for toolset in (self._toolset_of[name],)
        ]
        added = [listed_tool(tool.definition(), "static", True) for tool in self.fallback.values()] if fallback else []
        return static + dynamic + added


def _description(facts: Toolset) -> str:
    """What a toolset is, and what it asks for, on one line."""
    options = "" if facts.options is None else f" Options: {encode_value(dict(facts.options)).decode()}"
    return f"{facts.title}. {facts.summary}{options}"
