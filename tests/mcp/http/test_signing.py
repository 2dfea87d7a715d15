"""Headers, credentials and the hook, right before a request is sent."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.errors import ConsentRequiredError, CredentialsUnavailableError
from mcpl_core.mcp.http import RedirectRefusedError
from mcpl_core.mcp.http.exchange import EXCHANGE_KEY, CallLog, Exchange
from mcpl_core.mcp.http.headers import checked_headers
from mcpl_core.mcp.http.retry import RetrySeries, RetrySettings
from mcpl_core.mcp.http.retrying import RetryingTransport
from mcpl_core.mcp.http.signing import SigningTransport
from mcpl_core.mcp.replay import REFUSED_BEFORE_EXECUTION, AttemptRecord, Permission
from mcpl_core.mcp.transports import Consent, CredentialRequest, HttpRequest
from tests.mcp.http.fakes import Body, FakeTime, Inner, post

pytestmark = pytest.mark.anyio

CANARY = "hunter2-canary"
WANTED = CredentialRequest("svc", ("a", "b"), "user")


class Provider:
    """Gives what the test says, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[CredentialRequest] = []

    async def __call__(self, wanted: CredentialRequest) -> Mapping[str, str] | Consent:
        self.asked.append(wanted)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        found: Mapping[str, str] | Consent = answer
        return found


def whole(exc: BaseException) -> str:
    """An exception with its chain, as it could be logged."""
    return "".join(traceback.format_exception(exc)) + repr(exc) + repr(exc.args)


