"""The one thread of a store: whatever is given to it is done, one after the other.

Owns: the thread, its order and its end. Does not own: what is done in it (``sqlite.store``, ``postgres.store``).

A caller that is cancelled before its turn has done nothing. Once its turn has come it waits to the end: whether
something was committed must come out. The cancellation of a task of asyncio's own lets a caller go even then; what it
began ends nevertheless before anything else begins.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from anyio import CancelScope, CapacityLimiter, to_thread

from .errors import ApprovalStorageError

__all__ = ("StoreThread",)

R = TypeVar("R")


class StoreThread:
    """A thread that begins with the first thing to do, and ends when it is closed."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mcpl-approvals")
        self._turn = CapacityLimiter(1)
        self._last: Future[None] | None = None

    async def run(self, work: Callable[[], R]) -> R:
        """What ``work`` returns.

        Raises:
            ApprovalStorageError: the store is closed.
            Exception: whatever ``work`` raised.
        """
        return await to_thread.run_sync(lambda: self._begin(work).result(), limiter=self._turn)

    def _begin(self, work: Callable[[], R]) -> Future[R]:
        try:
            return self._thread.submit(work)
        except RuntimeError as exc:
            raise ApprovalStorageError("the store is closed") from exc

    async def close(self, work: Callable[[], None]) -> None:
        """Does the last thing, after what was begun, and ends the thread. Closing it again waits for that."""
        if self._last is None:
            self._last = self._thread.submit(work)
            self._thread.shutdown(wait=False)
        with CancelScope(shield=True):
            await to_thread.run_sync(self._last.result)
