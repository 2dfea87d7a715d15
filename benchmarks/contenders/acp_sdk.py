"""``agent-client-protocol``: its generic ``Connection`` over standard input and output, one JSON text a line."""

from __future__ import annotations

from typing import Any

from acp.connection import Connection
from acp.stdio import spawn_stdio_connection, stdio_streams

from ..drive import drive
from ..service import Service
from ..workload import Order
from .program import environment, main, server_command

__all__ = ("client", "serve")


class _Caller:
    def __init__(self, connection: Connection) -> None:
        self.request = connection.send_request
        self.notify = connection.send_notification


async def _nothing(method: str, params: Any, is_notification: bool) -> None:
    return None


async def client(order: Order) -> dict[str, float]:
    """Measures over a child process."""
    command = server_command(__spec__.name, order)
    async with spawn_stdio_connection(_nothing, *command, env=environment(), stderr=None) as (connection, process):
        return await drive(_Caller(connection), order, process.pid)


async def serve(order: Order) -> None:
    """The server, on standard input and output."""
    service = Service(order.gate)

    async def handle(method: str, params: Any, is_notification: bool) -> Any:
        if method == "echo":
            return params
        if method == "count":
            service.count(params)
        elif method == "slow":
            await service.slow(params)
        else:
            return await service.wait_count(params)
        return None

    reader, writer = await stdio_streams()
    await Connection(handle, writer, reader, listening=False).main_loop()


if __name__ == "__main__":
    main(client, serve)
