"""The SQL that both stores speak: the tables, and the records in them.

Owns: the tables of each format, and reading and writing records. Every row holds a record as JSON, and beside it the
columns that are searched; a row whose columns say something else than its record is damaged. Does not own: the
databases (``sqlite.store``, ``postgres.store``), and what a transaction does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from ..errors import InvalidValueError
from ..wire.values import decode_value, encode_value
from .claims import Claim, ClaimKey, Receipt
from .errors import ApprovalError, refuse
from .events import ApprovalEvent
from .fields import storable
from .records import ApprovalRecord
from .runs import Checkpoint, Run
from .statuses import STATUSES, Status
from .store import APPROVALS_FORMAT

__all__ = ("MIGRATIONS", "SqlTransaction")

T = TypeVar("T")

#: Format -> what makes it of the one before. The common ground of SQLite and PostgreSQL.
MIGRATIONS: Final[dict[int, tuple[str, ...]]] = {
    1: (
        "CREATE TABLE mcpl_runs (run_id TEXT PRIMARY KEY, root_run_id TEXT NOT NULL, status TEXT NOT NULL,"
        " body TEXT NOT NULL)",
        "CREATE TABLE mcpl_checkpoints (run_id TEXT PRIMARY KEY, body TEXT NOT NULL)",
        "CREATE TABLE mcpl_claims (principal_id TEXT NOT NULL, tool_name TEXT NOT NULL, key TEXT NOT NULL,"
        " approval_id TEXT UNIQUE, body TEXT NOT NULL, PRIMARY KEY (principal_id, tool_name, key))",
        "CREATE TABLE mcpl_receipts (principal_id TEXT NOT NULL, tool_name TEXT NOT NULL, key TEXT NOT NULL,"
        " approval_id TEXT UNIQUE, expires_at_ms BIGINT, body TEXT NOT NULL,"
        " PRIMARY KEY (principal_id, tool_name, key))",
    ),
    2: (
        "CREATE TABLE mcpl_approvals (approval_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, call_id TEXT NOT NULL,"
        " tool_name TEXT NOT NULL, status TEXT NOT NULL, created_at_ms BIGINT NOT NULL, body TEXT NOT NULL,"
        " UNIQUE (run_id, call_id))",
        "CREATE INDEX mcpl_approvals_by_status ON mcpl_approvals (status, created_at_ms)",
        "CREATE TABLE mcpl_approval_events (approval_id TEXT NOT NULL, position BIGINT NOT NULL, kind TEXT NOT NULL,"
        " body TEXT NOT NULL, PRIMARY KEY (approval_id, position))",
    ),
}


class SqlTransaction:
    """``Transaction`` over any database that speaks the common SQL.

    Args:
        execute: runs one statement with ``?`` for its values and returns the rows.
        format: of the store.
    """

    def __init__(self, execute: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]], format: int) -> None:
        self._database = execute
        self._format = format

    def _execute(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        if not all(storable(value) for value in values if isinstance(value, str)):
            raise InvalidValueError("identity", "a character that cannot be kept")
        return self._database(statement, values)

    def run(self, run_id: str) -> Run | None:
        """See ``Transaction``."""
        rows = self._execute("SELECT body, run_id, root_run_id, status FROM mcpl_runs WHERE run_id = ?", (run_id,))
        return _one(rows, Run.from_json, _run_columns)

    def save_run(self, run: Run) -> None:
        """See ``Transaction``."""
        self._execute(
            "INSERT INTO mcpl_runs (run_id, root_run_id, status, body) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, body = excluded.body",
            (*_run_columns(run), _text(run)),
        )

    def checkpoint(self, run_id: str) -> Checkpoint | None:
        """See ``Transaction``."""
        rows = self._execute("SELECT body, run_id FROM mcpl_checkpoints WHERE run_id = ?", (run_id,))
        return _one(rows, Checkpoint.from_json, lambda checkpoint: (checkpoint.run_id,))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """See ``Transaction``."""
        self._execute(
            "INSERT INTO mcpl_checkpoints (run_id, body) VALUES (?, ?)"
            " ON CONFLICT (run_id) DO UPDATE SET body = excluded.body",
            (checkpoint.run_id, _text(checkpoint)),
        )

    def record(self, approval_id: str) -> ApprovalRecord | None:
        """See ``Transaction``."""
        rows = self._approvals(f"{_SELECT_RECORDS} WHERE approval_id = ?", (approval_id,))
        return _one(rows, ApprovalRecord.from_json, _record_columns)

    def records(
        self,
        *,
        status: Status | None = None,
        run_id: str | None = None,
        tool_name: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[ApprovalRecord]:
        """See ``Transaction``."""
        wanted = {"status = ?": status, "run_id = ?": run_id, "tool_name = ?": tool_name, _AFTER: after}
        given = {condition: value for condition, value in wanted.items() if value is not None}
        where = f" WHERE {' AND '.join(given)}" if given else ""
        statement = f"{_SELECT_RECORDS}{where} ORDER BY created_at_ms, approval_id"
        values: list[Any] = list(given.values())
        if limit is not None:
            statement, values = f"{statement} LIMIT ?", [*values, limit]
        return _all(self._approvals(statement, values), ApprovalRecord.from_json, _record_columns)

    def open_records(self, run_id: str | None = None) -> list[ApprovalRecord]:
        """See ``Transaction``."""
        where, values = _of_run(run_id, "status IN ('pending', 'approved')", *_UNUSED)
        rows = self._approvals(f"{_SELECT_RECORDS} WHERE {where} ORDER BY created_at_ms, approval_id", values)
        return _all(rows, ApprovalRecord.from_json, _record_columns)

    def count_records(self, run_id: str | None = None) -> dict[Status, int]:
        """See ``Transaction``."""
        where, values = _of_run(run_id)
        counts = dict.fromkeys(STATUSES, 0)
        rows = self._approvals(f"SELECT status, COUNT(*) FROM mcpl_approvals WHERE {where} GROUP BY status", values)
        for status, count in rows:
            if status not in counts:
                refuse("approval_record_conflict")
            counts[status] = count
        return counts

    def count_used(self, run_id: str | None = None) -> tuple[int, int]:
        """See ``Transaction``."""
        where, values = _of_run(run_id)
        approvals = f"SELECT approval_id FROM mcpl_approvals WHERE {where}"
        ((claims,),) = self._approvals(f"SELECT COUNT(*) FROM mcpl_claims WHERE approval_id IN ({approvals})", values)
        ((receipts,),) = self._approvals(
            f"SELECT COUNT(*) FROM mcpl_receipts WHERE approval_id IN ({approvals})", values
        )
        return claims, receipts

    def save_record(self, record: ApprovalRecord) -> None:
        """See ``Transaction``."""
        self._approvals(
            "INSERT INTO mcpl_approvals (approval_id, run_id, call_id, tool_name, status, created_at_ms, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (approval_id) DO UPDATE SET status = excluded.status, body = excluded.body",
            (*_record_columns(record), _text(record)),
        )

    def claim(self, key: ClaimKey) -> Claim | None:
        """See ``Transaction``."""
        return _one(self._execute(f"{_SELECT_CLAIMS} WHERE {_BY_KEY}", _key(key)), Claim.from_json, _claim_columns)

    def claim_of(self, approval_id: str) -> Claim | None:
        """See ``Transaction``."""
        rows = self._execute(f"{_SELECT_CLAIMS} WHERE approval_id = ?", (approval_id,))
        return _one(rows, Claim.from_json, _claim_columns)

    def claims(self) -> list[Claim]:
        """See ``Transaction``."""
        rows = self._execute(f"{_SELECT_CLAIMS} ORDER BY principal_id, tool_name, key", ())
        return _all(rows, Claim.from_json, _claim_columns)

    def save_claim(self, claim: Claim) -> None:
        """See ``Transaction``."""
        self._execute(
            "INSERT INTO mcpl_claims (principal_id, tool_name, key, approval_id, body) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (principal_id, tool_name, key) DO UPDATE SET body = excluded.body",
            (*_claim_columns(claim), _text(claim)),
        )

    def remove_claim(self, key: ClaimKey) -> None:
        """See ``Transaction``."""
        self._execute(f"DELETE FROM mcpl_claims WHERE {_BY_KEY}", _key(key))

    def receipt(self, key: ClaimKey) -> Receipt | None:
        """See ``Transaction``."""
        rows = self._execute(f"{_SELECT_RECEIPTS} WHERE {_BY_KEY}", _key(key))
        return _one(rows, Receipt.from_json, _receipt_columns)

    def receipt_of(self, approval_id: str) -> Receipt | None:
        """See ``Transaction``."""
        rows = self._execute(f"{_SELECT_RECEIPTS} WHERE approval_id = ?", (approval_id,))
        return _one(rows, Receipt.from_json, _receipt_columns)

    def save_receipt(self, receipt: Receipt) -> None:
        """See ``Transaction``."""
        self._execute(
            "INSERT INTO mcpl_receipts (principal_id, tool_name, key, approval_id, expires_at_ms, body)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (principal_id, tool_name, key) DO UPDATE SET"
            " approval_id = excluded.approval_id, expires_at_ms = excluded.expires_at_ms, body = excluded.body",
            (*_receipt_columns(receipt), _text(receipt)),
        )

    def remove_expired_receipts(self, now_ms: int) -> int:
        """See ``Transaction``."""
        over = self._execute("SELECT 1 FROM mcpl_receipts WHERE expires_at_ms <= ?", (now_ms,))
        self._execute("DELETE FROM mcpl_receipts WHERE expires_at_ms <= ?", (now_ms,))
        return len(over)

    def append_event(self, event: ApprovalEvent) -> None:
        """See ``Transaction``."""
        self._approvals(
            "INSERT INTO mcpl_approval_events (approval_id, position, kind, body)"
            " SELECT ?, COUNT(*) + 1, ?, ? FROM mcpl_approval_events WHERE approval_id = ?",
            (event.approval_id, event.kind, _text(event), event.approval_id),
        )

    def events(self, approval_id: str) -> list[ApprovalEvent]:
        """See ``Transaction``."""
        rows = self._approvals(
            "SELECT body, approval_id, kind FROM mcpl_approval_events WHERE approval_id = ? ORDER BY position",
            (approval_id,),
        )
        return _all(rows, ApprovalEvent.from_json, lambda event: (event.approval_id, event.kind))

    def open_work(self) -> tuple[int, int]:
        """See ``Transaction``."""
        ((runs,),) = self._execute("SELECT COUNT(*) FROM mcpl_runs WHERE status = 'running'", ())
        ((claims,),) = self._execute("SELECT COUNT(*) FROM mcpl_claims", ())
        return runs, claims

    def _approvals(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        if self._format < APPROVALS_FORMAT:
            refuse("approval_storage_not_enabled")
        return self._execute(statement, values)


_BY_KEY = "principal_id = ? AND tool_name = ? AND key = ?"
_SELECT_RECORDS = "SELECT body, approval_id, run_id, call_id, tool_name, status, created_at_ms FROM mcpl_approvals"
_AFTER = (
    "(created_at_ms, approval_id) >"
    " (SELECT last.created_at_ms, last.approval_id FROM mcpl_approvals AS last WHERE last.approval_id = ?)"
)
_UNUSED = tuple(
    f"NOT EXISTS (SELECT 1 FROM {table} WHERE {table}.approval_id = mcpl_approvals.approval_id)"
    for table in ("mcpl_claims", "mcpl_receipts")
)
_SELECT_CLAIMS = "SELECT body, principal_id, tool_name, key, approval_id FROM mcpl_claims"
_SELECT_RECEIPTS = "SELECT body, principal_id, tool_name, key, approval_id, expires_at_ms FROM mcpl_receipts"


def _of_run(run_id: str | None, *conditions: str) -> tuple[str, tuple[str, ...]]:
    if run_id is None:
        return " AND ".join(conditions) or "1 = 1", ()
    return " AND ".join((*conditions, "run_id = ?")), (run_id,)


def _key(key: ClaimKey) -> tuple[str, str, str]:
    return key.principal_id, key.tool_name, key.key


def _run_columns(run: Run) -> tuple[Any, ...]:
    return run.run_id, run.root_run_id, run.status


def _record_columns(record: ApprovalRecord) -> tuple[Any, ...]:
    intent = record.intent
    call = (intent.run_id, intent.tool_call_id, intent.tool_name)
    return (record.approval_id, *call, record.status, record.created_at_ms)


def _claim_columns(claim: Claim) -> tuple[Any, ...]:
    return (*_key(claim.key), None if claim.association is None else claim.association.approval_id)


def _receipt_columns(receipt: Receipt) -> tuple[Any, ...]:
    return (*_claim_columns(receipt.claim), receipt.expires_at_ms)


def _text(record: Any) -> str:
    return encode_value(record.to_json()).decode()


def _all(rows: list[tuple[Any, ...]], read: Callable[[Any], T], columns: Callable[[T], tuple[Any, ...]]) -> list[T]:
    found = []
    for body, *key in rows:
        try:
            record = read(decode_value(body.encode()))
        except (AttributeError, InvalidValueError, UnicodeEncodeError) as exc:
            # No text at all, no JSON, no such record, no UTF-8.
            raise _damaged(key) from exc
        if columns(record) != tuple(key):
            raise _damaged(key)
        found.append(record)
    return found


def _damaged(key: list[Any]) -> ApprovalError:
    return ApprovalError("approval_record_conflict", ", ".join(ascii(column) for column in key if column is not None))


def _one(rows: list[tuple[Any, ...]], read: Callable[[Any], T], columns: Callable[[T], tuple[Any, ...]]) -> T | None:
    found = _all(rows, read, columns)
    return found[0] if found else None
