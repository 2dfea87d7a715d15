"""A server as a foreign host sees it: bytes and nothing of this package, over every transport."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest

from tests.server.kitchen import BEFORE, build
from tests.server.raw_host import ALL_PATHS, Lines, RawHost, hosted, spawned

pytestmark = pytest.mark.anyio

KITCHEN = Path(__file__).resolve().parent.parent / "server" / "kitchen.py"
TURN = {"inferenceId": "i", "conversationId": "c", "turnIndex": 3, "userMessage": None, "model": {"id": "m"}}


class WebSocket:
    """A client of the library's own, so that the framing is not ours."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def send_text(self, text: str) -> None:
        await self.connection.send(text)

    async def receive_text(self) -> str:
        text = await self.connection.recv()
        assert isinstance(text, str)
        return text

    async def aclose(self) -> None:
        close = getattr(self.connection, "aclose", None) or self.connection.close
        await close()


@asynccontextmanager
async def listening(endpoint: str) -> AsyncIterator[str]:
    async with anyio.create_task_group() as tasks:
        server = build()
        yield await tasks.start(lambda task_status: server.listen(endpoint, task_status=task_status))
        tasks.cancel_scope.cancel()


async def dial(stack: AsyncExitStack, where: str) -> Any:
    if where.startswith("tcp:"):
        host, _, port = where.removeprefix("tcp://").rpartition(":")
        return Lines(await anyio.connect_tcp(host, int(port)))
    if where.startswith("unix:"):
        return Lines(await anyio.connect_unix(where.removeprefix("unix://")))
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        from websockets.trio.client import connect as connect_on_trio

        return WebSocket(await stack.enter_async_context(connect_on_trio(where, max_size=None)))
    from websockets.asyncio.client import connect

    return WebSocket(await stack.enter_async_context(connect(where, max_size=None)))


@asynccontextmanager
async def reaching(kind: str, count: int = 1) -> AsyncIterator[list[RawHost]]:
    """``count`` hosts at one server."""
    with anyio.fail_after(20):
        async with AsyncExitStack() as stack:
            if kind == "memory":
                server = build()
                yield [await stack.enter_async_context(hosted(server)) for _ in range(count)]
                return
            if kind == "stdio":
                yield [(await stack.enter_async_context(spawned(str(KITCHEN))))[0] for _ in range(count)]
                return
            folder = stack.enter_context(TemporaryDirectory())
            endpoint = {"tcp": "tcp://127.0.0.1:0", "unix": f"unix://{folder}/s", "ws": "ws://127.0.0.1:0"}[kind]
            where = await stack.enter_async_context(listening(endpoint))
            hosts = [RawHost(await dial(stack, where)) for _ in range(count)]
            try:
                yield hosts
            finally:
                with anyio.CancelScope(shield=True):
                    for host in hosts:
                        await host.wire.aclose()


EVERYWHERE = pytest.mark.parametrize("kind", ["memory", "tcp", "unix", "ws", "stdio"])
STREAMS = pytest.mark.parametrize("kind", ["memory", "tcp", "unix", "stdio"])


@EVERYWHERE
@pytest.mark.spec("5.1-4", "5.3-6", "6.5-1", "6.5-2", "9.2-1", "14.3-8")
async def test_an_mcpl_host_from_the_handshake_to_the_last_reduction(kind: str) -> None:
    async with reaching(kind) as (host,):
        result = await host.initialize()
        manifest = result["capabilities"]["experimental"]["mcpl"]
        assert manifest["revision"].startswith("sha256:")
        assert (await host.error("tools/call", {"name": "add", "arguments": {"a": 1}}))["code"] == -32002
        assert await host.grant("tools", "pushEvents", BEFORE, "channels.publish") == {"accepted": True}
        assert len((await host.result("tools/list"))["tools"]) == 8
        assert (await host.tool("add", {"a": 1}))["structuredContent"] == {"result": 2}
        assert (await host.tool("thread"))["content"][0]["text"] == "beside"

        call = host.request("tools/call", {"name": "push", "arguments": {"text": "soup"}})
        await host.send(call)
        event = await host.next("push/event")
        assert event["params"]["featureSet"] == "kitchen.cook"
        assert event["params"]["payload"] == {"content": [{"type": "text", "text": "soup"}]}
        await host.reply(event, {"accepted": True})
        assert (await host.answer(call["id"]))["result"]["structuredContent"] == {"result": True}

        turn = await host.result("context/beforeInference", TURN)
        assert turn["featureSet"] == "kitchen.serve"
        assert turn["contextInjections"][0]["content"] == [{"type": "text", "text": "turn 3"}]
        published = await host.result("channels/publish", {"channelId": "x", "content": "hi"})
        assert published == {"delivered": True, "messageId": "hi"}

        queued = await host.result("kitchen/later")
        lost = await host.next("push/event")
        again = await host.next("push/event")
        assert lost["params"] == again["params"]
        assert again["params"]["eventId"] == queued["eventId"]
        await host.reply(again, {"accepted": True})

        await host.tool("grow")
        assert (await host.next("mcpl/manifestChanged"))["params"]["domains"] == ["capabilities"]
        await host.next("notifications/tools/list_changed")
        assert (await host.result("mcpl/manifest"))["modelInfo"] is True

        await host.grant(BEFORE)
        assert (await host.error("tools/call", {"name": "add", "arguments": {"a": 1}}))["code"] == -32002


