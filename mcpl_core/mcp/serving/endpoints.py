"""Ways to be reached.

Owns: what a way of serving is, the one that applications write themselves, and the one over a connection of ours
(standard input and output among them). Does not own: HTTP and WebSockets, and starting and stopping (``running``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, runtime_checkable

import anyio
from msgspec import Raw

from ...connection import McplConnection
from ...dispatch import Router
from ...errors import InternalError, InvalidParams, InvalidRequest, MethodNotFound, RpcError
from ...server.session import SUPPORTED_PROTOCOL_VERSIONS
from ...wire.messages import Notification, Request
from ...wire.values import decode_value
from .answers import SERVED_METHODS, Answers
from .call import Notify, Peer

__all__ = (
    "ConnectionEndpoint",
    "Endpoint",
    "Handshake",
    "MessageHandler",
    "McpTransport",
    "PluggedEndpoint",
    "stdio_transport",
)

#: One incoming JSON-RPC message to its answer; ``None`` for a notification.
MessageHandler = Callable[[Any], Awaitable[dict[str, Any] | None]]

#: Handlers of one connection that run at once, and seconds for what was accepted when the peer is done.
_HANDLER_LIMIT: Final = 100
_GRACE: Final = 5.0


class Endpoint(ABC):
    """One way to be reached: started once, stopped once."""

    #: What ``Peer.transport`` says.
    kind: str = "custom"

    @abstractmethod
    async def run(self, answers: Answers, ready: Callable[[], None]) -> None:
        """Serves until stopped, or until there is nobody left to serve. Calls ``ready`` once it can be reached.

        Raises:
            McplError: it cannot be reached at all.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Has ``run`` return soon. Idempotent."""


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


class Handshake:
    """The handshake of one connection.

    Attributes:
        protocol_version: the version agreed on; empty before.
        client: the client's ``clientInfo``.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.protocol_version = ""
        self.client: dict[str, Any] | None = None

    def initialize(self, params: Any) -> dict[str, Any]:
        """The result of ``initialize``: the client's version where it is known, else the newest of its era.

        Raises:
            InvalidRequest: it was done already.
            InvalidParams: there is no version in it.
        """
        if self.protocol_version:
            raise InvalidRequest(message="the handshake is done already")
        wanted = params.get("protocolVersion") if isinstance(params, dict) else None
        if not isinstance(wanted, str):
            raise InvalidParams(message="protocolVersion is a text", data={"path": "$.protocolVersion"})
        client = params.get("clientInfo")
        self.protocol_version = wanted if wanted in SUPPORTED_PROTOCOL_VERSIONS else SUPPORTED_PROTOCOL_VERSIONS[-1]
        self.client = client if isinstance(client, dict) else None
        identity = self._answers.identity
        result = {
            "protocolVersion": self.protocol_version,
            "capabilities": self._answers.capabilities(),
            "serverInfo": identity.info,
        }
        return result if identity.instructions is None else {**result, "instructions": identity.instructions}

    async def answer(self, method: str, params: Any, peer: Callable[[], Peer], notify: Notify) -> Any:
        """The result of any other request.

        Raises:
            RpcError: there is none; before the handshake only ``ping`` has one.
        """
        if method == "ping":
            return {}
        if method not in SERVED_METHODS:
            raise MethodNotFound(message=f"no such method: {method}", data={"method": method})
        if not self.protocol_version:
            raise InvalidRequest(message="initialize comes first")
        return await self._answers.answer(method, params, peer(), notify)


class PluggedEndpoint(Endpoint):
    """Serves over an application's own transport.

    Args:
        transport: see ``McpTransport``.
    """

    def __init__(self, transport: McpTransport) -> None:
        self._transport = transport
        self._stopped = anyio.Event()

    async def run(self, answers: Answers, ready: Callable[[], None]) -> None:
        handshake = Handshake(answers)
        send = getattr(self._transport, "send", None)

        async def notify(method: str, params: dict[str, Any]) -> None:
            if send is not None:
                await send({"jsonrpc": "2.0", "method": method, "params": params})

        def peer() -> Peer:
            return Peer(transport=self.kind, protocol_version=handshake.protocol_version, client=handshake.client)

        async def handler(message: Any) -> dict[str, Any] | None:
            return await _answer_message(message, handshake, peer, notify, answers.runner.report)

        await self._transport.start(handler)
        try:
            ready()
            await self._stopped.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await self._transport.stop()

    async def stop(self) -> None:
        self._stopped.set()


async def _answer_message(
    message: Any,
    handshake: Handshake,
    peer: Callable[[], Peer],
    notify: Notify,
    report: Callable[[BaseException], object],
) -> dict[str, Any] | None:
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        return _error(None, InvalidRequest(message="not a JSON-RPC 2.0 request"))
    if "id" not in message:
        return None
    id, method, params = message["id"], message["method"], message.get("params")
    if not isinstance(id, str | int) or isinstance(id, bool):
        return _error(None, InvalidRequest(message="an id is a text or a whole number"))
    try:
        if method == "initialize":
            result: Any = handshake.initialize(params)
        else:
            result = await handshake.answer(method, params, peer, notify)
    except RpcError as exc:
        return _error(id, exc)
    except Exception as exc:
        report(exc)
        return _error(id, InternalError())
    return {"jsonrpc": "2.0", "id": id, "result": decode_value(result) if isinstance(result, Raw) else result}


def _error(id: Any, error: RpcError) -> dict[str, Any]:
    data = {} if error.data is None else {"data": error.data}
    return {"jsonrpc": "2.0", "id": id, "error": {"code": error.code, "message": error.message, **data}}


class ConnectionEndpoint(Endpoint):
    """Serves one client over a connection of ours, in the handshake era of MCP, until it is gone.

    Args:
        connection: a connection that was not entered yet; this endpoint enters and closes it.
        kind: what ``Peer.transport`` says.
        peer: who is at the other end; version and client come from the handshake.
    """

    def __init__(self, connection: McplConnection, *, kind: str = "connection", peer: Peer | None = None) -> None:
        self.kind = kind
        self._connection = connection
        self._peer = Peer() if peer is None else peer

    async def run(self, answers: Answers, ready: Callable[[], None]) -> None:
        async with self._connection as connection:
            ready()
            await connection.serve(self._router(answers), limit=_HANDLER_LIMIT, grace=_GRACE)

    async def stop(self) -> None:
        await self._connection.aclose()

    def _router(self, answers: Answers) -> Router:
        handshake = Handshake(answers)
        connection, given = self._connection, self._peer

        async def notify(method: str, params: dict[str, Any]) -> None:
            await connection.send_notification(method, params)

        def peer() -> Peer:
            return Peer(given.principal, self.kind, handshake.protocol_version, handshake.client, given.headers)

        async def answer(message: Request | Notification) -> Any:
            if isinstance(message, Request):
                return await handshake.answer(message.method, message.params, peer, notify)
            return None

        router = Router()
        # Inline: what a client sends right behind its handshake comes after it.
        router.add("initialize", lambda request: handshake.initialize(request.params), inline=True)
        router.add("ping", lambda request: {}, inline=True)
        for method in SERVED_METHODS:
            router.add(method, answer, ordered=False)
        router.otherwise(answer)
        return router


def stdio_transport(**options: Any) -> ConnectionEndpoint:
    """Over this process's own standard input and output; needs no library. While it runs, what is printed goes to
    standard error.

    Args:
        options: of the connection.
    """
    return ConnectionEndpoint(McplConnection.stdio(**options), kind="stdio")
