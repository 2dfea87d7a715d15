"""What a changed manifest does to a grant, and what a receipt says about it."""

from __future__ import annotations

import copy
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.capabilities import CAPABILITY_PATHS, VOCABULARY, capability_granted
from mcpl_core.grants import GrantState, derive_feature_sets
from mcpl_core.manifest.impacts import DISPOSITIONS, HostFacts, Impact, ManifestChange, assess_change
from mcpl_core.manifest.validate import validate_manifest
from mcpl_core.protocol.manifest import ChangeDisposition, ChangeImpact

OLD: dict[str, Any] = {
    "version": "0.5",
    "pushEvents": True,
    "channels": {"publish": True, "incoming": True},
    "featureSets": {
        "push": {"description": "", "uses": ["pushEvents"]},
        "talk": {"description": "", "uses": ["channels.publish", "channels.incoming"]},
        "tell": {"description": "", "uses": ["tools"]},
        "broken": {"description": "", "uses": ["nothing"]},
    },
}
GRANT = GrantState(("channels.incoming", "channels.publish", "pushEvents", "tools"), ready=True)


def change(new: dict[str, Any], old: dict[str, Any] = OLD, grant: GrantState = GRANT, **facts: Any) -> ManifestChange:
    return assess_change(validate_manifest(old), validate_manifest(new), HostFacts(grant, **facts))


def edited(**members: Any) -> dict[str, Any]:
    return {**copy.deepcopy(OLD), **members}


def with_set(name: str, value: Any) -> dict[str, Any]:
    return edited(featureSets={**copy.deepcopy(OLD["featureSets"]), name: value})


def lines(found: ManifestChange) -> list[tuple[str, str]]:
    return [(impact.impact, impact.subject) for impact in found.impacts]


@pytest.mark.spec("17.6-1", "17.6-3", "17.6-4")
def test_the_vocabulary_is_closed() -> None:
    assert tuple(DISPOSITIONS) == get_args(ChangeImpact)
    assert set(DISPOSITIONS.values()) <= set(get_args(ChangeDisposition))
    assert DISPOSITIONS["ontology-reference-undeclared"] == "informational"


def test_no_change_has_no_impact() -> None:
    found = change(copy.deepcopy(OLD))
    assert (found.domains, found.grant, found.impacts) == ((), GRANT, ())
    assert (found.revoked, found.pending, found.degraded) == ((), (), frozenset())


@pytest.mark.spec("17.5-6")
def test_a_removed_capability_is_revoked_at_once() -> None:
    found = change(edited(channels={"incoming": True}))
    assert found.domains == ("capabilities",)
    assert found.revoked == ("channels.publish",)
    assert found.grant == GrantState(("channels.incoming", "pushEvents", "tools"), ready=True)
    assert found.impacts == (
        Impact("capability-revoked", "applied", "channels.publish"),
        Impact("feature-degraded", "applied", "talk"),
    )
    assert found.feature_sets["talk"].reason == "capability_denied"
    assert found.degraded == {"talk"}


@pytest.mark.spec("17.5-2")
@pytest.mark.parametrize(
    "broken",
    [
        {"featureSets": 7},
        {"featureSets": {"push": {"uses": "pushEvents"}}},
        {"featureSets": {"push": {"description": 1, "uses": []}}, "bad name": {}},
        {"contextHooks": "all", "revision": 0, "version": None},
        {"vendor": 10**400},
        {"vendor": float("nan"), "featureSets": {"f": {"tagOntology": {"tags": {5: {}}}}}},
    ],
)
def test_a_removal_counts_whatever_else_is_invalid(broken: dict[str, Any]) -> None:
    new = edited(channels=False, **broken)
    found = change(new)
    assert validate_manifest(new).problems
    assert found.revoked == ("channels.publish", "channels.incoming")
    assert found.grant.effective_capabilities == ("pushEvents", "tools")
    assert ("feature-degraded", "talk") in lines(found)


def test_without_a_canonical_form_every_domain_may_have_changed() -> None:
    assert change(edited(vendor=10**400)).domains == ("capabilities", "featureSets", "tagOntology")


@pytest.mark.spec("17.5-2")
def test_a_capability_of_a_wrong_type_is_not_advertised() -> None:
    assert change(edited(pushEvents="yes", channels=[True])).grant.effective_capabilities == ("tools",)


@pytest.mark.spec("17.5-8", "17.5-3", "5.4-1")
def test_an_addition_is_pending_and_grants_nothing() -> None:
    found = change(edited(modelInfo=True, channels=True))
    assert found.grant == GRANT
    assert [impact for impact in found.impacts if impact.disposition != "decision-needed"] == []
    assert found.pending == (
        "modelInfo",
        "channels.register",
        "channels.lifecycle",
        "channels.streaming",
        "channels.acknowledge",
        "channels.typing",
    )


