"""Serving tools, resources and prompts as an MCP server, over standard input and output, HTTP and WebSockets.

Only HTTP needs an optional library (``pip install 'mcp-live-core[mcp]'``), and says so when it is constructed.
"""

from .call import TIME_META, Peer, ToolCall
from .endpoints import ConnectionEndpoint, Endpoint, stdio_transport
from .errors import McpUnsupportedError, ServingRefusedError
from .forwarding import ForwardedTool, forward_tools
from .functions import FunctionTool, function_tool
from .http_endpoint import HttpEndpoint, http_transport
from .http_policy import IncomingRequest
from .ledger import McpRuntime, Prompt, PromptArgument, Resource, create_mcp_runtime
from .middleware import Ask, Deny, Failed
from .plugged import McpTransport
from .projection import ToolDefinition, adapt_tools, project_tool_definition
from .serve import ListeningHandle, ServingHandle, serve_tools
from .sessions import Session
from .tool_server import McpToolServer
from .tools import ServableTool, ServedTool
from .websocket_endpoint import WebSocketEndpoint, websocket_transport

__all__ = (
    "TIME_META",
    "Ask",
    "ConnectionEndpoint",
    "Deny",
    "Endpoint",
    "Failed",
    "ForwardedTool",
    "FunctionTool",
    "HttpEndpoint",
    "IncomingRequest",
    "ListeningHandle",
    "McpRuntime",
    "McpToolServer",
    "McpTransport",
    "McpUnsupportedError",
    "Peer",
    "Prompt",
    "PromptArgument",
    "Resource",
    "ServableTool",
    "ServedTool",
    "ServingHandle",
    "ServingRefusedError",
    "Session",
    "ToolCall",
    "ToolDefinition",
    "WebSocketEndpoint",
    "adapt_tools",
    "create_mcp_runtime",
    "forward_tools",
    "function_tool",
    "http_transport",
    "project_tool_definition",
    "serve_tools",
    "stdio_transport",
    "websocket_transport",
)
