"""The last part of ``mcpl demo``: tools that come and go, in a game.

Owns: the game and what it prints. Does not own: the server, which is the example that everybody can read.

The host knows toolsets: it keeps the tools of a game out of the list that a model reads once, follows what can be used
right now, and hears of the bot's moves, which come when nobody waits for them.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from typing import Final

import anyio
from rich.console import Console
from rich.markup import escape

from ..errors import TransportError
from ..host import HostHandlers, HostPolicy, McplHost, PushEvent
from ..toolsets.host import HostToolsets, ServerToolsets
from .resources import resource_path

__all__ = ("arcade_tour", "board_line", "free_cells")

_GAME: Final = "tictactoe"
#: What the player likes, which is not what wins.
_LIKED: Final = (1, 9, 8, 2, 6, 4, 3, 7, 5)
#: Seconds that the bot thinks.
_THINKING: Final = 0.02


async def arcade_tour(console: Console) -> None:
    """One game from its opening to its end.

    Raises:
        McplError: a step did not go as it should.
    """
    if find_spec("jsonschema_rs") is None:
        console.print("  left out: it needs pip install 'mcp-live-core\\[toolsets]'")
        return
    toolsets = HostToolsets()
    policy, handlers = HostPolicy.allow("tools", "pushEvents"), HostHandlers(extensions=[toolsets])
    async with McplHost("mcpl-demo", "1.0.0", policy=policy, handlers=handlers) as host:
        await host.add("arcade", [sys.executable, str(resource_path("examples") / "arcade.py")])
        arcade = toolsets["arcade"]
        known = await arcade.listed()
        _say(console, f"always there: {' '.join(tool.name for tool in await host.tools())}")
        _say(console, f"{known[_GAME].title}: {known[_GAME].summary} Closed; it has {' '.join(known[_GAME].tools)}")
        game = await arcade.open(_GAME, {"thinking": _THINKING})
        _say(console, f"opened {game.instance}: {board_line(game.text)}; {_usable(arcade)}")
        text = game.text
        while _usable(arcade) != "usable: again":
            text = await _move(console, host, arcade, text)
        _say(console, f"{text.splitlines()[-1]} {(await host.call_tool('arcade__scores')).text}; {_usable(arcade)}")
        await arcade.close(_GAME, game.instance if isinstance(game.instance, str) else None)
        _say(console, f"closed {game.instance}; {_usable(arcade)}")


async def _move(console: Console, host: McplHost, arcade: ServerToolsets, text: str) -> str:
    """Our move, and the bot's unless the game is over; the board after it."""
    cells = free_cells(text)
    cell = next(liked for liked in _LIKED if liked in cells)
    text = (await arcade.call("place", {"cell": cell})).text
    _say(console, f"the model plays {cell}: {board_line(text)}; {_usable(arcade)}")
    if "thinks" not in text:
        return text
    with anyio.fail_after(10):
        async for event in host.events():
            if isinstance(event, PushEvent):
                told = event.text.partition("\n")
                _say(console, f"event from {event.server}: {told[0]} {board_line(told[2])}; {_usable(arcade)}")
                return told[2]
    raise TransportError("the host closed")


def free_cells(text: str) -> list[int]:
    """The free cells of a board."""
    return [int(cell) for cell in re.findall(r"\d", "".join(_rows(text)))]


def board_line(text: str) -> str:
    """A board on one line: ``X.O ... ..X``."""
    return " ".join(re.sub(r"\d", ".", row.replace("|", "").replace(" ", "")) for row in _rows(text))


def _rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if "|" in line]


def _usable(arcade: ServerToolsets) -> str:
    return f"usable: {' '.join(each.tool for each in arcade.visible()) or 'none'}"


def _say(console: Console, text: str) -> None:
    console.print(f"  {escape(text)}", soft_wrap=True)
