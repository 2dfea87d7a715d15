"""WebSocket transports (RFC 6455): each text message is one JSON-RPC message, whatever newlines it holds.

Owns: the client's transport, the transport over an open connection of the ``websockets`` library, and the listener.
A binary message is reported and dropped. Compression is off unless asked for; on local links it costs more than it
saves. Does not own: how bytes travel on asyncio and trio (``websocket_asyncio``, ``websocket_trio``). The library's
trio support, and so this on trio, needs ``websockets`` 17.
"""

from __future__ import annotations

import os
import ssl as ssl_module
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import anyio
from websockets.asyncio.connection import Connection as AsyncioConnection
from websockets.client import ClientProtocol
from websockets.protocol import Protocol

from ..errors import LocalProtocolError, TransportError
from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from . import websocket_asyncio
from .base import DEFAULT_CLOSE_TIMEOUT, DEFAULT_MAX_CONNECTIONS, Listener, Sink, Transport
from .listeners import TcpListener, UnixListener
from .loop import EventLoop
from .websocket_address import check_headers, check_subprotocols, origin_of, read_address
from .websocket_client import DEFAULT_OPEN_TIMEOUT, ClientOptions, open_client
from .websocket_engine import Engine, WebSocketSettings
from .websocket_keepalive import DEFAULT_PING_INTERVAL, DEFAULT_PING_TIMEOUT
from .websocket_policy import UpgradeRequest, make_policy
from .websocket_server import DEFAULT_HANDSHAKE_TIMEOUT, Admission, Authenticate

__all__ = ("WebSocketListener", "WebSocketTransport", "websocket_transport")


#: Makes the engine of a transport; called once, by ``start``.
_Open = Callable[[Sink, EventLoop], Awaitable[Engine]]


