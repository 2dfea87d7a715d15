"""Peers and builders for tests of catalogs. Whatever passes between the two sides passes as bytes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from mcpl_core.catalog import (
    ApprovalBinding,
    CallContext,
    CatalogLimits,
    CatalogMonitor,
    PeerFailure,
    PeerMethod,
    PeerReply,
    PeerResult,
    ReadBinding,
    ReadRegistration,
    ScopeCheck,
    ToolCatalog,
    ToolPolicy,
    WriteBinding,
    WriteRegistration,
    discover_tools,
    discover_write_tools,
)
from mcpl_core.wire.values import decode_value, encode_value

__all__ = (
    "CALLER",
    "CANARY",
    "FIXTURES",
    "INPUT",
    "ManualTimer",
    "OUTPUT",
    "ScriptedPeer",
    "hop",
    "nested",
    "read",
    "read_binding",
    "text_result",
    "tool",
    "write",
    "write_binding",
)

Json = dict[str, Any]

FIXTURES: Json = json.loads((Path(__file__).parent / "fixtures" / "cases.json").read_bytes())
CALLER = CallContext(principal="alice", run_id="run-1", lease_owner="worker-1", lease_epoch=3)

#: Stands in everything that a peer says and nobody may hear of.
CANARY = "canary-7f3a"

INPUT: Json = {
    "type": "object",
    "properties": {"q": {"type": "string", "maxLength": 3}, "n": {"type": "integer"}},
    "required": ["q"],
    "additionalProperties": False,
}
OUTPUT: Json = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
    "additionalProperties": False,
}


def hop(value: Any) -> Any:
    """The value after a way as bytes."""
    return decode_value(encode_value(value))


def nested(levels: int) -> Any:
    """A list of so many levels."""
    value: Any = None
    for _ in range(levels):
        value = [value]
    return value


def tool(name: str = "remote.search", **members: Any) -> Json:
    """A tool as a server lists it."""
    return {"name": name, "description": "Search documents", "inputSchema": INPUT, **members}


def text_result(*texts: str, **members: Any) -> Json:
    """A result of texts."""
    return {"content": [{"type": "text", "text": text} for text in texts], **members}


class ScriptedPeer:
    """A ``ToolPeer`` that answers as it is told.

    Args:
        tools: of one page; or give ``pages``.
        pages: whole results of ``tools/list``, one after the other.
        result: of ``tools/call``; a ``PeerFailure`` is one, a call is asked (and may wait).
    """

    def __init__(
        self,
        tools: list[Json] | None = None,
        *,
        pages: list[Any] | None = None,
        result: Any = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        self.may_repeat = False
        self.capabilities: Mapping[str, Any] | None = {"tools": {}} if capabilities is None else capabilities
        self.pages: list[Any] = [{"tools": [tool()] if tools is None else tools}] if pages is None else pages
        self.result: Any = text_result("found") if result is None else result
        self.sent: list[tuple[str, Json]] = []
        self.listed = 0

    @property
    def calls(self) -> list[Json]:
        """The params of each ``tools/call``."""
        return [params for method, params in self.sent if method == "tools/call"]

    def watch(self, monitor: CatalogMonitor) -> Callable[[], None]:
        monitor.accept_version("2025-11-25")
        return lambda: None

    async def request(self, method: PeerMethod, params: Json) -> PeerReply:
        self.sent.append((method, hop(params)))
        if method == "tools/list":
            found: Any = self.pages[self.listed % len(self.pages)]
            self.listed += 1
        else:
            found = self.result
        if callable(found):
            found = found()
        if isinstance(found, Awaitable):
            found = await found
        return found if isinstance(found, PeerFailure) else PeerResult(hop(found))


class ManualTimer:
    """Deadlines by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self._open: list[tuple[float, anyio.CancelScope]] = []

    def __call__(self, seconds: float) -> anyio.CancelScope:
        scope = anyio.CancelScope()
        self._open.append((self.now + seconds, scope))
        return scope

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for due, scope in self._open:
            if self.now >= due:
                scope.cancel()


def read_binding(local_name: str = "search", scope: ScopeCheck | None = None, **members: Any) -> ReadBinding:
    """A binding of a read."""
    given: Json = {"local_name": local_name, "policy": ToolPolicy(title="Search"), "scope": scope}
    return ReadBinding(**given | members)


def write_binding(local_name: str = "save", scope: ScopeCheck | None = None, **members: Any) -> WriteBinding:
    """A binding of a write; ``members`` are those of its authority."""
    authority: Json = {"binding_id": "binding", "binding_revision": "1", "scope_id": "scope", "scope_revision": "1"}
    identity = ApprovalBinding(**authority | {"effect": "write"} | members)
    policy = ToolPolicy(title="Save", mode="confirm", risk_level=identity.effect)
    check: ScopeCheck = (lambda context, arguments: True) if scope is None else scope
    return WriteBinding(local_name=local_name, policy=policy, scope=check, authority=identity)


async def read(
    peer: ScriptedPeer,
    binding: ReadBinding | None = None,
    *,
    monitor: CatalogMonitor | None = None,
    limits: CatalogLimits | None = None,
    timer: Any = anyio.move_on_after,
) -> tuple[ToolCatalog[ReadRegistration], ReadRegistration]:
    """A catalog of one read, and its registration."""
    if monitor is None:
        monitor = CatalogMonitor()
        peer.watch(monitor)
    bindings = {"remote.search": read_binding() if binding is None else binding}
    catalog = await discover_tools(peer, "fixture", bindings, monitor=monitor, limits=limits, timer=timer)
    return catalog, catalog.registrations[0]


async def write(
    peer: ScriptedPeer,
    binding: WriteBinding | None = None,
    *,
    monitor: CatalogMonitor | None = None,
    limits: CatalogLimits | None = None,
    timer: Any = anyio.move_on_after,
) -> tuple[ToolCatalog[WriteRegistration], WriteRegistration]:
    """A catalog of one write, and its registration."""
    if monitor is None:
        monitor = CatalogMonitor()
        peer.watch(monitor)
    bindings = {"remote.search": write_binding() if binding is None else binding}
    catalog = await discover_write_tools(peer, "fixture", bindings, monitor=monitor, limits=limits, timer=timer)
    return catalog, catalog.registrations[0]
