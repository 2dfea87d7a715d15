"""Serving Streamable HTTP with the official SDK and uvicorn. Needs both; loaded when an HTTP endpoint is made.

Owns: the way from the SDK's requests to our answers and back, and the life of the HTTP server. Does not own: who gets
in (``http_application``), how long a client may take (``http_connection``), and MCP over HTTP itself, in both eras,
which is the SDK's: content negotiation, the limit of the body, the envelope of requests, routing headers, streams and
keep-alive.

The answers go round the SDK's own models of results: these drop members that they do not know and nulls in schemas, and
what is served goes out as it is. The envelope that the era without a handshake asks for is therefore added here.
"""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import anyio
import mcp_types as types
import uvicorn
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types.methods import CACHEABLE_METHODS
from msgspec import Raw
from starlette.requests import ClientDisconnect, Request

from ...errors import RpcError
from ...wire.values import decode_value, encode_value, has_surrogate_escape
from .answers import Answers, error_object, is_modern
from .call import Notify, Peer
from .http_application import PEER, HttpApplication
from .http_connection import BoundedConnection
from .http_policy import HttpPolicy

__all__ = ("HttpServer",)

#: Print messages, headers or bodies at their debug level.
_LOUD_LOGGERS: Final = (
    "mcp.server._streamable_http_modern",
    "mcp.server.lowlevel.server",
    "mcp.server.runner",
    "mcp.server.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
    "sse_starlette.sse",
)

#: Seconds between two looks at the clock for the ``Date`` header.
_TICK: Final = 1.0

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class HttpServer:
    """One HTTP server; serves once.

    Args:
        policy: which requests are let in.
        authenticate: tells who calls; ``None``: everybody is ``"local"``.
        max_body_bytes: the largest body of a request.
        max_connections: how many clients may be connected at once.
        client_timeout: seconds that a client may keep the server waiting, and ``authenticate`` too.
        grace: seconds for calls under way when it stops.
    """

    def __init__(
        self,
        policy: HttpPolicy,
        authenticate: Callable[[Any], Any] | None,
        max_body_bytes: int,
        max_connections: int,
        client_timeout: float,
        grace: float,
    ) -> None:
        self._policy = policy
        self._authenticate = authenticate
        self._max_body_bytes = max_body_bytes
        self._max_connections = max_connections
        self._client_timeout = client_timeout
        self._grace = grace
        self._uvicorn: _Uvicorn | None = None
        self._stopped = False

    async def serve(self, answers: Answers, listening: socket.socket, ready: Callable[[], None]) -> None:
        """Serves at a listening socket until stopped."""
        manager = StreamableHTTPSessionManager(
            _SdkServer(answers), stateless=True, max_request_body_size=self._max_body_bytes
        )
        config = uvicorn.Config(
            HttpApplication(manager, self._policy, self._authenticate, self._client_timeout),
            http=partial(BoundedConnection, self._client_timeout),  # type: ignore[arg-type]
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            # It counts the client that is being judged, too.
            limit_concurrency=self._max_connections + 1,
            # A number of seconds like any other, whatever its type says.
            timeout_graceful_shutdown=self._grace,  # type: ignore[arg-type]
        )
        self._uvicorn = _Uvicorn(config, ready)
        with _discreet_libraries():
            async with manager.run():
                if not self._stopped:
                    await self._uvicorn.serve(sockets=[listening])

    def stop(self) -> None:
        """Ends ``serve``: nothing more is accepted, calls under way have the grace to finish."""
        self._stopped = True
        if self._uvicorn is not None:
            self._uvicorn.leave()


