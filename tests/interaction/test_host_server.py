"""Our host and our server, with each other, over every transport."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.host import (
    ChannelMessage,
    EventAnswer,
    HostHandlers,
    HostPolicy,
    HostSettings,
    ManifestReceipt,
    McplHost,
    connect_server,
)
from mcpl_core.protocol import (
    ChannelDescriptor,
    ChannelsPublishParams,
    ChannelsPublishResult,
    ContextInjection,
    IncomingMessage,
    InferenceRequestResult,
    MessageAuthor,
    method,
)
from mcpl_core.server import Context, McplServer

pytestmark = pytest.mark.anyio

HOOK = "contextHooks.beforeInference"
GRANTED = (
    "tools", "pushEvents", "channels.*", "inferenceRequest", "inferenceRequest.streaming", "inferenceLifecycle",
    f"{HOOK}.observe", f"{HOOK}.inject.beforeUser",
)  # fmt: skip
POLICY = HostPolicy.allow(*GRANTED, channels="chat:*")
QUICK = HostSettings(manifest_interval=0.0, changelog_delay=0.0, first_retry=0.0)
EVERYWHERE = pytest.mark.parametrize("kind", ["memory", "tcp", "unix", "ws"])
EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "memory_server.py"


def build() -> McplServer:
    """A server with a part of everything."""
    server = McplServer("garden", "1.0.0")
    news = server.feature_set("garden.news", "News", uses=["pushEvents", "tools"])
    mind = server.feature_set("garden.mind", "Memories", uses=[f"{HOOK}.observe", f"{HOOK}.inject.beforeUser"])
    think = server.feature_set("garden.think", "Thoughts", uses=["inferenceRequest", "inferenceRequest.streaming"])
    server.feature_set("garden.life", "Turns", uses=["inferenceLifecycle"])
    server.feature_set("garden.chat", "Chats", uses=["channels.register", "channels.incoming", "channels.publish"])
    heard: list[str] = []

    @server.tool
    async def grow(ctx: Context, what: str) -> str:
        await ctx.push_event(news, f"{what} grows", tags=["chat:mention", "garden:new"])
        return f"planted {what}"

    @server.tool
    async def ponder(ctx: Context, question: str) -> str:
        pieces = []
        async with ctx.stream_inference(think, question) as stream:
            pieces = [piece async for piece in stream]
        assert stream.result is not None
        return f"{'|'.join(pieces)} = {stream.result.content}"

    @server.tool
    async def open_gate(ctx: Context) -> list[bool]:
        channels = [
            ChannelDescriptor(id=id, type="chat", label=id, direction="bidirectional")
            for id in ("chat:one", "secret:two")
        ]
        return [each.accepted for each in (await ctx.register_channels(channels)).results or []]

    @server.tool
    async def hear(ctx: Context, text: str) -> bool:
        message = IncomingMessage(
            channel_id="chat:one",
            message_id=text,
            author=MessageAuthor(id="u"),
            timestamp="2026-01-01T00:00:00Z",
            content=text,
        )
        return (await ctx.incoming([message])).results[0].accepted

    @server.tool
    async def turns(ctx: Context) -> list[str]:
        return heard

    @server.before_inference(mind)
    async def recall(ctx: Context, turn: Any) -> Any:
        return ContextInjection(namespace="garden", position="beforeUser", content=f"about {turn.user_message}")

    @server.on_inference
    async def note(ctx: Context, notice: Any) -> None:
        heard.append(notice.phase)

    @server.handler(method.CHANNELS_PUBLISH)
    async def publish(ctx: Context, params: ChannelsPublishParams) -> ChannelsPublishResult:
        return ChannelsPublishResult(delivered=True, message_id=params.text)

    return server


@asynccontextmanager
async def reachable(kind: str, server: McplServer) -> AsyncIterator[Any]:
    """Where a host finds the server."""
    with TemporaryDirectory() as folder:
        async with anyio.create_task_group() as tasks:
            if kind == "memory":

                async def serve(connection: McplConnection) -> None:
                    async with connection:
                        await server.serve(connection)

                def make() -> McplConnection:
                    ours, theirs = McplConnection.memory_pair()
                    tasks.start_soon(serve, theirs)
                    return ours

                yield make
            else:
                endpoint = {"tcp": "tcp://127.0.0.1:0", "unix": f"unix://{folder}/s", "ws": "ws://127.0.0.1:0"}[kind]

                async def listen(*, task_status: Any) -> None:
                    await server.listen(endpoint, task_status=task_status)

                yield await tasks.start(listen)
            tasks.cancel_scope.cancel()


async def think(call: Any) -> InferenceRequestResult:
    for word in call.messages[0].text.split():
        await call.chunk(word)
    return InferenceRequestResult(content=call.messages[0].text.upper(), model="m")


@EVERYWHERE
@pytest.mark.spec("RFC4-6-1")
async def test_everything_once(kind: str) -> None:
    server = build()
    handlers = HostHandlers(inference=think)
    with anyio.fail_after(20):
        async with reachable(kind, server) as endpoint, McplHost("h", "1", policy=POLICY, handlers=handlers) as host:
            garden = await host.add("garden", endpoint)
            assert (garden.mode, garden.degraded) == ("mcpl", ())

            assert (await garden.call_tool("grow", {"what": "mint"})).text == "planted mint"
            event = await anext(host.events())
            assert (event.server, event.text, event.wake) == ("garden", "mint grows", True)
            assert event.tags == ("chat:mention", "garden:new", "chat:addressed")

            assert (await host.call_tool("garden__ponder", {"question": "to be"})).text == "to|be = TO BE"

            assert (await garden.call_tool("open_gate")).structured_content == {"result": [True, False]}
            assert [channel.id for channel in garden.channels] == ["chat:one"]
            assert (await garden.call_tool("hear", {"text": "hi"})).structured_content == {"result": True}
            heard = await anext(host.events())
            assert isinstance(heard, ChannelMessage) and (heard.text, heard.channel_id) == ("hi", "chat:one")
            published = await garden.publish("chat:one", "hello")
            assert published is not None and published.message_id == "hello"

            async with host.inference(conversation_id="c") as inference:
                injections = await inference.before("mint")
            assert [item.text for item in injections.at("beforeUser")] == ["about mint"]
            assert (await garden.call_tool("turns")).structured_content == {"result": ["started", "completed"]}


@EVERYWHERE
async def test_a_manifest_that_changes_is_fetched_compared_and_told_of(kind: str) -> None:
    server = build()
    with anyio.fail_after(20):
        async with reachable(kind, server) as endpoint, McplHost("h", "1", policy=POLICY, settings=QUICK) as host:
            garden = await host.add("garden", endpoint)
            with server.edit_manifest() as manifest:
                del manifest["pushEvents"]
                manifest["modelInfo"] = True
            receipt = await anext(host.events())
            assert isinstance(receipt, ManifestReceipt)
            assert receipt.revision == server.manifest["revision"]
            assert {(impact.impact, impact.subject) for impact in receipt.impacts} >= {
                ("capability-revoked", "pushEvents"),
                ("capability-expansion-pending", "modelInfo"),
                ("feature-degraded", "garden.news"),
            }
            assert not garden.grant.allows("pushEvents") and not garden.grant.allows("modelInfo")
            await host.set_policy(POLICY.also("modelInfo"))
            assert garden.grant.allows("modelInfo")


@EVERYWHERE
async def test_a_policy_that_shrinks_and_grows_is_followed_by_both_sides(kind: str) -> None:
    server = build()
    with anyio.fail_after(20):
        async with reachable(kind, server) as endpoint, McplHost("h", "1", policy=POLICY) as host:
            garden = await host.add("garden", endpoint)
            await host.set_policy(HostPolicy.allow("tools"))
            assert {each.feature_set for each in garden.degraded} == {
                "garden.news", "garden.mind", "garden.think", "garden.life", "garden.chat",
            }  # fmt: skip
            # The server knows: it does not even try.
            assert "pushEvents" in (await garden.call_tool("grow", {"what": "mint"})).text
            await host.set_policy(POLICY)
            assert garden.degraded == ()
            assert (await garden.call_tool("grow", {"what": "mint"})).text == "planted mint"
            assert len(host.events()) == 1


@EVERYWHERE
async def test_a_server_that_comes_back_delivers_what_was_not_answered_and_nothing_twice(kind: str) -> None:
    server = build()
    answers: list[str] = []
    lost = anyio.Event()

    async def handler(event: Any) -> EventAnswer | None:
        answers.append(event.text)
        if len(answers) == 1:
            lost.set()
            await anyio.sleep_forever()
        return None

    handlers = HostHandlers(on_event=handler)
    settings = HostSettings(first_retry=0.0, longest_retry=0.0)
    with anyio.fail_after(20):
        async with (
            reachable(kind, server) as endpoint,
            McplHost("h", "1", policy=POLICY, handlers=handlers, settings=settings) as host,
        ):
            garden = await host.add("garden", endpoint)
            await server.push_event("garden.news", "rain")
            await lost.wait()
            # The connection goes while the event is being handled: it was not, and nobody hears of an answer.
            await garden.session.aclose()
            await garden.wait("connecting", "waiting")
            await garden.wait("ready")
            while len(answers) < 2:
                await anyio.lowlevel.checkpoint()
            assert answers == ["rain", "rain"]
            assert (await garden.call_tool("turns")).is_error is False


@pytest.mark.spec("13.2-1")
async def test_the_example_server_as_a_child_process() -> None:
    policy = HostPolicy.allow("tools", "pushEvents", f"{HOOK}.inject.beforeUser")
    with anyio.fail_after(20):
        async with connect_server([sys.executable, str(EXAMPLE)], policy=policy, server="memory") as memory:
            assert (memory.mode, memory.info["name"]) == ("mcpl", "memory")
            assert (await memory.call_tool("remember", {"text": "hello world", "importance": 5})).text == "kept"
            event = await anext(memory.events())
            assert (event.text, event.tags) == ("remembered: hello world", ("memory:new",))
            async with memory.inference(conversation_id="c") as inference:
                # It may inject and not observe: it is asked, and has nothing to go by.
                assert (await inference.before("world")).items == ()
