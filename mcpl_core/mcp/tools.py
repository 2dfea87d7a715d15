"""A tool of an MCP server as a local one.

Owns: what is read of its definition, and calling it as an object. Does not own: the call (``client``), and the checks
that it carries (``checks``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from .checks import ToolChecks
from .extras import ToolExtras

__all__ = ("McpTool", "TaskSupport", "ToolCaller")

TaskSupport = Literal["forbidden", "optional", "required"]
#: Calls a tool: the tool, its arguments, and options of ``McpClient.call``.
ToolCaller: TypeAlias = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class McpTool:
    """A tool as it was listed at one moment. It keeps the checks of that listing for life, whatever is listed later.
    ``await tool({"a": 1})`` calls it.

    Attributes:
        name: what to call it by here, and to show to a model.
        source: the name of its client.
        tool: its name at the server.
        definition: the definition, as received; members that are not known are kept, and trusted in nothing.
        extras: what the server declares in ``_meta``.
        checks: see ``ToolChecks``.
    """

    name: str
    source: str
    tool: str
    definition: dict[str, Any]
    checks: ToolChecks = field(repr=False)
    extras: ToolExtras = field(default_factory=ToolExtras, repr=False)
    _call: ToolCaller | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<McpTool {self.name} of {self.source}>"

    @property
    def description(self) -> str:
        """For the model; empty when the server says nothing."""
        text = self.definition.get("description")
        return text if isinstance(text, str) else ""

    @property
    def title(self) -> str | None:
        """For people."""
        text = self.definition.get("title")
        return text if isinstance(text, str) else None

    @property
    def input_schema(self) -> dict[str, Any]:
        """The schema of its arguments, as received; that of any object when there is none."""
        schema = self.definition.get("inputSchema")
        return schema if isinstance(schema, dict) else {"type": "object"}

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The schema of its results, as received."""
        schema = self.definition.get("outputSchema")
        return schema if isinstance(schema, dict) else None

    @property
    def annotations(self) -> dict[str, Any]:
        """The server's hints, as received. They decide nothing."""
        hints = self.definition.get("annotations")
        return hints if isinstance(hints, dict) else {}

    @property
    def meta(self) -> dict[str, Any]:
        """``_meta``, as received."""
        meta = self.definition.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def task_support(self) -> TaskSupport:
        """How it stands with tasks; ``forbidden`` unless the server says otherwise."""
        execution = self.definition.get("execution")
        support = execution.get("taskSupport") if isinstance(execution, dict) else None
        return cast(TaskSupport, support) if support in ("optional", "required") else "forbidden"

    async def __call__(self, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Calls it, through the client that listed it; arguments and errors as ``McpClient.call``."""
        assert self._call is not None
        return await self._call(self, arguments, **options)
