"""Peers over connections of this package: one that was initialized by hand, and that of an MCPL host's server.

Owns: the requests, and feeding a monitor from the connection itself, in the order of the wire. Does not own: the
connection; it is neither initialized nor closed here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ...connection import McplConnection
from ...errors import CapabilityDenied, ConnectionClosedError, InvalidValueError, LocalProtocolError
from ...host.hosted import HostedServer
from ...host.link import ServerLink
from ...host.session import HostSession
from ...observers import kinds_only
from ...protocol import method as methods
from ...wire.messages import Notification, Request
from ..monitor import CatalogMonitor
from .base import PeerFailure, PeerMethod, PeerReply, PeerResult
from .failures import own_failure
from .watchers import Watchers

__all__ = ("ConnectionPeer", "HostPeer")

_logger = logging.getLogger("mcpl_core.catalog")


class ConnectionPeer:
    """A connection whose ``initialize`` was answered.

    Args:
        connection: entered; somebody takes its messages (``serve``, or ``async for``).
        initialized: the result of ``initialize`` as it came. The version is taken from it: one that was asked for is no
            version.

    Raises:
        InvalidValueError: ``initialize_result``: it is no object with a text ``protocolVersion``.
    """

    def __init__(self, connection: McplConnection, initialized: Mapping[str, Any]) -> None:
        version = initialized.get("protocolVersion") if isinstance(initialized, Mapping) else None
        if not isinstance(version, str):
            del initialized, version
            raise InvalidValueError("initialize_result", "it names no protocol version", "$.protocolVersion")
        self._connection = connection
        self._line = _Line(connection)
        self._version = version
        self._capabilities = initialized.get("capabilities")

    def __repr__(self) -> str:
        return "<ConnectionPeer>"

    @property
    def capabilities(self) -> Mapping[str, Any] | None:
        """See ``ToolPeer``."""
        return self._capabilities if isinstance(self._capabilities, Mapping) else None

    @property
    def may_repeat(self) -> bool:
        """Never."""
        return False

    def watch(self, monitor: CatalogMonitor) -> Callable[[], None]:
        """See ``ToolPeer``. Where nobody else takes its errors, the connection would log what it cannot read with an
        excerpt; while it is watched, the kinds of its errors are logged instead."""
        monitor.accept_version(self._version)
        leave = self._line.watch(monitor)
        unmute = self._connection.on_error(kinds_only(_logger, "a connection"))

        def end() -> None:
            leave()
            unmute()

        return end

    async def request(self, method: PeerMethod, params: dict[str, Any]) -> PeerReply:
        """See ``ToolPeer``."""
        return await self._line.request(method, params)


class HostPeer:
    """A server of an MCPL host, at the connection that it has now. After a reconnect it is another peer: this one stays
    closed, and what was discovered through it refuses.

    Calls go out under the host's grant. The state that a host keeps for a server (SPEC 8.4) does not travel on this
    way.

    Args:
        server: from ``connect_server`` or ``McplHost.add``.

    Raises:
        ConnectionClosedError: it is not connected.
    """

    def __init__(self, server: HostSession | HostedServer) -> None:
        session = server.session if isinstance(server, HostedServer) else server
        self._session: HostSession = session
        self._link: ServerLink = session.link
        self._line = _Line(self._link.connection)

    def __repr__(self) -> str:
        return f"<HostPeer {self._session.id}>"

    @property
    def capabilities(self) -> Mapping[str, Any] | None:
        """See ``ToolPeer``. ``None`` also where the grant does not let the host call tools."""
        return self._session.capabilities if self._link.may_send(methods.TOOLS_CALL) else None

    @property
    def may_repeat(self) -> bool:
        """Never."""
        return False

    def watch(self, monitor: CatalogMonitor) -> Callable[[], None]:
        """See ``ToolPeer``."""
        monitor.accept_version(self._session.protocol_version)
        return self._line.watch(monitor)

    async def request(self, method: PeerMethod, params: dict[str, Any]) -> PeerReply:
        """See ``ToolPeer``."""
        denied = False
        try:
            self._link.check_sending(method)
        except (CapabilityDenied, LocalProtocolError):
            denied = True
        if denied:
            return PeerFailure("mcp_tools_unavailable", submitted=False)
        return await self._line.request(method, params)


class _Line:
    """A connection, and the monitors that watch it."""

    def __init__(self, connection: McplConnection) -> None:
        self._connection = connection
        self._watchers = Watchers()

    async def request(self, method: PeerMethod, params: dict[str, Any]) -> PeerReply:
        try:
            return PeerResult(await self._connection.send_request(method, params, timeout=None))
        except Exception as exc:
            if isinstance(exc, ConnectionClosedError):
                # Also while the connection still finishes what it owes the peer: no answer can come any more.
                self._watchers.close()
            return own_failure(exc)

    def watch(self, monitor: CatalogMonitor) -> Callable[[], None]:
        def heard(message: Request | Notification) -> None:
            if message.method == methods.TOOLS_LIST_CHANGED and isinstance(message, Notification):
                monitor.list_changed()

        connection = self._connection
        removers = (connection.on_message(heard), connection.on_close(monitor.close), self._watchers.add(monitor))
        if connection.is_closed:
            monitor.close()

        def end() -> None:
            for remove in removers:
                remove()

        return end
