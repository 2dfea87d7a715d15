"""A server on standard input and output, reached over a WebSocket through a relay in a process between.

Styles: ``relay`` (``mcpl_core.relay``) and ``plain`` (the library ``websockets`` and asyncio's streams, a few lines
each way: the floor of a relay). Client and server are the same for both, those of ``core``. Latency is measured with
one request at a time, straight to the server on a WebSocket and then through the relay; the difference is what the
relay adds. Throughput: 64 requests in flight, and a flood.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from msgspec.structs import replace

from mcpl_core import McplConnection
from mcpl_core.relay import RelayListener
from mcpl_core.transports.subprocess import SubprocessTransport
from mcpl_core.transports.websocket import WebSocketListener

from ..drive import check_echo, drive
from ..meter import only_child
from ..workload import SMALL, Order
from .core import LIMIT, ConnectionCaller
from .program import HOST, main, say_url, server_command, websocket_server

__all__ = ("client", "serve")

_SERVER = "benchmarks.contenders.core"


async def client(order: Order) -> dict[str, float]:
    """Measures through the relay, and without it."""
    # Three processes on two processors: the system places them.
    direct = replace(order, scenario="A", link="ws", style="pull", cpus=())
    async with _connected(_SERVER, direct) as (caller, _):
        straight = await drive(caller, direct)
    # The style travels on to the relay's own process.
    async with _connected(__spec__.name, replace(order, cpus=())) as (caller, relay):
        check_echo(await caller.request("echo", SMALL), SMALL)  # now the relay has its server
        pids = (relay, *only_child(relay))
        one = await drive(caller, replace(direct, style=order.style), *pids)
        flood = await drive(caller, replace(direct, scenario="C"), *pids)
        many = await drive(caller, replace(direct, scenario="B"), *pids)
    return {
        **{name: many[name] for name in ("operations", "per_second", "cpu_us") if name in many},
        "flood_per_second": flood["per_second"],
        "p50_us": one["p50_us"],
        "p99_us": one["p99_us"],
        "added_us": one["p50_us"] - straight["p50_us"],
    }


@asynccontextmanager
async def _connected(module: str, order: Order) -> AsyncIterator[tuple[ConnectionCaller, int]]:
    async with (
        websocket_server(module, order) as (url, pid),
        McplConnection.connect(url, max_message_bytes=LIMIT) as connection,
    ):
        yield ConnectionCaller(connection), pid


async def serve(order: Order) -> None:
    """The relay, on a port."""
    command = server_command(_SERVER, replace(order, link="stdio", style="pull", scenario="B"))
    if order.style == "plain":
        await _plain(command)
        return
    listener = WebSocketListener(HOST, 0, max_message_bytes=LIMIT)
    relays = RelayListener(listener, lambda: SubprocessTransport(command, max_message_bytes=LIMIT))
    async with anyio.create_task_group() as tasks:
        say_url(await tasks.start(relays.run))


async def _plain(command: list[str]) -> None:
    from websockets.asyncio.server import ServerConnection
    from websockets.asyncio.server import serve as listen

    async def relay(socket: ServerConnection) -> None:
        pipe = asyncio.subprocess.PIPE
        server = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=LIMIT)
        assert server.stdin is not None and server.stdout is not None
        from_server = asyncio.ensure_future(_from_server(server.stdout, socket))
        try:
            async for message in socket:
                assert isinstance(message, str)
                server.stdin.write(message.encode() + b"\n")
                await server.stdin.drain()
        finally:
            from_server.cancel()

    async with listen(relay, HOST, 0, max_size=None, compression=None) as listening:
        say_url(f"ws://{HOST}:{next(iter(listening.sockets)).getsockname()[1]}")
        await listening.serve_forever()


async def _from_server(lines: asyncio.StreamReader, socket: object) -> None:
    while line := await lines.readline():
        await socket.send(line[:-1], text=True)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(client, serve)
