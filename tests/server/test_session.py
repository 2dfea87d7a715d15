"""One host at one connection: its life, the handshake, the policy."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection, McplError, RpcError
from mcpl_core.receipts import AcceptedReceipt, refusal
from mcpl_core.server import SUPPORTED_PROTOCOL_VERSIONS, Context, McplServer, Settings
from mcpl_core.server.events import event_params
from tests.server.raw_host import ALL_PATHS, Lines, RawHost, hosted, memory_byte_streams

pytestmark = pytest.mark.anyio

PLAIN = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}


def server(**options: Any) -> McplServer:
    made = McplServer("s", "1.0", **options)
    made.feature_set("s.all", "All", uses=["tools", "pushEvents"])

    @made.tool
    async def say(text: str) -> str:
        return text

    return made


# -- the handshake


@pytest.mark.parametrize("version", SUPPORTED_PROTOCOL_VERSIONS)
@pytest.mark.parametrize("mcpl", [False, True])
@pytest.mark.spec("5.1-4")
async def test_the_handshake_with_every_version(version: str, mcpl: bool) -> None:
    made = server(title="S", instructions="Be nice.")
    async with hosted(made) as host:
        result = await host.initialize(version=version, mcpl=mcpl)
        assert result == {
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": True}, "experimental": {"mcpl": made.manifest}},
            "serverInfo": {"name": "s", "version": "1.0", "title": "S"},
            "instructions": "Be nice.",
        }
        assert result["capabilities"]["experimental"]["mcpl"]["revision"].startswith("sha256:")


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", ""])
async def test_another_version_gets_the_latest_that_is_known(version: str) -> None:
    async with hosted(server()) as host:
        assert (await host.initialize(version=version))["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"protocolVersion": 3}, "$.protocolVersion"),
        ({"capabilities": []}, "$.capabilities"),
        ({"clientInfo": {"name": "h"}}, "$.clientInfo"),
    ],
)
async def test_a_handshake_that_does_not_fit_is_none(change: Any, path: str) -> None:
    async with hosted(server()) as host:
        error = await host.error("initialize", {**PLAIN, **change})
        assert (error["code"], error["data"]["path"]) == (-32602, path)
        assert "result" in await host.ask("initialize", PLAIN)


async def test_there_is_one_handshake() -> None:
    async with hosted(server()) as host:
        await host.begin("tools")
        assert (await host.error("initialize", PLAIN))["code"] == -32600
        assert (await host.tool("say", {"text": "a"}))["content"][0]["text"] == "a"


@pytest.mark.parametrize("name", ["tools/list", "tools/call", "mcpl/manifest", "featureSets/update", "x/own"])
async def test_nothing_but_ping_comes_before_it(name: str) -> None:
    made = server()
    made.handler("x/own")(lambda ctx, params: {})
    async with hosted(made) as host:
        assert await host.result("ping") == {}
        assert (await host.error(name, {}))["code"] == -32600
        await host.notify("notifications/initialized")
        await host.notify("featureSets/update", {"disabled": ["s.all"]})
        await host.initialize()
        assert (await host.grant("tools", "pushEvents"))["accepted"]


@pytest.mark.parametrize("mcpl", [True, 1, "0.5", [], None])
async def test_only_an_object_says_that_a_host_speaks_mcpl(mcpl: Any) -> None:
    async with hosted(server()) as host:
        await host.result("initialize", {**PLAIN, "capabilities": {"experimental": {"mcpl": mcpl}}})
        assert (await host.error("featureSets/update", {}))["code"] == -32601
        assert (await host.tool("say", {"text": "a"}))["content"][0]["text"] == "a"


# -- methods


@pytest.mark.spec("6.6-7", "6.7-19")
@pytest.mark.parametrize(
    "name", ["no/such", "resources/list", "server/discover", "channels/open", "featureSets/changed", "scope/elevate"]
)
async def test_a_method_that_nobody_handles_gets_an_error(name: str) -> None:
    async with hosted(server()) as host:
        await host.begin(*ALL_PATHS)
        assert (await host.error(name, {}))["code"] == -32601
        await host.notify(name, {})
        await host.settled()


@pytest.mark.spec("17.3-5")
async def test_the_manifest_is_given_to_anybody_at_any_time() -> None:
    made = server()
    for mcpl in (False, True):
        async with hosted(made) as host:
            await host.initialize(mcpl=mcpl)
            assert await host.result("mcpl/manifest") == made.manifest
            assert await host.result("mcpl/manifest", {}) == made.manifest


@pytest.mark.parametrize(
    ("name", "code"),
    [("context/beforeInference", -32601), ("channels/publish", -32601), ("branches/changed", -32601)],
)
async def test_a_plain_host_has_tools_and_nothing_of_mcpl(name: str, code: int) -> None:
    made = server()
    heard: list[Any] = []
    for each in ("channels/publish", "branches/changed"):
        made.handler(each)(lambda ctx, params: heard.append(params))
    recall = made.feature_set("s.hook", "x", uses=["contextHooks.beforeInference.observe"])
    made.before_inference(recall)(lambda ctx, turn: heard.append(turn))
    async with hosted(made) as host:
        await host.initialize(mcpl=False)
        assert (await host.error(name, {"channelId": "c", "content": "x"}))["code"] == code
        await host.notify(name, {"channelId": "c", "content": "x"})
        await host.settled()
        assert (await host.tool("say", {"text": "a"}))["content"][0]["text"] == "a"
        assert heard == []


@pytest.mark.spec("8-1")
async def test_unknown_request_members_are_ignored() -> None:
    async with hosted(server()) as host:
        await host.begin("tools", "pushEvents")
        result = await host.tool("say", {"text": "a", "more": 1}, scope={"label": "x"}, unknown=3)
        assert result == {"content": [{"type": "text", "text": "a"}]}


# -- the policy


@pytest.mark.spec("5.3-6")
async def test_before_the_policy_no_tool_is_called_and_the_receipt_makes_ready() -> None:
    async with hosted(server()) as host:
        await host.initialize()
        assert "result" in await host.ask("tools/list")
        error = await host.error("tools/call", {"name": "say", "arguments": {"text": "a"}})
        assert (error["code"], error["data"]) == (-32002, {"capability": "tools", "reason": "not_ready"})
        assert await host.grant("tools", "pushEvents") == {"accepted": True}
        assert "content" in await host.tool("say", {"text": "a"})


@pytest.mark.spec("5.3-6")
async def test_a_call_in_front_of_the_policy_is_judged_by_what_was_before_it() -> None:
    """In one piece: whoever answers the call later must not see the policy that came behind it."""
    async with hosted(server()) as host:
        await host.initialize()
        early = host.request("tools/call", {"name": "say", "arguments": {"text": "a"}})
        policy = host.request("featureSets/update", {"effectiveCapabilities": ["tools"]})
        late = host.request("tools/call", {"name": "say", "arguments": {"text": "b"}})
        await host.send(early, policy, late)
        assert (await host.answer(early["id"]))["error"]["code"] == -32002
        assert (await host.answer(policy["id"]))["result"]["accepted"]
        assert "result" in await host.answer(late["id"])


@pytest.mark.spec("6.7-18")
async def test_a_reduction_reaches_what_was_queued_before_it() -> None:
    made = server(settings=Settings(handler_limit=1))
    release = anyio.Event()

    @made.tool
    async def wait() -> str:
        await release.wait()
        return "done"

    async with hosted(made) as host:
        await host.begin("tools", "pushEvents")
        first = host.request("tools/call", {"name": "wait", "arguments": {}})
        queued = host.request("tools/call", {"name": "say", "arguments": {"text": "a"}})
        await host.send(first, queued)
        await host.settled()
        await host.grant()
        release.set()
        assert (await host.answer(queued["id"]))["error"]["code"] == -32002
        # What runs already is finished: its answer is the host's to judge.
        assert "result" in await host.answer(first["id"])


async def test_on_ready_comes_after_the_receipt_and_once() -> None:
    made = server()
    ready: list[bool] = []

    @made.on_ready
    async def push(ctx: Context) -> None:
        ready.append(ctx.allows("pushEvents"))
        await ctx.push_event("s.all", "hello")

    async with hosted(made) as host:
        await host.initialize()
        policy = host.request("featureSets/update", {"effectiveCapabilities": ["tools", "pushEvents"]})
        await host.send(policy)
        event = await host.next("push/event")
        assert [message.get("id") for message in host.all[-2:]] == [policy["id"], event["id"]]
        await host.reply(event, {"accepted": True})
        await host.grant("tools", "pushEvents")
        await host.result("featureSets/update", {"effectiveCapabilities": ["tools"]})
        await host.settled()
        assert ready == [True]


async def test_a_hook_of_readiness_may_go_on_and_ends_with_the_connection() -> None:
    made = server()
    ended = anyio.Event()

    @made.on_ready
    async def forever(ctx: Context) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    seen: list[str] = []

    @made.on_ready
    async def beside(ctx: Context) -> None:
        seen.append("beside")

    async with hosted(made) as host:
        await host.begin("tools")
        await host.settled()
        while not seen:
            await host.settled()
    assert ended.is_set()


@pytest.mark.spec("5.4-10", "R-grant-2")
@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"effectiveCapabilities": "tools"}, "$.effectiveCapabilities"),
        ({"effectiveCapabilities": ["tools", 3]}, "$.effectiveCapabilities[1]"),
        ({"effectiveCapabilities": ["tools"], "deniedCapabilities": ["tools"]}, "$.deniedCapabilities[0]"),
        ({"effectiveCapabilities": ["tools"], "enabled": None}, "$.enabled"),
    ],
)
async def test_a_malformed_policy_is_an_error_and_leaves_no_grant(params: Any, path: str) -> None:
    async with hosted(server()) as host:
        await host.begin("tools", "pushEvents")
        error = await host.error("featureSets/update", params)
        assert (error["code"], error["data"]["path"]) == (-32602, path)
        assert (await host.error("tools/call", {"name": "say"}))["data"]["reason"] == "not_ready"


@pytest.mark.spec("5.4-10", "R-grant-2")
@pytest.mark.parametrize("params", ["[1]", "3", '"x"', '{"effectiveCapabilities":["tools"],"x":1e999}'])
async def test_params_that_are_no_json_object_leave_no_grant(params: str) -> None:
    async with hosted(server()) as host:
        await host.begin("tools", "pushEvents")
        await host.wire.send_text('{"jsonrpc":"2.0","id":"p","method":"featureSets/update","params":' + params + "}")
        assert (await host.answer("p"))["error"]["code"] == -32602
        assert (await host.error("tools/call", {"name": "say"}))["code"] == -32002


@pytest.mark.parametrize("params", [None, {}])
async def test_a_policy_without_anything_grants_nothing_and_is_answered(params: Any) -> None:
    async with hosted(server()) as host:
        await host.initialize()
        assert (await host.result("featureSets/update", params))["accepted"]
        error = await host.error("tools/call", {"name": "say"})
        assert error["data"] == {"capability": "tools"}


async def test_a_message_in_the_wrong_form_changes_nothing() -> None:
    made = server()
    called: list[Any] = []
    made.tool(name="note")(lambda: called.append(1))
    made.on_inference(called.append)
    async with hosted(made) as host:
        await host.notify("initialize", PLAIN)
        assert (await host.error("tools/list"))["code"] == -32600
        await host.begin("tools", "pushEvents", "inferenceLifecycle")
        await host.notify("tools/call", {"name": "note"})
        for name in ("inference/lifecycle", "notifications/initialized", "inference/chunk"):
            assert (await host.error(name, {"inferenceId": "i", "phase": "started"}))["code"] == -32600
        await host.tool("say", {"text": "a"})
    assert called == []


async def test_a_notification_before_any_request_disables_and_makes_nobody_ready() -> None:
    made = server()
    async with hosted(made) as host:
        await host.initialize()
        await host.notify("featureSets/update", {"disabled": ["s.all"], "effectiveCapabilities": ["tools"]})
        assert (await host.error("tools/call", {"name": "say"}))["data"]["reason"] == "not_ready"
        (session,) = made.sessions
        assert session.policy.grant.disabled_feature_sets == ("s.all",)


async def test_a_notification_that_carries_a_grant_is_reported() -> None:
    made = server()
    reported: list[BaseException] = []
    made.on_connect(lambda ctx: ctx.connection.on_error(reported.append))
    async with hosted(made) as host:
        await host.begin("tools", "pushEvents")
        await host.notify("featureSets/update", {"enabled": [], "disabled": ["x"]})
        await host.notify("featureSets/update", {"disabled": 3})
        await host.notify("featureSets/update", [])
        await host.settled()
        assert len(reported) == 3
        assert all(isinstance(exc, McplError) for exc in reported)
        assert "content" in await host.tool("say", {"text": "a"})


async def test_a_refused_policy_leaves_plain_mcp() -> None:
    def decide(receipt: AcceptedReceipt, grant: Any) -> Any:
        return receipt if "pushEvents" in grant.effective_capabilities else refusal("mcp-only", reason="useless")

    made = server(receipt=decide)
    made.handler("channels/publish")(lambda ctx, params: {"delivered": True})
    async with hosted(made) as host:
        await host.initialize()
        assert await host.grant("channels.publish") == {"accepted": False, "fallback": "mcp-only", "reason": "useless"}
        assert "content" in await host.tool("say", {"text": "a"})
        assert (await host.error("channels/publish", {"channelId": "c", "content": "x"}))["code"] == -32601
        # Another policy, another answer.
        assert (await host.grant("pushEvents", "channels.publish"))["accepted"]
        assert (await host.error("tools/call", {"name": "say"}))["code"] == -32002
        assert (await host.result("channels/publish", {"channelId": "c", "content": "x"})) == {"delivered": True}


async def test_a_refusal_may_close_the_connection_after_it_was_told() -> None:
    async with hosted(server(receipt=lambda receipt, grant: refusal("close"))) as host:
        await host.initialize()
        call = host.request("tools/call", {"name": "say", "arguments": {"text": "a"}})
        policy = host.request("featureSets/update", {"effectiveCapabilities": ["tools"]})
        await host.send(policy, call)
        assert (await host.answer(policy["id"]))["result"] == {"accepted": False, "fallback": "close"}
        with pytest.raises(anyio.EndOfStream):
            while True:
                await host._read()
        assert call["id"] not in host.answers or "error" in host.answers[call["id"]]


async def test_a_receipt_hook_that_fails_grants_nothing() -> None:
    def broken(receipt: AcceptedReceipt, grant: Any) -> Any:
        raise KeyError("bug")

    async with hosted(server(receipt=broken)) as host:
        await host.initialize()
        assert (await host.error("featureSets/update", {"effectiveCapabilities": ["tools"]}))["code"] == -32603
        assert (await host.error("tools/call", {"name": "say"}))["data"]["reason"] == "not_ready"


# -- the list of tools


async def test_pages_follow_each_other() -> None:
    made = server(settings=Settings(page_size=2))
    for number in range(4):
        made.tool(name=f"t{number}")(lambda: None)
    async with hosted(made) as host:
        await host.initialize(mcpl=False)
        names: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await host.result("tools/list", cursor)
            names += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                break
            assert len(page["tools"]) == 2
            cursor = {"cursor": page["nextCursor"]}
        assert names == ["say", "t0", "t1", "t2", "t3"]


async def test_a_list_that_changes_between_pages_loses_and_repeats_nothing() -> None:
    made = server(settings=Settings(page_size=2))
    for number in range(4):
        made.tool(name=f"t{number}")(lambda: None)
    async with hosted(made) as host:
        await host.initialize(mcpl=False)
        first = await host.result("tools/list")
        for name in ("say", "t0", "t1"):
            made.remove_tool(name)
        made.tool(name="t4")(lambda: None)
        second = await host.result("tools/list", {"cursor": first["nextCursor"]})
        third = await host.result("tools/list", {"cursor": second["nextCursor"]})
        pages = [[tool["name"] for tool in page["tools"]] for page in (first, second, third)]
        assert pages == [["say", "t0"], ["t2", "t3"], ["t4"]]
        assert "nextCursor" not in third


@pytest.mark.parametrize("cursor", ["x", "0", "-1", "99", "1.0", "１", "9" * 40, 3, {}])
async def test_a_cursor_that_was_never_given_is_an_error(cursor: Any) -> None:
    async with hosted(server()) as host:
        await host.initialize(mcpl=False)
        assert (await host.error("tools/list", {"cursor": cursor}))["code"] == -32602


@pytest.mark.parametrize("params", [None, {}, {"cursor": None}, {"cursor": ""}])
async def test_the_first_page(params: Any) -> None:
    async with hosted(server()) as host:
        await host.initialize(mcpl=False)
        page = await host.result("tools/list", params)
        assert [tool["name"] for tool in page["tools"]] == ["say"]
        assert "nextCursor" not in page


async def test_a_server_without_tools_has_an_empty_list() -> None:
    async with hosted(McplServer("s", "1")) as host:
        result = await host.initialize(mcpl=False)
        assert "tools" not in result["capabilities"]
        assert await host.result("tools/list") == {"tools": []}


# -- changes


async def test_changes_are_told_after_the_handshake_is_complete() -> None:
    made = server()
    async with hosted(made) as host:
        params = {**PLAIN, "capabilities": {"experimental": {"mcpl": {}}}}
        result = await host.result("initialize", params)
        made.feature_set("s.more", "More", uses=["modelInfo"])
        made.tool(name="more")(lambda: None)
        await host.settled()
        assert list(host.heard) == []
        await host.notify("notifications/initialized")
        changed = await host.next("mcpl/manifestChanged")
        assert changed["params"]["revision"] == made.manifest["revision"]
        assert changed["params"]["revision"] != result["capabilities"]["experimental"]["mcpl"]["revision"]
        assert changed["params"]["domains"] == ["capabilities", "featureSets"]
        await host.next("notifications/tools/list_changed")


async def test_a_host_that_leaves_initialized_out_is_told_once_it_is_ready() -> None:
    made = server()
    async with hosted(made) as host:
        await host.result("initialize", {**PLAIN, "capabilities": {"experimental": {"mcpl": {}}}})
        await host.grant("tools")
        made.tool(name="more")(lambda: None)
        await host.next("notifications/tools/list_changed")


async def test_a_session_that_is_over_or_did_not_begin_is_told_nothing() -> None:
    made = server()
    kept: list[Any] = []
    async with hosted(made) as host:
        while not made.sessions:
            await anyio.lowlevel.checkpoint()
        made.tool(name="early")(lambda: None)
        await host.begin("tools")
        await host.settled()
        assert list(host.heard) == []
        kept += made.sessions
    kept[0].tools_changed()
    made.tool(name="late")(lambda: None)


async def test_a_handshake_carries_the_manifest_so_it_is_not_announced() -> None:
    made = server()
    async with hosted(made) as host:
        await host.begin("tools")
        await host.settled()
        assert list(host.heard) == []


@pytest.mark.spec("17.7-1")
async def test_a_plain_host_hears_of_tools_and_not_of_manifests() -> None:
    made = server()
    async with hosted(made) as host:
        await host.initialize(mcpl=False)
        made.feature_set("s.more", "More", uses=["modelInfo"])
        made.tool(name="more")(lambda: None)
        assert (await host.next())["method"] == "notifications/tools/list_changed"
        await host.settled()
        assert list(host.heard) == []


async def test_what_a_changed_declaration_takes_away_stops_and_what_it_gives_goes_out() -> None:
    made = server()
    asker = made.feature_set("s.ask", "Ask", uses=["tools", "inferenceRequest"])

    @made.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.request_inference(asker, "x")).content

    async with hosted(made) as host:
        await host.begin("tools", "pushEvents", "inferenceRequest")
        call = host.request("tools/call", {"name": "ask", "arguments": {}})
        await host.send(call)
        request = await host.next("inference/request")
        held = made.manifest
        with made.edit_manifest() as manifest:
            manifest["featureSets"] = {"s.new": {"description": "New", "uses": ["pushEvents"]}}
        assert (await host.next("notifications/cancelled"))["params"]["requestId"] == request["id"]
        assert (await host.answer(call["id"]))["result"]["isError"] is True
        # An event of a set that comes, goes and comes again waits, and goes out by itself.
        await made.push_event("s.new", "x", event_id="1")
        await host.next("push/event")
        made.set_manifest(held)
        await made._offer.outbox.put(["local"], event_params("s.new", "y", event_id="2"))
        await host.settled()
        assert [message for message in host.heard if message["method"] == "push/event"] == []
        made.feature_set("s.new", "New", uses=["pushEvents"])
        while (await host.next("push/event"))["params"]["eventId"] != "2":
            pass


async def test_a_set_declared_later_is_under_the_grant_at_once() -> None:
    made = server()
    async with hosted(made) as host:
        await host.begin("tools", "modelInfo")
        (session,) = made.sessions
        assert not session.policy.enabled("s.more")
        made.feature_set("s.more", "More", uses=["modelInfo"])
        assert session.policy.enabled("s.more")


# -- life


async def test_the_hooks_of_a_connection_come_in_order() -> None:
    made = server()
    seen: list[tuple[str, str]] = []

    @made.on_connect
    async def connect(ctx: Context) -> None:
        ctx.session_state["n"] = 1
        seen.append(("connect", ctx.protocol_version))

    @made.on_ready
    def ready(ctx: Context) -> None:
        seen.append(("ready", ctx.host["name"]))

    @made.on_close
    async def close(ctx: Context) -> None:
        seen.append(("close", ctx.principal))
        assert ctx.session_state["n"] == 1

    async with hosted(made, principal="alice") as host:
        await host.begin("tools")
        while len(seen) < 2:
            await host.settled()
    assert seen == [("connect", ""), ("ready", "raw"), ("close", "alice")]
    assert made.sessions == ()


async def test_a_hook_that_fails_is_reported_and_costs_nothing() -> None:
    made = server()
    reported: list[BaseException] = []

    @made.on_connect
    async def watch(ctx: Context) -> None:
        ctx.connection.on_error(reported.append)

    for register in (made.on_connect, made.on_ready, made.on_close, made.on_inference):

        @register
        async def broken(ctx: Context, *more: Any) -> None:
            raise KeyError("bug")

    async with hosted(made) as host:
        await host.begin(*ALL_PATHS)
        await host.notify("inference/lifecycle", {"inferenceId": "i", "phase": "completed"})
        assert "content" in await host.tool("say", {"text": "a"})
    assert [type(exc) for exc in reported if not isinstance(exc, McplError)] == [KeyError] * 4


async def test_a_slow_hook_of_connecting_holds_back_what_comes_meanwhile_and_loses_nothing() -> None:
    made = server()
    release = anyio.Event()
    made.on_connect(lambda ctx: release.wait())
    async with hosted(made) as host:
        hello = host.request("initialize", {**PLAIN, "capabilities": {"experimental": {"mcpl": {}}}})
        early = host.request("tools/call", {"name": "say", "arguments": {"text": "a"}})
        policy = host.request("featureSets/update", {"effectiveCapabilities": ["tools"]})
        late = host.request("tools/call", {"name": "say", "arguments": {"text": "b"}})
        await host.send(hello, {"method": "notifications/initialized"}, early, policy, late)
        release.set()
        assert "result" in await host.answer(hello["id"])
        assert (await host.answer(early["id"]))["error"]["code"] == -32002
        assert "result" in await host.answer(late["id"])


async def test_when_the_input_ends_what_was_accepted_is_answered() -> None:
    made = server()
    release = anyio.Event()

    @made.tool
    async def wait() -> str:
        await release.wait()
        return "done"

    async with hosted(made) as host:
        await host.begin("tools", "pushEvents")
        call = host.request("tools/call", {"name": "wait", "arguments": {}})
        await host.send(call)
        await host.settled()
        assert isinstance(host.wire, Lines)
        await host.wire.send_eof()
        await anyio.wait_all_tasks_blocked()
        release.set()
        assert (await host.answer(call["id"]))["result"]["content"][0]["text"] == "done"
        with pytest.raises(anyio.EndOfStream):
            await host._read()


async def test_a_handler_that_does_not_end_is_cancelled_after_the_grace() -> None:
    made = server(settings=Settings(grace=0.05))
    cancelled = anyio.Event()

    @made.tool
    async def stuck() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with hosted(made) as host:
        await host.begin("tools", "pushEvents")
        await host.send(host.request("tools/call", {"name": "stuck", "arguments": {}}))
        await host.settled()
        assert isinstance(host.wire, Lines)
        await host.wire.send_eof()
        await cancelled.wait()


async def test_a_closing_hook_that_does_not_end_is_cancelled_after_the_grace() -> None:
    made = server(settings=Settings(grace=0.05))
    made.on_close(lambda ctx: anyio.sleep_forever())
    async with hosted(made) as host:
        await host.begin("tools")


async def test_a_listener_that_does_not_end_does_not_cost_the_closing_hooks_their_time() -> None:
    made = server(settings=Settings(grace=0.05))
    heard: list[str] = []

    @made.on_inference
    async def never_done(ctx: Context, notice: Any) -> None:
        heard.append(notice.phase)
        await anyio.sleep_forever()

    @made.on_close
    async def close(ctx: Context) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append("closed")

    async with hosted(made) as host:
        await host.begin("inferenceLifecycle")
        for name in "ab":
            params = {"inferenceId": name, "conversationId": "c", "turnIndex": 0, "phase": "started"}
            await host.notify("inference/lifecycle", params)
        await host.settled()
    assert heard[0] == "started"
    assert heard[-1] == "closed"


async def test_cancelling_the_server_runs_the_closing_hooks_and_leaves_no_session() -> None:
    made = server()
    closed: list[str] = []
    ours, theirs = memory_byte_streams()

    @made.on_close
    async def close(ctx: Context) -> None:
        await anyio.lowlevel.checkpoint()
        closed.append(ctx.principal)

    async def serve() -> None:
        async with theirs, McplConnection.from_streams(theirs) as connection:
            await made.serve(connection)

    with anyio.fail_after(5):
        async with ours, anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await RawHost(Lines(ours)).begin("tools")
            tasks.cancel_scope.cancel()
    assert (closed, made.sessions) == (["local"], ())
    # Nothing is kept of who left.
    assert made._offer.tracker.connections == ()


async def test_a_connection_that_somebody_else_reads_is_not_served() -> None:
    made = server()
    closed: list[Any] = []
    made.on_close(closed.append)
    left, right = McplConnection.memory_pair()
    with anyio.fail_after(5):
        async with left, right, anyio.create_task_group() as tasks:
            tasks.start_soon(left.next_message)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(McplError):
                await made.serve(left)
            tasks.cancel_scope.cancel()
    assert len(closed) == 1


# -- inferences of the host


@pytest.mark.spec("10.5-6", "10.5-7", "10.5-8")
async def test_the_application_hears_of_each_inference_begun_and_ended_once() -> None:
    made = server(settings=Settings(inference_timeout=0.05))
    heard: list[tuple[str, str, bool]] = []

    @made.on_inference
    async def hear(ctx: Context, notice: Any) -> None:
        heard.append((notice.inference_id, notice.phase, notice.slot("mcpl/synthetic") is True))

    async with hosted(made) as host:
        await host.begin("inferenceLifecycle")
        for id, phase in [("a", "started"), ("b", "started"), ("a", "completed"), ("a", "failed")]:
            await host.notify("inference/lifecycle", {"inferenceId": id, "phase": phase})
        while len(heard) < 4:
            await host.settled()
        await host.notify("inference/lifecycle", {"inferenceId": "c", "phase": "started"})
    assert heard[:4] == [
        ("a", "started", False),
        ("b", "started", False),
        ("a", "completed", False),
        ("b", "failed", True),
    ]
    # The end of the connection ends what is open.
    assert heard[4:] == [("c", "started", False), ("c", "failed", True)]


async def test_a_quick_listener_is_done_before_what_comes_behind() -> None:
    made = server()
    heard: list[str] = []

    @made.on_inference
    async def hear(ctx: Context, notice: Any) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(notice.phase)

    @made.tool(name="heard")
    async def tell() -> list[str]:
        return list(heard)

    async with hosted(made) as host:
        await host.begin("inferenceLifecycle", "tools", "pushEvents")
        messages: list[Any] = []
        for phase in ("started", "completed"):
            messages.append({"method": "inference/lifecycle", "params": {"inferenceId": "a", "phase": phase}})
            messages.append(host.request("tools/call", {"name": "heard", "arguments": {}}))
        await host.send(*messages)
        for call, expected in ((messages[1], ["started"]), (messages[3], ["started", "completed"])):
            assert (await host.answer(call["id"]))["result"]["structuredContent"] == {"result": expected}


async def test_a_slow_listener_may_wait_for_what_comes_behind() -> None:
    """An inference of its own, before which the host calls this server's hook."""
    made = server()
    made.feature_set("s.ask", "Ask", uses=["inferenceRequest"])
    made.feature_set("s.hook", "Hook", uses=["contextHooks.beforeInference.inject.beforeUser"])
    made.before_inference("s.hook")(lambda ctx, turn: "remember")
    consolidated: list[str] = []

    @made.on_inference
    async def consolidate(ctx: Context, notice: Any) -> None:
        consolidated.append((await ctx.request_inference("s.ask", "sum it up")).content)

    async with hosted(made) as host:
        await host.begin("inferenceLifecycle", "inferenceRequest", "contextHooks.beforeInference.inject.beforeUser")
        await host.notify("inference/lifecycle", {"inferenceId": "a", "phase": "completed"})
        request = await host.next("inference/request")
        turn = {"inferenceId": "b", "conversationId": "c", "turnIndex": 0, "model": {"id": "m"}}
        assert (await host.result("context/beforeInference", turn))["contextInjections"] != []
        await host.reply(request, {"content": "sum", "model": "m"})
        while not consolidated:
            await host.settled()
    assert consolidated == ["sum"]


