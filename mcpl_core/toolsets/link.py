"""One connection of a principal (SPEC_NOTES R-toolsets-2).

Owns: what is the connection's and not the principal's: the host's view, the events on their way to it, the instances
that it chose, and what it may be sent now. Does not own: sending (``delivery``).
"""

from __future__ import annotations

from collections import deque

import anyio

from ..connection import McplConnection
from ..protocol import method
from ..server import Context
from .events import ToolsetEvent
from .presence import View
from .principal import Principal
from .wire import understands_toolsets

__all__ = ("FeatureSetNames", "Link")


class FeatureSetNames:
    """The feature sets of a server with toolsets.

    Args:
        server: its name.

    Attributes:
        tools: of its tools and toolsets.
        events: of its events.
    """

    def __init__(self, server: str) -> None:
        self.tools = f"{server}.tools"
        self.events = f"{server}.events"


class Link:
    """A connection that is served.

    Args:
        principal: who is at the other end.
        connection: the connection.
        names: the server's feature sets.

    Attributes:
        queue: events to push, oldest first; the first may be under way.
        chosen: toolset -> the instance that calls without one are for.
        opening: what requests of this connection are opening: toolsets, with the ids that they propose.
        grants: counts the policies of this connection that took something away.
        ready_order: when it became ready, counted over all connections; ``None``: it is not.
        gone: the connection ended.
    """

    def __init__(self, principal: Principal, connection: McplConnection, names: FeatureSetNames) -> None:
        self.principal = principal
        self.connection = connection
        self.names = names
        self.queue: deque[ToolsetEvent] = deque()
        self.chosen: dict[str, str] = {}
        self.opening: list[tuple[str, str | None]] = []
        self.grants = 0
        self.ready_order: int | None = None
        self.gone = False
        self.news = anyio.Event()
        #: Set when one of ``opening`` is done.
        self.opened = anyio.Event()
        self._view: View | None = None
        self._context: Context | None = None

    def see(self, context: Context) -> None:
        """What is known of the host now."""
        self._context = context
        if self._view is None and context.mcpl and understands_toolsets(context.advertised):
            self._view = self.principal.presence.attach(self.wake)

    @property
    def calls(self) -> Context:
        """What the host can be asked with."""
        assert self._context is not None
        return self._context

    @property
    def mcpl(self) -> bool:
        """The host decides by a grant."""
        return self._context is not None and self._context.mcpl and not self._context.policy.refused

    @property
    def view(self) -> View | None:
        """What a host that understands hints was told; ``None`` for any other."""
        return self._view if self.mcpl else None

    def may_take_events(self) -> bool:
        """See ``Taker``."""
        if self._context is None or self.gone or not self.mcpl:
            return False
        return self._context.policy.denial(self._context.methods[method.PUSH_EVENT], self.names.events) is None

    def may_hint(self) -> View | None:
        """The view, when changes may be told on it now."""
        view = self.view
        if view is None or self._context is None or not view.based:
            return None
        entry = self._context.methods[method.TOOLSETS_CHANGED]
        return view if self._context.policy.denial(entry, self.names.tools) is None else None

    def is_opening(self, toolset: str, named: str | None) -> bool:
        """Whether a request of this connection is about to open the toolset, or this very instance of it."""
        return any(name == toolset and named in (None, id) for name, id in self.opening)

    def wake(self) -> None:
        """There may be something to send."""
        self.news.set()

    def end(self) -> None:
        """The connection ended."""
        self.gone = True
        if self._view is not None:
            self.principal.presence.detach(self._view)
        self.principal.events.leave(self)
