"""How much a piece of work takes, whatever the speed of the machine and whoever else uses it."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ("effort",)

_YARD = 20_000


def _cpu_seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _yard() -> dict[str, int]:
    return {str(number): len(str(number)) for number in range(_YARD)}


def effort(work: Callable[[], object]) -> float:
    """The processor time of ``work``, in units of a table of 20,000 names that is made beside it."""
    before = [_cpu_seconds(_yard) for _ in range(3)]
    spent = _cpu_seconds(work)
    # Time is told in steps, so that a unit is never nothing.
    return spent / max(min(before + [_cpu_seconds(_yard) for _ in range(3)]), 0.001)
