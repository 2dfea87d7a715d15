"""Handlers for incoming messages: which one, in what order, how many at once, and what answers the peer gets.

Owns: ``Router`` (method -> handler) and ``Dispatcher`` (the workers behind ``McplConnection.serve``). This is the one
boundary where a handler's exception becomes an error on the wire. Does not own: the queue, what a method means, and
whether the peer may call it.

A task per message would cost more than most handlers do. Workers are therefore kept: one takes message after message
for as long as handlers return without waiting, and each time it takes one while others are queued it makes sure that
one more worker is about to run. That one finds the queue empty, or goes on while the first waits inside a handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup

from .errors import (
    ERR_INTERNAL_ERROR,
    ERR_METHOD_NOT_FOUND,
    ConnectionTimeoutError,
    LocalProtocolError,
    RpcError,
)
from .protocol.methods import METHODS, MethodTable
from .transports.loop import CancelGuard, EventLoop, Waiter
from .wire.messages import Id, Notification, Request

__all__ = ("Dispatcher", "Handler", "Handlers", "Route", "Router")

#: Takes the message, returns the result (ignored for a notification), or an awaitable of it.
Handler = Callable[[Any], Any]
Handlers = Mapping[str, Handler]
H = TypeVar("H", bound=Handler)


class Route(NamedTuple):
    """How a method is handled.

    Attributes:
        handler: what is called.
        ordered: the messages behind its message wait until it is done.
        inline: it is called, and answered, as its message is taken from the wire, before anything behind it and
            before earlier messages that still wait for a worker. It is a plain function.
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
        self._fallback: Route | None = None
        for method, handler in (handlers or {}).items():
            self.add(method, handler)

    def add(self, method: str, handler: Handler, *, ordered: bool | None = None, inline: bool = False) -> None:
        """Sets the handler of ``method``.

        Args:
            method: the method name.
            handler: takes the ``Request`` or ``Notification``; sync or async.
            ordered: whether the messages behind wait; left out, the method table says.
            inline: see ``Route``. For what changes how the messages behind are to be understood, and for answers
                that need no waiting.

        Raises:
            LocalProtocolError: the method has a handler already.
        """
        if method in self._routes:
            raise LocalProtocolError(f"{method} has a handler already")
        if ordered is None:
            entry = self._methods.get(method)
            ordered = entry is not None and entry.order_sensitive
        self._routes[method] = Route(handler, ordered, inline)

    def on(self, method: str, *, ordered: bool | None = None, inline: bool = False) -> Callable[[H], H]:
        """``add`` as a decorator."""

        def register(handler: H) -> H:
            self.add(method, handler, ordered=ordered, inline=inline)
            return handler

        return register

    def otherwise(self, handler: Handler) -> None:
        """Sets the handler of every method that has none."""
        self._fallback = Route(handler, False)

    def find(self, method: str) -> Route | None:
        """The route of ``method``, or ``None``."""
        return self._routes.get(method, self._fallback)

    def __iter__(self) -> Iterator[str]:
        return iter(self._routes)


