"""One request from its first attempt to its last: repeating, recording, and the time it may take."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import httpx2
import pytest
import trio.testing

from mcpl_core.errors import ConnectionClosedError, ConnectionTimeoutError, McplError, RpcError
from mcpl_core.mcp import McpReplayUnavailableError, UnknownEffectError
from mcpl_core.mcp.http import (
    HttpStatusError,
    RetryReport,
    RetrySettings,
    SessionEndedError,
    repeat_by_adapter,
    retrying_transport,
)
from mcpl_core.mcp.http.calls import CallRunner
from mcpl_core.mcp.http.retrying import RetryingTransport
from mcpl_core.mcp.replay import (
    REFUSED_BEFORE_EXECUTION,
    AttemptRecord,
    CallRecord,
    Permission,
    Replay,
    ToolReplay,
    Watched,
)
from mcpl_core.mcp.transports import CredentialRequest
from tests.mcp.http.fakes import FakeTime
from tests.mcp.http.opened import opened
from tests.mcp.http.scripted_server import Reply, Reset, ScriptedServer, Seen, error, result, serving

pytestmark = pytest.mark.anyio

PAY = {"name": "pay", "arguments": {"amount": 1, "key": "k1"}}
ASSUMED = Permission("compatibility", "throttle", REFUSED_BEFORE_EXECUTION)
BY_APP = Permission("app-authorized", "network")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Without uvloop: nothing here knows the loop."""
    return request.param


def calling(*answers: Any) -> ScriptedServer:
    """Answers tool calls one after the other; the last answer stands for all that follow."""
    left = list(answers)

    async def script(seen: Seen) -> Reply | None:
        if seen.rpc != "tools/call":
            return None
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        found: Reply | None = answer(seen) if callable(answer) else answer
        return found

    return ScriptedServer(script)


def done(seen: Seen) -> Reply:
    return result(seen, {"content": []})


THROTTLED = Reply(429)


class Records:
    """Keeps the records, and the time that stood still."""

    def __init__(self) -> None:
        self.calls: list[CallRecord] = []
        self.time = FakeTime()

    def options(self, policy: Any = "compatibility", **tools: ToolReplay) -> dict[str, Any]:
        return {"replay": Replay(policy, tools, self.calls.append), "timing": self.time.timing, "name": "bank"}

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        (call,) = self.calls
        assert (call.server, call.tool) == ("bank", "pay")
        return call.attempts


# -- throttling


async def test_compatibility_repeats_every_tool_and_says_what_it_assumes() -> None:
    records = Records()
    async with serving(calling(THROTTLED, THROTTLED, done)) as server, opened(server, **records.options()) as session:
        assert await session.request("tools/call", PAY) == {"content": []}
        assert len({seen.body for seen in server.of("tools/call")}) == 1
    assert records.attempts == (
        AttemptRecord(1, "throttled", 429, ASSUMED),
        AttemptRecord(2, "throttled", 429, ASSUMED),
        AttemptRecord(3, "completed", 200),
    )
    assert [attempt.effect for attempt in records.attempts] == ["unknown", "unknown", "applied"]
    assert records.time.slept == [0.1, 0.2]


async def test_the_last_refusal_reaches_the_caller_as_sent() -> None:
    records = Records()
    server = calling(Reply(429, {"retry-after": "2"}))
    async with serving(server), opened(server, **records.options()) as session:
        with pytest.raises(HttpStatusError) as caught:
            await session.request("tools/call", PAY)
        assert (caught.value.status, caught.value.retry_after) == (429, 2.0)
    assert [attempt.outcome for attempt in records.attempts] == ["throttled"] * 3
    assert records.calls[0].effect == "unknown"


async def test_a_refusal_in_words_beside_429() -> None:
    server = calling(lambda seen: error(seen, -32000, "slow down", {"in": 2}, status=429))
    async with serving(server), opened(server, **Records().options()) as session:
        with pytest.raises(RpcError) as caught:
            await session.request("tools/call", PAY)
        assert (caught.value.message, caught.value.data) == ("slow down", {"in": 2})


