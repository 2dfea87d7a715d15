"""The order of things in a WebSocket's life, on a carrier and a clock that the test plays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest
from anyio.abc import TaskGroup
from websockets.client import ClientProtocol
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from mcpl_core.errors import TransportError, WebSocketClosedError
from mcpl_core.transports.guards import CancelGuard
from mcpl_core.transports.loop import EventLoop, TimerHandle, Waiter
from mcpl_core.transports.websocket_engine import SILENT_LOGGER, Engine, WebSocketSettings, peer_name
from tests.transports.recording import LIMIT, RecordingSink


class PlayedTimer:
    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when, self.callback, self.cancelled = when, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class PlayedLoop(EventLoop):
    """Turns and time pass when the test says so."""

    def __init__(self) -> None:
        super().__init__(cast(TaskGroup, None))
        self.now = 100.0
        self.soon: deque[Callable[[], object]] = deque()
        self.timers: list[PlayedTimer] = []

    def time(self) -> float:
        return self.now

    def waiter(self) -> Waiter:
        raise NotImplementedError

    def cancel_guard(self) -> CancelGuard:
        raise NotImplementedError

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    def call_at(self, when: float, callback: Callable[[], object]) -> TimerHandle:
        timer = PlayedTimer(when, callback)
        self.timers.append(timer)
        return timer

    def turn(self) -> None:
        """One turn of the loop."""
        for _ in range(len(self.soon)):
            self.soon.popleft()()

    def advance(self, seconds: float) -> None:
        """Time passes."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.when <= end]:
            timer = min(due, key=lambda timer: timer.when)
            self.timers.remove(timer)
            self.now = max(self.now, timer.when)
            if not timer.cancelled:
                timer.callback()
        self.now = end

    @property
    def waiting(self) -> list[PlayedTimer]:
        """Timers that are still to fire."""
        return [timer for timer in self.timers if not timer.cancelled]


class PlayedEngine(Engine):
    """An engine whose carrier is a list."""

    def __init__(self, protocol: ClientProtocol | ServerProtocol, settings: WebSocketSettings) -> None:
        super().__init__(protocol, settings)
        self.parts: list[bytes] = []
        self.carrier_paused = 0
        self.aborts = 0
        self.released = 0
        self.is_behind = False

    async def exchange(self) -> Request | Response:
        raise NotImplementedError

    async def send_head(self) -> None:
        raise NotImplementedError

    async def release(self) -> None:
        self.released += 1
        self.abort()

    def abort(self) -> None:
        self.aborts += 1
        self._carrier_lost()

    def write(self, message: bytes) -> None:
        if not self._output_ended:
            self._send(list(self._outgoing.encode_parts(message)))

    @property
    def peer(self) -> str:
        return ""

    @property
    def behind(self) -> bool:
        return self.is_behind

    def _flush(self) -> None:
        pass

    def _send(self, parts: list[bytes]) -> None:
        self.parts += parts

    def _pause_carrier(self) -> None:
        self.carrier_paused += 1

    def _resume_carrier(self) -> None:
        self.carrier_paused = 0

    # -- what the carrier of the test does

    def arrive(self, *frames: Frame) -> None:
        data = b"".join(frame.serialize(mask=isinstance(self.protocol, ServerProtocol)) for frame in frames)
        self._heard = True
        if self._paused or self._held:
            self._held.append(data)
        else:
            self._feed(data)

    def eof(self, cause: BaseException | None = None) -> None:
        self._carrier_eof(cause)

    def gone(self, cause: BaseException | None = None) -> None:
        self._carrier_lost(cause)

    def broke(self, cause: BaseException) -> None:
        self._output_broke(cause)

    def writable(self) -> None:
        self.is_behind = False
        self._caught_up()

    def sent(self) -> list[Frame]:
        """What was sent since the last call, as the peer reads it."""
        data, self.parts = b"".join(self.parts), []
        masked = isinstance(self.protocol, ClientProtocol)
        peer = ServerProtocol(state=OPEN) if masked else ClientProtocol(parse_uri("ws://localhost/"), state=OPEN)
        peer.receive_data(data)
        return [event for event in peer.events_received() if isinstance(event, Frame)]

    def opcodes(self) -> list[Opcode]:
        return [frame.opcode for frame in self.sent()]


