"""A file for the outbox: events survive the server process. What else belongs to principals is kept in the same way.

Owns: the SQLite schema and its versions. Does not own: which events are kept (``outbox``), and when they are written
(``journal``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import ClassVar

from ..errors import McplError
from .journal import OutboxStoreError

__all__ = ("FileOutboxStore", "RowFile")


class RowFile:
    """Rows of a principal, an id and data, in one SQLite file for one process at a time. A subclass says what they are.

    Args:
        path: the file; made when it is not there.

    Attributes:
        error: takes a text: what every failure is raised as.
        migrations: one step for each version of the schema, in order; a file of version n gets those from n on.
        reading: the statement for all rows, in the order in which they were kept.
        keeping: the statement that takes a principal, an id and data.
        forgetting: the statement that takes a principal and an id.
    """

    error: ClassVar[type[McplError]]
    migrations: ClassVar[tuple[str, ...]]
    reading: ClassVar[str]
    keeping: ClassVar[str]
    forgetting: ClassVar[str]

    def __init__(self, path: str | PathLike[str]) -> None:
        with self._translated():
            # Calls come from worker threads, one at a time.
            self._database = sqlite3.connect(path, isolation_level=None, timeout=2.0, check_same_thread=False)
        try:
            with self._translated():
                # What was answered as kept must be there after a power cut, too.
                self._database.execute("PRAGMA synchronous = FULL")
                # Two servers on one file would each undo what the other keeps.
                self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._migrate()
        except BaseException:
            self._database.close()
            raise

    def _migrate(self) -> None:
        self._database.execute("BEGIN EXCLUSIVE")
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version > len(self.migrations):
            self._database.execute("ROLLBACK")
            raise self.error(f"the file has schema {version}, this version reads {len(self.migrations)}")
        for step in self.migrations[version:]:
            self._database.execute(step)
        self._database.execute(f"PRAGMA user_version = {len(self.migrations)}")
        self._database.execute("COMMIT")

    def load(self) -> Iterator[tuple[str, str, bytes]]:
        """All rows, in the order in which they were kept.

        Raises:
            McplError: ``error``; the file cannot be read, or holds something else.
        """
        with self._translated():
            rows = self._database.execute(self.reading).fetchall()
        for principal, id, data in rows:
            # SQLite takes any value in any column, and what is no text has no row here that could be written again.
            if not (isinstance(principal, str) and isinstance(id, str) and isinstance(data, bytes)):
                raise self.error("the file holds what was not written by this package")
            yield principal, id, data

    def apply(self, rows: Sequence[tuple[str, str, bytes | None]]) -> None:
        """Keeps each row, or forgets it where its data are ``None``, and returns when that will survive.

        Raises:
            McplError: ``error``; nothing was changed.
        """
        with self._translated():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for principal, id, data in rows:
                    if data is None:
                        self._database.execute(self.forgetting, (principal, id))
                    else:
                        self._database.execute(self.keeping, (principal, id, data))
                self._database.execute("COMMIT")
            except BaseException:
                self._database.rollback()
                raise

    def close(self) -> None:
        """Lets go of the file."""
        self._database.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise self.error(str(exc)) from exc


class FileOutboxStore(RowFile):
    """An ``OutboxStore`` in one SQLite file, for one server process at a time.

    Args:
        path: the file; made when it is not there.

    Raises:
        OutboxStoreError: the file is in use, cannot be opened, is no SQLite file, or was written by a later version of
            this package.
    """

    error = OutboxStoreError
    migrations = (
        """
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    principal TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event BLOB NOT NULL,
    UNIQUE (principal, event_id)
)
""",
    )
    reading = "SELECT principal, event_id, event FROM events ORDER BY position"
    keeping = "INSERT OR REPLACE INTO events (principal, event_id, event) VALUES (?, ?, ?)"
    forgetting = "DELETE FROM events WHERE principal = ? AND event_id = ?"
