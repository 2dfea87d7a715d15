"""WebSockets, as a way to be reached: one text message is one JSON-RPC message, one connection one handshake.

Owns: serving every client that the listener lets in. Does not own: letting in (origins, ``Host``, ``authenticate``,
limits: ``mcpl_core.transports``), and one connection (``endpoints``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import anyio

from ...connection import McplConnection
from ...listening import ConnectionListener
from .answers import Answers
from .authenticating import discreet
from .call import LOCAL_PRINCIPAL, Peer
from .endpoints import ConnectionEndpoint
from .listening import ListeningEndpoint

__all__ = ("WebSocketEndpoint", "websocket_transport")


class WebSocketEndpoint(ListeningEndpoint):
    """Serves WebSocket clients, in the handshake era of MCP.

    Args:
        port, host, path: see ``ListeningEndpoint``.
        options: of the listener: ``origins`` (of pages that may connect; none by default), ``allowed_hosts``,
            ``authenticate`` (what it returns is the ``principal``; without, everybody is ``"local"``),
            ``max_connections`` (100), ``ssl``, ``max_message_bytes``, ...

    Raises:
        InvalidValueError, TypeError: an option is outside its range, or there is none of that name.
    """

    kind = "websocket"

    def __init__(self, port: int, *, host: str = "127.0.0.1", path: str = "/mcp", **options: Any) -> None:
        super().__init__(port, host, path)
        if callable(authenticate := options.get("authenticate")):
            options["authenticate"] = discreet(authenticate)
        scheme = "wss" if options.get("ssl") is not None else "ws"
        name = f"[{host}]" if ":" in host else host
        self._listener: ConnectionListener[McplConnection] = McplConnection.listen(
            f"{scheme}://{name}:{port}{path}", listener_options=options
        )
        self._open: set[McplConnection] = set()

    async def run(self, answers: Answers, ready: Callable[[], None]) -> None:
        async with self._listener as listener, anyio.create_task_group() as clients:
            parts = urlsplit(listener.endpoint)
            self.address = (parts.hostname or "", parts.port or 0)
            ready()
            async for connection in listener:
                # Here, not in its task: stopping must find one whose task did not begin yet.
                self._open.add(connection)
                clients.start_soon(self._serve, answers, connection)

    async def _serve(self, answers: Answers, connection: McplConnection) -> None:
        principal = getattr(connection.transport, "principal", None)
        request = getattr(connection.transport, "request", None)
        # True is what an ``authenticate`` says that only lets in.
        known = LOCAL_PRINCIPAL if principal is None or principal is True else principal
        peer = Peer(known, headers={} if request is None else request.headers)
        try:
            await ConnectionEndpoint(connection, kind=self.kind, peer=peer).run(answers, _nothing)
        except Exception as exc:
            # What goes wrong with one client touches no other.
            answers.runner.report(exc)
        finally:
            self._open.discard(connection)

    async def stop(self) -> None:
        await self._listener.aclose()
        async with anyio.create_task_group() as closing:
            for connection in tuple(self._open):
                closing.start_soon(connection.aclose)


def websocket_transport(port: int, **options: Any) -> WebSocketEndpoint:
    """WebSockets at ``port``; takes the options of ``WebSocketEndpoint``, and raises what it raises."""
    return WebSocketEndpoint(port, **options)


def _nothing() -> None:
    """Nobody waits for a single client to be served."""