def text(data: bytes) -> Frame:
    return Frame(Opcode.TEXT, data)


def close(code: int) -> Frame:
    return Frame(Opcode.CLOSE, Close(code, "").serialize())


def begun(side: str = "client", **settings: Any) -> tuple[PlayedEngine, RecordingSink, PlayedLoop]:
    """An open WebSocket that has had its first turn."""
    engine, sink, loop = unbegun(side, **settings)
    loop.turn()
    return engine, sink, loop


def unbegun(side: str = "client", **settings: Any) -> tuple[PlayedEngine, RecordingSink, PlayedLoop]:
    protocol: ClientProtocol | ServerProtocol
    if side == "client":
        protocol = ClientProtocol(parse_uri("ws://localhost/"), state=OPEN)
    else:
        protocol = ServerProtocol(state=OPEN)
    engine, sink, loop = PlayedEngine(protocol, WebSocketSettings(**settings)), RecordingSink(), PlayedLoop()
    engine.attach(sink, loop)
    return engine, sink, loop


def code_of(error: TransportError | None) -> int:
    assert isinstance(error, WebSocketClosedError)
    return error.close_code


# ---------------------------------------------------------------------------------------- beginning and pausing


def test_nothing_is_pushed_inside_attach() -> None:
    engine, sink, loop = unbegun()
    engine.arrive(text(b"1"))
    engine.eof()
    assert sink.log == []
    loop.turn()
    assert sink.log == ["messages", "input", "output"]


def test_a_pause_before_the_first_turn_holds() -> None:
    engine, sink, loop = unbegun()
    engine.pause_reading()
    engine.arrive(text(b"1"))
    loop.turn()
    assert sink.log == []
    engine.resume_reading()
    assert sink.log == []
    loop.turn()
    assert sink.messages == [b"1"]


def test_what_was_read_in_spite_of_a_pause_waits_and_keeps_its_order() -> None:
    engine, sink, loop = begun()
    engine.pause_reading()
    engine.pause_reading()
    assert engine.carrier_paused == 1
    engine.arrive(text(b"1"))
    engine.resume_reading()
    engine.arrive(text(b"2"))
    assert (sink.messages, engine.carrier_paused) == ([], 1)
    loop.turn()
    assert (sink.messages, engine.carrier_paused) == ([b"1", b"2"], 0)
    engine.arrive(text(b"3"))
    assert sink.messages == [b"1", b"2", b"3"]


def test_a_sink_that_pauses_while_it_is_fed_gets_the_rest_after_it_resumes() -> None:
    engine, sink, loop = begun()
    engine.pause_reading()
    engine.arrive(text(b"1"))
    sink.on_messages = lambda _: engine.pause_reading()
    engine.resume_reading()
    loop.turn()
    assert (sink.messages, engine.carrier_paused) == ([b"1"], 2)
    engine.resume_reading()
    assert engine.carrier_paused == 0


def test_a_resume_that_is_taken_back_in_the_same_turn_pushes_nothing() -> None:
    engine, sink, loop = begun()
    engine.pause_reading()
    engine.arrive(text(b"1"))
    engine.resume_reading()
    engine.pause_reading()
    loop.turn()
    assert sink.messages == []


def test_when_the_carrier_ends_during_a_pause_what_was_read_is_pushed_first() -> None:
    engine, sink, _ = begun()
    engine.pause_reading()
    engine.arrive(text(b"1"))
    engine.gone(ConnectionResetError())
    assert sink.log == ["messages", "input", "output"]
    assert code_of(sink.input_error) == 1006
    engine.resume_reading()
    engine.pause_reading()


def test_a_ping_is_answered_behind_the_answers_to_what_came_before_it() -> None:
    engine, sink, _ = begun("server")
    sink.on_messages = lambda messages: list(map(engine.write, messages))
    engine.arrive(text(b"1"), Frame(Opcode.PING, b"x"), text(b"2"))
    assert engine.opcodes() == [Opcode.TEXT, Opcode.TEXT, Opcode.PONG]


