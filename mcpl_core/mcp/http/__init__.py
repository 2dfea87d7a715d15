"""MCP servers over Streamable HTTP, in both protocol eras."""

__all__ = ()
