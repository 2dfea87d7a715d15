"""A snapshot kept in a file, and what is different today.

Owns: the file, its check, and the differences in words for people. Does not own: the decision to trust a snapshot; a
pin is made by somebody who looked at it. There is no trust on first use: a file that is not there, cannot be read or
was changed refuses, and so does a tool that is not in it, under whatever name it comes.

The digest in the file finds accidents and edits. It is no signature: who may write the file may pin anew. Files are
read and written at once; async code does it in a thread.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import LocalProtocolError
from ..trees import Place, at_place
from ..wire.values import decode_value
from .bounded import JsonBudget, copy_bounded
from .errors import CatalogError
from .snapshot import READ_SCHEMA, WRITE_SCHEMA, ToolSnapshot, make_snapshot

__all__ = ("PIN_FORMAT", "PinChange", "PinDiff", "check_pin", "compare", "load_pin", "pin")

PIN_FORMAT: Final = "mcpl-tool-pin/v1"

#: Bytes of a file. A snapshot has at most one MiB, of which escapes and layout can make several.
_LONGEST_FILE: Final = 16 * 1024 * 1024
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class PinChange:
    """One difference.

    Attributes:
        kind: ``added``, ``removed`` or ``changed``, of a tool or of a field.
        tool: the tool's name at the server; ``None``: it is about the snapshot itself.
        path: the field, as ``$.inputSchema.properties.q``; ``$``: the whole tool.
        before, after: the values; ``None`` also where there is none.
    """

    kind: Literal["added", "removed", "changed"]
    tool: str | None
    path: str
    before: Any
    after: Any

    def __repr__(self) -> str:
        return f"<PinChange {self.kind}>"


@dataclass(frozen=True, slots=True)
class PinDiff:
    """All differences between two snapshots. Falsy when there are none.

    Attributes:
        changes: in the order of the tools' names.
    """

    changes: tuple[PinChange, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __repr__(self) -> str:
        return f"<PinDiff of {len(self.changes)}>"

    def to_text(self) -> str:
        """Lines for a person. They hold what the server wrote, with everything but printable ASCII escaped; they are
        for who decides on the pin, not for a log or a model."""
        return "\n".join(_line(change) for change in self.changes)


def pin(snapshot: ToolSnapshot, path: str | os.PathLike[str], *, replace: bool = False) -> None:
    """Keeps a snapshot in a file, whole or not at all.

    Args:
        snapshot: what somebody looked at and trusts.
        path: the file.
        replace: whether another pin may be there; it is replaced.

    Raises:
        LocalProtocolError: there is a file, and it is not to be replaced.
        OSError: it cannot be written.
    """
    target = os.fspath(path)
    # Under a name that nobody has: drafts of the dead may lie about.
    descriptor, draft = tempfile.mkstemp(".draft", f"{os.path.basename(target)}.", os.path.dirname(target) or os.curdir)
    try:
        with open(descriptor, "wb") as file:
            file.write(_written(snapshot))
            file.flush()
            os.fsync(file.fileno())
        taken = not _place(draft, target, replace)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    if taken:
        raise LocalProtocolError("there is a pin already")


def _written(snapshot: ToolSnapshot) -> bytes:
    """The only text of a pin of this snapshot."""
    text = json.dumps({"format": PIN_FORMAT, "snapshot": snapshot.to_json()}, indent=1, sort_keys=True)
    return f"{text}\n".encode()


def _place(draft: str, target: str, replace: bool) -> bool:
    """Whether the draft stands where it should. A link, unlike a rename, never replaces anything."""
    if replace:
        os.replace(draft, target)
        return True
    try:
        os.link(draft, target)
    except FileExistsError:
        return False
    return True


def load_pin(path: str | os.PathLike[str]) -> ToolSnapshot:
    """The snapshot of a file.

    Raises:
        CatalogError: ``mcp_pin_invalid``: it is not there, is no pin, or is not what was written; line ends alone may
            be those of another system.
    """
    snapshot: ToolSnapshot | None = None
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        snapshot = _read(path)
    if snapshot is None:
        raise CatalogError("mcp_pin_invalid")
    return snapshot


def _read(path: str | os.PathLike[str]) -> ToolSnapshot | None:
    with open(path, "rb") as file:
        text = file.read(_LONGEST_FILE + 1)
    if len(text) > _LONGEST_FILE:
        return None
    budget = JsonBudget(depth=70, nodes=70_000, bytes=_LONGEST_FILE)
    kept = copy_bounded(decode_value(text), budget)["snapshot"]
    version, server, protocol = kept["schemaVersion"], kept["serverId"], kept["protocolVersion"]
    entries = kept["entries"]
    if type(version) is not int or version not in (READ_SCHEMA, WRITE_SCHEMA) or not isinstance(entries, list):
        return None
    texts = [server, protocol, *(entry[name] for entry in entries for name in ("remoteName", "localName"))]
    if not all(isinstance(text, str) for text in texts):
        return None
    snapshot = make_snapshot(version, server, protocol, entries)
    # Format, names, order and digest, all at once; and nothing that one reader sees and another one does not.
    return snapshot if _written(snapshot) == text.replace(b"\r\n", b"\n") else None


def check_pin(path: str | os.PathLike[str], snapshot: ToolSnapshot) -> None:
    """Whether what was discovered is what was pinned, to the byte.

    Raises:
        CatalogError: ``mcp_pin_mismatch``: it is not (``compare`` tells what is different); ``mcp_pin_invalid``.
    """
    if load_pin(path).revision_digest != snapshot.revision_digest:
        raise CatalogError("mcp_pin_mismatch")


def compare(pinned: ToolSnapshot, found: ToolSnapshot) -> PinDiff:
    """What is different. Tools are matched by their names at the server: one that was renamed is gone, and another one
    came."""
    before, after = pinned.to_json(), found.to_json()
    old = {entry["remoteName"]: entry for entry in before.pop("entries")}
    new = {entry["remoteName"]: entry for entry in after.pop("entries")}
    for header in (before, after):
        del header["revisionDigest"]
    changes = list(_differences(None, before, after, None))
    for name in sorted(old.keys() | new.keys()):
        changes += _differences(name, old.get(name, _ABSENT), new.get(name, _ABSENT), None)
    return PinDiff(tuple(changes))


def _differences(tool: str | None, before: Any, after: Any, place: Place) -> Iterator[PinChange]:
    """Down to the smallest part that differs; lists are compared as wholes."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted(before.keys() | after.keys()):
            yield from _differences(tool, before.get(name, _ABSENT), after.get(name, _ABSENT), (place, name))
    elif before is _ABSENT:
        yield PinChange("added", tool, at_place(place), None, after)
    elif after is _ABSENT:
        yield PinChange("removed", tool, at_place(place), before, None)
    elif not _same(before, after):
        yield PinChange("changed", tool, at_place(place), before, after)


def _same(before: Any, after: Any) -> bool:
    # As texts: for Python, True is 1.
    return json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)


_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}


def _line(change: PinChange) -> str:
    where = "snapshot" if change.tool is None else f"tool {json.dumps(change.tool)}"
    what = "" if change.path == "$" else f" {change.path.removeprefix('$.')}"
    sides = {"added": [change.after], "removed": [change.before], "changed": [change.before, change.after]}
    values = " -> ".join(map(json.dumps, sides[change.kind]))
    return f"{_SIGNS[change.kind]} {where}{what}: {values}".encode("ascii", "backslashreplace").decode()
