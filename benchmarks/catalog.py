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

from . import meter
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
        settings: environment variables that must name a file: for each link, or under ``""`` for all.
        flood_limit: see ``Order``.
    """

    name: str
    program: str
    style: str
    scenarios: Mapping[str, tuple[str, ...]]
    loops: tuple[str, ...] = ("asyncio",)
    needs: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}
    flood_limit: int = 1 << 62


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
_ON_ASYNCIO = _LOOPS[:2]
_TS = {"": "MCPL_TS_CORE", "ws": "MCPL_TS_WS"}
_TS_PROGRAM = "typescript_core.mjs"

CONTENDERS: Final = (
    Contender("floor", "floor", "", {"stdio": _NO_STALL}, _ON_ASYNCIO),
    Contender("floor, blocking", "blocking", "", {"stdio": _NO_STALL}),
    Contender("websockets", "websockets_alone", "", {"ws": _WIRE}, _ON_ASYNCIO),
    Contender("mcpl_core", "core", "pull", {"stdio": _WIRE, "ws": _WIRE, "memory": _NO_STALL}, _LOOPS),
    Contender("mcpl_core router", "core", "router", {"stdio": _SMALL, "ws": _SMALL}, _ON_ASYNCIO),
    Contender("mcpl_core inline", "core", "inline", {"stdio": _SMALL, "ws": _SMALL}, _ON_ASYNCIO),
    Contender("TypeScript core", _TS_PROGRAM, "", {"stdio": (*_WIRE, "G"), "ws": _WIRE}, settings=_TS),
    Contender("TypeScript core, timer", _TS_PROGRAM, "timer", {"stdio": ("C",)}, settings=_TS),
    Contender("mcp", "mcp_sdk", "session", {"stdio": _WIRE}, needs=("mcp",)),
    Contender("pygls", "pygls_generic", "", {"stdio": _WIRE}, needs=("pygls",), flood_limit=5000),
    Contender("agent-client-protocol", "acp_sdk", "", {"stdio": _WIRE}, needs=("acp",)),
    Contender("mcp tools", "mcp_sdk", "tool", {"stdio": ("T",), "memory": ("T",)}, needs=("mcp",)),
    Contender("mcpl_core tools", "tool_calls", "", {"stdio": ("T",), "ws": ("T",), "memory": ("T",)}, _LOOPS),
    Contender("mcp clients", "many_servers", "clients", {"memory": ("S",)}, needs=("mcp",)),
    Contender("mcpl_core host", "many_servers", "host", {"memory": ("S",)}, _LOOPS),
    Contender("plain relay", "relays", "plain", {"ws": ("R",)}, _ON_ASYNCIO),
    Contender("mcpl_core relay", "relays", "relay", {"ws": ("R",)}, _LOOPS),
    Contender("import msgspec, anyio", "imports", "msgspec, anyio", {"stdio": ("G",)}),
    Contender("import mcpl_core", "imports", "mcpl_core", {"stdio": ("G",)}),
    Contender("import mcpl_core.server", "imports", "mcpl_core.server", {"stdio": ("G",)}),
    Contender("import mcpl_core.host", "imports", "mcpl_core.host", {"stdio": ("G",)}),
    Contender("import mcp", "imports", "mcp", {"stdio": ("G",)}, needs=("mcp",)),
    Contender("import pygls.server", "imports", "pygls.server", {"stdio": ("G",)}, needs=("pygls",)),
    Contender("import acp", "imports", "acp", {"stdio": ("G",)}, needs=("acp",)),
    Contender("rfc8785.dumps", "manifest_digest", "rfc8785", {"memory": ("H",)}, needs=("rfc8785",)),
    Contender("canonical_bytes", "manifest_digest", "canonical_bytes", {"memory": ("H",)}, needs=("rfc8785",)),
    Contender("manifest_digest", "manifest_digest", "manifest_digest", {"memory": ("H",)}, needs=("rfc8785",)),
)

#: What others are compared with in each scenario and link. Where there is no floor, the peer that does the same.
FLOORS: Final = {
    **{(scenario, "stdio"): "floor" for scenario in _NO_STALL},
    **{(scenario, "ws"): "websockets" for scenario in _NO_STALL},
    **{(scenario, "memory"): "mcpl_core" for scenario in _NO_STALL},
    ("G", "stdio"): "import mcp",
    ("H", "memory"): "rfc8785.dumps",
    ("R", "ws"): "plain relay",
    ("S", "memory"): "mcp clients",
    ("T", "stdio"): "mcp tools",
    ("T", "memory"): "mcp tools",
}


def missing(contender: Contender, order: Order) -> str:
    """What is not there and would be needed, in words; empty when nothing is."""
    if order.scenario == "F" and not meter.LINUX:
        return "the memory of a process is known on Linux only"
    needs = (*contender.needs, *(() if order.loop == "asyncio" else (order.loop,)))
    if absent := [name for name in needs if find_spec(name) is None]:
        return f"{' and '.join(absent)} not installed"
    settings = [name for place, name in contender.settings.items() if place in ("", order.link)]
    if unset := [name for name in settings if not Path(os.environ.get(name, "")).is_file()]:
        return f"no file named by {' and '.join(unset)}"
    if contender.program.endswith(".mjs") and shutil.which("node") is None:
        return "node not installed"
    return ""


def runs(contenders: tuple[Contender, ...] = CONTENDERS) -> Iterator[Run]:
    """Everything there is, scenario by scenario, so that in each round those that are compared are neighbours."""
    for scenario in SCENARIOS:
        for link in LINKS:
            for contender in contenders:
                if scenario in contender.scenarios.get(link, ()):
                    for loop in contender.loops:
                        order = Order(scenario, link, loop, contender.style, flood_limit=contender.flood_limit)
                        yield Run(contender, order)
