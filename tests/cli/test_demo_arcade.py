"""The game that the demo plays."""

from __future__ import annotations

import importlib.util
import io
import re
from typing import Any

import anyio
import pytest
from rich.console import Console

from mcpl_core.cli import demo_arcade
from mcpl_core.cli.demo_arcade import arcade_tour, board_line, free_cells

BOARD = " X | 2 | 3\n---+---+---\n 4 | O | 6\n---+---+---\n 7 | 8 | 9\nYour turn, X."


def told() -> str:
    out = io.StringIO()
    anyio.run(arcade_tour, Console(file=out, width=200))
    return out.getvalue()


def test_a_board_is_one_line() -> None:
    assert board_line(BOARD) == "X.. .O. ..."
    assert free_cells(BOARD) == [2, 3, 4, 6, 7, 8, 9]
    assert (board_line("no board"), free_cells("7")) == ("", [])


def test_it_plays_one_game() -> None:
    lines = told().splitlines()
    assert lines[0].strip() == "always there: arcade__scores"
    assert any("opened tictactoe-1: ... ... ...; usable: place resign" in line for line in lines)
    moves = [line for line in lines if "the model plays" in line]
    answers = [line for line in lines if "event from arcade: The bot played cell" in line]
    assert len(moves) >= 3
    assert len(answers) in (len(moves), len(moves) - 1)
    assert re.search(r"(won|Nobody won)\. \{.*\}; usable: again$", lines[-2])
    assert lines[-1].strip() == "closed tictactoe-1; usable: none"


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def hide(name: str, *more: Any) -> Any:
        return None if name == "jsonschema_rs" else find(name, *more)

    monkeypatch.setattr(demo_arcade, "find_spec", hide)
    assert told().strip() == "left out: it needs pip install 'mcp-live-core[toolsets]'"
