"""Tool calls end to end: ``McplServer`` on one side, ``connect_server`` on the other, with a grant, typed arguments, a
checked result and the host's records. The tool is the same as that of ``mcp_sdk``.
"""

from __future__ import annotations

from typing import Any

import anyio

from mcpl_core import McplConnection
from mcpl_core.host import HostPolicy, HostSession, connect_server
from mcpl_core.server import Context, McplServer

from ..drive import drive
from ..meter import only_child
from ..workload import Order
from .program import HOST, main, say_url, server_command, websocket_server

__all__ = ("POLICY", "ToolCaller", "client", "serve", "tool_server")

POLICY = HostPolicy.allow("tools")


def tool_server() -> McplServer:
    """A server with the one tool."""
    server = McplServer("bench", "1.0.0")

    @server.tool
    async def echo(ctx: Context, sessionId: str, channel: str, seq: int, text: str) -> dict[str, Any]:
        return {"sessionId": sessionId, "channel": channel, "seq": seq, "text": text}

    return server


class ToolCaller:
    """Calls the tool ``echo``.

    Args:
        session: the host's side.
    """

    def __init__(self, session: HostSession) -> None:
        self._call = session.call_tool

    async def request(self, method: str, params: Any) -> Any:
        """The structured content of the tool's result."""
        return (await self._call(method, params)).structured_content

    async def notify(self, method: str, params: Any) -> None:
        """There are only tools."""
        raise NotImplementedError


async def client(order: Order) -> dict[str, float]:
    """Measures over a child process, a WebSocket, or a pair in memory."""
    if order.link == "memory":
        left, right = McplConnection.memory_pair()
        async with right, anyio.create_task_group() as tasks:
            tasks.start_soon(tool_server().serve, right)
            async with connect_server(left, policy=POLICY) as session:
                return await drive(ToolCaller(session), order)
    if order.link == "ws":
        async with (
            websocket_server(__spec__.name, order) as (url, pid),
            connect_server(url, policy=POLICY) as session,
        ):
            return await drive(ToolCaller(session), order, pid)
    async with connect_server(server_command(__spec__.name, order), policy=POLICY) as session:
        return await drive(ToolCaller(session), order, *only_child())


async def serve(order: Order) -> None:
    """The server: on standard input and output, or on a port."""
    server = tool_server()
    if order.link == "stdio":
        await server.serve_stdio()
        return
    async with anyio.create_task_group() as tasks:
        say_url(await tasks.start(server.listen, f"ws://{HOST}:0"))


if __name__ == "__main__":
    main(client, serve)
