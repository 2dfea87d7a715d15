"""What one attempt came to: a result, or the error that says what is known.

Owns: reading an ``Exchange`` that is over. Does not own: observing it (``watching``), and further attempts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import (
    ConnectionClosedError,
    InvalidResultError,
    InvalidValueError,
    RpcError,
    TransportError,
)
from ...wire.messages import Failure, Success
from ...wire.values import decode_value
from ..replay import AttemptOutcome
from .errors import HttpStatusError, RedirectRefusedError, SessionEndedError
from .exchange import Exchange

__all__ = ("Verdict", "judge")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of an attempt.

    Attributes:
        outcome: one of ``AttemptOutcome``.
        result: what the peer sent, when it sent one.
        error: what the caller gets otherwise.
        is_network: it failed without an answer, and not by our own doing.
    """

    outcome: AttemptOutcome
    result: dict[str, Any] | None = None
    error: Exception | None = None
    is_network: bool = False


def judge(method: str, exchange: Exchange, told: dict[str, Any] | RpcError | None, in_session: bool) -> Verdict:
    """What an exchange came to.

    Args:
        method: of the request.
        exchange: what was observed.
        told: what the SDK gave as the answer. It counts only where nothing at all was observed.
        in_session: the server issued an id for the session.
    """
    answer, status = exchange.answer, exchange.status
    if isinstance(answer, Success):
        return _completed(method, answer)
    if status == 404 and in_session:
        return Verdict("refused", error=SessionEndedError(status))
    if isinstance(answer, Failure):
        return Verdict("throttled" if status == 429 else "rpc-error", error=answer.error)
    if exchange.failure is not None:
        return _failed(exchange, exchange.failure)
    if status is None:
        return _told(method, exchange, told)
    if status >= 300:
        return _refused(status, exchange)
    return _unanswered(TransportError(f"HTTP status {status} came without an answer"))


def _completed(method: str, answer: Success) -> Verdict:
    try:
        value = decode_value(answer.result)
    except InvalidValueError as exc:
        return Verdict("completed", error=InvalidResultError(method, exc.detail, exc.path))
    if not isinstance(value, dict):
        return Verdict("completed", error=InvalidResultError(method, "a result is an object"))
    return Verdict(_outcome(method, value), value)


def _outcome(method: str, value: dict[str, Any]) -> AttemptOutcome:
    if value.get("resultType") == "input_required":
        return "input-required"
    return "tool-error" if method == "tools/call" and value.get("isError") is True else "completed"


def _failed(exchange: Exchange, failure: Exception) -> Verdict:
    if isinstance(failure, RedirectRefusedError):
        return Verdict("refused", error=failure)
    if exchange.sent:
        return _unanswered(failure)
    if isinstance(failure, TransportError):
        return Verdict("not-sent", error=ConnectionClosedError(exchange.outcome_unsent, failure), is_network=True)
    return Verdict("not-sent", error=failure)


def _told(method: str, exchange: Exchange, told: dict[str, Any] | RpcError | None) -> Verdict:
    if isinstance(told, dict):
        return Verdict(_outcome(method, told), told)
    if told is not None:
        return Verdict("rpc-error", error=told)
    if exchange.seen and not exchange.sent:
        return Verdict("not-sent", error=ConnectionClosedError(exchange.outcome_unsent))
    return _unanswered(None)


def _refused(status: int, exchange: Exchange) -> Verdict:
    if status < 400:
        return Verdict("refused", error=RedirectRefusedError(status, exchange.location))
    outcome: AttemptOutcome = "throttled" if status == 429 else "refused"
    return Verdict(outcome, error=HttpStatusError(status, exchange.retry_after))


def _unanswered(reason: Exception | None) -> Verdict:
    return Verdict("no-answer", error=ConnectionClosedError("no-response", reason), is_network=True)
