"""From the description of a transport to something that opens sessions.

Owns: which carrier stands behind which description, and credentials that are read anew for each time of connecting.
Does not own: Streamable HTTP (``http``), the handshake (``native``), and when to connect again (``keeper``).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

from ..connection import McplConnection
from ..errors import ConnectionClosedError, InvalidResultError, InvalidValueError, RpcError, UpgradeRefusedError
from ..transports.base import Transport
from ..transports.subprocess import SubprocessTransport
from .http.config import Era
from .modern import ModernSession, ProbingSession
from .native import NativeSession, PeerHandler, native_session
from .session import RawSession, SessionOpener
from .transports import StdioTransport, WebSocketTransport, checked_headers

__all__ = ("ConnectionMaker", "Dial", "borrowed_session", "connection_opener", "dialer_of")

#: Makes a connection or a transport that was not entered or started, a new one each time.
ConnectionMaker: TypeAlias = Callable[[], McplConnection | Transport]
Dial: TypeAlias = Callable[[], Awaitable[McplConnection]]

#: A status of a refused upgrade that new credentials may mend.
_UNAUTHORIZED = 401


def dialer_of(transport: StdioTransport | WebSocketTransport | ConnectionMaker) -> Dial:
    """What makes the connections of a transport."""
    if isinstance(transport, StdioTransport):
        return partial(_spawn, transport)
    if isinstance(transport, WebSocketTransport):
        return partial(_connect, transport)
    given: Any = transport
    if isinstance(given, McplConnection | Transport) or not callable(given):
        detail = "a transport is described, or made by a function each time; this is neither"
        raise InvalidValueError("transport", detail, "$.transport")
    return partial(_make, given)


def connection_opener(
    transport: StdioTransport | WebSocketTransport | ConnectionMaker,
    *,
    client_info: Mapping[str, Any],
    timeout: float | None,
    handlers: Mapping[str, PeerHandler] | None,
    era: Era = "handshake",
) -> SessionOpener:
    """Opens sessions over connections of this package.

    Args:
        transport: the description, or a function that makes a connection each time.
        client_info, timeout, handlers: see ``native_session``.
        era: ``auto`` tries the era without a handshake first, and the handshake on a connection of its own: a server
            may settle on the era of the first request.

    Raises:
        InvalidValueError: it is no transport, or no era.
    """
    dial = dialer_of(transport)
    open_ = partial(native_session, dial, client_info=client_info, timeout=timeout, handlers=handlers)
    openers: dict[str, Callable[[], Any]] = {
        "handshake": open_,
        "modern": partial(open_, kind=ModernSession),
        "auto": partial(_either, partial(open_, kind=ProbingSession), open_),
    }
    opener = openers.get(era)
    if opener is None:
        raise InvalidValueError("era", f"an era is one of {', '.join(openers)}", "$.era")
    if isinstance(transport, WebSocketTransport) and callable(transport.headers):
        return partial(_with_fresh_credentials, opener)
    return opener


@asynccontextmanager
async def borrowed_session(session: RawSession) -> AsyncIterator[RawSession]:
    """A session that is somebody else's, and stays open."""
    yield session


@asynccontextmanager
async def _either(modern: Callable[[], Any], handshake: Callable[[], Any]) -> AsyncIterator[NativeSession]:
    """Whatever a server answers that does not know the era, and silence too, means the handshake."""
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(modern())
        except (RpcError, InvalidResultError, ConnectionClosedError):
            session = await stack.enter_async_context(handshake())
        yield session


@asynccontextmanager
async def _with_fresh_credentials(opener: Callable[[], Any]) -> AsyncIterator[NativeSession]:
    """Credentials may run out between being read and being used: one refusal is answered with new ones."""
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(opener())
        except UpgradeRefusedError as exc:
            if exc.status != _UNAUTHORIZED:
                raise
            session = await stack.enter_async_context(opener())
        yield session


async def _spawn(transport: StdioTransport) -> McplConnection:
    return McplConnection(
        SubprocessTransport(
            transport.command,
            env=transport.env,
            replace_env=transport.replace_env,
            cwd=transport.cwd,
            on_stderr=transport.on_stderr,
        )
    )


async def _connect(transport: WebSocketTransport) -> McplConnection:
    headers = transport.headers
    if callable(headers):
        headers = headers()
        if inspect.isawaitable(headers):
            headers = await headers
        # Nothing is not taken for no headers: the request would go out without credentials.
        headers = checked_headers(headers)
    options = {**transport.options, "headers": headers}
    return McplConnection.connect(transport.url, transport_options=options)


async def _make(maker: ConnectionMaker) -> McplConnection:
    made: Any = maker()
    if isinstance(made, Transport):
        return McplConnection(made)
    if not isinstance(made, McplConnection):
        detail = f"the function made no connection, but a {type(made).__name__}"
        raise InvalidValueError("transport", detail, "$.transport")
    return made
