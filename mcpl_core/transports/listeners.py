"""Listeners on TCP and Unix sockets, with and without TLS.

Owns: binding, accepting, the bound on open connections, and a Unix socket's file. Does not own: what is said over an
accepted socket, the TLS handshake included (``sockets``): a peer that never finishes it delays nobody else.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl as ssl_module
import stat
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio

from ..errors import TransportError
from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from .base import DEFAULT_CLOSE_TIMEOUT, DEFAULT_MAX_CONNECTIONS, Listener, Transport
from .lines import transport_error
from .loop import EventLoop
from .sockets import AcceptedTransport, checked_port, host_and_port

__all__ = ("SocketListener", "TcpListener", "UnixListener")

#: Connections that wait in the kernel until they are accepted.
_BACKLOG = 128

#: Connections accepted in a row before other tasks have their turn.
_ACCEPT_BATCH = 64

#: Not the peer's fault and not soon over: no descriptors, no memory.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

#: Seconds before accepting is tried again then.
_EXHAUSTED_DELAY = 0.5


class SocketListener(Listener):
    """Accepts stream sockets; subclasses bind them.

    Args:
        tls: the context of the TLS handshake, ``None`` for none.
        max_connections: how many accepted transports may be open at once; a further peer is refused.
        max_message_bytes: of the transports.
        close_timeout: of the transports.

    Attributes:
        open_connections: accepted transports that are not closed yet.
    """

    def __init__(
        self, *, tls: ssl_module.SSLContext | None, max_connections: int, max_message_bytes: int, close_timeout: float
    ) -> None:
        super().__init__(max_connections=max_connections)
        self._tls = tls
        self._max_message_bytes = max_message_bytes
        self._close_timeout = close_timeout
        self.open_connections = 0
        self._sockets: list[socket.socket] = []
        self._accepting: list[tuple[anyio.CancelScope, anyio.Event]] = []

    @abstractmethod
    async def _bind(self) -> list[socket.socket]:
        """Listening sockets; sets ``endpoint``.

        Raises:
            TransportError: the address cannot be bound.
        """

    @abstractmethod
    def _name(self, address: Any) -> str:
        """The peer's name."""

    async def start(self, loop: EventLoop, accepted: Callable[[Transport], None]) -> None:
        self._sockets = await self._bind()
        for sock in self._sockets:
            sock.setblocking(False)
            accepting = (anyio.CancelScope(), anyio.Event())
            self._accepting.append(accepting)
            loop.tasks.start_soon(self._accept, sock, accepted, *accepting, name=f"mcpl accept {self.endpoint}")

    async def _accept(
        self,
        sock: socket.socket,
        accepted: Callable[[Transport], None],
        scope: anyio.CancelScope,
        ended: anyio.Event,
    ) -> None:
        try:
            with scope:
                while True:
                    await anyio.wait_readable(sock)
                    if not self._accept_batch(sock, accepted):
                        await anyio.sleep(_EXHAUSTED_DELAY)
        finally:
            ended.set()

    def _accept_batch(self, sock: socket.socket, accepted: Callable[[Transport], None]) -> bool:
        """False when there is nothing to accept with."""
        for _ in range(_ACCEPT_BATCH):
            try:
                peer, address = sock.accept()
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    return False
                continue  # this peer has gone already
            if self.open_connections >= self.max_connections:
                peer.close()
                continue
            peer.setblocking(False)
            self.open_connections += 1
            accepted(
                AcceptedTransport(
                    peer,
                    name=self._name(address),
                    on_closed=self._one_closed,
                    tls=self._tls,
                    max_message_bytes=self._max_message_bytes,
                    close_timeout=self._close_timeout,
                )
            )
        return True

    def _one_closed(self) -> None:
        self.open_connections -= 1

    async def aclose(self) -> None:
        accepting, self._accepting = self._accepting, []
        for scope, _ in accepting:
            scope.cancel()
        with anyio.CancelScope(shield=True):  # one turn of the loop
            for _, ended in accepting:
                await ended.wait()
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            sock.close()


