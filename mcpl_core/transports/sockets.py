"""Transports over TCP and Unix sockets, with and without TLS.

Owns: dialling, the TLS handshake of either side, and the transport over a socket that a listener accepted. Does not
own: accepting (``listeners``), and framing (``lines``).
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl as ssl_module
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import InvalidValueError, TransportError
from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from .asyncio_streams import AsyncioInput, AsyncioOutput, connect
from .base import DEFAULT_CLOSE_TIMEOUT
from .byte_streams import TaskInput, TaskOutput
from .lines import LineTransport, transport_error
from .loop import AsyncioLoop, EventLoop

if TYPE_CHECKING:
    from trio.abc import Stream

__all__ = ("AcceptedTransport", "SocketTransport", "TcpTransport", "UnixTransport", "checked_port", "host_and_port")

#: Seconds for a TLS handshake once the sockets are connected.
_HANDSHAKE_TIMEOUT = 10.0

#: Seconds before the next address of a host is tried beside the one before it (RFC 8305 section 5).
_ATTEMPT_DELAY = 0.25

_Factory = Callable[[], asyncio.Protocol]


def host_and_port(host: str, port: int) -> str:
    """As they stand in a URL: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def checked_port(port: int, *, least: int = 1) -> int:
    """``port``.

    Raises:
        InvalidValueError: it is no port number.
    """
    if type(port) is not int or not least <= port <= 65535:
        raise InvalidValueError("port", f"a port is a number from {least} to 65535, not {port!r}")
    return port


class SocketTransport(LineTransport):
    """Lines over a stream socket; subclasses say how it is connected.

    Args:
        tls: the context of the TLS handshake, ``None`` for none.
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that ``aclose`` may take to send what was written.
    """

    def __init__(self, *, tls: ssl_module.SSLContext | None, max_message_bytes: int, close_timeout: float) -> None:
        super().__init__(max_message_bytes=max_message_bytes, close_timeout=close_timeout)
        self._tls = tls

    @abstractmethod
    async def _connect_asyncio(self, loop: asyncio.AbstractEventLoop, factory: _Factory) -> object:
        """Connects with a protocol made by ``factory``."""

    @abstractmethod
    async def _connect_trio(self) -> Stream:
        """Connects."""

    async def _open(self, loop: EventLoop) -> None:
        try:
            if isinstance(loop, AsyncioLoop):
                await self._open_asyncio(loop)
            else:
                await self._open_trio(loop)
        except (OSError, UnicodeError) as error:  # UnicodeError: a host that IDNA cannot carry
            raise transport_error(self.name, error) from error

    async def _open_asyncio(self, loop: AsyncioLoop) -> None:
        half_close = self._tls is None
        self._input = input = AsyncioInput(self, loop)
        self._output = output = AsyncioOutput(self, loop, half_close=half_close)
        await connect(input, output, lambda f: self._connect_asyncio(loop.loop, f), half_close=half_close)

    async def _open_trio(self, loop: EventLoop) -> None:
        # Only when trio runs.
        from .trio_streams import TrioSink, TrioSource

        stream = await self._connect_trio()
        self._output = TaskOutput(self, loop, TrioSink(stream, direct=True))
        self._input = TaskInput(self, loop, TrioSource(stream, owned=False, direct=True))

    def _asyncio_tls(self) -> dict[str, Any]:
        if self._tls is None:
            return {}
        timeouts = {"ssl_handshake_timeout": _HANDSHAKE_TIMEOUT, "ssl_shutdown_timeout": max(self.close_timeout, 0.001)}
        return {"ssl": self._tls, **timeouts}

    async def _trio_tls(self, stream: Stream, *, server_side: bool = False, host: str | None = None) -> Stream:
        if self._tls is None:
            return stream
        from .trio_streams import tls_stream

        with anyio.fail_after(_HANDSHAKE_TIMEOUT):
            return await tls_stream(stream, self._tls, server_side=server_side, host=host)


