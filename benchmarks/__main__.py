"""``python -m benchmarks``: measures ``mcpl_core`` beside floors and peers. ``--help`` says how.

Exit status 1: something that was measured failed, or answered wrongly. 2: nothing could be measured, or written. 130:
interrupted; what was measured until then is reported all the same. A target that is missed is no failure: how fast a
machine is today is not for an exit status.
"""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from . import markdown, plot, report
from .catalog import FLOORS, Run
from .figures import Sample, rows
from .options import Options, chosen, parse
from .record import Record, combine, machine, read_record, write_record
from .runner import run_rounds, two_processors
from .targets import compare, judge

__all__ = ("main",)


def main(arguments: Sequence[str]) -> int:
    """The command; the exit status."""
    options = parse(arguments)
    try:
        for path in filter(None, (options.json, options.plot)):
            _try_to_write(path)
        if options.earlier:
            return _report(options, combine([read_record(path) for path in options.earlier]))
    except (OSError, msgspec.DecodeError) as exc:
        print(exc, file=sys.stderr)
        return 2
    plan, absent = chosen(options, two_processors())
    for line in absent:
        print(line, file=sys.stderr)
    if options.listing:
        print("\n".join(f"{run.order.scenario} {run.order.link} {run.label}" for run in plan))
        return 0
    if not plan:
        print("nothing to run", file=sys.stderr)
        return 2
    facts = machine() | {"command": f"python -m benchmarks {shlex.join(arguments)}".strip()}
    samples, interrupted = _measure(options, plan)
    status = _report(options, Record(facts, samples)) if samples else 0
    return 130 if interrupted else status


def _try_to_write(path: Path) -> None:
    """Before anything is measured, since that is long; what is there stays as it is.

    Raises:
        OSError: nothing can be written there.
    """
    is_new = not path.exists()
    path.open("ab").close()
    if is_new:
        path.unlink()


def _measure(options: Options, plan: list[Run]) -> tuple[list[Sample], bool]:
    """What was measured, and whether it was interrupted."""
    number = len(plan) * options.rounds
    done = itertools.count(1)
    # On a terminal one line tells how far it is; elsewhere each measurement has its own.
    form = "\r\033[K{}" if sys.stderr.isatty() else "{}\n"

    samples: list[Sample] = []

    def tell(run: Run, sample: Sample) -> None:
        samples.append(sample)
        what = f"[{next(done)}/{number}] {sample.scenario} {sample.link} {run.label}"
        sys.stderr.write(form.format(what))
        sys.stderr.flush()

    try:
        _, left_out = run_rounds(plan, options.rounds, seconds_in_all=options.seconds_in_all, tell=tell)
    except KeyboardInterrupt:
        print(f"\ninterrupted after {len(samples)} of {number}", file=sys.stderr)
        return samples, True
    print(file=sys.stderr)
    for run in left_out:
        print(f"left out: {run.label}, {run.order.scenario} over {run.order.link}: no time left", file=sys.stderr)
    return samples, False


def _report(options: Options, record: Record) -> int:
    table, verdicts, compared = rows(record.samples, FLOORS), judge(record.samples), compare(record.samples)
    if options.markdown:
        print(markdown.summary(table, verdicts, compared, record.machine))
    else:
        print("; ".join(f"{name} {value}" for name, value in record.machine.items() if name != "command"))
        parts = (report.tables(table), report.verdicts(verdicts), report.beside(compared))
        print("\n" + "\n\n".join(filter(None, parts)))
    failures = report.failures(record.samples)
    for line in failures:
        print(line, file=sys.stderr)
    if options.json is not None:
        write_record(options.json, record, table, verdicts, compared)
    if options.plot is not None:
        options.plot.write_text(plot.draw(table, "mcpl_core beside floors and peers"), encoding="utf-8")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
