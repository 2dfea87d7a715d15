"""MCP in both directions: the tools of any MCP server as local tools, and local tools as an MCP server.

Needs no optional library by itself. What does (Streamable HTTP, checking output schemas) says so once, when it is
constructed: ``pip install 'mcp-live-core[mcp]'``.

async with mcp_client("files", transport=StdioTransport(["python", "files_server.py"])) as files:
    for tool in await files.tools():
        ...
    text = await files.call("read", {"path": "notes.txt"})
"""

from .checks import BoundedValidator, JsonSchemaValidator
from .claude_channel import ClaudeChannel
from .client import McpClient
from .combining import McpTools
from .connecting import mcp_client
from .elicitation import Question, form_of, questions_of, read_answers
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
from .given import GivenConnection
from .keeper import Reconnect
from .mock import MockSession, mock_mcp_client
from .observing import ToolCallEnded, ToolCallStarted
from .outcomes import TerminateOutcome
from .pool import Configuration, McpClientPool, configuration_of
from .replay import CallRecord, Replay, ToolReplay
from .results import McpAnswer, ResultMode
from .session import RawSession
from .tools import McpTool
from .transports import (
    Consent,
    CredentialRequest,
    GatewayTransport,
    HttpRequest,
    HttpTransport,
    StdioTransport,
    WebSocketTransport,
)

__all__ = (
    "BoundedValidator",
    "CallRecord",
    "ClaudeChannel",
    "Configuration",
    "Consent",
    "ConsentRequiredError",
    "CredentialRequest",
    "CredentialsUnavailableError",
    "GatewayTransport",
    "GivenConnection",
    "HttpRequest",
    "HttpTransport",
    "JsonSchemaValidator",
    "LocalSessionHandleLostError",
    "McpAnswer",
    "McpClient",
    "McpClientPool",
    "McpExtraMissingError",
    "McpOutputMismatchError",
    "McpOutputUncheckedError",
    "McpRediscoveryRequiredError",
    "McpReplayUnavailableError",
    "McpResultError",
    "McpTaskRequiredError",
    "McpTool",
    "McpToolError",
    "McpToolListIncompleteError",
    "McpTools",
    "MockSession",
    "Question",
    "RawSession",
    "Reconnect",
    "Replay",
    "ResultMode",
    "StdioTransport",
    "TerminateOutcome",
    "ToolCallEnded",
    "ToolCallStarted",
    "ToolReplay",
    "UnknownEffectError",
    "WebSocketTransport",
    "configuration_of",
    "form_of",
    "mcp_client",
    "mock_mcp_client",
    "questions_of",
    "read_answers",
)
