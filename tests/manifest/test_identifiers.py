"""Which strings of a manifest are identifiers. A table of positions, each with a good and a bad name."""

from __future__ import annotations

import copy
import enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.capabilities import CAPABILITY_PATHS
from mcpl_core.errors import InvalidValueError
from mcpl_core.manifest.identifiers import all_strings, check_identifiers, is_identifier
from mcpl_core.manifest.jcs import copy_tree


@pytest.mark.spec("17.2-17")
@pytest.mark.parametrize("text", ["a", "Z9", "chat:from-self", "a.b_c", "*", "memory.*", *CAPABILITY_PATHS])
def test_identifiers(text: str) -> None:
    assert is_identifier(text)


@pytest.mark.spec("17.2-17")
@pytest.mark.parametrize("text", ["", " ", "a b", "a/b", "a\n", "na\u00efve", "a=b", "\uff41", None, 1, b"a", ["a"]])
def test_not_identifiers(text: object) -> None:
    assert not is_identifier(text)


def test_all_strings() -> None:
    class Path(enum.StrEnum):
        TOOLS = "tools"

    assert all_strings(["a", Path.TOOLS]) == ["a", "tools"]
    assert all_strings(("a",)) == ("a",)
    assert all_strings([]) == []
    assert [all_strings(value) for value in ("a", None, {"a": 1}, ["a", 1], [None], [["a"]])] == [None] * 6


MANIFEST: dict[str, Any] = {
    "version": "0.5 \u00e9",
    "revision": "any text",
    "pushEvents": True,
    "contextHooks": {"beforeInference": {"inject": {"beforeUser": True}}},
    "featureSets": {
        "memory": {
            "description": "free text \u00e9",
            "uses": ["tools", "pushEvents"],
            "tagOntology": {
                "coreTags": ["chat:dm"],
                "tags": {"memory:new": {"desc": "free text \u00e9", "facet": "content", "implies": ["chat:command"]}},
                "keyed": {"urgency": {"desc": "free text", "values": ["low", "high"]}},
                "suggestedTreatment": [
                    {"tagsAny": ["chat:*"], "tagsAll": ["memory:new"], "tagsNone": ["chat:dm"], "behavior": "free text"}
                ],
            },
        }
    },
}
BAD = "b\u00e4d"
ONTOLOGY = ("featureSets", "memory", "tagOntology")


def at(tree: Any, steps: tuple[str | int, ...]) -> Any:
    for step in steps:
        tree = tree[step]
    return tree


@pytest.mark.spec("17.2-12", "17.2-13")
def test_a_manifest_of_every_shape_is_fine() -> None:
    check_identifiers(MANIFEST)
    check_identifiers({})


@pytest.mark.spec("17.2-12", "17.2-11")
@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ((), '$["b\\u00e4d"]'),
        (("contextHooks",), '$.contextHooks["b\\u00e4d"]'),
        (("contextHooks", "beforeInference", "inject"), '$.contextHooks.beforeInference.inject["b\\u00e4d"]'),
        (("featureSets",), '$.featureSets["b\\u00e4d"]'),
        ((*ONTOLOGY, "tags"), '$.featureSets.memory.tagOntology.tags["b\\u00e4d"]'),
        ((*ONTOLOGY, "keyed"), '$.featureSets.memory.tagOntology.keyed["b\\u00e4d"]'),
    ],
)
def test_a_bad_member_name_is_found(steps: tuple[str | int, ...], path: str) -> None:
    manifest = copy.deepcopy(MANIFEST)
    at(manifest, steps)[BAD] = {}
    with pytest.raises(InvalidValueError) as caught:
        check_identifiers(manifest)
    assert (caught.value.code, caught.value.path) == ("identifier_charset", path)


ARRAYS: list[tuple[tuple[str | int, ...], str]] = [
    (("featureSets", "memory", "uses"), "$.featureSets.memory.uses"),
    ((*ONTOLOGY, "coreTags"), "$.featureSets.memory.tagOntology.coreTags"),
    ((*ONTOLOGY, "tags", "memory:new", "implies"), '$.featureSets.memory.tagOntology.tags["memory:new"].implies'),
    ((*ONTOLOGY, "keyed", "urgency", "values"), "$.featureSets.memory.tagOntology.keyed.urgency.values"),
    *(
        (
            (*ONTOLOGY, "suggestedTreatment", 0, matcher),
            f"$.featureSets.memory.tagOntology.suggestedTreatment[0].{matcher}",
        )
        for matcher in ("tagsAny", "tagsAll", "tagsNone")
    ),
]