@pytest.mark.spec("17.5-8", "R-man-9")
@pytest.mark.parametrize("entries", [("channels.*",), ("channels.publish", "channels.incoming", "channels.typing")])
def test_an_addition_is_pending_even_where_the_grant_has_an_entry_for_it(entries: tuple[str, ...]) -> None:
    found = change(
        edited(channels={"publish": True, "incoming": True, "typing": True}), grant=GrantState(entries, ready=True)
    )
    assert found.grant.effective_capabilities == ("channels.publish", "channels.incoming")
    assert (found.pending, found.revoked) == (
        ("channels.typing",),
        ("channels.register", "channels.lifecycle", "channels.streaming", "channels.acknowledge")
        if entries == ("channels.*",)
        else (),
    )


@pytest.mark.spec("17.5-3")
def test_an_invalid_addition_is_ignored() -> None:
    found = change(with_set("new", {"uses": ["nothing"]}))
    assert (found.impacts, found.grant) == ((), GRANT)
    assert found.feature_sets["new"].reason == "invalid_uses"


def test_a_new_feature_set_under_the_grant_needs_no_decision() -> None:
    found = change(with_set("new", {"uses": ["pushEvents"]}))
    assert (found.impacts, found.domains) == ((), ("featureSets",))
    assert found.feature_sets["new"].enabled


@pytest.mark.spec("17.5-9")
@pytest.mark.parametrize("uses", [None, [], ["nothing"], ["pushEvents", "modelInfo"], "pushEvents"])
def test_changed_uses_are_judged_again(uses: Any) -> None:
    found = change(with_set("push", {"description": "", "uses": uses}))
    assert lines(found) == [("feature-degraded", "push")]
    assert found.grant == GRANT


def test_a_removed_feature_set_is_degraded_and_may_come_back() -> None:
    new = edited()
    del new["featureSets"]["push"]
    gone = change(new)
    assert lines(gone) == [("feature-degraded", "push")]
    assert gone.degraded == {"push"}
    still = change(edited(**{**new, "vendor": 1}), new, degraded=gone.degraded)
    assert lines(still) == []
    assert still.degraded == {"push"}
    back = change(OLD, new, degraded=still.degraded)
    assert lines(back) == [("feature-restored", "push")]
    assert back.degraded == frozenset()


def test_what_a_server_once_declared_is_not_remembered_without_bound() -> None:
    many = {f"s{number}": {"description": "", "uses": ["pushEvents"]} for number in range(1_500)}
    old = edited(featureSets=many)
    found = change(edited(featureSets={}), old, degraded=[f"earlier{number}" for number in range(1_500)])
    assert len(found.degraded) == 1_024
    assert sum(impact.impact == "feature-degraded" for impact in found.impacts) == 1_500


@pytest.mark.spec("17.6-1")
def test_a_repaired_declaration_is_restored() -> None:
    found = change(with_set("broken", {"description": "", "uses": ["pushEvents"]}))
    assert found.impacts == (Impact("feature-restored", "applied", "broken"),)


def test_a_set_that_the_host_turned_off_is_neither_degraded_nor_restored() -> None:
    grant = GrantState(GRANT.effective_capabilities, None, ("push", "broken"), ready=True)
    assert lines(change(with_set("push", {"uses": []}), grant=grant)) == []
    assert lines(change(with_set("broken", {"uses": ["pushEvents"]}), grant=grant)) == []


@pytest.mark.spec("17.5-2")
def test_tools_are_advertised_elsewhere_and_stay() -> None:
    assert change({"version": "0.5"}).grant.effective_capabilities == ("tools",)


def test_a_pattern_that_lost_a_path_becomes_the_paths_that_are_left() -> None:
    old = edited(channels={"publish": True, "incoming": True, "typing": True})
    grant = GrantState(("channels.*", "pushEvents", "modelInfo.*"), ready=True)
    found = change(edited(channels={"publish": True, "incoming": True}), old, grant)
    assert found.grant.effective_capabilities == ("channels.publish", "channels.incoming", "pushEvents", "modelInfo.*")
    assert "channels.typing" in found.revoked


def test_a_grant_beyond_both_manifests_is_cut_too() -> None:
    found = change(OLD, grant=GrantState((*GRANT.effective_capabilities, "modelInfo"), ready=True))
    assert (found.revoked, found.grant) == (("modelInfo",), GRANT)


