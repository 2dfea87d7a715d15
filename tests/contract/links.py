"""The table of transports under the contract. A new one is a row of ``LINKS``.

A row makes a connection, opened by the test, to a ``Peer`` that runs already; and says what its carrier cannot do.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream

from mcpl_core.connection import McplConnection
from mcpl_core.transports.memory import memory_transports
from mcpl_core.transports.subprocess import SubprocessTransport
from tests.contract.peer import Peer
from tests.transports.certificate import client_context, server_context

__all__ = ("LINKS", "Link", "Row")

ALL = frozenset({"asyncio", "uvloop", "trio"})


@dataclass
class Link:
    """Our end, opened, and a hand on the other.

    Attributes:
        near: the connection under test.
        stall, resume: the far side reads nothing; it goes on.
        vanish: the far side is gone, without a goodbye.
        ended: returns when the far side has ended by itself: how many messages it had collected.
    """

    near: McplConnection
    stall: Callable[[], object]
    resume: Callable[[], object]
    vanish: Callable[[], object]
    ended: Callable[[], Awaitable[int]]


Factory = Callable[..., AbstractAsyncContextManager[Link]]


@dataclass(frozen=True)
class Row:
    """A transport under the contract.

    Attributes:
        factory: takes the options of the near connection.
        backends: where it exists.
        half_close: whether one direction can end while the other goes on.
        far_half_close: whether the far side can do so, too.
        skips_oversize: whether an over-long message is skipped; otherwise it closes.
        hasty: options of the near side with which its goodbye takes next to no time, beside ``close_timeout``.
    """

    factory: Factory
    backends: frozenset[str] = ALL
    half_close: bool = True
    far_half_close: bool = True
    skips_oversize: bool = True
    hasty: dict[str, Any] = field(default_factory=dict)


class Far:
    """A far side in this process. It may have to be accepted, which needs the near side to dial."""

    def __init__(self, connection: McplConnection | Callable[[], Awaitable[McplConnection]]) -> None:
        self._connection = connection
        self._scope = anyio.CancelScope()
        self._done = anyio.Event()
        self._there = anyio.Event()
        self._peer: Peer | None = None

    async def run(self) -> None:
        try:
            with self._scope:
                there = self._connection
                self._peer = Peer(there if isinstance(there, McplConnection) else await there())
                self._there.set()
                await self._peer.run()
        finally:
            self._done.set()

    async def link(self, near: McplConnection) -> Link:
        await self._there.wait()
        assert self._peer is not None
        transport = self._peer.connection.transport
        return Link(near, transport.pause_reading, transport.resume_reading, self.vanish, self.ended)

    def vanish(self) -> None:
        self._scope.cancel()

    async def ended(self) -> int:
        await self._done.wait()
        assert self._peer is not None
        return len(self._peer.collected)


@asynccontextmanager
async def linked(
    near: McplConnection, far: McplConnection | Callable[[], Awaitable[McplConnection]]
) -> AsyncIterator[Link]:
    """Two connections in this process."""
    other = Far(far)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other.run)
        async with near:
            yield await other.link(near)
        other.vanish()


def memory(**options: Any) -> AbstractAsyncContextManager[Link]:
    here, there = memory_transports()
    here.max_message_bytes = options.get("max_message_bytes", here.max_message_bytes)
    return linked(McplConnection(here, **options), McplConnection(there))


@asynccontextmanager
async def anyio_streams(**options: Any) -> AsyncIterator[Link]:
    here, there = socket.socketpair()
    async with await SocketStream.from_socket(here) as one, await SocketStream.from_socket(there) as two:
        async with linked(McplConnection.from_streams(one, **options), McplConnection.from_streams(two)) as link:
            yield link


@asynccontextmanager
async def asyncio_streams(**options: Any) -> AsyncIterator[Link]:
    here, there = socket.socketpair()
    one, two = await asyncio.open_connection(sock=here), await asyncio.open_connection(sock=there)
    try:
        async with linked(McplConnection.from_streams(*one, **options), McplConnection.from_streams(*two)) as link:
            yield link
    finally:
        for _, writer in (one, two):
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def trio_streams(**options: Any) -> AsyncIterator[Link]:
    import trio

    here, there = (trio.SocketStream(trio.socket.from_stdlib_socket(sock)) for sock in socket.socketpair())
    async with here, there:
        async with linked(McplConnection.from_streams(here, **options), McplConnection.from_streams(there)) as link:
            yield link


@asynccontextmanager
async def binary_files(**options: Any) -> AsyncIterator[Link]:
    (there_in, here_out), (here_in, there_out) = os.pipe(), os.pipe()
    files = [
        os.fdopen(fd, mode, 0) for fd, mode in ((here_in, "rb"), (here_out, "wb"), (there_in, "rb"), (there_out, "wb"))
    ]
    try:
        near = McplConnection.from_streams(files[0], files[1], **options)
        async with linked(near, McplConnection.from_streams(files[2], files[3])) as link:
            yield link
    finally:
        for file in files:
            file.close()


@asynccontextmanager
async def child(**options: Any) -> AsyncIterator[Link]:
    """Two in one: we spawn it, and it speaks over its standard input and output."""
    lines: list[str] = []
    news = anyio.Event()

    def on_stderr(line: str) -> None:
        lines.append(line)
        news.set()

    command = [sys.executable, str(Path(__file__).with_name("peer.py"))]
    given = {"on_stderr": on_stderr, **options.pop("transport_options", {})}
    near = McplConnection.connect(command, transport_options=given, **options)
    transport = near.transport
    assert isinstance(transport, SubprocessTransport)

    def send(number: signal.Signals) -> None:
        assert transport.pid is not None
        with suppress(ProcessLookupError):
            os.kill(transport.pid, number)

    async def ended() -> int:
        while not lines:
            await news.wait()
        return int(lines[-1].removeprefix("collected "))

    async with near:
        yield Link(
            near,
            lambda: send(signal.SIGSTOP),
            lambda: send(signal.SIGCONT),
            lambda: send(signal.SIGKILL),
            ended,
        )


def listening(endpoint: str, near: dict[str, Any] | None = None, far: dict[str, Any] | None = None) -> Factory:
    """Over a listener in this process."""

    @asynccontextmanager
    async def factory(**options: Any) -> AsyncIterator[Link]:
        async with McplConnection.listen(endpoint, listener_options=far or {}) as listener:
            given = {**(near or {}), **options.pop("transport_options", {})}
            dialled = McplConnection.connect(listener.endpoint, transport_options=given, **options)
            async with linked(dialled, lambda: anext(listener)) as link:
                yield link

    return factory


@asynccontextmanager
async def unix(**options: Any) -> AsyncIterator[Link]:
    # A short path: the system allows about a hundred bytes.
    async with anyio.TemporaryDirectory(prefix="mcpl") as folder:
        async with listening(f"unix://{folder}/socket")(**options) as link:
            yield link


@asynccontextmanager
async def adopted_websocket(**options: Any) -> AsyncIterator[Link]:
    """A connection of the library, opened by somebody else."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        from websockets.trio.client import connect as dial
    else:
        from websockets.asyncio.client import connect as dial  # type: ignore[assignment]
    async with McplConnection.listen("ws://127.0.0.1:0/") as listener:
        async with dial(listener.endpoint, compression=None, ping_interval=None) as websocket:
            near = McplConnection.from_websocket(websocket, **options)
            async with linked(near, lambda: anext(listener)) as link:
                yield link


LINKS: dict[str, Row] = {
    "memory": Row(memory),
    "anyio streams": Row(anyio_streams),
    "asyncio streams": Row(asyncio_streams, ALL - {"trio"}),
    "trio streams": Row(trio_streams, frozenset({"trio"})),
    "binary files": Row(binary_files),
    # The child keeps a copy of descriptor 1, to put it back; we see its end when the child ends.
    "child over stdio": Row(child, far_half_close=False, hasty={"transport_options": {"terminate_timeout": 0.05}}),
    "tcp": Row(listening("tcp://127.0.0.1:0")),
    "tls": Row(listening("tls://127.0.0.1:0", {"ssl": client_context()}, {"ssl": server_context()}), half_close=False),
    "unix": Row(unix),
    "websocket": Row(
        listening("ws://127.0.0.1:0/"),
        half_close=False,
        skips_oversize=False,
        hasty={"transport_options": {"close_timeout": 0.05}},
    ),
    "adopted websocket": Row(adopted_websocket, half_close=False, skips_oversize=False),
}
