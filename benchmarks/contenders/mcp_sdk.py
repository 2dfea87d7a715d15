"""The official MCP SDK for Python (``mcp``).

Styles: ``session`` (a request of our own through ``ClientSession`` and the low-level server) and ``tool``
(``call_tool`` to a server's tool with typed arguments).
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from pydantic import ConfigDict

from ..drive import drive
from ..meter import only_child
from ..service import Service
from ..workload import Order
from .program import environment, main, server_command

__all__ = ("client", "serve", "tool_server")

logging.disable(logging.INFO)


class _Params(types.RequestParams):
    model_config = ConfigDict(extra="allow")


class _NoteParams(types.NotificationParams):
    model_config = ConfigDict(extra="allow")


class _Request(types.Request[_Params, str]):
    pass


class _Note(types.Notification[_NoteParams, str]):
    pass


class _Result(types.Result):
    model_config = ConfigDict(extra="allow")


class _SessionCaller:
    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def request(self, method: str, params: Any) -> Any:
        request = _Request(method=f"bench/{method}", params=_Params(**params))
        result = await self._session.send_request(request, _Result)
        return result.model_extra

    async def notify(self, method: str, params: Any) -> None:
        note = _Note(method=f"bench/{method}", params=_NoteParams(**params))
        await self._session.send_notification(note)  # type: ignore[arg-type]


class ToolCaller:
    """Calls the tool ``echo``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def request(self, method: str, params: Any) -> Any:
        """The structured content of the tool's result."""
        return (await self._client.call_tool(method, params)).structured_content

    async def notify(self, method: str, params: Any) -> None:
        """There are only tools."""
        raise NotImplementedError


async def client(order: Order) -> dict[str, float]:
    """Measures over a child process, or (tools) with both sides in this one."""
    if order.link == "memory":
        async with Client(tool_server()) as caller:
            return await drive(ToolCaller(caller), order)
    program, *arguments = server_command(__spec__.name, order)
    parameters = StdioServerParameters(command=program, args=arguments, env=environment())
    if order.style == "tool":
        async with Client(parameters) as caller:
            return await drive(ToolCaller(caller), order, *only_child())
    async with stdio_client(parameters, errlog=sys.stderr) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        return await drive(_SessionCaller(session), order, *only_child())


async def serve(order: Order) -> None:
    """The server, on standard input and output."""
    if order.style == "tool":
        await tool_server().run_stdio_async()
        return
    server = _session_server(Service(order.gate))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def tool_server() -> MCPServer:
    """A server with the one tool."""
    server = MCPServer("bench", log_level="ERROR")

    @server.tool(structured_output=True)
    async def echo(sessionId: str, channel: str, seq: int, text: str) -> dict[str, Any]:
        return {"sessionId": sessionId, "channel": channel, "seq": seq, "text": text}

    return server


def _session_server(service: Service) -> Server[Any]:
    server: Server[Any] = Server("bench")

    async def echo(ctx: Any, params: Any) -> Any:
        return params.model_extra

    async def count(ctx: Any, params: Any) -> None:
        service.count(params.model_extra)

    async def slow(ctx: Any, params: Any) -> None:
        await service.slow(params.model_extra)

    async def wait_count(ctx: Any, params: Any) -> Any:
        return await service.wait_count(params.model_extra)

    server.add_request_handler("bench/echo", _Params, echo)
    server.add_request_handler("bench/wait_count", _Params, wait_count)
    server.add_notification_handler("bench/count", _NoteParams, count)
    server.add_notification_handler("bench/slow", _NoteParams, slow)
    return server


if __name__ == "__main__":
    main(client, serve)