ONTOLOGY: dict[str, Any] = {
    "coreTags": ["chat:mention", "chat:dm"],
    "tags": {"memory:new": {"desc": "new"}},
    "keyed": {"urgency": {"values": ["low", "high"]}},
}


def with_ontology(ontology: Any) -> dict[str, Any]:
    return with_set("push", {"description": "", "uses": ["pushEvents"], "tagOntology": ontology})


@pytest.mark.spec("17.5-10", "16.5-1")
@pytest.mark.parametrize(
    ("ontology", "holds"),
    [
        (ONTOLOGY, True),
        ({**ONTOLOGY, "coreTags": ["chat:dm", "chat:mention", "chat:dm"]}, True),
        ({**ONTOLOGY, "tags": {"memory:new": {"desc": "newer"}}}, False),
        ({**ONTOLOGY, "open": True}, False),
        ({}, False),
        (None, False),
    ],
)
def test_acceptance_holds_for_one_ontology(ontology: Any, holds: bool) -> None:
    old = with_ontology(ONTOLOGY)
    accepted = dict(validate_manifest(old).ontology_digests)
    found = change(with_ontology(ontology), old, accepted_ontologies=accepted)
    expected = [] if holds else [Impact("ontology-acceptance-invalidated", "applied", "push")]
    assert [impact for impact in found.impacts if impact.impact.startswith("ontology")] == expected


def test_impacts_of_one_kind_stand_in_order_and_once() -> None:
    accepted = {"z": "sha256:z", "push": "sha256:p", "a": "sha256:a"}
    found = change(
        OLD, with_ontology(ONTOLOGY), accepted_ontologies=accepted, referenced_tags=["memory:new", "memory:*"] * 2
    )
    kinds = ["ontology-acceptance-invalidated"] * 3 + ["ontology-reference-undeclared"] * 2
    assert lines(found) == list(zip(kinds, ["a", "push", "z", "memory:*", "memory:new"], strict=True))


def test_acceptance_ends_with_the_feature_set() -> None:
    found = change({"version": "0.5"}, with_ontology(ONTOLOGY), accepted_ontologies={"push": "sha256:shown"})
    assert ("ontology-acceptance-invalidated", "push") in lines(found)


@pytest.mark.spec("17.6-4")
@pytest.mark.parametrize(
    ("reference", "undeclared"),
    [
        ("memory:new", True),
        ("memory:*", True),
        ("chat:mention", True),
        ("chat:*", False),
        ("chat:dm", False),
        ("*", False),
        ("urgency:high", True),
        ("urgency:*", True),
        ("urgency", False),
        ("urgency:", False),
        ("memory:urgency", False),
        ("memory:urgency=high", True),
        ("memory:urgency=*", True),
        ("*:urgency=high", True),
        ("memory:weight=*", False),
        ("never:declared", False),
        ("never:*", False),
    ],
)
def test_a_referenced_tag_whose_description_is_gone(reference: str, undeclared: bool) -> None:
    found = change(
        with_ontology({"coreTags": ["chat:dm"], "open": True}), with_ontology(ONTOLOGY), referenced_tags=[reference]
    )
    expected = [Impact("ontology-reference-undeclared", "informational", reference)] if undeclared else []
    assert list(found.impacts) == expected


_names = st.sampled_from([*CAPABILITY_PATHS, "*", "*.*", "chat:addressed", "x:a", "effectiveCapabilities", "uses"])
_ontologies = st.recursive(
    st.booleans() | st.none() | _names | st.lists(_names, max_size=3),
    lambda inner: st.dictionaries(
        _names | st.sampled_from(["coreTags", "tags", "implies", "suggestedTreatment", "keyed", "open"]),
        inner,
        max_size=3,
    ),
    max_leaves=8,
)


@pytest.mark.spec("16.6-1")
@given(_ontologies, st.lists(st.sampled_from([*CAPABILITY_PATHS, "channels.*", "*"]), max_size=4))
def test_no_ontology_widens_a_grant(ontology: Any, entries: list[str]) -> None:
    grant = GrantState(tuple(entries), None, ("tell",), ready=True)
    plain, told = (
        validate_manifest(with_set("push", {"uses": ["pushEvents"]})),
        validate_manifest(with_set("push", {"uses": ["pushEvents"], "tagOntology": ontology})),
    )
    assert told.capabilities == plain.capabilities
    assert derive_feature_sets(told.feature_sets, grant) == derive_feature_sets(plain.feature_sets, grant)
    accepted = dict(told.ontology_digests)
    changes = [assess_change(plain, told, HostFacts(grant)), assess_change(told, told, HostFacts(grant, (), accepted))]
    for found in changes:
        assert found.grant == assess_change(plain, plain, HostFacts(grant)).grant
        assert found.pending == ()


