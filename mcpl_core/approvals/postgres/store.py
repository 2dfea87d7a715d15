"""Approvals in PostgreSQL: the store for hosts on several machines.

Owns: the connection, the schema and its format. Does not own: the tables and records (``mcpl_core.approvals.sql``).

Transactions that write take turns: each locks the row that holds the format. Decisions are made at the pace of people,
so that one after the other is fast enough, and nothing here is ever tried twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...errors import InvalidValueError, LocalProtocolError
from ..errors import ApprovalStorageError, refuse
from ..fields import seconds
from ..sql import MIGRATIONS, SqlTransaction
from ..store import APPROVALS_FORMAT, Transaction, check_format
from ..worker import StoreThread

if TYPE_CHECKING:
    import psycopg

__all__ = ("DEFAULT_LOCK_TIMEOUT", "DEFAULT_SCHEMA", "KNOWN_FORMAT", "PostgresApprovalStore")

R = TypeVar("R")

#: The latest format that this program knows.
KNOWN_FORMAT: Final = APPROVALS_FORMAT
#: Where the tables are.
DEFAULT_SCHEMA: Final = "mcpl_approvals"
#: Seconds to wait for other hosts.
DEFAULT_LOCK_TIMEOUT: Final = 10.0

_CONFIGURE = "SELECT set_config(?, ?, TRUE), set_config(?, ?, TRUE), set_config(?, ?, TRUE)"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
#: Held while the schema is made; any number that nobody else uses.
_MAKING: Final = 0x4D43504B


class PostgresApprovalStore:
    """An ``ApprovalStore`` in one schema of a database. Entering it connects, leaving it closes.

    Args:
        dsn: how to connect, as libpq has it; where a network can go silent with its ``connect_timeout`` and
            ``tcp_user_timeout``. It may hold a password and is in no error of ours.
        schema: the schema. To make it needs the right to; to use it, rights on its tables are enough.
        create: whether to make it when it is not there.
        lock_timeout: seconds to wait while other hosts write; less than a millisecond is one.

    Raises:
        LocalProtocolError: psycopg is not installed (``pip install 'mcp-live-core[postgres]'``).
        InvalidValueError: the schema has no plain name, ``dsn`` says nothing to libpq, or the timeout is none.
        ApprovalStorageError: on entering: the database cannot be reached, or there is no store in it.
        ApprovalError: on entering: ``approval_storage_version``.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        create: bool = True,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
    ) -> None:
        if not _SCHEMA.fullmatch(schema):
            raise InvalidValueError("schema", "lower-case letters, digits and _, at most 63", "$.schema")
        try:
            import psycopg
        except ImportError as exc:
            raise LocalProtocolError("PostgreSQL needs pip install 'mcp-live-core[postgres]'") from exc
        self._library = psycopg
        self._dsn = _checked(psycopg, dsn)
        self._settings = {
            "search_path": schema,
            "synchronous_commit": "on",
            # PostgreSQL takes 0 for no limit at all.
            "lock_timeout": f"{max(1, round(seconds(lock_timeout, '$.lock_timeout') * 1000))}ms",
        }
        self._schema = schema
        self._create = create
        self._thread = StoreThread()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    async def __aenter__(self) -> PostgresApprovalStore:
        try:
            await self._thread.run(self._prepare)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def write(self, work: Callable[[Transaction], R]) -> R:
        """See ``ApprovalStore``."""
        return await self._thread.run(lambda: self._transact(lambda: work(self._transaction(lock=True))))

    async def read(self, work: Callable[[Transaction], R]) -> R:
        """See ``ApprovalStore``."""
        return await self._thread.run(
            lambda: self._transact(lambda: work(self._transaction(lock=False)), read_only=True)
        )

    async def activate(self) -> None:
        """See ``ApprovalStore``."""
        await self._thread.run(lambda: self._transact(self._activate))

    async def aclose(self) -> None:
        """See ``ApprovalStore``."""
        await self._thread.close(self._drop)

    def _prepare(self) -> None:
        # To look is enough where it is there: a server may let nobody write, or not us.
        if self._transact(self._look, read_only=True):
            return
        if not self._create:
            raise ApprovalStorageError(f"there is no store in the schema {self._schema}")
        self._transact(self._migrate)

    def _look(self) -> bool:
        made = self._made()
        if made:
            self._format(lock=False)
        return made

    def _migrate(self) -> None:
        self._make()
        self._format(lock=False)

    def _made(self) -> bool:
        # As a query: what a name was resolved to before waiting for others would still be remembered afterwards.
        tables = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = ? AND tablename = 'mcpl_format'"
        return self._execute(tables, (self._schema,)) != []

    def _make(self) -> None:
        self._execute("SELECT pg_advisory_xact_lock(?)", (_MAKING,))
        if self._made():
            return
        self._execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
        self._execute("CREATE TABLE mcpl_format (one BOOLEAN PRIMARY KEY CHECK (one), format INT NOT NULL)")
        for statement in MIGRATIONS[1]:
            self._execute(statement)
        self._execute("INSERT INTO mcpl_format VALUES (TRUE, 1)")

    def _activate(self) -> None:
        if self._format(lock=True) >= APPROVALS_FORMAT:
            return
        if any(SqlTransaction(self._execute, 1).open_work()):
            refuse("approval_activation_pending")
        for statement in MIGRATIONS[APPROVALS_FORMAT]:
            self._execute(statement)
        self._execute("UPDATE mcpl_format SET format = ?", (APPROVALS_FORMAT,))

    def _format(self, *, lock: bool) -> int:
        rows = self._execute(f"SELECT format FROM mcpl_format{' FOR UPDATE' if lock else ''}")
        return check_format(rows[0][0] if rows else -1, KNOWN_FORMAT)

    def _transaction(self, *, lock: bool) -> SqlTransaction:
        return SqlTransaction(self._execute, self._format(lock=lock))

    def _transact(self, work: Callable[[], R], *, read_only: bool = False) -> R:
        library = self._library
        try:
            connection = self._connected()
            connection.read_only = read_only
            level = library.IsolationLevel
            # Who writes must see what was committed while it waited for its turn, whatever the server's default is.
            connection.isolation_level = level.REPEATABLE_READ if read_only else level.READ_COMMITTED
            with connection.transaction():
                # Here, not once for each connection: a pooler between may give every transaction another one.
                self._execute(_CONFIGURE, [each for setting in self._settings.items() for each in setting])
                return work()
        except library.Error as exc:
            if self._connection is not None and self._connection.closed:
                self._drop()
            # The words of the library may hold the address, not the password.
            raise ApprovalStorageError(f"the store failed ({type(exc).__name__})") from exc

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None:
            self._connection = self._library.connect(self._dsn, autocommit=True, prepare_threshold=None)
        return self._connection

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        assert self._connection is not None
        cursor = self._connection.execute(statement.replace("?", "%s").encode(), values)
        return [] if cursor.description is None else cursor.fetchall()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _checked(library: Any, dsn: str) -> str:
    try:
        library.conninfo.conninfo_to_dict(dsn)
    except (library.Error, AttributeError):
        # What libpq says of it would repeat it.
        raise InvalidValueError("dsn", "no connection string of libpq", "$.dsn") from None
    return dsn
