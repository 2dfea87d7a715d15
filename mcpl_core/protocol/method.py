"""The method names, as constants: ``method.PUSH_EVENT == "push/event"``.

Owns: the names. Does not own: what a method carries or needs (``methods``).
"""

from __future__ import annotations

from typing import Final

__all__ = (
    "ACCESS_TOKEN",
    "BRANCHES_CHANGED",
    "BRANCHES_CREATE",
    "BRANCHES_CURRENT",
    "BRANCHES_DELETE",
    "BRANCHES_LIST",
    "BRANCHES_SWITCH",
    "CANCELLED",
    "CHANNELS_ACKNOWLEDGE",
    "CHANNELS_CHANGED",
    "CHANNELS_CLOSE",
    "CHANNELS_INCOMING",
    "CHANNELS_LIST",
    "CHANNELS_OPEN",
    "CHANNELS_OUTGOING_CHUNK",
    "CHANNELS_OUTGOING_COMPLETE",
    "CHANNELS_PUBLISH",
    "CHANNELS_REGISTER",
    "CHANNELS_TYPING",
    "CONTEXT_BEFORE_INFERENCE",
    "FEATURE_SETS_UPDATE",
    "INFERENCE_CHUNK",
    "INFERENCE_LIFECYCLE",
    "INFERENCE_REQUEST",
    "INITIALIZE",
    "INITIALIZED",
    "MCPL_MANIFEST",
    "MCPL_MANIFEST_CHANGED",
    "MODEL_INFO",
    "PING",
    "PROGRESS",
    "PUSH_EVENT",
    "STATE_GET",
    "STATE_ROLLBACK",
    "STATE_UPDATE",
    "TOOLSETS_CHANGED",
    "TOOLSETS_CLOSE",
    "TOOLSETS_LIST",
    "TOOLSETS_OPEN",
    "TOOLS_CALL",
    "TOOLS_LIST",
    "TOOLS_LIST_CHANGED",
)

# MCP
INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"
PING: Final = "ping"
CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
TOOLS_LIST: Final = "tools/list"
TOOLS_CALL: Final = "tools/call"
TOOLS_LIST_CHANGED: Final = "notifications/tools/list_changed"

# SPEC 4.1, 14.1, 17
FEATURE_SETS_UPDATE: Final = "featureSets/update"
PUSH_EVENT: Final = "push/event"
CONTEXT_BEFORE_INFERENCE: Final = "context/beforeInference"
INFERENCE_LIFECYCLE: Final = "inference/lifecycle"
INFERENCE_REQUEST: Final = "inference/request"
INFERENCE_CHUNK: Final = "inference/chunk"
MODEL_INFO: Final = "model/info"
STATE_ROLLBACK: Final = "state/rollback"
CHANNELS_REGISTER: Final = "channels/register"
CHANNELS_CHANGED: Final = "channels/changed"
CHANNELS_LIST: Final = "channels/list"
CHANNELS_OPEN: Final = "channels/open"
CHANNELS_CLOSE: Final = "channels/close"
CHANNELS_ACKNOWLEDGE: Final = "channels/acknowledge"
CHANNELS_TYPING: Final = "channels/typing"
CHANNELS_OUTGOING_CHUNK: Final = "channels/outgoing/chunk"
CHANNELS_OUTGOING_COMPLETE: Final = "channels/outgoing/complete"
CHANNELS_PUBLISH: Final = "channels/publish"
CHANNELS_INCOMING: Final = "channels/incoming"
MCPL_MANIFEST_CHANGED: Final = "mcpl/manifestChanged"
MCPL_MANIFEST: Final = "mcpl/manifest"

# Extensions
STATE_UPDATE: Final = "state/update"
STATE_GET: Final = "state/get"
BRANCHES_LIST: Final = "branches/list"
BRANCHES_CURRENT: Final = "branches/current"
BRANCHES_CREATE: Final = "branches/create"
BRANCHES_SWITCH: Final = "branches/switch"
BRANCHES_DELETE: Final = "branches/delete"
BRANCHES_CHANGED: Final = "branches/changed"
TOOLSETS_LIST: Final = "toolsets/list"
TOOLSETS_OPEN: Final = "toolsets/open"
TOOLSETS_CLOSE: Final = "toolsets/close"
TOOLSETS_CHANGED: Final = "toolsets/changed"
ACCESS_TOKEN: Final = "access/token"
