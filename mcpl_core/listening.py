"""Accepting peers: a listener's transports, as connections to iterate over.

Owns: the queue between ``accepted`` callbacks and the task that takes connections, and releasing what nobody took.
Does not own: sockets (``transports``), and the connections once they were taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

import anyio

from .errors import LocalProtocolError
from .transports.base import Listener, Transport
from .transports.loop import EventLoop, Waiter
from .transports.tasks import OwnTasks

__all__ = ("ConnectionListener",)

C = TypeVar("C")


class ConnectionListener(Generic[C]):
    """Yields a connection for each peer, until closed. An async context manager and an async iterator.

    Args:
        listener: what accepts.
        connection: makes a connection of an accepted transport.
    """

    def __init__(self, listener: Listener, connection: Callable[[Transport], C]) -> None:
        self._listener = listener
        self._connection = connection
        self._accepted: deque[Transport] = deque()
        self._waiters: deque[Waiter] = deque()
        self._tasks = OwnTasks()
        self._loop: EventLoop | None = None
        self._closed = False

    @property
    def endpoint(self) -> str:
        """Where it listens, with the real port."""
        return self._listener.endpoint

    async def __aenter__(self) -> Self:
        if self._tasks.group is not None or self._closed:
            raise LocalProtocolError("a listener is entered once")
        self._loop = await self._tasks.begin()
        try:
            await self._listener.start(self._loop, self._accept)
        except BaseException:
            await self._tasks.end()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            await self.aclose()
        finally:
            await self._tasks.end()

    async def aclose(self) -> None:
        """Stops accepting; the iteration ends, connections already taken live on, those that nobody took are closed.
        From any task, any number of times."""
        self._closed = True
        while self._waiters:
            self._wake()
        try:
            await self._listener.aclose()
        finally:
            # All at once: when this is cancelled, each of them is told.
            async with anyio.create_task_group() as closing:
                while self._accepted:
                    closing.start_soon(self._accepted.popleft().aclose)

    def _accept(self, transport: Transport) -> None:
        self._accepted.append(transport)
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> C:
        if self._loop is None:
            raise LocalProtocolError("the listener was not entered (async with)")
        while not self._closed:
            if self._accepted:
                return self._connection(self._accepted.popleft())
            waiter = self._loop.waiter()
            self._waiters.append(waiter)
            try:
                await waiter
            except BaseException:
                # Woken and cancelled in one turn: the next one takes it.
                self._wake()
                raise
        raise StopAsyncIteration
