"""Events of MCPL servers as a channel of Claude Code."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec import UNSET

from mcpl_core import McplConnection
from mcpl_core.content import image_content, text_content
from mcpl_core.errors import UnknownChannel
from mcpl_core.host import ChannelMessage, HostEvent, HostPolicy, ManifestReceipt, PushEvent
from mcpl_core.mcp.claude_channel import ClaudeChannel, channel_params
from mcpl_core.protocol import ChannelDescriptor, MessageAuthor
from mcpl_core.testing import RawPeer
from mcpl_core.transports.memory import memory_transports
from mcpl_core.wire.values import decode_value
from tests.host.raw_server import CHANNEL, RawServer, embedded, event, incoming, message
from tests.mcp.peers import LIMIT

pytestmark = pytest.mark.anyio

GENERAL = ChannelDescriptor(id="chat:#general", type="chat", label="#general", direction="bidirectional")


def push(**more: Any) -> PushEvent:
    given = {
        "server": "news", "feature_set": "news.flash", "event_id": "e1", "timestamp": "2026-01-01T00:00:00Z",
        "content": [text_content("It rains")], **more,
    }  # fmt: skip
    return PushEvent(**given)


def said(**more: Any) -> ChannelMessage:
    given = {
        "server": "chat", "channel": GENERAL, "message_id": "m1", "author": MessageAuthor(id="u1", name="Alice"),
        "timestamp": "2026-01-01T00:00:00Z", "content": [text_content("hello")], **more,
    }  # fmt: skip
    return ChannelMessage(**given)


# -- what an event looks like


def test_a_push_event() -> None:
    params = channel_params(
        push(tags=("news:weather", "news:new"), origin={"city": "Bonn", "at-most": 3, "deep": {"a": 1}})
    )
    assert params == {
        "content": "It rains",
        "meta": {
            "server": "news",
            "feature_set": "news.flash",
            "event_id": "e1",
            "timestamp": "2026-01-01T00:00:00Z",
            "tags": "news:weather news:new",
            "origin_city": "Bonn",
            "origin_at_most": "3",
        },
    }


def test_a_message_of_a_channel() -> None:
    assert channel_params(said(thread_id="t1", tags=("chat:mention",))) == {
        "content": "hello",
        "meta": {
            "server": "chat",
            "channel_id": "chat:#general",
            "message_id": "m1",
            "thread_id": "t1",
            "author": "Alice",
            "author_id": "u1",
            "timestamp": "2026-01-01T00:00:00Z",
            "tags": "chat:mention",
        },
    }


@pytest.mark.parametrize("absent", [None, UNSET, "", [], {}])
def test_what_is_absent_has_no_attribute(absent: Any) -> None:
    params = channel_params(said(thread_id=absent, author=MessageAuthor(id="u1")))
    assert params is not None
    assert set(params["meta"]) == {"server", "channel_id", "message_id", "author_id", "timestamp"}


@pytest.mark.parametrize("origin", [UNSET, None, "x", [1], {"a b": True, "long": "x" * 5000}])
def test_meta_is_a_map_of_short_texts_under_plain_names(origin: Any) -> None:
    params = channel_params(push(origin=origin))
    assert params is not None
    assert all(name.replace("_", "").isalnum() and name.isascii() for name in params["meta"])
    assert all(isinstance(value, str) and len(value) <= 1024 for value in params["meta"].values())
    assert ("origin_a_b" in params["meta"]) is isinstance(origin, dict)


def test_other_blocks_are_named() -> None:
    image = image_content(b"...", "image/png")
    params = channel_params(push(content=[text_content("look"), image, image]))
    assert params is not None
    assert params["content"] == "look\n[image]\n[image]"
    alone = channel_params(push(content=[image]))
    assert alone is not None
    assert alone["content"] == "[image]"


def test_events_without_words_for_a_model_are_left_out() -> None:
    assert channel_params(ManifestReceipt(server="s", revision=None)) is None


# -- the wire


class Claude:
    """The other side, which the test plays."""

    def __init__(self, peer: RawPeer) -> None:
        self.peer = peer

    async def send(self, method: str, params: Any = None, id: Any = None) -> None:
        wire = {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})
        await self.peer.send(wire | ({} if id is None else {"id": id}))

    async def receive(self) -> Any:
        return decode_value(await self.peer.receive())

    async def ask(self, method: str, params: Any = None) -> Any:
        await self.send(method, params, id=1)
        return await self.receive()

    async def begin(self, version: str = "2025-11-25") -> Any:
        client = {"name": "claude-code", "version": "2.1.80"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        answer = await self.ask("initialize", params)
        await self.send("notifications/initialized")
        return answer


class Events:
    """Events that a test lets come."""

    def __init__(self, *events: HostEvent) -> None:
        self.send, self.receive = anyio.create_memory_object_stream[HostEvent](10)
        self.taken = 0
        for each in events:
            self.send.send_nowait(each)

    async def __aiter__(self) -> AsyncIterator[HostEvent]:
        async for each in self.receive:
            self.taken += 1
            yield each


@asynccontextmanager
async def bridged(channel: ClaudeChannel, events: Any) -> AsyncIterator[Claude]:
    left, right = memory_transports()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                async with McplConnection(left) as connection:
                    await channel.serve(connection, events)

            tasks.start_soon(serve)
            async with RawPeer(right) as peer:
                yield Claude(peer)
    if isinstance(events, Events):
        events.send.close()
        events.receive.close()


@pytest.mark.spec("R-mcp-17")
async def test_the_wire_is_what_claude_code_reads() -> None:
    events = Events(push(), ManifestReceipt(server="news", revision=None), said())
    async with bridged(ClaudeChannel("radio", "1.2", instructions="News come."), events) as claude:
        await claude.peer.send(
            '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
            '"clientInfo":{"name":"claude-code","version":"2.1.80"}}}'
        )
        assert await claude.peer.receive() == (
            b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"experimental":'
            b'{"claude/channel":{}}},"serverInfo":{"name":"radio","version":"1.2"},"instructions":"News come."}}'
        )
        assert events.taken == 0
        await claude.peer.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        assert await claude.peer.receive() == (
            b'{"jsonrpc":"2.0","method":"notifications/claude/channel","params":{"content":"It rains","meta":'
            b'{"feature_set":"news.flash","event_id":"e1","server":"news","timestamp":"2026-01-01T00:00:00Z"}}}'
        )
        assert await claude.peer.receive() == (
            b'{"jsonrpc":"2.0","method":"notifications/claude/channel","params":{"content":"hello","meta":'
            b'{"channel_id":"chat:#general","message_id":"m1","author":"Alice","author_id":"u1","server":"chat",'
            b'"timestamp":"2026-01-01T00:00:00Z"}}}'
        )
        assert (await claude.ask("ping"))["result"] == {}
        assert (await claude.ask("tools/list"))["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("asked", "answered"), [("2024-11-05", "2024-11-05"), ("2026-07-28", "2025-11-25"), (None, "2025-11-25")]
)
async def test_it_speaks_the_versions_with_a_handshake(asked: Any, answered: str) -> None:
    async with bridged(ClaudeChannel("radio"), Events()) as claude:
        result = (await claude.ask("initialize", {"protocolVersion": asked}))["result"]
        assert (result["protocolVersion"], "instructions" in result) == (answered, False)
        assert (await claude.ask("initialize", [7]))["result"]["protocolVersion"] == "2025-11-25"


async def test_with_a_way_back_there_is_a_tool() -> None:
    sent: list[tuple[str, str, str]] = []

    async def reply(server: str, channel: str, words: str) -> None:
        if channel == "gone":
            raise UnknownChannel(data={"channelId": "canary"})
        sent.append((server, channel, words))

    def call(**arguments: Any) -> dict[str, Any]:
        return {"name": "reply", "arguments": arguments}

    async with bridged(ClaudeChannel("radio", reply=reply), Events()) as claude:
        assert (await claude.begin())["result"]["capabilities"]["tools"] == {}
        (tool,) = (await claude.ask("tools/list"))["result"]["tools"]
        assert (tool["name"], tool["inputSchema"]["required"]) == ("reply", ["server", "channel_id", "text"])
        fine = (await claude.ask("tools/call", call(server="chat", channel_id="c", text="hi")))["result"]
        assert fine == {"content": [{"type": "text", "text": "sent"}]}
        assert sent == [("chat", "c", "hi")]
        for bad in (call(server="chat", channel_id="gone", text="hi"), call(server="chat"), {"name": "reply"}):
            result = (await claude.ask("tools/call", bad))["result"]
            assert result["isError"] is True
            assert "canary" not in str(result)
        for none in ({"name": "other"}, [7]):
            assert (await claude.ask("tools/call", none))["error"]["code"] == -32602
    assert len(sent) == 1


async def test_events_of_a_host_arrive_as_the_policy_admits_them() -> None:
    policy = HostPolicy.allow("pushEvents", "channels.register", "channels.incoming")

    async def feed(raw: RawServer) -> None:
        await raw.served("push/event", event("e1", text="It rains"))
        await raw.served("channels/register", {"channels": [CHANNEL]})
        await raw.served("channels/incoming", incoming(message("m1", text="hello")))

    async with embedded(policy) as (raw, session):
        async with bridged(ClaudeChannel("radio"), session.events()) as claude, anyio.create_task_group() as tasks:
            await claude.begin()
            tasks.start_soon(feed, raw)
            heard = [await claude.receive(), await claude.receive()]
    assert [each["params"]["content"] for each in heard] == ["It rains", "hello"]
    assert heard[1]["params"]["meta"]["channel_id"] == CHANNEL["id"]
