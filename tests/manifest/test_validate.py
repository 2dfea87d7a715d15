"""Reading a received manifest: each thing that can be wrong, and what is left of the rest."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mcpl_core.capabilities import VOCABULARY
from mcpl_core.errors import InvalidValueError
from mcpl_core.manifest.digest import manifest_digest, with_revision
from mcpl_core.manifest.validate import validate_manifest

GOOD: dict[str, Any] = {
    "version": "0.5",
    "pushEvents": True,
    "inferenceRequest": {"streaming": True},
    "contextHooks": {"beforeInference": {"observe": True, "inject": False}},
    "vendor": [1, "two"],
    "featureSets": {
        "memory": {
            "description": "Keeps things",
            "uses": ["pushEvents", "tools"],
            "tagOntology": {"coreTags": ["chat:dm"], "tags": {"memory:new": {"desc": "new"}}},
        },
        "plain": {"description": "", "uses": ["tools"]},
    },
}


def changed(*steps: str, to: Any) -> dict[str, Any]:
    manifest = copy.deepcopy(GOOD)
    node: Any = manifest
    for step in steps[:-1]:
        node = node[step]
    node[steps[-1]] = to
    return manifest


def without(*steps: str) -> dict[str, Any]:
    manifest = copy.deepcopy(GOOD)
    node: Any = manifest
    for step in steps[:-1]:
        node = node[step]
    del node[steps[-1]]
    return manifest


@pytest.mark.spec("17.5-1")
def test_a_good_manifest_has_no_problem() -> None:
    for manifest in (GOOD, with_revision(GOOD)):
        reading = validate_manifest(manifest)
        assert reading.problems == ()
        assert reading.manifest == manifest
        assert reading.digest == manifest_digest(GOOD)
        assert reading.capabilities == {
            "pushEvents",
            "inferenceRequest",
            "inferenceRequest.streaming",
            "contextHooks.beforeInference.observe",
        }
        assert reading.feature_sets == GOOD["featureSets"]
        assert [check.uses for check in reading.uses.values()] == [("pushEvents", "tools"), ("tools",)]
        assert reading.invalid_feature_sets == ()
        assert reading.ontologies.keys() == reading.ontology_digests.keys() == {"memory"}
        assert reading.ontologies["memory"].declares("memory:new")


@pytest.mark.parametrize("value", [None, [], "x", 1, True])
def test_a_root_of_another_type_says_nothing(value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        validate_manifest(value)
    assert caught.value.code == "manifest_not_object"


@pytest.mark.spec("17.5-1", "6.2-3", "6.4-2")
@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (without("version"), ("version", "$.version")),
        (changed("version", to=0.5), ("version", "$.version")),
        (changed("revision", to=None), ("revision_form", "$.revision")),
        (changed("revision", to="1.0.0"), ("revision_form", "$.revision")),
        (changed("revision", to="sha256:" + "A" * 43), ("revision_mismatch", "$.revision")),
        (changed("pushEvents", to="yes"), ("capability_type", "$.pushEvents")),
        (changed("inferenceRequest", to=[]), ("capability_type", "$.inferenceRequest")),
        (changed("inferenceRequest", "streaming", to=1), ("capability_type", "$.inferenceRequest.streaming")),
        (changed("contextHooks", "beforeInference", "inject", to=None),
         ("capability_type", "$.contextHooks.beforeInference.inject")),
        (changed("featureSets", to=[]), ("feature_sets_type", "$.featureSets")),
        (changed("featureSets", to=True), ("feature_sets_type", "$.featureSets")),
        (changed("featureSets", to=None), ("feature_sets_type", "$.featureSets")),
        (without("featureSets", "plain", "description"), ("description", "$.featureSets.plain.description")),
        (changed("featureSets", "plain", "description", to=None), ("description", "$.featureSets.plain.description")),
        (without("featureSets", "plain", "uses"), ("invalid_uses", "$.featureSets.plain.uses")),
        (changed("featureSets", "plain", "uses", to=[]), ("invalid_uses", "$.featureSets.plain.uses")),
        (changed("featureSets", "plain", "uses", to="tools"), ("invalid_uses", "$.featureSets.plain.uses")),
        (changed("featureSets", "plain", "uses", to=["tools", "x"]), ("invalid_uses", "$.featureSets.plain.uses")),
        (changed("featureSets", "memory", "tagOntology", to=None), ("not_object", "$.featureSets.memory.tagOntology")),
        (changed("featureSets", "memory", "tagOntology", "open", to=1),
         ("not_boolean", "$.featureSets.memory.tagOntology.open")),
        (changed("vendor", to={"a b": 1}), ("identifier_charset", '$.vendor["a b"]')),
        (changed("vendor", to=float("nan")), ("non_finite_number", "$.vendor")),
        (changed("vendor", to=object()), ("not_json", "$.vendor")),
    ],
)  # fmt: skip
def test_each_thing_that_can_be_wrong(manifest: dict[str, Any], problem: tuple[str, str]) -> None:
    reading = validate_manifest(manifest)
    assert [(found.code, found.path) for found in reading.problems] == [problem]
    assert all(found.detail for found in reading.problems)


@pytest.mark.parametrize("value", [[], True, None, "all", {5: {}}])
def test_feature_sets_of_another_type_declare_none(value: Any) -> None:
    reading = validate_manifest(changed("featureSets", to=value))
    assert (reading.feature_sets, reading.uses, reading.ontologies) == ({}, {}, {})


def test_a_set_that_is_no_object_fails_its_uses_too() -> None:
    reading = validate_manifest(changed("featureSets", "plain", to=["tools"]))
    assert [found.code for found in reading.problems] == ["feature_set_type", "invalid_uses"]
    assert reading.invalid_feature_sets == ("plain",)


@pytest.mark.spec("17.5-2")
def test_the_rest_is_read_whatever_is_wrong() -> None:
    reading = validate_manifest(
        {
            "revision": "1",
            "pushEvents": True,
            "channels": "all",
            "bad name": True,
            "featureSets": {"good": GOOD["featureSets"]["memory"], "bad": 1, "also bad": {"uses": ["x"]}},
        }
    )
    assert reading.digest is None
    assert reading.capabilities == {"pushEvents"}
    assert reading.uses["good"].uses == ("pushEvents", "tools")
    assert reading.invalid_feature_sets == ("bad", "also bad")
    assert reading.uses["also bad"].unrecognized == ("x",)
    assert [found.code for found in reading.problems] == [
        "version",
        "revision_form",
        "capability_type",
        "identifier_charset",
        "feature_set_type",
        "invalid_uses",
        "description",
        "invalid_uses",
    ]


def test_a_wrong_type_above_many_paths_is_one_problem() -> None:
    reading = validate_manifest({"version": "0.5", "channels": 7})
    assert [(found.code, found.path) for found in reading.problems] == [("capability_type", "$.channels")]


def test_what_stands_outside_the_vocabulary_is_nobodys_business() -> None:
    manifest = {"version": "0.5", "tools": "any", "vendor": None, "channels": {"telepathy": 1}, "rollback": 3}
    assert validate_manifest(manifest).problems == ()


@pytest.mark.spec("6.2-1")
def test_a_vocabulary_can_be_extended() -> None:
    manifest = {
        "version": "0.5",
        "branches": {"list": True},
        "featureSets": {"b": {"description": "", "uses": ["branches.list"]}},
    }
    assert validate_manifest(manifest).invalid_feature_sets == ("b",)
    reading = validate_manifest(manifest, VOCABULARY.extend("branches.list"))
    assert reading.problems == ()
    assert reading.capabilities == {"branches.list"}


def test_an_ontology_without_a_digest_is_no_ground_for_acceptance() -> None:
    reading = validate_manifest(changed("featureSets", "memory", "tagOntology", "weight", to=float("inf")))
    assert [found.code for found in reading.problems] == ["non_finite_number"]
    assert reading.ontology_digests == {}
    assert "memory" in reading.ontologies
