"""The tools of an application's registry as tools to serve.

Owns: reading a registry, the order and the number of what is taken from it, and running it through an executor. Does
not own: the registry, and what the executor does.

A registry entry's own facts (category, tier, cost category, entry point, role, whether it needs a GPU) order the
catalogue and reach the executor; on the wire they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...errors import InvalidValueError
from ...server.results import ToolResult
from .call import ToolCall
from .errors import ServingRefusedError
from .tools import checked_tool

__all__ = (
    "DEFAULT_MAX_TOOLS",
    "Executor",
    "ProjectedTool",
    "ToolDefinition",
    "adapt_tools",
    "project_tool_definition",
)

#: How many tools of a registry are projected.
DEFAULT_MAX_TOOLS: Final = 100

#: ``executor(definition, arguments, call)``, sync or async, gives ``{"success": True, "output": ...}`` or
#: ``{"success": False, "error": ...}``.
Executor = Callable[[Any, Any, ToolCall], Any]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A registry's entry. Any object with a ``name`` will do; of the other attributes it may have some.

    Attributes:
        name, description, input_schema: for the wire.
        category, tier, cost_category, requires_gpu, role, details: for the executor alone.
        entry_point: for the executor, and the catalogue's order: ``True`` and texts come before the others.
    """

    name: str
    description: str | None = None
    input_schema: Mapping[str, Any] | None = None
    category: str | None = None
    tier: Any = None
    cost_category: str | None = None
    requires_gpu: bool = False
    entry_point: Any = None
    role: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class ProjectedTool:
    """One entry of a registry, to serve.

    Args:
        definition: the entry; it stays as it is, and the executor gets it.
        executor: runs it; ``None``: it is listed, and every call says that there is none.
        runtime: where the entry is from, for ``ToolCall.runtime``.
    """

    def __init__(self, definition: Any, executor: Executor | None, runtime: Any = None) -> None:
        self.definition = definition
        self.name: str = definition.name
        self.description: str | None = getattr(definition, "description", None)
        self.input_schema: Mapping[str, Any] | None = getattr(definition, "input_schema", None)
        self.execute: Callable[[Any, Any], Any] = self._execute
        self._executor = executor
        self._runtime = runtime

    async def _execute(self, arguments: Any, call: Any) -> Any:
        if self._executor is None:
            return _failure({"code": "no-executor", "message": f"no executor is configured to run {self.name}"})
        call.runtime = self._runtime
        outcome = await call.run(self._executor, self.definition, arguments, call)
        if not isinstance(outcome, Mapping) or not isinstance(outcome.get("success"), bool):
            raise TypeError("the executor gave neither success nor failure")
        return outcome.get("output") if outcome["success"] else _failure(outcome.get("error"))


def project_tool_definition(definition: Any) -> ProjectedTool:
    """One entry, listed like any other, whose calls say that nobody runs them.

    Raises:
        ServingRefusedError: it cannot be told to a client.
    """
    return _projected(definition, None, None)


def adapt_tools(
    runtime: Any, executor: Executor | None = None, max_tools: int = DEFAULT_MAX_TOOLS
) -> dict[str, ProjectedTool]:
    """The tools of ``runtime`` by name, in an order that depends on the entries alone.

    Args:
        runtime: anything with ``tools``: a mapping, a list, or a registry with ``list_tools()``. Without: no tools.
        executor: runs all of them.
        max_tools: the first so many are taken.

    Raises:
        ServingRefusedError: an entry cannot be told to a client, or two have one name.
        InvalidValueError: ``max_tools`` is no number of tools.
    """
    if not isinstance(max_tools, int) or max_tools < 0:
        raise InvalidValueError("max_tools", "a whole number is wanted, not below zero")
    definitions = sorted(_definitions(runtime), key=_rank)
    found: dict[str, ProjectedTool] = {}
    for definition in definitions[:max_tools]:
        tool = _projected(definition, executor, runtime)
        if tool.name in found:
            raise ServingRefusedError("duplicate-name", (tool.name,), "two tools of the registry have one name")
        found[tool.name] = tool
    return found


def _definitions(runtime: Any) -> list[Any]:
    registry = getattr(runtime, "tools", None)
    if registry is None:
        return []
    listed: Iterable[Any]
    if isinstance(registry, Mapping):
        listed = registry.values()
    else:
        listed = registry.list_tools() if hasattr(registry, "list_tools") else registry
    return list(listed)


def _rank(definition: Any) -> tuple[int, str, str]:
    entry_point, name = getattr(definition, "entry_point", None), str(getattr(definition, "name", ""))
    if entry_point is None or entry_point is False:
        return (1, "", name)
    return (0, "" if entry_point is True else str(entry_point), name)


def _projected(definition: Any, executor: Executor | None, runtime: Any) -> ProjectedTool:
    name = getattr(definition, "name", None)
    if not isinstance(name, str):
        raise ServingRefusedError("not-a-tool", (), f"a {type(definition).__name__} in the registry has no name")
    tool = ProjectedTool(definition, executor, runtime)
    checked_tool(tool)
    return tool


def _failure(error: Any) -> ToolResult:
    if isinstance(error, Mapping):
        # Without a message the text is that of the whole.
        return ToolResult(error.get("message") or (), structured={"error": dict(error)}, is_error=True)
    return ToolResult("" if error is None else str(error), is_error=True)
