"""A file for the outbox: events survive the server process.

Owns: the SQLite schema and its versions. Does not own: which events are kept (``outbox``), and when they are written
(``journal``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Final

from .journal import Change, OutboxStoreError

__all__ = ("FileOutboxStore",)

_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    principal TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event BLOB NOT NULL,
    UNIQUE (principal, event_id)
)
"""
_KEEP: Final = "INSERT OR REPLACE INTO events (principal, event_id, event) VALUES (?, ?, ?)"
_FORGET: Final = "DELETE FROM events WHERE principal = ? AND event_id = ?"


class FileOutboxStore:
    """An ``OutboxStore`` in one SQLite file, for one server process at a time.

    Args:
        path: the file; made when it is not there.

    Raises:
        OutboxStoreError: the file is in use, cannot be opened, is no SQLite file, or was written by a later version of
            this package.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        with _translated():
            # Calls come from worker threads, one at a time.
            self._database = sqlite3.connect(path, isolation_level=None, timeout=2.0, check_same_thread=False)
        try:
            with _translated():
                # What was answered as kept must be there after a power cut, too.
                self._database.execute("PRAGMA synchronous = FULL")
                # Two servers on one file would send the same event under one id and forget each other's.
                self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._migrate()
        except BaseException:
            self._database.close()
            raise

    def _migrate(self) -> None:
        self._database.execute("BEGIN EXCLUSIVE")
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version > _SCHEMA_VERSION:
            self._database.execute("ROLLBACK")
            raise OutboxStoreError(f"the file has schema {version}, this version reads {_SCHEMA_VERSION}")
        if version < _SCHEMA_VERSION:
            self._database.execute(_SCHEMA)
            self._database.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        self._database.execute("COMMIT")

    def load(self) -> Iterator[tuple[str, str, bytes]]:
        """See ``OutboxStore``."""
        with _translated():
            rows = self._database.execute("SELECT principal, event_id, event FROM events ORDER BY position").fetchall()
        for principal, event_id, text in rows:
            yield principal, event_id, bytes(text)

    def apply(self, changes: Sequence[Change]) -> None:
        """See ``OutboxStore``."""
        with _translated():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for principal, event_id, text in changes:
                    if text is None:
                        self._database.execute(_FORGET, (principal, event_id))
                    else:
                        self._database.execute(_KEEP, (principal, event_id, text))
                self._database.execute("COMMIT")
            except BaseException:
                self._database.rollback()
                raise

    def close(self) -> None:
        """See ``OutboxStore``."""
        self._database.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise OutboxStoreError(str(exc)) from exc
