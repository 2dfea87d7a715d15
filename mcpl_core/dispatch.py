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
from typing import Any, NamedTuple, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from .errors import (
    ERR_INTERNAL_ERROR,
    ERR_METHOD_NOT_FOUND,
    ConnectionClosedError,
    ConnectionTimeoutError,
    LocalProtocolError,
    RpcError,
)
from .outlet import TURN, Outlet
from .protocol.methods import METHODS, MethodTable
from .transports.loop import CancelGuard, EventLoop, Waiter
from .wire.messages import Id, Notification, Request

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


class _Served(Protocol):
    """What the dispatcher needs of the connection."""

    _outlet: Outlet

    @property
    def is_closed(self) -> bool: ...
    def report(self, error: BaseException) -> None: ...
    def _answer(self, id: Id, result: Any, error: RpcError | None) -> bytes | None: ...
    def _take_unread(self) -> Request | Notification | None: ...
    def _has_unread(self) -> bool: ...
    def _wants(self, id: Id) -> bool: ...
    def _finish_draining(self) -> None: ...


class Dispatcher:
    """Runs handlers for the messages of one connection.

    Args:
        connection: whose messages.
        loop: the services of the event loop.
        router: the handlers.
        limit: how many handlers run at once, at least one.
    """

    def __init__(self, connection: _Served, loop: EventLoop, router: Router, limit: int) -> None:
        self._connection = connection
        self._loop = loop
        self._router = router
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
        #: What cancels a handler that waits, and the request that it answers.
        self._running: dict[CancelGuard, Id] = {}
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
        if self._connection.is_closed:
            self._input_ended = True
        if not self._input_ended:
            await self._news
        with anyio.move_on_after(grace):
            while not self._stopped and (self._busy or self._connection._has_unread()):
                self._news = self._loop.waiter()
                await self._news
        self._connection._finish_draining()

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
        tasks.start_soon(self._work, name="mcpl handler")

    def handle_inline(self, message: Request | Notification) -> bool:
        """Handles a message at once when its route says so; false when it is to be queued."""
        handler = self._router.inline.get(message.method)
        if handler is None:
            return False
        result: Any = None
        error: RpcError | None = None
        try:
            result = handler(message)
            if inspect.iscoroutine(result):
                result.close()
                raise LocalProtocolError(f"the inline handler of {message.method} is a coroutine function")
            if isinstance(result, Later):
                if not isinstance(message, Request):
                    raise LocalProtocolError(f"the inline handler of {message.method} has nobody to answer later")
                self._begun[id(message)] = (message, result)
                return False
        except Exception as exc:
            error = self._failure(exc, message)
        if isinstance(message, Request) and (text := self._answer(message.id, result, error)) is not None:
            self._connection._outlet.push(text)
        return True

    def input_ended(self, *, stop: bool) -> None:
        """The input ended, or the connection closed. ``stop``: on our own wish; nothing more is handled."""
        self._input_ended = True
        self._stopped = self._stopped or stop
        if self._connection.is_closed:
            # Nobody is left to be answered.
            for guard in self._running:
                guard.cancel()
        self._tell()

    def cancel_taken_back(self) -> None:
        """The peer took a request back: its handler is cancelled."""
        for guard, id in self._running.items():
            if self._wants(id) is False:
                guard.cancel()

    # -- workers

    def _tell(self) -> None:
        if self._input_ended and not self._news.done():
            self._news.set_result(None)

    async def _work(self) -> None:
        guard = self._loop.cancel_guard()
        while True:
            self._woken = False
            while (message := self._next()) is not None:
                await self._handle(message, guard)
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

    def _next(self) -> Request | Notification | None:
        if self._barrier:
            return None
        message = self._connection._take_unread()
        if message is not None:
            self._busy += 1
            route = self._router.find(message.method)
            if route is not None and route.ordered:
                self._barrier = True
            elif self._connection._has_unread():
                self.wake()
        return message

    async def _handle(self, message: Request | Notification, guard: CancelGuard) -> None:
        route = self._router.find(message.method)
        text: bytes | None = None
        try:
            if isinstance(message, Request):
                text = await self._handle_request(message, route, guard)
            elif route is not None:
                outcome = route.handler(message)
                if outcome is not None and inspect.isawaitable(outcome):
                    with guard:
                        await outcome
        except Exception as exc:
            self._failure(exc, message)
        finally:
            self._busy -= 1
            if route is not None and route.ordered:
                self._barrier = False
        if text is not None:
            # Written before anything behind the barrier can run, which need not wait until the peer has read it.
            if route is not None and route.ordered and self._connection._has_unread():
                self.wake()
            await self._connection._outlet.send(text)

    async def _handle_request(self, message: Request, route: Route | None, guard: CancelGuard) -> bytes | None:
        """The text of the answer; ``None`` when none is wanted."""
        begun = self._begun.pop(id(message), None)
        wanted = self._wants(message.id)
        if wanted is None or self._connection.is_closed:
            return None
        result: Any = None
        error: RpcError | None = None
        if wanted and route is None:
            error = RpcError(ERR_METHOD_NOT_FOUND, f"no such method: {message.method}")
        elif wanted and route is not None:
            self._running[guard] = message.id
            try:
                outcome = route.handler(message) if begun is None else begun[1].call()
                if isinstance(outcome, Later):
                    # It was queued before `serve` began.
                    outcome = outcome.call()
                if inspect.isawaitable(outcome):
                    with guard:
                        result = await outcome
                else:
                    result = outcome
            except Exception as exc:
                error = self._failure(exc, message)
            finally:
                del self._running[guard]
        return self._answer(message.id, result, error)

    def _wants(self, id: Id) -> bool | None:
        """Whether the peer still wants an answer; ``None``: it has one."""
        try:
            return self._connection._wants(id)
        except LocalProtocolError:
            return None

    # -- answers

    def _failure(self, exc: Exception, message: Request | Notification) -> RpcError:
        """What the peer learns of a handler's exception. What went wrong inside is for our own log."""
        timed_out = isinstance(exc, ConnectionTimeoutError)  # of a request that the handler made: not the peer's affair
        if isinstance(exc, RpcError) and isinstance(message, Request) and not timed_out:
            return exc
        # That the connection closed was reported already.
        if not (isinstance(exc, ConnectionClosedError) and self._connection.is_closed):
            self._connection.report(exc)
        return RpcError(ERR_INTERNAL_ERROR, "Internal error")

    def _answer(self, id: Id, result: Any, error: RpcError | None) -> bytes | None:
        """The text of the one answer; what has no text is reported, and answered without it."""
        try:
            return self._connection._answer(id, result, error)
        except Exception as exc:
            self._connection.report(exc)
        code = ERR_INTERNAL_ERROR
        if error is not None and type(error.code) is int and error.code.bit_length() < 64:
            code = error.code
        try:
            return self._connection._answer(id, None, RpcError(code, "Internal error"))
        except LocalProtocolError:
            return None  # the handler has answered by itself
