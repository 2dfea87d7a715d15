"""Domains and members in which two manifests differ. ``vectors/changed-domains.json`` has more cases."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.manifest.diff import (
    MemberChange,
    changed_domains,
    differing_domains,
    domain_texts,
    member_changes,
)
from mcpl_core.manifest.digest import manifest_digest, with_revision

ALL = ("capabilities", "featureSets", "tagOntology")
BOTH = ("featureSets", "tagOntology")
BASE: dict[str, Any] = {
    "version": "0.5",
    "pushEvents": True,
    "featureSets": {
        "memory": {"description": "d", "uses": ["tools", "pushEvents"], "tagOntology": {"coreTags": ["b:b", "a:a"]}}
    },
}


def with_set(**members: Any) -> dict[str, Any]:
    manifest = copy.deepcopy(BASE)
    manifest["featureSets"]["memory"].update(members)
    return manifest


@pytest.mark.spec("17.1-2", "17.3-4", "17.1-9", "R-man-4")
@pytest.mark.parametrize(
    ("other", "domains"),
    [
        (BASE, ()),
        ({**BASE, "version": "0.6"}, ()),
        ({**BASE, "revision": "x"}, ()),
        ({**BASE, "pushEvents": False}, ("capabilities",)),
        ({**BASE, "vendor": None}, ("capabilities",)),
        (with_set(description="e"), ("featureSets",)),
        (with_set(uses=["tools"]), ("featureSets",)),
        (with_set(uses=["pushEvents", "tools", "tools"]), ()),
        (with_set(tagOntology={"coreTags": ["a:a", "b:b"]}), ()),
        (with_set(tagOntology={}), ("tagOntology",)),
        (with_set(tagOntology=None), ("tagOntology",)),
        ({**BASE, "featureSets": {"memory": {"description": "d", "uses": ["tools", "pushEvents"]}}}, ("tagOntology",)),
        ({**BASE, "featureSets": {**BASE["featureSets"], "new": {"uses": ["tools"]}}}, ("featureSets",)),
        ({**BASE, "featureSets": {**BASE["featureSets"], "new": {"tagOntology": {}}}}, BOTH),
        ({**BASE, "featureSets": {}}, BOTH),
        ({"version": "0.5"}, ALL),
    ],
)
def test_domains(other: dict[str, Any], domains: tuple[str, ...]) -> None:
    assert changed_domains(BASE, other) == domains
    assert changed_domains(other, BASE) == domains


@pytest.mark.spec("17.3-4", "R-man-4")
@pytest.mark.parametrize("one", ["absent", None, {}, True, [], {"f": None}])
@pytest.mark.parametrize("other", ["absent", None, {}, True, [], {"f": None}])
def test_each_carrier_of_feature_sets_is_another(one: Any, other: Any) -> None:
    before, after = ({} if value == "absent" else {"featureSets": value} for value in (one, other))
    both_objects = isinstance(one, dict) and isinstance(other, dict)
    expected = () if one is other or one == other else ("featureSets",) if both_objects else BOTH
    assert changed_domains(before, after) == expected


def test_json_values_are_compared_as_json() -> None:
    assert changed_domains({"a": 1}, {"a": True}) == ("capabilities",)
    assert changed_domains({"a": [0]}, {"a": [False]}) == ("capabilities",)
    assert changed_domains({"a": 1}, {"a": 1.0}) == ()
    assert changed_domains({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}) == ()
    assert changed_domains({"a": ["b", "c"]}, {"a": ["c", "b"]}) == ("capabilities",)


def test_an_array_of_feature_sets_has_no_ontology_and_no_sets() -> None:
    one = {"featureSets": [{"uses": ["a", "b"], "tagOntology": {}}]}
    assert changed_domains(one, {"featureSets": [{"uses": ["b", "a"], "tagOntology": {}}]}) == BOTH
    assert changed_domains(one, copy.deepcopy(one)) == ()


def test_without_a_manifest_before_everything_may_have_changed() -> None:
    assert changed_domains(None, {}) == ALL
    assert differing_domains(None, domain_texts({})) == ALL


@pytest.mark.parametrize(
    ("one", "other", "code"),
    [
        ([], {}, "manifest_not_object"),
        ({}, None, "manifest_not_object"),
        ({"a": float("nan")}, {"a": 1}, "non_finite_number"),
        ({"featureSets": {"f": {"tagOntology": 1}}}, {"featureSets": {"f": {"tagOntology": object()}}}, "not_json"),
    ],
)
def test_what_is_no_manifest_is_refused(one: Any, other: Any, code: str) -> None:
    for function in (changed_domains, member_changes):
        with pytest.raises(InvalidValueError) as caught:
            function(one, other)
        assert caught.value.code == code


def test_identifiers_are_not_checked() -> None:
    assert changed_domains({"a b": 1}, {"a b": 2, "featureSets": {"": 1}}) == ALL


@pytest.mark.spec("17.1-6")
def test_revisions_hide_nothing() -> None:
    one, other = with_revision(BASE), with_revision({**BASE, "pushEvents": False})
    other["revision"] = one["revision"]
    assert changed_domains(one, other) == ("capabilities",)


@pytest.mark.spec("17.10-6")
def test_members() -> None:
    other = copy.deepcopy(BASE)
    other.update(version="0.6", channels={"publish": True}, revision="any")
    other["featureSets"]["memory"]["uses"] = ["tools"]
    other["featureSets"]["memory"]["tagOntology"]["coreTags"].reverse()
    other["featureSets"]["a b"] = {}
    del other["pushEvents"]
    assert member_changes(BASE, other) == (
        MemberChange("added", "$.channels"),
        MemberChange("changed", "$.featureSets.memory.uses"),
        MemberChange("added", '$.featureSets["a b"]'),
        MemberChange("removed", "$.pushEvents"),
        MemberChange("changed", "$.version"),
    )
    assert member_changes(BASE, with_revision(BASE)) == ()


def test_a_member_that_changes_its_type_changed_as_a_whole() -> None:
    assert member_changes({"a": {"b": 1}}, {"a": True}) == (MemberChange("changed", "$.a"),)
    assert member_changes({"a": 1}, {"a": True}) == (MemberChange("changed", "$.a"),)
    assert member_changes({"a": {"b": 1}}, {"a": {"b": {}}}) == (MemberChange("changed", "$.a.b"),)


def test_depth_is_no_limit() -> None:
    def nested(leaf: int) -> dict[str, Any]:
        tree: dict[str, Any] = {"leaf": leaf}
        for _ in range(3_000):
            tree = {"a": tree}
        return tree

    assert changed_domains(nested(1), nested(1)) == ()
    assert changed_domains(nested(1), nested(2)) == ("capabilities",)
    assert member_changes(nested(1), nested(2)) == (MemberChange("changed", "$" + ".a" * 3_000 + ".leaf"),)


_names = st.sampled_from(["a", "b", "uses", "tagOntology", "coreTags", "f"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=6,
)
_manifests = st.fixed_dictionaries(
    {},
    optional={"version": _values, "featureSets": _values | st.dictionaries(_names, _values, max_size=2), "a": _values},
)


@given(_manifests, _manifests)
def test_domains_members_and_digest_agree(one: dict[str, Any], other: dict[str, Any]) -> None:
    domains, members = changed_domains(one, other), member_changes(one, other)
    assert (members == ()) == (manifest_digest(one) == manifest_digest(other))
    assert changed_domains(other, one) == domains
    assert bool(domains) == any(change.path != "$.version" and ".version" not in change.path for change in members)
    assert ("capabilities" in domains) == any(change.path.startswith("$.a") for change in members)
    assert any(change.path.startswith("$.featureSets") for change in members) == bool(
        {"featureSets", "tagOntology"} & set(domains)
    )
