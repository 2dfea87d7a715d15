"""When a throttled request is sent again: numbers only, no clock."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.http.retry import RetryReport, RetrySeries, RetrySettings, parse_retry_after

#: Sun, 06 Nov 1994 08:49:37 GMT
WHEN = 784111777.0


def waits(retry: RetrySettings, *, chance: float = 0.0, after: float | None = None, step: float = 0.0) -> list[float]:
    """All the waits of a series whose attempts take ``step`` seconds and always fail."""
    series, now = RetrySeries(retry, 0.0), 0.0
    found: list[float] = []
    while True:
        series.begin()
        now += step
        wait = series.next_wait(now, chance, after)
        if wait is None:
            return found
        found.append(wait)
        now += wait


@pytest.mark.spec("R-mcphttp-8")
def test_three_attempts_with_200_ms_doubling_and_equal_jitter() -> None:
    assert waits(RetrySettings()) == [0.1, 0.2]
    assert waits(RetrySettings(), chance=0.5) == pytest.approx([0.15, 0.3])
    assert all(0.1 <= first < 0.2 and 0.2 <= second < 0.4 for first, second in [waits(RetrySettings(), chance=0.999)])


def test_a_server_that_names_a_time_gets_it() -> None:
    assert waits(RetrySettings(), after=3.0, chance=0.7) == [3.0, 3.0]
    assert waits(RetrySettings(), after=0.0) == [0.0, 0.0]


@pytest.mark.spec("R-mcphttp-8")
def test_ten_seconds_of_waiting_in_all() -> None:
    assert waits(RetrySettings(), after=10.0) == [10.0]
    assert waits(RetrySettings(max_attempts=99), after=4.0) == [4.0, 4.0]
    assert waits(RetrySettings(max_attempts=99), after=5.0) == [5.0, 5.0]
    assert waits(RetrySettings(), after=10.001) == []


def test_a_hostile_time_is_refused_at_once() -> None:
    assert waits(RetrySettings(), after=86400.0) == []
    assert waits(RetrySettings(), after=math.inf) == []


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({"max_attempts": 1}, []),
        ({"max_attempts": 2}, [0.2]),
        ({"base_delay": 1.0}, [1.0, 2.0]),
        ({"multiplier": 10.0}, [0.2, 2.0]),
        ({"multiplier": 1.0}, [0.2, 0.2]),
        ({"max_delay": 0.3}, [0.2, 0.3]),
        ({"max_wait": 0.5}, [0.2]),
        ({"max_wait": 0.0, "base_delay": 0.0}, [0.0, 0.0]),
        ({"max_attempts": 4, "multiplier": 1e300, "max_delay": 1.0}, [0.2, 1.0, 1.0]),
    ],
)
def test_each_knob(knobs: dict[str, Any], expected: list[float]) -> None:
    assert waits(RetrySettings(jitter="none", **knobs)) == pytest.approx(expected)


def test_jitter() -> None:
    assert waits(RetrySettings(jitter="full")) == [0.0, 0.0]
    assert waits(RetrySettings(jitter="full"), chance=0.5) == [0.1, 0.2]
    assert waits(RetrySettings(jitter="none"), chance=0.5) == [0.2, 0.4]


def test_no_attempt_begins_after_the_time_of_the_series() -> None:
    assert waits(RetrySettings(jitter="none", max_elapsed=1.0), step=0.5) == [0.2]
    assert waits(RetrySettings(jitter="none", max_elapsed=0.2)) == [0.2]
    assert waits(RetrySettings(jitter="none", max_elapsed=0.0)) == []


@given(
    st.floats(0, 1, exclude_max=True),
    st.one_of(st.none(), st.floats(0, 1e6)),
    st.integers(1, 6),
    st.floats(0, 30),
    st.floats(0, 5),
)
@settings(max_examples=150, deadline=None)
def test_no_series_is_longer_than_its_budget(
    chance: float, after: float | None, attempts: int, most: float, base: float
) -> None:
    found = waits(RetrySettings(max_attempts=attempts, max_wait=most, base_delay=base), chance=chance, after=after)
    assert len(found) < attempts
    assert sum(found) <= most + 1e-9


def test_reports() -> None:
    seen: list[RetryReport] = []
    series = RetrySeries(RetrySettings(on_retry=seen.append), 0.0)
    series.begin()
    series.report("throttle", 0.5, None, "https://example.com")
    assert seen == [RetryReport("throttle", 1, 3, 0.5, None, "https://example.com")]
    RetrySeries(RetrySettings(), 0.0).report("throttle", 0.5, None, "https://example.com")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("99999999999999999999", math.inf),
        ("Sun, 06 Nov 1994 08:49:42 GMT", 5.0),
        ("Sunday, 06-Nov-94 08:49:42 GMT", 5.0),
        ("Sun Nov  6 08:49:42 1994", 5.0),
        ("Sun, 06 Nov 1994 08:49:00 GMT", 0.0),
        (None, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("Sun, 99 Nov 1994 08:49:42 GMT", None),
    ],
)
def test_both_forms_of_retry_after(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, WHEN) == seconds


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone of a process cannot be set here")
def test_a_date_without_a_zone_is_in_utc_wherever_this_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        found = parse_retry_after("Sun Nov  6 08:49:42 1994", WHEN)
    time.tzset()
    assert found == 5.0


@given(st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_no_header_is_too_strange(value: str) -> None:
    assert (parse_retry_after(value, WHEN) or 0.0) >= 0.0


@pytest.mark.parametrize(
    ("knobs", "code"),
    [
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_attempts": 2.0}, "max_attempts"),
        ({"max_wait": -1}, "max_wait"),
        ({"max_wait": math.inf}, "max_wait"),
        ({"max_wait": None}, "max_wait"),
        ({"base_delay": math.nan}, "base_delay"),
        ({"multiplier": 0.5}, "multiplier"),
        ({"max_delay": "1"}, "max_delay"),
        ({"max_elapsed": -0.1}, "max_elapsed"),
        ({"jitter": "some"}, "jitter"),
        ({"max_wait": 10**400}, "max_wait"),
        ({"on_retry": "print"}, "on_retry"),
        ({"maxAttempts": 3}, "unknown_member"),
    ],
)
def test_settings_outside_their_range_are_refused(knobs: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        RetrySettings.read(knobs)
    assert caught.value.code == code


def test_what_a_caller_may_give() -> None:
    given = RetrySettings(max_attempts=2)
    assert RetrySettings.read(True) == RetrySettings()
    assert RetrySettings.read(False) is None
    assert RetrySettings.read(given) is given
    assert RetrySettings.read({"max_attempts": 2}) == given
    odd: Any = 3
    with pytest.raises(InvalidValueError) as caught:
        RetrySettings.read(odd)
    assert caught.value.code == "retry"
