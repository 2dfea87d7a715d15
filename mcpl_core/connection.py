"""The connection: a sans-I/O peer and a transport, put together.

Owns: the meeting of bytes and tasks. What comes in wakes the task that waits for it straight from the read
callback; what goes out is handed to the transport in the order of the calls; one timer serves all timeouts; closing
happens once and takes effect before it is reported. Does not own: framing and ids (``wire``), how bytes travel
(``transports``), the ways to make one (``constructors``), the way in (``intake``), handlers (``dispatch``), what
methods mean and who may call them (the runtimes).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

import anyio
from msgspec import UNSET, DecodeError, Raw, UnsetType

from .constructors import Constructors
from .dispatch import Dispatcher, Handlers, Router
from .errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    InvalidValueError,
    LocalProtocolError,
    RpcError,
)
from .inbox import InboxLimits
from .intake import Intake
from .observers import Observed, Observers
from .options import DEFAULT_REQUEST_TIMEOUT, ConnectionOptions, ConnectionStats, check_options
from .outlet import TURN, Outlet
from .timeouts import Deadlines, Expired
from .transports.base import Transport
from .transports.loop import EventLoop, TellingWaiter, Waiter, reject
from .transports.tasks import OwnTasks
from .wire.messages import DEFAULT_MAX_DEPTH, Id, Notification, Request
from .wire.peer import OPEN, Peer, PeerState, Trigger
from .wire.values import decode_plain, decode_value

__all__ = ("McplConnection",)

T = TypeVar("T")


class McplConnection(Constructors, Observed):
    """A JSON-RPC connection to one peer, in either role. An async context manager; nothing runs before it is
    entered, and every task it needs ends with it.

    Use one of: ``next_message`` or ``async for`` (pull), ``serve`` (handlers).

    Args:
        transport: what carries the messages; this connection owns it.
        options: see ``ConnectionOptions``.
    """

    def __init__(self, transport: Transport, **options: Unpack[ConnectionOptions]) -> None:
        check_options(options)
        limits = options.get("limits", InboxLimits())
        self._transport = transport
        self.request_timeout = options.get("request_timeout", DEFAULT_REQUEST_TIMEOUT)
        self._peer: Peer[Waiter] = Peer(
            max_message_bytes=options.get("max_message_bytes", transport.max_message_bytes),
            max_depth=options.get("max_depth", DEFAULT_MAX_DEPTH),
        )
        self._observers = Observers(transport.name)
        self._outlet = Outlet(
            transport,
            limits.hard_bytes,
            lambda error: self._move(Trigger.OUTPUT_FAILED, error),
            lambda: self._intake.relieve(),
        )
        discard = options.get("discard_unread", False)
        self._intake = Intake(self._peer, transport, self._outlet, limits, discard, self._observers, self._move)
        self._tasks = OwnTasks()
        self._loop: EventLoop | None = None
        self._deadlines: Deadlines | None = None
        self._released: anyio.Event | None = None

    # ------------------------------------------------------------------------------------ life

    async def __aenter__(self) -> Self:
        if self._tasks.group is not None or self.is_closed:
            raise LocalProtocolError("a connection is entered once")
        loop = await self._tasks.begin()
        self._deadlines = Deadlines(loop, self._peer.pending, self._expire, self.request_timeout)
        self._outlet.start(loop)
        try:
            await self._transport.start(self._intake, loop)
        except BaseException:
            self._peer.move(Trigger.CLOSE)
            await self._tasks.end()
            raise
        self._loop = loop
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            await self.aclose()
        finally:
            await self._tasks.end()

    async def aclose(self) -> None:
        """Closes the connection: flushes what was sent, within the transport's bound, and releases the output.
        From any task, any number of times, also after the peer closed; each call returns when it is done.

        Cancelling it ends the wait. The closing goes on meanwhile, until the ``async with`` block is left: leaving
        that by cancellation gives up what was not flushed.
        """
        self._move(Trigger.CLOSE, None)
        if self._tasks.group is None:
            await self._transport.aclose()
        elif self._loop is not None:
            if self._released is None:
                self._released = anyio.Event()
                self._tasks.group.start_soon(self._release, self._released, name="mcpl close")
            await self._released.wait()

    async def _release(self, released: anyio.Event) -> None:
        # In a task of our own: a caller that is cancelled (a handler) does not cut off what others have sent.
        try:
            await self._transport.aclose()
        finally:
            released.set()

    async def send_eof(self) -> None:
        """Ends the output on purpose, after what was sent; the input goes on. Nothing can be sent any more.
        Where the input has ended already, the connection is closed by it."""
        if self._loop is None:
            raise self._not_entered()
        if self._peer.can_send:
            self._move(Trigger.SEND_EOF, None)
            if not self.is_closed:
                await self._transport.send_eof()

    @property
    def is_closed(self) -> bool:
        """Whether the connection closed. Messages that came before may still wait in ``next_message``."""
        return self._peer.state is PeerState.CLOSED

    @property
    def can_ask(self) -> bool:
        """Whether a request may still be sent: not before entering, and no more once either side ended its output."""
        return self._loop is not None and self._peer.state is PeerState.OPEN

    @property
    def close_reason(self) -> BaseException | None:
        """The error that closed the connection; ``None`` while open and after an ordinary end."""
        return self._intake.reason

    @property
    def transport(self) -> Transport:
        """What carries the messages."""
        return self._transport

    @property
    def stats(self) -> ConnectionStats:
        """The counters as of now."""
        return ConnectionStats(
            sent=self._outlet.sent,
            received=self._intake.received,
            malformed=self._intake.malformed,
            stray=self._intake.stray,
            discarded=self._intake.discarded,
            pending=len(self._peer.pending),
            unanswered=len(self._peer.unanswered),
            queued=len(self._intake.inbox),
            queued_bytes=self._intake.inbox.bytes,
        )

    # ------------------------------------------------------------------------------------ sending

    @overload
    async def send_request(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None | UnsetType = UNSET,
        result_type: None = None,
        on_sent: Callable[[Id], object] | None = None,
        on_answer: Callable[[Raw], object] | None = None,
    ) -> Any: ...
    @overload
    async def send_request(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None | UnsetType = UNSET,
        result_type: type[T],
        on_sent: Callable[[Id], object] | None = None,
        on_answer: Callable[[Raw], object] | None = None,
    ) -> T: ...
    async def send_request(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None | UnsetType = UNSET,
        result_type: Any = None,
        on_sent: Callable[[Id], object] | None = None,
        on_answer: Callable[[Raw], object] | None = None,
    ) -> Any:
        """Sends a request and waits for its answer. Cancelling it, or its timeout, tells the peer with
        ``notifications/cancelled`` (except for ``initialize``).

        Args:
            method: the method name.
            params: anything with a JSON form that is an object or an array; ``None``: left out.
            timeout: seconds to wait; ``None``: without end; left out: the connection's ``request_timeout``. Of that
                length, however given, the wait may be a sixty-fourth longer; of any other it is exact.
            result_type: what to decode the result as; left out: plain JSON.
            on_sent: called with the request's id once it was handed to the transport, before anything can
                answer it; for messages that refer to it (``inference/chunk``, progress).
            on_answer: called with the raw result as it is taken from the wire, before anything behind it is
                looked at; not for an error. What it raises, this call raises.

        Raises:
            RpcError: the peer answered with an error (the subclass of its code).
            ConnectionTimeoutError: no answer in time.
            ConnectionClosedError: ``outcome`` says whether the request was handed to the transport.
            UnencodableError, MessageTooLargeError: nothing was sent.
            InvalidResultError: the result does not fit ``result_type``.
            InvalidValueError: ``timeout`` is not a number (NaN); nothing was sent.
        """
        loop, peer, deadlines = self._loop, self._peer, self._deadlines
        if loop is None or deadlines is None or peer.state is not OPEN:
            raise self._cannot_ask()
        timeout = self.request_timeout if timeout is UNSET else timeout
        watched = deadlines.watching and timeout == deadlines.usual
        if not watched:
            deadlines.check(timeout)
        waiter = loop.waiter() if on_answer is None else TellingWaiter(loop.waiter(), on_answer)
        id, text = peer.request(method, UNSET if params is None else params, waiter)
        try:
            if not watched:
                deadlines.add(id, timeout)
            self._outlet.sent += 1
            self._transport.write(text)  # as `Outlet.write`, with a call less
            if on_sent is not None:
                on_sent(id)
            if self._intake.paused:
                # While we wait for a reply, reading goes on: the reply is behind what we did not read yet.
                self._intake.resume()
            raw: Raw = await waiter
        except Expired as exc:
            self._abandon(id, method, len(text), f"no answer within {exc.timeout:g} s")
            raise ConnectionTimeoutError(method, exc.timeout) from None
        except BaseException as exc:
            # An error that came as the answer shows that the request was read.
            self._abandon(id, method, 0 if isinstance(exc, RpcError) else len(text), "the caller gave up")
            raise
        finally:
            # It holds its exception, whose traceback holds this frame.
            del waiter
        if result_type is None:
            try:
                return decode_plain(raw)
            except (DecodeError, RecursionError):
                pass  # `decode_value` knows what else it may be
        return _read_result(method, raw, Any if result_type is None else result_type)

    def extend_timeout(self, id: Id, timeout: float) -> None:
        """Our request ``id`` waits for ``timeout`` seconds from now, unless it waits longer or not at all."""
        if self._deadlines is not None:
            self._deadlines.extend(id, self._deadlines.due(timeout))

    async def send_notification(self, method: str, params: Any = None) -> None:
        """Sends a notification; waits while the peer does not keep up. After closing it does nothing.

        Raises:
            UnencodableError, MessageTooLargeError: nothing was sent.
        """
        if self._loop is None:
            raise self._not_entered()
        peer = self._peer
        if peer.state is OPEN or peer.can_send:
            text = peer.notify(method, UNSET if params is None else params)
            outlet = self._outlet
            outlet.sent += 1
            self._transport.write(text)
            if self._transport.behind or not outlet.sent % TURN:  # as `Outlet.write`, with a call less
                await outlet.rest(len(text))

    def push_notification(self, method: str, params: Any = None) -> None:
        """As ``send_notification``, for somebody who cannot wait. A peer that reads nothing closes the connection."""
        if self._loop is None:
            raise self._not_entered()
        if self._peer.can_send:
            self._outlet.push(self._peer.notify(method, UNSET if params is None else params))

    async def send_response(self, id: Id, result: Any) -> None:
        """Answers the peer's request ``id``; waits while the peer does not keep up. After closing, and for a
        request that its sender took back, it does nothing.

        Raises:
            LocalProtocolError: no request with this id waits for an answer.
            UnencodableError, MessageTooLargeError: nothing was sent; the request still waits for an answer.
        """
        if self._loop is None:
            raise self._not_entered()
        text = self._peer.respond(id, result)
        if text is not None and self._outlet.write(text):
            await self._outlet.rest(len(text))

    async def send_error(self, id: Id, code: int, message: str, data: Any = None) -> None:
        """Answers the peer's request ``id`` with an error; otherwise as ``send_response``, and raises the same."""
        if self._loop is None:
            raise self._not_entered()
        text = self._peer.refuse(id, code, message, data)
        if text is not None and self._outlet.write(text):
            await self._outlet.rest(len(text))

    def room_for(self, id: Id) -> int:
        """How many bytes the JSON text of a result for the request ``id`` may have; 0 when nobody waits for it."""
        return self._peer.room(id)

    def _cannot_ask(self) -> Exception:
        return self._not_entered() if self._loop is None else ConnectionClosedError("not-sent", self._intake.reason)

    @staticmethod
    def _not_entered() -> LocalProtocolError:
        return LocalProtocolError("the connection was not entered (async with)")

    def _expire(self, id: int, timeout: float) -> None:
        reject(self._peer.pending[id], Expired(timeout))

    def _abandon(self, id: Id, method: str, size: int, reason: str) -> None:
        """Nobody waits for the answer any more. ``size``: bytes that may still wait for the peer."""
        notice = self._peer.forget(id, reason)
        # An initialize request cannot be cancelled (MCP 2025-11-25, cancellation).
        if notice is not None and method != "initialize" and self._peer.can_send:
            self._outlet.push(notice)
        self._intake.balance()
        if self._peer.can_send:
            self._outlet.give_up(size)

    # ------------------------------------------------------------------------------------ receiving

    async def next_message(self) -> Request | Notification:
        """The next request or notification, in the order of the wire. Cancelling it loses no message.

        Raises:
            ConnectionClosedError: the connection closed and everything that came before was returned.
            LocalProtocolError: ``serve`` takes the messages.
        """
        return await self._next(iterating=False)

    def _next(self, *, iterating: bool) -> Awaitable[Request | Notification]:
        if self._loop is None:
            raise self._not_entered()
        if self._intake.dispatcher is not None:
            raise LocalProtocolError("serve() takes the messages of this connection")
        return self._intake.next(self._loop, iterating=iterating)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Request | Notification]:
        return self._next(iterating=True)

    async def serve(self, router: Router | Handlers, *, limit: int = 100, grace: float = 5.0) -> None:
        """Answers the peer until the connection closed: the push side of the same queue.

        Handlers start in the order of the wire and run concurrently, ``limit`` at a time; an order-sensitive
        message holds back those behind it until its handler is done. A request that nobody handles gets -32601; a
        handler that raises an ``RpcError`` answers with it, one that raises anything else, or returns what
        cannot be encoded, answers -32603 and is reported. ``notifications/cancelled`` cancels the handler.

        When the input ends, what was accepted is finished, and requests are answered, within ``grace`` seconds.
        When the connection breaks, nobody is left to be answered: handlers of requests are cancelled, and
        notifications that came before are handled within ``grace`` seconds. After ``aclose`` everything is cancelled.

        Args:
            router: a ``Router``, or a mapping from method to ``handler(message)``, sync or async.
            limit: how many handlers run at once, at least one.
            grace: seconds.

        Raises:
            LocalProtocolError: something else takes the messages already.
            InvalidValueError: ``limit`` is less than one.
        """
        loop = self._loop
        if loop is None:
            raise self._not_entered()
        if limit < 1:
            raise InvalidValueError("limit", "at least one handler must be allowed to run")
        if self._intake.dispatcher is not None or self._intake.has_takers:
            raise LocalProtocolError("something else takes the messages of this connection")
        router = router if isinstance(router, Router) else Router(router)
        dispatcher = Dispatcher(
            self._peer,
            self._intake,
            self._outlet,
            loop,
            router,
            limit,
            self._observers.report,
            lambda: self._move(Trigger.DRAINED, None),
        )
        self._intake.dispatcher = dispatcher
        try:
            await dispatcher.run(grace)
        finally:
            self._intake.dispatcher = None

    # ------------------------------------------------------------------------------------ closing

    def _move(self, trigger: Trigger, error: BaseException | None) -> None:
        """The one place where the connection changes its state. Effects first, then the reports."""
        if not self._peer.move(trigger) or self._peer.state is PeerState.WRITE_ENDED:
            return
        self._fail_pending(error)
        if self._intake.dispatcher is not None:
            self._intake.dispatcher.input_ended(stop=trigger is Trigger.CLOSE)
        if self._peer.state is PeerState.DRAINING:
            return
        if self._deadlines is not None:
            self._deadlines.close()
        if self._loop is not None:
            self._transport.pause_reading()
        self._outlet.release()
        self._intake.close(error)
        if error is not None:
            self._observers.report(error)
        self._observers.closed()

    def _fail_pending(self, error: BaseException | None) -> None:
        pending = self._peer.pending
        waiters = list(pending.values())
        pending.clear()
        for waiter in waiters:
            reject(waiter, ConnectionClosedError("no-response", error))


def _read_result(method: str, raw: Raw, type: Any) -> Any:
    try:
        return decode_value(raw, type)
    except InvalidValueError as exc:
        raise InvalidResultError(method, exc.detail, exc.path) from exc
