"""The outermost transport of a session: what really happened to each message.

Owns: matching requests with the messages that they carry, the status and the JSON-RPC answer of each, the session's
id, and keeping failures away from the SDK, whose tasks would end the whole session over one lost request. Does not own:
what a failure means to the caller (``session``).

The SDK is given an answer in every case, if only to tell it that nothing more will come. What the caller gets is what
was observed here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeAlias

import anyio
import httpx2

from ...errors import MalformedMessageError, McplError, RemoteProtocolError, TransportError
from ...wire.messages import (
    Failure,
    Id,
    Notification,
    Request,
    Success,
    decode_message,
    encode_failure,
    encode_response,
)
from ..replay import Watched
from .bodies import decoded_pieces, read_body, read_error_body
from .events import EventReader
from .exchange import EXCHANGE_KEY, CallLog, Exchange, Timing
from .following import Follower, is_event_stream
from .headers import redirect_origin
from .outer import OuterTransport
from .retry import RetrySeries, RetrySettings, parse_retry_after

__all__ = ("FIRST_ID", "SESSION_HEADER", "Spawn", "WatchingTransport")

SESSION_HEADER = "mcp-session-id"
#: The first of our own ids. Those below are the SDK's, which counts from 1 and sends a handful of messages.
FIRST_ID = 1001
#: A status of no server: what the SDK is told when there is none.
_NO_STATUS = 599
#: An error body is read up to here; beyond it is no JSON-RPC error.
_ERROR_LIMIT = 1024 * 1024
#: Methods by which the two sides agree on a version. Their failure is no answer to that question.
_NEGOTIATION = frozenset({"initialize", "server/discover"})
#: Statuses that say nothing about what a server speaks.
_NOT_NOW = frozenset({429, 503})
#: Seconds that a notification may take. The SDK sends nothing else meanwhile.
_NOTICE_BOUND = 30.0
#: An id of a session (MCP 2025-11-25, session management).
_SESSION_ID = re.compile(r"[\x21-\x7e]+")
#: An answer to a request of the server's, as a method.
_ANSWER = "answer"
#: Messages that may overtake others, so that a server that is slow to take them holds up nothing.
_UNORDERED = frozenset({"notifications/cancelled", _ANSWER})
#: So many of them may be on their way at a time.
_MOST_OVERTAKING = 256
#: Failures at which nothing of a request was written.
_BEFORE_SENDING = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)

_logger = logging.getLogger("mcpl_core")

#: Starts a task of the session.
Spawn: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]


class WatchingTransport(OuterTransport):
    """An ``httpx2`` transport around another one.

    Args:
        inner: what repeats, signs and sends.
        settings: of the series of messages that call no tool.
        throttle: whether these are repeated at HTTP 429.
        timing: clock and chance.
        limit: the most bytes of an answer.
        spawn: starts a task of the session.

    Attributes:
        session_id: as the server issued it.
        watched: what was seen so far.
        negotiation: the latest exchange of each method of the negotiation.
        resumes: broken streams of events are resumed, as they are in the handshake era.
        on_lost: called when a message of the negotiation got no answer, or one that says "not now".
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        settings: RetrySettings,
        throttle: bool,
        timing: Timing,
        limit: int,
        spawn: Spawn,
    ) -> None:
        super().__init__(inner)
        self._settings = settings
        self._throttle = throttle
        self._timing = timing
        self._limit = limit
        self._spawn = spawn
        self._follower = Follower(self._resume, timing, limit)
        self._open: dict[Id, Exchange] = {}
        self._overtaking = 0
        self.session_id: str | None = None
        self.watched = Watched()
        self.resumes = True
        self.negotiation: dict[str, Exchange] = {}
        self.on_lost: Callable[[], None] = lambda: None

    def expect(self, id: Id, exchange: Exchange) -> None:
        """The message with this id belongs to this exchange."""
        self._open[id] = exchange

    def forget(self, id: Id) -> None:
        """The message with this id is over, whatever still comes."""
        self._open.pop(id, None)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends the request; never raises for a failure of the way, which it keeps instead."""
        return await self.send(request, await self._match(request))

    def new_log(self) -> CallLog:
        """The attempts of a message that calls no tool."""
        log = CallLog(RetrySeries(self._settings, self._timing.clock()), throttle=self._throttle)
        log.begin()
        return log

    async def send(self, request: httpx2.Request, exchange: Exchange) -> httpx2.Response:
        """Sends the request of a known exchange; see ``handle_async_request``."""
        if exchange.method in _UNORDERED:
            # The SDK waits until such a message is delivered before it sends anything else.
            if self._overtaking >= _MOST_OVERTAKING:
                exchange.failure = TransportError("too many messages are on their way")
                self._report(exchange)
                return httpx2.Response(_NO_STATUS)
            self._overtaking += 1
            self._spawn(lambda: self._send_notice(request, exchange))
            return httpx2.Response(202)
        if exchange.aborted:
            return httpx2.Response(_NO_STATUS)
        response = await self._bounded(request, exchange)
        self._conclude(exchange)
        return response

    async def _bounded(self, request: httpx2.Request, exchange: Exchange) -> httpx2.Response:
        """The attempt, which ends when it is given up, and for what nobody answers after a while."""
        response = httpx2.Response(_NO_STATUS)
        with anyio.move_on_after(_NOTICE_BOUND if exchange.is_notice else None) as scope:
            exchange.scope = scope
            response = await self._attempt(request, exchange)
        exchange.scope = None
        if scope.cancelled_caught and exchange.is_notice:
            exchange.failure = TransportError(f"it was not taken within {_NOTICE_BOUND:.0f} s")
        return response

    async def _attempt(self, request: httpx2.Request, exchange: Exchange) -> httpx2.Response:
        forwarded = _forwarded(request, exchange)
        try:
            response = await self._inner.handle_async_request(forwarded)
            try:
                self._note(exchange, forwarded, response)
            except RemoteProtocolError:
                await response.aclose()
                raise
            return await self._observed(forwarded, exchange, response)
        except McplError as exc:
            exchange.failure = exc
        except Exception as exc:
            if exchange.sent or isinstance(exc, httpx2.HTTPError | httpx2.StreamError):
                exchange.sent = exchange.sent and not isinstance(exc, _BEFORE_SENDING)
                # These hold the request, and with it its headers; of its URL path and query may be secret.
                origin = f"{request.url.scheme}://{request.url.netloc.decode()}"
                exchange.failure = TransportError(f"the HTTP request to {origin} failed ({type(exc).__name__})")
            else:
                exchange.failure = exc
        return httpx2.Response(_NO_STATUS)

    async def _match(self, request: httpx2.Request) -> Exchange:
        """The exchange of a request: the one that was announced for its message, else one of its own."""
        self.watched.requests = True
        message = None
        if isinstance(request.stream, httpx2.ByteStream) and request.method == "POST":
            message = decode_message(await request.aread())
        if isinstance(message, Request):
            self.watched.matched = True
            if (known := self._open.get(message.id)) is not None:
                known.seen = True
                return known
        exchange = Exchange(self.new_log(), request.method)
        if isinstance(message, Request):
            exchange.method, exchange.id = message.method, message.id
            # One of ours that nobody expects was given up before it came here.
            exchange.aborted = isinstance(message.id, int) and message.id >= FIRST_ID
        elif isinstance(message, Notification):
            exchange.method = message.method
        elif isinstance(message, Success | Failure):
            exchange.method = _ANSWER
        if exchange.method in _NEGOTIATION:
            self.negotiation[exchange.method] = exchange
        return exchange

    def _note(self, exchange: Exchange, request: httpx2.Request, response: httpx2.Response) -> None:
        exchange.status = response.status_code
        exchange.retry_after = parse_retry_after(response.headers.get("retry-after"), self._timing.wall())
        if response.has_redirect_location:
            exchange.location = redirect_origin(str(request.url), response.headers["location"])
        if exchange.method == "initialize" and response.is_success:
            issued = response.headers.get(SESSION_HEADER) or None
            if issued is not None and not _SESSION_ID.fullmatch(issued):
                raise RemoteProtocolError("the id that the server gave the session is none")
            self.session_id = issued

    async def _observed(
        self, request: httpx2.Request, exchange: Exchange, response: httpx2.Response
    ) -> httpx2.Response:
        """The response that the SDK gets; the answer in it is kept, now or as it arrives."""
        if response.has_redirect_location:
            # The SDK would read the body of a redirect, however long it is.
            await response.aclose()
            location = [each for each in response.headers.raw if each[0].lower() == b"location"]
            return httpx2.Response(response.status_code, headers=location)
        if exchange.id is None:
            if not (response.is_success and is_event_stream(response)):
                return response
            stream = _ObservedStream(response, EventReader(self._limit), self._saw_elsewhere)
            return httpx2.Response(response.status_code, headers=_plain_headers(response), stream=stream)
        if not response.is_success:
            text = await read_error_body(response, _ERROR_LIMIT)
            if _is_json(response):
                self._saw_error(exchange, text)
            return _told(response, exchange, text)
        if is_event_stream(response):
            return await self._follow(request, exchange, response)
        return response if response.status_code == 202 else await self._whole(exchange, response)

    async def _whole(self, exchange: Exchange, response: httpx2.Response) -> httpx2.Response:
        text = await read_body(response, self._limit)
        if text is None:
            raise TransportError(f"the answer has more than {self._limit} bytes")
        if _is_json(response):
            self._saw(exchange, text)
        if exchange.answer is None:
            exchange.failure = MalformedMessageError("invalid-response", "the answer is no JSON-RPC response")
        return _told(response, exchange, text)

    async def _follow(self, request: httpx2.Request, exchange: Exchange, response: httpx2.Response) -> httpx2.Response:
        """Reads the stream of events that answers a request; the SDK gets the answer alone, when it is there."""
        if self.session_id is not None:
            # It may be younger than the request.
            request.headers[SESSION_HEADER] = self.session_id
        found = await self._follower.follow(request, response, lambda text: self._saw(exchange, text), self.resumes)
        if isinstance(found, TransportError):
            raise found
        return _told(response, exchange, found)

    async def _resume(self, request: httpx2.Request) -> httpx2.Response:
        return await self._inner.handle_async_request(_forwarded(request, Exchange(self.new_log(), request.method)))

    def _saw(self, exchange: Exchange, text: bytes) -> bool:
        """A message arrived on the way of an exchange. Whether it is its answer; a refusal may come without an id."""
        message = decode_message(text)
        if isinstance(message, Request | Notification):
            if exchange.on_message is not None:
                exchange.on_message(message)
            return False
        if isinstance(message, Success | Failure) and (
            message.id == exchange.id or (message.id is None and isinstance(message, Failure))
        ):
            self._answered(exchange, message)
            return True
        return False

    def _saw_error(self, exchange: Exchange, text: bytes) -> None:
        """The body beside a status that is no success: a JSON-RPC error, whatever its id (whoever refuses a request
        need not have read it), and never a result."""
        message = decode_message(text)
        if isinstance(message, Failure):
            self._answered(exchange, message)

    def _saw_elsewhere(self, text: bytes) -> None:
        """A message arrived on a stream that belongs to no request: it may be the rest of one that broke."""
        message = decode_message(text)
        if isinstance(message, Success | Failure) and message.id is not None:
            found = self._open.get(message.id)
            if found is not None:
                self._answered(found, message)

    def _answered(self, exchange: Exchange, message: Success | Failure) -> None:
        self.watched.answered = True
        if exchange.answer is None:
            exchange.answer = message
            if exchange.on_answer is not None:
                exchange.on_answer()

    async def _send_notice(self, request: httpx2.Request, exchange: Exchange) -> None:
        try:
            response = await self._bounded(request, exchange)
            await response.aclose()
        finally:
            self._overtaking -= 1
        self._report(exchange)

    def _conclude(self, exchange: Exchange) -> None:
        if self.negotiation.get(exchange.method) is exchange:
            if exchange.failure is not None or (exchange.answer is None and exchange.status in _NOT_NOW):
                self.on_lost()
        elif exchange.is_notice:
            self._report(exchange)

    def _report(self, exchange: Exchange) -> None:
        if exchange.failure is not None:
            _logger.warning("MCP over HTTP: a message was not delivered: %s", type(exchange.failure).__name__)


class _ObservedStream(httpx2.AsyncByteStream):
    """The events of a stream that belongs to no request, seen before the SDK sees them."""

    def __init__(self, response: httpx2.Response, reader: EventReader, saw: Callable[[bytes], None]) -> None:
        self._response = response
        self._reader = reader
        self._saw = saw

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in decoded_pieces(self._response):
            for text in self._reader.feed(piece):
                self._saw(text)
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


def _told(response: httpx2.Response, exchange: Exchange, text: bytes | None) -> httpx2.Response:
    """What the SDK is told of the end of a request. It gets the answers to its own as they came; of ours it need not
    know more than that they are over, and would only read them a second time."""
    assert exchange.id is not None
    if exchange.answer is None or text is None:
        text = encode_failure(exchange.id, -32603, "")
    elif exchange.on_answer is not None:
        text = encode_response(exchange.id, {})
    headers = {"content-type": "application/json", **_session(response)}
    return httpx2.Response(response.status_code, headers=headers, content=text)


def _forwarded(request: httpx2.Request, exchange: Exchange) -> httpx2.Request:
    extensions = {**request.extensions, EXCHANGE_KEY: exchange}
    if exchange.body is None:
        return httpx2.Request(
            request.method, request.url, headers=request.headers, stream=request.stream, extensions=extensions
        )
    headers = httpx2.Headers(request.headers.raw)
    del headers["content-length"]
    return httpx2.Request(request.method, request.url, headers=headers, content=exchange.body, extensions=extensions)


def _is_json(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == "application/json"


def _plain_headers(response: httpx2.Response) -> dict[str, str]:
    """Without those that describe the body as it was coded on the way."""
    coding = ("content-encoding", "content-length", "transfer-encoding")
    return {name: value for name, value in response.headers.items() if name.lower() not in coding}


def _session(response: httpx2.Response) -> Mapping[str, Any]:
    found = response.headers.get(SESSION_HEADER)
    return {} if found is None else {SESSION_HEADER: found}
