"""Who takes part, in which scenarios, over which links, on which event loops.

Owns: the tables, and what a contender needs to be there. Does not own: running them (``runner``), and the programs
(``contenders``). A contender that is not installed is passed over, with one line that says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from .workload import Order

__all__ = ("CONTENDERS", "FLOORS", "LINKS", "SCENARIOS", "Contender", "Run", "missing", "runs")

#: What each scenario measures.
SCENARIOS: Final = {
    "A": "one request after the other",
    "B": "64 requests in flight",
    "C": "a flood of notifications, until the last was read",
    "D1": "echo of 1 MiB",
    "D16": "echo of 16 MiB",
    "E": "16 requests in flight",
    "F": "resident memory while 200 MB wait for a stalled reader",
    "G": "import in a fresh interpreter",
    "H": "digest of a manifest of 5 KB",
    "R": "through a relay from a WebSocket to a child process",
    "S": "one host with 200 servers",
    "T": "tool calls between a host and a server, 64 in flight",
}

LINKS: Final = ("stdio", "ws", "memory")


class Contender(NamedTuple):
    """Somebody who takes part.

    Attributes:
        name: as it is shown.
        program: a module of ``benchmarks.contenders``, or a file there.
        style: see ``Order``.
        scenarios: link -> the scenarios, in which it takes part.
        loops: the event loops that it runs on.
        needs: modules that must be installed.
        settings: names of environment variables that must be set, with a path that exists.
    """

    name: str
    program: str
    style: str
    scenarios: Mapping[str, tuple[str, ...]]
    loops: tuple[str, ...] = ("asyncio",)
    needs: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


class Run(NamedTuple):
    """One measurement that is made in each round."""

    contender: Contender
    order: Order

    @property
    def label(self) -> str:
        """The contender, with its event loop where that is not asyncio."""
        loop = self.order.loop
        return self.contender.name if loop == "asyncio" else f"{self.contender.name}, {loop}"


_WIRE = ("A", "B", "C", "D1", "D16", "E", "F")
_NO_STALL = _WIRE[:-1]
_SMALL = ("A", "B", "C", "E")
_LOOPS = ("asyncio", "uvloop", "trio")

CONTENDERS: Final = (
    Contender("floor", "floor", "", {"stdio": _WIRE}, _LOOPS[:2], ("msgspec",)),
    Contender("mcpl_core", "core", "pull", {"stdio": _WIRE, "ws": _NO_STALL, "memory": _NO_STALL}, _LOOPS),
    Contender("mcpl_core router", "core", "router", {"stdio": _SMALL}, _LOOPS[:2]),
    Contender("mcpl_core inline", "core", "inline", {"stdio": _SMALL}, _LOOPS[:2]),
)

#: What others are compared with in each scenario and link.
FLOORS: Final = {(scenario, "stdio"): "floor" for scenario in _WIRE}


def missing(contender: Contender, loop: str = "asyncio") -> str:
    """What is not there and would be needed, in words; empty when nothing is."""
    needs = (*contender.needs, *(() if loop == "asyncio" else (loop,)))
    if absent := [name for name in needs if find_spec(name) is None]:
        return f"{' and '.join(absent)} not installed"
    if unset := [name for name in contender.settings if not Path(os.environ.get(name, "")).is_file()]:
        return f"{' and '.join(unset)} does not name a file"
    if contender.program.endswith(".mjs") and shutil.which("node") is None:
        return "node is not installed"
    return ""


def runs(contenders: tuple[Contender, ...] = CONTENDERS) -> Iterator[Run]:
    """Everything there is, scenario by scenario, so that in each round those that are compared are neighbours."""
    for scenario in SCENARIOS:
        for link in dict.fromkeys(link for contender in contenders for link in contender.scenarios):
            for contender in contenders:
                if scenario in contender.scenarios.get(link, ()):
                    for loop in contender.loops:
                        yield Run(contender, Order(scenario, link, loop, contender.style))
