"""The trio carrier of a WebSocket: its writer, and streams other than sockets."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from websockets.client import ClientProtocol
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from mcpl_core.errors import TransportError, WebSocketClosedError
from mcpl_core.transports.base import WRITE_HIGH_WATER
from mcpl_core.transports.websocket_engine import WebSocketSettings
from mcpl_core.transports.websocket_outgoing import LARGE_MESSAGE
from tests.transports.certificate import server_context
from tests.transports.recording import LIMIT, RecordingSink, event_loop, turns

trio = pytest.importorskip("trio")
testing = pytest.importorskip("trio.testing")
pytest.importorskip("websockets.trio")

from mcpl_core.transports.websocket_trio import TrioEngine, TrioServer, _joined  # noqa: E402

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """There is nothing else here."""
    return "trio", {}


def joined(*parts: bytes) -> list[bytes]:
    return list(_joined(list(parts)))


def test_short_parts_are_joined_long_ones_left_as_they_are() -> None:
    large = b"x" * LARGE_MESSAGE
    assert joined() == []
    assert joined(b"a", b"b") == [b"ab"]
    result = joined(b"a", b"b", large, b"c", b"d")
    assert result == [b"ab", large, b"cd"] and result[1] is large
    assert joined(b"a" * 40_000, b"b" * 40_000) == [b"a" * 40_000, b"b" * 40_000]


def test_the_end_of_the_output_stays_by_itself() -> None:
    assert joined(b"a", b"", b"b") == [b"a", b"", b"b"]
    assert joined(b"") == [b""]


class Played:
    """An engine over a memory stream, and the other end of it."""

    def __init__(self, engine: TrioEngine, sink: RecordingSink, near: Any, stream: Any) -> None:
        self.engine = engine
        self.sink = sink
        self.near = near
        self.stream = stream


@asynccontextmanager
async def played(side: str = "server", **settings: Any) -> AsyncIterator[Played]:
    near, far = testing.memory_stream_pair()
    protocol: ClientProtocol | ServerProtocol
    if side == "server":
        protocol = ServerProtocol(state=OPEN)
    else:
        protocol = ClientProtocol(parse_uri("ws://localhost/"), state=OPEN)
    options = {"close_timeout": 0.05, "ping_interval": None, **settings}
    engine, sink = TrioEngine(protocol, WebSocketSettings(**options), near), RecordingSink()
    async with event_loop() as loop:
        engine.attach(sink, loop)
        await turns()
        yield Played(engine, sink, near, far)
        with anyio.fail_after(LIMIT, shield=True):
            await engine.aclose()
            await turns()


async def test_over_a_stream_that_is_no_socket() -> None:
    async with played() as peer:
        assert peer.engine.peer == ""
        await peer.stream.send_all(Frame(Opcode.TEXT, b"1").serialize(mask=True))
        assert await peer.sink.until_messages(1) == [b"1"]
        peer.engine.write(b"2")
        peer.engine.write(b"3")
        assert await peer.stream.receive_some() == b"\x81\x012\x81\x013"


async def test_a_stream_that_is_no_socket_is_aborted_too() -> None:
    async with played() as peer:
        peer.engine.abort()
        peer.engine.abort()
        error = await peer.sink.until_input_ended()
        assert isinstance(error, WebSocketClosedError) and error.close_code == 1006
        with anyio.fail_after(LIMIT):
            assert await peer.stream.receive_some() == b""


async def test_it_is_behind_from_high_water_to_low_water() -> None:
    async with played() as peer, anyio.create_task_group() as tasks:
        release = anyio.Event()

        async def hold() -> None:
            await release.wait()

        peer.near.send_stream.send_all_hook = hold
        for _ in range(WRITE_HIGH_WATER // 50_000 + 1):
            peer.engine.write(b"x" * 50_000)
        assert peer.engine.behind
        tasks.start_soon(peer.engine.drain)
        await turns()
        release.set()
        with anyio.fail_after(LIMIT):
            await peer.engine.drain()
        assert not peer.engine.behind


@pytest.mark.parametrize("failure", [trio.BrokenResourceError, trio.ClosedResourceError])
async def test_a_writer_that_breaks_is_told_and_reading_goes_on(failure: type[Exception]) -> None:
    async def fail() -> None:
        raise failure

    async with played() as peer:
        peer.near.send_stream.send_all_hook = fail
        peer.engine.write(b"1")
        error = await peer.sink.until_output_failed()
        assert isinstance(error, WebSocketClosedError) and isinstance(error.__cause__, failure)
        peer.engine.write(b"2")
        await peer.stream.send_all(Frame(Opcode.TEXT, b"1").serialize(mask=True))
        assert await peer.sink.until_messages(1) == [b"1"]


async def test_a_server_half_closes_after_the_close_frames() -> None:
    async with played() as peer:
        await peer.stream.send_all(Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=True))
        assert await peer.sink.until_input_ended() is None
        assert await peer.stream.receive_some() == b"\x88\x02\x03\xe8"
        assert await peer.stream.receive_some() == b""


async def test_reading_stops_at_the_librarys_reader_and_goes_on() -> None:
    async with played() as peer:
        peer.engine.pause_reading()
        one, two = (Frame(Opcode.TEXT, data).serialize(mask=True) for data in (b"1", b"2"))
        await peer.stream.send_all(one)
        await turns(10)
        await peer.stream.send_all(two)
        await turns(10)
        assert peer.sink.messages == []
        peer.engine.resume_reading()
        assert await peer.sink.until_messages(2) == [b"1", b"2"]


@pytest.mark.parametrize("failure", [trio.BrokenResourceError, trio.ClosedResourceError, None])
async def test_a_handshake_that_breaks(failure: type[Exception] | None) -> None:
    async def fail() -> None:
        if failure is not None:
            raise failure

    for hook in ("receive_some_hook", "send_all_hook"):
        near, far = testing.memory_stream_pair()
        engine = TrioEngine(ClientProtocol(parse_uri("ws://localhost/")), WebSocketSettings(), near)
        half = near.receive_stream if hook == "receive_some_hook" else near.send_stream
        setattr(half, hook, fail)
        if failure is None:
            await far.send_eof()
        with anyio.fail_after(LIMIT), pytest.raises(TransportError):
            await engine.exchange()
        await near.aclose()
        await far.aclose()


async def test_what_was_never_attached_says_goodbye_when_it_is_released() -> None:
    near, far = testing.memory_stream_pair()
    engine = TrioEngine(ServerProtocol(state=OPEN), WebSocketSettings(), near)
    with anyio.fail_after(LIMIT):
        await engine.aclose()
    assert await far.receive_some() == b"\x88\x02\x03\xe9"
    assert await far.receive_some() == b""
    near, far = testing.memory_stream_pair()
    engine = TrioEngine(ServerProtocol(state=OPEN), WebSocketSettings(), near)
    await near.aclose()
    with anyio.fail_after(LIMIT):
        await engine.aclose()


async def test_a_tls_stream_has_no_half_close() -> None:
    near, far = testing.memory_stream_pair()
    stream = trio.SSLStream(near, server_context(), server_side=True, https_compatible=True)
    engine = TrioEngine(ServerProtocol(state=OPEN), WebSocketSettings(), stream)
    assert engine.peer == ""
    await engine._write_out(b"")
    assert await far.receive_some() == b""


async def test_a_peer_that_is_gone_has_no_address() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    near = await trio.open_tcp_stream("127.0.0.1", listeners[0].socket.getsockname()[1])
    engine = TrioEngine(ServerProtocol(state=OPEN), WebSocketSettings(), near)
    assert engine.peer.startswith("127.0.0.1:")
    await near.aclose()
    assert engine.peer == ""
    await listeners[0].aclose()


class PlayedListener:
    """A listening socket whose ``accept`` does what the test says."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.socket = self
        self.closed = 0

    async def accept(self) -> Any:
        await trio.lowlevel.checkpoint()
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        self.closed += 1


async def serve(listener: PlayedListener, served: Callable[[Any], None]) -> TrioServer:
    server = TrioServer([cast(Any, listener)], served)
    with anyio.fail_after(LIMIT):
        await server.run()
    return server


async def test_a_listener_survives_a_shortage_of_descriptors() -> None:
    served: list[Any] = []
    listener = PlayedListener("one", OSError(errno.EMFILE, ""), "two", trio.ClosedResourceError())
    server = await serve(listener, served.append)
    assert served == ["one", "two"]
    await server.aclose()
    assert listener.closed == 1


async def test_a_listener_that_breaks_says_so() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await serve(PlayedListener(OSError(errno.EINVAL, "")), lambda _: None)
    assert caught.group_contains(OSError)
