"""What is trio's own: streams on descriptors and sockets, TCP and Unix dials, TLS.

Owns: the only module of the transports that imports trio; it is imported when trio runs. Does not own: the tasks
that receive and send (``byte_streams``), and when anything is opened or closed.
"""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import suppress

import anyio
import trio
from trio.abc import HalfCloseableStream, ReceiveStream, SendStream, Stream

from .lines import LINGER, READ_SIZE

__all__ = ("TrioSink", "TrioSource", "connect_tcp", "connect_unix", "fd_stream", "socket_stream", "tls_stream")


#: Reads in a row that did not have to wait, after which other tasks have their turn.
_READ_TURN = 8


class TrioSource:
    """A trio stream that receives.

    Args:
        stream: the stream.
        owned: whether it is closed with the transport; a caller's is not.
        direct: whether the descriptor beneath may be read past the stream, which saves trio a round through its
            scheduler for each read; for streams that nobody else knows.
    """

    def __init__(self, stream: ReceiveStream, *, owned: bool, direct: bool = False) -> None:
        self._stream = stream
        self._owned = owned
        self._fd = _descriptor_of(stream) if direct else None
        self._in_a_row = 0

    async def receive(self) -> bytes:
        if self._fd is not None:
            return await self._read(self._fd)
        try:
            return bytes(await self._stream.receive_some(READ_SIZE))
        except trio.ClosedResourceError:
            return b""

    async def _read(self, fd: int) -> bytes:
        self._in_a_row += 1
        if self._in_a_row > _READ_TURN:
            self._in_a_row = 0
            await trio.lowlevel.checkpoint()
        while True:
            try:
                return os.read(fd, READ_SIZE)
            except BlockingIOError:
                self._in_a_row = 0
                await trio.lowlevel.wait_readable(fd)

    async def aclose(self) -> None:
        if self._owned:
            await trio.aclose_forcefully(self._stream)


class TrioSink:
    """A trio stream that sends.

    Args:
        stream: the stream.
        direct: whether the descriptor beneath may be written past the stream, as in ``TrioSource``.
    """

    def __init__(self, stream: SendStream, *, direct: bool = False) -> None:
        self._stream = stream
        self._direct = direct
        self._fd = _descriptor_of(stream) if direct else None
        self._closed = False

    def send_nowait(self, data: bytes) -> int:
        if self._fd is None or self._closed:
            return 0
        try:
            return os.write(self._fd, data)
        except OSError:  # it would block; or it is broken, which ``send`` will find, too
            return 0

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except trio.ClosedResourceError as error:
            raise anyio.ClosedResourceError from error

    async def send_eof(self) -> None:
        if isinstance(self._stream, HalfCloseableStream):
            self._fd = None
            await self._stream.send_eof()
        else:
            await self.aclose()

    async def aclose(self) -> None:
        if not self._closed:
            self._fd = None
            if self._direct and isinstance(self._stream, trio.SocketStream):
                await _linger(self._stream)
            await self._stream.aclose()
            self._closed = True

    async def abort(self) -> None:
        if not self._closed:
            self._closed = True
            await trio.aclose_forcefully(self._stream)


async def _linger(stream: trio.SocketStream) -> None:
    """Ends one direction, and gives the peer a moment to end the other; what it still sends is dropped."""
    with suppress(trio.BrokenResourceError), anyio.move_on_after(LINGER):
        await stream.send_eof()
        while await stream.receive_some(READ_SIZE):
            pass


def _descriptor_of(stream: object) -> int | None:
    """The descriptor beneath a stream that passes bytes on as they are."""
    if isinstance(stream, trio.lowlevel.FdStream):
        return stream.fileno()
    return stream.socket.fileno() if isinstance(stream, trio.SocketStream) else None


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
