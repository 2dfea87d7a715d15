"""The states that a host keeps."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import UNSET

from mcpl_core.host.state import Checkpoint, StateLimits, States, StateTree

ADD = [{"op": "add", "path": "/notes/-", "value": 1}]


def reason(problem: Any) -> Any:
    return None if problem is None else problem.reason


def tree(**limits: Any) -> StateTree:
    made = StateTree(StateLimits(**limits))
    assert made.record("c1", None, {"notes": []}) is None
    return made


def current(made: StateTree) -> Any:
    assert made.head is not None
    return made.head.data


def test_nothing_goes_with_a_call_before_anything_was_recorded() -> None:
    made = StateTree()
    assert (made.members(), made.head, len(made)) == ({}, None, 0)


def test_data_is_kept_and_goes_with_the_next_call() -> None:
    assert tree().members() == {"state": {"notes": []}}


def test_a_state_of_null_is_a_state() -> None:
    made = StateTree()
    assert made.record("c", None, None) is None
    assert made.members() == {"state": None}


@pytest.mark.spec("8.3-1")
def test_a_patch_changes_its_parents_state() -> None:
    made = tree()
    assert made.record("c2", "c1", patch=ADD) is None
    assert made.record("c3", UNSET, patch=ADD) is None
    assert current(made) == {"notes": [1, 1]}
    assert made.record("b2", "c1", patch=[*ADD, *ADD]) is None
    assert current(made) == {"notes": [1, 1]}
    first = made.find("c1")
    assert first is not None and first.data == {"notes": []}


def test_a_patch_of_nothing_starts_from_an_empty_object() -> None:
    made = StateTree()
    assert made.record("c", None, patch=[{"op": "add", "path": "/a", "value": 1}]) is None
    assert current(made) == {"a": 1}


def test_an_opaque_checkpoint_goes_as_its_name() -> None:
    made = tree()
    assert made.record("o", "c1") is None
    assert made.members() == {"checkpoint": "o"}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"id": "c2", "parent": "c1", "data": 1, "patch": ADD}, "both_forms"),
        ({"id": "c2", "parent": "never", "patch": ADD}, "unknown_parent"),
        ({"id": "c2", "parent": "c1", "patch": [{"op": "test", "path": "", "value": 0}]}, "patch_failed"),
        ({"id": "c2", "parent": "c1", "patch": "no"}, "patch_failed"),
        ({"id": "c1", "parent": None, "data": {"other": 1}}, "checkpoint_exists"),
        ({"id": "c2", "parent": "never", "data": 1, "successor": True}, "parent_mismatch"),
        ({"id": "c2", "parent": None, "data": 1, "successor": True}, "parent_mismatch"),
        ({"id": "x" * 2000, "parent": None, "data": 1}, "too_large"),
        ({"id": "c2", "parent": "x" * 2000, "data": 1}, "too_large"),
        ({"id": "c2", "parent": None, "data": "x" * 5000}, "too_large"),
    ],
)
def test_a_refused_record_changes_nothing(record: dict[str, Any], expected: str) -> None:
    made = tree(state_bytes=4000)
    before = made.checkpoints
    id = record.pop("id")
    assert reason(made.record(id, record.pop("parent"), **record)) == expected
    assert (made.checkpoints, made.current) == (before, "c1")


def test_a_patch_on_what_the_server_keeps_is_refused() -> None:
    made = tree()
    made.record("o", "c1")
    assert reason(made.record("c2", "o", patch=ADD)) == "opaque_parent"


def test_the_same_checkpoint_again_becomes_current() -> None:
    made = tree()
    made.record("c2", "c1", {"notes": [1]})
    assert made.record("c1", None, {"notes": []}) is None
    assert made.current == "c1"
    assert made.record("c2", "c1") is None
    assert current(made) == {"notes": [1]}


def test_without_the_extra_a_patch_is_refused_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "jsonpatch":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    made = tree()
    monkeypatch.setattr(builtins, "__import__", without)
    problem = made.record("c2", "c1", patch=ADD)
    assert problem is not None and problem.reason == "patch_unsupported"
    assert "mcp-live-core[host]" in problem.detail


def test_going_back() -> None:
    made = tree()
    made.record("c2", "c1", {"notes": [1]})
    made.rolled_back("c1", "c1")
    assert current(made) == {"notes": []}
    assert made.record("c3", "c1", patch=ADD) is None
    made.rolled_back("c2", "r1")
    assert made.members() == {"state": {"notes": [1]}}
    assert made.head is not None and made.head.parent == "c2"
    made.rolled_back("gone", "gone", {"new": 1})
    assert made.members() == {"state": {"new": 1}}
    made.rolled_back("unknown", "unknown")
    assert made.members() == {"checkpoint": "unknown"}


def test_going_back_is_bounded() -> None:
    made = tree(state_bytes=100)
    made.rolled_back("c1", "big" * 1000, "x" * 1000)
    assert made.head is not None and (len(made.head.id), made.head.data) == (1024, UNSET)


@pytest.mark.spec("8.7-1")
def test_checkpoints_may_be_gone() -> None:
    made = tree()
    made.forget("c1")
    made.forget("never")
    assert (made.current, made.members()) == (None, {})
    made.record("a", None, 1)
    made.record("b", "a", 2)
    made.forget("a")
    assert made.current == "b"


def test_the_oldest_are_forgotten_and_never_the_current_one() -> None:
    made = tree(checkpoints=3)
    for number in range(10):
        made.record(f"n{number}", UNSET, number)
    assert [checkpoint.id for checkpoint in made.checkpoints] == ["n7", "n8", "n9"]
    made.rolled_back("n7", "n7")
    made.record("m", None, 1)
    made.record("n7", None)
    made.record("k", None, 1)
    made.record("n7", None)
    assert "n7" in [checkpoint.id for checkpoint in made.checkpoints]
    small = tree(tree_bytes=50)
    small.record("a", None, "x" * 30)
    small.record("b", None, "x" * 30)
    assert [checkpoint.id for checkpoint in small.checkpoints] == ["b"]


class Store:
    """A store that is a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], tuple[list[Checkpoint], str | None]] = {}
        self.closed = False

    def load(self) -> Iterable[tuple[str, str, list[Checkpoint], str | None]]:
        return [(server, name, *value) for (server, name), value in self.kept.items()]

    def save(self, server: str, feature_set: str, checkpoints: Iterable[Checkpoint], current: str | None) -> None:
        self.kept[server, feature_set] = (list(checkpoints), current)

    def remove(self, server: str) -> None:
        self.kept = {key: value for key, value in self.kept.items() if key[0] != server}

    def close(self) -> None:
        self.closed = True


def test_servers_and_sets_are_kept_apart_and_survive_in_a_store() -> None:
    store = Store()
    states = States(store=store)
    states.tree("s", "notes").record("c1", None, {"a": 1})
    states.tree("s").record("u1", None, 2)
    states.saved("s", "notes")
    states.saved("s")
    again = States(store=store)
    assert again.tree("s", "notes").members() == {"state": {"a": 1}}
    assert again.tree("s").members() == {"state": 2}
    assert again.tree("t").members() == {}
    again.forget("s")
    again.close()
    assert (store.kept, store.closed, again.tree("s").members()) == ({}, True, {})


def test_without_a_store_nothing_is_kept() -> None:
    states = States()
    states.tree("s").record("c", None, 1)
    states.saved("s")
    states.forget("s")
    states.close()
    assert states.tree("s").members() == {}


def test_a_current_checkpoint_that_a_store_lost_is_none() -> None:
    made = StateTree()
    made.restore([Checkpoint("a", None, 1, 1)], "b")
    assert made.current is None
