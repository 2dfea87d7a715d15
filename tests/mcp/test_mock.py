"""A client without a server."""

from __future__ import annotations

import inspect
from typing import Any

import anyio
import pytest

from mcpl_core.errors import ConnectionClosedError, ConnectionTimeoutError, MethodNotFound
from mcpl_core.mcp.client import McpClient
from mcpl_core.mcp.connecting import mcp_client
from mcpl_core.mcp.errors import McpOutputMismatchError, McpToolError
from mcpl_core.mcp.mock import MockSession, mock_mcp_client
from tests.mcp.peers import FakeServer, served, text

pytestmark = pytest.mark.anyio


async def use(client: McpClient) -> list[Any]:
    """What stands on a client, whichever it is."""
    async with client:
        (tool,) = await client.tools()
        return [tool.name, tool.source, await client.call("echo", {"a": 1}), await tool(), client.is_closed]


async def test_it_can_take_the_place_of_a_client() -> None:
    mock = await use(mock_mcp_client("files", ["echo"]))
    assert mock == ["echo", "files", "[mock result]", "[mock result]", False]
    server = FakeServer(call=lambda params: text("[mock result]"))
    async with served(server):
        assert await use(mcp_client("files", transport=server.connect)) == mock


async def test_handlers_say_what_tools_do() -> None:
    async def handle(tool: str, arguments: dict[str, Any]) -> Any:
        return text("no", isError=True) if tool == "fails" else f"{tool} {arguments}"

    session = MockSession(["echo", {"name": "fails", "description": "Never works"}], handle)
    async with mcp_client(session=session) as client:
        assert await client.call("echo", {"a": 1}) == "echo {'a': 1}"
        with pytest.raises(McpToolError):
            await client.call("fails")
    assert session.calls == [("echo", {"a": 1}), ("fails", {})]


async def test_it_checks_and_names_as_the_real_one() -> None:
    tool = {"name": "echo", "outputSchema": {"type": "object"}}
    async with mock_mcp_client("m", [tool], prefix="p", result_mode="structured") as client:
        with pytest.raises(McpOutputMismatchError):
            await client.call("p__echo")


async def test_notifications_are_pushed() -> None:
    heard: list[Any] = []
    session = MockSession()
    remove = session.on_notification(lambda method, params: heard.append((method, params)))
    session.push("x/y", {"a": 1})
    remove()
    remove()
    session.push("x/y")
    await session.notify("x/y")
    assert heard == [("x/y", {"a": 1})]


async def test_other_methods_and_the_end() -> None:
    session = MockSession()
    with pytest.raises(MethodNotFound):
        await session.request("prompts/list")
    async with mcp_client(session=session) as client:
        assert (await client.terminate()).kind == "no-session"
    with pytest.raises(ConnectionClosedError):
        await session.request("tools/list")


def test_it_takes_what_clients_take() -> None:
    assert inspect.signature(mock_mcp_client).parameters["options"].kind is inspect.Parameter.VAR_KEYWORD


@pytest.mark.parametrize("options", [{"timeout": 0.0}, {"timeout": None, "max_total": 0.0}])
async def test_a_handler_that_takes_forever_is_waited_for_as_long_as_a_server(options: Any) -> None:
    async def handle(tool: str, arguments: dict[str, Any]) -> Any:
        await anyio.sleep_forever()

    async with mock_mcp_client("m", ["slow"], handle) as client:
        with pytest.raises(ConnectionTimeoutError):
            await client.call("slow", meta={"a": 1}, **options)
