"""The client that the suite @modelcontextprotocol/conformance starts, with the URL as its last argument."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Literal

import anyio

from mcpl_core.mcp import HttpTransport, McpClient, McpTool, mcp_client

#: Scenarios in which looking is all.
LISTING = ("initialize", "request-metadata", "json-schema-ref-no-deref")
MODERN = "2026-07-28"


def answer_with_defaults(params: Any) -> dict[str, Any]:
    """Says yes to whatever is asked, with the defaults of the form."""
    properties = params["requestedSchema"]["properties"]
    content = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return {"action": "accept", "content": content}


async def call(client: McpClient, scenario: str, tools: list[McpTool], told: dict[str, Any]) -> None:
    """Calls what the scenario wants to see called."""
    if "toolCalls" in told:
        for each in told["toolCalls"]:
            await client.call(each["name"], each["arguments"])
    elif scenario == "tools_call":
        await client.call("add_numbers", {"a": 5, "b": 3})
    elif scenario == "json-schema-2020-12-preservation":
        schemas = {tool.tool: tool.input_schema for tool in tools}
        await client.call("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})
    elif scenario == "sep-2322-client-request-state":
        for tool in tools:
            await client.call(tool, {})
    elif scenario not in LISTING:
        await client.call(tools[0], {})


async def main(scenario: str, url: str) -> None:
    asks = scenario.startswith(("elicitation", "sep-2322", "request-metadata"))
    handlers = {"elicitation/create": answer_with_defaults} if asks else None
    modern = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") == MODERN
    told = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    era: Literal["auto", "handshake"] = "auto" if modern else "handshake"
    async with mcp_client("conformance", transport=HttpTransport(url), handlers=handlers, era=era) as client:
        await call(client, scenario, await client.tools(), told)


if __name__ == "__main__":
    anyio.run(main, os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1])
