"""A server with toolsets, hosts made of bytes around it, and a clock that a test sets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from mcpl_core import McplConnection
from mcpl_core.toolsets import InstanceContext, Toolset, ToolsetServer
from tests.server.raw_host import Json, Lines, RawHost, memory_byte_streams

__all__ = ("ALL", "Counter", "FakeClock", "SetHost", "counter_toolset", "hosted_set", "quiet", "served", "text_of")

ALL = ("tools", "pushEvents")


async def quiet() -> None:
    """Returns when nothing moves any more."""
    for _ in range(2):
        for _ in range(20):
            await checkpoint()
        await anyio.wait_all_tasks_blocked()


class FakeClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now
        self._moved = anyio.Event()

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        due = self.now + seconds
        while self.now < due:
            await self._moved.wait()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        moved, self._moved = self._moved, anyio.Event()
        moved.set()


class Counter:
    """An instance that counts: ``up`` always, ``down`` above zero, and what tests need besides."""

    def __init__(self, ctx: InstanceContext, start: int = 0, title: str = "Counter") -> None:
        self.ctx = ctx
        self.count = start
        self.title = title
        self.closed = False

    def visible(self) -> list[str]:
        return ["up", "down"] if self.count > 0 else ["up"]

    def content(self) -> str:
        return f"The count is {self.count}."

    async def call(self, tool: str, args: dict[str, Any]) -> Any:
        count = self.count + (args["by"] if tool == "up" else -args["by"])
        if count > 100:
            raise ValueError("too much")
        self.count = count
        return f"{self.count}"

    async def close(self) -> None:
        self.closed = True

    def dump(self) -> str:
        return json.dumps([self.count, self.title])

    @classmethod
    def load(cls, ctx: InstanceContext, text: str) -> Counter:
        count, title = json.loads(text)
        return cls(ctx, count, title)


BY = {"type": "object", "properties": {"by": {"type": "integer", "minimum": 1, "default": 1}}}


def counter_toolset(prefix: str = "", **facts: Any) -> Toolset:
    """A toolset of counters. Its tools begin with ``prefix``; ``opened`` has the instances, in order."""

    class Prefixed(Counter):
        def visible(self) -> list[str]:
            return [prefix + name for name in super().visible()]

        async def call(self, tool: str, args: dict[str, Any]) -> Any:
            return await super().call(tool.removeprefix(prefix), args)

    async def open(ctx: InstanceContext, options: dict[str, Any]) -> Counter:
        return Prefixed(ctx, **options)

    options = {
        "type": "object",
        "properties": {"start": {"type": "integer", "default": 0}, "title": {"type": "string"}},
        "additionalProperties": False,
    }
    given: dict[str, Any] = {
        "title": "Counters",
        "summary": "Count up and down",
        "tools": [{"name": prefix + "up", "inputSchema": BY}, {"name": prefix + "down", "inputSchema": BY}],
        "open": open,
        "options": options,
        "load": Prefixed.load,
        **facts,
    }
    return Toolset(**given)


def text_of(result: Json) -> str:
    """The text of a tool result."""
    return "\n".join(block["text"] for block in result["content"])


class SetHost(RawHost):
    """A raw host that knows toolsets."""

    def __init__(self, wire: Any) -> None:
        super().__init__(wire)
        #: Every change of presence, in the order of the wire.
        self.hints: list[Json] = []
        #: The ids of pushed events, in order.
        self.pushed: list[str] = []
        #: Answer events at once.
        self.answers_events = True

    async def _read(self) -> None:
        await super()._read()
        message = self.all[-1]
        result, params = message.get("result"), message.get("params") or {}
        if isinstance(result, dict):
            self.hints += (result.get("_meta") or {}).get("mcpl/hints", [])
        if message.get("method") in ("push/event", "toolsets/changed"):
            self.hints += params.get("hints", [])
        if message.get("method") == "push/event":
            self.pushed.append(params["eventId"])
            if self.answers_events:
                await self.reply(message, {"accepted": True})

    async def hello(self, *, toolsets: bool = True, mcpl: bool = True) -> Json:
        experimental = {"mcpl": {"version": "0.5", "toolsets": toolsets}} if mcpl else {}
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"experimental": experimental},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        result: Json = await self.result("initialize", params)
        await self.notify("notifications/initialized")
        return result

    async def join(self, *paths: str, **more: Any) -> Json:
        """Handshake, policy and first list of toolsets, as a host with hints does it."""
        await self.hello()
        await self.grant(*(paths or ALL), **more)
        result: Json = await self.result("toolsets/list", {})
        return result

    async def open(self, toolset: str, **more: Any) -> Json:
        result: Json = await self.result("toolsets/open", {"toolset": toolset, **more})
        return result

    async def close(self, toolset: str, instance: str | None = None) -> bool:
        params = {"toolset": toolset} | ({} if instance is None else {"instance": instance})
        closed: bool = (await self.result("toolsets/close", params))["closed"]
        return closed

    async def list(self) -> Json:
        result: Json = await self.result("toolsets/list", {})
        return result

    async def call(self, name: str, instance: str | None = None, **arguments: Any) -> Json:
        meta = {} if instance is None else {"_meta": {"mcpl/instance": instance}}
        return await self.tool(name, arguments, **meta)


@asynccontextmanager
async def hosted_set(server: ToolsetServer, principal: str = "local", **options: Any) -> AsyncIterator[SetHost]:
    """A host at the other end of a served connection; the server runs (``served``)."""
    ours, theirs = memory_byte_streams()
    async with anyio.create_task_group() as tasks:
        ended = anyio.Event()

        async def serve() -> None:
            try:
                async with theirs, McplConnection.from_streams(theirs, **options) as connection:
                    await server.serve(connection, principal)
            finally:
                ended.set()

        tasks.start_soon(serve)
        try:
            yield SetHost(Lines(ours))
        finally:
            await ours.aclose()
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await ended.wait()
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def served(server: ToolsetServer, seconds: float = 10) -> AsyncIterator[ToolsetServer]:
    """The server runs; the whole must be over within some seconds."""
    with anyio.fail_after(seconds):
        async with server:
            yield server
