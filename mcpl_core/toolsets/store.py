"""A file for instances: they survive the server process.

Owns: the SQLite schema and its versions. Does not own: what is kept and when (``keeping``), and what it means.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Final

from .errors import ToolsetStoreError
from .keeping import Row

__all__ = ("FileToolsetStore",)

#: One step for each version of the schema, in order; a file of version n gets those from n on.
_MIGRATIONS: Final = (
    "CREATE TABLE kept (principal TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (principal, id))",
)
_KEEP: Final = "INSERT INTO kept VALUES (?, ?, ?) ON CONFLICT (principal, id) DO UPDATE SET data = excluded.data"
_FORGET: Final = "DELETE FROM kept WHERE principal = ? AND id = ?"


class FileToolsetStore:
    """A ``ToolsetStore`` in one SQLite file, for one server process at a time.

    Args:
        path: the file; made when it is not there.

    Raises:
        ToolsetStoreError: the file is in use, cannot be opened, is no SQLite file, or was written by a later version of
            this package.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        with _translated():
            # Calls come from worker threads, one at a time.
            self._database = sqlite3.connect(path, isolation_level=None, timeout=2.0, check_same_thread=False)
        try:
            with _translated():
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
        if version > len(_MIGRATIONS):
            self._database.execute("ROLLBACK")
            raise ToolsetStoreError(f"the file has schema {version}, this version reads {len(_MIGRATIONS)}")
        for step in _MIGRATIONS[version:]:
            self._database.execute(step)
        self._database.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
        self._database.execute("COMMIT")

    def load(self) -> Iterator[tuple[str, str, bytes]]:
        """See ``ToolsetStore``."""
        with _translated():
            rows = self._database.execute("SELECT principal, id, data FROM kept ORDER BY rowid").fetchall()
        for principal, id, data in rows:
            # SQLite takes any value in any column, and what is no text has no row here that could be written again.
            if not (isinstance(principal, str) and isinstance(id, str) and isinstance(data, bytes)):
                raise ToolsetStoreError("the file holds what was not written by this package")
            yield principal, id, data

    def apply(self, rows: Sequence[Row]) -> None:
        """See ``ToolsetStore``."""
        with _translated():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for principal, id, data in rows:
                    if data is None:
                        self._database.execute(_FORGET, (principal, id))
                    else:
                        self._database.execute(_KEEP, (principal, id, data))
                self._database.execute("COMMIT")
            except BaseException:
                self._database.rollback()
                raise

    def close(self) -> None:
        """See ``ToolsetStore``."""
        self._database.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise ToolsetStoreError(str(exc)) from exc
