"""Binding, accepting, the bound on open connections, and the file of a Unix socket."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpl_core.errors import InvalidValueError, TransportError
from mcpl_core.transports.base import Transport
from mcpl_core.transports.listeners import SocketListener, TcpListener, UnixListener
from tests.transports.certificate import server_context
from tests.transports.recording import LIMIT, RecordingSink, event_loop, read_from, turns

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]

needs_unix = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets")


class Accepted:
    """What a listener accepted."""

    def __init__(self) -> None:
        self.transports: list[Transport] = []
        self._changed = anyio.Event()

    def take(self, transport: Transport) -> None:
        self.transports.append(transport)
        self._changed.set()

    async def until(self, count: int) -> list[Transport]:
        with anyio.fail_after(LIMIT):
            while len(self.transports) < count:
                self._changed = anyio.Event()
                await self._changed.wait()
        return self.transports


@asynccontextmanager
async def listening(listener: SocketListener) -> AsyncIterator[Accepted]:
    accepted = Accepted()
    async with event_loop() as loop:
        await listener.start(loop, accepted.take)
        try:
            yield accepted
        finally:
            with anyio.fail_after(LIMIT, shield=True):
                await listener.aclose()
                for transport in accepted.transports:
                    await transport.aclose()


def dial(listener: SocketListener) -> socket.socket:
    host, _, port = listener.endpoint.partition("://")[2].rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)))


async def test_a_free_port_and_its_endpoint() -> None:
    listener = TcpListener()
    async with listening(listener) as accepted:
        assert listener.endpoint.startswith("tcp://127.0.0.1:")
        assert not listener.endpoint.endswith(":0")
        with dial(listener) as peer:
            (transport,) = await accepted.until(1)
            assert transport.name == f"tcp://127.0.0.1:{peer.getsockname()[1]}"


async def test_what_the_peer_sends_before_the_start_waits() -> None:
    listener = TcpListener(max_message_bytes=10)
    async with listening(listener) as accepted, event_loop() as loop:
        with dial(listener) as peer:
            peer.sendall(b"early\n" + b"x" * 11 + b"\n")
            (transport,) = await accepted.until(1)
            await turns()
            sink = RecordingSink()
            await transport.start(sink, loop)
            assert await sink.until_messages(1) == [b"early"]
            await sink.until(lambda: sink.malformed)
            await transport.aclose()
            assert peer.recv(1) == b""


async def test_many_peers_at_once() -> None:
    listener = TcpListener()
    async with listening(listener) as accepted:
        peers = [dial(listener) for _ in range(80)]
        await accepted.until(80)
        assert listener.open_connections == 80
        for peer in peers:
            peer.close()


async def test_peers_beyond_the_bound_are_refused_until_one_goes() -> None:
    listener = TcpListener(max_connections=2)
    async with listening(listener) as accepted:
        with dial(listener), dial(listener):
            await accepted.until(2)
            with dial(listener) as refused:
                assert await read_from(refused.fileno()) == b""
            assert len(accepted.transports) == 2
            await accepted.transports[0].aclose()
            assert listener.open_connections == 1
            with dial(listener):
                await accepted.until(3)
                assert listener.open_connections == 2


async def test_what_was_accepted_lives_on() -> None:
    listener = TcpListener()
    async with event_loop() as loop:
        accepted = Accepted()
        await listener.start(loop, accepted.take)
        with dial(listener) as peer:
            (transport,) = await accepted.until(1)
            sink = RecordingSink()
            await transport.start(sink, loop)
            await listener.aclose()
            await listener.aclose()
            with pytest.raises(OSError):
                dial(listener)
            peer.sendall(b"still here\n")
            assert await sink.until_messages(1) == [b"still here"]
            await transport.aclose()


async def test_closing_when_the_tasks_are_gone() -> None:
    listener = TcpListener()
    async with event_loop() as loop:
        await listener.start(loop, lambda transport: None)
        await turns()
    with anyio.fail_after(LIMIT):
        await listener.aclose()
    async with event_loop() as loop:
        await TcpListener().aclose()


async def test_all_addresses_of_a_name() -> None:
    listener = TcpListener("localhost")
    async with listening(listener) as accepted:
        assert listener.endpoint.startswith("tcp://localhost:")
        assert len({sock.getsockname()[1] for sock in listener._sockets}) == 1
        with dial(listener):
            await accepted.until(1)


async def test_an_ipv6_address() -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("no IPv6")
    listener = TcpListener("::1")
    async with listening(listener) as accepted:
        assert listener.endpoint.startswith("tcp://[::1]:")
        with dial(listener):
            (transport,) = await accepted.until(1)
            assert transport.name.startswith("tcp://[::1]:")


async def test_tls_is_named() -> None:
    listener = TcpListener(ssl=server_context())
    async with listening(listener):
        assert listener.endpoint.startswith("tls://127.0.0.1:")


@pytest.mark.parametrize(("host", "cause"), [("192.0.2.1", OSError), ("host.invalid", OSError), ("a" * 70, Exception)])
async def test_an_address_that_cannot_be_bound(host: str, cause: type[Exception]) -> None:
    async with event_loop() as loop:
        with pytest.raises(TransportError) as caught:
            await TcpListener(host).start(loop, lambda transport: None)
        assert isinstance(caught.value.__cause__, cause)
        assert host in caught.value.detail


async def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            async with event_loop() as loop:
                with pytest.raises(TransportError) as caught:
                    await TcpListener(host, port).start(loop, lambda transport: None)
                assert isinstance(caught.value.__cause__, OSError)
                assert caught.value.__cause__.errno == errno.EADDRINUSE


async def test_no_descriptors_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.transports.listeners._EXHAUSTED_DELAY", 0.01)
    listener = TcpListener()
    async with listening(listener) as accepted:
        failures = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ECONNABORTED, "gone already")]
        accept = socket.socket.accept

        def failing(sock: socket.socket) -> Any:
            if failures:
                raise failures.pop(0)
            return accept(sock)

        monkeypatch.setattr(socket.socket, "accept", failing)
        with dial(listener):
            await accepted.until(1)
        assert failures == []
        monkeypatch.undo()


@pytest.mark.parametrize("port", [-1, 65536, None, "0"])
def test_what_is_no_port(port: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        TcpListener(port=port)
    assert caught.value.code == "port"


@needs_unix
class TestUnix:
    async def test_the_file_of_the_socket(self, tmp_path: Path) -> None:
        path = tmp_path / "socket"
        listener = UnixListener(path)
        async with listening(listener) as accepted:
            assert listener.endpoint == f"unix://{path}"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(path))
                (transport,) = await accepted.until(1)
                assert transport.name == f"unix://{path}"
        assert not path.exists()
        await listener.aclose()

    async def test_other_permissions(self, tmp_path: Path) -> None:
        async with listening(UnixListener(tmp_path / "socket", mode=0o666)):
            assert stat.S_IMODE((tmp_path / "socket").stat().st_mode) == 0o666

    async def test_a_file_where_nobody_listens_is_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "socket"
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
        async with listening(UnixListener(path)) as accepted:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(path))
                await accepted.until(1)

    @pytest.mark.parametrize("backlog", [0, 5])
    async def test_a_socket_where_somebody_listens_is_not(self, tmp_path: Path, backlog: int) -> None:
        path = tmp_path / "socket"
        with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as waiting:
            other.bind(str(path))
            other.listen(backlog)
            waiting.connect(str(path))  # fills the shorter backlog
            async with event_loop() as loop:
                with pytest.raises(TransportError) as caught:
                    await UnixListener(path).start(loop, lambda transport: None)
                assert isinstance(caught.value.__cause__, OSError)
                assert caught.value.__cause__.errno == errno.EADDRINUSE
            with socket.socket(socket.AF_UNIX) as peer:
                peer.setblocking(False)
                assert peer.connect_ex(str(path)) in (0, errno.EAGAIN)

    async def test_another_file_is_not(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_text("precious")
        async with event_loop() as loop:
            with pytest.raises(TransportError):
                await UnixListener(path).start(loop, lambda transport: None)
        assert path.read_text() == "precious"

    async def test_a_file_that_somebody_else_put_there_stays(self, tmp_path: Path) -> None:
        path = tmp_path / "socket"
        async with listening(UnixListener(path)):
            os.unlink(path)
            path.write_text("another's")
        assert path.read_text() == "another's"

    async def test_a_file_that_is_gone_already(self, tmp_path: Path) -> None:
        async with listening(UnixListener(tmp_path / "socket")):
            os.unlink(tmp_path / "socket")

    async def test_a_path_that_is_too_long(self, tmp_path: Path) -> None:
        async with event_loop() as loop:
            with pytest.raises(TransportError):
                await UnixListener(tmp_path / ("x" * 200)).start(loop, lambda transport: None)
            with pytest.raises(TransportError):
                await UnixListener(tmp_path / "no" / "such" / "directory").start(loop, lambda transport: None)
