"""What a host knows of the toolsets of one server, at one connection (SPEC_NOTES R-toolsets-1).

Owns: full statements and changes put together, in the order of the wire, and finding that a change was lost. Does not
own: asking for a statement (``host``), and the shapes (``wire``). Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from msgspec import UNSET

from ..content import ContentBlock, parse_content
from ..errors import InvalidValueError
from ..protocol import (
    CarriedEvent,
    EndedInstance,
    HintChange,
    ToolsCallResult,
    ToolsetsListResult,
    ToolsetsOpenResult,
)
from ..protocol import Toolset as ToolsetStatement
from ..protocol import ToolsetInstance as InstanceStatement
from .wire import read_events

__all__ = (
    "MOST_INSTANCES",
    "Applied",
    "EndedRecords",
    "HostView",
    "InstanceView",
    "ToolsetView",
    "VisibleTool",
    "carried_events",
)

#: Open instances of one toolset that are kept. Only changes can make more than a message holds.
MOST_INSTANCES: Final = 10_000


@dataclass(slots=True, kw_only=True)
class InstanceView:
    """One open instance.

    Attributes:
        id: how it is addressed.
        title: for people; its id until the server said more.
        visible: the tools that may be called on it now.
        content: what it shows of itself, as of the last full statement or of its opening.
        opened_at: RFC 3339, empty until the server said so.
    """

    id: str
    title: str
    visible: tuple[str, ...]
    content: list[ContentBlock] = field(default_factory=list)
    opened_at: str = ""


@dataclass(slots=True, kw_only=True)
class ToolsetView:
    """One toolset.

    Attributes:
        name, title, summary: what it is.
        default: how it stands before anybody opens or closes it.
        instances: whether it is opened as instances, each on its own.
        tools: all its tools, in their order.
        open: whether it, or an instance of it, is open.
        visible: the tools that may be called now, on whatever instance, in their order.
        options_schema: JSON Schema of the options of opening it; ``None``: it takes none that are described.
        open_instances: by id; empty for a toolset without instances.
    """

    name: str
    title: str
    summary: str
    default: Literal["open", "closed"]
    instances: bool
    tools: tuple[str, ...]
    open: bool
    visible: tuple[str, ...]
    options_schema: dict[str, Any] | None = None
    open_instances: dict[str, InstanceView] = field(default_factory=dict)
    #: Tool -> how many instances show it: what follows from many must not be worked out from all of them each time.
    _shown: Counter[str] = field(default_factory=Counter, repr=False)

    def put(self, id: str, instance: InstanceView | None) -> None:
        """This stands there from now on; ``None``: nothing. ``settle`` makes the whole follow."""
        self.show(id, ())
        if instance is None:
            self.open_instances.pop(id, None)
        else:
            visible, instance.visible = instance.visible, ()
            self.open_instances[id] = instance
            self.show(id, visible)

    def show(self, id: str, visible: tuple[str, ...]) -> None:
        """An instance, if it is there, shows these from now on."""
        if (instance := self.open_instances.get(id)) is not None:
            self._shown.subtract(instance.visible)
            self._shown.update(visible)
            instance.visible = visible

    def own(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of its tools that are named, in their order."""
        named = set(names)
        return tuple(tool for tool in self.tools if tool in named)

    def settle(self) -> None:
        """Makes the whole follow from its instances."""
        if self.instances:
            self.open = bool(self.open_instances)
            self.visible = tuple(tool for tool in self.tools if self._shown[tool] > 0)


class VisibleTool(NamedTuple):
    """A dynamic tool that may be called now.

    Attributes:
        toolset: the toolset it belongs to.
        tool: its name there.
        instances: the instances that show it, in the order of their opening; empty for a toolset without instances.
    """

    toolset: str
    tool: str
    instances: tuple[str, ...]


class Applied(NamedTuple):
    """What changes led to.

    Attributes:
        changed: the view is another one.
        lost: a change before them did not arrive: a full statement is needed.
        problems: codes of what was wrong with them.
    """

    changed: bool
    lost: bool
    problems: tuple[str, ...] = ()


