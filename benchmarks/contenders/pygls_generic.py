"""``pygls``: its generic JSON-RPC client and server, with params and results left as plain JSON.

Its usual converter makes a new type of each message, which costs as much again. Frames have headers (Content-Length).
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import anyio.lowlevel
from pygls.client import JsonRPCClient
from pygls.protocol import (
    JsonRPCNotification,
    JsonRPCProtocol,
    JsonRPCRequestMessage,
    JsonRPCResponseMessage,
    default_converter,
)
from pygls.server import JsonRPCServer

from ..drive import drive
from ..meter import only_child
from ..service import Service
from ..workload import Order
from .program import emit, run, server_command

__all__ = ("client", "serve")

logging.disable(logging.INFO)
#: Bytes that its reader takes for one message.
LIMIT = 1 << 26
#: ``notify`` waits for nothing; as any caller would, this one lets the loop write now and then.
YIELD_EVERY = 100


def _plain() -> Any:
    converter: Any = default_converter()
    for kind in (JsonRPCRequestMessage, JsonRPCResponseMessage, JsonRPCNotification):
        converter.register_structure_hook(kind, lambda value, kind: kind(**value))
    return converter


class _Caller:
    def __init__(self, client: Any) -> None:
        self.request = client.protocol.send_request_async
        self._notify = client.protocol.notify
        self._sent = 0

    async def notify(self, method: str, params: Any) -> None:
        self._notify(method, params)
        self._sent += 1
        if self._sent % YIELD_EVERY == 0:
            await anyio.lowlevel.checkpoint()


async def client(order: Order) -> dict[str, float]:
    """Measures over a child process."""
    caller = JsonRPCClient(JsonRPCProtocol, _plain)
    program, *arguments = server_command(__spec__.name, order)
    await caller.start_io(program, *arguments, limit=LIMIT)
    return await drive(_Caller(caller), order, *only_child())


def serve(order: Order) -> None:
    """The server, on standard input and output."""
    server = JsonRPCServer(JsonRPCProtocol, _plain)
    service = Service(order.gate)

    def echo(params: Any) -> Any:
        return params

    def count(params: Any) -> None:
        service.count(params)

    async def slow(params: Any) -> None:
        await service.slow(params)

    async def wait_count(params: Any) -> Any:
        return await service.wait_count(params)

    for feature in (echo, count, slow, wait_count):
        server.feature(feature.__name__)(feature)

    server.start_io()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(Order.read(sys.argv[2]))
    elif figures := run(client, Order.read(sys.argv[2])):
        emit(figures)
