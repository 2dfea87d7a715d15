"""The server runtime: an application becomes an MCPL server by declaring what it offers (SPEC 3, 5 to 12, 14, 17).

server = McplServer("memory", "1.0.0")

@server.tool
async def remember(ctx: Context, text: str) -> str: ...

anyio.run(server.serve_stdio)
"""

from .app import LOCAL_PRINCIPAL, McplServer
from .calls import HostCalls
from .context import Context
from .features import FeatureSet
from .inference import InferenceStream
from .journal import Change, OutboxStore, OutboxStoreError
from .offer import Settings
from .outbox import Outbox
from .policy import ServerPolicy
from .results import ToolError, ToolResult
from .session import SUPPORTED_PROTOCOL_VERSIONS, ServerSession
from .store import FileOutboxStore
from .tools import ServerTool, tool_from_function

__all__ = (
    "LOCAL_PRINCIPAL",
    "SUPPORTED_PROTOCOL_VERSIONS",
    "Change",
    "Context",
    "FeatureSet",
    "FileOutboxStore",
    "HostCalls",
    "InferenceStream",
    "McplServer",
    "Outbox",
    "OutboxStore",
    "OutboxStoreError",
    "ServerPolicy",
    "ServerSession",
    "ServerTool",
    "Settings",
    "ToolError",
    "ToolResult",
    "tool_from_function",
)
