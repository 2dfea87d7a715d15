"""A client without a server, for tests of what stands on clients.

Owns: a session in memory, whose tools are what the test says. The client around it is the real one, with its catalogue,
its checks, its events and its names. Does not own: transports; nothing about credentials is proved with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio
from msgspec import UNSET, UnsetType

from ..errors import ConnectionClosedError, ConnectionTimeoutError, MethodNotFound
from ..observers import Observers
from ..protocol.method import TOOLS_CALL, TOOLS_LIST
from .client import McpClient
from .connecting import mcp_client
from .outcomes import TerminateOutcome
from .session import DEFAULT_TERMINATE_BOUND

__all__ = ("MockSession", "mock_mcp_client")


def _default_handler(tool: str, arguments: dict[str, Any]) -> str:
    return "[mock result]"


class MockSession:
    """A ``RawSession`` in memory.

    Args:
        tools: definitions, or names.
        handler: ``handler(tool, arguments)``, sync or async: a text, or a whole result. It may raise.

    Attributes:
        calls: tool and arguments of each call, oldest first.
    """

    protocol_version = "2025-11-25"
    instructions = None
    may_repeat = False

    def __init__(
        self,
        tools: Iterable[str | Mapping[str, Any]] = (),
        handler: Callable[[str, dict[str, Any]], Any] = _default_handler,
    ) -> None:
        self.tools = [
            {"name": tool, "inputSchema": {"type": "object"}} if isinstance(tool, str) else dict(tool) for tool in tools
        ]
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.server_info: dict[str, Any] = {"name": "mock", "version": "0"}
        self.capabilities: dict[str, Any] = {"tools": {}}
        self._handler = handler
        self._callbacks: list[Callable[[str, Any], None]] = []
        self._closed = False

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
        """See ``RawSession.request``; knows ``tools/list`` and ``tools/call``. There is no progress."""
        if self._closed:
            raise ConnectionClosedError("not-sent")
        if method == TOOLS_LIST:
            return {"tools": self.tools}
        if method != TOOLS_CALL:
            raise MethodNotFound
        bounds = [bound for bound in (timeout, max_total) if isinstance(bound, int | float)]
        bound = min(bounds, default=float("inf"))
        with anyio.move_on_after(bound):
            return await self._called(**(params or {}))
        raise ConnectionTimeoutError(method, bound)

    async def _called(self, name: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        self.calls.append((name, arguments))
        result = self._handler(name, arguments)
        if inspect.isawaitable(result):
            result = await result
        return dict(result) if isinstance(result, Mapping) else {"content": [{"type": "text", "text": str(result)}]}

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Does nothing."""

    def on_notification(self, callback: Callable[[str, Any], None]) -> Callable[[], None]:
        """See ``RawSession.on_notification``; ``push`` makes them."""
        return Observers.add(self._callbacks, callback)

    def push(self, method: str, params: Any = None) -> None:
        """A notification arrives."""
        for callback in tuple(self._callbacks):
            callback(method, params)

    async def terminate(self, timeout: float = DEFAULT_TERMINATE_BOUND) -> TerminateOutcome:
        """Closes it: there is no other session to end."""
        await self.aclose()
        return TerminateOutcome("no-session")

    async def aclose(self) -> None:
        """Closes it."""
        self._closed = True


def mock_mcp_client(
    name: str = "mcp",
    tools: Iterable[str | Mapping[str, Any]] = (),
    handler: Callable[[str, dict[str, Any]], Any] = _default_handler,
    **options: Any,
) -> McpClient:
    """A client of the same shape as ``mcp_client`` makes, over a ``MockSession``.

    Args:
        name: of the client; stamped on its tools as their source.
        tools, handler: see ``MockSession``.
        options: as for ``mcp_client``, as far as they are not about transports.
    """
    return mcp_client(name, session=MockSession(tools, handler), **options)
