"""From samples to medians, spread and ratios. Pure.

Owns: what one sample is, and the arithmetic. A ratio is taken within one round, between neighbours that the machine
treated alike, and the median of those ratios is what counts; ratios of medians would mix rounds. Does not own: which
contender is the floor of which (``catalog``), and how it is shown (``report``).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec

__all__ = ("Key", "Row", "Sample", "figure_of", "median_of", "median_ratio", "rows", "spread")

#: Scenario, link and contender.
Key = tuple[str, str, str]

#: The figure that a scenario is about, and whether more of it is better. All others are rates.
_MAIN = {"F": ("growth_mb", False), "G": ("ms", False)}


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one process measured in one round.

    Attributes:
        figures: by name; empty when it failed.
        error: why it failed; empty when it did not.
    """

    scenario: str
    link: str
    contender: str
    round: int
    figures: dict[str, float] = {}
    error: str = ""

    @property
    def key(self) -> Key:
        """What it is a sample of."""
        return self.scenario, self.link, self.contender


class Row(msgspec.Struct, frozen=True):
    """All rounds of one contender in one scenario.

    Attributes:
        rounds: how many samples there are.
        figures: the median of each figure.
        spread: of the main figure, in percent; see ``spread``.
        ratio: the main figure as a part of the floor's, the better the higher; ``None`` without a floor.
        cpu_ratio: processor time for one operation as a part of the floor's, the better the lower.
    """

    scenario: str
    link: str
    contender: str
    rounds: int
    figures: dict[str, float]
    spread: float
    ratio: float | None
    cpu_ratio: float | None


def figure_of(scenario: str) -> tuple[str, bool]:
    """The name of the main figure of a scenario, and whether more of it is better."""
    return _MAIN.get(scenario, ("per_second", True))


def spread(values: Sequence[float]) -> float:
    """Half the distance between the quartiles (of fewer than four values: between the ends), in percent of the
    median. 0 when the median is."""
    middle = statistics.median(values)
    if len(values) < 2 or middle == 0:
        return 0.0
    if len(values) < 4:
        low, high = min(values), max(values)
    else:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / abs(middle) * 100


def _by_round(samples: Iterable[Sample], key: Key, figure: str) -> dict[int, float]:
    return {
        sample.round: sample.figures[figure] for sample in samples if sample.key == key and figure in sample.figures
    }


def median_of(samples: Iterable[Sample], key: Key, figure: str) -> tuple[float, int] | None:
    """The median of a figure, and over how many rounds; ``None``: there is none."""
    values = _by_round(samples, key, figure)
    return (statistics.median(values.values()), len(values)) if values else None


def median_ratio(samples: Sequence[Sample], subject: Key, reference: Key, figure: str) -> tuple[float, int] | None:
    """The median of subject / reference over the rounds that have both, and how many those are; ``None``: none has."""
    ours, theirs = _by_round(samples, subject, figure), _by_round(samples, reference, figure)
    ratios = [ours[number] / theirs[number] for number in ours if theirs.get(number, 0) != 0]
    return (statistics.median(ratios), len(ratios)) if ratios else None


def rows(samples: Sequence[Sample], floors: Mapping[tuple[str, str], str]) -> list[Row]:
    """One row for each contender in each scenario that has a sample, in the order of their first.

    Args:
        samples: of all rounds.
        floors: the contender that others are compared with, by scenario and link.
    """
    grouped: dict[Key, list[Sample]] = {}
    for sample in samples:
        if sample.figures:
            grouped.setdefault(sample.key, []).append(sample)
    return [_row(samples, key, group, floors) for key, group in grouped.items()]


def _row(samples: Sequence[Sample], key: Key, group: list[Sample], floors: Mapping[tuple[str, str], str]) -> Row:
    scenario, link, contender = key
    main, more_is_better = figure_of(scenario)
    names = list(dict.fromkeys(name for sample in group for name in sample.figures))
    figures = {
        name: statistics.median(sample.figures[name] for sample in group if name in sample.figures) for name in names
    }
    ratio = cpu_ratio = None
    if (floor := floors.get((scenario, link))) is not None:
        reference = (scenario, link, floor)
        # Turned over where less is better, so that a higher ratio is always the better one.
        pair = (key, reference) if more_is_better else (reference, key)
        ratio = _first(median_ratio(samples, *pair, main))
        cpu_ratio = _first(median_ratio(samples, key, reference, "cpu_us"))
    values = [sample.figures[main] for sample in group if main in sample.figures]
    return Row(scenario, link, contender, len(group), figures, spread(values) if values else 0.0, ratio, cpu_ratio)


def _first(pair: tuple[float, int] | None) -> float | None:
    return None if pair is None else pair[0]
