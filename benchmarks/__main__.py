"""``python -m benchmarks``: measures ``mcpl_core`` beside floors and peers. ``--help`` says how.

Exit status 1: something that was measured failed, or answered wrongly. A target that is missed is no failure: how fast
a machine is today is not for an exit status.
"""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Sequence

import msgspec

from . import markdown, plot, report
from .catalog import FLOORS, Run
from .figures import Sample, rows
from .options import Options, chosen, parse
from .record import Record, combine, machine, read_record, write_record
from .runner import run_rounds, two_processors
from .targets import judge

__all__ = ("main",)


def main(arguments: Sequence[str]) -> int:
    """The command; the exit status."""
    options = parse(arguments)
    if options.earlier:
        try:
            record = combine([read_record(path) for path in options.earlier])
        except (OSError, msgspec.DecodeError) as exc:
            print(exc, file=sys.stderr)
            return 2
    else:
        plan, absent = chosen(options, two_processors())
        for line in absent:
            print(line, file=sys.stderr)
        if options.listing or not plan:
            print("\n".join(f"{run.order.scenario} {run.order.link} {run.label}" for run in plan) or "nothing to run")
            return 0
        command = f"python -m benchmarks {shlex.join(arguments)}".strip()
        record = Record(machine() | {"command": command}, _measure(options, plan))
    return _report(options, record)


def _measure(options: Options, plan: list[Run]) -> list[Sample]:
    number = len(plan) * options.rounds
    done = itertools.count(1)
    # On a terminal one line tells how far it is; elsewhere each measurement has its own.
    form = "\r\033[K{}" if sys.stderr.isatty() else "{}\n"

    def tell(run: Run, sample: Sample) -> None:
        what = f"[{next(done)}/{number}] {sample.scenario} {sample.link} {run.label}"
        sys.stderr.write(form.format(what))
        sys.stderr.flush()

    samples, left_out = run_rounds(plan, options.rounds, seconds_in_all=options.seconds_in_all, tell=tell)
    print(file=sys.stderr)
    for run in left_out:
        print(f"left out: {run.label}, {run.order.scenario} over {run.order.link}: no time left", file=sys.stderr)
    return samples


def _report(options: Options, record: Record) -> int:
    table, verdicts = rows(record.samples, FLOORS), judge(record.samples)
    if options.markdown:
        print(markdown.summary(table, verdicts, record.machine))
    else:
        print("; ".join(f"{name} {value}" for name, value in record.machine.items() if name != "command"))
        print(f"\n{report.tables(table)}\n\n{report.verdicts(verdicts)}")
    failures = report.failures(record.samples)
    for line in failures:
        print(line, file=sys.stderr)
    if options.json is not None:
        write_record(options.json, record, table, verdicts)
    if options.plot is not None:
        options.plot.write_text(plot.draw(table, "mcpl_core beside floors and peers"), encoding="utf-8")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
