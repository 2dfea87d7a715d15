"""The client that the suite @modelcontextprotocol/conformance starts, with the URL as its last argument."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio

from mcpl_core.mcp import HttpTransport, mcp_client


def answer_with_defaults(params: Any) -> dict[str, Any]:
    """Says yes to whatever is asked, with the defaults of the form."""
    properties = params["requestedSchema"]["properties"]
    content = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return {"action": "accept", "content": content}


async def main(scenario: str, url: str) -> None:
    handlers = {"elicitation/create": answer_with_defaults} if scenario.startswith("elicitation") else None
    async with mcp_client("conformance", transport=HttpTransport(url), handlers=handlers, era="handshake") as client:
        tools = await client.tools()
        if scenario == "tools_call":
            await client.call("add_numbers", {"a": 5, "b": 3})
        elif scenario != "initialize":
            await client.call(tools[0].name, {})


if __name__ == "__main__":
    anyio.run(main, os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1])
