"""The stream of events that answers a request: read to the answer, and resumed where it broke.

Owns: one reading after the other of such a stream, ``Last-Event-ID``, and when to stop. Does not own: what the messages
mean (``watching``), and streams that belong to no request (the SDK).

The SDK would leave streams half read, which on trio is a warning for each, and would hold on to those that nobody waits
for any more. Here all of it ends with whoever waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import anyio
import httpx2

from ...errors import TransportError
from .bodies import each_piece
from .events import EventReader
from .exchange import Timing

__all__ = ("Follower", "is_event_stream")

#: Seconds for which a stream may stay open after its answer.
_LINGER = 1.0
#: Seconds until a stream that broke is asked for again, where the server names no time.
_RESUME_DELAY = 1.0
#: The least such time: a server that hangs up at once keeps nobody busy.
_LEAST_DELAY = 0.1
#: So often in a row a stream may not be there when it is asked for.
_RESUME_ATTEMPTS = 2
#: What asking for the rest of a stream takes over from the request.
_KEPT = ("host", "user-agent", "accept-encoding", "mcp-protocol-version", "mcp-session-id")

#: Takes the text of a message; returns whether it is the answer.
_Saw: TypeAlias = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class Follower:
    """Follows streams.

    Attributes:
        send: sends a request that asks for the rest of a stream.
        timing: the sleep before that.
        limit: the most bytes of an event.
    """

    send: Callable[[httpx2.Request], Awaitable[httpx2.Response]]
    timing: Timing
    limit: int

    async def follow(
        self, request: httpx2.Request, response: httpx2.Response, saw: _Saw, resumes: bool
    ) -> bytes | TransportError | None:
        """The text of the answer; what failed; ``None`` when the stream ended without an answer.

        Args:
            request: the one that is answered; its headers name the session.
            response: the stream.
            saw: takes each message.
            resumes: whether the rest of a stream that broke may be asked for.
        """
        found, reader = await self._read(response, saw)
        last, delay, missing = reader.last_id, _delay(reader, _RESUME_DELAY), 0
        while resumes and last and not isinstance(found, bytes) and not reader.too_long and missing < _RESUME_ATTEMPTS:
            await self.timing.sleep(delay)
            rest = await self._ask(request, last)
            missing += 1
            if rest is not None:
                found, reader = await self._read(rest, saw)
                last, delay, missing = reader.last_id or last, _delay(reader, delay), 0
        return found

    async def _read(self, response: httpx2.Response, saw: _Saw) -> tuple[bytes | TransportError | None, EventReader]:
        """Reads one stream to its end, or not much longer than to the answer."""
        reader = EventReader(self.limit)
        found: bytes | TransportError | None = None

        def take(piece: bytes) -> bool:
            nonlocal found
            for text in reader.feed(piece):
                if saw(text) and found is None:
                    # Whoever ends a stream properly does so now; the connection can be used again then.
                    found = text
                    scope.deadline = anyio.current_time() + _LINGER
            return reader.too_long

        with anyio.CancelScope() as scope:
            try:
                await each_piece(response, take)
            except (httpx2.HTTPError, httpx2.StreamError, TransportError) as exc:
                found = found or TransportError(f"the stream of events failed ({type(exc).__name__})")
        if reader.too_long:
            found = found or TransportError(f"an event has more than {self.limit} bytes")
        return found, reader

    async def _ask(self, request: httpx2.Request, last: bytes) -> httpx2.Response | None:
        """The rest of a stream after the event with this id, if it is there."""
        headers = [(name.encode(), request.headers[name].encode()) for name in _KEPT if name in request.headers]
        headers += [(b"accept", b"text/event-stream"), (b"cache-control", b"no-store"), (b"last-event-id", last)]
        try:
            response = await self.send(httpx2.Request("GET", request.url, headers=headers))
        except Exception:
            # Whatever kept it from that; what is known of the request itself is that it was not answered.
            return None
        if response.status_code == 200 and is_event_stream(response):
            return response
        await response.aclose()
        return None


def is_event_stream(response: httpx2.Response) -> bool:
    """Whether the body is a stream of events."""
    kind: str = response.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == "text/event-stream"


def _delay(reader: EventReader, otherwise: float) -> float:
    return otherwise if reader.retry is None else max(reader.retry / 1000, _LEAST_DELAY)