@EVERYWHERE
@pytest.mark.spec("17.7-1")
async def test_a_plain_mcp_host(kind: str) -> None:
    async with reaching(kind) as (host,):
        await host.initialize(mcpl=False, version="2024-11-05")
        assert (await host.tool("add", {"a": 1, "b": 2}))["structuredContent"] == {"result": 3}
        assert (await host.tool("add", {"a": "x"}))["isError"] is True
        assert (await host.tool("fail"))["content"][0]["text"] == "no luck"
        assert (await host.tool("push", {"text": "x"}))["isError"] is True
        assert (await host.error("tools/call", {"name": "none"}))["code"] == -32602
        for name in ("featureSets/update", "context/beforeInference", "channels/publish", "resources/list"):
            assert (await host.error(name, {}))["code"] == -32601
        await host.tool("grow")
        await host.next("notifications/tools/list_changed")
        await host.settled()
        assert [message["method"] for message in host.heard] == []


@EVERYWHERE
async def test_a_call_is_taken_back_while_others_run(kind: str) -> None:
    async with reaching(kind) as (host,):
        await host.begin(*ALL_PATHS)
        waiting = [host.request("tools/call", {"name": "wait", "arguments": {}}) for _ in range(3)]
        await host.send(*waiting)
        await host.settled()
        for call in waiting[:2]:
            await host.notify("notifications/cancelled", {"requestId": call["id"]})
        assert "content" in await host.tool("soon")
        assert not {call["id"] for call in waiting} & set(host.answers)


#: Text, and the id and code of the error that comes back, if one does.
BAD: list[tuple[str, Any]] = [
    ("a banner that somebody prints", None),
    ('{"jsonrpc":"2.0","id":1,"method":', None),
    ('[{"jsonrpc":"2.0","id":77,"method":"ping"}]', (None, -32600)),
    ('{"jsonrpc":"2.0","id":77,"method":3}', (77, -32600)),
    ('{"jsonrpc":"1.0","id":77,"method":"ping"}', (77, -32600)),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', (None, -32600)),
    ('{"jsonrpc":"2.0","id":true,"method":"ping"}', (None, -32600)),
    ('{"jsonrpc":"2.0","id":77,"method":"no/such"}', (77, -32601)),
    ('{"jsonrpc":"2.0","id":77,"method":"tools/call","params":3}', (77, -32602)),
    ('{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"none"}}', (77, -32602)),
    ('{"jsonrpc":"2.0","id":77,"result":{}}', None),
    ('{"jsonrpc":"2.0","method":"no/such"}', None),
    ('{"jsonrpc":"2.0","id":77,"method":"ping","params":' + "[" * 300 + "]" * 300 + "}", (None, -32600)),
]


@EVERYWHERE
async def test_what_is_malformed_is_answered_as_json_rpc_says_and_costs_nothing(kind: str) -> None:
    async with reaching(kind) as (host,):
        await host.begin(*ALL_PATHS)
        for text, expected in BAD:
            before = len(host.all)
            await host.wire.send_text(text)
            await host.tool("add", {"a": 1})
            errors = [(message["id"], message["error"]["code"]) for message in host.all[before:] if "error" in message]
            if "[[[" in text:
                assert errors in ([], [(None, -32600)], [(77, -32600)])
            else:
                assert errors == ([] if expected is None else [expected])


@EVERYWHERE
async def test_ids_come_back_as_they_were(kind: str) -> None:
    async with reaching(kind) as (host,):
        await host.begin(*ALL_PATHS)
        for id in ("77", "", "é", 0, -5, 2**53):
            await host.send({"id": id, "method": "ping"})
            assert await host.answer(id) == {"jsonrpc": "2.0", "id": id, "result": {}}
        await host.wire.send_text('{"jsonrpc":"2.0","id":5.0,"method":"ping"}')
        answer = await host.answer(5)
        assert json.dumps(answer["id"]) == "5"


@EVERYWHERE
async def test_a_large_result_arrives_whole(kind: str) -> None:
    async with reaching(kind) as (host,):
        await host.begin(*ALL_PATHS)
        assert len((await host.tool("big", {"size": 2_000_000}))["content"][0]["text"]) == 2_000_000


@STREAMS
async def test_the_end_of_input_with_calls_in_flight(kind: str) -> None:
    async with reaching(kind) as (host,):
        await host.begin(*ALL_PATHS)
        calls = [host.request("tools/call", {"name": "soon", "arguments": {}}) for _ in range(3)]
        await host.send(*calls)
        assert isinstance(host.wire, Lines)
        await host.wire.send_eof()
        for call in calls:
            assert (await host.answer(call["id"]))["result"]["content"][0]["text"] == "done"
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await host._read()


@pytest.mark.parametrize("kind", ["memory", "tcp", "unix", "ws"])
async def test_many_hosts_at_once_and_some_that_break(kind: str) -> None:
    async with reaching(kind, count=6) as hosts:
        quiet, rude, *others = hosts
        await quiet.begin(*ALL_PATHS)
        await rude.begin(*ALL_PATHS)
        await rude.send(rude.request("tools/call", {"name": "wait", "arguments": {}}))
        await rude.wire.send_text("rubbish")
        await rude.wire.aclose()
        for number, host in enumerate(others):
            await host.initialize()
            await host.grant(*(ALL_PATHS if number % 2 else ("pushEvents", "tools")))
            assert (await host.tool("add", {"a": number}))["structuredContent"] == {"result": number + 1}
        event_id = (await others[0].result("kitchen/later"))["eventId"]
        # The one that never answers costs the others nothing.
        for host in others:
            event = await host.next("push/event")
            assert event["params"]["eventId"] == event_id
            await host.reply(event, {"accepted": True})
        with pytest.raises(AssertionError):
            await others[0].tool("none")
