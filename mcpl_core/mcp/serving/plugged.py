"""A transport that an application writes itself, as a way to be reached.

Owns: its shape, answering its messages in the handshake era of MCP, and cancelling what a client gave up. Does not own:
how messages travel.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, runtime_checkable

import anyio
from msgspec import Raw

from ...errors import InternalError, InvalidRequest, RpcError
from ...wire.values import decode_value
from .answers import Answers, error_object
from .call import Peer
from .endpoints import Endpoint, Handshake

__all__ = ("McpTransport", "MessageHandler", "PluggedEndpoint")

#: One incoming JSON-RPC message to its answer; ``None`` for a notification, and for a request that was cancelled.
MessageHandler = Callable[[Any], Awaitable[dict[str, Any] | None]]

#: Seconds that a transport may take to tear down.
_STOP_TIMEOUT: Final = 5.0


@runtime_checkable
class McpTransport(Protocol):
    """A transport that an application writes itself; any object of this shape.

    It may have ``async send(message)``, too: notifications about a call (progress) go there.
    """

    async def start(self, handler: MessageHandler) -> None:
        """Boots; from now on each incoming message, a JSON-RPC object, is given to ``handler``, whose answer, if any,
        goes back. Any number at once."""

    async def stop(self) -> None:
        """Tears down; ``handler`` is called no more."""


class PluggedEndpoint(Endpoint):
    """Serves over an application's own transport.

    Args:
        transport: see ``McpTransport``.
    """

    def __init__(self, transport: McpTransport) -> None:
        self._transport = transport
        self._stopped = anyio.Event()

    async def run(self, answers: Answers, ready: Callable[[], None]) -> None:
        await self._transport.start(_Client(answers, self.kind, getattr(self._transport, "send", None)).handle)
        try:
            ready()
            await self._stopped.wait()
        finally:
            with anyio.move_on_after(_STOP_TIMEOUT, shield=True):
                await self._transport.stop()

    async def stop(self) -> None:
        self._stopped.set()


class _Client:
    """The one client of a transport: its handshake, and its requests that are under way."""

    def __init__(self, answers: Answers, kind: str, send: Callable[[dict[str, Any]], Awaitable[Any]] | None) -> None:
        self._answers = answers
        self._handshake = Handshake(answers)
        self._kind = kind
        self._send = send
        self._under_way: dict[str | int, anyio.CancelScope] = {}

    async def handle(self, message: Any) -> dict[str, Any] | None:
        """The answer to one message; see ``MessageHandler``."""
        if (
            not isinstance(message, dict)
            or message.get("jsonrpc") != "2.0"
            or not isinstance(message.get("method"), str)
        ):
            return self._error(None, InvalidRequest(message="not a JSON-RPC 2.0 request"))
        method, params = message["method"], message.get("params")
        if "id" not in message:
            self._notified(method, params)
            return None
        id = message["id"]
        if not isinstance(id, str | int) or isinstance(id, bool):
            return self._error(None, InvalidRequest(message="an id is a text or a whole number"))
        if id in self._under_way:
            return self._error(id, InvalidRequest(message="a request with this id is under way"))
        answer: dict[str, Any] | None = None
        with anyio.CancelScope() as scope:
            self._under_way[id] = scope
            try:
                answer = await self._answered(id, method, params)
            finally:
                del self._under_way[id]
        return answer

    async def _answered(self, id: str | int, method: str, params: Any) -> dict[str, Any]:
        try:
            if method == "initialize":
                result: Any = self._handshake.initialize(params)
            else:
                result = await self._handshake.answer(method, params, self._peer, self._notify)
        except RpcError as exc:
            return self._error(id, exc)
        except Exception as exc:
            self._answers.runner.report(exc)
            return self._error(id, InternalError())
        return {"jsonrpc": "2.0", "id": id, "result": decode_value(result) if isinstance(result, Raw) else result}

    def _notified(self, method: str, params: Any) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            id = params.get("requestId")
            scope = self._under_way.get(id) if isinstance(id, str | int) and not isinstance(id, bool) else None
            if scope is not None:
                scope.cancel()

    def _error(self, id: Any, error: RpcError) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": id, "error": error_object(error, self._answers.runner.report)}

    def _peer(self) -> Peer:
        handshake = self._handshake
        return Peer(transport=self._kind, protocol_version=handshake.protocol_version, client=handshake.client)

    async def _notify(self, method: str, params: dict[str, Any]) -> None:
        if self._send is not None:
            await self._send({"jsonrpc": "2.0", "method": method, "params": params})
