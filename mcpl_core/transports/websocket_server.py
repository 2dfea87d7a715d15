"""Admitting clients of a WebSocket listener.

Owns: the opening handshake on the server's side, its bounds in time and number, and asking ``authenticate``. Does not
own: which requests are fit (``websocket_policy``), binding and accepting (``websocket``, the backends).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from websockets.extensions.permessage_deflate import enable_server_permessage_deflate
from websockets.http11 import Request
from websockets.protocol import Protocol
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from ..errors import TransportError, UpgradeRefusedError
from .loop import EventLoop, name_library
from .websocket_engine import SILENT_LOGGER, Engine, WebSocketSettings
from .websocket_policy import Refusal, UpgradePolicy, UpgradeRequest

__all__ = ("DEFAULT_HANDSHAKE_TIMEOUT", "Admission", "Authenticate")

#: Seconds for a client's opening handshake, ``authenticate`` included.
DEFAULT_HANDSHAKE_TIMEOUT = 10.0

#: Tells who the client is, from its request; ``None``: nobody we know.
Authenticate = Callable[[UpgradeRequest], Any | Awaitable[Any]]

_FULL = Refusal(503, "too many connections")
_UNAUTHENTICATED = Refusal(401, "authentication is required")
_FAILED = Refusal(500, "the server failed")

_logger = logging.getLogger("mcpl_core.transports.websocket")


class Admission:
    """Takes clients through the opening handshake.

    Args:
        policy: which requests are fit.
        settings: what holds for every WebSocket.
        admitted: called with the engine, the request and the principal of each client that was let in.
        authenticate: see ``Authenticate``; ``None``: everybody is let in.
        subprotocols: the subprotocols to accept, best first.
        max_connections: how many may be open; as many may be in their opening handshake.
        handshake_timeout: seconds for one opening handshake.
    """

    def __init__(
        self,
        policy: UpgradePolicy,
        settings: WebSocketSettings,
        admitted: Callable[[Engine, UpgradeRequest, Any], None],
        *,
        authenticate: Authenticate | None,
        subprotocols: Sequence[str],
        max_connections: int,
        handshake_timeout: float,
    ) -> None:
        self._policy = policy
        self._settings = settings
        self._admitted = admitted
        self._authenticate = authenticate
        self._subprotocols = subprotocols
        self._max_connections = max_connections
        self._handshake_timeout = handshake_timeout
        self._open = 0
        self._opening = 0
        self._closed = False
        self._scopes: set[anyio.CancelScope] = set()

    def make(self) -> tuple[Protocol, WebSocketSettings]:
        """What the engine of a client is made of."""
        known = self._subprotocols

        def select(_: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
            return next((Subprotocol(name) for name in known if name in offered), None)

        protocol = ServerProtocol(
            extensions=enable_server_permessage_deflate(None) if self._settings.compression else None,
            select_subprotocol=select,
            logger=SILENT_LOGGER,
        )
        return protocol, self._settings

    def enter(self, engine: Engine, loop: EventLoop) -> None:
        """Begins with a client that has connected."""
        if self._opening >= self._max_connections:
            engine.abort()
            return
        self._opening += 1
        name_library()
        loop.tasks.start_soon(self._admit, engine, name="mcpl websocket handshake")

    def cancel(self) -> None:
        """Ends every opening handshake, and lets nobody in any more; clients that were let in stay."""
        self._closed = True
        for scope in self._scopes:
            scope.cancel()

    async def _admit(self, engine: Engine) -> None:
        done = False
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                with anyio.move_on_after(self._handshake_timeout):
                    done = await self._handshake(engine)
            except TransportError:
                pass
            finally:
                self._scopes.discard(scope)
                self._opening -= 1
                if not done:
                    engine.abort()

    async def _handshake(self, engine: Engine) -> bool:
        """Whether the engine is now somebody else's to close."""
        protocol = engine.protocol
        assert isinstance(protocol, ServerProtocol)
        try:
            event = await engine.exchange()
        except UpgradeRefusedError:
            # The library has an answer ready for some of them.
            await engine.release()
            return True
        assert isinstance(event, Request)
        request = UpgradeRequest.read(event, engine.peer)
        refusal = self._policy.refusal(request)
        if refusal is None and self._open >= self._max_connections:
            refusal = _FULL
        if refusal is not None:
            return await self._refuse(engine, protocol, refusal)
        self._reserve(engine)
        response = protocol.accept(event)
        principal = None
        if response.status_code == 101:
            principal = await self._principal(request)
            if isinstance(principal, Refusal):
                return await self._refuse(engine, protocol, principal)
        protocol.send_response(response)
        if response.status_code != 101:
            await engine.release()
            return True
        await engine.send_head()
        if self._closed:
            return False
        self._admitted(engine, request, principal)
        return True

    def _reserve(self, engine: Engine) -> None:
        self._open += 1

        def lost() -> None:
            self._open -= 1

        engine.on_lost = lost

    async def _principal(self, request: UpgradeRequest) -> Any:
        if self._authenticate is None:
            return None
        try:
            principal = self._authenticate(request)
            if inspect.isawaitable(principal):
                principal = await principal
        except Exception:
            _logger.exception("authenticate failed")
            return _FAILED
        # ``False`` is what a predicate says who took this for one.
        return _UNAUTHENTICATED if principal is None or principal is False else principal

    async def _refuse(self, engine: Engine, protocol: ServerProtocol, refusal: Refusal) -> bool:
        response = protocol.reject(refusal.status, refusal.text + "\n")
        if refusal.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        protocol.send_response(response)
        await engine.release()
        return True
