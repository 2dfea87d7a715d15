"""A server's own manifest: what is announced to whom, and when."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mcpl_core.errors import InvalidValueError
from mcpl_core.manifest.diff import changed_domains
from mcpl_core.manifest.digest import manifest_digest
from mcpl_core.manifest.tracker import Announcement, ManifestTracker, ManifestUpdate
from mcpl_core.protocol.manifest import CHANGE_DOMAINS, ManifestChangedParams

BASE: dict[str, Any] = {
    "version": "0.5",
    "pushEvents": True,
    "featureSets": {"memory": {"description": "d", "uses": ["tools", "pushEvents"]}},
}
MORE: dict[str, Any] = {**BASE, "modelInfo": True}
NO_SETS: dict[str, Any] = {"version": "0.5", "pushEvents": True}


def tracker(*connections: str) -> ManifestTracker[str]:
    result: ManifestTracker[str] = ManifestTracker(BASE)
    for connection in connections:
        result.attach(connection)
    return result


@pytest.mark.spec("17.1-1", "17.1-3", "17.1-4", "17.4-1")
def test_a_snapshot_is_complete_and_carries_the_revision() -> None:
    own: ManifestTracker[str] = ManifestTracker({**BASE, "revision": "by hand"})
    snapshot = own.snapshot()
    assert snapshot == {
        **BASE,
        "featureSets": {"memory": {"description": "d", "uses": ["pushEvents", "tools"]}},
        "revision": manifest_digest(BASE),
    }
    assert own.revision == manifest_digest(snapshot) == snapshot["revision"]


def test_nothing_outside_reaches_the_manifest_in_force() -> None:
    manifest = copy.deepcopy(BASE)
    own: ManifestTracker[str] = ManifestTracker(manifest)
    before = own.snapshot()
    manifest["featureSets"]["memory"]["uses"].clear()
    own.snapshot()["featureSets"].clear()
    with own.transaction() as transaction:
        pass
    transaction.manifest.clear()
    assert own.snapshot() == before


def test_a_tree_without_a_digest_is_refused() -> None:
    trees: list[Any] = [{"a b": 1}, {"featureSets": {"f": {"uses": [""]}}}, {"n": float("nan")}, []]
    for bad in trees:
        with pytest.raises(InvalidValueError):
            ManifestTracker(bad)
        own = tracker("a")
        with pytest.raises(InvalidValueError):
            own.set(bad)
        assert (own.revision, own.catch_up("a")) == (manifest_digest(BASE), None)


@pytest.mark.spec("17.10-4")
def test_a_fresh_connection_is_told_nothing() -> None:
    own = tracker("a")
    own.attach("b", own.revision)
    assert own.set(copy.deepcopy(BASE)) == ManifestUpdate(False, own.revision, own.revision)
    assert [own.catch_up(connection) for connection in ("a", "b")] == [None, None]


@pytest.mark.spec("17.3-1", "17.3-2")
def test_a_change_is_announced_once() -> None:
    own = tracker("a")
    before = own.revision
    update = own.set(MORE)
    announcement = Announcement("a", manifest_digest(MORE), ("capabilities",))
    assert update == ManifestUpdate(True, manifest_digest(MORE), before, ("capabilities",), (announcement,))
    assert announcement.params == {"revision": manifest_digest(MORE), "domains": ["capabilities"]}
    msgspec.convert(announcement.params, ManifestChangedParams)
    assert own.set(MORE).announcements == ()
    assert own.catch_up("a") is None


@pytest.mark.spec("R-man-5", "17.3-2")
def test_a_version_alone_is_not_announced() -> None:
    own = tracker("a")
    update = own.set({**BASE, "version": "0.6"})
    assert (update.changed, update.domains, update.announcements) == (True, (), ())
    assert own.catch_up("a") is None
    assert own.set({**MORE, "version": "0.6"}).domains == ("capabilities",)


@pytest.mark.spec("17.10-3")
def test_each_connection_is_told_what_differs_for_it() -> None:
    own = tracker("early")
    own.attach("stale", "sha256:" + "A" * 43)
    assert [a.domains for a in own.set(MORE).announcements] == [("capabilities",), CHANGE_DOMAINS]
    own.attach("late")
    own.attach("older", manifest_digest(BASE))
    update = own.set(NO_SETS)
    assert {a.connection: a.domains for a in update.announcements} == {
        "early": CHANGE_DOMAINS,
        "stale": CHANGE_DOMAINS,
        "late": CHANGE_DOMAINS,
        "older": CHANGE_DOMAINS,
    }
    own.attach("fresh")
    update = own.set({**NO_SETS, "modelInfo": True})
    assert {a.domains for a in update.announcements} == {("capabilities",)}


def test_a_connection_that_missed_changes_is_told_of_all_of_them() -> None:
    own = tracker("a")
    own.attach("b", "sha256:" + "A" * 43)
    assert own.catch_up("b") == Announcement("b", own.revision, CHANGE_DOMAINS)
    assert own.catch_up("b") is None
    assert own.catch_up("nobody") is None


def test_a_connection_that_knows_the_new_revision_already_is_not_told() -> None:
    own = tracker()
    own.attach("a", manifest_digest(MORE))
    assert own.set(MORE).announcements == ()
    assert [a.domains for a in own.set(BASE).announcements] == [("capabilities",)]


@pytest.mark.parametrize("revision", [None, manifest_digest(BASE)])
def test_a_connection_that_knows_the_manifest_in_force_is_told_what_differs(revision: str | None) -> None:
    own = tracker()
    own.attach("a", revision)
    assert [a.domains for a in own.set(MORE).announcements] == [("capabilities",)]


def test_attaching_again_forgets_what_was_told() -> None:
    own = tracker("a")
    own.attach("a", "sha256:" + "A" * 43)
    assert [a.domains for a in own.set(MORE).announcements] == [CHANGE_DOMAINS]


def test_a_detached_connection_is_not_told() -> None:
    own = tracker("a", "b")
    assert list(own.connections) == ["a", "b"]
    assert [own.detach("a"), own.detach("a")] == [True, False]
    assert list(own.connections) == ["b"]
    assert [a.connection for a in own.set(MORE).announcements] == ["b"]


@pytest.mark.spec("17.8-1")
def test_a_transaction_announces_once() -> None:
    own = tracker("a")
    with own.transaction() as transaction:
        for name in ("modelInfo", "inferenceLifecycle", "inferenceRequest"):
            transaction.manifest[name] = True
        transaction.manifest["featureSets"]["memory"]["description"] = "e"
        transaction.manifest["featureSets"]["memory"]["tagOntology"] = {}
        transaction.manifest["featureSets"]["more"] = {"uses": ["tools"]}
        assert (own.revision, own.snapshot()["version"]) == (manifest_digest(BASE), "0.5")
        assert transaction.update == ManifestUpdate(False, own.revision, own.revision, pending=True)
    assert [a.domains for a in transaction.update.announcements] == [CHANGE_DOMAINS]
    assert transaction.update.changed and transaction.update.revision == own.revision


def test_a_transaction_without_an_effect_announces_nothing() -> None:
    own = tracker("a")
    with own.transaction() as transaction:
        transaction.manifest["modelInfo"] = True
        del transaction.manifest["modelInfo"]
    assert transaction.update == ManifestUpdate(False, own.revision, own.revision)


class Stop(Exception):
    pass


@pytest.mark.spec("17.10-5")
def test_a_transaction_that_raises_changes_nothing() -> None:
    own = tracker("a")
    before = own.snapshot()
    with pytest.raises(Stop), own.transaction() as transaction:
        transaction.manifest["modelInfo"] = True
        own.set(MORE)
        raise Stop
    assert (own.snapshot(), own.catch_up("a")) == (before, None)
    assert transaction.update == ManifestUpdate(False, own.revision, own.revision)
    assert own.set(MORE).changed


@pytest.mark.spec("17.10-5")
def test_a_draft_without_a_digest_changes_nothing() -> None:
    own = tracker("a")
    before = own.snapshot()
    with pytest.raises(InvalidValueError) as caught, own.transaction() as transaction:
        transaction.manifest["a b"] = True
    assert caught.value.code == "identifier_charset"
    assert (own.snapshot(), own.catch_up("a")) == (before, None)
    assert own.set(MORE).changed


def test_setting_inside_a_transaction_replaces_its_draft() -> None:
    own = tracker("a")
    with own.transaction() as transaction:
        draft = transaction.manifest
        update = own.set({**NO_SETS, "revision": "by hand"})
        assert (update.pending, update.changed, update.announcements) == (True, False, ())
        assert draft is transaction.manifest and draft == NO_SETS
        with pytest.raises(InvalidValueError):
            own.set({"a b": 1})
        draft["modelInfo"] = True
    assert transaction.update.revision == own.revision == manifest_digest({**NO_SETS, "modelInfo": True})
    assert [a.domains for a in transaction.update.announcements] == [CHANGE_DOMAINS]


def test_a_draft_cannot_be_lost_to_an_assignment() -> None:
    own = tracker("a")
    with own.transaction() as transaction:
        with pytest.raises(AttributeError):
            transaction.manifest = MORE  # type: ignore[misc]
        transaction.manifest["modelInfo"] = True
    assert own.revision == manifest_digest({**BASE, "modelInfo": True})


def test_a_nested_transaction_joins_the_outer_one() -> None:
    own = tracker("a")
    with own.transaction() as outer:
        outer.manifest["modelInfo"] = True
        with own.transaction() as inner:
            assert inner.manifest is outer.manifest
            inner.manifest["inferenceLifecycle"] = True
        assert inner.update.pending and own.revision == manifest_digest(BASE)
    assert inner.update.pending
    assert own.revision == manifest_digest({**MORE, "inferenceLifecycle": True})
    assert len(outer.update.announcements) == 1


def test_a_nested_transaction_that_raises_takes_back_its_own_edits() -> None:
    own = tracker("a")
    with own.transaction() as outer:
        outer.manifest["modelInfo"] = True
        with pytest.raises(Stop), own.transaction() as inner:
            inner.manifest["featureSets"]["memory"]["uses"].clear()
            raise Stop
        assert not inner.update.pending
    assert own.revision == manifest_digest(MORE)


MANIFESTS = [
    BASE,
    MORE,
    NO_SETS,
    {"version": "0.6"},
    {**BASE, "version": "0.6"},
    {**BASE, "featureSets": {"memory": {"uses": ["tools"], "tagOntology": {"open": True}}}},
]
_connections = st.sampled_from("abc")


class Machine(RuleBasedStateMachine):
    """Hosts that believe announcements alone know each domain that differs from what they last saw."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker: ManifestTracker[str] = ManifestTracker(BASE)
        self.seen: dict[str, dict[str, Any]] = {}
        self.expected: dict[str, Any] = BASE

    def deliver(self, announcements: tuple[Announcement[str], ...]) -> None:
        for announcement in announcements:
            seen = self.seen[announcement.connection]
            assert announcement.domains == changed_domains(seen, self.tracker.snapshot()) != ()
            assert announcement.revision == self.tracker.revision
        for connection in self.seen:
            self.seen[connection] = self.tracker.snapshot()

    @rule(connection=_connections)
    def attach(self, connection: str) -> None:
        self.tracker.attach(connection)
        self.seen[connection] = self.tracker.snapshot()

    @rule(connection=_connections)
    def detach(self, connection: str) -> None:
        assert self.tracker.detach(connection) == (self.seen.pop(connection, None) is not None)

    @rule(manifest=st.sampled_from(MANIFESTS))
    def set(self, manifest: dict[str, Any]) -> None:
        before = {connection: changed_domains(seen, manifest) for connection, seen in self.seen.items()}
        update = self.tracker.set(manifest)
        self.expected = manifest
        assert {a.connection for a in update.announcements} == {c for c, domains in before.items() if domains}
        self.deliver(update.announcements)

    @rule(manifests=st.lists(st.sampled_from(MANIFESTS), max_size=3), fails=st.booleans())
    def transaction(self, manifests: list[dict[str, Any]], fails: bool) -> None:
        try:
            with self.tracker.transaction() as transaction:
                for manifest in manifests:
                    assert self.tracker.set(manifest).pending
                if fails:
                    raise Stop
        except Stop:
            assert transaction.update.announcements == ()
        else:
            self.expected = manifests[-1] if manifests else self.expected
            self.deliver(transaction.update.announcements)

    @invariant()
    def the_snapshot_is_what_was_set_last(self) -> None:
        assert self.tracker.revision == manifest_digest(self.expected) == self.tracker.snapshot()["revision"]
        assert set(self.tracker.connections) == set(self.seen)


Machine.TestCase.settings = settings(max_examples=40, stateful_step_count=15)
TestMachine = Machine.TestCase
