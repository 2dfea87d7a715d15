"""Wall time, processor time and resident memory of this process and of others.

Owns: reading them. Does not own: what is done meanwhile (``drive``). Wall time is what a user waits for; processor time
of both sides is steadier on a machine that others use too. The figures of other processes need Linux (their processor
clocks, and ``/proc``); elsewhere they are left out.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

__all__ = (
    "Meter",
    "LINUX",
    "children_of",
    "descendants_of",
    "only_child",
    "peak_mb",
    "percentiles",
    "pin",
    "processor_seconds",
    "resident_mb",
)

#: Whether anything is known of other processes.
LINUX = sys.platform == "linux"


def processor_seconds(pid: int) -> float:
    """Seconds of processor time, user and system, that a process has used; 0 where that cannot be known."""
    if not LINUX:
        return 0.0
    # The processor clock of another process (clock_getcpuclockid(3)): finer than the ticks in /proc.
    return time.clock_gettime((~pid << 3) | 2)


def _status_mb(pid: int | str, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def resident_mb(pid: int | str = "self") -> float:
    """Resident memory now, in MB (1e6 bytes)."""
    return _status_mb(pid, "VmRSS:")


def peak_mb(pid: int | str = "self") -> float:
    """The most resident memory so far, in MB (1e6 bytes)."""
    return _status_mb(pid, "VmHWM:")


def children_of(parent: int) -> list[int]:
    """The child processes of a process that have not ended; none where that cannot be known."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, its_parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has ended meanwhile
        if int(its_parent) == parent and state != "Z":
            children.append(int(stat.parent.name))
    return children


def descendants_of(parent: int) -> list[int]:
    """The child processes of a process, theirs, and so on."""
    children = children_of(parent)
    return children + [pid for child in children for pid in descendants_of(child)]


def only_child(parent: int | None = None) -> tuple[int, ...]:
    """The child process of a process (left out: of this one), for peers that do not say which it is; empty where that
    cannot be known.

    Raises:
        LookupError: there is none, or more than one.
    """
    if not LINUX:
        return ()
    children = children_of(os.getpid() if parent is None else parent)
    if len(children) != 1:
        raise LookupError(f"{len(children)} child processes")
    return (children[0],)


def pin(pid: int, cpus: tuple[int, ...]) -> None:
    """Moves all threads of a process to these processors. Nothing happens without any, and where that is not known."""
    if not cpus or not LINUX:
        return
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), set(cpus))


class Meter:
    """A context manager around the timed part.

    Args:
        others: the processes that take part beside this one.
    """

    def __init__(self, *others: int) -> None:
        self._others = others
        self.seconds = 0.0
        self.processor = 0.0

    def _processor(self) -> float:
        return time.process_time() + sum(map(processor_seconds, self._others))

    def __enter__(self) -> Meter:
        self.processor = -self._processor()
        self.seconds = -time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds += time.perf_counter()
        self.processor += self._processor()

    def figures(self, operations: int) -> dict[str, float]:
        """The rate, and microseconds of processor time of both sides for one operation, where those are known."""
        figures = {"operations": operations, "per_second": operations / self.seconds}
        if LINUX or not self._others:
            figures["cpu_us"] = self.processor / operations * 1e6
        return figures


def percentiles(nanoseconds: list[int]) -> dict[str, float]:
    """The median and the 99th percentile, in microseconds."""
    ordered = sorted(nanoseconds)
    count = len(ordered)
    return {"p50_us": ordered[count // 2] / 1e3, "p99_us": ordered[min(count - 1, count * 99 // 100)] / 1e3}
