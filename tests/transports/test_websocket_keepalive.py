"""When a WebSocket peer is pinged, and when it is given up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.transports.websocket_keepalive import (
    DEFAULT_PING_INTERVAL,
    DEFAULT_PING_TIMEOUT,
    KeepAlive,
    KeepAliveAction,
    decide,
    resumed,
)

WAIT, PING, PONG, GIVE_UP = KeepAliveAction


def begun(interval: float = 20.0, timeout: float | None = 20.0) -> KeepAlive:
    return KeepAlive(interval, timeout, interval)


def test_the_defaults_stay_within_the_half_minute_between_pings_and_the_minute_of_silence() -> None:
    assert DEFAULT_PING_INTERVAL <= 30
    assert DEFAULT_PING_INTERVAL + DEFAULT_PING_TIMEOUT < 60


def test_nothing_is_due_before_the_interval_is_over() -> None:
    assert decide(begun(), 19.9, heard=False, paused=False) == (WAIT, begun(), 20.0)


@pytest.mark.parametrize("heard", [False, True])
def test_a_ping_is_due_after_the_interval_also_when_messages_flow(heard: bool) -> None:
    action, state, again = decide(begun(), 20.0, heard=heard, paused=False)
    assert (action, state.ping_at, state.answer_by, again) == (PING, 40.0, 40.0, 40.0)


def test_whatever_came_in_answers_the_ping() -> None:
    _, state, _ = decide(begun(), 20.0, heard=False, paused=False)
    assert decide(state, 25.0, heard=True, paused=False) == (WAIT, KeepAlive(20.0, 20.0, 40.0), 40.0)


def test_an_answered_ping_is_followed_by_the_next() -> None:
    _, state, _ = decide(begun(), 20.0, heard=False, paused=False)
    action, state, again = decide(state, 40.0, heard=True, paused=False)
    assert (action, state.answer_by, again) == (PING, 60.0, 60.0)


def test_a_silent_peer_is_given_up_when_the_timeout_is_over() -> None:
    _, state, again = decide(begun(20.0, 5.0), 20.0, heard=False, paused=False)
    assert again == 25.0
    assert decide(state, 24.9, heard=False, paused=False)[0] is WAIT
    assert decide(state, 25.0, heard=False, paused=False)[0] is GIVE_UP


def test_without_a_timeout_nobody_is_given_up() -> None:
    _, state, again = decide(begun(20.0, None), 20.0, heard=False, paused=False)
    assert (state.answer_by, again) == (None, 40.0)
    assert decide(state, 1000.0, heard=False, paused=False)[0] is PING
    assert resumed(state, 50.0) == state


def test_while_paused_nobody_is_given_up_and_the_peer_is_told_that_we_live() -> None:
    _, state, _ = decide(begun(), 20.0, heard=False, paused=False)
    for now in (40.0, 50.0, 500.0):
        assert decide(state, now, heard=False, paused=True) == (PONG, state, now + 10.0)


def test_what_came_in_before_the_pause_still_answers() -> None:
    _, state, _ = decide(begun(), 20.0, heard=False, paused=False)
    _, state, _ = decide(state, 40.0, heard=True, paused=True)
    assert state.answer_by is None


def test_after_a_pause_the_peer_has_the_whole_timeout_again() -> None:
    _, state, _ = decide(begun(), 20.0, heard=False, paused=False)
    state = resumed(state, 500.0)
    assert decide(state, 519.9, heard=False, paused=False)[0] is WAIT
    assert decide(state, 520.0, heard=False, paused=False)[0] is GIVE_UP


def test_a_pause_without_an_outstanding_ping_changes_nothing() -> None:
    assert resumed(begun(), 500.0) == begun()


@given(
    interval=st.floats(0.1, 100),
    timeout=st.floats(0.1, 100),
    steps=st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=50),
)
def test_a_peer_that_answers_each_ping_in_time_is_never_given_up(
    interval: float, timeout: float, steps: list[tuple[float, bool]]
) -> None:
    state, now = KeepAlive(interval, timeout, interval), interval
    for share, paused in steps:
        action, state, again = decide(state, now, heard=True, paused=paused)
        assert action is not GIVE_UP
        assert again > now
        now += share * (again - now)


@given(interval=st.floats(0.1, 100), timeout=st.floats(0.1, 100))
def test_a_silent_peer_is_given_up_after_interval_and_timeout(interval: float, timeout: float) -> None:
    state, now, pings = KeepAlive(interval, timeout, interval), 0.0, 0
    while True:
        action, state, again = decide(state, now, heard=False, paused=False)
        if action is GIVE_UP:
            break
        pings += action is PING
        now = again
    assert pings == 1
    assert now == pytest.approx(interval + timeout)
