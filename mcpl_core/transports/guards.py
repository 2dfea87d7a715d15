"""Blocks that other code may cancel, on asyncio and on trio.

Owns: the cancelling of a block of one task, with the cheapest means of its event loop. Does not own: which blocks are
cancelled (``dispatch``), and the loop's other services (``loop``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

__all__ = ("AsyncioGuard", "CancelGuard", "TrioGuard")


class CancelGuard(Protocol):
    """A block of one task that other code may cancel: ``with guard: ...``, any number of times in that task.

    A cancelled block ends as if it had returned; cancellation of the task itself passes through. On asyncio a
    ``CancelledError`` of something that the block awaited, while nobody cancelled the task, leaves it as a
    ``RuntimeError``: the task goes on.
    """

    def __enter__(self) -> object: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> bool | None: ...

    def cancel(self) -> None:
        """Cancels the block that is entered now; nothing happens when none is, or when it was cancelled already."""


class AsyncioGuard:
    """Cancels through the task itself: an AnyIO scope costs several times what a short handler does."""

    __slots__ = ("_before", "_block", "_delivered", "_entered", "_requested", "_task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._entered = self._requested = self._delivered = False
        #: Which block this is, so that a late delivery does not strike another.
        self._block = 0
        #: Requests to cancel the task that were there before the block.
        self._before = 0

    def __enter__(self) -> None:
        self._entered = True
        self._before = self._task.cancelling()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> bool:
        self._block += 1
        if exc_type is None and not self._requested:
            self._entered = False
            return False
        delivered = self._delivered
        self._entered = self._requested = self._delivered = False
        if delivered:
            self._task.uncancel()
        if exc_type is None or not issubclass(exc_type, asyncio.CancelledError):
            return False
        if self._task.cancelling() > self._before:
            # Somebody cancels the task itself.
            return False
        if delivered:
            return True
        raise RuntimeError("something that was awaited here had been cancelled") from exc

    def cancel(self) -> None:
        if not self._entered or self._requested:
            return
        self._requested = True
        if asyncio.current_task() is self._task:
            # In the middle of a step of that task. If the block then ended without awaiting anything, the request
            # would strike whatever comes after it.
            self._task.get_loop().call_soon(self._deliver, self._block)
        else:
            self._deliver(self._block)

    def _deliver(self, block: int) -> None:
        if self._entered and self._block == block:
            self._delivered = True
            self._task.cancel()


class TrioGuard:
    """Cancels through a scope, which ``make`` makes for each block."""

    __slots__ = ("_make", "_scope")

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._scope: Any = None

    def __enter__(self) -> None:
        self._scope = self._make()
        self._scope.__enter__()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> bool | None:
        scope, self._scope = self._scope, None
        swallowed: bool | None = scope.__exit__(exc_type, exc, tb)
        return swallowed

    def cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()
