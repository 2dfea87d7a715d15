"""What time it is, and waiting for a time.

Owns: the ``Clock`` that everything of this part goes by, and the machine's. Does not own: what is due when.
"""

from __future__ import annotations

import time
from typing import Protocol

import anyio

__all__ = ("Clock", "SystemClock")


class Clock(Protocol):
    """A clock that an application, or a test, may set."""

    def time(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Returns when so many seconds have passed on this clock."""


class SystemClock:
    """The machine's clock."""

    def time(self) -> float:
        """See ``Clock``."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """See ``Clock``."""
        await anyio.sleep(seconds)
