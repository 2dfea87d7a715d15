"""What a host may ask of a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from mcpl_core.capabilities import EXTENSION_CAPABILITIES, VOCABULARY
from mcpl_core.errors import (
    CapabilityDenied,
    ChannelNotPermitted,
    ChannelOpenFailed,
    CheckpointNotFound,
    ConnectionTimeoutError,
    InvalidResultError,
    LocalProtocolError,
    RpcError,
    UnknownChannel,
)
from mcpl_core.host import DENY_ALL, HostPolicy, HostSettings
from mcpl_core.host.audit import AuditRecord
from mcpl_core.protocol import ChannelHistoryRequest
from tests.host.raw_server import ALL, CHANNEL, MANIFEST, RawServer, embedded

pytestmark = pytest.mark.anyio

EVERYTHING = HostPolicy.allow(*ALL)
ID = CHANNEL["id"]
ADD = [{"op": "add", "path": "/notes/-", "value": 1}]


async def exchange(raw: RawServer, call: Callable[[], Awaitable[Any]], name: str, answer: Any) -> tuple[Any, Any]:
    """The result of a call and the request that it sent; ``answer``: a result, or an error code."""
    results: list[Any] = []

    async def run() -> None:
        try:
            results.append(await call())
        except RpcError as exc:
            results.append(exc)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        request = await raw.next(name)
        if isinstance(answer, int) and not isinstance(answer, bool):
            raw.refuse(request, answer)
        else:
            raw.reply(request, answer)
    return results[0], request


def said(text: str = "ok", **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **more}


# -- tools


@pytest.mark.spec("8-2")
async def test_a_tool_is_called() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING, audit=audit) as (raw, session):
        result, request = await exchange(
            raw,
            lambda: session.call_tool("echo", {"a": 1}, meta={"x": 1}, trace="00-t"),
            "tools/call",
            said("hi", unknown={"later": 1}, _meta={"y": 2}),
        )
        assert (result.text, result.is_error, result.slot("y")) == ("hi", False, 2)
        assert request["params"] == {
            "name": "echo",
            "arguments": {"a": 1},
            "_meta": {"traceparent": "00-t", "x": 1, "progressToken": "progress-1"},
        }
        failed, _ = await exchange(raw, lambda: session.call_tool("echo"), "tools/call", said("no", isError=True))
        assert failed.is_error
        text: Any = "a"
        with pytest.raises(TypeError):
            await session.call_tool("echo", text)
    outcomes = [record.outcome for record in audit if record.operation == "tools/call"]
    assert outcomes == ["success", "failure"]


async def test_a_tool_that_takes_too_long_is_given_up_and_told() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING, audit=audit) as (raw, session):
        with pytest.raises(ConnectionTimeoutError):
            await session.call_tool("slow", timeout=0.01)
        request = await raw.next("tools/call")
        assert (await raw.next("notifications/cancelled"))["params"]["requestId"] == request["id"]
    assert ("tools/call", "timeout") in [(record.operation, record.outcome) for record in audit]


async def test_who_passes_a_result_on_gets_all_of_it() -> None:
    seen: list[Any] = []
    async with embedded(HostPolicy.allow("tools")) as (raw, session):
        call = partial(session.call_tool, "recall", on_answer=lambda answer: seen.append(bytes(answer)))
        await exchange(raw, call, "tools/call", {"content": [], "toolResult": 7})
    assert seen == [b'{"content":[],"toolResult":7}']


async def test_progress_reaches_the_caller() -> None:
    seen: list[Any] = []
    async with embedded(EVERYTHING) as (raw, session), anyio.create_task_group() as tasks:

        async def call() -> None:
            await session.call_tool("slow", on_progress=seen.append)

        tasks.start_soon(call)
        request = await raw.next("tools/call")
        token = request["params"]["_meta"]["progressToken"]
        raw.send(
            raw.note("notifications/progress", {"progressToken": token, "progress": 1}), raw.result(request, said())
        )
    assert [each.progress for each in seen] == [1]


@pytest.mark.parametrize("policy", [DENY_ALL, HostPolicy.allow("pushEvents")])
async def test_without_the_grant_no_tool_is_called(policy: HostPolicy) -> None:
    async with embedded(policy) as (raw, session):
        with pytest.raises(CapabilityDenied) as caught:
            await session.call_tool("echo")
        assert caught.value.data["capability"] == "tools"
        await raw.settled()
        assert await raw.waiting("tools/call") == []


async def test_a_list_with_entries_that_are_no_tools_is_a_remark() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING, audit=audit) as (raw, session):
        tools, _ = await exchange(raw, session.list_tools, "tools/list", {"tools": [{"name": "a"}, 7]})
        assert tools == [{"name": "a"}]
    assert "invalid_tool" in [record.code for record in audit]


async def test_a_list_that_does_not_end_is_refused() -> None:
    async with embedded(EVERYTHING, settings=HostSettings(tool_pages=3, changelog_delay=3600)) as (raw, session):
        with pytest.raises(InvalidResultError):
            async with anyio.create_task_group() as tasks:

                async def serve() -> None:
                    for page in range(3):
                        raw.reply(await raw.next("tools/list"), {"tools": [], "nextCursor": str(page)})

                tasks.start_soon(serve)
                try:
                    await session.list_tools()
                except InvalidResultError as exc:
                    failure = exc
            raise failure


# -- state


async def test_state_goes_along_and_comes_back() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        call = lambda: session.call_tool("add_note", {"text": "x"})  # noqa: E731
        state: dict[str, Any] = {"checkpoint": "c1", "parent": None, "data": {"notes": []}}
        _, first = await exchange(raw, call, "tools/call", said(state=state))
        assert not {"state", "checkpoint"} & first["params"].keys()
        _, second = await exchange(
            raw, call, "tools/call", said(state={"checkpoint": "c2", "parent": "c1", "patch": ADD})
        )
        assert second["params"]["state"] == {"notes": []}
        _, third = await exchange(raw, call, "tools/call", said(state={"checkpoint": "c3", "parent": "c2"}))
        assert third["params"]["state"] == {"notes": [1]}
        _, fourth = await exchange(raw, call, "tools/call", said())
        assert (fourth["params"]["checkpoint"], "state" in fourth["params"]) == ("c3", False)


async def test_a_state_that_cannot_be_taken_leaves_the_old_one() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING, audit=audit) as (raw, session):
        call = lambda: session.call_tool("x")  # noqa: E731
        await exchange(raw, call, "tools/call", said(state={"checkpoint": "c1", "data": {"n": 1}}))
        for bad in (
            7,
            {"data": 1},
            {"checkpoint": "c2", "data": 1, "patch": []},
            {"checkpoint": "c2", "patch": [{"op": "test", "path": "/n", "value": 2}]},
        ):
            result, request = await exchange(raw, call, "tools/call", said("still here", state=bad))
            assert (result.text, request["params"]["state"]) == ("still here", {"n": 1})
    codes = [record.code for record in audit if record.outcome == "diagnostic" and record.operation == "tools/call"]
    assert codes == ["invalid_state", "invalid_state", "state_both_forms", "state_patch_failed"]


async def test_whose_state_it_is() -> None:
    sets = {
        "a": {"description": "", "uses": ["tools"], "rollback": True},
        "b": {"description": "", "uses": ["tools"], "rollback": True},
    }
    async with embedded(EVERYTHING, {**MANIFEST, "featureSets": sets}) as (raw, session):
        for name in ("a", "b", None):
            state = {"checkpoint": f"c-{name}", "data": name}
            call = partial(session.call_tool, "x", feature_set=name)
            await exchange(raw, call, "tools/call", said(state=state))
        states = session.link.hub.states
        assert [states.tree("raw", name).members() for name in ("a", "b", None)] == [
            {"state": "a"}, {"state": "b"}, {"state": None},
        ]  # fmt: skip


async def test_a_plain_server_is_handed_no_state() -> None:
    async with embedded(EVERYTHING, None) as (raw, session):
        call = lambda: session.call_tool("x")  # noqa: E731
        await exchange(raw, call, "tools/call", said(state={"checkpoint": "c", "data": 1}))
        _, request = await exchange(raw, call, "tools/call", said())
        assert "state" not in request["params"]


async def test_going_back_to_a_checkpoint() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        call = lambda: session.call_tool("x")  # noqa: E731
        await exchange(raw, call, "tools/call", said(state={"checkpoint": "c1", "parent": None, "data": 1}))
        await exchange(raw, call, "tools/call", said(state={"checkpoint": "c2", "parent": "c1", "data": 2}))
        back = lambda: session.rollback("t.state", "c1")  # noqa: E731
        failed, _ = await exchange(
            raw, back, "state/rollback", {"checkpoint": "c1", "success": False, "reason": "cannot be undone"}
        )
        assert (failed.success, failed.reason) == (False, "cannot be undone")
        assert session.link.hub.states.tree("raw", "t.state").members() == {"state": 2}
        done, request = await exchange(raw, back, "state/rollback", {"checkpoint": "c1", "success": True})
        assert (done.success, request["params"]) == (True, {"featureSet": "t.state", "checkpoint": "c1"})
        _, after = await exchange(raw, call, "tools/call", said())
        assert after["params"]["state"] == 1


@pytest.mark.spec("8.7-1")
async def test_a_checkpoint_may_be_gone() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        call = lambda: session.call_tool("x")  # noqa: E731
        await exchange(raw, call, "tools/call", said(state={"checkpoint": "c1", "parent": None}))
        gone, request = await exchange(raw, call, "tools/call", -32005)
        assert isinstance(gone, CheckpointNotFound) and request["params"]["checkpoint"] == "c1"
        _, next_request = await exchange(raw, call, "tools/call", said())
        assert "checkpoint" not in next_request["params"]
        back = lambda: session.rollback("t.state", "c1")  # noqa: E731
        assert isinstance((await exchange(raw, back, "state/rollback", -32005))[0], CheckpointNotFound)


async def test_only_declared_sets_go_back() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        for name in ("t.tools", "never"):
            with pytest.raises(LocalProtocolError):
                await session.rollback(name, "c")
        assert await raw.waiting("state/rollback") == []


# -- channels


async def registered(raw: RawServer, *ids: str) -> None:
    await raw.served("channels/register", {"channels": [{**CHANNEL, "id": id} for id in ids or (ID,)]})


async def test_publishing_waits_for_an_answer_or_does_not() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        await registered(raw)
        publish = lambda: session.publish(ID, "Hello", conversation_id="conv")  # noqa: E731
        result, request = await exchange(raw, publish, "channels/publish", {"delivered": True, "messageId": "m1"})
        assert (result.delivered, result.message_id) == (True, "m1")
        assert request["params"] == {
            "channelId": ID,
            "content": [{"type": "text", "text": "Hello"}],
            "conversationId": "conv",
            "stream": False,
        }
        assert await session.publish(ID, {"type": "text", "text": "x"}, answer=False) is None
        note = await raw.next("channels/publish")
        assert "id" not in note and note["params"]["content"] == [{"type": "text", "text": "x"}]


async def test_no_channel_is_used_that_is_not_registered_and_permitted() -> None:
    async with embedded(EVERYTHING.also(channels="chat:*")) as (raw, session):
        await registered(raw)
        calls: list[Callable[[str], Awaitable[Any]]] = [
            lambda id: session.publish(id, "x"),
            lambda id: session.publish(id, "x", answer=False),
            lambda id: session.typing(id),
            lambda id: session.acknowledge(id, "m", "seen"),
        ]
        for call in calls:
            with pytest.raises(UnknownChannel):
                await call("chat:#other")
            with pytest.raises(ChannelNotPermitted):
                await call("discord:#general")
        with pytest.raises(ChannelNotPermitted):
            await session.open_channel("discord:#general")
        await raw.settled()
        assert len(raw.heard) == 3 + 2  # handshake, policy, and two answers


async def test_acknowledging_and_typing() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        await registered(raw)
        result, request = await exchange(
            raw,
            lambda: session.acknowledge(ID, "m1", "seen", "eyes"),
            "channels/acknowledge",
            {"acknowledged": True, "representation": "eyes"},
        )
        assert result.acknowledged
        assert request["params"] == {"channelId": ID, "messageId": "m1", "intent": "seen", "value": "eyes"}
        await session.typing(ID)
        assert (await raw.next("channels/typing"))["params"] == {"channelId": ID}


async def test_opening_and_closing() -> None:
    async with embedded(EVERYTHING.also(channels=["chat:*"])) as (raw, session):
        history = ChannelHistoryRequest(limit=5)
        opened = {"channel": {**CHANNEL, "id": "chat:#new"}, "history": [], "historyTruncated": False}
        open_it = lambda: session.open_channel(type="chat", address={"channel": "#new"}, history=history)  # noqa: E731
        result, request = await exchange(raw, open_it, "channels/open", opened)
        assert request["params"] == {"type": "chat", "address": {"channel": "#new"}, "history": {"limit": 5}}
        assert result.channel.id == "chat:#new"
        assert [channel.id for channel in session.channels] == ["chat:#new"]
        closing = lambda: session.close_channel("chat:#new")  # noqa: E731
        assert (await exchange(raw, closing, "channels/close", {"closed": False}))[0] is False
        assert (await exchange(raw, closing, "channels/close", {"closed": True}))[0] is True
        assert session.channels == []
        refused, _ = await exchange(raw, lambda: session.open_channel("chat:#x"), "channels/open", -32024)
        assert isinstance(refused, ChannelOpenFailed)
        elsewhere = {"channel": {**CHANNEL, "id": "discord:#evil"}}
        evil, _ = await exchange(raw, lambda: session.open_channel("chat:#x"), "channels/open", elsewhere)
        assert isinstance(evil, ChannelNotPermitted)
        assert session.channels == []


async def test_listing_registers_nothing_and_shows_what_is_permitted() -> None:
    async with embedded(EVERYTHING.also(channels=["chat:*"])) as (raw, session):
        answer = {"channels": [CHANNEL, {**CHANNEL, "id": "discord:#evil"}]}
        listed, _ = await exchange(raw, session.list_channels, "channels/list", answer)
        assert [channel.id for channel in listed] == [ID]
        assert session.channels == []


@pytest.mark.spec("5.4-11")
async def test_nothing_is_sent_that_needs_what_is_denied() -> None:
    async with embedded(HostPolicy.allow("channels.register")) as (raw, session):
        await registered(raw)
        for call in (
            session.publish(ID, "x"),
            session.publish(ID, "x", answer=False),
            session.open_channel(ID),
            session.close_channel(ID),
            session.acknowledge(ID, "m", "seen"),
            session.typing(ID),
        ):
            with pytest.raises(CapabilityDenied):
                await call
        await raw.settled()
        assert not [each for each in raw.heard if each.get("method", "").startswith("channels/")]


async def test_failures_are_recorded() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING, audit=audit) as (raw, session):
        await registered(raw)
        refused, _ = await exchange(raw, lambda: session.publish(ID, "x"), "channels/publish", -32603)
        assert isinstance(refused, RpcError)
    assert ("channels/publish", "failure") in [(record.operation, record.outcome) for record in audit]


# -- anything else

EXTENDED = VOCABULARY.extend(*EXTENSION_CAPABILITIES)


@pytest.mark.spec("6.7-13")
@pytest.mark.parametrize(("manifest", "receipt"), [(None, True), (MANIFEST, True), (MANIFEST, False)])
async def test_resources_and_prompts_work_with_every_server(manifest: Any, receipt: bool) -> None:
    answer = {"accepted": True} if receipt else {"accepted": False, "fallback": "mcp-only"}
    async with embedded(DENY_ALL, manifest, receipt=answer) as (raw, session):
        for name in ("resources/list", "resources/read", "prompts/get"):
            result, _ = await exchange(raw, partial(session.request, name, {}), name, {"some": name})
            assert result == {"some": name}


async def test_extensions_are_reached_by_name_and_nothing_else_is() -> None:
    policy = HostPolicy.allow("tools", "branches.list", vocabulary=EXTENDED)
    manifest = {**MANIFEST, "branches": {"list": True}}
    async with embedded(policy, manifest) as (raw, session):
        result, _ = await exchange(raw, lambda: session.request("toolsets/list", {}), "toolsets/list", {"toolsets": []})
        assert result == {"toolsets": []}
        assert (await exchange(raw, lambda: session.request("ping"), "ping", {}))[0] == {}
        await session.notify("branches/changed", {"event": "created", "branch": "b"})
        await raw.next("branches/changed")
        for name in ("featureSets/update", "context/beforeInference", "tools/call", "inference/lifecycle"):
            with pytest.raises((LocalProtocolError, CapabilityDenied)):
                await session.request(name, {})
            with pytest.raises((LocalProtocolError, CapabilityDenied)):
                await session.notify(name, {})
        for name in ("push/event", "never/heard"):
            with pytest.raises(LocalProtocolError):
                await session.request(name, {})
    async with embedded(HostPolicy.allow("pushEvents")) as (raw, session):
        with pytest.raises(CapabilityDenied):
            await session.request("toolsets/list", {})
