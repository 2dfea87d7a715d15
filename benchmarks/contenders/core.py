"""``mcpl_core`` itself: two connections, with all its limits, checks and timeouts at their defaults.

Styles: ``pull`` (``async for message in connection``), ``router`` (``serve`` with handlers) and ``inline`` (handlers
that are called as their message is taken from the wire).
"""

from __future__ import annotations

import anyio

from mcpl_core import McplConnection, Request, Router
from mcpl_core.transports.subprocess import SubprocessTransport

from ..drive import drive
from ..service import Service
from ..workload import Order
from .program import HOST, main, say_url, server_command, websocket_server

__all__ = ("LIMIT", "ConnectionCaller", "client", "serve", "serve_connection")

#: Above the largest message of the scenarios.
LIMIT = 1 << 26


async def client(order: Order) -> dict[str, float]:
    """Measures over a child process, a WebSocket, or a pair in memory."""
    if order.link == "memory":
        return await _memory(order)
    if order.link == "ws":
        async with websocket_server(__spec__.name, order) as (url, pid):
            async with McplConnection.connect(url, max_message_bytes=LIMIT) as connection:
                return await drive(ConnectionCaller(connection), order, pid)
    command = server_command(__spec__.name, order)
    async with McplConnection.spawn(command, max_message_bytes=LIMIT) as connection:
        assert isinstance(connection.transport, SubprocessTransport)
        assert connection.transport.pid is not None
        return await drive(ConnectionCaller(connection), order, connection.transport.pid)


async def _memory(order: Order) -> dict[str, float]:
    left, right = McplConnection.memory_pair(max_message_bytes=LIMIT)
    async with left, right, anyio.create_task_group() as tasks:
        tasks.start_soon(serve_connection, right, order)
        figures = await drive(ConnectionCaller(left), order)
        tasks.cancel_scope.cancel()
    return figures


class ConnectionCaller:
    """The client side of a connection."""

    def __init__(self, connection: McplConnection) -> None:
        self.request = connection.send_request
        self.notify = connection.send_notification


async def serve(order: Order) -> None:
    """The server: on standard input and output, or on a port."""
    if order.link == "stdio":
        async with McplConnection.stdio(max_message_bytes=LIMIT) as connection:
            await serve_connection(connection, order)
        return
    async with McplConnection.listen(f"ws://{HOST}:0", max_message_bytes=LIMIT) as listener:
        say_url(listener.endpoint)
        async for connection in listener:
            async with connection:
                await serve_connection(connection, order)


async def serve_connection(connection: McplConnection, order: Order) -> None:
    """Answers one client, in the style of the order."""
    service = Service(order.gate)
    if order.style == "pull":
        await _pull(connection, service)
    else:
        await connection.serve(_router(service, inline=order.style == "inline"))


async def _pull(connection: McplConnection, service: Service) -> None:
    async for message in connection:
        method = message.method
        if isinstance(message, Request):
            if method == "echo":
                await connection.send_response(message.id, message.params)
            else:
                await connection.send_response(message.id, await service.wait_count(message.params))
        elif method == "count":
            service.count(message.params)
        else:
            await service.slow(message.params)


def _router(service: Service, *, inline: bool) -> Router:
    router = Router()
    router.add("echo", lambda message: message.params, inline=inline)
    router.add("count", lambda message: service.count(message.params), inline=inline)
    router.add("slow", lambda message: service.slow(message.params), ordered=True)
    router.add("wait_count", lambda message: service.wait_count(message.params))
    return router


if __name__ == "__main__":
    main(client, serve)
