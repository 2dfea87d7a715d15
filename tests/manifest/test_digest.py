"""The revision of a manifest: sets, lists, what is left out, and the little that is refused."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import subprocess
import sys
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.manifest.digest import (
    is_manifest_revision,
    manifest_canonical_json,
    manifest_digest,
    normalized_manifest,
    ontology_digest,
    sort_set,
    with_revision,
)

# The worked example of SPEC 17.2.
EXAMPLE: dict[str, Any] = {
    "version": "0.5",
    "pushEvents": True,
    "contextHooks": {"beforeInference": True},
    "inferenceLifecycle": True,
    "channels": {"register": True, "publish": True, "incoming": True},
    "featureSets": {
        "demo.messaging": {
            "description": "Demo",
            "uses": ["channels.publish", "channels.incoming", "pushEvents", "tools"],
        }
    },
}
EXAMPLE_TEXT = (
    '{"channels":{"incoming":true,"publish":true,"register":true},"contextHooks":{"beforeInference":true},'
    '"featureSets":{"demo.messaging":{"description":"Demo",'
    '"uses":["channels.incoming","channels.publish","pushEvents","tools"]}},'
    '"inferenceLifecycle":true,"pushEvents":true,"version":"0.5"}'
)
EXAMPLE_REVISION = "sha256:_YZTS0h1tqTAMZI6eElCszSQE2WNx3xhAhmgUvNI9H4"

# Every set, every list and free text, in an order that sorting would change.
FULL: dict[str, Any] = {
    "version": "0.5",
    "pushEvents": True,
    "vendorOrder": ["b", "a", "b"],
    "featureSets": {
        "memory": {
            "description": "z a",
            "uses": ["tools", "pushEvents", "tools"],
            "values": ["b", "a"],
            "tagOntology": {
                "coreTags": ["chat:reply", "chat:dm"],
                "tags": {"memory:new": {"implies": ["chat:reply", "chat:dm"], "facet": "content"}},
                "keyed": {"urgency": {"values": ["low", "high"]}},
                "suggestedTreatment": [
                    {"tagsAny": ["z", "a"], "tagsAll": ["z", "a"], "tagsNone": ["z", "a"], "behavior": "mute"}
                ],
            },
        }
    },
}
ONTOLOGY = ("featureSets", "memory", "tagOntology")
SETS = [
    ("featureSets", "memory", "uses"),
    (*ONTOLOGY, "coreTags"),
    (*ONTOLOGY, "tags", "memory:new", "implies"),
]
LISTS: list[tuple[str | int, ...]] = [
    ("vendorOrder",),
    ("featureSets", "memory", "values"),
    (*ONTOLOGY, "keyed", "urgency", "values"),
    (*ONTOLOGY, "suggestedTreatment", 0, "tagsAny"),
    (*ONTOLOGY, "suggestedTreatment", 0, "tagsAll"),
    (*ONTOLOGY, "suggestedTreatment", 0, "tagsNone"),
]


def changed(steps: tuple[str | int, ...], value: Any, manifest: dict[str, Any] = FULL) -> dict[str, Any]:
    result: Any = copy.deepcopy(manifest)
    node = result
    for step in steps[:-1]:
        node = node[step]
    node[steps[-1]] = value
    return dict(result)


def get(steps: tuple[str | int, ...], manifest: Any = FULL) -> Any:
    for step in steps:
        manifest = manifest[step]
    return manifest


@pytest.mark.spec("17.2-1", "17.2-18")
def test_the_worked_example() -> None:
    assert manifest_canonical_json(EXAMPLE) == EXAMPLE_TEXT
    assert manifest_digest(EXAMPLE) == EXAMPLE_REVISION


def test_the_manifest_is_left_as_it_was() -> None:
    before = json.dumps(FULL)
    manifest_digest(FULL)
    with_revision(FULL)["featureSets"]["memory"]["uses"].clear()
    normalized_manifest(FULL)["featureSets"]["memory"]["tagOntology"]["tags"].clear()
    assert json.dumps(FULL) == before


@pytest.mark.spec("17.2-3", "17.1-4")
@pytest.mark.parametrize("revision", [None, "", EXAMPLE_REVISION, "sha256:" + "A" * 43, {"a b": math.nan}])
def test_a_revision_does_not_count_in_its_own_digest(revision: Any) -> None:
    assert manifest_digest({**EXAMPLE, "revision": revision}) == EXAMPLE_REVISION
    stamped = with_revision({"revision": revision, **EXAMPLE})
    assert stamped == {**EXAMPLE, "revision": EXAMPLE_REVISION}
    assert manifest_digest(stamped) == EXAMPLE_REVISION


@pytest.mark.spec("17.2-3", "17.2-14")
@pytest.mark.parametrize(
    "other",
    [
        changed(("version",), "0.6"),
        changed(("version",), None),
        {name: value for name, value in FULL.items() if name != "version"},
        changed(("pushEvents",), False),
        changed(("pushEvents",), None),
        {name: value for name, value in FULL.items() if name != "pushEvents"},
        changed(("vendor",), {"revision": 1}),
        changed(("vendor",), {}),
        changed(("featureSets", "memory", "revision"), 1),
    ],
)
def test_everything_else_counts(other: dict[str, Any]) -> None:
    assert manifest_digest(other) != manifest_digest(FULL)


@pytest.mark.spec("17.2-15")
def test_the_shorthand_is_not_expanded() -> None:
    long = {"contextHooks": {"beforeInference": {"observe": True, "inject": True}}}
    assert manifest_digest(long) != manifest_digest({"contextHooks": {"beforeInference": True}})


@pytest.mark.spec("17.2-4", "17.2-5")
@pytest.mark.parametrize("steps", SETS)
def test_sets_are_sorted_and_each_member_counts_once(steps: tuple[str | int, ...]) -> None:
    members = get(steps)
    for other in (members[::-1], [*members, *members], tuple(members)):
        assert manifest_digest(changed(steps, other)) == manifest_digest(FULL)
    assert get(steps, json.loads(manifest_canonical_json(FULL))) == sorted(set(members))
    assert manifest_digest(changed(steps, members[:1])) != manifest_digest(FULL)


@pytest.mark.spec("17.2-6", "17.2-7")
@pytest.mark.parametrize("steps", LISTS)
def test_lists_keep_order_and_repetition(steps: tuple[str | int, ...]) -> None:
    members = get(steps)
    assert get(steps, json.loads(manifest_canonical_json(FULL))) == members
    assert manifest_digest(changed(steps, [*members[::-1]] if members[0] != members[-1] else members[:2])) != (
        manifest_digest(FULL)
    )


@pytest.mark.spec("17.2-9", "17.2-10")
@pytest.mark.parametrize("steps", SETS)
@pytest.mark.parametrize("other", [["b", 1, "a", "b", "\u00e9"], [["b", "a"]], [None], "tools", 7, None, {"b": "a"}])
def test_what_is_no_set_of_strings_is_hashed_as_it_is(steps: tuple[str | int, ...], other: Any) -> None:
    expected = rfc8785.dumps(changed(steps, other, normalized_manifest(FULL))).decode()
    assert manifest_canonical_json(changed(steps, other)) == expected


@pytest.mark.spec("17.2-10")
@pytest.mark.parametrize(
    "steps",
    [("featureSets",), ("featureSets", "memory"), ONTOLOGY, (*ONTOLOGY, "tags"), (*ONTOLOGY, "tags", "memory:new")],
)
@pytest.mark.parametrize(
    "other", [[{"uses": ["b", "a"], "coreTags": ["b", "a"], "implies": ["b", "a"]}], True, None, "x"]
)
def test_another_shape_is_hashed_as_it_is(steps: tuple[str | int, ...], other: Any) -> None:
    expected = rfc8785.dumps(changed(steps, other, normalized_manifest(FULL))).decode()
    assert manifest_canonical_json(changed(steps, other)) == expected


@pytest.mark.spec("17.2-7")
def test_a_set_has_its_name_and_its_place() -> None:
    elsewhere: dict[str, Any] = {
        "uses": ["b", "a"],
        "vendor": {"coreTags": ["b", "a"], "featureSets": {"x": {"uses": ["b", "a"]}}},
    }
    assert manifest_canonical_json(elsewhere) == rfc8785.dumps(elsewhere).decode()


@pytest.mark.spec("17.2-11")
@pytest.mark.parametrize(
    "bad",
    [{"a b": True}, {"featureSets": {"": {}}}, {"featureSets": {"f": {"uses": ["tools "]}}}, {"x": {"\u00e9": 1}}],
)
def test_an_identifier_outside_the_charset_is_refused(bad: dict[str, Any]) -> None:
    for function in (manifest_digest, manifest_canonical_json, with_revision):
        with pytest.raises(InvalidValueError) as caught:
            function(bad)
        assert caught.value.code == "identifier_charset"
    assert normalized_manifest(bad) == bad


@pytest.mark.spec("17.2-13")
def test_free_text_is_any_text() -> None:
    manifest = changed(("featureSets", "memory", "description"), "\u00e9 \U0001f602 \ud800")
    assert r"\ud800" in manifest_canonical_json(manifest)
    assert is_manifest_revision(manifest_digest(manifest))


@pytest.mark.parametrize("value", [None, [], "{}", 1, True, [("version", "0.5")]])
def test_a_manifest_is_an_object(value: Any) -> None:
    for function in (manifest_digest, manifest_canonical_json, with_revision, normalized_manifest):
        with pytest.raises(InvalidValueError) as caught:
            function(value)
        assert (caught.value.code, caught.value.path) == ("manifest_not_object", "$")


@pytest.mark.parametrize("number", [math.nan, math.inf, 10**309])
def test_a_number_outside_json_is_refused(number: float) -> None:
    with pytest.raises(InvalidValueError) as caught:
        manifest_digest({"limits": [number]})
    assert (caught.value.code, caught.value.path) == ("non_finite_number", "$.limits[0]")


def test_a_manifest_inside_itself_is_refused() -> None:
    manifest: dict[str, Any] = {"a": {}}
    manifest["a"]["b"] = manifest["a"]
    with pytest.raises(InvalidValueError) as caught:
        manifest_digest(manifest)
    assert (caught.value.code, caught.value.path) == ("not_json", "$.a.b")


def test_depth_is_no_limit() -> None:
    tree: Any = {}
    for _ in range(5_000):
        tree = {"a": tree}
    assert with_revision(tree)["revision"] == manifest_digest(tree)


def test_the_empty_manifest_has_a_digest() -> None:
    assert manifest_canonical_json({}) == "{}"
    assert manifest_digest({}) == "sha256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o"


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        "",
        "sha256:",
        "sha256:" + "A" * 42,
        "sha256:" + "A" * 44,
        "sha256:" + "A" * 42 + "=",
        "SHA256:" + "A" * 43,
    ]
    + ["sha256:" + "A" * 43 + "\n", "sha256:" + "A" * 42 + "+", EXAMPLE_REVISION.encode()],
)
def test_what_is_no_revision(value: object) -> None:
    assert not is_manifest_revision(value)
    assert is_manifest_revision(EXAMPLE_REVISION)


@pytest.mark.spec("17.2-16")
def test_sets_sort_by_utf_8_bytes() -> None:
    members = ["\U00010000", "\ufffd", "\uffff", "z", "", "\u00e9", "z", "Z", "zz"]
    expected = sorted(set(members), key=str.encode)
    assert sort_set(members) == sort_set(iter(members)) == expected
    assert expected != sorted(set(members), key=lambda text: text.encode("utf-16-be"))


def test_a_set_to_sort_holds_strings() -> None:
    with pytest.raises(InvalidValueError) as caught:
        sort_set(["a", 1])  # type: ignore[list-item]
    assert (caught.value.code, caught.value.path) == ("not_string", "$[1]")


@pytest.mark.parametrize("value", ["tools", b"tools", None, 5])
def test_a_set_to_sort_is_no_bare_string(value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        sort_set(value)
    assert (caught.value.code, caught.value.path) == ("not_array", "$")


def test_normalized_means_without_revision_and_with_sorted_sets() -> None:
    normal = normalized_manifest({**FULL, "revision": "x"})
    assert "revision" not in normal
    assert [get(steps, normal) for steps in SETS] == [sorted(set(get(steps))) for steps in SETS]
    assert rfc8785.dumps(normal).decode() == manifest_canonical_json(FULL)
    assert normalized_manifest(normal) == normal


def test_an_ontology_has_a_digest_of_its_own() -> None:
    ontology = get(ONTOLOGY)
    other = json.loads(manifest_canonical_json(FULL))["featureSets"]["memory"]["tagOntology"]
    assert ontology != other and ontology_digest(ontology) == ontology_digest(other)
    assert is_manifest_revision(ontology_digest(ontology))
    others: list[Any] = [ontology, {}, None, [], {"coreTags": ["\u00e9"]}, {"open": 1}]
    assert len({ontology_digest(value) for value in others}) == len(others)
    with pytest.raises(InvalidValueError) as caught:
        ontology_digest({"open": math.nan})
    assert caught.value.code == "non_finite_number"


_names = st.sampled_from(["a", "b", "A", "a.b", "a:b", "a-b", "tools", "chat:dm"])
_sets = st.lists(_names, max_size=5)
_free = st.text(max_size=5)
_ontologies = st.fixed_dictionaries(
    {},
    optional={
        "coreTags": _sets,
        "tags": st.dictionaries(
            _names, st.fixed_dictionaries({}, optional={"implies": _sets, "facet": _names, "desc": _free}), max_size=2
        ),
        "keyed": st.dictionaries(_names, st.fixed_dictionaries({"values": _sets}), max_size=2),
        "open": st.booleans(),
    },
)
_features = st.fixed_dictionaries({"uses": _sets}, optional={"description": _free, "tagOntology": _ontologies})
_leaves = st.booleans() | st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _free
_capabilities = st.recursive(_leaves, lambda inner: st.dictionaries(_names, inner, max_size=3), max_leaves=8)
_manifests = st.fixed_dictionaries(
    {"version": _free},
    optional={
        "featureSets": st.dictionaries(_names, _features, max_size=3),
        "channels": _capabilities,
        "vendor": _capabilities,
    },
)


def _disordered(value: Any, order: random.Random, name: str = "") -> Any:
    """The same manifest, written otherwise: members in another order, sets in another order and with repetitions."""
    if isinstance(value, dict):
        items = list(value.items())
        order.shuffle(items)
        return {key: _disordered(member, order, key) for key, member in items}
    if name in {"uses", "coreTags", "implies"} and isinstance(value, list):
        repeated = [*value, *order.choices(value, k=2)] if value else []
        order.shuffle(repeated)
        return repeated
    return value


@pytest.mark.spec("17.1-5")
@given(_manifests, st.randoms(use_true_random=False))
def test_the_digest_is_the_same_however_the_manifest_is_written(manifest: dict[str, Any], order: random.Random) -> None:
    other = _disordered(manifest, order)
    assert manifest_digest(other) == manifest_digest(manifest)
    assert manifest_digest(json.loads(json.dumps(manifest))) == manifest_digest(manifest)
    assert manifest_digest(normalized_manifest(manifest)) == manifest_digest(manifest)
    assert manifest_digest(with_revision(manifest)) == manifest_digest(manifest)


@pytest.mark.spec("17.1-5")
@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_digest_is_the_same_in_another_process(seed: str) -> None:
    code = (
        "import json, sys; from mcpl_core.manifest import with_revision, manifest_digest; "
        "m = json.load(sys.stdin); print(manifest_digest(m), with_revision(m)['revision'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(FULL),
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    assert (done.stdout.split(), done.stderr) == ([manifest_digest(FULL)] * 2, "")
