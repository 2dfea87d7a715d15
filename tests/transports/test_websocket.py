"""WebSocket transports over real sockets: against each other, bytes written by hand, and the library."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from websockets.frames import Frame, Opcode

from mcpl_core.connection import McplConnection
from mcpl_core.errors import (
    InvalidValueError,
    LocalProtocolError,
    MalformedMessageError,
    TransportError,
    UpgradeRefusedError,
    WebSocketClosedError,
)
from mcpl_core.transports.base import WRITE_HIGH_WATER, Transport
from mcpl_core.transports.loop import EventLoop
from mcpl_core.transports.websocket import WebSocketListener, WebSocketTransport, websocket_transport
from mcpl_core.transports.websocket_policy import UpgradeRequest
from tests.transports.recording import (
    LIMIT,
    RecordingSink,
    event_loop,
    is_asyncio,
    resident_megabytes,
    started,
    turns,
)
from tests.transports.websocket_peers import ForeignPeer, foreign_server, opened_client, status_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]

#: Foreign peers do not answer a close frame unless the test says so.
IMPOLITE = 0.05

Script = Callable[[ForeignPeer], Any]


class Accepted:
    """Collects what a listener accepts."""

    def __init__(self) -> None:
        self.transports: list[WebSocketTransport] = []
        self._changed = anyio.Event()

    def __call__(self, transport: Transport) -> None:
        assert isinstance(transport, WebSocketTransport)
        self.transports.append(transport)
        self._changed.set()

    async def next(self) -> WebSocketTransport:
        with anyio.fail_after(LIMIT):
            while not self.transports:
                if self._changed.is_set():
                    self._changed = anyio.Event()
                await self._changed.wait()
        return self.transports.pop(0)


@asynccontextmanager
async def listening(**options: Any) -> AsyncIterator[tuple[WebSocketListener, Accepted, EventLoop]]:
    listener, accepted = WebSocketListener(**options), Accepted()
    async with event_loop() as loop:
        await listener.start(loop, accepted)
        try:
            yield listener, accepted, loop
        finally:
            with anyio.CancelScope(shield=True):
                await listener.aclose()
                for transport in accepted.transports:
                    await transport.aclose()


class End:
    """A started transport with its sink."""

    def __init__(self, transport: WebSocketTransport, sink: RecordingSink) -> None:
        self.transport = transport
        self.sink = sink


@asynccontextmanager
async def pair(**options: Any) -> AsyncIterator[tuple[End, End]]:
    """A client and the server's end of it, both started, both ours."""
    near, far = RecordingSink(), RecordingSink()
    async with AsyncExitStack() as stack:
        listener, accepted, _ = await stack.enter_async_context(listening(**options))
        client = WebSocketTransport(listener.endpoint, **options)
        await stack.enter_async_context(started(client, near))
        server = await accepted.next()
        await stack.enter_async_context(started(server, far))
        yield End(client, near), End(server, far)


@asynccontextmanager
async def client_of(script: Script, after: bytes = b"", **options: Any) -> AsyncIterator[End]:
    """Our client, of a foreign server that runs ``script``."""
    options.setdefault("close_timeout", IMPOLITE)
    async with foreign_server(script, after=after) as url:
        transport, sink = WebSocketTransport(url, **options), RecordingSink()
        async with started(transport, sink):
            yield End(transport, sink)


@asynccontextmanager
async def server_of(**options: Any) -> AsyncIterator[tuple[End, ForeignPeer]]:
    """Our server's end, of a foreign client."""
    options.setdefault("close_timeout", IMPOLITE)
    async with listening(**options) as (listener, accepted, _), opened_client(listener.endpoint) as peer:
        transport, sink = await accepted.next(), RecordingSink()
        async with started(transport, sink):
            yield End(transport, sink), peer


async def stay(peer: ForeignPeer) -> None:
    """Reads, and lets the other side end it."""
    await peer.until_end()


def code_of(error: TransportError | None) -> int:
    assert isinstance(error, WebSocketClosedError)
    return error.close_code


# ---------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize("compression", [False, True])
async def test_messages_go_both_ways_in_order(compression: bool) -> None:
    texts = [b'{"n":%d,"text":"\xc3\xa9"}' % n for n in range(1000)]
    async with pair(compression=compression) as (client, server):
        for text in texts:
            client.transport.write(text)
            server.transport.write(text)
        assert await server.sink.until_messages(1000) == texts
        assert await client.sink.until_messages(1000) == texts


