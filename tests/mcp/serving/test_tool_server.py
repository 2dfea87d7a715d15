"""One class: constructed, started, stopped; and the same surface in process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from mcpl_core import __version__
from mcpl_core.errors import LocalProtocolError
from mcpl_core.mcp.serving import (
    McpRuntime,
    McpToolServer,
    Prompt,
    Resource,
    ServedTool,
    ServingRefusedError,
    ToolDefinition,
)
from tests.mcp.serving.clients import LIMIT, connection_pair

pytestmark = pytest.mark.anyio


@dataclass
class Runtime:
    tools: Any


def executor(definition: Any, arguments: Any, call: Any) -> dict[str, Any]:
    return {"success": True, "output": f"{definition.name} ran for {call.peer.principal}"}


TWO = Runtime([ToolDefinition("b"), ToolDefinition("a", "First", entry_point=True, tier=3)])


def text(result: dict[str, Any]) -> str:
    said: str = result["content"][0]["text"]
    return said


async def test_a_registry_is_listed_and_called_in_process() -> None:
    server = McpToolServer(TWO, executor=executor)
    assert server.list_tools() == [
        {"name": "a", "description": "First", "inputSchema": {"type": "object", "properties": {}}},
        {"name": "b", "inputSchema": {"type": "object", "properties": {}}},
    ]
    assert await server.call_tool("b", {}) == {"content": [{"type": "text", "text": "b ran for local"}]}
    unknown = await server.call_tool("c")
    assert unknown["isError"] is True
    assert "a, b" in text(unknown)


async def test_without_an_executor_or_a_runtime_calls_say_so() -> None:
    result = await McpToolServer(TWO).call_tool("a")
    assert result["structuredContent"]["error"]["code"] == "no-executor"
    assert McpToolServer().list_tools() == []
    assert (await McpToolServer().call_tool("a"))["isError"] is True


def test_who_it_is_unless_it_is_told() -> None:
    assert McpToolServer().identity.info == {"name": "mcp-live-core", "version": __version__}


@pytest.mark.spec("R-mcpserve-12")
def test_projection_is_automatic_or_not_and_bounded() -> None:
    assert McpToolServer(TWO, auto_adapt_tools=False).list_tools() == []
    many = Runtime([ToolDefinition(f"t{index:03}") for index in range(101)])
    server = McpToolServer(many)
    assert len(server.list_tools()) == 100
    # The bound is on what is projected.
    server.register(ServedTool("own", lambda arguments, call: None))
    assert len(server.list_tools()) == 101
    assert len(McpToolServer(many, max_tools=3).list_tools()) == 3


async def test_what_is_registered_by_hand_wins_and_keeps_the_place() -> None:
    server = McpToolServer(TWO, executor=executor)

    def a() -> str:
        """By hand."""
        return "by hand"

    server.register(a)
    server.register_tool(ServedTool("z", lambda arguments, call: "z"))
    assert [tool["name"] for tool in server.list_tools()] == ["a", "b", "z"]
    assert server.list_tools()[0]["description"] == "By hand."
    assert text(await server.call_tool("a")) == "by hand"

    # It also wins over a runtime that comes later.
    server.register_session("s", TWO)
    assert text(await server.call_tool("a", session="s")) == "by hand"
    assert text(await server.call_tool("b", session="s")) == "b ran for local"


async def test_a_ledger_is_a_runtime_too_and_lives() -> None:
    ledger = McpRuntime(Resource("r", "mem://r", lambda uri, variables: "under"))
    server = McpToolServer(ledger)
    assert server.list_tools() == []
    ledger.register_capability(ServedTool("late", lambda arguments, call: "late"))
    server.register(Prompt("p", lambda arguments: "hi"))
    server.register(Resource("r", "mem://r", lambda uri, variables: "over"))
    assert text(await server.call_tool("late")) == "late"
    async with connection_pair() as (client, connection), server:
        await server.start(connection)
        capabilities = (await client.initialize(mcpl=False))["capabilities"]
        assert capabilities == {"tools": {}, "resources": {}, "prompts": {}}
        assert (await client.result("resources/read", {"uri": "mem://r"}))["contents"][0]["text"] == "over"


async def test_over_a_transport_it_is_what_it_is_in_process() -> None:
    async with connection_pair() as (client, connection), McpToolServer(TWO, executor=executor) as server:
        await server.start(connection)
        await client.initialize(mcpl=False)
        assert (await client.result("tools/list"))["tools"] == server.list_tools()
        assert await client.tool("a") == await server.call_tool("a")


async def test_it_is_started_once_and_stopped_as_often_as_one_likes() -> None:
    server = McpToolServer(TWO)
    await server.stop()
    with pytest.raises(LocalProtocolError):
        async with connection_pair() as (_, connection):
            await server.start(connection)
    async with connection_pair() as (client, connection), server:
        await server.start(connection)
        with pytest.raises(LocalProtocolError):
            await server.start("websocket", port=0)
        await client.initialize(mcpl=False)
        assert await client.result("ping") == {}
        for _ in range(3):
            await server.stop()
        await server.wait()
    await server.stop()


async def test_it_waits_for_its_only_client() -> None:
    async with connection_pair() as (client, connection), McpToolServer(TWO) as server:
        await server.start(connection)
        await client.initialize(mcpl=False)
        await client.wire.aclose()
        await server.wait()


@pytest.mark.parametrize(
    ("more", "code"), [({"needs": ("mail",)}, "no-credentials"), ({"requires_consent": True}, "needs-consent")]
)
async def test_tools_that_could_never_run_are_refused_at_the_start(more: Any, code: str) -> None:
    server = McpToolServer()
    server.register(ServedTool("t", lambda arguments, call: "ran", **more))
    async with connection_pair() as (_, connection), server:
        with pytest.raises(ServingRefusedError) as refused:
            await server.start(connection)
    assert (refused.value.code, refused.value.tools) == (code, ("t",))
    later = McpToolServer()
    later.register_session("s", McpRuntime(ServedTool("of_s", lambda arguments, call: "ran", **more)))
    async with connection_pair() as (_, connection), later:
        with pytest.raises(ServingRefusedError) as refused:
            await later.start(connection)
    assert (refused.value.code, refused.value.tools) == (code, ("of_s",))
    assert (await server.call_tool("t"))["isError"] is True


def test_sessions_are_registered_found_listed_and_forgotten() -> None:
    server = McpToolServer(TWO)
    server.register_session("s", Runtime([]), tenant_id="acme")
    server.register_session("s", TWO)
    found = server.get_session("s")
    assert found is not None
    assert (found.runtime, found.tenant_id) == (TWO, None)
    assert server.list_sessions() == (found,)
    assert server.unregister_session("s") is True
    assert server.unregister_session("s") is False
    assert server.get_session("s") is None
    with pytest.raises(LocalProtocolError):
        server.list_tools(session="s")
    assert len(server.list_tools()) == 2


@pytest.mark.spec("R-mcpserve-11")
async def test_callers_are_served_their_own_runtime_or_nothing() -> None:
    def runtime(name: str) -> Runtime:
        return Runtime([ToolDefinition(name)])

    seen: list[Any] = []

    def resolver(peer: Any) -> Any:
        seen.append(peer)
        return peer.principal

    server = McpToolServer(TWO, executor=executor, resolver=resolver)
    server.register_session("one", runtime("of_one"), tenant_id="ann")
    server.register_session("two", runtime("of_two"), tenant_id="bob")

    def authenticate(request: Any) -> Any:
        return request.token

    from mcpl_core import McplConnection
    from mcpl_core.mcp.serving import websocket_transport

    endpoint = websocket_transport(0, authenticate=authenticate)
    names: dict[str, Any] = {}
    with anyio.fail_after(LIMIT):
        async with server:
            await server.start(endpoint)
            for principal in ("ann", "bob", "eve", "ann"):
                headers = {"Authorization": f"Bearer {principal}"}
                url = f"ws://127.0.0.1:{endpoint.port}/mcp"
                async with McplConnection.connect(url, transport_options={"headers": headers}) as client:
                    await client.send_request("initialize", {"protocolVersion": "2025-11-25"})
                    try:
                        names[principal] = (await client.send_request("tools/list"))["tools"][0]["name"]
                    except Exception as error:
                        names[principal] = (error.code, error.data)  # type: ignore[attr-defined]
    assert names == {"ann": "of_one", "bob": "of_two", "eve": (-32600, {"reason": "unresolved_tenant"})}
    assert {peer.transport for peer in seen} == {"websocket"}


async def test_sessions_without_a_resolver_leave_nobody_the_default() -> None:
    server = McpToolServer(TWO)
    server.register_session("one", Runtime([ToolDefinition("of_one")]))
    async with connection_pair() as (client, connection), server:
        await server.start(connection)
        await client.initialize(mcpl=False)
        assert (await client.error("tools/list"))["data"] == {"reason": "unresolved_tenant"}
        assert (await client.error("tools/call", {"name": "a"}))["data"] == {"reason": "unresolved_tenant"}
        server.unregister_session("one")
        assert len((await client.result("tools/list"))["tools"]) == 2


async def test_middleware_and_credentials_hold_in_process_too() -> None:
    log: list[str] = []

    def guard(call: Any) -> None:
        log.append(call.name)

    async def provider(request: Any) -> str:
        return f"key of {request.service}"

    server = McpToolServer(middleware=[guard], credentials=provider)
    server.register(ServedTool("t", lambda arguments, call: dict(call.credentials), needs=("mail",)))
    assert json.loads(text(await server.call_tool("t"))) == {"mail": "key of mail"}
    assert log == ["t"]
