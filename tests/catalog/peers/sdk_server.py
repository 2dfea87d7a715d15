"""A server of the official SDK on standard input and output, for tests of catalogs.

It lists the tools that the fixtures call, over two pages, and answers with their results. Into the file that is its
argument it writes a line for what it did: ``call NAME``, ``cancelled``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

FIXTURES: dict[str, Any] = json.loads((Path(__file__).parent.parent / "fixtures" / "cases.json").read_bytes())
#: What a server of the SDK can answer with.
CASES = {
    case["name"]: case for case in FIXTURES["calls"] if "result" in case and case.get("code") != "mcp_result_invalid"
}


def say(text: str) -> None:
    with open(sys.argv[1], "a") as file:
        file.write(text + "\n")


async def list_tools(context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    def listed(name: str, case: dict[str, Any]) -> types.Tool:
        return types.Tool(
            name=name,
            description=f"Case {name}",
            input_schema=FIXTURES["input"],
            output_schema=FIXTURES["output"] if case.get("output") else None,
            annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
        )

    if params is None or params.cursor is None:
        exotic = types.Tool(name="exotic", input_schema={"type": "object", "$defs": {}, "$ref": "#"})
        return types.ListToolsResult(tools=[exotic], next_cursor="more")
    tools = [listed(name, case) for name, case in CASES.items()]
    return types.ListToolsResult(tools=[*tools, types.Tool(name="silent", input_schema={"type": "object"})])


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    say(f"call {params.name}")
    if params.name == "silent":
        try:
            await anyio.sleep_forever()
        finally:
            say("cancelled")
    return types.CallToolResult.model_validate(CASES[params.name]["result"])


async def main() -> None:
    server = Server("fixtures", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
