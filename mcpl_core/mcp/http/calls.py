"""One request of a caller's, from its first attempt to its last.

Owns: whether there is another attempt, the time that the whole may take, the records, and the error that says what is
known in the end. Does not own: a single attempt (``channel``, ``watching``), and permissions (``mcp.replay``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from typing import Any

import anyio

from ...errors import ConnectionClosedError, ConnectionTimeoutError
from ...protocol.method import PROGRESS, TOOLS_CALL, TOOLS_LIST
from ..budgets import TimeBudget
from ..errors import McpReplayUnavailableError, UnknownEffectError
from ..native import ASKS_A_PERSON
from ..replay import CallRecord, may_have_run, replay_unavailable
from .channel import Channel
from .config import HttpConfig
from .exchange import CallLog, Exchange
from .headers import origin_of
from .retry import RetrySeries, RetrySettings
from .stamp import Stamp
from .verdict import Verdict, judge
from .watching import WatchingTransport

__all__ = ("CallRunner",)

_logger = logging.getLogger("mcpl_core")


class _Waiting:
    """A request whose time runs."""

    __slots__ = ("budget", "handler", "last", "scope")

    def __init__(
        self, budget: TimeBudget, scope: anyio.CancelScope, handler: Callable[[dict[str, Any]], None] | None
    ) -> None:
        self.budget = budget
        self.scope = scope
        self.handler = handler
        self.last = float("-inf")


class CallRunner:
    """The requests of one session.

    Args:
        config: what the session was made from.
        channel: sends.
        watch: observes.
        stamp: of the session.
    """

    def __init__(self, config: HttpConfig, channel: Channel, watch: WatchingTransport, stamp: Stamp) -> None:
        self._config = config
        self._channel = channel
        self._watch = watch
        self._stamp = stamp
        self._waiting: set[_Waiting] = set()
        self._tokens: dict[str, _Waiting] = {}
        self._numbers = count(1)
        #: Requests of the server behind which a person is being asked now.
        self._asked = 0
        channel.on_progress = self._progressed
        channel.on_handling = self._handling

    async def run(
        self,
        method: str,
        params: dict[str, Any] | None,
        *,
        timeout: float | None,
        on_progress: Callable[[dict[str, Any]], None] | None,
        reset_on_progress: bool,
        max_total: float | None,
    ) -> dict[str, Any]:
        """See ``RawSession.request``.

        Raises:
            McpReplayUnavailableError: a tool call cannot be made under the declared policy; nothing was sent.
            UnknownEffectError: a call of a tool whose repetition the application declared, or has to, failed, and may
                have run.
        """
        log = self._open_log(method, params)
        began = anyio.current_time()
        budget = TimeBudget(began, timeout, max_total, reset_on_progress)
        if self._asked:
            budget.pause(began)
        scope = anyio.CancelScope(deadline=budget.deadline)
        waiting = _Waiting(budget, scope, on_progress)
        wants_progress = on_progress is not None or reset_on_progress
        params, token = self._with_token(params, waiting) if wants_progress else (params, None)
        self._waiting.add(waiting)
        verdict: Verdict | None = None
        try:
            with scope:
                verdict = await self._series(method, self._stamp.params(params), log)
        except anyio.get_cancelled_exc_class():
            self._end(log, "cancelled")
            self._record(method, params, log)
            raise
        finally:
            self._waiting.discard(waiting)
            if token is not None:
                del self._tokens[token]
        if verdict is None:
            self._end(log, "timed-out")
            late = ConnectionTimeoutError(method, round(anyio.current_time() - began, 3))
            verdict = Verdict("timed-out", error=late)
        self._record(method, params, log)
        return self._concluded(method, params, log, verdict)

    # -- attempts

    async def _series(self, method: str, params: dict[str, Any] | None, log: CallLog) -> Verdict:
        while True:
            log.begin()
            before = log.current
            exchange = log.current = Exchange(log)
            exchange.sent_before = before is not None and (before.sent or before.sent_before)
            headers = self._stamp.headers(method, params)
            try:
                told = await self._channel.attempt(method, params, headers, exchange)
                verdict = judge(method, exchange, told, self._watch.session_id is not None)
            except ConnectionClosedError as exc:
                # The session ended before this attempt, which says nothing of those before it.
                verdict = Verdict("not-sent", error=ConnectionClosedError(exchange.outcome_unsent, exc.reason))
            wait = self._next_wait(log, verdict)
            if wait is None:
                log.record(verdict.outcome, exchange.status)
                return verdict
            await self._config.timing.sleep(wait)

    def _next_wait(self, log: CallLog, verdict: Verdict) -> float | None:
        """Seconds until another attempt of a call that failed without an answer. An answer is never repeated here."""
        permission = log.permission("network") if verdict.is_network else None
        if permission is None:
            return None
        timing = self._config.timing
        wait = log.series.next_wait(timing.clock(), timing.chance())
        if wait is not None:
            log.record(verdict.outcome, None, permission)
            log.series.report("network", wait, None, origin_of(self._config.url))
        return wait

    def _open_log(self, method: str, params: dict[str, Any] | None) -> CallLog:
        config = self._config
        series = RetrySeries(config.retry or RetrySettings(), config.timing.clock())
        throttle = config.retry is not None
        if method != TOOLS_CALL:
            return CallLog(series, throttle=throttle)
        reason = replay_unavailable(config.replay, self._watch.watched)
        if reason is not None:
            raise McpReplayUnavailableError(config.name, reason)
        tool, arguments = _call_of(params)
        return CallLog(series, config.replay, tool, arguments, throttle)

    # -- the end

    def _end(self, log: CallLog, outcome: Any) -> None:
        """Puts an attempt on record that was cut off."""
        if log.is_open:
            current = log.current
            log.record(outcome if current is not None and current.sent else "not-sent")

    def _record(self, method: str, params: dict[str, Any] | None, log: CallLog) -> None:
        observer = self._config.replay.on_record
        if method != TOOLS_CALL or observer is None:
            return
        try:
            observer(CallRecord(self._config.name, _call_of(params)[0], tuple(log.attempts)))
        except Exception as exc:
            _logger.warning("MCP over HTTP: an observer of call records failed: %s", type(exc).__name__)

    def _concluded(self, method: str, params: dict[str, Any] | None, log: CallLog, verdict: Verdict) -> dict[str, Any]:
        attempts = tuple(log.attempts)
        if verdict.error is not None:
            tool = _call_of(params)[0]
            if method == TOOLS_CALL and self._config.replay.declares(tool) and may_have_run(attempts):
                raise UnknownEffectError(self._config.name, tool, attempts) from verdict.error
            raise verdict.error
        result = verdict.result or {}
        if method == TOOLS_LIST:
            self._stamp.learn(result)
        return result

    # -- time

    def _with_token(self, params: dict[str, Any] | None, waiting: _Waiting) -> tuple[dict[str, Any], str]:
        # The same for each attempt, so that all of them have the same params.
        token = f"progress-{next(self._numbers)}"
        self._tokens[token] = waiting
        given = (params or {}).get("_meta")
        meta = {**(given if isinstance(given, dict) else {}), "progressToken": token}
        return {**(params or {}), "_meta": meta}, token

    def _progressed(self, params: dict[str, Any]) -> None:
        """Progress that is of no request, or does not grow, gives nothing."""
        token, progress = params.get("progressToken"), params.get("progress")
        waiting = self._tokens.get(token) if isinstance(token, str) else None
        if waiting is None or isinstance(progress, bool) or not isinstance(progress, int | float):
            return
        if not progress > waiting.last:
            return
        waiting.last = progress
        waiting.budget.progress(anyio.current_time())
        waiting.scope.deadline = waiting.budget.deadline
        if waiting.handler is not None:
            try:
                waiting.handler(params)
            except Exception as exc:
                _logger.warning("MCP over HTTP: %s: an observer failed: %s", PROGRESS, type(exc).__name__)

    def _handling(self, method: str, change: int) -> None:
        """While a person is being asked, no request runs out of time."""
        if method not in ASKS_A_PERSON:
            return
        now, before = anyio.current_time(), self._asked
        self._asked += change
        if bool(before) == bool(self._asked):
            return
        for waiting in self._waiting:
            if self._asked:
                waiting.budget.pause(now)
            else:
                waiting.budget.resume(now)
            waiting.scope.deadline = waiting.budget.deadline


def _call_of(params: dict[str, Any] | None) -> tuple[str, Any]:
    """The tool's name and the arguments of a call."""
    return str((params or {}).get("name", "")), (params or {}).get("arguments")