class TcpTransport(SocketTransport):
    """Lines over TCP.

    Args:
        host: a name or an address; all addresses of a name are tried.
        port: the port.
        ssl: ``True`` for TLS with the system's trust store, or a context; the certificate must be for ``host``.
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that ``aclose`` may take to send what was written.

    Raises:
        InvalidValueError: ``port`` is no port number, ``host`` is empty.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        ssl: bool | ssl_module.SSLContext = False,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        context = ssl_module.create_default_context() if ssl is True else ssl or None
        super().__init__(tls=context, max_message_bytes=max_message_bytes, close_timeout=close_timeout)
        if not host:
            raise InvalidValueError("host", "there is no host to dial")
        self._host = host
        self._port = checked_port(port)
        self.name = f"{'tcp' if context is None else 'tls'}://{host_and_port(host, port)}"

    async def _connect_asyncio(self, loop: asyncio.AbstractEventLoop, factory: _Factory) -> object:
        options = self._asyncio_tls()
        # uvloop tries one address after the other. Cancelled at the wrong moment, asyncio's race of several loses the
        # socket that won, so that there is none where there is nothing to race.
        if isinstance(loop, asyncio.BaseEventLoop) and not _is_address(self._host):
            options["happy_eyeballs_delay"] = _ATTEMPT_DELAY
        return await loop.create_connection(factory, self._host, self._port, **options)

    async def _connect_trio(self) -> Stream:
        from .trio_streams import connect_tcp

        return await self._trio_tls(await connect_tcp(self._host, self._port), host=self._host)


def _is_address(host: str) -> bool:
    """Whether it is an IP address and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class UnixTransport(SocketTransport):
    """Lines over a Unix socket.

    Args:
        path: of the socket.
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that ``aclose`` may take to send what was written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        super().__init__(tls=None, max_message_bytes=max_message_bytes, close_timeout=close_timeout)
        self._path = os.fspath(path)
        self.name = f"unix://{self._path}"

    async def _open(self, loop: EventLoop) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise TransportError(f"{self.name}: Unix sockets are not served on this system")
        await super()._open(loop)

    async def _connect_asyncio(self, loop: asyncio.AbstractEventLoop, factory: _Factory) -> object:
        return await loop.create_unix_connection(factory, self._path)

    async def _connect_trio(self) -> Stream:
        from .trio_streams import connect_unix

        return await connect_unix(self._path)


class AcceptedTransport(SocketTransport):
    """Lines over a socket that a listener accepted. It reads nothing, and does no handshake, before it is started.

    Args:
        sock: the socket, non-blocking; it is closed with the transport, also when that was never started.
        name: the peer, for error messages.
        on_closed: called once, when the socket is closed.
        tls: the context of the TLS handshake, ``None`` for none.
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that ``aclose`` may take to send what was written.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        name: str,
        on_closed: Callable[[], None],
        tls: ssl_module.SSLContext | None = None,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        super().__init__(tls=tls, max_message_bytes=max_message_bytes, close_timeout=close_timeout)
        self.name = name
        self._sock: socket.socket | None = sock
        self._on_closed: Callable[[], None] | None = on_closed

    def _take(self) -> socket.socket:
        sock, self._sock = self._sock, None
        assert sock is not None, "start() runs once"
        return sock

    async def _connect_asyncio(self, loop: asyncio.AbstractEventLoop, factory: _Factory) -> object:
        return await loop.connect_accepted_socket(factory, self._take(), **self._asyncio_tls())

    async def _connect_trio(self) -> Stream:
        from .trio_streams import socket_stream

        return await self._trio_tls(socket_stream(self._take()), server_side=True)

    async def _let_go(self) -> None:
        await super()._let_go()
        if self._sock is not None:
            self._take().close()
        on_closed, self._on_closed = self._on_closed, None
        if on_closed is not None:
            on_closed()
