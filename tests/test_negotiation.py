"""The host's computation: the effective grant, the split of a change, and what an answer makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.capabilities import CAPABILITY_PATHS, EXTENSION_CAPABILITIES, EXTENSION_PATHS, VOCABULARY
from mcpl_core.errors import InvalidValueError
from mcpl_core.grants import GrantState, Malformed, grant_from_update
from mcpl_core.negotiation import (
    Settlement,
    concrete_names,
    effective_grant,
    ineffective_patterns,
    intersect_grants,
    plan_change,
    policy_params,
    settle,
)
from mcpl_core.receipts import AcceptedReceipt, RefusedReceipt, UnavailableFeature, read_receipt

INJECT = "contextHooks.beforeInference.inject"
SYSTEM = f"{INJECT}.system"
EXTENDED = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
SETS = ("a", "memory", "memory.a", "memory.b.c", "notes.x")

PATHS = st.sampled_from([*CAPABILITY_PATHS, *EXTENSION_PATHS])
SEGMENTS = st.sampled_from(["channels", "publish", "contextHooks", "beforeInference", "tools", "*", "chan*"])
PATTERNS = PATHS | st.lists(SEGMENTS, min_size=1, max_size=4).map(".".join)
NAMES = st.sampled_from([*SETS, "*", "memory.*", "memory.b.*", "mem*"])


def states(entries: st.SearchStrategy[str]) -> st.SearchStrategy[GrantState]:
    return st.builds(
        GrantState,
        st.lists(entries, max_size=5).map(tuple),
        st.none() | st.lists(NAMES, max_size=3).map(tuple),
        st.lists(NAMES, max_size=3).map(tuple),
        st.booleans(),
    )


STATES = states(PATHS)
RECEIPTS = st.builds(
    AcceptedReceipt, st.lists(st.builds(UnavailableFeature, st.text(), st.lists(PATHS).map(tuple))).map(tuple)
) | st.builds(RefusedReceipt, st.sampled_from(["mcp-only", "close"]), st.lists(PATHS).map(tuple))
ANSWERS = st.none() | st.just(Malformed("not_object", "$", "")) | RECEIPTS


def allowed(state: GrantState, paths: Iterable[str] = (*CAPABILITY_PATHS, *EXTENSION_PATHS)) -> set[str]:
    return {path for path in paths if state.allows(path)}


def selected(state: GrantState) -> set[str]:
    return {name for name in SETS if state.deselected(name) is None}


@pytest.mark.spec("R-caps-4")
def test_the_grant_is_advertisement_and_policy_in_common() -> None:
    advertised = ["pushEvents", "channels.typing", "channels.publish", "tools"]
    assert effective_grant(advertised, ["tools", "channels.*", "modelInfo"]) == (
        "channels.publish", "channels.typing", "tools",
    )  # fmt: skip
    assert effective_grant(advertised, []) == ()
    assert effective_grant([], ["*", "*.*"]) == ()
    assert effective_grant(advertised, ["*", "*.*"], ["channels.*"]) == ("pushEvents", "tools")


@pytest.mark.spec("13.4-2", "R-caps-4")
@pytest.mark.parametrize("path", [SYSTEM, *EXTENSION_PATHS])
def test_a_path_that_is_denied_by_default_must_be_named(path: str) -> None:
    stars = ["*", "*.*", "*.*.*", "*.*.*.*", f"{INJECT}.*", f"{path.rpartition('.')[0]}.*", "contextHooks.*.*.system"]
    assert effective_grant([path], stars, vocabulary=EXTENDED) == ()
    assert effective_grant([path], [*stars, path], vocabulary=EXTENDED) == (path,)
    assert effective_grant([path], [path], [path], vocabulary=EXTENDED) == ()
    assert effective_grant([path], [path], [stars[1], *stars], vocabulary=EXTENDED) == ()


def test_paths_outside_the_vocabulary_are_dropped() -> None:
    assert effective_grant(["stateUpdate", "telepathy", "tools"], ["stateUpdate", "telepathy", "tools"]) == ("tools",)


@given(st.lists(PATHS), st.lists(PATTERNS), st.lists(PATTERNS))
def test_the_grant_never_exceeds_the_advertisement(advertised: list[str], allow: list[str], deny: list[str]) -> None:
    grant = effective_grant(advertised, allow, deny, EXTENDED)
    assert set(grant) <= set(advertised)
    assert list(grant) == sorted(set(grant))
    assert not any("*" in path for path in grant)
    assert set(grant) <= set(effective_grant(advertised, allow, (), EXTENDED))
    assert set(grant) <= set(effective_grant(EXTENDED, [*allow, "tools"], (), EXTENDED))


@pytest.mark.parametrize("lists", [("tools", ["tools"]), (["tools"], "tools"), (["tools"], ["tools"], "tools")])
def test_a_bare_string_is_no_list_of_patterns(lists: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        effective_grant(*lists)
    assert caught.value.code == "not_array"


def test_patterns_are_strings() -> None:
    with pytest.raises(InvalidValueError) as caught:
        effective_grant(["tools"], ["tools", 5])  # type: ignore[list-item]
    assert (caught.value.code, caught.value.path) == ("not_string", "$.allow[1]")
    for lists, path in (((["a", 5], []), "$.allow[1]"), (([], [5]), "$.deny[0]")):
        with pytest.raises(InvalidValueError) as caught:
            ineffective_patterns(*lists)
        assert (caught.value.code, caught.value.path) == ("not_string", path)
    with pytest.raises(InvalidValueError) as caught:
        effective_grant(["tools"], ["tools"], ["tools", 5])  # type: ignore[list-item]
    assert (caught.value.code, caught.value.path) == ("not_string", "$.deny[1]")


def test_entries_that_can_do_nothing_are_found() -> None:
    idle = ["channels", "channels.**", "contextHooks.*", "chanels.publish", "", "branches.*"]
    assert ineffective_patterns([*idle, "tools", "channels.*", SYSTEM, "*"]) == tuple(idle)
    assert ineffective_patterns(["branches.*", "branches.list"], vocabulary=EXTENDED) == ("branches.*",)
    assert ineffective_patterns([], [*idle, f"{INJECT}.system", "*"]) == tuple(idle)
    assert ineffective_patterns([], ["branches.*"], EXTENDED) == ()


@pytest.mark.parametrize(
    ("names", "path"),
    [
        (("memory.*", ["a"]), "$.patterns"),
        ((["*"], "memory.a"), "$.declared"),
        ((None, []), "$.patterns"),
        ((["a", 5], []), "$.patterns[1]"),
    ],
)
def test_a_bare_string_is_no_list_of_names(names: Any, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        concrete_names(*names)
    assert caught.value.path == path
    with pytest.raises(InvalidValueError) as caught:
        policy_params(GrantState(), "tools")
    assert (caught.value.code, caught.value.path) == ("not_array", "$.advertised")


def test_names_on_the_wire_are_concrete() -> None:
    declared = ["memory.a", "memory.b.c", "notes"]
    assert concrete_names(["memory.*"], declared) == ("memory.a", "memory.b.c")
    assert concrete_names(["*", "later"], declared) == ("later", "memory.a", "memory.b.c", "notes")
    assert concrete_names(["notes", "notes", "a*"], declared) == ("a*", "notes")
    assert concrete_names(["x.*"], declared) == ()


def test_the_params_of_a_policy() -> None:
    grant = GrantState(("tools", "channels.publish"), ("b", "a"), ("d", "c"), ready=True)
    assert policy_params(grant, ["tools", SYSTEM, "modelInfo"]) == {
        "effectiveCapabilities": ["channels.publish", "tools"],
        "deniedCapabilities": [SYSTEM, "modelInfo"],
        "enabled": ["a", "b"],
        "disabled": ["c", "d"],
    }
    assert policy_params(GrantState()) == {"effectiveCapabilities": []}
    assert policy_params(GrantState(("tools",), ()), ["tools"]) == {"effectiveCapabilities": ["tools"], "enabled": []}


@pytest.mark.spec("R-caps-4")
def test_a_pattern_does_not_go_on_the_wire() -> None:
    with pytest.raises(InvalidValueError) as caught:
        policy_params(GrantState(("tools", "channels.*")))
    assert (caught.value.code, caught.value.path) == ("pattern_on_wire", "$.effective_capabilities[1]")


@given(STATES, st.lists(PATHS))
def test_a_server_reads_exactly_the_policy_that_was_written(state: GrantState, advertised: list[str]) -> None:
    outcome = grant_from_update(None, policy_params(state, advertised), "request")
    assert outcome.malformed is None
    assert allowed(outcome.state) == allowed(replace(state, ready=True))
    assert selected(outcome.state) == selected(state)


@given(states(PATTERNS), states(PATTERNS))
def test_an_intersection_allows_what_both_allow(one: GrantState, other: GrantState) -> None:
    both = intersect_grants(one, other)
    assert allowed(both) == allowed(one) & allowed(other)
    assert selected(both) == selected(one) & selected(other)
    assert both.ready == (one.ready and other.ready)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("channels.*", "channels.publish", ("channels.publish",)),
        ("channels.*", "*.publish", ("channels.publish",)),
        ("*.*", "*.publish", ("*.publish",)),
        ("channels.*", "*", ()),
        ("a.*", "b.*", ()),
        ("a.*", "a.", ()),
        ("a.*", "a.*", ("a.*",)),
    ],
)
def test_intersections_of_patterns(one: str, other: str, both: tuple[str, ...]) -> None:
    assert intersect_grants(GrantState((one,)), GrantState((other,))).effective_capabilities == both
    assert intersect_grants(GrantState((other,)), GrantState((one,))).effective_capabilities == both


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (("memory.*",), ("memory.a", "notes"), ("memory.a",)),
        (("*",), ("memory.*",), ("memory.*",)),
        (("memory.*", "a"), ("memory.b.*", "a", "b"), ("a", "memory.b.*")),
        (("memory.*",), ("notes.*",), ()),
        (("memory",), ("memory.*",), ()),
        (("memory.*",), ("memory.*",), ("memory.*",)),
        (None, ("a",), ("a",)),
        (None, None, None),
    ],
)
def test_intersections_of_selections(one: Any, other: Any, both: Any) -> None:
    assert intersect_grants(GrantState((), one), GrantState((), other)).enabled_feature_sets == both
    assert intersect_grants(GrantState((), other), GrantState((), one)).enabled_feature_sets == both


def test_the_first_policy() -> None:
    change = plan_change(GrantState(), GrantState(("tools",)))
    assert change.initial
    assert change.needed
    assert (change.reduced, change.expanded) == ((), ("tools",))
    assert allowed(change.in_force) == set()
    assert plan_change(GrantState(), GrantState()).needed, "sent even when nothing is granted"


def test_a_change_that_adds_and_removes() -> None:
    now = GrantState(("pushEvents", "tools"), ("a", "b"), (), ready=True)
    change = plan_change(now, GrantState(("tools", "modelInfo"), ("b", "c"), ("d",)))
    assert not change.initial
    assert change.in_force == GrantState(("tools",), ("b",), ("d",), ready=True)
    assert change.proposed == GrantState(("tools", "modelInfo"), ("b", "c"), ("d",), ready=True)
    assert (change.reduced, change.expanded) == (("pushEvents",), ("modelInfo",))


def test_nothing_to_tell() -> None:
    now = GrantState(("pushEvents", "tools"), None, ("a",), ready=True)
    assert not plan_change(now, GrantState(("tools", "pushEvents"), None, ("a",))).needed
    for other in (
        replace(now, effective_capabilities=("tools",)),
        replace(now, enabled_feature_sets=()),
        replace(now, disabled_feature_sets=()),
    ):
        assert plan_change(now, other).needed


@given(STATES, STATES)
def test_a_reduction_is_in_force_before_anything_is_sent(now: GrantState, policy: GrantState) -> None:
    change = plan_change(now, policy)
    assert allowed(change.in_force) == allowed(now) & allowed(change.proposed)
    assert selected(change.in_force) == selected(now) & selected(policy)
    assert change.in_force.ready == now.ready
    assert change.proposed == replace(policy, ready=True)
    assert set(change.reduced) == set(now.effective_capabilities) - set(policy.effective_capabilities)
    assert set(change.expanded) == set(policy.effective_capabilities) - set(now.effective_capabilities)


@pytest.mark.spec("6.7-10", "R-host-3")
@given(STATES, STATES, ANSWERS)
def test_no_answer_brings_more_than_was_proposed(now: GrantState, policy: GrantState, answer: Any) -> None:
    change = plan_change(now, policy)
    after = settle(change, answer)
    assert allowed(after.grant) <= allowed(change.proposed)
    if after.grant.ready:
        assert selected(after.grant) <= selected(change.proposed)
    if not isinstance(answer, AcceptedReceipt):
        assert allowed(after.grant) <= allowed(change.in_force)


@pytest.mark.spec("6.7-10")
@given(STATES, STATES, RECEIPTS, RECEIPTS)
def test_what_a_receipt_says_has_no_part_in_the_grant(
    now: GrantState, policy: GrantState, one: Any, other: Any
) -> None:
    if type(one) is type(other) and getattr(one, "fallback", None) == getattr(other, "fallback", None):
        assert settle(plan_change(now, policy), one) == settle(plan_change(now, policy), other)


FIRST = plan_change(GrantState(), GrantState(("tools",)))
LATER = plan_change(GrantState(("pushEvents", "tools"), ready=True), GrantState(("tools", "modelInfo")))
TOOLS, WIDER = GrantState(("tools",), ready=True), GrantState(("tools", "modelInfo"), ready=True)
BAD = read_receipt({"accepted": False})


@pytest.mark.spec("R-host-3")
def test_the_outcomes_of_the_first_policy() -> None:
    assert settle(FIRST, AcceptedReceipt()) == Settlement(TOOLS, "mcpl")
    assert settle(FIRST, RefusedReceipt("mcp-only")) == Settlement(GrantState(), "mcp-only")
    assert settle(FIRST, RefusedReceipt("close")) == Settlement(GrantState(), "close")
    assert settle(FIRST, BAD) == Settlement(GrantState(), "mcp-only")
    assert settle(FIRST, None) == Settlement(GrantState(), "mcp-only")


@pytest.mark.spec("R-host-3")
def test_the_outcomes_of_a_later_change() -> None:
    assert settle(LATER, AcceptedReceipt()) == Settlement(WIDER, "mcpl")
    assert settle(LATER, RefusedReceipt("mcp-only")) == Settlement(GrantState(), "mcp-only")
    assert settle(LATER, RefusedReceipt("close")) == Settlement(GrantState(), "close")
    assert settle(LATER, BAD) == Settlement(TOOLS, "mcpl")
    assert settle(LATER, None) == Settlement(TOOLS, "mcpl")


def test_a_reduction_while_an_answer_was_awaited_stands() -> None:
    assert settle(LATER, AcceptedReceipt(), GrantState(("modelInfo",))).grant == GrantState(("modelInfo",), ready=True)
    assert settle(LATER, None, GrantState(("modelInfo",))).grant == GrantState((), ready=True)
    assert settle(FIRST, AcceptedReceipt(), GrantState()).grant == GrantState(ready=True)
