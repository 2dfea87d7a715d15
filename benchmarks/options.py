"""The command line.

Owns: the options, and which runs they choose. Does not own: running (``runner``), and what there is (``catalog``).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from .catalog import LINKS, SCENARIOS, Run, missing, runs

__all__ = ("QUICK", "Options", "chosen", "parse")

_LOOPS = ("asyncio", "uvloop", "trio")
#: The inline style is what the targets judge; trio is judged beside the style that pulls.
_INLINE = ("mcpl_core inline", "mcpl_core inline, uvloop")
_CORE = ("mcpl_core", *_INLINE, "mcpl_core, trio")

#: What ``--quick`` runs: by scenario and link, the contenders.
QUICK: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("A", "stdio"): ("floor", *_CORE, "TypeScript core"),
    ("B", "stdio"): ("floor", *_CORE, "TypeScript core", "mcp"),
    ("C", "stdio"): ("floor", *_CORE, "TypeScript core", "TypeScript core, timer"),
    ("D1", "stdio"): ("floor", "mcpl_core", "TypeScript core"),
    ("E", "stdio"): ("floor", *_INLINE, "TypeScript core"),
    ("F", "stdio"): ("mcpl_core",),
    ("G", "stdio"): ("import mcpl_core", "import mcp"),
    ("H", "memory"): ("rfc8785.dumps", "canonical_bytes", "manifest_digest"),
    ("T", "stdio"): ("mcp tools", "mcpl_core tools"),
    ("A", "ws"): ("websockets", *_INLINE, "TypeScript core"),
    ("B", "ws"): ("websockets", *_INLINE, "TypeScript core"),
    ("C", "ws"): ("websockets", "mcpl_core inline", "TypeScript core"),
    ("A", "memory"): ("mcpl_core",),
    ("R", "ws"): ("mcpl_core relay",),
    ("S", "memory"): ("mcpl_core host",),
}
#: Seconds after which ``--quick`` begins nothing more.
_QUICK_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says.

    Attributes:
        rounds: how many rounds.
        seconds: of each timed part.
        only: a pattern for the names of contenders.
        scenarios, links, loops: empty: all.
        pinned: client and server have a processor each.
        quick: a small choice, within a minute.
        seconds_in_all: nothing more is begun after these; ``None``: without end.
        json: a file for everything that was measured.
        plot: an SVG file.
        markdown: print the short tables for a README.
        listing: only say what would run.
        earlier: files that ``json`` wrote before; with them nothing is run.
    """

    rounds: int
    seconds: float
    only: re.Pattern[str]
    scenarios: tuple[str, ...]
    links: tuple[str, ...]
    loops: tuple[str, ...]
    pinned: bool
    quick: bool
    seconds_in_all: float | None
    json: Path | None
    plot: Path | None
    markdown: bool
    listing: bool
    earlier: tuple[Path, ...]


