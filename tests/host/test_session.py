"""Handshake, policy, and the first look at every message, with a server that says what the test says."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.errors import (
    CapabilityDenied,
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    InvalidValueError,
    LocalProtocolError,
    MalformedMessageError,
    PolicyRefusedError,
)
from mcpl_core.grants import GrantState, Malformed
from mcpl_core.host import DENY_ALL, HostHandlers, HostPolicy, HostSettings, connect_server
from mcpl_core.host.audit import AuditRecord
from mcpl_core.protocol import Method, ToolsListParams
from mcpl_core.protocol.methods import METHODS
from mcpl_core.receipts import AcceptedReceipt, UnavailableFeature
from tests.host.raw_server import (
    ALL,
    CHANNEL,
    LIMIT,
    MANIFEST,
    QUICK,
    RawServer,
    embedded,
    event,
    failure_of,
    incoming,
    message,
)

pytestmark = pytest.mark.anyio

EVERYTHING = HostPolicy.allow(*ALL)
SOME = HostPolicy.allow("tools", "pushEvents")


@pytest.mark.spec("5.2-1", "5.3-1", "5.3-2", "5.3-3")
async def test_the_first_messages_are_the_handshake_and_the_policy() -> None:
    async with embedded(SOME) as (raw, session):
        assert [each.get("method") for each in raw.heard] == [
            "initialize",
            "notifications/initialized",
            "featureSets/update",
        ]
        initialize, policy = raw.heard[0]["params"], raw.heard[2]
        assert initialize["protocolVersion"] == "2025-11-25"
        assert initialize["clientInfo"]["name"]
        mcpl = initialize["capabilities"]["experimental"]["mcpl"]
        assert (mcpl["version"], mcpl["pushEvents"], mcpl["featureSets"]) == ("0.5", True, True)
        assert "id" in policy
        assert policy["params"]["effectiveCapabilities"] == ["pushEvents", "tools"]
        assert (session.mode, session.grant.ready, session.protocol_version) == ("mcpl", True, "2025-11-25")
        assert (session.info, session.instructions) == ({"name": "raw", "version": "1"}, "Be kind.")
        assert session.manifest is not None and session.manifest.manifest == MANIFEST


@pytest.mark.spec("5.3-4", "5.4-11")
async def test_a_policy_that_grants_nothing_is_sent_and_nothing_else_is() -> None:
    async with embedded(DENY_ALL) as (raw, session):
        assert raw.heard[2]["params"]["effectiveCapabilities"] == []
        async with session.inference(conversation_id="c") as inference:
            assert (await inference.before("hello")).items == ()
        for call in (
            session.call_tool("x"),
            session.publish("c", "x"),
            session.open_channel("c"),
            session.list_channels(),
        ):
            with pytest.raises(CapabilityDenied):
                await call
        await raw.settled()
        assert len([each for each in raw.heard if "method" in each]) == 3


@pytest.mark.spec("5.4-12", "6.6-5")
@pytest.mark.parametrize(
    ("name", "params", "path"),
    [
        ("push/event", event(), "pushEvents"),
        ("channels/incoming", incoming(message()), "channels.incoming"),
        ("channels/register", {"channels": [CHANNEL]}, "channels.register"),
        ("channels/changed", {"added": [CHANNEL]}, "channels.register"),
        ("channels/list", {}, "channels.register"),
        ("inference/request", {"featureSet": "t.infer", "messages": []}, "inferenceRequest"),
        ("model/info", {}, "modelInfo"),
        ("state/update", {"featureSet": "t.state", "checkpoint": "c", "parent": None}, "stateUpdate"),
        ("branches/list", {"featureSet": "t.state"}, "branches.list"),
    ],
)
async def test_what_is_not_granted_is_refused_with_its_path(name: str, params: Any, path: str) -> None:
    audit: list[AuditRecord] = []
    async with embedded(DENY_ALL, audit=audit) as (raw, session):
        error = await raw.refused(name, params)
        assert (error["code"], error["data"]["capability"]) == (-32002, path)
        # Nothing of it is read before that.
        assert (await raw.refused(name, {"nonsense": 1}))["code"] == -32002
        assert [record.outcome for record in audit if record.operation == name] == ["denied", "denied"]


@pytest.mark.spec("5.3-7")
async def test_nothing_privileged_is_accepted_before_the_receipt() -> None:
    raw = RawServer()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await raw.transport.started.wait()
                # Before the handshake, before the policy, and while the policy is not answered.
                assert (await raw.refused("push/event", event()))["code"] == -32002
                await raw.initialize(MANIFEST)
                assert (await raw.refused("push/event", event()))["data"]["reason"] == "not_ready"
                request = await raw.next("featureSets/update")
                for name in ("push/event", "model/info", "channels/register"):
                    assert (await raw.refused(name, event()))["code"] == -32002
                assert await raw.served("ping") == {}
                raw.send(raw.note("notifications/progress", {"progressToken": "x", "progress": 1}))
                raw.send(raw.note("notifications/tools/list_changed"))
                raw.reply(request, {"accepted": True})

            tasks.start_soon(serve)
            async with connect_server(raw.transport, policy=EVERYTHING, settings=QUICK) as session:
                assert session.mode == "mcpl"
                assert len(session.events()) == 0


async def test_what_stands_behind_the_receipt_stands_under_its_grant() -> None:
    push = {"id": "p", "method": "push/event", "params": event()}
    register = {"id": "r", "method": "channels/register", "params": {"channels": [CHANNEL]}}
    talk = {"id": "i", "method": "channels/incoming", "params": incoming(message())}
    async with embedded(EVERYTHING, MANIFEST, push, register, talk) as (raw, session):
        assert (await raw.answer(push))["result"] == {"accepted": True}
        assert (await raw.answer(register))["result"]["results"][0]["accepted"]
        assert (await raw.answer(talk))["result"]["results"][0]["accepted"]
        assert len(session.events()) == 2


@pytest.mark.spec("6.7-13")
@pytest.mark.parametrize(
    "receipt",
    [
        {"accepted": False, "fallback": "mcp-only", "reason": "grant me inject.system"},
        {"accepted": "yes"},
        {"accepted": False},
        {},
        7,
    ],
)
async def test_without_a_proper_receipt_the_server_is_a_plain_one(receipt: Any) -> None:
    async with embedded(EVERYTHING, receipt=receipt) as (raw, session):
        assert (session.mode, session.grant) == ("mcp-only", GrantState())
        assert (await raw.refused("push/event", event()))["code"] == -32002
        results: list[str] = []

        async def call() -> None:
            results.append((await session.call_tool("echo", {"a": 1})).text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            request = await raw.next("tools/call")
            raw.reply(request, {"content": [{"type": "text", "text": "hi"}]})
        assert results == ["hi"]
        with pytest.raises(LocalProtocolError):
            await session.rollback("t.state", "c")


async def test_an_error_for_the_policy_makes_a_plain_server() -> None:
    raw = RawServer()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await raw.initialize(MANIFEST)
                raw.refuse(await raw.next("featureSets/update"), -32601)

            tasks.start_soon(serve)
            async with connect_server(raw.transport, policy=EVERYTHING) as session:
                assert (session.mode, session.receipt) == ("mcp-only", None)


async def test_a_receipt_that_no_parser_reads_makes_a_plain_server() -> None:
    raw = RawServer()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await raw.initialize(MANIFEST)
                id = (await raw.next("featureSets/update"))["id"]
                raw.transport.feed(f'{{"jsonrpc": "2.0", "id": {id}, "result": {{"accepted": true, "x": 1e999}}}}')

            tasks.start_soon(serve)
            async with connect_server(raw.transport, policy=EVERYTHING) as session:
                assert (session.mode, session.grant) == ("mcp-only", GrantState())
                assert isinstance(session.receipt, Malformed)


async def test_what_ends_the_serving_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*args: Any, **options: Any) -> None:
        raise LocalProtocolError("no")

    monkeypatch.setattr(McplConnection, "serve", fail)
    raw = RawServer()
    assert isinstance(await failure_of(raw, partial(raw.next, "initialize")), ConnectionClosedError)


async def test_a_policy_that_is_not_answered_makes_a_plain_server() -> None:
    raw = RawServer()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(raw.initialize, MANIFEST)
            settings = HostSettings(policy_timeout=0.01)
            async with connect_server(raw.transport, policy=EVERYTHING, settings=settings) as session:
                assert session.mode == "mcp-only"
                # A late receipt changes nothing.
                raw.reply(await raw.next("featureSets/update"), {"accepted": True})
                await raw.settled()
                assert (session.mode, session.grant) == ("mcp-only", GrantState())


async def test_a_server_that_refuses_and_closes_is_told_as_that() -> None:
    raw = RawServer()
    receipt = {"accepted": False, "fallback": "close", "reason": "no inject.system"}
    failure = await failure_of(raw, partial(raw.begin, MANIFEST, receipt), policy=EVERYTHING)
    assert isinstance(failure, PolicyRefusedError)
    assert (failure.server, failure.reason) == ("raw", "no inject.system")


@pytest.mark.spec("RFC4-6-2")
@pytest.mark.parametrize(
    ("manifest", "receipt", "error"),
    [
        (None, {"accepted": True}, InvalidResultError),
        (True, {"accepted": True}, InvalidResultError),
        (MANIFEST, {"accepted": False, "fallback": "mcp-only"}, PolicyRefusedError),
        (MANIFEST, {}, InvalidResultError),
    ],
)
async def test_a_host_may_require_mcpl(manifest: Any, receipt: Any, error: type[Exception]) -> None:
    raw = RawServer()

    async def serve() -> None:
        await raw.initialize(manifest)
        if isinstance(manifest, dict):
            await raw.policy(receipt)

    assert isinstance(await failure_of(raw, serve, policy=EVERYTHING, require_mcpl=True), error)


async def test_a_manifest_that_is_no_object_makes_a_plain_server_and_a_remark() -> None:
    audit: list[AuditRecord] = []
    raw = RawServer()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(raw.initialize, "0.5")
            async with connect_server(raw.transport, handlers=HostHandlers(on_audit=audit.append)) as session:
                assert session.mode == "mcp-only"
    assert ("handshake", "manifest_not_object") in [(record.operation, record.code) for record in audit]


@pytest.mark.spec("RFC4-6-3", "RFC4-7-1", "RFC4-7-3")
async def test_a_plain_mcp_server_is_reported_as_one_and_granted_nothing() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING, None, audit=audit) as (raw, session):
        assert (session.mode, session.manifest, session.grant) == ("mcp-only", None, GrantState())
        assert (await raw.refused("push/event", event()))["code"] == -32002
        assert await raw.waiting("featureSets/update") == []
    handshake = [record for record in audit if record.operation == "handshake"]
    assert [(record.outcome, record.code) for record in handshake] == [("success", "mcp-only")]


async def test_another_protocol_version_is_refused() -> None:
    raw = RawServer()
    failure = await failure_of(raw, partial(raw.initialize, MANIFEST, version="2099-01-01"))
    assert isinstance(failure, InvalidResultError)
    assert failure.path == "$.protocolVersion"


async def test_a_server_that_dies_in_the_handshake_is_an_error() -> None:
    raw = RawServer()

    async def die() -> None:
        await raw.next("initialize")
        raw.transport.end()

    assert isinstance(await failure_of(raw, die), ConnectionClosedError)


async def test_a_server_that_says_nothing_runs_into_the_timeout() -> None:
    raw = RawServer()
    with pytest.raises(ConnectionTimeoutError):
        async with connect_server(raw.transport, settings=HostSettings(handshake_timeout=0.01)):
            pass


# -- receipts


async def test_what_the_receipt_says_is_there_for_people() -> None:
    receipt = {
        "accepted": True,
        "mode": "degraded",
        "unavailableFeatures": [{"featureSet": "t.push", "missingCapabilities": ["pushEvents"], "effect": "disabled"}],
    }
    async with embedded(HostPolicy.allow("tools"), receipt=receipt) as (_, session):
        assert session.degraded == (UnavailableFeature("t.push", ("pushEvents",)),)
        assert session.receipt == AcceptedReceipt(session.degraded, "degraded")


@pytest.mark.spec("6.7-12")
async def test_a_refusal_is_surfaced_and_decides_nothing() -> None:
    receipt = {"accepted": False, "fallback": "mcp-only", "missingCapabilities": ["pushEvents"], "reason": "give"}
    async with embedded(HostPolicy.allow("tools"), receipt=receipt) as (raw, session):
        assert session.receipt is not None and getattr(session.receipt, "missing_capabilities", None) == ("pushEvents",)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.renegotiate)
            # A person asked for it to be tried again: the same policy, not one that the refusal asked for.
            request = await raw.policy()
        assert request["params"]["effectiveCapabilities"] == ["tools"]
        assert session.grant.effective_capabilities == ("tools",)


# -- changes


@pytest.mark.spec("6.7-2", "6.7-14")
async def test_a_reduction_is_in_force_before_its_request_is_sent() -> None:
    async with embedded(SOME) as (raw, session):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.set_policy, HostPolicy.allow("tools"))
            request = await raw.next("featureSets/update")
            assert "id" in request
            assert (await raw.refused("push/event", event()))["code"] == -32002
            assert session.grant.effective_capabilities == ("tools",)
            raw.reply(request, {"accepted": True})
        assert session.mode == "mcpl"


async def test_adopting_a_policy_reduces_before_it_returns() -> None:
    async with embedded(SOME) as (raw, session):
        session.adopt(HostPolicy.allow("tools"))
        assert session.grant.effective_capabilities == ("tools",)
        assert (await raw.refused("push/event", event()))["code"] == -32002


@pytest.mark.spec("6.7-15")
async def test_an_expansion_is_in_force_with_its_receipt_and_no_earlier() -> None:
    async with embedded(HostPolicy.allow("tools")) as (raw, session):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.set_policy, SOME)
            request = await raw.next("featureSets/update")
            assert (await raw.refused("push/event", event()))["code"] == -32002
            push = raw.request("push/event", event())
            raw.send(raw.result(request, {"accepted": True}), push)
            assert (await raw.answer(push))["result"] == {"accepted": True}


@pytest.mark.spec("6.7-16")
async def test_an_expansion_that_is_not_answered_is_not_in_force() -> None:
    settings = HostSettings(policy_timeout=0.5)
    async with embedded(HostPolicy.allow("tools"), settings=settings) as (raw, session):
        assert await session.set_policy(SOME) == "mcpl"
        late = await raw.next("featureSets/update")
        raw.reply(late, {"accepted": True})
        assert (await raw.refused("push/event", event()))["code"] == -32002
        assert session.grant.effective_capabilities == ("tools",)


@pytest.mark.spec("6.7-11")
async def test_a_receipt_cannot_widen() -> None:
    async with embedded(HostPolicy.allow("tools")) as (raw, session):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.set_policy, HostPolicy.allow("tools", "modelInfo"))
            await raw.policy({"accepted": True, "effectiveCapabilities": list(ALL), "enabled": ["t.push"]})
        assert session.grant.effective_capabilities == ("modelInfo", "tools")


async def test_changes_are_told_one_after_the_other_and_the_last_one_counts() -> None:
    async with embedded(SOME) as (raw, session):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.set_policy, HostPolicy.allow("tools", "modelInfo"))
            first = await raw.next("featureSets/update")
            tasks.start_soon(session.set_policy, HostPolicy.allow("modelInfo"))
            await anyio.wait_all_tasks_blocked()
            assert await raw.waiting("featureSets/update") == []
            assert session.grant.effective_capabilities == ()
            raw.reply(first, {"accepted": True})
            second = await raw.policy()
        assert second["params"]["effectiveCapabilities"] == ["modelInfo"]
        assert session.grant.effective_capabilities == ("modelInfo",)


async def test_a_malformed_later_receipt_leaves_the_reduced_grant() -> None:
    async with embedded(SOME) as (raw, session):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.set_policy, HostPolicy.allow("tools", "modelInfo"))
            await raw.policy({"accepted": 1})
        assert (session.mode, session.grant.effective_capabilities) == ("mcpl", ("tools",))
        assert isinstance(session.receipt, Malformed)


async def test_a_later_refusal_that_closes_closes() -> None:
    async with embedded(SOME) as (raw, session):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.set_policy, HostPolicy.allow("tools"))
            await raw.policy({"accepted": False, "fallback": "close"})
        await anyio.wait_all_tasks_blocked()
        assert session.is_closed
        assert raw.transport.closed == 1


async def test_the_same_policy_is_not_told_twice() -> None:
    async with embedded(SOME) as (raw, session):
        await session.set_policy(SOME)
        await session.renegotiate()
        assert await raw.waiting("featureSets/update") == []


async def test_a_policy_for_a_plain_server_is_told_to_nobody() -> None:
    async with embedded(SOME, None) as (raw, session):
        assert await session.set_policy(EVERYTHING) == "mcp-only"
        assert await raw.waiting("featureSets/update") == []


async def test_a_policy_after_the_end_changes_nothing() -> None:
    async with embedded(HostPolicy.allow("tools")) as (_, session):
        await session.aclose()
        assert await session.set_policy(SOME) == "mcpl"
        assert session.grant.effective_capabilities == ("tools",)


# -- the first look


async def test_a_method_in_the_wrong_form_is_refused() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING, audit=audit) as (raw, session):
        raw.send(raw.note("push/event", event()), raw.note("channels/register", {"channels": [CHANNEL]}))
        assert (await raw.refused("mcpl/manifestChanged", {}))["code"] == -32600
        await raw.settled()
        assert (len(session.events()), session.channels) == (0, [])
    assert [(record.operation, record.code) for record in audit if record.outcome == "denied"] == [
        ("push/event", "wrong_form"),
        ("channels/register", "wrong_form"),
    ]


async def test_a_denied_notification_is_recorded_and_dropped() -> None:
    audit: list[AuditRecord] = []
    async with embedded(DENY_ALL, audit=audit) as (raw, session):
        raw.send(raw.note("channels/changed", {"added": [CHANNEL]}))
        await raw.settled()
        assert session.channels == []
    assert ("channels/changed", "-32002") in [(record.operation, record.code) for record in audit]


@pytest.mark.spec("12-1", "14.3-1")
@pytest.mark.parametrize("name", ["sampling/createMessage", "tools/list", "featureSets/update", "constructor", "x/y"])
async def test_what_nobody_serves_is_answered_with_an_error(name: str) -> None:
    async with embedded(EVERYTHING) as (raw, _):
        assert (await raw.refused(name, {}))["code"] == -32601


async def test_what_is_malformed_is_recorded_without_its_text() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING, audit=audit) as (raw, _):
        raw.transport.feed('{"secret": ')
        raw.transport.malformed(MalformedMessageError("too-long", "long", b"secret"))
        await raw.settled()
    notes = [record for record in audit if record.operation == "connection" and record.outcome == "diagnostic"]
    assert [record.code for record in notes] == ["not-json", "too-long"]
    assert "secret" not in "".join(map(str, notes))


# -- handlers of the application

TIDY = Method(
    name="x/tidy",
    direction="server->host",
    form="either",
    params=ToolsListParams,
    result=dict,
    capabilities=frozenset({"tools"}),
)
TABLE = METHODS.extend(TIDY)


async def test_further_methods_have_handlers_behind_the_same_gate() -> None:
    calls: list[Any] = []

    async def tidy(session: Any, params: ToolsListParams) -> dict[str, Any]:
        calls.append((session.id, params.cursor))
        return {"done": True}

    for policy, served in ((HostPolicy.allow("tools"), True), (DENY_ALL, False)):
        async with embedded(policy, others={"x/tidy": tidy}, methods=TABLE) as (raw, _):
            answer = await raw.ask("x/tidy", {"cursor": "a"})
            assert ("result" in answer) is served
            assert (await raw.refused("x/tidy", {"cursor": 7}))["code"] == (-32602 if served else -32002)
    assert calls == [("raw", "a")]


async def test_handlers_of_notifications_are_called_in_the_order_of_the_wire() -> None:
    calls: list[Any] = []

    def tidy(session: Any, params: ToolsListParams) -> None:
        calls.append(params.cursor)

    async with embedded(HostPolicy.allow("tools"), others={"x/tidy": tidy}, methods=TABLE) as (raw, _):
        raw.send(*(raw.note("x/tidy", {"cursor": str(number)}) for number in range(3)))
        assert calls == ["0", "1", "2"]


async def test_what_a_handler_raises_is_answered_and_recorded() -> None:
    audit: list[AuditRecord] = []

    async def tidy(session: Any, params: Any) -> None:
        raise RuntimeError("secret")

    async with embedded(HostPolicy.allow("tools"), others={"x/tidy": tidy}, methods=TABLE, audit=audit) as (raw, _):
        error = await raw.refused("x/tidy", {})
        assert (error["code"], "secret" in str(error)) == (-32603, False)
    assert ("handler", "RuntimeError") in [(record.operation, record.code) for record in audit]


async def test_a_grant_that_goes_while_a_request_waits_goes_for_it() -> None:
    go = anyio.Event()

    async def slow(session: Any, params: Any) -> dict[str, Any]:
        await go.wait()
        return {}

    settings = HostSettings(handler_limit=1, changelog_delay=0)
    policy = HostPolicy.allow("tools")
    async with embedded(policy, others={"x/tidy": slow}, methods=TABLE, settings=settings) as (raw, session):
        first, second = raw.request("x/tidy", {}), raw.request("x/tidy", {})
        raw.send(first, second)
        await anyio.wait_all_tasks_blocked()
        session.adopt(DENY_ALL)
        go.set()
        assert "result" in await raw.answer(first)
        assert (await raw.answer(second))["error"]["code"] == -32002


# -- ontologies

ONTOLOGY = {"tags": {"a:urgent": {"implies": ["chat:mention"], "suggestedTreatment": "mute"}}}
TAGGED = {
    **MANIFEST,
    "featureSets": {"t.push": {"description": "Pushes", "uses": ["pushEvents"], "tagOntology": ONTOLOGY}},
}


async def test_an_ontology_has_effect_once_it_was_accepted() -> None:
    async with embedded(SOME, TAGGED) as (raw, session):
        found = session.ontology("t.push")
        assert found is not None and session.ontology("other") is None
        await raw.served("push/event", event("1", tags=["a:urgent"]))
        for digest, by in (("sha256:other", "me"), (found[1], "")):
            with pytest.raises(InvalidValueError):
                session.accept_ontology("t.push", digest, accepted_by=by)
        with pytest.raises(InvalidValueError):
            session.accept_ontology("other", found[1], accepted_by="me")
        session.accept_ontology("t.push", found[1], accepted_by="me")
        await raw.served("push/event", event("2", tags=["a:urgent"]))
        before, after = [await anext(session.events()) for _ in range(2)]
        assert (before.tags, before.wake) == (("a:urgent",), True)
        assert (set(after.tags), after.wake) == ({"a:urgent", "chat:mention", "chat:addressed"}, False)


# -- tools


async def test_tools_are_listed_once_until_they_change() -> None:
    async with embedded(SOME) as (raw, session):
        lists: list[Any] = []

        async def list_tools() -> None:
            lists.append(await session.tools())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(list_tools)
            raw.reply(await raw.next("tools/list"), {"tools": [{"name": "a", "inputSchema": {}}]})
        await list_tools()
        assert lists[0] is lists[1]
        raw.send(raw.note("notifications/tools/list_changed"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(list_tools)
            request = await raw.next("tools/list")
            # It changes again while it is being listed: what comes is old already.
            raw.send(raw.note("notifications/tools/list_changed"), raw.result(request, {"tools": []}))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(list_tools)
            raw.reply(await raw.next("tools/list"), {"tools": [{"name": "b", "inputSchema": {}}]})
        assert [[tool["name"] for tool in each] for each in lists] == [["a"], ["a"], [], ["b"]]


async def test_the_session_ends_with_its_connection() -> None:
    async with embedded(SOME) as (raw, session):
        raw.transport.end()
        await anyio.wait_all_tasks_blocked()
        assert session.is_closed
        with pytest.raises(ConnectionClosedError) as caught:
            await session.call_tool("x")
        assert caught.value.outcome == "not-sent"
