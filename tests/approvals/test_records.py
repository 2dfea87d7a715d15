"""Intents, decisions and records: strict reading, digests, and what contradicts itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.approvals.records import (
    ApprovalIntent,
    ApprovalRecord,
    Decision,
    DecisionCommand,
    approval_id_of,
    arguments_digest,
)
from mcpl_core.errors import InvalidValueError

INTENT: dict[str, Any] = {
    "schemaVersion": 1,
    "runId": "run-1",
    "rootRunId": "root-1",
    "toolCallId": "call-1",
    "toolName": "store_value",
    "arguments": {"value": "é", "count": 1, "tags": ["a", None, True], "deep": {"n": 0.5}},
    "presetFingerprint": "preset-1",
    "bindingId": "values",
    "bindingRevision": "catalog-1",
    "scopeId": "tenant",
    "scopeRevision": "7",
    "effect": "destructive",
}


def intent(**changes: Any) -> ApprovalIntent:
    return ApprovalIntent.from_json(INTENT | changes)


def record(**changes: Any) -> ApprovalRecord:
    made = ApprovalRecord(approval_id_of("run-1", "call-1"), intent(), 1, "pending", 1_000, 2_000)
    return replace(made, **changes)


def command(**changes: Any) -> DecisionCommand:
    return replace(DecisionCommand(record().approval_id, 1, intent().digest, "key", "approve"), **changes)


def decision(**changes: Any) -> Decision:
    return replace(Decision(command(), "bob", 1_500, 2), **changes)


APPROVED = {"status": "approved", "revision": 2, "decision": decision()}


def test_an_intent_goes_through_json() -> None:
    assert json.loads(json.dumps(intent().to_json())) == INTENT
    assert ApprovalIntent.from_json(intent().to_json()) == intent()


@pytest.mark.parametrize("member", INTENT)
def test_every_member_of_an_intent_is_needed(member: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        ApprovalIntent.from_json({name: value for name, value in INTENT.items() if name != member})
    assert caught.value.code == "missing_member"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"more": 1}, "unknown_member"),
        ({"schemaVersion": 2}, "literal"),
        ({"schemaVersion": True}, "literal"),
        ({"schemaVersion": 1.0}, "literal"),
        ({"effect": "read"}, "literal"),
        ({"effect": None}, "literal"),
        ({"runId": ""}, "identity"),
        ({"runId": " a"}, "identity"),
        ({"runId": "a\n"}, "identity"),
        ({"runId": "a" * 1025}, "identity"),
        ({"runId": "a\0b"}, "identity"),
        ({"runId": "a\ud800"}, "identity"),
        ({"runId": 7}, "not_string"),
        ({"arguments": None}, "not_object"),
        ({"arguments": []}, "not_object"),
        ({"arguments": {"n": float("nan")}}, "number"),
        ({"arguments": {"n": 2**53}}, "number"),
        ({"arguments": {1: 1}}, "not_json"),
        ({"arguments": {"s": "\ud800"}}, "surrogate"),
        ({"arguments": {"s": object()}}, "not_json"),
    ],
)
@pytest.mark.spec("R-approvals-1")
def test_what_an_intent_refuses(change: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        ApprovalIntent.from_json(INTENT | change)
    assert caught.value.code == code


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_only_objects_are_records(value: Any) -> None:
    for read in (ApprovalIntent.from_json, ApprovalRecord.from_json, DecisionCommand.from_json):
        with pytest.raises(InvalidValueError) as caught:
            read(value)
        assert caught.value.code == "not_object"


def test_the_longest_identity() -> None:
    assert intent(runId="é" * 1024).run_id == "é" * 1024


def test_nothing_of_an_intent_can_be_changed() -> None:
    made = intent()
    for change in (
        lambda: made.arguments.update(value="other"),  # type: ignore[attr-defined]
        lambda: made.arguments["tags"].append(1),
        lambda: made.arguments["deep"].clear(),
        lambda: setattr(made, "effect", "write"),
    ):
        with pytest.raises((AttributeError, TypeError, FrozenInstanceError)):
            change()
    own = dict(INTENT["arguments"])
    kept = ApprovalIntent.from_json(INTENT | {"arguments": own})
    own["value"] = "other"
    assert kept.arguments["value"] == "é"


# Written once more, from the words of the profile alone.
def _text(value: Any) -> str:
    import struct

    if value is None or isinstance(value, bool):
        return {None: "n", True: "t", False: "f"}[value]
    if isinstance(value, str):
        return f"s{len(value.encode())}:{value.encode().hex()}"
    if isinstance(value, dict):
        return f"o{len(value)}:" + "".join(_text(name) + _text(value[name]) for name in sorted(value))
    if isinstance(value, list):
        return f"a{len(value)}:" + "".join(map(_text, value))
    return "d" + struct.pack(">d", value).hex()


def _digest(value: Any) -> str:
    return sha256(b"purra.json-identity/v1\n" + _text(value).encode()).hexdigest()


@pytest.mark.spec("R-approvals-1")
def test_the_digest_of_an_intent() -> None:
    assert intent().digest == _digest({"profile": "purra.approval-intent/v1", "intent": INTENT})
    # The number itself, so that no change of the rule goes unseen.
    assert intent().digest == "8280c5cf5581476bdc43223e342978804bfd150583b1082dd02807d91f1040ff"


@pytest.mark.spec("R-approvals-1")
def test_the_id_of_an_approval() -> None:
    key = {"profile": "purra.approval-key/v1", "runId": "run-1", "toolCallId": "call-1"}
    assert approval_id_of("run-1", "call-1") == _digest(key)


@pytest.mark.parametrize("member", INTENT)
@pytest.mark.spec("R-approvals-1")
def test_whatever_changes_in_an_intent_changes_its_digest(member: str) -> None:
    others: dict[str, Any] = {"effect": "write", "arguments": INTENT["arguments"] | {"count": 2}}
    if member != "schemaVersion":
        assert intent(**{member: others.get(member, "other")}).digest != intent().digest


def test_one_number_has_one_digest() -> None:
    assert intent(arguments={"n": 1}).digest == intent(arguments={"n": 1.0}).digest
    assert intent(arguments={"n": 0}).digest == intent(arguments={"n": -0.0}).digest
    assert intent(arguments={"n": 1}).digest != intent(arguments={"n": True}).digest
    assert arguments_digest({"a": 1, "b": 2}) == arguments_digest({"b": 2, "a": 1})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), _JSON, max_size=4))
def test_arguments_go_through_json_as_they_are(arguments: dict[str, Any]) -> None:
    made = intent(arguments=arguments)
    again = ApprovalIntent.from_json(json.loads(json.dumps(made.to_json())))
    assert again.digest == made.digest
    assert again.to_json()["arguments"] == arguments


def test_a_record_goes_through_json() -> None:
    for made in (record(), record(**APPROVED), record(**APPROVED | {"status": "expired", "revision": 3})):
        text = json.loads(json.dumps(made.to_json()))
        assert ApprovalRecord.from_json(text) == made
        assert text["intentDigest"] == made.intent.digest
    assert record().to_json()["decisionAudit"] == {}
    assert set(record().to_json()) == {
        "approvalId",
        "intent",
        "intentDigest",
        "revision",
        "status",
        "createdAtMs",
        "expiresAtMs",
        "decisionAudit",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"approval_id": approval_id_of("run-1", "call-2")},
        {"expires_at_ms": 1_000},
        {"status": "approved"},
        {"status": "rejected"},
        APPROVED | {"status": "pending"},
        APPROVED | {"status": "rejected"},
        APPROVED | {"revision": 1},
        APPROVED | {"decision": decision(command=command(approval_id="other"))},
        APPROVED | {"decision": decision(command=command(intent_digest="other"))},
        APPROVED | {"decision": decision(command=command(expected_revision=2))},
        APPROVED | {"decision": decision(decided_at_ms=999)},
        APPROVED | {"decision": decision(decided_at_ms=2_000)},
        APPROVED | {"status": "expired", "decision": decision(command=command(decision="reject"))},
    ],
)
def test_a_record_does_not_contradict_itself(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        record(**change)
    assert caught.value.code == "conflict"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"intentDigest": "0" * 64}, "conflict"),
        ({"revision": 0}, "integer"),
        ({"revision": True}, "integer"),
        ({"createdAtMs": -1}, "integer"),
        ({"createdAtMs": 1.5}, "integer"),
        ({"expiresAtMs": 2**53}, "integer"),
        ({"status": "open"}, "literal"),
        ({"intent": None}, "not_object"),
        ({"decisionAudit": None}, "not_object"),
        ({"decisionAudit": {"command": 1}}, "missing_member"),
        ({"extra": 1}, "unknown_member"),
    ],
)
def test_what_a_record_refuses(change: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        ApprovalRecord.from_json(record().to_json() | change)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "make",
    [
        lambda: replace(intent(), run_id=None),  # type: ignore[arg-type]
        lambda: replace(record(), intent=None),  # type: ignore[arg-type]
        lambda: replace(record(), decision="approved"),  # type: ignore[arg-type]
        lambda: command(decision="maybe"),
        lambda: command(expected_revision=0),
        lambda: decision(command=None),
        lambda: decision(principal_id=""),
    ],
)
def test_constructors_check_too(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidValueError):
        make()


def test_the_command_of_who_looked() -> None:
    assert record().command("approve", "key") == command()
    with pytest.raises(InvalidValueError):
        record().command("maybe", "key")  # type: ignore[arg-type]


def test_the_receipt_of_a_decision() -> None:
    assert record().receipt is None
    receipt = record(**APPROVED | {"status": "expired", "revision": 3}).receipt
    assert receipt is not None
    assert receipt.to_json() == {
        "approvalId": record().approval_id,
        "intentDigest": intent().digest,
        "commandKey": "key",
        "status": "approved",
        "revision": 2,
        "decidedAtMs": 1_500,
    }
