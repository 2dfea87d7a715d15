"""Pass-through: order, bytes, back-pressure, ends and failures, with scripted sides and over real carriers."""

from __future__ import annotations

import json
import logging
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.connection import McplConnection
from mcpl_core.errors import (
    LocalProtocolError,
    MalformedMessageError,
    McplError,
    ProcessExitedError,
    TransportError,
    UpgradeRefusedError,
    WebSocketClosedError,
)
from mcpl_core.relay import Relay, RelayListener
from mcpl_core.transports.base import Sink, Transport
from mcpl_core.transports.endpoints import listener_for, transport_for
from mcpl_core.transports.loop import EventLoop
from mcpl_core.transports.memory import ScriptedTransport, memory_transports
from mcpl_core.wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from tests.transports.recording import LIMIT, RecordingSink, event_loop, started, turns

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


class Outcome:
    """What became of a relay that runs in the background."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.error: BaseException | None = None

    async def wait(self) -> BaseException | None:
        with anyio.fail_after(LIMIT):
            await self.over.wait()
        return self.error


@asynccontextmanager
async def running(relay: Relay) -> AsyncIterator[Outcome]:
    """Runs a relay for the length of a block."""
    outcome = Outcome()

    async def run() -> None:
        try:
            await relay.run()
        except McplError as exc:
            outcome.error = exc
        finally:
            outcome.over.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await turns()
        yield outcome
        relay.stop()


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(LIMIT):
        while not condition():
            await anyio.lowlevel.checkpoint()


# ---------------------------------------------------------------------------------------- scripted sides


async def test_messages_pass_in_both_directions_as_they_are() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    seen: list[tuple[str, bytes]] = []
    relay = Relay(left, right)
    relay.on_message(lambda direction, message: seen.append((direction, message)))
    async with running(relay):
        left.feed(b'{ "a" : 1 }', b"no JSON at all")
        right.feed('{"b":"\u2028 \\ud800"}')
        await until(lambda: len(seen) == 3)
    assert right.sent == [b'{ "a" : 1 }', b"no JSON at all"]
    assert left.sent == ['{"b":"\u2028 \\ud800"}'.encode()]
    assert [message for direction, message in seen if direction == "sent"] == right.sent
    assert [message for direction, message in seen if direction == "received"] == left.sent
    stats = relay.stats
    assert (stats.sent, stats.received, stats.dropped) == (2, 1, 0)
    assert (stats.sent_bytes, stats.received_bytes) == (25, len(left.sent[0]))


async def test_a_side_that_does_not_keep_up_holds_back_the_other_and_nobody_else() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    async with running(Relay(left, right)):
        right.stalled = True
        left.feed(b"1", b"2")
        await turns()
        assert (left.paused, right.paused) == (True, False)
        right.feed(b"back")
        left.feed(b"3")
        await turns()
        assert right.sent == [b"1", b"2"]
        assert left.sent == [b"back"]
        right.release()
        await until(lambda: right.sent == [b"1", b"2", b"3"])
        assert [left.paused] == [False]


async def test_a_side_that_falls_behind_again_holds_back_again() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    async with running(Relay(left, right)):
        for number in range(5):
            right.stalled = True
            left.feed(b"x")
            await until(lambda: left.paused)
            assert len(right.sent) == number + 1
            right.release()
            await until(lambda: not left.paused)


async def test_the_end_of_one_input_is_the_end_of_the_other_output_after_everything_else() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    async with running(Relay(left, right)) as outcome:
        right.stalled = True
        left.feed(b"last")
        left.end()
        await turns()
        assert right.eof_sent == 0
        right.release()
        await until(lambda: right.eof_sent)
        assert right.sent == [b"last"]
        assert (left.closed, right.closed, outcome.over.is_set()) == (0, 0, False)
        # The other direction goes on.
        right.feed(b"answer")
        await until(lambda: left.sent == [b"answer"])
        right.end()
        assert await outcome.wait() is None
        assert (left.eof_sent, left.closed, right.closed) == (1, 1, 1)


@pytest.mark.parametrize("failing", ["left", "right"])
async def test_a_side_that_fails_closes_both_and_is_raised(failing: str) -> None:
    sides = {"left": ScriptedTransport(), "right": ScriptedTransport()}
    async with running(Relay(sides["left"], sides["right"])) as outcome:
        failure = TransportError("gone")
        sides[failing].feed(b"last words")
        sides[failing].end(failure)
        assert await outcome.wait() is failure
    other = sides["left" if failing == "right" else "right"]
    assert other.sent == [b"last words"]
    assert (sides["left"].closed, sides["right"].closed) == (1, 1)


async def test_a_side_that_takes_nothing_any_more_still_says_its_last_words() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    relay = Relay(left, right, grace=LIMIT)
    async with running(relay) as outcome:
        right.fail_output(TransportError("broken pipe"))
        left.feed(b"lost")
        await turns()
        assert left.paused and not outcome.over.is_set()
        right.feed(b"last words")
        right.end()
        error = await outcome.wait()
    assert isinstance(error, TransportError) and error.detail == "broken pipe"
    assert (left.sent, right.sent, relay.stats.sent) == ([b"last words"], [], 0)


async def test_why_the_input_failed_says_more_than_that_the_output_did() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    async with running(Relay(left, right)) as outcome:
        right.fail_output(TransportError("broken pipe"))
        exited = ProcessExitedError("server", 3)
        right.end(exited)
        assert await outcome.wait() is exited


async def test_last_words_have_their_time() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    async with running(Relay(left, right, grace=0.01)) as outcome:
        left.fail_output()
        assert await outcome.wait() is None
    assert (left.closed, right.closed) == (1, 1)


class Eager(ScriptedTransport):
    """Pushes what it has read already, also after it was asked to pause."""

    def pause_reading(self) -> None:
        pass


async def test_what_comes_for_an_output_that_failed_is_lost() -> None:
    left, right = Eager(), ScriptedTransport()
    relay = Relay(left, right)
    async with running(relay) as outcome:
        right.fail_output()
        left.feed(b"lost")
        await turns()
        assert (right.sent, relay.stats.sent) == ([], 0)
        left.fail_output(TransportError("both"))
        error = await outcome.wait()
        assert isinstance(error, TransportError) and error.detail == "both"


async def test_an_output_that_fails_while_it_is_behind() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    async with running(Relay(left, right)) as outcome:
        right.stalled = True
        left.feed(b"x")
        await turns()
        right.fail_output()
        await turns()
        assert left.paused
        right.end()
        assert await outcome.wait() is None


async def test_what_is_no_message_is_reported_and_dropped() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    errors: list[BaseException] = []
    relay = Relay(left, right)
    relay.on_error(errors.append)
    async with running(relay):
        left.malformed(MalformedMessageError("too-long"))
        right.malformed(MalformedMessageError("binary"))
        left.feed(b'{"a":"\xff"}', b"good")
        await until(lambda: right.sent)
    assert (right.sent, left.sent) == ([b"good"], [])
    assert [error.kind for error in errors if isinstance(error, MalformedMessageError)] == [
        "too-long",
        "binary",
        "invalid-utf8",
    ]
    assert (relay.stats.dropped, relay.stats.sent) == (3, 1)


async def test_without_an_observer_the_log_is_told(caplog: pytest.LogCaptureFixture) -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    with caplog.at_level(logging.WARNING, "mcpl_core"):
        async with running(Relay(left, right)):
            left.malformed(MalformedMessageError("binary"))
            await until(lambda: caplog.records)


async def test_an_observer_that_raises_loses_nothing() -> None:
    def fail(direction: str, message: bytes) -> None:
        raise ValueError(direction)

    left, right = ScriptedTransport(), ScriptedTransport()
    relay = Relay(left, right)
    errors: list[BaseException] = []
    seen: list[bytes] = []
    remove = relay.on_message(fail)
    relay.on_message(lambda _, message: seen.append(message))
    relay.on_error(errors.append)
    async with running(relay):
        left.feed(b"1")
        await until(lambda: right.sent)
        remove()
        left.feed(b"2")
        await until(lambda: len(right.sent) == 2)
    assert seen == right.sent == [b"1", b"2"]
    assert [type(error) for error in errors] == [ValueError]


class Gated(ScriptedTransport):
    """Opens when told, and says something before that."""

    def __init__(self, says: bytes = b"") -> None:
        super().__init__()
        self.opened = anyio.Event()
        self.opens = anyio.Event()
        self._says = says

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        self.opened.set()
        if self._says:
            sink.messages_received([self._says])
        await self.opens.wait()
        await super().start(sink, loop)


async def test_the_right_side_opens_first_and_what_it_says_meanwhile_is_kept() -> None:
    left, right = Gated(), ScriptedTransport()
    right.feed(b"hello")
    async with running(Relay(left, right)):
        await left.opened.wait()
        await until(lambda: right.paused)
        right.feed(b"held back")
        assert left.sent == []
        left.opens.set()
        await until(lambda: left.sent == [b"hello", b"held back"])
        assert not right.paused


async def test_what_was_kept_may_itself_be_too_much() -> None:
    left, right = ScriptedTransport(), Gated(b"hello")
    left.stalled = True
    async with running(Relay(left, right)):
        right.opens.set()
        await until(lambda: left.sent == [b"hello"])
        await turns()
        assert right.paused
        left.release()
        await until(lambda: not right.paused)


async def test_a_side_that_ends_before_the_other_is_open() -> None:
    left, right = Gated(), ScriptedTransport()
    right.end()
    async with running(Relay(left, right)) as outcome:
        await left.opened.wait()
        await turns()
        left.opens.set()
        await until(lambda: left.eof_sent)
        left.end()
        assert await outcome.wait() is None


class Refusing(ScriptedTransport):
    async def start(self, sink: Sink, loop: EventLoop) -> None:
        raise TransportError("nobody there")


@pytest.mark.parametrize("refusing", ["left", "right"])
async def test_a_side_that_cannot_be_opened(refusing: str) -> None:
    left = Refusing() if refusing == "left" else ScriptedTransport()
    right = Refusing() if refusing == "right" else ScriptedTransport()
    with pytest.raises(TransportError) as caught, anyio.fail_after(LIMIT):
        await Relay(left, right).run()
    assert caught.value.detail == "nobody there"
    assert (left.closed, right.closed) == (1, 1)


async def test_stopping_flushes_and_returns() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    relay = Relay(left, right)
    async with running(relay) as outcome:
        relay.stop()
        relay.stop()
        assert await outcome.wait() is None
    assert (left.closed, right.closed) == (1, 1)


async def test_stopping_before_it_runs_and_while_it_opens() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    relay = Relay(left, right)
    relay.stop()
    with anyio.fail_after(LIMIT):
        await relay.run()
    assert (left.closed, right.closed) == (1, 1)

    dialling = Gated()
    relay = Relay(ScriptedTransport(), dialling)
    async with running(relay) as outcome:
        await dialling.opened.wait()
        relay.stop()
        assert await outcome.wait() is None
    assert dialling.closed == 1


async def test_a_relay_runs_once() -> None:
    relay = Relay(ScriptedTransport(), ScriptedTransport())
    relay.stop()
    await relay.run()
    with pytest.raises(LocalProtocolError):
        await relay.run()


async def test_cancelling_closes_both() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Relay(left, right).run)
        await turns()
        tasks.cancel_scope.cancel()
    assert (left.closed, right.closed) == (1, 1)


# ---------------------------------------------------------------------------------------- real carriers


async def test_two_connections_talk_through_it_under_load_in_both_directions() -> None:
    host, left = memory_transports()
    right, server = memory_transports()
    relay = Relay(left, right)
    async with running(relay), anyio.create_task_group() as tasks:

        async def ask(conn: McplConnection, name: str) -> None:
            for number in range(150):
                assert await conn.send_request("echo", {"from": name, "n": number}) == {"from": name, "n": number}

        async with McplConnection(host) as at_host, McplConnection(server) as at_server:
            with anyio.fail_after(LIMIT):
                async with anyio.create_task_group() as talk:
                    for conn in (at_host, at_server):
                        tasks.start_soon(conn.serve, {"echo": lambda request: request.params})
                    for which in range(5):
                        talk.start_soon(ask, at_host, f"host {which}")
                        talk.start_soon(ask, at_server, f"server {which}")
        tasks.cancel_scope.cancel()
    assert relay.stats.sent == relay.stats.received == 2 * 5 * 150


PAIRS = ["unix", "tcp", "ws"]


@asynccontextmanager
async def peers(tmp_path: Path, scheme: str) -> AsyncIterator[tuple[Transport, Transport]]:
    """A transport to dial with, and, once it was dialled, the one that was accepted: both ends of a real carrier."""
    address = {"unix": f"unix://{tmp_path}/{scheme}", "tcp": "tcp://127.0.0.1:0", "ws": "ws://127.0.0.1:0"}[scheme]
    listener = listener_for(address)
    accepted: list[Transport] = []
    async with event_loop() as loop:
        await listener.start(loop, accepted.append)
        yield transport_for(listener.endpoint), Late(accepted)
        await listener.aclose()


class Late(Transport):
    """The transport that will have been accepted, once there is one."""

    def __init__(self, accepted: list[Transport]) -> None:
        super().__init__()
        self._accepted = accepted

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        await until(lambda: self._accepted)
        await self._accepted[0].start(sink, loop)

    def write(self, message: bytes) -> None:
        self._accepted[0].write(message)

    @property
    def behind(self) -> bool:
        return self._accepted[0].behind

    async def drain(self) -> None:
        await self._accepted[0].drain()

    def pause_reading(self) -> None:
        self._accepted[0].pause_reading()

    def resume_reading(self) -> None:
        self._accepted[0].resume_reading()

    async def send_eof(self) -> None:
        await self._accepted[0].send_eof()

    async def aclose(self) -> None:
        if self._accepted:
            await self._accepted[0].aclose()


@asynccontextmanager
async def between(
    tmp_path: Path, left: str, right: str
) -> AsyncIterator[tuple[Transport, RecordingSink, Transport, RecordingSink, Relay, Outcome]]:
    """A host that dialled a relay, which dialled a server: the host's and the server's ends of it all."""
    async with peers(tmp_path / "l", left) as (host, accepted), peers(tmp_path / "r", right) as (dialled, server):
        relay = Relay(accepted, dialled)
        host_sink, server_sink = RecordingSink(), RecordingSink()
        async with running(relay) as outcome, started(host, host_sink), started(server, server_sink):
            yield host, host_sink, server, server_sink, relay, outcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "lr":
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize("right", PAIRS)
@pytest.mark.parametrize("left", PAIRS)
async def test_every_pair_of_carriers_passes_the_same_messages(left: str, right: str, folder: Path) -> None:
    messages = [
        json.dumps({"n": number, "text": "\u00e9\u2028" * number}, ensure_ascii=False).encode() for number in range(200)
    ]
    async with between(folder, left, right) as (host, host_sink, server, server_sink, _, _):
        for message in messages:
            host.write(message)
            server.write(message)
        assert await server_sink.until_messages(200) == messages
        assert await host_sink.until_messages(200) == messages


async def test_pretty_printed_messages_become_lines_and_no_more(folder: Path) -> None:
    value = {"jsonrpc": "2.0", "method": "m", "params": {"text": "a\nb", "list": [1, 2]}}
    pretty = json.dumps(value, indent=2).replace("\n", "\r\n").encode()
    async with between(folder, "ws", "tcp") as (host, host_sink, server, server_sink, _, _):
        host.write(pretty)
        host.write(b'{"next":1}')
        received = await server_sink.until_messages(2)
        assert len(received) == 2
        assert b"\n" not in received[0] and json.loads(received[0]) == value
        # Nothing was decoded: white space became white space, and everything else stayed.
        assert received[0] == pretty.replace(b"\r", b" ").replace(b"\n", b" ")
        server.write(received[0])
        assert await host_sink.until_messages(1) == [received[0]]


@pytest.mark.parametrize(("left", "right"), [("ws", "unix"), ("tcp", "ws")])
async def test_the_largest_messages_pass(left: str, right: str, folder: Path) -> None:
    message = b'{"x":"' + b"y" * (DEFAULT_MAX_MESSAGE_BYTES - 8) + b'"}'
    assert len(message) == DEFAULT_MAX_MESSAGE_BYTES
    async with between(folder, left, right) as (host, host_sink, server, server_sink, _, _):
        host.write(message)
        assert await server_sink.until_messages(1) == [message]
        server.write(message)
        assert await host_sink.until_messages(1) == [message]


async def test_over_long_and_binary_frames_are_dropped_and_the_rest_passes(folder: Path) -> None:
    async with between(folder, "unix", "unix") as (host, _, _, server_sink, relay, _):
        errors: list[BaseException] = []
        relay.on_error(errors.append)
        host.write(b"x" * (DEFAULT_MAX_MESSAGE_BYTES + 1))
        host.write(b"good")
        assert await server_sink.until_messages(1) == [b"good"]
        assert [getattr(error, "kind", None) for error in errors] == ["too-long"]


@pytest.mark.parametrize(("left", "right"), [("unix", "unix"), ("ws", "tcp"), ("tcp", "ws"), ("ws", "ws")])
async def test_memory_stays_bounded_while_a_side_stalls(left: str, right: str, folder: Path) -> None:
    total, message = 64 * MIB, b'{"x":"' + b"y" * 32_000 + b'"}'
    async with between(folder, left, right) as (host, host_sink, server, server_sink, relay, _):
        server.pause_reading()
        await turns(20)
        written = 0

        async def flood() -> None:
            nonlocal written
            while written < total:
                host.write(message)
                written += len(message)
                await host.drain()

        tracemalloc.start()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(flood)
                await until_quiet(lambda: written)
                held, _ = tracemalloc.get_traced_memory()
                assert written < total / 2
                assert held < 4 * MIB
                # The other direction is not held back.
                server.write(b"still there")
                assert await host_sink.until_messages(1) == [b"still there"]
                passed = 0

                def count(messages: list[bytes]) -> None:
                    nonlocal passed
                    assert all(text == message for text in messages)
                    passed += len(messages)
                    server_sink.messages.clear()

                server_sink.on_messages = count
                server.resume_reading()
                await server_sink.until(lambda: passed * len(message) >= total)
            _, peak = tracemalloc.get_traced_memory()
            assert peak < 8 * MIB
        finally:
            tracemalloc.stop()
        assert relay.stats.sent_bytes >= total


async def until_quiet(progress: Callable[[], int]) -> None:
    """Returns when ``progress`` has not moved for many turns of the loop."""
    with anyio.fail_after(LIMIT):
        last, since = progress(), 0
        while since < 2000:
            await anyio.lowlevel.checkpoint()
            now = progress()
            last, since = (now, since + 1) if now == last else (now, 0)


@pytest.mark.parametrize(("left", "right"), [("tcp", "unix"), ("ws", "tcp"), ("unix", "ws"), ("ws", "ws")])
async def test_a_host_that_leaves_takes_the_server_with_it(left: str, right: str, folder: Path) -> None:
    async with between(folder, left, right) as (host, _, _, server_sink, _, outcome):
        host.write(b"last words")
        await host.aclose()
        assert await server_sink.until_messages(1) == [b"last words"]
        assert await server_sink.until_input_ended() is None
        # A socket that was closed looks like one that was half closed until it is written to.
        if left == "ws":
            assert await outcome.wait() is None


async def test_half_a_close_passes_through(folder: Path) -> None:
    async with between(folder, "tcp", "unix") as (host, host_sink, server, server_sink, _, outcome):
        host.write(b"question")
        await host.send_eof()
        await server_sink.until_input_ended()
        server.write(b"answer")
        assert await host_sink.until_messages(1) == [b"answer"]
        await server.send_eof()
        assert await host_sink.until_input_ended() is None
        assert await outcome.wait() is None


@pytest.mark.parametrize("left", ["tcp", "ws"])
async def test_a_child_that_dies_is_told_with_its_last_words(left: str, folder: Path) -> None:
    code = "import sys; print('{\"bye\": 1}', flush=True); print('why', file=sys.stderr); sys.exit(3)"
    async with peers(folder, left) as (host, accepted):
        relay = Relay(accepted, transport_for([sys.executable, "-c", code]))
        async with running(relay) as outcome, started(host) as sink:
            assert await sink.until_messages(1) == [b'{"bye": 1}']
            await sink.until_input_ended()
            error = await outcome.wait()
        assert isinstance(error, ProcessExitedError)
        assert (error.returncode, error.stderr.strip()) == (3, "why")


async def test_a_websocket_that_breaks_off_is_a_failure(folder: Path) -> None:
    async with between(folder, "ws", "tcp") as (host, _, _, server_sink, _, outcome):
        host.write(b"x")
        await server_sink.until_messages(1)
        host._engine.abort()  # type: ignore[attr-defined]
        assert isinstance(await outcome.wait(), WebSocketClosedError)
        await server_sink.until_input_ended()


# ---------------------------------------------------------------------------------------- many peers

SERVER = """
import sys
for line in sys.stdin:
    sys.stdout.write(line)
    sys.stdout.flush()
