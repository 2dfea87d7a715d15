"""Values that nobody should send, given to every pure function that reads what a peer or a configuration says.

Whatever the value: an answer or one of our errors, in time that grows with its size and not with its square.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from mcpl_core import capabilities, grants, manifest, negotiation, ontology, receipts, tags, treatment, uris
from mcpl_core.content import content_block, content_text, parse_content, to_mcp, to_mcpl
from mcpl_core.errors import InvalidValueError, McplError
from tests.effort import effort

GRANT = grants.GrantState(("tools",), ("f", "g.*"), ("memory.*",), ready=True)
NOTHING = manifest.validate_manifest({"version": "0.5"})
RULES = treatment.parse_rules([{"tagsAny": ["x:*", "x:a"], "source": "s*", "channel": "c*", "behavior": "mute"}])


class Text(str):
    pass


class Number(int):
    pass


class Tree(dict[str, Any]):
    pass


def nested(depth: int, leaf: Any = True) -> dict[str, Any]:
    tree: Any = leaf
    for _ in range(depth):
        tree = {"a": tree}
    return dict(tree)


def inside_itself(copies: int) -> tuple[list[Any], dict[str, Any]]:
    """A list and an object that hold themselves so many times, so that each level is wider than the one before."""
    array: list[Any] = []
    array += [array] * copies
    tree: dict[str, Any] = {}
    tree |= {f"m{number}": tree for number in range(copies)}
    return array, tree


def constant(value: Any) -> Callable[[], Any]:
    return lambda: value


#: What makes each value: some can be used once only.
ODD: list[Callable[[], Any]] = [
    *map(
        constant, [None, True, 0, -1, 1.5, math.nan, math.inf, 10**400, "", "x", "\ud800", Text("chat:dm"), Number(5)]
    ),
    *map(constant, [b"x", object(), range(3), len, msgspec.UNSET, ..., 1j, {"x"}]),
    lambda: iter([]),
    lambda: (letter for letter in "ab"),
    *map(constant, [[], {}, (), [None], [1], ["\ud800"], {"a": 1}, Tree(a=1), {Text("b"): 1, "a": 2}]),
    *map(constant, [{1: 2}, {math.nan: 1}, {None: 1}, {"a": {5: 1}}, [{5: 1}], {("a", "b"): {}}]),
    *map(constant, [nested(5_000), *inside_itself(1), *inside_itself(2), *inside_itself(1_500)]),
]


def member(*steps: str) -> Callable[[Any], Any]:
    """Puts a value into an object, below these names."""

    def put(value: Any) -> Any:
        for step in reversed(steps):
            value = {step: value}
        return value

    return put


def as_is(value: Any) -> Any:
    return value


#: Function -> the places in its argument where a value is tried.
READERS: dict[Callable[[Any], object], list[Callable[[Any], Any]]] = {
    capabilities.advertised_capabilities: [as_is, member("channels"), member("contextHooks", "beforeInference")],
    capabilities.advertised_capabilities_from_initialize: [as_is, member("tools"), member("experimental", "mcpl")],
    capabilities.validate_uses: [as_is, lambda value: [value]],
    capabilities.VOCABULARY.extend: [as_is],
    capabilities.VOCABULARY.usable: [as_is],
    capabilities.VOCABULARY.denied_by_default: [as_is],
    lambda value: value in capabilities.VOCABULARY: [as_is],
    lambda value: capabilities.capability_pattern_matches(value, "tools"): [as_is],
    lambda value: capabilities.capability_pattern_matches("*", value): [as_is],
    lambda value: capabilities.capability_granted(value, "tools"): [as_is, lambda value: [value]],
    lambda value: capabilities.capability_granted({"*", "a.*"}, value): [as_is],
    GRANT.allows: [as_is],
    lambda value: grants.feature_set_name_matches(value, "a"): [as_is],
    lambda value: grants.feature_set_name_matches("a.*", value): [as_is],
    lambda value: grants.GrantState(value, value, value): [as_is, lambda value: [value]],
    lambda value: grants.grant_from_update(GRANT, {}, value): [as_is],
    lambda value: grants.derive_feature_sets(value, GRANT): [as_is, member("f"), member("f", "uses")],
    lambda value: grants.check_method(GRANT, value): [as_is, lambda value: [value]],
    lambda value: grants.check_feature_set({}, value, ("tools",)): [as_is],
    lambda value: receipts.degradation_receipt(value, GRANT).to_wire(): [as_is, member("f"), member("f", "uses")],
    lambda value: receipts.degradation_receipt({}, GRANT, notes=value): [as_is],
    lambda value: receipts.refusal("close", missing_capabilities=value): [as_is],
    receipts.refusal: [as_is],
    lambda value: negotiation.effective_grant(value, ["*"]): [as_is],
    lambda value: negotiation.effective_grant(["tools"], value, value): [as_is],
    lambda value: negotiation.ineffective_patterns(value, value): [as_is],
    lambda value: negotiation.concrete_names(value, ["a"]): [as_is],
    lambda value: negotiation.concrete_names(["*"], value): [as_is],
    lambda value: negotiation.policy_params(GRANT, value): [as_is],
    tags.parse_tag: [as_is],
    tags.read_tags: [as_is, lambda value: [value]],
    tags.check_tags: [as_is, lambda value: [value]],
    tags.expand_tags: [as_is, lambda value: [value]],
    tags.is_reserved: [as_is],
    lambda value: tags.glob_matches(value, "a"): [as_is],
    lambda value: tags.glob_matches("a*", value): [as_is],
    treatment.parse_behavior: [as_is, member("debounce"), member("throttle"), member("throttle", "perMs")],
    treatment.parse_rules: [as_is, lambda value: [value]],
    treatment.Debounce: [as_is],
    lambda value: treatment.TreatmentRule(treatment.Mute(), tags_any=value): [as_is, lambda value: [value]],
    lambda value: treatment.choose_treatment(RULES, value, source="s"): [as_is],
    lambda value: treatment.choose_treatment(RULES, [], source=value, channel=value): [as_is],
    ontology.parse_ontology: [
        as_is,
        *map(member, ("coreTags", "tags", "keyed", "suggestedTreatment", "defaultTreatment", "open")),
        member("tags", "x:a"),
        *(member("tags", "x:a", name) for name in ("desc", "facet", "implies", "suggestedTreatment", "stability")),
        member("keyed", "k"),
    ],
    ontology.parse_ontology({"tags": {"x:a": {}}, "keyed": {"k": {}}}).ontology.declares: [as_is],
    uris.McplUri.parse: [as_is],
    content_block: [as_is, member("type")],
    parse_content: [as_is],
    content_text: [as_is, lambda value: [{"type": "text", "text": value}]],
    lambda value: (to_mcp(content_block(value)), to_mcpl(content_block(value))): [as_is],
    manifest.canonical_json: [as_is],
    manifest.copy_tree: [as_is, member("a")],
    manifest.ecmascript_number: [as_is],
    manifest.is_identifier: [as_is],
    manifest.is_manifest_revision: [as_is],
    manifest.sort_set: [as_is, lambda value: [value]],
    manifest.ontology_digest: [as_is],
    manifest.with_revision: [as_is, member("a"), member("featureSets"), member("featureSets", "f", "uses")],
    manifest.normalized_manifest: [as_is, member("a")],
    lambda value: manifest.changed_domains({}, value): [as_is, member("a"), member("featureSets", "f", "tagOntology")],
    lambda value: manifest.member_changes(value, value): [as_is, member("a")],
    manifest.ManifestTracker: [as_is, member("a")],
    manifest.ManifestTracker({}).set: [as_is, member("a")],
    lambda value: manifest.assess_change(
        NOTHING, manifest.validate_manifest(value), manifest.HostFacts(GRANT, referenced_tags=["x:a", "x:*"])
    ): [
        as_is,
        *map(member, ("version", "revision", "pushEvents", "channels", "featureSets")),
        member("featureSets", "f"),
        *(member("featureSets", "f", name) for name in ("uses", "description", "tagOntology")),
    ],
}
for _form in ("request", "notification"):
    READERS[lambda value, form=_form: grants.grant_from_update(GRANT, value, form)] = [  # type: ignore[misc]
        as_is,
        *map(member, ("effectiveCapabilities", "deniedCapabilities", "enabled", "disabled")),
    ]
READERS[receipts.read_receipt] = [
    as_is,
    member("accepted"),
    *(lambda value, name=name: {"accepted": True, name: value} for name in ("mode", "unavailableFeatures", "notes")),
    *(
        lambda value, name=name: {"accepted": False, "fallback": "close", name: value}
        for name in ("fallback", "missingCapabilities", "reason")
    ),
    lambda value: {"accepted": True, "unavailableFeatures": [value]},
]


@pytest.mark.parametrize("make", ODD, ids=range(len(ODD)))
def test_an_odd_value_is_read_or_refused(make: Callable[[], Any]) -> None:
    for reader, places in READERS.items():
        for place in places:
            try:
                reader(place(make()))
            except McplError as error:
                assert str(error) and type(pickle.loads(pickle.dumps(error))) is type(error)


@pytest.mark.parametrize("copies", [1, 2, 1_500])
def test_a_container_inside_itself_is_refused_at_its_place(copies: int) -> None:
    array, tree = inside_itself(copies)
    name = next(iter(tree))
    for value, path in ((array, "$.a[0]"), (tree, f"$.a.{name}")):
        for function in (manifest.canonical_json, manifest.copy_tree, manifest.manifest_digest, manifest.with_revision):
            with pytest.raises(InvalidValueError) as caught:
                function({"a": value})
            assert (caught.value.code, caught.value.path) == ("not_json", path)


SIZE = 20_000


def many(prefix: str = "n") -> list[str]:
    return [f"{prefix}{number}" for number in range(SIZE)]


def many_sets() -> dict[str, Any]:
    return {name: {"description": "", "uses": ["tools"]} for name in many()}


def large_ontology() -> dict[str, Any]:
    return {
        "tags": {f"x:{name}": {"implies": ["x:n0"], "suggestedTreatment": "mute"} for name in many()},
        "keyed": {name: {"values": ["a"]} for name in many()},
    }


def accepted() -> ontology.Acceptances:
    """One acceptance for each of many feature sets of a server."""
    entries = (ontology.Acceptance("s", name, "d", "operator", ontology.TagOntology()) for name in many())
    return ontology.Acceptances(tuple(entries))


def manifest_with(value: Any) -> manifest.ManifestReading:
    return manifest.validate_manifest({"version": "0.5", "featureSets": value})


LARGE: list[tuple[str, Callable[[], Any], Callable[[Any], object]]] = [
    ("new paths", many, lambda names: capabilities.VOCABULARY.extend(*names)),
    (
        "a policy",
        many,
        lambda names: grants.grant_from_update(
            GRANT, {"effectiveCapabilities": names, "deniedCapabilities": names[::-1], "disabled": names}, "request"
        ),
    ),
    (
        "sets and a selection",
        lambda: (many_sets(), grants.GrantState(("tools",), tuple(many()), tuple(many("m")), ready=True)),
        lambda given: receipts.degradation_receipt(*given),
    ),
    (
        "sets and entries",
        lambda: (many_sets(), grants.GrantState(tuple(many()), ready=True)),
        lambda given: grants.derive_feature_sets(*given),
    ),
    (
        "a change of a selection",
        lambda: [grants.GrantState(tuple(p), tuple(p), tuple(p), ready=True) for p in (many(), many()[::-1])],
        lambda states: negotiation.plan_change(*states),
    ),
    ("names on the wire", lambda: list(many_sets()), lambda names: negotiation.concrete_names(["*", "n.*"], names)),
    (
        "tags and literal rules",
        lambda: treatment.parse_rules([{"tagsAny": [f"y:{name}"], "behavior": "mute"} for name in many()]),
        lambda rules: treatment.choose_treatment(rules, [f"x:{name}" for name in many()], source="s"),
    ),
    ("bad tags", many, tags.read_tags),
    (
        "a chain of edges",
        lambda: [tags.ImplicationEdge(f"x:{number}", (f"x:{number + 1}",)) for number in range(SIZE)],
        lambda edges: tags.expand_tags(["x:0"], edges),
    ),
    ("an ontology", large_ontology, ontology.parse_ontology),
    ("acceptances", accepted, lambda acceptances: acceptances.revalidate("s", {})),
    ("a pattern", lambda: "*a" * SIZE, lambda pattern: tags.glob_matches(f"{pattern}b", "a" * 2 * SIZE)),
    ("a path", lambda: "a/" * SIZE, lambda path: uris.McplUri.parse(f"mcpl://h/{path}?{path}")),
    ("a deep tree", lambda: nested(SIZE, 1), lambda tree: manifest.changed_domains(tree, nested(SIZE, 2))),
    ("a deep difference", lambda: nested(SIZE, 1), lambda tree: manifest.member_changes(tree, nested(SIZE, 2))),
    ("a bad name far down", lambda: nested(SIZE, {"a b": 1}), lambda tree: manifest.validate_manifest(tree)),
    (
        "sets that come and go",
        lambda: (manifest_with(many_sets()), NOTHING),
        lambda readings: manifest.assess_change(readings[0], readings[1], manifest.HostFacts(GRANT)),
    ),
    (
        "an ontology that goes",
        lambda: (manifest_with({"f": {"tagOntology": large_ontology()}}), NOTHING),
        lambda readings: manifest.assess_change(
            readings[0], readings[1], manifest.HostFacts(GRANT, referenced_tags=[f"x:{name}" for name in many("z")])
        ),
    ),
]


@pytest.mark.parametrize(("prepare", "work"), [row[1:] for row in LARGE], ids=[row[0] for row in LARGE])
def test_a_large_value_costs_no_more_than_its_size(prepare: Callable[[], Any], work: Callable[[Any], object]) -> None:
    """Each takes some tens of units; work that grows with the square of the size would take tens of thousands."""
    given = prepare()

    def run() -> None:
        with suppress(McplError):
            work(given)

    assert effort(run) < 2000
