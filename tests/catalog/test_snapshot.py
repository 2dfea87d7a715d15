"""Snapshots: the published shapes, their digest, and that they cannot be changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpl_core.catalog.bindings import ApprovalBinding, ToolPolicy
from mcpl_core.catalog.identity import identity_digest
from mcpl_core.catalog.snapshot import READ_SCHEMA, WRITE_SCHEMA, make_snapshot, snapshot_entry
from mcpl_core.errors import InvalidValueError
from tests.catalog.test_identity import VECTOR, VECTOR_DIGEST

READ = snapshot_entry("r.a", "a", "A", {"type": "object"}, None, ToolPolicy(title="T"), None, True)
WRITE = snapshot_entry(
    "w.b",
    "b",
    "",
    {"type": "object"},
    {"type": "object"},
    ToolPolicy(title="T", mode="confirm", risk_level="write"),
    ApprovalBinding(binding_id="i", binding_revision="1", scope_id="s", scope_revision="2", effect="write"),
    False,
)


@pytest.mark.spec("R-catalog-1")
def test_the_published_vector() -> None:
    entry = VECTOR["entries"][0]
    snapshot = make_snapshot(READ_SCHEMA, "fixture", "2025-11-25", [entry])
    assert snapshot.revision_digest == VECTOR_DIGEST
    policy = ToolPolicy(title="Search")
    built = snapshot_entry(
        "remote.search", "search", "Search documents", entry["inputSchema"], entry["outputSchema"], policy, None, True
    )
    assert built == entry


def test_the_keys_of_both_schemas() -> None:
    common = {"remoteName", "localName", "description", "inputSchema", "outputSchema", "policy", "concurrencySafe"}
    assert set(READ) == common
    assert set(WRITE) == {*common, "authorization"}
    assert READ["policy"] == {"mode": "read", "title": "T", "riskLevel": "read"}
    assert WRITE["policy"] == {"mode": "confirm", "title": "T", "riskLevel": "write"}
    assert WRITE["authorization"]["bindingRevision"] == "1"
    for version, entry in ((READ_SCHEMA, READ), (WRITE_SCHEMA, WRITE)):
        whole = make_snapshot(version, "s", "2025-11-25", [entry]).to_json()
        digest = whole.pop("revisionDigest")
        assert set(whole) == {"schemaVersion", "serverId", "protocolVersion", "entries"}
        assert identity_digest(json.loads(json.dumps(whole))) == digest


def test_the_order_of_the_entries_does_not_matter() -> None:
    other = {**READ, "localName": "Z"}
    one = make_snapshot(READ_SCHEMA, "s", "2025-11-25", [READ, other])
    two = make_snapshot(READ_SCHEMA, "s", "2025-11-25", [other, READ])
    assert one == two
    assert [entry["localName"] for entry in one.entries] == ["Z", "a"]


@pytest.mark.parametrize(
    "change",
    [
        {"remoteName": "r.b"},
        {"localName": "b"},
        {"description": "A "},
        {"inputSchema": {"type": "object", "title": ""}},
        {"outputSchema": {"type": "object"}},
        {"policy": {"mode": "read", "title": "U", "riskLevel": "read"}},
        {"concurrencySafe": False},
    ],
)
def test_every_part_is_in_the_digest(change: dict[str, Any]) -> None:
    before = make_snapshot(READ_SCHEMA, "s", "2025-11-25", [READ])
    assert make_snapshot(READ_SCHEMA, "s", "2025-11-25", [READ | change]).revision_digest != before.revision_digest
    for other in (
        make_snapshot(WRITE_SCHEMA, "s", "2025-11-25", [READ]),
        make_snapshot(READ_SCHEMA, "t", "2025-11-25", [READ]),
        make_snapshot(READ_SCHEMA, "s", "2025-06-18", [READ]),
    ):
        assert other.revision_digest != before.revision_digest


def test_it_is_immutable_all_the_way_down() -> None:
    source = json.loads(json.dumps(READ))
    snapshot: Any = make_snapshot(READ_SCHEMA, "s", "2025-11-25", [source])
    source["inputSchema"]["type"] = "array"
    for attempt in (
        lambda: setattr(snapshot, "server_id", "x"),
        lambda: snapshot.entries.append(1),
        lambda: snapshot.entries[0].update(localName="x"),
        lambda: snapshot.entries[0]["policy"].__setitem__("mode", "confirm"),
    ):
        with pytest.raises((AttributeError, TypeError)):
            attempt()
    snapshot.to_json()["entries"][0]["policy"]["mode"] = "confirm"
    assert snapshot.to_json()["entries"] == [READ]
    assert "A" not in repr(snapshot).replace("ToolSnapshot", "")


def test_too_much_for_a_digest() -> None:
    with pytest.raises(InvalidValueError):
        make_snapshot(READ_SCHEMA, "s", "2025-11-25", [READ | {"description": "x" * 1_048_576}])
