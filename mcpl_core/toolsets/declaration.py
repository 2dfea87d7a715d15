"""A toolset as an application declares it: an object of facts, or a class whose objects are the instances.

Owns: ``Toolset``, what an instance offers, reading a class, and the checks at construction. Does not own: the tools
outside of toolsets, and what is open (``principal``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from ..errors import LocalProtocolError, UnencodableError
from ..server import ServerTool
from ..server.schemas import ResultSchema
from ..wire.values import encode_value
from .context import InstanceContext

__all__ = ("Instance", "InstanceLoader", "InstanceOpener", "Toolset", "read_toolset")

#: ``open(ctx, options)``: makes one instance, an object with what ``Instance`` says; sync or async.
InstanceOpener: TypeAlias = Callable[[InstanceContext, dict[str, Any]], Any]
#: ``load(ctx, text)``: makes an instance again from what its ``dump()`` returned; sync or async.
InstanceLoader: TypeAlias = Callable[[InstanceContext, str], Any]

#: The attributes of a class that are facts of its toolset.
_FACTS = ("title", "summary", "default", "instances", "tools", "options")


@runtime_checkable
class Instance(Protocol):
    """What ``open`` returns. Each of the methods may be a coroutine function or a plain one; all but ``call`` may be
    left out. ``call`` and ``close`` as plain functions run in a worker thread; the others, and ``title`` where it is a
    function, are asked in the event loop: plain ones must not wait, and coroutine functions are given up after
    ``Settings.grace``.

    ``title``: what people call it; left out, the toolset's.
    ``visible()``: the names of the tools that may be called now; left out, all of them. It is asked after each call,
    after each event of the instance, and when ``ctx.changed()`` says so.
    ``content()``: how it stands, for the model: a text, a content block, or a list of both; left out, nothing.
    ``close()``: it is over; left out, nothing is to be done.
    ``dump()``: a text from which the toolset's ``load`` makes it again, for servers with a store.
    """

    def call(self, tool: str, args: dict[str, Any], /) -> Any:
        """A tool is called; returns what any tool may return. ``ToolError`` is an error that the model reads.

        A tool that was not visible when that was asked last is not called; but calls may come at once, and the second
        may find another state than it was sent to."""


@dataclass(frozen=True, kw_only=True)
class Toolset:
    """Tools that come and go together.

    Attributes:
        title, summary: for people and for the model.
        tools: MCP tool definitions (``name``, and optionally ``description``, ``inputSchema``, ...), in a fixed order.
        open: see ``InstanceOpener``.
        default: ``"open"``: it is opened, with no options, when a principal connects first.
        instances: each ``toolsets/open`` makes another instance; otherwise there is one, or none.
        options: JSON Schema of the options of ``open``, of an object; ``None``: it takes none.
        load: see ``InstanceLoader``; with it, instances that have ``dump()`` outlive the server's process.

    Raises:
        LocalProtocolError: a member is not what it must be, or a default-open toolset has instances.
    """

    title: str
    summary: str
    tools: Sequence[Mapping[str, Any]]
    open: InstanceOpener
    default: Literal["open", "closed"] = "closed"
    instances: bool = False
    options: Mapping[str, Any] | None = None
    load: InstanceLoader | None = None

    def __post_init__(self) -> None:
        checks = {
            "title and summary are texts": isinstance(self.title, str) and isinstance(self.summary, str),
            "default is open or closed": self.default in ("open", "closed"),
            "instances is true or false": isinstance(self.instances, bool),
            "a toolset with instances is closed by default": not (self.instances and self.default == "open"),
            "tools are MCP tool definitions": _are_definitions(self.tools),
            "options are a JSON Schema of an object": _is_options(self.options),
            "open is a function": callable(self.open) and (self.load is None or callable(self.load)),
        }
        for rule, holds in checks.items():
            if not holds:
                raise LocalProtocolError(f"toolset {self.title!r:.80}: {rule}")
        _ = self.server_tools

    @cached_property
    def server_tools(self) -> dict[str, ServerTool]:
        """Its tools, checked, by name, in order."""
        tools: dict[str, ServerTool] = {}
        for definition in self.tools:
            tool = _server_tool(definition)
            if tools.setdefault(tool.name, tool) is not tool:
                raise LocalProtocolError(f"tool {tool.name} is there twice")
        return tools

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its tools, in order."""
        return tuple(self.server_tools)


def read_toolset(declared: Any) -> Toolset:
    """A declaration, or the class that stands for one.

    A class has the facts as attributes (``title``, ``tools``, and the others where they differ from ``Toolset``'s
    defaults; ``summary`` left out is the first paragraph of its docstring). It is opened by its ``open(ctx, options)``,
    a class method or static method, or, without one, by being called with these two; ``load`` is a class method or
    static method.

    Raises:
        LocalProtocolError: it is neither, or lacks something.
    """
    if isinstance(declared, Toolset):
        return declared
    if not isinstance(declared, type):
        raise LocalProtocolError(f"{declared!r:.80} is neither a Toolset nor a class")
    facts = {name: getattr(declared, name) for name in _FACTS if hasattr(declared, name)}
    facts.setdefault("summary", (inspect.getdoc(declared) or "").partition("\n\n")[0])
    missing = [name for name in ("title", "tools") if name not in facts]
    if not hasattr(declared, "open") and not hasattr(declared, "call"):
        # It is its own instances, and they could not be called.
        missing.append("call")
    if missing:
        raise LocalProtocolError(f"class {declared.__name__} has no {' and no '.join(missing)}")
    return Toolset(**facts, open=getattr(declared, "open", declared), load=getattr(declared, "load", None))


def _are_definitions(tools: Any) -> bool:
    return isinstance(tools, list | tuple) and bool(tools) and all(isinstance(tool, Mapping) for tool in tools)


def _is_options(schema: Any) -> bool:
    if schema is None:
        return True
    try:
        return isinstance(schema, Mapping) and encode_value(dict(schema))[:1] == b"{"
    except UnencodableError:
        return False


def _server_tool(definition: Mapping[str, Any]) -> ServerTool:
    """A tool as the server runtime knows it; what it calls is put in its place for each call."""
    known = {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"}
    unknown = sorted(set(definition) - known)
    if unknown:
        raise LocalProtocolError(f"tool {definition.get('name')!r:.80}: no such member: {', '.join(map(str, unknown))}")
    output = definition.get("outputSchema")
    return ServerTool(
        name=definition.get("name"),  # type: ignore[arg-type] # which ServerTool checks
        function=_not_callable,
        input_schema=definition.get("inputSchema", {"type": "object"}),
        promised=ResultSchema(output),
        description=definition.get("description"),
        title=definition.get("title"),
        annotations=definition.get("annotations"),
        meta=definition.get("_meta"),
    )


def _not_callable() -> None:
    raise NotImplementedError
