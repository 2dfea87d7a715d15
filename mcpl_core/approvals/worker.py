"""The one thread of a store: whatever is given to it is done, one after the other.

Owns: the thread, its order and its end. Does not own: what is done in it (``sqlite.store``, ``postgres.store``).

A caller that is cancelled already hands over nothing. Whoever handed something over waits to its end: whether it was
committed must come out. A task that asyncio itself cancels does not wait; what it handed over is done nevertheless, in
its turn, also when the cancellation was under way before: so an outcome is never lost that was there to be recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from anyio import CancelScope, CapacityLimiter, to_thread
from anyio.lowlevel import checkpoint_if_cancelled

from .errors import ApprovalStorageError

__all__ = ("StoreThread",)

R = TypeVar("R")


class StoreThread:
    """A thread that begins with the first thing to do, and ends when it is closed."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mcpl-approvals")
        # Those who wait take no place of others.
        self._waiting = CapacityLimiter(math.inf)
        self._last: Future[None] | None = None

    async def run(self, work: Callable[[], R]) -> R:
        """What ``work`` returns.

        Raises:
            ApprovalStorageError: the store is closed.
            Exception: whatever ``work`` raised.
        """
        await checkpoint_if_cancelled()
        try:
            found = self._thread.submit(work)
        except RuntimeError as exc:
            raise ApprovalStorageError("the store is closed") from exc
        return await to_thread.run_sync(found.result, limiter=self._waiting)

    async def close(self, work: Callable[[], None]) -> None:
        """Does the last thing, after what was begun, and ends the thread. Closing it again waits for that."""
        if self._last is None:
            self._last = self._thread.submit(work)
            self._thread.shutdown(wait=False)
        with CancelScope(shield=True):
            await to_thread.run_sync(self._last.result, limiter=self._waiting)
