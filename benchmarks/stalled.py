"""Scenario F: how much memory both sides take while a reader stalls.

Owns: the flood, seeing that both sides came to rest, opening the gate, and the count at the end. Does not own: what
stalls (``service``). Growth is the peak of resident memory, less what there was before the flood.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Protocol

import anyio

from .meter import peak_mb, processor_seconds, resident_mb
from .workload import NOTE_BYTES, Order, slow_note

__all__ = ("Stall", "measure_stall")

#: Seconds between two looks at both sides, and how many looks without any work mean that they are at rest.
_LOOK = 0.25
_QUIET = 4
#: Seconds of processor time between two looks that count as none.
_IDLE = 0.03
#: Seconds for the rest, once the gate is open. A slow library is measured all the same.
_DRAIN = 20.0


class _Caller(Protocol):
    async def request(self, method: str, params: Any) -> Any: ...
    async def notify(self, method: str, params: Any) -> object: ...


class Stall:
    """Looks at both sides from a thread of its own, since the event loop may be busy or blocked by what it sends.

    Attributes:
        accepted: how many notifications the sender was allowed to send so far.
    """

    def __init__(self, order: Order, server: int) -> None:
        self.accepted = 0
        self._order = order
        self._server = server
        self._before = (resident_mb(), resident_mb(server))
        self._figures: dict[str, float] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        began = time.monotonic()
        quiet = 0
        last = self._work()
        while quiet < _QUIET and time.monotonic() - began < self._order.settle:
            time.sleep(_LOOK)
            now = self._work()
            idle = now[0] == last[0] and now[1] - last[1] < _IDLE and now[2] - last[2] < _IDLE
            quiet = quiet + 1 if idle else 0
            last = now
        sender, receiver = peak_mb() - self._before[0], peak_mb(self._server) - self._before[1]
        self._figures = {
            "growth_mb": sender + receiver,
            "sender_mb": sender,
            "receiver_mb": receiver,
            "accepted_mb": self.accepted * NOTE_BYTES / 1e6,
            "at_rest": float(quiet >= _QUIET),
        }
        Path(self._order.gate).touch()

    def _work(self) -> tuple[int, float, float]:
        return self.accepted, time.process_time(), processor_seconds(self._server)

    def figures(self) -> dict[str, float]:
        """What was seen, once the gate is open."""
        self._thread.join()
        return self._figures


async def measure_stall(caller: _Caller, order: Order, server: int) -> dict[str, float]:
    """Sends everything to a reader that stalls, and sees it arrive once the gate is open (``drained``).

    Raises:
        ArithmeticError: not everything arrived.
    """
    await caller.request("echo", {"seq": 0})
    number = order.stalled_bytes // NOTE_BYTES
    stall = Stall(order, server)
    sums: dict[str, int] = {}
    with anyio.move_on_after(order.settle + _DRAIN):
        for index in range(number):
            await caller.notify("slow", slow_note(index))
            stall.accepted += 1
        sums = await caller.request("wait_count", {"n": number})
    if sums and (sums["n"] != number or sums["total"] != number * (number - 1) // 2):
        raise ArithmeticError(f"{number} notifications were sent, and {sums} came")
    return stall.figures() | {"drained": float(bool(sums))}