def parse(arguments: Sequence[str]) -> Options:
    """The options. Exits with status 2 and a word on what is wrong (``argparse``)."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="mcpl_core beside floors and peers, as ratios within the same round.",
        epilog="Scenarios: " + "; ".join(f"{name}: {what}" for name, what in SCENARIOS.items()) + ". "
        "MCPL_TS_CORE names the index.js of a build of the TypeScript core, MCPL_TS_WS the wrapper.mjs of the npm "
        "package ws, for that core over WebSocket. Client and server have a processor each, where there are two.",
    )
    parser.add_argument("--quick", action="store_true", help="a small choice, one round, within a minute")
    parser.add_argument("--rounds", type=_positive, help="how often each is measured (5; quick: 1)")
    parser.add_argument("--seconds", type=_seconds, help="of each timed part (0.5; quick: 0.15)")
    parser.add_argument("--only", type=_pattern, default="", metavar="PATTERN", help="contenders, a regular expression")
    parser.add_argument("--scenario", type=_scenarios, default=(), metavar="A,B,...", help="D stands for D1,D16")
    parser.add_argument("--link", type=_among(LINKS), default=(), metavar="LINK,...", help="stdio, ws, memory")
    parser.add_argument("--loop", type=_among(_LOOPS), default=(), metavar="LOOP,...", help="asyncio, uvloop, trio")
    parser.add_argument("--unpinned", action="store_true", help="let the system place the processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples, rows and verdicts")
    parser.add_argument("--plot", type=_svg, metavar="FILE.svg", help="draw the ratios")
    parser.add_argument("--markdown", action="store_true", help="print short tables for a README")
    parser.add_argument("--list", action="store_true", dest="listing", help="only say what would run")
    parser.add_argument("--from", type=Path, nargs="+", default=(), dest="earlier", metavar="FILE",
                        help="report what --json wrote before, instead of measuring")  # fmt: skip
    given = parser.parse_args(arguments)
    return Options(
        rounds=given.rounds or (1 if given.quick else 5),
        seconds=given.seconds or (0.15 if given.quick else 0.5),
        only=re.compile(given.only) if isinstance(given.only, str) else given.only,
        scenarios=given.scenario,
        links=given.link,
        loops=given.loop,
        pinned=not given.unpinned,
        quick=given.quick,
        seconds_in_all=_QUICK_SECONDS if given.quick else None,
        json=given.json,
        plot=given.plot,
        markdown=given.markdown,
        listing=given.listing,
        earlier=tuple(given.earlier),
    )


def chosen(
    options: Options, cpus: tuple[int, ...], there_are: Iterable[Run] | None = None
) -> tuple[list[Run], list[str]]:
    """The runs that the options choose, and a line for each thing that is missing: who is left out without it.

    Args:
        options: see there.
        cpus: for ``Order.cpus``, where processes are pinned.
        there_are: all runs; left out: those of the catalog.
    """
    plan: list[Run] = []
    absent: dict[str, dict[str, dict[str, None]]] = {}
    for run in runs() if there_are is None else there_are:
        if not _wanted(options, run):
            continue
        if lack := missing(run.contender, run.order):
            absent.setdefault(lack, {}).setdefault(run.label, {})[run.order.link] = None
            continue
        order = replace(
            run.order, seconds=options.seconds, warm_up=options.seconds / 2, cpus=cpus if options.pinned else ()
        )
        plan.append(run._replace(order=order))
    if options.quick:
        # In the order of the table: what there is no time for is what stands last.
        places = list(QUICK)
        plan.sort(key=lambda run: places.index((run.order.scenario, run.order.link)))
    return plan, [f"{lack}; left out: {'; '.join(map(_over, who.items()))}" for lack, who in absent.items()]


def _over(pair: tuple[str, Iterable[str]]) -> str:
    label, links = pair
    return f"{label} ({', '.join(links)})"


def _wanted(options: Options, run: Run) -> bool:
    order = run.order
    if options.quick and run.label not in QUICK.get((order.scenario, order.link), ()):
        return False
    return (
        (not options.scenarios or order.scenario in options.scenarios)
        and (not options.links or order.link in options.links)
        and (not options.loops or order.loop in options.loops)
        and options.only.search(run.label) is not None
    )


# -- what stands behind an option


def _positive(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < (seconds := float(text)) < 1000:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no number between 0 and 1000")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as exc:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {exc}") from exc


def _svg(text: str) -> Path:
    if not text.endswith(".svg"):
        raise argparse.ArgumentTypeError("the plot is an SVG: its name ends in .svg")
    return Path(text)


def _scenarios(text: str) -> tuple[str, ...]:
    names: list[str] = []
    for name in text.split(","):
        if found := [each for each in SCENARIOS if name and name in (each, each[0])]:
            names += found
        else:
            raise argparse.ArgumentTypeError(f"there is no scenario {name!r}; there are {', '.join(SCENARIOS)}")
    return tuple(names)


def _among(words: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if unknown := [name for name in names if name not in words]:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}; there are {', '.join(words)}")
        return names

    return read
