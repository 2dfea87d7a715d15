"""Pins: written whole, read with suspicion, compared in words."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.catalog.bindings import ToolPolicy
from mcpl_core.catalog.errors import CatalogError
from mcpl_core.catalog.identity import identity_digest
from mcpl_core.catalog.pinning import PIN_FORMAT, PinChange, check_pin, compare, load_pin, pin
from mcpl_core.catalog.snapshot import READ_SCHEMA, ToolSnapshot, make_snapshot, snapshot_entry
from mcpl_core.errors import LocalProtocolError

Json = dict[str, Any]
SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string", "maxLength": 3}}, "required": ["q"]}


def entry(remote: str = "search", local: str = "search", **members: Any) -> Json:
    return snapshot_entry(remote, local, "Search", SCHEMA, None, ToolPolicy(title="T"), None, False) | members


def snapshot(*entries: Json, server: str = "s") -> ToolSnapshot:
    return make_snapshot(READ_SCHEMA, server, "2025-11-25", entries or [entry()])


def laid_out(whole: Json) -> str:
    """As files of pins are."""
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"


def code(path: Path, found: ToolSnapshot | None = None) -> str:
    with pytest.raises(CatalogError) as caught:
        if found is None:
            load_pin(path)
        else:
            check_pin(path, found)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    return caught.value.code


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.pin"
    pin(snapshot(), path)
    assert load_pin(path) == snapshot()
    check_pin(path, snapshot())
    assert json.loads(path.read_bytes())["format"] == PIN_FORMAT
    assert os.listdir(tmp_path) == ["s.pin"]


def test_a_pin_is_not_replaced_by_accident(tmp_path: Path) -> None:
    path = tmp_path / "s.pin"
    pin(snapshot(), path)
    other = snapshot(entry(description="Other"))
    with pytest.raises(LocalProtocolError):
        pin(other, path)
    check_pin(path, snapshot())
    pin(other, path, replace=True)
    check_pin(path, other)
    assert os.listdir(tmp_path) == ["s.pin"]


@pytest.mark.spec("R-catalog-8")
def test_there_is_no_trust_on_first_use(tmp_path: Path) -> None:
    assert code(tmp_path / "none.pin", snapshot()) == "mcp_pin_invalid"
    assert code(tmp_path) == "mcp_pin_invalid"


@pytest.mark.spec("R-catalog-8")
def test_every_byte_of_the_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "s.pin"
    small = snapshot(entry(inputSchema={"type": "object"}))
    pin(small, path)
    text = path.read_bytes()
    assert text.decode() == laid_out({"format": PIN_FORMAT, "snapshot": small.to_json()})
    for index in range(len(text)):
        # Another byte, or in the place of a space none at all, which changes no value.
        other = b"" if text[index : index + 1].isspace() else bytes([text[index] ^ 1])
        path.write_bytes(text[:index] + other + text[index + 1 :])
        assert code(path) == "mcp_pin_invalid"


@pytest.mark.spec("R-catalog-8")
def test_a_member_that_is_there_twice(tmp_path: Path) -> None:
    """One reader takes the first, another one the last."""
    path = tmp_path / "s.pin"
    pin(snapshot(), path)
    path.write_text(path.read_text().replace('"serverId"', '"serverId": "other",\n  "serverId"'))
    assert code(path) == "mcp_pin_invalid"


@pytest.mark.parametrize("replace", [False, True])
def test_the_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    steps: list[str] = []
    sync, names = os.fsync, {"link": os.link, "replace": os.replace}

    def synced(descriptor: int) -> None:
        steps.append(f"{os.fstat(descriptor).st_size} bytes")
        sync(descriptor)

    def named(name: str, *paths: Any) -> None:
        steps.append(name)
        names[name](*paths)

    monkeypatch.setattr(os, "fsync", synced)
    for name in names:
        monkeypatch.setattr(os, name, partial(named, name))
    pin(snapshot(), tmp_path / "s.pin", replace=replace)
    size = (tmp_path / "s.pin").stat().st_size
    assert steps == [f"{size} bytes", "replace" if replace else "link"]


def test_line_ends_of_another_system(tmp_path: Path) -> None:
    path = tmp_path / "s.pin"
    pin(snapshot(), path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    check_pin(path, snapshot())


def test_drafts_of_the_dead_are_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container every process has the same id. A path without a folder is in the current one."""
    (tmp_path / f"s.pin.{os.getpid()}.draft").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "elsewhere"))
    pin(snapshot(), "s.pin")
    check_pin("s.pin", snapshot())
    assert len(os.listdir(tmp_path)) == 2
    assert code(Path("a\0b")) == "mcp_pin_invalid"


@pytest.mark.parametrize(
    "change",
    [
        {"format": "mcpl-tool-pin/v0"},
        {"format": None},
        {"extra": 1},
        {"snapshot": None},
        {"snapshot": []},
        {"snapshot": {}},
    ],
)
def test_files_of_another_kind(tmp_path: Path, change: Json) -> None:
    path = tmp_path / "s.pin"
    path.write_text(laid_out({"format": PIN_FORMAT, "snapshot": snapshot().to_json()} | change))
    assert code(path) == "mcp_pin_invalid"


