"""Durable changes of the outbox, written one after the other and never in the event loop.

Owns: the order of writes, and that a change which only forgets waits for the next write. Does not own: the file
(``store``), and what is kept (``outbox``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from ..errors import McplError

__all__ = ("Change", "Journal", "OutboxStore", "OutboxStoreError")


class OutboxStoreError(McplError):
    """The store of the outbox failed: a full disk, a file that is in use or cannot be read.

    Attributes:
        detail: what failed.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        return f"the outbox cannot be stored: {self.detail}"


class Change(NamedTuple):
    """One change of what is kept.

    Attributes:
        principal, event_id: of which event.
        text: its params as JSON text; ``None``: it is done, forget it.
    """

    principal: str
    event_id: str
    text: bytes | None


class OutboxStore(Protocol):
    """Where events outlive the process. Calls come from any thread, one at a time."""

    def load(self) -> Iterable[tuple[str, str, bytes]]:
        """Everything kept, as ``(principal, event_id, text)``, oldest first."""

    def apply(self, changes: Sequence[Change]) -> None:
        """Makes all changes or none, and returns when they will survive.

        Raises:
            OutboxStoreError: none was made.
        """

    def close(self) -> None:
        """Releases what the store holds."""


class Journal:
    """The writer of one store.

    Args:
        store: what is written to.
    """

    def __init__(self, store: OutboxStore) -> None:
        self._store = store
        self._done: list[Change] = []
        # One for each event loop: a server may be run again in another.
        self._lock: RunVar[anyio.Lock] = RunVar("mcpl_outbox_lock")

    def note(self, change: Change) -> None:
        """A change that need not survive at once. Lost, it costs the host a duplicate, which it knows by its id."""
        self._done.append(change)

    async def write(self, changes: Sequence[Change]) -> None:
        """Returns when these changes, and all that were noted before, will survive.

        Raises:
            OutboxStoreError: the changes were not made; what was noted is tried again later.
        """
        try:
            lock = self._lock.get()
        except LookupError:
            lock = anyio.Lock()
            self._lock.set(lock)
        async with lock:
            done, self._done = self._done, []
            if not done and not changes:
                return
            try:
                # A thread of its own: those of the application may all be busy.
                await anyio.to_thread.run_sync(self._store.apply, [*done, *changes], limiter=anyio.CapacityLimiter(1))
            except BaseException:
                self._done = [*done, *self._done]
                raise

    async def flush(self) -> None:
        """Writes what was noted.

        Raises:
            OutboxStoreError: it is tried again later.
        """
        if self._done:
            await self.write(())

    def close(self) -> None:
        """Writes what was noted and releases the store. To be called when no event loop uses it any more.

        Raises:
            OutboxStoreError: the write failed; the store is released all the same.
        """
        done, self._done = self._done, []
        try:
            if done:
                self._store.apply(done)
        finally:
            self._store.close()
