"""The statuses of an approval, and what may follow what."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from mcpl_core.approvals.statuses import STATUSES, TRANSITIONS, Status, Step, due_step, following

STEPS: tuple[Step, ...] = get_args(Step)


def test_there_are_five() -> None:
    assert STATUSES == ("pending", "approved", "rejected", "expired", "canceled")


@pytest.mark.spec("R-approvals-2")
def test_terminal_statuses_stay() -> None:
    final: list[Status] = ["rejected", "expired", "canceled"]
    assert [following(status, step) for status in final for step in STEPS] == [None] * 12


@pytest.mark.spec("R-approvals-2")
def test_an_approval_can_only_run_out() -> None:
    assert {step: following("approved", step) for step in STEPS} == {
        "approve": None,
        "reject": None,
        "expire": "expired",
        "cancel": "canceled",
    }


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.spec("R-approvals-2")
def test_what_was_used_never_changes(status: Status, step: Step) -> None:
    assert following(status, step, used=True) is None


def test_every_status_is_reached_and_nothing_returns_to_pending() -> None:
    assert set(TRANSITIONS.values()) | {"pending"} == set(STATUSES)
    assert "pending" not in TRANSITIONS.values()


@pytest.mark.parametrize(
    ("now", "canceled", "step"),
    [
        (999, False, None),
        (1_000, False, "expire"),
        (1_001, False, "expire"),
        (999, True, "cancel"),
        (1_000, True, "cancel"),
    ],
)
def test_what_is_due(now: int, canceled: bool, step: Step | None) -> None:
    assert due_step(now_ms=now, expires_at_ms=1_000, canceled=canceled) == step


def test_the_table_holds_only_known_words() -> None:
    assert set(TRANSITIONS) <= set(itertools.product(STATUSES, STEPS))