"""


@asynccontextmanager
async def listening(
    endpoint: str = "ws://127.0.0.1:0", connect: Callable[[], Transport] | None = None, **options: Any
) -> AsyncIterator[RelayListener]:
    command = [sys.executable, "-c", SERVER]
    relays = RelayListener(listener_for(endpoint), connect or (lambda: transport_for(command)), **options)
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(LIMIT):
            assert await tasks.start(relays.run) == relays.endpoint
        yield relays
        relays.stop()


async def test_a_child_for_each_peer() -> None:
    opened: list[Relay] = []
    ended: list[tuple[Relay, McplError | None]] = []
    with anyio.fail_after(LIMIT):
        async with listening(opened=opened.append, ended=lambda relay, error: ended.append((relay, error))) as relays:
            hosts = transport_for(relays.endpoint), transport_for(relays.endpoint)
            async with started(hosts[0]) as one, started(hosts[1]) as two:
                for number, sink in enumerate((one, two)):
                    hosts[number].write(b"hello from %d" % number)
                    assert await sink.until_messages(1) == [b"hello from %d" % number]
            await until(lambda: len(ended) == 2)
            pids = {relay.right.pid for relay in opened}  # type: ignore[attr-defined]
            assert len(pids) == 2
            assert [error for _, error in ended] == [None, None]
            # Their children are gone.
            assert [relay.right.returncode for relay in opened] == [0, 0]  # type: ignore[attr-defined]


async def test_stopping_ends_every_relay_in_an_orderly_way() -> None:
    opened: list[Relay] = []
    ended: list[McplError | None] = []
    with anyio.fail_after(LIMIT):
        async with listening(opened=opened.append, ended=lambda relay, error: ended.append(error)) as relays:
            async with started(transport_for(relays.endpoint)) as sink:
                await until(lambda: opened)
                relays.stop()
                assert await sink.until_input_ended() is None
        assert ended == [None]


async def test_a_peer_that_came_just_before_the_stop_is_let_go() -> None:
    relays = RelayListener(listener_for("tcp://127.0.0.1:0"), ScriptedTransport, opened=lambda _: relays.stop())
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            await tasks.start(relays.run)
            async with started(transport_for(relays.endpoint)) as sink:
                await sink.until_input_ended()


async def test_cancelling_releases_everything() -> None:
    relays = RelayListener(listener_for("ws://127.0.0.1:0"), lambda: transport_for([sys.executable, "-c", SERVER]))
    opened: list[Relay] = []
    relays._opened = opened.append
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            await tasks.start(relays.run)
            async with started(transport_for(relays.endpoint)):
                await until(lambda: opened)
                tasks.cancel_scope.cancel()


async def test_one_peer_that_fails_disturbs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    commands = [["/nonexistent/server"], [sys.executable, "-c", SERVER]]

    def connect() -> Transport:
        if not commands:
            raise ValueError("no more")
        return transport_for(commands.pop(0))

    with caplog.at_level(logging.WARNING, "mcpl_core"), anyio.fail_after(LIMIT):
        async with listening(connect=connect) as relays:
            async with started(transport_for(relays.endpoint)) as sink:
                await sink.until_input_ended()
            transport = transport_for(relays.endpoint)
            async with started(transport) as sink:
                transport.write(b"hello")
                assert await sink.until_messages(1) == [b"hello"]
            async with started(transport_for(relays.endpoint)) as sink:
                await sink.until_input_ended()
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]


async def test_a_page_of_another_origin_is_refused() -> None:
    opened: list[Relay] = []
    with anyio.fail_after(LIMIT):
        async with listening(opened=opened.append) as relays:
            page = transport_for(relays.endpoint, headers={"Origin": "https://evil.example"})
            async with event_loop() as loop:
                with pytest.raises(UpgradeRefusedError) as caught:
                    await page.start(RecordingSink(), loop)
            assert caught.value.status == 403
    assert opened == []


async def test_an_address_that_is_taken() -> None:
    with anyio.fail_after(LIMIT):
        async with listening("tcp://127.0.0.1:0") as relays:
            second = RelayListener(listener_for(relays.endpoint), ScriptedTransport)
            with pytest.raises(TransportError):
                await second.run()