async def test_listing_is_repeated_too() -> None:
    refused = 0

    async def script(seen: Seen) -> Reply | None:
        nonlocal refused
        refused += seen.rpc == "tools/list"
        return THROTTLED if seen.rpc == "tools/list" and refused == 1 else None

    time = FakeTime()
    async with serving(ScriptedServer(script)) as server, opened(server, timing=time.timing) as session:
        assert await session.request("tools/list")
        assert len(server.of("tools/list")) == 2


async def test_connecting_is_repeated_too() -> None:
    refused = 0

    async def script(seen: Seen) -> Reply | None:
        nonlocal refused
        refused += seen.rpc == "initialize"
        return THROTTLED if seen.rpc == "initialize" and refused == 1 else None

    time = FakeTime()
    async with serving(ScriptedServer(script)) as server, opened(server, timing=time.timing) as session:
        assert session.protocol_version == "2025-11-25"


@pytest.mark.spec("R-mcphttp-10")
async def test_without_retries_a_throttled_call_fails_at_once() -> None:
    records = Records()
    options = records.options(pay=ToolReplay(on=("throttle",)))
    async with serving(calling(THROTTLED)) as server:
        async with opened(server, retry_on_throttle=False, **options) as session:
            assert not isinstance(session._watch._inner, RetryingTransport)
            with pytest.raises(HttpStatusError):
                await session.request("tools/call", PAY)
            assert len(server.of("tools/call")) == 1
    assert records.attempts == (AttemptRecord(1, "throttled", 429),)


@pytest.mark.spec("R-mcphttp-10")
async def test_without_retries_declared_repetitions_keep_their_series() -> None:
    records = Records()
    options = records.options(pay=ToolReplay(on=("network",)))
    async with serving(calling(Reset(), done)) as server:
        async with opened(server, retry_on_throttle=False, **options) as session:
            assert await session.request("tools/call", PAY) == {"content": []}
    assert records.attempts == (AttemptRecord(1, "no-answer", None, BY_APP), AttemptRecord(2, "completed", 200))


# -- the network


@pytest.mark.parametrize("policy", ["compatibility", "app-authorized"])
@pytest.mark.spec("R-mcphttp-11")
async def test_a_declared_tool_is_called_again_when_no_answer_came(policy: Any) -> None:
    records = Records()
    reports: list[RetryReport] = []
    retry = RetrySettings(on_retry=reports.append)
    options = records.options(policy, pay=ToolReplay(on=("network",)))
    server = calling(Reset(), Reset(), done)
    async with serving(server), opened(server, retry_on_throttle=retry, **options) as session:
        assert await session.request("tools/call", PAY, on_progress=lambda params: None) == {"content": []}
        calls = [seen.message for seen in server.of("tools/call")]
        params = [json.dumps(call["params"], sort_keys=True) for call in calls]
        assert len(set(params)) == 1
        assert len({call["id"] for call in calls}) == 3
        assert len({seen.header("mcp-session-id") for seen in server.of("tools/call")}) == 1
    assert [attempt.permission for attempt in records.attempts] == [BY_APP, BY_APP, None]
    origin = f"http://127.0.0.1:{server.port}"
    assert reports == [
        RetryReport("network", 1, 3, 0.1, None, origin),
        RetryReport("network", 2, 3, 0.2, None, origin),
    ]


async def test_an_undeclared_tool_is_called_once() -> None:
    records = Records()
    async with serving(calling(Reset())) as server, opened(server, **records.options("app-authorized")) as session:
        with pytest.raises(UnknownEffectError) as caught:
            await session.request("tools/call", PAY)
        assert len(server.of("tools/call")) == 1
        assert (caught.value.server, caught.value.tool) == ("bank", "pay")
        assert caught.value.attempts == records.attempts == (AttemptRecord(1, "no-answer"),)
        assert isinstance(caught.value.__cause__, ConnectionClosedError)