async def test_a_text_is_a_message_whatever_it_holds_and_however_it_is_framed() -> None:
    pretty, two, late = '{\n  "a": [\n    1\r\n  ]\n}\n', '{"a":1}\n{"b":2}', '"\u2028\u00e9"'.encode()
    async with server_of() as (server, peer):
        await peer.text(pretty, two)
        fragments = [Frame(Opcode.TEXT, late[:2], False), Frame(Opcode.PING, b"x"), Frame(Opcode.CONT, late[2:])]
        await peer.send(*fragments)
        assert await server.sink.until_messages(3) == [pretty.encode(), two.encode(), late]
        assert await peer.frame(Opcode.PONG) == b"x"


async def test_each_write_is_one_text_message_without_a_newline() -> None:
    async with server_of() as (server, peer):
        for text in (b'{"a":1}', b'{\n"b":2}', b"x" * 70_000, b"[]"):
            server.transport.write(text)
        assert [await peer.frame() for _ in range(4)] == [b'{"a":1}', b'{\n"b":2}', b"x" * 70_000, b"[]"]


async def test_answers_that_are_written_while_the_sink_is_fed_leave_in_one_piece() -> None:
    async with server_of() as (server, peer):
        server.sink.on_messages = lambda messages: list(map(server.transport.write, messages))
        await peer.text(*[b"%d" % n for n in range(30)])
        with anyio.fail_after(LIMIT):
            data = await peer.stream.receive()
        assert len(data) == sum(2 + len(b"%d" % n) for n in range(30))


async def test_a_large_message_both_ways() -> None:
    text = b'{"data":"' + os.urandom(8 * 1024 * 1024).hex().encode()[: 16 * 1024 * 1024 - 11] + b'"}'
    async with pair() as (client, server):
        client.transport.write(text)
        assert await server.sink.until_messages(1) == [text]
        server.transport.write(text)
        assert await client.sink.until_messages(1) == [text]


async def test_a_binary_message_is_reported_and_the_connection_lives_on() -> None:
    async with server_of() as (server, peer):
        await peer.send(Frame(Opcode.BINARY, b'{"jsonrpc":"2.0"}'))
        await peer.text("{}")
        assert await server.sink.until_messages(1) == [b"{}"]
        (error,) = server.sink.malformed
        assert (error.kind, error.excerpt) == ("binary", b'{"jsonrpc":"2.0"}')
        server.transport.write(b"[]")
        assert await peer.frame() == b"[]"


async def test_what_came_with_the_answer_to_the_upgrade_is_received() -> None:
    async with client_of(stay, after=Frame(Opcode.TEXT, b"early").serialize(mask=False)) as client:
        assert await client.sink.until_messages(1) == [b"early"]


async def test_what_came_before_an_accepted_transport_starts_is_received() -> None:
    async with listening(close_timeout=IMPOLITE) as (listener, accepted, _), opened_client(listener.endpoint) as peer:
        await peer.text("one", "two")
        transport = await accepted.next()
        await turns(20)
        async with started(transport) as sink:
            assert await sink.until_messages(2) == [b"one", b"two"]
            await peer.text("three")
            assert await sink.until_messages(3) == [b"one", b"two", b"three"]


# ---------------------------------------------------------------------------------------- what ends it


