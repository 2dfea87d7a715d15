"""The SQL that both stores speak, over a database in memory. What a whole store promises is in the contract suite."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.approvals.errors import ApprovalError
from mcpl_core.approvals.store import APPROVALS_FORMAT, MIGRATIONS, SqlTransaction, check_format


def test_formats_follow_each_other() -> None:
    assert list(MIGRATIONS) == list(range(1, APPROVALS_FORMAT + 1))
    assert all("%" not in statement for statements in MIGRATIONS.values() for statement in statements)


@pytest.mark.parametrize(("found", "known"), [(3, 2), (2, 1), (-1, 2), (0, 2)])
def test_a_format_that_is_not_known(found: int, known: int) -> None:
    with pytest.raises(ApprovalError) as caught:
        check_format(found, known)
    assert caught.value.code == "approval_storage_version"


def test_a_format_that_is_known() -> None:
    assert [check_format(found, 2) for found in (1, 2)] == [1, 2]


def test_values_never_stand_in_a_statement() -> None:
    seen: list[tuple[str, Any]] = []

    def execute(statement: str, values: Any) -> list[tuple[Any, ...]]:
        seen.append((statement, values))
        return []

    tx = SqlTransaction(execute, APPROVALS_FORMAT)
    evil = "'; DROP TABLE mcpl_runs; --"
    assert tx.run(evil) is None
    assert tx.record(evil) is None
    assert tx.records(run_id=evil, tool_name=evil) == []
    assert tx.events(evil) == []
    assert [statement for statement, _ in seen if evil in statement] == []
    assert [statement.count("?") for statement, _ in seen] == [len(values) for _, values in seen]
