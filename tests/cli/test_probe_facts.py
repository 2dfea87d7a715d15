"""What is known of a server: what it says beside what follows from it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec import UNSET

from mcpl_core.cli.probe_facts import call_facts, channel_facts, event_facts, server_facts
from mcpl_core.connection import McplConnection
from mcpl_core.content import ContentBlock, text_content
from mcpl_core.host import ChannelMessage, HostPolicy, HostSession, ManifestReceipt, PushEvent, connect_server
from mcpl_core.manifest import with_revision
from mcpl_core.protocol import ChannelDescriptor, MessageAuthor, ToolsCallResult
from mcpl_core.transports.memory import memory_transports

pytestmark = pytest.mark.anyio

MANIFEST = with_revision(
    {
        "version": "0.5",
        "pushEvents": True,
        "featureSets": {
            "a.b": {"description": "does it", "uses": ["pushEvents"]},
            "c": {"description": "odd", "uses": ["no.such"]},
            "d": 7,
        },
    }
)


@asynccontextmanager
async def connected(manifest: Any, receipt: Any = None, *allowed: str) -> AsyncIterator[HostSession]:
    left, right = memory_transports()
    capabilities: dict[str, Any] = {"tools": {}} | ({} if manifest is None else {"experimental": {"mcpl": manifest}})
    hello = {
        "protocolVersion": "2025-11-25",
        "serverInfo": {"name": "s", "version": "1"},
        "capabilities": capabilities,
        "instructions": "be kind",
    }
    handlers = {"initialize": lambda _: hello, "featureSets/update": lambda _: receipt or {"accepted": True}}
    with anyio.fail_after(10):
        async with McplConnection(right) as server, anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, handlers)
            async with connect_server(left, policy=HostPolicy.allow("tools", *allowed)) as session:
                yield session
            tasks.cancel_scope.cancel()


async def test_a_full_peer() -> None:
    async with connected(MANIFEST, {"accepted": True, "mode": "degraded", "notes": ["hm"]}) as session:
        facts = server_facts(session, "here")
    json.dumps(facts)
    assert facts["endpoint"] == "here"
    assert facts["server"] == {"name": "s", "version": "1"}
    assert (facts["protocolVersion"], facts["instructions"], facts["mode"]) == ("2025-11-25", "be kind", "mcpl")
    assert facts["manifest"] == {
        "version": "0.5",
        "announcedRevision": MANIFEST["revision"],
        "computedRevision": MANIFEST["revision"],
        "matches": True,
        "problems": facts["manifest"]["problems"],
    }
    assert {problem["code"] for problem in facts["manifest"]["problems"]} >= {"invalid_uses", "feature_set_type"}
    assert facts["receipt"] == {"accepted": True, "mode": "degraded", "notes": ["hm"]}
    assert facts["capabilities"] == [{"path": "pushEvents", "granted": False}, {"path": "tools", "granted": True}]
    sets = {row.pop("name"): row for row in facts["featureSets"]}
    assert sets["a.b"] == {
        "description": "does it",
        "uses": ["pushEvents"],
        "enabled": False,
        "reason": "capability_denied",
        "missing": ["pushEvents"],
        "unrecognized": [],
    }
    assert (sets["c"]["reason"], sets["c"]["unrecognized"]) == ("invalid_uses", ["no.such"])
    assert sets["d"]["description"] is None


async def test_what_is_granted_is_on() -> None:
    async with connected(MANIFEST, None, "pushEvents") as session:
        facts = server_facts(session, "here")
    assert all(row["granted"] for row in facts["capabilities"])
    assert facts["featureSets"][0]["enabled"] is True


@pytest.mark.parametrize(
    ("revision", "matches"), [(UNSET, None), ("sha256:" + "A" * 43, False), (7, False), (None, None)]
)
async def test_the_announced_revision_stands_beside_the_computed_one(revision: Any, matches: bool | None) -> None:
    manifest = {name: value for name, value in MANIFEST.items() if name != "revision"}
    if revision is not UNSET:
        manifest["revision"] = revision
    async with connected(manifest) as session:
        found = server_facts(session, "")["manifest"]
    assert (found["announcedRevision"], found["matches"]) == (None if revision is UNSET else revision, matches)
    assert found["computedRevision"] == MANIFEST["revision"]


async def test_a_plain_server() -> None:
    async with connected(None) as session:
        facts = server_facts(session, "")
    assert (facts["mode"], facts["manifest"], facts["receipt"]) == ("mcp-only", None, None)
    assert (facts["capabilities"], facts["featureSets"]) == ([], [])


async def test_receipts_of_other_kinds() -> None:
    async with connected(MANIFEST, {"accepted": False, "fallback": "mcp-only", "reason": "no"}) as session:
        assert server_facts(session, "")["receipt"] == {"accepted": False, "fallback": "mcp-only", "reason": "no"}
    async with connected(MANIFEST, {"accepted": 1}) as session:
        assert "$.accepted" in server_facts(session, "")["receipt"]["malformed"]


def test_calls() -> None:
    result = ToolsCallResult(content=[{"type": "text", "text": "a"}], structured_content=None, is_error=True)
    assert call_facts("t", result) == {
        "tool": "t",
        "isError": True,
        "text": "a",
        "content": [{"type": "text", "text": "a"}],
        "structuredContent": None,
    }
    assert "structuredContent" not in call_facts("t", ToolsCallResult())


def test_events() -> None:
    channel = ChannelDescriptor(id="c", type="chat", label="C", direction="bidirectional")
    content: list[ContentBlock] = [text_content("hi")]
    push = PushEvent(server="s", tags=("a:b",), feature_set="f", event_id="e", timestamp="t", content=content)
    chat = ChannelMessage(
        server="s", channel=channel, message_id="m", author=MessageAuthor(id="u"), timestamp="t", content=content
    )
    assert event_facts(push) == {
        "event": "push/event",
        "featureSet": "f",
        "eventId": "e",
        "timestamp": "t",
        "tags": ["a:b"],
        "wake": True,
        "text": "hi",
        "content": [{"type": "text", "text": "hi"}],
    }
    found = event_facts(chat)
    assert (found["event"], found["author"], found["messageId"]) == ("channels/incoming", {"id": "u"}, "m")
    assert found["channel"] == channel_facts(channel)
    assert event_facts(ManifestReceipt(server="s", revision=None))["event"] == "ManifestReceipt"
