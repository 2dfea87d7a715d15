"""The tables for a terminal. Pure.

Owns: words, columns and how numbers are written. Does not own: the arithmetic (``figures``, ``targets``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .catalog import SCENARIOS
from .figures import Row, Sample
from .targets import ENOUGH_ROUNDS, Beside, Verdict

__all__ = ("beside", "failures", "number", "table", "tables", "verdicts", "words_on")


def number(value: float) -> str:
    """With about three digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def _optional(value: float | None) -> str:
    return "" if value is None else number(value)


#: Column -> the figure in it; only columns that any row of a table fills are shown.
_COLUMNS = {
    "per s": "per_second",
    "ms": "ms",
    "median ms": "median_ms",
    "p50 µs": "p50_us",
    "p99 µs": "p99_us",
    "CPU µs": "cpu_us",
    "growth MB": "growth_mb",
    "sender MB": "sender_mb",
    "receiver MB": "receiver_mb",
    "taken MB": "accepted_mb",
    "flood per s": "flood_per_second",
    "added µs": "added_us",
    "connect ms": "connect_ms",
    "MB each": "mb_each",
}


def tables(rows: Sequence[Row]) -> str:
    """A table for each scenario and link."""
    blocks = []
    for place in dict.fromkeys((row.scenario, row.link) for row in rows):
        scenario, link = place
        group = [row for row in rows if (row.scenario, row.link) == place]
        blocks.append(f"{scenario}, {link}: {SCENARIOS[scenario]}\n{_table_of(group)}")
    return "\n\n".join(blocks)


def _table_of(group: Sequence[Row]) -> str:
    shown = {title: name for title, name in _COLUMNS.items() if any(name in row.figures for row in group)}
    head = ["", *shown, "±%", "x floor", "CPU x floor", "rounds"]
    body = [
        [
            row.contender,
            *(_optional(row.figures.get(name)) for name in shown.values()),
            f"{row.spread:.0f}" if row.rounds > 1 else "",
            _optional(row.ratio),
            _optional(row.cpu_ratio),
            str(row.rounds),
        ]
        for row in group
    ]
    return table(head, body)


def words_on(verdict: Verdict) -> str:
    """``met``, or by how much it is not."""
    if verdict.value is None:
        return "not measured"
    return "met" if verdict.met else f"missed by {verdict.missed_by:.0f} %"


def verdicts(judged: Sequence[Verdict]) -> str:
    """The targets whose contenders ran, and how many others there are."""
    measured = [verdict for verdict in judged if verdict.value is not None]
    lines = [f"Targets: {sum(verdict.met for verdict in measured)} of {len(measured)} that were measured are met"]
    if others := len(judged) - len(measured):
        lines[0] += f"; {others} were not measured"
    if measured:
        lines.append(table(["", "of", "figure", "", "target", "measured", "rounds", ""], map(_verdict_line, measured)))
    if any(verdict.rounds < ENOUGH_ROUNDS for verdict in measured):
        lines.append(f"(With fewer than {ENOUGH_ROUNDS} rounds these are hints.)")
    return "\n".join(lines)


def _verdict_line(verdict: Verdict) -> list[str]:
    target = verdict.target
    return [
        f"{target.scenario} {target.link}  {target.subject}",
        target.reference or "itself",
        target.figure,
        "at least" if target.at_least else "at most",
        number(target.bound),
        _optional(verdict.value),
        str(verdict.rounds),
        words_on(verdict),
    ]


def beside(compared: Iterable[Beside]) -> str:
    """The comparisons whose contenders ran; empty when none did."""
    body = [
        [
            f"{pair.scenario} {pair.link}  {pair.subject}",
            pair.reference,
            pair.figure,
            number(one.value),
            str(one.rounds),
        ]
        for one in compared
        if one.value is not None
        for pair in (one.comparison,)
    ]
    return "Beside the targets\n" + table(["", "of", "figure", "measured", "rounds"], body) if body else ""


def table(head: Sequence[str], body: Iterable[Sequence[str]], *, markdown: bool = False) -> str:
    """Columns that stand below each other; the first to the left, the others to the right."""
    lines = [list(head), *map(list, body)]
    if markdown:
        rule = ["---", *["---:"] * (len(head) - 1)]
        return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def failures(samples: Iterable[Sample]) -> list[str]:
    """A line for each measurement that failed."""
    return [
        f"failed: {sample.contender}, {sample.scenario} over {sample.link}, round {sample.round + 1}: "
        + _last_word(sample.error)
        for sample in samples
        if sample.error
    ]


def _last_word(error: str) -> str:
    # The traceback of a group ends in a rule, and each of its lines begins with one.
    lines = [line.strip(" |+-") for line in error.splitlines()]
    return next((line for line in reversed(lines) if line), error)
