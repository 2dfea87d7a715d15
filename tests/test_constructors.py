"""Each constructor makes its transport, passes the options on, and does nothing else."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.connection import McplConnection
from mcpl_core.constructors import Constructors
from mcpl_core.errors import InvalidValueError, TransportError
from mcpl_core.listening import ConnectionListener
from mcpl_core.transports.memory import MemoryTransport, ScriptedTransport
from mcpl_core.transports.sockets import TcpTransport, UnixTransport
from mcpl_core.transports.stdio import StdioTransport
from mcpl_core.transports.streams import StreamTransport
from mcpl_core.transports.subprocess import SubprocessTransport
from mcpl_core.transports.websocket import WebSocketTransport


class Mine(McplConnection):
    """A connection of the application's own."""


MAKERS: dict[str, tuple[Callable[..., McplConnection], type[Any]]] = {
    "streams": (lambda **options: Mine.from_streams(io.BytesIO(), io.BytesIO(), **options), StreamTransport),
    "one stream": (lambda **options: Mine.from_streams(io.BytesIO(), **options), StreamTransport),
    "stdio": (Mine.stdio, StdioTransport),
    "spawn": (
        lambda **options: Mine.spawn(["no-such-program"], env={"A": "1"}, cwd="/", **options),
        SubprocessTransport,
    ),
    "command": (lambda **options: Mine.connect([Path("no-such-program")], **options), SubprocessTransport),
    "tcp": (lambda **options: Mine.connect("tcp://localhost:1", **options), TcpTransport),
    "tls": (lambda **options: Mine.connect("tls://localhost:1", **options), TcpTransport),
    "unix": (lambda **options: Mine.connect("unix:///no/such/socket", **options), UnixTransport),
    "ws": (lambda **options: Mine.connect("ws://localhost:1/", **options), WebSocketTransport),
    "wss": (lambda **options: Mine.connect("wss://localhost:1/", **options), WebSocketTransport),
    "mcpl": (lambda **options: Mine.connect("mcpl://localhost:1/", **options), WebSocketTransport),
    "memory": (lambda **options: Mine.memory_pair(**options)[0], MemoryTransport),
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_transport_and_the_options(name: str) -> None:
    make, transport = MAKERS[name]
    connection = make(max_message_bytes=1234, request_timeout=5, discard_unread=True)
    assert type(connection) is Mine
    assert isinstance(connection.transport, transport)
    assert connection.transport.max_message_bytes == 1234
    assert connection._peer.max_message_bytes == 1234
    assert connection.request_timeout == 5
    assert connection._intake._discard_unread
    assert not connection.is_closed
    default = make()
    assert default.transport.max_message_bytes == 16 * 1024 * 1024
    assert default.request_timeout == 30


def test_options_of_one_transport() -> None:
    connection = McplConnection.connect(
        ["program"], transport_options={"cwd": "/", "terminate_timeout": 7.0}, max_message_bytes=10
    )
    assert isinstance(connection.transport, SubprocessTransport)
    assert connection.transport._terminate_timeout == 7.0
    with pytest.raises(TypeError):
        McplConnection.connect(["program"], transport_options={"no_such": 1})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: McplConnection.from_streams("text"),  # type: ignore[arg-type]
        lambda: McplConnection.from_streams(io.BytesIO(), object()),  # type: ignore[arg-type]
        lambda: McplConnection.from_websocket(object()),
        lambda: McplConnection.spawn("a shell line"),
        lambda: McplConnection.listen(["a", "command"]),  # type: ignore[arg-type]
    ],
)
def test_something_else(wrong: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        wrong()


@pytest.mark.parametrize("endpoint", ["python server.py", "http://x/", "tcp://x", "", "ws://user@x/"])
def test_an_endpoint_outside_its_grammar(endpoint: str) -> None:
    with pytest.raises(InvalidValueError):
        McplConnection.connect(endpoint)
    with pytest.raises(InvalidValueError):
        McplConnection.listen(endpoint)


def test_listening() -> None:
    listener = Mine.listen("tcp://127.0.0.1:0", listener_options={"max_connections": 3}, max_message_bytes=99)
    assert isinstance(listener, ConnectionListener)
    assert listener._listener.max_connections == 3
    connection = listener._connection(ScriptedTransport())
    assert type(connection) is Mine
    assert connection._peer.max_message_bytes == 99


def test_a_pair_is_each_others_peer() -> None:
    left, right = Mine.memory_pair()
    assert (type(left), type(right)) == (Mine, Mine)
    assert isinstance(left.transport, MemoryTransport)
    assert left.transport._other is right.transport


def test_the_constructors_alone_make_nothing() -> None:
    with pytest.raises(NotImplementedError):
        Constructors(ScriptedTransport())


@pytest.mark.anyio
async def test_dialling_fails_when_it_is_entered_and_not_before() -> None:
    for connection in (McplConnection.spawn([sys.executable + "-missing"]), McplConnection.connect("unix:///no/such")):
        with pytest.raises(TransportError), anyio.fail_after(5):
            async with connection:
                raise AssertionError
        assert connection.is_closed
