from __future__ import annotations

import pytest
from msgspec import UNSET

from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.protocol.inference import (
    InferenceChunkParams,
    InferenceMessage,
    InferenceRequestParams,
    InferenceRequestResult,
    ModelInfo,
    Preferences,
    Usage,
)
from mcpl_core.wire.values import encode_value

REQUEST = (
    b'{"featureSet":"memory.consolidation","messages":[{"role":"user","content":"Summarize"}],'
    b'"conversationId":"conv_123","stream":false,"preferences":{"maxTokens":500,"temperature":0.7,"modelTier":"small"}}'
)


def test_a_request() -> None:
    params = decode_typed(REQUEST, InferenceRequestParams)
    assert params.messages == [InferenceMessage(role="user", content="Summarize")]
    assert params.messages[0].text == "Summarize"
    assert params.known_preferences == Preferences(max_tokens=500, temperature=0.7)
    assert params.preferences == {"maxTokens": 500, "temperature": 0.7, "modelTier": "small"}
    assert encode_value(params) == REQUEST


def test_without_stream_and_preferences() -> None:
    params = decode_typed(b'{"featureSet":"a","messages":[]}', InferenceRequestParams)
    assert params.stream is False
    assert (params.preferences, params.known_preferences) == (UNSET, Preferences())
    assert decode_typed(b'{"featureSet":"a","messages":[],"stream":true}', InferenceRequestParams).stream is True


def test_whole_numbers_of_preferences() -> None:
    params = decode_typed(
        b'{"featureSet":"a","messages":[],"preferences":{"maxTokens":500.0,"temperature":1}}', InferenceRequestParams
    )
    assert params.known_preferences == Preferences(max_tokens=500, temperature=1)


@pytest.mark.parametrize(
    ("preferences", "path"),
    [({"maxTokens": "5"}, "$.preferences.maxTokens"), ({"temperature": None}, "$.preferences.temperature")],
)
def test_preferences_of_the_wrong_type(preferences: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        InferenceRequestParams(feature_set="a", messages=[], preferences=preferences)
    assert caught.value.path == path


def test_a_result() -> None:
    text = b'{"content":"Summary","model":"m","finishReason":"end_turn","usage":{"inputTokens":450,"outputTokens":120}}'
    result = decode_typed(text, InferenceRequestResult)
    assert result.usage == Usage(input_tokens=450, output_tokens=120)
    assert encode_value(result) == text


def test_a_result_with_another_finish_reason_is_still_one() -> None:
    result = decode_typed(b'{"content":"x","model":"m","finishReason":"length"}', InferenceRequestResult)
    assert (result.content, result.finish_reason, result.usage) == ("x", "length", UNSET)


@pytest.mark.parametrize(("text", "request_id"), [(b"1", 1), (b"1.0", 1), (b'"1"', "1"), (b'"call-1"', "call-1")])
def test_a_chunk_belongs_to_a_request_of_either_kind(text: bytes, request_id: int | str) -> None:
    chunk = decode_typed(b'{"requestId":' + text + b',"index":0,"delta":"Con"}', InferenceChunkParams)
    assert chunk == InferenceChunkParams(request_id=request_id, index=0, delta="Con")
    assert type(chunk.request_id) is type(request_id)


@pytest.mark.parametrize("text", [b"1.5", b"null", b"true", b"[1]"])
def test_what_is_no_request_id(text: bytes) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(b'{"requestId":' + text + b',"index":0,"delta":""}', InferenceChunkParams)
    assert caught.value.path == "$.requestId"


def test_model_info() -> None:
    text = b'{"id":"m","vendor":"v","contextWindow":200000,"capabilities":["vision","tools"]}'
    assert encode_value(decode_typed(text, ModelInfo)) == text
    assert decode_typed(b'{"id":"m","contextWindow":2e5}', ModelInfo).context_window == 200_000
    assert encode_value(ModelInfo(id="m")) == b'{"id":"m"}'
