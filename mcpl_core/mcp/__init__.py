"""MCP in both directions: the tools of any MCP server as local tools, and local tools as an MCP server.

Needs no optional library by itself. What does (Streamable HTTP, checking output schemas) says so once, when it is
constructed: ``pip install 'mcp-live-core[mcp]'``.
"""

from .errors import (
    ConsentRequiredError,
    CredentialsUnavailableError,
    LocalSessionHandleLostError,
    McpExtraMissingError,
    McpOutputMismatchError,
    McpOutputUncheckedError,
    McpRediscoveryRequiredError,
    McpReplayUnavailableError,
    McpResultError,
    McpTaskRequiredError,
    McpToolError,
    McpToolListIncompleteError,
    UnknownEffectError,
)
from .session import RawSession

__all__ = (
    "ConsentRequiredError",
    "CredentialsUnavailableError",
    "LocalSessionHandleLostError",
    "McpExtraMissingError",
    "McpOutputMismatchError",
    "McpOutputUncheckedError",
    "McpRediscoveryRequiredError",
    "McpReplayUnavailableError",
    "McpResultError",
    "McpTaskRequiredError",
    "McpToolError",
    "McpToolListIncompleteError",
    "RawSession",
    "UnknownEffectError",
)
