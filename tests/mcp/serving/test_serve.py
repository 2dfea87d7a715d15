"""Serving a list of tools: what is refused, the handle, and the official SDK as the client."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import mcpl_core.mcp
import mcpl_core.mcp.serving as serving
from mcpl_core.errors import LocalProtocolError, TransportError
from mcpl_core.mcp.serving import (
    FunctionTool,
    ListeningHandle,
    Resource,
    ServedTool,
    ServingHandle,
    ServingRefusedError,
    serve_tools,
)
from tests.mcp.serving.clients import LIMIT, connection_pair

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).with_name("stdio_program.py")


def first(text: str) -> str:
    """First."""
    return text


SECOND = ServedTool("second", lambda arguments, call: "2")


@pytest.mark.parametrize(
    ("tools", "options", "code", "names"),
    [
        ([], {}, "no-tools", ()),
        ([first, SECOND, ServedTool("first", SECOND.execute)], {}, "duplicate-name", ("first",)),
        ([ServedTool("t", SECOND.execute, requires_consent=True)], {}, "needs-consent", ("t",)),
        ([ServedTool("t", SECOND.execute, needs=("mail",))], {}, "no-credentials", ("t",)),
        ([object()], {}, "not-a-tool", ()),
    ],
)
def test_tools_that_cannot_be_served_are_refused_at_construction(
    tools: Any, options: Any, code: str, names: tuple[str, ...]
) -> None:
    with pytest.raises(ServingRefusedError) as refused:
        serve_tools(tools, **options)
    assert (refused.value.code, refused.value.tools) == (code, names)


async def test_the_handle_says_what_there_is() -> None:
    async with connection_pair() as (client, connection):
        async with serve_tools([SECOND, first], connection) as handle:
            assert (handle.name, handle.tool_names) == ("mcp-live-core", ("second", "first"))
            assert not hasattr(handle, "port")
            assert not hasattr(handle, "address")
            # The very objects that were handed over.
            assert handle.tools[0] is SECOND
            assert isinstance(handle.tools[1], FunctionTool)
            assert handle.tools[1].function is first
            hello = await client.initialize(mcpl=False)
            assert hello["serverInfo"] == {"name": "mcp-live-core", "version": "0.0.0"}
            assert [tool["name"] for tool in (await client.result("tools/list"))["tools"]] == ["second", "first"]
            await handle.close()
            await handle.close()
            await handle.wait_closed()


async def test_what_listens_has_an_address() -> None:
    with anyio.fail_after(LIMIT):
        async with serve_tools([first], "websocket", port=0, name="n", version="2") as handle:
            assert isinstance(handle, ListeningHandle)
            assert handle.address == ("127.0.0.1", handle.port)
            with pytest.raises(TransportError):
                async with serve_tools([first], "websocket", port=handle.port):
                    pass


async def test_resources_are_served_beside_the_tools() -> None:
    resource = Resource("r", "mem://r", lambda uri, variables: "text")
    async with connection_pair() as (client, connection):
        async with serve_tools([first], connection, resources=[resource], instructions="Read."):
            hello = await client.initialize(mcpl=False)
            assert (hello["capabilities"], hello["instructions"]) == ({"tools": {}, "resources": {}}, "Read.")


async def test_a_call_passes_the_middleware_that_was_given() -> None:
    def nobody(call: Any) -> Any:
        return serving.Deny("closed today")

    async with connection_pair() as (client, connection):
        async with serve_tools([first], connection, middleware=[nobody]):
            await client.initialize(mcpl=False)
            result = await client.tool("first", {"text": "x"})
            assert result["isError"] is True
            assert "closed today" in result["content"][0]["text"]


def test_the_public_names() -> None:
    assert set(serving.__all__) >= {
        "McpToolServer",
        "McpTransport",
        "adapt_tools",
        "create_mcp_runtime",
        "http_transport",
        "project_tool_definition",
        "serve_tools",
        "stdio_transport",
        "websocket_transport",
    }
    assert set(serving.__all__) <= set(mcpl_core.mcp.__all__)
    assert issubclass(ListeningHandle, ServingHandle)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_over_standard_input_and_output(mode: Any) -> None:
    sdk = pytest.importorskip("mcp.client")
    stdio = pytest.importorskip("mcp.client.stdio")
    parameters = stdio.StdioServerParameters(command=sys.executable, args=[str(PROGRAM)])
    with anyio.fail_after(20):
        async with sdk.Client(stdio.stdio_client(parameters), mode=mode) as client:
            assert (client.protocol_version, client.server_info.name) == ("2025-11-25", "program")
            assert [tool.name for tool in (await client.list_tools()).tools] == ["noisy", "fails"]
            assert (await client.call_tool("noisy", {})).content[0].text == "done"
            assert (await client.call_tool("fails", {})).is_error is True
            assert (await client.call_tool("none", {})).is_error is True


@pytest.mark.parametrize("option", ["resources", "prompts"])
def test_what_stands_beside_the_tools_is_what_it_is_said_to_be(option: str) -> None:
    with pytest.raises(LocalProtocolError):
        serve_tools([first], **{option: [first]})  # type: ignore[call-overload]
