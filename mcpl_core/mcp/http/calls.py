"""One request of a caller's, from its first attempt to its last.

Owns: whether there is another attempt, the time that the whole may take, the records, and the error that says what is
known in the end. Does not own: a single attempt (``channel``, ``watching``), and permissions (``mcp.replay``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio

from ...errors import ConnectionClosedError, ConnectionTimeoutError
from ...protocol.method import PROGRESS, TOOLS_CALL, TOOLS_LIST
from ..errors import McpReplayUnavailableError, UnknownEffectError
from ..native import ASKS_A_PERSON
from ..replay import CallRecord, may_have_run, replay_unavailable
from ..waiting import WaitingRequests
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
        self._waiting = WaitingRequests()
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
        waiting = self._waiting.begin(timeout, max_total, reset_on_progress, on_progress)
        verdict: Verdict | None = None
        try:
            # Here, so that all attempts have the same params.
            params = waiting.with_token(params)
            with waiting.scope:
                verdict = await self._series(method, self._stamp.params(params), log)
        except anyio.get_cancelled_exc_class():
            self._end(log, "cancelled")
            self._record(method, params, log)
            raise
        finally:
            self._waiting.end(waiting)
        if verdict is None:
            self._end(log, "timed-out")
            late = ConnectionTimeoutError(method, round(anyio.current_time() - waiting.began, 3))
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

    def _progressed(self, params: dict[str, Any]) -> None:
        handler = self._waiting.progressed(params.get("progressToken"), params.get("progress"))
        if handler is not None:
            try:
                handler(params)
            except Exception as exc:
                _logger.warning("MCP over HTTP: %s: an observer failed: %s", PROGRESS, type(exc).__name__)

    def _handling(self, method: str, change: int) -> None:
        if method in ASKS_A_PERSON:
            self._waiting.ask(change)


def _call_of(params: dict[str, Any] | None) -> tuple[str, Any]:
    """The tool's name and the arguments of a call."""
    return str((params or {}).get("name", "")), (params or {}).get("arguments")
