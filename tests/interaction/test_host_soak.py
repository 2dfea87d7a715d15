"""Two hundred servers in this process and twenty child processes under one host; some die, all are there again."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.errors import McplError
from mcpl_core.host import HostPolicy, HostSession, HostSettings, McplHost
from mcpl_core.server import Context, McplServer
from tests.interaction import hostile

pytestmark = pytest.mark.anyio

MEMORY, CHILDREN = 200, 20
HOOK = "contextHooks.beforeInference.inject.beforeUser"
POLICY = HostPolicy.allow("tools", "pushEvents", "inferenceLifecycle").also(HOOK, servers="m*")
SETTINGS = HostSettings(first_retry=0.0, longest_retry=0.05, changelog_delay=3600.0, close_timeout=3.0)


def build() -> McplServer:
    server = McplServer("many", "1.0.0")
    news = server.feature_set("many.news", "News", uses=["pushEvents", "tools"])
    mind = server.feature_set("many.mind", "Memories", uses=[HOOK])
    server.feature_set("many.life", "Turns", uses=["inferenceLifecycle"])

    @server.tool
    async def tell(ctx: Context, word: str) -> str:
        await ctx.push_event(news, word)
        return word

    @server.before_inference(mind)
    async def recall(ctx: Context, turn: Any) -> str:
        return "remembered"

    return server


class Many:
    """The servers of this process."""

    def __init__(self, tasks: Any) -> None:
        self._tasks = tasks
        self._server = build()
        self.ends: dict[str, McplConnection] = {}

    def endpoint(self, name: str) -> Any:
        def make() -> McplConnection:
            ours, theirs = McplConnection.memory_pair()
            self.ends[name] = theirs
            self._tasks.start_soon(self._serve, theirs)
            return ours

        return make

    async def _serve(self, connection: McplConnection) -> None:
        async with connection:
            await self._server.serve(connection)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def each(names: list[str], call: Any) -> Counter[str]:
    """What became of the same call at many servers at once."""
    outcomes: Counter[str] = Counter()

    async def one(name: str) -> None:
        try:
            await call(name)
            outcomes["served"] += 1
        except McplError as exc:
            outcomes[type(exc).__name__] += 1

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(one, name)
    return outcomes


async def live(host: McplHost, many: Many) -> set[int]:
    """The life of the host; every child process there was."""
    memory = [f"m{number}" for number in range(MEMORY)]
    children = [f"c{number}" for number in range(CHILDREN)]

    def pids() -> set[int]:
        return {getattr(host[name].session.connection.transport, "pid", 0) for name in children}

    async def add(name: str) -> None:
        # Every second child dies when it is asked for something.
        scenario = "dying" if int(name[1:]) % 2 else "willing"
        command = [sys.executable, "-S", str(Path(hostile.__file__)), scenario]
        await host.add(name, many.endpoint(name) if name in memory else command)

    assert await each(memory + children, add) == {"served": MEMORY + CHILDREN}
    seen = pids()
    assert len(seen) == CHILDREN

    told = await each(memory, lambda name: host[name].call_tool("tell", {"word": name}))
    assert told == {"served": MEMORY}
    events = [await anext(host.events()) for _ in range(MEMORY)]
    assert {event.server for event in events} == set(memory)

    asked = await each(children, lambda name: host[name].call_tool("report"))
    assert asked == {"served": CHILDREN // 2, "ConnectionClosedError": CHILDREN // 2}
    for name in memory[::7]:
        await many.ends[name].aclose()

    # All come back, and nobody's call was held up by those who went.
    for name in memory + children:
        while host[name].state != "ready" or host[name].link.connection.is_closed:
            await host[name].wait("connecting", "waiting")
            await host[name].wait("ready")
    again = await each(memory, lambda name: host[name].call_tool("tell", {"word": f"again {name}"}))
    assert again == {"served": MEMORY}

    async with host.inference(conversation_id="c") as inference:
        injections = await inference.before("hello", timeout=20.0)
    assert [item.server for item in injections.items] == [name for name in host.servers if name in memory]
    assert len(injections.items) == MEMORY
    return seen | pids()


async def test_many_servers_of_which_some_die() -> None:
    # What the event loop opens with its first child process stays.
    await anyio.run_process([sys.executable, "-S", "-c", ""])
    before = descriptors()
    # A test that failed before keeps its sessions for its report.
    others = [kept for kept in gc.get_objects() if isinstance(kept, HostSession)]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            async with McplHost("h", "1", policy=POLICY, settings=SETTINGS) as host:
                pids = await live(host, Many(tasks))
            assert {server.state for server in host.servers.values()} == {"closed"}
            del host
            tasks.cancel_scope.cancel()
    assert [pid for pid in pids if alive(pid)] == []
    gc.collect()
    assert [kept for kept in gc.get_objects() if isinstance(kept, HostSession) and kept not in others] == []
    assert descriptors() <= before
