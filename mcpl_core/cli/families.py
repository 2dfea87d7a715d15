"""The families of vectors: what this package answers to the input of a case.

Owns: one function for each family, and the comparison of its answer with what a case expects. Does not own:
reading files (``vectors``) or printing (``conformance``).

The shape of input and answer is described with the vectors themselves, in the file's ``$schema`` member and in
the README beside the files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from mcpl_core.capabilities import VOCABULARY, advertised_capabilities_from_initialize, capability_granted
from mcpl_core.errors import InvalidValueError
from mcpl_core.grants import GrantState, UpdateOutcome, derive_feature_sets, grant_from_update
from mcpl_core.manifest import canonical_bytes, changed_domains, manifest_canonical_json, manifest_digest, sort_set
from mcpl_core.ontology import Acceptance, Acceptances, parse_ontology
from mcpl_core.receipts import degradation_receipt
from mcpl_core.tags import expand_tags, read_tags
from mcpl_core.treatment import behavior_to_wire, choose_treatment, parse_behavior, parse_rules
from mcpl_core.uris import McplUri

from .framing import framing_answer
from .vectors import Case

__all__ = ("FAMILIES", "Difference", "differences")

_Answer = dict[str, Any]


def _manifest_digest(given: Mapping[str, Any]) -> _Answer:
    if "set" in given:
        return {"sorted": sort_set(given["set"])}
    manifest = json.loads(given["manifestText"]) if "manifestText" in given else given["manifest"]
    try:
        text = manifest_canonical_json(manifest)
    except InvalidValueError as error:
        return {"error": error.code}
    answer = {
        "canonicalJson": text,
        "sha256Hex": hashlib.sha256(text.encode()).hexdigest(),
        "digest": manifest_digest(manifest),
    }
    if "other" in given:
        return answer | {"sameDigest": manifest_digest(given["other"]) == answer["digest"]}
    return answer


def _changed_domains(given: Mapping[str, Any]) -> _Answer:
    return {"domains": list(changed_domains(given.get("previous"), given["current"]))}


def _uris(given: Mapping[str, Any]) -> _Answer:
    try:
        uri = McplUri.parse(given["uri"])
    except InvalidValueError as error:
        return {"error": error.code}
    return {"canonicalUri": uri.canonical, "resolvedTransport": uri.resolved}


def _capability_match(given: Mapping[str, Any]) -> _Answer:
    return {"granted": capability_granted(given["entries"], given["path"])}


def _advertisement(given: Mapping[str, Any]) -> _Answer:
    vocabulary = VOCABULARY.extend(*given.get("extensions", ()))
    return {"advertised": sorted(advertised_capabilities_from_initialize(given["capabilities"], vocabulary))}


def _grant_update(given: Mapping[str, Any]) -> _Answer:
    outcome = UpdateOutcome(GrantState())
    for message in given["messages"]:
        outcome = grant_from_update(outcome.state, message.get("params", msgspec.UNSET), message["form"])
    state, malformed = outcome.state, outcome.malformed
    return {
        "state": {
            "effectiveCapabilities": list(state.effective_capabilities),
            "enabled": None if state.enabled_feature_sets is None else list(state.enabled_feature_sets),
            "disabled": list(state.disabled_feature_sets),
            "ready": state.ready,
        },
        "malformed": None if malformed is None else {"code": malformed.code, "path": malformed.path},
        "conflicts": list(outcome.conflicts),
        "discarded": list(outcome.discarded),
    }


def _feature_derivation(given: Mapping[str, Any]) -> _Answer:
    grant = grant_from_update(None, given["update"], "request").state if "update" in given else GrantState()
    declared, vocabulary = given.get("featureSets"), VOCABULARY.extend(*given.get("extensions", ()))
    return {
        "featureSets": {
            name: {
                "enabled": status.enabled,
                "reason": status.reason,
                "missingCapabilities": list(status.missing_capabilities),
                "unrecognized": list(status.unrecognized),
            }
            for name, status in derive_feature_sets(declared, grant, vocabulary).items()
        },
        "receipt": degradation_receipt(declared, grant, vocabulary=vocabulary).to_wire(),
    }


def _tags(given: Mapping[str, Any]) -> _Answer:
    source = given.get("source", "producer")
    try:
        rules = parse_rules(given.get("rules", []))
    except InvalidValueError as error:
        return {"malformed": {"code": error.code, "path": error.path}}
    ontology = parse_ontology(given.get("ontology", msgspec.UNSET))
    accepted = Acceptances()
    if given.get("accepted"):
        act = Acceptance(source, "set", "shown", "operator", ontology.ontology)
        accepted = accepted.accept(act, current_digest="shown")
    reading = read_tags(given.get("tags", msgspec.UNSET))
    tags = expand_tags(reading.tags, accepted.edges(source, "set"))
    treatment = choose_treatment(
        (*rules, *accepted.rules()),
        tags,
        source=source,
        channel=given.get("channel"),
        default=parse_behavior(given.get("default", "immediate")),
    )
    answer: _Answer = {
        "tags": sorted(tags),
        "dropped": [{"code": drop.code, "path": drop.path} for drop in reading.dropped],
        "treatment": behavior_to_wire(treatment.behavior),
        "rule": treatment.index,
    }
    if "ontology" in given:
        answer["problems"] = [{"code": problem.code, "path": problem.path} for problem in ontology.problems]
    return answer


def _identity_digests(given: Mapping[str, Any]) -> _Answer:
    from .authority import digest_answer

    return digest_answer(given)


#: Family -> the answer to a case's input.
FAMILIES: Mapping[str, Callable[[Mapping[str, Any]], _Answer]] = {
    "advertisement": _advertisement,
    "capability-match": _capability_match,
    "changed-domains": _changed_domains,
    "feature-derivation": _feature_derivation,
    "framing": framing_answer,
    "grant-update": _grant_update,
    "identity-digests": _identity_digests,
    "manifest-digest": _manifest_digest,
    "tags": _tags,
    "uris": _uris,
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One member in which an answer is not what was expected.

    Attributes:
        member: its name; empty when there was no answer at all.
        expected: the expected value as JSON text, ``absent`` when there should be none.
        actual: the value, in the same way.
    """

    member: str
    expected: str
    actual: str


def differences(family: str, case: Case) -> list[Difference]:
    """Run a case of a known family. Nothing in the result: it passed.

    Members are compared as JSON: arrays in order, ``1`` equal to ``1.0`` and unlike ``true``.
    """
    try:
        answer = FAMILIES[family](case.input)
    except Exception as exc:  # a case that this package cannot even run is a failed case
        return [Difference("", "an answer", repr(exc))]
    names = [*case.expected, *(name for name in answer if name not in case.expected)]
    pairs = ((name, _text(case.expected, name), _text(answer, name)) for name in names)
    return [Difference(*pair) for pair in pairs if pair[1] != pair[2]]


def _text(members: Mapping[str, Any], name: str) -> str:
    return canonical_bytes(members[name]).decode() if name in members else "absent"
