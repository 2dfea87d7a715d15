"""Tag syntax, the core vocabulary, closure and globs. The tables of cases are in ``vectors/``."""

from __future__ import annotations

import fnmatch
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.tags import (
    CHAT_ADDRESSED,
    CHAT_AMBIENT,
    CHAT_TAGS,
    CORE_IMPLICATIONS,
    RESERVED_NAMESPACES,
    DroppedTag,
    ImplicationEdge,
    Tag,
    TagReading,
    check_tags,
    expand_tags,
    glob_matches,
    is_reserved,
    parse_tag,
    read_tags,
)

TAGS = st.sampled_from([*CHAT_TAGS, "x:a", "x:b", "y:k=v"])
TAG_LISTS = st.lists(TAGS, max_size=8)
EDGES = st.lists(st.builds(ImplicationEdge, TAGS, st.lists(TAGS, max_size=3).map(tuple)), max_size=5)


@pytest.mark.spec("16.2-1")
def test_the_core_vocabulary() -> None:
    by_facet = {
        "addressing": "addressed mention reply dm ambient broadcast to-self",
        "sender": "from-human from-bot from-self from-agent",
        "lifecycle": "edited deleted reaction reaction-remove",
        "content": "has-image has-audio has-file has-link command",
        "locus": "private group thread",
    }
    expected = {f"chat:{tag}": facet for facet, tags in by_facet.items() for tag in tags.split()}
    assert expected == CHAT_TAGS
    assert len(CHAT_TAGS) == 23


def test_the_tables_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        CORE_IMPLICATIONS["x:a"] = (CHAT_ADDRESSED,)  # type: ignore[index]
    with pytest.raises(TypeError):
        CHAT_TAGS["x:a"] = "sender"  # type: ignore[index]


@pytest.mark.spec("17.2-17", "16.1-1")
@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("chat:dm", Tag("chat", "dm")),
        ("urgency:high", Tag("urgency", "high")),
        ("discord:urgency=high", Tag("discord", "high", "urgency")),
        ("a.b-c_D9:x", Tag("a.b-c_D9", "x")),
        ("a:b:c", Tag("a", "b:c")),
        ("a:b:c=d:e", Tag("a", "d:e", "b:c")),
        ("a:*", Tag("a", "*")),
    ],
)
def test_tags(text: str, tag: Tag) -> None:
    assert parse_tag(text) == tag
    assert str(tag) == text


