"""A plain MCP server, made with the official SDK, under our host."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from mcpl_core.grants import GrantState
from mcpl_core.host import HostPolicy, McplHost

pytest.importorskip("mcp")
pytestmark = pytest.mark.anyio

SERVER = Path(__file__).resolve().parent / "sdk_server.py"


@pytest.mark.spec("RFC4-6-2")
async def test_a_server_of_the_official_sdk_simply_works() -> None:
    with anyio.fail_after(30):
        async with McplHost("h", "1", policy=HostPolicy.allow("tools", "pushEvents")) as host:
            server = await host.add("sdk", [sys.executable, str(SERVER)])
            assert (server.mode, server.grant) == ("mcp-only", GrantState())
            assert server.session.info == {"name": "sdk", "version": "1.0.0"}
            assert (server.session.protocol_version, server.session.instructions) == ("2025-11-25", "Add numbers.")

            tools = {tool.name: tool.definition for tool in await host.tools()}
            assert list(tools) == ["sdk__add", "sdk__fail"]
            assert tools["sdk__add"]["inputSchema"]["required"] == ["a", "b"]
            added = await host.call_tool("sdk__add", {"a": 1, "b": 2})
            assert (added.text, added.structured_content, added.is_error) == ("3", {"result": 3}, False)
            assert (await host.call_tool("sdk__fail")).is_error

            async with host.inference(conversation_id="c") as inference:
                assert (await inference.before("hello")).items == ()
            # It was asked nothing that MCP does not know, or it would have answered with an error.
            assert server.session.connection.stats.malformed == 0
        assert server.state == "closed"
