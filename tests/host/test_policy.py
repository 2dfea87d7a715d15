"""The rules of a host, and what follows from them for one server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.capabilities import CAPABILITY_PATHS, EXTENSION_CAPABILITIES, VOCABULARY
from mcpl_core.errors import InvalidValueError
from mcpl_core.grants import GrantState
from mcpl_core.host.policy import DENY_ALL, HostPolicy, PolicyRule
from mcpl_core.treatment import Debounce, Immediate, Mute, Throttle, TreatmentRule

SYSTEM = "contextHooks.beforeInference.inject.system"


@pytest.mark.spec("5.4-7")
def test_the_grant_is_what_advertisement_and_rules_have_in_common() -> None:
    policy = HostPolicy.allow("tools", "pushEvents", "channels.*")
    grant = policy.grant("memory", ["pushEvents", "channels.publish", "modelInfo", "tools"])
    assert grant == GrantState(("channels.publish", "pushEvents", "tools"))


def test_nothing_is_allowed_without_rules() -> None:
    assert DENY_ALL.grant("memory", CAPABILITY_PATHS) == GrantState()


@given(st.lists(st.sampled_from([*CAPABILITY_PATHS, "x.y"])), st.lists(st.sampled_from(CAPABILITY_PATHS)))
def test_no_grant_exceeds_the_advertisement_or_the_rules(advertised: list[str], allowed: list[str]) -> None:
    grant = HostPolicy.allow(*allowed).grant("s", advertised)
    assert set(grant.effective_capabilities) == set(advertised) & set(allowed)


@pytest.mark.parametrize("pattern", ["contextHooks.beforeInference.inject.*", "contextHooks.*.inject.system"])
def test_a_path_that_is_denied_by_default_is_granted_only_by_its_name(pattern: str) -> None:
    if pattern.endswith("*"):
        wide = HostPolicy.allow(pattern)
    else:
        with pytest.raises(InvalidValueError) as caught:
            HostPolicy.allow(pattern)
        assert caught.value.code == "ineffective_pattern"
        return
    assert SYSTEM not in wide.grant("s", CAPABILITY_PATHS).effective_capabilities
    assert wide.also(SYSTEM).grant("s", [SYSTEM]).effective_capabilities == (SYSTEM,)


def test_a_denial_wins_whoever_allows() -> None:
    policy = HostPolicy.allow("channels.*").also("pushEvents", deny="channels.publish", servers="chat")
    assert policy.grant("chat", ["channels.publish", "channels.incoming"]).effective_capabilities == (
        "channels.incoming",
    )
    assert policy.grant("other", ["channels.publish"]).effective_capabilities == ("channels.publish",)


def test_rules_hold_for_the_servers_that_they_name() -> None:
    policy = HostPolicy.allow("tools").also("pushEvents", servers=["memory", "git-*"])
    assert policy.grant("git-lab", ["pushEvents", "tools"]).effective_capabilities == ("pushEvents", "tools")
    assert policy.grant("discord", ["pushEvents", "tools"]).effective_capabilities == ("tools",)
    assert PolicyRule(servers=("a*",)).concerns("abc")
    assert not PolicyRule(servers=("a*",)).concerns("bac")


def test_rules_are_rules() -> None:
    words: Any = ("tools",)
    with pytest.raises(TypeError):
        HostPolicy(words)


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("pushEvent", "; is pushEvents meant?"),
        ("push", "; is pushEvents meant?"),
        ("channels", "; it is a parent: name what is below it, like channels.register"),
        ("stateUpdate", "; extend the policy's vocabulary with it"),
        ("zzz", f"; the paths are {', '.join(CAPABILITY_PATHS)}"),
    ],
)
def test_what_may_have_been_meant(pattern: str, hint: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        HostPolicy.allow(pattern)
    assert caught.value.detail == f"{pattern} matches no path{hint}"


@pytest.mark.parametrize("pattern", ["channels", "channels.**", "contextHooks.*", "stateUpdate", "Tools", ""])
def test_an_entry_that_can_have_no_effect_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        HostPolicy.allow("tools", pattern)
    assert (caught.value.code, caught.value.path) == ("ineffective_pattern", "$.rules[0]")
    with pytest.raises(InvalidValueError):
        HostPolicy.allow("tools", deny=pattern)


def test_paths_of_extensions_need_a_vocabulary_that_has_them() -> None:
    vocabulary = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
    policy = HostPolicy.allow("stateUpdate", vocabulary=vocabulary)
    assert policy.grant("s", ["stateUpdate", "branches.list"]).effective_capabilities == ("stateUpdate",)


def test_feature_sets_are_narrowed_by_every_rule_that_names_some() -> None:
    declared = ["memory.recall", "memory.extract", "other"]
    open_policy = HostPolicy.allow("tools")
    assert open_policy.grant("s", [], declared).enabled_feature_sets is None
    narrowed = open_policy.also(feature_sets="memory.*")
    assert narrowed.grant("s", [], declared).enabled_feature_sets == ("memory.extract", "memory.recall")
    twice = narrowed.also(feature_sets=["memory.recall", "other"])
    assert twice.grant("s", [], declared).enabled_feature_sets == ("memory.recall",)
    assert twice.grant("s", []).enabled_feature_sets == ()


def test_disabled_sets_go_out_by_their_names() -> None:
    policy = HostPolicy.allow("tools", disable=["memory.*", "gone"])
    grant = policy.grant("s", [], ["memory.a", "memory.b", "other"])
    assert grant.disabled_feature_sets == ("gone", "memory.a", "memory.b")


@pytest.mark.parametrize(
    ("channel", "permitted"), [("discord:acme/one", True), ("discord:other", False), ("discord:acme", False)]
)
def test_channel_patterns_narrow(channel: str, permitted: bool) -> None:
    policy = HostPolicy.allow("channels.*", channels="discord:acme/*")
    assert policy.permits_channel("s", channel) is permitted
    assert HostPolicy.allow("channels.*").permits_channel("s", channel)
    twice = policy.also(channels=["*/two"])
    assert not twice.permits_channel("s", "discord:acme/one")
    assert twice.permits_channel("s", "discord:acme/two")


def test_treatment_takes_the_first_rule_then_accepted_ones_then_the_default() -> None:
    own = TreatmentRule(Throttle(), tags_any=("a:*",))
    accepted = TreatmentRule(Debounce(5), tags_any=("b:*",))
    policy = HostPolicy(interval_ms=7).treating([own])
    assert policy.treat(["a:x", "b:x"], source="s", accepted=[accepted]).behavior == Throttle(7)
    chosen = policy.treat(["b:x"], source="s", accepted=[accepted])
    assert (chosen.behavior, chosen.index) == (Debounce(5), 1)
    assert policy.treat(["c:x"], source="s").behavior == Immediate()
    assert policy.treating([], Mute()).treat([], source="s").behavior == Mute()
    assert policy.treat([], source="s", default=Mute()).behavior == Mute()


def test_referenced_tags_are_those_of_rules_that_can_concern_the_server() -> None:
    rules = [
        TreatmentRule(Mute(), tags_any=("a:1",), tags_none=("a:2",)),
        TreatmentRule(Mute(), tags_all=("b:1",), source=("mem*",)),
        TreatmentRule(Mute(), tags_any=("c:1",), source=("other",)),
    ]
    assert HostPolicy().treating(rules).referenced_tags("memory") == {"a:1", "a:2", "b:1"}


@pytest.mark.parametrize("name", ["servers", "allow", "deny", "feature_sets", "disable", "channels"])
def test_a_string_in_the_place_of_a_list_is_refused(name: str) -> None:
    """Its ``*`` would be a pattern of its own, and match everything."""
    wrong: Any = {name: "chat:*"}
    with pytest.raises(TypeError):
        PolicyRule(**wrong)
