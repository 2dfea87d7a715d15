"""The vocabulary, the walk, matching and ``uses``. The tables of cases are in ``vectors/``."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.capabilities import (
    CAPABILITY_PATHS,
    EXTENSION_CAPABILITIES,
    EXTENSION_PATHS,
    VOCABULARY,
    Capability,
    UsesCheck,
    Vocabulary,
    advertised_capabilities,
    advertised_capabilities_from_initialize,
    capability_granted,
    capability_pattern_matches,
    validate_uses,
)
from mcpl_core.errors import InvalidValueError

INJECT = "contextHooks.beforeInference.inject"

#: Any JSON tree whose member names are mostly words of the vocabulary.
WORDS = st.sampled_from(sorted({segment for path in CAPABILITY_PATHS for segment in path.split(".")} | {"x", "*"}))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=20,
)
PATTERNS = st.lists(WORDS, min_size=1, max_size=5).map(".".join)


@pytest.mark.spec("6.2-1", "R-ext-2")
def test_the_vocabulary_is_the_list_of_the_spec() -> None:
    assert sorted(CAPABILITY_PATHS) == sorted(
        [
            "pushEvents", "tools", "modelInfo", "inferenceRequest", "inferenceRequest.streaming",
            "inferenceLifecycle", "contextHooks.beforeInference.observe", f"{INJECT}.system",
            f"{INJECT}.beforeUser", f"{INJECT}.afterUser", "channels.register", "channels.lifecycle",
            "channels.publish", "channels.incoming", "channels.streaming", "channels.acknowledge",
            "channels.typing",
        ]
    )  # fmt: skip
    assert tuple(VOCABULARY) == VOCABULARY.paths == CAPABILITY_PATHS
    assert len(VOCABULARY) == 17
    assert not set(EXTENSION_PATHS) & set(CAPABILITY_PATHS)


@pytest.mark.spec("17.2-17")
def test_every_path_is_an_identifier() -> None:
    for path in (*CAPABILITY_PATHS, *EXTENSION_PATHS):
        assert re.fullmatch(r"[A-Za-z0-9._:*-]+", path)


@pytest.mark.parametrize(
    "path", ["channels", "contextHooks.beforeInference", INJECT, "channels.observe", "*", "", None, 1, ["tools"]]
)
def test_what_is_no_path(path: Any) -> None:
    assert path not in VOCABULARY
    assert not VOCABULARY.usable(path)


@pytest.mark.spec("13.4-2", "R-caps-4")
def test_what_is_denied_by_default() -> None:
    extended = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
    denied = {path for path in extended if extended.denied_by_default(path)}
    assert denied == {f"{INJECT}.system", *EXTENSION_PATHS}
    assert VOCABULARY.denied_by_default("telepathy")


def test_the_extension_paths() -> None:
    assert EXTENSION_PATHS == (
        "stateUpdate", "branches.list", "branches.create", "branches.switch", "branches.delete", "access.token",
    )  # fmt: skip


def test_extend_returns_another_vocabulary() -> None:
    extended = VOCABULARY.extend("a.b", Capability("c", denied_by_default=False))
    assert extended.paths == (*CAPABILITY_PATHS, "a.b", "c")
    assert "a.b" not in VOCABULARY
    assert advertised_capabilities({"a": True}) == frozenset()
    assert (extended.denied_by_default("a.b"), extended.denied_by_default("c")) == (True, False)
    assert extended.extend("a.b") == extended
    assert VOCABULARY.extend("a.b", "a.b").paths == (*CAPABILITY_PATHS, "a.b")


@pytest.mark.parametrize(
    "addition",
    [f"{INJECT}.system", Capability(f"{INJECT}.system", denied_by_default=True)],
)
def test_an_equal_row_is_no_addition(addition: Capability | str) -> None:
    assert VOCABULARY.extend(addition) == VOCABULARY


@pytest.mark.parametrize(
    ("addition", "code"),
    [
        (Capability(f"{INJECT}.system", denied_by_default=False), "duplicate_capability"),
        ("tools", "duplicate_capability"),
        ("", "capability_path"),
        ("a..b", "capability_path"),
        (".a", "capability_path"),
        ("a.", "capability_path"),
        ("a.*", "capability_path"),
        ("a b", "capability_path"),
        ("a\n", "capability_path"),
        ("é", "capability_path"),
        (Capability(5), "capability_path"),  # type: ignore[arg-type]
        (None, "capability_path"),
        ("featureSets", "reserved_member"),
        ("featureSets.x", "reserved_member"),
        ("version", "reserved_member"),
        ("revision.x", "reserved_member"),
    ],
)
def test_extend_refuses(addition: Any, code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        VOCABULARY.extend(addition)
    assert (caught.value.code, caught.value.path) == (code, "$[17]")
    row = Capability(addition) if isinstance(addition, str) else addition
    with pytest.raises(InvalidValueError) as caught:
        Vocabulary((*VOCABULARY.capabilities, row))
    assert (caught.value.code, caught.value.path) == (code, "$[17]")


def test_a_vocabulary_is_not_changed_from_outside() -> None:
    rows = [Capability("a")]
    vocabulary = Vocabulary(rows)  # type: ignore[arg-type]
    rows.append(Capability("b"))
    assert vocabulary == Vocabulary((Capability("a"),)) and hash(vocabulary) == hash(Vocabulary((Capability("a"),)))
    twin = pickle.loads(pickle.dumps(VOCABULARY))
    assert twin == VOCABULARY and twin.advertised({"channels": True}) == VOCABULARY.advertised({"channels": True})


def test_a_contradiction_among_additions_is_refused_too() -> None:
    with pytest.raises(InvalidValueError) as caught:
        VOCABULARY.extend("a", Capability("a", denied_by_default=False), "a")
    assert (caught.value.code, caught.value.path) == ("duplicate_capability", "$[18]")


def test_a_vocabulary_is_short_where_it_is_shown() -> None:
    assert repr(Vocabulary((Capability("a"),))) == "Vocabulary(1 paths)"


@pytest.mark.spec("5.4-2")
@pytest.mark.parametrize("depth", [1, 2, 7, 40])
def test_the_walk_has_no_depth_of_its_own(depth: int) -> None:
    path = ".".join(f"n{level}" for level in range(depth))
    tree: Any = True
    for level in reversed(range(depth)):
        tree = {f"n{level}": tree}
    assert advertised_capabilities(tree, VOCABULARY.extend(path)) == {path}
    assert advertised_capabilities({"n0": True}, VOCABULARY.extend(path)) == {path}


@pytest.mark.spec("5.1-3")
def test_shorthand_and_spelled_out_form_are_one_advertisement() -> None:
    leaves = {"system": True, "beforeUser": True, "afterUser": True}
    spelled = {"contextHooks": {"beforeInference": {"observe": True, "inject": leaves}}}
    assert advertised_capabilities(spelled) == advertised_capabilities({"contextHooks": True})


@given(TREES)
def test_an_advertisement_is_paths_of_the_vocabulary_and_never_tools(tree: Any) -> None:
    assert advertised_capabilities(tree) <= set(CAPABILITY_PATHS) - {"tools"}
    assert advertised_capabilities_from_initialize(tree) <= set(CAPABILITY_PATHS)


@given(st.dictionaries(WORDS, TREES, max_size=4), st.sampled_from([False, None, 0, "true", [True]]))
def test_taking_a_member_away_only_takes_away(tree: dict[str, Any], nothing: Any) -> None:
    for name in tree:
        assert advertised_capabilities({**tree, name: nothing}) <= advertised_capabilities(tree)


def test_a_hostile_depth_costs_nothing() -> None:
    tree: Any = True
    for _ in range(100_000):
        tree = {"channels": tree}
    assert advertised_capabilities(tree) == frozenset()


def test_an_outer_capability_may_have_any_depth() -> None:
    vocabulary = VOCABULARY.extend(Capability("resources.subscribe", outer=True))
    shapes: list[Any] = [{"resources": {"subscribe": {}}}, {"resources": {"subscribe": True}}, {"resources": True}]
    assert [advertised_capabilities_from_initialize(shape, vocabulary) for shape in shapes] == [
        {"resources.subscribe"}, set(), set(),
    ]  # fmt: skip
    assert advertised_capabilities({"resources": {"subscribe": {}}}, vocabulary) == frozenset()


@pytest.mark.parametrize("capabilities", [None, True, "tools", [{"tools": {}}]])
def test_what_is_no_capabilities_object_advertises_nothing(capabilities: Any) -> None:
    assert advertised_capabilities_from_initialize(capabilities) == frozenset()


@pytest.mark.spec("5.4-3", "5.4-4")
def test_patterns() -> None:
    assert capability_pattern_matches("tools", "tools")
    assert capability_pattern_matches("channels.*", "channels.publish")
    assert not capability_pattern_matches("tools", "pushEvents")
    assert not capability_pattern_matches("*", "channels.publish")
    assert not capability_pattern_matches("channels.*", "channels.")


@pytest.mark.parametrize("odd", [None, 5, True, b"tools", ["tools"], {"tools": 1}])
def test_what_is_no_string_matches_nothing(odd: Any) -> None:
    assert not capability_pattern_matches(odd, "tools")
    assert not capability_pattern_matches("*", odd)
    assert not capability_pattern_matches(odd, odd)
    assert not capability_granted([odd, "*"], odd)
    assert VOCABULARY.denied_by_default(odd)


@pytest.mark.spec("5.4-3", "5.4-4")
@given(PATTERNS, PATTERNS)
def test_a_match_has_equal_segments_where_there_is_no_star(pattern: str, path: str) -> None:
    wanted, given_ = pattern.split("."), path.split(".")
    expected = len(wanted) == len(given_) and all(a in (b, "*") for a, b in zip(wanted, given_, strict=True))
    assert capability_pattern_matches(pattern, path) is expected


@given(PATTERNS)
def test_a_pattern_without_star_matches_itself_alone(path: str) -> None:
    if "*" not in path:
        assert [p for p in CAPABILITY_PATHS if capability_pattern_matches(path, p)] == [
            p for p in CAPABILITY_PATHS if p == path
        ]


@pytest.mark.parametrize("entries", [["tools"], ("tools",), {"tools"}, frozenset({"tools"})])
def test_entries_may_be_any_collection(entries: Any) -> None:
    assert capability_granted(entries, "tools")


@pytest.mark.parametrize("entries", [None, "tools", b"tools", {"tools": True}, 5, True, [], iter(["tools"])])
def test_what_is_no_list_of_entries_grants_nothing(entries: Any) -> None:
    assert not capability_granted(entries, "tools")


@given(st.lists(PATTERNS | SCALARS, max_size=5), st.sampled_from(CAPABILITY_PATHS), PATTERNS | SCALARS)
def test_more_entries_never_grant_less(entries: list[Any], path: str, more: Any) -> None:
    assert capability_granted([*entries, more], path) >= capability_granted(entries, path)


@pytest.mark.spec("13.4-1")
@pytest.mark.parametrize("path", CAPABILITY_PATHS)
def test_each_path_can_be_granted_alone(path: str) -> None:
    assert [other for other in CAPABILITY_PATHS if capability_granted([path], other)] == [path]


@pytest.mark.spec("6.2-2", "6.2-3", "6.4-2", "R-caps-3")
@pytest.mark.parametrize(
    ("uses", "unrecognized"),
    [
        (None, ()),
        ([], ()),
        ("tools", ()),
        ({"tools": True}, ()),
        (5, ()),
        (True, ()),
        (["channels.observe"], ("channels.observe",)),
        (["contextHooks.beforeInference"], ("contextHooks.beforeInference",)),
        (["tools", "channels.*"], ("channels.*",)),
        (["tools", None, ["tools"], {}], (None, ["tools"], {})),
        (["stateUpdate"], ("stateUpdate",)),
    ],
)
def test_invalid_uses(uses: Any, unrecognized: tuple[Any, ...]) -> None:
    check = validate_uses(uses)
    assert check == UsesCheck("invalid_uses", (), unrecognized)
    assert not check.valid


def test_valid_uses() -> None:
    check = validate_uses(["pushEvents", "tools", "pushEvents"])
    assert check == UsesCheck(None, ("pushEvents", "tools"), ())
    assert check.valid
    assert validate_uses(("tools",)).valid


def test_uses_of_an_extended_vocabulary() -> None:
    extended = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
    assert validate_uses(["stateUpdate", "branches.list"], extended).valid
    assert validate_uses(["tools", "access.token"], extended).unrecognized == ("access.token",)