class HostView:
    """See the module.

    Attributes:
        rev: of the last change that was seen, or that a full statement contains; 0 at first.
        known: a full statement came.
        toolsets: by name, in the server's order.
    """

    def __init__(self) -> None:
        self.rev = 0
        self.known = False
        self.toolsets: dict[str, ToolsetView] = {}

    def visible(self) -> list[VisibleTool]:
        """The dynamic tools that may be called now, in the server's order."""
        return [
            VisibleTool(
                toolset.name,
                tool,
                tuple(each.id for each in toolset.open_instances.values() if tool in each.visible),
            )
            for toolset in self.toolsets.values()
            for tool in toolset.visible
        ]

    def apply(self, changes: Sequence[HintChange | InvalidValueError]) -> Applied:
        """Takes changes as they come from the wire. Each is applied, also behind a lost one: it states all there is to
        say of its toolset. One that was there already, or is older, is not."""
        changed = lost = False
        problems: list[str] = []
        touched: dict[str, ToolsetView] = {}
        for change in changes:
            if isinstance(change, InvalidValueError):
                # Its number is not known, so the next one will not follow the last.
                problems.append("invalid_hint")
                lost = True
            elif change.rev <= self.rev:
                problems.append("old_hint")
            else:
                lost = lost or change.rev != self.rev + 1
                self.rev = change.rev
                changed = self._set(change, touched, problems) or changed
        # Once: of many changes each would go through all instances.
        for toolset in touched.values():
            toolset.settle()
        return Applied(changed, lost, tuple(problems))

    def state(self, statement: ToolsetsListResult) -> Applied:
        """Takes a full statement. It stands in the place of all that came before."""
        problems: list[str] = []
        if statement.rev < self.rev:
            problems.append("old_statement")
        before = self.toolsets
        self.toolsets = {toolset.name: _toolset(toolset) for toolset in statement.toolsets}
        self.rev = statement.rev
        first, self.known = not self.known, True
        return Applied(first or self.toolsets != before, False, tuple(problems))

    def opened(self, result: ToolsetsOpenResult) -> bool:
        """Takes what the result of an opening says beside its changes; whether anything is new."""
        toolset = self.toolsets.get(result.toolset)
        if toolset is None or not toolset.instances or not isinstance(result.instance, str):
            return False
        instance = toolset.open_instances.get(result.instance)
        if instance is None:
            if len(toolset.open_instances) >= MOST_INSTANCES:
                return False
            instance = InstanceView(id=result.instance, title=result.instance, visible=toolset.own(result.visible))
            toolset.put(result.instance, instance)
        instance.title = instance.title if result.title is UNSET else result.title
        instance.content = parse_content(result.content)
        toolset.settle()
        return True

    def _set(self, change: HintChange, touched: dict[str, ToolsetView], problems: list[str]) -> bool:
        toolset = self.toolsets.get(change.toolset)
        if toolset is None:
            # Before the first statement all are unknown, and it will tell of them.
            problems += ["unknown_toolset"] if self.known else []
            return False
        visible = toolset.own(change.visible) if change.open else ()
        if not isinstance(change.instance, str):
            before = (toolset.open, toolset.visible)
            if not toolset.instances:
                toolset.open, toolset.visible = change.open, visible
            return before != (toolset.open, toolset.visible)
        instance = toolset.open_instances.get(change.instance)
        if not change.open:
            toolset.put(change.instance, None)
        elif instance is None:
            if len(toolset.open_instances) >= MOST_INSTANCES:
                problems.append("too_many_instances")
                return False
            toolset.put(change.instance, InstanceView(id=change.instance, title=change.instance, visible=visible))
        else:
            if instance.visible == visible:
                return False
            toolset.show(change.instance, visible)
        touched[toolset.name] = toolset
        return change.open or instance is not None


def _toolset(statement: ToolsetStatement) -> ToolsetView:
    view = ToolsetView(
        name=statement.name,
        title=statement.title,
        summary=statement.summary,
        default=statement.default,
        instances=statement.instances,
        tools=tuple(dict.fromkeys(statement.tools)),
        open=statement.open,
        visible=(),
        options_schema=statement.options_schema if isinstance(statement.options_schema, dict) else None,
    )
    view.visible = view.own(statement.visible) if statement.open else ()
    if isinstance(statement.open_instances, list):
        for each in statement.open_instances[:MOST_INSTANCES]:
            view.put(each.id, _instance(view, each))
    view.settle()
    return view


def _instance(toolset: ToolsetView, statement: InstanceStatement) -> InstanceView:
    return InstanceView(
        id=statement.id,
        title=statement.title,
        visible=toolset.own(statement.visible),
        content=parse_content(statement.content),
        opened_at=statement.opened_at,
    )


class EndedRecords:
    """Which instances were told to have ended, for one server, over all its connections."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def fresh(self, records: Iterable[EndedInstance]) -> list[EndedInstance]:
        """Those that were not told yet, in order. A server repeats each record until newer ones push it out, so what
        it no longer repeats need not be remembered."""
        listed = {record.instance: record for record in records}
        found = [record for id, record in listed.items() if id not in self._told]
        self._told = set(listed)
        return found


def carried_events(result: ToolsCallResult) -> list[CarriedEvent]:
    """The events that a call caused, which its result carries and nobody pushes. What is no event is left out."""
    read = read_events({"_meta": result.meta} if isinstance(result.meta, dict) else {})
    return [event for event in read if isinstance(event, CarriedEvent)]
