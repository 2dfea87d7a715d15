"""What one server may do, and how that changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.capabilities import CAPABILITY_PATHS, EXTENSION_CAPABILITIES, VOCABULARY
from mcpl_core.errors import InvalidValueError
from mcpl_core.grants import GrantState, Malformed
from mcpl_core.host.authority import Authority
from mcpl_core.host.policy import DENY_ALL, HostPolicy
from mcpl_core.manifest import HostFacts, validate_manifest
from mcpl_core.negotiation import PolicyChange
from mcpl_core.receipts import AcceptedReceipt, RefusedReceipt, UnavailableFeature

YES = AcceptedReceipt()
WIDE = HostPolicy.allow("tools", "pushEvents", "modelInfo", "channels.*")


def capabilities(*members: str, tools: bool = True, **more: Any) -> dict[str, Any]:
    manifest = {"version": "0.5", **dict.fromkeys(members, True), **more}
    return {"experimental": {"mcpl": manifest}} | ({"tools": {}} if tools else {})


def ready(policy: HostPolicy = WIDE, *members: str, **more: Any) -> Authority:
    authority = Authority("s", policy)
    authority.introduce(capabilities(*(members or ("pushEvents", "modelInfo", "channels")), **more))
    exchange(authority)
    return authority


def exchange(authority: Authority, answer: Any = YES) -> PolicyChange:
    change = authority.begin()
    assert change is not None
    authority.settle(change, answer)
    return change


def paths(authority: Authority) -> set[str]:
    return set(authority.grant.effective_capabilities)


@pytest.mark.spec("5.3-7")
def test_nothing_is_allowed_before_the_receipt() -> None:
    authority = Authority("s", WIDE)
    authority.introduce(capabilities("pushEvents"))
    change = authority.begin()
    assert change is not None and change.initial
    assert not authority.ready
    denied = authority.check(["pushEvents"])
    assert denied is not None and denied.data == {"capability": "pushEvents", "reason": "not_ready"}
    authority.settle(change, YES)
    assert authority.check(["pushEvents"]) is None
    assert authority.mode == "mcpl"


@pytest.mark.spec("5.3-4")
def test_a_policy_that_grants_nothing_is_told_all_the_same() -> None:
    authority = Authority("s", DENY_ALL)
    authority.introduce(capabilities("pushEvents"))
    change = exchange(authority)
    assert change.needed and change.proposed.effective_capabilities == ()
    assert (authority.ready, authority.mode) == (True, "mcpl")


@pytest.mark.parametrize("value", [None, False, 0, ""])
def test_a_server_that_advertises_nothing_is_a_plain_one(value: Any) -> None:
    authority = Authority("s", WIDE)
    assert authority.introduce({"tools": {}, "experimental": {"mcpl": value}}) is None
    assert authority.introduce({"tools": {}}) is None
    assert authority.introduce(None) is None
    assert authority.begin() is None
    assert not (authority.advertised or authority.statuses or authority.degraded)


@pytest.mark.parametrize("value", [True, 1, "0.5", ["pushEvents"]])
def test_a_manifest_that_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Authority("s", WIDE).introduce({"experimental": {"mcpl": value}})
    assert caught.value.code == "manifest_not_object"


def test_an_empty_manifest_makes_a_full_peer() -> None:
    authority = Authority("s", WIDE)
    assert authority.introduce({"experimental": {"mcpl": {}}}) is not None
    exchange(authority)
    assert authority.ready


@pytest.mark.spec("6.7-14")
def test_a_reduction_holds_before_anything_is_sent() -> None:
    authority = ready()
    assert authority.allows("pushEvents")
    authority.adopt(HostPolicy.allow("tools"))
    assert paths(authority) == {"tools"}
    change = authority.begin()
    assert change is not None and change.expanded == ()
    for answer in (None, Malformed("x", "$", ""), YES):
        authority.settle(change, answer)
        assert paths(authority) == {"tools"}


@pytest.mark.spec("6.7-15", "6.7-16")
@pytest.mark.parametrize("answer", [None, Malformed("accepted", "$.accepted", "")])
def test_an_expansion_holds_after_its_receipt_and_not_without(answer: Any) -> None:
    authority = ready(HostPolicy.allow("tools"))
    authority.adopt(WIDE)
    assert paths(authority) == {"tools"}
    exchange(authority, answer)
    assert paths(authority) == {"tools"}
    assert (authority.ready, authority.mode) == (True, "mcpl")
    exchange(authority)
    assert authority.allows("pushEvents")


def test_a_change_that_adds_and_removes_leaves_what_both_allow() -> None:
    authority = ready(HostPolicy.allow("tools", "pushEvents"))
    authority.adopt(HostPolicy.allow("tools", "modelInfo"))
    assert paths(authority) == {"tools"}
    exchange(authority)
    assert paths(authority) == {"tools", "modelInfo"}


def test_a_reduction_that_comes_while_a_receipt_is_awaited_stands() -> None:
    authority = ready(HostPolicy.allow("tools"))
    authority.adopt(WIDE)
    change = authority.begin()
    assert change is not None
    authority.adopt(HostPolicy.allow("tools", "modelInfo"))
    authority.settle(change, YES)
    assert paths(authority) == {"tools", "modelInfo"}
    # The server takes the wider policy to be in force, and is told.
    later = exchange(authority)
    assert set(later.proposed.effective_capabilities) == {"tools", "modelInfo"}


def test_what_the_server_knows_is_not_told_again() -> None:
    authority = ready()
    assert authority.begin() is None
    authority.adopt(WIDE)
    assert authority.begin() is None
    authority.adopt(HostPolicy.allow("tools"))
    exchange(authority, None)
    # Nobody knows what it took from that.
    assert authority.begin() is not None


@pytest.mark.parametrize("fallback", ["mcp-only", "close"])
def test_a_refusal_leaves_nothing(fallback: Any) -> None:
    authority = Authority("s", WIDE)
    authority.introduce(capabilities("pushEvents"))
    change = authority.begin()
    assert change is not None
    assert authority.settle(change, RefusedReceipt(fallback, ("pushEvents",))) == fallback
    assert (authority.grant, authority.mode) == (GrantState(), fallback)
    later = ready()
    later.adopt(HostPolicy.allow("tools"))
    exchange(later, RefusedReceipt(fallback))
    assert (later.grant, later.mode) == (GrantState(), fallback)
    # A new decision may begin anew.
    later.adopt(WIDE)
    assert exchange(later).initial
    assert (later.mode, later.allows("pushEvents")) == ("mcpl", True)


@pytest.mark.parametrize("answer", [None, Malformed("accepted", "$.accepted", "")])
def test_without_a_proper_first_receipt_the_server_is_a_plain_one(answer: Any) -> None:
    authority = Authority("s", WIDE)
    authority.introduce(capabilities("pushEvents"))
    exchange(authority, answer)
    assert (authority.grant, authority.mode) == (GrantState(), "mcp-only")


@pytest.mark.spec("6.7-11", "6.4-5")
def test_a_receipt_that_asks_for_more_gets_nothing() -> None:
    authority = ready(HostPolicy.allow("tools"))
    authority.adopt(HostPolicy.allow("tools", "modelInfo"))
    greedy = AcceptedReceipt((UnavailableFeature("t.push", ("pushEvents",), "crippled"),), "degraded")
    exchange(authority, greedy)
    assert paths(authority) == {"tools", "modelInfo"}
    assert authority.degraded == greedy.unavailable_features


def test_revoking_overtakes_a_receipt_on_its_way() -> None:
    authority = ready(HostPolicy.allow("tools"))
    authority.adopt(WIDE)
    change = authority.begin()
    assert change is not None
    authority.revoke()
    assert authority.settle(change, YES) == "mcp-only"
    assert (authority.grant, authority.mode) == (GrantState(), "mcp-only")


FEATURES = {"a": {"description": "", "uses": ["pushEvents"]}, "b": {"description": "", "uses": ["modelInfo"]}}


def test_feature_sets_follow_the_grant() -> None:
    authority = ready(HostPolicy.allow("pushEvents"), "pushEvents", "modelInfo", featureSets=FEATURES)
    assert {name: status.enabled for name, status in authority.statuses.items()} == {"a": True, "b": False}
    assert authority.check_feature_set("a", ["pushEvents"]) is None
    for name, alternatives, code in (("b", ["modelInfo"], -32001), ("c", [], -32003), ("a", ["modelInfo"], -32002)):
        denied = authority.check_feature_set(name, alternatives)
        assert denied is not None and denied.code == code
    authority.adopt(DENY_ALL)
    assert not authority.statuses["a"].enabled


# -- manifests


def fetched(authority: Authority, *members: str, **more: Any) -> Any:
    manifest = {"version": "0.5", **dict.fromkeys(members, True), **more}
    return authority.revise(validate_manifest(manifest, authority.policy.vocabulary), HostFacts())


@pytest.mark.spec("17.5-7")
def test_what_a_manifest_no_longer_advertises_is_gone_at_once() -> None:
    authority = ready()
    change = fetched(authority, "modelInfo")
    assert change.revoked == (
        "pushEvents", "channels.register", "channels.lifecycle", "channels.publish", "channels.incoming",
        "channels.streaming", "channels.acknowledge", "channels.typing",
    )  # fmt: skip
    assert paths(authority) == {"tools", "modelInfo"}
    exchange(authority)
    assert paths(authority) == {"tools", "modelInfo"}


def test_what_a_manifest_adds_waits_for_a_decision() -> None:
    authority = ready(WIDE, "modelInfo")
    change = fetched(authority, "modelInfo", "pushEvents")
    assert change.pending == ("pushEvents",)
    assert authority.begin() is None
    assert paths(authority) == {"tools", "modelInfo"}
    authority.renegotiate()
    assert paths(authority) == {"tools", "modelInfo"}
    exchange(authority)
    assert authority.allows("pushEvents")


def test_a_policy_may_decide_on_additions_beforehand() -> None:
    policy = HostPolicy(WIDE.rules, expand_on_change=True)
    authority = ready(policy, "modelInfo")
    fetched(authority, "modelInfo", "pushEvents")
    assert paths(authority) == {"tools", "modelInfo"}
    exchange(authority)
    assert authority.allows("pushEvents")


def test_a_capability_that_comes_back_is_a_new_one() -> None:
    authority = ready(WIDE, "modelInfo", "pushEvents")
    fetched(authority, "modelInfo")
    exchange(authority)
    change = fetched(authority, "modelInfo", "pushEvents")
    assert change.pending == ("pushEvents",)
    assert not authority.allows("pushEvents")
    assert authority.begin() is None


def test_degradation_by_changes_is_remembered() -> None:
    authority = ready(HostPolicy.allow("pushEvents"), "pushEvents", featureSets={"a": FEATURES["a"]})
    fetched(authority, "pushEvents", featureSets={"a": {"description": "", "uses": ["nonsense"]}})
    assert authority.degraded_by_change == {"a"}
    change = fetched(authority, "pushEvents", featureSets={"a": FEATURES["a"]})
    assert [impact.impact for impact in change.impacts] == ["feature-restored"]


def test_another_vocabulary_reads_the_manifest_anew() -> None:
    authority = ready(HostPolicy.allow("tools"), "pushEvents", "stateUpdate")
    assert "stateUpdate" not in authority.advertised
    vocabulary = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
    authority.adopt(HostPolicy.allow("tools", "stateUpdate", vocabulary=vocabulary))
    assert "stateUpdate" in authority.advertised
    exchange(authority)
    assert authority.allows("stateUpdate")


def test_a_plain_server_has_nothing_to_negotiate() -> None:
    authority = Authority("s", WIDE)
    authority.introduce({"tools": {}})
    authority.adopt(DENY_ALL)
    authority.renegotiate()
    assert authority.begin() is None


# -- nothing that a server says widens

MEMBERS = st.sets(st.sampled_from(["pushEvents", "modelInfo", "channels", "inferenceLifecycle", "stateUpdate"]))
RECEIPTS = st.one_of(
    st.just(YES),
    st.none(),
    st.just(Malformed("accepted", "$", "")),
    st.builds(RefusedReceipt, st.sampled_from(["mcp-only", "close"]), st.just(CAPABILITY_PATHS)),
    st.builds(
        AcceptedReceipt,
        st.lists(st.builds(UnavailableFeature, st.text(max_size=3), st.just(CAPABILITY_PATHS)), max_size=2).map(tuple),
    ),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("manifest"), MEMBERS), st.tuples(st.just("receipt"), RECEIPTS), st.just(("policy", None))
    ),
    max_size=12,
)


@settings(max_examples=300)
@given(MEMBERS, STEPS, st.sets(st.sampled_from(CAPABILITY_PATHS)), st.sets(st.sampled_from(CAPABILITY_PATHS)))
def test_no_sequence_of_server_messages_widens_the_grant(
    first: set[str], steps: list[Any], allowed: set[str], later: set[str]
) -> None:
    """Between two decisions of the host, whatever the server answers, fetches bring, and in whatever order: the grant
    only shrinks, but for what the host proposed and the server accepted."""
    authority = Authority("s", HostPolicy.allow(*sorted(allowed)))
    authority.introduce(capabilities(*sorted(first)))
    ceiling = allowed & authority.advertised
    sent = authority.begin()
    for kind, value in steps:
        before = paths(authority)
        if kind == "manifest":
            fetched(authority, *sorted(value))
            assert paths(authority) <= before
            ceiling &= authority.advertised
        elif kind == "policy":
            authority.adopt(HostPolicy.allow(*sorted(later)))
            ceiling = later & authority.advertised
            assert paths(authority) <= before
        elif sent is not None:
            authority.settle(sent, value)
            sent = None
            assert paths(authority) <= before | ceiling
            if not isinstance(value, AcceptedReceipt):
                assert paths(authority) <= before
        sent = sent or authority.begin()
        assert paths(authority) <= ceiling
        assert authority.ready or not paths(authority)


def test_the_sets_with_rollback_are_those_of_the_manifest_in_force() -> None:
    sets = {"a": {"uses": ["tools"], "rollback": True}, "b": {"uses": [], "rollback": 1}, "c": None}
    authority = Authority("s", WIDE)
    assert not authority.rollback_sets
    authority.introduce(capabilities(featureSets=sets))
    assert [*authority.rollback_sets, *authority.rollback_sets] == ["a", "a"]
    authority.revise(validate_manifest({"version": "0.5", "featureSets": {"d": {"rollback": True}}}), HostFacts())
    assert list(authority.rollback_sets) == ["d"]
