"""The SQL that both stores speak: the tables, and the records in them.

Owns: the tables of each format, and reading and writing records. Every row holds a record as JSON, and beside it the
columns that are searched; a row whose columns say something else than its record is damaged. Does not own: the
databases (``sqlite.store``, ``postgres.store``), and what a transaction does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from ..catalog.bounded import SAFE_INTEGER
from ..errors import InvalidValueError
from ..wire.values import decode_value, encode_value
from .claims import Claim, ClaimKey, Receipt
from .damage import DamagedRow, OnDamage, flaw_of, shown_id
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
        return _one(_RUNS, self._execute(f"{_RUNS.select} WHERE run_id = ?", (run_id,)))

    def save_run(self, run: Run) -> None:
        """See ``Transaction``."""
        self._execute(
            "INSERT INTO mcpl_runs (run_id, root_run_id, status, body) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, body = excluded.body",
            (*_run_columns(run), _text(run)),
        )

    def checkpoint(self, run_id: str) -> Checkpoint | None:
        """See ``Transaction``."""
        return _one(_CHECKPOINTS, self._execute(f"{_CHECKPOINTS.select} WHERE run_id = ?", (run_id,)))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """See ``Transaction``."""
        self._execute(
            "INSERT INTO mcpl_checkpoints (run_id, body) VALUES (?, ?)"
            " ON CONFLICT (run_id) DO UPDATE SET body = excluded.body",
            (checkpoint.run_id, _text(checkpoint)),
        )

    def record(self, approval_id: str) -> ApprovalRecord | None:
        """See ``Transaction``."""
        return _one(_RECORDS, self._approvals(f"{_RECORDS.select} WHERE approval_id = ?", (approval_id,)))

    def records(
        self,
        *,
        status: Status | None = None,
        run_id: str | None = None,
        tool_name: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        skip: int = 0,
        on_damage: OnDamage | None = None,
    ) -> list[ApprovalRecord]:
        """See ``Transaction``."""
        wanted = {"status = ?": status, "run_id = ?": run_id, "tool_name = ?": tool_name, _AFTER: after}
        given = {condition: value for condition, value in wanted.items() if value is not None}
        where = f" WHERE {' AND '.join(given)}" if given else ""
        statement = f"{_RECORDS.select}{where} ORDER BY created_at_ms, approval_id"
        values: list[Any] = list(given.values())
        if limit is not None:
            statement, values = f"{statement} LIMIT ? OFFSET ?", [*values, limit, skip]
        return _all(_RECORDS, self._approvals(statement, values), on_damage)

    def open_records(self, run_id: str | None = None, *, on_damage: OnDamage | None = None) -> list[ApprovalRecord]:
        """See ``Transaction``."""
        where, values = _of_run(run_id, "status IN ('pending', 'approved')", *_UNUSED)
        rows = self._approvals(f"{_RECORDS.select} WHERE {where} ORDER BY created_at_ms, approval_id", values)
        return _all(_RECORDS, rows, on_damage)

    def count_records(self, run_id: str | None = None, *, on_damage: OnDamage | None = None) -> dict[Status, int]:
        """See ``Transaction``."""
        where, values = _of_run(run_id)
        counts = dict.fromkeys(STATUSES, 0)
        rows = self._approvals(f"SELECT status, COUNT(*) FROM mcpl_approvals WHERE {where} GROUP BY status", values)
        counts |= {status: count for status, count in rows if status in counts}
        if sum(counts.values()) < sum(count for _, count in rows):
            self._tell_strangers(where, values, on_damage)
        return counts

    def _tell_strangers(self, where: str, values: Sequence[Any], on_damage: OnDamage | None) -> None:
        known = ", ".join(f"'{status}'" for status in STATUSES)
        strange = (
            f"SELECT approval_id FROM mcpl_approvals WHERE {where} AND (status IS NULL OR status NOT IN ({known}))"
        )
        for (approval_id,) in self._approvals(strange, values):
            damaged = _damaged(_RECORDS, [approval_id], "its column status holds none that there is")
            if on_damage is None:
                raise damaged
            on_damage(DamagedRow(shown_id(approval_id), damaged.damage or ""))

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
        return _one(_CLAIMS, self._execute(f"{_CLAIMS.select} WHERE {_BY_KEY}", _key(key)))

    def claim_of(self, approval_id: str) -> Claim | None:
        """See ``Transaction``."""
        return _one(_CLAIMS, self._execute(f"{_CLAIMS.select} WHERE approval_id = ?", (approval_id,)))

    def claims(self) -> list[Claim]:
        """See ``Transaction``."""
        return _all(_CLAIMS, self._execute(f"{_CLAIMS.select} ORDER BY principal_id, tool_name, key", ()))

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
        return _one(_RECEIPTS, self._execute(f"{_RECEIPTS.select} WHERE {_BY_KEY}", _key(key)))

    def receipt_of(self, approval_id: str) -> Receipt | None:
        """See ``Transaction``."""
        return _one(_RECEIPTS, self._execute(f"{_RECEIPTS.select} WHERE approval_id = ?", (approval_id,)))

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
            " SELECT ?, COALESCE(MAX(position), 0) + 1, ?, ? FROM mcpl_approval_events"
            f" WHERE approval_id = ? AND position BETWEEN 1 AND {SAFE_INTEGER - 1}",
            (event.approval_id, event.kind, _text(event), event.approval_id),
        )

    def events(self, approval_id: str) -> list[ApprovalEvent]:
        """See ``Transaction``."""
        return _all(
            _EVENTS, self._approvals(f"{_EVENTS.select} WHERE approval_id = ? ORDER BY position", (approval_id,))
        )

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
_AFTER = (
    "(created_at_ms, approval_id) >"
    " (SELECT last.created_at_ms, last.approval_id FROM mcpl_approvals AS last WHERE last.approval_id = ?)"
)
_UNUSED = tuple(
    f"NOT EXISTS (SELECT 1 FROM {table} WHERE {table}.approval_id = mcpl_approvals.approval_id)"
    for table in ("mcpl_claims", "mcpl_receipts")
)


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


@dataclass(frozen=True, slots=True)
class _Shape(Generic[T]):
    """How the rows of a table are read: the columns beside the body, and what they are to say."""

    table: str
    read: Callable[[Any], T]
    columns: tuple[str, ...]
    values: Callable[[T], tuple[Any, ...]]

    @property
    def select(self) -> str:
        return f"SELECT body, {', '.join(self.columns)} FROM {self.table}"


_KEYS = ("principal_id", "tool_name", "key", "approval_id")
_RUNS = _Shape("mcpl_runs", Run.from_json, ("run_id", "root_run_id", "status"), _run_columns)
_CHECKPOINTS = _Shape("mcpl_checkpoints", Checkpoint.from_json, ("run_id",), lambda checkpoint: (checkpoint.run_id,))
_RECORDS = _Shape(
    "mcpl_approvals",
    ApprovalRecord.from_json,
    ("approval_id", "run_id", "call_id", "tool_name", "status", "created_at_ms"),
    _record_columns,
)
_CLAIMS = _Shape("mcpl_claims", Claim.from_json, _KEYS, _claim_columns)
_RECEIPTS = _Shape("mcpl_receipts", Receipt.from_json, (*_KEYS, "expires_at_ms"), _receipt_columns)
_EVENTS = _Shape(
    "mcpl_approval_events",
    ApprovalEvent.from_json,
    ("approval_id", "kind"),
    lambda event: (event.approval_id, event.kind),
)


def _read(shape: _Shape[T], body: Any, key: list[Any]) -> T:
    try:
        record = shape.read(decode_value(body.encode()))
    except (AttributeError, InvalidValueError, UnicodeEncodeError) as exc:
        # No text at all, no JSON, no such record, no UTF-8.
        raise _damaged(shape, key, flaw_of(exc)) from exc
    wrong = [name for name, found, said in zip(shape.columns, key, shape.values(record), strict=True) if found != said]
    if wrong:
        raise _damaged(shape, key, f"its body says otherwise than its columns: {', '.join(wrong)}")
    return record


def _damaged(shape: _Shape[Any], key: list[Any], flaw: str) -> ApprovalError:
    row = ", ".join(ascii(column) for column in key if column is not None)
    return ApprovalError("approval_record_conflict", row, f"{shape.table}: {flaw}")


def _all(shape: _Shape[T], rows: list[tuple[Any, ...]], on_damage: OnDamage | None = None) -> list[T]:
    found = []
    for body, *key in rows:
        try:
            found.append(_read(shape, body, key))
        except ApprovalError as exc:
            if on_damage is None:
                raise
            # A row without an id is named by what it has.
            on_damage(DamagedRow(shown_id(key[0] or exc.row), exc.damage or ""))
    return found


def _one(shape: _Shape[T], rows: list[tuple[Any, ...]]) -> T | None:
    found = _all(shape, rows)
    return found[0] if found else None
