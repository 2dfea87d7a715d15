"""What the functions of an application are given."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import pytest

from mcpl_core import InvalidValueError, LocalProtocolError, UnencodableError
from mcpl_core.toolsets import InstanceContext, ToolsetContext, ToolsetServer
from tests.toolsets.toolset_kit import Counter, FakeClock, counter_toolset, hosted_set, served

pytestmark = pytest.mark.anyio


async def test_the_place_of_an_instance() -> None:
    contexts: list[InstanceContext] = []

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        contexts.append(ctx)
        return Counter(ctx)

    made = ToolsetServer(
        "s",
        "1",
        toolsets={"game": counter_toolset(instances=True, open=open), "lamp": counter_toolset("l_", open=open)},
        clock=FakeClock(),
    )
    async with served(made), hosted_set(made, "alice") as host:
        await host.join()
        await host.open("game")
        await host.open("lamp")
        game, lamp = contexts
        assert (game.principal, game.toolset, game.instance, lamp.instance) == ("alice", "game", "game-1", None)
        assert "game-1" in repr(game)
        ids = [game.event("a"), lamp.event("b"), game.event("c", toolset="lamp"), game.event(["d", "e"])]
        origins: list[Any] = []
        while len(host.pushed) < 4:
            origins.append((await host.next("push/event"))["params"]["origin"])
        assert host.pushed == ids
        assert origins == [{"toolset": "game", "instance": "game-1"}, {"toolset": "lamp"}, {"toolset": "lamp"},
                           {"toolset": "game", "instance": "game-1"}]  # fmt: skip
        with pytest.raises(InvalidValueError):
            game.event("x", tags=["plain"])
        with pytest.raises(InvalidValueError):
            game.event(3)
        with pytest.raises(UnencodableError):
            game.event({"type": "own", "value": float("nan")})
        failures: list[BaseException] = []

        def elsewhere() -> None:
            try:
                game.event("from nowhere")
            except LocalProtocolError as exc:
                failures.append(exc)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert len(failures) == 1


async def test_who_was_forgotten_is_told_nothing() -> None:
    contexts: list[InstanceContext] = []

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        contexts.append(ctx)
        return Counter(ctx)

    clock = FakeClock()
    made = ToolsetServer("s", "1", toolsets={"game": counter_toolset(instances=True, open=open)}, clock=clock)
    async with served(made):
        async with hosted_set(made) as host:
            await host.join()
            await host.open("game")
        clock.advance(10**6)
        await made.close_idle()
        assert contexts[0].event("to nobody")
        assert not await contexts[0].close()
        contexts[0].changed()
        assert made.principals == ()


def test_a_callback_of_the_application_may_use_it_whatever_it_runs_by() -> None:
    """In one under ``asyncio.run`` AnyIO begins no task by itself."""
    contexts: list[InstanceContext] = []

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        contexts.append(ctx)
        return Counter(ctx)

    async def main() -> None:
        made = ToolsetServer("s", "1", toolsets={"game": counter_toolset(open=open)}, clock=FakeClock())
        async with served(made), hosted_set(made) as host:
            await host.join()
            await host.open("game")
            (ctx,) = contexts
            begun = anyio.Event()

            async def begin() -> None:
                begun.set()

            asyncio.get_running_loop().call_soon(ctx.start_soon, begin)
            await begun.wait()

    asyncio.run(main())


async def test_the_context_of_a_call_is_one_of_the_server_runtime() -> None:
    seen: list[ToolsetContext] = []
    made = ToolsetServer("s", "1")

    @made.tool
    async def look(ctx: ToolsetContext) -> str:
        seen.append(ctx)
        await ctx.progress(1)
        return "seen"

    async with served(made), hosted_set(made, "alice") as host:
        await host.join()
        await host.tool("look", {}, _meta={"progressToken": 1})
        assert (await host.next("notifications/progress"))["params"]["progress"] == 1
    (ctx,) = seen
    assert (ctx.principal, ctx.mcpl, ctx.host["name"], ctx.ended) == ("alice", True, "raw", True)