async def test_app_authorized_does_not_repeat_a_throttled_call_that_nobody_declared() -> None:
    records = Records()
    options = records.options("app-authorized", other=ToolReplay(on=("throttle",)))
    async with serving(calling(THROTTLED)) as server, opened(server, **options) as session:
        with pytest.raises(HttpStatusError):
            await session.request("tools/call", PAY)
        assert len(server.of("tools/call")) == 1
    assert records.attempts == (AttemptRecord(1, "throttled", 429),)
    assert records.attempts[0].effect == "unknown"


async def test_without_a_declaration_a_lost_answer_is_a_closed_connection() -> None:
    records = Records()
    async with serving(calling(Reset())) as server, opened(server, **records.options()) as session:
        with pytest.raises(ConnectionClosedError) as caught:
            await session.request("tools/call", PAY)
        assert caught.value.outcome == "no-response"
    assert records.attempts == (AttemptRecord(1, "no-answer"),)


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(Reply(503), id="status"),
        pytest.param(lambda seen: error(seen, -32603, "broken"), id="error"),
        pytest.param(Reset(), id="reset"),
    ],
)
@pytest.mark.spec("R-mcphttp-12")
async def test_a_call_that_lacked_an_answer_and_then_fails_may_have_run(last: Any) -> None:
    records = Records()
    options = records.options("app-authorized", pay=ToolReplay(on=("network",)))
    async with serving(calling(Reset(), last)) as server, opened(server, **options) as session:
        with pytest.raises(UnknownEffectError) as caught:
            await session.request("tools/call", PAY)
        assert isinstance(caught.value.__cause__, HttpStatusError | RpcError | ConnectionClosedError)
    assert records.attempts[0] == AttemptRecord(1, "no-answer", None, BY_APP)


async def test_a_call_that_may_have_run_in_a_session_that_is_gone() -> None:
    options = Records().options("app-authorized", pay=ToolReplay(on=("network",)))
    async with serving(calling(Reset(), Reply(404))) as server, opened(server, **options) as session:
        with pytest.raises(UnknownEffectError) as caught:
            await session.request("tools/call", PAY)
        assert isinstance(caught.value.__cause__, SessionEndedError)
        with anyio.fail_after(5):
            assert await session.wait_closed() is caught.value.__cause__


async def test_an_observer_of_retries_that_fails_ends_the_request() -> None:
    failure = LookupError("mine")

    def fail(report: RetryReport) -> None:
        raise failure

    options = Records().options(pay=ToolReplay(on=("network",)))
    for answer in (THROTTLED, Reset()):
        async with serving(calling(answer)) as server:
            async with opened(server, retry_on_throttle=RetrySettings(on_retry=fail), **options) as session:
                with pytest.raises(LookupError) as caught:
                    await session.request("tools/call", PAY)
                assert caught.value is failure
                assert await session.request("tools/list")


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_5xx_is_an_answer(status: int) -> None:
    records = Records()
    options = records.options("app-authorized", pay=ToolReplay(on=("network", "throttle")))
    async with serving(calling(Reply(status))) as server, opened(server, **options) as session:
        with pytest.raises(HttpStatusError) as caught:
            await session.request("tools/call", PAY)
        assert caught.value.status == status
        assert len(server.of("tools/call")) == 1
    assert records.attempts == (AttemptRecord(1, "refused", status),)


@pytest.mark.spec("R-mcphttp-23")
async def test_a_5xx_whose_body_is_cut_off_is_an_answer_too() -> None:
    records = Records()
    options = records.options("app-authorized", pay=ToolReplay(on=("network", "throttle")))
    cut = Reply(503, {"content-length": "50", "connection": "close"}, b"short")

    async def script(seen: Seen) -> Reply | None:
        if seen.rpc != "tools/call":
            return None
        await server._send(seen.stream, cut)
        raise anyio.ClosedResourceError

    server = ScriptedServer(script)
    async with serving(server), opened(server, **options) as session:
        with pytest.raises(HttpStatusError):
            await session.request("tools/call", PAY)
    assert records.attempts == (AttemptRecord(1, "refused", 503),)


