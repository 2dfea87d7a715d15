"""All tools in one order."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core import InvalidValueError, LocalProtocolError
from mcpl_core.schemas import SchemaError
from mcpl_core.server import tool_from_function
from mcpl_core.toolsets.catalog import Catalog
from mcpl_core.toolsets.principal import OpenInstance, Principal
from tests.toolsets.toolset_kit import counter_toolset


async def run(ctx: Any, args: Any) -> None: ...


def catalog(**toolsets: Any) -> Catalog:
    declared = toolsets or {"game": counter_toolset(instances=True), "lamp": counter_toolset("lamp_")}
    return Catalog(declared, run, None)


def test_tools_belong_to_their_toolsets_and_call_one_function() -> None:
    made = catalog()
    assert list(made.tools) == ["up", "down", "lamp_up", "lamp_down"]
    assert list(made.toolsets) == ["game", "lamp"]
    found = made.toolset_of("lamp_up")
    assert found is not None and found.name == "lamp"
    assert made.toolset_of("none") is None
    tool = made.tools["up"]
    assert tool.function is run
    ctx: Any = object()
    assert tool.bind({"by": 1}, ctx) == {"ctx": ctx, "args": {"by": 1}}


def test_a_host_without_hints_is_told_what_can_be_opened_and_how() -> None:
    lamp = counter_toolset("l_", options=None)
    made = catalog(game=counter_toolset(instances=True, options={"type": "object"}), lamp=lamp)
    description = made.fallback["toolset_open"].description
    assert description is not None
    assert description.splitlines()[1:] == [
        'game: Counters. Count up and down Options: {"type":"object"}',
        "lamp: Counters. Count up and down",
    ]


@pytest.mark.parametrize("name", ["", "a b", "x" * 41, None])
def test_names_of_toolsets(name: Any) -> None:
    with pytest.raises(LocalProtocolError):
        Catalog({name: counter_toolset()}, run, None)


def test_schemas_are_checked_when_they_are_declared() -> None:
    broken: list[Any] = [
        {"options": {"type": 3}},
        {"tools": [{"name": "go", "inputSchema": {"type": "object", "properties": 3}}]},
    ]
    for facts in broken:
        with pytest.raises(SchemaError):
            catalog(game=counter_toolset(**facts))


def test_arguments_are_filled_and_checked() -> None:
    made = catalog()
    assert made.arguments(made.tools["up"], {}) == {"by": 1}
    with pytest.raises(InvalidValueError):
        made.arguments(made.tools["up"], {"by": 0})
    own = tool_from_function(lambda: None, name="own")
    made.learn(own.name, made.checker(own))
    assert made.arguments(own, {}) == {}
    for name in ("up", "toolset_use"):
        with pytest.raises(LocalProtocolError):
            made.checker(tool_from_function(lambda: None, name=name))


def test_the_hook_makes_every_checker() -> None:
    seen: list[Any] = []

    class Anything:
        def fill(self, value: Any) -> Any:
            return value

        def check(self, value: Any) -> None: ...

    def validate(schema: Any) -> Anything:
        seen.append(schema)
        return Anything()

    made = Catalog({"game": counter_toolset(instances=True)}, run, validate)
    # Options, two tools, three tools for hosts without hints.
    assert len(seen) == 6
    assert made.arguments(made.tools["up"], {"by": "anything"}) == {"by": "anything"}


@pytest.mark.spec("R-toolsets-2")
def test_the_list_is_full_in_one_order() -> None:
    made = catalog()
    principal = Principal("p", ["game"], 1, 256)
    own = [tool_from_function(lambda: None, name="own")]
    principal.add(OpenInstance(("game", "a"), None, "", 0.0), ("up",))
    principal.add(OpenInstance(("game", "b"), None, "", 0.0), ("down",))
    for fallback in (False, True):
        listed = made.list_tools(own, principal, fallback)
        shown = [(tool["name"], tool["_meta"]["mcpl/presence"].visible) for tool in listed]
        assert shown[:5] == [("own", True), ("up", True), ("down", True), ("lamp_up", False), ("lamp_down", False)]
        assert [name for name, _ in shown[5:]] == (["toolset_open", "toolset_close", "toolset_use"] if fallback else [])
