"""The official SDK's server over standard input and output, in a process of its own."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

server: MCPServer[Any] = MCPServer("official", version="1.0", instructions="Be kind.", log_level="CRITICAL")
cancelled = asyncio.Event()


class Sum(BaseModel):
    """A result with a schema."""

    sum: int


@server.tool()
async def add(a: int, b: int) -> Sum:
    """Adds."""
    return Sum(sum=a + b)


@server.tool()
async def surroundings() -> dict[str, Any]:
    """Where this process lives."""
    return {"cwd": os.getcwd(), "names": sorted(os.environ)}


@server.tool()
async def steps(ctx: Context[Any, Any]) -> str:
    """Reports progress."""
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3, f"step {step}")
    return "done"


@server.tool()
async def hang() -> str:
    """Never answers."""
    try:
        await asyncio.Event().wait()
    finally:
        cancelled.set()
    return "never"


@server.tool()
async def was_cancelled() -> bool:
    """Returns once a call of ``hang`` was cancelled."""
    await cancelled.wait()
    return True


@server.tool()
async def fail() -> str:
    """Fails."""
    raise ValueError("no luck")


@server.tool()
async def die() -> str:
    """Ends the process in the middle of the call."""
    os._exit(3)


if __name__ == "__main__":
    server.run("stdio")
