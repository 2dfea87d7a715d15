"""Requests to a server that may take long: progress gives them time, up to a limit (MCP progress; SPEC 8).

Owns: the progress tokens of one connection, the time that progress buys, and the trace context in ``_meta``. Does not
own: the timeouts themselves (``McplConnection``), which request may be sent (``link``), and what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from msgspec import Raw

from ..connection import McplConnection
from ..errors import InvalidParams
from ..protocol import METHODS, ProgressParams, decode_params, method
from ..wire.messages import Id, Notification

__all__ = ("Calls", "ProgressHandler")

#: Takes the ``ProgressParams`` of a request that is being awaited.
ProgressHandler = Callable[[ProgressParams], object]


@dataclass(slots=True)
class _Call:
    """One request that is being awaited.

    Attributes:
        timeout: seconds that each progress gives.
        end: when it is over whatever comes, on the clock.
    """

    timeout: float | None
    end: float
    handler: ProgressHandler | None
    id: Id | None = None
    progress: float = float("-inf")

    def sent(self, id: Id) -> None:
        """The request has this id."""
        self.id = id


class Calls:
    """The long requests of one connection.

    Args:
        connection: to the server.
        clock: seconds, as the connection's own timeouts count them.
        trace: returns the members of ``_meta`` that carry the trace context, if any.

    Attributes:
        clock: as given. Who knows the event loop may set its own, which need not ask with each call which loop runs.
    """

    def __init__(
        self,
        connection: McplConnection,
        clock: Callable[[], float],
        trace: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self._connection = connection
        self.clock = clock
        self._trace = trace
        self._tokens = count(1)
        self._calls: dict[str, _Call] = {}

    def meta(self, trace: Mapping[str, str] | str | None = None) -> dict[str, Any]:
        """The trace context for ``_meta``: the given one, else the host's; a string is a ``traceparent``."""
        if trace is None:
            return dict(self._trace()) if self._trace is not None else {}
        return {"traceparent": trace} if isinstance(trace, str) else dict(trace)

    async def request(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        timeout: float | None,
        limit: float | None,
        result_type: Any = None,
        trace: Mapping[str, str] | str | None = None,
        on_progress: ProgressHandler | None = None,
        on_answer: Callable[[Raw], object] | None = None,
    ) -> Any:
        """Sends a request and waits for its answer; each progress notification for it makes it wait as long again.

        Args:
            name: the method.
            params: its params; a ``_meta`` of theirs is kept.
            timeout: seconds to wait without progress; ``None``: without end.
            limit: seconds to wait in all, however much progress there is; ``None``: without end.
            result_type, on_answer: as for ``send_request``.
            trace: see ``meta``.
            on_progress: is called with each progress, as it is taken from the wire.

        Raises:
            as ``send_request``.
        """
        token = f"progress-{next(self._tokens)}"
        end = float("inf") if limit is None else self.clock() + limit
        call = self._calls[token] = _Call(timeout, end, on_progress)
        meta = {**self.meta(trace), **(params.get("_meta") or {}), "progressToken": token}
        wait = timeout if limit is None else limit if timeout is None else min(timeout, limit)
        try:
            return await self._connection.send_request(
                name,
                {**params, "_meta": meta},
                timeout=wait,
                result_type=result_type,
                on_sent=call.sent,
                on_answer=on_answer,
            )
        finally:
            del self._calls[token]

    def progress(self, message: Notification) -> None:
        """``notifications/progress`` came. One that is of no request, or does not grow, gives nothing."""
        try:
            params: ProgressParams = decode_params(METHODS[method.PROGRESS], message.raw_params, "notification")
        except InvalidParams:
            return
        call = self._calls.get(params.progress_token) if isinstance(params.progress_token, str) else None
        if call is None or call.id is None or params.progress <= call.progress:
            return
        call.progress = params.progress
        left = call.end - self.clock()
        if call.timeout is not None and left > 0:
            self._connection.extend_timeout(call.id, min(call.timeout, left))
        if call.handler is not None:
            try:
                call.handler(params)
            except Exception as exc:
                self._connection.report(exc)
