"""The codes of the gate, and what goes with them."""

from __future__ import annotations

from typing import get_args

import pytest

from mcpl_core.approvals.errors import (
    CODES,
    ApprovalCode,
    ApprovalError,
    ApprovalRequired,
    ApprovalStorageError,
    refuse,
)
from mcpl_core.approvals.statuses import STATUSES
from mcpl_core.errors import McplError


@pytest.mark.parametrize("code", get_args(ApprovalCode))
def test_every_code_has_its_sentence(code: ApprovalCode) -> None:
    with pytest.raises(ApprovalError) as caught:
        refuse(code)
    assert caught.value.code == code
    assert str(caught.value) == CODES[code] != ""


def test_the_table_and_the_type_name_the_same() -> None:
    assert tuple(CODES) == get_args(ApprovalCode)
    assert len(set(CODES.values())) == len(CODES)


def test_every_status_that_stops_a_call_has_a_code() -> None:
    assert {f"approval_{status}" for status in STATUSES} - {"approval_approved"} <= CODES.keys()


def test_the_signal_carries_what_waits() -> None:
    signal = ApprovalRequired("run", "id")
    assert (signal.code, signal.run_id, signal.approval_id) == ("approval_required", "run", "id")
    assert ApprovalError not in type(signal).__mro__
    assert "id" in str(signal)


def test_all_are_of_the_tree() -> None:
    assert issubclass(ApprovalError, McplError) and issubclass(ApprovalRequired, McplError)
    error = ApprovalStorageError("gone")
    assert isinstance(error, McplError) and error.detail == str(error) == "gone"


def test_a_damaged_row_is_named() -> None:
    error = ApprovalError("approval_record_conflict", "'id', 'run'")
    assert (error.code, error.row) == ("approval_record_conflict", "'id', 'run'")
    assert "'id', 'run'" in str(error)
    assert ApprovalError("approval_expired").row is None
    flawed = ApprovalError("approval_record_conflict", "'id', 'run'", "mcpl_runs: its body is no JSON")
    assert (flawed.row, flawed.damage) == ("'id', 'run'", "mcpl_runs: its body is no JSON")
    assert flawed.damage is not None and flawed.damage in str(flawed)
    assert error.damage is None