async def test_answers_reach_the_caller_as_sent_and_the_effect_is_unknown() -> None:
    failed = {"content": [], "isError": True}
    records = Records()
    options = records.options("app-authorized", pay=ToolReplay(on=("network", "throttle")))
    async with serving(calling(lambda seen: result(seen, failed))) as server, opened(server, **options) as session:
        assert await session.request("tools/call", PAY) == failed
    assert records.attempts == (AttemptRecord(1, "tool-error", 200),)
    assert records.attempts[0].effect == "unknown"


async def test_what_changes_something_needs_its_key() -> None:
    keyed = ToolReplay(on=("network",), changes=True, deduplicates="key")
    for arguments, attempts in (({"key": "k1"}, 2), ({}, 1)):
        records = Records()
        async with serving(calling(Reset(), done)) as server, opened(server, **records.options(pay=keyed)) as session:
            call = {"name": "pay", "arguments": arguments}
            if attempts == 1:
                with pytest.raises(UnknownEffectError):
                    await session.request("tools/call", call)
            else:
                await session.request("tools/call", call)
                keys = [seen.message["params"]["arguments"]["key"] for seen in server.of("tools/call")]
                assert keys == ["k1", "k1"]
                assert records.attempts[0].permission == Permission("app-authorized", "network", None, "key")
            assert len(records.attempts) == attempts


@pytest.mark.spec("R-mcphttp-9")
async def test_one_series_for_both_causes() -> None:
    records = Records()
    options = records.options(pay=ToolReplay(on=("network", "throttle")))
    async with serving(calling(Reset(), THROTTLED, Reset(), done)) as server, opened(server, **options) as session:
        with pytest.raises(UnknownEffectError):
            await session.request("tools/call", PAY)
        assert len(server.of("tools/call")) == 3
    assert [attempt.outcome for attempt in records.attempts] == ["no-answer", "throttled", "no-answer"]


