"""The ratios as an SVG picture, drawn by hand: panels for each scenario and link, a bar for each contender. Pure.

Owns: the picture. Does not own: the numbers (``figures``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from .catalog import FLOORS, SCENARIOS
from .figures import Row, figure_of
from .report import number

__all__ = ("draw",)

_COLUMNS = 2
_WIDTH, _NAMES, _VALUES = 560, 170, 64
_BAR, _GAP, _HEAD, _MARGIN = 13, 5, 44, 18
#: What ours is, what a floor is, and what a peer is.
_OURS, _FLOOR, _PEER = "#0b7a75", "#8d99ae", "#c9a227"
_OWN_WORDS = ("mcpl_core", "canonical_bytes", "manifest_digest")
_FLOOR_WORDS = ("floor", "websockets", "plain relay", "import msgspec", "rfc8785")
#: Scenarios whose figure says more than a ratio.
_FIGURES = {"F": "MB", "G": "ms"}
#: Scenarios that are about latency as much as about the rate have a panel for each.
_LATENCY = ("E",)


def draw(rows: Sequence[Row], title: str) -> str:
    """The text of an SVG file."""
    columns: list[list[str]] = [[] for _ in range(_COLUMNS)]
    heights = [_MARGIN + 50] * _COLUMNS
    for panel in _panels(rows):
        # The shorter column takes it.
        column = heights.index(min(heights))
        columns[column].append(_drawn(panel, _MARGIN + column * (_WIDTH + _MARGIN), heights[column]))
        heights[column] += _height(panel) + _MARGIN
    width = _COLUMNS * (_WIDTH + _MARGIN) + _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{max(heights)}" '
            f'viewBox="0 0 {width} {max(heights)}" font-family="system-ui, sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            _text(_MARGIN, 30, title, size=17, weight=600),
            _text(
                _MARGIN, 48, "Medians. Bars are ratios to the contender at the line, in the same rounds.", fill="#555"
            ),
            *(text for column in columns for text in column),
            "</svg>\n",
        ]
    )


class _Panel(NamedTuple):
    """One panel.

    Attributes:
        bars: name, value, and the spread of it in percent.
        one: where the line stands; 0: there is none.
    """

    title: str
    words: str
    bars: list[tuple[str, float, float]]
    one: float = 0.0


def _panels(rows: Sequence[Row]) -> Iterator[_Panel]:
    for scenario, link in dict.fromkeys((row.scenario, row.link) for row in rows):
        group = [row for row in rows if (row.scenario, row.link) == (scenario, link)]
        yield _main_panel(group)
        if scenario in _LATENCY:
            bars = [(row.contender, row.figures["p99_us"], 0.0) for row in group if "p99_us" in row.figures]
            words = f"{SCENARIOS[scenario]}; 99th percentile of the latency in µs, less is better"
            yield _Panel(f"{scenario}, {link}: latency", words, bars)


def _main_panel(group: Sequence[Row]) -> _Panel:
    scenario, link = group[0].scenario, group[0].link
    unit = _FIGURES.get(scenario)
    if unit is None and any(row.ratio is not None for row in group):
        values = [row.ratio or 0.0 for row in group]
        what, one = f"of {FLOORS.get((scenario, link))}", 1.0
    else:
        values = [row.figures.get(figure_of(scenario)[0], 0.0) for row in group]
        what, one = (f"{unit}, less is better" if unit else "per second"), 0.0
    bars = [(row.contender, value, row.spread) for row, value in zip(group, values, strict=True)]
    return _Panel(f"{scenario}, {link}", f"{SCENARIOS[scenario]}; {what}", bars, one)


def _height(panel: _Panel) -> int:
    return _HEAD + len(panel.bars) * (_BAR + _GAP)


def _drawn(panel: _Panel, left: int, top: int) -> str:
    longest = max([value for _, value, _ in panel.bars] + [panel.one, 1e-9])
    room = _WIDTH - _NAMES - _VALUES
    lines = [
        _text(left, top + 16, panel.title, size=13, weight=600),
        _text(left, top + 31, panel.words, fill="#555"),
    ]
    if panel.one:
        x = left + _NAMES + panel.one / longest * room
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top + _HEAD - 4}" y2="{top + _height(panel) - 2}" '
            'stroke="#333" stroke-dasharray="3 3"/>'
        )
    for index, bar in enumerate(panel.bars):
        lines += _bar(bar, longest, left, top + _HEAD + index * (_BAR + _GAP), room)
    return "\n".join(lines)


def _bar(bar: tuple[str, float, float], longest: float, left: int, top: int, room: int) -> list[str]:
    name, value, spread = bar
    width = max(value / longest * room, 1.0)
    x, middle = left + _NAMES, top + _BAR / 2
    reach = width * spread / 100
    return [
        _text(x - 8, top + 10, name, anchor="end"),
        f'<rect x="{x}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="2" '
        f'fill="{_colour(name)}" fill-opacity="0.92"/>',
        f'<line x1="{x + max(width - reach, 0):.1f}" x2="{x + width + reach:.1f}" y1="{middle}" y2="{middle}" '
        'stroke="#222" stroke-opacity="0.55"/>',
        # The line of the floor may cross it.
        _text(x + width + reach + 5, top + 10, number(value), fill="none", more=' stroke="#ffffff" stroke-width="3"'),
        _text(x + width + reach + 5, top + 10, number(value)),
    ]


def _colour(contender: str) -> str:
    if any(word in contender for word in _OWN_WORDS):
        return _OURS
    return _FLOOR if contender.startswith(_FLOOR_WORDS) else _PEER


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 11,
    weight: int = 400,
    fill: str = "#111",
    anchor: str = "start",
    more: str = "",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}"{more}>{escape(text)}</text>'
    )
