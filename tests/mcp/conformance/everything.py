"""Our client against npm's @modelcontextprotocol/server-everything, over standard input and output.

Usage: ``everything.py COMMAND...``, the command that starts it.
"""

from __future__ import annotations

import sys

import anyio

from mcpl_core.mcp import McpToolError, StdioTransport, mcp_client


async def main(command: list[str]) -> None:
    with anyio.fail_after(60):
        async with mcp_client("everything", transport=StdioTransport(command)) as client:
            names = {tool.name for tool in await client.tools()}
            assert {"echo", "get-sum"} <= names, names
            said = await client.call("echo", {"message": "hello"})
            assert "hello" in str(said), said
            summed = await client.call("get-sum", {"a": 2, "b": 3})
            assert "5" in str(summed), summed
            progress: list[object] = []
            await client.call(
                "trigger-long-running-operation", {"duration": 1, "steps": 4}, on_progress=progress.append
            )
            assert len(progress) == 4, progress
            try:
                await client.call("get-sum", {"a": "two"})
            except McpToolError:
                pass
            else:
                raise AssertionError("a call with wrong arguments went through")
    print(f"everything: {len(names)} tools listed, echo, sum, progress and a refusal as they should be")  # noqa: T201


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
