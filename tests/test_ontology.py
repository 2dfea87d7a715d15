"""Ontologies are read leniently and do nothing until somebody accepts them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.ontology import (
    Acceptance,
    Acceptances,
    KeyedFamily,
    OntologyReading,
    TagDescriptor,
    TagOntology,
    parse_ontology,
)
from mcpl_core.tags import CHAT_TAGS, ImplicationEdge, expand_tags
from mcpl_core.treatment import Immediate, Mute, RuleOrigin, Throttle, Treatment, TreatmentRule, choose_treatment

WIRE: dict[str, Any] = {
    "coreTags": ["chat:mention", "chat:dm", "chat:mention"],
    "tags": {
        "discord:role-mention": {
            "desc": "A role was pinged",
            "facet": "addressing",
            "implies": ["chat:addressed"],
            "suggestedTreatment": "throttle",
        },
        "discord:slash": {"implies": ["chat:command", "chat:command"], "facet": "gadget"},
        "discord:voice": {"stability": "experimental"},
    },
    "keyed": {
        "urgency": {"desc": "How urgent", "values": ["low", "high", "low"], "ordered": True},
        "plain": {},
    },
    "suggestedTreatment": [{"tagsAny": ["chat:addressed"], "behavior": "immediate"}],
    "open": True,
    "future": {"x": 1},
}
ONTOLOGY = TagOntology(
    ("chat:mention", "chat:dm"),
    (
        TagDescriptor("discord:role-mention", "A role was pinged", "addressing", ("chat:addressed",), Throttle()),
        TagDescriptor("discord:slash", None, "gadget", ("chat:command",)),
        TagDescriptor("discord:voice", stability="experimental"),
    ),
    (KeyedFamily("urgency", "How urgent", ("low", "high", "low"), True), KeyedFamily("plain")),
    (TreatmentRule(Immediate(), ("chat:addressed",)),),
    True,
)
ACT = Acceptance("discord", "messaging", "sha256:one", "operator", ONTOLOGY, "2026-08-02T00:00:00Z")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["mute", "chat:dm", "x:a", "stable", "bare"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["x:a", "chat:dm", "desc", "facet", "implies", "suggestedTreatment", "defaultTreatment",
                         "stability", "values", "ordered", "tagsAny", "behavior", "bare"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
ANYTHING = JSON | st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("coreTags", "tags", "keyed", "suggestedTreatment", "defaultTreatment", "open"), JSON),
)
TAG_LISTS = st.lists(st.sampled_from([*CHAT_TAGS, "x:a", "discord:role-mention"]), max_size=5)


def problems(value: Any) -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in parse_ontology(value).problems]


def test_an_ontology() -> None:
    reading = parse_ontology(WIRE)
    assert reading.ontology == ONTOLOGY
    assert reading.problems == ()


def test_an_absent_ontology() -> None:
    reading = parse_ontology(msgspec.UNSET)
    assert (reading.ontology, reading.problems) == (TagOntology(), ())


@pytest.mark.parametrize("value", [None, [], "x:a", True, 5])
def test_an_ontology_that_is_no_object(value: Any) -> None:
    assert parse_ontology(value).ontology == TagOntology()
    assert problems(value) == [("not_object", "$")]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"coreTags": "chat:dm"}, [("not_array", "$.coreTags")]),
        ({"coreTags": ["chat:dm", "x:a", "chat:new"]},
         [("not_core_tag", "$.coreTags[1]"), ("not_core_tag", "$.coreTags[2]")]),
        ({"tags": []}, [("not_object", "$.tags")]),
        ({"tags": {"x:a": None}}, [("not_object", '$.tags["x:a"]')]),
        ({"tags": {"bare": {}}}, [("tag_namespace", "$.tags.bare")]),
        ({"tags": {"x:a": {"desc": 5}}}, [("not_string", '$.tags["x:a"].desc')]),
        ({"tags": {"x:a": {"facet": None}}}, [("not_string", '$.tags["x:a"].facet')]),
        ({"tags": {"x:a": {"implies": "x:b"}}}, [("not_array", '$.tags["x:a"].implies')]),
        ({"tags": {"x:a": {"implies": ["x:b", "bare"]}}}, [("tag_namespace", '$.tags["x:a"].implies[1]')]),
        ({"tags": {"chat:dm": {"implies": ["x:b"]}}}, [("reserved_tag", '$.tags["chat:dm"].implies')]),
        ({"tags": {"mcpl:x": {"implies": ["x:b"]}}}, [("reserved_tag", '$.tags["mcpl:x"].implies')]),
        ({"tags": {"chat:dm": {"implies": []}}}, []),
        ({"tags": {"x:a": {"suggestedTreatment": "shout"}}}, [("behavior", '$.tags["x:a"].suggestedTreatment')]),
        ({"tags": {"x:a": {"stability": "new"}}}, [("stability", '$.tags["x:a"].stability')]),
        ({"tags": {"x:a": {"stability": 1}}}, [("not_string", '$.tags["x:a"].stability')]),
        ({"keyed": 5}, [("not_object", "$.keyed")]),
        ({"keyed": {"u": []}}, [("not_object", "$.keyed.u")]),
        ({"keyed": {"u": {"desc": 1, "values": [1], "ordered": "yes"}}},
         [("not_string", "$.keyed.u.desc"), ("not_string", "$.keyed.u.values[0]"),
          ("not_boolean", "$.keyed.u.ordered")]),
        ({"suggestedTreatment": "immediate"}, [("not_array", "$.suggestedTreatment")]),
        ({"suggestedTreatment": [{"behavior": "mute"}, {}]}, [("behavior", "$.suggestedTreatment[1].behavior")]),
        ({"defaultTreatment": []}, [("deprecated_alias", "$.defaultTreatment")]),
        ({"defaultTreatment": 5}, [("deprecated_alias", "$.defaultTreatment"), ("not_array", "$.defaultTreatment")]),
        ({"open": "true"}, [("not_boolean", "$.open")]),
    ],
)  # fmt: skip
def test_a_bad_part_costs_that_part(value: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert problems(value) == expected
    good = {"x:z": {"desc": "kept"}}
    tags = value.get("tags")
    merged = {**value, "tags": {**tags, **good} if isinstance(tags, dict) else good}
    assert TagDescriptor("x:z", "kept") in parse_ontology(merged).ontology.tags


@pytest.mark.parametrize("stability", ["stable", "experimental", "deprecated"])
def test_the_degrees_of_stability(stability: Any) -> None:
    assert parse_ontology({"tags": {"x:a": {"stability": stability}}}) == OntologyReading(
        TagOntology(tags=(TagDescriptor("x:a", stability=stability),))
    )


def test_a_bad_field_leaves_the_default_of_that_field() -> None:
    value = {"tags": {"x:a": {"desc": "d", "implies": ["bare"], "suggestedTreatment": 1, "stability": "new"}}}
    assert parse_ontology(value).ontology.tags == (TagDescriptor("x:a", "d"),)


def test_the_older_name_of_suggested_treatment() -> None:
    old: list[Any] = [{"behavior": "mute"}]
    assert parse_ontology({"defaultTreatment": old}).ontology.suggested_treatment == (TreatmentRule(Mute()),)
    both = {"defaultTreatment": old, "suggestedTreatment": []}
    assert parse_ontology(both).ontology.suggested_treatment == ()
    tag = {"tags": {"x:a": {"defaultTreatment": "mute"}}}
    assert parse_ontology(tag).ontology.tags[0].suggested_treatment == Mute()


def test_what_is_declared() -> None:
    declared = [
        "chat:mention", "discord:voice", "urgency:low", "urgency:unheard", "discord:urgency=low",
        "chat:reply", "discord:other", "x:low", "urgency", "",
    ]  # fmt: skip
    assert [tag for tag in declared if ONTOLOGY.declares(tag)] == declared[:5]


@given(ANYTHING)
def test_anything_can_be_read(value: Any) -> None:
    reading = parse_ontology(value)
    assert all(problem.path.startswith("$") and problem.code for problem in reading.problems)
    for edge in Acceptance("s", "f", "d", "o", reading.ontology).edges():
        assert edge.tag not in CHAT_TAGS


@pytest.mark.spec("16.3-2", "16.3-5", "16.5-1", "16.5-2")
@given(ANYTHING, TAG_LISTS)
def test_an_ontology_that_nobody_accepted_changes_nothing(value: Any, tags: list[str]) -> None:
    ontology = parse_ontology(value).ontology
    of_others = [Acceptance("t", "f", "d", "o", ontology), Acceptance("s", "g", "d", "o", ontology, treatment=False)]
    revoked = Acceptances().accept(Acceptance("s", "f", "d", "o", ontology), current_digest="d").revoke("s", "f")
    for accepted in (Acceptances(), Acceptances(tuple(of_others)), revoked):
        assert expand_tags(tags, accepted.edges("s", "f")) == expand_tags(tags)
        assert choose_treatment(accepted.rules(), tags, source="s", default=Mute()) == Treatment(Mute())


@pytest.mark.spec("16.3-6", "16.5-3", "R-tags-4")
def test_acceptance_brings_edges_and_rules_into_force() -> None:
    accepted = Acceptances().accept(ACT, current_digest="sha256:one")
    edges = accepted.edges("discord", "messaging")
    assert edges == (
        ImplicationEdge("discord:role-mention", ("chat:addressed",)),
        ImplicationEdge("discord:slash", ("chat:command",)),
    )
    assert "chat:addressed" in expand_tags(["discord:role-mention"], edges)
    origin = RuleOrigin("discord", "messaging", "sha256:one", "operator")
    assert accepted.rules() == (
        TreatmentRule(Immediate(), ("chat:addressed",), origin=origin),
        TreatmentRule(Throttle(), ("discord:role-mention",), origin=origin),
    )


def test_acceptance_may_cover_one_half() -> None:
    edges_only = Acceptance("discord", "messaging", "sha256:one", "operator", ONTOLOGY, treatment=False)
    rules_only = Acceptance("discord", "messaging", "sha256:one", "operator", ONTOLOGY, implies=False)
    assert (len(edges_only.edges()), edges_only.rules()) == (2, ())
    assert (rules_only.edges(), len(rules_only.rules())) == ((), 2)


@pytest.mark.spec("R-tags-4", "16.5-3")
@pytest.mark.parametrize(
    ("by", "digest", "code", "path"),
    [("", "sha256:one", "accepted_by", "$.accepted_by"), ("operator", "sha256:two", "ontology_changed", "$.digest")],
)
def test_what_cannot_be_accepted(by: str, digest: str, code: str, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Acceptances().accept(Acceptance("s", "f", "sha256:one", by, ONTOLOGY), current_digest=digest)
    assert (caught.value.code, caught.value.path) == (code, path)


@pytest.mark.spec("16.5-3")
@pytest.mark.parametrize("by", ["", None, 5])
def test_an_acceptance_names_who_decided(by: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Acceptance("s", "f", "sha256:one", by, ONTOLOGY)
    assert caught.value.code == "accepted_by"


def test_a_record_has_one_acceptance_for_each_feature_set() -> None:
    with pytest.raises(InvalidValueError) as caught:
        Acceptances((ACT, OTHER_SET, replace(ACT, digest="sha256:two")))
    assert (caught.value.code, caught.value.path) == ("duplicate_acceptance", "$.entries[2]")


def test_records_can_be_compared_hashed_and_pickled() -> None:
    accepted = accept_all(ACT, OTHER_SERVER)
    twin = pickle.loads(pickle.dumps(accepted))
    assert Acceptances(list(accepted.entries)) == accepted  # type: ignore[arg-type]
    assert twin == accepted and hash(twin) == hash(accepted)
    assert (twin.edges("discord"), twin.rules()) == (accepted.edges("discord"), accepted.rules())


def accept_all(*acts: Acceptance) -> Acceptances:
    accepted = Acceptances()
    for act in acts:
        accepted = accepted.accept(act, current_digest=act.digest)
    return accepted


OTHER_SET = Acceptance("discord", "voice", "sha256:v", "operator", ONTOLOGY)
OTHER_SERVER = Acceptance("telegram", "messaging", "sha256:t", "operator", ONTOLOGY)


@pytest.mark.spec("16.5-3")
def test_acceptance_can_be_taken_back() -> None:
    accepted = accept_all(ACT, OTHER_SET, OTHER_SERVER)
    assert accepted.revoke("discord").entries == (OTHER_SERVER,)
    assert accepted.revoke("discord", "voice").entries == (ACT, OTHER_SERVER)
    assert accepted.revoke("discord", "nothing").entries == accepted.entries
    assert accepted.revoke("nobody") == accepted
    assert accepted.revoke("discord").revoke("telegram").rules() == ()


def test_a_later_acceptance_replaces_the_earlier_one() -> None:
    again = Acceptance("discord", "messaging", "sha256:two", "somebody else", TagOntology())
    assert accept_all(ACT, OTHER_SERVER, again).entries == (OTHER_SERVER, again)


def test_edges_belong_to_their_producers_events() -> None:
    accepted = accept_all(ACT, OTHER_SET, OTHER_SERVER)
    assert accepted.edges("nobody") == ()
    assert len(accepted.edges("telegram", "messaging")) == 2
    assert len(accepted.edges("discord", "messaging")) == 2
    assert accepted.edges("discord", "unaccepted") == ()
    assert len(accepted.edges("discord")) == 4, "a channel message names no feature set"


@pytest.mark.spec("16.6-3")
def test_rules_belong_to_their_producers_events() -> None:
    rules = accept_all(ACT).rules()
    tags = expand_tags(["chat:dm"])
    assert choose_treatment(rules, tags, source="discord", default=Mute()).behavior == Immediate()
    assert choose_treatment(rules, tags, source="telegram", default=Mute()).behavior == Mute()


@pytest.mark.spec("17.5-10", "R-tags-4")
def test_a_changed_ontology_ends_its_acceptance() -> None:
    accepted = accept_all(ACT, OTHER_SET, OTHER_SERVER)
    same = {"messaging": "sha256:one", "voice": "sha256:v"}
    assert accepted.revalidate("discord", same) == (accepted, ())
    assert accepted.revalidate("discord", {**same, "messaging": "sha256:new"}) == (
        Acceptances((OTHER_SET, OTHER_SERVER)),
        (ACT,),
    )
    assert accepted.revalidate("discord", {}) == (Acceptances((OTHER_SERVER,)), (ACT, OTHER_SET))
