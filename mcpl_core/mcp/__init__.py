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
    McpInputRequiredError,
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
from .serving import (
    TIME_META,
    Ask,
    ConnectionEndpoint,
    Deny,
    Endpoint,
    Failed,
    ForwardedTool,
    FunctionTool,
    HttpEndpoint,
    IncomingRequest,
    ListeningHandle,
    McpRuntime,
    McpToolServer,
    McpTransport,
    McpUnsupportedError,
    Peer,
    Prompt,
    PromptArgument,
    Resource,
    ServableTool,
    ServedTool,
    ServingHandle,
    ServingRefusedError,
    Session,
    ToolCall,
    ToolDefinition,
    WebSocketEndpoint,
    adapt_tools,
    create_mcp_runtime,
    forward_tools,
    function_tool,
    http_transport,
    project_tool_definition,
    serve_tools,
    stdio_transport,
    websocket_transport,
)
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
    "TIME_META",
    "Ask",
    "BoundedValidator",
    "CallRecord",
    "ClaudeChannel",
    "Configuration",
    "ConnectionEndpoint",
    "Consent",
    "ConsentRequiredError",
    "CredentialRequest",
    "CredentialsUnavailableError",
    "Deny",
    "Endpoint",
    "Failed",
    "ForwardedTool",
    "FunctionTool",
    "GatewayTransport",
    "GivenConnection",
    "HttpEndpoint",
    "HttpRequest",
    "HttpTransport",
    "IncomingRequest",
    "JsonSchemaValidator",
    "ListeningHandle",
    "LocalSessionHandleLostError",
    "McpAnswer",
    "McpClient",
    "McpClientPool",
    "McpExtraMissingError",
    "McpInputRequiredError",
    "McpOutputMismatchError",
    "McpOutputUncheckedError",
    "McpRediscoveryRequiredError",
    "McpReplayUnavailableError",
    "McpResultError",
    "McpRuntime",
    "McpTaskRequiredError",
    "McpTool",
    "McpToolError",
    "McpToolListIncompleteError",
    "McpToolServer",
    "McpTools",
    "McpTransport",
    "McpUnsupportedError",
    "MockSession",
    "Peer",
    "Prompt",
    "PromptArgument",
    "Question",
    "RawSession",
    "Reconnect",
    "Replay",
    "Resource",
    "ResultMode",
    "ServableTool",
    "ServedTool",
    "ServingHandle",
    "ServingRefusedError",
    "Session",
    "StdioTransport",
    "TerminateOutcome",
    "ToolCall",
    "ToolCallEnded",
    "ToolCallStarted",
    "ToolDefinition",
    "ToolReplay",
    "UnknownEffectError",
    "WebSocketEndpoint",
    "WebSocketTransport",
    "adapt_tools",
    "configuration_of",
    "create_mcp_runtime",
    "form_of",
    "forward_tools",
    "function_tool",
    "http_transport",
    "mcp_client",
    "mock_mcp_client",
    "project_tool_definition",
    "questions_of",
    "read_answers",
    "serve_tools",
    "stdio_transport",
    "websocket_transport",
)
