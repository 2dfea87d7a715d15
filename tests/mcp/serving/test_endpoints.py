"""Served over a connection of ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.mcp.serving import ConnectionEndpoint, Peer, Prompt, Resource, ServedTool, ToolCall
from mcpl_core.mcp.serving.calling import CallRunner
from mcpl_core.mcp.serving.endpoints import Handshake
from mcpl_core.mcp.serving.middleware import MiddlewareChain
from mcpl_core.server.calling import Caller
from tests.mcp.serving.clients import answers_of, connection_pair
from tests.server.raw_host import RawHost, spawned

pytestmark = pytest.mark.anyio

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
PROGRAM = Path(__file__).with_name("stdio_program.py")


ECHO = ServedTool("echo", lambda arguments, call: json.dumps([arguments, call.peer.transport, call.peer.client]))


@asynccontextmanager
async def serving(*capabilities: Any, peer: Peer | None = None, **options: Any) -> AsyncIterator[RawHost]:
    async with connection_pair() as (client, connection), anyio.create_task_group() as tasks:
        endpoint = ConnectionEndpoint(connection, peer=peer)
        ready = anyio.Event()
        tasks.start_soon(endpoint.run, answers_of(*(capabilities or (ECHO,)), **options), ready.set)
        await ready.wait()
        yield client
        await endpoint.stop()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.spec("R-mcpserve-1")
async def test_the_handshake_agrees_on_each_version_of_its_era(version: str) -> None:
    async with serving() as client:
        assert await client.initialize(mcpl=False, version=version) == {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "unit", "version": "1.2.3"},
        }
        assert [tool["name"] for tool in (await client.result("tools/list"))["tools"]] == ["echo"]


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", ""])
async def test_a_version_of_another_era_gets_the_newest_of_this(version: str) -> None:
    async with serving(instructions="Add.") as client:
        result = await client.initialize(mcpl=False, version=version)
        assert (result["protocolVersion"], result["instructions"]) == ("2025-11-25", "Add.")


@pytest.mark.spec("R-mcpserve-1")
async def test_the_handshake_comes_first_and_once() -> None:
    async with serving() as client:
        assert await client.result("ping") == {}
        assert (await client.error("tools/list"))["code"] == -32600
        # A client that tries the other era first falls back on this.
        assert (await client.error("server/discover", {"_meta": {}}))["code"] == -32601
        assert (await client.error("initialize", {"capabilities": {}}))["code"] == -32602
        await client.initialize(mcpl=False)
        assert (await client.error("initialize", {"protocolVersion": "2025-11-25"}))["code"] == -32600
        assert (await client.error("tools/list", [1]))["code"] == -32602
        assert (await client.error("resources/list"))["code"] == -32601
        await client.notify("notifications/whatever")
        assert await client.result("ping") == {}


async def test_what_comes_right_behind_the_handshake_comes_after_it() -> None:
    async with serving() as client:
        hello = client.request("initialize", {"protocolVersion": "2025-11-25"})
        listing = client.request("tools/list")
        await client.send(hello, listing)
        assert [tool["name"] for tool in (await client.answer(listing["id"]))["result"]["tools"]] == ["echo"]


async def test_a_call_knows_who_calls() -> None:
    async with serving(peer=Peer("ann")) as client:
        await client.initialize(mcpl=False)
        result = await client.tool("echo", {"a": 1})
        assert json.loads(result["content"][0]["text"]) == [{"a": 1}, "connection", {"name": "raw", "version": "1"}]
        params = {"name": "echo", "arguments": [None]}
        assert json.loads((await client.result("tools/call", params))["content"][0]["text"])[0] == [None]


async def test_all_three_kinds_are_served() -> None:
    resource = Resource("r", "mem://r", lambda uri, variables: "text")
    async with serving(ECHO, resource, Prompt("p", lambda arguments: "hi")) as client:
        capabilities = (await client.initialize(mcpl=False))["capabilities"]
        assert capabilities == {"tools": {}, "resources": {}, "prompts": {}}
        assert (await client.result("resources/read", {"uri": "mem://r"}))["contents"][0]["text"] == "text"
        assert (await client.error("resources/read", {"uri": "mem://x"}))["code"] == -32002
        assert (await client.result("prompts/get", {"name": "p"}))["messages"][0]["role"] == "user"
        assert (await client.error("prompts/get", {"name": "x"}))["code"] == -32602


async def test_cancelling_reaches_the_tool_and_progress_the_client() -> None:
    cancelled = anyio.Event()

    async def run(arguments: Any, call: ToolCall) -> str:
        await call.report_progress(0.5)
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return "over"

    async with serving(ServedTool("wait", run)) as client:
        await client.initialize(mcpl=False)
        request = client.request("tools/call", {"name": "wait", "_meta": {"progressToken": "p"}})
        await client.send(request)
        heard = await client.next("notifications/progress")
        assert heard["params"] == {"progressToken": "p", "progress": 0.5}
        await client.notify("notifications/cancelled", {"requestId": request["id"]})
        await cancelled.wait()
        assert await client.result("ping") == {}
        assert request["id"] not in client.answers


async def test_messages_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    began = anyio.Event()

    async def wait(arguments: Any, call: ToolCall) -> None:
        began.set()
        await anyio.sleep_forever()

    answers = answers_of(ServedTool("wait", wait))
    answers.runner = CallRunner(MiddlewareChain(), Caller(1))
    async with connection_pair() as (client, connection), anyio.create_task_group() as tasks:
        endpoint = ConnectionEndpoint(connection)
        ready = anyio.Event()
        tasks.start_soon(endpoint.run, answers, ready.set)
        await ready.wait()
        await client.initialize(mcpl=False)
        request = client.request("tools/call", {"name": "wait", "arguments": {"key": "CANARY"}})
        await client.send(request)
        await began.wait()
        await client.send(request)
        await client.wire.send_text('{"jsonrpc": "2.0", "method": "CANARY')
        assert await client.result("ping") == {}
        await endpoint.stop()
    assert len(caplog.records) >= 2
    assert "CANARY" not in caplog.text


def test_a_client_without_a_name_has_none() -> None:
    handshake = Handshake(answers_of(ECHO))
    handshake.initialize({"protocolVersion": "2025-11-25"})
    assert handshake.client is None


async def test_standard_input_and_output_stay_the_protocols() -> None:
    async with spawned(str(PROGRAM)) as (client, process):
        await client.initialize(mcpl=False)
        result = await client.tool("noisy")
        assert result["content"][0]["text"] == "done"
        assert (await client.tool("fails"))["isError"] is True
        assert (await client.tool("noisy"))["content"][0]["text"] == "done"
        assert process.stdin is not None
        await process.stdin.aclose()
        assert await process.wait() == 0
