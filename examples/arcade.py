"""An arcade for agents: tic-tac-toe against a bot, in as many games at once as somebody likes.

    python examples/arcade.py                        speaks over its standard input and output
    python examples/arcade.py ws://127.0.0.1:8765    serves many hosts over WebSockets

A game is an instance of the toolset ``tictactoe``: it is opened, shows the tools that can be used right now, and
belongs to whoever opened it, over all connections. A host that understands toolsets is told what becomes visible;
every other MCP host uses ``toolset_open`` and ``toolset_use``. A bot that is told to think moves when nobody waits for
it, and an event tells of its move. ``scores`` is there always.
"""

import sys
from collections import Counter, defaultdict
from typing import Any

import anyio

from mcpl_core.server import ToolError
from mcpl_core.toolsets import InstanceContext, ToolsetContext
from mcpl_core.toolsets.server import ToolsetServer

LINES = ("123", "456", "789", "147", "258", "369", "159", "357")
#: Where the bot likes to play: the middle, the corners, the rest.
LIKED = "519372846"

#: Principal -> how its games ended.
results: defaultdict[str, Counter[str]] = defaultdict(Counter)


class TicTacToe:
    """Three in a row wins. The cells are numbered from 1 to 9, row by row."""

    title = "Tic-tac-toe"
    instances = True
    options = {
        "type": "object",
        "properties": {
            "mark": {"enum": ["X", "O"], "default": "X", "description": "Yours. X begins."},
            "thinking": {
                "type": "number",
                "minimum": 0,
                "maximum": 60,
                "default": 0,
                "description": "Seconds that the bot thinks; with 0 it moves at once.",
            },
        },
        "additionalProperties": False,
    }
    tools = [
        {
            "name": "place",
            "description": "Put your mark into a free cell.",
            "inputSchema": {
                "type": "object",
                "properties": {"cell": {"type": "integer", "minimum": 1, "maximum": 9}},
                "required": ["cell"],
                "additionalProperties": False,
            },
        },
        {"name": "resign", "description": "Give the game up."},
        {"name": "again", "description": "Play once more, on an empty board."},
    ]

    def __init__(self, ctx: InstanceContext, options: dict[str, Any]) -> None:
        self.ctx = ctx
        self.you = options["mark"]
        self.bot = "O" if self.you == "X" else "X"
        self.thinking = options["thinking"]
        self.round = 0
        self.begin()

    def begin(self) -> None:
        """An empty board; X begins."""
        self.board = dict.fromkeys("123456789", "")
        self.round += 1
        self.outcome = ""
        self.turn = "X"
        if self.turn == self.bot:
            self.move(self.choose())

    # -- what the server asks for

    def visible(self) -> list[str]:
        """The tools that can be used now."""
        if self.outcome:
            return ["again"]
        return ["place", "resign"] if self.turn == self.you else ["resign"]

    def content(self) -> str:
        """The board, with the numbers of the free cells, and how the game stands."""
        cells = [mark or cell for cell, mark in self.board.items()]
        rows = [" {} | {} | {}".format(*cells[start : start + 3]) for start in (0, 3, 6)]
        stands = self.outcome or (f"Your turn, {self.you}." if self.turn == self.you else "The bot thinks.")
        return "\n---+---+---\n".join(rows) + f"\n{stands}"

    async def call(self, tool: str, args: dict[str, Any]) -> str:
        """One of the tools is used."""
        if tool not in self.visible():
            # Two calls may come at once, and the second finds another game than it was sent to.
            raise ToolError(f"{tool} cannot be used now. {self.content()}")
        if tool == "place":
            # 5.0 is an integer too.
            cell = str(int(args["cell"]))
            if self.board[cell]:
                raise ToolError(f"{self.board[cell]} is in cell {cell} already.")
            self.move(cell)
            if not self.outcome and self.thinking:
                self.ctx.start_soon(self.think, self.round)
            elif not self.outcome:
                self.move(self.choose())
        elif tool == "resign":
            self.finish("The bot won: you gave up.", "lost")
        else:
            self.begin()
        return self.content()

    # -- the game

    def move(self, cell: str) -> None:
        """Whoever's turn it is plays a cell."""
        mark = self.board[cell] = self.turn
        self.turn = "O" if mark == "X" else "X"
        if any(all(self.board[each] == mark for each in line) for line in LINES):
            self.finish(*(("You won.", "won") if mark == self.you else ("The bot won.", "lost")))
        elif all(self.board.values()):
            self.finish("Nobody won.", "drawn")

    def finish(self, outcome: str, result: str) -> None:
        """The game is over."""
        self.outcome = outcome
        results[self.ctx.principal][result] += 1

    def choose(self) -> str:
        """The bot's move: a row of its own, else one of yours to stop, else what it likes."""
        for mark in (self.bot, self.you):
            for line in LINES:
                marks = [self.board[cell] for cell in line]
                if marks.count(mark) == 2 and "" in marks:
                    return line[marks.index("")]
        return next(cell for cell in LIKED if not self.board[cell])

    async def think(self, round: int) -> None:
        """The bot moves late, unless the game was given up meanwhile. Whoever plays hears of it by an event."""
        await anyio.sleep(self.thinking)
        if round == self.round and not self.outcome:
            cell = self.choose()
            self.move(cell)
            self.ctx.event(f"The bot played cell {cell}.\n{self.content()}", tags=["game:move"])


async def scores(ctx: ToolsetContext) -> dict[str, int]:
    """How your games ended."""
    counted = results[ctx.principal]
    return {result: counted[result] for result in ("won", "lost", "drawn")}


server = ToolsetServer("arcade", "1.0.0", tools=[scores], toolsets={"tictactoe": TicTacToe})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        anyio.run(server.listen, sys.argv[1])
    else:
        anyio.run(server.serve_stdio)
