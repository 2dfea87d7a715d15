"""HTTP 429 answered with patience."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import httpx2
import pytest

from mcpl_core.mcp.http import RetryReport, RetrySettings, retrying_transport
from mcpl_core.mcp.http.exchange import EXCHANGE_KEY, CallLog, Exchange, exchange_of
from mcpl_core.mcp.http.retry import RetrySeries
from mcpl_core.mcp.http.retrying import RetryingTransport, is_replayable
from mcpl_core.mcp.http.signing import SigningTransport
from mcpl_core.mcp.replay import REFUSED_BEFORE_EXECUTION, AttemptRecord, Permission, Replay
from tests.mcp.http.fakes import Body, FakeTime, Inner, post

pytestmark = pytest.mark.anyio

ASSUMED = Permission("compatibility", "throttle", REFUSED_BEFORE_EXECUTION)


def throttled(after: str | None = None) -> httpx2.Response:
    return httpx2.Response(429, headers={} if after is None else {"retry-after": after})


async def test_a_throttled_request_is_sent_again_as_it_was() -> None:
    time, inner = FakeTime(chance=0.5), Inner(429, 429, 200)
    response = await RetryingTransport(inner, RetrySettings(), time.timing).handle_async_request(post(x="1"))
    assert response.status_code == 200
    assert time.slept == pytest.approx([0.15, 0.3])
    assert [(r.content, r.headers["x"]) for r in inner.requests] == [(b"{}", "1")] * 3


async def test_three_attempts_and_the_last_answer_is_the_answer() -> None:
    time, inner = FakeTime(), Inner(429)
    response = await RetryingTransport(inner, RetrySettings(), time.timing).handle_async_request(post())
    assert (response.status_code, len(inner.requests)) == (429, 3)


@pytest.mark.parametrize("status", [200, 202, 400, 401, 404, 408, 425, 500, 502, 503, 504])
async def test_every_other_status_is_an_answer(status: int) -> None:
    inner = Inner(httpx2.Response(status, headers={"retry-after": "0"}))
    response = await RetryingTransport(inner, RetrySettings(), FakeTime().timing).handle_async_request(post())
    assert (response.status_code, len(inner.requests)) == (status, 1)


async def test_a_failure_without_an_answer_is_not_for_this_transport() -> None:
    inner = Inner(httpx2.ReadError("reset"))
    with pytest.raises(httpx2.ReadError):
        await RetryingTransport(inner, RetrySettings(), FakeTime().timing).handle_async_request(post())
    assert len(inner.requests) == 1


@pytest.mark.parametrize(
    ("after", "slept"),
    [("3", [3.0]), ("Sun, 06 Nov 1994 08:49:42 GMT", [5.0]), ("nonsense", [0.1])],
)
async def test_the_time_that_the_server_names(after: str, slept: list[float]) -> None:
    time, inner = FakeTime(), Inner(throttled(after), 200)
    await RetryingTransport(inner, RetrySettings(), time.timing).handle_async_request(post())
    assert time.slept == slept


async def test_a_hostile_time_is_not_waited_for() -> None:
    time, inner = FakeTime(), Inner(throttled("86400"))
    response = await RetryingTransport(inner, RetrySettings(), time.timing).handle_async_request(post())
    assert (response.status_code, time.slept, len(inner.requests)) == (429, [], 1)


async def test_reports_name_the_origin_and_nothing_more() -> None:
    seen: list[RetryReport] = []
    time, inner = FakeTime(), Inner(throttled("1"), 200)
    request = post("https://a.example:8443/mcp?token=canary", authorization="canary")
    settings = RetrySettings(on_retry=seen.append, max_attempts=5)
    await RetryingTransport(inner, settings, time.timing).handle_async_request(request)
    assert seen == [RetryReport("throttle", 1, 5, 1.0, 1.0, "https://a.example:8443")]


async def test_a_stream_is_sent_once() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"once"

    inner, request = Inner(throttled("0")), post(content=body())
    assert not is_replayable(request)
    response = await RetryingTransport(inner, RetrySettings(), FakeTime().timing).handle_async_request(request)
    assert (response.status_code, len(inner.requests)) == (429, 1)


async def test_a_stream_is_sent_once_also_when_somebody_read_it() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"once"

    inner = Inner(throttled("0"))
    transport = RetryingTransport(SigningTransport(inner, {}), RetrySettings(), FakeTime().timing)
    response = await transport.handle_async_request(post(content=body()))
    assert (response.status_code, len(inner.requests), inner.requests[0].content) == (429, 1, b"once")


async def test_the_refused_answer_is_closed_before_the_wait() -> None:
    body = Body()
    closed = []

    async def sleep(seconds: float) -> None:
        closed.append(body.closed)

    time = FakeTime()
    timing = type(time.timing)(time.timing.clock, time.timing.wall, sleep, time.timing.chance)
    inner = Inner(httpx2.Response(429, stream=body), 200)
    await RetryingTransport(inner, RetrySettings(), timing).handle_async_request(post())
    assert closed == [True]


async def test_while_it_waits_nothing_is_on_its_way() -> None:
    exchange = Exchange(CallLog(RetrySeries(RetrySettings(), 0.0)), sent=True)
    request = post()
    request.extensions[EXCHANGE_KEY] = exchange
    sent: list[bool] = []

    async def sleep(seconds: float) -> None:
        sent.append(exchange.sent)

    time = FakeTime()
    timing = type(time.timing)(time.timing.clock, time.timing.wall, sleep, time.timing.chance)
    await RetryingTransport(Inner(429, 200), RetrySettings(), timing).handle_async_request(request)
    assert sent == [False]


async def test_the_wait_ends_when_it_is_cancelled() -> None:
    waits = anyio.Event()

    async def sleep(seconds: float) -> None:
        waits.set()
        await anyio.sleep_forever()

    time, inner = FakeTime(), Inner(429)
    timing = type(time.timing)(time.timing.clock, time.timing.wall, sleep, time.timing.chance)
    transport = RetryingTransport(inner, RetrySettings(), timing)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.handle_async_request, post())
            await waits.wait()
            tasks.cancel_scope.cancel()
    assert len(inner.requests) == 1


async def test_who_is_cancelled_already_sends_nothing() -> None:
    inner = Inner(200)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await RetryingTransport(inner, RetrySettings(), FakeTime().timing).handle_async_request(post())
    assert (inner.requests, scope.cancelled_caught) == ([], True)


async def test_retriers_inside_one_another_share_one_series() -> None:
    time, inner = FakeTime(), Inner(throttled("4"))
    inside = RetryingTransport(inner, RetrySettings(max_attempts=9, max_wait=99), time.timing)
    outside = RetryingTransport(inside, RetrySettings(max_attempts=3), time.timing)
    response = await outside.handle_async_request(post())
    assert (response.status_code, len(inner.requests), time.slept) == (429, 3, [4.0, 4.0])


async def test_requests_alone_have_series_of_their_own() -> None:
    time, inner = FakeTime(), Inner(429)
    transport = RetryingTransport(inner, RetrySettings(max_attempts=2), time.timing)
    await transport.handle_async_request(post())
    await transport.handle_async_request(post())
    assert len(inner.requests) == 4


async def test_what_a_session_does_not_permit_is_not_repeated() -> None:
    log = CallLog(RetrySeries(RetrySettings(), 0.0), Replay("app-authorized"), "tool")
    request = post()
    request.extensions[EXCHANGE_KEY] = Exchange(log)
    inner = Inner(429)
    await RetryingTransport(inner, RetrySettings(), FakeTime().timing).handle_async_request(request)
    assert (len(inner.requests), log.attempts) == (1, [])


async def test_attempts_of_a_call_are_put_on_record() -> None:
    time, inner = FakeTime(), Inner(429, 200)
    log = CallLog(RetrySeries(RetrySettings(), 0.0), Replay(), "tool", {})
    log.begin()
    request = post()
    request.extensions[EXCHANGE_KEY] = Exchange(log, sent=True)
    await RetryingTransport(inner, RetrySettings(), time.timing).handle_async_request(request)
    assert log.attempts == [AttemptRecord(1, "throttled", 429, ASSUMED)]
    assert (log.is_open, log.series.attempts) == (True, 2)


async def test_the_public_wrapper_is_the_same_one() -> None:
    time, inner = FakeTime(), Inner(429, 200)
    wrapped = retrying_transport(inner, {"max_attempts": 2}, timing=time.timing)
    async with httpx2.AsyncClient(transport=wrapped) as client:
        assert (await client.post("http://a.example/", content=b"x")).status_code == 200
    assert inner.closed == 1
    assert retrying_transport(inner, False) is inner
    await wrapped.aclose()
    assert inner.closed == 2


async def test_carriers_find_the_series_of_a_request() -> None:
    inner = Inner(200)
    await RetryingTransport(inner, RetrySettings(), FakeTime().timing).handle_async_request(post())
    found = exchange_of(inner.requests[0])
    assert found is not None and found.log.series.attempts == 1
    assert exchange_of(post()) is None


async def test_the_refused_answer_is_closed_when_nobody_can_be_told_of_it() -> None:
    def fail(report: RetryReport) -> None:
        raise LookupError

    body = Body()
    settings = RetrySettings(on_retry=fail)
    transport = RetryingTransport(Inner(httpx2.Response(429, stream=body)), settings, FakeTime().timing)
    with pytest.raises(LookupError):
        await transport.handle_async_request(post())
    assert body.closed
