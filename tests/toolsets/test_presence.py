"""What is visible, and what was told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.protocol import HintChange
from mcpl_core.toolsets.presence import Presence, View
from mcpl_core.toolsets.wire import Key

A: Key = ("game", "game-1")
B: Key = ("lamp", None)


def attached(presence: Presence) -> tuple[View, list[int]]:
    woken: list[int] = []
    return presence.attach(lambda: woken.append(1)), woken


def test_nothing_is_told_before_a_statement() -> None:
    presence = Presence()
    view, woken = attached(presence)
    presence.set(A, ["up"])
    assert (view.changes(), view.rev, woken, view.based) == ([], 0, [], False)
    view.base()
    assert (view.changes(), view.rev, view.based) == ([], 0, True)


def test_a_change_is_told_once_and_numbered_with_what_is_told() -> None:
    presence = Presence()
    view, woken = attached(presence)
    view.state()
    presence.set(A, ["up"])
    presence.set(B, [])
    assert len(woken) == 2
    changes = view.changes()
    assert changes == view.changes()
    assert changes == [
        HintChange(rev=1, toolset="game", instance="game-1", open=True, visible=["up"]),
        HintChange(rev=2, toolset="lamp", open=True, visible=[]),
    ]
    view.tell(changes)
    assert (view.changes(), view.rev) == ([], 2)
    presence.set(A, None)
    assert [(change.rev, change.open, change.visible) for change in view.changes()] == [(3, False, [])]


def test_what_is_as_it_was_told_is_no_change() -> None:
    presence = Presence()
    view, woken = attached(presence)
    view.state()
    presence.set(A, ["up"])
    presence.set(A, None)
    assert (view.changes(), woken) == ([], [1])
    presence.set(A, ["up"])
    view.tell(view.changes())
    presence.set(A, ["up"])
    assert view.changes() == []
    view.tell([])
    assert view.rev == 1


def test_a_statement_says_everything_up_to_now() -> None:
    presence = Presence()
    view, _ = attached(presence)
    view.state()
    presence.set(A, ["up"])
    assert (view.state(), view.changes()) == (0, [])
    presence.set(B, ["on"])
    # A further list of tools is no statement.
    view.base()
    assert len(view.changes()) == 1


def test_views_are_on_their_own() -> None:
    presence = Presence()
    first, _ = attached(presence)
    second, woken = attached(presence)
    first.state()
    second.state()
    presence.set(A, ["up"])
    first.tell(first.changes())
    assert (first.changes(), len(second.changes())) == ([], 1)
    presence.detach(second)
    presence.detach(second)
    presence.set(A, [])
    assert woken == [1]
    assert dict(presence) == {A: ()}


KEYS = st.sampled_from([A, B, ("game", "game-2")])
VALUES = st.one_of(st.none(), st.lists(st.sampled_from(["up", "down"]), unique=True))
STEPS = st.lists(st.one_of(st.tuples(KEYS, VALUES), st.sampled_from(["tell", "state", "look"])), max_size=40)


@given(STEPS)
def test_who_applies_all_changes_knows_the_truth(steps: list[tuple[Key, list[str] | None] | str]) -> None:
    presence = Presence()
    view, _ = attached(presence)
    known: dict[Key, tuple[str, ...]] | None = None
    revs: list[int] = []
    for step in steps:
        if isinstance(step, tuple):
            presence.set(*step)
        elif step == "state":
            view.state()
            known = dict(presence)
        elif step == "look":
            view.changes()
        else:
            changes = view.changes()
            view.tell(changes)
            revs += [change.rev for change in changes]
            for change in changes:
                assert known is not None
                key = (change.toolset, change.instance or None)
                assert known.get(key) != (tuple(change.visible) if change.open else None)
                if change.open:
                    known[key] = tuple(change.visible)
                else:
                    del known[key]
            assert known is None or known == dict(presence)
    assert revs == list(range(1, view.rev + 1))