BAD = {
    "too-long": (Frame(Opcode.TEXT, b"x" * 101), 1009),
    "invalid-utf8": (Frame(Opcode.TEXT, b'"\xff"'), 1007),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_message_that_cannot_be_taken_is_reported_then_closes(kind: str) -> None:
    frame, code = BAD[kind]
    async with server_of(max_message_bytes=100) as (server, peer):
        await peer.text("{}")
        await peer.send(frame)
        assert code_of(await server.sink.until_input_ended()) == code
        assert code_of(await server.sink.until_output_failed()) == code
        assert server.sink.log == ["messages", "malformed", "input", "output"]
        assert [error.kind for error in server.sink.malformed] == [kind]
        frames = await peer.until_end()
        assert [frame.opcode for frame in frames] == [Opcode.CLOSE]
        assert peer.protocol.close_rcvd is not None and peer.protocol.close_rcvd.code == code


async def test_an_over_long_message_still_under_way_does_not_lose_the_close_code() -> None:
    async def send_much(peer: ForeignPeer) -> None:
        await peer.text("x" * 5_000_000)
        codes.append((await peer.frame(Opcode.CLOSE))[:2])

    codes: list[bytes] = []
    async with client_of(send_much, max_message_bytes=1000, close_timeout=LIMIT) as client:
        assert code_of(await client.sink.until_input_ended()) == 1009
        await client.transport.aclose()
    assert codes == [(1009).to_bytes(2, "big")]


@pytest.mark.parametrize(
    ("code", "ordinary"), [(1000, True), (1001, True), (1008, False), (1011, False), (4000, False)]
)
async def test_the_peers_close_code_says_how_it_ended(code: int, ordinary: bool) -> None:
    async def say_goodbye(peer: ForeignPeer) -> None:
        await peer.text("last")
        await peer.close(code, "because")
        answers.extend(await peer.until_end())

    answers: list[Frame] = []
    async with client_of(say_goodbye) as client:
        error = await client.sink.until_input_ended()
        await client.sink.until_output_failed()
        assert client.sink.messages == [b"last"]
        if ordinary:
            assert error is None
        else:
            assert isinstance(error, WebSocketClosedError)
            assert (error.close_code, error.close_reason) == (code, "because")
        client.transport.write(b"too late")
        await client.transport.drain()
    assert [frame.opcode for frame in answers] == [Opcode.CLOSE]


async def test_a_close_without_a_code_is_an_ordinary_end() -> None:
    async with server_of() as (server, peer):
        await peer.send(Frame(Opcode.CLOSE, b""))
        assert await server.sink.until_input_ended() is None


async def test_an_end_without_a_close_frame_is_1006() -> None:
    async with server_of() as (server, peer):
        await peer.text("{}")
        await peer.stream.aclose()
        assert code_of(await server.sink.until_input_ended()) == 1006
        assert server.sink.messages == [b"{}"]


async def test_a_peer_that_vanishes_is_1006() -> None:
    async with server_of() as (server, peer):
        await peer.text("{}")
        await server.sink.until_messages(1)
        await peer.reset()
        error = await server.sink.until_input_ended()
        assert code_of(error) == 1006
        assert error is not None and error.__cause__ is not None
        assert code_of(await server.sink.until_output_failed()) == 1006


async def test_what_the_protocol_does_not_allow_is_1002() -> None:
    async with server_of() as (server, peer):
        await peer.stream.send(b"\x81\x02{}")
        assert code_of(await server.sink.until_input_ended()) == 1002


# ---------------------------------------------------------------------------------------- goodbye


async def test_send_eof_says_goodbye_after_what_was_written_and_input_goes_on() -> None:
    async with server_of(close_timeout=LIMIT) as (server, peer):
        server.transport.write(b"last")
        await server.transport.send_eof()
        server.transport.write(b"never")
        assert await peer.frame() == b"last"
        assert await peer.frame(Opcode.CLOSE) == (1000).to_bytes(2, "big")
        await peer.text("still")
        assert await server.sink.until_messages(1) == [b"still"]
        await peer.close()
        assert await server.sink.until_input_ended() is None
        await server.transport.send_eof()
        assert server.sink.log == ["messages", "input"]
        await peer.stream.aclose()


async def test_send_eof_to_a_peer_that_does_not_answer_ends_in_time() -> None:
    async with server_of(close_timeout=0.01) as (server, peer):
        await server.transport.send_eof()
        assert code_of(await server.sink.until_input_ended()) == 1006
        assert [frame.opcode for frame in await peer.until_end()] == [Opcode.CLOSE]


async def test_after_send_eof_a_paused_reader_still_gets_everything() -> None:
    async with server_of(close_timeout=0.01) as (server, peer):
        server.transport.pause_reading()
        await peer.text("unread")
        await server.transport.send_eof()
        assert await peer.frame(Opcode.CLOSE)
        await peer.close()
        with anyio.move_on_after(0.05):
            await server.sink.until_input_ended()
        assert server.sink.log == []
        server.transport.resume_reading()
        assert await server.sink.until_messages(1) == [b"unread"]
        assert await server.sink.until_input_ended() is None


async def test_aclose_flushes_says_goodbye_and_pushes_nothing_more() -> None:
    async with pair() as (client, server):
        for n in range(100):
            client.transport.write(b"%d" % n)
        with anyio.fail_after(LIMIT):
            await client.transport.aclose()
        assert client.sink.log == []
        assert await server.sink.until_input_ended() is None
        assert len(server.sink.messages) == 100
        client.transport.write(b"late")
        await client.transport.send_eof()
        await client.transport.drain()
        client.transport.pause_reading()
        client.transport.resume_reading()


@pytest.mark.parametrize("paused", [False, True])
async def test_aclose_to_a_peer_that_does_not_answer_ends_in_time(paused: bool) -> None:
    async with server_of(close_timeout=0.02) as (server, peer):
        if paused:
            server.transport.pause_reading()
        await peer.text("unread")
        begun = anyio.current_time()
        with anyio.fail_after(LIMIT):
            await server.transport.aclose()
        assert anyio.current_time() - begun < 2
        assert "input" not in server.sink.log
        assert [frame.opcode for frame in await peer.until_end()][:1] == [Opcode.CLOSE]


async def test_aclose_from_several_tasks_each_returns_when_it_is_done() -> None:
    async with server_of(close_timeout=0.02) as (server, _), anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(server.transport.aclose)
        await turns(3)
        await server.transport.aclose()
    await server.transport.aclose()


async def test_cancelling_aclose_releases_the_carrier_at_once() -> None:
    async with server_of(close_timeout=1000) as (server, peer):
        with anyio.move_on_after(0.02) as scope:
            await server.transport.aclose()
        assert scope.cancelled_caught
        await peer.until_end()
        with anyio.fail_after(LIMIT):
            await server.transport.aclose()


async def test_aclose_after_the_peer_closed() -> None:
    async with server_of() as (server, peer):
        await peer.close()
        await server.sink.until_input_ended()
        await peer.until_end()
        await server.transport.aclose()


async def test_aclose_returns_while_its_own_tasks_are_being_cancelled() -> None:
    async with listening(close_timeout=IMPOLITE) as (listener, accepted, _), opened_client(listener.endpoint) as peer:
        transport = await accepted.next()
        async with event_loop() as loop:
            await transport.start(RecordingSink(), loop)
            await turns()
            loop.tasks.cancel_scope.cancel()
            with anyio.fail_after(LIMIT, shield=True):
                await transport.aclose()
        await peer.until_end()


async def test_an_accepted_transport_that_never_starts_can_be_closed() -> None:
    async with listening(close_timeout=0.05) as (listener, accepted, loop), opened_client(listener.endpoint) as peer:
        transport = await accepted.next()
        await transport.aclose()
        await transport.aclose()
        frames = await peer.until_end()
        assert [frame.opcode for frame in frames] == [Opcode.CLOSE]
        assert peer.protocol.close_rcvd is not None and peer.protocol.close_rcvd.code == 1001
        with pytest.raises(LocalProtocolError):
            await transport.start(RecordingSink(), loop)


async def test_an_accepted_transport_whose_peer_left_tells_its_end_when_it_starts() -> None:
    async with listening() as (listener, accepted, _):
        async with opened_client(listener.endpoint) as peer:
            await peer.text("{}")
            await peer.close()
        async with started(await accepted.next()) as sink:
            assert await sink.until_input_ended() is None
            assert sink.messages == [b"{}"]


async def test_a_transport_that_never_started_does_nothing() -> None:
    transport = WebSocketTransport("ws://127.0.0.1:9/")
    transport.write(b"{}")
    assert not transport.behind
    await transport.drain()
    transport.pause_reading()
    transport.resume_reading()
    await transport.send_eof()
    await transport.aclose()
    async with event_loop() as loop:
        with pytest.raises(LocalProtocolError):
            await transport.start(RecordingSink(), loop)


# ---------------------------------------------------------------------------------------- flow


async def test_a_peer_that_does_not_read_makes_us_wait_and_memory_stays() -> None:
    async def ignore(peer: ForeignPeer) -> None:
        await done.wait()

    done = anyio.Event()
    message = b"x" * 1000
    async with client_of(ignore, close_timeout=0.01) as client:
        transport = client.transport
        written = 0
        before = resident_megabytes()
        while not transport.behind:
            transport.write(message)
            written += 1000
            if written % 100_000 == 0:
                await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(0.3) as waiting:
            for _ in range(200_000):
                transport.write(message)
                written += 1000
                await transport.drain()
        assert waiting.cancelled_caught
        assert transport.behind
        assert written < 50_000_000
        assert resident_megabytes() - before < 50
        await transport.aclose()
        done.set()


async def test_drain_returns_when_the_peer_reads_again() -> None:
    async def read_late(peer: ForeignPeer) -> None:
        await read.wait()
        total.append(sum(len(frame.data) for frame in await peer.until_end()))

    read, drained = anyio.Event(), anyio.Event()
    total: list[int] = []

    async def drain(transport: WebSocketTransport) -> None:
        await transport.drain()
        drained.set()

    async with client_of(read_late) as client, anyio.create_task_group() as tasks:
        written = 0
        while not client.transport.behind or written < 2 * WRITE_HIGH_WATER:
            client.transport.write(b"x" * 50_000)
            written += 50_000
            await anyio.lowlevel.checkpoint()
        for _ in range(3):
            tasks.start_soon(drain, client.transport)
        await turns()
        assert not drained.is_set()
        read.set()
        with anyio.fail_after(LIMIT):
            await drained.wait()
            await client.transport.drain()
        await client.transport.aclose()
    assert total == [written + 2]


async def test_drain_returns_when_the_connection_ends() -> None:
    async def vanish(peer: ForeignPeer) -> None:
        await gone.wait()
        await peer.reset()

    gone = anyio.Event()
    async with client_of(vanish) as client, anyio.create_task_group() as tasks:
        while not client.transport.behind:
            client.transport.write(b"x" * 50_000)
            await anyio.lowlevel.checkpoint()
        tasks.start_soon(client.transport.drain)
        await turns()
        gone.set()
        assert code_of(await client.sink.until_output_failed()) == 1006


async def test_a_paused_transport_pushes_nothing_until_it_resumes() -> None:
    async with server_of() as (server, peer):
        server.sink.on_messages = lambda _: server.transport.pause_reading()
        await peer.text("one")
        await server.sink.until_messages(1)
        server.transport.pause_reading()
        server.sink.on_messages = None
        await peer.text("two")
        await peer.send(Frame(Opcode.PING, b"?"))
        with anyio.move_on_after(0.05):
            await server.sink.until_messages(2)
        assert server.sink.messages == [b"one"]
        server.transport.resume_reading()
        assert server.sink.messages == [b"one"]
        server.transport.resume_reading()
        assert await server.sink.until_messages(2) == [b"one", b"two"]
        assert await peer.frame(Opcode.PONG) == b"?"


async def test_a_paused_transport_makes_the_peer_wait() -> None:
    async with pair() as (client, server):
        server.transport.pause_reading()
        written = 0
        with anyio.move_on_after(0.3) as waiting:
            while written < 200_000_000:
                client.transport.write(b"x" * 10_000)
                written += 10_000
                await client.transport.drain()
                await anyio.lowlevel.checkpoint()
        assert waiting.cancelled_caught
        assert written < 50_000_000
        server.transport.resume_reading()
        await server.sink.until_messages(written // 10_000)
        assert set(map(len, server.sink.messages)) == {10_000}


# ---------------------------------------------------------------------------------------- keep-alive


async def test_a_silent_peer_is_pinged_and_given_up() -> None:
    async with server_of(ping_interval=0.01, ping_timeout=0.03) as (server, peer):
        error = await server.sink.until_input_ended()
        assert code_of(error) == 1011
        frames = await peer.until_end()
        assert frames[0].opcode is Opcode.PING
        assert frames[-1].opcode is Opcode.CLOSE


async def test_two_of_ours_keep_each_other_alive() -> None:
    async with pair(ping_interval=0.01, ping_timeout=5.0) as (client, server):
        with anyio.move_on_after(0.1):
            await client.sink.until_input_ended()
        assert client.sink.log == server.sink.log == []


async def test_a_slow_application_is_not_taken_for_a_dead_peer() -> None:
    """The server reads nothing for many times its peer's timeout."""
    async with pair(ping_interval=0.02, ping_timeout=0.2) as (client, server):
        server.transport.pause_reading()
        with anyio.move_on_after(0.5):
            await client.sink.until_input_ended()
        client.transport.write(b"{}")
        server.transport.resume_reading()
        assert await server.sink.until_messages(1) == [b"{}"]
        assert client.sink.log == []


# ---------------------------------------------------------------------------------------- adopting


@asynccontextmanager
async def library_pair(
    backend: tuple[str, dict[str, Any]], **options: Any
) -> AsyncIterator[tuple[Any, Any, Callable[[], None]]]:
    """A client and a server connection of the library, and what lets the server's handler return."""
    ready, done, served = anyio.Event(), anyio.Event(), []

    async def handler(ws: Any) -> None:
        served.append(ws)
        ready.set()
        await done.wait()

    async with AsyncExitStack() as stack:
        if is_asyncio(backend):
            from websockets.asyncio.client import connect
            from websockets.asyncio.server import serve

            server = await stack.enter_async_context(serve(handler, "127.0.0.1", 0, **options))
            (sock,) = server.sockets
        else:
            from websockets.trio.client import connect as connect  # type: ignore[assignment]
            from websockets.trio.server import serve as serve_trio

            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            library = await tasks.start(
                lambda *, task_status: serve_trio(handler, 0, host="127.0.0.1", task_status=task_status, **options)
            )
            sock = library.listeners[0].socket
        port = sock.getsockname()[1]
        client = await stack.enter_async_context(
            connect(f"ws://127.0.0.1:{port}/p?token=secret", proxy=None, **options)
        )
        with anyio.fail_after(LIMIT):
            await ready.wait()
        try:
            yield client, served[0], done.set
        finally:
            done.set()


@pytest.mark.parametrize("compression", [None, "deflate"])
async def test_connections_of_the_library_are_taken_over(
    anyio_backend: tuple[str, dict[str, Any]], compression: str | None
) -> None:
    texts = [b'{"n":%d}' % n for n in range(200)]
    async with library_pair(anyio_backend, compression=compression) as (client, server, finish):
        one, other = websocket_transport(client), websocket_transport(server)
        assert (one.name.startswith("ws://127.0.0.1:"), "secret" in one.name) == (True, False)
        async with started(one) as near, started(other) as far:
            for text in texts:
                one.write(text)
                other.write(text)
            assert await near.until_messages(200) == texts
            assert await far.until_messages(200) == texts
            one.write(b"y" * 3_000_000)
            assert (await far.until_messages(201))[-1] == b"y" * 3_000_000
            await one.aclose()
            assert await far.until_input_ended() is None
        finish()


async def test_what_the_library_received_before_is_pushed_first(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    async with library_pair(anyio_backend) as (client, server, _):
        for n in range(40):
            await client.send(f"{n}")
        await client.send(b"binary")
        # The library stops reading, and answers no ping, once some messages wait for somebody to take them.
        await anyio.wait_all_tasks_blocked()
        async with started(websocket_transport(server)) as sink:
            assert await sink.until_messages(40) == [b"%d" % n for n in range(40)]
            await sink.until(lambda: sink.malformed)
            await client.send("after")
            assert (await sink.until_messages(41))[-1] == b"after"


async def test_a_connection_that_was_closed_before_tells_what_it_received_and_its_end(
    anyio_backend: tuple[str, dict[str, Any]],
) -> None:
    async with library_pair(anyio_backend) as (client, server, _):
        await client.send("{}")
        if is_asyncio(anyio_backend):
            await client.close(4000, "gone")
        else:
            await client.aclose(4000, "gone")
        with anyio.fail_after(LIMIT):
            await server.wait_closed()
        async with started(websocket_transport(server)) as sink:
            assert code_of(await sink.until_input_ended()) == 4000
            assert sink.messages == [b"{}"]


async def test_the_library_hears_of_the_end(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    async with library_pair(anyio_backend) as (client, server, _):
        async with started(websocket_transport(server)):
            pass
        with anyio.fail_after(LIMIT):
            await server.wait_closed()
            await client.wait_closed()


async def test_an_adopted_connection_that_never_starts_is_closed(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    async with library_pair(anyio_backend) as (client, server, _):
        transport = WebSocketTransport.adopt(server)
        await transport.aclose()
        with anyio.fail_after(LIMIT):
            await client.wait_closed()
        assert client.close_code == 1001


async def test_without_a_keep_alive_of_the_library(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    async with library_pair(anyio_backend, ping_interval=None) as (client, server, _):
        async with started(websocket_transport(server)) as sink:
            await client.send("{}")
            assert await sink.until_messages(1) == [b"{}"]


async def test_the_librarys_keep_alive_gives_nobody_up(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    async with library_pair(anyio_backend, ping_interval=0.02, ping_timeout=0.1) as (client, server, _):
        transport = websocket_transport(server)
        async with started(transport) as sink, started(websocket_transport(client)):
            transport.pause_reading()
            with anyio.move_on_after(0.3):
                await sink.until_input_ended()
            assert sink.log == []
            transport.resume_reading()


async def test_a_connection_of_another_kind_of_loop_is_refused(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    async with library_pair(anyio_backend) as (_, server, _):
        transport = websocket_transport(server)
        there = "websocket_trio" if is_asyncio(anyio_backend) else "websocket_asyncio"
        other = import_module(f"mcpl_core.transports.{there}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mcpl_core.transports.websocket._backend", lambda: other)
            async with event_loop() as loop:
                with pytest.raises(LocalProtocolError):
                    await transport.start(RecordingSink(), loop)
        await transport.aclose()


async def test_a_listener_that_cannot_begin_leaves_no_socket() -> None:
    class Broken:
        @staticmethod
        async def listen(*_: Any) -> None:
            raise RuntimeError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mcpl_core.transports.websocket._backend", lambda: Broken)
        async with event_loop() as loop:
            listener = WebSocketListener()
            with pytest.raises(RuntimeError):
                await listener.start(loop, Accepted())
            await listener.aclose()


@pytest.mark.parametrize("thing", [object(), None, "ws://localhost/", WebSocketListener])
async def test_nothing_else_is_taken_over(thing: Any) -> None:
    with pytest.raises(TypeError):
        websocket_transport(thing)


# ---------------------------------------------------------------------------------------- listening


async def test_the_endpoint_has_the_real_port_and_the_path() -> None:
    async with listening(path="/mcpl") as (listener, accepted, _):
        assert listener.endpoint.startswith("ws://127.0.0.1:") and listener.endpoint.endswith("/mcpl")
        assert ":0/" not in listener.endpoint
        async with started(WebSocketTransport(listener.endpoint + "?token=secret")):
            transport = await accepted.next()
            assert transport.request is not None
            assert (transport.request.path, transport.request.query) == ("/mcpl", "token=secret")
            assert transport.principal is None
            assert "secret" not in repr(transport) + repr(transport.request) + transport.name
            await transport.aclose()


@pytest.mark.parametrize("plain", [True, False])
async def test_authenticate_says_who_it_is(plain: bool) -> None:
    def check(request: UpgradeRequest) -> str | None:
        return {"good": "alice"}.get(request.token or "")

    async def look_up(request: UpgradeRequest) -> str | None:
        await anyio.lowlevel.checkpoint()
        return check(request)

    async with listening(authenticate=check if plain else look_up) as (listener, accepted, loop):
        client = WebSocketTransport(listener.endpoint, headers={"Authorization": "Bearer good"})
        async with started(client):
            transport = await accepted.next()
            assert transport.principal == "alice"
            await transport.aclose()
        refused = WebSocketTransport(listener.endpoint + "?token=bad")
        with pytest.raises(UpgradeRefusedError) as caught:
            await refused.start(RecordingSink(), loop)
        assert caught.value.status == 401


async def test_a_subprotocol_both_sides_know_is_agreed_on() -> None:
    async with listening(subprotocols=["b", "a"]) as (listener, accepted, _):
        client = WebSocketTransport(listener.endpoint, subprotocols=["x", "a", "b"])
        async with started(client):
            server = await accepted.next()
            assert (client.subprotocol, server.subprotocol) == ("b", "b")
            await server.aclose()


async def test_an_address_in_use_cannot_be_bound() -> None:
    async with listening() as (listener, _, loop):
        port = int(listener.endpoint.rpartition(":")[2])
        with pytest.raises(TransportError):
            await WebSocketListener(port=port).start(loop, Accepted())


async def test_closing_releases_the_address_and_leaves_what_was_accepted() -> None:
    async with event_loop() as loop:
        listener, accepted = WebSocketListener(close_timeout=IMPOLITE), Accepted()
        await listener.start(loop, accepted)
        port = int(listener.endpoint.rpartition(":")[2])
        async with opened_client(listener.endpoint) as peer:
            transport = await accepted.next()
            await listener.aclose()
            await listener.aclose()
            again = WebSocketListener(port=port)
            await again.start(loop, accepted)
            await again.aclose()
            async with started(transport) as sink:
                await peer.text("{}")
                assert await sink.until_messages(1) == [b"{}"]


async def test_what_was_accepted_outlives_the_listeners_tasks() -> None:
    listener, accepted = WebSocketListener(close_timeout=IMPOLITE), Accepted()
    async with AsyncExitStack() as stack:
        async with event_loop() as loop:
            await listener.start(loop, accepted)
            peer = await stack.enter_async_context(opened_client(listener.endpoint))
            transport = await accepted.next()
            await listener.aclose()
        async with started(transport) as sink:
            await peer.text("{}")
            assert await sink.until_messages(1) == [b"{}"]


async def test_the_number_of_open_connections_is_bounded() -> None:
    async with listening(max_connections=2) as (listener, accepted, _):
        async with started(WebSocketTransport(listener.endpoint)), started(WebSocketTransport(listener.endpoint)):
            assert await status_of(listener.endpoint) == 503
            first, second = await accepted.next(), await accepted.next()
            await first.aclose()
            async with started(WebSocketTransport(listener.endpoint)):
                await (await accepted.next()).aclose()
            await second.aclose()


async def test_many_connections_at_once() -> None:
    async def talk(n: int) -> None:
        transport = WebSocketTransport(listener.endpoint)
        async with started(transport) as sink:
            transport.write(b"%d" % n)
            assert await sink.until_messages(1) == [b"%d" % n]

    async def echo() -> None:
        transport, sink = await accepted.next(), RecordingSink()
        sink.on_messages = lambda messages: list(map(transport.write, messages))
        async with started(transport, sink):
            await sink.until_input_ended()

    async with listening() as (listener, accepted, _), anyio.create_task_group() as tasks:
        for n in range(60):
            tasks.start_soon(talk, n)
            tasks.start_soon(echo)


@pytest.mark.skipif(os.name != "posix", reason="Unix sockets")
async def test_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with listening(unix_path=path, path="/mcpl") as (listener, accepted, loop):
        assert listener.endpoint == f"ws+unix://{path}"
        with pytest.raises(TransportError):
            await WebSocketListener(unix_path=path).start(loop, accepted)
        client = WebSocketTransport("ws://anything/mcpl", unix_path=path)
        async with started(client) as near:
            server = await accepted.next()
            async with started(server) as far:
                client.write(b"1")
                server.write(b"2")
                assert await far.until_messages(1) == [b"1"]
                assert await near.until_messages(1) == [b"2"]
    assert not path.exists()


# ---------------------------------------------------------------------------------------- arguments


def test_errors_are_of_the_public_tree() -> None:
    for url, headers in (("http://x/", {}), ("ws://u:p@x/", {}), ("ws://x/", {"Host": "y"})):
        with pytest.raises(InvalidValueError):
            WebSocketTransport(url, headers=headers)


def test_what_it_is_called_has_no_secret() -> None:
    transport = WebSocketTransport("wss://example.org/path?token=secret")
    assert transport.name == "wss://example.org"
    assert "secret" not in repr(transport)


def test_malformed_kinds_are_those_of_the_error() -> None:
    assert MalformedMessageError("binary").kind == "binary"


async def test_two_peers_that_both_send_much_at_once_do_not_wait_for_each_other() -> None:
    with anyio.fail_after(20):
        async with (
            McplConnection.listen("ws://127.0.0.1:0") as listener,
            McplConnection.connect(listener.endpoint) as one,
        ):
            sizes: list[int] = []
            arrived = anyio.Event()

            async def take(connection: McplConnection) -> None:
                async for message in connection:
                    sizes.append(len(message.params[0]))
                    if len(sizes) == 20:
                        arrived.set()

            async def send(connection: McplConnection) -> None:
                for _ in range(10):
                    await connection.send_notification("much", ["x" * 1_000_000])

            async with await anext(listener) as other, anyio.create_task_group() as tasks:
                for connection in (one, other):
                    tasks.start_soon(take, connection)
                    tasks.start_soon(send, connection)
                await arrived.wait()
                tasks.cancel_scope.cancel()
    assert sizes == [1_000_000] * 20
