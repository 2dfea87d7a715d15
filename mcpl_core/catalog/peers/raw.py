"""A peer over any initialized MCP session that hands on results as they came.

Owns: the part of a session that is needed, as a protocol of its own, so that the client of this package and another's
fit alike, without importing either; and telling a monitor what such a session tells. Does not own: the session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from ...errors import ConnectionClosedError
from ...protocol import method as methods
from ..monitor import CatalogMonitor
from .base import PeerMethod, PeerReply, PeerResult
from .failures import own_failure
from .watchers import Watchers

__all__ = ("RawPeer", "ToolSession")


class ToolSession(Protocol):
    """What is asked of a session. Its errors are those of this package."""

    @property
    def protocol_version(self) -> str:
        """The version that was negotiated."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """The server's, as received."""

    @property
    def may_repeat(self) -> bool:
        """Whether it may send a request again by itself."""

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, timeout: float | None = ...
    ) -> dict[str, Any]:
        """Sends a request and waits; ``timeout=None``: without end. A caller that is cancelled tells the peer."""

    def on_notification(self, callback: Callable[[str, Any], None]) -> Callable[[], None]:
        """Calls ``callback(method, params)`` with each notification, in the order of the wire."""


class RawPeer:
    """An initialized session.

    For writes it is opened without permission to repeat (over HTTP: ``retry_on_throttle=False``, and no ``replay`` of
    calls whose answers are lost).

    Args:
        session: opened, and closed, by somebody else.
    """

    def __init__(self, session: ToolSession) -> None:
        self._session = session
        self._watchers = Watchers()

    def __repr__(self) -> str:
        return "<RawPeer>"

    @property
    def capabilities(self) -> Mapping[str, Any] | None:
        """See ``ToolPeer``."""
        found: Any = self._session.capabilities
        return found if isinstance(found, Mapping) else None

    @property
    def may_repeat(self) -> bool:
        """See ``ToolPeer``. A session that does not say may."""
        return getattr(self._session, "may_repeat", True) is not False

    def watch(self, monitor: CatalogMonitor) -> Callable[[], None]:
        """See ``ToolPeer``. A session that is over is noticed by the next request, or by ``follow``. A lost answer
        counts as its end also where the session lives on, as over HTTP: notices may be lost with it."""
        monitor.accept_version(self._session.protocol_version)

        def heard(method: str, params: Any) -> None:
            if method == methods.TOOLS_LIST_CHANGED:
                monitor.list_changed()

        removers = (self._session.on_notification(heard), self._watchers.add(monitor))

        def end() -> None:
            for remove in removers:
                remove()

        return end

    async def follow(self) -> None:
        """Waits until the session is over and tells the monitors; for a task of the host's, with a session that has
        ``wait_closed``."""
        wait: Any = getattr(self._session, "wait_closed", None)
        if wait is not None:
            # However it ended.
            with suppress(Exception):
                await wait()
            self._watchers.close()

    async def request(self, method: PeerMethod, params: dict[str, Any]) -> PeerReply:
        """See ``ToolPeer``."""
        try:
            return PeerResult(await self._session.request(method, params, timeout=None))
        except Exception as exc:
            failure = own_failure(exc)
            if isinstance(exc, ConnectionClosedError):
                self._watchers.close()
            return failure
