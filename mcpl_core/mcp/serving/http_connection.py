"""One connection of the HTTP server: how long a client may take, and how many there may be. Needs uvicorn.

Owns: hanging up on clients that do not say what they want in time, and on those that are far too many. Does not own:
HTTP (uvicorn), and the clients whose request is answered with 503 (uvicorn again).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ("SPARE_CONNECTIONS", "BoundedConnection")

#: Connections beyond the limit that are kept until they can be told 503; further ones are closed at once.
SPARE_CONNECTIONS: Final = 100

#: What the client is in while it owes us the rest of a request, or its first one.
_OWING: Final = frozenset({h11.IDLE, h11.SEND_BODY})


class BoundedConnection(H11Protocol):
    """A connection whose client has a bounded time for each request, from its first byte (of the first request: from
    the connection on) to its last, and to take what waits for it.

    Args:
        client_timeout: that time, in seconds.
        options: uvicorn's.
    """

    def __init__(self, client_timeout: float, **options: Any) -> None:
        super().__init__(**options)
        self._client_timeout = client_timeout
        self._deadline: asyncio.TimerHandle | None = None
        self._full: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency + SPARE_CONNECTIONS:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full = self.loop.call_later(self._client_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._drained()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state not in _OWING:
            self._forget()
        elif self._deadline is None:
            # A request that follows in the same bytes has the time that was left to the one before it.
            self._deadline = self.loop.call_later(self._client_timeout, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _drained(self) -> None:
        if self._full is not None:
            self._full.cancel()
            self._full = None
