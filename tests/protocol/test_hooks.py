from __future__ import annotations

import pytest
from msgspec import UNSET

from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.protocol.hooks import (
    TERMINAL_PHASES,
    ChannelReference,
    ContextBeforeInferenceParams,
    ContextBeforeInferenceResult,
    ContextInjection,
    InferenceLifecycleParams,
)
from mcpl_core.wire.values import encode_value


def _turn(rest: bytes = b"") -> bytes:
    return (
        b'{"inferenceId":"inf_xyz","conversationId":"conv_123","turnIndex":7,"model":{"id":"m","vendor":"v",'
        b'"contextWindow":200000,"capabilities":["vision"]}' + rest + b"}"
    )


@pytest.mark.parametrize(
    ("rest", "message"),
    [(b"", UNSET), (b',"userMessage":null', None), (b',"userMessage":""', ""), (b',"userMessage":"hi"', "hi")],
)
def test_what_the_user_said(rest: bytes, message: object) -> None:
    turn = decode_typed(_turn(rest), ContextBeforeInferenceParams)
    assert turn.user_message == message
    assert encode_value(turn) == _turn(rest)


def test_channel_context() -> None:
    rest = (
        b',"channels":{"incoming":{"channelId":"discord:#general","messageId":"m1","threadId":null},'
        b'"defaultOutgoing":{"channelId":"discord:#general"},"candidates":["ui"]}'
    )
    turn = decode_typed(_turn(rest), ContextBeforeInferenceParams)
    assert turn.channels
    assert turn.channels.incoming == ChannelReference(channel_id="discord:#general", message_id="m1", thread_id=None)
    assert turn.channels.default_outgoing == ChannelReference(channel_id="discord:#general")
    assert encode_value(turn) == _turn(rest)


@pytest.mark.parametrize("member", [b'"inferenceId"', b'"conversationId"', b'"turnIndex"', b'"model"'])
def test_required_members(member: bytes) -> None:
    with pytest.raises(InvalidValueError):
        decode_typed(_turn().replace(member, b'"x"'), ContextBeforeInferenceParams)


def test_turn_index_as_javascript_writes_it() -> None:
    assert decode_typed(_turn().replace(b":7,", b":7.0,"), ContextBeforeInferenceParams).turn_index == 7


def test_injections_are_read_one_by_one() -> None:
    result = decode_typed(
        b'{"featureSet":"memory","contextInjections":[{"namespace":"memory","position":"system","content":"hi",'
        b'"metadata":{"ids":["a"]}},{"namespace":"memory","position":"top","content":"no"},5,'
        b'{"namespace":"memory","position":"afterUser","content":[{"type":"text","text":"yes"}]}]}',
        ContextBeforeInferenceResult,
    )
    first, second, third, fourth = result.read_injections()
    assert first == ContextInjection(namespace="memory", position="system", content="hi", metadata={"ids": ["a"]})
    assert isinstance(second, InvalidValueError)
    assert second.path == "$.contextInjections[1].position"
    assert isinstance(third, InvalidValueError)
    assert third.path == "$.contextInjections[2]"
    assert isinstance(fourth, ContextInjection)
    assert fourth.text == "yes"


def test_injections_that_a_server_builds() -> None:
    injection = ContextInjection(namespace="body", position="beforeUser", content="[body] online")
    result = ContextBeforeInferenceResult(feature_set="body.presence", context_injections=[injection])
    assert result.read_injections() == [injection]
    assert encode_value(result) == (
        b'{"featureSet":"body.presence","contextInjections":[{"namespace":"body","position":"beforeUser",'
        b'"content":"[body] online"}]}'
    )
    assert decode_typed(b"{}", ContextBeforeInferenceResult).read_injections() == []


@pytest.mark.parametrize(
    ("phase", "terminal"), [("started", False), ("completed", True), ("aborted", True), ("failed", True)]
)
def test_phases(phase: str, terminal: bool) -> None:
    text = b'{"inferenceId":"inf_abc","phase":"%b"}' % phase.encode()
    notice = decode_typed(text, InferenceLifecycleParams)
    assert notice.is_terminal is terminal
    assert (phase in TERMINAL_PHASES) is terminal
    assert (notice.conversation_id, notice.turn_index, notice.model, notice.usage) == (UNSET,) * 4
    assert encode_value(notice) == text


def test_unknown_phases() -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(b'{"inferenceId":"inf_abc","phase":"cancelled"}', InferenceLifecycleParams)
    assert caught.value.path == "$.phase"


def test_a_lifecycle_notice_has_no_place_for_content() -> None:
    notice = decode_typed(
        b'{"inferenceId":"i","conversationId":"c","turnIndex":3.0,"phase":"completed","userMessage":"secret",'
        b'"assistantMessage":"secret","model":{"id":"m"},"usage":{"inputTokens":1250,"outputTokens":340.0}}',
        InferenceLifecycleParams,
    )
    assert encode_value(notice) == (
        b'{"inferenceId":"i","phase":"completed","conversationId":"c","turnIndex":3,"model":{"id":"m"},'
        b'"usage":{"inputTokens":1250,"outputTokens":340}}'
    )
