"""Running until done or until somebody says stop.

Owns: what SIGINT (Ctrl-C) and SIGTERM do: the first ends the work in an orderly way, the second at once. Does not own:
the work.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.abc import TaskStatus

__all__ = ("Stopped", "run_until_stopped")

T = TypeVar("T")

#: The signals that people, and programs that started us, end a program with.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """A signal ended the work before it was done.

    Attributes:
        signal: its number.
    """

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal

    @property
    def status(self) -> int:
        """The exit status that says so."""
        return 128 + self.signal


def run_until_stopped(work: Callable[[], Awaitable[T]], stop: Callable[[], object] | None = None) -> T:
    """Runs ``work`` in an event loop.

    Args:
        work: a coroutine function.
        stop: called when the first signal came; ``work`` should return soon. When it returns ``False``, and when it is
            left out, the first signal ends the work at once.

    Raises:
        Stopped: a signal ended it at once.
        Exception: whatever ``work`` raised, as it is.
    """
    return anyio.run(_main, work, stop)


async def _main(work: Callable[[], Awaitable[T]], stop: Callable[[], object] | None) -> T:
    results: list[T] = []
    failures: list[Exception] = []
    signals: list[int] = []

    async def watch(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as received:
            task_status.started()
            async for number in received:
                signals.append(number)
                if stop is None or len(signals) > 1 or stop() is False:
                    tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        if sys.platform != "win32":  # there, Ctrl-C raises KeyboardInterrupt
            await tasks.start(watch)
        try:
            results.append(await work())
        except Exception as exc:
            # Raised again outside the group, which would wrap it.
            failures.append(exc)
        tasks.cancel_scope.cancel()
    if failures:
        raise failures[0]
    if not results:
        raise Stopped(signals[-1])
    return results[0]
