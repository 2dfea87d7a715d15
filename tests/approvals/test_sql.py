"""The SQL that both stores speak. What a whole store promises is in the contract suite."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.approvals import (
    ApprovalError,
    ApprovalEvent,
    Association,
    Checkpoint,
    Claim,
    ClaimKey,
    DamagedRow,
    Outcome,
    Receipt,
    Run,
    ToolCall,
)
from mcpl_core.approvals.sql import MIGRATIONS, SqlTransaction
from mcpl_core.approvals.store import APPROVALS_FORMAT
from mcpl_core.errors import InvalidValueError
from tests.approvals.test_checks import APPROVED


def test_formats_follow_each_other() -> None:
    assert list(MIGRATIONS) == list(range(1, APPROVALS_FORMAT + 1))
    assert all("%" not in statement for statements in MIGRATIONS.values() for statement in statements)


def test_values_never_stand_in_a_statement() -> None:
    seen: list[tuple[str, Any]] = []

    def execute(statement: str, values: Any) -> list[tuple[Any, ...]]:
        seen.append((statement, values))
        return []

    tx = SqlTransaction(execute, APPROVALS_FORMAT)
    evil = "'; DROP TABLE mcpl_runs; --"
    assert tx.run(evil) is None
    assert tx.record(evil) is None
    assert tx.records(run_id=evil, tool_name=evil, after=evil, limit=7) == []
    assert tx.open_records(evil) == []
    assert tx.events(evil) == []
    assert [statement for statement, _ in seen if evil in statement] == []
    assert [statement.count("?") for statement, _ in seen] == [len(values) for _, values in seen]


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_database_keeps_does_not_get_to_one(text: str) -> None:
    def execute(statement: str, values: Any) -> list[tuple[Any, ...]]:
        raise AssertionError(statement)

    with pytest.raises(InvalidValueError):
        SqlTransaction(execute, APPROVALS_FORMAT).run(text)


KEY = ClaimKey("alice", "store_value", "key")
CLAIM = Claim(KEY, "digest", 1_000, Association("approval", "digest", 2, "run", "worker", 1))
SECRET = "hunter2"
#: A record of each table, what reads it, and the columns of its row.
ROWS: list[tuple[Any, Any, tuple[Any, ...]]] = [
    (Run("run", "run", "alice", "preset"), lambda tx: tx.run("run"), ("run", "run", "running")),
    (
        Checkpoint("run", "invocation", (ToolCall("call", "store_value", {"value": "x"}),)),
        lambda tx: tx.checkpoint("run"),
        ("run",),
    ),
    (
        APPROVED,
        lambda tx: tx.record("id"),
        (
            APPROVED.approval_id,
            APPROVED.intent.run_id,
            APPROVED.intent.tool_call_id,
            APPROVED.intent.tool_name,
            "approved",
            APPROVED.created_at_ms,
        ),
    ),
    (CLAIM, lambda tx: tx.claim(KEY), ("alice", "store_value", "key", "approval")),
    (
        Receipt(CLAIM, Outcome("committed", {"text": ["x"]}), 1_001),
        lambda tx: tx.receipt(KEY),
        ("alice", "store_value", "key", "approval", None),
    ),
    (
        ApprovalEvent("approval", "proposed", 1_000, {"revision": 1}),
        lambda tx: next(iter(tx.events("approval")), None),
        ("approval", "proposed"),
    ),
]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def _read(read: Any, row: tuple[Any, ...]) -> Any:
    return read(SqlTransaction(lambda statement, values: [row], APPROVALS_FORMAT))


@pytest.mark.parametrize(("record", "read", "columns"), ROWS)
def test_what_was_kept_comes_back(record: Any, read: Any, columns: tuple[Any, ...]) -> None:
    assert _read(read, (json.dumps(record.to_json()), *columns)) == record


@given(st.data())
def test_whatever_is_in_a_row_it_is_a_record_or_damaged(data: st.DataObject) -> None:
    """One member is something else, or the whole body, or a column; what is said of it repeats nothing of it."""
    record, read, columns = data.draw(st.sampled_from(ROWS))
    body: Any = record.to_json()
    place = body
    while isinstance(place, dict) and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[name], dict) or not place[name]:
            place[name] = data.draw(_JSON)
            break
        place = place[name]
    text = data.draw(
        st.just(json.dumps(body)) | st.text() | st.none() | st.integers() | st.binary() | _JSON.map(json.dumps)
    )
    at = data.draw(st.integers(-1, len(columns) - 1))
    row = tuple(
        data.draw(st.none() | st.text() | st.integers()) if index == at else each for index, each in enumerate(columns)
    )
    try:
        _read(read, (text, *row))
    except ApprovalError as exc:
        assert exc.code == "approval_record_conflict"
        assert exc.row is not None and exc.row.isascii()
        assert exc.damage is not None and exc.damage.startswith("mcpl_") and exc.damage.isascii()
        assert SECRET not in exc.damage


@pytest.mark.parametrize("index", range(len(ROWS)))
def test_every_column_is_compared_and_named(index: int) -> None:
    record, read, columns = ROWS[index]
    for at in range(len(columns)):
        row = tuple("other" if each == at else column for each, column in enumerate(columns))
        with pytest.raises(ApprovalError) as caught:
            _read(read, (json.dumps(record.to_json()), *row))
        name = _columns(read)[at]
        assert caught.value.damage is not None and caught.value.damage.endswith(f": {name}")


def _columns(read: Any) -> list[str]:
    seen: list[str] = []

    def execute(statement: str, values: Any) -> list[tuple[Any, ...]]:
        seen.append(statement)
        return []

    read(SqlTransaction(execute, APPROVALS_FORMAT))
    return seen[0].removeprefix("SELECT body, ").partition(" FROM ")[0].split(", ")


def test_a_row_without_an_id_is_named_by_what_it_has() -> None:
    told: list[DamagedRow] = []
    row = ("{}", None, "run", "call\n", "tool", "pending", 1)
    tx = SqlTransaction(lambda statement, values: [row], APPROVALS_FORMAT)
    assert tx.records(on_damage=told.append) == []
    assert told[0].id == "'run', 'call\\\\n', 'tool', 'pending', 1"
