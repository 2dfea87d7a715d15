"""From what an operator wrote to a connected server (RFC-004 5 to 7).

Owns: the three values of an endpoint, dialling, and ``connect_server`` for one server by itself. Does not own: schemes
and transports (``mcpl_core.transports``), and connecting again (``host``).

An endpoint is a locator: nothing here grants, accepts or registers anything because of what it says. Credentials go to
the transport; no attribute keeps them, and no ``repr``, log or error shows them.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from types import TracebackType
from typing import Any, TypeAlias, Union

import anyio

from .._version import __version__
from ..connection import McplConnection
from ..errors import LocalProtocolError
from ..options import ConnectionOptions
from ..transports.base import Transport
from ..transports.tasks import OwnTasks
from ..uris import McplUri
from .hub import HostHandlers, HostSettings, Hub
from .policy import DENY_ALL, HostPolicy
from .session import HostSession

__all__ = ("Dialer", "Endpoint", "ServerConnection", "ServerTarget", "TransportOptions", "connect_server")

#: What to connect to: a URL, a command as a sequence of words, a connection or a transport that was not entered or
#: started, or a function that makes one of these each time.
ServerTarget: TypeAlias = Union[  # noqa: UP007 - a callable inside a union of strings
    str,
    Sequence[str | os.PathLike[str]],
    McplConnection,
    Transport,
    Callable[[], McplConnection | Transport],
]
#: Arguments of the transport (``headers``, ``ssl``, ``env``, ...), or a function, sync or async, that gives them anew
#: for each attempt: for credentials that expire.
TransportOptions: TypeAlias = Mapping[str, Any] | Callable[[], Any]

_AUTHORITY = re.compile(r"[^/?#\\]*")


def _host(rest: str) -> str:
    """Host and port of what stands behind the scheme. Nothing when an ``@`` stands further on: it may be that of a
    password with a ``/`` in it, and then what stands before it is no host."""
    authority = _AUTHORITY.match(rest)
    assert authority is not None
    user, _, host = authority[0].rpartition("@")
    return host if user or "@" not in rest else ""


def _words(command: Any) -> tuple[str, ...]:
    if not isinstance(command, Sequence):
        kind = type(command).__name__
        raise TypeError(f"an endpoint is a URL, a command in words, or what makes a connection, not a {kind}")
    return tuple(os.fspath(word) for word in command)


class Endpoint:
    """Where a server is: three values, none of them made by overwriting another (RFC-004 5). ``str`` and ``repr`` show
    a scheme, host and port, or a program's name, since a query may carry an invitation.

    Attributes:
        configured: what was written, as it was written; a command as its words.
        canonical: the ``mcpl://`` form to compare by; ``None`` for other endpoints.
        resolved: what is dialled; ``None`` for a command and for a connection that was handed over.
    """

    __slots__ = ("_shown", "canonical", "configured", "resolved")

    def __init__(self, target: ServerTarget) -> None:
        self.configured: str | tuple[str, ...] | None = None
        self.canonical: str | None = None
        self.resolved: str | None = None
        if isinstance(target, str):
            self.configured = target
            scheme, _, rest = target.partition("://")
            if scheme.lower() == "mcpl":
                uri = McplUri.parse(target)
                self.canonical, self.resolved, self._shown = uri.canonical, uri.resolved, str(uri)
            else:
                self.resolved = target
                self._shown = f"{scheme}://{_host(rest)}" if rest else "endpoint"
        elif isinstance(target, McplConnection):
            self._shown = target.transport.name
        elif isinstance(target, Transport):
            self._shown = target.name
        elif callable(target):
            self._shown = "connection"
        else:
            self.configured = _words(target)
            self._shown = PurePath(self.configured[0]).name if self.configured else ""

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"<Endpoint {self._shown}>"


class Dialer:
    """Makes the connections to one endpoint.

    Args:
        target: see ``ServerTarget``.
        transport_options: see ``TransportOptions``.
        options: of each connection.

    Raises:
        InvalidValueError: the URL is outside its grammar.
        TypeError: the target is none.
    """

    def __init__(
        self,
        target: ServerTarget,
        transport_options: TransportOptions | None = None,
        options: ConnectionOptions | None = None,
    ) -> None:
        self.endpoint = Endpoint(target)
        self._options: ConnectionOptions = {} if options is None else options
        self._used = False
        # In closures, where no attribute and no repr shows them.
        self._make: Callable[[dict[str, Any]], Any] = self._maker(target)
        self._current: Callable[[], Any] = (
            transport_options if callable(transport_options) else lambda: transport_options or {}
        )

    @property
    def repeatable(self) -> bool:
        """Whether it can be dialled again."""
        return not self._used

    async def dial(self) -> McplConnection:
        """A connection to the endpoint, not entered yet.

        Raises:
            LocalProtocolError: what was handed over was used already.
        """
        if self._used:
            raise LocalProtocolError("a connection that was handed over is used once")
        options = self._current()
        if inspect.isawaitable(options):
            options = await options
        made = self._make(dict(options))
        return McplConnection(made, **self._options) if isinstance(made, Transport) else made

    def _maker(self, target: ServerTarget) -> Callable[[dict[str, Any]], Any]:
        if isinstance(target, McplConnection | Transport):
            return lambda _: self._use(target)
        if callable(target):
            return lambda _: target()
        return lambda options: McplConnection.connect(target, transport_options=options, **self._options)

    def _use(self, target: McplConnection | Transport) -> McplConnection | Transport:
        self._used = True
        return target


class ServerConnection:
    """What ``connect_server`` returns: an async context manager that gives the ``HostSession``."""

    def __init__(self, dialer: Dialer, hub: Hub, server: str, policy: HostPolicy, require_mcpl: bool) -> None:
        self._dialer = dialer
        self._hub = hub
        self._server = server
        self._policy = policy
        self._require_mcpl = require_mcpl
        self._tasks = OwnTasks()
        self._session: HostSession | None = None

    async def __aenter__(self) -> HostSession:
        if self._tasks.group is not None:
            raise LocalProtocolError("a connection is entered once")
        tasks = (await self._tasks.begin()).tasks
        try:
            connection = await self._dialer.dial()
            self._session = HostSession(
                self._hub, self._server, connection, self._policy, require_mcpl=self._require_mcpl
            )
            tasks.start_soon(self._hub.delivery.run)
            await tasks.start(self._session.run)
        except BaseException:
            await self._tasks.end()
            raise
        return self._session

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._session is not None
        try:
            with anyio.CancelScope(shield=True), anyio.move_on_after(self._hub.settings.close_timeout):
                await self._session.aclose()
        finally:
            self._hub.delivery.queue.close()
            await self._tasks.end()


def connect_server(
    endpoint: ServerTarget,
    *,
    policy: HostPolicy = DENY_ALL,
    server: str = "server",
    name: str = "mcp-live-core",
    version: str = __version__,
    require_mcpl: bool = False,
    settings: HostSettings | None = None,
    handlers: HostHandlers | None = None,
    transport_options: TransportOptions | None = None,
    connection_options: ConnectionOptions | None = None,
    **shared: Any,
) -> ServerConnection:
    """Connects to one server: handshake, the initial policy and its receipt. A plain call that returns an async context
    manager; nothing is dialled before it is entered. ``McplHost`` is for more than one, and for connecting again.

    Args:
        endpoint: a URL, a command as a sequence of words, or a connection; see ``ServerTarget``.
        policy: what the server may do; left out, nothing.
        server: the id by which the policy and the records name it.
        name, version: who the host says it is.
        require_mcpl: whether a plain MCP server, or one that falls back to that, is a failure (RFC-004 6).
        settings, handlers: see there.
        transport_options: arguments of the transport, or a function that gives them; kept nowhere else.
        connection_options: see ``ConnectionOptions``.
        shared: further members of ``Hub`` (``seen``, ``states``, ``methods``, ``clock``, ...).

    Raises:
        InvalidValueError: the URL is outside its grammar.

    On entering:
        TransportError: nobody is there.
        PolicyRefusedError: the server refused the policy and closes.
        InvalidResultError: it speaks another protocol, or no MCPL and ``require_mcpl`` is set.
    """
    hub = Hub(
        name=name,
        version=version,
        settings=settings if settings is not None else HostSettings(),
        handlers=handlers if handlers is not None else HostHandlers(),
        **shared,
    )
    return ServerConnection(Dialer(endpoint, transport_options, connection_options), hub, server, policy, require_mcpl)
