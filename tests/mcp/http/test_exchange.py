"""The attempts of a call, and the budget that carriers of the caller's own share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import httpx2
import pytest

from mcpl_core.mcp.http import RetryReport, RetrySettings, exchange_of, repeat_by_adapter
from mcpl_core.mcp.http.exchange import EXCHANGE_KEY, CallLog, Exchange
from mcpl_core.mcp.http.retry import RetrySeries
from mcpl_core.mcp.replay import REFUSED_BEFORE_EXECUTION, AttemptRecord, Permission, Replay, ToolReplay
from tests.mcp.http.fakes import FakeTime


def log(settings: RetrySettings | None = None, **options: Any) -> CallLog:
    return CallLog(RetrySeries(settings or RetrySettings(), 100.0), **options)


def test_messages_that_call_no_tool_are_repeated_when_throttled() -> None:
    assert log().permission("throttle") == Permission("compatibility", "throttle", REFUSED_BEFORE_EXECUTION)
    assert log().permission("network") is None
    assert log(throttle=False).permission("throttle") is None


def test_calls_are_repeated_by_permission() -> None:
    replay = Replay("app-authorized", {"a": ToolReplay(on=("network", "throttle"))})
    assert log(replay=replay, tool="a").permission("network") == Permission("app-authorized", "network")
    assert log(replay=replay, tool="a", throttle=False).permission("throttle") is None
    assert log(replay=replay, tool="b").permission("network") is None


def test_attempts_are_numbered_and_known_to_be_open() -> None:
    found = log()
    assert not found.is_open
    found.begin()
    assert (found.is_open, found.series.attempts) == (True, 1)
    found.record("throttled", 429)
    assert not found.is_open
    found.begin(counted=False)
    found.record("completed", 200)
    assert found.attempts == [AttemptRecord(1, "throttled", 429), AttemptRecord(2, "completed", 200)]
    assert found.series.attempts == 1


def test_a_new_exchange_is_nowhere_yet() -> None:
    new = Exchange(log())
    assert (new.seen, new.sent, new.aborted) == (False, False, False)
    assert (new.status, new.answer, new.failure, new.scope, new.body) == (None, None, None, None, None)


@pytest.mark.anyio
async def test_giving_up_ends_what_waits() -> None:
    exchange = Exchange(log())
    exchange.abort()
    assert exchange.aborted
    with anyio.CancelScope() as scope:
        exchange.scope = scope
        exchange.abort()
        await anyio.sleep_forever()
    assert scope.cancelled_caught


def request(exchange: Exchange | None) -> httpx2.Request:
    extensions = {} if exchange is None else {EXCHANGE_KEY: exchange}
    return httpx2.Request("POST", "https://a.example:444/x?token=canary", extensions=extensions)


def test_a_carrier_asks_for_another_attempt() -> None:
    reports: list[RetryReport] = []
    found = log(RetrySettings(on_retry=reports.append, max_attempts=2))
    found.begin()
    time = FakeTime()
    carried = request(Exchange(found))
    assert exchange_of(carried) is not None
    assert repeat_by_adapter(carried, "mine", "queue-was-full", time.timing) == 0.1
    assert found.attempts == [AttemptRecord(1, "refused", None, Permission("mine", None, "queue-was-full"))]
    assert (found.is_open, found.series.attempts) == (True, 2)
    assert reports == [RetryReport("adapter", 1, 2, 0.1, None, "https://a.example:444")]
    assert repeat_by_adapter(carried, "mine", "queue-was-full", time.timing) is None
    assert repeat_by_adapter(request(None), "mine", "queue-was-full") is None


@pytest.mark.parametrize("make", [lambda: Exchange(log(), body=b"canary", method="x")])
def test_nothing_of_a_message_is_shown(make: Callable[[], Exchange]) -> None:
    assert "canary" not in repr(make())
