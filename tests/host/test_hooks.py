"""Context hooks: many servers, one turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpl_core.host import DENY_ALL, HostPolicy, HostSession, HostSettings, Injections
from mcpl_core.host.audit import AuditRecord
from mcpl_core.host.hooks import POSITIONS, SkippedServer, Turn, ask_servers
from mcpl_core.protocol import BeforeInferenceChannels, ChannelReference, ModelInfo
from tests.host.raw_server import ALL, RawServer, embedded, event

pytestmark = pytest.mark.anyio

HOOK = "contextHooks.beforeInference"
MODEL = ModelInfo(id="m-1", context_window=1000)
EVERYTHING = HostPolicy.allow(*ALL)
CHANNELS = BeforeInferenceChannels(incoming=ChannelReference(channel_id="c", message_id="m"), candidates=["ui", "c"])


def turn(**more: Any) -> Turn:
    return Turn(inference_id="inf_1", conversation_id="conv", turn_index=3, model=MODEL, user_message="secret", **more)


def injection(position: str = "beforeUser", text: Any = "x", **more: Any) -> dict[str, Any]:
    return {"namespace": "n", "position": position, "content": text, **more}


def hook_result(*injections: Any, feature_set: Any = "t.push") -> dict[str, Any]:
    return {"featureSet": feature_set, "contextInjections": list(injections)}


class Asked:
    """A turn that is being asked about."""

    def __init__(self) -> None:
        self.result = Injections()


@asynccontextmanager
async def asking(*sessions: HostSession, timeout: float = 5.0, **more: Any) -> AsyncIterator[Asked]:
    asked = Asked()

    async def ask() -> None:
        asked.result = await ask_servers([session.link for session in sessions], turn(**more), timeout)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        yield asked


@pytest.mark.spec("10.1-3")
async def test_who_may_observe_is_told_of_the_turn() -> None:
    async with embedded(EVERYTHING) as (raw, session), asking(session, channels=CHANNELS, meta={"a": 1}) as asked:
        request = await raw.next("context/beforeInference")
        assert request["params"] == {
            "inferenceId": "inf_1",
            "conversationId": "conv",
            "turnIndex": 3,
            "userMessage": "secret",
            "model": {"id": "m-1", "contextWindow": 1000},
            "channels": {"incoming": {"channelId": "c", "messageId": "m"}, "candidates": ["ui", "c"]},
            "_meta": {"a": 1},
        }
        raw.reply(request, hook_result(injection(text="hello", metadata={"m": 1})))
    (item,) = asked.result.items
    assert (item.server, item.position, item.text, item.namespace, item.metadata, item.claimed_feature_set) == (
        "raw", "beforeUser", "hello", "n", {"m": 1}, "t.push",
    )  # fmt: skip
    assert asked.result.at("beforeUser") == (item,)
    assert asked.result.at("system") == ()


@pytest.mark.spec("10.1-1", "10.1-2", "10.1-4")
@pytest.mark.parametrize("leaf", ["system", "beforeUser", "afterUser"])
async def test_who_may_only_inject_is_asked_and_told_nothing(leaf: Any) -> None:
    policy = HostPolicy.allow(f"{HOOK}.inject.{leaf}")
    async with embedded(policy) as (raw, session), asking(session, channels=CHANNELS) as asked:
        request = await raw.next("context/beforeInference")
        assert request["params"]["userMessage"] is None
        assert "channels" not in request["params"]
        assert (request["params"]["inferenceId"], request["params"]["turnIndex"]) == ("inf_1", 3)
        assert "secret" not in str(raw.heard)
        raw.reply(request, hook_result(injection(leaf)))
    assert [item.position for item in asked.result.items] == [leaf]


@pytest.mark.spec("5.4-11")
async def test_who_may_neither_is_not_asked() -> None:
    async with embedded(HostPolicy.allow("tools", "pushEvents")) as (raw, session):
        async with asking(session) as asked:
            pass
        assert await raw.waiting("context/beforeInference") == []
        assert asked.result == Injections()


@pytest.mark.spec("5.4-13", "10.8-1", "13.4-3")
async def test_each_injection_is_judged_by_its_own_position() -> None:
    audit: list[AuditRecord] = []
    policy = HostPolicy.allow(f"{HOOK}.inject.*")
    async with embedded(policy, audit=audit) as (raw, session), asking(session) as asked:
        raw.reply(
            await raw.next("context/beforeInference"),
            hook_result(injection("system", "evil"), injection("afterUser"), injection("beforeUser")),
        )
    assert [item.position for item in asked.result.items] == ["beforeUser", "afterUser"]
    denied = [record for record in audit if record.outcome == "denied"]
    assert [(record.operation, record.detail, record.inference_id) for record in denied] == [
        ("context/beforeInference", "system", "inf_1")
    ]


@pytest.mark.spec("5.4-15")
@pytest.mark.parametrize("claim", ["never.declared", "t.broken", 7, None, ["t.push"]])
async def test_what_is_claimed_plays_no_part(claim: Any) -> None:
    policy = HostPolicy.allow(f"{HOOK}.inject.beforeUser", disable="*")
    async with embedded(policy) as (raw, session), asking(session) as asked:
        answer = hook_result(injection(), injection("system", namespace="t.push"), feature_set=claim)
        raw.reply(await raw.next("context/beforeInference"), answer)
    expected = 1 if isinstance(claim, str) else 0
    assert len(asked.result.items) == expected
    assert len(asked.result.skipped) == 1 - expected


async def test_a_bad_injection_costs_itself() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING, audit=audit) as (raw, session), asking(session) as asked:
        raw.reply(
            await raw.next("context/beforeInference"),
            hook_result(7, injection("below"), {"position": "system"}, injection(text=7), injection("system")),
        )
    assert [item.position for item in asked.result.items] == ["system"]
    assert [record.code for record in audit if record.code == "invalid_injection"] == ["invalid_injection"] * 4


@pytest.mark.spec("5.4-14")
async def test_a_hook_that_comes_back_after_a_revocation_brings_nothing() -> None:
    async with embedded(EVERYTHING) as (raw, session), asking(session) as asked:
        request = await raw.next("context/beforeInference")
        session.adopt(HostPolicy.allow(f"{HOOK}.inject.afterUser"))
        raw.reply(request, hook_result(injection("system"), injection("beforeUser"), injection("afterUser")))
    assert [item.position for item in asked.result.items] == ["afterUser"]


async def test_an_answer_is_judged_as_it_is_taken_from_the_wire_and_not_later() -> None:
    async with embedded(HostPolicy.allow(f"{HOOK}.observe")) as (raw, session):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.set_policy, EVERYTHING)
            policy = await raw.next("featureSets/update")
            async with asking(session) as asked:
                request = await raw.next("context/beforeInference")
                # The receipt that widens the grant stands right behind the answer, in one read.
                raw.send(raw.result(request, hook_result(injection("system"))), raw.result(policy, {"accepted": True}))
            assert asked.result.items == ()
            assert session.grant.allows(f"{HOOK}.inject.system")


async def test_what_is_taken_away_while_others_are_awaited_is_not_used() -> None:
    async with embedded(EVERYTHING) as (raw, session), embedded(EVERYTHING) as (slow, other):
        async with asking(session, other) as asked:
            raw.reply(await raw.next("context/beforeInference"), hook_result(injection("system")))
            request = await slow.next("context/beforeInference")
            session.adopt(DENY_ALL)
            slow.reply(request, hook_result(injection("system", "slow")))
        assert [item.text for item in asked.result.items] == ["slow"]


@pytest.mark.spec("10.6-1", "10.6-2", "13.3-1")
async def test_a_late_server_costs_its_own_contribution() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING) as (raw, session), embedded(EVERYTHING, audit=audit) as (_, slow):
        with anyio.fail_after(5):
            async with asking(session, slow, timeout=0.5) as asked:
                raw.reply(await raw.next("context/beforeInference"), hook_result(injection()))
        assert len(asked.result.items) == 1
        assert asked.result.skipped == (SkippedServer("raw", "timeout"),)
    assert ("context/beforeInference", "timeout") in [(record.operation, record.outcome) for record in audit]
    assert HostSettings().hook_timeout == 5.0


async def test_a_late_answer_is_dropped() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        async with asking(session, timeout=0.01) as asked:
            request = await raw.next("context/beforeInference")
        raw.reply(request, hook_result(injection()))
        await raw.settled()
        assert asked.result.items == ()


@pytest.mark.parametrize("reason", ["failed", "malformed", "dead"])
async def test_a_broken_server_costs_its_own_contribution(reason: str) -> None:
    async with embedded(EVERYTHING) as (raw, session), asking(session) as asked:
        request = await raw.next("context/beforeInference")
        if reason == "failed":
            raw.refuse(request, -32603)
        elif reason == "malformed":
            raw.reply(request, {"contextInjections": "all of them"})
        else:
            raw.transport.end()
    assert asked.result.items == ()
    assert asked.result.skipped == (SkippedServer("raw", "malformed" if reason == "malformed" else "failed"),)


async def test_the_order_is_by_position_then_server_then_answer() -> None:
    async with AsyncExitStack() as stack:
        peers: list[tuple[RawServer, HostSession]] = [
            await stack.enter_async_context(embedded(EVERYTHING)) for _ in range(3)
        ]
        async with asking(*(session for _, session in peers)) as asked:
            # The last one is the fastest.
            for index in (2, 0, 1):
                raw = peers[index][0]
                answer = hook_result(
                    injection("afterUser", f"{index}a"),
                    injection("system", f"{index}b"),
                    injection("system", f"{index}c"),
                )
                raw.reply(await raw.next("context/beforeInference"), answer)
        assert [item.text for item in asked.result.items] == ["0b", "0c", "1b", "1c", "2b", "2c", "0a", "1a", "2a"]
    assert list(POSITIONS) == ["system", "beforeUser", "afterUser"]


async def test_while_a_hook_is_open_other_messages_go_on() -> None:
    async with embedded(EVERYTHING) as (raw, session), asking(session):
        request = await raw.next("context/beforeInference")
        assert session.link.in_hook == 1
        assert await raw.served("push/event", event()) == {"accepted": True}
        raw.reply(request, hook_result())
    assert session.link.in_hook == 0


async def test_giving_up_on_a_turn_closes_its_hooks() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        with anyio.move_on_after(0.01):
            await ask_servers([session.link], turn(), 5.0)
        assert session.link.in_hook == 0
        await raw.next("notifications/cancelled")
