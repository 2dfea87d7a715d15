"""Groups of options, and what follows the dashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer

from mcpl_core.cli.options import CommandWithTarget, command_after_dashes, with_option_groups


@dataclass(frozen=True)
class Colours:
    context: typer.Context
    back: Annotated[str, typer.Option("--back")] = "white"
    front: Annotated[list[str] | None, typer.Option("--front")] = None


def app(function: Callable[..., int]) -> Callable[[list[str]], Any]:
    made = typer.Typer()
    made.command("paint", cls=CommandWithTarget)(function)
    return lambda arguments: made(args=arguments, standalone_mode=False)


def test_a_group_becomes_options_and_comes_back_as_one() -> None:
    seen: list[Any] = []

    @with_option_groups
    def paint(
        what: Annotated[str, typer.Argument()],
        colours: Colours,
        twice: Annotated[bool, typer.Option("--twice")] = False,
    ) -> int:
        """Paints."""
        seen.append((what, colours.back, colours.front, twice, command_after_dashes(colours.context)))
        return 7

    run = app(paint)
    assert run(["wall"]) == 7
    run(["--front", "a", "wall", "--twice", "--front", "b"])
    run(["wall", "--", "--front", "c", "--", "d"])
    run(["wall", "--"])
    assert seen == [
        ("wall", "white", None, False, None),
        ("wall", "white", ["a", "b"], True, None),
        ("wall", "white", None, False, ["--front", "c", "--", "d"]),
        ("wall", "white", None, False, []),
    ]
    assert (paint.__name__, paint.__doc__) == ("paint", "Paints.")


def test_what_is_wrong_is_told_as_ever() -> None:
    @with_option_groups
    def paint(colours: Colours) -> int:
        return 0

    with pytest.raises(Exception) as caught:
        app(paint)(["--nonsense"])
    assert hasattr(caught.value, "format_message")
