"""Foreign WebSocket peers for the tests: bytes written by hand, and the library's parser to read the answers."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Protocol
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from mcpl_core.transports.websocket_engine import SILENT_LOGGER
from tests.transports.recording import LIMIT


class EndOfInput(Exception):
    """The socket brings nothing more."""


class RawStream:
    """A socket that reads when it is asked to and never by itself, so that a test can be a peer that does not read.

    Args:
        sock: a connected socket.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock

    async def receive(self) -> bytes:
        """The next bytes.

        Raises:
            EndOfInput: there are none, in whatever way it ended.
        """
        while True:
            try:
                data = self.sock.recv(65536)
            except BlockingIOError:
                await anyio.wait_readable(self.sock)
            except OSError as exc:
                raise EndOfInput from exc
            else:
                if not data:
                    raise EndOfInput
                return data

    async def send(self, data: bytes) -> None:
        """Sends all of ``data``."""
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self.sock)

    async def aclose(self) -> None:
        """Closes the socket."""
        self.close()

    def close(self) -> None:
        """Closes the socket. Nobody may be waiting for it."""
        self.sock.close()


class ForeignPeer:
    """A peer that does what the test says and nothing by itself: no pong, no answer to a close frame.

    Args:
        stream: the connected socket.
        protocol: the library's state machine, for its parser.
    """

    def __init__(self, stream: RawStream, protocol: Protocol) -> None:
        self.stream = stream
        self.protocol = protocol
        self.masks = isinstance(protocol, ClientProtocol)
        #: Of a server that is open.
        self.request: Request | None = None
        self._events: list[Frame | Request | Response] = []

    async def send(self, *frames: Frame) -> None:
        """Sends frames, all in one write."""
        await self.stream.send(b"".join(frame.serialize(mask=self.masks) for frame in frames))

    async def text(self, *texts: str | bytes) -> None:
        """Sends each as one text message."""
        await self.send(*(Frame(Opcode.TEXT, t.encode() if isinstance(t, str) else t) for t in texts))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Sends a close frame."""
        await self.send(Frame(Opcode.CLOSE, Close(code, reason).serialize()))

    async def event(self) -> Frame | Request | Response:
        """The next thing that arrives.

        Raises:
            EndOfInput: nothing more comes.
        """
        with anyio.fail_after(LIMIT):
            while not self._events:
                self.protocol.receive_data(await self.stream.receive())
                self._events += self.protocol.events_received()
            return self._events.pop(0)

    async def head(self) -> Response:
        """The answer to the request, whatever the library makes of it."""
        data = b""
        with anyio.fail_after(LIMIT):
            while b"\r\n\r\n" not in data:
                data += await self.stream.receive()
        lines = data.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:])
        headers = Headers((name, value) for name, _, value in pairs)
        return Response(int(lines[0].split()[1]), "", headers)

    async def frame(self, opcode: Opcode = Opcode.TEXT) -> bytes:
        """The payload of the next frame, which has this opcode."""
        event = await self.event()
        assert isinstance(event, Frame) and event.opcode is opcode, event
        return bytes(event.data)

    async def until_end(self) -> list[Frame]:
        """All frames up to the end of the connection."""
        frames: list[Frame] = []
        try:
            while True:
                event = await self.event()
                assert isinstance(event, Frame)
                frames.append(event)
        except EndOfInput:
            return frames

    async def reset(self) -> None:
        """Vanishes: the socket is closed with a reset."""
        self.stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.close()


@asynccontextmanager
async def raw_client(endpoint: str) -> AsyncIterator[RawStream]:
    """A connected socket on which nothing was said."""
    uri = parse_uri(endpoint)
    with socket.create_connection((uri.host, uri.port)) as sock:
        yield RawStream(sock)


@asynccontextmanager
async def foreign_client(
    endpoint: str, *headers: tuple[str, str], path: str | None = None
) -> AsyncIterator[ForeignPeer]:
    """A client whose request was sent; the next event is the response."""
    uri = parse_uri(endpoint)
    protocol = ClientProtocol(uri, max_size=None, logger=SILENT_LOGGER)
    request = protocol.connect()
    for name, value in headers:
        if name in request.headers:
            del request.headers[name]
        request.headers[name] = value
    if path is not None:
        request.path = path
    async with raw_client(endpoint) as stream:
        await stream.send(request.serialize())
        yield ForeignPeer(stream, protocol)


@asynccontextmanager
async def opened_client(endpoint: str, *headers: tuple[str, str]) -> AsyncIterator[ForeignPeer]:
    """A client whose WebSocket is open."""
    async with foreign_client(endpoint, *headers) as peer:
        response = await peer.event()
        assert isinstance(response, Response) and response.status_code == 101, response
        yield peer


async def status_of(endpoint: str, *headers: tuple[str, str], path: str | None = None) -> int:
    """The HTTP status that a request gets."""
    async with foreign_client(endpoint, *headers, path=path) as peer:
        response = await peer.event()
        assert isinstance(response, Response)
        return response.status_code


@asynccontextmanager
async def tcp_server(handler: Callable[[RawStream], Awaitable[object]]) -> AsyncIterator[int]:
    """Serves every connection with ``handler``; yields the port."""

    async def serve(sock: socket.socket) -> None:
        with sock:
            await handler(RawStream(sock))

    async def accept() -> None:
        while True:
            await anyio.wait_readable(listener)
            tasks.start_soon(serve, listener.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(accept)
            yield listener.getsockname()[1]
            tasks.cancel_scope.cancel()


async def accepted_peer(stream: RawStream, *, after: bytes = b"") -> ForeignPeer:
    """The server's part of an opening handshake; ``after`` is sent in one write with the response."""
    protocol = ServerProtocol(max_size=None, logger=SILENT_LOGGER)
    peer = ForeignPeer(stream, protocol)
    request = peer.request = await peer.event()  # type: ignore[assignment]
    assert isinstance(request, Request)
    protocol.send_response(protocol.accept(request))
    await stream.send(b"".join(protocol.data_to_send()) + after)
    return peer


@asynccontextmanager
async def foreign_server(
    script: Callable[[ForeignPeer], Awaitable[object]], *, after: bytes = b""
) -> AsyncIterator[str]:
    """A WebSocket server that runs ``script`` with each client once it is open; yields its URL."""

    async def handle(stream: RawStream) -> None:
        await script(await accepted_peer(stream, after=after))

    async with tcp_server(handle) as port:
        yield f"ws://127.0.0.1:{port}/path?token=secret"


async def answer_http(stream: RawStream, status: str, **headers: str) -> bytes:
    """Reads a request and answers it with a bare HTTP response; returns the request."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += await stream.receive()
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()), "", ""]
    await stream.send("\r\n".join(lines).encode())
    return request
