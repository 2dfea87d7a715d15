"""From a server's list and the host's bindings to a catalog: what may be called, and nothing else.

Owns: which tools are selected, what is demanded of them, and the two entry points. Does not own: the list
(``listing``), the profile of schemas, the snapshot, and the calls. Nothing that the server says of itself grants
anything: annotations are neither read nor kept.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio

from ..errors import InvalidValueError
from .bindings import ApprovalBinding, ReadBinding, ToolPolicy, WriteBinding, check_bindings, check_server_id
from .calls import BoundTool, Timer
from .errors import CatalogError
from .limits import CatalogLimits
from .listing import list_tools
from .monitor import CatalogMonitor, Lease
from .peers.base import ToolPeer
from .profile import CompiledSchema, ProfileBudgets, SchemaProfileError, compile_schema
from .registrations import ReadRegistration, ToolRegistration, WriteRegistration
from .snapshot import READ_SCHEMA, WRITE_SCHEMA, SchemaVersion, ToolSnapshot, make_snapshot, snapshot_entry

__all__ = ("ToolCatalog", "discover_tools", "discover_write_tools")

R = TypeVar("R", bound=ToolRegistration)
T = TypeVar("T")
B = TypeVar("B", ReadBinding, WriteBinding)


@dataclass(frozen=True, slots=True, eq=False)
class ToolCatalog(Generic[R]):
    """What was discovered. It never gains a tool: after a change it is stale, and another discovery makes another one.

    Attributes:
        snapshot: the selected tools, with their digest.
        registrations: one for each, sorted by local name.
    """

    snapshot: ToolSnapshot
    registrations: tuple[R, ...]
    _lease: Lease

    def __repr__(self) -> str:
        return f"<ToolCatalog {self.snapshot.server_id} of {len(self.registrations)} stale={self.stale}>"

    @property
    def stale(self) -> bool:
        """Whether every call refuses from now on."""
        return self._lease.problem() is not None

    def find(self, local_name: str) -> R:
        """The registration of a local name.

        Raises:
            InvalidValueError: ``unknown_tool``.
        """
        for registration in self.registrations:
            if registration.local_name == local_name:
                return registration
        raise InvalidValueError("unknown_tool", "no tool of this catalog has that name")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selected:
    """A bound tool, with what the server said of it."""

    remote_name: str
    local_name: str
    description: str
    policy: ToolPolicy
    authority: ApprovalBinding | None
    concurrency_safe: bool
    input: CompiledSchema
    output: CompiledSchema | None

    def entry(self) -> dict[str, Any]:
        return snapshot_entry(
            self.remote_name,
            self.local_name,
            self.description,
            self.input.schema,
            None if self.output is None else self.output.schema,
            self.policy,
            self.authority,
            self.concurrency_safe,
        )


async def discover_tools(
    peer: ToolPeer,
    server_id: str,
    bindings: Mapping[str, ReadBinding],
    *,
    monitor: CatalogMonitor,
    limits: CatalogLimits | None = None,
    timer: Timer = anyio.move_on_after,
) -> ToolCatalog[ReadRegistration]:
    """Discovers tools that only read.

    Args:
        peer: an initialized session.
        server_id: the id that the host gives the server.
        bindings: by the tool's name at the server. Only these are registered.
        monitor: watches the session (``peer.watch``), and was told the version.
        limits: left out: the defaults.
        timer: seconds -> the scope that a request ends with; for tests.

    Raises:
        CatalogError: what is wrong, as a code. No text of the server is in it.
    """
    discovery = _Discovery(peer, server_id, monitor, limits, timer)
    bound, selected, snapshot = await _sealed(discovery.run(bindings, ReadBinding, READ_SCHEMA))
    registrations = tuple(
        ReadRegistration(
            **discovery.common(tool, snapshot, bound[tool.remote_name].scope), concurrency_safe=tool.concurrency_safe
        )
        for tool in selected
    )
    return ToolCatalog(snapshot, registrations, discovery.lease)


async def discover_write_tools(
    peer: ToolPeer,
    server_id: str,
    bindings: Mapping[str, WriteBinding],
    *,
    monitor: CatalogMonitor,
    limits: CatalogLimits | None = None,
    timer: Timer = anyio.move_on_after,
) -> ToolCatalog[WriteRegistration]:
    """Discovers tools that write. Arguments and errors as of ``discover_tools``; a peer that may repeat requests by
    itself is refused (``mcp_peer_repeats``). The registrations cannot be called; an approval is bound to their
    ``approval_binding``, whose revision is the digest of this catalog."""
    discovery = _Discovery(peer, server_id, monitor, limits, timer)
    if getattr(peer, "may_repeat", True) is not False:
        raise CatalogError("mcp_peer_repeats")
    bound, selected, snapshot = await _sealed(discovery.run(bindings, WriteBinding, WRITE_SCHEMA))
    registrations = []
    for tool in selected:
        authority = tool.authority
        assert authority is not None
        effective = ApprovalBinding(
            binding_id=authority.binding_id,
            binding_revision=snapshot.revision_digest,
            scope_id=authority.scope_id,
            scope_revision=authority.scope_revision,
            effect=authority.effect,
        )
        registrations.append(
            WriteRegistration(
                **discovery.common(tool, snapshot, bound[tool.remote_name].scope),
                approval_binding=effective,
                host_binding_revision=authority.binding_revision,
            )
        )
    return ToolCatalog(snapshot, tuple(registrations), discovery.lease)


class _Discovery:
    def __init__(
        self, peer: ToolPeer, server_id: str, monitor: CatalogMonitor, limits: CatalogLimits | None, timer: Timer
    ) -> None:
        limits = CatalogLimits() if limits is None else limits
        if not isinstance(monitor, CatalogMonitor) or not isinstance(limits, CatalogLimits):
            raise CatalogError("mcp_binding_invalid")
        self.peer = peer
        self.server_id = check_server_id(server_id)
        self.monitor = monitor
        self.limits = limits
        self.timer = timer
        self.lease = Lease(monitor)

    async def run(
        self, bindings: Mapping[str, B], kind: type[B], schema_version: SchemaVersion
    ) -> tuple[dict[str, B], list[_Selected], ToolSnapshot]:
        bound = check_bindings(bindings, kind, self.limits.max_tools)
        self.lease.check()
        capabilities = self.peer.capabilities
        if capabilities is None or not isinstance(capabilities.get("tools"), Mapping):
            raise CatalogError("mcp_tools_unavailable")
        listed = await list_tools(self.peer, self.lease, self.limits, self.timer)
        if not bound.keys() <= listed.keys():
            raise CatalogError("mcp_binding_missing")
        selected = [self._select(name, bound[name], listed[name]) for name in bound]
        selected.sort(key=lambda tool: tool.local_name)
        return bound, selected, self._snapshot(schema_version, selected)

    def _snapshot(self, schema_version: SchemaVersion, selected: list[_Selected]) -> ToolSnapshot:
        version = self.monitor.protocol_version
        assert version is not None
        snapshot: ToolSnapshot | None = None
        try:
            snapshot = make_snapshot(schema_version, self.server_id, version, [tool.entry() for tool in selected])
        except InvalidValueError:
            pass
        if snapshot is None:
            raise CatalogError("mcp_catalog_limit_exceeded")
        return snapshot

    def _select(self, name: str, binding: ReadBinding | WriteBinding, tool: dict[str, Any]) -> _Selected:
        if not _runs_without_a_task(tool.get("execution")):
            raise CatalogError("mcp_tool_unsupported")
        policy, local_name = binding.policy, binding.local_name
        assert isinstance(policy, ToolPolicy)
        assert isinstance(local_name, str)
        authority = binding.authority if isinstance(binding, WriteBinding) else None
        return _Selected(
            remote_name=name,
            local_name=local_name,
            description=self._description(tool.get("description")),
            policy=policy,
            authority=authority if isinstance(authority, ApprovalBinding) else None,
            concurrency_safe=isinstance(binding, ReadBinding) and binding.concurrency_safe,
            input=self._schema(tool.get("inputSchema")),
            output=None if tool.get("outputSchema") is None else self._schema(tool["outputSchema"]),
        )

    def _description(self, description: Any) -> str:
        if description is None:
            return ""
        size = len(description.encode("utf-8", "surrogatepass")) if isinstance(description, str) else None
        if size is None:
            raise CatalogError("mcp_result_invalid")
        if size > self.limits.max_description_bytes:
            raise CatalogError("mcp_catalog_limit_exceeded")
        return str(description)

    def _schema(self, schema: Any) -> CompiledSchema:
        limits = self.limits
        budgets = ProfileBudgets(schema_bytes=limits.max_schema_bytes, output_bytes=limits.max_result_bytes)
        compiled: CompiledSchema | None = None
        try:
            compiled = compile_schema(schema, budgets)
        except SchemaProfileError:
            pass
        if compiled is None:
            raise CatalogError("mcp_schema_unsupported")
        return compiled

    def common(self, tool: _Selected, snapshot: ToolSnapshot, scope: Any) -> dict[str, Any]:
        """What both kinds of registrations have."""
        return {
            "server_id": self.server_id,
            "remote_name": tool.remote_name,
            "local_name": tool.local_name,
            "title": tool.policy.title,
            "description": tool.description or tool.policy.title,
            "catalog_digest": snapshot.revision_digest,
            "_tool": BoundTool(
                peer=self.peer,
                remote_name=tool.remote_name,
                lease=self.lease,
                input=tool.input,
                output=tool.output,
                scope=scope,
                limits=self.limits,
                timer=self.timer,
            ),
        }


async def _sealed(work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` returns, or its code in an error of our own: the traceback of the first holds the frames, and with
    them what the server listed, for every log that shows local variables."""
    try:
        return await work
    except CatalogError as error:
        code = error.code
    raise CatalogError(code)


def _runs_without_a_task(execution: Any) -> bool:
    """Whether a tool may be called plainly. What it says of tasks that nobody knows counts as a task."""
    if execution is None:
        return True
    return isinstance(execution, dict) and execution.get("taskSupport") in (None, "forbidden", "optional")
