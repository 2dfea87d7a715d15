"""The databases that approvals are kept in, as tests use them: empty at the beginning, gone at the end.

PostgreSQL is used where ``MCPL_POSTGRES_DSN`` names a server (``.ci/postgres`` starts one); elsewhere its tests are
skipped.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mcpl_core.approvals import PostgresApprovalStore, SqliteApprovalStore

POSTGRES_DSN = os.environ.get("MCPL_POSTGRES_DSN", "")

needs_postgres = pytest.mark.skipif(not POSTGRES_DSN, reason="MCPL_POSTGRES_DSN names no server")


class Database:
    """One database that can be opened any number of times, also at once.

    Attributes:
        name: ``sqlite`` or ``postgres``.
        target: a path, or the name of a schema.
    """

    def __init__(self, name: str, target: str, make: Callable[[], Any]) -> None:
        self.name = name
        self.target = target
        self._make = make

    def open(self, *, activated: bool = True) -> AbstractAsyncContextManager[Any]:
        """A store that is open inside a block."""
        return self._open(activated)

    @asynccontextmanager
    async def _open(self, activated: bool) -> AsyncIterator[Any]:
        async with self._make() as store:
            if activated:
                await store.activate()
            yield store

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement behind the back of the store."""
        if self.name == "sqlite":
            return _execute_sqlite(self.target, statement)
        with _connection() as connection:
            connection.execute(f"SET search_path TO {self.target}".encode())
            cursor = connection.execute(statement.encode())
            return [] if cursor.description is None else cursor.fetchall()


def _execute_sqlite(path: str, statement: str) -> list[tuple[Any, ...]]:
    import sqlite3

    database = sqlite3.connect(path, isolation_level=None)
    try:
        return database.execute(statement).fetchall()
    finally:
        database.close()


def _connection() -> Any:
    import psycopg

    return psycopg.connect(POSTGRES_DSN, autocommit=True)


def sqlite_database(folder: Path) -> Database:
    path = str(folder / "approvals.db")
    return Database("sqlite", path, lambda: SqliteApprovalStore(path))


@contextmanager
def postgres_database() -> Iterator[Database]:
    schema = f"test_{uuid4().hex}"
    try:
        yield Database("postgres", schema, lambda: PostgresApprovalStore(POSTGRES_DSN, schema=schema))
    finally:
        with _connection() as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


#: For ``pytest.fixture(params=...)``.
DATABASES = ["sqlite", pytest.param("postgres", marks=needs_postgres)]


@contextmanager
def database_for(name: str, folder: Path) -> Iterator[Database]:
    """The database of a parameter of ``DATABASES``."""
    if name == "sqlite":
        yield sqlite_database(folder)
        return
    with postgres_database() as database:
        yield database