def test_subjects_stand_in_order() -> None:
    names = sorted(f"s{number}" for number in range(12))
    sets = {name: {"description": "", "uses": ["pushEvents"]} for name in names}
    off, on = edited(featureSets=sets, pushEvents=False), edited(featureSets=sets)
    gone = change(off, on, surfaces=names)
    assert lines(gone) == [
        ("capability-revoked", "pushEvents"),
        *(("feature-degraded", name) for name in names),
        *(("surface-changed", name) for name in names),
    ]
    back = change(edited(featureSets=sets), edited(featureSets={}), degraded=names)
    assert lines(back) == [("feature-restored", name) for name in names]


def test_a_description_in_another_feature_set_will_do() -> None:
    new = with_ontology({})
    new["featureSets"]["talk"]["tagOntology"] = ONTOLOGY
    found = change(new, with_ontology(ONTOLOGY), referenced_tags=["memory:new", "memory:*", "urgency:high"])
    assert lines(found) == []


def test_other_surfaces_are_told_in_the_same_receipt() -> None:
    found = change(OLD, surfaces=["tools", "channels", "tools"])
    assert found.impacts == (
        Impact("surface-changed", "informational", "channels"),
        Impact("surface-changed", "informational", "tools"),
    )


@pytest.mark.spec("17.6-2")
def test_a_server_cannot_say_what_its_change_means() -> None:
    flags = {"requiresReview": True, "impacts": ["capability-revoked"], "disposition": "applied"}
    assert change(edited(**flags)).impacts == ()


@pytest.mark.spec("17.1-6")
def test_revisions_are_not_looked_at() -> None:
    revision = "sha256:" + "A" * 43
    found = change(edited(pushEvents=False, revision=revision), edited(revision=revision))
    assert lines(found) == [("capability-revoked", "pushEvents"), ("feature-degraded", "push")]


def test_an_extended_vocabulary() -> None:
    wide = VOCABULARY.extend("branches.list")
    old, new = edited(branches=True), edited(branches=False)
    grant = GrantState(("branches.list",), ready=True)
    before, after = validate_manifest(old, wide), validate_manifest(new, wide)
    assert assess_change(before, after, HostFacts(grant), wide).revoked == ("branches.list",)
    assert assess_change(after, before, HostFacts(), wide).pending == ("branches.list",)


_trees = st.recursive(
    st.booleans() | st.none() | st.just("all"),
    lambda inner: st.dictionaries(st.sampled_from("abcdefg"), inner, max_size=3),
    max_leaves=4,
)
_members = st.sampled_from(sorted({path.split(".")[0] for path in CAPABILITY_PATHS}))
_channels = st.dictionaries(st.sampled_from(["publish", "incoming", "typing"]), st.booleans())
_uses = st.lists(st.sampled_from([*CAPABILITY_PATHS, "nothing"]), max_size=3)
_manifests = st.builds(
    lambda roots, channels, sets: {
        **roots,
        "channels": channels,
        "featureSets": {n: {"uses": u} for n, u in sets.items()},
    },
    st.dictionaries(_members, _trees | st.booleans(), max_size=5),
    _channels | st.booleans(),
    st.dictionaries(st.sampled_from("pqr"), _uses, max_size=3),
)
_entries = st.lists(st.sampled_from([*CAPABILITY_PATHS, "channels.*", "*", "*.*"]), max_size=6)


@pytest.mark.spec("17.5-8", "17.5-2")
@given(_manifests, _manifests, _entries)
def test_a_change_only_takes_away(old: dict[str, Any], new: dict[str, Any], entries: list[str]) -> None:
    grant = GrantState(tuple(entries), ready=True)
    reading = validate_manifest(new)
    found = assess_change(validate_manifest(old), reading, HostFacts(grant))
    for path in CAPABILITY_PATHS:
        if capability_granted(found.grant.effective_capabilities, path):
            assert capability_granted(entries, path)
            assert path in reading.capabilities or path == "tools"
        elif capability_granted(entries, path):
            assert path in {*found.revoked, *found.pending}
    assert set(found.pending) == reading.capabilities - validate_manifest(old).capabilities
    assert not any(capability_granted(found.grant.effective_capabilities, path) for path in found.pending)
    assert {impact.impact for impact in found.impacts} <= DISPOSITIONS.keys()
    assert all(DISPOSITIONS[impact.impact] == impact.disposition for impact in found.impacts)
