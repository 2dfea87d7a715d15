"""Ways to be reached.

Owns: what a way of serving is, the handshake, and the way over a connection of ours (standard input and output among
them). Does not own: HTTP, WebSockets and what applications write themselves (``plugged``), and starting and stopping
(``running``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ...connection import McplConnection
from ...dispatch import Router
from ...errors import InvalidParams, InvalidRequest, MethodNotFound
from ...server.session import SUPPORTED_PROTOCOL_VERSIONS
from ...wire.messages import Notification, Request
from .answers import SERVED_METHODS, Answers
from .call import Notify, Peer

__all__ = (
    "ConnectionEndpoint",
    "Endpoint",
    "Handshake",
    "stdio_transport",
)


class Endpoint(ABC):
    """One way to be reached: started once, stopped once."""

    #: What ``Peer.transport`` says.
    kind: str = "custom"

    #: Seconds that calls under way have to finish when it is stopped.
    grace: float = 0.0

    @abstractmethod
    async def run(self, answers: Answers, ready: Callable[[], None]) -> None:
        """Serves until stopped, or until there is nobody left to serve. Calls ``ready`` once it can be reached.

        Raises:
            McplError: it cannot be reached at all.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Has ``run`` return soon. Idempotent."""


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
        # What the connection would log itself may quote from messages.
        self._connection.on_error(answers.runner.report)
        async with self._connection as connection:
            ready()
            await connection.serve(self._router(answers))

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