class TcpListener(SocketListener):
    """Listens on TCP.

    Args:
        host: a name or an address of this machine; ``"0.0.0.0"`` and ``"::"`` are all of them.
        port: the port; 0 for a free one, which ``endpoint`` then names.
        ssl: the context with the server's certificate, ``None`` for no TLS.
        max_connections: how many accepted transports may be open at once; a further peer is refused.
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that a transport's ``aclose`` may take to send what was written.

    Raises:
        InvalidValueError: ``port`` is no port number.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        ssl: ssl_module.SSLContext | None = None,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        super().__init__(
            tls=ssl, max_connections=max_connections, max_message_bytes=max_message_bytes, close_timeout=close_timeout
        )
        self._host = host
        self._port = checked_port(port, least=0)
        self._scheme = "tcp" if ssl is None else "tls"

    def _name(self, address: Any) -> str:
        host, port = address[:2]
        return f"{self._scheme}://{host_and_port(host, port)}"

    async def _bind(self) -> list[socket.socket]:
        where = f"{self._scheme}://{host_and_port(self._host, self._port)}"
        try:
            infos = await anyio.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError) as error:
            raise transport_error(where, error) from error
        sockets: list[socket.socket] = []
        port, failure = self._port, None
        for family, address in dict.fromkeys((info[0], info[4]) for info in infos):
            try:
                # The port that was free for the first address is taken for all.
                sock = _listen_tcp(family, (address[0], port, *address[2:]))
            except OSError as error:
                failure = error
                continue
            sockets.append(sock)
            port = sock.getsockname()[1]
        # A name may stand for an address that this machine does not have (``::1`` without IPv6), but a port that is
        # taken on one of them is taken.
        if not sockets or (failure is not None and failure.errno == errno.EADDRINUSE):
            for sock in sockets:
                sock.close()
            raise transport_error(where, failure or OSError("no address")) from failure
        self.endpoint = f"{self._scheme}://{host_and_port(self._host, port)}"
        return sockets


def _listen_tcp(family: int, address: tuple[object, ...]) -> socket.socket:
    # Named: asyncio switches Nagle's algorithm off only where it is, and what is accepted has the protocol of this one.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if os.name == "posix":  # elsewhere it would let two programs listen at once
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


class UnixListener(SocketListener):
    """Listens on a Unix socket.

    Args:
        path: of the socket. A file that is a socket where nobody listens any more is replaced; anything else is an
            error. The file is removed at the end.
        mode: permissions of the file; by default for its owner alone.
        max_connections: how many accepted transports may be open at once; a further peer is refused.
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that a transport's ``aclose`` may take to send what was written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: int = 0o600,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        super().__init__(
            tls=None, max_connections=max_connections, max_message_bytes=max_message_bytes, close_timeout=close_timeout
        )
        self._path = os.fspath(path)
        self._mode = mode
        self._ours: os.stat_result | None = None

    def _name(self, address: Any) -> str:
        return f"unix://{self._path}"

    async def _bind(self) -> list[socket.socket]:
        endpoint = f"unix://{self._path}"
        if not hasattr(socket, "AF_UNIX"):
            raise TransportError(f"{endpoint}: Unix sockets are not served on this system")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _remove_stale(self._path)
            sock.bind(self._path)
            # Nobody can connect before it listens, so there is no moment with other permissions.
            os.chmod(self._path, self._mode)
            sock.listen(_BACKLOG)
            self._ours = os.stat(self._path)
        except OSError as error:
            sock.close()
            raise transport_error(endpoint, error) from error
        self.endpoint = endpoint
        return [sock]

    async def aclose(self) -> None:
        await super().aclose()
        ours, self._ours = self._ours, None
        if ours is not None:
            with suppress(FileNotFoundError):
                # Somebody may have put another one there meanwhile.
                if os.path.samestat(os.stat(self._path), ours):
                    os.unlink(self._path)


def _remove_stale(path: str) -> None:
    """Removes a socket's file when nobody listens there."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return  # bind will say that the name is taken
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
        except BlockingIOError:
            pass  # somebody listens, with a full backlog
