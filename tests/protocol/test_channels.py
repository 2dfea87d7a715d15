from __future__ import annotations

import pytest
from msgspec import UNSET

from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.channels import (
    ChannelCapabilities,
    ChannelDescriptor,
    ChannelHistoryRequest,
    ChannelsAcknowledgeParams,
    ChannelsChangedParams,
    ChannelsChangedResult,
    ChannelsIncomingParams,
    ChannelsIncomingResult,
    ChannelsOpenParams,
    ChannelsOpenResult,
    ChannelsOutgoingChunkParams,
    ChannelsOutgoingCompleteParams,
    ChannelsPublishParams,
    ChannelsRegisterParams,
    ChannelsRegisterResult,
    DescriptorResult,
    IncomingMessage,
    IncomingResult,
    MessageAuthor,
)
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.wire.values import encode_value

GENERAL = (
    b'{"id":"discord:#general","type":"discord","label":"#general (Acme)","direction":"outbound",'
    b'"address":{"guild":"acme","channel":"#general"},"metadata":{"serverId":"discord-connector"}}'
)
MESSAGE = (
    b'{"channelId":"discord:#general","messageId":"dmsg_123","author":{"id":"u_777","name":"Alice"},'
    b'"timestamp":"2026-03-05T10:30:00Z","content":[{"type":"text","text":"Status?"}],"threadId":"t_42",'
    b'"metadata":{"mentions":["@bob"]},"tags":["chat:mention"]}'
)


def test_a_descriptor() -> None:
    params = decode_typed(b'{"channels":[' + GENERAL + b"]}", ChannelsRegisterParams)
    assert params.channels[0].address == {"guild": "acme", "channel": "#general"}
    assert encode_value(params) == b'{"channels":[' + GENERAL + b"]}"


