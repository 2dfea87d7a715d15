"""Many servers under one roof: each connected by itself and again, all of them seen together.

Owns: the tasks that keep servers connected, which server a tool or a turn goes to, and closing everything. Does not
own: one connection (``session``), one server's handle (``hosted``), and what the host decides (``policy``).

No server is in another's way: each has its own task, its own bounds, and its own place in the queue. What goes wrong
with one is recorded, tried again, and told by its handle; it never ends the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import anyio

from ..connection import McplConnection
from ..errors import ConnectionClosedError, InvalidValueError, LocalProtocolError, McplError, PolicyRefusedError
from ..options import ConnectionOptions
from ..protocol import BranchesChangedParams, ToolsCallResult, method
from ..transports.tasks import OwnTasks
from .audit import Audit
from .connect import Dialer, ServerTarget, TransportOptions
from .events import EventQueue
from .hosted import HostedServer, ServerDescription, reconnect_delay
from .hub import HostHandlers, HostSettings, Hub
from .lifecycle import Inference
from .link import ServerLink
from .policy import DENY_ALL, HostPolicy
from .session import HostSession
from .tools import HostTool, ToolTable

__all__ = ("McplHost", "drop_frames")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class McplHost:
    """A host: an async context manager; servers are added while it is entered, and closed when it is left.

    Args:
        name, version: who the host says it is.
        policy: what servers may do; left out, nothing.
        settings, handlers: see there.
        connection_options: of each connection.
        shared: further members of ``Hub`` (``seen``, ``states``, ``methods``, ``clock``, ``sleep``, ``jitter``, ...).
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        policy: HostPolicy = DENY_ALL,
        settings: HostSettings | None = None,
        handlers: HostHandlers | None = None,
        connection_options: ConnectionOptions | None = None,
        **shared: Any,
    ) -> None:
        self.policy = policy
        self._hub = Hub(
            name=name,
            version=version,
            settings=settings if settings is not None else HostSettings(),
            handlers=handlers if handlers is not None else HostHandlers(),
            **shared,
        )
        self._connection_options = connection_options
        self._servers: dict[str, HostedServer] = {}
        self._table = ToolTable()
        self._tasks = OwnTasks()
        self._closed = False

    # ------------------------------------------------------------------------------------ life

    async def __aenter__(self) -> Self:
        if self._tasks.group is not None:
            raise LocalProtocolError("a host is entered once")
        tasks = (await self._tasks.begin()).tasks
        tasks.start_soon(self._hub.delivery.run, name="mcpl host: wakes")
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            await self.aclose()
        finally:
            await self._tasks.end()

    async def aclose(self) -> None:
        """Says goodbye to all servers, within ``close_timeout``; then the iteration over events ends. Any number of
        times."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as closing:
                for server in list(self._servers.values()):
                    closing.start_soon(self._close, server)
        self._hub.delivery.queue.close()

    async def _close(self, server: HostedServer) -> None:
        """Closes one server for good, within ``close_timeout`` and whatever happens to the caller: a child process
        deserves the end of its input before its own."""
        server.reconnect = False
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(self._hub.settings.close_timeout):
                with suppress(ConnectionClosedError):
                    await server.session.aclose()
            server.scope.cancel()
            with anyio.move_on_after(self._hub.settings.close_timeout):
                await server.wait("closed")

    # ------------------------------------------------------------------------------------ servers

    @property
    def servers(self) -> Mapping[str, HostedServer]:
        """The servers by their ids, in the order in which they were added."""
        return dict(self._servers)

    def __getitem__(self, id: str) -> HostedServer:
        return self._servers[id]

    def describe(self) -> list[ServerDescription]:
        """What there is to tell of each server."""
        return [server.describe() for server in self._servers.values()]

    async def add(
        self,
        id: str,
        endpoint: ServerTarget,
        *,
        policy: HostPolicy | None = None,
        reconnect: bool = True,
        wait: bool = True,
        require_mcpl: bool = False,
        transport_options: TransportOptions | None = None,
        connection_options: ConnectionOptions | None = None,
    ) -> HostedServer:
        """Connects to a server and keeps it connected.

        Args:
            id: how the policy, events, tools and records name it: letters, digits, ``.``, ``_`` and ``-``.
            endpoint: a URL, a command as a sequence of words, or a connection; see ``ServerTarget``.
            policy: rules for this server in the place of the host's.
            reconnect: whether to connect again when the connection ends; with a new handshake and a new grant.
            wait: whether to wait until it is ready, and to fail when it cannot be reached; else it is tried again.
            require_mcpl: whether a plain MCP server is a failure.
            transport_options: arguments of the transport, or a function that gives them anew for each attempt.
            connection_options: in the place of the host's.

        Raises:
            InvalidValueError: the id or the URL is outside its grammar; without ``wait``, what is wrong with the URL
                may be told by the handle's ``failure``. Either way it is not tried again.
            LocalProtocolError: the id is taken, or the host is not entered, or closed.
            McplError: with ``wait``: it cannot be reached, or the handshake failed; nothing is left of it.
        """
        tasks = self._tasks.group
        if tasks is None or self._closed:
            raise LocalProtocolError("servers are added while the host is entered")
        if not _ID.fullmatch(id):
            raise InvalidValueError("server_id", "letters, digits, dot, underscore and hyphen, at most 64")
        if id in self._servers:
            raise LocalProtocolError(f"server {id} is there already")
        dialer = Dialer(endpoint, transport_options, connection_options or self._connection_options)
        server = HostedServer(id, dialer, policy or self.policy, reconnect=reconnect, require_mcpl=require_mcpl)
        server.own_policy = policy is not None
        self._servers[id] = server
        tasks.start_soon(self._supervise, server, wait, name=f"mcpl host: {id}")
        if wait:
            try:
                await self._first(server)
            except BaseException:
                self._servers.pop(id, None)
                await self._close(server)
                raise
        return server

    async def _first(self, server: HostedServer) -> None:
        # It waits for another attempt only when it was ready before.
        if await server.wait("ready", "waiting", "closed") == "closed" and server.failure is not None:
            raise server.failure

    async def remove(self, id: str) -> None:
        """Closes a server and forgets it. What it sent is still known, should it come back.

        Raises:
            LocalProtocolError: there is no such server.
        """
        server = self._known(id)
        del self._servers[id]
        # Before it is closed: meanwhile a name that leads to it must not be found.
        self._table.forget(id)
        await self._close(server)
        self._hub.delivery.forget(id)

    async def set_policy(self, policy: HostPolicy, *, server: str | None = None) -> None:
        """Other rules hold, for all servers without rules of their own, or for one. What they take away is gone at all
        of them before this awaits anything; then each is told, and what is added is in force when it accepted.

        Raises:
            LocalProtocolError: there is no such server.
        """
        if server is None:
            self.policy = policy
            chosen = [each for each in self._servers.values() if not each.own_policy]
        else:
            chosen = [self._known(server)]
            chosen[0].own_policy = True
        sessions = []
        for each in chosen:
            each.policy = policy
            if each.attempt is not None:
                each.attempt.adopt(policy)
                sessions.append(each.attempt)
        async with anyio.create_task_group() as tasks:
            for session in sessions:
                # Not ``set_policy``: by the time it runs, still other rules may have been adopted.
                tasks.start_soon(session.renegotiate)

    def _known(self, id: str) -> HostedServer:
        if id not in self._servers:
            raise LocalProtocolError(f"there is no server {id!r}")
        return self._servers[id]

    # ------------------------------------------------------------------------------------ supervision

    async def _supervise(self, server: HostedServer, first: bool) -> None:
        """Keeps a server connected until it is closed. ``first``: a failure before it was ready once ends it."""
        hub = self._hub
        audit = Audit(server.id, hub.handlers.on_audit, hub.wall_clock)
        attempt = 0
        try:
            with server.scope:
                while True:
                    began = hub.clock()
                    lasted = await self._connect(server, audit)
                    first = first and not lasted
                    if first or not server.reconnect or not server.dialer.repeatable:
                        break
                    drop_frames(server.failure)
                    attempt = 1 if lasted and hub.clock() - began >= hub.settings.stable_after else attempt + 1
                    server.move("waiting")
                    settings = hub.settings
                    await hub.sleep(
                        reconnect_delay(attempt, hub.jitter(), settings.first_retry, settings.longest_retry)
                    )
                    server.move("connecting")
        finally:
            server.move("closed")

    async def _connect(self, server: HostedServer, audit: Audit) -> bool:
        """One connection from its beginning to its end; whether it was ready. Never raises for a server."""
        ready = _Ready(server)
        server.failure = None
        try:
            connection = await self._dial(server)
            session = HostSession(self._hub, server.id, connection, server.policy, require_mcpl=server.require_mcpl)
            ready.session = server.attempt = session
            await session.run(task_status=ready)
            server.failure = connection.close_reason
        except Exception as exc:
            server.failure = exc
            if isinstance(exc, PolicyRefusedError):
                server.reconnect = False
            audit.record("connection", "failure", code="not_connected", detail=type(exc).__name__)
        finally:
            server.attempt = None
            if ready.told:
                server.move("connecting")
        return ready.told

    async def _dial(self, server: HostedServer) -> McplConnection:
        try:
            return await server.dialer.dial()
        except InvalidValueError:
            # What is outside its grammar is so at the next attempt, too.
            server.reconnect = False
            raise

    # ------------------------------------------------------------------------------------ all together

    def events(self) -> EventQueue:
        """The events of all servers: admitted, deduplicated, tagged, judged; an async iterator."""
        return self._hub.delivery.queue

    def inference(self, *, conversation_id: str, **options: Any) -> Inference:
        """An inference that the servers may hear of and contribute to; arguments as ``Inference``."""
        options.setdefault("hook_timeout", self._hub.settings.hook_timeout)
        if self._hub.handlers.trace is not None:
            options.setdefault("trace", self._hub.handlers.trace())
        return Inference(self._links, conversation_id=conversation_id, **options)

    def _links(self) -> list[ServerLink]:
        return [server.link for server in self._servers.values() if server.state == "ready"]

    async def tools(self, keep: Callable[[ServerLink, Mapping[str, Any]], bool] | None = None) -> list[HostTool]:
        """The tools of all servers that are connected and may be called, under unique names. A server that does not
        answer is passed over.

        Args:
            keep: which tools to give, by the server's link and the definition; left out, those that all extensions
                show.
        """
        keep = self._shown if keep is None else keep
        lists: dict[str, list[dict[str, Any]]] = {}
        ready = [server.session for server in self._servers.values() if server.state == "ready"]
        sessions = [session for session in ready if session.link.may_send(method.TOOLS_CALL)]
        async with anyio.create_task_group() as tasks:
            for session in sessions:
                tasks.start_soon(self._list, session, lists)
        return [
            self._table.add(session.id, tool)
            for session in sessions
            if session.id in self._servers
            for tool in lists.get(session.id, ())
            if keep(session.link, tool)
        ]

    def _shown(self, link: ServerLink, definition: Mapping[str, Any]) -> bool:
        return all(extension.shows_tool(link, definition) for extension in self._hub.handlers.extensions)

    async def _list(self, session: HostSession, lists: dict[str, list[dict[str, Any]]]) -> None:
        try:
            lists[session.id] = await session.tools()
        except McplError as exc:
            session.link.audit.record(method.TOOLS_LIST, "failure", detail=type(exc).__name__)

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> ToolsCallResult:
        """Calls a tool by the name that ``tools`` gave it; ``options`` as for ``RemoteServer.call_tool``.

        Raises:
            InvalidValueError: no server has such a tool (``unknown_tool``).
        """
        try:
            server, tool = self._table.find(name)
        except InvalidValueError:
            await self.tools()
            server, tool = self._table.find(name)
        return await self._servers[server].call_tool(tool, arguments, **options)

    def branches_changed(self, change: BranchesChangedParams) -> None:
        """Tells every server that may list branches of a change, whoever made it (branches extension)."""
        for link in self._links():
            if link.may_send(method.BRANCHES_CHANGED):
                link.connection.push_notification(method.BRANCHES_CHANGED, change)


def drop_frames(failure: BaseException | None) -> None:
    """Of a failure that is kept, the frames go: their variables hold sessions, and credentials of a transport."""
    left = [failure]
    seen: set[int] = set()
    while left:
        exc = left.pop()
        if exc is None or id(exc) in seen:
            continue
        seen.add(id(exc))
        exc.__traceback__ = None
        left += [exc.__cause__, exc.__context__]
        if isinstance(exc, BaseExceptionGroup):
            left += exc.exceptions


class _Ready:
    """What a session tells when it is ready (``anyio.abc.TaskStatus``)."""

    def __init__(self, server: HostedServer) -> None:
        self._server = server
        self.session: HostSession | None = None
        self.told = False

    def started(self, value: Any = None) -> None:
        self.told = True
        self._server.move("ready", self.session)
