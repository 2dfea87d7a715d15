"""Approvals in one SQLite file: the store for hosts on one machine.

Owns: the connection and its one thread, the pragmas that make a commit last, and the file's format. Does not own: the
tables and records (``mcpl_core.approvals.sql``).

Write-ahead log, ``synchronous = FULL``: what a transaction returned survives a power failure, as far as the disk keeps
its word. Several processes may share the file; they take turns. The file belongs to whoever made it: nobody else can
read it, unless they are let.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from ..errors import ApprovalStorageError, refuse
from ..fields import seconds
from ..sql import MIGRATIONS, SqlTransaction
from ..store import APPROVALS_FORMAT, Transaction, check_format
from ..worker import StoreThread

__all__ = ("DEFAULT_BUSY_TIMEOUT", "KNOWN_FORMAT", "SqliteApprovalStore")

R = TypeVar("R")

#: The latest format that this program knows.
KNOWN_FORMAT: Final = APPROVALS_FORMAT
#: Seconds to wait for another process.
DEFAULT_BUSY_TIMEOUT: Final = 10.0
#: Tells the file from those of other programs.
_APPLICATION: Final = 0x4D43504B


class SqliteApprovalStore:
    """An ``ApprovalStore`` in one file. An async context manager: entering it opens the file, leaving it closes it.

    Args:
        path: the file, which has one name. It is never moved or put back while a store is open.
        create: whether to make it when it is not there.
        busy_timeout: seconds to wait while another process writes.

    Raises:
        InvalidValueError: the timeout is none.
        ApprovalStorageError: on entering: the file is not there, cannot be used, or is of another program.
        ApprovalError: on entering: ``approval_storage_version``.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool = True, busy_timeout: float = DEFAULT_BUSY_TIMEOUT
    ) -> None:
        # No name is more than a name here: ":memory:" would be a store that no claim outlives.
        self._path = Path(os.fspath(path)).absolute()
        self._create = create
        self._busy_timeout = seconds(busy_timeout, "$.busy_timeout")
        self._thread = StoreThread()
        self._database: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    async def __aenter__(self) -> SqliteApprovalStore:
        try:
            await self._thread.run(self._open)
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
        return await self._thread.run(lambda: self._write(work))

    async def read(self, work: Callable[[Transaction], R]) -> R:
        """See ``ApprovalStore``."""
        return await self._thread.run(lambda: self._read(work))

    async def activate(self) -> None:
        """See ``ApprovalStore``."""
        await self._thread.run(self._activate)

    async def aclose(self) -> None:
        """See ``ApprovalStore``."""
        await self._thread.close(self._close)

    def _open(self) -> None:
        fresh = not self._path.exists()
        usable = self._create if fresh else self._path.is_file()
        if not usable:
            raise ApprovalStorageError(f"there is no store at {self._path}")
        try:
            self._database = sqlite3.connect(self._path, isolation_level=None, timeout=self._busy_timeout)
            if fresh:
                # Before the log is made, which has the permissions of the file.
                self._path.chmod(0o600)
            self._file = self._found()
            # What is no text comes to whoever reads the row, and is refused there.
            self._database.text_factory = lambda data: data.decode(errors="surrogateescape")
            for setting in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON"):
                self._execute(f"PRAGMA {setting}")
        except (sqlite3.Error, OSError, ValueError) as exc:
            raise ApprovalStorageError(f"the store cannot be used: {exc}") from exc
        self._transact("BEGIN IMMEDIATE", self._migrate)

    def _found(self) -> tuple[int, int]:
        """Which file it is.

        Raises:
            OSError: there is none.
            ApprovalStorageError: it has another name besides, under which its log would be another one.
        """
        found = self._path.stat()
        if found.st_nlink != 1:
            raise ApprovalStorageError("the file of the store has several names, or none")
        return found.st_dev, found.st_ino

    def _migrate(self) -> None:
        ((application,),) = self._execute("PRAGMA application_id")
        if application not in (0, _APPLICATION) or (
            application == 0 and self._execute("SELECT 1 FROM sqlite_master LIMIT 1")
        ):
            raise ApprovalStorageError("the file is of another program")
        if application == 0:
            self._execute(f"PRAGMA application_id = {_APPLICATION}")
            self._step_to(1)
        self._format()

    def _activate(self) -> None:
        def step() -> None:
            if self._format() >= APPROVALS_FORMAT:
                return
            if any(SqlTransaction(self._execute, 1).open_work()):
                refuse("approval_activation_pending")
            self._step_to(APPROVALS_FORMAT)

        self._transact("BEGIN IMMEDIATE", step)

    def _step_to(self, format: int) -> None:
        for statement in MIGRATIONS[format]:
            self._execute(statement)
        self._execute(f"PRAGMA user_version = {format}")

    def _format(self) -> int:
        ((found,),) = self._execute("PRAGMA user_version")
        return check_format(found, KNOWN_FORMAT)

    def _check_file(self) -> None:
        # Who works on a file that was taken away, or put in its place, does not see the claims of others.
        try:
            same = self._found() == self._file
        except OSError as exc:
            raise ApprovalStorageError(f"the file of the store is gone: {exc}") from exc
        if not same:
            raise ApprovalStorageError("another file is in the place of the store")

    def _write(self, work: Callable[[Transaction], R]) -> R:
        return self._transact("BEGIN IMMEDIATE", lambda: work(SqlTransaction(self._execute, self._format())))

    def _read(self, work: Callable[[Transaction], R]) -> R:
        self._guarded("PRAGMA query_only = ON")
        try:
            return self._transact("BEGIN", lambda: work(SqlTransaction(self._execute, self._format())))
        finally:
            self._guarded("PRAGMA query_only = OFF")

    def _transact(self, begin: str, work: Callable[[], R]) -> R:
        self._guarded(begin)
        try:
            self._check_file()
            result = work()
            self._execute("COMMIT")
        except BaseException as exc:
            self._roll_back()
            if isinstance(exc, sqlite3.Error):
                raise ApprovalStorageError(f"the store failed: {exc}") from exc
            raise
        return result

    def _roll_back(self) -> None:
        if self._database is not None and self._database.in_transaction:
            self._guarded("ROLLBACK")

    def _guarded(self, statement: str) -> None:
        try:
            self._execute(statement)
        except sqlite3.Error as exc:
            raise ApprovalStorageError(f"the store failed: {exc}") from exc

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if self._database is None:
            raise ApprovalStorageError("the store is not open")
        return self._database.execute(statement, values).fetchall()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
