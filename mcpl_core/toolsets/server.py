"""The server: toolsets on top of the server runtime.

Owns: the declarations, and how the parts are put together. Does not own: what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self, Unpack

import anyio
from anyio.abc import TaskStatus

from ..connection import McplConnection
from ..errors import InvalidValueError, LocalProtocolError
from ..options import ConnectionOptions
from ..protocol import method
from ..server import LOCAL_PRINCIPAL, FeatureSet, McplServer, ServerTool, tool_from_function
from .calling import CallContext, Requests
from .catalog import Catalog
from .checking import Validate
from .clock import Clock, SystemClock
from .delivery import Delivery
from .instances import Instances, InstancesSettings
from .keeping import Keeper, ToolsetStore
from .link import FeatureSetNames, Link
from .runtime import Runtime
from .wire import is_server_name

__all__ = ("DEFAULT_HELD_EVENTS", "DEFAULT_IDLE_CLOSE", "DEFAULT_OPEN_LIMIT", "ToolsetServer")

#: Seconds that what belongs to a principal stays open after its last connection.
DEFAULT_IDLE_CLOSE: Final = 24 * 3600.0
#: Instances of one principal that are open at once.
DEFAULT_OPEN_LIMIT: Final = 256
#: Events that are held for a principal that is away.
DEFAULT_HELD_EVENTS: Final = 256


class ToolsetServer(McplServer):
    """A server whose tools come and go, for hosts that understand hints, and for all others.

    It is an ``McplServer``: tools outside of toolsets, feature sets, hooks and handlers are declared as there, and it
    serves as many connections of as many principals as there are. A tool's parameter annotated as ``Context`` or
    ``ToolsetContext`` gets a ``ToolsetContext``. What belongs to a principal outlives its connections.

    An async context manager: in its block runs what goes on between calls, the tasks of instances and the closing of
    what is idle; at its end instances are closed, or stored. ``serve_stdio`` and ``listen`` enter it themselves. Where
    ``serve`` is called outside of it, these run for as long as the connection that was served first.

    Args:
        name: 1 to 64 of ``A-Z a-z 0-9 _ -``; the feature sets are ``<name>.tools`` and ``<name>.events``.
        version: its version.
        tools: functions, or tools made with ``tool_from_function``, that are there always.
        toolsets: by name, in their order: ``Toolset``, or classes (``read_toolset``).
        validate: makes the checkers of arguments and options (see ``checking``); left out, full JSON Schema 2020-12.
        idle_close: seconds after a principal's last connection closed, when its instances are closed and it is
            forgotten; 0: never.
        held_events: how many events are held for a principal that is away; beyond it the oldest is dropped.
        open_limit: how many instances a principal may have open at once; one more is refused (-32602, ``data.limit``).
        store: where instances of toolsets with ``load`` outlive the process, as ``FileToolsetStore``.
        clock: what time it is.
        access: whether ``ctx.access`` is used: ``access.token`` is advertised then, without which no host grants it.
        options: further arguments of ``McplServer``.

    Raises:
        LocalProtocolError: a name or declaration is none, or a name is taken.
        SchemaError: a schema cannot be used.
        SchemaLibraryMissingError: the extra ``toolsets`` is not installed, and no ``validate`` was given.
        InvalidValueError: a number makes no sense.
        ToolsetStoreError: the store cannot be read.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        tools: Iterable[Callable[..., Any] | ServerTool] = (),
        toolsets: Mapping[str, Any] | None = None,
        validate: Validate | None = None,
        idle_close: float = DEFAULT_IDLE_CLOSE,
        held_events: int = DEFAULT_HELD_EVENTS,
        open_limit: int = DEFAULT_OPEN_LIMIT,
        store: ToolsetStore | None = None,
        clock: Clock | None = None,
        access: bool = False,
        **options: Any,
    ) -> None:
        if not is_server_name(name):
            raise LocalProtocolError(f"{name!r:.80} is no name for a server: 1 to 64 of A-Z a-z 0-9 _ -")
        if not idle_close >= 0:
            raise InvalidValueError("idle_close", "seconds, or 0 for never")
        if held_events < 1:
            raise InvalidValueError("held_events", "at least one")
        if open_limit < 1:
            raise InvalidValueError("open_limit", "at least one")
        if access:
            options["manifest_extra"] = {**(options.get("manifest_extra") or {}), "access": {"token": True}}
        super().__init__(name, version, **options)
        self._entered: AsyncExitStack | None = None
        self._names = FeatureSetNames(name)
        self._catalog = Catalog(toolsets or {}, self._call_instance, validate)
        bounds = (idle_close, held_events, open_limit)
        self._runtime = self._make_runtime(clock or SystemClock(), Keeper(store), bounds)
        self.feature_set(self._names.tools, "Tools, and the toolsets that they come in", uses=["tools"])
        self.feature_set(self._names.events, "What happens in what is open", uses=["pushEvents"])
        requests = Requests(self._runtime, self._catalog, self._offer.tools, self._caller)
        self.handler(method.TOOLS_LIST)(requests.list_tools)
        self.on_connect(self._see)
        self.on_policy(self._runtime.policy_changed)
        granted: dict[str, Callable[..., Any]] = {
            method.TOOLS_CALL: requests.call_tool,
            method.TOOLSETS_LIST: requests.list_toolsets,
            method.TOOLSETS_OPEN: requests.open_toolset,
            method.TOOLSETS_CLOSE: requests.close_toolset,
        }
        for asked, handler in granted.items():
            # Opening and closing take as long as the application likes, and hold up nobody else.
            self.handler(asked, ordered=False, feature_set=self._names.tools)(handler)
        for tool in tools:
            self.add_tool(tool if isinstance(tool, ServerTool) else tool_from_function(tool))

    def _make_runtime(self, clock: Clock, keeper: Keeper, bounds: tuple[float, int, int]) -> Runtime:
        declared = self._catalog.toolsets.values()
        with_instances = [toolset.name for toolset in declared if toolset.facts.instances]
        defaults = [toolset.name for toolset in declared if toolset.facts.default == "open"]
        runtime = Runtime(self._names, (with_instances, defaults), clock, keeper, *bounds)
        settings = InstancesSettings(
            toolsets=self._catalog.toolsets,
            caller=self._caller,
            clock=clock,
            keeper=keeper,
            place=runtime.place,
            begin=runtime.begin,
            stop=runtime.stop,
            report=runtime.report,
            grace=self._offer.settings.grace,
        )
        runtime.instances = Instances(settings)
        return runtime

    def add_tool(self, tool: ServerTool, *, feature_set: FeatureSet | str | None = None) -> None:
        """As ``McplServer.add_tool``; the name must not be one of a toolset's tools, nor ``toolset_open``,
        ``toolset_close`` or ``toolset_use``."""
        checker = self._catalog.checker(tool)
        super().add_tool(tool, feature_set=feature_set)
        self._catalog.learn(tool.name, checker)

    async def _call_instance(self, ctx: CallContext, args: dict[str, Any]) -> Any:
        return await self._caller.call(ctx.target.body.call, ctx.tool, args)

    async def _see(self, ctx: Any) -> None:
        self._runtime.link(ctx)

    # -- serving

    async def __aenter__(self) -> Self:
        if self._entered is not None:
            raise LocalProtocolError("a server with toolsets is entered once at a time")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._runtime.running())
            stack.push_async_callback(self._shut_down)
            self._entered = stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        stack, self._entered = self._entered, None
        assert stack is not None
        await stack.__aexit__(exc_type, exc, tb)

    async def _shut_down(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._runtime.shut_down()

    async def serve(self, connection: McplConnection, principal: str = LOCAL_PRINCIPAL) -> None:
        """Serves one host until its connection closed. Any number at once, of any number of principals.

        Args:
            connection: an entered connection; it stays the caller's.
            principal: who is at the other end. The application says so, the peer never does.
        """
        async with self._runtime.running():
            link = self._runtime.connect(connection, principal)
            failure: Exception | None = None
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(Delivery(link, self._offer.settings).run)
                    try:
                        await self._welcome(link)
                        await super().serve(connection, principal=principal)
                    except Exception as exc:
                        # Raised again outside of the group, which would wrap it.
                        failure = exc
                    tasks.cancel_scope.cancel()
            finally:
                self._runtime.disconnect(link)
            if failure is not None:
                raise failure

    async def _welcome(self, link: Link) -> None:
        """What takes the application long here ends with the connection."""
        with anyio.CancelScope() as scope:
            remove = link.connection.on_close(scope.cancel)
            try:
                await self._runtime.welcome(link)
            finally:
                remove()

    async def serve_stdio(self, **options: Unpack[ConnectionOptions]) -> None:
        """As ``McplServer.serve_stdio``."""
        async with AsyncExitStack() as stack:
            if self._entered is None:
                await stack.enter_async_context(self)
            await super().serve_stdio(**options)

    async def listen(
        self,
        endpoint: str,
        *,
        principal: Callable[[McplConnection], str] | None = None,
        listener_options: dict[str, Any] | None = None,
        options: ConnectionOptions | None = None,
        task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """As ``McplServer.listen``."""
        async with AsyncExitStack() as stack:
            if self._entered is None:
                await stack.enter_async_context(self)
            await super().listen(
                endpoint,
                principal=principal,
                listener_options=listener_options,
                options=options,
                task_status=task_status,
            )

    # -- for the application

    @property
    def principals(self) -> tuple[str, ...]:
        """Who is known: has a connection, or had one and is not forgotten."""
        return self._runtime.principals

    async def evict(self, principal: str, toolset: str, instance: str | None = None) -> bool:
        """Closes what a principal has open, by the application's own decision; false when it is not open."""
        return await self._runtime.evict(principal, (toolset, instance))

    async def close_idle(self) -> None:
        """Closes what is idle for too long by the clock. It happens by itself in time, while the server runs."""
        await self._runtime.close_idle()

    def close_store(self) -> None:
        """Writes what is left to write and releases the store. To be called when nothing is served any more.

        Raises:
            ToolsetStoreError: the write failed.
        """
        self._runtime.close_store()
