"""What was discovered, as one immutable value with a digest.

Owns: the shape of a snapshot, schema 1 for reads and 2 for writes, and its digest. Does not own: which tools are in it
(``discovery``), keeping it (``pinning``), and what follows from a match: a digest tells that two catalogs are equal,
and nothing of who made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from .bindings import ApprovalBinding, ToolPolicy
from .bounded import copy_bounded, freeze
from .identity import IDENTITY_BUDGET, identity_digest

__all__ = ("READ_SCHEMA", "WRITE_SCHEMA", "SchemaVersion", "ToolSnapshot", "make_snapshot", "snapshot_entry")

SchemaVersion: TypeAlias = Literal[1, 2]
READ_SCHEMA: Final[SchemaVersion] = 1
WRITE_SCHEMA: Final[SchemaVersion] = 2


@dataclass(frozen=True, slots=True)
class ToolSnapshot:
    """The tools that were selected, as they were described.

    Attributes:
        schema_version: 1: reads; 2: writes.
        server_id: the id that the host gave the server.
        protocol_version: that was negotiated.
        revision_digest: of all the rest, under ``purra.json-identity/v1``.
        entries: sorted by local name; immutable all the way down.
    """

    schema_version: SchemaVersion
    server_id: str
    protocol_version: str
    revision_digest: str
    entries: tuple[Mapping[str, Any], ...]

    def __repr__(self) -> str:
        return f"<ToolSnapshot {self.server_id} {self.revision_digest[:12]} of {len(self.entries)}>"

    def to_json(self) -> dict[str, Any]:
        """A tree of one's own, with the keys ``schemaVersion``, ``serverId``, ``protocolVersion``, ``revisionDigest``
        and ``entries``."""
        return {
            "schemaVersion": self.schema_version,
            "serverId": self.server_id,
            "protocolVersion": self.protocol_version,
            "revisionDigest": self.revision_digest,
            "entries": copy_bounded(self.entries, IDENTITY_BUDGET),
        }


def snapshot_entry(
    remote_name: str,
    local_name: str,
    description: str,
    input_schema: Mapping[str, Any],
    output_schema: Mapping[str, Any] | None,
    policy: ToolPolicy,
    authority: ApprovalBinding | None,
    concurrency_safe: bool,
) -> dict[str, Any]:
    """One tool as it stands in a snapshot. What the server annotates is not in it. An entry of a write has
    ``authorization``, with the host's own revision; an entry of a read has not."""
    entry: dict[str, Any] = {
        "remoteName": remote_name,
        "localName": local_name,
        "description": description,
        "inputSchema": input_schema,
        "outputSchema": output_schema,
        "policy": {"mode": policy.mode, "title": policy.title, "riskLevel": policy.risk_level or "read"},
        "concurrencySafe": concurrency_safe,
    }
    if authority is not None:
        entry["authorization"] = authority.to_json()
    return entry


def make_snapshot(
    schema_version: SchemaVersion, server_id: str, protocol_version: str, entries: Iterable[Mapping[str, Any]]
) -> ToolSnapshot:
    """A snapshot with its digest; in which order the entries come does not matter.

    Raises:
        InvalidValueError: as ``identity_digest``: they are too much for a digest.
    """
    ordered = sorted(entries, key=lambda entry: str(entry["localName"]))
    body = {
        "schemaVersion": schema_version,
        "serverId": server_id,
        "protocolVersion": protocol_version,
        "entries": ordered,
    }
    digest = identity_digest(body)
    copied = copy_bounded(ordered, IDENTITY_BUDGET)
    return ToolSnapshot(schema_version, server_id, protocol_version, digest, freeze(copied))
