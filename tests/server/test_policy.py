"""What one host allows now, as the server sees it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from mcpl_core import (
    METHODS,
    AcceptedReceipt,
    CapabilityDenied,
    FeatureSetNotEnabled,
    GrantState,
    RpcError,
    UnknownFeatureSet,
    method,
)
from mcpl_core.receipts import Receipt, RefusedReceipt
from mcpl_core.server import ServerPolicy

PUSH, TOOL, ASK = METHODS[method.PUSH_EVENT], METHODS[method.TOOLS_CALL], METHODS[method.INFERENCE_REQUEST]
DECLARED: dict[str, Any] = {
    "a.events": {"description": "A", "uses": ["pushEvents"]},
    "a.tools": {"description": "B", "uses": ["tools"]},
    "a.bad": {"description": "C", "uses": []},
    "a.asks": {"description": "D", "uses": ["inferenceRequest"]},
}


def policy(declared: Any = DECLARED, **options: Any) -> ServerPolicy:
    return ServerPolicy(lambda: declared, **options)


def granted(*paths: str, **more: Any) -> ServerPolicy:
    made = policy()
    made.update({"effectiveCapabilities": list(paths), **more}, "request")
    return made


@pytest.mark.spec("5.3-6")
def test_before_a_policy_nothing_is_allowed() -> None:
    made = policy()
    assert not made.ready
    assert not made.allows("pushEvents")
    for entry in METHODS.values():
        denied = made.denial(entry)
        assert isinstance(denied, CapabilityDenied) is bool(entry.capabilities)
        if denied is not None:
            assert denied.data["reason"] == "not_ready"


def test_a_request_is_answered_with_a_receipt_and_in_force() -> None:
    made = policy()
    update = made.update({"effectiveCapabilities": ["pushEvents"]}, "request")
    assert update.answer is not None
    assert json.loads(bytes(update.answer)) == {
        "accepted": True,
        "mode": "degraded",
        "unavailableFeatures": [
            {"featureSet": "a.tools", "missingCapabilities": ["tools"], "effect": "disabled"},
            {"featureSet": "a.bad", "missingCapabilities": [], "effect": "disabled", "reason": "invalid_uses"},
            {"featureSet": "a.asks", "missingCapabilities": ["inferenceRequest"], "effect": "disabled"},
        ],
    }
    assert made.ready
    assert (made.enabled("a.events"), made.enabled("a.tools"), made.enabled("none")) == (True, False, False)


def test_a_notification_only_disables_and_is_not_answered() -> None:
    made = granted("pushEvents", "tools")
    update = made.update({"effectiveCapabilities": [], "disabled": ["a.events"]}, "notification")
    assert update.answer is None
    assert update.outcome.discarded == ("effectiveCapabilities",)
    assert made.allows("pushEvents")
    assert not made.enabled("a.events")


def test_a_notification_makes_nobody_ready() -> None:
    made = policy()
    made.update({"effectiveCapabilities": ["pushEvents"], "enabled": ["a.events"]}, "notification")
    assert not made.ready


def test_a_malformed_request_takes_everything_away() -> None:
    made = granted("pushEvents")
    update = made.update({"effectiveCapabilities": "pushEvents"}, "request")
    assert update.answer is None
    assert update.outcome.malformed is not None
    assert not made.ready


@pytest.mark.parametrize(
    ("check", "error", "data"),
    [
        ((PUSH, None), None, None),
        ((PUSH, "a.events"), None, None),
        ((TOOL, None), CapabilityDenied, {"capability": "tools"}),
        ((TOOL, "a.events"), CapabilityDenied, {"capability": "tools"}),
        ((PUSH, "a.tools"), FeatureSetNotEnabled, {"featureSet": "a.tools", "reason": "capability_denied"}),
        ((PUSH, "a.bad"), FeatureSetNotEnabled, {"featureSet": "a.bad", "reason": "invalid_uses"}),
        ((PUSH, "a.none"), UnknownFeatureSet, {"featureSet": "a.none"}),
        (
            (PUSH, "a.asks"),
            CapabilityDenied,
            {"capability": "pushEvents", "reason": "declaration_mismatch", "featureSet": "a.asks"},
        ),
        ((ASK, "a.asks"), None, None),
        (
            (ASK, "a.asks", ("inferenceRequest.streaming",)),
            CapabilityDenied,
            {"capability": "inferenceRequest.streaming"},
        ),
    ],
)
def test_a_check_says_why_not(check: tuple[Any, ...], error: type[RpcError] | None, data: Any) -> None:
    made = granted("pushEvents", "inferenceRequest")
    denied = made.denial(*check)
    assert type(denied) is (error or type(None))
    if denied is None:
        made.check(*check)
    else:
        assert denied.data == data
        with pytest.raises(type(denied)):
            made.check(*check)


@pytest.mark.spec("6.4-6")
def test_a_further_path_must_be_declared_by_the_set_too() -> None:
    made = granted("inferenceRequest", "inferenceRequest.streaming")
    denied = made.denial(ASK, "a.asks", ("inferenceRequest.streaming",))
    assert denied is not None
    assert denied.data["reason"] == "declaration_mismatch"


def test_other_declarations_count_at_once() -> None:
    declared: dict[str, Any] = {}
    made = policy(declared)
    made.update({"effectiveCapabilities": ["pushEvents"]}, "request")
    assert not made.enabled("a.events")
    declared["a.events"] = DECLARED["a.events"]
    made.redeclared()
    assert made.enabled("a.events")


# -- refusals


def refusing(fallback: str) -> Any:
    def hook(receipt: AcceptedReceipt, grant: GrantState) -> Receipt:
        return receipt if "tools" in grant.effective_capabilities else RefusedReceipt(fallback)  # type: ignore[arg-type]

    return hook


@pytest.mark.parametrize(("fallback", "refused", "close"), [("mcp-only", True, False), ("close", False, True)])
def test_a_refusal_leaves_no_grant(fallback: str, refused: bool, close: bool) -> None:
    made = policy(receipt_hook=refusing(fallback))
    update = made.update({"effectiveCapabilities": ["pushEvents"]}, "request")
    assert update.answer is not None
    assert json.loads(bytes(update.answer)) == {"accepted": False, "fallback": fallback}
    assert (made.refused, update.close, made.ready) == (refused, close, False)


@pytest.mark.parametrize("params", [{"effectiveCapabilities": ["tools"]}, {"effectiveCapabilities": 3}])
def test_a_later_request_decides_anew(params: Any) -> None:
    made = policy(receipt_hook=refusing("mcp-only"))
    made.update({}, "request")
    made.update(params, "request")
    assert not made.refused


def raising(receipt: AcceptedReceipt, grant: GrantState) -> Receipt:
    raise KeyError("bug")


def unencodable(receipt: AcceptedReceipt, grant: GrantState) -> Receipt:
    return AcceptedReceipt(notes=(object(),))  # type: ignore[arg-type]


@pytest.mark.parametrize("hook", [raising, unencodable])
def test_a_receipt_that_cannot_be_made_leaves_no_grant(hook: Any) -> None:
    made = policy(receipt_hook=hook)
    made.grant = GrantState(("pushEvents",), ready=True)
    with pytest.raises(Exception):  # noqa: B017
        made.update({"effectiveCapabilities": ["pushEvents", "tools"]}, "request")
    assert not made.ready
    assert not made.allows("pushEvents")


def test_absent_params_are_an_empty_object() -> None:
    made = policy()
    made.update(msgspec.UNSET, "request")
    assert (made.ready, made.grant.effective_capabilities) == (True, ())
