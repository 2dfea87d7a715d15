"""What the host saw of one connection: the negotiated version, changes of the list of tools, the close.

Owns: these three facts, and whether a catalog that was read at some revision still holds. Does not own: the connection
(nothing here opens, initializes or closes one), and how the facts get here (``peers``; a host may feed them itself).
"""

from __future__ import annotations

from typing import Final

from .errors import CatalogCode, CatalogError

__all__ = ("SUPPORTED_VERSIONS", "CatalogMonitor", "Lease")

#: MCP versions whose tools this boundary knows.
SUPPORTED_VERSIONS: Final = frozenset({"2025-06-18", "2025-11-25"})


class CatalogMonitor:
    """The facts of one connection. It belongs to that connection: another one gets a monitor of its own, and a new
    discovery.

    Args:
        revision: changes of the list that the host counted before; for a connection that was open already.
    """

    def __init__(self, *, revision: int = 0) -> None:
        self._revision = revision
        self._version: str | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<CatalogMonitor version={self._version} revision={self._revision} closed={self._closed}>"

    @property
    def protocol_version(self) -> str | None:
        """The version that was negotiated; ``None`` before it is known."""
        return self._version

    @property
    def revision(self) -> int:
        """Changes of the list so far."""
        return self._revision

    @property
    def closed(self) -> bool:
        """Whether the connection is over, for this boundary."""
        return self._closed

    def accept_version(self, version: str) -> None:
        """The version of the handshake's answer; a version that was only asked for is not one. The same one again is
        fine.

        Raises:
            CatalogError: ``mcp_protocol_unsupported``, ``mcp_protocol_conflict`` (another one than before); the monitor
                is closed then.
        """
        problem: CatalogCode | None = None
        if not isinstance(version, str) or version not in SUPPORTED_VERSIONS:
            problem = "mcp_protocol_unsupported"
        elif self._version not in (None, version):
            problem = "mcp_protocol_conflict"
        if problem is not None:
            self.close()
            # The server's word: it is not to stand in the frames of what is raised. The adapters keep it out of theirs.
            del version
            raise CatalogError(problem)
        self._version = version

    def list_changed(self) -> None:
        """``notifications/tools/list_changed`` came: what was read before is stale."""
        self._revision += 1

    def close(self) -> None:
        """The connection closed, or failed. Nothing revives it."""
        self._closed = True

    def problem(self, revision: int) -> CatalogCode | None:
        """Why what was read at ``revision`` does not hold; ``None``: it does."""
        if self._closed:
            return "mcp_connection_closed"
        if self._version is None:
            return "mcp_not_initialized"
        return None if revision == self._revision else "mcp_catalog_stale"


class Lease:
    """A monitor at the revision at which something was read."""

    __slots__ = ("_monitor", "_revision")

    def __init__(self, monitor: CatalogMonitor) -> None:
        self._monitor = monitor
        self._revision = monitor.revision

    def problem(self) -> CatalogCode | None:
        """Why it does not hold any more; ``None``: it does."""
        return self._monitor.problem(self._revision)

    def check(self) -> None:
        """Raises:
        CatalogError: it does not hold any more.
        """
        problem = self.problem()
        if problem is not None:
            raise CatalogError(problem)
