"""Toolsets at a host: what its servers show, opening and closing, calls, and credentials (SPEC_NOTES R-toolsets-1).

Owns: the part of a host that understands hints: it says so, keeps dynamic tools out of the list that a model sees once,
follows what becomes visible, and answers ``access/token`` as the application decides. Does not own: the view itself
(``host_view``), shapes (``wire``), and everything of a host that is no toolset (``mcpl_core.host``).

    toolsets = HostToolsets()
    async with McplHost("app", "1", policy=policy, handlers=HostHandlers(extensions=[toolsets])) as host:
        await host.add("arcade", [...])
        arcade = toolsets["arcade"]
        await arcade.listed()
        game = await arcade.open("tictactoe")
        result = await arcade.call("place", {"cell": 5}, instance=game.instance)

Changes are taken in the order of the wire: those of a notification or an event as it arrives, before it is decided
whether the event may enter; those of a result as the result arrives, whoever waits for it. When one was lost, and after
each connect, the whole is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
from msgspec import UNSET, Raw, UnsetType

from ..errors import (
    CapabilityDenied,
    ConnectionClosedError,
    InvalidValueError,
    McplError,
    MethodNotFound,
    TransportError,
)
from ..host import HostExtension, HostSession, HostTool, McplHost
from ..host.link import ServerLink
from ..protocol import (
    META_HINTS,
    AccessTokenParams,
    AccessTokenResult,
    EndedInstance,
    HintChange,
    ToolPresence,
    ToolsCallResult,
    ToolsetsCloseParams,
    ToolsetsCloseResult,
    ToolsetsListResult,
    ToolsetsOpenParams,
    ToolsetsOpenResult,
    method,
    read_hints,
)
from ..wire.messages import Notification, Request
from .host_view import EndedRecords, HostView, ToolsetView, VisibleTool
from .wire import ADVERTISEMENT, call_meta, read_presence, read_result, read_result_hints

__all__ = ("AccessHandler", "HostToolsets", "ServerToolsets")


#: Takes the server's id and what it asks for; returns a credential, or ``None`` to refuse. Sync or async.
AccessHandler: TypeAlias = Callable[
    [str, AccessTokenParams], AccessTokenResult | None | Awaitable[AccessTokenResult | None]
]

#: Messages that carry changes, and the member of their params that does.
_CARRIERS: Final = frozenset({method.TOOLSETS_CHANGED, method.PUSH_EVENT})
_NEEDS: Final = ("tools",)
_TOKEN: Final = "access.token"
#: Without it a result carries no change; most do not, and need not be read twice.
_HINTS: Final = META_HINTS.encode()


class ServerToolsets:
    """The toolsets of one server, over all its connections. ``HostToolsets`` has them.

    Args:
        id: the server's id.
        on_change, on_ended: see ``HostToolsets``.
    """

    def __init__(
        self,
        id: str,
        on_change: Callable[[str], object] | None = None,
        on_ended: Callable[[str, EndedInstance], object] | None = None,
    ) -> None:
        self.id = id
        self._on_change = on_change
        self._on_ended = on_ended
        self._ended = EndedRecords()
        self._session: HostSession | None = None
        self._view = HostView()
        #: Why there is no statement, once that is known.
        self._missing: McplError | None = None
        self._wanted = False
        self._nudge = anyio.Event()
        self._moved = anyio.Event()

    # -- what is known

    @property
    def toolsets(self) -> Mapping[str, ToolsetView]:
        """The toolsets by name, as they stand now; nothing while the server is not connected or did not tell."""
        return dict(self._view.toolsets)

    def visible(self) -> list[VisibleTool]:
        """The dynamic tools that may be called now."""
        return self._view.visible()

    async def listed(self) -> Mapping[str, ToolsetView]:
        """``toolsets``, once the server of this moment has stated them.

        Raises:
            ConnectionClosedError: the server is not connected.
            MethodNotFound: it has no toolsets.
            CapabilityDenied, FeatureSetNotEnabled: it may have none here.
            LocalProtocolError: it is a plain MCP server.
            McplError: it could not say; ``refresh`` asks again.
        """
        while not self._view.known:
            self._current()
            if self._missing is not None:
                raise self._missing
            await self._moved.wait()
        return self.toolsets

    async def refresh(self) -> Mapping[str, ToolsetView]:
        """Asks the server for a full statement; as ``listed``."""
        await self._state(self._current())
        return self.toolsets

    async def static_tools(self) -> list[dict[str, Any]]:
        """The definitions of the tools that are always there; the same ones each time."""
        session = self._current()
        return [tool for tool in await session.tools() if not _is_dynamic(session.link, tool)]

    async def visible_tools(self) -> list[dict[str, Any]]:
        """The definitions of the dynamic tools that may be called now."""
        session = self._current()
        tools = await session.tools()
        visible = {each.tool for each in self.visible()}
        return [tool for tool in tools if tool["name"] in visible and _is_dynamic(session.link, tool)]

    # -- what can be done

    async def open(
        self,
        toolset: str,
        options: Mapping[str, Any] | None = None,
        *,
        instance: str | None = None,
        timeout: float | None | UnsetType = UNSET,
    ) -> ToolsetsOpenResult:
        """``toolsets/open``: opens a toolset, or one more instance of it.

        Args:
            toolset: its name.
            options: as its ``options_schema`` describes them.
            instance: an id for the new instance; left out, the server makes one.
            timeout: seconds; as for ``McplConnection.send_request``.

        Raises:
            ConnectionClosedError: the server is not connected.
            InvalidParams: there is no such toolset, the options do not fit, or the id is taken.
            McplError: as for ``McplConnection.send_request``.
        """
        params = ToolsetsOpenParams(
            toolset=toolset,
            options=UNSET if options is None else dict(options),
            instance=UNSET if instance is None else instance,
        )
        result: ToolsetsOpenResult = await self._ask(method.TOOLSETS_OPEN, params, ToolsetsOpenResult, timeout)
        return result

    async def close(
        self, toolset: str, instance: str | None = None, *, timeout: float | None | UnsetType = UNSET
    ) -> bool:
        """``toolsets/close``: closes a toolset, or one instance of it; whether it was open. Raises as ``open``."""
        params = ToolsetsCloseParams(toolset=toolset, instance=UNSET if instance is None else instance)
        result: ToolsetsCloseResult = await self._ask(method.TOOLSETS_CLOSE, params, ToolsetsCloseResult, timeout)
        return result.closed

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        instance: str | None = None,
        meta: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ToolsCallResult:
        """Calls a tool, on one instance where it belongs to a toolset with instances.

        Args:
            tool: its name at the server.
            arguments: its arguments.
            instance: which instance; may be left out while exactly one is open.
            meta, options: as for ``RemoteServer.call_tool``.

        Raises:
            as ``RemoteServer.call_tool``.
        """
        addressed = {**(meta or {}), **({} if instance is None else call_meta(instance))}
        return await self._current().call_tool(tool, arguments, meta=addressed or None, **options)

    # -- its sessions

    def attach(self, session: HostSession) -> Callable[[], Awaitable[None]]:
        """The server is connected by this session; for ``HostToolsets``."""
        self._session = session
        self._view = HostView()
        self._missing = None
        self._wanted = True
        session.connection.on_message(partial(self._arrived, session))
        return partial(self._run, session)

    async def _run(self, session: HostSession) -> None:
        try:
            while True:
                if self._wanted:
                    self._wanted = False
                    try:
                        await self._state(session)
                    except McplError as exc:
                        session.link.audit.record(method.TOOLSETS_LIST, "failure", detail=type(exc).__name__)
                else:
                    self._nudge = anyio.Event()
                    await self._nudge.wait()
        finally:
            if self._session is session:
                self._session = None
                self._forget(session)

    async def _state(self, session: HostSession) -> None:
        """One full statement."""
        try:
            session.link.check_sending(method.TOOLSETS_LIST)
            await session.request(
                method.TOOLSETS_LIST,
                {},
                result_type=ToolsetsListResult,
                on_answer=partial(self._stated, session),
            )
        except McplError as exc:
            # Where it is asked for once more, another grant is in force by now, and this answer says nothing of it.
            if session is self._session and not self._view.known and not self._wanted:
                self._missing = exc
                self._move(session)
            raise

    def grant_changed(self, session: HostSession) -> None:
        """What the server may do changed: what it may no longer show is gone, what it may show is asked for."""
        if session is not self._session:
            return
        if not session.link.may_send(method.TOOLSETS_LIST):
            self._forget(session)
            self._missing = CapabilityDenied(data={"capability": "tools"})
        elif not self._view.known and not isinstance(self._missing, MethodNotFound):
            self._missing = None
            self._want()

    def answered(self, link: ServerLink, result: Raw) -> None:
        """A result came that may carry changes; for ``HostToolsets``."""
        session = self._session
        if session is not None and session.link is link:
            self._apply(session, method.TOOLS_CALL, read_result_hints(result))

    # -- the order of the wire

    def _arrived(self, session: HostSession, message: Request | Notification) -> None:
        """A message came. That ``tools`` is granted suffices for its changes, whatever becomes of an event."""
        if message.method not in _CARRIERS or session is not self._session:
            return
        if session.link.authority.check(_NEEDS) is None and isinstance(message.params, dict):
            self._apply(session, message.method, read_hints(message.params.get("hints", UNSET)))

    def _stated(self, session: HostSession, raw: Raw) -> None:
        statement = read_result(raw, ToolsetsListResult)
        if session is not self._session or statement is None:
            return
        applied = self._view.state(statement)
        self._missing = None
        self._note(session, method.TOOLSETS_LIST, applied.problems)
        for record in self._ended.fresh(statement.ended):
            self._tell(session, self._on_ended, self.id, record)
        self._move(session, applied.changed)

    def _opened(self, session: HostSession, raw: Raw) -> None:
        if session is self._session:
            self._apply(session, method.TOOLSETS_OPEN, read_result_hints(raw))
            result = read_result(raw, ToolsetsOpenResult)
            if result is not None and self._view.opened(result):
                self._move(session, True)

    def _closed(self, session: HostSession, raw: Raw) -> None:
        if session is self._session:
            self._apply(session, method.TOOLSETS_CLOSE, read_result_hints(raw))

    def _apply(self, session: HostSession, name: str, changes: list[HintChange | InvalidValueError]) -> None:
        if not changes:
            return
        applied = self._view.apply(changes)
        self._note(session, name, applied.problems)
        if applied.lost:
            self._want()
        self._move(session, applied.changed)

    # -- small steps

    def _current(self) -> HostSession:
        if self._session is None:
            reason = TransportError(f"no MCPL server is connected as {self.id}")
            raise ConnectionClosedError("not-sent", reason)
        return self._session

    async def _ask(self, name: str, params: Any, kind: Any, timeout: float | None | UnsetType) -> Any:
        session = self._current()
        effects = {method.TOOLSETS_OPEN: self._opened, method.TOOLSETS_CLOSE: self._closed}
        try:
            result = await session.request(
                name, params, timeout=timeout, result_type=kind, on_answer=partial(effects[name], session)
            )
        except McplError as exc:
            session.link.audit.record(name, "failure", detail=type(exc).__name__)
            raise
        session.link.audit.record(name, "success")
        return result

    def _want(self) -> None:
        self._wanted = True
        self._nudge.set()

    def _forget(self, session: HostSession) -> None:
        known, self._view = bool(self._view.toolsets), HostView()
        self._move(session, known)

    def _move(self, session: HostSession, changed: bool = False) -> None:
        """Wakes those who wait in ``listed``, and tells the application when what is visible may be something else."""
        moved, self._moved = self._moved, anyio.Event()
        moved.set()
        if changed:
            self._tell(session, self._on_change, self.id)

    def _tell(self, session: HostSession, told: Callable[..., object] | None, *what: Any) -> None:
        if told is None:
            return
        try:
            told(*what)
        except Exception as exc:
            session.connection.report(exc)

    def _note(self, session: HostSession, name: str, problems: tuple[str, ...]) -> None:
        for code in dict.fromkeys(problems):
            session.link.audit.note(name, code)


class HostToolsets(HostExtension):
    """The part of a host that understands toolsets; one of ``HostHandlers.extensions``.

    Args:
        access: decides on credentials that servers ask for, in the name of the person or program that the host stands
            for (``access/token``). Left out, all are refused. The policy must grant the extension path
            ``access.token`` besides, which is denied by default.
        on_change: is called with a server's id when what it shows may be something else.
        on_ended: is called with a server's id and the record of an instance that is no more; once for each, however
            often the server repeats it.
    """

    def __init__(
        self,
        *,
        access: AccessHandler | None = None,
        on_change: Callable[[str], object] | None = None,
        on_ended: Callable[[str, EndedInstance], object] | None = None,
    ) -> None:
        self._access = access
        self._on_change = on_change
        self._on_ended = on_ended
        self._servers: dict[str, ServerToolsets] = {}

    def __getitem__(self, server: str) -> ServerToolsets:
        """The toolsets of the server with this id, connected or not."""
        if server not in self._servers:
            self._servers[server] = ServerToolsets(server, self._on_change, self._on_ended)
        return self._servers[server]

    async def visible_tools(self, host: McplHost) -> list[HostTool]:
        """The dynamic tools of all servers that may be called now, under the names by which ``McplHost.call_tool``
        finds them. ``McplHost.tools`` gives the others. An instance is addressed by ``meta=call_meta(id)``."""
        visible = {(server.id, each.tool) for server in self._servers.values() for each in server.visible()}
        return await host.tools(
            lambda link, tool: (link.server, tool["name"]) in visible and _is_dynamic(link, tool),
        )

    # -- as an extension

    @property
    def advertises(self) -> Mapping[str, Any]:
        """See ``HostExtension``."""
        return ADVERTISEMENT

    @property
    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        """See ``HostExtension``."""
        # Its changes were taken as it arrived, so that those of events and results keep their order with them.
        return {method.TOOLSETS_CHANGED: lambda session, params: None, method.ACCESS_TOKEN: self._token}

    def ready(self, session: HostSession) -> Callable[[], Awaitable[None]] | None:
        """See ``HostExtension``."""
        return self[session.id].attach(session)

    def grant_changed(self, session: HostSession) -> None:
        """See ``HostExtension``."""
        self[session.id].grant_changed(session)

    def tool_answered(self, link: ServerLink, result: Raw) -> None:
        """See ``HostExtension``."""
        if _HINTS in bytes(result):
            self[link.server].answered(link, result)

    def shows_tool(self, link: ServerLink, definition: Mapping[str, Any]) -> bool:
        """See ``HostExtension``."""
        return not _is_dynamic(link, definition)

    async def _token(self, session: HostSession, params: AccessTokenParams) -> AccessTokenResult:
        """Answers ``access/token``. Neither records nor errors hold a credential."""
        link = session.link
        answer = None if self._access is None else self._access(session.id, params)
        if inspect.isawaitable(answer):
            answer = await answer
        # Somebody may have thought about it for long.
        denied = link.authority.check((_TOKEN,))
        if answer is None or denied is not None:
            link.deny(method.ACCESS_TOKEN, denied or CapabilityDenied(data={"capability": _TOKEN}))
        if not isinstance(answer, AccessTokenResult):
            raise TypeError(f"an access handler returns an AccessTokenResult or None, not {type(answer).__name__}")
        link.audit.record(method.ACCESS_TOKEN, "success")
        return answer


def _is_dynamic(link: ServerLink, definition: Mapping[str, Any]) -> bool:
    """Whether a tool comes and goes. At a plain MCP server nothing does, whatever it says."""
    presence = read_presence(definition)
    return isinstance(presence, ToolPresence) and presence.kind == "dynamic" and link.is_mcpl
