"""How fast it must be: the targets as data, and whether they are met. Pure.

Owns: the table, and that of the comparisons shown beside it. Every target is a ratio between two contenders of the same
rounds, but for the one that is a number of megabytes. Does not own: the arithmetic (``figures``), and who takes part
(``catalog``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from .figures import Key, Sample, median_of, median_ratio

__all__ = (
    "BESIDE",
    "ENOUGH_ROUNDS",
    "TARGETS",
    "Beside",
    "Comparison",
    "Target",
    "Verdict",
    "compare",
    "judge",
)

#: With fewer rounds than these, a verdict is only a hint.
ENOUGH_ROUNDS: Final = 5


class Target(NamedTuple):
    """One target.

    Attributes:
        subject: who has to meet it.
        reference: who it is compared with, in the same scenario and link; empty: with nobody.
        figure: what is compared.
        bound: the ratio, or the figure itself without a reference.
        at_least: whether more is better.
    """

    scenario: str
    link: str
    subject: str
    reference: str
    figure: str
    bound: float
    at_least: bool = True


class Verdict(msgspec.Struct, frozen=True):
    """Whether a target is met.

    Attributes:
        value: the median ratio, or figure; ``None`` when the contenders did not run.
        rounds: how many rounds it is the median of.
    """

    target: Target
    value: float | None
    rounds: int

    @property
    def met(self) -> bool:
        """Whether the value is on the right side of the bound."""
        if self.value is None:
            return False
        return self.value >= self.target.bound if self.target.at_least else self.value <= self.target.bound

    @property
    def missed_by(self) -> float:
        """By how much of the bound, in percent; 0 when it is met, or was not measured."""
        if self.value is None or self.met:
            return 0.0
        return abs(self.value - self.target.bound) / self.target.bound * 100


class Comparison(NamedTuple):
    """Two contenders whose ratio is worth a line of its own, and is no target."""

    scenario: str
    link: str
    subject: str
    reference: str
    figure: str


class Beside(msgspec.Struct, frozen=True):
    """What came of a comparison.

    Attributes:
        value: the median ratio; ``None`` when the contenders did not run.
        rounds: how many rounds it is the median of.
    """

    comparison: Comparison
    value: float | None
    rounds: int


_CORE, _TRIO = "mcpl_core", "mcpl_core, trio"
#: The floors and the TypeScript core handle a message where they read it. So does this package's inline style; the
#: others, which give it to a task, are shown beside it.
_INLINE, _UVLOOP = "mcpl_core inline", "mcpl_core inline, uvloop"
_FLOOR, _TS, _TIMER = "floor", "TypeScript core", "TypeScript core, timer"
_RATE = "per_second"

TARGETS: Final = (
    Target("A", "stdio", _INLINE, _FLOOR, _RATE, 0.90),
    Target("A", "stdio", _UVLOOP, _TS, _RATE, 1.05),
    Target("B", "stdio", _INLINE, _FLOOR, _RATE, 1.0),
    Target("B", "stdio", _INLINE, _TS, _RATE, 1.15),
    Target("B", "stdio", _UVLOOP, _TS, _RATE, 1.5),
    Target("C", "stdio", _INLINE, _FLOOR, _RATE, 1.3),
    # Three times that core as it was driven when the target was set: its flood let the loop turn by a timer.
    Target("C", "stdio", _INLINE, _TIMER, _RATE, 3.0),
    Target("D1", "stdio", _CORE, _TS, _RATE, 1.5),
    Target("D16", "stdio", _CORE, _TS, _RATE, 1.3),
    Target("E", "stdio", _INLINE, _TS, _RATE, 0.9),
    Target("E", "stdio", _INLINE, _TS, "p99_us", 0.7, at_least=False),
    Target("E", "stdio", _UVLOOP, _TS, _RATE, 1.0),
    Target("E", "stdio", _UVLOOP, _TS, "p99_us", 0.5, at_least=False),
    Target("F", "stdio", _CORE, "", "growth_mb", 64.0, at_least=False),
    Target("G", "stdio", "import mcpl_core", "import mcp", "ms", 0.25, at_least=False),
    Target("H", "memory", "canonical_bytes", "rfc8785.dumps", "per_second", 6.0),
    Target("H", "memory", "manifest_digest", "rfc8785.dumps", "per_second", 2.5),
    Target("A", "ws", _INLINE, _TS, _RATE, 0.95),
    Target("B", "ws", _INLINE, _TS, _RATE, 0.95),
    Target("A", "ws", _UVLOOP, _TS, _RATE, 1.05),
    Target("B", "ws", _UVLOOP, _TS, _RATE, 1.05),
    Target("C", "ws", _INLINE, _TS, _RATE, 1.3),
    Target("D1", "ws", _CORE, _TS, _RATE, 4.0),
    Target("D16", "ws", _CORE, _TS, _RATE, 4.0),
    Target("E", "ws", _INLINE, _TS, "p99_us", 1 / 3, at_least=False),
    Target("T", "stdio", "mcpl_core tools", "mcp tools", _RATE, 20.0),
    Target("A", "stdio", _TRIO, _CORE, _RATE, 0.6),
    Target("B", "stdio", _TRIO, _CORE, _RATE, 0.3),
    Target("C", "stdio", _TRIO, _CORE, _RATE, 0.6),
)


#: That core's flood as it goes best, by ``setImmediate``. No target was set for it, and the ratio is a smaller one: it
#: is shown so that nobody takes the target's for the whole truth.
BESIDE: Final = (Comparison("C", "stdio", _INLINE, _TS, _RATE),)


def judge(samples: Sequence[Sample], targets: Iterable[Target] = TARGETS) -> list[Verdict]:
    """A verdict for each target, measured or not."""
    return [_verdict(samples, target) for target in targets]


def _verdict(samples: Sequence[Sample], target: Target) -> Verdict:
    if target.reference:
        return Verdict(target, *_ratio(samples, target))
    subject = (target.scenario, target.link, target.subject)
    return Verdict(target, *(median_of(samples, subject, target.figure) or (None, 0)))


def compare(samples: Sequence[Sample], comparisons: Iterable[Comparison] = BESIDE) -> list[Beside]:
    """What came of each comparison, measured or not."""
    return [Beside(comparison, *_ratio(samples, comparison)) for comparison in comparisons]


def _ratio(samples: Sequence[Sample], pair: Target | Comparison) -> tuple[float | None, int]:
    subject: Key = (pair.scenario, pair.link, pair.subject)
    return median_ratio(samples, subject, (*subject[:2], pair.reference), pair.figure) or (None, 0)
