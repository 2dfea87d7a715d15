"""An MCP session without a handshake (MCP 2026-07-28), over a connection of this package.

Owns: ``server/discover``, and the members of ``_meta`` that every request carries in that era. Does not own: requests
(``native``), questions in results (``inputs``), and Streamable HTTP (``http``). Only on the application's wish: most
servers speak the handshake, and some settle on the era of the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import UNSET, UnsetType

from ..errors import InvalidResultError
from .native import NativeSession, client_capabilities

__all__ = ("MODERN_VERSIONS", "PROBE_TIMEOUT", "ModernSession", "ProbingSession")

#: Versions without a handshake, the best one last.
MODERN_VERSIONS: Final = ("2026-07-28",)
#: Seconds for the answer to ``server/discover`` where the handshake comes next.
PROBE_TIMEOUT: Final = 10.0

_DISCOVER = "server/discover"
_META = "io.modelcontextprotocol/"


class ModernSession(NativeSession):
    """A ``RawSession`` of the era without a handshake. Arguments as ``NativeSession``."""

    _stamp: Mapping[str, Any] = {}

    async def initialize(self, client_info: Mapping[str, Any]) -> None:
        """Finds out what the server is.

        Raises:
            RpcError: it does not know this era.
            InvalidResultError: it speaks no version of it that is spoken here.
        """
        version = MODERN_VERSIONS[-1]
        self._stamp = {
            f"{_META}protocolVersion": version,
            f"{_META}clientInfo": dict(client_info),
            f"{_META}clientCapabilities": client_capabilities(self._handlers),
        }
        answer = await self.request(_DISCOVER, timeout=self._patience())
        spoken = answer.get("supportedVersions")
        if not isinstance(spoken, list) or version not in spoken:
            raise InvalidResultError(_DISCOVER, f"expected {version} among them", "$.supportedVersions")
        meta = answer.get("_meta")
        info = meta.get(f"{_META}serverInfo") if isinstance(meta, dict) else None
        self._answer = {**answer, "protocolVersion": version, "serverInfo": info}

    def _patience(self) -> float | None:
        """Seconds for the first answer."""
        return self._timeout

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None | UnsetType = UNSET,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        reset_on_progress: bool = False,
        max_total: float | None = None,
    ) -> dict[str, Any]:
        """See ``RawSession.request``. The members of ``_meta`` that this era demands are not the caller's to choose."""
        given = (params or {}).get("_meta")
        meta = {**(given if isinstance(given, dict) else {}), **self._stamp}
        return await super().request(
            method,
            {**(params or {}), "_meta": meta},
            timeout=timeout,
            on_progress=on_progress,
            reset_on_progress=reset_on_progress,
            max_total=max_total,
        )


class ProbingSession(ModernSession):
    """The same, where the handshake comes next: a server that says nothing is not waited for long."""

    def _patience(self) -> float | None:
        return PROBE_TIMEOUT if self._timeout is None else min(PROBE_TIMEOUT, self._timeout)
