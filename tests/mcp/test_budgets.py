"""The time that one request may take."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.budgets import TimeBudget, checked_seconds


@pytest.mark.parametrize(
    ("timeout", "max_total", "resets", "progress_at", "deadline"),
    [
        (30.0, None, False, (), 130.0),
        (30.0, None, False, (120.0,), 130.0),
        (30.0, None, True, (120.0,), 150.0),
        (30.0, 60.0, True, (120.0, 140.0, 155.0), 160.0),
        (30.0, 10.0, True, (), 110.0),
        (None, 10.0, False, (), 110.0),
        (None, None, True, (120.0,), math.inf),
        (0.0, None, False, (), 100.0),
    ],
)
def test_when_it_is_over(
    timeout: float | None, max_total: float | None, resets: bool, progress_at: tuple[float, ...], deadline: float
) -> None:
    budget = TimeBudget(100.0, timeout, max_total, resets)
    for now in progress_at:
        budget.progress(now)
    assert budget.deadline == deadline


def test_progress_gives_time_only_where_that_is_asked_for() -> None:
    budget = TimeBudget(0.0, 30.0)
    budget.progress(20.0)
    assert budget.deadline == 30.0


def test_while_a_person_is_asked_nothing_runs_out() -> None:
    budget = TimeBudget(0.0, 30.0, 40.0, True)
    budget.pause(10.0)
    budget.pause(11.0)
    assert budget.deadline == math.inf
    budget.resume(500.0)
    assert budget.deadline == math.inf
    budget.resume(1010.0)
    assert budget.deadline == 1030.0


def test_progress_during_a_pause_counts_from_its_beginning() -> None:
    budget = TimeBudget(0.0, 30.0, None, True)
    budget.pause(10.0)
    budget.progress(600.0)
    budget.resume(1010.0)
    assert budget.deadline == 1040.0


@pytest.mark.parametrize("options", [{"timeout": math.nan}, {"timeout": 1.0, "max_total": math.nan}])
def test_what_is_no_number_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        TimeBudget(0.0, **options)
    assert caught.value.code in options


@given(
    st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["progress", "pause", "resume"])), max_size=12),
    st.floats(0, 50),
    st.floats(0, 200),
)
def test_progress_never_goes_over_the_cap(events: list[tuple[float, str]], timeout: float, cap: float) -> None:
    budget = TimeBudget(0.0, timeout, cap, True)
    pauses = 0
    paused = began = 0.0
    for now, event in sorted(events):
        if event == "progress":
            budget.progress(now)
        elif event == "pause":
            began = began if pauses else now
            pauses += 1
            budget.pause(now)
        elif pauses:
            pauses -= 1
            paused += 0.0 if pauses else now - began
            budget.resume(now)
    assert budget.deadline == math.inf if pauses else budget.deadline <= cap + paused + 1e-6


@pytest.mark.parametrize("value", [None, 0, 3, 0.5, math.inf])
def test_seconds_are_taken_as_they_are(value: Any) -> None:
    assert checked_seconds("timeout", value) is value


@pytest.mark.parametrize("value", ["3", b"3", True, False, -0.1, -1, math.nan, [], object()])
def test_seconds_are_a_number_that_is_a_time(value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        checked_seconds("timeout", value)
    assert caught.value.code == "timeout"
    with pytest.raises(InvalidValueError):
        TimeBudget(0.0, 1.0, value)
