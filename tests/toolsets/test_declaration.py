"""Toolsets as they are declared."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core import LocalProtocolError
from mcpl_core.toolsets import Instance, InstanceContext, Toolset, read_toolset
from mcpl_core.toolsets.declaration import Instance as SameInstance

TOOL = {"name": "go", "description": "Go", "inputSchema": {"type": "object"}, "_meta": {"k": 1}}
FACTS: dict[str, Any] = {"title": "T", "summary": "S", "tools": [TOOL], "open": lambda ctx, options: None}


def test_defaults_of_the_facts() -> None:
    toolset = Toolset(**FACTS)
    assert (toolset.default, toolset.instances, toolset.options, toolset.load) == ("closed", False, None, None)
    assert toolset.names == ("go",)
    assert toolset.server_tools["go"].definition() == TOOL
    assert read_toolset(toolset) is toolset
    bare = Toolset(
        **{**FACTS, "tools": ({"name": "a"}, {"name": "b", "title": "B", "outputSchema": {"type": "object"}})}
    )
    assert [tool.definition() for tool in bare.server_tools.values()] == [
        {"name": "a", "inputSchema": {"type": "object"}},
        {"name": "b", "title": "B", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
    ]


@pytest.mark.parametrize(
    "facts",
    [
        {"title": None},
        {"summary": 3},
        {"default": "ajar"},
        {"instances": 1},
        {"instances": True, "default": "open"},
        {"tools": []},
        {"tools": "go"},
        {"tools": ["go"]},
        {"tools": [{}]},
        {"tools": [{"name": "a b"}]},
        {"tools": [TOOL, TOOL]},
        {"tools": [{"name": "go", "inputschema": {}}]},
        {"tools": [{"name": "go", "inputSchema": {"type": "array"}}]},
        {"options": 3},
        {"options": {"a": object()}},
        {"open": 3},
        {"load": 3},
    ],
)
def test_facts_that_are_none(facts: Any) -> None:
    with pytest.raises(LocalProtocolError):
        Toolset(**{**FACTS, **facts})


class Game:
    """Play a game.

    This is for people who read code.
    """

    title = "Game"
    tools = (TOOL,)
    instances = True
    options = {"type": "object"}

    def __init__(self, ctx: InstanceContext, options: dict[str, Any]) -> None:
        self.ctx = ctx

    def call(self, tool: str, args: dict[str, Any]) -> str:
        return tool

    @classmethod
    def load(cls, ctx: InstanceContext, text: str) -> Game:
        return cls(ctx, {})


class Opened(Game):
    summary = "Other words"

    @staticmethod
    def open(ctx: InstanceContext, options: dict[str, Any]) -> Game:
        return Game(ctx, options)


def test_a_class_stands_for_its_toolset() -> None:
    toolset = read_toolset(Game)
    assert (toolset.title, toolset.summary, toolset.instances, toolset.open) == ("Game", "Play a game.", True, Game)
    assert toolset.options == {"type": "object"}
    assert toolset.load is not None
    opened = read_toolset(Opened)
    assert (opened.summary, opened.open) == ("Other words", Opened.open)
    made: Any = None
    assert isinstance(Game(made, {}), Instance)
    assert Instance is SameInstance


@pytest.mark.parametrize(
    "declared",
    [
        None,
        {},
        "game",
        Game.__init__,
        type("Bare", (), {}),
        type("B", (), {"title": "T", "call": print}),
        type("Uncallable", (), {"title": "T", "tools": [TOOL]}),
    ],
)
def test_what_declares_no_toolset(declared: Any) -> None:
    with pytest.raises(LocalProtocolError):
        read_toolset(declared)
