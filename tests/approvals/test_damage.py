"""What is said of a row that cannot be read."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.approvals import ApprovalError, DamagedRow
from mcpl_core.approvals.damage import flaw_of, readable, shown_id
from mcpl_core.approvals.errors import refuse
from mcpl_core.errors import InvalidValueError


def _raises(exc: Exception) -> Any:
    def work() -> NoReturn:
        raise exc

    return work


def test_what_can_be_read_is_returned_and_nothing_is_told() -> None:
    told: list[DamagedRow] = []
    assert readable("id", lambda: 7, told.append) == 7
    assert told == []


@pytest.mark.parametrize(
    "exc",
    [
        ApprovalError("approval_record_conflict", "'id'", "mcpl_runs: its body is no JSON"),
        ApprovalError("approval_record_conflict"),
        InvalidValueError("integer", "an integer of at least 1", "$.revision"),
    ],
)
def test_damage_is_told_and_passed_by(exc: Exception) -> None:
    told: list[DamagedRow] = []
    assert readable("id\x1b", _raises(exc), told.append) is None
    (row,) = told
    assert row.id == "id\\u001b"
    assert getattr(exc, "damage", None) in (None, row.reason)
    assert row.reason


def test_another_refusal_is_one() -> None:
    with pytest.raises(ApprovalError) as caught:
        readable("id", lambda: refuse("approval_not_found"), lambda row: pytest.fail("it was told"))
    assert caught.value.code == "approval_not_found"


@given(st.one_of(st.text(), st.none(), st.integers(), st.binary(), st.just("\udcff" * 500)))
def test_an_id_is_printable_and_bounded(found: Any) -> None:
    shown = shown_id(found)
    assert shown.isascii() and (shown.isprintable()) and len(shown) <= 200


@pytest.mark.parametrize("code", ["json", "type"])
def test_the_words_of_a_parser_are_not_repeated(code: str) -> None:
    assert "hunter2" not in flaw_of(InvalidValueError(code, "hunter2 is out of range", "$.hunter2"))


def test_what_is_wrong_and_where() -> None:
    flaw = flaw_of(InvalidValueError("literal", "one of a, b", "$.\u202estatus" + "x" * 500))
    assert flaw.startswith("one of a, b, at $.\\u202estatus") and len(flaw) == 200
    assert flaw_of(AttributeError("hunter2")) == flaw_of(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "hunter2"))
    assert "hunter2" not in flaw_of(AttributeError("hunter2"))