class WebSocketTransport(Transport):
    """A WebSocket: one to dial, one that a listener accepted, or one that was open already (``adopt``).

    Args:
        url: ``ws://`` or ``wss://``. A token may stand in its query: errors and logs show scheme, host and port alone.
        headers: headers to add to the request.
        subprotocols: subprotocols to offer, best first.
        ssl: for ``wss``; left out: the system's certificates.
        open_timeout: seconds for the whole way to an open connection.
        ping_interval: seconds between pings; ``None``: no pings.
        ping_timeout: seconds in which something must come in after a ping; ``None``: no end. The time stands still
            while reading is paused.
        compression: whether to offer permessage-deflate (RFC 7692).
        proxy: the URL of an HTTP proxy; ``True``: what the environment says, but none for a loopback host.
        unix_path: a Unix socket to dial instead of the URL's host and port.
        max_message_bytes: the longest incoming message; a longer one ends the connection (1009).
        close_timeout: seconds for the goodbyes of both sides together.

    Attributes:
        request: what the client asked for, when a listener accepted it; else ``None``.
        principal: what the listener's ``authenticate`` returned; else ``None``.

    Raises:
        InvalidValueError: an argument is outside its grammar.
    """

    request: UpgradeRequest | None = None
    principal: Any = None

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
        subprotocols: Iterable[str] | None = None,
        ssl: ssl_module.SSLContext | None = None,
        open_timeout: float = DEFAULT_OPEN_TIMEOUT,
        ping_interval: float | None = DEFAULT_PING_INTERVAL,
        ping_timeout: float | None = DEFAULT_PING_TIMEOUT,
        compression: bool = False,
        proxy: str | bool | None = None,
        unix_path: str | os.PathLike[str] | None = None,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        unix = None if unix_path is None else os.fspath(unix_path)
        address = read_address(url, tls=ssl, proxy=proxy, unix_path=unix)
        options = ClientOptions(check_headers(headers), check_subprotocols(subprotocols), open_timeout)
        settings = WebSocketSettings(max_message_bytes, close_timeout, ping_interval, ping_timeout, compression)

        async def open_engine(sink: Sink, loop: EventLoop) -> Engine:
            engine = await open_client(address, options, settings, _backend())
            engine.attach(sink, loop)
            return engine

        self._prepare(address.origin, settings, open_engine)

    def _prepare(self, name: str, settings: WebSocketSettings, open_engine: _Open) -> None:
        super().__init__(max_message_bytes=settings.max_message_bytes, close_timeout=settings.close_timeout)
        self.name = name
        self._open = open_engine
        self._engine: Engine | None = None
        self._closed = False
        #: Releases what the transport was made of, when it never starts.
        self._discard: Callable[[], Awaitable[None]] | None = None
        #: Set while ``start`` is under way.
        self._opening: anyio.CancelScope | None = None
        self._opened = anyio.Event()

    @classmethod
    def adopt(
        cls,
        ws: Any,
        *,
        ping_interval: float | None = DEFAULT_PING_INTERVAL,
        ping_timeout: float | None = DEFAULT_PING_TIMEOUT,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> WebSocketTransport:
        """A transport over an open connection of the ``websockets`` library, client or server, asyncio or trio.

        The connection belongs to the transport: from ``start`` on its own keep-alive and size limit no longer hold,
        and nobody else may receive from it or send on it. Messages that it received before are pushed first.

        Raises:
            TypeError: something else was given.
        """
        taker = _taker(ws)
        settings = WebSocketSettings(max_message_bytes, close_timeout, ping_interval, ping_timeout)

        async def open_engine(sink: Sink, loop: EventLoop) -> Engine:
            if _backend() is not taker:
                raise LocalProtocolError("the WebSocket belongs to another kind of event loop")
            engine: Engine = taker.take_over(ws, settings, sink, loop)
            return engine

        transport = cls.__new__(cls)
        transport._prepare(_name(ws.protocol), settings, open_engine)
        transport._discard = lambda: taker.discard(ws, settings)
        return transport

    @classmethod
    def _accepted(
        cls, engine: Engine, settings: WebSocketSettings, request: UpgradeRequest, principal: Any
    ) -> WebSocketTransport:
        async def open_engine(sink: Sink, loop: EventLoop) -> Engine:
            engine.attach(sink, loop)
            return engine

        transport = cls.__new__(cls)
        transport._prepare(f"WebSocket client {request.peer}".rstrip(), settings, open_engine)
        transport._engine = engine
        transport.request, transport.principal = request, principal
        return transport

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that both sides agreed on, once open."""
        return None if self._engine is None else self._engine.protocol.subprotocol

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        """See ``Transport.start``.

        Raises:
            UpgradeRefusedError: the answer was no upgrade, or a redirect to another origin (RFC-004 section 7), which
                ``location`` names.
            TransportError: nobody answers there, or not in time.
            LocalProtocolError: it was closed before.
        """
        if self._closed:
            raise LocalProtocolError("the transport was closed")
        try:
            with anyio.CancelScope() as self._opening:
                engine = self._engine = await self._open(sink, loop)
                # One call less for each message.
                self.write = engine.write  # type: ignore[method-assign]
        finally:
            self._opened.set()
        if self._opening.cancelled_caught:
            raise TransportError("the transport was closed while it opened")

    def write(self, message: bytes) -> None:
        """See ``Transport.write``. Before ``start`` it does nothing."""

    @property
    def behind(self) -> bool:
        return self._engine is not None and self._engine.behind

    async def drain(self) -> None:
        if self._engine is not None:
            await self._engine.drain()

    def pause_reading(self) -> None:
        if self._engine is not None:
            self._engine.pause_reading()

    def resume_reading(self) -> None:
        if self._engine is not None:
            self._engine.resume_reading()

    async def send_eof(self) -> None:
        if self._engine is not None:
            self._engine.send_eof()

    async def aclose(self) -> None:
        self._closed = True
        if self._opening is not None and not self._opened.is_set():
            self._opening.cancel()
            # Its end is near, and what it may have opened must be closed below, even by a caller that is cancelled.
            with anyio.CancelScope(shield=True):
                await self._opened.wait()
        if self._engine is not None:
            await self._engine.aclose()
        elif self._discard is not None:
            await self._discard()


def websocket_transport(ws: Any, **options: Any) -> WebSocketTransport:
    """A transport over an open connection of the ``websockets`` library; see ``WebSocketTransport.adopt``.

    Raises:
        TypeError: something else was given.
    """
    return WebSocketTransport.adopt(ws, **options)


class WebSocketListener(Listener):
    """Accepts WebSocket clients.

    Args:
        host: the address to bind, a loopback address unless something protects the server.
        port: the port; 0: a free one.
        path: the only path to serve; ``None``: any.
        origins: the origins (``https://example.org``) whose pages may connect. None by default; a client that sends no
            ``Origin`` is a program, not a page, and is served.
        authenticate: tells who the client is from its ``UpgradeRequest``; a plain function or a coroutine function.
            ``None`` as its result means nobody (401). Left out: everybody is let in, with ``principal`` ``None``.
        allowed_hosts: further names that ``Host`` may have. On a loopback address the loopback names are always
            allowed and nothing else; elsewhere any name, unless this is given.
        subprotocols: the subprotocols to accept, best first.
        ssl: TLS, for ``wss``.
        unix_path: a Unix socket to bind instead of host and port; its file is for its owner alone.
        open_timeout: seconds for a client's opening handshake, ``authenticate`` included.
        max_connections: how many clients may be open at once; a further one gets 503. As many again may be in their
            opening handshake; a further one is cut off.
        ping_interval, ping_timeout, compression, max_message_bytes, close_timeout: see ``WebSocketTransport``.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        path: str | None = None,
        origins: Iterable[str] = (),
        authenticate: Authenticate | None = None,
        allowed_hosts: Iterable[str] | None = None,
        subprotocols: Iterable[str] | None = None,
        ssl: ssl_module.SSLContext | None = None,
        unix_path: str | os.PathLike[str] | None = None,
        open_timeout: float = DEFAULT_HANDSHAKE_TIMEOUT,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        ping_interval: float | None = DEFAULT_PING_INTERVAL,
        ping_timeout: float | None = DEFAULT_PING_TIMEOUT,
        compression: bool = False,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        super().__init__(max_connections=max_connections)
        self._binding = _TcpBinding(host, port) if unix_path is None else _UnixBinding(unix_path)
        self._host, self._path = host, path
        if isinstance(origins, str) or isinstance(allowed_hosts, str):
            raise TypeError("origins and allowed_hosts are lists of strings, not one string")
        self._origins = list(origins)
        self._allowed_hosts = None if allowed_hosts is None else list(allowed_hosts)
        self._authenticate = authenticate
        self._subprotocols = check_subprotocols(subprotocols)
        self._tls = ssl
        self._open_timeout = open_timeout
        self._settings = WebSocketSettings(max_message_bytes, close_timeout, ping_interval, ping_timeout, compression)
        self._admission: Admission | None = None
        self._server: Any = None

    async def start(self, loop: EventLoop, accepted: Callable[[Transport], None]) -> None:
        """See ``Listener.start``."""
        sockets = await self._binding.bind()
        where, secure = self._binding.endpoint.partition("://")[2], self._tls is not None
        over_tcp = isinstance(self._binding, _TcpBinding)
        self.endpoint = f"{'wss' if secure else 'ws'}://{where}{self._path or ''}" if over_tcp else f"ws+unix://{where}"
        policy = make_policy(
            path=self._path,
            origins=self._origins,
            host=self._host if over_tcp else None,
            port=sockets[0].getsockname()[1] if over_tcp else 0,
            secure=secure,
            allowed_hosts=self._allowed_hosts,
        )

        def admitted(engine: Engine, request: UpgradeRequest, principal: Any) -> None:
            accepted(WebSocketTransport._accepted(engine, self._settings, request, principal))

        admission = self._admission = Admission(
            policy,
            self._settings,
            admitted,
            authenticate=self._authenticate,
            subprotocols=self._subprotocols,
            max_connections=self.max_connections,
            handshake_timeout=self._open_timeout,
        )
        try:
            self._server = await _backend().listen(
                sockets,
                self._tls,
                admission.make,
                lambda engine: admission.enter(engine, loop),
                loop,
                self._open_timeout,
            )
        except BaseException:
            for sock in sockets:
                sock.close()
            raise

    async def aclose(self) -> None:
        """See ``Listener.aclose``. Clients in their opening handshake are cut off."""
        server, self._server = self._server, None
        if server is None or self._admission is None:
            return
        self._admission.cancel()
        await server.aclose()
        await self._binding.aclose()


class _TcpBinding(TcpListener):
    """Binds, and leaves the accepting to the event loop."""

    bind = TcpListener._bind


class _UnixBinding(UnixListener):
    """As above; the socket's file is removed when it is closed."""

    bind = UnixListener._bind


def _backend() -> ModuleType:
    """The module of the event loop that runs now."""
    trio = sys.modules.get("trio")
    if trio is None or not trio.lowlevel.in_trio_run():
        return websocket_asyncio
    from . import websocket_trio

    return websocket_trio


def _taker(ws: Any) -> ModuleType:
    """The module that can take over a connection of the library."""
    if isinstance(ws, AsyncioConnection):
        return websocket_asyncio
    library = sys.modules.get("websockets.trio.connection")
    if library is not None and isinstance(ws, library.Connection):
        from . import websocket_trio

        return websocket_trio
    raise TypeError(f"expected an asyncio or trio connection of the websockets library, not {type(ws).__name__}")


def _name(protocol: Protocol) -> str:
    return origin_of(protocol.uri) if isinstance(protocol, ClientProtocol) else "WebSocket client"
