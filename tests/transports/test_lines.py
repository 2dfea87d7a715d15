"""Framing over two halves, and the order of closing, with halves that the test plays."""

from __future__ import annotations

import anyio
import pytest

from mcpl_core.errors import LocalProtocolError, TransportError
from mcpl_core.transports.lines import Input, LineTransport, Output, transport_error
from mcpl_core.transports.loop import EventLoop
from tests.transports.recording import LIMIT, RecordingSink, event_loop, started, turns

pytestmark = pytest.mark.anyio


class ScriptedInput(Input):
    def __init__(self) -> None:
        self.log: list[str] = []

    async def begin(self) -> None:
        self.log.append("begin")

    def pause(self) -> None:
        self.log.append("pause")

    def resume(self) -> None:
        self.log.append("resume")

    def stop(self) -> None:
        self.log.append("stop")

    async def released(self) -> None:
        self.log.append("released")


class ScriptedOutput(Output):
    def __init__(self) -> None:
        self.log: list[str] = []
        self.written: list[bytes] = []
        self.stuck = False

    async def begin(self) -> None:
        self.log.append("begin")

    def write(self, message: bytes) -> None:
        self.written.append(message)

    def hold(self) -> None:
        self.log.append("hold")

    def let_go(self) -> None:
        self.log.append("let_go")

    async def drain(self) -> None:
        self.log.append("drain")

    async def send_eof(self) -> None:
        self.log.append("send_eof")

    async def finish(self) -> None:
        self.log.append("finish")
        if self.stuck:
            await anyio.sleep_forever()

    def abort(self) -> None:
        self.log.append("abort")

    async def released(self) -> None:
        self.log.append("released")


class ScriptedLines(LineTransport):
    name = "scripted"

    def __init__(self, *, failure: Exception | None = None, max_message_bytes: int = 1000) -> None:
        super().__init__(max_message_bytes=max_message_bytes, close_timeout=0.05)
        self.input = ScriptedInput()
        self.output = ScriptedOutput()
        self.failure = failure

    async def _open(self, loop: EventLoop) -> None:
        self._input = self.input
        self._output = self.output
        if self.failure is not None:
            raise self.failure


@pytest.mark.spec("R-wire-1")
async def test_lines_in_any_chunks() -> None:
    wire = b'{"a":1}\r\n\n \n{"b":"\xe2\x80\xa8\x0b"}\n{"c":3}'
    expected = [b'{"a":1}', b'{"b":"\xe2\x80\xa8\x0b"}', b'{"c":3}']
    for size in range(1, len(wire) + 1):
        transport = ScriptedLines()
        async with started(transport) as sink:
            for at in range(0, len(wire), size):
                transport.data_received(wire[at : at + size])
            assert sink.messages == expected[:2]
            transport.input_lost(None)
            assert sink.messages == expected
            assert sink.log == ["messages", "input"]
            assert sink.input_error is None


@pytest.mark.spec("R-wire-11")
async def test_a_long_line_is_skipped_and_reported() -> None:
    transport = ScriptedLines(max_message_bytes=10)
    async with started(transport) as sink:
        transport.data_received(b"x" * 30)
        transport.data_received(b"x" * 30 + b"\nshort\n")
        assert sink.messages == [b"short"]
        assert [error.kind for error in sink.malformed] == ["too-long"]
        transport.data_received(b"y" * 11)
        transport.input_lost(None)
        assert sink.messages == [b"short"]
        assert [error.kind for error in sink.malformed] == ["too-long", "too-long"]


async def test_messages_are_pushed_while_the_output_holds() -> None:
    transport = ScriptedLines()
    async with started(transport) as sink:
        sink.on_messages = lambda messages: transport.output.log.append("push")
        transport.data_received(b"a\nb\n")
        transport.data_received(b"c")
        assert transport.output.log == ["begin", "hold", "push", "let_go"]
        assert sink.chunks == [2]


async def test_each_end_is_told_once_with_its_cause() -> None:
    transport = ScriptedLines()
    cause = ConnectionResetError(104, "Connection reset by peer")
    async with started(transport) as sink:
        transport.data_received(b"cut off")
        transport.input_lost(cause)
        transport.input_lost(None)
        transport.output_lost(None)
        transport.output_lost(cause)
        assert sink.messages == []
        assert sink.log == ["input", "output"]
        assert isinstance(sink.input_error, TransportError)
        assert sink.input_error.__cause__ is cause
        assert sink.output_error is None


async def test_an_output_fails_with_its_cause() -> None:
    transport = ScriptedLines()
    async with started(transport) as sink:
        transport.output_lost(BrokenPipeError())
        assert isinstance(sink.output_error, TransportError)
        assert isinstance(sink.output_error.__cause__, BrokenPipeError)


