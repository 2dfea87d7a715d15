"""Which streams are taken; the engines have their own tests."""

from __future__ import annotations

import asyncio
import io
import socket
import sys
from typing import Any

import anyio
import pytest

from mcpl_core.errors import LocalProtocolError
from mcpl_core.transports.base import Transport
from mcpl_core.transports.streams import StreamTransport, stream_transport
from tests.transports.recording import RecordingSink, event_loop, is_asyncio, started, turns

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]


@pytest.mark.parametrize("wrong", [None, 3, "file", b"bytes", object(), io.StringIO(), sys.stdin])
def test_what_is_no_byte_stream(wrong: Any) -> None:
    with pytest.raises(TypeError):
        stream_transport(wrong, io.BytesIO())
    with pytest.raises(TypeError):
        stream_transport(io.BytesIO(), 3 if wrong is None else wrong)  # type: ignore[arg-type]


def test_a_stream_of_the_wrong_direction() -> None:
    send, receive = anyio.create_memory_object_stream[bytes](0)
    with send, receive, pytest.raises(TypeError):
        stream_transport(receive, send)  # type: ignore[arg-type]


async def test_one_direction_of_asyncio_is_not_both(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    if not is_asyncio(anyio_backend):
        pytest.skip("asyncio's own")
    with pytest.raises(TypeError):
        stream_transport(asyncio.StreamReader())


def test_options_are_kept() -> None:
    transport = stream_transport(io.BytesIO(), io.BytesIO(), max_message_bytes=5, close_timeout=7)
    assert isinstance(transport, StreamTransport)
    assert (transport.max_message_bytes, transport.close_timeout) == (5, 7)


async def test_kinds_may_differ() -> None:
    out = io.BytesIO()
    near, far = socket.socketpair()
    with far, near:
        transport: Transport
        receive = near.makefile("rb", buffering=0)
        transport = stream_transport(receive, out, max_message_bytes=10)
        far.sendall(b"x" * 11 + b"\nin\n")
        far.shutdown(socket.SHUT_WR)
        async with started(transport) as sink:
            assert await sink.until_input_ended() is None
            assert sink.messages == [b"in"]
            assert [error.kind for error in sink.malformed] == ["too-long"]
        assert out.closed
        assert not receive.closed
        receive.close()


async def test_a_stream_that_is_finished_already_is_told_in_a_later_turn() -> None:
    async with event_loop() as loop:
        sink, transport = RecordingSink(), stream_transport(io.BytesIO(), io.BytesIO())
        await transport.start(sink, loop)
        assert sink.log == []
        assert await sink.until_input_ended() is None
        await transport.aclose()


async def test_trio_streams(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    if is_asyncio(anyio_backend):
        pytest.skip("trio's own")
    from trio.testing import memory_stream_pair

    near, far = memory_stream_pair()
    transport = stream_transport(near)
    async with started(transport) as sink:
        await far.send_all(b"in\n")
        await sink.until_messages(1)
        transport.write(b"out")
        await turns()
        assert await far.receive_some() == b"out\n"
        await transport.send_eof()
        assert await far.receive_some() == b""
        await far.send_eof()
        assert await sink.until_input_ended() is None


async def test_used_once() -> None:
    transport = stream_transport(io.BytesIO(), io.BytesIO())
    async with started(transport):
        pass
    async with event_loop() as loop:
        with pytest.raises(LocalProtocolError):
            await transport.start(RecordingSink(), loop)
