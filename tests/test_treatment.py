"""Behaviours, rules and the choice among them. The tables of cases are in ``vectors/tags.json``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.tags import CHAT_TAGS, glob_matches
from mcpl_core.treatment import (
    Behavior,
    Debounce,
    Immediate,
    Mute,
    RuleOrigin,
    Sample,
    Throttle,
    Treatment,
    TreatmentRule,
    behavior_to_wire,
    choose_treatment,
    parse_behavior,
    parse_rule,
    parse_rules,
    with_interval,
)

BEHAVIORS: list[tuple[Any, Behavior]] = [
    ("immediate", Immediate()),
    ("mute", Mute()),
    ("debounce", Debounce()),
    ("throttle", Throttle()),
    ({"debounce": 180000}, Debounce(180000)),
    ({"throttle": {"perMs": 5000}}, Throttle(5000)),
    ({"sample": {"every": 10}}, Sample(10)),
    ({"debounce": 2**53 - 1}, Debounce(2**53 - 1)),
    ({"debounce": 1}, Debounce(1)),
    ({"sample": {"every": 1}}, Sample(1)),
]

GLOBS = st.sampled_from([*CHAT_TAGS, "chat:*", "*", "x:*", "*:dm"])
GLOB_LISTS = st.none() | st.lists(GLOBS, max_size=3).map(tuple)
ORIGINS = st.none() | st.builds(RuleOrigin, st.sampled_from(["s", "t"]), st.just("f"), st.just("d"), st.just("o"))
RULES = st.builds(
    TreatmentRule,
    st.sampled_from([behavior for _, behavior in BEHAVIORS]),
    GLOB_LISTS,
    GLOB_LISTS,
    GLOB_LISTS,
    st.none() | st.sampled_from([("s",), ("t", "*"), ()]),
    st.none() | st.sampled_from([("c*",), ("d",), ()]),
    ORIGINS,
)
TAG_SETS = st.frozensets(st.sampled_from([*CHAT_TAGS, "x:a"]), max_size=5)


@pytest.mark.spec("R-tags-5")
@pytest.mark.parametrize(("wire", "behavior"), BEHAVIORS)
def test_behaviours(wire: Any, behavior: Behavior) -> None:
    assert parse_behavior(wire) == behavior
    assert behavior_to_wire(behavior) == wire


@pytest.mark.spec("R-tags-5")
def test_skip_is_an_older_word_for_mute() -> None:
    assert parse_behavior("skip") == Mute()
    assert behavior_to_wire(Mute()) == "mute"


def test_a_whole_number_may_come_as_a_float() -> None:
    behavior = parse_behavior({"debounce": 1.8e5})
    assert behavior == Debounce(180000)
    assert isinstance(behavior, Debounce)
    assert type(behavior.ms) is int


@pytest.mark.parametrize(
    ("wire", "code", "path"),
    [
        (None, "behavior", "$"),
        ("Immediate", "behavior", "$"),
        ("sample", "behavior", "$"),
        (5, "behavior", "$"),
        ([], "behavior", "$"),
        ({}, "behavior", "$"),
        ({"debounce": 1, "sample": {"every": 1}}, "behavior", "$"),
        ({"mute": True}, "behavior", "$"),
        ({"debounce": 0}, "behavior_amount", "$.debounce"),
        ({"debounce": -1}, "behavior_amount", "$.debounce"),
        ({"debounce": 1.5}, "behavior_amount", "$.debounce"),
        ({"debounce": True}, "behavior_amount", "$.debounce"),
        ({"debounce": "1"}, "behavior_amount", "$.debounce"),
        ({"debounce": None}, "behavior_amount", "$.debounce"),
        ({"debounce": 2**53}, "behavior_amount", "$.debounce"),
        ({"debounce": float("inf")}, "behavior_amount", "$.debounce"),
        ({"debounce": float("nan")}, "behavior_amount", "$.debounce"),
        ({"debounce": {"ms": 1}}, "behavior_amount", "$.debounce"),
        ({"throttle": 1}, "behavior", "$.throttle"),
        ({"throttle": {}}, "behavior", "$.throttle"),
        ({"throttle": {"perMs": 1, "x": 1}}, "behavior", "$.throttle"),
        ({"throttle": {"perMs": 0}}, "behavior_amount", "$.throttle.perMs"),
        ({"sample": {"every": 0}}, "behavior_amount", "$.sample.every"),
    ],
)
def test_what_is_no_behaviour(wire: Any, code: str, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_behavior(wire)
    assert (caught.value.code, caught.value.path) == (code, path)


@pytest.mark.parametrize("make", [lambda: Debounce(0), lambda: Throttle(-5), lambda: Sample(0)])
def test_behaviours_made_in_code_are_checked_too(make: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        make()
    assert caught.value.code == "behavior_amount"


@pytest.mark.parametrize("amount", [1.0, True, "1", [1]])
def test_an_amount_in_code_is_an_integer(amount: Any) -> None:
    for make in (Debounce, Throttle, Sample):
        with pytest.raises(InvalidValueError) as caught:
            make(amount)
        assert caught.value.code == "behavior_amount"


@pytest.mark.spec("R-tags-5")
def test_the_hosts_interval() -> None:
    assert with_interval(Debounce(), 250) == Debounce(250)
    assert with_interval(Throttle(), 250) == Throttle(250)
    for behavior in (Debounce(9), Throttle(9), Immediate(), Mute(), Sample(9)):
        assert with_interval(behavior, 250) == behavior


def test_a_rule() -> None:
    wire = {
        "tagsAny": ["chat:addressed"],
        "tagsAll": [],
        "tagsNone": ["chat:from-self"],
        "source": ["disc*"],
        "channel": ["discord:acme/*"],
        "behavior": {"debounce": 5},
    }
    rule = parse_rule(wire)
    assert rule == TreatmentRule(
        Debounce(5), ("chat:addressed",), (), ("chat:from-self",), ("disc*",), ("discord:acme/*",)
    )
    assert rule.to_wire() == wire
    assert parse_rule({"behavior": "mute"}) == TreatmentRule(Mute())
    assert parse_rule({"source": "s", "channel": "c", "behavior": "mute"}) == TreatmentRule(
        Mute(), source=("s",), channel=("c",)
    )


@given(RULES)
def test_a_rule_is_read_as_it_was_written(rule: TreatmentRule) -> None:
    wire = rule.to_wire()
    assert parse_rule(wire).to_wire() == wire


@pytest.mark.parametrize(
    ("wire", "code", "path"),
    [
        (None, "not_array", "$.rules"),
        ("mute", "not_array", "$.rules"),
        ({}, "not_array", "$.rules"),
        ([None], "not_object", "$.rules[0]"),
        ([{"behavior": "mute"}, {}], "behavior", "$.rules[1].behavior"),
        ([{"behavior": "mute", "scope": []}], "unknown_member", "$.rules[0].scope"),
        ([{"behavior": "mute", "source": 5}], "not_array", "$.rules[0].source"),
        ([{"behavior": "mute", "channel": ["a", 5]}], "not_string", "$.rules[0].channel[1]"),
        ([{"behavior": "mute", "tagsNone": None}], "not_array", "$.rules[0].tagsNone"),
    ],
)
def test_a_rule_list_is_read_whole_or_not_at_all(wire: Any, code: str, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_rules(wire, "$.rules")
    assert (caught.value.code, caught.value.path) == (code, path)


@pytest.mark.parametrize("matcher", ["tags_any", "tags_all", "tags_none", "source", "channel"])
def test_a_matcher_is_a_list_of_patterns(matcher: str) -> None:
    for value, code, path in (("x:*", "not_array", f"$.{matcher}"), (["x:*", 5], "not_string", f"$.{matcher}[1]")):
        with pytest.raises(InvalidValueError) as caught:
            TreatmentRule(Mute(), **{matcher: value})  # type: ignore[arg-type]
        assert (caught.value.code, caught.value.path) == (code, path)
    assert getattr(TreatmentRule(Mute(), **{matcher: ["x:*"]}), matcher) == ("x:*",)  # type: ignore[arg-type]


def test_tags_are_no_bare_string() -> None:
    with pytest.raises(InvalidValueError) as caught:
        choose_treatment((), "chat:dm", source="s")
    assert (caught.value.code, caught.value.path) == ("not_array", "$.tags")


@pytest.mark.spec("R-tags-2")
@given(GLOBS, TAG_SETS)
def test_a_pattern_matches_the_tags_that_its_glob_matches(pattern: str, tags: frozenset[str]) -> None:
    expected = any(glob_matches(pattern, tag) for tag in tags)
    assert TreatmentRule(Mute(), tags_any=(pattern,)).matches(tags, "s", None) is expected
    assert TreatmentRule(Mute(), tags_all=(pattern,)).matches(list(tags), "s", None) is expected
    assert TreatmentRule(Mute(), tags_none=(pattern,)).matches(tuple(tags), "s", None) is not expected


@pytest.mark.spec("16.7-1")
@given(st.lists(RULES, max_size=6), TAG_SETS, st.sampled_from(["s", "t"]), st.sampled_from([None, "c1", "d"]))
def test_the_first_rule_that_matches_decides(
    rules: list[TreatmentRule], tags: frozenset[str], source: str, channel: str | None
) -> None:
    chosen = choose_treatment(rules, tags, source=source, channel=channel, default=Sample(7))
    matching = [index for index, rule in enumerate(rules) if rule.matches(tags, source, channel)]
    if matching:
        assert chosen == Treatment(rules[matching[0]].behavior, rules[matching[0]], matching[0])
    else:
        assert chosen == Treatment(Sample(7), None, None)


@pytest.mark.spec("16.6-3")
@given(TAG_SETS, st.sampled_from([("other",), ("oth*",), ()]), st.sampled_from([None, "c"]))
def test_no_tag_makes_a_rule_for_another_source_match(
    tags: frozenset[str], source: tuple[str, ...], channel: str | None
) -> None:
    assert not TreatmentRule(Immediate(), ("*",), source=source).matches(tags, "mine", channel)


@pytest.mark.spec("16.6-3", "16.5-3")
def test_a_rule_from_a_producer_matches_its_own_events_alone() -> None:
    rule = TreatmentRule(Immediate(), origin=RuleOrigin("discord", "f", "sha256:d", "operator"))
    assert rule.matches((), "discord", None)
    assert not rule.matches((), "telegram", None)
    assert not rule.matches((), "disc*", None)


@pytest.mark.spec("16.7-2", "16.7-3")
@given(RULES, TAG_SETS)
def test_matchers_only_narrow(rule: TreatmentRule, tags: frozenset[str]) -> None:
    free = TreatmentRule(rule.behavior)
    assert free.matches(tags, "s", "c1") >= rule.matches(tags, "s", "c1")
    assert rule.matches(tags, "s", "c1") >= (rule.matches(tags, "s", None) and rule.channel is not None)


@pytest.mark.spec("16.5-2", "R-tags-5")
def test_the_default_is_immediate_unless_set() -> None:
    assert choose_treatment([], ["chat:dm"], source="s") == Treatment(Immediate())
    assert choose_treatment([], ["chat:dm"], source="s", default=Mute()) == Treatment(Mute())
