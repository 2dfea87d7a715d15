"""One JSON-RPC message on its way over HTTP, and the call that it belongs to.

Owns: what is known of the way of one message (was it sent, what status, which answer, what failed), the attempts of the
call, and the injected clock, sleep and chance. Does not own: sending, and what a failure means to the caller.

Nothing here holds a header.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from ...errors import Outcome
from ...wire.messages import Failure, Id, Notification, Request, Success
from ..replay import (
    REFUSED_BEFORE_EXECUTION,
    AttemptOutcome,
    AttemptRecord,
    Cause,
    Permission,
    Replay,
    permission_for,
)
from .headers import origin_of
from .retry import RetrySeries

if TYPE_CHECKING:
    import httpx2

__all__ = ("EXCHANGE_KEY", "CallLog", "Exchange", "Timing", "exchange_of", "repeat_by_adapter")

#: Under this name a request's ``extensions`` carry its ``Exchange``.
EXCHANGE_KEY = "mcpl_core.exchange"


@dataclass(frozen=True, slots=True)
class Timing:
    """Clock, sleep and chance, so that tests can have their own.

    Attributes:
        clock: seconds on a clock that never goes back.
        wall: the time of day, in seconds since 1970.
        sleep: waits for so many seconds.
        chance: a random number, at least 0 and below 1.
    """

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    chance: Callable[[], float] = random.random


class CallLog:
    """The attempts of one tool call, or of one message that is none.

    Args:
        series: its budget.
        replay: what was declared; ``None`` for a message that calls no tool: a throttled one is repeated.
        tool: the tool's name.
        arguments: of the call.
        throttle: whether anything may be repeated because of HTTP 429.

    Attributes:
        attempts: the records so far.
        current: the way of the present attempt, where a session makes one.
        is_open: an attempt was begun, and its end is not on record.
    """

    __slots__ = ("_arguments", "_replay", "_throttle", "_tool", "attempts", "current", "is_open", "series")

    def __init__(
        self,
        series: RetrySeries,
        replay: Replay | None = None,
        tool: str = "",
        arguments: Any = None,
        throttle: bool = True,
    ) -> None:
        self.series = series
        self.attempts: list[AttemptRecord] = []
        self.current: Exchange | None = None
        self.is_open = False
        self._replay = replay
        self._tool = tool
        self._arguments = arguments
        self._throttle = throttle

    def begin(self, *, counted: bool = True) -> None:
        """Another attempt begins; one that is not ``counted`` takes nothing from the budget of the series."""
        self.is_open = True
        if counted:
            self.series.begin()

    def permission(self, cause: Cause) -> Permission | None:
        """Who permits another attempt, if anybody does."""
        if cause == "throttle" and not self._throttle:
            return None
        if self._replay is not None:
            return permission_for(self._replay, self._tool, self._arguments, cause)
        return Permission("compatibility", cause, REFUSED_BEFORE_EXECUTION) if cause == "throttle" else None

    def record(self, outcome: AttemptOutcome, status: int | None = None, permission: Permission | None = None) -> None:
        """Writes down how an attempt ended, and what permits the next."""
        self.is_open = False
        self.attempts.append(AttemptRecord(len(self.attempts) + 1, outcome, status, permission))


@dataclass(slots=True, repr=False)
class Exchange:
    """The way of one message, at its present attempt.

    Attributes:
        log: the attempts of the call.
        method: the message's method.
        id: its id; ``None`` for a notification and for a stream that carries no message.
        body: what is to be sent in the place of the SDK's own text; ``None``: that.
        seen: the request of its message arrived where it is watched.
        sent: whether the present attempt was handed to the network.
        sent_before: whether something of the call was handed to it before: an earlier attempt, or the same request,
            which was redirected or had other credentials.
        status: the HTTP status of the answer.
        retry_after: the seconds that an answer with status 429 or 503 named.
        location: the origin that a redirect leads to.
        answer: the JSON-RPC answer, as it came.
        failure: what failed; the caller gets it.
        scope: what is being awaited now; cancelled by ``abort``.
        aborted: given up by the caller.
        on_answer: called when the answer was observed.
        on_message: takes what else came on the way of the answer.
    """

    log: CallLog
    method: str = ""
    id: Id | None = None
    body: bytes | None = None
    seen: bool = False
    sent: bool = False
    sent_before: bool = False
    status: int | None = None
    retry_after: float | None = None
    location: str | None = None
    answer: Success | Failure | None = None
    failure: Exception | None = None
    scope: anyio.CancelScope | None = None
    aborted: bool = False
    on_answer: Callable[[], None] | None = None
    on_message: Callable[[Request | Notification], None] | None = None

    @property
    def outcome_unsent(self) -> Outcome:
        """What is known of the call when the present attempt was not sent."""
        return "no-response" if self.sent_before else "not-sent"

    @property
    def is_notice(self) -> bool:
        """Whether it carries a message that nobody answers."""
        return self.id is None and self.method not in ("GET", "DELETE")

    def leave(self) -> None:
        """What was sent so far is past; the next has not been sent."""
        self.sent_before = self.sent_before or self.sent
        self.sent = False

    def abort(self) -> None:
        """Gives it up: what waits for it now, be it the network or the time of the next attempt, ends."""
        self.aborted = True
        if self.scope is not None:
            self.scope.cancel()


def exchange_of(request: httpx2.Request) -> Exchange | None:
    """The exchange that a request belongs to, for carriers of the caller's own; ``None`` outside a session."""
    found = request.extensions.get(EXCHANGE_KEY)
    return found if isinstance(found, Exchange) else None


def repeat_by_adapter(request: httpx2.Request, name: str, assumes: str, timing: Timing | None = None) -> float | None:
    """For a carrier of the caller's own that repeats a request by a policy of its own (its own "busy" reply): asks
    for another attempt within the one budget of the call, and puts the assumption behind it on record.

    Args:
        request: the one that was refused.
        name: of the carrier, for the record.
        assumes: what is taken for granted, in a word or two.
        timing: clock and chance.

    Returns:
        The seconds to wait before the next attempt, or ``None``: the budget is spent, or the request belongs to no
        session.
    """
    exchange = exchange_of(request)
    if exchange is None:
        return None
    timing = timing or Timing()
    series = exchange.log.series
    wait = series.next_wait(timing.clock(), timing.chance())
    if wait is None:
        return None
    exchange.log.record("refused", None, Permission(name, None, assumes))
    series.report("adapter", wait, None, origin_of(str(request.url)))
    exchange.log.begin()
    return wait
