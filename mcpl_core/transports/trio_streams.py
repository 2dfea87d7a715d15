"""What is trio's own: streams on descriptors and sockets, TCP and Unix dials, TLS.

Owns: the only module of the transports that imports trio; it is imported when trio runs. Does not own: the tasks
that receive and send (``byte_streams``), and when anything is opened or closed.
"""

from __future__ import annotations

import os
import socket
import ssl

import anyio
import trio
from trio.abc import HalfCloseableStream, ReceiveStream, SendStream, Stream

from .lines import READ_SIZE

__all__ = ("TrioSink", "TrioSource", "connect_tcp", "connect_unix", "fd_stream", "socket_stream", "tls_stream")


class TrioSource:
    """A trio stream that receives.

    Args:
        stream: the stream.
        owned: whether it is closed with the transport; a caller's is not.
    """

    def __init__(self, stream: ReceiveStream, *, owned: bool) -> None:
        self._stream = stream
        self._owned = owned

    async def receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(READ_SIZE))
        except trio.ClosedResourceError:
            return b""

    async def aclose(self) -> None:
        if self._owned:
            await trio.aclose_forcefully(self._stream)


class TrioSink:
    """A trio stream that sends."""

    def __init__(self, stream: SendStream) -> None:
        self._stream = stream
        self._closed = False

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except trio.ClosedResourceError as error:
            raise anyio.ClosedResourceError from error

    async def send_eof(self) -> None:
        if isinstance(self._stream, HalfCloseableStream):
            await self._stream.send_eof()
        else:
            await self.aclose()

    async def aclose(self) -> None:
        if not self._closed:
            await self._stream.aclose()
            self._closed = True

    async def abort(self) -> None:
        if not self._closed:
            self._closed = True
            await trio.aclose_forcefully(self._stream)


def fd_stream(fd: int) -> Stream:
    """A stream on a FIFO, which it owns from now on."""
    return trio.lowlevel.FdStream(fd)


def socket_stream(sock: socket.socket) -> Stream:
    """A stream on a connected socket, which it owns from now on."""
    return trio.SocketStream(trio.socket.from_stdlib_socket(sock))


async def connect_tcp(host: str, port: int) -> Stream:
    """Dials, the addresses of ``host`` raced as RFC 8305 says.

    Raises:
        OSError: nobody answers there.
    """
    return await trio.open_tcp_stream(host, port)


async def connect_unix(path: str | os.PathLike[str]) -> Stream:
    """Dials a Unix socket.

    Raises:
        OSError: nobody listens there.
    """
    return await trio.open_unix_socket(path)


async def tls_stream(
    stream: Stream, context: ssl.SSLContext, *, server_side: bool = False, host: str | None = None
) -> Stream:
    """Does the TLS handshake over ``stream``; closes it when that fails.

    Raises:
        OSError: the handshake failed.
    """
    tls: trio.SSLStream[Stream] = trio.SSLStream(stream, context, server_hostname=host, server_side=server_side)
    try:
        await tls.do_handshake()
    except BaseException as error:
        await trio.aclose_forcefully(stream)
        if isinstance(error, trio.BrokenResourceError):
            raise ConnectionError(str(error.__cause__ or "the peer hung up")) from error
        raise
    return tls
