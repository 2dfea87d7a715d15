"""A clock that never goes back."""

from __future__ import annotations

import threading

import pytest

from mcpl_core.approvals.clock import SteadyClock, wall_clock_ms
from mcpl_core.errors import InvalidValueError
from tests.approvals.world import HandClock


def test_it_stands_still_while_the_other_goes_back() -> None:
    hand = HandClock(1_000)
    clock = SteadyClock(hand)
    assert clock() == 1_000
    hand.now = 400
    assert clock() == 1_000
    hand.now = 1_001
    assert clock() == 1_001


@pytest.mark.parametrize("value", [-1, 1.5, True, None, 2**53])
def test_a_clock_that_shows_something_else(value: object) -> None:
    with pytest.raises(InvalidValueError):
        SteadyClock(lambda: value)()  # type: ignore[arg-type,return-value]


def test_the_wall_clock_shows_milliseconds() -> None:
    assert SteadyClock()() <= wall_clock_ms()
    assert wall_clock_ms() > 1_600_000_000_000


def test_threads_see_one_time() -> None:
    hand = HandClock(0)
    clock = SteadyClock(hand)
    seen: list[list[int]] = [[] for _ in range(4)]

    def look(times: list[int]) -> None:
        for _ in range(200):
            hand.now = (hand.now + 7) % 101
            times.append(clock())

    threads = [threading.Thread(target=look, args=(times,)) for times in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(times == sorted(times) for times in seen)
