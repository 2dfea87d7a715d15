"""Approvals in one SQLite file: the store for hosts on one machine.

Owns: the connection and its one thread, the pragmas that make a commit last, and the file's format. Does not own: the
tables and records (``mcpl_core.approvals.sql``).

Write-ahead log, ``synchronous = FULL``: what a transaction returned survives a power failure, as far as the disk keeps
its word. Several processes may share the file; they take turns. The file belongs to whoever made it: nobody else can
read it, unless they are let.

Whoever reads alone needs no more than to read, and leaves nothing behind. A file whose log is empty is read as it
stands, without locks, and again if it changed meanwhile: a log that a reader made would be the reader's own, and keep
the owner out. Where the log holds something, ``-wal`` and ``-shm`` are read too.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import quote

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
#: How often a file that changes while it is read is read anew.
_TRIES: Final = 10
#: Seconds between two looks at a file that others are making.
_PAUSE: Final = 0.005
#: Primary result code of SQLite -> what it means, for those who write and for those who read.
_MEANINGS: Final[dict[int, tuple[str, str]]] = {
    sqlite3.SQLITE_READONLY: (
        "it is there for reading only: writing needs the right to write the file and its folder",
        "a write was cut off, and only somebody who may write the file and its folder can undo it",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "the file cannot be opened: writing needs a folder that is there, and the right to write in it, the file and"
        " its log (-wal, -shm)",
        "the file, or the log of changes beside it, cannot be read: where there is a -wal that is not empty, reading"
        " needs it and its -shm, which only somebody who may write the folder can make",
    ),
}


class SqliteApprovalStore:
    """An ``ApprovalStore`` in one file. An async context manager: entering it opens the file, leaving it closes it.

    Args:
        path: the file, which has one name. It is never moved or put back while a store is open.
        create: whether to make it when it is not there.
        busy_timeout: seconds to wait while another process writes.
        read_only: whether nothing is written and nothing is made: it is enough to be able to read the file, and its log
            while that holds something. What writes is refused.

    Raises:
        InvalidValueError: the timeout is none.
        ApprovalStorageError: on entering: the file is not there, cannot be used, or is of another program.
        ApprovalError: on entering: ``approval_storage_version``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        busy_timeout: float = DEFAULT_BUSY_TIMEOUT,
        read_only: bool = False,
    ) -> None:
        # No name is more than a name here: ":memory:" would be a store that no claim outlives.
        self._path = Path(os.fspath(path)).absolute()
        self._create = create and not read_only
        self._read_only = read_only
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
        self._check_writing()
        return await self._thread.run(lambda: self._write(work))

    async def read(self, work: Callable[[Transaction], R]) -> R:
        """See ``ApprovalStore``."""
        return await self._thread.run(lambda: self._read(work))

    async def activate(self) -> None:
        """See ``ApprovalStore``."""
        self._check_writing()
        await self._thread.run(self._activate)

    async def aclose(self) -> None:
        """See ``ApprovalStore``."""
        await self._thread.close(self._close)

    def _check_writing(self) -> None:
        if self._read_only:
            raise ApprovalStorageError("the store was opened for reading only")

    def _open(self) -> None:
        try:
            fresh = self._fresh()
            if self._read_only:
                self._file = self._found()
            else:
                self._open_for_writing(fresh)
        except (sqlite3.Error, OSError, ValueError) as exc:
            raise self._failure("the store cannot be used", exc) from exc
        if self._read_only:
            self._read_anew(lambda: (self._check_application(), self._format()))
        else:
            self._transact("BEGIN IMMEDIATE", self._migrate)

    def _fresh(self) -> bool:
        """Whether the file is to be made.

        Raises:
            OSError, ValueError: nobody can tell.
            ApprovalStorageError: there is none, and none is to be made; or it is no file.
        """
        try:
            fresh, usable = False, stat.S_ISREG(self._path.stat().st_mode)
        except FileNotFoundError:
            fresh, usable = True, self._create
        if not usable:
            raise ApprovalStorageError(f"there is no store at {self._path}")
        return fresh

    def _open_for_writing(self, fresh: bool) -> None:
        if not fresh and not self._may_write():
            # SQLite would open it for reading, and make a log of ours that keeps the owner out.
            raise sqlite3.OperationalError(_MEANINGS[sqlite3.SQLITE_READONLY][0])
        if fresh:
            # The log gets the permissions of the file, and the file those of this one from its first moment on.
            with tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=".mcpl-") as private:
                self._connect(f"mode=rwc&modeof={quote(private.name)}")
        else:
            self._connect("mode=rw")
        self._file = self._found()
        self._keep_log()
        for setting in ("synchronous = FULL", "fullfsync = ON"):
            self._execute(f"PRAGMA {setting}")

    def _keep_log(self) -> None:
        end = monotonic() + self._busy_timeout
        while True:
            try:
                self._execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as exc:
                # Of two that would change it at once SQLite refuses one without waiting, lest both wait for ever.
                if _primary(exc) != sqlite3.SQLITE_BUSY or monotonic() >= end:
                    raise
                sleep(_PAUSE)

    def _connect(self, how: str) -> None:
        self._database = sqlite3.connect(
            f"{self._path.as_uri()}?{how}", uri=True, isolation_level=None, timeout=self._busy_timeout
        )
        # What is no text comes to whoever reads the row, and is refused there.
        self._database.text_factory = lambda data: data.decode(errors="surrogateescape")

    def _failure(self, what: str, exc: Exception) -> ApprovalStorageError:
        meaning = _MEANINGS.get(_primary(exc))
        return ApprovalStorageError(f"{what}: {exc if meaning is None else meaning[self._read_only]}")

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
        if self._check_application() == 0:
            self._execute(f"PRAGMA application_id = {_APPLICATION}")
            self._step_to(1)
        self._format()

    def _check_application(self) -> int:
        ((application,),) = self._execute("PRAGMA application_id")
        if application == 0 and not self._execute("SELECT 1 FROM sqlite_master LIMIT 1"):
            if self._read_only:
                raise ApprovalStorageError(f"there is no store in {self._path} yet")
        elif application != _APPLICATION:
            raise ApprovalStorageError("the file is of another program")
        return int(application)

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
        return self._transact("BEGIN IMMEDIATE", lambda: work(self._transaction()))

    def _read(self, work: Callable[[Transaction], R]) -> R:
        if self._read_only:
            return self._read_anew(lambda: work(self._transaction()))
        return self._transact("BEGIN", lambda: work(self._transaction()))

    def _transaction(self) -> SqlTransaction:
        return SqlTransaction(self._execute, self._format())

    def _read_anew(self, work: Callable[[], R]) -> R:
        """Reads over a connection of its own: what is in the log, and whether there is one, changes."""
        if self._file is None:
            raise ApprovalStorageError("the store is not open")
        for _ in range(_TRIES):
            before, still = self._state()
            try:
                self._check_log()
                self._guard(self._connect, "mode=ro&immutable=1" if still else "mode=ro")
                found = self._transact("BEGIN", work)
            except Exception as exc:
                # A file that was written meanwhile may have looked like anything, and its log may be gone.
                torn = still or isinstance(exc, ApprovalStorageError)
                if not torn or self._state()[0] == before:
                    raise
            else:
                if not still or self._state()[0] == before:
                    return found
            finally:
                self._close()
        raise ApprovalStorageError("the store failed: other processes do not let it be read")

    def _state(self) -> tuple[tuple[int, ...], bool]:
        """What tells whether the file was changed, and whether all that was committed is in it."""
        try:
            file = self._path.stat()
            # The order matters: what leaves the log after this look changes the file after that one.
            still = not any(_holds_something(self._beside(suffix)) for suffix in ("-wal", "-journal"))
        except OSError as exc:
            raise ApprovalStorageError(f"the file of the store is gone: {exc}") from exc
        return (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns), still

    def _check_log(self) -> None:
        """Refuses to read a log without its index where that would be made by, and belong to, who may not write."""
        log, index = self._beside("-wal"), self._beside("-shm")
        if _holds_something(log) and not os.path.exists(index) and not self._may_write():
            raise ApprovalStorageError(f"the store failed: {_MEANINGS[sqlite3.SQLITE_CANTOPEN][True]}")

    def _may_write(self) -> bool:
        return os.access(self._path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)

    def _beside(self, suffix: str) -> str:
        # SQLite has them beside the file that a symbolic link leads to.
        return f"{os.path.realpath(self._path)}{suffix}"

    def _transact(self, begin: str, work: Callable[[], R]) -> R:
        # What an earlier one could not undo binds none.
        self._roll_back()
        self._guarded(f"PRAGMA query_only = {'ON' if begin == 'BEGIN' else 'OFF'}")
        self._guarded(begin)
        try:
            self._check_file()
            result = work()
            self._execute("COMMIT")
        except BaseException as exc:
            self._roll_back()
            if isinstance(exc, sqlite3.Error):
                raise self._failure("the store failed", exc) from exc
            raise
        return result

    def _roll_back(self) -> None:
        if self._database is not None and self._database.in_transaction:
            self._guarded("ROLLBACK")

    def _guarded(self, statement: str) -> None:
        self._guard(self._execute, statement)

    def _guard(self, step: Callable[[str], object], argument: str) -> None:
        try:
            step(argument)
        except sqlite3.Error as exc:
            raise self._failure("the store failed", exc) from exc

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if self._database is None:
            raise ApprovalStorageError("the store is not open")
        return self._database.execute(statement, values).fetchall()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _primary(exc: Exception) -> int:
    # The low byte of a result code.
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF


def _holds_something(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False
