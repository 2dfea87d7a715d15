"""trio's own streams."""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from mcpl_core.transports.trio_streams import (
    TrioSink,
    TrioSource,
    connect_tcp,
    connect_unix,
    fd_stream,
    socket_stream,
    tls_stream,
)
from tests.transports.certificate import client_context, server_context
from tests.transports.recording import LIMIT

trio = pytest.importorskip("trio")
pytest.importorskip("trio.testing")

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """There is nothing else here."""
    return "trio", {}


async def test_a_fifo() -> None:
    receive, send = os.pipe()
    source, sink = TrioSource(fd_stream(receive), owned=True), TrioSink(fd_stream(send))
    await sink.send(b"x" * 10)
    assert await source.receive() == b"x" * 10
    await sink.send_eof()
    assert await source.receive() == b""
    await sink.aclose()
    await sink.abort()
    await source.aclose()


async def test_a_stream_closed_under_us() -> None:
    receive, send = os.pipe()
    near, far = fd_stream(receive), fd_stream(send)
    source, sink = TrioSource(near, owned=False), TrioSink(far)
    await near.aclose()
    await far.aclose()
    assert await source.receive() == b""
    await source.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await sink.send(b"x")
    await sink.abort()


async def test_half_close_of_a_socket() -> None:
    near, far = socket.socketpair()
    with far:
        stream = socket_stream(near)
        source, sink = TrioSource(stream, owned=False), TrioSink(stream)
        await sink.send(b"last")
        await sink.send_eof()
        far.sendall(b"answer")
        assert far.recv(100) == b"last"
        assert far.recv(100) == b""
        assert await source.receive() == b"answer"
        await source.aclose()
        far.shutdown(socket.SHUT_WR)
        assert await source.receive() == b""
        await sink.abort()


async def test_what_belongs_to_the_caller_stays_open() -> None:
    receive, send = os.pipe()
    stream = fd_stream(receive)
    await TrioSource(stream, owned=False).aclose()
    os.write(send, b"x")
    assert await stream.receive_some() == b"x"
    await stream.aclose()
    os.close(send)


async def test_past_the_stream() -> None:
    receive, send = os.pipe()
    source = TrioSource(fd_stream(receive), owned=True, direct=True)
    sink = TrioSink(fd_stream(send), direct=True)
    assert sink.send_nowait(b"first") == 5
    assert await source.receive() == b"first"
    with anyio.move_on_after(0.01) as scope:
        await source.receive()
    assert scope.cancelled_caught
    taken = sink.send_nowait(b"x" * (4 << 20))
    assert 0 < taken < 4 << 20
    assert sink.send_nowait(b"x") == 0
    received, others = 0, 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        while received < taken:
            received += len(await source.receive())
        if taken >= 16 * (1 << 16):
            assert others > 0, "other tasks have their turn"
        tasks.cancel_scope.cancel()
    await sink.send(b"last")
    await sink.aclose()
    assert sink.send_nowait(b"x") == 0
    assert await source.receive() == b"last"
    assert await source.receive() == b""
    await source.aclose()


async def test_past_a_stream_that_is_broken() -> None:
    receive, send = os.pipe()
    os.close(receive)
    sink = TrioSink(fd_stream(send), direct=True)
    assert sink.send_nowait(b"x") == 0
    with pytest.raises(trio.BrokenResourceError):
        await sink.send(b"x")
    await sink.abort()
    assert sink.send_nowait(b"x") == 0


async def test_past_a_socket_but_never_past_tls() -> None:
    near, far = socket.socketpair()
    with far:
        stream = socket_stream(near)
        source, sink = TrioSource(stream, owned=True, direct=True), TrioSink(stream, direct=True)
        assert sink.send_nowait(b"out") == 3
        far.sendall(b"in")
        assert await source.receive() == b"in"
        await sink.send_eof()
        assert sink.send_nowait(b"x") == 0
        await source.aclose()
    left, right = trio.testing.memory_stream_pair()
    assert TrioSink(left, direct=True).send_nowait(b"x") == 0
    await right.send_all(b"in")
    assert await TrioSource(left, owned=True, direct=True).receive() == b"in"


async def test_dialling(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = await connect_tcp("localhost", server.getsockname()[1])
        await stream.aclose()
        port = server.getsockname()[1]
    with pytest.raises(OSError):
        await connect_tcp("127.0.0.1", port)
    with pytest.raises(OSError):
        await connect_unix(tmp_path / "nothing")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "socket"))
        unix.listen()
        stream = await connect_unix(tmp_path / "socket")
        await stream.aclose()


async def test_tls() -> None:
    near, far = socket.socketpair()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:

            async def answer() -> None:
                stream = await tls_stream(socket_stream(far), server_context(), server_side=True)
                assert await TrioSource(stream, owned=True).receive() == b"question"
                await TrioSink(stream).send(b"answer")
                sink = TrioSink(stream)
                await sink.send_eof()
                await sink.aclose()

            tasks.start_soon(answer)
            stream = await tls_stream(socket_stream(near), client_context(), host="localhost")
            await TrioSink(stream).send(b"question")
            source = TrioSource(stream, owned=True)
            assert await source.receive() == b"answer"
            assert await source.receive() == b""
            await source.aclose()


async def test_a_handshake_that_fails_closes_the_stream() -> None:
    near, far = socket.socketpair()
    with far:
        far.sendall(b"this is no TLS\n" * 10)
        with pytest.raises(OSError):
            await tls_stream(socket_stream(near), client_context(), host="localhost")
    near, far = socket.socketpair()
    far.close()
    with pytest.raises(OSError) as caught:
        await tls_stream(socket_stream(near), client_context(), host="localhost")
    assert isinstance(caught.value, ssl.SSLError | ConnectionError)


async def test_a_cancelled_handshake_closes_the_stream() -> None:
    near, far = socket.socketpair()
    with far:
        with anyio.move_on_after(0.01) as scope:
            await tls_stream(socket_stream(near), client_context(), host="localhost")
        assert scope.cancelled_caught
        far.setblocking(False)
        while data := far.recv(1 << 16):
            assert data
