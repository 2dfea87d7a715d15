"""The ASGI application in front of the official SDK's: who gets in.

Owns: asking the policy and ``authenticate`` before anything else reads a request. Does not own: either of them, and
what is served (``http_server``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from .authenticating import discreet
from .call import LOCAL_PRINCIPAL
from .http_policy import HttpPolicy, HttpRefusal, IncomingRequest

__all__ = ("PEER", "HttpApplication")

#: Where the caller stands in the ASGI scope: the principal and the headers.
PEER: Final = "mcpl.peer"

_UNAUTHENTICATED: Final = HttpRefusal(401, "authentication is required", (("www-authenticate", "Bearer"),))
_FAILED: Final = HttpRefusal(500, "the server failed")

_logger = logging.getLogger("mcpl_core.mcp.serving")


class HttpApplication:
    """Everything that can be told by a request's head is told before its body is read.

    Args:
        manager: the SDK's, which serves what is let in.
        policy: which requests are let in.
        authenticate: tells who calls; ``None``: everybody is ``"local"``.
        timeout: seconds for ``authenticate``.
    """

    def __init__(
        self,
        manager: StreamableHTTPSessionManager,
        policy: HttpPolicy,
        authenticate: Callable[[Any], Any] | None,
        timeout: float,
    ) -> None:
        self._manager = manager
        self._policy = policy
        self._authenticate = None if authenticate is None else discreet(authenticate)
        self._timeout = timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _incoming(scope)
        refusal = self._policy.refusal(request)
        if refusal is None:
            principal = await self._principal(request)
            refusal = principal if isinstance(principal, HttpRefusal) else None
        if refusal is not None:
            response = PlainTextResponse(refusal.text + "\n", refusal.status, dict(refusal.headers))
            await response(scope, receive, send)
            return
        scope[PEER] = (principal, request.headers)
        # A client that goes before all of its request is there has no answer, and is no failure.
        with suppress(ClientDisconnect):
            await self._manager.handle_request(scope, receive, send)

    async def _principal(self, request: IncomingRequest) -> Any:
        if self._authenticate is None:
            return LOCAL_PRINCIPAL
        try:
            with anyio.fail_after(self._timeout):
                principal = await self._authenticate(request)
        except Exception as exc:
            _logger.error("authenticate failed: %s", str(exc) or type(exc).__name__)
            return _FAILED
        # True and False are what a predicate says that only lets in, or does not.
        if principal is True:
            return LOCAL_PRINCIPAL
        return _UNAUTHENTICATED if principal is None or principal is False else principal


def _incoming(scope: Scope) -> IncomingRequest:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    client = scope.get("client")
    peer = f"{client[0]}:{client[1]}" if client else ""
    return IncomingRequest(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers, peer)
