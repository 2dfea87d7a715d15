"""Files for what a host remembers: handled events and kept states survive the process.

Owns: the SQLite schemas and their versions. Does not own: what is remembered (``dedupe``, ``state``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any, ClassVar, Final

from msgspec import UNSET

from ..errors import InvalidValueError, LocalProtocolError
from ..wire.values import decode_value, encode_value
from .dedupe import EventKey
from .events import EventAnswer
from .state import Checkpoint

__all__ = ("FileSeenStore", "FileStateStore")


class _File:
    """One SQLite file for one process at a time.

    Raises:
        LocalProtocolError: the file is something else, was written by a later version of this package, or is in use.
    """

    #: Tells the files of the two stores, and those of other programs, apart.
    _APPLICATION: ClassVar[int]
    _VERSION: Final = 1
    _SCHEMA: ClassVar[tuple[str, ...]]

    def __init__(self, path: str | PathLike[str]) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, timeout=2.0)
        try:
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._migrate()
        except sqlite3.DatabaseError as exc:
            self._database.close()
            raise LocalProtocolError(f"the file cannot be used: {exc}") from exc
        except BaseException:
            self._database.close()
            raise

    def _migrate(self) -> None:
        self._database.execute("BEGIN EXCLUSIVE")
        try:
            (application,) = self._database.execute("PRAGMA application_id").fetchone()
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            if application not in (0, self._APPLICATION) or (application == 0 and self._foreign()):
                raise LocalProtocolError("the file is of another program, or of another store")
            if version > self._VERSION:
                raise LocalProtocolError(f"the file has schema {version}, this version reads {self._VERSION}")
            if version < self._VERSION:
                for statement in self._SCHEMA:
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA application_id = {self._APPLICATION}")
                self._database.execute(f"PRAGMA user_version = {self._VERSION}")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def _foreign(self) -> bool:
        return self._database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None

    def close(self) -> None:
        """Releases the file."""
        self._database.close()


class FileSeenStore(_File):
    """A ``SeenStore`` in one SQLite file.

    Args:
        path: the file; made when it is not there.

    Raises:
        LocalProtocolError: the file cannot be used.
    """

    _APPLICATION = 0x4D43504C
    _SCHEMA = (
        """CREATE TABLE seen (
            position INTEGER PRIMARY KEY AUTOINCREMENT,
            server TEXT NOT NULL,
            channel TEXT NOT NULL,
            id TEXT NOT NULL,
            accepted INTEGER NOT NULL,
            inference_id TEXT,
            conversation_id TEXT,
            reason TEXT,
            UNIQUE (server, channel, id)
        )""",
    )

    def load(self) -> Iterator[tuple[EventKey, EventAnswer]]:
        """See ``SeenStore``."""
        columns = "server, channel, id, accepted, inference_id, conversation_id, reason"
        for row in self._database.execute(f"SELECT {columns} FROM seen ORDER BY position").fetchall():
            server, channel, id, accepted, inference_id, conversation_id, reason = row
            answer = EventAnswer(
                accepted=bool(accepted), inference_id=inference_id, conversation_id=conversation_id, reason=reason
            )
            yield EventKey(_text(server), _channel(channel), _text(id)), answer

    def add(self, key: EventKey, answer: EventAnswer) -> None:
        """See ``SeenStore``."""
        values = (answer.accepted, answer.inference_id, answer.conversation_id, answer.reason)
        self._database.execute(
            "INSERT OR REPLACE INTO seen (server, channel, id, accepted, inference_id, conversation_id, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*_columns(key), *values),
        )

    def remove(self, key: EventKey) -> None:
        """See ``SeenStore``."""
        self._database.execute("DELETE FROM seen WHERE server = ? AND channel = ? AND id = ?", _columns(key))


class FileStateStore(_File):
    """A ``StateStore`` in one SQLite file.

    Args:
        path: the file; made when it is not there.

    Raises:
        LocalProtocolError: the file cannot be used.
    """

    _APPLICATION = 0x4D43505C
    _SCHEMA = (
        """CREATE TABLE trees (
            server TEXT NOT NULL,
            feature_set TEXT NOT NULL,
            current TEXT,
            checkpoints BLOB NOT NULL,
            PRIMARY KEY (server, feature_set)
        )""",
    )

    def load(self) -> Iterator[tuple[str, str, list[Checkpoint], str | None]]:
        """See ``StateStore``. A tree that cannot be read is passed over."""
        for row in self._database.execute("SELECT server, feature_set, checkpoints, current FROM trees").fetchall():
            server, feature_set, blob, current = row
            try:
                text = blob if isinstance(blob, bytes) else str(blob).encode()
                checkpoints = [_checkpoint(entry) for entry in decode_value(text, list[dict[str, Any]])]
            except (InvalidValueError, KeyError):
                continue
            yield _text(server), _text(feature_set), checkpoints, None if current is None else _text(current)

    def save(self, server: str, feature_set: str, checkpoints: Iterable[Checkpoint], current: str | None) -> None:
        """See ``StateStore``."""
        kept = [
            {"id": each.id, "parent": each.parent} | ({} if each.data is UNSET else {"data": each.data})
            for each in checkpoints
        ]
        self._database.execute(
            "INSERT OR REPLACE INTO trees (server, feature_set, checkpoints, current) VALUES (?, ?, ?, ?)",
            (_bound(server), _bound(feature_set), encode_value(kept), None if current is None else _bound(current)),
        )

    def remove(self, server: str) -> None:
        """See ``StateStore``."""
        self._database.execute("DELETE FROM trees WHERE server = ?", (_bound(server),))


def _checkpoint(entry: dict[str, Any]) -> Checkpoint:
    data = entry.get("data", UNSET)
    id, parent = entry["id"], entry["parent"]
    if not isinstance(id, str) or not isinstance(parent, str | None):
        raise InvalidValueError("type", "a checkpoint is named by a string")
    size = 0 if data is UNSET else len(encode_value(data))
    return Checkpoint(id, parent, data, size)


def _columns(key: EventKey) -> tuple[str, str, str]:
    # A pushed event has no channel, and NULL is not UNIQUE; a channel's own id is marked.
    return _bound(key.server), "" if key.channel is None else "#" + _bound(key.channel), _bound(key.id)


def _channel(column: str) -> str | None:
    return _text(column[1:]) if column else None


# SQLite takes no lone surrogates, and a server's words may hold some: they are kept as JSON escapes.


def _bound(text: str) -> str:
    return encode_value(text).decode()


def _text(column: str) -> str:
    value: str = decode_value(column.encode(), str)
    return value