def test_whoever_pings_and_reads_no_answers_gets_the_last_one_when_there_is_room() -> None:
    engine, _, _ = begun("server")
    engine.is_behind = True
    for n in range(100):
        engine.arrive(Frame(Opcode.PING, b"%d" % n))
    assert engine.parts == []
    engine.writable()
    assert [(frame.opcode, bytes(frame.data)) for frame in engine.sent()] == [(Opcode.PONG, b"99")]
    engine.writable()
    assert engine.parts == []


def test_a_goodbye_leaves_also_when_there_is_no_room() -> None:
    engine, _, _ = begun("client")
    engine.is_behind = True
    engine.arrive(Frame(Opcode.PING, b""), close(1000))
    assert engine.opcodes() == [Opcode.CLOSE]
    engine.writable()
    assert engine.parts == []


# ---------------------------------------------------------------------------------------- ends


@pytest.mark.parametrize("side", ["client", "server"])
def test_after_the_peers_goodbye_the_carrier_is_released_in_time(side: str) -> None:
    engine, sink, loop = begun(side, close_timeout=2.0)
    engine.arrive(text(b"1"), close(1000), text(b"2"))
    assert sink.log == ["messages", "input", "output"]
    assert (sink.messages, sink.input_error, sink.output_error) == ([b"1"], None, None)
    assert engine.opcodes() == [Opcode.CLOSE]
    loop.advance(1.9)
    assert engine.aborts == 0
    loop.advance(0.2)
    assert engine.aborts == 1
    assert loop.waiting == []
    assert sink.log == ["messages", "input", "output"]


def test_writing_ends_before_the_end_is_told() -> None:
    engine, sink, _ = begun("server")
    sink.on_messages = lambda messages: list(map(engine.write, messages))
    engine.arrive(text(b"1"), close(1000))
    assert engine.opcodes() == [Opcode.CLOSE]


def test_a_carrier_that_ends_in_time_is_not_aborted() -> None:
    engine, _, loop = begun()
    engine.arrive(close(1000))
    engine.eof()
    engine.gone()
    engine.gone()
    assert loop.waiting == []
    loop.advance(10)
    assert engine.aborts == 0


def test_each_end_is_told_once() -> None:
    engine, sink, _ = begun()
    cause = BrokenPipeError()
    engine.broke(cause)
    engine.broke(cause)
    assert sink.log == ["output"]
    assert code_of(sink.output_error) == 1006
    assert sink.output_error is not None and sink.output_error.__cause__ is cause
    engine.arrive(text(b"1"))
    engine.gone()
    engine.eof()
    assert sink.log == ["output", "messages", "input"]


def test_the_owner_is_told_once_when_the_carrier_is_gone() -> None:
    engine, _, _ = begun()
    gone: list[int] = []
    engine.on_lost = lambda: gone.append(1)
    engine.eof()
    assert gone == []
    engine.gone()
    engine.gone()
    assert gone == [1]


def test_a_goodbye_of_ours_is_no_failure_of_the_output() -> None:
    engine, sink, loop = begun(close_timeout=2.0)
    engine.send_eof()
    engine.send_eof()
    assert engine.opcodes() == [Opcode.CLOSE]
    engine.write(b"late")
    assert engine.parts == []
    loop.advance(3)
    assert sink.log == ["input"]
    assert code_of(sink.input_error) == 1006


def test_a_goodbye_waits_while_reading_is_paused() -> None:
    engine, sink, loop = begun(close_timeout=2.0, ping_interval=None)
    engine.pause_reading()
    engine.send_eof()
    loop.advance(100)
    assert engine.aborts == 0
    engine.resume_reading()
    loop.advance(1.9)
    assert engine.aborts == 0
    loop.advance(0.2)
    assert engine.aborts == 1 and sink.log == ["input"]


@pytest.mark.anyio
async def test_closing_pushes_nothing_more_but_still_reads_the_peers_goodbye() -> None:
    engine, sink, _ = begun(close_timeout=LIMIT)
    engine.pause_reading()
    engine.arrive(text(b"1"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.aclose)
        await anyio.wait_all_tasks_blocked()
        assert engine.carrier_paused == 0
        engine.arrive(text(b"2"), Frame(Opcode.BINARY, b""), close(1000))
        engine.gone()
    assert sink.log == []
    assert engine.opcodes() == [Opcode.CLOSE]
    assert engine.aborts == 0


@pytest.mark.anyio
async def test_a_writer_that_breaks_while_closing_is_told_to_nobody() -> None:
    engine, sink, _ = begun(close_timeout=LIMIT)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.aclose)
        await anyio.wait_all_tasks_blocked()
        engine.broke(BrokenPipeError())
        engine.gone()
    assert sink.log == []


