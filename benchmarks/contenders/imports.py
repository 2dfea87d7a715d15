"""How long an import takes, in interpreters of its own. The style is the name of the module.

The quickest of several counts: an import always does the same, and whatever else the machine does only adds to it. The
first is not counted, since it may have to compile and to read from disk.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from ..workload import Order
from .program import emit

__all__ = ("client", "import_ms")

#: How many interpreters are measured.
TIMES = 5

_CODE = "import time; began = time.perf_counter(); import {0}; print(time.perf_counter() - began)"


def import_ms(module: str) -> float:
    """Milliseconds that importing a module takes in a fresh interpreter."""
    code = _CODE.format(module)
    run = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
    return float(run.stdout) * 1e3


def client(order: Order) -> dict[str, float]:
    """Measures, in processes one after the other."""
    import_ms(order.style)
    times = [import_ms(order.style) for _ in range(TIMES)]
    return {"ms": min(times), "median_ms": statistics.median(times)}


if __name__ == "__main__":
    emit(client(Order.read(sys.argv[2])))
