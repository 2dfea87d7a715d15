"""The host runtime: MCPL servers and plain MCP servers, embedded under a policy that no server moves (SPEC 5 to 17).

policy = HostPolicy.allow("tools", "pushEvents", "channels.*")     # everything else is denied

async with McplHost("my-host", "1.0.0", policy=policy) as host:
    memory = await host.add("memory", ["python", "memory_server.py"])
    result = await memory.call_tool("remember", {"text": "hello"})
    async for event in host.events():
        ...
"""

from .audit import AuditRecord
from .branches import Branches, MemoryBranches
from .connect import Endpoint, connect_server
from .dedupe import SeenEvents, SeenStore
from .events import ChannelMessage, EventAnswer, EventQueue, HostEvent, ManifestReceipt, PushEvent, WakeSignal
from .extensions import HostExtension
from .hooks import Injection, Injections, Turn
from .host import McplHost
from .hosted import HostedServer, ServerDescription
from .hub import HostHandlers, HostSettings
from .inference import InferenceCall
from .lifecycle import Inference
from .patches import PatchLimits, apply_patch
from .policy import DENY_ALL, HostPolicy, PolicyRule
from .session import HostSession
from .state import StateLimits, States, StateStore
from .tools import HostTool

__all__ = (
    "DENY_ALL",
    "AuditRecord",
    "Branches",
    "ChannelMessage",
    "Endpoint",
    "EventAnswer",
    "EventQueue",
    "HostEvent",
    "HostExtension",
    "HostHandlers",
    "HostPolicy",
    "HostSession",
    "HostSettings",
    "HostTool",
    "HostedServer",
    "Inference",
    "InferenceCall",
    "Injection",
    "Injections",
    "ManifestReceipt",
    "McplHost",
    "MemoryBranches",
    "PatchLimits",
    "PolicyRule",
    "PushEvent",
    "SeenEvents",
    "SeenStore",
    "ServerDescription",
    "StateLimits",
    "StateStore",
    "States",
    "Turn",
    "WakeSignal",
    "apply_patch",
    "connect_server",
)
