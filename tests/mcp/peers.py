"""An MCP server made of plain functions, at the other end of connections in memory; for tests of clients.

Each time that the client connects it gets a new connection, which the test can look at and break.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup

from mcpl_core import McplConnection, Notification, Request, RpcError
from mcpl_core.dispatch import Router

__all__ = ("ECHO", "LIMIT", "FakeServer", "served", "text")

Json = dict[str, Any]

#: Seconds after which a test that waits has failed.
LIMIT = 20.0

ECHO: Json = {"name": "echo", "description": "Says it again", "inputSchema": {"type": "object"}}


def text(*words: str, **more: Any) -> Json:
    """A result of text blocks."""
    return {"content": [{"type": "text", "text": word} for word in words], **more}


class FakeServer:
    """See the module.

    Args:
        tools: one page of them, or a function from cursor to page.
        call: takes the params of a ``tools/call``, returns a result, sync or async; it may raise an ``RpcError``.
        initialize: members of the answer to ``initialize`` that are different.

    Attributes:
        connections: the server's ends, oldest first.
        heard: every request and notification, in order.
    """

    def __init__(
        self,
        tools: list[Any] | Callable[[str | None], Any] = [ECHO],  # noqa: B006 - never changed
        call: Callable[[Json], Any] = lambda params: text(str(params["arguments"])),
        **initialize: Any,
    ) -> None:
        self.tools = tools
        self.call = call
        self.initialize = initialize
        self.connections: list[McplConnection] = []
        self.heard: list[Json] = []
        self.refusing: BaseException | None = None
        self._tasks: TaskGroup | None = None
        self._arrived = anyio.Event()

    def connect(self) -> McplConnection:
        """The client's end of a new connection."""
        if self.refusing is not None:
            raise self.refusing
        ours, theirs = McplConnection.memory_pair()
        self.begin(ours)
        return theirs

    def begin(self, connection: McplConnection) -> None:
        """Serves a connection in a task of its own."""
        assert self._tasks is not None
        self._tasks.start_soon(self.serve, connection)

    async def serve(self, connection: McplConnection) -> None:
        """Serves a connection, not entered yet."""
        async with connection:
            self.connections.append(connection)
            connection.on_message(self._hear)
            await connection.serve(Router(self.routes()), grace=0.0)

    def routes(self) -> dict[str, Callable[[Request], Any]]:
        """What it answers."""
        return {
            "initialize": self._initialize,
            "tools/list": self._list,
            "tools/call": self._call,
            "resources/list": lambda request: {"resources": [], "asked": request.params},
        }

    def _hear(self, message: Request | Notification) -> None:
        self.heard.append({"method": message.method, "params": message.params, "id": getattr(message, "id", None)})
        arrived, self._arrived = self._arrived, anyio.Event()
        arrived.set()

    async def next(self, method: str, number: int = 1) -> Json:
        """The message of this method that came as number ``number``."""
        while len(self.of(method)) < number:
            await self._arrived.wait()
        return self.of(method)[number - 1]

    def of(self, method: str) -> list[Json]:
        """What came of a method until now."""
        return [each for each in self.heard if each["method"] == method]

    def _initialize(self, request: Request) -> Json:
        return {
            "protocolVersion": request.params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
            **self.initialize,
        }

    async def _list(self, request: Request) -> Any:
        if isinstance(self.tools, list):
            return {"tools": self.tools}
        page = self.tools((request.params or {}).get("cursor"))
        return await page if hasattr(page, "__await__") else page

    async def _call(self, request: Request) -> Any:
        result = self.call(request.params)
        return await result if hasattr(result, "__await__") else result

    async def kill(self, connection: McplConnection | None = None) -> None:
        """Ends a connection, the newest one, from the server's side."""
        await (self.connections[-1] if connection is None else connection).aclose()


def refuse(code: int, message: str = "no", data: Any = None) -> Callable[[Json], Any]:
    """A call that is answered with an error."""

    def call(params: Json) -> Any:
        raise RpcError(code, message, data)

    return call


@asynccontextmanager
async def served(server: FakeServer) -> AsyncIterator[FakeServer]:
    """Serves for the time of the block, which may not take forever."""
    failure: Exception | None = None
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            server._tasks = tasks
            try:
                yield server
            except Exception as exc:
                # Raised again outside the group, which would wrap it.
                failure = exc
            finally:
                tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