@pytest.mark.spec("17.2-12")
@pytest.mark.parametrize("bad", [BAD, "", "chat:dm "])
@pytest.mark.parametrize(("steps", "path"), ARRAYS)
def test_a_bad_string_in_an_array_is_found(steps: tuple[str | int, ...], path: str, bad: str) -> None:
    manifest = copy.deepcopy(MANIFEST)
    strings = at(manifest, steps)
    strings.append(bad)
    with pytest.raises(InvalidValueError) as caught:
        check_identifiers(manifest)
    assert (caught.value.code, caught.value.path) == ("identifier_charset", f"{path}[{len(strings) - 1}]")


@pytest.mark.spec("17.2-9")
@pytest.mark.parametrize(("steps", "path"), ARRAYS)
def test_an_array_with_another_member_holds_no_identifiers(steps: tuple[str | int, ...], path: str) -> None:
    manifest = copy.deepcopy(MANIFEST)
    at(manifest, steps).extend([BAD, 1])
    check_identifiers(manifest)


def test_a_bad_facet_is_found() -> None:
    manifest = copy.deepcopy(MANIFEST)
    tag = at(manifest, (*ONTOLOGY, "tags", "memory:new"))
    tag["facet"] = BAD
    with pytest.raises(InvalidValueError) as caught:
        check_identifiers(manifest)
    assert caught.value.path == '$.featureSets.memory.tagOntology.tags["memory:new"].facet'
    tag["facet"] = [BAD]
    check_identifiers(manifest)


@pytest.mark.spec("17.2-10")
@pytest.mark.parametrize(
    ("steps", "other"),
    [
        (("featureSets",), [{"name": BAD, "uses": [BAD]}]),
        (("featureSets",), BAD),
        (("featureSets", "memory"), [{BAD: BAD}]),
        (("featureSets", "memory", "uses"), BAD),
        (("featureSets", "memory", "uses"), {BAD: BAD}),
        (ONTOLOGY, [{"coreTags": [BAD]}]),
        ((*ONTOLOGY, "tags"), [BAD]),
        ((*ONTOLOGY, "tags", "memory:new"), [BAD]),
        ((*ONTOLOGY, "keyed"), [{"values": [BAD]}]),
        ((*ONTOLOGY, "keyed", "urgency"), BAD),
        ((*ONTOLOGY, "suggestedTreatment"), {"r": {"tagsAny": [BAD]}}),
        ((*ONTOLOGY, "suggestedTreatment"), [[{"tagsAny": [BAD]}], BAD]),
        (("contextHooks",), [{BAD: True}]),
        (("contextHooks",), BAD),
        (("version",), {BAD: 1}),
        (("revision",), {BAD: 1}),
    ],
)
def test_another_shape_holds_no_identifiers(steps: tuple[str | int, ...], other: Any) -> None:
    manifest = copy.deepcopy(MANIFEST)
    at(manifest, steps[:-1])[steps[-1]] = other
    check_identifiers(manifest)


def test_a_capability_may_be_nested_without_end() -> None:
    tree: dict[str, Any] = {BAD: True}
    for _ in range(20_000):
        tree = {"a": tree}
    with pytest.raises(InvalidValueError) as caught:
        check_identifiers(tree)
    assert caught.value.path == "$" + ".a" * 20_000 + '["b\\u00e4d"]'


@given(st.lists(st.text("aZ9._:*- /\n\u00e9", max_size=3), max_size=5))
def test_names_checked_together_are_checked_one_by_one(names: list[str]) -> None:
    manifest = copy_tree(MANIFEST)
    manifest["featureSets"]["memory"]["uses"] = names
    if all(map(is_identifier, names)):
        check_identifiers(manifest)
    else:
        with pytest.raises(InvalidValueError):
            check_identifiers(manifest)