class _Uvicorn(uvicorn.Server):
    """The signals of the process are the application's, being up is told, and leaving waits for no tick."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._leaving = anyio.Event()

    def leave(self) -> None:
        self.should_exit = True
        self._leaving.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with anyio.move_on_after(_TICK):
                await self._leaving.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in tuple(self.server_state.connections):
            # Closed already, but for what its client does not take.
            connection.transport.abort()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


class _SdkServer(Server[Any]):
    """The SDK's server, whose requests for what we serve are answered by us."""

    def __init__(self, answers: Answers) -> None:
        identity = answers.identity
        super().__init__(
            identity.name,
            version=identity.version,
            title=identity.title,
            instructions=identity.instructions,
        )
        self._answers = answers
        # Where the schema of a called tool depends on who calls, the SDK lists the tools for him.
        self.add_request_handler("tools/list", types.RequestParams, lambda ctx, params: self._answer(ctx))
        self.middleware.append(self._serve)

    @property
    def get_tool_input_schema(self) -> Callable[[str], Mapping[str, Any] | None] | None:
        """Asked for with each call: it may change with the sessions."""
        return self._answers.input_schema

    @get_tool_input_schema.setter
    def get_tool_input_schema(self, value: object) -> None:
        """The SDK's constructor wants to set it."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        return types.ServerCapabilities.model_validate(self._answers.capabilities())

    async def _serve(
        self,
        ctx: ServerRequestContext[Any, Any],
        call_next: Callable[[ServerRequestContext[Any, Any]], Awaitable[Any]],
    ) -> Any:
        if ctx.request_id is None or not self._answers.serves(ctx.method):
            return await call_next(ctx)
        return await self._answer(ctx)

    async def _answer(self, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        params = None if ctx.params is None else dict(ctx.params)
        try:
            raw = await self._answers.answer(ctx.method, params, _peer(ctx), _notifier(ctx))
        except RpcError as exc:
            error = _sendable(Raw(encode_value(error_object(exc, self._answers.runner.report))))
            raise MCPError(error["code"], error["message"], error.get("data")) from exc
        except Exception as exc:
            self._answers.runner.report(exc)
            raise MCPError(types.INTERNAL_ERROR, "Internal error") from exc
        result = _sendable(raw)
        return self._enveloped(ctx.method, result) if is_modern(ctx.protocol_version) else result

    def _enveloped(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        meta = {types.SERVER_INFO_META_KEY: self.server_info_stamp, **_meta(result)}
        # Nobody here can say for how long, or for whom else, an answer holds.
        caching = {"ttlMs": 0, "cacheScope": "private"} if method in CACHEABLE_METHODS else {}
        return {"resultType": "complete", **caching, **result, "_meta": meta}


def _sendable(raw: Raw) -> dict[str, Any]:
    """A result or an error as the SDK and its clients read it: a lone surrogate, which JSON can carry and they cannot,
    becomes a replacement character."""
    result: dict[str, Any] = decode_value(raw)
    if has_surrogate_escape(bytes(raw)):
        result = json.loads(_LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(result, ensure_ascii=False)))
    return result


def _peer(ctx: ServerRequestContext[Any, Any]) -> Peer:
    request = ctx.request
    assert isinstance(request, Request)
    principal, headers = request.scope[PEER]
    client = _meta(ctx.params).get(types.CLIENT_INFO_META_KEY)
    return Peer(principal, "http", ctx.protocol_version, client if isinstance(client, dict) else None, headers)


def _meta(params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    meta = (params or {}).get("_meta")
    return meta if isinstance(meta, dict) else {}


def _notifier(ctx: ServerRequestContext[Any, Any]) -> Notify:
    async def notify(method: str, params: dict[str, Any]) -> None:
        progress = types.ProgressNotification(params=types.ProgressNotificationParams.model_validate(params))
        await ctx.session.send_notification(progress, related_request_id=ctx.request_id)

    return notify


class _Discreet(logging.Filter):
    """One per server, so that each takes away what it put there and nothing else."""

    def filter(self, record: logging.LogRecord) -> bool:
        # A client that goes is no error with a traceback.
        gone = record.exc_info is not None and isinstance(record.exc_info[1], ClientDisconnect)
        return record.levelno > logging.DEBUG and not gone


@contextmanager
def _discreet_libraries() -> Iterator[None]:
    """While this block runs, libraries do not print what is in requests and answers, nor every client that goes."""
    filter = _Discreet()
    loggers = [logging.getLogger(name) for name in _LOUD_LOGGERS]
    for logger in loggers:
        logger.addFilter(filter)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(filter)
