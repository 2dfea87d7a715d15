"""Tools of one server served on by another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec import UNSET

from mcpl_core import McplConnection
from mcpl_core.errors import RpcError
from mcpl_core.mcp import McpClient, McpToolError, mcp_client
from mcpl_core.mcp.results import McpAnswer
from mcpl_core.mcp.serving import ForwardedTool, ServedTool, ToolCall, forward_tools, serve_tools
from mcpl_core.server.results import ToolResult
from tests.mcp.serving.clients import LIMIT, connection_pair
from tests.server.raw_host import RawHost

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"a": {"x-odd": [None]}}}


def full(arguments: Any, call: ToolCall) -> ToolResult:
    content = [{"type": "text", "text": str(call.time)}, {"type": "image", "data": "AA==", "mimeType": "image/png"}]
    return ToolResult(content, structured={"given": arguments}, meta={"m": 1})


def fails(arguments: Any, call: ToolCall) -> ToolResult:
    return ToolResult("no luck", structured={"why": "rain"}, is_error=True)


async def steps(arguments: Any, call: ToolCall) -> str:
    for step in (1, 2, 3):
        await call.report_progress(step, 3, f"step {step}")
    return "done"


FULL = ServedTool("full", full, "All of it", SCHEMA, title="Full", annotations={"readOnlyHint": True}, meta={"d": 1})


@asynccontextmanager
async def behind(*tools: ServedTool, prefix: str | None = None) -> AsyncIterator[tuple[RawHost, McpClient]]:
    """A raw client of a server that forwards to another."""
    near, far = McplConnection.memory_pair()
    with anyio.fail_after(LIMIT):
        async with serve_tools(tools, far), mcp_client("inner", transport=lambda: near, prefix=prefix) as inner:
            async with connection_pair() as (client, connection):
                async with serve_tools(forward_tools(inner, await inner.tools()), connection):
                    await client.initialize(mcpl=False)
                    yield client, inner


async def test_definitions_are_passed_on_as_they_came() -> None:
    async with behind(FULL) as (client, inner):
        (listed,) = (await client.result("tools/list"))["tools"]
        assert listed == {
            "name": "full",
            "title": "Full",
            "description": "All of it",
            "inputSchema": SCHEMA,
            "annotations": {"readOnlyHint": True},
            "_meta": {"d": 1},
        }
        (tool,) = forward_tools(inner, await inner.tools())
        assert isinstance(tool, ForwardedTool)
        assert tool.tool is (await inner.tools())[0]


async def test_a_name_is_the_clients() -> None:
    async with behind(FULL, prefix="in") as (client, _):
        assert [tool["name"] for tool in (await client.result("tools/list"))["tools"]] == ["in__full"]
        assert "isError" not in await client.tool("in__full")


async def test_results_failures_and_the_time_are_passed_on() -> None:
    async with behind(FULL, ServedTool("fails", fails)) as (client, _):
        assert await client.tool("full", {"a": 1}, _meta={"mcpl/time": "noon"}) == {
            "content": [
                {"type": "text", "text": "noon"},
                {"type": "image", "data": "AA==", "mimeType": "image/png"},
            ],
            "structuredContent": {"given": {"a": 1}},
            "_meta": {"m": 1},
        }
        assert (await client.tool("full"))["content"][0]["text"] == "None"
        assert await client.tool("fails") == {
            "content": [{"type": "text", "text": "no luck"}],
            "structuredContent": {"why": "rain"},
            "isError": True,
        }


async def test_progress_is_passed_on() -> None:
    async with behind(ServedTool("steps", steps)) as (client, _):
        result = await client.tool("steps", {}, _meta={"progressToken": "p"})
        assert result["content"][0]["text"] == "done"
        heard = [message["params"] for message in client.heard]
        assert [params["progress"] for params in heard] == [1, 2, 3]
        assert heard[-1] == {"progressToken": "p", "progress": 3, "total": 3, "message": "step 3"}


async def test_cancelling_is_passed_on() -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def wait(arguments: Any, call: ToolCall) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with behind(ServedTool("wait", wait)) as (client, _):
        request = client.request("tools/call", {"name": "wait"})
        await client.send(request)
        await began.wait()
        await client.notify("notifications/cancelled", {"requestId": request["id"]})
        await ended.wait()


class _Answering:
    """A client that answers what it is told to."""

    def __init__(self, outcome: Any, progress: list[dict[str, Any]] | None = None) -> None:
        self.outcome = outcome
        self.progress = progress or []

    async def answer(self, tool: Any, arguments: Any, *, on_progress: Any, **more: Any) -> Any:
        for params in self.progress:
            on_progress(params)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


async def forwarded(outcome: Any, progress: list[dict[str, Any]] | None = None) -> tuple[ToolResult, list[Any]]:
    async with behind(FULL) as (_, inner):
        (known,) = await inner.tools()
    sent: list[Any] = []

    async def notify(method: str, params: dict[str, Any]) -> None:
        sent.append(params)

    tool = ForwardedTool(_Answering(outcome, progress), known)  # type: ignore[arg-type]
    return await tool.execute({}, ToolCall(tool, meta={"progressToken": 1}, _notify=notify)), sent


async def test_what_the_client_raises_comes_out_as_itself() -> None:
    error = RpcError(-32000, "gone")
    with pytest.raises(RpcError) as raised:
        await forwarded(error)
    assert raised.value is error


async def test_the_first_shape_of_results_and_failures_without_one_are_texts() -> None:
    legacy, _ = await forwarded(McpAnswer("seven", {"toolResult": "seven"}))
    assert (legacy.content, legacy.is_error) == ("seven", False)
    failed, _ = await forwarded(McpToolError("inner", "full", "broken"))
    assert (failed.content, failed.is_error) == ("broken", True)
    structured, _ = await forwarded(McpAnswer({"a": 1}, {"structuredContent": [1]}))
    assert (structured.content, structured.structured) == ((), UNSET)


async def test_progress_that_makes_no_sense_or_comes_too_fast_is_dropped() -> None:
    odd: list[dict[str, Any]] = [{"progress": "half"}, {"progress": 1, "total": "all", "message": 3}]
    _, sent = await forwarded(McpAnswer("", {}), odd + [{"progress": step} for step in range(2, 200)])
    assert sent[0] == {"progressToken": 1, "progress": 1}
    assert 1 < len(sent) < 100
