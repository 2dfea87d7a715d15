"""The grant state, feature sets, and the check of one message. The tables of cases are in ``vectors/``."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.capabilities import CAPABILITY_PATHS, EXTENSION_CAPABILITIES, VOCABULARY, capability_granted
from mcpl_core.errors import (
    CapabilityDenied,
    FeatureSetNotEnabled,
    InvalidParams,
    InvalidValueError,
    UnknownFeatureSet,
)
from mcpl_core.grants import (
    FeatureSetStatus,
    GrantState,
    Malformed,
    check_feature_set,
    check_method,
    derive_feature_sets,
    feature_set_name_matches,
    grant_from_update,
    is_name_pattern,
)

OBSERVE = "contextHooks.beforeInference.observe"
SYSTEM = "contextHooks.beforeInference.inject.system"
FIELDS = ("effectiveCapabilities", "deniedCapabilities", "enabled", "disabled")

NAMES = st.sampled_from(["a", "memory", "memory.a", "memory.b.c", "notes.x"])
NAME_PATTERNS = NAMES | st.sampled_from(["*", "memory.*", "memory.b.*", "mem*"])
ENTRIES = st.sampled_from([*CAPABILITY_PATHS, "channels.*", "*", "*.*", "channels", "telepathy"])
JUNK = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
STATES = st.builds(
    GrantState,
    st.lists(ENTRIES, max_size=4).map(tuple),
    st.none() | st.lists(NAME_PATTERNS, max_size=3).map(tuple),
    st.lists(NAME_PATTERNS, max_size=3).map(tuple),
    st.booleans(),
)
#: Params as any peer may send them: fields of the right and of the wrong type, or no object at all.
FIELD = st.lists(st.sampled_from(["tools", "channels.*", "memory.*"]), max_size=3) | st.lists(JUNK, max_size=2) | JUNK
PARAMS = st.dictionaries(st.sampled_from([*FIELDS, "other"]), FIELD, max_size=5) | JUNK
DECLARED = st.dictionaries(
    NAMES,
    st.fixed_dictionaries({"uses": st.lists(st.sampled_from(CAPABILITY_PATHS), max_size=3) | JUNK}),
    max_size=4,
)


def allowed(state: GrantState) -> set[str]:
    return {path for path in CAPABILITY_PATHS if state.allows(path)}


def selected(state: GrantState) -> set[str]:
    names = ("a", "memory", "memory.a", "memory.b.c", "notes.x")
    return {name for name in names if state.deselected(name) is None}


@pytest.mark.spec("5.3-5")
def test_before_any_policy_nothing_is_allowed() -> None:
    assert allowed(GrantState()) == set()
    assert not GrantState().ready
    assert allowed(GrantState(CAPABILITY_PATHS)) == set(), "entries without readiness allow nothing"


@pytest.mark.spec("5.4-1", "5.4-8")
def test_only_the_effective_list_is_consulted() -> None:
    policy = {"effectiveCapabilities": ["tools"], "deniedCapabilities": ["pushEvents", "channels.*"]}
    assert allowed(grant_from_update(None, policy, "request").state) == {"tools"}
    assert allowed(grant_from_update(None, {"advertised": list(CAPABILITY_PATHS)}, "request").state) == set()


@pytest.mark.spec("5.4-8", "R-grant-1")
def test_a_pattern_beside_its_path_in_the_other_list_is_no_conflict() -> None:
    policy = {"effectiveCapabilities": ["channels.*"], "deniedCapabilities": ["channels.publish"]}
    outcome = grant_from_update(None, policy, "request")
    assert (outcome.malformed, outcome.conflicts) == (None, ())
    assert outcome.state.allows("channels.publish")


@pytest.mark.spec("5.4-9", "R-grant-1")
def test_a_path_in_both_lists_fails_closed() -> None:
    before = GrantState(("tools", "pushEvents"), ("a",), ("b",), ready=True)
    policy = {"effectiveCapabilities": ["tools", "x"], "deniedCapabilities": ["y", "x"], "enabled": ["c"]}
    outcome = grant_from_update(before, policy, "request")
    assert outcome.state == GrantState((), ("a",), ("b",), ready=False)
    assert outcome.conflicts == ("x",)
    assert outcome.malformed is not None
    assert (outcome.malformed.code, outcome.malformed.path) == ("path_in_both_lists", "$.deniedCapabilities[1]")


@pytest.mark.spec("6.7-17")
@given(STATES, st.lists(ENTRIES, max_size=4))
def test_a_request_leaves_nothing_of_the_grant_before(before: GrantState, entries: list[str]) -> None:
    policy = {"effectiveCapabilities": entries}
    assert grant_from_update(before, policy, "request") == grant_from_update(None, policy, "request")


@pytest.mark.spec("5.4-9", "R-grant-2")
@given(STATES, PARAMS)
def test_a_malformed_request_allows_nothing_and_selects_nothing_new(before: GrantState, params: Any) -> None:
    outcome = grant_from_update(before, params, "request")
    if outcome.malformed is not None:
        assert outcome.state == replace(before, effective_capabilities=(), ready=False)
        assert allowed(outcome.state) == set()
    else:
        assert outcome.state.ready
        assert outcome.conflicts == ()


@pytest.mark.spec("6.7-3", "6.7-4", "6.7-5", "5.3-12")
@given(STATES, PARAMS)
def test_a_notification_never_widens(before: GrantState, params: Any) -> None:
    after = grant_from_update(before, params, "notification").state
    assert after.effective_capabilities == before.effective_capabilities
    assert after.enabled_feature_sets == before.enabled_feature_sets
    assert after.ready == before.ready
    assert set(after.disabled_feature_sets) >= set(before.disabled_feature_sets)
    assert selected(after) <= selected(before)


@given(STATES, st.lists(PARAMS, max_size=4))
def test_no_row_of_notifications_widens(before: GrantState, messages: list[Any]) -> None:
    after = before
    for params in messages:
        after = grant_from_update(after, params, "notification").state
    assert allowed(after) == allowed(before)
    assert selected(after) <= selected(before)


@given(STATES, PARAMS)
def test_an_update_is_applied_whole_or_not_at_all(before: GrantState, params: Any) -> None:
    outcome = grant_from_update(before, params, "request")
    if outcome.malformed is None:
        lists = {name: tuple(dict.fromkeys(params[name])) for name in FIELDS if name in params}
        assert outcome.state == GrantState(
            lists.get("effectiveCapabilities", ()), lists.get("enabled"), lists.get("disabled", ()), True
        )


@pytest.mark.spec("6.7-4", "R-grant-2")
@pytest.mark.parametrize("params", [None, [], "x", {"disabled": None}, {"disabled": ["a", 1]}])
def test_a_notification_that_cannot_be_read_changes_nothing(params: Any) -> None:
    before = GrantState(("tools",), ("a", "b"), ("c",), True)
    outcome = grant_from_update(before, params, "notification")
    assert outcome.malformed is not None
    assert outcome.state == before


def test_an_update_without_params() -> None:
    assert grant_from_update(None, msgspec.UNSET, "request").state == GrantState(ready=True)
    assert grant_from_update(None, msgspec.UNSET, "notification").state == GrantState()


def test_the_state_before_is_not_touched() -> None:
    before = GrantState(("tools",), None, ("a",), True)
    grant_from_update(before, {"disabled": ["b"]}, "notification")
    grant_from_update(before, None, "request")
    assert before == GrantState(("tools",), None, ("a",), True)


@pytest.mark.parametrize("form", ["Request", "", None, True])
def test_an_unknown_form_is_refused(form: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        grant_from_update(None, {"effectiveCapabilities": ["tools"]}, form)
    assert caught.value.code == "form"


@pytest.mark.spec("6.6-2", "R-grant-2")
def test_a_malformed_request_is_answered_with_the_place() -> None:
    outcome = grant_from_update(None, {"effectiveCapabilities": ["tools", 5]}, "request")
    assert outcome.malformed is not None
    error = outcome.malformed.as_error()
    assert isinstance(error, InvalidParams)
    assert (error.code, error.data) == (-32602, {"path": "$.effectiveCapabilities[1]"})
    assert Malformed.from_error(InvalidValueError("c", "d", "$.p")) == Malformed("c", "$.p", "d")


@pytest.mark.spec("6.3-1", "R-grant-3")
@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("memory.a", "memory.a", True),
        ("memory.*", "memory.a", True),
        ("memory.*", "memory.a.b", True),
        ("memory.*", "memory.*", True),
        ("memory.*", "memory", False),
        ("memory.*", "memories.a", False),
        ("memory.*", "x.memory.a", False),
        ("*", "memory", True),
        ("*", "memory.a.b", True),
        ("mem*", "memory", False),
        ("*.a", "memory.a", False),
        ("memory.*.b", "memory.a.b", False),
        ("Memory.*", "memory.a", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_feature_set_names(pattern: str, name: str, matches: bool) -> None:
    assert feature_set_name_matches(pattern, name) is matches


@pytest.mark.parametrize("odd", [None, 5, b"a", ["a"]])
def test_what_is_no_name_matches_nothing(odd: Any) -> None:
    assert not feature_set_name_matches(odd, "a")
    assert not feature_set_name_matches("*", odd)
    assert not feature_set_name_matches(odd, odd)
    assert not is_name_pattern(odd)


@given(STATES, NAMES | st.text(max_size=3))
def test_a_selection_says_what_its_patterns_say_one_by_one(state: GrantState, name: str) -> None:
    def named(patterns: tuple[str, ...]) -> bool:
        return any(feature_set_name_matches(pattern, name) for pattern in patterns)

    enabled = state.enabled_feature_sets
    expected = "not_selected" if enabled is not None and not named(enabled) else None
    assert state.deselected(name) == ("host_disabled" if named(state.disabled_feature_sets) else expected)


@pytest.mark.spec("5.4-6")
@given(STATES, ENTRIES | st.text(max_size=3))
def test_a_state_covers_what_its_entries_grant(state: GrantState, path: str) -> None:
    assert state.covers(path) == capability_granted(state.effective_capabilities, path)
    assert state.allows(path) == (state.ready and state.covers(path))


@pytest.mark.parametrize("odd", [None, 5, ["tools"], {}])
def test_what_is_no_path_is_not_granted(odd: Any) -> None:
    assert not GrantState(("*", "tools"), ready=True).allows(odd)


@pytest.mark.parametrize("name", ["effective_capabilities", "enabled_feature_sets", "disabled_feature_sets"])
def test_a_state_is_made_of_lists_of_strings(name: str) -> None:
    for value, code, path in (("tools", "not_array", f"$.{name}"), (["a", 5], "not_string", f"$.{name}[1]")):
        with pytest.raises(InvalidValueError) as caught:
            GrantState(**{name: value})  # type: ignore[arg-type]
        assert (caught.value.code, caught.value.path) == (code, path)
    assert getattr(GrantState(**{name: ["a"]}), name) == ("a",)  # type: ignore[arg-type]


def test_states_can_be_compared_hashed_copied_and_pickled() -> None:
    state = GrantState(("a.*", "tools"), ("x",), ("y.*",), ready=True)
    for twin in (replace(state), copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert twin == state and hash(twin) == hash(state)
        assert twin.allows("a.b") and twin.deselected("y.z") == "host_disabled"
    assert repr(state) == (
        "GrantState(effective_capabilities=('a.*', 'tools'), enabled_feature_sets=('x',), "
        "disabled_feature_sets=('y.*',), ready=True)"
    )


@pytest.mark.spec("5.3-10", "5.3-12")
def test_selection() -> None:
    state = GrantState(enabled_feature_sets=("a", "b"), disabled_feature_sets=("b",))
    assert [state.deselected(name) for name in ("a", "b", "c")] == [None, "host_disabled", "not_selected"]
    assert GrantState().deselected("a") is None


@pytest.mark.spec("5.3-11", "6.4-1", "6.4-3")
@given(DECLARED, STATES, st.lists(NAME_PATTERNS, max_size=3).map(tuple))
def test_selecting_and_declaring_confer_nothing(
    declared: dict[str, Any], state: GrantState, names: tuple[str, ...]
) -> None:
    statuses = derive_feature_sets(declared, replace(state, enabled_feature_sets=names), VOCABULARY)
    for name, status in statuses.items():
        assert not status.enabled or all(state.allows(path) for path in status.uses)
        assert status.missing_capabilities == tuple(path for path in status.uses if not state.allows(path))
        assert status.name == name


@given(DECLARED, STATES)
def test_an_allowlist_only_narrows(declared: dict[str, Any], state: GrantState) -> None:
    free = derive_feature_sets(declared, replace(state, enabled_feature_sets=None, disabled_feature_sets=()))
    narrowed = derive_feature_sets(declared, state)
    assert {n for n, s in narrowed.items() if s.enabled} <= {n for n, s in free.items() if s.enabled}


@pytest.mark.spec("17.5-1", "17.5-9")
def test_changed_uses_are_validated_again() -> None:
    grant = GrantState(("tools",), ready=True)
    before = derive_feature_sets({"a": {"uses": ["tools"]}}, grant)
    after = derive_feature_sets({"a": {"uses": ["tools", "telepathy"]}}, grant)
    assert (before["a"].enabled, after["a"].reason) == (True, "invalid_uses")


@given(st.recursive(JUNK, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=2), inner)), STATES)
def test_any_declaration_can_be_derived(declared: Any, state: GrantState) -> None:
    statuses = derive_feature_sets(declared, state)
    assert set(statuses) == (set(declared) if isinstance(declared, dict) else set())
    assert all(status.reason == "invalid_uses" for status in statuses.values())


def test_a_name_that_is_no_string_declares_nothing() -> None:
    assert list(derive_feature_sets({5: {"uses": ["tools"]}, "a": {}}, GrantState(("tools",), ready=True))) == ["a"]


def test_extension_paths_in_uses() -> None:
    extended = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
    declared = {"edit": {"uses": ["stateUpdate"]}, "act": {"uses": ["access.token"]}}
    statuses = derive_feature_sets(declared, GrantState(("stateUpdate", "access.token"), ready=True), extended)
    assert statuses["edit"] == FeatureSetStatus("edit", ("stateUpdate",))
    assert statuses["act"] == FeatureSetStatus("act", (), "invalid_uses", (), ("access.token",))


def test_a_method_without_a_capability_is_always_free() -> None:
    assert check_method(GrantState(), ()) is None


@pytest.mark.spec("5.3-5", "6.6-2")
def test_a_method_before_the_first_policy() -> None:
    denied = check_method(GrantState(("tools",)), ("tools",))
    assert isinstance(denied, CapabilityDenied)
    assert (denied.code, denied.data) == (-32002, {"capability": "tools", "reason": "not_ready"})


@pytest.mark.spec("5.4-6", "6.6-2")
def test_one_alternative_is_enough() -> None:
    hooks = (OBSERVE, SYSTEM)
    assert check_method(GrantState((OBSERVE,), ready=True), hooks) is None
    assert check_method(GrantState((SYSTEM,), ready=True), hooks) is None
    denied = check_method(GrantState(("tools",), ready=True), hooks)
    assert denied is not None
    assert denied.data == {"capability": OBSERVE, "anyOf": [OBSERVE, SYSTEM]}


@pytest.mark.parametrize("alternatives", ["tools", None, 5, ["tools", 5]])
def test_alternatives_are_a_collection_of_paths(alternatives: Any) -> None:
    for check in (check_method, lambda _, paths: check_feature_set({"a": FeatureSetStatus("a")}, "a", paths)):
        with pytest.raises(InvalidValueError) as caught:
            check(GrantState(("tools",), ready=True), alternatives)
        assert caught.value.path in {"$.alternatives", "$.alternatives[1]"}


def test_alternatives_given_as_a_set_are_named_in_order() -> None:
    denied = check_method(GrantState(ready=True), frozenset({"pushEvents", "modelInfo", "tools"}))
    assert denied is not None
    assert denied.data == {"capability": "modelInfo", "anyOf": ["modelInfo", "pushEvents", "tools"]}


@given(STATES, st.frozensets(ENTRIES | st.text(max_size=3), max_size=4), st.lists(ENTRIES, max_size=4).map(tuple))
def test_a_frozen_set_decides_as_every_other_collection(
    state: GrantState, paths: frozenset[str], uses: tuple[str, ...]
) -> None:
    statuses = {"a": FeatureSetStatus("a", uses)}
    for found, expected in (
        (check_method(state, paths), check_method(state, sorted(paths))),
        (check_feature_set(statuses, "a", paths), check_feature_set(statuses, "a", sorted(paths))),
    ):
        assert (found is None) == (expected is None)
        assert getattr(found, "data", None) == getattr(expected, "data", None)


STATUSES = {
    "on": FeatureSetStatus("on", ("tools", "pushEvents")),
    "off": FeatureSetStatus("off", ("tools",), "not_selected"),
}


@pytest.mark.spec("6.6-2")
@pytest.mark.parametrize("name", ["ghost", "", None, 5, ["on"]])
def test_an_undeclared_feature_set(name: Any) -> None:
    error = check_feature_set(STATUSES, name, ("tools",))
    assert isinstance(error, UnknownFeatureSet)
    assert (error.code, error.data) == (-32003, {"featureSet": name})


@pytest.mark.spec("6.6-2")
def test_a_feature_set_that_is_off() -> None:
    error = check_feature_set(STATUSES, "off", ("tools",))
    assert isinstance(error, FeatureSetNotEnabled)
    assert (error.code, error.data) == (-32001, {"featureSet": "off", "reason": "not_selected"})


@pytest.mark.spec("6.6-2")
def test_a_feature_set_that_does_not_declare_what_it_exercises() -> None:
    assert check_feature_set(STATUSES, "on", ("modelInfo", "pushEvents")) is None
    assert check_feature_set(STATUSES, "on", ()) is None
    error = check_feature_set(STATUSES, "on", ("modelInfo",))
    assert isinstance(error, CapabilityDenied)
    assert error.data == {"capability": "modelInfo", "reason": "declaration_mismatch", "featureSet": "on"}
