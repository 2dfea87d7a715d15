"""Receipts: built by a server, read by a host, and without authority."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.capabilities import CAPABILITY_PATHS
from mcpl_core.errors import InvalidValueError
from mcpl_core.grants import GrantState, Malformed, derive_feature_sets
from mcpl_core.negotiation import plan_change, settle
from mcpl_core.receipts import (
    AcceptedReceipt,
    RefusedReceipt,
    UnavailableFeature,
    degradation_receipt,
    read_receipt,
    refusal,
)

DECLARED = {
    "chat": {"description": "C", "uses": ["channels.publish"]},
    "memory": {"description": "M", "uses": ["inferenceLifecycle", "channels.publish", "pushEvents"]},
    "broken": {"description": "B", "uses": ["telepathy"]},
    "tidy": {"description": "T", "uses": ["channels.publish"]},
}
GRANT = GrantState(("channels.publish",), None, ("tidy",), ready=True)

TEXTS = st.lists(st.text(max_size=5), max_size=3).map(tuple)
FEATURES = st.builds(UnavailableFeature, st.text(max_size=5), TEXTS, st.text(max_size=5), st.none() | st.text())
RECEIPTS: st.SearchStrategy[AcceptedReceipt | RefusedReceipt] = st.builds(
    AcceptedReceipt, st.lists(FEATURES, max_size=3).map(tuple), st.none() | st.text(max_size=5), TEXTS
) | st.builds(RefusedReceipt, st.sampled_from(["mcp-only", "close"]), TEXTS, st.none() | st.text(max_size=5))


@pytest.mark.spec("6.7-6", "6.7-8", "R-grant-4", "R-grant-5")
def test_a_degraded_receipt_names_each_set_and_what_it_misses() -> None:
    assert degradation_receipt(DECLARED, GRANT).to_wire() == {
        "accepted": True,
        "mode": "degraded",
        "unavailableFeatures": [
            {
                "featureSet": "memory",
                "missingCapabilities": ["inferenceLifecycle", "pushEvents"],
                "effect": "disabled",
            },
            {"featureSet": "broken", "missingCapabilities": [], "effect": "disabled", "reason": "invalid_uses"},
        ],
    }


@pytest.mark.spec("6.7-9", "R-grant-5")
def test_when_nothing_degraded_there_is_no_mode() -> None:
    declared = {"chat": DECLARED["chat"], "tidy": DECLARED["tidy"]}
    assert degradation_receipt(declared, GRANT).to_wire() == {"accepted": True}
    assert degradation_receipt(None, GRANT).to_wire() == {"accepted": True}


def test_what_the_server_knows_beyond_its_declaration() -> None:
    receipt = degradation_receipt(
        DECLARED,
        GRANT,
        effects={"memory": "read-only"},
        further=[
            UnavailableFeature("chat", ("modelInfo",), "limited"),
            UnavailableFeature("broken", (), "removed"),
        ],
        notes=["see the log"],
    )
    assert receipt.mode == "degraded"
    assert [(f.feature_set, f.missing_capabilities, f.effect) for f in receipt.unavailable_features] == [
        ("memory", ("inferenceLifecycle", "pushEvents"), "read-only"),
        ("broken", (), "removed"),
        ("chat", ("modelInfo",), "limited"),
    ]
    assert receipt.to_wire()["notes"] == ["see the log"]


def test_further_needs_alone_make_it_degraded() -> None:
    receipt = degradation_receipt({}, GRANT, further=[UnavailableFeature("x")])
    assert receipt.mode == "degraded"


@pytest.mark.spec("6.7-7")
def test_a_refusal_names_its_consequence() -> None:
    assert refusal("mcp-only").to_wire() == {"accepted": False, "fallback": "mcp-only"}
    full = refusal("close", missing_capabilities=["tools"], reason="no use without tools")
    assert full.to_wire() == {
        "accepted": False,
        "fallback": "close",
        "missingCapabilities": ["tools"],
        "reason": "no use without tools",
    }


@pytest.mark.spec("6.7-7")
@pytest.mark.parametrize("fallback", ["", "MCP-ONLY", "retry", None, True, ["close"]])
def test_a_refusal_without_a_known_fallback_cannot_be_made(fallback: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        refusal(fallback)
    assert (caught.value.code, caught.value.path) == ("fallback", "$.fallback")


@given(RECEIPTS)
def test_what_is_written_is_read(receipt: AcceptedReceipt | RefusedReceipt) -> None:
    assert read_receipt(receipt.to_wire()) == receipt


def test_the_receipts_of_the_spec() -> None:
    entry = {"featureSet": "memory.extraction", "missingCapabilities": ["inferenceLifecycle"], "effect": "disabled"}
    wire = {"accepted": True, "mode": "degraded", "unavailableFeatures": [entry], "notes": []}
    assert read_receipt(wire) == AcceptedReceipt(
        (UnavailableFeature("memory.extraction", ("inferenceLifecycle",), "disabled"),), "degraded"
    )
    refused = {"accepted": False, "fallback": "mcp-only", "missingCapabilities": ["tools"], "reason": "r"}
    assert read_receipt(refused) == RefusedReceipt("mcp-only", ("tools",), "r")


def test_unknown_members_are_ignored() -> None:
    assert read_receipt({"accepted": True, "fallback": 7, "future": {}}) == AcceptedReceipt()
    assert read_receipt({"accepted": False, "fallback": "close", "mode": 7}) == RefusedReceipt("close")


FEATURE = {"featureSet": "a", "effect": "disabled"}


@pytest.mark.spec("6.7-7", "6.7-8")
@pytest.mark.parametrize(
    ("wire", "code", "path"),
    [
        (None, "not_object", "$"),
        ([], "not_object", "$"),
        (True, "not_object", "$"),
        ({}, "accepted", "$.accepted"),
        ({"accepted": None}, "accepted", "$.accepted"),
        ({"accepted": "true"}, "accepted", "$.accepted"),
        ({"accepted": 1}, "accepted", "$.accepted"),
        ({"accepted": False}, "fallback", "$.fallback"),
        ({"accepted": False, "fallback": None}, "fallback", "$.fallback"),
        ({"accepted": False, "fallback": "later"}, "fallback", "$.fallback"),
        ({"accepted": False, "fallback": ["close"]}, "fallback", "$.fallback"),
        ({"accepted": False, "fallback": "close", "reason": None}, "not_string", "$.reason"),
        (
            {"accepted": False, "fallback": "close", "missingCapabilities": [1]},
            "not_string",
            "$.missingCapabilities[0]",
        ),
        ({"accepted": True, "mode": None}, "not_string", "$.mode"),
        ({"accepted": True, "notes": "n"}, "not_array", "$.notes"),
        ({"accepted": True, "unavailableFeatures": None}, "not_array", "$.unavailableFeatures"),
        ({"accepted": True, "unavailableFeatures": {}}, "not_array", "$.unavailableFeatures"),
        ({"accepted": True, "unavailableFeatures": [FEATURE, 1]}, "not_object", "$.unavailableFeatures[1]"),
        (
            {"accepted": True, "unavailableFeatures": [{"featureSet": "a"}]},
            "not_string",
            "$.unavailableFeatures[0].effect",
        ),
        (
            {"accepted": True, "unavailableFeatures": [{"effect": "disabled"}]},
            "not_string",
            "$.unavailableFeatures[0].featureSet",
        ),
        (
            {"accepted": True, "unavailableFeatures": [{**FEATURE, "missingCapabilities": "tools"}]},
            "not_array",
            "$.unavailableFeatures[0].missingCapabilities",
        ),
        (
            {"accepted": True, "unavailableFeatures": [{**FEATURE, "reason": 1}]},
            "not_string",
            "$.unavailableFeatures[0].reason",
        ),
    ],
)
def test_malformed_receipts(wire: Any, code: str, path: str) -> None:
    reading = read_receipt(wire)
    assert isinstance(reading, Malformed)
    assert (reading.code, reading.path) == (code, path)


def test_what_a_server_says_in_lists_is_no_bare_string() -> None:
    with pytest.raises(InvalidValueError) as caught:
        refusal("close", missing_capabilities="tools")
    assert (caught.value.code, caught.value.path) == ("not_array", "$.missing_capabilities")
    with pytest.raises(InvalidValueError) as caught:
        degradation_receipt({}, GrantState(), notes="a note")
    assert (caught.value.code, caught.value.path) == ("not_array", "$.notes")


def test_an_absent_list_of_missing_capabilities_is_an_empty_one() -> None:
    assert read_receipt({"accepted": True, "unavailableFeatures": [FEATURE]}) == AcceptedReceipt(
        (UnavailableFeature("a"),)
    )


#: Anything at all, or what looks like a receipt and asks for more.
WISHES = st.lists(st.sampled_from([*CAPABILITY_PATHS, "*", "*.*"]), max_size=4)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
ASKING = st.fixed_dictionaries(
    {"accepted": st.booleans()},
    optional={
        "fallback": st.sampled_from(["mcp-only", "close", "grant", None]),
        "mode": st.just("degraded"),
        "missingCapabilities": WISHES,
        "effectiveCapabilities": WISHES,
        "enabled": st.just(["*"]),
        "unavailableFeatures": st.lists(
            st.fixed_dictionaries(
                {"featureSet": st.just("chat"), "effect": st.just("enabled")}, optional={"missingCapabilities": WISHES}
            ),
            max_size=2,
        ),
    },
)
GRANTS = st.lists(st.sampled_from(CAPABILITY_PATHS), max_size=4).map(tuple)


@pytest.mark.spec("6.7-10")
@given(GRANTS, GRANTS, st.booleans(), ASKING | ANYTHING)
def test_no_receipt_widens_a_grant(now: tuple[str, ...], wanted: tuple[str, ...], ready: bool, wire: Any) -> None:
    change = plan_change(GrantState(now, None, ("chat",), ready), GrantState(wanted, ("tidy",)))
    answer = read_receipt(wire)
    after = settle(change, answer).grant
    allowed = {path for path in CAPABILITY_PATHS if after.allows(path)}
    accepted = isinstance(answer, AcceptedReceipt)
    assert allowed <= set(wanted)
    assert allowed == set(wanted) if accepted else allowed <= (set(now) if ready else set())
    if after.ready:
        assert not derive_feature_sets(DECLARED, after)["chat"].enabled
