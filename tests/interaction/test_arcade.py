"""The arcade as a process, played to the end of a game by hosts that know toolsets and by hosts that do not."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.host import HostHandlers, HostPolicy, McplHost, PushEvent
from mcpl_core.toolsets.host import HostToolsets

mcp = pytest.importorskip("mcp")
stdio = pytest.importorskip("mcp.client.stdio")

pytestmark = pytest.mark.anyio

ARCADE = [sys.executable, str(Path(__file__).resolve().parent.parent.parent / "examples" / "arcade.py")]
POLICY = HostPolicy.allow("tools", "pushEvents")
OVER = re.compile(r"^(You won|The bot won.*|Nobody won)\.$", re.MULTILINE)
#: Seconds that the bot thinks where it moves late.
THINKING = 0.01


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: Any) -> Any:
    """Processes take their time to start: two loops are enough here."""
    return request.param


def free(text: str) -> list[int]:
    """The free cells of the last board in a text."""
    board = "".join(line for line in text.splitlines()[-6:] if "|" in line)
    return [int(cell) for cell in re.findall(r"\d", board)]


async def play(text: str, place: Callable[[int], Awaitable[str]]) -> list[str]:
    """Plays the first free cell until somebody won; all that was seen. ``place`` returns when it is our turn again."""
    seen = [text]
    while not OVER.search(seen[-1]):
        seen.append(await place(free(seen[-1])[0]))
        assert len(seen) < 10
    return seen


@asynccontextmanager
async def hosting(*extensions: HostToolsets) -> AsyncIterator[McplHost]:
    with anyio.fail_after(20):
        handlers = HostHandlers(extensions=extensions)
        async with McplHost("player", "1", policy=POLICY, handlers=handlers) as host:
            await host.add("arcade", ARCADE)
            yield host


async def told(host: McplHost) -> str:
    """The next event of the arcade."""
    async for event in host.events():
        if isinstance(event, PushEvent):
            assert event.tags == ("game:move",)
            return event.text
    raise AssertionError


async def test_a_host_with_hints_plays_to_the_end() -> None:
    ended: list[str] = []
    toolsets = HostToolsets(on_ended=lambda server, record: ended.append(record.instance))
    async with hosting(toolsets) as host:
        arcade = toolsets["arcade"]
        known = await arcade.listed()
        assert (known["tictactoe"].open, known["tictactoe"].tools) == (False, ("place", "resign", "again"))
        assert [tool.name for tool in await host.tools()] == ["arcade__scores"]

        game = await arcade.open("tictactoe", {"thinking": THINKING})
        other = await arcade.open("tictactoe", {"mark": "O"})
        assert game.instance is not None and other.instance is not None
        assert [tool.name for tool in await toolsets.visible_tools(host)] == ["arcade__place", "arcade__resign"]

        def visible() -> tuple[str, ...]:
            return arcade.toolsets["tictactoe"].open_instances[str(game.instance)].visible

        async def place(cell: int) -> str:
            result = await arcade.call("place", {"cell": cell}, instance=str(game.instance))
            if OVER.search(result.text):
                return result.text
            # The bot moves when nobody waits for it.
            text = await told(host)
            assert visible() == (("again",) if OVER.search(text) else ("place", "resign"))
            return text

        seen = await play(game.text, place)
        assert visible() == ("again",)
        assert "X" not in other.text.splitlines()[0]
        wrong = await arcade.call("place", {"cell": 1})
        assert wrong.is_error
        assert str(other.instance) in wrong.text
        scores = await host.call_tool("arcade__scores")
        assert sum(scores.structured_content.values()) == 1, seen
        assert await arcade.close("tictactoe", str(game.instance))
        assert list(arcade.toolsets["tictactoe"].open_instances) == [other.instance]
        await arcade.refresh()
        assert ended == [game.instance]


async def test_a_host_without_hints_plays_to_the_end() -> None:
    async with hosting() as host:
        names = [tool.tool for tool in await host.tools()]
        assert set(names) == {
            "scores", "place", "resign", "again", "toolset_open", "toolset_close", "toolset_use",
        }  # fmt: skip
        opened = await host.call_tool(
            "arcade__toolset_open", {"toolset": "tictactoe", "options": {"mark": "O", "thinking": THINKING}}
        )

        async def place(cell: int) -> str:
            result = await host.call_tool("arcade__place", {"cell": cell})
            return result.text if OVER.search(result.text) else await told(host)

        await play(_before_names(opened.text), place)
        assert (await host.call_tool("arcade__place", {"cell": 1})).is_error
        assert sum((await host.call_tool("arcade__scores")).structured_content.values()) == 1
        assert [tool.tool for tool in await host.tools()] == names


def _before_names(text: str) -> str:
    """A result of ``toolset_open`` without its last line, which names the tools."""
    return text.rpartition("\n")[0]


async def test_the_official_sdk_plays_to_the_end() -> None:
    parameters = mcp.StdioServerParameters(command=ARCADE[0], args=ARCADE[1:])
    with anyio.fail_after(20):
        async with stdio.stdio_client(parameters) as (read, write), mcp.ClientSession(read, write) as client:

            async def call(name: str, **arguments: Any) -> str:
                result = await client.call_tool(name, arguments)
                assert not result.is_error, result
                return "\n".join(block.text for block in result.content)

            async def place(cell: int) -> str:
                return await call("place", cell=cell)

            async def place_and_wait(cell: int) -> str:
                text = await call("place", cell=cell)
                while not OVER.search(text) and "The bot played" not in text:
                    # Nobody can tell this host of anything; what happened stands in the next result, whatever it is.
                    text = (await call("scores")).partition("The bot played")[2]
                    text = text and f"The bot played{text}"
                return text

            await client.initialize()
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {"place", "toolset_open", "toolset_close", "toolset_use", "scores"} <= set(names)
            wrong = await client.call_tool("toolset_open", {"toolset": "tictactoe", "options": {"mark": "Z"}})
            assert wrong.is_error

            await play(_before_names(await call("toolset_open", toolset="tictactoe")), place)
            late = _before_names(
                await call("toolset_open", toolset="tictactoe", options={"mark": "O", "thinking": THINKING})
            )
            which = await client.call_tool("place", {"cell": 1})
            assert which.is_error
            second = re.search(r"tictactoe-2", which.content[0].text)
            assert second is not None
            await call("toolset_use", toolset="tictactoe", instance=second[0])
            await play(late, place_and_wait)
            scores = await client.call_tool("scores", {})
            assert sum(scores.structured_content.values()) == 2
            assert [tool.name for tool in (await client.list_tools()).tools] == names


async def test_two_moves_at_once_are_one_move() -> None:
    toolsets = HostToolsets()
    async with hosting(toolsets):
        arcade = toolsets["arcade"]
        await arcade.listed()
        await arcade.open("tictactoe", {"thinking": 60})
        texts: list[str] = []

        async def place(cell: float) -> None:
            texts.append((await arcade.call("place", {"cell": cell})).text)

        async with anyio.create_task_group() as moves:
            for cell in (5.0, 1):
                moves.start_soon(place, cell)
        boards = [text for text in texts if "cannot" not in text]
        assert len(boards) == 1
        # The bot still thinks, whoever moved for it.
        assert len(free(boards[0])) == 8
