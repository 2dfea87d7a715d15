"""HTTP 429 answered with patience.

Owns: repeating a throttled request within its series. Does not own: when (``retry``) and by whose leave
(``mcp.replay``), and any other status or failure: a 5xx is an answer, and a failure without an answer belongs to the
session.

It stands outside of signing and vending, so that each attempt has a signature and credentials of its own.
"""

from __future__ import annotations

import anyio.lowlevel
import httpx2

from .exchange import EXCHANGE_KEY, CallLog, Exchange, Timing, exchange_of
from .headers import origin_of
from .outer import OuterTransport
from .retry import RetrySeries, RetrySettings, parse_retry_after

__all__ = ("RetryingTransport", "is_replayable")


class RetryingTransport(OuterTransport):
    """An ``httpx2`` transport around another one.

    Within a session it joins the series of the call, whose settings hold then; alone, each request has its own.

    Args:
        inner: what sends.
        settings: see ``RetrySettings``.
        timing: clock, sleep and chance.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, settings: RetrySettings, timing: Timing) -> None:
        super().__init__(inner)
        self._settings = settings
        self._timing = timing

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends the request, and again while it is throttled and may be."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        exchange = exchange_of(request)
        if exchange is None:
            exchange = Exchange(CallLog(RetrySeries(self._settings, self._timing.clock())), request.method)
            exchange.log.begin()
            # Retriers further in join it.
            request.extensions = {**request.extensions, EXCHANGE_KEY: exchange}
        # Asked now: whoever signs the body has read it afterwards.
        replayable = is_replayable(request)
        while True:
            response = await self._inner.handle_async_request(request)
            if response.status_code != 429 or not replayable:
                return response
            try:
                wait = self._next_wait(exchange, request, response)
            except Exception:
                await response.aclose()
                raise
            if wait is None:
                return response
            await response.aclose()
            await self._timing.sleep(wait)
            exchange.log.begin()

    def _next_wait(self, exchange: Exchange, request: httpx2.Request, response: httpx2.Response) -> float | None:
        timing, log = self._timing, exchange.log
        after = parse_retry_after(response.headers.get("retry-after"), timing.wall())
        permission = log.permission("throttle")
        if permission is None:
            return None
        wait = log.series.next_wait(timing.clock(), timing.chance(), after)
        if wait is not None:
            exchange.leave()
            log.record("throttled", 429, permission)
            log.series.report("throttle", wait, after, origin_of(str(request.url)))
        return wait


def is_replayable(request: httpx2.Request) -> bool:
    """Whether the body is there as a whole; a stream is sent once and is gone."""
    return isinstance(request.stream, httpx2.ByteStream)
