"""A peer without opinions."""

from __future__ import annotations

import anyio
import pytest

from mcpl_core.errors import ConnectionClosedError, LocalProtocolError, MalformedMessageError, TransportError
from mcpl_core.testing.raw import RawPeer
from mcpl_core.transports.base import Sink
from mcpl_core.transports.loop import EventLoop
from mcpl_core.transports.memory import ScriptedTransport, memory_transports

pytestmark = pytest.mark.anyio


async def test_what_one_sends_the_other_receives() -> None:
    left, right = memory_transports()
    with anyio.fail_after(5):
        async with RawPeer(left) as one, RawPeer(right) as two:
            await one.send(b"oops")
            await one.send("\u00e9")
            await one.send({"a": 1})
            assert [await two.receive() for _ in range(3)] == [b"oops", "\u00e9".encode(), b'{"a":1}']
            await one.send_eof()
            with pytest.raises(ConnectionClosedError):
                await two.receive()
            await two.send("still")
            assert await one.receive() == b"still"


async def test_nothing_is_answered_and_nothing_checked() -> None:
    script = ScriptedTransport()
    async with RawPeer(script) as peer:
        script.feed({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        script.malformed(MalformedMessageError("binary"))
        script.feed(b"")
        with anyio.fail_after(5):
            await peer.receive()
            assert await peer.receive() == b""
        assert [error.kind for error in peer.malformed] == ["binary"]
    assert script.sent == []
    assert script.closed == 1


async def test_why_nothing_more_comes() -> None:
    for way in ("input", "output", "both"):
        script = ScriptedTransport()
        failure = TransportError("gone")
        async with RawPeer(script) as peer:
            script.feed(b"last words")
            await anyio.lowlevel.checkpoint()
            if way != "input":
                script.fail_output(failure)
            script.end(failure if way == "input" else TransportError("more exactly") if way == "both" else None)
            with anyio.fail_after(5):
                assert await peer.receive() == b"last words"
                for _ in range(2):
                    with pytest.raises(ConnectionClosedError) as caught:
                        await peer.receive()
        if way == "both":
            assert isinstance(caught.value.reason, TransportError) and caught.value.reason.detail == "more exactly"
        else:
            assert caught.value.reason is failure


async def test_who_receives_nothing_holds_back_the_other() -> None:
    script = ScriptedTransport()
    async with RawPeer(script) as peer:
        script.feed(b"x" * 1_000_000, b"y" * 100_000)
        script.feed(b"z")
        with anyio.fail_after(5):
            assert len(await peer.receive()) == 1_000_000
            assert script.paused
            await peer.receive()
            assert [script.paused] == [False]
            assert await peer.receive() == b"z"


async def test_sending_waits_for_a_peer_that_does_not_keep_up() -> None:
    script = ScriptedTransport()
    script.stalled = True
    async with RawPeer(script) as peer:
        with anyio.move_on_after(0.01):
            await peer.send(b"1")
        assert script.sent == [b"1"]
        script.release()
        with anyio.fail_after(5):
            await peer.send(b"2")


class Refusing(ScriptedTransport):
    async def start(self, sink: Sink, loop: EventLoop) -> None:
        raise TransportError("nobody there")


async def test_nobody_is_there() -> None:
    transport = Refusing()
    with pytest.raises(TransportError):
        async with RawPeer(transport):
            pass
    assert transport.closed == 1


async def test_it_is_entered_once_and_first() -> None:
    peer = RawPeer(ScriptedTransport())
    with pytest.raises(LocalProtocolError):
        await peer.receive()
    peer.input_ended(None)
    async with peer:
        with pytest.raises(LocalProtocolError):
            await peer.__aenter__()


async def test_the_callers_exception_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with RawPeer(ScriptedTransport()):
            raise ZeroDivisionError
