"""Events from the wire to the application."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core.host import DENY_ALL, ChannelMessage, EventAnswer, HostPolicy, HostSettings, PushEvent
from mcpl_core.host.audit import AuditRecord
from mcpl_core.treatment import Mute, TreatmentRule
from tests.host.raw_server import CHANNEL, MANIFEST, embedded, event, incoming, message

pytestmark = pytest.mark.anyio

POLICY = HostPolicy.allow("pushEvents", "tools", "channels.*")


def codes(audit: list[AuditRecord], operation: str) -> list[Any]:
    return [(record.outcome, record.code) for record in audit if record.operation == operation]


# -- push/event


@pytest.mark.spec("9.3-1")
async def test_an_admitted_event_reaches_the_queue() -> None:
    async with embedded(POLICY) as (raw, session):
        answer = await raw.served("push/event", event(text="hello", tags=["chat:mention"], origin={"a": 1}))
        assert answer == {"accepted": True}
        got = await anext(session.events())
        assert isinstance(got, PushEvent)
        assert (got.server, got.feature_set, got.event_id, got.text) == ("raw", "t.push", "e1", "hello")
        assert (got.tags, got.wake, got.origin) == (("chat:mention", "chat:addressed"), True, {"a": 1})


@pytest.mark.spec("6.6-3", "6.6-4", "6.4-4")
@pytest.mark.parametrize(
    ("feature_set", "code", "reason"),
    [
        ("never.declared", -32003, None),
        ("t.broken", -32001, "invalid_uses"),
        ("t.infer", -32001, "capability_denied"),
        ("t.tools", -32002, "declaration_mismatch"),
    ],
)
async def test_the_claimed_set_can_only_deny(feature_set: str, code: int, reason: str | None) -> None:
    audit: list[AuditRecord] = []
    async with embedded(POLICY, audit=audit) as (raw, session):
        error = await raw.refused("push/event", event(feature_set=feature_set))
        assert (error["code"], error["data"]["featureSet"], error["data"].get("reason")) == (code, feature_set, reason)
        assert len(session.events()) == 0
    notes = [record for record in audit if record.operation == "push/event" and record.outcome == "diagnostic"]
    assert [note.code for note in notes] == ([reason] if reason == "declaration_mismatch" else [])


async def test_a_set_that_the_host_deselected_is_off() -> None:
    async with embedded(POLICY.also(disable="t.*")) as (raw, _):
        error = await raw.refused("push/event", event())
        assert (error["code"], error["data"]) == (-32001, {"featureSet": "t.push", "reason": "host_disabled"})
    async with embedded(POLICY.also(feature_sets="t.tools")) as (raw, _):
        assert (await raw.refused("push/event", event()))["data"]["reason"] == "not_selected"


async def test_the_grant_comes_before_the_claim_and_both_before_the_form() -> None:
    async with embedded(HostPolicy.allow("tools")) as (raw, _):
        assert (await raw.refused("push/event", {"featureSet": 7}))["code"] == -32002
    async with embedded(POLICY) as (raw, _):
        assert (await raw.refused("push/event", {"featureSet": 7}))["code"] == -32602


@pytest.mark.spec("9.4-1")
async def test_a_retry_gets_the_first_answer_and_is_no_second_event() -> None:
    audit: list[AuditRecord] = []
    async with embedded(POLICY, audit=audit) as (raw, session):
        for text in ("first", "second"):
            assert await raw.served("push/event", event(text=text)) == {"accepted": True}
        assert len(session.events()) == 1
        assert (await anext(session.events())).text == "first"
    assert codes(audit, "push/event") == [("success", None), ("success", "duplicate")]


async def test_a_full_queue_is_told_and_the_event_may_come_again() -> None:
    settings = HostSettings(queue_limit=1, changelog_delay=3600)
    async with embedded(POLICY, settings=settings) as (raw, session):
        await raw.served("push/event", event("1"))
        assert await raw.served("push/event", event("2")) == {"accepted": False, "reason": "queue_full"}
        await anext(session.events())
        assert await raw.served("push/event", event("2")) == {"accepted": True}


async def test_tags_do_not_admit_and_bad_ones_cost_themselves() -> None:
    audit: list[AuditRecord] = []
    async with embedded(DENY_ALL) as (raw, session):
        assert (await raw.refused("push/event", event(tags=["chat:dm"])))["code"] == -32002
        assert len(session.events()) == 0
    async with embedded(POLICY, audit=audit) as (raw, session):
        await raw.served("push/event", event(tags=["bare", 7, "chat:dm", "mcpl:manifest"]))
        assert (await anext(session.events())).tags == ("chat:dm", "chat:addressed", "chat:private")
    notes = [code for outcome, code in codes(audit, "push/event") if outcome == "diagnostic"]
    assert notes == ["tag_namespace", "not_string", "reserved_namespace"]


async def test_the_consumers_rules_decide_on_waking() -> None:
    policy = POLICY.treating([TreatmentRule(Mute(), tags_any=("chat:from-bot",))])
    async with embedded(policy) as (raw, session):
        await raw.served("push/event", event("1", tags=["chat:from-bot"]))
        await raw.served("push/event", event("2"))
        assert [(await anext(session.events())).wake for _ in range(2)] == [False, True]


async def test_a_handler_answers_for_the_host() -> None:
    got: list[Any] = []

    async def handler(each: Any) -> EventAnswer:
        got.append(each)
        return EventAnswer(accepted=each.event_id != "no", inference_id="inf_1", reason=None)

    async with embedded(POLICY, on_event=handler) as (raw, session):
        assert await raw.served("push/event", event("e")) == {"accepted": True, "inferenceId": "inf_1"}
        assert await raw.served("push/event", event("e")) == {"accepted": True, "inferenceId": "inf_1"}
        assert await raw.served("push/event", event("no")) == {"accepted": False, "inferenceId": "inf_1"}
        assert len(got) == 2
        assert len(session.events()) == 0


async def test_a_handler_that_fails_leaves_the_event_unseen() -> None:
    calls: list[Any] = []

    async def handler(each: Any) -> None:
        calls.append(each)
        if len(calls) == 1:
            raise RuntimeError("no")

    async with embedded(POLICY, on_event=handler) as (raw, _):
        assert (await raw.refused("push/event", event()))["code"] == -32603
        assert await raw.served("push/event", event()) == {"accepted": True}


@pytest.mark.spec("14.5-7")
async def test_what_was_taken_away_before_the_handler_ran_stays_away() -> None:
    go = anyio.Event()
    got: list[Any] = []

    async def handler(each: Any) -> None:
        got.append(each)
        await go.wait()

    settings = HostSettings(handler_limit=1, changelog_delay=3600)
    async with embedded(POLICY, on_event=handler, settings=settings) as (raw, session):
        await raw.served("channels/register", {"channels": [CHANNEL, {**CHANNEL, "id": "other"}]})
        first = raw.request("push/event", event("1"))
        pushed = raw.request("push/event", event("2"))
        talk = raw.request("channels/incoming", incoming(message("1")))
        talk_other = raw.request("channels/incoming", incoming(message("1", "other"), message("2")))
        raw.send(first, pushed, talk_other, talk)
        await anyio.wait_all_tasks_blocked()
        session.adopt(HostPolicy.allow("channels.*", channels="chat:*"))
        go.set()
        assert (await raw.answer(first))["result"] == {"accepted": True}
        assert (await raw.answer(pushed))["error"]["code"] == -32002
        results = (await raw.answer(talk_other))["result"]["results"]
        assert [(each["accepted"], each.get("reason")) for each in results] == [
            (False, "channel_not_permitted"),
            (True, None),
        ]
        assert (await raw.answer(talk))["result"]["results"][0]["accepted"]
        session.adopt(DENY_ALL)
        assert [getattr(each, "message_id", getattr(each, "event_id", None)) for each in got] == ["1", "2", "1"]


async def test_a_batch_that_waits_is_refused_when_its_grant_goes() -> None:
    go = anyio.Event()

    async def handler(each: Any) -> None:
        await go.wait()

    settings = HostSettings(handler_limit=1, changelog_delay=3600)
    async with embedded(POLICY, on_event=handler, settings=settings) as (raw, session):
        await raw.served("channels/register", {"channels": [CHANNEL]})
        first, second = (raw.request("channels/incoming", incoming(message(id))) for id in "12")
        raw.send(first, second)
        await anyio.wait_all_tasks_blocked()
        session.adopt(HostPolicy.allow("pushEvents"))
        go.set()
        assert (await raw.answer(first))["result"]["results"][0]["accepted"]
        assert (await raw.answer(second))["error"]["code"] == -32002


# -- channels/incoming


async def test_a_message_on_a_registered_channel_reaches_the_queue() -> None:
    async with embedded(POLICY) as (raw, session):
        await raw.served("channels/register", {"channels": [CHANNEL]})
        answer = await raw.served("channels/incoming", incoming(message("1", text="hi", tags=["chat:dm"])))
        assert answer == {"results": [{"messageId": "1", "accepted": True}]}
        got = await anext(session.events())
        assert isinstance(got, ChannelMessage)
        assert (got.channel.label, got.message_id, got.text, got.author.name) == ("#general", "1", "hi", "Alice")
        assert got.tags == ("chat:dm", "chat:addressed", "chat:private")


@pytest.mark.spec("14.5-8", "14.3-9")
async def test_each_message_is_answered_for_itself() -> None:
    async with embedded(POLICY.also(channels=["chat:#general", "other"])) as (raw, session):
        await raw.served("channels/register", {"channels": [CHANNEL]})
        batch = incoming(
            message("1"),
            message("2", "other"),
            message("3", "chat:#admin"),
            {"messageId": "4"},
            7,
            message("1"),
            message("5", tags=7),
        )
        answer = await raw.served("channels/incoming", batch)
        assert [(each["messageId"], each["accepted"], each.get("reason")) for each in answer["results"]] == [
            ("1", True, None),
            ("2", False, "unknown_channel"),
            ("3", False, "channel_not_permitted"),
            ("4", False, "invalid_message"),
            ("", False, "invalid_message"),
            ("1", True, "duplicate"),
            ("5", True, None),
        ]
        assert len(session.events()) == 2


@pytest.mark.parametrize(("channel", "code"), [("other", -32023), ("secret", -32017)])
async def test_a_batch_that_fails_for_one_cause_is_an_error(channel: str, code: int) -> None:
    for handler in (None, lambda each: None):
        async with embedded(POLICY.also(channels="other"), on_event=handler) as (raw, _):
            error = await raw.refused("channels/incoming", incoming(message("1", channel), message("2", channel)))
            assert (error["code"], error["data"]) == (code, {"channelId": channel})


@pytest.mark.spec("14.5-7", "14.5-8")
async def test_a_registration_does_not_keep_its_old_authority() -> None:
    async with embedded(POLICY) as (raw, session):
        await raw.served("channels/register", {"channels": [CHANNEL]})
        session.adopt(HostPolicy.allow("channels.incoming", "channels.register"))
        assert (await raw.served("channels/incoming", incoming(message("1"))))["results"][0]["accepted"]
        session.adopt(HostPolicy.allow("channels.incoming"))
        assert (await raw.refused("channels/incoming", incoming(message("2"))))["code"] == -32023
        session.adopt(HostPolicy.allow("channels.register"))
        assert (await raw.refused("channels/incoming", incoming(message("3"))))["code"] == -32002


async def test_what_stands_behind_a_removal_meets_no_channel() -> None:
    async with embedded(POLICY) as (raw, session):
        await raw.served("channels/register", {"channels": [CHANNEL]})
        first = raw.request("channels/incoming", incoming(message("1")))
        removal = raw.request("channels/changed", {"removed": [CHANNEL["id"]]})
        second = raw.request("channels/incoming", incoming(message("2")))
        again = raw.request("channels/register", {"channels": [CHANNEL]})
        third = raw.request("channels/incoming", incoming(message("3")))
        raw.send(first, removal, second, again, third)
        assert (await raw.answer(first))["result"]["results"][0]["accepted"]
        assert (await raw.answer(second))["error"]["code"] == -32023
        assert (await raw.answer(third))["result"]["results"][0]["accepted"]
        assert len(session.events()) == 2


@pytest.mark.spec("16.6-2", "16.6-4")
async def test_no_tag_opens_a_channel() -> None:
    async with embedded(POLICY) as (raw, session):
        tagged = message("1", "unregistered", tags=["chat:dm", "chat:addressed"])
        assert (await raw.refused("channels/incoming", incoming(tagged)))["code"] == -32023
        assert len(session.events()) == 0


@pytest.mark.spec("14.1-2")
async def test_no_feature_set_plays_a_part_for_channels() -> None:
    policy = POLICY.also(disable="t.*")
    async with embedded(policy, {**MANIFEST, "featureSets": {}}) as (raw, _):
        await raw.served("channels/register", {"channels": [CHANNEL], "featureSet": "never"})
        params = {**incoming(message("1")), "featureSet": "never"}
        assert (await raw.served("channels/incoming", params))["results"][0]["accepted"]


async def test_a_handler_says_which_conversation_a_message_went_to() -> None:
    def handler(each: Any) -> EventAnswer:
        return EventAnswer(conversation_id=f"conv-{each.message_id}")

    async with embedded(POLICY, on_event=handler) as (raw, _):
        await raw.served("channels/register", {"channels": [CHANNEL]})
        answer = await raw.served("channels/incoming", incoming(message("1"), 7, message("2")))
        assert [each.get("conversationId") for each in answer["results"]] == ["conv-1", None, "conv-2"]


async def test_an_empty_batch_is_answered() -> None:
    for handler in (None, lambda each: None):
        async with embedded(POLICY, on_event=handler) as (raw, _):
            assert await raw.served("channels/incoming", incoming()) == {"results": []}
            assert (await raw.refused("channels/incoming", {"messages": 7}))["code"] == -32602


async def test_channel_messages_that_find_no_room_are_told() -> None:
    settings = HostSettings(queue_limit=1, changelog_delay=3600)
    async with embedded(POLICY, settings=settings) as (raw, _):
        await raw.served("channels/register", {"channels": [CHANNEL]})
        answer = await raw.served("channels/incoming", incoming(message("1"), message("2")))
        assert [each.get("reason") for each in answer["results"]] == [None, "queue_full"]
