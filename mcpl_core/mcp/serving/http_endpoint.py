"""Streamable HTTP, as a way to be reached: what it is made of, checked before anything listens.

Owns: the options, the address, and that a missing library or an event loop that cannot serve HTTP is said at once. Does
not own: the requests that are let in (``http_policy``), and serving them (``http_server``, which needs the official SDK
and is loaded when an endpoint is made).
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

import anyio

from ...errors import TransportError
from ..errors import McpExtraMissingError
from .answers import Answers
from .errors import McpUnsupportedError
from .http_policy import Allowed, IncomingRequest, is_loopback_host, make_http_policy
from .listening import ListeningEndpoint, checked_count, checked_seconds

__all__ = (
    "DEFAULT_GRACE",
    "DEFAULT_MAX_BODY_BYTES",
    "DEFAULT_MAX_CLIENTS",
    "DEFAULT_CLIENT_TIMEOUT",
    "Authenticate",
    "HttpEndpoint",
    "http_transport",
)

#: Bytes of a request's body, past which it is refused (413).
DEFAULT_MAX_BODY_BYTES: Final = 4 * 1024 * 1024

#: Clients connected at once; each call under way keeps one connection.
DEFAULT_MAX_CLIENTS: Final = 1_000

#: Seconds that a client may keep the server waiting.
DEFAULT_CLIENT_TIMEOUT: Final = 30.0

#: Seconds that calls under way have to finish when the server stops.
DEFAULT_GRACE: Final = 5.0

#: Connections that wait in the kernel until they are accepted.
_BACKLOG: Final = 128

#: Tells who calls, sync or async; ``None``: nobody we know.
Authenticate = Callable[[IncomingRequest], Any]

_logger = logging.getLogger("mcpl_core.mcp.serving")


class HttpEndpoint(ListeningEndpoint):
    """Serves Streamable HTTP without sessions: every request stands for itself, so any number of replicas may stand
    behind one address. Clients of the handshake era and of the era without one are served alike.

    Args:
        port, host, path: see ``ListeningEndpoint``.
        allowed_origins, allowed_hosts: see ``make_http_policy``.
        authenticate: see ``Authenticate``; what it returns is the ``principal``. Left out: everybody is ``"local"``.
        max_body_bytes: the largest body of a request, in bytes.
        max_connections: how many clients may be connected at once; a further one gets 503.
        client_timeout: seconds that a new client may take to begin a request, a request to arrive, and a client to
            take what waits for it (then it is hung up on), and ``authenticate`` to judge it (then it gets 500).
        grace: seconds for calls under way when it stops; then they are cancelled.

    Raises:
        McpExtraMissingError: the official SDK is not installed.
        McpUnsupportedError: trio runs (``event-loop``): the HTTP server needs asyncio.
        InvalidValueError: a value is outside its range.
    """

    kind = "http"

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        path: str = "/mcp",
        allowed_origins: Allowed = None,
        allowed_hosts: Allowed = None,
        authenticate: Authenticate | None = None,
        max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
        max_connections: int = DEFAULT_MAX_CLIENTS,
        client_timeout: float = DEFAULT_CLIENT_TIMEOUT,
        grace: float = DEFAULT_GRACE,
    ) -> None:
        try:
            from .http_server import HttpServer
        except ModuleNotFoundError as exc:
            raise McpExtraMissingError("serving MCP over HTTP", exc.name or "mcp") from exc
        _require_asyncio()
        super().__init__(port, host, path)
        self.grace = checked_seconds("grace", grace)
        self._policy = make_http_policy(
            path=path, host=host, allowed_hosts=allowed_hosts, allowed_origins=allowed_origins
        )
        self._open_names = allowed_hosts is None and not is_loopback_host(host)
        self._where = (host, port)
        self._server = HttpServer(
            self._policy,
            authenticate,
            checked_count("max_body_bytes", max_body_bytes),
            checked_count("max_connections", max_connections),
            checked_seconds("client_timeout", client_timeout),
            self.grace,
        )

    async def run(self, answers: Answers, ready: Callable[[], None]) -> None:
        _require_asyncio()
        listening = await self._bind()
        try:
            self.address = listening.getsockname()[:2]
            if self._open_names:
                _logger.warning(
                    "MCP over HTTP at %s:%s is served under every host name; name them in allowed_hosts", *self.address
                )
            await self._server.serve(answers, listening, ready)
        finally:
            listening.close()

    async def stop(self) -> None:
        self._server.stop()

    async def _bind(self) -> socket.socket:
        host, port = self._where
        try:
            infos = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            # A name that stands for both: most clients of this machine dial 127.0.0.1.
            family, _, _, _, address = min(infos, key=lambda info: info[0] != socket.AF_INET)
            listening = socket.socket(family, socket.SOCK_STREAM)
            try:
                if os.name == "posix":  # elsewhere it would let two programs listen at once
                    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(address)
                listening.listen(_BACKLOG)
                listening.setblocking(False)
            except BaseException:
                listening.close()
                raise
        except (OSError, UnicodeError) as exc:
            raise TransportError(f"http://{host}:{port}: {getattr(exc, 'strerror', None) or exc}") from exc
        return listening


def http_transport(port: int, **options: Any) -> HttpEndpoint:
    """Streamable HTTP at ``port``; takes the options of ``HttpEndpoint``, and raises what it raises."""
    return HttpEndpoint(port, **options)


def _require_asyncio() -> None:
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        raise McpUnsupportedError("event-loop", "serving MCP over HTTP needs asyncio; this is trio")