class _Served(Protocol):
    """What the dispatcher needs of the connection."""

    @property
    def is_closed(self) -> bool: ...
    def report(self, error: BaseException) -> None: ...
    async def send_response(self, id: Id, result: Any) -> None: ...
    async def send_error(self, id: Id, code: int, message: str, data: Any = None) -> None: ...
    def _answer_now(self, id: Id, result: Any, error: RpcError | None) -> None: ...
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
        limit: how many handlers run at once.
    """

    def __init__(self, connection: _Served, loop: EventLoop, router: Router, limit: int) -> None:
        self._connection = connection
        self._loop = loop
        self._router = router
        self._limit = limit
        self._tasks: TaskGroup | None = None
        self._idle: list[Waiter] = []
        self._workers = 0
        #: A worker was woken and did not run yet.
        self._woken = False
        #: An order-sensitive message is being handled.
        self._barrier = False
        self._busy = 0
        self._running: dict[Id, CancelGuard] = {}
        self._input_ended = False
        self._ended = loop.waiter()

    async def run(self, grace: float) -> None:
        """Handles messages until the connection closed, and for ``grace`` seconds after its input ended."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self.wake()
            if not self._connection.is_closed:
                await self._ended
            if not self._connection.is_closed:
                with anyio.move_on_after(grace):
                    await self._all_done()
                self._connection._finish_draining()
            tasks.cancel_scope.cancel()

    async def _all_done(self) -> None:
        while self._busy or self._connection._has_unread():
            self._ended = self._loop.waiter()
            await self._ended

    # -- called by the connection, synchronously

    def wake(self) -> None:
        """Messages are waiting."""
        if self._woken or self._barrier or self._tasks is None:
            return
        while self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                self._woken = True
                waiter.set_result(None)
                return
        if self._workers < self._limit:
            self._workers += 1
            self._woken = True
            self._tasks.start_soon(self._work, name="mcpl handler")

    def handle_inline(self, message: Request | Notification) -> bool:
        """Handles a message at once when its route says so; true when it did."""
        route = self._router.find(message.method)
        if route is None or not route.inline:
            return False
        result: Any = None
        error: RpcError | None = None
        try:
            result = route.handler(message)
        except RpcError as exc:
            error = exc
            if isinstance(message, Notification):
                self._connection.report(exc)
        except Exception as exc:
            error = self._internal(exc)
        if isinstance(message, Request):
            self._answer_inline(message.id, result, error)
        return True

    def _answer_inline(self, id: Id, result: Any, error: RpcError | None) -> None:
        try:
            self._connection._answer_now(id, result, error)
        except LocalProtocolError as exc:
            self._connection._answer_now(id, None, self._internal(exc))

    def input_ended(self) -> None:
        """The input ended, or the connection closed."""
        self._input_ended = True
        self._tell()

    def cancel_taken_back(self) -> None:
        """The peer took a request back: its handler is cancelled."""
        for id, guard in list(self._running.items()):
            if not self._connection._wants(id):
                del self._running[id]
                guard.cancel()

    # -- workers

    def _tell(self) -> None:
        if self._input_ended and not self._ended.done():
            self._ended.set_result(None)

    async def _work(self) -> None:
        guard = self._loop.cancel_guard()
        while True:
            self._woken = False
            while (message := self._next()) is not None:
                await self._handle(message, guard)
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
            if (route := self._router.find(message.method)) is not None and route.ordered:
                self._barrier = True
            elif self._connection._has_unread():
                self.wake()
        return message

    async def _handle(self, message: Request | Notification, guard: CancelGuard) -> None:
        route = self._router.find(message.method)
        try:
            if isinstance(message, Request):
                await self._handle_request(message, route, guard)
            elif route is not None:
                await self._handle_notification(message, route)
        finally:
            self._busy -= 1
            if route is not None and route.ordered:
                self._barrier = False

    async def _handle_notification(self, message: Notification, route: Route) -> None:
        try:
            outcome = route.handler(message)
            if isawaitable(outcome):
                await outcome
        except Exception as exc:
            self._connection.report(exc)

    async def _handle_request(self, message: Request, route: Route | None, guard: CancelGuard) -> None:
        connection, id = self._connection, message.id
        if connection.is_closed or not connection._wants(id):
            # Taken back while it waited in the queue: the answer is dropped, the id is free again.
            return await connection.send_response(id, None)
        if route is None:
            return await connection.send_error(id, ERR_METHOD_NOT_FOUND, f"no such method: {message.method}")
        self._running[id] = guard
        result: Any = None
        error: RpcError | None = None
        try:
            with guard:
                result = route.handler(message)
                if isawaitable(result):
                    result = await result
        except ConnectionTimeoutError as exc:
            # Ours, from a request that the handler made; its code means nothing to this peer.
            error = self._internal(exc)
        except RpcError as exc:
            error = exc
        except Exception as exc:
            error = self._internal(exc)
        finally:
            self._running.pop(id, None)
        await self._answer(id, result, error)

    async def _answer(self, id: Id, result: Any, error: RpcError | None) -> None:
        connection = self._connection
        if error is None:
            try:
                return await connection.send_response(id, result)
            except LocalProtocolError as exc:
                error = self._internal(exc)
        try:
            await connection.send_error(id, error.code, error.message, error.data)
        except LocalProtocolError as exc:
            self._connection.report(exc)
            await connection.send_error(id, error.code, "Internal error")

    def _internal(self, exc: Exception) -> RpcError:
        # What went wrong inside is for our own log; the peer learns that it did.
        self._connection.report(exc)
        return RpcError(ERR_INTERNAL_ERROR, "Internal error")