@pytest.mark.parametrize(
    "change",
    [
        {"schemaVersion": 3},
        {"schemaVersion": True},
        {"serverId": 7},
        {"protocolVersion": None},
        {"revisionDigest": "0" * 64},
        {"entries": {}},
        {"entries": [7]},
        {"entries": [{}]},
        {"entries": [{"remoteName": 1, "localName": "a"}]},
        {"more": 1},
    ],
)
def test_snapshots_that_are_none(tmp_path: Path, change: Json) -> None:
    """Also with a digest that fits: whoever edits a file can count."""
    path = tmp_path / "s.pin"
    kept = snapshot().to_json() | change
    if "revisionDigest" not in change:
        del kept["revisionDigest"]
        kept["revisionDigest"] = identity_digest(kept)
    path.write_text(laid_out({"format": PIN_FORMAT, "snapshot": kept}))
    assert code(path) == "mcp_pin_invalid"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 2000, b" " * (16 * 1024 * 1024 + 1)])
def test_files_that_are_no_pin(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "s.pin"
    path.write_bytes(text)
    assert code(path) == "mcp_pin_invalid"


def test_a_file_that_was_put_in_the_place_of_another(tmp_path: Path) -> None:
    """A good pin of another server says nothing of this one."""
    pin(snapshot(server="other"), tmp_path / "other.pin")
    os.replace(tmp_path / "other.pin", tmp_path / "s.pin")
    assert code(tmp_path / "s.pin", snapshot()) == "mcp_pin_mismatch"
    (change,) = compare(load_pin(tmp_path / "s.pin"), snapshot()).changes
    assert change == PinChange("changed", None, "$.serverId", "other", "s")


def test_one_byte_of_a_description(tmp_path: Path) -> None:
    path = tmp_path / "s.pin"
    pin(snapshot(), path)
    found = snapshot(entry(description="search"))
    assert code(path, found) == "mcp_pin_mismatch"
    diff = compare(load_pin(path), found)
    assert diff.changes == (PinChange("changed", "search", "$.description", "Search", "search"),)
    assert diff.to_text() == '~ tool "search" description: "Search" -> "search"'


def test_fields_that_came_and_went() -> None:
    schema = json.loads(json.dumps(SCHEMA))
    del schema["properties"]["q"]["maxLength"]
    schema["properties"]["path"] = {"type": "string"}
    schema["required"] = ["q", "path"]
    diff = compare(snapshot(), snapshot(entry(inputSchema=schema)))
    assert [(change.kind, change.path) for change in diff.changes] == [
        ("added", "$.inputSchema.properties.path"),
        ("removed", "$.inputSchema.properties.q.maxLength"),
        ("changed", "$.inputSchema.required"),
    ]
    assert diff.to_text().splitlines() == [
        '+ tool "search" inputSchema.properties.path: {"type": "string"}',
        '- tool "search" inputSchema.properties.q.maxLength: 3',
        '~ tool "search" inputSchema.required: ["q"] -> ["q", "path"]',
    ]


def test_a_tool_that_was_renamed_is_another_tool() -> None:
    diff = compare(snapshot(), snapshot(entry("search2")))
    assert [(change.kind, change.tool, change.path) for change in diff.changes] == [
        ("removed", "search", "$"),
        ("added", "search2", "$"),
    ]
    swapped = compare(
        snapshot(entry("a", "x"), entry("b", "y")),
        snapshot(entry("a", "y"), entry("b", "x")),
    )
    assert [(change.tool, change.path) for change in swapped.changes] == [("a", "$.localName"), ("b", "$.localName")]


def test_numbers_are_no_flags() -> None:
    diff = compare(snapshot(entry(concurrencySafe=True)), snapshot(entry(concurrencySafe=1)))
    assert [change.path for change in diff.changes] == ["$.concurrencySafe"]


def test_the_order_of_members_is_no_difference() -> None:
    one = {"type": "object", "anyOf": [{"type": "object", "title": "T"}]}
    two = {"anyOf": [{"title": "T", "type": "object"}], "type": "object"}
    assert not compare(snapshot(entry(inputSchema=one)), snapshot(entry(inputSchema=two)))


def test_the_largest_snapshot_can_be_pinned(tmp_path: Path) -> None:
    """As many nodes as a digest admits, as deep as schemas go, in characters whose escapes are long."""
    deep: Any = ["é" * 100]
    for _ in range(28):
        deep = [deep]
    large = snapshot(*(entry(f"t{index}", f"t{index}", inputSchema=deep) for index in range(900)))
    pin(large, tmp_path / "large.pin")
    assert load_pin(tmp_path / "large.pin") == large


def test_no_difference_is_nothing() -> None:
    diff = compare(snapshot(), snapshot())
    assert not diff
    assert (diff.changes, diff.to_text(), repr(diff)) == ((), "", "<PinDiff of 0>")


def test_a_diff_moves_no_cursor() -> None:
    hostile = "\x1b[2J\u202eevil\n+ tool"
    diff = compare(snapshot(), snapshot(entry(description=hostile), entry(hostile, "other")))
    text = diff.to_text()
    assert text.isascii()
    assert all(char.isprintable() for line in text.splitlines() for char in line)
    assert len(text.splitlines()) == len(diff.changes) == 2
    assert "evil" not in repr(diff) + repr(diff.changes[0])
