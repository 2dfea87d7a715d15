"""The SQL that both stores speak. What a whole store promises is in the contract suite."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.approvals.sql import MIGRATIONS, SqlTransaction
from mcpl_core.approvals.store import APPROVALS_FORMAT
from mcpl_core.errors import InvalidValueError


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
