"""``python -m benchmarks``: measures ``mcpl_core`` beside floors and peers. ``--help`` says how."""

from __future__ import annotations

import argparse
import sys

from msgspec.structs import replace

from . import catalog, report
from .figures import Sample, rows
from .runner import run_rounds, two_processors


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--only", default="")
    parser.add_argument("--scenario", default="")
    parser.add_argument("--link", default="")
    parser.add_argument("--loop", default="")
    options = parser.parse_args()
    cpus = two_processors()

    def wanted(run: catalog.Run) -> bool:
        order = run.order
        names = options.scenario.split(",") if options.scenario else []
        return (
            (not names or order.scenario in names or order.scenario[0] in names)
            and (not options.link or order.link in options.link.split(","))
            and (not options.loop or order.loop in options.loop.split(","))
            and options.only in run.label
        )

    plan = [
        run._replace(order=replace(run.order, seconds=options.seconds, warm_up=options.seconds / 2, cpus=cpus))
        for run in catalog.runs()
        if wanted(run)
    ]

    def tell(run: catalog.Run, sample: Sample) -> None:
        print(f"{sample.round + 1}/{options.rounds} {sample.scenario} {sample.link} {run.label}", file=sys.stderr)

    samples, _ = run_rounds(plan, options.rounds, tell=tell)
    print(report.tables(rows(samples, dict(catalog.FLOORS))))
    for line in report.failures(samples):
        print(line)
    return int(any(sample.error for sample in samples))


if __name__ == "__main__":
    sys.exit(main())
