"""Deadlines on a clock that the test sets."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

import pytest
from anyio.abc import TaskGroup
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.timeouts import TICKS, Deadlines
from mcpl_core.transports.guards import CancelGuard
from mcpl_core.transports.loop import EventLoop, Waiter
from mcpl_core.wire.messages import Id


class FakeTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeLoop(EventLoop):
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        super().__init__(cast(TaskGroup, None))
        self.now = 100.0
        self.timers: list[tuple[float, int, FakeTimer]] = []
        self.made = self.fired = 0

    def time(self) -> float:
        return self.now

    def waiter(self) -> Waiter:
        raise AssertionError

    def call_soon(self, callback: Callable[[], object]) -> None:
        raise AssertionError

    def cancel_guard(self) -> CancelGuard:
        raise AssertionError

    def call_at(self, when: float, callback: Callable[[], object]) -> FakeTimer:
        timer = FakeTimer(callback)
        self.made += 1
        heapq.heappush(self.timers, (when, self.made, timer))
        return timer

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self.timers and self.timers[0][0] <= until:
            when, _, timer = heapq.heappop(self.timers)
            self.now = max(self.now, when)
            if timer.callback is not None:
                self.fired += 1
                assert self.fired < 100_000, "it sets itself again and again"
                timer.callback()
        self.now = until

    @property
    def armed(self) -> list[float]:
        return [when for when, _, timer in sorted(self.timers) if timer.callback is not None]


class Requests:
    """The pending requests, and which of them expired.

    ``slow``: whoever waited for one that expired leaves only after the call, as a task that must wake first.
    """

    def __init__(self, usual: float | None = None, *, slow: bool = False) -> None:
        self.loop = FakeLoop()
        self.slow = slow
        self.pending: dict[Id, float | None] = {}
        self.expired: list[tuple[int, float]] = []
        self.deadlines = Deadlines(self.loop, self.pending, self._expire, usual)

    def _expire(self, id: int, timeout: float) -> None:
        assert self.pending[id] == timeout
        self.expired.append((id, self.loop.now))
        if not self.slow:
            del self.pending[id]

    def send(self, id: int, timeout: float | None) -> None:
        self.pending[id] = timeout
        if not self.deadlines.watching or timeout != self.deadlines.usual:
            self.deadlines.check(timeout)
            self.deadlines.add(id, timeout)

    def answer(self, id: int) -> None:
        del self.pending[id]


@pytest.fixture
def requests() -> Requests:
    return Requests()


def test_a_request_expires_when_its_time_is_over(requests: Requests) -> None:
    requests.send(1, 5)
    requests.loop.advance(4.9)
    assert requests.expired == []
    requests.loop.advance(0.1)
    assert requests.expired == [(1, 105.0)]
    assert requests.loop.armed == []


def test_one_timer_serves_all_and_stands_at_the_earliest(requests: Requests) -> None:
    requests.send(1, 5)
    requests.send(2, 9)
    assert requests.loop.armed == [105.0]
    requests.send(3, 2)
    assert requests.loop.armed == [102.0]
    requests.loop.advance(2)
    assert requests.loop.armed == [105.0]
    requests.loop.advance(100)
    assert requests.expired == [(3, 102.0), (1, 105.0), (2, 109.0)]
    assert requests.loop.armed == []


def test_an_answered_request_does_not_expire(requests: Requests) -> None:
    requests.send(1, 5)
    requests.send(2, 6)
    requests.answer(1)
    requests.loop.advance(5.5)
    assert requests.expired == []
    requests.loop.advance(1)
    assert requests.expired == [(2, 106.0)]


def test_after_the_last_answer_the_timer_runs_out(requests: Requests) -> None:
    requests.send(1, 5)
    requests.send(2, 50)
    requests.answer(1)
    requests.answer(2)
    requests.loop.advance(5)
    assert requests.loop.armed == []


def test_no_time_at_all(requests: Requests) -> None:
    requests.send(1, 0)
    requests.send(2, -1)
    assert requests.expired == []
    requests.loop.advance(0)
    assert sorted(requests.expired) == [(1, 100.0), (2, 100.0)]


def test_all_the_time_in_the_world(requests: Requests) -> None:
    requests.send(1, float("inf"))
    requests.send(2, 1)
    requests.loop.advance(1e9)
    assert requests.expired == [(2, 101.0)]


def test_a_request_may_be_given_more_time(requests: Requests) -> None:
    requests.send(1, 5)
    requests.send(2, 6)
    requests.deadlines.extend(1, 120.0)
    requests.deadlines.extend(1, 110.0)
    requests.loop.advance(15)
    assert requests.expired == [(2, 106.0)]
    requests.loop.advance(20)
    assert requests.expired == [(2, 106.0), (1, 120.0)]
    assert not requests.deadlines._extended


def test_and_more_again(requests: Requests) -> None:
    requests.send(1, 5)
    requests.deadlines.extend(1, 110.0)
    requests.loop.advance(7)
    requests.deadlines.extend(1, 115.0)
    requests.loop.advance(7)
    assert requests.expired == []
    requests.loop.advance(7)
    assert requests.expired == [(1, 115.0)]


def test_never_less_time(requests: Requests) -> None:
    requests.send(1, 5)
    requests.deadlines.extend(1, 101.0)
    requests.loop.advance(4)
    assert requests.expired == []
    requests.loop.advance(1)
    assert requests.expired == [(1, 105.0)]


def test_more_time_is_only_for_those_that_wait_already(requests: Requests) -> None:
    requests.deadlines.extend(1, 200.0)
    requests.send(1, 5)
    requests.loop.advance(5)
    assert requests.expired == [(1, 105.0)]


def test_more_time_for_requests_that_do_not_wait_leaves_nothing_behind(requests: Requests) -> None:
    """Also not for those that wait without a deadline, many of which come and go."""
    requests.deadlines.extend(7, 200.0)
    for id in range(10_000):
        requests.pending[id] = None
        requests.deadlines.extend(id, 200.0)
        requests.answer(id)
    assert len(requests.deadlines._extended) <= 64 + 4
    requests.send(10_001, 5)
    requests.deadlines.extend(10_001, 107.0)
    requests.answer(10_001)
    requests.loop.advance(50)
    assert requests.expired == []
    requests.deadlines.close()
    assert requests.deadlines._extended == {}


def test_nan_is_no_timeout(requests: Requests) -> None:
    for call in (requests.deadlines.due, requests.deadlines.check):
        with pytest.raises(InvalidValueError) as caught:
            call(float("nan"))
        assert caught.value.code == "timeout"


@pytest.mark.parametrize(
    ("timeout", "error"),
    [("5", TypeError), (Decimal(5), TypeError), (10**400, OverflowError), (-(10**400), OverflowError)],
    ids=["a text", "a decimal", "too late", "too early"],
)
def test_what_no_clock_can_count_is_no_timeout(requests: Requests, timeout: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        requests.deadlines.check(timeout)


def test_a_timer_that_fires_early_is_set_again(requests: Requests) -> None:
    requests.send(1, 5)
    ((_, _, timer),) = requests.loop.timers
    assert timer.callback is not None
    timer.callback()
    assert requests.expired == []
    requests.loop.advance(5)
    assert requests.expired == [(1, 105.0)]


def test_closing_stops_the_timer_and_forgets_everything() -> None:
    requests = Requests(64)
    deadlines = requests.deadlines
    deadlines.close()
    requests.send(1, 5)
    requests.send(2, 64)
    requests.loop.advance(2)
    assert deadlines._marks
    deadlines.close()
    assert requests.loop.armed == []
    assert not (deadlines._heap or deadlines._others or deadlines._marks)
    requests.loop.advance(100)
    assert requests.expired == []


@pytest.mark.parametrize("usual", [None, 5])
def test_expiring_may_close(requests: Requests, usual: float | None) -> None:
    """The transport may find out that it is broken while the notice is written."""

    def expire(id: int, timeout: float) -> None:
        requests.expired.append((id, requests.loop.now))
        requests.pending.clear()
        deadlines.close()

    deadlines = Deadlines(requests.loop, requests.pending, expire, usual)
    requests.deadlines = deadlines
    requests.send(1, 5)
    requests.send(2, 5)
    requests.loop.advance(5 + 5 / TICKS)
    assert [id for id, _ in requests.expired] == [1]
    assert requests.loop.armed == []


def test_answered_requests_do_not_pile_up(requests: Requests) -> None:
    """One after the other, 100,000 of them, and none ever expires."""
    requests.send(-1, 30)
    for id in range(100_000):
        requests.send(id, 30)
        requests.answer(id)
    assert len(requests.deadlines._heap) <= 64 + 4 * 2
    assert requests.loop.made == 1
    requests.loop.advance(30)
    assert requests.expired == [(-1, 130.0)]


def test_those_that_stay_keep_their_order(requests: Requests) -> None:
    """When the answered ones are thrown out."""
    for id in range(300):
        requests.send(id, 10 + id * 37 % 300)
    kept = [id for id in range(300) if id % 7 == 0]
    for id in range(300):
        if id not in kept:
            requests.answer(id)
    requests.send(300, 1000)
    assert len(requests.deadlines._heap) == len(kept) + 1
    requests.loop.advance(500)
    assert requests.expired == [(id, 110.0 + id * 37 % 300) for id in sorted(kept, key=lambda id: id * 37 % 300)]


def test_nor_with_many_in_flight(requests: Requests) -> None:
    flying = 1_000
    for id in range(20_000):
        requests.send(id, 30)
        if id >= flying:
            requests.answer(id - flying)
    assert len(requests.deadlines._heap) <= 64 + 4 * (flying + 1)


# ---------------------------------------------------------------------------------------- the usual timeout


def test_requests_of_the_usual_timeout_need_no_entries() -> None:
    requests = Requests(64)
    requests.send(1, 64)
    assert requests.deadlines.watching
    assert requests.loop.armed == [101.0]
    for id in range(2, 1000):
        requests.send(id, 64)
    assert requests.loop.made == 1
    assert not requests.deadlines._heap
    assert not requests.deadlines._others
    requests.loop.advance(64.9)
    assert requests.expired == []
    requests.loop.advance(0.1)
    assert requests.expired == [(id, 165.0) for id in range(1, 1000)]


def test_to_add_one_more_while_they_are_watched_changes_nothing() -> None:
    requests = Requests(64)
    requests.send(1, 64)
    requests.loop.advance(0.5)
    requests.pending[2] = 64
    requests.deadlines.add(2, 64)
    assert requests.loop.armed == [101.0]
    requests.loop.advance(65)
    assert requests.expired == [(1, 165.0), (2, 165.0)]


def test_they_expire_in_the_tick_after_they_are_due_at_the_latest() -> None:
    requests = Requests(64)
    for id in range(1, 20):
        requests.send(id, 64)
        requests.loop.advance(0.3)
    requests.loop.advance(100)
    assert [id for id, _ in requests.expired] == list(range(1, 20))
    for id, when in requests.expired:
        assert 0 <= when - (100 + (id - 1) * 0.3 + 64) <= 1


def test_ticks_that_come_late_make_nothing_else_late() -> None:
    requests = Requests(64)
    requests.send(1, 64)
    for late in (101.5, 103.0):
        requests.loop.now = late
        requests.loop.advance(0)
    requests.loop.advance(100)
    assert requests.expired == [(1, 165.5)]


def test_without_such_requests_there_is_no_tick() -> None:
    requests = Requests(64)
    requests.send(1, 64)
    requests.send(2, 7)
    requests.send(3, None)
    requests.answer(1)
    requests.loop.advance(1)
    assert not requests.deadlines.watching
    assert requests.loop.armed == [107.0]
    requests.loop.advance(10)
    assert requests.expired == [(2, 107.0)]
    assert requests.loop.armed == []
    requests.send(4, 64)
    assert requests.loop.armed == [112.0]
    requests.loop.advance(65)
    assert requests.expired == [(2, 107.0), (4, 176.0)]
    requests.loop.advance(1000)
    assert requests.pending == {3: None}


def test_other_timeouts_are_exact_beside_it() -> None:
    requests = Requests(64)
    requests.send(1, 64)
    requests.send(2, 0.25)
    requests.send(3, 1000)
    requests.loop.advance(0.25)
    assert requests.expired == [(2, 100.25)]
    requests.loop.advance(100)
    assert requests.expired == [(2, 100.25), (1, 165.0)]
    requests.loop.advance(1000)
    assert requests.expired == [(2, 100.25), (1, 165.0), (3, 1100.0)]


def test_more_time_for_a_request_of_the_usual_timeout() -> None:
    requests = Requests(64)
    requests.send(1, 64)
    requests.send(2, 64)
    requests.send(3, 64)
    requests.deadlines.extend(1, 300.5)
    requests.deadlines.extend(2, 120.0)
    requests.loop.advance(100)
    assert requests.expired == [(2, 165.0), (3, 165.0)]
    requests.deadlines.extend(1, 400.5)
    requests.loop.advance(200)
    assert len(requests.expired) == 2
    requests.loop.advance(1)
    assert requests.expired[2] == (1, 400.5)
    assert not requests.deadlines._others


def test_answered_after_it_got_more_time() -> None:
    requests = Requests(64)
    requests.send(1, 64)
    requests.deadlines.extend(1, 300.0)
    requests.loop.advance(100)
    requests.answer(1)
    requests.loop.advance(300)
    assert requests.expired == []
    assert not requests.deadlines._others
    assert requests.loop.armed == []


@pytest.mark.parametrize("usual", [0, -1])
def test_a_usual_timeout_of_no_time_at_all(usual: float) -> None:
    requests = Requests(usual)
    requests.send(1, usual)
    requests.send(2, usual)
    requests.send(3, 5)
    assert requests.expired == []
    requests.loop.advance(0)
    assert requests.expired == [(1, 100.0), (2, 100.0)]
    assert requests.loop.armed == [105.0]


@pytest.mark.parametrize("usual", [float("-inf"), -1, 0, 1e-18, 0.001, 0.0639])
def test_no_ticks_for_a_usual_timeout_that_is_too_short_for_them(usual: float) -> None:
    """A clock may stand still (trio's ``MockClock``): a tick that is due at once would be due for ever."""
    requests = Requests(usual, slow=True)
    for id in (1, 2):
        requests.send(id, usual)
    requests.loop.advance(max(usual, 0))
    assert [id for id, _ in requests.expired] == [1, 2]
    assert requests.loop.armed == []
    assert not requests.deadlines.watching


def test_ticks_end_when_those_who_waited_have_left() -> None:
    requests = Requests(0.064, slow=True)
    for id in (1, 2):
        requests.send(id, 0.064)
    requests.loop.advance(0.07)
    assert {id for id, _ in requests.expired} == {1, 2}
    assert requests.loop.armed != []
    requests.pending.clear()
    requests.loop.advance(0.001)
    assert requests.loop.armed == []


@pytest.mark.parametrize("usual", [None, float("inf")])
def test_a_usual_timeout_without_end(usual: float | None) -> None:
    requests = Requests(usual)
    for id in range(100):
        requests.send(id, usual)
    assert requests.loop.made == 0
    requests.send(100, 5)
    requests.loop.advance(10)
    assert requests.expired == [(100, 105.0)]


def test_requests_without_end_do_not_pile_up() -> None:
    requests = Requests(64)
    requests.send(-1, 64)
    for id in range(10_000):
        requests.send(id, None)
        requests.answer(id)
    assert len(requests.deadlines._others) <= 64 + 4 * 2
    requests.loop.advance(65)
    assert requests.expired == [(-1, 165.0)]


def test_marks_do_not_pile_up() -> None:
    requests = Requests(64)
    requests.send(1, 64)
    requests.deadlines.extend(1, 1e9)
    for id in range(2, 2000):
        requests.send(id, 64)
        requests.loop.advance(0.7)
        requests.answer(id)
    assert len(requests.deadlines._marks) <= 2 * TICKS + 2


def test_a_tick_that_comes_early_is_set_again() -> None:
    requests = Requests(64)
    requests.send(1, 64)
    ((_, _, timer),) = requests.loop.timers
    assert timer.callback is not None
    timer.callback()
    assert not requests.deadlines._marks
    requests.loop.advance(65)
    assert requests.expired == [(1, 165.0)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["send", "usual", "endless", "answer", "extend", "wait"]), st.integers(0, 50)),
        max_size=200,
    ),
    st.sampled_from([None, 0, 1, 10, 20, float("inf")]),
)
def test_each_request_expires_exactly_when_it_is_due(steps: list[tuple[str, int]], usual: float | None) -> None:
    """Or, with the usual timeout, a tick later at most; all that are due expire, and no others."""
    requests = Requests(usual)
    slack = usual / TICKS + 1e-9 if usual and usual != float("inf") else 0.0
    #: When it is due, and how much later it may expire.
    due: dict[int, tuple[float, float]] = {}
    told = 0
    for number, (step, value) in enumerate(steps, 1):
        if step in ("send", "usual", "endless"):
            timeout = {"send": value, "usual": usual, "endless": None}[step]
            requests.send(number, timeout)
            when = requests.loop.now + timeout if timeout is not None else float("inf")
            due[number] = (when, slack if timeout == usual else 0.0)
        elif step == "wait":
            requests.loop.advance(value)
        elif due:
            id = list(due)[value % len(due)]
            if step == "answer":
                del due[id]
                requests.answer(id)
            else:
                due[id] = (max(due[id][0], requests.loop.now + value), due[id][1])
                requests.deadlines.extend(id, requests.loop.now + value)
        for id, when in requests.expired[told:]:
            earliest, late = due.pop(id)
            assert earliest <= when <= earliest + late
        told = len(requests.expired)
        assert requests.pending.keys() == due.keys()
        assert step != "wait" or all(sum(times) >= requests.loop.now for times in due.values())
        assert len(requests.deadlines._heap) <= 64 + 4 * len(due) + 4
        assert len(requests.deadlines._others) <= 64 + 4 * len(due) + 4
