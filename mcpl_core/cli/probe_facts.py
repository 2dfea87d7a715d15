"""What there is to know about a server, as one JSON object.

Owns: which facts, and their names. Does not own: how they are found (``probing``) and shown (``probe_view``). What a
server says of itself stands beside what follows from it, never in its place: the announced revision beside the computed
one, its capabilities beside what was granted.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ..capabilities import advertised_capabilities_from_initialize
from ..content import content_text
from ..grants import FeatureSetStatus, Malformed, derive_feature_sets
from ..host import ChannelMessage, HostEvent, HostSession, PushEvent
from ..manifest import ManifestReading
from ..protocol import ChannelDescriptor, ToolsCallResult
from ..receipts import Receipt
from ..wire.values import decode_value, encode_value

__all__ = ("call_facts", "channel_facts", "event_facts", "server_facts")


def server_facts(session: HostSession, endpoint: str) -> dict[str, Any]:
    """Identity, mode, capabilities, feature sets and manifest of a connected server."""
    reading = session.manifest
    return {
        "endpoint": endpoint,
        "server": session.info,
        "protocolVersion": session.protocol_version,
        "instructions": session.instructions,
        "mode": session.mode,
        "manifest": None if reading is None else _manifest(reading),
        "receipt": _receipt(session.receipt),
        "capabilities": _capabilities(session),
        "featureSets": _feature_sets(session),
    }


def _manifest(reading: ManifestReading) -> dict[str, Any]:
    announced = reading.manifest.get("revision")
    return {
        "version": reading.manifest.get("version"),
        "announcedRevision": announced,
        "computedRevision": reading.digest,
        "matches": None if announced is None else announced == reading.digest,
        "problems": [
            {"code": problem.code, "path": problem.path, "detail": problem.detail} for problem in reading.problems
        ],
    }


def _receipt(receipt: Receipt | Malformed | None) -> dict[str, Any] | None:
    if receipt is None:
        return None
    if isinstance(receipt, Malformed):
        return {"malformed": f"{receipt.path}: {receipt.detail}"}
    return receipt.to_wire()


def _capabilities(session: HostSession) -> list[dict[str, Any]]:
    if session.manifest is None:
        return []
    grant = session.grant
    advertised = advertised_capabilities_from_initialize(session.capabilities)
    return [{"path": path, "granted": grant.allows(path)} for path in sorted(advertised)]


def _feature_sets(session: HostSession) -> list[dict[str, Any]]:
    reading = session.manifest
    if reading is None:
        return []
    statuses = derive_feature_sets(reading.feature_sets, session.grant)
    return [_feature_set(status, reading.feature_sets[name]) for name, status in statuses.items()]


def _feature_set(status: FeatureSetStatus, declared: Any) -> dict[str, Any]:
    return {
        "name": status.name,
        "description": declared.get("description") if isinstance(declared, dict) else None,
        "uses": list(status.uses),
        "enabled": status.enabled,
        "reason": status.reason,
        "missing": list(status.missing_capabilities),
        "unrecognized": list(status.unrecognized),
    }


def channel_facts(channel: ChannelDescriptor) -> dict[str, Any]:
    """One channel."""
    return {"id": channel.id, "type": channel.type, "label": channel.label, "direction": channel.direction}


def call_facts(tool: str, result: ToolsCallResult) -> dict[str, Any]:
    """What a tool answered."""
    found: dict[str, Any] = {
        "tool": tool,
        "isError": result.is_error,
        "text": content_text(result.content),
        "content": decode_value(encode_value(result.content)),
    }
    if result.structured_content is not UNSET:
        found["structuredContent"] = result.structured_content
    return found


def event_facts(event: HostEvent) -> dict[str, Any]:
    """One event that was admitted."""
    found: dict[str, Any] = {"text": event.text, "tags": list(event.tags), "wake": event.wake}
    if isinstance(event, PushEvent):
        found |= {
            "event": "push/event",
            "featureSet": event.feature_set,
            "eventId": event.event_id,
            "timestamp": event.timestamp,
            "content": decode_value(encode_value(event.content)),
        }
    elif isinstance(event, ChannelMessage):
        found |= {
            "event": "channels/incoming",
            "channel": channel_facts(event.channel),
            "messageId": event.message_id,
            "author": decode_value(encode_value(event.author)),
            "timestamp": event.timestamp,
            "content": decode_value(encode_value(event.content)),
        }
    else:
        found["event"] = type(event).__name__
    return found