async def test_inferences_are_not_heard_of_without_the_grant() -> None:
    made = server()
    heard: list[Any] = []
    made.on_inference(lambda ctx, notice: heard.append(notice))
    async with hosted(made) as host:
        await host.begin("tools")
        await host.notify("inference/lifecycle", {"inferenceId": "a", "phase": "started"})
        await host.notify("inference/lifecycle", {"inferenceId": 3, "phase": "started"})
        await host.settled()
    assert heard == []


async def test_chunks_that_nobody_waits_for_are_nothing() -> None:
    reported: list[BaseException] = []
    made = server()
    made.on_connect(lambda ctx: ctx.connection.on_error(reported.append))
    async with hosted(made) as host:
        await host.begin("tools")
        await host.notify("inference/chunk", {"requestId": 1, "index": 0, "delta": "x"})
        await host.settled()
        assert reported == []
        await host.notify("inference/chunk", {"requestId": 1})
        await host.settled()
        assert [type(exc) for exc in reported] != []
        assert all(isinstance(exc, RpcError) for exc in reported)


async def test_on_policy_is_called_at_once_and_before_the_receipt() -> None:
    made = server()
    heard: list[tuple[bool, bool]] = []
    reported: list[BaseException] = []
    made.on_policy(lambda ctx: 1 / 0)
    made.on_policy(lambda ctx: heard.append((ctx.grant.ready, ctx.allows("pushEvents"))))

    @made.on_connect
    async def watch(ctx: Context) -> None:
        ctx.connection.on_error(reported.append)

    async with hosted(made) as host:
        await host.begin("tools", "pushEvents")
        await host.grant("tools")
        await host.notify("featureSets/update", {"disabled": ["s.all"]})
        await host.settled()
        made.feature_set("s.more", "More", uses=["tools"])
        assert heard == [(True, True), (True, False), (True, False), (True, False)]
    assert {type(error) for error in reported} == {ZeroDivisionError}


