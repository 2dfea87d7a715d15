"""The short tables for a README. Pure.

Owns: what is short, and how it is laid out. Does not own: the numbers (``figures``), and the long tables (``report``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .catalog import FLOORS, LINKS, SCENARIOS
from .figures import Row, figure_of
from .report import number, table, words_on
from .targets import Beside, Verdict

__all__ = ("summary",)

#: Scenarios that stand side by side; the others have a line of their own.
_MATRIX = ("A", "B", "C", "E", "D1", "D16")
_LINK_WORDS = {"stdio": "a child process", "ws": "a WebSocket on loopback", "memory": "memory, in one process"}
#: Of the scenarios with a line of their own: the unit of the main figure.
_UNITS = {"F": "MB", "G": "ms", "H": "per s", "R": "per s", "S": "calls per s", "T": "calls per s"}


def summary(
    rows: Sequence[Row], verdicts: Sequence[Verdict], compared: Sequence[Beside], machine: Mapping[str, str]
) -> str:
    """The tables, with what they were made of, the targets that are missed and the comparisons beside them."""
    rounds = [row.rounds for row in rows]
    parts = [
        f"`{machine.get('command', '')}`: {machine.get('kind', '')}, {machine.get('python', '')}"
        + (f", Node {machine['node']}" if "node" in machine else "")
        + f"; medians of {_span(rounds)} rounds. In brackets the speed as a part of the floor's in the same rounds.",
        *(part for link in LINKS if (part := _matrix(rows, link))),
    ]
    if others := [row for row in rows if row.scenario not in _MATRIX]:
        parts.append(table(["", "", "median", "x floor"], map(_line, others), markdown=True))
    parts.append("\n".join([_missed(verdicts), *_beside(compared)]))
    return "\n\n".join(parts)


def _span(rounds: Sequence[int]) -> str:
    low, high = min(rounds, default=0), max(rounds, default=0)
    return str(low) if low == high else f"{low} to {high}"


def _matrix(rows: Sequence[Row], link: str) -> str:
    cells = {(row.contender, row.scenario): row for row in rows if row.link == link and row.scenario in _MATRIX}
    if not cells:
        return ""
    shown = [scenario for scenario in _MATRIX if any(scenario == place[1] for place in cells)]
    # E is about latency as much as about the rate.
    columns = [column for name in shown for column in ((name, "p99") if name == "E" else (name,))]
    head = [f"Over {_LINK_WORDS[link]}", *(_title(column) for column in columns)]
    body = [
        [contender, *(_cell(cells.get((contender, "E" if column == "p99" else column)), column) for column in columns)]
        for contender in dict.fromkeys(place[0] for place in cells)
    ]
    return table(head, body, markdown=True)


def _title(column: str) -> str:
    return "E p99 µs" if column == "p99" else f"{column} ms" if column[0] == "D" else f"{column} per s"


def _cell(row: Row | None, column: str) -> str:
    if row is None:
        return ""
    if column == "p99":
        return number(row.figures["p99_us"])
    rate = row.figures["per_second"]
    text = number(1e3 / rate) if column[0] == "D" else number(rate)
    return text if row.ratio is None else f"{text} ({number(row.ratio)})"


def _line(row: Row) -> list[str]:
    median = row.figures[figure_of(row.scenario)[0]]
    floor = FLOORS.get((row.scenario, row.link), "")
    ratio = "" if row.ratio is None or row.contender == floor else f"{number(row.ratio)} x {floor}"
    what = f"{row.scenario}: {SCENARIOS[row.scenario]} ({row.link})"
    return [what, row.contender, f"{number(median)} {_UNITS[row.scenario]}", ratio]


def _beside(compared: Sequence[Beside]) -> list[str]:
    return [
        f"- beside the targets, {pair.scenario} over {pair.link}: {pair.subject} {pair.figure} {number(one.value)} of "
        + pair.reference
        for one in compared
        if one.value is not None
        for pair in (one.comparison,)
    ]


def _missed(verdicts: Sequence[Verdict]) -> str:
    measured = [verdict for verdict in verdicts if verdict.value is not None]
    lines = [
        f"- {target.scenario} over {target.link}: {target.subject} {target.figure} "
        + (f"{number(verdict.value or 0)} of {target.reference}" if target.reference else number(verdict.value or 0))
        + f", target {number(target.bound)}: {words_on(verdict)}"
        for verdict in measured
        if not verdict.met
        for target in (verdict.target,)
    ]
    return "\n".join([f"{len(measured) - len(lines)} of {len(measured)} targets are met.", *lines])
