"""A file for the outbox: events survive the server process.

Owns: the SQLite schema and its versions. Does not own: which events are kept (``outbox``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from os import PathLike

import msgspec

from ..errors import InvalidValueError, LocalProtocolError
from ..protocol import PushEventParams
from ..wire.values import decode_value, encode_value

__all__ = ("FileOutboxStore",)

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    principal TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event BLOB NOT NULL,
    UNIQUE (principal, event_id)
)
"""


class FileOutboxStore:
    """An ``OutboxStore`` in one SQLite file. For one server process at a time.

    Args:
        path: the file; made when it is not there.

    Raises:
        LocalProtocolError: the file was written by a later version of this package, or is in use.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, timeout=2.0)
        try:
            # What was answered as kept must be there after a power cut, too.
            self._database.execute("PRAGMA synchronous = FULL")
            # Two servers on one file would send the same event under one id and forget each other's.
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._migrate()
        except sqlite3.OperationalError as exc:
            self._database.close()
            raise LocalProtocolError(f"the outbox file cannot be used: {exc}") from exc
        except BaseException:
            self._database.close()
            raise

    def _migrate(self) -> None:
        self._database.execute("BEGIN EXCLUSIVE")
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version > _SCHEMA_VERSION:
            self._database.execute("ROLLBACK")
            raise LocalProtocolError(f"the outbox file has schema {version}, this version reads {_SCHEMA_VERSION}")
        if version < _SCHEMA_VERSION:
            self._database.execute(_SCHEMA)
            self._database.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        self._database.execute("COMMIT")

    def load(self) -> Iterator[tuple[str, PushEventParams]]:
        """See ``OutboxStore``. An entry that cannot be read is dropped from the file."""
        rows = self._database.execute("SELECT principal, event_id, event FROM events ORDER BY position").fetchall()
        for principal, event_id, event in rows:
            try:
                yield principal, decode_value(bytes(event), PushEventParams)
            except (InvalidValueError, msgspec.ValidationError):
                self.remove(principal, event_id)

    def add(self, principal: str, event: PushEventParams) -> None:
        """See ``OutboxStore``."""
        self._database.execute(
            "INSERT OR REPLACE INTO events (principal, event_id, event) VALUES (?, ?, ?)",
            (principal, event.event_id, encode_value(event)),
        )

    def remove(self, principal: str, event_id: str) -> None:
        """See ``OutboxStore``."""
        self._database.execute("DELETE FROM events WHERE principal = ? AND event_id = ?", (principal, event_id))

    def close(self) -> None:
        """See ``OutboxStore``."""
        self._database.close()
