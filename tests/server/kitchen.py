"""A server with something of everything, for tests over every transport.

python tests/server/kitchen.py    speaks over its standard input and output
"""

from __future__ import annotations

import threading
from typing import Any

import anyio

from mcpl_core.protocol import ChannelsPublishParams, ChannelsPublishResult
from mcpl_core.server import Context, McplServer, Settings, ToolError

__all__ = ("BEFORE", "build")

BEFORE = "contextHooks.beforeInference.inject.beforeUser"


def build() -> McplServer:
    """A new one."""
    server = McplServer("kitchen", "1.0", settings=Settings(grace=1.0, first_retry=0.05, event_timeout=0.5))
    cook = server.feature_set("kitchen.cook", "Cooks", uses=["tools", "pushEvents"])
    serve = server.feature_set("kitchen.serve", "Serves", uses=[BEFORE])
    _add_tools(server)

    @server.tool
    async def push(ctx: Context, text: str) -> bool:
        """Tells the host, and whether it took it."""
        return (await ctx.push_event(cook, text, tags=["kitchen:done"])).accepted

    @server.tool
    async def grow(ctx: Context) -> None:
        """Gets one more tool."""
        server.tool(name=f"grown-{len(server._offer.tools)}")(lambda: "grown")
        with server.edit_manifest() as manifest:
            manifest["modelInfo"] = True

    @server.before_inference(serve)
    async def inject(ctx: Context, turn: Any) -> str:
        return f"turn {turn.turn_index}"

    @server.handler("channels/publish")
    async def publish(ctx: Context, params: ChannelsPublishParams) -> ChannelsPublishResult:
        return ChannelsPublishResult(delivered=True, message_id=params.text)

    @server.handler("kitchen/later")
    async def later(ctx: Context, params: Any) -> dict[str, str]:
        return {"eventId": await server.push_event(cook, "from the outbox")}

    return server


def _add_tools(server: McplServer) -> None:
    @server.tool
    async def add(a: int, b: int = 1) -> int:
        """Adds two numbers."""
        return a + b

    @server.tool
    async def wait() -> str:
        """Waits for ever."""
        await anyio.sleep_forever()
        return "never"

    @server.tool
    async def soon() -> str:
        """Waits a little while other things happen."""
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        return "done"

    @server.tool
    def thread() -> str:
        """Says whether it runs beside the event loop."""
        print("this must not reach the protocol")  # noqa: T201
        return "beside" if threading.current_thread() is not threading.main_thread() else "inside"

    @server.tool
    async def fail() -> None:
        """Fails."""
        raise ToolError("no luck")

    @server.tool
    async def big(size: int) -> str:
        """Says much."""
        return "x" * size


if __name__ == "__main__":
    anyio.run(build().serve_stdio)
