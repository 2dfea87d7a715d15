"""MCPL (MCP Live) for Python."""
