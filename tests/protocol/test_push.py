from __future__ import annotations

import pytest
from msgspec import UNSET

from mcpl_core.content import TextContent, UnknownContent, text_content
from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.protocol.push import PushEventParams, PushEventResult, PushPayload
from mcpl_core.wire.values import encode_value

EVENT = (
    b'{"featureSet":"gitlab.notifications","eventId":"evt_1","timestamp":"2026-01-23T10:30:00Z",'
    b'"payload":{"content":[{"type":"text","text":"New commit"}]},"origin":{"server":"gitlab"},"tags":["chat:mention"]}'
)


def test_an_event() -> None:
    event = decode_typed(EVENT, PushEventParams)
    assert (event.feature_set, event.event_id, event.timestamp) == (
        "gitlab.notifications",
        "evt_1",
        "2026-01-23T10:30:00Z",
    )
    assert event.payload.blocks == [text_content("New commit")]
    assert (event.payload.text, event.origin, event.tags) == ("New commit", {"server": "gitlab"}, ["chat:mention"])
    assert encode_value(event) == EVENT


def test_an_event_is_built_from_blocks_or_from_a_string() -> None:
    for content in ("hi", [text_content("hi")]):
        event = PushEventParams(feature_set="a", event_id="e", timestamp="t", payload=PushPayload(content=content))
        read = decode_typed(encode_value(event), PushEventParams)
        assert (read, read.payload.text, read.tags) == (event, "hi", UNSET)


def test_one_bad_block_does_not_fail_an_event() -> None:
    text = EVENT.replace(b'{"type":"text","text":"New commit"}', b'{"type":"hologram"},7,{"type":"text","text":"x"}')
    blocks = decode_typed(text, PushEventParams).payload.blocks
    assert [type(block) for block in blocks] == [UnknownContent, UnknownContent, TextContent]


@pytest.mark.parametrize("member", [b'"featureSet"', b'"eventId"', b'"timestamp"', b'"payload"', b'"content"'])
def test_required_members(member: bytes) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(EVENT.replace(member, b'"x"', 1), PushEventParams)
    assert caught.value.path == ("$.payload" if member == b'"content"' else "$")


def test_results() -> None:
    assert encode_value(PushEventResult(accepted=True, inference_id="inf")) == b'{"accepted":true,"inferenceId":"inf"}'
    assert decode_typed(b'{"accepted":false,"reason":"queue_full"}', PushEventResult).reason == "queue_full"