@pytest.mark.anyio
async def test_closing_before_the_first_turn() -> None:
    engine, sink, loop = unbegun(close_timeout=0.0)
    await engine.aclose()
    loop.turn()
    assert (sink.log, loop.waiting, engine.aborts) == ([], [], 1)


@pytest.mark.anyio
async def test_closing_what_was_never_attached_lets_go_of_it() -> None:
    engine = PlayedEngine(ServerProtocol(state=OPEN), WebSocketSettings())
    engine.send_eof()
    engine.resume_reading()
    await engine.aclose()
    await engine.aclose()
    assert (engine.released, engine.aborts) == (1, 1)


@pytest.mark.anyio
async def test_any_number_of_tasks_wait_until_it_is_writable() -> None:
    engine, _, _ = begun()
    engine.is_behind = True
    done: list[int] = []

    async def wait() -> None:
        await engine.drain()
        done.append(1)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        engine._wake_drains()
        await anyio.wait_all_tasks_blocked()
        assert done == []
        engine.writable()
    assert done == [1, 1, 1]


# ---------------------------------------------------------------------------------------- keep-alive


def test_a_ping_goes_out_after_the_interval_and_an_answer_keeps_the_peer() -> None:
    engine, sink, loop = begun()
    loop.advance(19.9)
    assert engine.opcodes() == []
    loop.advance(0.2)
    assert engine.opcodes() == [Opcode.PING]
    engine.arrive(Frame(Opcode.PONG, b""))
    loop.advance(20)
    assert engine.opcodes() == [Opcode.PING]
    engine.arrive(text(b"1"))
    loop.advance(20)
    assert sink.log == ["messages"]


def test_a_peer_from_which_nothing_comes_is_given_up() -> None:
    engine, sink, loop = begun("server", ping_interval=20.0, ping_timeout=20.0, close_timeout=2.0)
    loop.advance(39.9)
    assert sink.log == []
    loop.advance(0.2)
    assert sink.log == ["input", "output"]
    assert code_of(sink.input_error) == code_of(sink.output_error) == 1011
    assert engine.opcodes() == [Opcode.PING, Opcode.CLOSE]
    loop.advance(2)
    assert engine.aborts == 1
    assert loop.waiting == []


def test_the_time_stands_still_while_reading_is_paused() -> None:
    engine, sink, loop = begun()
    loop.advance(21)
    engine.pause_reading()
    engine.sent()
    loop.advance(1000)
    assert sink.log == []
    assert set(engine.opcodes()) == {Opcode.PONG}
    engine.resume_reading()
    loop.advance(19)
    assert sink.log == []
    loop.advance(2)
    assert code_of(sink.input_error) == 1011


def test_without_an_interval_there_is_no_timer() -> None:
    engine, sink, loop = begun(ping_interval=None)
    loop.advance(10_000)
    assert (engine.parts, sink.log, loop.waiting) == ([], [], [])


@pytest.mark.parametrize("lost", [False, True])
def test_at_the_end_the_pings_stop(lost: bool) -> None:
    engine, _, loop = begun(close_timeout=1000.0)
    loop.advance(21)
    if lost:
        engine.gone()
    else:
        engine.arrive(close(1000))
    engine.sent()
    loop.advance(100)
    assert engine.opcodes() == []
    engine._tick()
    assert engine.parts == []


# ---------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("address", "name"),
    [(("127.0.0.1", 80), "127.0.0.1:80"), (("::1", 80, 0, 0), "[::1]:80"), ("", ""), (None, ""), (b"\0x", "")],
)
def test_the_peers_address(address: Any, name: str) -> None:
    assert peer_name(address) == name


def test_the_librarys_log_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(0):
        SILENT_LOGGER.error("a token")
    assert not SILENT_LOGGER.isEnabledFor(50)
    assert caplog.records == []
