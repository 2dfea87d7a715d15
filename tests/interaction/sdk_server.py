"""A plain MCP server made with the official SDK, for a host to embed as a child process."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("sdk", version="1.0.0", instructions="Add numbers.")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no luck")


if __name__ == "__main__":
    server.run("stdio")
