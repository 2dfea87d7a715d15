"""What a host asks of the application."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.from_thread
import pytest

from mcpl_core import CheckpointNotFound, ConnectionTimeoutError, InvalidParams, LocalProtocolError, RpcError
from mcpl_core.protocol import (
    ChannelsPublishParams,
    ChannelsPublishResult,
    ContextBeforeInferenceParams,
    ContextInjection,
    StateRecord,
    StateRollbackParams,
    StateRollbackResult,
)
from mcpl_core.server import Context, McplServer, Settings, ToolError, ToolResult
from tests.server.raw_host import ALL_PATHS, hosted

pytestmark = pytest.mark.anyio

INJECT = "contextHooks.beforeInference.inject."
TURN = {
    "inferenceId": "i1",
    "conversationId": "c1",
    "turnIndex": 3,
    "userMessage": "hello",
    "model": {"id": "m"},
}


def server(**options: Any) -> McplServer:
    return McplServer("s", "1.0", **options)


# -- tools


async def test_a_tool_gets_its_call_and_the_state_that_the_host_keeps() -> None:
    made = server()
    seen: list[Context] = []

    @made.tool
    async def add(ctx: Context, text: str) -> ToolResult:
        seen.append(ctx)
        patch = [{"op": "add", "path": "/notes/-", "value": text}]
        return ToolResult("added", state=StateRecord(checkpoint="c2", parent="c1", patch=patch))

    async with hosted(made, principal="alice") as host:
        await host.begin("tools")
        result = await host.tool("add", {"text": "a"}, state={"notes": []}, _meta={"progressToken": 7, "k": 1})
        assert result["state"] == {
            "checkpoint": "c2",
            "parent": "c1",
            "patch": [{"op": "add", "path": "/notes/-", "value": "a"}],
        }
        await host.tool("add", {"text": "b"}, checkpoint="c2")
    first, second = seen
    assert (first.principal, first.mcpl, first.host["name"], first.request_id) == ("alice", True, "raw", 3)
    assert (first.params.state, first.meta["k"], first.ended) == ({"notes": []}, 1, True)
    assert (second.params.checkpoint, bool(second.params.state)) == ("c2", False)


async def test_progress_comes_before_the_answer_and_never_after() -> None:
    made = server()
    kept: list[Context] = []

    @made.tool
    async def work(ctx: Context) -> str:
        kept.append(ctx)
        await ctx.progress(1, 2)
        return "done"

    async with hosted(made) as host:
        await host.begin("tools")
        call = host.request("tools/call", {"name": "work", "arguments": {}, "_meta": {"progressToken": "p"}})
        await host.send(call)
        await host.answer(call["id"])
        assert [message.get("method") for message in host.all[-2:]] == ["notifications/progress", None]
        await kept[0].progress(2, 2)
        await host.settled()
        assert len(host.heard) == 1


@pytest.mark.parametrize("params", [{"name": "none"}, {"name": "none", "arguments": {}}])
async def test_a_tool_that_is_not_there_is_an_error(params: Any) -> None:
    async with hosted(server()) as host:
        await host.begin("tools")
        error = await host.error("tools/call", params)
        assert (error["code"], error["data"]) == (-32602, {"tool": "none"})


@pytest.mark.parametrize("params", [None, {}, {"name": 3}, {"name": "t", "arguments": []}, []])
async def test_params_that_are_no_call_are_an_error(params: Any) -> None:
    made = server()
    made.tool(name="t")(lambda: None)
    async with hosted(made) as host:
        await host.begin("tools")
        assert (await host.error("tools/call", params))["code"] == -32602


async def test_authority_comes_before_the_params_are_read() -> None:
    async with hosted(server()) as host:
        await host.begin()
        assert (await host.error("tools/call", {"name": 3}))["code"] == -32002


async def test_a_tool_of_a_feature_set_is_served_while_that_is_on() -> None:
    made = server()
    notes = made.feature_set("s.notes", "Notes", uses=["tools"])
    made.tool(name="free")(lambda: "free")
    made.tool(name="bound", feature_set=notes)(lambda: "bound")
    async with hosted(made) as host:
        await host.begin("tools", disabled=["s.notes"])
        error = await host.error("tools/call", {"name": "bound"})
        assert (error["code"], error["data"]["featureSet"]) == (-32001, "s.notes")
        assert (await host.tool("free"))["content"][0]["text"] == "free"
        assert len((await host.result("tools/list"))["tools"]) == 2
        await host.grant("tools")
        assert (await host.tool("bound"))["content"][0]["text"] == "bound"
    async with hosted(made) as plain:
        await plain.initialize(mcpl=False)
        assert (await plain.tool("bound"))["content"][0]["text"] == "bound"


async def test_tools_run_side_by_side_and_up_to_the_limit() -> None:
    made = server(settings=Settings(handler_limit=2))
    gates = {name: anyio.Event() for name in "abc"}
    started: list[str] = []

    @made.tool
    async def wait(name: str) -> str:
        started.append(name)
        await gates[name].wait()
        return name

    async with hosted(made) as host:
        await host.begin("tools")
        calls = [host.request("tools/call", {"name": "wait", "arguments": {"name": name}}) for name in "abc"]
        await host.send(*calls)
        while len(started) < 2:
            await host.settled()
        await host.settled()
        assert started == ["a", "b"]
        gates["b"].set()
        await host.answer(calls[1]["id"])
        while len(started) < 3:
            await host.settled()
        for gate in gates.values():
            gate.set()
        for call in (calls[0], calls[2]):
            await host.answer(call["id"])


async def test_a_plain_function_holds_up_nothing_and_may_ask_the_host() -> None:
    made = server()
    feature = made.feature_set("s.push", "Push", uses=["tools", "pushEvents"])
    release = threading.Event()

    @made.tool
    def blocking() -> str:
        release.wait(5)
        return "done"

    @made.tool
    def pushes(ctx: Context) -> bool:
        return anyio.from_thread.run(ctx.push_event, feature, "x").accepted

    async with hosted(made) as host:
        await host.begin("tools", "pushEvents")
        slow = host.request("tools/call", {"name": "blocking", "arguments": {}})
        fast = host.request("tools/call", {"name": "pushes", "arguments": {}})
        await host.send(slow, fast)
        await host.reply(await host.next("push/event"), {"accepted": True})
        assert (await host.answer(fast["id"]))["result"]["structuredContent"] == {"result": True}
        release.set()
        assert (await host.answer(slow["id"]))["result"]["content"][0]["text"] == "done"


async def test_a_result_that_is_too_large_is_one_error() -> None:
    made = server()
    made.tool(name="big")(lambda: "x" * 5000)
    async with hosted(made, max_message_bytes=4000) as host:
        await host.begin("tools")
        assert (await host.error("tools/call", {"name": "big"}))["code"] == -32603
        await host.settled()
        assert len([message for message in host.all if message.get("id") == 3]) == 1


async def test_failures_are_results_and_the_connection_goes_on() -> None:
    made = server()

    @made.tool
    async def fail(how: str) -> Any:
        match how:
            case "tool":
                raise ToolError("no luck")
            case "bug":
                raise ZeroDivisionError
            case "exit":
                raise SystemExit
            case "encode":
                return object()
        return how

    async with hosted(made) as host:
        await host.begin("tools")
        for how in ("tool", "bug", "exit", "encode"):
            assert (await host.tool("fail", {"how": how}))["isError"] is True
        assert await host.tool("fail", {"how": "not"}) == {"content": [{"type": "text", "text": "not"}]}


# -- cancellation


async def cancel_at(moment: str, made: McplServer, started: anyio.Event) -> list[Any]:
    """Cancels a call of ``stuck`` at a moment; returns what came on the wire for it."""
    async with hosted(made) as host:
        await host.begin("tools")
        call = host.request("tools/call", {"name": "stuck", "arguments": {}})
        notice = {"method": "notifications/cancelled", "params": {"requestId": call["id"], "reason": "x"}}
        if moment == "in one piece":
            await host.send(call, notice)
        elif moment == "before":
            await host.send(notice, call)
        else:
            await host.send(call)
            await started.wait()
            await host.send(notice)
        await host.settled()
        # Its id is free again, and the connection goes on.
        assert "result" in await host.ask("tools/list")
        return [message for message in host.all if message.get("id") == call["id"]]


@pytest.mark.parametrize("moment", ["in one piece", "running"])
async def test_a_request_that_is_taken_back_is_cancelled_and_not_answered(moment: str) -> None:
    made = server()
    started, ended = anyio.Event(), anyio.Event()

    @made.tool
    async def stuck() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    assert await cancel_at(moment, made, started) == []
    assert started.is_set() is ended.is_set() is (moment == "running")


async def test_a_request_in_a_thread_is_taken_back_without_waiting_for_it() -> None:
    made = server()
    release = threading.Event()
    started = anyio.Event()

    @made.tool
    def stuck() -> None:
        anyio.from_thread.run_sync(started.set)
        release.wait(5)

    try:
        assert await cancel_at("running", made, started) == []
    finally:
        release.set()


async def test_taking_back_a_hook_or_a_handler_cancels_it() -> None:
    made = server()
    hook = made.feature_set("s.hook", "Hook", uses=[INJECT + "beforeUser"])
    moments: list[str] = []

    async def stuck(name: str) -> None:
        moments.append(f"{name} begins")
        try:
            await anyio.sleep_forever()
        finally:
            moments.append(f"{name} ends")

    @made.before_inference(hook)
    async def inject(ctx: Context, turn: Any) -> None:
        await stuck("hook")

    @made.handler("channels/open")
    async def open_channel(ctx: Context, params: Any) -> None:
        await stuck("handler")

    made.tool(name="after")(lambda: "x")
    async with hosted(made) as host:
        await host.begin(*ALL_PATHS)
        for name, params in (("context/beforeInference", TURN), ("channels/open", {"type": "x"})):
            request = host.request(name, params)
            await host.send(request)
            while not moments or moments[-1].endswith("ends"):
                await host.settled()
            await host.notify("notifications/cancelled", {"requestId": request["id"]})
            # The barrier of an order-sensitive method is gone with it.
            await host.tool("after")
            assert moments[-1].endswith("ends")
            assert request["id"] not in host.answers
    assert moments == ["hook begins", "hook ends", "handler begins", "handler ends"]


# -- context hooks


@pytest.mark.spec("6.5-2", "10.4-1")
async def test_a_hook_is_called_and_its_injection_returned() -> None:
    made = server()
    recall = made.feature_set("s.recall", "Recall", uses=[INJECT + "beforeUser"])
    seen: list[ContextBeforeInferenceParams] = []

    @made.before_inference(recall)
    async def inject(ctx: Context, turn: ContextBeforeInferenceParams) -> str:
        seen.append(turn)
        return "remember"

    async with hosted(made) as host:
        await host.begin(INJECT + "beforeUser")
        assert await host.result("context/beforeInference", {**TURN, "userMessage": None}) == {
            "featureSet": "s.recall",
            "contextInjections": [
                {"namespace": "s", "position": "beforeUser", "content": [{"type": "text", "text": "remember"}]}
            ],
        }
    assert (seen[0].user_message, seen[0].turn_index, seen[0].model.id) == (None, 3, "m")


async def test_hooks_run_side_by_side_and_a_broken_one_costs_no_other() -> None:
    made = server()
    both = anyio.Event()
    here: list[str] = []
    for name in ("one", "two", "broken", "off"):
        made.feature_set(f"s.{name}", name, uses=[INJECT + "beforeUser"])

    async def meet(name: str) -> str:
        here.append(name)
        if len(here) == 2:
            both.set()
        await both.wait()
        return name

    made.before_inference("s.one")(lambda ctx, turn: meet("one"))

    @made.before_inference("s.broken")
    async def broken(ctx: Context, turn: Any) -> str:
        raise KeyError("bug")

    made.before_inference("s.two")(lambda ctx, turn: meet("two"))

    @made.before_inference("s.off")
    async def off(ctx: Context, turn: Any) -> str:
        raise AssertionError("its set is off")

    async with hosted(made) as host:
        await host.begin(INJECT + "beforeUser", disabled=["s.off"])
        result = await host.result("context/beforeInference", TURN)
        texts = [injection["content"][0]["text"] for injection in result["contextInjections"]]
        assert (texts, result["featureSet"]) == (["one", "two"], "s.one")


@pytest.mark.spec("6.7-18")
async def test_a_reduction_while_a_hook_runs_counts_for_what_it_returns() -> None:
    made = server()
    made.feature_set("s.recall", "Recall", uses=[INJECT + "beforeUser", INJECT + "afterUser"])
    release = anyio.Event()

    @made.before_inference("s.recall")
    async def inject(ctx: Context, turn: Any) -> list[ContextInjection]:
        await release.wait()
        return [ContextInjection(namespace="n", position=at, content=at) for at in ("beforeUser", "afterUser")]

    async with hosted(made) as host:
        await host.begin(INJECT + "beforeUser", INJECT + "afterUser")
        request = host.request("context/beforeInference", TURN)
        await host.send(request)
        await host.settled()
        await host.grant(INJECT + "beforeUser")
        release.set()
        # One path of the set is gone, so the set is off, and nothing of it is said.
        assert (await host.answer(request["id"]))["result"]["contextInjections"] == []


@pytest.mark.spec("10.7-1")
@pytest.mark.parametrize("plain", [False, True])
async def test_a_hook_cannot_ask_for_an_inference_and_what_it_leaves_behind_can(plain: bool) -> None:
    made = server()
    made.feature_set("s.all", "All", uses=[INJECT + "beforeUser", "inferenceRequest"])
    refused: list[BaseException] = []
    later = anyio.Event()
    outcome: list[Any] = []

    async def ask(ctx: Context) -> None:
        try:
            outcome.append((await ctx.request_inference("s.all", "x")).content)
        except LocalProtocolError as exc:
            refused.append(exc)

    async def ask_later(ctx: Context) -> None:
        await later.wait()
        await ask(ctx)

    async with hosted(made) as host, anyio.create_task_group() as background:

        @made.before_inference("s.all")
        async def inject(ctx: Context, turn: Any) -> None:
            await ask(ctx)
            background.start_soon(ask_later, ctx)

        @made.before_inference("s.all")
        def inject_plain(ctx: Context, turn: Any) -> None:
            anyio.from_thread.run(ask, ctx)

        if not plain:
            made._offer.hooks.pop()
        else:
            made._offer.hooks.pop(0)
        await host.begin(INJECT + "beforeUser", "inferenceRequest")
        await host.result("context/beforeInference", TURN)
        assert (len(refused), outcome) == (1, [])
        if plain:
            return
        later.set()
        request = await host.next("inference/request")
        await host.reply(request, {"content": "c", "model": "m"})
        while not outcome:
            await host.settled()
        assert (outcome, len(refused)) == (["c"], 1)


async def test_without_hooks_there_is_no_such_method() -> None:
    async with hosted(server()) as host:
        await host.begin(*ALL_PATHS)
        assert (await host.error("context/beforeInference", TURN))["code"] == -32601


async def test_a_hook_is_not_called_without_a_grant() -> None:
    made = server()
    made.feature_set("s.recall", "Recall", uses=[INJECT + "beforeUser"])
    made.before_inference("s.recall")(lambda ctx, turn: "x")
    async with hosted(made) as host:
        await host.begin("tools")
        error = await host.error("context/beforeInference", {})
        assert (error["code"], error["data"]["capability"]) == (-32002, "contextHooks.beforeInference.inject.afterUser")
        await host.grant("contextHooks.beforeInference.observe")
        # Observing is enough for the call; the set that cannot inject is off.
        assert await host.result("context/beforeInference", TURN) == {"contextInjections": []}


# -- other methods


@pytest.mark.spec("14.3-8")
async def test_publishing_works_in_both_forms() -> None:
    made = server()
    published: list[tuple[str, str, Any]] = []

    @made.handler("channels/publish")
    async def publish(ctx: Context, params: ChannelsPublishParams) -> ChannelsPublishResult:
        published.append((params.channel_id, params.text, ctx.request_id))
        return ChannelsPublishResult(delivered=True, message_id="m1")

    async with hosted(made) as host:
        await host.begin("channels.publish")
        params = {"channelId": "x:1", "content": "hi", "conversationId": "c"}
        assert await host.result("channels/publish", params) == {"delivered": True, "messageId": "m1"}
        await host.notify("channels/publish", {**params, "content": [{"type": "text", "text": "there"}]})
        while len(published) < 2:
            await host.settled()
    assert published == [("x:1", "hi", 3), ("x:1", "there", None)]


@pytest.mark.spec("14.1-1")
@pytest.mark.parametrize(
    ("name", "path", "params", "result"),
    [
        ("channels/list", "channels.register", {}, {"channels": []}),
        ("channels/open", "channels.lifecycle", {"type": "x"},
         {"channel": {"id": "x:1", "type": "x", "label": "one", "direction": "inbound"}}),
        ("channels/close", "channels.lifecycle", {"channelId": "x:1"}, {"closed": True}),
        ("channels/publish", "channels.publish", {"channelId": "x:1", "content": "x"}, {"delivered": True}),
        ("channels/acknowledge", "channels.acknowledge", {"channelId": "x:1", "messageId": "m", "intent": "seen"},
         {"acknowledged": True}),
        ("channels/typing", "channels.typing", {"channelId": "x:1"}, {}),
    ],
)  # fmt: skip
async def test_each_channel_method_needs_its_capability(name: str, path: str, params: Any, result: Any) -> None:
    made = server()
    calls: list[Any] = []

    @made.handler(name)
    async def handle(ctx: Context, params: Any) -> Any:
        calls.append(params)
        return result

    async with hosted(made) as host:
        await host.begin(*(other for other in ALL_PATHS if other != path))
        error = await host.error(name, params)
        assert (error["code"], error["data"]) == (-32002, {"capability": path})
        assert calls == []
        await host.grant(path)
        assert await host.result(name, params) == result


async def test_nothing_is_an_empty_result() -> None:
    made = server()
    made.handler("channels/typing")(lambda ctx, params: None)
    made.handler("x/own")(lambda ctx, params: None)
    async with hosted(made) as host:
        await host.begin("channels.typing")
        assert await host.result("channels/typing", {"channelId": "x"}) == {}
        assert await host.result("x/own") == {}


@pytest.mark.parametrize("value", [None, {"sent": True}, {"delivered": "yes"}, object(), 3, float("nan")])
async def test_what_is_no_result_of_the_method_is_an_internal_error(value: Any) -> None:
    made = server()
    reported: list[BaseException] = []
    made.on_connect(lambda ctx: ctx.connection.on_error(reported.append))
    made.handler("channels/publish")(lambda ctx, params: value)
    async with hosted(made) as host:
        await host.begin("channels.publish")
        assert await host.error("channels/publish", {"channelId": "x", "content": "x"}) == {
            "code": -32603,
            "message": "Internal error",
        }
        assert len(reported) == 1


@pytest.mark.parametrize(
    ("exc", "code"),
    [
        (InvalidParams(data={"path": "$.x"}), -32602),
        (RpcError(1234, "mine", {"a": 1}), 1234),
        (ConnectionTimeoutError("push/event", 1), -32603),
        (KeyError("bug"), -32603),
        (SystemExit(), -32603),
        (LocalProtocolError("misuse"), -32603),
    ],
)
async def test_what_a_handler_raises_is_the_error(exc: BaseException, code: int) -> None:
    made = server()

    @made.handler("x/own")
    async def fail(ctx: Context, params: Any) -> None:
        raise exc

    async with hosted(made) as host:
        await host.begin()
        error = await host.error("x/own")
        assert error["code"] == code
        if isinstance(exc, RpcError) and code != -32603:
            assert error.get("data") == exc.data


async def test_what_the_host_refused_to_a_handler_is_no_answer_to_what_it_asked() -> None:
    made = server()
    made.feature_set("s.push", "Push", uses=["pushEvents", "inferenceRequest"])

    @made.handler("x/own")
    async def fail(ctx: Context, params: Any) -> None:
        match params["how"]:
            case "push":
                await ctx.push_event("s.push", "x")
            case "stream":
                async with ctx.stream_inference("s.push", "x"):
                    pass
            case "mine":
                raise InvalidParams

    async with hosted(made) as host:
        await host.begin("modelInfo")
        for how, code in (("push", -32603), ("stream", -32603), ("mine", -32602)):
            assert (await host.error("x/own", {"how": how}))["code"] == code


async def test_a_method_outside_of_the_table_gets_plain_params() -> None:
    made = server()
    seen: list[Any] = []
    made.handler("resources/read")(lambda ctx, params: seen.append(params))
    async with hosted(made) as host:
        await host.initialize(mcpl=False)
        for params in (None, {}, {"uri": "x", "deep": [{"a": None}]}):
            await host.result("resources/read", params)
    assert seen == [{}, {}, {"uri": "x", "deep": [{"a": None}]}]


async def test_params_that_do_not_fit_never_reach_the_handler() -> None:
    made = server()
    made.handler("channels/close")(lambda ctx, params: pytest.fail("called"))
    async with hosted(made) as host:
        await host.begin("channels.lifecycle")
        error = await host.error("channels/close", {"channelId": 3})
        assert (error["code"], error["data"]["path"]) == (-32602, "$.channelId")


@pytest.mark.spec("8.7-2")
@pytest.mark.parametrize("given", [None, {"checkpoint": "other"}])
async def test_a_rollback_and_a_checkpoint_that_is_gone(given: Any) -> None:
    made = server()
    made.feature_set("s.notes", "Notes", uses=["tools"], rollback=True)

    @made.handler("state/rollback")
    async def rollback(ctx: Context, params: StateRollbackParams) -> StateRollbackResult:
        if params.checkpoint == "old":
            raise CheckpointNotFound(data=given)
        return StateRollbackResult(checkpoint=params.checkpoint, success=False, reason="mail was sent")

    async with hosted(made) as host:
        await host.begin("tools")
        result = await host.result("state/rollback", {"featureSet": "s.notes", "checkpoint": "c1"})
        assert result == {"checkpoint": "c1", "success": False, "reason": "mail was sent"}
        error = await host.error("state/rollback", {"featureSet": "s.none", "checkpoint": "c1"})
        assert (error["code"], error["data"]) == (-32003, {"featureSet": "s.none"})
        error = await host.error("state/rollback", {"featureSet": "s.notes", "checkpoint": "old"})
        assert (error["code"], error["data"]) == (-32005, given or {"checkpoint": "old"})


async def test_order_sensitive_messages_are_handled_one_after_the_other() -> None:
    made = server()
    order: list[str] = []
    gates = [anyio.Event(), anyio.Event()]

    @made.handler("channels/outgoing/chunk")
    async def chunk(ctx: Context, params: Any) -> None:
        order.append(f"begin {params.index}")
        await gates[params.index].wait()
        order.append(f"end {params.index}")

    async with hosted(made) as host:
        await host.begin("channels.streaming")
        for index in range(2):
            await host.notify(
                "channels/outgoing/chunk", {"inferenceId": "i", "channelId": "x", "index": index, "delta": "a"}
            )
        await host.settled()
        gates[1].set()
        await host.settled()
        assert order == ["begin 0"]
        gates[0].set()
        while len(order) < 4:
            await host.settled()
    assert order == ["begin 0", "end 0", "begin 1", "end 1"]


async def test_an_order_that_is_given_goes_before_that_of_the_table() -> None:
    made = server()
    both = anyio.Event()
    here: list[int] = []

    @made.handler("channels/close", ordered=False)
    async def close(ctx: Context, params: Any) -> dict[str, bool]:
        here.append(1)
        if len(here) == 2:
            both.set()
        await both.wait()
        return {"closed": True}

    async with hosted(made) as host:
        await host.begin("channels.lifecycle")
        requests = [host.request("channels/close", {"channelId": str(number)}) for number in range(2)]
        await host.send(*requests)
        for request in requests:
            assert "result" in await host.answer(request["id"])


async def test_the_applications_own_tools_take_the_place_of_the_servers() -> None:
    made = server()
    made.handler("tools/list")(lambda ctx, params: {"tools": [], "nextCursor": params.cursor or "x"})
    made.handler("tools/call")(lambda ctx, params: {"content": [{"type": "text", "text": params.name}]})
    async with hosted(made) as host:
        await host.initialize()
        assert await host.result("tools/list") == {"tools": [], "nextCursor": "x"}
        assert (await host.error("tools/call", {"name": "any"}))["code"] == -32002
        await host.grant("tools")
        assert (await host.tool("any"))["content"][0]["text"] == "any"


# -- what an application asks while a call runs


@pytest.mark.spec("6.7-18")
async def test_a_reduction_while_a_tool_runs_counts_for_its_next_call() -> None:
    made = server()
    feature = made.feature_set("s.push", "Push", uses=["tools", "pushEvents"])
    release = anyio.Event()

    @made.tool
    async def push_twice(ctx: Context) -> str:
        await ctx.push_event(feature, "first")
        await release.wait()
        await ctx.push_event(feature, "second")
        return "done"

    async with hosted(made) as host:
        await host.begin("tools", "pushEvents")
        call = host.request("tools/call", {"name": "push_twice", "arguments": {}})
        await host.send(call)
        await host.reply(await host.next("push/event"), {"accepted": True})
        await host.grant("tools")
        release.set()
        result = (await host.answer(call["id"]))["result"]
        assert result["isError"] is True
        await host.settled()
        assert [message for message in host.heard if message["method"] == "push/event"] == []


async def test_a_stream_gives_its_pieces_while_they_come() -> None:
    made = server()
    feature = made.feature_set("s.ask", "Ask", uses=["tools", "inferenceRequest", "inferenceRequest.streaming"])
    seen: list[str] = []

    @made.tool
    async def ask(ctx: Context) -> str:
        async with ctx.stream_inference(feature, "say it") as stream:
            async for piece in stream:
                seen.append(piece)  # noqa: PERF401
        assert stream.result is not None
        return stream.result.content

    async with hosted(made) as host:
        await host.begin("tools", "inferenceRequest", "inferenceRequest.streaming")
        call = host.request("tools/call", {"name": "ask", "arguments": {}})
        await host.send(call)
        request = await host.next("inference/request")
        assert request["params"]["stream"] is True
        for index, delta in enumerate(["a", "b"]):
            await host.notify("inference/chunk", {"requestId": request["id"], "index": index, "delta": delta})
        # A chunk in one piece with the answer is not lost.
        last = {"method": "inference/chunk", "params": {"requestId": request["id"], "index": 2, "delta": "c"}}
        await host.send(last, {"id": request["id"], "result": {"content": "abc", "model": "m"}})
        assert (await host.answer(call["id"]))["result"]["content"][0]["text"] == "abc"
    assert seen == ["a", "b", "c"]


async def test_a_stream_that_is_not_read_is_taken_back_and_not_kept_without_end() -> None:
    made = server()
    feature = made.feature_set("s.ask", "Ask", uses=["tools", "inferenceRequest", "inferenceRequest.streaming"])
    taken_back = anyio.Event()
    kept: list[str] = []

    @made.tool
    async def ask(ctx: Context) -> str:
        try:
            async with ctx.stream_inference(feature, "say it") as stream:
                await taken_back.wait()
                kept.extend([piece async for piece in stream])
        except LocalProtocolError:
            return "refused"
        return "served"

    async with hosted(made) as host:
        await host.begin("tools", "inferenceRequest", "inferenceRequest.streaming")
        call = host.request("tools/call", {"name": "ask", "arguments": {}})
        await host.send(call)
        request = await host.next("inference/request")
        for index in range(60):
            params = {"requestId": request["id"], "index": index, "delta": "x" * 100_000}
            await host.notify("inference/chunk", params)
        assert (await host.next("notifications/cancelled"))["params"]["requestId"] == request["id"]
        taken_back.set()
        assert (await host.answer(call["id"]))["result"]["content"][0]["text"] == "refused"
    assert kept == []


async def test_a_context_goes_on_working_while_its_connection_lives() -> None:
    made = server()
    made.feature_set("s.push", "Push", uses=["tools", "pushEvents"])
    kept: list[Context] = []

    @made.tool
    def keep(ctx: Context) -> None:
        kept.append(ctx)

    async with hosted(made) as host, anyio.create_task_group() as tasks:
        await host.begin("tools", "pushEvents")
        await host.tool("keep")
        tasks.start_soon(kept[0].push_event, "s.push", "later")
        await host.reply(await host.next("push/event"), {"accepted": True})
