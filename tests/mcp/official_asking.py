"""The official SDK's server over HTTP with a tool that asks first. Prints its port; ends with its standard input."""

from __future__ import annotations

import os
import socket
import sys
import threading
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import InputRequiredResult, ListRootsRequest

server: MCPServer[Any] = MCPServer("asking", version="1.0", log_level="CRITICAL")


@server.tool()
async def places(ctx: Context[Any, Any]) -> Any:
    """Tells where the caller works, after asking for it."""
    answers = ctx.input_responses
    if not answers:
        return InputRequiredResult(input_requests={"where": ListRootsRequest()}, request_state="s1")
    return [str(root.uri) for root in answers["where"].roots]  # type: ignore[union-attr]


def end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)  # noqa: T201
    threading.Thread(target=end_with_input, daemon=True).start()
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
    uvicorn.Server(config).run(sockets=[listening])
