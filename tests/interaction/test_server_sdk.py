"""The official MCP SDK as the host of a server, over standard input and output."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

mcp = pytest.importorskip("mcp")
stdio = pytest.importorskip("mcp.client.stdio")

pytestmark = pytest.mark.anyio

KITCHEN = Path(__file__).resolve().parent.parent / "server" / "kitchen.py"


@asynccontextmanager
async def session() -> AsyncIterator[Any]:
    parameters = mcp.StdioServerParameters(command=sys.executable, args=[str(KITCHEN)])
    with anyio.fail_after(20):
        async with stdio.stdio_client(parameters) as (read, write), mcp.ClientSession(read, write) as made:
            yield made


async def test_from_the_handshake_to_a_tool_error() -> None:
    async with session() as client:
        hello = await client.initialize()
        assert (hello.server_info.name, hello.protocol_version) == ("kitchen", "2025-11-25")
        assert hello.capabilities.tools.list_changed is True
        assert hello.capabilities.experimental["mcpl"]["version"] == "0.5"
        await client.send_ping()

        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["add"].description == "Adds two numbers."
        assert tools["add"].input_schema["required"] == ["a"]
        assert tools["add"].output_schema["type"] == "object"

        # The SDK checks structured content against the output schema.
        assert (await client.call_tool("add", {"a": 2, "b": 3})).structured_content == {"result": 5}
        assert (await client.call_tool("thread", {})).content[0].text == "beside"

        for name, arguments, says in (
            ("fail", {}, "no luck"),
            ("add", {"a": "two"}, "$.a"),
            ("push", {"text": "x"}, "pushEvents"),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error is True
            assert says in result.content[0].text

        with pytest.raises(mcp.MCPError) as caught:
            await client.call_tool("none", {})
        assert caught.value.error.code == -32602
        with pytest.raises(mcp.MCPError) as caught:
            await client.list_resources()
        assert caught.value.error.code == -32601


async def test_a_call_that_its_host_gives_up_costs_the_next_one_nothing() -> None:
    async with session() as client:
        await client.initialize()
        with anyio.move_on_after(0.2) as scope:
            await client.call_tool("wait", {})
        assert scope.cancelled_caught
        assert (await client.call_tool("add", {"a": 1})).structured_content == {"result": 2}
