"""Runs contenders, each in a process of its own, interleaved in rounds.

Owns: the order of things, and that nothing waits without end: a process that dies or hangs is a sample with an error.
Does not own: who takes part (``catalog``), and what is made of the samples (``figures``).

The machine may be shared. So each round runs all contenders of one scenario one after the other, and whatever disturbs
the machine hits neighbours alike.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from .catalog import Run
from .contenders.program import MARK
from .figures import Sample
from .meter import descendants_of
from .workload import Order

__all__ = ("command_of", "run_once", "run_rounds", "two_processors")

ROOT = Path(__file__).resolve().parent.parent

#: Seconds for starting both processes, warming up and taking leave, beside the timed part.
_GRACE = 60.0
#: Seconds for the last run that is begun when there is only so much time.
_LAST_RUN = 10.0
#: How often a contender may fail in one scenario before it is left out.
_FAILURES = 2
#: Characters of what a failed process said that are kept.
_LAST_WORDS = 300


def two_processors() -> tuple[int, ...]:
    """One processor for each side; empty where there are not two, or none can be chosen."""
    if not hasattr(os, "sched_getaffinity"):
        return ()
    cpus = sorted(os.sched_getaffinity(0))
    return tuple(cpus[:2]) if len(cpus) > 1 else ()


def command_of(run: Run) -> list[str]:
    """How the client of a contender is started."""
    program = run.contender.program
    if program.endswith(".mjs"):
        return ["node", str(ROOT / "benchmarks" / "contenders" / program), "client", run.order.text]
    return [sys.executable, "-m", f"benchmarks.contenders.{program}", "client", run.order.text]


@contextmanager
def _on(cpus: tuple[int, ...]) -> Iterator[None]:
    """What is started in the block runs on the first of these processors; the client moves its server to the other."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cpus[:1]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run_once(run: Run, round: int = 0, timeout: float | None = None) -> Sample:
    """One measurement. Never raises for what a contender does.

    Args:
        run: what.
        round: the number of the round.
        timeout: seconds until it is given up; left out: enough for what it has to do.
    """
    order = run.order
    if timeout is None:
        timeout = _GRACE + 4 * (order.seconds + order.warm_up) + (order.settle if order.scenario == "F" else 0)
    with tempfile.TemporaryDirectory() as folder:
        order = replace(order, gate=str(Path(folder) / "gate"))
        figures, words = _execute(command_of(run._replace(order=order)), order, Path(folder) / "errors", timeout)
    error = "" if figures else words[-_LAST_WORDS:].strip() or "it ended without a word"
    return Sample(order.scenario, order.link, run.label, round, figures, error)


def _execute(command: list[str], order: Order, errors: Path, timeout: float) -> tuple[dict[str, float], str]:
    """The figures, or what the process said last."""
    # Its errors go to a file: a server that outlives its client would hold a pipe open.
    with errors.open("w+b") as said, _started(command, said, order.cpus) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return {}, f"it was not done within {timeout:.0f} s"
        finally:
            _end(process)
        said.seek(0)
        words = said.read().decode(errors="replace")
    lines = [line for line in output.decode(errors="replace").splitlines() if line.startswith(MARK)]
    return (json.loads(lines[-1].removeprefix(MARK)), "") if lines else ({}, words)


def _started(command: list[str], said: BinaryIO, cpus: tuple[int, ...]) -> subprocess.Popen[bytes]:
    with _on(cpus):
        return subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, start_new_session=True
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what was started for one measurement, and nothing else: the client's session, and servers in their own."""
    others = descendants_of(process.pid)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in others:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def run_rounds(
    plan: Sequence[Run],
    rounds: int,
    *,
    seconds_in_all: float | None = None,
    tell: Callable[[Run, Sample], object] = lambda run, sample: None,
    clock: Callable[[], float] = time.monotonic,
    once: Callable[[Run, int, float | None], Sample] = run_once,
) -> tuple[list[Sample], list[Run]]:
    """All samples, and the runs that there was no time for.

    Args:
        plan: what is run in each round, those that are compared next to each other.
        rounds: how many.
        seconds_in_all: nothing more is begun after these.
        tell: is called after each.
        clock, once: for tests.
    """
    samples: list[Sample] = []
    left_out: list[Run] = []
    failures: dict[tuple[str, str, str], int] = {}
    end = None if seconds_in_all is None else clock() + seconds_in_all
    for round in range(rounds):
        for run in plan:
            key = (run.order.scenario, run.order.link, run.label)
            if failures.get(key, 0) >= _FAILURES:
                continue
            if end is not None and clock() >= end:
                left_out.append(run)
                continue
            # Whatever hangs does not take much longer than what there was time for.
            sample = once(run, round, None if end is None else max(end - clock(), 0) + _LAST_RUN)
            failures[key] = failures.get(key, 0) + bool(sample.error)
            samples.append(sample)
            tell(run, sample)
    return samples, left_out
