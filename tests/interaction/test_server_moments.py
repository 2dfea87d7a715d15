"""Requests taken back, grants narrowed and inputs ended at every moment of a call.

A moment is a number of turns of the event loop after the call was sent; the moments reach from before the call was
read to after it was answered.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcpl_core.protocol import IncomingMessage, MessageAuthor
from mcpl_core.server import Context, McplServer, Settings
from tests.server.raw_host import Lines, RawHost, hosted

pytestmark = pytest.mark.anyio

MOMENTS = pytest.mark.parametrize("turns", [*range(0, 40, 2), 60, 100])
HOOK = "contextHooks.beforeInference.inject.beforeUser"
TURN = {"inferenceId": "i", "conversationId": "c", "turnIndex": 0, "model": {"id": "m"}}
GRANT = ("tools", "pushEvents", "channels.incoming", "channels.lifecycle", "inferenceRequest", HOOK)


def server() -> McplServer:
    made = McplServer("s", "1", settings=Settings(grace=1.0))
    made.feature_set("s.all", "All", uses=["tools", "pushEvents", "inferenceRequest"])
    made.feature_set("s.hook", "Hook", uses=[HOOK])
    made.tool(walk)
    made.tool(name="beside")(lambda: "done")
    _add_endless_tools(made)

    @made.tool
    async def push(ctx: Context) -> bool:
        return (await ctx.push_event("s.all", "x")).accepted

    @made.before_inference("s.hook")
    async def inject(ctx: Context, turn: Any) -> str:
        await walk()
        return "x"

    @made.handler("channels/close")
    async def close(ctx: Context, params: Any) -> dict[str, bool]:
        await walk()
        return {"closed": True}

    return made


async def walk() -> str:
    """Takes a number of turns."""
    for _ in range(15):
        await checkpoint()
    return "done"


def _add_endless_tools(made: McplServer) -> None:
    @made.tool
    async def push_on(ctx: Context) -> None:
        while True:
            await ctx.push_event("s.all", "x")

    @made.tool
    async def talk_on(ctx: Context) -> None:
        author = MessageAuthor(id="u")
        while True:
            await ctx.incoming(
                [IncomingMessage(channel_id="c", message_id="m", author=author, timestamp="t", content="x")]
            )

    @made.tool
    async def ask_on(ctx: Context) -> None:
        while True:
            await ctx.request_inference("s.all", "x")

    @made.tool
    async def queue_on() -> None:
        while True:
            await made.push_event("s.all", "x")
            await checkpoint()


async def after(turns: int) -> None:
    for _ in range(turns):
        await checkpoint()


async def answer_events(host: RawHost) -> None:
    """A host that takes everything."""
    results = {
        "push/event": {"accepted": True},
        "channels/incoming": {"results": []},
        "inference/request": {"content": "c", "model": "m"},
    }
    while True:
        message = await host.next()
        if "id" in message:
            await host.reply(message, results[message["method"]])


CALLS = {
    "a tool that waits": ("tools/call", {"name": "walk", "arguments": {}}),
    "a tool in a thread": ("tools/call", {"name": "beside", "arguments": {}}),
    "a tool that waits for the host": ("tools/call", {"name": "push", "arguments": {}}),
    "a hook": ("context/beforeInference", TURN),
    "a handler that others wait for": ("channels/close", {"channelId": "c"}),
}


@MOMENTS
@pytest.mark.parametrize("call", CALLS)
async def test_a_request_taken_back_at_any_moment_is_answered_at_most_once(call: str, turns: int) -> None:
    method, params = CALLS[call]
    async with hosted(server()) as host:
        await host.begin(*GRANT)
        request = {"id": "same", "method": method, "params": params}
        await host.send(request)
        await after(turns)
        await host.notify("notifications/cancelled", {"requestId": "same"})
        await host.settled()
        before = [message for message in host.all if message.get("id") == "same"]
        assert len(before) <= 1
        # The id is free, unless the answer of the first is still to come.
        await host.send(request)
        if call == "a tool that waits for the host":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer_events, host)
                while len([message for message in host.all if message.get("id") == "same"]) == len(before):
                    await checkpoint()
                tasks.cancel_scope.cancel()
        else:
            host.answers.pop("same", None)
            assert "result" in await host.answer("same")
        await host.result("tools/list")
        answers = [message for message in host.all if message.get("id") == "same"]
        assert len(answers) == len(before) + 1
        assert all("result" in message for message in answers)


ENDLESS = {
    "push_on": ("push/event", "pushEvents"),
    "talk_on": ("channels/incoming", "channels.incoming"),
    "ask_on": ("inference/request", "inferenceRequest"),
    "queue_on": ("push/event", "pushEvents"),
}


@MOMENTS
@pytest.mark.parametrize("tool", ENDLESS)
@pytest.mark.spec("6.7-18")
async def test_after_the_receipt_of_a_reduction_nothing_of_it_is_on_the_wire(tool: str, turns: int) -> None:
    method, path = ENDLESS[tool]
    async with hosted(server()) as host, anyio.create_task_group() as tasks:
        await host.begin(*GRANT)
        call = host.request("tools/call", {"name": tool, "arguments": {}})
        await host.send(call)
        await after(turns)
        policy = host.request("featureSets/update", {"effectiveCapabilities": [each for each in GRANT if each != path]})
        await host.send(policy)
        tasks.start_soon(answer_events, host)
        while policy["id"] not in host.answers:
            await checkpoint()
        at = host.all.index(host.answers[policy["id"]])
        await after(100)
        assert [message["method"] for message in host.all[at:] if message.get("method") == method] == []
        if tool != "queue_on":
            assert host.answers[call["id"]]["result"]["isError"] is True
        else:
            await host.notify("notifications/cancelled", {"requestId": call["id"]})
            await after(20)
        tasks.cancel_scope.cancel()


@MOMENTS
async def test_an_input_that_ends_at_any_moment_loses_no_answer(turns: int) -> None:
    async with hosted(server()) as host:
        await host.begin(*GRANT)
        calls = [host.request(*CALLS[name]) for name in CALLS if name != "a tool that waits for the host"]
        await host.send(*calls)
        await after(turns)
        assert isinstance(host.wire, Lines)
        await host.wire.send_eof()
        for call in calls:
            assert "result" in await host.answer(call["id"])
        with pytest.raises(anyio.EndOfStream):
            await host._read()


@MOMENTS
async def test_a_host_that_goes_at_any_moment_leaves_nothing_behind(turns: int) -> None:
    made = server()
    closed: list[str] = []
    made.on_close(lambda ctx: closed.append(ctx.principal))
    async with hosted(made) as host:
        await host.begin(*GRANT)
        await host.send(*(host.request(*CALLS[name]) for name in CALLS))
        await after(turns)
        await host.wire.aclose()
    assert (closed, made.sessions) == (["local"], ())
