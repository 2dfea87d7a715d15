"""Dialling TCP, TLS and Unix sockets, and the transports over accepted ones. Listeners have their own tests."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from mcpl_core.connection import McplConnection
from mcpl_core.errors import InvalidValueError, TransportError
from mcpl_core.transports.base import Listener, Transport
from mcpl_core.transports.listeners import TcpListener, UnixListener
from mcpl_core.transports.sockets import AcceptedTransport, TcpTransport, UnixTransport, checked_port, host_and_port
from tests.transports.certificate import client_context, server_context
from tests.transports.recording import (
    LIMIT,
    RecordingSink,
    event_loop,
    is_behind,
    read_from,
    resident_megabytes,
    started,
    turns,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]

KINDS = ["tcp", "tls"] + (["unix"] if hasattr(socket, "AF_UNIX") else [])


def port_of(listener: Listener) -> int:
    return int(listener.endpoint.rpartition(":")[2])


@asynccontextmanager
async def accepting(listener: Listener) -> AsyncIterator[list[Transport]]:
    """Collects what a listener accepts, and closes it in the end."""
    accepted: list[Transport] = []
    async with event_loop() as loop:
        await listener.start(loop, accepted.append)
        try:
            yield accepted
        finally:
            await listener.aclose()
            for transport in accepted:
                with anyio.fail_after(LIMIT, shield=True):
                    await transport.aclose()


async def accepted_one(accepted: list[Transport]) -> Transport:
    with anyio.fail_after(LIMIT):
        while not accepted:
            await anyio.lowlevel.checkpoint()
    return accepted[-1]


@asynccontextmanager
async def pair(
    kind: str, path: Path, **options: Any
) -> AsyncIterator[tuple[Transport, RecordingSink, Transport, RecordingSink]]:
    """A transport that dialled, the one that was accepted, and what each receives."""
    listener: Listener
    near: Transport
    if kind == "unix":
        listener = UnixListener(path / "socket", **options)
    else:
        listener = TcpListener(ssl=server_context() if kind == "tls" else None, **options)
    async with accepting(listener) as accepted, event_loop() as loop:
        if kind == "unix":
            near = UnixTransport(path / "socket", **options)
        else:
            near = TcpTransport(
                "127.0.0.1", port_of(listener), ssl=client_context() if kind == "tls" else False, **options
            )
        near_sink, far_sink = RecordingSink(), RecordingSink()

        async def start_far() -> None:
            far = await accepted_one(accepted)
            await far.start(far_sink, loop)

        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(start_far)
                await near.start(near_sink, loop)
        try:
            yield near, near_sink, accepted[0], far_sink
        finally:
            with anyio.fail_after(LIMIT, shield=True):
                await near.aclose()
                await accepted[0].aclose()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


async def test_both_ways(kind: str, tmp_path: Path) -> None:
    async with pair(kind, tmp_path) as (near, near_sink, far, far_sink):
        for number in range(200):
            near.write(b"to %d" % number)
            far.write(b"from %d" % number)
        near.write(b"x" * 1_000_000)
        far.write(b"y" * 1_000_000)
        await far_sink.until_messages(201)
        await near_sink.until_messages(201)
        assert far_sink.messages == [b"to %d" % number for number in range(200)] + [b"x" * 1_000_000]
        assert near_sink.messages == [b"from %d" % number for number in range(200)] + [b"y" * 1_000_000]
        assert near.name.startswith(f"{kind}://")
        assert far.name.startswith(f"{kind}://")


async def test_closing_is_the_end_of_the_peers_input(kind: str, tmp_path: Path) -> None:
    async with pair(kind, tmp_path) as (near, near_sink, far, far_sink):
        near.write(b"last")
        await near.aclose()
        assert await far_sink.until_input_ended() is None
        assert far_sink.messages == [b"last"]
        assert near_sink.log == []


async def test_half_close_both_ways(kind: str, tmp_path: Path) -> None:
    if kind == "tls":
        pytest.skip("TLS has none")
    async with pair(kind, tmp_path) as (near, near_sink, far, far_sink):
        near.write(b"question")
        await near.send_eof()
        assert await far_sink.until_input_ended() is None
        assert far_sink.messages == [b"question"]
        far.write(b"answer")
        assert await near_sink.until_messages(1) == [b"answer"]
        await far.send_eof()
        assert await near_sink.until_input_ended() is None
        assert near_sink.log == ["messages", "input"]
        assert far_sink.log == ["messages", "input"]


async def test_tls_says_goodbye_instead(tmp_path: Path) -> None:
    async with pair("tls", tmp_path) as (near, near_sink, far, far_sink):
        near.write(b"last")
        await near.send_eof()
        assert await far_sink.until_input_ended() is None
        assert far_sink.messages == [b"last"]
        await far.aclose()
        await near_sink.until_input_ended()
        assert "output" not in near_sink.log


async def test_closing_flushes(kind: str, tmp_path: Path) -> None:
    async with pair(kind, tmp_path, close_timeout=LIMIT) as (near, _, _, far_sink):
        for _ in range(20):
            near.write(b"x" * 500_000)
        assert is_behind(near)
        with anyio.fail_after(LIMIT):
            await near.aclose()
        await far_sink.until_messages(20)
        assert far_sink.messages == [b"x" * 500_000] * 20


def talk_and_count(sock: socket.socket) -> int:
    """Sends without end and reads to the end, as a peer that notices late that we close. Blocks."""
    received = 0
    sock.settimeout(LIMIT)
    try:
        sock.sendall(b"unread\n" * 1000)
        while data := sock.recv(1 << 16):
            received += len(data)
            if received % 7 == 0:
                sock.send(b"more\n")
    except ConnectionResetError:
        return -1
    return received


@pytest.mark.parametrize("family", ["tcp", "unix"])
async def test_closing_loses_nothing_though_the_peer_talks(family: str) -> None:
    if family == "unix":
        near, far = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as server:
            far = socket.create_connection(server.getsockname())
            near, _ = server.accept()
    with far:
        near.setblocking(False)
        transport = AcceptedTransport(near, name="peer", on_closed=lambda: None, close_timeout=LIMIT)
        async with started(transport) as sink, anyio.create_task_group() as tasks:
            transport.pause_reading()
            for _ in range(50):
                transport.write(b"x" * 100_000)
            received: list[int] = []

            async def peer() -> None:
                received.append(await anyio.to_thread.run_sync(talk_and_count, far))
                far.close()

            tasks.start_soon(peer)
            with anyio.fail_after(LIMIT):
                await transport.aclose()
                assert sink.log == []
        assert received == [50 * 100_001]


async def test_closing_a_stuck_peer_is_bounded(kind: str, tmp_path: Path) -> None:
    async with pair(kind, tmp_path, close_timeout=0.05) as (near, _, far, _):
        far.pause_reading()
        near.write(b"x" * 20_000_000)
        with anyio.fail_after(2):
            await near.aclose()


async def test_closing_while_paused(kind: str, tmp_path: Path) -> None:
    async with pair(kind, tmp_path) as (near, near_sink, far, _):
        near.pause_reading()
        far.write(b"unread")
        await turns()
        with anyio.fail_after(5):
            await near.aclose()
        assert near_sink.log == []


async def test_pausing_holds_the_peer_back(kind: str, tmp_path: Path) -> None:
    async with pair(kind, tmp_path, close_timeout=0.05) as (near, _, far, far_sink):
        far.pause_reading()
        await turns()
        before, offered, waited = resident_megabytes(), 0, False
        while offered < 200_000_000 and not waited:
            near.write(b"x" * 1000)
            offered += 1001
            if is_behind(near):
                with anyio.move_on_after(0.2) as scope:
                    await near.drain()
                waited = scope.cancelled_caught
        assert waited, "drain waits"
        assert resident_megabytes() - before < 40
        received = len(far_sink.messages)
        await turns(20)
        assert len(far_sink.messages) == received
        far.resume_reading()
        with anyio.fail_after(LIMIT):
            await near.drain()
        await far_sink.until_messages(offered // 1001)


async def test_a_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport = TcpTransport("127.0.0.1", server.getsockname()[1])
        async with started(transport) as sink:
            peer, _ = server.accept()
            assert transport.name == f"tcp://127.0.0.1:{server.getsockname()[1]}"
            peer.sendall(b"whole\ncut")
            await sink.until_messages(1)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            error = await sink.until_input_ended()
            assert isinstance(error, TransportError)
            assert error.__cause__ is not None
            transport.write(b"x")
            await sink.until_output_failed()
            assert sink.messages == [b"whole"]


async def test_a_half_close_when_the_peer_has_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport = TcpTransport("127.0.0.1", server.getsockname()[1])
        async with started(transport) as sink:
            peer, _ = server.accept()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            # Nobody here has noticed.
            await transport.send_eof()
            assert isinstance(await sink.until_input_ended(), TransportError)


def delays(port: int) -> list[bool]:
    """Of our connected sockets with this port of their own, whether what they send may be held back."""
    found: list[bool] = []
    for fd in range(3, 400):
        with suppress(OSError):
            sock = socket.socket(fileno=fd)
            try:
                if sock.getsockname()[1:2] == (port,) and sock.getpeername():
                    found.append(not sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            finally:
                sock.detach()
    return found


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:0", "ws://127.0.0.1:0"])
async def test_what_is_accepted_has_no_delay_either(endpoint: str) -> None:
    """Otherwise a part of a large message may wait for an acknowledgement that the peer delays."""
    with anyio.fail_after(LIMIT):
        async with McplConnection.listen(endpoint) as listener, McplConnection.connect(listener.endpoint):
            accepted = await anext(aiter(listener))
            async with accepted:
                assert delays(int(listener.endpoint.rpartition(":")[2])) == [False]


async def test_no_delay() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport = TcpTransport("127.0.0.1", server.getsockname()[1])
        async with started(transport):
            peer, _ = server.accept()
            with peer:
                assert delays(peer.getpeername()[1]) == [False]


async def test_nobody_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for transport, where in (
        (TcpTransport("127.0.0.1", port), f"127.0.0.1:{port}"),
        (TcpTransport("localhost", port, ssl=True), f"localhost:{port}"),
        (UnixTransport(tmp_path / "nothing"), "nothing"),
        (TcpTransport("host.invalid", 1), "host.invalid:1"),
        (TcpTransport("a" * 70 + ".example", 1), "aaa"),
    ):
        async with event_loop() as loop:
            with pytest.raises(TransportError) as caught:
                await transport.start(RecordingSink(), loop)
        assert isinstance(caught.value.__cause__, OSError | UnicodeError)
        assert where in caught.value.detail
        await transport.aclose()


async def test_a_handshake_that_fails_on_both_sides() -> None:
    listener = TcpListener(ssl=server_context())
    async with accepting(listener) as accepted, event_loop() as loop, anyio.create_task_group() as tasks:
        failures: list[TransportError] = []

        async def start_far() -> None:
            far = await accepted_one(accepted)
            with pytest.raises(TransportError) as caught:
                await far.start(RecordingSink(), loop)
            failures.append(caught.value)

        tasks.start_soon(start_far)
        with pytest.raises(TransportError) as caught:
            await TcpTransport("127.0.0.1", port_of(listener), ssl=True).start(RecordingSink(), loop)
        assert isinstance(caught.value.__cause__, ssl.SSLError | OSError)
        with anyio.fail_after(LIMIT):
            while not failures:
                await anyio.lowlevel.checkpoint()
        assert listener.open_connections == 0


async def test_a_peer_that_speaks_no_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with event_loop() as loop, anyio.create_task_group() as tasks:

            async def talk() -> None:
                await anyio.wait_readable(server)
                peer, _ = server.accept()
                peer.sendall(b"hello, this is no TLS\n" * 10)
                peer.close()

            tasks.start_soon(talk)
            transport = TcpTransport("127.0.0.1", server.getsockname()[1], ssl=client_context())
            with anyio.fail_after(LIMIT), pytest.raises(TransportError):
                await transport.start(RecordingSink(), loop)


async def test_a_peer_that_never_finishes_its_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.transports.sockets._HANDSHAKE_TIMEOUT", 0.05)
    listener = TcpListener(ssl=server_context())
    async with accepting(listener) as accepted, event_loop() as loop:
        with socket.create_connection(("127.0.0.1", port_of(listener))):
            far = await accepted_one(accepted)
            with anyio.fail_after(LIMIT), pytest.raises(TransportError):
                await far.start(RecordingSink(), loop)
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with event_loop() as loop:
            transport = TcpTransport("127.0.0.1", server.getsockname()[1], ssl=client_context())
            with anyio.fail_after(LIMIT), pytest.raises(TransportError):
                await transport.start(RecordingSink(), loop)


@pytest.mark.parametrize("secure", [False, True])
async def test_a_cancelled_dial_leaves_nothing(secure: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for delay in (0.0, 0.02):
            transport = TcpTransport("127.0.0.1", server.getsockname()[1], ssl=client_context() if secure else False)
            async with event_loop() as loop:
                with anyio.move_on_after(delay):
                    await transport.start(RecordingSink(), loop)
                with anyio.fail_after(LIMIT):
                    await transport.aclose()
                await turns(20)


async def test_an_accepted_transport_reads_nothing_before_it_is_started() -> None:
    closed: list[int] = []
    near, far = socket.socketpair()
    near.setblocking(False)
    far.sendall(b"early\n")
    with far:
        transport = AcceptedTransport(near, name="peer", on_closed=lambda: closed.append(1))
        async with started(transport) as sink:
            assert await sink.until_messages(1) == [b"early"]
            transport.write(b"x")
            assert await read_from(far.fileno()) == b"x\n"
            assert closed == []
        assert closed == [1]
        await transport.aclose()
        assert closed == [1]


async def test_an_accepted_transport_that_is_never_started() -> None:
    closed: list[int] = []
    near, far = socket.socketpair()
    with far:
        transport = AcceptedTransport(near, name="peer", on_closed=lambda: closed.append(1))
        await transport.aclose()
        await transport.aclose()
        assert closed == [1]
        assert far.recv(1) == b""


async def test_no_unix_sockets_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(socket, "AF_UNIX", raising=False)
    async with event_loop() as loop:
        with pytest.raises(TransportError):
            await UnixTransport(tmp_path / "x").start(RecordingSink(), loop)
        with pytest.raises(TransportError):
            await UnixListener(tmp_path / "x").start(loop, lambda transport: None)


@pytest.mark.parametrize("port", [0, -1, 65536, True, "80", None, 1.0])
def test_what_is_no_port(port: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        TcpTransport("localhost", port)
    assert caught.value.code == "port"


def test_what_is_no_host() -> None:
    with pytest.raises(InvalidValueError) as caught:
        TcpTransport("", 1)
    assert caught.value.code == "host"


def test_names() -> None:
    assert checked_port(0, least=0) == 0
    assert host_and_port("::1", 80) == "[::1]:80"
    assert TcpTransport("::1", 80, ssl=True).name == "tls://[::1]:80"
    assert UnixTransport("/tmp/x").name == "unix:///tmp/x"


@pytest.mark.parametrize(("host", "races"), [("127.0.0.1", False), ("::1", False), ("localhost", True)])
async def test_only_names_are_raced_for(host: str, races: bool) -> None:
    """Of an address there is one; asyncio's race may lose a socket when it is cancelled."""
    given: list[dict[str, Any]] = []

    async def create(*arguments: Any, **options: Any) -> None:
        given.append(options)

    loop = asyncio.SelectorEventLoop()
    loop.create_connection = create  # type: ignore[method-assign, assignment]
    try:
        await TcpTransport(host, 1)._connect_asyncio(loop, asyncio.Protocol)
    finally:
        loop.close()
    assert ["happy_eyeballs_delay" in options for options in given] == [races]