async def test_ends_are_never_told_inside_start() -> None:
    class Dead(ScriptedLines):
        async def _open(self, loop: EventLoop) -> None:
            await super()._open(loop)
            self.output_lost(None)
            self.input_lost(None)
            await turns()

    transport, sink = Dead(), RecordingSink()
    async with event_loop() as loop:
        await transport.start(sink, loop)
        assert sink.log == []
        await sink.until(lambda: len(sink.log) == 2)
        assert sink.log == ["output", "input"]
        await transport.aclose()


async def test_a_failed_start_lets_go_of_everything() -> None:
    transport, sink = ScriptedLines(failure=TransportError("nobody there")), RecordingSink()
    async with event_loop() as loop:
        with pytest.raises(TransportError):
            await transport.start(sink, loop)
        assert transport.input.log == ["stop", "released"]
        assert transport.output.log == ["abort", "released"]
        transport.input_lost(None)
        transport.output_lost(None)
        transport.data_received(b"x\n")
        transport.write(b"x")
        await transport.drain()
        await transport.aclose()
        assert transport.input.log == ["stop", "released"]
        assert sink.log == []
        with pytest.raises(LocalProtocolError):
            await transport.start(sink, loop)


async def test_it_starts_once() -> None:
    transport = ScriptedLines()
    async with started(transport) as sink, event_loop() as loop:
        with pytest.raises(LocalProtocolError):
            await transport.start(sink, loop)


async def test_before_start_and_without_it() -> None:
    transport = ScriptedLines()
    transport.write(b"nowhere")
    transport.pause_reading()
    transport.resume_reading()
    await transport.drain()
    await transport.send_eof()
    await transport.aclose()
    assert transport.behind is False
    assert transport.output.log == transport.input.log == []
    async with event_loop() as loop:
        with pytest.raises(LocalProtocolError):
            await transport.start(RecordingSink(), loop)


async def test_calls_reach_the_halves() -> None:
    transport = ScriptedLines()
    async with started(transport):
        transport.write(b"a")
        transport.pause_reading()
        transport.resume_reading()
        await transport.drain()
        await transport.send_eof()
        assert transport.output.written == [b"a"]
        assert transport.output.log == ["begin", "drain", "send_eof"]
        assert transport.input.log == ["begin", "pause", "resume"]


async def test_nothing_is_pushed_once_closing_began() -> None:
    transport = ScriptedLines()
    async with started(transport) as sink:
        await transport.aclose()
        transport.data_received(b"late\n")
        transport.input_lost(None)
        transport.output_lost(None)
        assert sink.log == []
        assert transport.output.log == ["begin", "finish", "abort", "released"]
        await transport.aclose()
        assert transport.output.log.count("finish") == 1


async def test_closing_a_stuck_output_is_bounded() -> None:
    transport = ScriptedLines()
    transport.output.stuck = True
    async with started(transport):
        with anyio.fail_after(LIMIT):
            await transport.aclose()
        assert transport.output.log[-2:] == ["abort", "released"]


async def test_every_caller_of_aclose_returns_when_it_is_done() -> None:
    transport = ScriptedLines()
    transport.output.stuck = True
    transport.close_timeout = LIMIT
    done: list[int] = []

    async def close(number: int) -> None:
        await transport.aclose()
        done.append(number)

    async with started(transport), anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(close, number)
        await turns()
        assert done == []
        transport.output.log.clear()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await transport.aclose()
        # Whoever is cancelled releases the carrier; the first caller then finishes for all.
        assert transport.output.log == ["abort"]
        assert done == []
        tasks.cancel_scope.cancel()
    assert transport.output.log[:2] == ["abort", "abort"]
    assert "released" in transport.output.log


async def test_a_cancelled_aclose_releases_at_once() -> None:
    transport = ScriptedLines()
    transport.output.stuck = True
    transport.close_timeout = LIMIT
    async with started(transport):
        with anyio.fail_after(LIMIT), anyio.move_on_after(0.01) as scope:
            await transport.aclose()
        assert scope.cancelled_caught
        assert transport.output.log == ["begin", "finish", "abort", "released"]
        assert transport.input.log == ["begin", "stop", "stop", "released"]
        await transport.aclose()


def test_the_text_of_a_transport_error() -> None:
    assert transport_error("here", OSError(111, "Connection refused")).detail == "here: Connection refused"
    assert transport_error("here", ValueError("odd")).detail == "here: odd"
    assert transport_error("here", ValueError()).detail == "here: ValueError"
