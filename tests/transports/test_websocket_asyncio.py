"""The asyncio carrier of a WebSocket: when it writes, what it joins, and what it tells of its end."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import anyio
import pytest
from websockets.client import ClientProtocol
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import OPEN, Protocol
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from mcpl_core.errors import TransportError, WebSocketClosedError
from mcpl_core.transports.base import WRITE_HIGH_WATER
from mcpl_core.transports.loop import EventLoop
from mcpl_core.transports.websocket_asyncio import AsyncioEngine
from mcpl_core.transports.websocket_engine import WebSocketSettings
from tests.transports.recording import LIMIT, RecordingSink, event_loop, turns

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """There is no trio here."""
    if request.param:
        pytest.importorskip("uvloop")
    return "asyncio", {"use_uvloop": request.param}


class PlayedTransport(asyncio.Transport):
    """Records what is asked of it."""

    max_size = 256 * 1024

    def __init__(self, *, half_close: bool = True) -> None:
        super().__init__()
        #: The time, which stands still.
        self.now = 0.0
        self.writes: list[bytes] = []
        self.views: list[memoryview] = []
        #: After how many more writes it says that it is behind.
        self.room: int | None = None
        self.calls: list[str] = []
        self.limits: tuple[int | None, int | None] = (None, None)
        self.half_close = half_close
        #: The peer went, and nobody has noticed yet.
        self.reset = False
        self.engine: AsyncioEngine | None = None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = high, low

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert data
        if isinstance(data, memoryview):
            self.views.append(data)
        self.writes.append(bytes(data))
        if self.room is not None:
            self.room -= 1
            if self.room == 0:
                assert self.engine is not None
                self.engine.pause_writing()

    def can_write_eof(self) -> bool:
        return self.half_close

    def write_eof(self) -> None:
        self.calls.append("eof")
        if self.reset:
            raise OSError(errno.ENOTCONN, "not connected")

    def is_closing(self) -> bool:
        return "close" in self.calls or "abort" in self.calls

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")
        if self.engine is not None:
            asyncio.get_running_loop().call_soon(self.engine.connection_lost, None)

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 5) if name == "peername" else default


def text_frame(data: bytes) -> bytes:
    return Frame(Opcode.TEXT, data).serialize(mask=False)


def made(protocol: Protocol | None = None, **options: Any) -> tuple[AsyncioEngine, PlayedTransport]:
    engine = AsyncioEngine(protocol or ServerProtocol(state=OPEN), WebSocketSettings(ping_interval=None))
    transport = PlayedTransport(**options)
    transport.engine = engine
    engine._time = lambda: transport.now
    engine.connection_made(transport)
    return engine, transport


async def begun(loop: EventLoop, **options: Any) -> tuple[AsyncioEngine, PlayedTransport, RecordingSink]:
    engine, transport = made(**options)
    sink = RecordingSink()
    engine.attach(sink, loop)
    await turns()
    transport.calls.clear()
    return engine, transport, sink


async def test_it_sets_the_bounds_of_its_transport() -> None:
    engine, transport = made()
    assert transport.limits == (WRITE_HIGH_WATER, None)
    assert transport.max_size == 64 * 1024
    assert engine.peer == "127.0.0.1:5"


async def test_the_first_message_leaves_at_once_the_others_in_groups_or_at_the_end_of_the_turn() -> None:
    async with event_loop() as loop:
        engine, transport, _ = await begun(loop)
        frames = [text_frame(b"%d" % n) for n in range(20)]
        for n in range(20):
            engine.write(b"%d" % n)
        assert transport.writes == [frames[0], b"".join(frames[1:9])]
        await turns(2)
        assert transport.writes[2:] == [b"".join(frames[9:])]
        transport.now += 1
        engine.write(b"x")
        assert transport.writes[3:] == [text_frame(b"x")]


async def test_groups_grow_within_a_turn() -> None:
    async with event_loop() as loop:
        engine, transport, _ = await begun(loop)
        for _ in range(2):  # one turn as the other
            for _ in range(1 + 8 + 16 + 32 + 64 + 64):
                engine.write(b"x")
            assert [len(data) // 3 for data in transport.writes] == [1, 8, 16, 32, 64, 64]
            await turns(2)
            transport.writes.clear()
            transport.now += 1


async def test_messages_that_come_one_by_one_cost_no_turn_of_the_loop() -> None:
    async with event_loop() as loop:
        engine, transport, _ = await begun(loop)
        for n in range(3):
            engine.write(b"%d" % n)
            assert (len(transport.writes), engine._in_turn) == (n + 1, False)
            transport.now += 1


async def test_a_group_is_also_full_by_its_bytes() -> None:
    async with event_loop() as loop:
        engine, transport, _ = await begun(loop)
        for _ in range(3):
            engine.write(b"x" * 33_000)
        assert [len(data) for data in transport.writes] == [33_004, 66_008]


async def test_what_is_written_while_the_sink_is_fed_leaves_together() -> None:
    async with event_loop() as loop:
        engine, transport, sink = await begun(loop)
        sink.on_messages = lambda messages: list(map(engine.write, messages))
        frames = [Frame(Opcode.TEXT, b"%d" % n).serialize(mask=True) for n in range(30)]
        engine.data_received(b"".join(frames) + Frame(Opcode.PING, b"").serialize(mask=True))
        expected = b"".join(text_frame(b"%d" % n) for n in range(30))
        assert transport.writes == [expected, Frame(Opcode.PONG, b"").serialize(mask=False)]


async def test_a_large_message_is_handed_over_in_pieces_and_in_its_place() -> None:
    async with event_loop() as loop:
        engine, transport, _ = await begun(loop)
        large = b"x" * 300_000
        for message in (b"1", b"2", large, b"3"):
            engine.write(message)
        await turns(2)
        assert b"".join(transport.writes) == b"".join(map(text_frame, (b"1", b"2", large, b"3")))
        assert max(map(len, transport.writes)) < 70_000
        assert all(view.obj is large for view in transport.views) and len(transport.views) == 4


async def test_the_rest_of_a_large_message_waits_for_room_and_everything_after_it_too() -> None:
    async with event_loop() as loop, anyio.create_task_group() as tasks:
        engine, transport, sink = await begun(loop)
        large = b"x" * 300_000
        transport.room = 2
        engine.write(large)
        engine.write(b"1")
        engine.write(b"2")
        tasks.start_soon(engine.drain)
        await turns(3)
        engine.data_received(Frame(Opcode.PING, b"").serialize(mask=True))
        assert len(transport.writes) == 2 and engine.behind
        transport.room = 1
        engine.resume_writing()
        assert len(transport.writes) == 3
        transport.room = None
        engine.resume_writing()
        assert len(transport.writes) > 5
        frames = b"".join(map(text_frame, (large, b"1", b"2"))) + Frame(Opcode.PONG, b"").serialize(mask=False)
        assert b"".join(transport.writes) == frames
        assert sink.log == []


@pytest.mark.parametrize("half_close", [True, False])
async def test_the_end_of_the_output_waits_for_room_too(half_close: bool) -> None:
    async with event_loop() as loop:
        engine, transport, _ = await begun(loop, half_close=half_close)
        transport.room = 1
        engine.write(b"x" * 100_000)
        engine.data_received(Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=True))
        assert len(transport.writes) == 1 and transport.calls == []
        engine.resume_writing()
        assert transport.writes[-1] == Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=False)
        assert transport.calls == ["eof" if half_close else "close"]
        engine.connection_lost(None)


async def test_what_waits_for_room_is_dropped_at_the_end() -> None:
    async with event_loop() as loop:
        engine, transport, _ = await begun(loop)
        transport.room = 1
        engine.write(b"x" * 200_000)
        engine.connection_lost(None)
        engine.resume_writing()
        assert len(transport.writes) == 1


async def test_after_the_end_nothing_is_written() -> None:
    async with event_loop() as loop:
        engine, transport, sink = await begun(loop)
        engine.write(b"1")
        engine.write(b"2")
        engine.connection_lost(ConnectionResetError())
        engine.write(b"3")
        await turns(2)
        assert transport.writes == [text_frame(b"1")]
        assert isinstance(sink.input_error, WebSocketClosedError)
        engine.abort()
        assert transport.calls == []


async def test_what_waits_for_the_end_of_the_turn_leaves_before_a_goodbye() -> None:
    async with event_loop() as loop:
        engine, transport, _ = await begun(loop)
        engine.write(b"1")
        engine.write(b"2")
        engine.send_eof()
        close = Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=False)
        assert transport.writes == [text_frame(b"1"), text_frame(b"2"), close]
        await turns(2)
        assert len(transport.writes) == 3
        engine.connection_lost(None)


async def test_an_end_of_input_is_told_before_the_transport_is_gone() -> None:
    async with event_loop() as loop:
        engine, _, sink = await begun(loop)
        engine.eof_received()
        assert sink.log == ["input", "output"]
        engine.connection_lost(None)
        assert sink.log == ["input", "output"]


@pytest.mark.parametrize(("half_close", "call"), [(True, "eof"), (False, "close")])
async def test_a_server_ends_its_output_after_the_close_frames(half_close: bool, call: str) -> None:
    async with event_loop() as loop:
        engine, transport, _ = await begun(loop, half_close=half_close)
        engine.data_received(Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=True))
        assert transport.calls == [call]
        engine.connection_lost(None)


async def test_a_peer_that_has_gone_meanwhile_is_no_error_of_ours() -> None:
    async with event_loop() as loop:
        engine, transport, sink = await begun(loop)
        transport.reset = True
        engine.data_received(Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=True))
        assert transport.calls == ["eof"]
        engine.connection_lost(ConnectionResetError())
        assert sink.log == ["input", "output"]


async def test_a_transport_that_is_closing_is_not_asked_for_a_half_close() -> None:
    async with event_loop() as loop:
        engine, transport, _ = await begun(loop)
        transport.close()
        engine.data_received(Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=True))
        assert transport.calls == ["close"]
        engine.connection_lost(None)


async def test_it_is_behind_while_the_transport_says_so() -> None:
    async with event_loop() as loop, anyio.create_task_group() as tasks:
        engine, _, _ = await begun(loop)
        engine.pause_writing()
        assert engine.behind
        tasks.start_soon(engine.drain)
        await turns()
        engine.resume_writing()
        assert not engine.behind


async def test_the_head_may_come_before_anybody_waits_for_it_and_what_follows_is_kept() -> None:
    protocol = ServerProtocol()
    engine, transport = made(protocol)
    request = (
        b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    engine.data_received(request[:50])
    frame = Frame(Opcode.TEXT, b"1").serialize(mask=True)
    engine.data_received(request[50:] + frame[:3])
    assert transport.calls == ["pause"]
    engine.data_received(frame[3:])
    event = await engine.exchange()
    protocol.send_response(protocol.accept(event))  # type: ignore[arg-type]
    await engine.send_head()
    assert transport.writes[0].startswith(b"HTTP/1.1 101 ")
    async with event_loop() as loop:
        sink = RecordingSink()
        engine.attach(sink, loop)
        await turns()
        assert sink.messages == [b"1"]
        assert transport.calls == ["pause", "resume"]


@pytest.mark.parametrize("how", ["eof", "lost", "garbage"])
async def test_a_head_that_does_not_come(how: str) -> None:
    client = ClientProtocol(parse_uri("ws://localhost/"))
    engine, _ = made(client)
    cause = ConnectionResetError()
    if how == "eof":
        engine.eof_received()
    elif how == "lost":
        engine.connection_lost(cause)
    else:
        engine.data_received(b"garbage\r\n\r\n")
        engine.data_received(b"more")
    with anyio.fail_after(LIMIT), pytest.raises(TransportError) as caught:
        await engine.exchange()
    if how == "lost":
        assert caught.value.__cause__ is cause


async def test_what_was_never_attached_is_closed_after_what_was_written_and_aborted_in_the_end() -> None:
    engine, transport = made()
    engine._settings = WebSocketSettings(close_timeout=0.01)
    with anyio.fail_after(LIMIT):
        await engine.release()
    assert transport.calls == ["close", "abort"]
    assert transport.writes == [Frame(Opcode.CLOSE, Close(1001, "").serialize()).serialize(mask=False)]


async def test_what_was_lost_before_it_was_attached_needs_no_release() -> None:
    engine, transport = made()
    engine.connection_lost(None)
    with anyio.fail_after(LIMIT):
        await engine.release()
        await engine.aclose()
    assert transport.calls == []
