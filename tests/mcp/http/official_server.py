"""The official SDK's server over HTTP, in a process of its own. Prints its port; ends with its standard input."""

import asyncio
import socket
import sys
import threading
from typing import Annotated, Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import BaseModel

server: MCPServer[Any] = MCPServer("official", version="1.0", log_level="CRITICAL")
cancelled = 0


@server.tool()
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
async def steps(ctx: Context[Any, Any]) -> str:
    """Reports progress."""
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3, f"step {step}")
    return "done"


@server.tool()
async def hang() -> str:
    """Never answers."""
    global cancelled
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        cancelled += 1
        raise
    return "never"


@server.tool()
async def count_cancelled() -> int:
    """How many calls of ``hang`` were cancelled."""
    return cancelled


@server.tool()
async def fail() -> str:
    """Fails."""
    raise ValueError("no luck")


class Answer(BaseModel):
    """What a person says."""

    yes: bool


async def question() -> Elicit[Answer]:
    """Asks a person."""
    return Elicit("really?", Answer)


@server.tool()
async def ask(answer: Annotated[Answer, Resolve(question)]) -> bool:
    """Asks first."""
    return answer.yes


class Announcing(uvicorn.Server):
    """Says where it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)  # noqa: T201


async def main() -> None:
    app = server.streamable_http_app()
    runner = Announcing(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="on"))
    loop = asyncio.get_running_loop()

    def wait_for_end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(setattr, runner, "should_exit", True)

    threading.Thread(target=wait_for_end, daemon=True).start()
    await runner.serve()


asyncio.run(main())
