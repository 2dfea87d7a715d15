"""Hosts without hints get every function."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.toolsets import ToolsetServer
from tests.toolsets.toolset_kit import Counter, FakeClock, counter_toolset, hosted_set, served, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R-toolsets-6")]


def server(**toolsets: Any) -> ToolsetServer:
    declared = toolsets or {"game": counter_toolset(instances=True), "lamp": counter_toolset("lamp_")}
    return ToolsetServer("s", "1", toolsets=declared, clock=FakeClock())


@pytest.mark.parametrize("mcpl", [False, True])
async def test_a_game_from_its_beginning_to_its_end(mcpl: bool) -> None:
    made = server()
    async with served(made), hosted_set(made) as host:
        await host.hello(mcpl=mcpl, toolsets=False)
        if mcpl:
            await host.grant("tools")
        listed = (await host.result("tools/list"))["tools"]
        names = [tool["name"] for tool in listed]
        assert names == ["up", "down", "lamp_up", "lamp_down", "toolset_open", "toolset_close", "toolset_use"]
        assert listed[-1]["_meta"]["mcpl/presence"] == {"kind": "static", "visible": True}
        closed = await host.tool("up")
        assert closed["isError"]
        opened = await host.tool("toolset_open", {"toolset": "game", "options": {"start": 1, "title": "A"}})
        assert [block["text"] for block in opened["content"]] == [
            "The count is 1.",
            "game-1: Tools that can be called now: up, down.",
        ]
        assert text_of(await host.tool("up")) == "2"
        await host.tool("toolset_open", {"toolset": "game", "options": {"title": "B"}})
        several = await host.tool("up")
        assert several["isError"] and "game-1 (A)" in text_of(several)
        used = await host.tool("toolset_use", {"toolset": "game", "instance": "game-2"})
        assert text_of(used) == "The count is 0.\ngame-2: Tools that can be called now: up."
        assert text_of(await host.tool("up")) == "1"
        assert text_of(await host.call("up", "game-1")) == "3"
        gone = await host.tool("toolset_close", {"toolset": "game"})
        assert text_of(gone) == "game-2 is closed.\ngame: Tools that can be called now: up, down."
        assert text_of(await host.tool("up")) == "4"
        assert "is closed" in text_of(await host.tool("toolset_close", {"toolset": "game", "instance": "game-1"}))
        assert (await host.tool("toolset_close", {"toolset": "game"}))["isError"]
        assert text_of(await host.tool("toolset_open", {"toolset": "lamp"})).endswith("called now: lamp_up.")
        assert text_of(await host.tool("toolset_close", {"toolset": "lamp"})).startswith("lamp is closed.")
        # The list is the one that it was.
        assert [tool["name"] for tool in (await host.result("tools/list"))["tools"]] == names
        assert not host.hints and not host.heard


async def test_what_is_wrong_is_an_error_that_the_model_reads() -> None:
    made = server()
    async with served(made), hosted_set(made) as host:
        await host.hello(mcpl=False)
        await host.tool("toolset_open", {"toolset": "game"})
        cases: list[tuple[str, Any, str]] = [
            ("toolset_open", {}, "$"),
            ("toolset_open", {"toolset": "none"}, "$.toolset"),
            ("toolset_open", {"toolset": "game", "options": {"start": "x"}}, "$.options.start"),
            ("toolset_open", {"toolset": "game", "more": 1}, "$"),
            ("toolset_close", {"toolset": "game", "instance": "none"}, "game-1"),
            ("toolset_use", {"toolset": "game", "instance": "none"}, "game-1"),
            ("toolset_use", {"toolset": "lamp", "instance": "none"}, "$.toolset"),
            ("toolset_close", {"toolset": "lamp"}, "closed"),
            ("toolset_close", {"toolset": "lamp", "instance": "x"}, "closed"),
        ]
        for name, arguments, word in cases:
            result = await host.tool(name, arguments)
            assert (name, result["isError"], word in text_of(result)) == (name, True, True)


async def test_a_function_that_fails_is_one_too() -> None:
    async def open(ctx: Any, options: Any) -> Counter:
        raise RuntimeError("secret")

    made = server(game=counter_toolset(instances=True, open=open))
    async with served(made), hosted_set(made) as host:
        await host.hello(mcpl=False)
        result = await host.tool("toolset_open", {"toolset": "game"})
        assert result["isError"] and "secret" not in text_of(result)


async def test_without_instances_there_is_nothing_to_choose() -> None:
    made = server(lamp=counter_toolset())
    async with served(made), hosted_set(made) as host:
        await host.hello(mcpl=False)
        names = [tool["name"] for tool in (await host.result("tools/list"))["tools"]]
        assert names == ["up", "down", "toolset_open", "toolset_close"]
        assert (await host.error("tools/call", {"name": "toolset_use"}))["code"] == -32602
