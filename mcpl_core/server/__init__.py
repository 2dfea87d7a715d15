"""The server runtime: an application becomes an MCPL server by declaring what it offers (SPEC 3, 5 to 12, 14, 17).

server = McplServer("memory", "1.0.0")

@server.tool
async def remember(ctx: Context, text: str) -> str: ...

anyio.run(server.serve_stdio)
"""

from .app import LOCAL_PRINCIPAL, McplServer
from .calls import HostCalls, InferenceStream
from .context import Context
from .features import FeatureSet
from .offer import Settings
from .outbox import Outbox, OutboxStore
from .policy import ServerPolicy
from .session import SUPPORTED_PROTOCOL_VERSIONS, ServerSession
from .store import FileOutboxStore
from .tools import ServerTool, ToolError, ToolResult, tool_from_function

__all__ = (
    "LOCAL_PRINCIPAL",
    "SUPPORTED_PROTOCOL_VERSIONS",
    "Context",
    "FeatureSet",
    "FileOutboxStore",
    "HostCalls",
    "InferenceStream",
    "McplServer",
    "Outbox",
    "OutboxStore",
    "ServerPolicy",
    "ServerSession",
    "ServerTool",
    "Settings",
    "ToolError",
    "ToolResult",
    "tool_from_function",
)
