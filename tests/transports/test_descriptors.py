"""Which engine serves which descriptor."""

from __future__ import annotations

import os
import pty
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.transports.asyncio_streams import AsyncioInput, AsyncioOutput
from mcpl_core.transports.byte_streams import TaskInput, TaskOutput
from mcpl_core.transports.descriptors import (
    available,
    enlarge_pipe,
    is_same_socket,
    open_duplex,
    open_input,
    open_output,
)
from mcpl_core.transports.files import FileSink, FileSource
from mcpl_core.transports.lines import LineTransport
from mcpl_core.transports.loop import EventLoop
from tests.transports.recording import LIMIT, event_loop, is_asyncio, read_from, started

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("no_leaks"),
    pytest.mark.skipif(sys.platform == "win32", reason="the callers are not promised there"),
]


class Opened(LineTransport):
    """Over two descriptors, or one socket."""

    def __init__(self, receive: int, send: int | None) -> None:
        super().__init__()
        self.receive, self.send = receive, send

    async def _open(self, loop: EventLoop) -> None:
        if self.send is None:
            self._input, self._output = open_duplex(self.receive, self, loop)
        else:
            self._output = open_output(self.send, self, loop)
            self._input = open_input(self.receive, self, loop)


def polled(transport: Opened) -> tuple[bool, bool]:
    """Whether the event loop itself serves each direction."""
    input, output = transport._input, transport._output
    receive = isinstance(input, AsyncioInput) or not isinstance(getattr(input, "_source", None), FileSource)
    send = isinstance(output, AsyncioOutput) or not isinstance(getattr(output, "_sink", None), FileSink)
    return receive, send


async def test_fifos(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    transport = Opened(theirs_in, theirs_out)
    async with started(transport) as sink:
        assert polled(transport) == (True, True)
        assert isinstance(transport._input, AsyncioInput if is_asyncio(anyio_backend) else TaskInput)
        assert isinstance(transport._output, AsyncioOutput if is_asyncio(anyio_backend) else TaskOutput)
        os.write(ours_out, b"in\n")
        await sink.until_messages(1)
        transport.write(b"out")
        assert await read_from(ours_in) == b"out\n"
        await transport.send_eof()
        assert await read_from(ours_in) == b""
        os.close(ours_out)
        assert await sink.until_input_ended() is None
    os.close(ours_in)


async def test_sockets() -> None:
    near, far = socket.socketpair()
    back, forth = socket.socketpair()
    with far, forth:
        transport = Opened(near.detach(), back.detach())
        async with started(transport) as sink:
            assert polled(transport) == (True, True)
            far.sendall(b"in\n")
            await sink.until_messages(1)
            transport.write(b"out")
            assert await read_from(forth.fileno()) == b"out\n"
            await transport.send_eof()
            assert await read_from(forth.fileno()) == b""


@pytest.mark.parametrize("family", ["unix", "tcp"])
async def test_one_socket_both_ways(family: str) -> None:
    if family == "unix":
        near, far = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as server:
            far = socket.create_connection(server.getsockname())
            near, _ = server.accept()
    with far:
        transport = Opened(near.detach(), None)
        async with started(transport) as sink:
            far.sendall(b"in\n")
            await sink.until_messages(1)
            transport.write(b"out")
            assert await read_from(far.fileno()) == b"out\n"
            await transport.send_eof()
            assert await read_from(far.fileno()) == b""
            far.shutdown(socket.SHUT_WR)
            assert await sink.until_input_ended() is None


def terminal(path: Path) -> tuple[int, list[int]]:
    ours, theirs = pty.openpty()
    return theirs, [ours]


def null(path: Path) -> tuple[int, list[int]]:
    return os.open(os.devnull, os.O_RDWR), []


def regular(path: Path) -> tuple[int, list[int]]:
    return os.open(path / "file", os.O_RDWR | os.O_CREAT), []


@pytest.mark.parametrize("make", [terminal, null, regular])
async def test_everything_else_has_threads(make: Callable[[Path], tuple[int, list[int]]], tmp_path: Path) -> None:
    fd, others = make(tmp_path)
    transport = Opened(fd, os.dup(fd))
    async with started(transport):
        assert polled(transport) == (False, False)
        transport.write(b"x")
        with anyio.fail_after(LIMIT):
            await transport.aclose()
    for other in others:
        os.close(other)


async def test_what_never_began_is_closed() -> None:
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    async with event_loop() as loop:
        transport = Opened(theirs_in, theirs_out)
        await transport._open(loop)
        with anyio.fail_after(LIMIT):
            await transport.aclose()
        assert os.read(ours_in, 1) == b""
        with pytest.raises(BrokenPipeError):
            os.write(ours_out, b"x")
    os.close(ours_out)
    os.close(ours_in)


def test_how_much_lies_in_a_pipe() -> None:
    receive, send = os.pipe()
    assert available(receive) == 0
    os.write(send, b"12345")
    assert available(receive) == 5
    os.close(send)
    assert available(receive) == 5
    os.close(receive)


def test_larger_pipes() -> None:
    receive, send = os.pipe()
    os.set_blocking(send, False)
    enlarge_pipe(send)
    enlarge_pipe(send)
    written = os.write(send, b"x" * (2 << 20))
    assert written == (1 << 20 if sys.platform == "linux" else written)
    os.close(receive)
    os.close(send)


def test_what_is_no_pipe_stays_as_it_is(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        enlarge_pipe(file.fileno())


def test_the_same_socket() -> None:
    near, far = socket.socketpair()
    with near, far:
        copy = os.dup(near.fileno())
        assert is_same_socket(near.fileno(), copy)
        assert not is_same_socket(near.fileno(), far.fileno())
        os.close(copy)
    receive, send = os.pipe()
    assert not is_same_socket(receive, receive)
    os.close(receive)
    os.close(send)