def chain(exc: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while exc is not None:
        found.append(exc)
        exc = exc.__cause__ or exc.__context__
    return found


@pytest.mark.spec("R-mcphttp-4")
async def test_the_order_of_precedence() -> None:
    seen: list[dict[str, str]] = []

    async def hook(request: HttpRequest) -> Mapping[str, str]:
        seen.append(dict(request.headers))
        assert (request.method, request.url, request.body) == ("POST", "http://a.example/mcp?x=1", b"{}")
        return {"D": "hook", "E": "hook"}

    inner = Inner(200)
    provider = Provider({"B": "vended", "C": "vended", "D": "vended"})
    static = {"a": "static", "b": "static", "x": "static"}
    transport = SigningTransport(inner, static, hook, (provider, WANTED))
    await transport.handle_async_request(post("http://a.example/mcp?x=1", x="own"))
    names = ("x", "a", "b", "c", "d", "e")
    assert [seen[0].get(name) for name in names] == ["static", "static", "vended", "vended", "vended", None]
    sent = inner.requests[0].headers
    assert [sent.get(name) for name in names] == ["static", "static", "vended", "vended", "hook", "hook"]
    assert provider.asked == [WANTED]


async def test_a_hook_may_change_and_remove_headers_in_place() -> None:
    async def hook(request: HttpRequest) -> None:
        del request.headers["user-agent"]
        request.headers["x-signed"] = "yes"

    inner = Inner(200)
    await SigningTransport(inner, {}, hook).handle_async_request(post(**{"user-agent": "u"}))
    assert "user-agent" not in inner.requests[0].headers
    assert inner.requests[0].headers["x-signed"] == "yes"


async def test_without_options_the_request_is_as_it_was() -> None:
    inner, request = Inner(200), post(x="1")
    await SigningTransport(inner, {}).handle_async_request(request)
    sent = inner.requests[0]
    assert (sent.method, sent.url, sent.content) == (request.method, request.url, request.content)
    assert sent.headers.raw == request.headers.raw


@pytest.mark.spec("R-mcphttp-4")
async def test_the_request_that_others_hold_has_no_secrets() -> None:
    async def hook(request: HttpRequest) -> Mapping[str, str]:
        return {"x-hook": CANARY}

    request = post()
    before = request.headers.raw
    transport = SigningTransport(Inner(200), {"x": CANARY}, hook, (Provider({"y": CANARY}), WANTED))
    response = await transport.handle_async_request(request)
    assert request.headers.raw == before
    assert CANARY not in f"{request!r} {response!r} {transport!r} {vars(request)}"


async def test_consent_is_an_error_with_the_way_to_it() -> None:
    inner = Inner(200)
    transport = SigningTransport(inner, {}, None, (Provider(Consent("https://auth.example/?state=s")), WANTED))
    with pytest.raises(ConsentRequiredError) as caught:
        await transport.handle_async_request(post())
    assert (caught.value.service, caught.value.authorization_url) == ("svc", "https://auth.example/?state=s")
    assert inner.requests == []


@pytest.mark.parametrize("answer", [ValueError(CANARY), None, {}, {"a": f"{CANARY}\n"}, {"a": 1}])
@pytest.mark.spec("R-mcphttp-5")
async def test_without_credentials_nothing_is_sent(answer: Any) -> None:
    inner = Inner(200)
    transport = SigningTransport(inner, {}, None, (Provider(answer), WANTED))
    with pytest.raises(CredentialsUnavailableError) as caught:
        await transport.handle_async_request(post())
    assert caught.value.service == "svc"
    assert inner.requests == []
    assert CANARY not in whole(caught.value)
    assert chain(caught.value) == [caught.value]


async def test_a_hook_that_fails_sends_nothing() -> None:
    failure = RuntimeError("no key")

    async def hook(request: HttpRequest) -> None:
        raise failure

    inner = Inner(200)
    with pytest.raises(RuntimeError) as caught:
        await SigningTransport(inner, {}, hook).handle_async_request(post())
    assert caught.value is failure
    assert inner.requests == []


async def test_a_hook_that_gives_no_headers_sends_nothing() -> None:
    async def hook(request: HttpRequest) -> Mapping[str, str]:
        return {"x": f"{CANARY}\r\n"}

    inner = Inner(200)
    with pytest.raises(InvalidValueError) as caught:
        await SigningTransport(inner, {}, hook).handle_async_request(post())
    assert inner.requests == []
    assert CANARY not in whole(caught.value)


async def test_each_request_has_credentials_of_its_own() -> None:
    inner, provider = Inner(200), Provider({"authorization": "1"}, {"authorization": "2"})
    transport = SigningTransport(inner, {}, None, (provider, WANTED))
    await transport.handle_async_request(post())
    await transport.handle_async_request(post())
    assert [request.headers["authorization"] for request in inner.requests] == ["1", "2"]


@pytest.mark.spec("R-mcphttp-6")
async def test_credentials_are_read_once_more_after_401() -> None:
    body = Body()
    inner = Inner(httpx2.Response(401, stream=body), 200)
    provider = Provider({"authorization": "old"}, {"authorization": "new"})
    log = CallLog(RetrySeries(RetrySettings(), 0.0))
    log.begin()
    request = post()
    request.extensions[EXCHANGE_KEY] = Exchange(log)
    response = await SigningTransport(inner, {}, None, (provider, WANTED)).handle_async_request(request)
    assert response.status_code == 200
    assert [request.headers["authorization"] for request in inner.requests] == ["old", "new"]
    permission = Permission("credentials", None, REFUSED_BEFORE_EXECUTION)
    assert log.attempts == [AttemptRecord(1, "refused", 401, permission)]
    assert (log.is_open, log.series.attempts, body.closed) == (True, 1, True)


async def test_a_request_is_on_its_way_from_when_it_is_handed_to_the_network() -> None:
    exchange = Exchange(CallLog(RetrySeries(RetrySettings(), 0.0)), sent=True)
    request = post()
    request.extensions[EXCHANGE_KEY] = exchange
    seen: list[bool] = []

    async def hook(asked: HttpRequest) -> None:
        seen.append(exchange.sent)

    async def answer(asked: httpx2.Request) -> httpx2.Response:
        seen.append(exchange.sent)
        return httpx2.Response(200)

    await SigningTransport(Inner(answer), {}, hook).handle_async_request(request)
    assert seen == [False, True]


async def test_a_second_401_is_the_answer() -> None:
    inner, provider = Inner(401), Provider({"authorization": "t"})
    response = await SigningTransport(inner, {}, None, (provider, WANTED)).handle_async_request(post())
    assert (response.status_code, len(inner.requests)) == (401, 2)


async def test_without_a_provider_401_is_the_answer() -> None:
    inner = Inner(401)
    response = await SigningTransport(inner, {"authorization": "t"}).handle_async_request(post())
    assert (response.status_code, len(inner.requests)) == (401, 1)


async def test_each_attempt_is_signed_and_vended_anew() -> None:
    nonces = iter("abc")

    async def hook(request: HttpRequest) -> Mapping[str, str]:
        return {"x-nonce": next(nonces)}

    inner, provider = Inner(429, 429, 200), Provider({"authorization": "1"}, {"authorization": "2"})
    signing = SigningTransport(inner, {}, hook, (provider, WANTED))
    await RetryingTransport(signing, RetrySettings(), FakeTime().timing).handle_async_request(post())
    sent = [(request.headers["x-nonce"], request.headers["authorization"]) for request in inner.requests]
    assert sent == [("a", "1"), ("b", "2"), ("c", "2")]


@pytest.mark.parametrize(
    ("method", "status", "location", "origin"),
    [
        ("POST", 307, "http://b.example/mcp", "http://b.example"),
        ("POST", 307, "https://a.example/mcp", "https://a.example"),
        ("POST", 308, "http://a.example:81/mcp", "http://a.example:81"),
        ("POST", 307, "http://u:p@a.example/mcp", None),
        ("POST", 302, "/other", "http://a.example"),
        ("GET", 302, "http://b.example/mcp", "http://b.example"),
        ("DELETE", 303, "/other", "http://a.example"),
    ],
)
async def test_redirects_that_are_not_followed(method: str, status: int, location: str, origin: str | None) -> None:
    body = Body()
    response = httpx2.Response(status, headers={"location": location}, stream=body)
    transport = SigningTransport(Inner(response), {"authorization": CANARY})
    with pytest.raises(RedirectRefusedError) as caught:
        await transport.handle_async_request(httpx2.Request(method, "http://a.example/mcp?token=t"))
    assert (caught.value.status, caught.value.origin) == (status, origin)
    assert body.closed
    assert CANARY not in whole(caught.value)


@pytest.mark.parametrize(
    ("method", "status", "location"),
    [
        ("POST", 307, "/mcp/"),
        ("POST", 400, "http://b.example"),
        ("POST", 308, "http://a.example/x"),
        ("GET", 302, "/x"),
        ("POST", 304, None),
    ],
)
async def test_other_redirects_are_left_to_the_sdk(method: str, status: int, location: str | None) -> None:
    headers = {} if location is None else {"location": location}
    transport = SigningTransport(Inner(httpx2.Response(status, headers=headers)), {})
    response = await transport.handle_async_request(httpx2.Request(method, "http://a.example/mcp"))
    assert response.status_code == status


async def test_closing_closes_what_is_inside() -> None:
    inner = Inner(200)
    async with SigningTransport(inner, {}) as transport:
        await transport.aclose()
    assert inner.closed == 2


@pytest.mark.parametrize("value", ["h\xe9t\xe9", "\xc3\xa9", " a\tb\t"])
async def test_a_value_is_sent_byte_by_byte_without_blanks_around_it(value: str) -> None:
    async def hook(request: HttpRequest) -> Mapping[str, str]:
        assert (request.headers["x-static"], request.headers["x-vended"]) == (value.strip(), value.strip())
        return {"x-hook": value}

    inner = Inner(200)
    static = checked_headers({"x-static": value})
    transport = SigningTransport(inner, static, hook, (Provider({"x-vended": value}), WANTED))
    await transport.handle_async_request(post())
    sent = dict(inner.requests[0].headers.raw)
    for name in (b"x-static", b"x-vended", b"x-hook"):
        assert sent[name] == value.strip().encode("latin-1")


async def test_a_provider_vends_no_header_of_the_protocol() -> None:
    inner = Inner(200)
    transport = SigningTransport(inner, {}, None, (Provider({"Content-Length": CANARY}), WANTED))
    with pytest.raises(CredentialsUnavailableError) as caught:
        await transport.handle_async_request(post())
    assert inner.requests == []
    assert CANARY not in whole(caught.value)
