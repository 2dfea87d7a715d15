"""Telling one host that the manifest or the tool list changed (SPEC 17.3; MCP).

Owns: what it was not told yet, merged until it can be told: rapid changes become one notification (SPEC 17.8), and a
host that does not read costs one of each. Does not own: what changed (``manifest``), and who else is told.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from ..connection import McplConnection
from ..errors import McplError
from ..manifest import Announcement
from ..protocol import CHANGE_DOMAINS, ChangeDomain, method

__all__ = ("Announcer",)


class Announcer:
    """The notifications of one connection.

    Args:
        connection: where they go.
        spawn: starts a task of the connection.
    """

    def __init__(
        self, connection: McplConnection, spawn: Callable[[Callable[[], Coroutine[Any, Any, Any]]], object]
    ) -> None:
        self._connection = connection
        self._spawn = spawn
        self._opened = False
        self._working = False
        self._revision: str | None = None
        self._domains: set[ChangeDomain] = set()
        self._tools = False

    def open(self) -> None:
        """The handshake is complete; before that a host is told nothing (MCP lifecycle)."""
        self._opened = True
        self._wake()

    def manifest_changed(self, announcement: Announcement[Any]) -> None:
        """The manifest is another one now."""
        self._revision = announcement.revision
        self._domains |= set(announcement.domains)
        self._wake()

    def tools_changed(self) -> None:
        """The tool list is another one now."""
        self._tools = True
        self._wake()

    def _wake(self) -> None:
        if self._opened and not self._working and (self._revision is not None or self._tools):
            self._working = True
            self._spawn(self._tell)

    async def _tell(self) -> None:
        try:
            while True:
                if (revision := self._revision) is not None:
                    domains = [domain for domain in CHANGE_DOMAINS if domain in self._domains]
                    self._revision, self._domains = None, set()
                    await self._send(method.MCPL_MANIFEST_CHANGED, {"revision": revision, "domains": domains})
                elif self._tools:
                    self._tools = False
                    await self._send(method.TOOLS_LIST_CHANGED)
                else:
                    return
        finally:
            self._working = False

    async def _send(self, name: str, params: Any = None) -> None:
        try:
            await self._connection.send_notification(name, params)
        except McplError as exc:
            self._connection.report(exc)
