"""Which events enter, and in what form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET, Raw

from mcpl_core.errors import InvalidParams, InvalidValueError
from mcpl_core.host.admission import (
    MAX_TAGS,
    batch_error,
    channel_message,
    channel_reason,
    incoming_result,
    judge_tags,
    push_event,
    push_result,
    read_messages,
    read_push,
)
from mcpl_core.host.channels import ChannelRegistry
from mcpl_core.host.events import EventAnswer
from mcpl_core.protocol import IncomingMessage
from mcpl_core.tags import ImplicationEdge
from mcpl_core.treatment import Immediate, Treatment
from mcpl_core.wire.messages import Request
from mcpl_core.wire.values import decode_value, encode_value
from tests.host.raw_server import CHANNEL, event, message

NOW = Treatment(Immediate())


def request(params: Any) -> Request:
    return Request("1", "push/event", Raw(json.dumps(params).encode()))


def plain(value: Any) -> Any:
    return decode_value(encode_value(value))


def test_a_push_is_read_with_its_tags() -> None:
    params, tags = read_push(request(event(tags=["a:b"])))
    assert (params.event_id, params.feature_set, tags) == ("e1", "t.push", ["a:b"])
    assert read_push(request(event()))[1] is UNSET


@pytest.mark.parametrize("tags", [None, "a:b", [1], [None, "a:b"], {"a": "b"}, 7])
def test_bad_tags_cost_no_event(tags: Any) -> None:
    params, read = read_push(request(event(tags=tags)))
    assert (params.event_id, read) == ("e1", tags)


@pytest.mark.parametrize(
    ("change", "path"),
    [({"eventId": 1}, "$.eventId"), ({"payload": {}}, "$.payload"), ({"payload": {"content": 1}}, "$.payload.content")],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], path: str) -> None:
    for more in ({}, {"tags": [1]}):
        with pytest.raises(InvalidParams) as caught:
            read_push(request({**event(), **change, **more}))
        assert caught.value.data["path"].startswith("$")
    with pytest.raises(InvalidParams) as caught:
        read_push(request({**event(), **change}))
    assert caught.value.data["path"] == path


def test_bad_tags_do_not_hide_what_else_is_bad() -> None:
    cases: list[dict[str, Any]] = [{"eventId": 7}, {"payload": {}}]
    for more in cases:
        with pytest.raises(InvalidParams) as caught:
            read_push(request({"tags": [1], **event(), **more}))
        assert caught.value.data["path"] == f"$.{next(iter(more))}"


def test_messages_are_read_one_by_one() -> None:
    read = read_messages([message("1"), 7, {"messageId": 5}, {"messageId": "4"}, message("5", tags=[1, "a:b"])])
    assert [item.id for item in read] == ["1", "", "", "4", "5"]
    assert [isinstance(item.message, IncomingMessage) for item in read] == [True, False, False, False, True]
    bad = read[3].message
    assert isinstance(bad, InvalidValueError) and bad.path == "$.messages[3]"
    assert read[4].tags == [1, "a:b"]


def test_a_bad_message_with_bad_tags_is_still_bad() -> None:
    (read,) = read_messages([{**message("1"), "tags": 1, "author": 2}])
    assert isinstance(read.message, InvalidValueError)


def registry(*ids: str) -> ChannelRegistry:
    made = ChannelRegistry(lambda _: True, lambda _: True)
    made.register([{**CHANNEL, "id": id} for id in ids])
    return made


def test_the_channel_of_a_message_is_permitted_and_registered() -> None:
    assert channel_reason(registry("a"), True, "a") is None
    assert channel_reason(registry("a"), True, "b") == "unknown_channel"
    assert channel_reason(registry("a"), False, "a") == "channel_not_permitted"


@pytest.mark.parametrize(
    ("reasons", "code"),
    [
        (["unknown_channel", "unknown_channel"], -32023),
        (["channel_not_permitted"], -32017),
        (["unknown_channel", "channel_not_permitted"], None),
        (["unknown_channel", None], None),
        (["queue_full"], None),
        ([], None),
    ],
)
def test_a_batch_fails_as_a_whole_for_one_cause_about_channels(reasons: list[str | None], code: int | None) -> None:
    error = batch_error((f"c{index}", reason) for index, reason in enumerate(reasons))
    assert (None if error is None else (error.code, error.data)) == (
        None if code is None else (code, {"channelId": "c0"})
    )


@pytest.mark.spec("16.3-7")
def test_tags_are_closed() -> None:
    assert judge_tags(["chat:dm", "x:y"]).tags == ("chat:dm", "x:y", "chat:addressed", "chat:private")
    edges = [ImplicationEdge("x:y", ("chat:mention",))]
    assert "chat:addressed" in judge_tags(["x:y"], edges).tags
    assert judge_tags(UNSET).tags == ()


def test_what_is_no_tag_is_dropped_and_told() -> None:
    judged = judge_tags(["a:b", "bare", 7])
    assert (judged.tags, [dropped.code for dropped in judged.dropped]) == (("a:b",), ["tag_namespace", "not_string"])


def test_the_hosts_own_tags_are_not_a_servers_to_say() -> None:
    judged = judge_tags(["mcpl:manifest", "a:b"], [ImplicationEdge("a:b", ("mcpl:capability-revoked",))])
    assert judged.tags == ("a:b",)
    assert [dropped.code for dropped in judged.dropped] == ["reserved_namespace", "reserved_namespace"]


def test_tags_are_bounded() -> None:
    judged = judge_tags([f"a:{number}" for number in range(MAX_TAGS + 5)])
    assert len(judged.tags) == MAX_TAGS
    assert [(dropped.code, dropped.value) for dropped in judged.dropped] == [("too_many_tags", 5)]


def test_events_have_what_was_admitted() -> None:
    params, _ = read_push(request(event(text="hello", origin={"a": 1}, _meta={"b": 2})))
    made = push_event("s", params, ("a:b",), NOW)
    assert (made.server, made.text, made.tags, made.origin, made.meta) == ("s", "hello", ("a:b",), {"a": 1}, {"b": 2})
    assert made.channel_id is None
    (read,) = read_messages([message("1", threadId=None, metadata={"m": 1})])
    assert isinstance(read.message, IncomingMessage)
    channel = registry("chat:#general").find("chat:#general")
    assert channel is not None
    heard = channel_message("s", channel, read.message, (), NOW)
    assert (heard.message_id, heard.channel_id, heard.thread_id, heard.metadata) == ("1", channel.id, None, {"m": 1})
    assert (heard.author.name, heard.text) == ("Alice", "1")


@pytest.mark.spec("9.3-1", "14.3-9")
def test_answers_say_what_became_of_each() -> None:
    assert plain(push_result(EventAnswer(inference_id="inf"))) == {"accepted": True, "inferenceId": "inf"}
    assert plain(push_result(EventAnswer(accepted=False, reason="queue_full"))) == {
        "accepted": False,
        "reason": "queue_full",
    }
    answers = [("1", EventAnswer(conversation_id="c")), ("2", EventAnswer(accepted=False, reason="unknown_channel"))]
    assert plain(incoming_result(answers)) == {
        "results": [
            {"messageId": "1", "accepted": True, "conversationId": "c"},
            {"messageId": "2", "accepted": False, "reason": "unknown_channel"},
        ]
    }
