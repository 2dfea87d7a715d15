from __future__ import annotations

import pytest
from msgspec import UNSET

from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.protocol.policy import (
    FeatureSetDeclaration,
    FeatureSetsUpdateNotice,
    FeatureSetsUpdateParams,
    FeatureSetsUpdateResult,
    UnavailableFeatureEntry,
)
from mcpl_core.wire.values import encode_value


def test_a_policy() -> None:
    text = (
        b'{"effectiveCapabilities":["tools","channels.publish"],"deniedCapabilities":["pushEvents"],'
        b'"enabled":["memory.retrieval"],"disabled":["memory.extraction"]}'
    )
    params = decode_typed(text, FeatureSetsUpdateParams)
    assert params.effective_capabilities == ["tools", "channels.publish"]
    assert encode_value(params) == text


def test_absent_and_empty_are_two_policies() -> None:
    absent, empty = (
        decode_typed(b"{}", FeatureSetsUpdateParams),
        decode_typed(b'{"enabled":[]}', FeatureSetsUpdateParams),
    )
    assert (absent.enabled, empty.enabled) == (UNSET, [])
    assert encode_value(absent) == b"{}"
    assert encode_value(empty) == b'{"enabled":[]}'


@pytest.mark.parametrize("member", ["effectiveCapabilities", "deniedCapabilities", "enabled", "disabled"])
@pytest.mark.parametrize("value", [b"null", b'"a"', b"{}", b"true"])
def test_a_request_is_read_strictly(member: str, value: bytes) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(b'{"%b":%b}' % (member.encode(), value), FeatureSetsUpdateParams)
    assert caught.value.path == f"$.{member}"


@pytest.mark.spec("6.7-4")
def test_a_notification_is_read_member_by_member() -> None:
    text = b'{"effectiveCapabilities":5,"enabled":null,"disabled":["a"]}'
    notice = decode_typed(text, FeatureSetsUpdateNotice)
    assert (notice.effective_capabilities, notice.denied_capabilities) == (5, UNSET)
    assert (notice.enabled, notice.disabled) == (None, ["a"])
    assert encode_value(notice) == text


@pytest.mark.spec("6.7-9")
def test_a_receipt_without_degradation_holds_one_member() -> None:
    assert encode_value(FeatureSetsUpdateResult(accepted=True)) == b'{"accepted":true}'


@pytest.mark.spec("6.7-6")
def test_a_degraded_receipt() -> None:
    text = (
        b'{"accepted":true,"mode":"degraded","unavailableFeatures":[{"featureSet":"memory.extraction",'
        b'"effect":"disabled","missingCapabilities":["inferenceLifecycle"]}],"notes":[]}'
    )
    receipt = decode_typed(text, FeatureSetsUpdateResult)
    assert receipt.unavailable_features == [
        UnavailableFeatureEntry(
            feature_set="memory.extraction", effect="disabled", missing_capabilities=["inferenceLifecycle"]
        )
    ]
    assert receipt.fallback is UNSET
    assert encode_value(receipt) == text


@pytest.mark.spec("6.7-7")
def test_a_refusal_names_its_fallback() -> None:
    text = b'{"accepted":false,"fallback":"mcp-only","missingCapabilities":["tools"],"reason":"no tools"}'
    receipt = decode_typed(text, FeatureSetsUpdateResult)
    assert (receipt.accepted, receipt.fallback, receipt.reason) == (False, "mcp-only", "no tools")
    assert encode_value(receipt) == text
    for bad in (b'{"accepted":false}', b'{"accepted":false,"reason":"no"}'):
        with pytest.raises(InvalidValueError) as caught:
            decode_typed(bad, FeatureSetsUpdateResult)
        assert (caught.value.code, caught.value.path) == ("missing", "$.fallback")
    with pytest.raises(InvalidValueError):
        FeatureSetsUpdateResult(accepted=False)


@pytest.mark.parametrize("fallback", [b'"retry"', b"null", b"true"])
@pytest.mark.spec("6.7-7")
def test_there_are_two_fallbacks(fallback: bytes) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(b'{"accepted":false,"fallback":' + fallback + b"}", FeatureSetsUpdateResult)
    assert caught.value.path == "$.fallback"


@pytest.mark.spec("6.7-8")
def test_an_unavailable_feature_has_an_effect() -> None:
    text = b'{"accepted":true,"unavailableFeatures":[{"featureSet":"a","missingCapabilities":[]}]}'
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(text, FeatureSetsUpdateResult)
    assert caught.value.path == "$.unavailableFeatures[0]"


@pytest.mark.parametrize("text", [b"{}", b'{"accepted":1}', b'{"accepted":"true"}', b'{"accepted":null}'])
def test_a_receipt_says_yes_or_no(text: bytes) -> None:
    with pytest.raises(InvalidValueError):
        decode_typed(text, FeatureSetsUpdateResult)


@pytest.mark.spec("6.4-2")
def test_a_declaration_is_read_whatever_it_uses() -> None:
    text = b'{"description":"Notes","uses":["tools"],"rollback":true,"tagOntology":{"open":true}}'
    assert encode_value(decode_typed(text, FeatureSetDeclaration)) == text
    assert decode_typed(b"{}", FeatureSetDeclaration) == FeatureSetDeclaration()
    assert decode_typed(b'{"uses":"tools"}', FeatureSetDeclaration).uses == "tools"
    assert decode_typed(b'{"uses":null}', FeatureSetDeclaration).uses is None
