"""A clock in milliseconds that never goes back.

Owns: reading a wall clock, and forgetting no later time that it has shown. Does not own: what is measured by it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from .fields import integer

__all__ = ("Clock", "SteadyClock", "wall_clock_ms")

#: Milliseconds since the epoch. Called from the threads of the stores too.
Clock: TypeAlias = Callable[[], int]


def wall_clock_ms() -> int:
    """The machine's clock."""
    return time.time_ns() // 1_000_000


class SteadyClock:
    """A clock that stands still while the one that it reads goes back: what was over stays over.

    Args:
        clock: what it reads.
    """

    def __init__(self, clock: Clock = wall_clock_ms) -> None:
        self._clock = clock
        self._latest = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        """The time; no earlier than any that it gave before.

        Raises:
            InvalidValueError: the clock shows no milliseconds since the epoch.
        """
        now = integer()(self._clock(), "$.clock")
        with self._lock:
            self._latest = max(self._latest, now)
            return self._latest
