"""The outermost transport: what is observed of each message, and that the SDK never sees a failure."""

from __future__ import annotations

import gzip
import json
import logging
from typing import Any

import anyio
import httpx2
import pytest

from mcpl_core.errors import MalformedMessageError, RemoteProtocolError, TransportError
from mcpl_core.mcp import CredentialsUnavailableError
from mcpl_core.mcp.http.exchange import Exchange, exchange_of
from mcpl_core.mcp.http.retry import RetrySettings
from mcpl_core.mcp.http.watching import FIRST_ID, WatchingTransport
from mcpl_core.mcp.replay import Watched
from mcpl_core.wire.messages import Failure, Notification, Success
from tests.mcp.http.fakes import Body, FakeTime, Inner, post
from tests.mcp.http.scripted_server import events

pytestmark = pytest.mark.anyio

ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{"odd":null}}'
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


class Jobs:
    """Tasks that are started when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []

    def spawn(self, job: Any) -> None:
        self.jobs.append(job)


def watching(*answers: Any, limit: int = 10_000, jobs: Jobs | None = None) -> WatchingTransport:
    spawn = (jobs or Jobs()).spawn
    return WatchingTransport(Inner(*answers), RetrySettings(), True, FakeTime().timing, limit, spawn)


def call(id: Any = 7, method: str = "tools/call") -> httpx2.Request:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return post(content=json.dumps(message).encode(), **JSON)


def note(method: str) -> httpx2.Request:
    return post(content=json.dumps({"jsonrpc": "2.0", "method": method}).encode(), **JSON)


async def ask(watch: WatchingTransport, request: httpx2.Request | None = None) -> tuple[Exchange, httpx2.Response]:
    exchange = Exchange(watch.new_log(), "tools/call", 7, sent=True)
    watch.expect(7, exchange)
    response = await watch.handle_async_request(request or call())
    watch.forget(7)
    return exchange, response


async def test_an_answer_is_kept_as_it_came_and_the_sdk_is_told_that_there_is_one() -> None:
    watch = watching(httpx2.Response(200, headers=JSON, content=ANSWER))
    told: list[bool] = []
    exchange = Exchange(watch.new_log(), "tools/call", 7, on_answer=lambda: told.append(True))
    watch.expect(7, exchange)
    response = await watch.handle_async_request(call())
    assert isinstance(exchange.answer, Success)
    assert bytes(exchange.answer.result) == b'{"odd":null}'
    assert (exchange.status, exchange.seen, told) == (200, True, [True])
    assert json.loads(await response.aread()) == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert response.headers["content-type"] == "application/json"
    assert watch.watched == Watched(requests=True, matched=True, answered=True)


@pytest.mark.parametrize("headers", [JSON, EVENTS])
async def test_the_sdk_gets_the_answers_to_its_own_requests(headers: dict[str, str]) -> None:
    text = ANSWER if headers is JSON else b"data: " + ANSWER + b"\n\n"
    response = await watching(httpx2.Response(200, headers=headers, content=text)).handle_async_request(call())
    assert await response.aread() == ANSWER


async def test_the_text_of_the_exchange_is_what_is_sent() -> None:
    inner = Inner(httpx2.Response(200, headers=JSON, content=ANSWER))
    watch = WatchingTransport(inner, RetrySettings(), True, FakeTime().timing, 1000, Jobs().spawn)
    exchange = Exchange(watch.new_log(), "tools/call", 7, body=b'{"jsonrpc":"2.0","id":7,"method":"m","x":1}')
    watch.expect(7, exchange)
    await watch.handle_async_request(call())
    sent = inner.requests[0]
    assert sent.content == exchange.body
    assert sent.headers["content-length"] == str(len(sent.content))
    assert exchange_of(sent) is exchange


async def test_streams_of_events_are_read_to_the_answer() -> None:
    heard: list[Any] = []
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"odd": None}}
    text = events(progress) + b"data: not json\n\n" + b"data: " + ANSWER + b"\n\n" + events(progress)
    watch = watching(httpx2.Response(200, headers=EVENTS, content=text))
    exchange = Exchange(watch.new_log(), "tools/call", 7, on_message=heard.append)
    watch.expect(7, exchange)
    response = await watch.handle_async_request(call())
    assert isinstance(exchange.answer, Success)
    assert [(type(each), each.params) for each in heard] == [(Notification, {"odd": None})] * 2
    assert await response.aread() == ANSWER


async def test_compressed_answers_are_read_too() -> None:
    coded = {"content-encoding": "gzip"}
    for headers, text in ((JSON, ANSWER), (EVENTS, b"data: " + ANSWER + b"\n\n")):
        response = httpx2.Response(200, headers={**headers, **coded}, content=gzip.compress(text))
        exchange, told = await ask(watching(response))
        assert isinstance(exchange.answer, Success)
        assert "content-encoding" not in told.headers


async def test_a_stream_that_broke_is_resumed_in_the_session() -> None:
    broken = httpx2.Response(200, headers=EVENTS, content=b"id: e1\nretry: 5\n\n")
    rest = httpx2.Response(200, headers=EVENTS, content=b"data: " + ANSWER + b"\n\n")
    inner = Inner(broken, rest)
    watch = WatchingTransport(inner, RetrySettings(), True, FakeTime().timing, 1000, Jobs().spawn)
    watch.session_id = "s1"
    exchange, response = await ask(watch)
    assert isinstance(exchange.answer, Success)
    assert response.headers["content-type"] == "application/json"
    asked = inner.requests[1]
    assert (asked.method, await asked.aread(), exchange_of(asked) is exchange) == ("GET", b"", False)
    assert (asked.headers["mcp-session-id"], asked.headers["last-event-id"]) == ("s1", "e1")


async def test_in_the_modern_era_no_stream_is_resumed() -> None:
    watch = watching(httpx2.Response(200, headers=EVENTS, content=b"id: e1\nretry: 5\n\n"))
    watch.resumes = False
    exchange, response = await ask(watch)
    assert (exchange.answer, exchange.failure) == (None, None)
    assert response.headers["content-type"] == "application/json"


async def test_a_stream_of_no_request_keeps_what_the_sdk_reads_of_its_head() -> None:
    head = {**EVENTS, "content-encoding": "gzip", "x-odd": "1"}
    body = Body(gzip.compress(b"data: {}\n\n"))
    watch = watching(httpx2.Response(200, headers=head, stream=body))
    response = await watch.handle_async_request(httpx2.Request("GET", "http://a.example/mcp"))
    assert (response.headers["content-type"], response.headers["x-odd"]) == ("text/event-stream", "1")
    assert "content-encoding" not in response.headers
    assert await response.aread() == b"data: {}\n\n"
    assert body.closed


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("headers", [JSON, EVENTS])
async def test_what_was_read_is_closed(status: int, headers: dict[str, str]) -> None:
    body = Body(ANSWER if headers is JSON else b"data: " + ANSWER + b"\n\n")
    await ask(watching(httpx2.Response(status, headers=headers, stream=body)))
    assert body.closed


async def test_a_request_that_is_only_accepted_is_left_as_it_is() -> None:
    accepted = httpx2.Response(202, headers=JSON)
    exchange, response = await ask(watching(accepted))
    assert response is accepted
    assert (exchange.answer, exchange.failure, exchange.status) == (None, None, 202)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_streams_that_cannot_be_opened_are_no_news(method: str, caplog: pytest.LogCaptureFixture) -> None:
    response = await watching(httpx2.ReadError("reset")).handle_async_request(
        httpx2.Request(method, "http://a.example")
    )
    assert response.status_code == 599
    assert caplog.records == []


async def test_a_request_that_fails_is_no_news_either(caplog: pytest.LogCaptureFixture) -> None:
    await ask(watching(httpx2.ReadError("reset")))
    assert caplog.records == []


async def test_the_rest_of_a_broken_stream_may_come_on_another_one() -> None:
    watch = watching(
        httpx2.Response(200, headers=EVENTS, content=events({"method": "x"}) + b"data: " + ANSWER + b"\n\n")
    )
    exchange = Exchange(watch.new_log(), "tools/call", 7)
    watch.expect(7, exchange)
    response = await watch.handle_async_request(httpx2.Request("GET", "http://a.example/mcp"))
    assert b"odd" in await response.aread()
    assert isinstance(exchange.answer, Success)


async def test_a_second_answer_changes_nothing() -> None:
    other = ANSWER.replace(b"odd", b"other")
    exchange, _ = await ask(
        watching(httpx2.Response(200, headers=EVENTS, content=b"data: " + ANSWER + b"\n\ndata: " + other + b"\n\n"))
    )
    assert isinstance(exchange.answer, Success)
    assert b"odd" in bytes(exchange.answer.result)


@pytest.mark.parametrize("status", [400, 404, 429, 500])
async def test_errors_beside_a_status_are_kept(status: int) -> None:
    text = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad","data":{"odd":1}}}'
    exchange, response = await ask(watching(httpx2.Response(status, headers=JSON, content=text)))
    assert isinstance(exchange.answer, Failure)
    assert (exchange.answer.error.code, exchange.answer.error.data) == (-32602, {"odd": 1})
    assert (exchange.status, response.status_code) == (status, status)


@pytest.mark.parametrize(
    ("status", "text"), [(500, b"<html>"), (500, b"{}"), (500, b"x" * (1024 * 1024 + 1)), (503, ANSWER[:10])]
)
async def test_errors_that_say_nothing(status: int, text: bytes) -> None:
    exchange, response = await ask(watching(httpx2.Response(status, headers=JSON, content=text)))
    assert (exchange.answer, exchange.failure, exchange.status) == (None, None, status)
    assert response.status_code == status


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"jsonrpc":"2.0","method":"x"}', b"[" * 600])
async def test_a_success_that_is_no_answer_is_a_failure(text: bytes) -> None:
    exchange, response = await ask(watching(httpx2.Response(200, headers=JSON, content=text)))
    assert isinstance(exchange.failure, MalformedMessageError)
    assert exchange.failure.excerpt == b""
    assert json.loads(await response.aread())["error"]["code"] == -32603


@pytest.mark.parametrize("headers", [JSON, EVENTS])
async def test_an_answer_over_the_limit(headers: dict[str, str]) -> None:
    text = ANSWER if headers is JSON else b"data: " + ANSWER + b"\n\n"
    size = len(ANSWER) + (0 if headers is JSON else len("data: "))
    exchange, _ = await ask(watching(httpx2.Response(200, headers=headers, content=text), limit=size))
    assert exchange.answer is not None
    exchange, _ = await ask(watching(httpx2.Response(200, headers=headers, content=text), limit=size - 1))
    assert exchange.answer is None
    assert isinstance(exchange.failure, TransportError)


@pytest.mark.parametrize(
    ("raised", "sent", "kept"),
    [
        (httpx2.ReadError("canary"), True, TransportError),
        (httpx2.ConnectError("canary"), False, TransportError),
        (httpx2.ConnectTimeout("canary"), False, TransportError),
        (OSError("canary"), True, TransportError),
        (CredentialsUnavailableError("svc"), True, CredentialsUnavailableError),
    ],
)
async def test_failures_are_kept_and_not_raised(raised: Exception, sent: bool, kept: type[Exception]) -> None:
    exchange, response = await ask(watching(raised))
    assert type(exchange.failure) is kept
    assert exchange.sent is sent
    assert exchange.status is None
    assert response.status_code == 599
    assert "canary" not in f"{exchange.failure!r}"
    assert exchange.failure.__context__ is None


async def test_a_failure_says_where_and_no_more() -> None:
    watch = watching(httpx2.ConnectError("canary"))
    request = httpx2.Request("GET", "http://user:secret@127.0.0.1:9/secret?token=secret")
    exchange = Exchange(watch.new_log(), "GET")
    await watch.send(request, exchange)
    text = str(exchange.failure)
    assert "http://127.0.0.1:9 " in text and "ConnectError" in text and "secret" not in text


async def test_what_fails_before_anything_is_sent_is_kept_as_it_is() -> None:
    failure = LookupError("a hook of the caller's")
    watch = watching(failure)
    exchange = Exchange(watch.new_log(), "tools/call", 7)
    watch.expect(7, exchange)
    await watch.handle_async_request(call())
    assert exchange.failure is failure


async def test_a_stream_that_breaks() -> None:
    class Broken(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield b": hello\n\n"
            raise httpx2.ReadError("canary")

    exchange, response = await ask(watching(httpx2.Response(200, headers=EVENTS, stream=Broken())))
    assert isinstance(exchange.failure, TransportError)
    assert (exchange.status, response.status_code) == (200, 599)


async def test_giving_up_ends_the_wait_for_the_network() -> None:
    asked = anyio.Event()

    async def hang(request: httpx2.Request) -> httpx2.Response:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    watch = watching(hang)
    exchange = Exchange(watch.new_log(), "tools/call", 7)
    watch.expect(7, exchange)
    responses: list[httpx2.Response] = []

    async def send() -> None:
        responses.append(await watch.handle_async_request(call()))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await asked.wait()
            exchange.abort()
    assert responses[0].status_code == 599


async def test_what_was_given_up_before_it_came_here_is_not_sent() -> None:
    inner = Inner(200)
    watch = WatchingTransport(inner, RetrySettings(), True, FakeTime().timing, 1000, Jobs().spawn)
    exchange = Exchange(watch.new_log(), "tools/call", 7)
    watch.expect(7, exchange)
    exchange.abort()
    assert (await watch.handle_async_request(call())).status_code == 599
    # One of ours that nobody expects any more.
    assert (await watch.handle_async_request(call(FIRST_ID))).status_code == 599
    assert inner.requests == []
    # One of the SDK's is its own matter.
    assert (await watch.handle_async_request(call(FIRST_ID - 1))).status_code == 200


async def test_ids_are_told_apart_by_type() -> None:
    watch = watching(httpx2.Response(200, headers=JSON, content=ANSWER))
    exchange = Exchange(watch.new_log(), "tools/call", 7)
    watch.expect(7, exchange)
    await watch.handle_async_request(call(id="7"))
    assert not exchange.seen


async def test_bodies_that_cannot_be_read_are_not_matched() -> None:
    async def body() -> Any:
        yield b'{"jsonrpc":"2.0","id":7,"method":"x"}'

    watch = watching(httpx2.Response(202))
    await watch.handle_async_request(post(content=body()))
    assert watch.watched == Watched(requests=True)


async def test_the_session_is_issued_at_the_handshake_alone() -> None:
    session = {"mcp-session-id": "s1", **JSON}
    watch = watching(httpx2.Response(200, headers=session, content=ANSWER))
    await watch.handle_async_request(call(method="tools/list"))
    assert watch.session_id is None
    response = await watch.handle_async_request(call(method="initialize"))
    issued: str | None = watch.session_id
    assert (issued, response.headers["mcp-session-id"]) == ("s1", "s1")
    assert watch.negotiation["initialize"].answer is not None


@pytest.mark.parametrize(
    ("answer", "lost"),
    [
        (httpx2.ReadError("reset"), True),
        (httpx2.Response(429), True),
        (httpx2.Response(503), True),
        (httpx2.Response(400), False),
        (httpx2.Response(404), False),
        (httpx2.Response(500), False),
        (httpx2.Response(200, headers=JSON, content=ANSWER), False),
    ],
)
async def test_a_negotiation_that_gets_no_answer_is_lost(answer: Any, lost: bool) -> None:
    watch = watching(answer)
    calls: list[bool] = []
    watch.on_lost = lambda: calls.append(True)
    await watch.handle_async_request(call(method="server/discover"))
    assert calls == [True] * lost


async def test_a_later_request_of_that_name_is_a_request() -> None:
    watch = watching(httpx2.ReadError("reset"))
    watch.on_lost = lambda: pytest.fail("nothing is being negotiated")
    exchange = Exchange(watch.new_log(), "server/discover", 7)
    watch.expect(7, exchange)
    await watch.handle_async_request(call(method="server/discover"))
    assert exchange.failure is not None


@pytest.mark.parametrize(
    "request_of",
    [
        lambda: note("notifications/cancelled"),
        lambda: post(content=b'{"jsonrpc":"2.0","id":1,"result":{}}', **JSON),
    ],
)
async def test_messages_that_may_overtake_others_hold_up_nothing(
    request_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="mcpl_core")
    jobs = Jobs()
    watch = watching(httpx2.ReadError("canary"), jobs=jobs)
    assert (await watch.handle_async_request(request_of())).status_code == 202
    assert caplog.records == []
    (job,) = jobs.jobs
    await job()
    assert "TransportError" in caplog.text
    assert "canary" not in caplog.text


async def test_the_answer_to_such_a_message_is_closed() -> None:
    jobs, body = Jobs(), Body()
    watch = watching(httpx2.Response(202, stream=body), jobs=jobs)
    await watch.handle_async_request(note("notifications/cancelled"))
    (job,) = jobs.jobs
    await job()
    assert body.closed


async def test_a_notification_that_is_not_delivered_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="mcpl_core")
    response = await watching(httpx2.ReadError("canary")).handle_async_request(note("notifications/initialized"))
    assert response.status_code == 599
    assert "TransportError" in caplog.text
    assert "canary" not in caplog.text


async def test_closing_closes_what_is_inside() -> None:
    inner = Inner(200)
    watch = WatchingTransport(inner, RetrySettings(), True, FakeTime().timing, 1000, Jobs().spawn)
    async with watch:
        await watch.aclose()
    assert inner.closed == 2


@pytest.mark.parametrize("id", [8, "7", None])
@pytest.mark.spec("R-mcphttp-22")
async def test_an_answer_to_another_request_is_no_answer(id: Any) -> None:
    other = json.dumps({"jsonrpc": "2.0", "id": id, "result": {"other": 1}}).encode()
    exchange, _ = await ask(watching(httpx2.Response(200, headers=JSON, content=other)))
    assert exchange.answer is None
    assert isinstance(exchange.failure, MalformedMessageError)
    text = b"data: " + other + b"\n\ndata: " + ANSWER + b"\n\n"
    exchange, _ = await ask(watching(httpx2.Response(200, headers=EVENTS, content=text)))
    assert isinstance(exchange.answer, Success)
    assert b"odd" in bytes(exchange.answer.result)


@pytest.mark.spec("R-mcphttp-22")
async def test_a_refusal_may_come_without_an_id_and_a_status_says_whose_it_is() -> None:
    for id, status, counts in ((None, 200, True), (8, 200, False), (None, 400, True), ("server-error", 400, True)):
        text = json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}}).encode()
        exchange, _ = await ask(watching(httpx2.Response(status, headers=JSON, content=text)))
        assert isinstance(exchange.answer, Failure) is counts


@pytest.mark.spec("R-mcphttp-22")
async def test_a_result_beside_a_status_that_is_no_success_is_none() -> None:
    exchange, _ = await ask(watching(httpx2.Response(500, headers=JSON, content=ANSWER)))
    assert (exchange.answer, exchange.failure, exchange.status) == (None, None, 500)


async def test_a_status_is_an_answer_whatever_becomes_of_its_body() -> None:
    class Broken(Body):
        async def __aiter__(self) -> Any:
            yield b"{"
            raise httpx2.ReadError("reset")

    exchange, _ = await ask(watching(httpx2.Response(503, headers=JSON, stream=Broken())))
    assert (exchange.answer, exchange.failure, exchange.status) == (None, None, 503)


@pytest.mark.parametrize("request_", [call(), note("x"), httpx2.Request("GET", "http://a.example/mcp")])
async def test_the_body_of_a_redirect_is_not_read(request_: httpx2.Request) -> None:
    body = Body(b"long")
    watch = watching(httpx2.Response(307, headers={"location": "/there", "x": "y"}, stream=body))
    response = await watch.handle_async_request(request_)
    assert (response.status_code, response.headers["location"], body.closed) == (307, "/there", True)
    assert await response.aread() == b""


@pytest.mark.parametrize("id", ["a b", "a\x7f", "\xe9"])
@pytest.mark.spec("R-mcphttp-25")
async def test_an_id_of_a_session_is_visible_ascii(id: str) -> None:
    body = Body(ANSWER)
    raw = [(b"content-type", b"application/json"), (b"mcp-session-id", id.encode("latin-1"))]
    watch = watching(httpx2.Response(200, headers=raw, stream=body))
    lost: list[bool] = []
    watch.on_lost = lambda: lost.append(True)
    await watch.handle_async_request(call(method="initialize"))
    assert isinstance(watch.negotiation["initialize"].failure, RemoteProtocolError)
    assert (watch.session_id, lost, body.closed) == (None, [True], True)


@pytest.mark.parametrize("overtakes", [False, True])
async def test_a_notification_that_nobody_takes_holds_up_nothing_for_ever(
    overtakes: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(request: httpx2.Request) -> httpx2.Response:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr("mcpl_core.mcp.http.watching._NOTICE_BOUND", 0)
    jobs = Jobs()
    watch = watching(never, jobs=jobs)
    if overtakes:
        await watch.handle_async_request(note("notifications/cancelled"))
        await jobs.jobs[0]()
    else:
        assert (await watch.handle_async_request(note("notifications/x"))).status_code == 599
    assert [record.message for record in caplog.records] == [
        "MCP over HTTP: a message was not delivered: TransportError"
    ]


async def test_only_so_many_messages_overtake_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mcpl_core.mcp.http.watching._MOST_OVERTAKING", 1)
    jobs = Jobs()
    watch = watching(202, jobs=jobs)
    sent = [(await watch.handle_async_request(note("notifications/cancelled"))).status_code for _ in range(2)]
    assert (sent, len(jobs.jobs), len(caplog.records)) == ([202, 599], 1, 1)
    await jobs.jobs[0]()
    assert (await watch.handle_async_request(note("notifications/cancelled"))).status_code == 202


async def test_the_bound_of_notifications_is_none_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(request: httpx2.Request) -> httpx2.Response:
        await anyio.wait_all_tasks_blocked()
        return httpx2.Response(200, headers=JSON, content=ANSWER)

    monkeypatch.setattr("mcpl_core.mcp.http.watching._NOTICE_BOUND", 0)
    exchange, _ = await ask(watching(slow))
    assert isinstance(exchange.answer, Success)
