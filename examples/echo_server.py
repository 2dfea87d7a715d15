"""An MCPL server in one page, on the bare connection: one tool, and an event after each call.

python examples/echo_server.py                        speaks over its standard input and output
python examples/echo_server.py ws://127.0.0.1:8765    serves many hosts over WebSockets
"""

import sys
from datetime import UTC, datetime
from itertools import count
from typing import Any

import anyio

from mcpl_core import (
    GrantState,
    McplConnection,
    Notification,
    Request,
    Router,
    check_method,
    degradation_receipt,
    grant_from_update,
    method,
    with_revision,
)

FEATURE_SETS = {"echo.events": {"description": "Tells what was echoed", "uses": ["tools", "pushEvents"]}}
MANIFEST = with_revision({"version": "0.5", "pushEvents": True, "featureSets": FEATURE_SETS})
ECHO = {
    "name": "echo",
    "description": "Says it again",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


class EchoServer:
    """What one host is told and may ask for."""

    def __init__(self, conn: McplConnection) -> None:
        self.conn = conn
        self.grant = GrantState()
        self.numbers = count(1)

    def router(self) -> Router:
        """Everything that needs no waiting is answered as it is taken from the wire."""
        router = Router()
        router.add(method.INITIALIZE, self.initialize, inline=True)
        router.add(method.PING, lambda request: {}, inline=True)
        router.add(method.MCPL_MANIFEST, lambda request: MANIFEST, inline=True)
        router.add(method.FEATURE_SETS_UPDATE, self.update, inline=True)
        router.add(method.TOOLS_LIST, lambda request: {"tools": [ECHO]}, inline=True)
        router.add(method.TOOLS_CALL, self.call)
        return router

    def initialize(self, request: Request) -> dict[str, Any]:
        return {
            "protocolVersion": (request.params or {}).get("protocolVersion", "2025-11-25"),
            "capabilities": {"tools": {}, "experimental": {"mcpl": MANIFEST}},
            "serverInfo": {"name": "echo", "version": "1.0.0"},
        }

    def update(self, message: Request | Notification) -> dict[str, Any]:
        is_request = isinstance(message, Request)
        outcome = grant_from_update(self.grant, message.params, "request" if is_request else "notification")
        self.grant = outcome.state
        if outcome.malformed is not None:
            raise outcome.malformed.as_error()
        return degradation_receipt(FEATURE_SETS, self.grant).to_wire()

    async def call(self, request: Request) -> dict[str, Any]:
        if (denied := check_method(self.grant, ["tools"])) is not None:
            raise denied
        text = str((request.params or {}).get("arguments", {}).get("text", ""))
        if check_method(self.grant, ["pushEvents"]) is None:
            await self.conn.send_request(method.PUSH_EVENT, self.event(f"somebody said {text!r}"))
        return {"content": [{"type": "text", "text": text}]}

    def event(self, text: str) -> dict[str, Any]:
        return {
            "featureSet": "echo.events",
            "eventId": f"echo-{next(self.numbers)}",
            "timestamp": datetime.now(UTC).isoformat(),
            "tags": ["echo:said"],
            "payload": {"content": [{"type": "text", "text": text}]},
        }


async def serve(conn: McplConnection) -> None:
    async with conn:
        await conn.serve(EchoServer(conn).router())


async def main() -> None:
    if len(sys.argv) == 1:
        await serve(McplConnection.stdio())
        return
    async with McplConnection.listen(sys.argv[1]) as listener, anyio.create_task_group() as hosts:
        print(f"listening on {listener.endpoint}", file=sys.stderr, flush=True)
        async for conn in listener:
            hosts.start_soon(serve, conn)


if __name__ == "__main__":
    anyio.run(main)