async def test_what_a_host_advertises_is_known_to_handlers() -> None:
    made = server()
    seen: list[dict[str, Any]] = []
    made.handler("x/look")(lambda ctx, params: seen.append(ctx.advertised))
    for experimental in ({"mcpl": {"version": "0.5", "own": [1]}}, {"mcpl": True}, {}):
        async with hosted(made) as host:
            await host.result("initialize", {**PLAIN, "capabilities": {"experimental": experimental}})
            await host.ask("x/look")
    assert seen == [{"version": "0.5", "own": [1]}, {}, {}]


async def test_a_method_of_a_feature_set_is_refused_on_arrival_after_its_capability() -> None:
    made = server()
    made.feature_set("s.own", "Own", uses=["tools"])
    made.handler("tools/call", feature_set="s.own")(lambda ctx, params: {"content": []})
    async with hosted(made) as host:
        await host.begin(disabled=["s.own"])
        assert (await host.error("tools/call", {"name": 1}))["code"] == -32002
        await host.grant("tools", disabled=["s.own"])
        error = await host.error("tools/call", {"name": 1})
        assert (error["code"], error["data"]["featureSet"]) == (-32001, "s.own")
        await host.grant("tools")
        assert await host.result("tools/call", {"name": "any"}) == {"content": []}
    async with hosted(made) as plain:
        await plain.initialize(mcpl=False)
        assert await plain.result("tools/call", {"name": "any"}) == {"content": []}