@pytest.mark.spec("16.1-4")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("mention", "tag_namespace"),
        ("", "tag_namespace"),
        (":x", "tag_namespace"),
        (":", "tag_namespace"),
        ("a=b", "tag_namespace"),
        ("a:", "tag_syntax"),
        ("a:=b", "tag_syntax"),
        ("a:b=", "tag_syntax"),
        ("a:b=c=d", "tag_syntax"),
        ("a b:c", "tag_syntax"),
        ("a:b\n", "tag_syntax"),
        ("a*:b", "tag_syntax"),
        ("k=a:b", "tag_syntax"),
        ("a:é", "tag_syntax"),
        ("a:\ud800", "tag_syntax"),
        ("a:\u0661", "tag_syntax"),
        (None, "not_string"),
        (5, "not_string"),
        (b"a:b", "not_string"),
        (["a:b"], "not_string"),
    ],
)
def test_what_is_no_tag(text: Any, code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_tag(text, "$[3]")
    assert (caught.value.code, caught.value.path) == (code, "$[3]")


@pytest.mark.spec("16.1-2")
def test_reserved_namespaces() -> None:
    assert RESERVED_NAMESPACES == {"chat", "mcpl"}
    assert [is_reserved(tag) for tag in ("chat:dm", "chat:new", "mcpl:x", "discord:x", "chat", "chats:x", "")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip


@pytest.mark.spec("16.1-3", "R-tags-3")
def test_reading_keeps_what_is_a_tag() -> None:
    assert read_tags(["x:a", "bare", 7, "x:a", "chat:dm"]) == TagReading(
        ("x:a", "chat:dm"), (DroppedTag("tag_namespace", "$[1]", "bare"), DroppedTag("not_string", "$[2]", 7))
    )
    assert read_tags(msgspec.UNSET) == TagReading()
    assert read_tags(None) == TagReading((), (DroppedTag("not_array", "$", None),))


@given(
    st.recursive(
        st.none() | st.booleans() | st.text() | st.floats(), lambda i: st.lists(i) | st.dictionaries(st.text(), i)
    )
)
def test_anything_can_be_read(value: Any) -> None:
    reading = read_tags(value)
    for tag in reading.tags:
        parse_tag(tag)
    count = len(value) if isinstance(value, list) else 1
    assert len(reading.dropped) <= count


@pytest.mark.spec("R-tags-3")
def test_what_we_send_is_checked() -> None:
    assert check_tags(["x:a", "chat:dm", "x:a"]) == ("x:a", "chat:dm")
    assert check_tags(iter(["x:a"])) == ("x:a",)
    for tags, code, path in (
        (["x:a", "mention"], "tag_namespace", "$[1]"),
        ([None], "not_string", "$[0]"),
        ([["x:a"]], "not_string", "$[0]"),
        ("x:a", "not_array", "$"),
    ):
        with pytest.raises(InvalidValueError) as caught:
            check_tags(tags)
        assert (caught.value.code, caught.value.path) == (code, path)


def test_a_bare_string_has_no_closure() -> None:
    with pytest.raises(InvalidValueError) as caught:
        expand_tags("chat:dm")
    assert (caught.value.code, caught.value.path) == ("not_array", "$")


@pytest.mark.parametrize("odd", [None, 5, b"chat:dm", ["chat:dm"]])
def test_what_is_no_string_is_in_no_namespace_and_matches_nothing(odd: Any) -> None:
    assert not is_reserved(odd)
    assert glob_matches("*", odd) is glob_matches(odd, "a") is glob_matches(odd, odd) is False


@pytest.mark.spec("16.3-1", "R-tags-1")
def test_the_core_closure() -> None:
    assert {tag: set(implied) for tag, implied in CORE_IMPLICATIONS.items()} == {
        "chat:mention": {"chat:addressed"},
        "chat:reply": {"chat:addressed"},
        "chat:dm": {"chat:addressed", "chat:private"},
    }
    for tag in CHAT_TAGS:
        assert set(expand_tags([tag])) == {tag, *CORE_IMPLICATIONS.get(tag, ())}


@pytest.mark.spec("16.3-3")
@given(TAG_LISTS, EDGES)
def test_closure_is_idempotent(tags: list[str], edges: list[ImplicationEdge]) -> None:
    once = expand_tags(tags, edges)
    assert set(expand_tags(once, edges)) == set(once)
    assert len(set(once)) == len(once)


@pytest.mark.spec("16.3-3", "16.3-4")
@given(TAG_LISTS, EDGES)
def test_closure_only_adds_but_for_ambient(tags: list[str], edges: list[ImplicationEdge]) -> None:
    closed = set(expand_tags(tags, edges))
    assert set(tags) - closed <= {CHAT_AMBIENT}
    assert not {CHAT_ADDRESSED, CHAT_AMBIENT} <= closed
    assert (CHAT_AMBIENT in tags and CHAT_AMBIENT not in closed) <= (CHAT_ADDRESSED in closed)


@pytest.mark.spec("16.1-3")
@given(TAG_LISTS, EDGES, st.randoms(use_true_random=False))
def test_order_and_repetition_mean_nothing(tags: list[str], edges: list[ImplicationEdge], random: Any) -> None:
    shuffled = [*tags, *tags]
    random.shuffle(shuffled)
    assert set(expand_tags(shuffled, edges)) == set(expand_tags(tags, edges))


@pytest.mark.spec("16.3-3")
@given(TAG_LISTS, EDGES)
def test_closure_is_transitive(tags: list[str], edges: list[ImplicationEdge]) -> None:
    closed = set(expand_tags(tags, edges)) | {CHAT_AMBIENT}
    all_edges = [*edges, *(ImplicationEdge(tag, implied) for tag, implied in CORE_IMPLICATIONS.items())]
    assert all(set(edge.implies) <= closed for edge in all_edges if edge.tag in closed - {CHAT_AMBIENT})


@pytest.mark.spec("16.4-1")
@given(st.lists(st.from_regex(r"x:[a-z0-9]{1,5}", fullmatch=True)))
def test_an_undescribed_tag_stays_and_implies_nothing(tags: list[str]) -> None:
    assert expand_tags(tags) == tuple(dict.fromkeys(tags))


def test_a_cycle_and_a_long_chain_end() -> None:
    cycle = [ImplicationEdge("x:a", ("x:b",)), ImplicationEdge("x:b", ("x:a",))]
    assert expand_tags(["x:a"], cycle) == ("x:a", "x:b")
    chain = [ImplicationEdge(f"x:{i}", (f"x:{i + 1}",)) for i in range(5_000)]
    assert len(expand_tags(["x:0"], chain)) == 5_001


def test_edges_of_one_tag_join_with_the_core() -> None:
    edges = [ImplicationEdge("chat:dm", ("x:a", "x:a")), ImplicationEdge("chat:dm", ("x:b",))]
    assert set(expand_tags(["chat:dm"], edges)) == {"chat:dm", "chat:addressed", "chat:private", "x:a", "x:b"}
    assert set(expand_tags(["chat:dm"])) == {"chat:dm", "chat:addressed", "chat:private"}


@pytest.mark.spec("R-tags-2")
@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("chat:dm", "chat:dm", True),
        ("chat:dm", "chat:DM", False),
        ("chat:*", "chat:dm", True),
        ("chat:*", "chat:", True),
        ("*", "", True),
        ("*", "anything:at.all", True),
        ("**", "x", True),
        ("*:dm", "chat:dm", True),
        ("c*t:d*m", "chat:dm", True),
        ("c*t:d*m", "chat:dmx", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "abc", True),
        ("a*b*c", "acb", False),
        ("ab*ba", "aba", False),
        ("*ab*ab*", "abab", True),
        ("*ab*ab*", "abb", False),
        ("a?", "ab", False),
        ("a?", "a?", True),
        ("[ab]", "a", False),
        ("a.c", "abc", False),
        ("", "", True),
        ("", "a", False),
        ("a", "", False),
        ("*x", "a\nx", True),
    ],
)
def test_globs(pattern: str, text: str, matches: bool) -> None:
    assert glob_matches(pattern, text) is matches


@given(st.text("ab*:", max_size=8), st.text("ab:", max_size=10))
def test_globs_agree_with_a_regular_expression(pattern: str, text: str) -> None:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert glob_matches(pattern, text) is (re.fullmatch(expression, text, re.DOTALL) is not None)
    assert glob_matches(pattern, text) is fnmatch.fnmatchcase(text, pattern)


def test_a_hostile_pattern_is_cheap() -> None:
    assert not glob_matches("*a" * 2_000 + "b", "a" * 20_000)
