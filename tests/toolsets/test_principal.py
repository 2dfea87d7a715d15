"""What belongs to one principal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core import InvalidParams
from mcpl_core.protocol import EndedInstance
from mcpl_core.toolsets.principal import ENDED_KEPT, OpenInstance, Principal


def principal() -> Principal:
    return Principal("p", ["game", "game-1"], 3, 256)


def opened(of: Principal, id: str | None, toolset: str = "game") -> OpenInstance:
    made = OpenInstance((toolset, id), object(), f"title of {id}", 1.0)
    of.add(made, ("up",))
    return made


def ended(id: str) -> EndedInstance:
    record = OpenInstance(("game", id), None, "t", 0.0).ended("idle", 1_800_000_000.25)
    assert record is not None
    return record


def test_what_is_open() -> None:
    p = principal()
    one, two, lamp = opened(p, "a"), opened(p, "b"), opened(p, None, "lamp")
    assert (p.open(), p.instances("game"), p.instances("none")) == ([one, two, lamp], [one, two], [])
    assert (p.find("b"), p.find("c"), p.get(("lamp", None)), p.get(("lamp", "a"))) == (two, None, lamp, None)
    assert p.presence.get(("game", "a")) == ("up",)
    assert (p.remove(one.key), p.remove(one.key)) == (one, None)
    assert (p.open(), p.find("a"), p.presence.get(one.key)) == ([two, lamp], None, None)
    assert p.remove(lamp.key) is lamp
    assert lamp.ended("closed", 2.0) is None
    assert list(p.ended()) == []


def test_records_of_the_end_are_kept_up_to_a_bound() -> None:
    p = principal()
    pushed_out = [p.end(ended(f"x{number}")) for number in range(ENDED_KEPT + 2)]
    assert [each and each.instance for each in pushed_out[-3:]] == [None, "x0", "x1"]
    records = list(p.ended())
    assert (len(records), records[0].instance, records[0].reason) == (ENDED_KEPT, "x2", "idle")
    assert records[0].ended_at == "2027-01-15T08:00:00.250Z"


@pytest.mark.parametrize("id", ["", "a b", "ä", "x" * 65, "a/b"])
def test_ids_have_a_grammar(id: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        principal().reserve("game", id)
    assert caught.value.data == {"path": "$.instance", "instance": id}


def test_ids_are_taken_while_they_are_reserved_open_or_remembered() -> None:
    p = principal()
    assert p.reserve("game", "own") == "own"
    for _ in range(2):
        with pytest.raises(InvalidParams):
            p.reserve("game-1", "own")
        if p.find("own") is None:
            opened(p, "own")
    made = p.remove(("game", "own"))
    assert made is not None
    p.end(ended("own"))
    with pytest.raises(InvalidParams):
        p.reserve("game", "own")
    p.reserve("game", "other")
    p.release("other")
    p.release(None)
    assert p.reserve("game", "other") == "other"


def test_ids_as_they_are_made_count_as_made() -> None:
    p = principal()
    assert p.reserve("game", "game-12") == "game-12"
    assert p.reserve("game") == "game-13"
    # Of another toolset, whose name is longer.
    assert p.reserve("game", "game-1-3") == "game-1-3"
    assert p.reserve("game-1") == "game-1-4"
    for taken in ("game-5", "game-13", "game-1-2"):
        with pytest.raises(InvalidParams):
            p.reserve("game", taken)
    # Not as they are made.
    assert p.reserve("game", "game-014") == "game-014"
    assert p.reserve("game", "lamp-1") == "lamp-1"
    assert p.counters == {"game": 13, "game-1": 4}


@given(st.lists(st.one_of(st.none(), st.sampled_from(["a", "game-2", "game-5", "game-1-1", "game-1-7"])), max_size=30))
def test_no_id_comes_twice(proposals: list[Any]) -> None:
    p = principal()
    seen: set[str] = set()
    for number, proposed in enumerate(proposals):
        try:
            id = p.reserve("game" if number % 2 else "game-1", proposed)
        except InvalidParams:
            assert proposed in seen or proposed.startswith("game-")
            continue
        assert id not in seen
        seen.add(id)


def test_when_it_is_due() -> None:
    p = principal()
    assert p.due(10.0) is None
    p.idle_since = 5.0
    assert (p.due(10.0), p.due(0)) == (15.0, None)


@pytest.mark.spec("R-toolsets-7")
def test_no_more_are_open_than_may_be() -> None:
    p = Principal("p", ["game"], 3, 2)
    opened(p, p.reserve("game"))
    p.reserve("game", "own")
    for proposed in (None, "more"):
        with pytest.raises(InvalidParams) as caught:
            p.reserve("game", proposed)
        assert caught.value.data == {"path": "$.toolset", "limit": 2}
    p.release("own")
    # A refusal uses no number.
    assert p.reserve("game") == "game-2"


def test_a_number_that_is_too_high_to_go_on_from_is_none() -> None:
    p = principal()
    assert p.reserve("game", f"game-{10**12}") == f"game-{10**12}"
    assert p.reserve("game") == f"game-{10**12 + 1}"
    assert p.reserve("game", f"other-{10**30}") == f"other-{10**30}"
    for number in (10**12 + 2, 10**50):
        with pytest.raises(InvalidParams):
            p.reserve("game", f"game-{number}")
