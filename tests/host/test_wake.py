"""When events wake, with the time as an argument."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.host.wake import DueWake, WakeScheduler
from mcpl_core.treatment import Behavior, Debounce, Immediate, Mute, Sample, Throttle, Treatment


def treatment(behavior: Behavior, index: int | None = 0) -> Treatment:
    return Treatment(behavior, None, index)


def judge(
    scheduler: WakeScheduler, behavior: Behavior, now: float, channel: str | None = None, index: int | None = 0
) -> bool:
    return scheduler.judge("s", channel, treatment(behavior, index), ("t:x",), now)


def test_immediate_wakes_and_mute_does_not() -> None:
    scheduler = WakeScheduler()
    assert [judge(scheduler, Immediate(), 0), judge(scheduler, Immediate(), 0)] == [True, True]
    assert not judge(scheduler, Mute(), 0)
    assert scheduler.deadline() is None


def test_debounce_wakes_once_it_was_quiet() -> None:
    scheduler = WakeScheduler()
    assert not judge(scheduler, Debounce(1000), 0.0)
    assert scheduler.deadline() == 1.0
    assert not judge(scheduler, Debounce(1000), 0.9)
    assert scheduler.due(1.5) == []
    assert scheduler.deadline() == 1.9
    assert scheduler.due(1.9) == [DueWake("s", None, treatment(Debounce(1000)), 2, ("t:x",))]
    assert (scheduler.due(5.0), scheduler.deadline()) == ([], None)


def test_throttle_wakes_at_once_and_then_once_in_a_period() -> None:
    scheduler = WakeScheduler()
    behavior = Throttle(1000)
    assert judge(scheduler, behavior, 0.0)
    assert [judge(scheduler, behavior, at) for at in (0.1, 0.2, 0.9)] == [False, False, False]
    assert scheduler.due(0.99) == []
    (due,) = scheduler.due(1.0)
    assert due.events == 3
    assert not judge(scheduler, behavior, 1.5)
    assert [wake.events for wake in scheduler.due(2.0)] == [1]
    # A period without events is over; the next event wakes at once.
    assert judge(scheduler, behavior, 3.0)


@given(st.lists(st.floats(0, 10, allow_nan=False), min_size=1, max_size=60))
def test_throttle_never_wakes_twice_in_a_period_and_leaves_nothing_behind(times: list[float]) -> None:
    scheduler = WakeScheduler()
    wakes: list[float] = []
    for at in sorted(times):
        while (deadline := scheduler.deadline()) is not None and deadline <= at:
            wakes += [deadline for _ in scheduler.due(deadline)]
        if judge(scheduler, Throttle(1000), at):
            wakes.append(at)
    while (deadline := scheduler.deadline()) is not None:
        wakes += [deadline for _ in scheduler.due(deadline)]
    assert all(later - earlier >= 1.0 - 1e-9 for earlier, later in zip(wakes, wakes[1:], strict=False))
    assert wakes[-1] >= max(times)


@pytest.mark.parametrize(("every", "wakes"), [(1, "1111111"), (2, "1010101"), (3, "1001001")])
def test_sample_wakes_for_one_in_so_many(every: int, wakes: str) -> None:
    scheduler = WakeScheduler()
    assert "".join(str(int(judge(scheduler, Sample(every), 0))) for _ in wakes) == wakes


def test_channels_and_rules_are_counted_apart() -> None:
    scheduler = WakeScheduler()
    assert judge(scheduler, Throttle(1000), 0.0, "a")
    assert judge(scheduler, Throttle(1000), 0.0, "b")
    assert not judge(scheduler, Throttle(1000), 0.0, "a")
    assert judge(scheduler, Throttle(1000), 0.0, "a", index=1)


def test_a_wake_covers_what_came_before_on_its_channel() -> None:
    scheduler = WakeScheduler()
    judge(scheduler, Debounce(1000), 0.0, "a", index=1)
    judge(scheduler, Debounce(1000), 0.0, "b", index=1)
    assert judge(scheduler, Immediate(), 0.5, "a", index=0)
    assert [wake.channel for wake in scheduler.due(9.0)] == ["b"]


def test_due_wakes_come_in_the_order_of_their_times() -> None:
    scheduler = WakeScheduler()
    judge(scheduler, Debounce(2000), 0.0, "late")
    judge(scheduler, Debounce(1000), 0.0, "early")
    assert [wake.channel for wake in scheduler.due(9.0)] == ["early", "late"]


def test_a_server_that_is_forgotten_wakes_nobody() -> None:
    scheduler = WakeScheduler()
    judge(scheduler, Debounce(1000), 0.0)
    scheduler.forget("s")
    assert (scheduler.deadline(), scheduler.due(9.0)) == (None, [])


def test_what_is_kept_is_bounded() -> None:
    scheduler = WakeScheduler(sources=2)
    for number in range(100):
        judge(scheduler, Debounce(1000), 0.0, f"c{number}")
    assert [wake.channel for wake in scheduler.due(9.0)] == ["c98", "c99"]


def test_another_behaviour_at_the_same_place_starts_anew() -> None:
    scheduler = WakeScheduler()
    assert judge(scheduler, Throttle(1000), 0.0)
    assert judge(scheduler, Throttle(500), 0.1)
    assert not judge(scheduler, Debounce(100), 0.2)
    assert [wake.treatment.behavior for wake in scheduler.due(9.0)] == [Debounce(100)]