async def test_nothing_was_sent_so_nothing_can_have_run() -> None:
    records = Records()

    class Unreachable(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if b"tools/call" in request.content:
                raise httpx2.ConnectError("refused")
            return await super().handle_async_request(request)

    options = records.options("app-authorized", pay=ToolReplay(on=("network",)))
    async with serving(calling(done)) as server, opened(server, carrier=Unreachable, **options) as session:
        with pytest.raises(ConnectionClosedError) as caught:
            await session.request("tools/call", PAY)
        assert caught.value.outcome == "not-sent"
        assert server.of("tools/call") == []
    assert [attempt.outcome for attempt in records.attempts] == ["not-sent"] * 3
    assert records.calls[0].effect == "not-sent"


class Breaking(httpx2.AsyncHTTPTransport):
    """Reaches the server with the first tool call, and not with the second."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if b"tools/call" in request.content:
            self.calls += 1
            if self.calls > 1:
                raise httpx2.ConnectError("refused")
        return await super().handle_async_request(request)


async def vended(wanted: CredentialRequest) -> dict[str, str]:
    return {"authorization": "t"}


@pytest.mark.parametrize(
    ("first", "more"),
    [
        pytest.param(THROTTLED, {}, id="throttled"),
        pytest.param(Reply(307, {"location": "/elsewhere"}), {}, id="redirected"),
        pytest.param(Reply(401), {"credentials": vended, "service": "svc", "mode": "user"}, id="other-credentials"),
    ],
)
async def test_what_was_sent_once_is_never_said_not_to_have_been(first: Reply, more: dict[str, Any]) -> None:
    server, options = calling(first), Records().options()
    async with serving(server), opened(server, carrier=Breaking, **options, **more) as session:
        with pytest.raises(ConnectionClosedError) as caught:
            await session.request("tools/call", PAY)
        assert caught.value.outcome == "no-response"
        assert len(server.of("tools/call")) == 1


async def test_an_attempt_that_was_lost_is_remembered_when_later_ones_are_not_sent() -> None:
    records = Records()
    options = records.options(pay=ToolReplay(on=("network",)))
    server = calling(Reset())
    async with serving(server), opened(server, carrier=Breaking, **options) as session:
        with pytest.raises(UnknownEffectError) as caught:
            await session.request("tools/call", PAY)
        assert isinstance(caught.value.__cause__, ConnectionClosedError)
        assert caught.value.__cause__.outcome == "no-response"
    assert [attempt.outcome for attempt in records.attempts] == ["no-answer", "not-sent", "not-sent"]


async def test_a_session_that_is_closed_between_attempts() -> None:
    """The first may have run: that there was no second says nothing of it."""
    records = Records()

    async def sleep(seconds: float) -> None:
        await session.aclose()

    options = records.options(pay=ToolReplay(on=("network",)))
    options["timing"] = replace(options["timing"], sleep=sleep)
    server = calling(Reset())
    async with serving(server), opened(server, **options) as session:
        with pytest.raises(UnknownEffectError):
            await session.request("tools/call", PAY)
    assert [attempt.outcome for attempt in records.attempts] == ["no-answer", "not-sent"]
    assert records.calls[0].effect == "unknown"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"retry_on_throttle": {"max_attempts": 1}}, False),
        ({"retry_on_throttle": False}, False),
        ({"retry_on_throttle": False, "replay": {"tools": {"pay": {"on": ["network"]}}}}, True),
        ({"retry_on_throttle": False, "replay": {"tools": {"pay": {"on": ["throttle"]}}}}, False),
        ({"retry_on_throttle": {"max_attempts": 1}, "replay": {"tools": {"pay": {"on": ["network"]}}}}, False),
    ],
)
async def test_a_session_says_whether_it_may_repeat(options: dict[str, Any], expected: bool) -> None:
    """And so it does: a call that is refused, and then lost, is made once where it says that it does not repeat."""
    server = calling(THROTTLED, Reset())
    async with serving(server), opened(server, timing=FakeTime().timing, **options) as session:
        assert session.may_repeat is expected
        for _ in range(2):
            with pytest.raises(McplError):
                await session.request("tools/call", PAY)
    assert (len(server.of("tools/call")) > 2) is expected


# -- carriers of the caller's own


@pytest.mark.spec("R-mcphttp-9")
async def test_a_carrier_that_retries_joins_the_series() -> None:
    records = Records()

    def carrier() -> httpx2.AsyncBaseTransport:
        return retrying_transport(
            httpx2.AsyncHTTPTransport(), RetrySettings(max_attempts=9), timing=records.time.timing
        )

    async with serving(calling(THROTTLED)) as server:
        async with opened(server, carrier=carrier, **records.options()) as session:
            with pytest.raises(HttpStatusError):
                await session.request("tools/call", PAY)
            assert len(server.of("tools/call")) == 3
    assert len(records.attempts) == 3


async def test_a_carrier_repeats_its_own_busy_reply_within_the_budget() -> None:
    records = Records()
    timing = records.time.timing

    class Busy(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            while True:
                response = await super().handle_async_request(request)
                if response.headers.get("x-busy") is None:
                    return response
                wait = repeat_by_adapter(request, "busy-carrier", "queue-was-full", timing)
                if wait is None:
                    return response
                await response.aclose()
                await timing.sleep(wait)

    busy = Reply(503, {"x-busy": "1"})
    async with serving(calling(busy, done)) as server:
        async with opened(server, carrier=Busy, **records.options()) as session:
            assert await session.request("tools/call", PAY) == {"content": []}
    permission = Permission("busy-carrier", None, "queue-was-full")
    assert records.attempts == (AttemptRecord(1, "refused", None, permission), AttemptRecord(2, "completed", 200))
    records = Records()
    timing = records.time.timing
    async with serving(calling(busy)) as server, opened(server, carrier=Busy, **records.options()) as session:
        with pytest.raises(HttpStatusError):
            await session.request("tools/call", PAY)
        assert len(server.of("tools/call")) == 3


# -- policies that cannot be kept


@pytest.mark.parametrize(
    ("watched", "reason"),
    [
        (Watched(), "requests-unwatched"),
        (Watched(requests=True), "request-unmatched"),
        (Watched(requests=True, matched=True), "answers-unobserved"),
    ],
)
async def test_a_policy_that_cannot_be_kept_refuses_calls_and_nothing_else(watched: Watched, reason: str) -> None:
    async with serving(calling(done)) as server:
        async with opened(server, **Records().options("app-authorized", pay=ToolReplay(on=("network",)))) as session:
            await server.wait_for(lambda: bool(server.of("GET")))
            session._watch.watched = replace(watched)
            with pytest.raises(McpReplayUnavailableError) as caught:
                await session.request("tools/call", PAY)
            assert (caught.value.server, caught.value.reason) == ("bank", reason)
            assert server.of("tools/call") == []
            assert await session.request("tools/list")


# -- records of what was cut off


async def test_a_call_that_ran_out_of_time() -> None:
    records = Records()
    options = records.options(pay=ToolReplay())

    async def hang(seen: Seen) -> Reply | None:
        if seen.rpc == "tools/call":
            await anyio.sleep_forever()
        return None

    async with serving(ScriptedServer(hang)) as server, opened(server, **options) as session:
        with pytest.raises(UnknownEffectError) as caught:
            await session.request("tools/call", PAY, timeout=1.0)
        assert isinstance(caught.value.__cause__, ConnectionTimeoutError)
    assert records.attempts == (AttemptRecord(1, "timed-out"),)


async def test_a_call_that_was_given_up() -> None:
    records = Records()

    async def hang(seen: Seen) -> Reply | None:
        if seen.rpc == "tools/call":
            await anyio.sleep_forever()
        return None

    async with serving(ScriptedServer(hang)) as server, opened(server, **records.options()) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.request, "tools/call", PAY)
            await server.wait_for(lambda: bool(server.of("tools/call")))
            tasks.cancel_scope.cancel()
    assert records.attempts == (AttemptRecord(1, "cancelled"),)


async def test_a_call_that_was_given_up_while_it_waited_for_its_next_attempt() -> None:
    records, waits = Records(), anyio.Event()

    async def sleep(seconds: float) -> None:
        waits.set()
        await anyio.sleep_forever()

    options = records.options()
    timing = records.time.timing
    options["timing"] = type(timing)(timing.clock, timing.wall, sleep, timing.chance)
    async with serving(calling(THROTTLED)) as server, opened(server, **options) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.request, "tools/call", PAY)
            with anyio.fail_after(5):
                await waits.wait()
            tasks.cancel_scope.cancel()
        await session.request("tools/list")
        assert len(server.of("tools/call")) == 1
        assert server.of("notifications/cancelled") == []
    assert records.attempts == (AttemptRecord(1, "throttled", 429, ASSUMED),)


async def test_an_observer_of_records_that_fails_loses_nothing() -> None:
    def fail(record: CallRecord) -> None:
        raise ValueError

    async with serving(calling(done)) as server, opened(server, replay=Replay(on_record=fail)) as session:
        assert await session.request("tools/call", PAY) == {"content": []}


# -- time, on a clock that jumps


class PacedChannel:
    """Reports progress every ten seconds, so many times, and then answers."""

    def __init__(self, steps: int, values: Callable[[int], Any] = lambda step: step) -> None:
        self.steps = steps
        self.values = values
        self.on_progress: Callable[[dict[str, Any]], None] = lambda params: None
        self.on_handling: Callable[[str, int], None] = lambda method, change: None

    async def attempt(self, method: str, params: Any, headers: Any, exchange: Any) -> dict[str, Any]:
        token = params["_meta"]["progressToken"]
        for step in range(self.steps):
            await anyio.sleep(10)
            self.on_progress({"progressToken": token, "progress": self.values(step)})
        return {"done": True}


class PlainStamp:
    def params(self, params: Any) -> Any:
        return params

    def headers(self, method: str, params: Any) -> dict[str, str]:
        return {}


def runner(channel: Any) -> CallRunner:
    class Config:
        replay = Replay()
        retry = None
        timing = FakeTime().timing
        name = "paced"

    class Watch:
        session_id = None
        watched = Watched()

    config: Any = Config()
    watch: Any = Watch()
    stamp: Any = PlainStamp()
    return CallRunner(config, channel, watch, stamp)


async def run(channel: Any, **options: Any) -> dict[str, Any]:
    how: dict[str, Any] = {"timeout": 15, "on_progress": None, "reset_on_progress": False, "max_total": None}
    return await runner(channel).run("x/long", None, **(how | options))


jumping = pytest.mark.parametrize(
    "anyio_backend",
    [pytest.param(("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}), id="trio-clock")],
    indirect=True,
)


@jumping
async def test_progress_extends_the_time() -> None:
    seen: list[Any] = []
    assert await run(PacedChannel(9), reset_on_progress=True, on_progress=seen.append) == {"done": True}
    assert [params["progress"] for params in seen] == list(range(9))


@jumping
async def test_progress_extends_nothing_where_nobody_asked_for_that() -> None:
    with pytest.raises(ConnectionTimeoutError) as caught:
        await run(PacedChannel(9), on_progress=lambda params: None)
    assert caught.value.timeout == 15


@jumping
async def test_the_cap_holds_whatever_progress_there_is() -> None:
    with pytest.raises(ConnectionTimeoutError) as caught:
        await run(PacedChannel(9), reset_on_progress=True, max_total=42)
    assert caught.value.timeout == 42


@jumping
@pytest.mark.parametrize("value", [lambda step: 0, lambda step: -step, lambda step: True, lambda step: "1"])
async def test_progress_that_does_not_grow_extends_nothing(value: Any) -> None:
    with pytest.raises(ConnectionTimeoutError) as caught:
        await run(PacedChannel(9, value), reset_on_progress=True)
    assert caught.value.timeout in (15, 25)


async def ask_a_person(channel: PacedChannel) -> None:
    """Between the first second and the hundred and first; what is no question to a person has no part in it."""
    await anyio.sleep(1)
    channel.on_handling("roots/list", 1)
    channel.on_handling("elicitation/create", 1)
    channel.on_handling("sampling/createMessage", 1)
    channel.on_handling("sampling/createMessage", -1)
    await anyio.sleep(100)
    channel.on_handling("elicitation/create", -1)
    channel.on_handling("roots/list", -1)


@jumping
async def test_the_clock_stands_still_while_a_person_is_asked() -> None:
    channel, began = PacedChannel(20), anyio.current_time()
    calls = runner(channel)
    how: dict[str, Any] = {"on_progress": lambda params: None, "reset_on_progress": False, "max_total": None}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask_a_person, channel)
        with pytest.raises(ConnectionTimeoutError):
            await calls.run("x/long", None, timeout=8, **how)
        assert anyio.current_time() - began == pytest.approx(108)


@jumping
async def test_a_request_that_begins_while_a_person_is_asked_has_its_whole_time_afterwards() -> None:
    channel = PacedChannel(6)
    calls = runner(channel)
    how: dict[str, Any] = {"on_progress": lambda params: None, "reset_on_progress": False, "max_total": None}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask_a_person, channel)
        await anyio.sleep(50)
        assert await calls.run("x/late", None, timeout=15, **how) == {"done": True}


@jumping
async def test_there_need_be_no_end() -> None:
    assert await run(PacedChannel(1000), timeout=None, on_progress=lambda params: None) == {"done": True}
