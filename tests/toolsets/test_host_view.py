"""What a host makes of statements and changes: in order, with nothing lost unnoticed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.content import content_text, text_content
from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol import (
    EndedInstance,
    HintChange,
    ToolsCallResult,
    ToolsetsListResult,
    ToolsetsOpenResult,
    read_hints,
)
from mcpl_core.toolsets import host_view
from mcpl_core.toolsets.host_view import EndedRecords, HostView, ToolsetView, VisibleTool, carried_events
from mcpl_core.toolsets.wire import (
    ended_statement,
    hint_change,
    instance_statement,
    list_result,
    open_result,
    toolset_statement,
)
from mcpl_core.wire.values import decode_value

TOOLS = {"game": ["play", "resign"], "notes": ["read", "write"]}


def statement(
    rev: int = 0, games: dict[str, list[str]] | None = None, notes: list[str] | None = None
) -> ToolsetsListResult:
    """A full statement: ``game`` has instances, ``notes`` has none. Names are those of the visible tools."""
    opened = [instance_statement(id, id.title(), names, [], 0) for id, names in (games or {}).items()]
    common: dict[str, Any] = {"summary": "", "default": "closed"}
    both = [
        toolset_statement(
            "game", title="Game", tools=TOOLS["game"], visible=[], open=bool(opened), instances=opened, **common
        ),
        toolset_statement(
            "notes", title="Notes", tools=TOOLS["notes"], visible=notes or [], open=notes is not None,
            options_schema={"type": "object"}, **common,
        ),
    ]  # fmt: skip
    return decode_value(list_result(rev, both, []), ToolsetsListResult)


def view(rev: int = 0, **state: Any) -> HostView:
    made = HostView()
    made.state(statement(rev, **state))
    return made


def test_at_first_nothing_is_known() -> None:
    made = HostView()
    assert (made.known, made.rev, made.toolsets, made.visible()) == (False, 0, {}, [])


def test_a_statement_tells_all_there_is() -> None:
    made = HostView()
    applied = made.state(statement(3, games={"g1": ["play"]}, notes=["read"]))
    assert (applied.changed, applied.lost, applied.problems) == (True, False, ())
    game, notes = made.toolsets.values()
    assert (made.known, made.rev) == (True, 3)
    assert (game.instances, game.open, game.visible, game.tools) == (True, True, ("play",), ("play", "resign"))
    assert (game.open_instances["g1"].title, game.open_instances["g1"].opened_at) == ("G1", "1970-01-01T00:00:00.000Z")
    assert (notes.instances, notes.open, notes.visible, notes.open_instances) == (False, True, ("read",), {})
    assert (notes.options_schema, game.options_schema) == ({"type": "object"}, None)
    assert made.visible() == [VisibleTool("game", "play", ("g1",)), VisibleTool("notes", "read", ())]


def test_a_statement_that_says_nothing_new_changes_nothing() -> None:
    made = HostView()
    assert made.state(statement()).changed  # the first one: now it is known
    assert not made.state(statement()).changed
    assert made.state(statement(notes=[])).changed


def test_what_is_visible_follows_the_order_of_the_tools_and_names_no_others() -> None:
    made = view(games={"a": ["resign", "play"], "b": ["play", "of-nobody"]}, notes=["write", "read"])
    assert made.visible() == [
        VisibleTool("game", "play", ("a", "b")),
        VisibleTool("game", "resign", ("a",)),
        VisibleTool("notes", "read", ()),
        VisibleTool("notes", "write", ()),
    ]


def test_changes_open_change_and_close() -> None:
    made = view()
    assert made.apply([hint_change(1, ("notes", None), ["read"])]).changed
    assert made.toolsets["notes"].visible == ("read",)
    assert made.apply([hint_change(2, ("game", "g1"), ["play"])]).changed
    assert (made.toolsets["game"].open, made.toolsets["game"].open_instances["g1"].title) == (True, "g1")
    assert made.apply([hint_change(3, ("game", "g1"), ["resign"]), hint_change(4, ("notes", None), None)]).changed
    assert made.visible() == [VisibleTool("game", "resign", ("g1",))]
    assert made.apply([hint_change(5, ("game", "g1"), None)]).changed
    assert (made.toolsets["game"].open, made.toolsets["game"].open_instances, made.rev) == (False, {}, 5)


@pytest.mark.parametrize(
    "change",
    [
        hint_change(1, ("of-nobody", None), ["x"]),
        hint_change(1, ("notes", None), None),
        hint_change(1, ("game", "g1"), ["play"]),
        hint_change(1, ("game", "g2"), None),
        hint_change(1, ("game", None), ["play"]),
    ],
)
def test_a_change_that_says_nothing_new_only_counts(change: HintChange) -> None:
    made = view(games={"g1": ["play"]})
    before = made.visible()
    applied = made.apply([change])
    assert (applied.changed, applied.lost, made.rev, made.visible()) == (False, False, 1, before)


@pytest.mark.spec("R-hints-1")
def test_a_lost_change_is_noticed_and_the_one_behind_it_holds() -> None:
    made = view(4, notes=["read"])
    assert made.apply([hint_change(6, ("notes", None), ["write"])]) == (True, True, ())
    assert made.toolsets["notes"].visible == ("write",)
    assert not made.apply([hint_change(7, ("notes", None), ["read"])]).lost


def test_a_change_that_was_there_already_is_not_applied_again() -> None:
    made = view(4, notes=["read"])
    for rev in (4, 3):
        applied = made.apply([hint_change(rev, ("notes", None), ["write"])])
        assert applied == (False, False, ("old_hint",))
    assert made.toolsets["notes"].visible == ("read",)


@pytest.mark.spec("R-hints-1")
def test_what_is_no_change_counts_as_a_lost_one() -> None:
    made = view()
    applied = made.apply([InvalidValueError("type", "no object"), hint_change(1, ("notes", None), ["read"])])
    assert (applied.changed, applied.lost, applied.problems) == (True, True, ("invalid_hint",))
    assert made.apply(read_hints({"rev": 1})).lost


def test_an_older_statement_than_the_changes_before_it_is_remarked_and_holds() -> None:
    made = view(5)
    assert made.state(statement(3, notes=["read"])).problems == ("old_statement",)
    assert (made.rev, made.toolsets["notes"].visible) == (3, ("read",))


def opened(toolset: str = "game", instance: str | None = "g1", title: str = "Chess") -> ToolsetsOpenResult:
    return decode_value(open_result((toolset, instance), title, [text_content("e4")], ["play"]), ToolsetsOpenResult)


def test_an_opening_tells_title_and_content_of_an_instance() -> None:
    made = view()
    made.apply([hint_change(1, ("game", "g1"), ["play", "resign"])])
    assert made.opened(opened())
    instance = made.toolsets["game"].open_instances["g1"]
    assert (instance.title, content_text(instance.content), instance.visible) == ("Chess", "e4", ("play", "resign"))


def test_an_opening_without_its_change_opens_all_the_same() -> None:
    made = view()
    assert made.opened(opened())
    assert made.visible() == [VisibleTool("game", "play", ("g1",))]


@pytest.mark.parametrize(("toolset", "instance"), [("of-nobody", "g1"), ("notes", "g1"), ("game", None)])
def test_an_opening_of_what_is_not_known_or_has_no_instances_tells_nothing(toolset: str, instance: str | None) -> None:
    assert not view().opened(opened(toolset, instance))


def test_an_opening_without_a_title_leaves_the_one_that_is_there() -> None:
    made = view(games={"g1": []})
    result = decode_value(b'{"toolset":"game","instance":"g1","content":[],"visible":[]}', ToolsetsOpenResult)
    assert made.opened(result)
    assert made.toolsets["game"].open_instances["g1"].title == "G1"


def test_instances_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_view, "MOST_INSTANCES", 2)
    made = view(games={"a": [], "b": [], "c": []})
    assert list(made.toolsets["game"].open_instances) == ["a", "b"]
    assert made.apply([hint_change(1, ("game", "d"), ["play"])]) == (False, False, ("too_many_instances",))
    assert not made.opened(opened())
    assert made.apply([hint_change(2, ("game", "a"), ["play"])]).changed


def record(instance: str) -> EndedInstance:
    return ended_statement(("game", instance), "Chess", "closed", 0)


@pytest.mark.spec("R-hints-5")
def test_each_end_is_told_once() -> None:
    ended = EndedRecords()
    assert ended.fresh([record("a"), record("b")]) == [record("a"), record("b")]
    assert ended.fresh([record("a"), record("b"), record("c")]) == [record("c")]
    assert ended.fresh([record("c")]) == []
    assert ended.fresh([record("c"), record("d"), record("d")]) == [record("d")]
    # The server pushed it out; it will not come again but as another one.
    assert ended.fresh([record("a")]) == [record("a")]


def test_many_changes_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = view()
    settled: list[str] = []
    real = ToolsetView.settle

    def settle(self: ToolsetView) -> None:
        settled.append(self.name)
        real(self)

    monkeypatch.setattr(ToolsetView, "settle", settle)
    changes = [hint_change(number, ("game", f"g{number}"), ["play"]) for number in range(1, 51)]
    assert made.apply([*changes, hint_change(51, ("notes", None), ["read"])]).changed
    assert settled == ["game"]
    assert made.toolsets["game"].visible == ("play",)
    assert len(made.toolsets["game"].open_instances) == 50


def test_a_change_of_what_is_not_there_is_told_once_it_is_known_what_is() -> None:
    early = HostView()
    assert early.apply([hint_change(1, ("other", None), [])]).problems == ()
    made = view()
    applied = made.apply([hint_change(1, ("other", None), ["x"]), hint_change(2, ("notes", None), ["read"])])
    assert (applied.changed, applied.lost, applied.problems) == (True, False, ("unknown_toolset",))


def test_events_in_a_result_are_read_and_what_is_none_is_left_out() -> None:
    event = {"eventId": "e1", "timestamp": "2026-01-01T00:00:00Z", "content": "hello"}
    result = decode_value(b'{"content":[]}', ToolsCallResult)
    assert carried_events(result) == []
    result = ToolsCallResult(meta={"mcpl/events": [event, 5, {}]})
    assert [(each.event_id, each.text) for each in carried_events(result)] == [("e1", "hello")]


NAMES = st.lists(st.sampled_from(["play", "resign"]), unique=True).map(sorted)
STEPS = st.lists(
    st.tuples(st.sampled_from(["change", "lose", "state"]), st.sampled_from(["a", "b"]), st.none() | NAMES), max_size=25
)


@settings(deadline=None)
@given(STEPS)
def test_without_a_noticed_loss_the_view_is_the_servers_own(steps: list[tuple[str, str, list[str] | None]]) -> None:
    made = view()
    truth: dict[str, list[str]] = {}
    rev, lost, behind = 0, False, False
    for kind, instance, names in steps:
        if kind == "state":
            made.state(statement(rev, games=truth))
            lost = behind = False
            continue
        rev += 1
        truth.pop(instance, None) if names is None else truth.__setitem__(instance, names)
        if kind == "change":
            applied = made.apply([hint_change(rev, ("game", instance), names)])
            assert applied.lost is behind
            lost, behind = lost or applied.lost, False
        else:
            behind = True
    if not lost and not behind:
        seen = {id: list(each.visible) for id, each in made.toolsets["game"].open_instances.items()}
        assert (seen, made.rev) == (truth, rev)
        shown = {name for each in truth.values() for name in each}
        game = made.toolsets["game"]
        assert (set(game.visible), game.open) == (shown, bool(truth))
