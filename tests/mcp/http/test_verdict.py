"""What an attempt came to, read from what was observed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from mcpl_core.errors import (
    ConnectionClosedError,
    InvalidResultError,
    MalformedMessageError,
    RpcError,
    TransportError,
)
from mcpl_core.mcp import CredentialsUnavailableError
from mcpl_core.mcp.http import HttpStatusError, RedirectRefusedError, SessionEndedError
from mcpl_core.mcp.http.exchange import CallLog, Exchange
from mcpl_core.mcp.http.retry import RetrySeries, RetrySettings
from mcpl_core.mcp.http.verdict import Verdict, judge
from mcpl_core.wire.messages import Failure, Success

BROKEN = TransportError("broken")


def exchange(**seen: Any) -> Exchange:
    return Exchange(CallLog(RetrySeries(RetrySettings(), 0.0)), **seen)


def success(text: bytes) -> Success:
    return Success(7, Raw(text))


@pytest.mark.parametrize(
    ("method", "text", "outcome"),
    [
        ("tools/call", b'{"odd":null}', "completed"),
        ("tools/call", b'{"isError":true}', "tool-error"),
        ("tools/call", b'{"isError":1}', "completed"),
        ("tools/call", b'{"resultType":"complete"}', "completed"),
        ("tools/call", b'{"resultType":"input_required"}', "input-required"),
        ("tools/list", b'{"isError":true}', "completed"),
    ],
)
def test_results(method: str, text: bytes, outcome: str) -> None:
    verdict = judge(method, exchange(answer=success(text), status=200), None, True)
    assert (verdict.outcome, verdict.error) == (outcome, None)
    assert isinstance(verdict.result, dict)


@pytest.mark.parametrize("text", [b"[]", b"null", b"1e999"])
def test_results_that_are_none(text: bytes) -> None:
    verdict = judge("tools/call", exchange(answer=success(text), status=200), None, False)
    assert verdict.outcome == "completed"
    assert isinstance(verdict.error, InvalidResultError)


def test_an_answer_counts_more_than_anything_else() -> None:
    seen = exchange(answer=success(b"{}"), status=500, failure=BROKEN, sent=True)
    assert judge("x", seen, RpcError(), True) == Verdict("completed", {})


@pytest.mark.parametrize(("status", "outcome"), [(200, "rpc-error"), (400, "rpc-error"), (429, "throttled")])
def test_errors_of_the_peer_are_what_it_sent(status: int, outcome: str) -> None:
    failed = RpcError(-32000, "busy")
    verdict = judge("x", exchange(answer=Failure(None, failed), status=status), None, True)
    assert (verdict.outcome, verdict.error) == (outcome, failed)


def test_404_ends_a_session_and_only_a_session() -> None:
    seen = exchange(answer=Failure(None, RpcError(-32601)), status=404)
    assert isinstance(judge("x", seen, None, True).error, SessionEndedError)
    assert judge("x", seen, None, False).outcome == "rpc-error"
    assert isinstance(judge("x", exchange(status=404), None, False).error, HttpStatusError)


@pytest.mark.parametrize(
    ("failure", "sent", "outcome", "closed", "is_network"),
    [
        (BROKEN, True, "no-answer", "no-response", True),
        (BROKEN, False, "not-sent", "not-sent", True),
        (MalformedMessageError("invalid-response"), True, "no-answer", "no-response", True),
    ],
)
def test_failures_of_the_way(failure: Exception, sent: bool, outcome: str, closed: str, is_network: bool) -> None:
    verdict = judge("x", exchange(failure=failure, sent=sent), None, False)
    assert (verdict.outcome, verdict.is_network) == (outcome, is_network)
    assert isinstance(verdict.error, ConnectionClosedError)
    assert (verdict.error.outcome, verdict.error.reason) == (closed, failure)


@pytest.mark.parametrize("failure", [CredentialsUnavailableError("s"), ValueError("a hook")])
def test_failures_of_our_own_side_are_what_they_are(failure: Exception) -> None:
    assert judge("x", exchange(failure=failure), None, False) == Verdict("not-sent", error=failure)


def test_redirects() -> None:
    refused = RedirectRefusedError(307, "http://b.example")
    assert judge("x", exchange(failure=refused, sent=True), None, False) == Verdict("refused", error=refused)
    verdict = judge("x", exchange(status=307, location="http://a.example"), None, False)
    assert isinstance(verdict.error, RedirectRefusedError)
    assert (verdict.outcome, verdict.error.origin) == ("refused", "http://a.example")


@pytest.mark.parametrize(("status", "outcome"), [(429, "throttled"), (400, "refused"), (503, "refused")])
def test_statuses(status: int, outcome: str) -> None:
    verdict = judge("x", exchange(status=status, retry_after=2.0), None, False)
    assert isinstance(verdict.error, HttpStatusError)
    assert (verdict.outcome, verdict.error.status, verdict.error.retry_after) == (outcome, status, 2.0)
    assert not verdict.is_network


def test_a_success_without_an_answer() -> None:
    verdict = judge("x", exchange(status=202, sent=True), RpcError(), False)
    assert (verdict.outcome, verdict.is_network) == ("no-answer", True)


@pytest.mark.parametrize("failure", [BROKEN, None])
def test_what_was_sent_before_counts(failure: Exception | None) -> None:
    seen = exchange(failure=failure, seen=True, sent=True)
    seen.leave()
    verdict = judge("x", seen, None, False)
    assert isinstance(verdict.error, ConnectionClosedError)
    assert (verdict.outcome, verdict.error.outcome) == ("not-sent", "no-response")


def test_what_the_sdk_says_counts_where_nothing_was_observed() -> None:
    failed = RpcError(-32000, "closed")
    assert judge("x", exchange(), {"a": 1}, False) == Verdict("completed", {"a": 1})
    assert judge("tools/call", exchange(), {"isError": True}, False).outcome == "tool-error"
    assert judge("x", exchange(), failed, False) == Verdict("rpc-error", error=failed)


@pytest.mark.parametrize(
    ("seen", "sent", "outcome"), [(True, False, "not-sent"), (True, True, "no-answer"), (False, False, "no-answer")]
)
def test_a_session_that_ended_meanwhile(seen: bool, sent: bool, outcome: str) -> None:
    verdict = judge("x", exchange(seen=seen, sent=sent), None, False)
    assert verdict.outcome == outcome
    assert isinstance(verdict.error, ConnectionClosedError)
    assert verdict.error.reason is None
