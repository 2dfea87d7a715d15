"""Which instance is meant."""

from __future__ import annotations

from mcpl_core.toolsets.principal import OpenInstance, Principal
from mcpl_core.toolsets.targets import NoTarget, find_target, usable


def world(*ids: str | None) -> Principal:
    principal = Principal("p", ["game"], 1, 256)
    for id in ids:
        principal.add(OpenInstance(("game", id), None, f"t-{id}", 0.0), ())
    return principal


def find(principal: Principal, named: str | None = None, instances: bool = True, **chosen: str) -> str | NoTarget:
    found = find_target(principal, "game", instances, named, chosen)
    return found if isinstance(found, NoTarget) else str(found.key[1])


def test_without_instances() -> None:
    closed = find(world(), instances=False)
    assert isinstance(closed, NoTarget) and closed.waits
    assert find(world(None), instances=False) == "None"
    principal = world(None)
    principal.open()[0].closing = True
    assert isinstance(find(principal, instances=False), NoTarget)


def test_one_need_not_be_named() -> None:
    assert find(world("a")) == "a"
    none = find(world())
    assert isinstance(none, NoTarget) and none.waits


def test_one_of_several_is_named_or_chosen() -> None:
    principal = world("a", "b", "c")
    assert (find(principal, "b"), find(principal, game="c"), find(principal, "a", game="c")) == ("b", "c", "a")
    several = find(principal, game="gone")
    assert isinstance(several, NoTarget) and not several.waits
    assert all(f"{id} (t-{id})" in several.text for id in "abc")
    unknown = find(principal, "x")
    assert isinstance(unknown, NoTarget) and unknown.waits
    nothing = find(world(), "x")
    assert isinstance(nothing, NoTarget) and "None is open" in nothing.text


def test_what_is_closing_is_not_meant() -> None:
    principal = world("a", "b")
    principal.open()[0].closing = True
    assert find(principal) == "b"
    assert find(principal, game="a") == "b"
    named = find(principal, "a")
    assert isinstance(named, NoTarget) and not named.waits


def test_long_lists_are_cut() -> None:
    several = find(world(*(f"g{number}" for number in range(60))))
    assert isinstance(several, NoTarget)
    assert "and 10 more" in several.text and "g59" not in several.text


def test_the_line_of_usable_tools() -> None:
    assert "up, down" in usable(["up", "down"])
    assert "None" in usable([])