def test_what_existing_peers_add_to_a_descriptor() -> None:
    text = (
        b'{"id":"a","type":"b","label":"c","direction":"inbound","initiallyOpen":true,'
        b'"capabilities":{"history":{"maxMessages":50},"acknowledgment":{"kind":"reaction"}}}'
    )
    descriptor = decode_typed(text, ChannelDescriptor)
    assert descriptor.capabilities == ChannelCapabilities(
        history={"maxMessages": 50}, acknowledgment={"kind": "reaction"}
    )
    assert encode_value(descriptor) == text


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (b'"outbound"', b'"both"', "$.channels[0].direction"),
        (b'"id":"discord:#general"', b'"id":5', "$.channels[0].id"),
        (b'"label"', b'"name"', "$.channels[0]"),
    ],
)
def test_bad_descriptors(old: bytes, new: bytes, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(b'{"channels":[' + GENERAL.replace(old, new) + b"]}", ChannelsRegisterParams)
    assert caught.value.path == path


def test_results_are_itemised() -> None:
    text = (
        b'{"results":[{"id":"discord:#general","accepted":true},'
        b'{"id":"discord:#admin","accepted":false,"reason":"capability_denied"}]}'
    )
    result = decode_typed(text, ChannelsRegisterResult)
    assert result.results == [
        DescriptorResult(id="discord:#general", accepted=True),
        DescriptorResult(id="discord:#admin", accepted=False, reason="capability_denied"),
    ]
    assert encode_value(result) == text
    assert decode_typed(text, ChannelsChangedResult).results == result.results


def test_hosts_that_do_not_itemise() -> None:
    assert decode_typed(b"{}", ChannelsRegisterResult).results is UNSET
    assert decode_typed(b'{"results":[]}', ChannelsRegisterResult).results == []


def test_changes() -> None:
    text = b'{"added":[' + GENERAL + b'],"removed":["discord:#random"],"updated":[]}'
    change = decode_typed(text, ChannelsChangedParams)
    assert (change.removed, change.updated) == (["discord:#random"], [])
    assert encode_value(change) == text
    assert encode_value(decode_typed(b"{}", ChannelsChangedParams)) == b"{}"


def test_opening_by_address() -> None:
    text = b'{"type":"discord","address":{"guild":"acme","channel":"#general"},"metadata":{}}'
    params = decode_typed(text, ChannelsOpenParams)
    assert (params.channel_id, params.type) == (UNSET, "discord")
    assert encode_value(params) == text


@pytest.mark.spec("R-chan-1")
def test_opening_by_id_with_history() -> None:
    text = b'{"channelId":"discord:#general","history":{"limit":10,"beforeMessageId":"m9","sinceLastSeen":true}}'
    params = decode_typed(text, ChannelsOpenParams)
    assert params.history == ChannelHistoryRequest(limit=10, before_message_id="m9", since_last_seen=True)
    assert encode_value(params) == text
    assert decode_typed(b'{"channelId":"a","history":{"limit":5.0}}', ChannelsOpenParams).history.limit == 5


def test_opening_something() -> None:
    for build in (lambda: decode_typed(b'{"address":{}}', ChannelsOpenParams), ChannelsOpenParams):
        with pytest.raises(InvalidValueError) as caught:
            build()
        assert (caught.value.code, caught.value.path) == ("missing", "$.type")


def test_an_opened_channel() -> None:
    result = decode_typed(
        b'{"channel":' + GENERAL + b',"history":[' + MESSAGE + b',{"channelId":"x"}],"historyTruncated":true}',
        ChannelsOpenResult,
    )
    first, second = result.read_history()
    assert isinstance(first, IncomingMessage)
    assert first.text == "Status?"
    assert isinstance(second, InvalidValueError)
    assert second.path == "$.history[1]"
    assert result.history_truncated is True
    assert decode_typed(b'{"channel":' + GENERAL + b"}", ChannelsOpenResult).read_history() == []


@pytest.mark.spec("R-chan-1")
def test_acknowledging() -> None:
    text = b'{"channelId":"c","messageId":"m","intent":"seen-not-opening","value":"\xf0\x9f\x91\x80"}'
    params = decode_typed(text, ChannelsAcknowledgeParams)
    assert (params.intent, params.value) == ("seen-not-opening", "👀")
    assert encode_value(params) == text


def test_outgoing_text() -> None:
    chunk = b'{"inferenceId":"i","channelId":"c","index":0,"delta":"Hello team,","conversationId":"v"}'
    assert encode_value(decode_typed(chunk, ChannelsOutgoingChunkParams)) == chunk
    assert decode_typed(chunk.replace(b":0,", b":3.0,"), ChannelsOutgoingChunkParams).index == 3
    end = b'{"inferenceId":"i","channelId":"c","content":[{"type":"text","text":"all"}],"conversationId":"v"}'
    assert decode_typed(end, ChannelsOutgoingCompleteParams).text == "all"
    assert encode_value(decode_typed(end, ChannelsOutgoingCompleteParams)) == end


def test_publishing() -> None:
    text = b'{"channelId":"c","content":[{"type":"text","text":"Hello"}],"conversationId":"v","stream":false}'
    params = decode_typed(text, ChannelsPublishParams)
    assert (params.text, params.stream) == ("Hello", False)
    assert encode_value(params) == text
    short = decode_typed(b'{"channelId":"c","content":"Hello"}', ChannelsPublishParams)
    assert (short.text, short.conversation_id) == ("Hello", UNSET)


def test_a_message() -> None:
    message = decode_typed(MESSAGE, IncomingMessage)
    assert message.author == MessageAuthor(id="u_777", name="Alice")
    assert (message.text, message.tags) == ("Status?", ["chat:mention"])
    assert encode_value(message) == MESSAGE


@pytest.mark.parametrize(
    ("thread", "value"),
    [(b"", UNSET), (b'"threadId":null,', None), (b'"threadId":"",', ""), (b'"threadId":"t_42",', "t_42")],
)
def test_absent_and_null_threads_differ(thread: bytes, value: object) -> None:
    text = MESSAGE.replace(b'"threadId":"t_42",', thread)
    message = decode_typed(text, IncomingMessage)
    assert message.thread_id == value
    assert encode_value(message) == text


def test_one_bad_message_does_not_fail_a_batch() -> None:
    batch = decode_typed(
        b'{"messages":[' + MESSAGE + b',null,{"channelId":"x"},' + MESSAGE.replace(b'["chat:mention"]', b"[5]") + b"]}",
        ChannelsIncomingParams,
    )
    read = batch.read_messages()
    assert read[0] == decode_typed(MESSAGE, IncomingMessage)
    assert [error.path for error in read[1:] if isinstance(error, InvalidValueError)] == [
        "$.messages[1]",
        "$.messages[2]",
        "$.messages[3].tags[0]",
    ]


def test_a_batch_that_a_server_builds() -> None:
    message = decode_typed(MESSAGE, IncomingMessage)
    batch = ChannelsIncomingParams(messages=[message])
    assert batch.read_messages() == [message]
    assert encode_value(batch) == b'{"messages":[' + MESSAGE + b"]}"
    with pytest.raises(InvalidValueError):
        decode_typed(b'{"messages":{}}', ChannelsIncomingParams)


def test_results_of_a_batch() -> None:
    text = (
        b'{"results":[{"messageId":"a","accepted":true,"conversationId":"v"},'
        b'{"messageId":"b","accepted":false,"reason":"unknown_channel"}]}'
    )
    result = decode_typed(text, ChannelsIncomingResult)
    assert result.results[1] == IncomingResult(message_id="b", accepted=False, reason="unknown_channel")
    assert encode_value(result) == text
