"""The floor: an asyncio Protocol on the pipes, msgspec, newline framing, and nothing else.

No limits, no timeouts, no checks, one write for each message: what any library on asyncio has below it.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from ..drive import drive
from ..service import Service
from ..workload import Order
from .program import main, server_process

__all__ = ("client", "serve")

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class _Writer(asyncio.BaseProtocol):
    """Knows whether the transport takes more."""

    def __init__(self) -> None:
        self.blocked: asyncio.Future[None] | None = None

    def pause_writing(self) -> None:
        self.blocked = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        blocked, self.blocked = self.blocked, None
        if blocked is not None and not blocked.done():
            blocked.set_result(None)


class _Lines(asyncio.Protocol):
    """Hands each line to ``on_line``, decoded."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        if b"\n" not in data:
            self._parts.append(data)
            return
        if self._parts:
            self._parts.append(data)
            data = b"".join(self._parts)
            self._parts.clear()
        lines = data.split(b"\n")
        rest = lines.pop()
        if rest:
            self._parts.append(rest)
        for line in lines:
            self.on_message(decode(line))

    def on_message(self, message: Any) -> None:
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


class _Client(_Lines):
    def __init__(self, write: asyncio.WriteTransport, writer: _Writer) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._write = write.write
        self._writer = writer
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._id = 0

    def on_message(self, message: Any) -> None:
        waiter = self._pending.pop(message["id"])
        if not waiter.done():
            waiter.set_result(message["result"])

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for waiter in self._pending.values():
            waiter.set_exception(ConnectionResetError("the server ended"))

    async def request(self, method: str, params: Any) -> Any:
        id = self._id = self._id + 1
        waiter = self._pending[id] = self._loop.create_future()
        self._write(encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + b"\n")
        if self._writer.blocked is not None:
            await self._writer.blocked
        return await waiter

    async def notify(self, method: str, params: Any) -> None:
        self._write(encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n")
        if self._writer.blocked is not None:
            await self._writer.blocked


class _Server(_Lines):
    def __init__(self, write: asyncio.WriteTransport, service: Service) -> None:
        super().__init__()
        self._write = write.write
        self._service = service
        self._tasks: set[asyncio.Task[None]] = set()

    def on_message(self, message: Any) -> None:
        method = message["method"]
        if method == "echo":
            self._answer(message["id"], message["params"])
        elif method == "count":
            self._service.count(message["params"])
        else:
            task = asyncio.ensure_future(self._later(method, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _later(self, method: str, message: Any) -> None:
        if method == "slow":
            await self._service.slow(message["params"])
        else:
            self._answer(message["id"], await self._service.wait_count(message["params"]))

    def _answer(self, id: int, result: Any) -> None:
        self._write(encode({"jsonrpc": "2.0", "id": id, "result": result}) + b"\n")


async def client(order: Order) -> dict[str, float]:
    """Measures over a child process."""
    loop = asyncio.get_running_loop()
    with server_process(__spec__.name, order) as process:
        write, writer = await loop.connect_write_pipe(_Writer, process.stdin)
        read, caller = await loop.connect_read_pipe(lambda: _Client(write, writer), process.stdout)
        try:
            return await drive(caller, order, process.pid)
        finally:
            for transport in (read, write):
                if not transport.is_closing():
                    transport.close()
            await asyncio.sleep(0)  # the loop lets go of them in its next turn


async def serve(order: Order) -> None:
    """The server, on standard input and output."""
    loop = asyncio.get_running_loop()
    service = Service(order.gate)
    write, _ = await loop.connect_write_pipe(_Writer, os.fdopen(1, "wb", 0))
    _, server = await loop.connect_read_pipe(lambda: _Server(write, service), os.fdopen(0, "rb", 0))
    await server.closed


if __name__ == "__main__":
    main(client, serve)
