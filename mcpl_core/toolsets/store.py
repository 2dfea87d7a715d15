"""A file for instances: they survive the server process.

Owns: the SQLite schema and its versions. Does not own: how a file is used (``server.store``), what is kept and when
(``keeping``), and what it means.
"""

from __future__ import annotations

from ..server.store import RowFile
from .errors import ToolsetStoreError

__all__ = ("FileToolsetStore",)


class FileToolsetStore(RowFile):
    """A ``ToolsetStore`` in one SQLite file, for one server process at a time.

    What survives: the instances of toolsets with ``load``, their ids and the counters of ids, the records of instances
    that ended, and since when a principal is away. What does not: events that are held for who is away; what
    ``toolset_use`` chose, which is a connection's; credentials; and instances of toolsets without ``load``, which are
    closed when the server stops. An end that a killed process did not write is told by nobody.

    Args:
        path: the file; made when it is not there.

    Raises:
        ToolsetStoreError: the file is in use, cannot be opened, is no SQLite file, or was written by a later version of
            this package.
    """

    error = ToolsetStoreError
    migrations = (
        "CREATE TABLE kept (principal TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL,"
        " PRIMARY KEY (principal, id))",
    )
    reading = "SELECT principal, id, data FROM kept ORDER BY rowid"
    keeping = "INSERT INTO kept VALUES (?, ?, ?) ON CONFLICT (principal, id) DO UPDATE SET data = excluded.data"
    forgetting = "DELETE FROM kept WHERE principal = ? AND id = ?"
