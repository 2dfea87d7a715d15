from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mcpl_core.errors import InvalidParams, InvalidValueError
from mcpl_core.protocol import method
from mcpl_core.protocol.codec import decode_params, decode_result, decode_typed
from mcpl_core.protocol.handshake import InitializedParams, PingParams
from mcpl_core.protocol.inference import InferenceChunkParams, Preferences
from mcpl_core.protocol.methods import METHODS
from mcpl_core.protocol.policy import FeatureSetsUpdateNotice, FeatureSetsUpdateParams
from mcpl_core.protocol.push import PushEventParams, PushEventResult
from mcpl_core.wire.messages import Notification, Request, decode_message

PUSH = METHODS[method.PUSH_EVENT]


def test_params_become_their_type() -> None:
    params = decode_params(
        PUSH, b'{"featureSet":"a.b","eventId":"e1","timestamp":"2026-01-23T10:30:00Z","payload":{"content":"hi"}}'
    )
    assert isinstance(params, PushEventParams)
    assert (params.feature_set, params.payload.text, params.tags) == ("a.b", "hi", msgspec.UNSET)


def test_params_of_a_message_from_the_wire() -> None:
    message = decode_message(
        b'{"jsonrpc":"2.0","method":"inference/chunk","params":{"requestId":"a","index":0.0,"delta":"x"}}'
    )
    assert isinstance(message, Notification)
    params = decode_params(METHODS[message.method], message.raw_params, "notification")
    assert params == InferenceChunkParams(request_id="a", index=0, delta="x")


@pytest.mark.parametrize("params", [b"", b',"params":{}', b',"params":null', b',"params": null '])
def test_params_may_be_left_out(params: bytes) -> None:
    message = decode_message(b'{"jsonrpc":"2.0","id":1,"method":"ping"' + params + b"}")
    assert isinstance(message, Request)
    assert decode_params(METHODS[method.PING], message.raw_params) == PingParams()


def test_absent_params_of_a_notification() -> None:
    assert decode_params(METHODS[method.INITIALIZED], b"", "notification") == InitializedParams()


def test_required_members_are_missed_in_absent_params() -> None:
    with pytest.raises(InvalidParams) as caught:
        decode_params(PUSH, msgspec.Raw(b""))
    assert caught.value.code == -32602
    assert caught.value.data["path"] == "$"
    assert "featureSet" in caught.value.data["detail"]


@pytest.mark.parametrize(
    ("entry", "raw", "path"),
    [
        (method.PUSH_EVENT, b"[]", "$"),
        (method.PUSH_EVENT, b"true", "$"),
        (method.PUSH_EVENT, b"1", "$"),
        (method.PUSH_EVENT, b'{"featureSet":5}', "$.featureSet"),
        (
            method.PUSH_EVENT,
            b'{"featureSet":"a","eventId":"e","timestamp":"t","payload":{"content":null}}',
            "$.payload.content",
        ),
        (
            method.PUSH_EVENT,
            b'{"featureSet":"a","eventId":"e","timestamp":"t","payload":{"content":""},"tags":["a:b",null]}',
            "$.tags[1]",
        ),
        (method.INFERENCE_CHUNK, b'{"requestId":1,"index":0.5,"delta":"x"}', "$.index"),
        (method.INFERENCE_CHUNK, b'{"requestId":true,"index":0,"delta":"x"}', "$.requestId"),
        (
            method.INFERENCE_REQUEST,
            b'{"featureSet":"a","messages":[],"preferences":{"maxTokens":1.5}}',
            "$.preferences.maxTokens",
        ),
        (
            method.INFERENCE_REQUEST,
            b'{"featureSet":"a","messages":[],"preferences":{"temperature":"hot"}}',
            "$.preferences.temperature",
        ),
        (method.CHANNELS_OPEN, b"{}", "$.type"),
        (method.CHANNELS_OPEN, b'{"type":"a","history":{"limit":-0.5}}', "$.history.limit"),
        (method.MCPL_MANIFEST_CHANGED, b'{"revision":"sha256:","domains":["capabilities"]}', "$.revision"),
        (method.STATE_UPDATE, b'{"featureSet":"a","checkpoint":"c"}', "$"),
        # The lenient reader, which takes over when a text holds a lone surrogate
        (method.INFERENCE_CHUNK, b'{"requestId":"\\ud800","index":0.5,"delta":"x"}', "$.index"),
        (method.PUSH_EVENT, b'{"featureSet":5,"eventId":"\\ud800"}', "$.featureSet"),
        (method.PUSH_EVENT, b'{"featureSet":', "$"),
        (method.TOOLS_CALL, b'{"name":"a","arguments":{"n":1e999}}', "$.arguments"),
    ],
)
@pytest.mark.spec("6.6-2")
def test_bad_params_name_the_place(entry: str, raw: bytes, path: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        decode_params(METHODS[entry], raw)
    assert caught.value.code == -32602
    assert caught.value.data["path"].startswith(path)
    assert caught.value.data["detail"]
    assert path in caught.value.message


def test_lone_surrogates_are_read() -> None:
    params = decode_params(
        METHODS[method.INFERENCE_CHUNK], b'{"requestId":1.0,"index":2.0,"delta":"\\ud83d"}', "notification"
    )
    assert params == InferenceChunkParams(request_id=1, index=2, delta="\ud83d")


@pytest.mark.spec("R-grant-2", "6.7-1")
def test_a_policy_is_read_by_its_form() -> None:
    row = METHODS[method.FEATURE_SETS_UPDATE]
    raw = b'{"effectiveCapabilities":"tools","disabled":["a"]}'
    with pytest.raises(InvalidParams) as caught:
        decode_params(row, raw)
    assert caught.value.data["path"] == "$.effectiveCapabilities"
    notice = decode_params(row, raw, "notification")
    assert notice == FeatureSetsUpdateNotice(effective_capabilities="tools", disabled=["a"])
    assert decode_params(row, b"{}") == FeatureSetsUpdateParams()


def test_results_become_their_type() -> None:
    assert decode_result(PUSH, b'{"accepted":true,"later":1}') == PushEventResult(accepted=True)
    manifest: dict[str, Any] = {"version": "0.5", "demo": {"n": None}}
    assert decode_result(METHODS[method.MCPL_MANIFEST], msgspec.json.encode(manifest)) == manifest


@pytest.mark.parametrize(
    ("entry", "raw", "code", "path"),
    [
        (method.PUSH_EVENT, b'{"accepted":1}', "type", "$.accepted"),
        (method.PUSH_EVENT, b"null", "type", "$"),
        (method.MCPL_MANIFEST, b"[]", "type", "$"),
        (method.FEATURE_SETS_UPDATE, b'{"accepted":false}', "missing", "$.fallback"),
        (method.PUSH_EVENT, b"{", "json", "$"),
        (method.INITIALIZED, b"{}", "no_result", "$"),
    ],
)
def test_bad_results_name_the_place(entry: str, raw: bytes, code: str, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_result(METHODS[entry], raw)
    assert (caught.value.code, caught.value.path) == (code, path)


def test_own_refusals_keep_their_code_and_place() -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(b'[{"maxTokens":1},{"maxTokens":0.5}]', list[Preferences])
    assert (caught.value.code, caught.value.path) == ("type", "$[1].maxTokens")
