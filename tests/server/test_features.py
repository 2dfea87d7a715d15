"""What a declared feature set adds to a manifest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core import CAPABILITY_PATHS, EXTENSION_CAPABILITIES, VOCABULARY, LocalProtocolError
from mcpl_core.manifest import validate_manifest
from mcpl_core.server.features import FeatureSet, advertise, declare, name_of

OUTER = {"tools"}


def declared(uses: tuple[str, ...], **more: Any) -> dict[str, Any]:
    manifest: dict[str, Any] = {"version": "0.5"}
    declare(manifest, FeatureSet("a.b", "Something", uses, **more))
    return manifest


def test_a_declaration_stands_in_the_manifest_and_advertises_what_it_uses() -> None:
    assert declared(("tools", "pushEvents", "contextHooks.beforeInference.inject.beforeUser")) == {
        "version": "0.5",
        "featureSets": {
            "a.b": {
                "description": "Something",
                "uses": ["tools", "pushEvents", "contextHooks.beforeInference.inject.beforeUser"],
            }
        },
        "pushEvents": True,
        "contextHooks": {"beforeInference": {"inject": {"beforeUser": True}}},
    }


def test_rollback_and_ontology_stand_there_when_given() -> None:
    ontology = {"tags": {"a:b": {"desc": "what"}}, "open": True}
    entry = declared(("tools",), rollback=True, tag_ontology=ontology)["featureSets"]["a.b"]
    assert (entry["rollback"], entry["tagOntology"]) == (True, ontology)
    assert {"rollback", "tagOntology"}.isdisjoint(declared(("tools",))["featureSets"]["a.b"])


@given(st.sets(st.sampled_from(CAPABILITY_PATHS), min_size=1))
def test_exactly_what_is_used_is_advertised(uses: set[str]) -> None:
    manifest = declared(tuple(uses))
    # An object at a node that is a path itself advertises that path, too.
    implied = {"inferenceRequest"} if "inferenceRequest.streaming" in uses else set()
    assert VOCABULARY.advertised(manifest) == (uses | implied) - OUTER
    assert validate_manifest(manifest).problems == ()


@pytest.mark.parametrize("before", [True, {"register": True}, {"register": True, "publish": False}, False, None, 3])
def test_what_stands_there_is_kept_as_far_as_it_advertises(before: Any) -> None:
    manifest = {"channels": before}
    advertised = VOCABULARY.advertised(manifest)
    advertise(manifest, ["channels.publish"])
    assert VOCABULARY.advertised(manifest) == advertised | {"channels.publish"}
    if before is True:
        assert manifest == {"channels": True}


def test_a_path_with_others_beneath_it_advertises_itself_alone() -> None:
    manifest: dict[str, Any] = {}
    advertise(manifest, ["inferenceRequest"])
    assert manifest == {"inferenceRequest": {}}
    advertise(manifest, ["inferenceRequest.streaming"])
    assert manifest == {"inferenceRequest": {"streaming": True}}


def test_extensions_are_paths_of_an_extended_vocabulary() -> None:
    extended = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
    manifest: dict[str, Any] = {}
    advertise(manifest, ["branches.list", "stateUpdate"], extended)
    assert manifest == {"branches": {"list": True}, "stateUpdate": True}
    with pytest.raises(LocalProtocolError):
        advertise({}, ["branches.list"])


@pytest.mark.spec("6.4-6")
@pytest.mark.parametrize(
    "uses", [(), ("pushEvent",), ("channels",), ("channels.*",), ("tools", 3), ("contextHooks.beforeInference",)]
)
def test_what_a_host_would_disable_is_refused_at_once(uses: Any) -> None:
    with pytest.raises(LocalProtocolError):
        declared(uses)


@pytest.mark.parametrize("name", ["", "späher", "a b", "a/b", "a\n"])
def test_a_name_is_an_identifier(name: str) -> None:
    with pytest.raises(LocalProtocolError):
        declare({}, FeatureSet(name, "x", ("tools",)))


def test_a_name_is_declared_once() -> None:
    manifest = declared(("tools",))
    before = {name: dict(entry) for name, entry in manifest["featureSets"].items()}
    with pytest.raises(LocalProtocolError):
        declare(manifest, FeatureSet("a.b", "Another", ("pushEvents",)))
    assert manifest["featureSets"] == before


def test_a_manifest_with_something_else_as_feature_sets_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        declare({"featureSets": []}, FeatureSet("a", "x", ("tools",)))


@pytest.mark.parametrize(
    "ontology", [{"tags": {"bare": {}}}, {"coreTags": ["x"]}, {"open": "yes"}, {"tags": {"a:b": {"implies": [3]}}}]
)
def test_an_ontology_that_a_host_could_not_read_is_refused(ontology: Any) -> None:
    with pytest.raises(LocalProtocolError):
        declared(("pushEvents",), tag_ontology=ontology)


def test_the_name_of_either() -> None:
    assert name_of("a.b") == name_of(FeatureSet("a.b", "x", ("tools",))) == "a.b"
