"""What the server side of every contender does, whatever library carries it.

Owns: the four methods and their counts. Does not own: how a library's handlers are made of them (``contenders``).

- ``echo`` (request): the result is the params. Libraries call nothing here for it.
- ``count`` (notification): counts, and adds up ``seq``, so that nothing is skipped and params are really read.
- ``slow`` (notification): the same, but waits until the gate opens.
- ``wait_count`` (request): answers with both sums once ``n`` notifications were counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

__all__ = ("Service",)

#: Seconds between two looks at the gate.
_LOOK = 0.05


class Service:
    """The state of one server. On any event loop.

    Args:
        gate: the file whose existence lets ``slow`` go on.
    """

    def __init__(self, gate: str = "") -> None:
        self._gate = Path(gate)
        self._open = not gate
        self._opened: anyio.Event | None = None
        self._wanted = 0
        self._reached: anyio.Event | None = None
        self.counted = 0
        self.total = 0

    def count(self, params: Any) -> None:
        """One notification came."""
        self.counted += 1
        self.total += params["seq"]
        if self._reached is not None and self.counted >= self._wanted:
            self._reached.set()

    async def slow(self, params: Any) -> None:
        """One notification came, and takes until the gate is open."""
        if not self._open:
            await self._wait_for_the_gate()
        self.count(params)

    async def _wait_for_the_gate(self) -> None:
        if self._opened is None:
            # The first one looks; where handlers run side by side the others wait for it.
            self._opened = anyio.Event()
            while not self._gate.exists():  # noqa: ASYNC110 - another process opens it
                await anyio.sleep(_LOOK)
            self._open = True
            self._opened.set()
        await self._opened.wait()

    async def wait_count(self, params: Any) -> dict[str, int]:
        """Both sums, once ``params["n"]`` notifications were counted."""
        if self.counted < params["n"]:
            self._wanted, self._reached = params["n"], anyio.Event()
            await self._reached.wait()
        return {"n": self.counted, "total": self.total}
