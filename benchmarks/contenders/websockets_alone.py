"""The library ``websockets`` alone, the floor over WebSocket: its asyncio client and server, msgspec, futures by id.

No compression, as everywhere here: on one machine it costs more than it saves.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as listen
from websockets.exceptions import ConnectionClosed

from ..drive import drive
from ..service import Service
from ..workload import Order
from .program import HOST, main, say_url, websocket_server

__all__ = ("client", "serve")

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class _Caller:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._id = 0

    async def request(self, method: str, params: Any) -> Any:
        id = self._id = self._id + 1
        waiter = self._pending[id] = self._loop.create_future()
        text = encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        await self._socket.send(text, text=True)
        return await waiter

    async def notify(self, method: str, params: Any) -> None:
        await self._socket.send(encode({"jsonrpc": "2.0", "method": method, "params": params}), text=True)

    async def read(self) -> None:
        receive, pending = self._socket.recv, self._pending
        try:
            while True:
                message = decode(await receive(decode=False))
                pending.pop(message["id"]).set_result(message["result"])
        except ConnectionClosed as exc:
            for waiter in pending.values():
                waiter.set_exception(exc)


async def client(order: Order) -> dict[str, float]:
    """Measures against a server in a child process."""
    async with (
        websocket_server(__spec__.name, order) as (url, pid),
        connect(url, proxy=None, max_size=None, compression=None) as socket,
    ):
        caller = _Caller(socket)
        reading = asyncio.ensure_future(caller.read())
        try:
            return await drive(caller, order, pid)
        finally:
            reading.cancel()


async def serve(order: Order) -> None:
    """The server, on a port."""

    async def answer(socket: ServerConnection) -> None:
        service = Service(order.gate)
        send, receive = socket.send, socket.recv
        while True:
            message = decode(await receive(decode=False))
            if message["method"] == "count":
                service.count(message["params"])
                continue
            if message["method"] == "slow":
                await service.slow(message["params"])
                continue
            result = message["params"]
            if message["method"] != "echo":
                result = await service.wait_count(result)
            await send(encode({"jsonrpc": "2.0", "id": message["id"], "result": result}), text=True)

    async with listen(answer, HOST, 0, max_size=None, compression=None) as server:
        say_url(f"ws://{HOST}:{next(iter(server.sockets)).getsockname()[1]}")
        await server.serve_forever()


if __name__ == "__main__":
    main(client, serve)
