"""Handlers for incoming messages: which one, in what order, how many at once, and what answers the peer gets.

Owns: ``Router`` (method -> handler) and ``Dispatcher`` (the workers behind ``McplConnection.serve``). This is the one
boundary where a handler's exception becomes an error on the wire. Does not own: the queue, what a method means, and
whether the peer may call it.

A task per message would cost more than most handlers do. Workers are therefore kept: one takes message after message
for as long as handlers return without waiting, and each time it takes one while others are queued it makes sure that
one more worker is about to run. That one finds the queue empty, or goes on while the first waits inside a handler.
All workers begin with the context variables of ``serve``'s caller; what a handler sets, later ones of that worker see.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from types import CoroutineType
from typing import Any, NamedTuple, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from .errors import (
    ERR_INTERNAL_ERROR,
    ConnectionClosedError,
    ConnectionTimeoutError,
    LocalProtocolError,
    MethodNotFound,
    RpcError,
)
from .inbox import Inbox
from .outlet import TURN, Outlet
from .protocol.methods import METHODS, MethodTable
from .transports.guards import CancelGuard
from .transports.loop import EventLoop, Waiter, name_library
from .wire.messages import Id, Notification, Request
from .wire.peer import CLOSED, Peer

__all__ = ("Dispatcher", "Handler", "Handlers", "Later", "Route", "Router")

#: Takes the message, returns the result (ignored for a notification), or an awaitable of it.
Handler = Callable[[Any], Any]
Handlers = Mapping[str, Handler]
H = TypeVar("H", bound=Handler)


class Later(NamedTuple):
    """What the inline handler of a request returns when the rest of its work has to wait: the request is queued, and
    a worker makes the call, whose result, or what it awaits to, is the answer.

    Attributes:
        call: takes nothing; sync or async.
    """

    call: Callable[[], Any]


class Route(NamedTuple):
    """How a method is handled.

    Attributes:
        handler: what is called.
        ordered: the messages behind its message wait until it is done.
        inline: it is called, and answered, as its message is taken from the wire, before anything behind it and
            before earlier messages that still wait for a worker. It is a plain function, and may return ``Later``.
    """

    handler: Handler
    ordered: bool
    inline: bool = False


class Router:
    """Which handler takes which method.

    Args:
        handlers: method -> handler, to begin with.
        methods: the table that says which methods are order-sensitive.
    """

    def __init__(self, handlers: Handlers | None = None, *, methods: MethodTable = METHODS) -> None:
        self._methods = methods
        self._routes: dict[str, Route] = {}
        #: The handlers that are called straight from the read callback.
        self.inline: dict[str, Handler] = {}
        self._fallback: Handler | None = None
        for method, handler in (handlers or {}).items():
            self.add(method, handler)

    def add(self, method: str, handler: Handler, *, ordered: bool | None = None, inline: bool = False) -> None:
        """Sets the handler of ``method``.

        Args:
            method: the method name.
            handler: takes the ``Request`` or ``Notification``; sync or async.
            ordered: whether the messages behind wait; left out, the method table says.
            inline: see ``Route``. For what changes how the messages behind are to be understood, and for answers
                that need no waiting. Not for a handler that takes long: nothing is read meanwhile.

        Raises:
            LocalProtocolError: the method has a handler already, or one that is ``inline`` is a coroutine function.
        """
        if method in self._routes:
            raise LocalProtocolError(f"{method} has a handler already")
        if inline and inspect.iscoroutinefunction(handler):
            raise LocalProtocolError(f"the handler of {method} cannot be inline: it is a coroutine function")
        self._routes[method] = Route(handler, self._is_ordered(method) if ordered is None else ordered, inline)
        if inline:
            self.inline[method] = handler

    def on(self, method: str, *, ordered: bool | None = None, inline: bool = False) -> Callable[[H], H]:
        """``add`` as a decorator."""

        def register(handler: H) -> H:
            self.add(method, handler, ordered=ordered, inline=inline)
            return handler

        return register

    def otherwise(self, handler: Handler) -> None:
        """Sets the handler of every method that has none. Which of them are order-sensitive, the method table says."""
        self._fallback = handler

    def find(self, method: str) -> Route | None:
        """The route of ``method``, or ``None``."""
        route = self._routes.get(method)
        if route is None and self._fallback is not None:
            return Route(self._fallback, self._is_ordered(method))
        return route

    def _is_ordered(self, method: str) -> bool:
        entry = self._methods.get(method)
        return entry is not None and entry.order_sensitive

    def __iter__(self) -> Iterator[str]:
        return iter(self._routes)


class _Unread(Protocol):
    """What the dispatcher needs of the way in."""

    inbox: Inbox

    def take(self) -> Request | Notification: ...


class _Failed(NamedTuple):
    """The outcome of a handler that raised."""

    code: int = ERR_INTERNAL_ERROR
    message: str = "Internal error"
    data: Any = None


#: The outcome for a request that wants no answer (any more).
_UNWANTED = object()

#: Types of results that cannot be awaited, so that the most frequent ones need not be asked.
_PLAIN = frozenset({type(None), dict, list, str, bool, int})


class Dispatcher:
    """Runs handlers for the messages of one connection.

    Args:
        peer: which requests want an answer, and its text.
        unread: where the messages wait.
        outlet: takes the answers.
        loop: the services of the event loop.
        router: the handlers.
        limit: how many handlers run at once, at least one.
        report: called with what goes wrong in a handler.
        drained: called when everything was handled after the input ended.
    """

    def __init__(
        self,
        peer: Peer[Any],
        unread: _Unread,
        outlet: Outlet,
        loop: EventLoop,
        router: Router,
        limit: int,
        report: Callable[[BaseException], object],
        drained: Callable[[], object],
    ) -> None:
        self._peer = peer
        self._unread = unread
        self._inbox = unread.inbox
        self._outlet = outlet
        self._loop = loop
        self._report = report
        self._drained = drained
        #: The handlers that are called straight from the read callback.
        self.inline = router.inline
        self._router = router
        self._routes = router._routes
        self._limit = limit
        self._tasks: TaskGroup | None = None
        self._context = copy_context()
        self._idle: list[Waiter] = []
        self._workers = 0
        #: A worker was woken and did not run yet.
        self._woken = False
        #: Nothing more is taken for now: an order-sensitive message is being handled, or the others have their turn.
        self._barrier = False
        self._busy = 0
        self._handled = 0
        #: What cancels a handler that waits, and the message that it handles.
        self._running: dict[CancelGuard, Request | Notification] = {}
        #: Queued requests that an inline handler has begun. The message is kept, so that its identity is its own.
        self._begun: dict[int, tuple[Request, Later]] = {}
        self._input_ended = self._stopped = False
        #: For ``run``: the input ended; and later: a worker has nothing to do.
        self._news = loop.waiter()

    async def run(self, grace: float) -> None:
        """Handles messages until the connection closed; when the peer ended it, what came before is finished
        within ``grace`` seconds.

        Raises:
            LocalProtocolError: a handler cancelled the task that it runs in.
        """
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                await self._run(grace)
            finally:
                # A worker that begins after the others were cancelled would be cancelled by nobody.
                self._tasks = None
            tasks.cancel_scope.cancel()
        if not self._input_ended:
            raise LocalProtocolError("a handler cancelled the task that it runs in")

    async def _run(self, grace: float) -> None:
        self.wake()
        if self._is_closed():
            self._input_ended = True
        if not self._input_ended:
            await self._news
        with anyio.move_on_after(grace):
            while not self._stopped and (self._busy or self._inbox):
                self._news = self._loop.waiter()
                await self._news
        self._drained()

    def _is_closed(self) -> bool:
        return self._peer.state is CLOSED

    # -- called by the connection, synchronously

    def wake(self) -> None:
        """Messages are waiting."""
        if self._woken or self._barrier or self._tasks is None:
            return
        if self._idle:
            waiter = self._idle.pop()
            if not waiter.done():  # or serving is being cancelled, and the message is for whoever comes next
                self._woken = True
                waiter.set_result(None)
        elif self._workers < self._limit:
            self._workers += 1
            self._woken = True
            self._context.run(self._spawn, self._tasks)

    def _spawn(self, tasks: TaskGroup) -> None:
        name_library()
        tasks.start_soon(self._work, name="mcpl handler")

    def handle_inline(self, handler: Handler, message: Request | Notification) -> bool:
        """Handles a message at once, ``handler`` being the one in ``inline``; false when it is to be queued."""
        try:
            outcome = handler(message)
            if type(outcome) is CoroutineType:
                outcome.close()
                raise LocalProtocolError(f"the inline handler of {message.method} is a coroutine function")
            if type(outcome) is Later:
                if not isinstance(message, Request):
                    raise LocalProtocolError(f"the inline handler of {message.method} has nobody to answer later")
                self._begun[id(message)] = (message, outcome)
                return False
        except Exception as exc:
            outcome = self._failure(exc, message)
        if type(message) is Request and (text := self._answer(message.id, outcome)) is not None:
            self._outlet.push(text)
        return True

    def input_ended(self, *, stop: bool) -> None:
        """The input ended, or the connection closed. ``stop``: on our own wish; nothing more is handled."""
        self._input_ended = True
        self._stopped = self._stopped or stop
        if self._is_closed():
            # Nobody is left to be answered.
            for guard, message in self._running.items():
                if type(message) is Request:
                    guard.cancel()
        self._tell()

    def cancel_taken_back(self) -> None:
        """The peer took a request back: its handler is cancelled."""
        for guard, message in self._running.items():
            if type(message) is Request and self._peer.waits(message.id) is False:
                guard.cancel()

    # -- workers

    def _tell(self) -> None:
        if self._input_ended and not self._news.done():
            self._news.set_result(None)

    async def _work(self) -> None:
        guard = self._loop.cancel_guard()
        while True:
            self._woken = False
            while self._inbox and not self._barrier:
                await self._handle(guard)
                self._handled += 1
                if self._handled % TURN == 0 and not self._barrier:
                    # All workers rest, or each would go on for a turn of its own.
                    self._barrier = True
                    await checkpoint()
                    self._barrier = False
            self._tell()
            waiter = self._loop.waiter()
            self._idle.append(waiter)
            await waiter

    async def _handle(self, guard: CancelGuard) -> None:
        """Takes the oldest message and handles it."""
        message = self._unread.take()
        route = self._routes.get(message.method) or self._router.find(message.method)
        self._busy += 1
        if route is not None and route.ordered:
            self._barrier = True
        elif self._inbox and not self._woken:
            self.wake()
        text: bytes | None = None
        try:
            try:
                outcome = self._call(message, route)
                if type(outcome) is CoroutineType or (type(outcome) not in _PLAIN and inspect.isawaitable(outcome)):
                    self._running[guard] = message
                    with guard:
                        outcome = await outcome
            except Exception as exc:
                outcome = self._failure(exc, message)
            if type(message) is Request:
                text = self._answer(message.id, outcome)
        finally:
            self._running.pop(guard, None)
            self._busy -= 1
            if route is not None and route.ordered:
                self._barrier = False
        if text is not None:
            # Written before anything behind the barrier can run, which need not wait until the peer has read it.
            if route is not None and route.ordered and self._inbox:
                self.wake()
            if self._outlet.write(text):
                await self._outlet.rest(len(text))

    def _call(self, message: Request | Notification, route: Route | None) -> Any:
        """What the handler returns."""
        begun = self._begun.pop(id(message), None) if self._begun else None
        if type(message) is Request:
            wanted = self._peer.waits(message.id)
            if not wanted or self._peer.state is CLOSED:
                if wanted is False:
                    self._peer.respond(message.id, None)  # settled, without a text
                return _UNWANTED
            if route is None:
                raise MethodNotFound(message=f"no such method: {message.method}")
        elif route is None:
            return None
        outcome = route.handler(message) if begun is None else begun[1].call()
        # `Later`: it was queued before `serve` began.
        return outcome.call() if type(outcome) is Later else outcome

    # -- answers

    def _failure(self, exc: Exception, message: Request | Notification) -> _Failed:
        """What the peer learns of a handler's exception. What went wrong inside is for our own log."""
        timed_out = isinstance(exc, ConnectionTimeoutError)  # of a request that the handler made: not the peer's affair
        if isinstance(exc, RpcError) and isinstance(message, Request) and not timed_out:
            return _Failed(exc.code, exc.message, exc.data)
        # That the connection closed was reported already.
        if not (isinstance(exc, ConnectionClosedError) and self._is_closed()):
            self._report(exc)
        return _Failed()

    def _answer(self, id: Id, outcome: Any) -> bytes | None:
        """The text of the one answer; what has no text is reported, and answered without it. ``None`` when none is
        wanted, and when nothing can be sent any more."""
        if outcome is _UNWANTED:
            return None
        peer = self._peer
        code = ERR_INTERNAL_ERROR
        try:
            if type(outcome) is not _Failed:
                return peer.respond(id, outcome)
            if type(outcome.code) is int and outcome.code.bit_length() < 64:
                code = outcome.code
            return peer.refuse(id, outcome.code, outcome.message, outcome.data)
        except Exception as exc:
            self._report(exc)
        # Or the handler has answered by itself.
        return None if peer.waits(id) is None else peer.refuse(id, code, "Internal error")
