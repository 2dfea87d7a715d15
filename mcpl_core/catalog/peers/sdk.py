"""A peer over a ``ClientSession`` of the official SDK (``pip install 'mcp-live-core[mcp]'``).

Owns: requests through it that skip its own reading of results, and a message handler that feeds monitors and then calls
the host's. Does not own: the session. Its ``call_tool`` is not used: that lists tools by itself, and drops what it does
not know.

A request that is abandoned is taken back on the wire by the SDK's own dispatcher, for as long as the session is not
resumed; a test looks at the bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from anyio.lowlevel import cancel_shielded_checkpoint

from ...errors import LocalProtocolError
from ..monitor import CatalogMonitor
from .base import PeerMethod, PeerReply, PeerResult
from .failures import sdk_failure
from .watchers import Watchers

if TYPE_CHECKING:
    from mcp import ClientSession

__all__ = ("SdkNotices", "SdkPeer")

_LIST_CHANGED: Final = "notifications/tools/list_changed"


class SdkNotices:
    """The ``message_handler`` of a session: made before the session, and given to it.

    Args:
        inner: the host's own handler, called after the monitors were told.
    """

    def __init__(self, inner: Callable[[Any], Awaitable[None]] | None = None) -> None:
        self._inner = inner
        self.watchers = Watchers()

    async def __call__(self, message: Any) -> None:
        """Takes a notification, or an exception of the stream, which ends the session for this boundary."""
        # Before anything is awaited: what waits for an answer looks right after this.
        if isinstance(message, Exception):
            self.watchers.close()
        elif getattr(message, "method", None) == _LIST_CHANGED:
            self.watchers.list_changed()
        if self._inner is not None:
            await self._inner(message)


class _Result:
    """Stands where the SDK wants a model: takes the result as it came."""

    @classmethod
    def model_validate(cls, value: Any, **options: Any) -> Any:
        return value


class SdkPeer:
    """An initialized session of the SDK.

    Args:
        session: opened, initialized and closed by somebody else.
        notices: the handler that it was made with.

    Raises:
        LocalProtocolError: the SDK is not installed.
    """

    def __init__(self, session: ClientSession, notices: SdkNotices) -> None:
        try:
            import mcp.types
        except ImportError:
            raise LocalProtocolError("a session of the SDK needs it: pip install 'mcp-live-core[mcp]'") from None
        self._types = mcp.types
        self._session = session
        self._notices = notices

    def __repr__(self) -> str:
        return "<SdkPeer>"

    @property
    def capabilities(self) -> Mapping[str, Any] | None:
        """See ``ToolPeer``."""
        found = self._session.server_capabilities
        return None if found is None else found.model_dump(mode="json", by_alias=True, exclude_none=True)

    @property
    def may_repeat(self) -> bool:
        """Not the SDK. What an HTTP client of the host's own does beneath it cannot be seen from here; one that repeats
        is not for writes."""
        return False

    def watch(self, monitor: CatalogMonitor) -> Callable[[], None]:
        """See ``ToolPeer``. A session that is not initialized has no version to tell. One that is over tells nobody:
        whoever leaves it closes the monitor; until then requests fail one by one."""
        if self._session.protocol_version is not None:
            monitor.accept_version(self._session.protocol_version)
        return self._notices.watchers.add(monitor)

    async def request(self, method: PeerMethod, params: dict[str, Any]) -> PeerReply:
        """See ``ToolPeer``."""
        try:
            result: Any = await self._session.send_request(self._message(method, params), _Result)
        except Exception as exc:
            return sdk_failure(exc)
        # A notice that came before the answer is handled by a task of its own. One turn may bring it behind us in the
        # same round (trio), so it had its turn only after two.
        await cancel_shielded_checkpoint()
        await cancel_shielded_checkpoint()
        return PeerResult(result)

    def _message(self, method: PeerMethod, params: dict[str, Any]) -> Any:
        types = self._types
        if method == "tools/call":
            return types.CallToolRequest(params=types.CallToolRequestParams.model_validate(params))
        return types.ListToolsRequest(params=types.PaginatedRequestParams.model_validate(params) if params else None)
