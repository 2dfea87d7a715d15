"""The arithmetic of the benchmarks: medians, spread, ratios within a round, and verdicts on targets."""

from __future__ import annotations

import pytest

from benchmarks.catalog import FLOORS, LINKS, SCENARIOS, runs
from benchmarks.figures import Sample, median_of, median_ratio, rows, spread
from benchmarks.targets import BESIDE, TARGETS, Comparison, Target, Verdict, compare, judge

LABELS = {(run.order.scenario, run.order.link, run.label) for run in runs()}


def sample(contender: str, round: int, scenario: str = "A", **figures: float) -> Sample:
    return Sample(scenario, "stdio", contender, round, figures, "" if figures else "it failed")


def rates(contender: str, *values: float) -> list[Sample]:
    return [sample(contender, number, per_second=value, cpu_us=100 / value) for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([5.0], 0.0), ([90.0, 110.0], 10.0), ([80.0, 100.0, 120.0], 20.0), ([0.0, 0.0], 0.0)],
)
def test_spread_of_few_values_reaches_to_the_ends(values: list[float], expected: float) -> None:
    assert spread(values) == pytest.approx(expected)


def test_spread_of_many_values_leaves_outliers_out() -> None:
    assert spread([100, 101, 99, 100, 1000]) < 1


def test_ratios_are_taken_within_a_round() -> None:
    """The machine was twice as fast in the second round, for both."""
    samples = rates("ours", 100, 200, 90) + rates("floor", 100, 200, 100)
    assert median_ratio(samples, ("A", "stdio", "ours"), ("A", "stdio", "floor"), "per_second") == (1.0, 3)


def test_a_round_without_its_partner_has_no_ratio() -> None:
    samples = [*rates("ours", 50, 100), sample("floor", 0), sample("floor", 1, per_second=200.0)]
    assert median_ratio(samples, ("A", "stdio", "ours"), ("A", "stdio", "floor"), "per_second") == (0.5, 1)
    assert median_ratio(samples, ("A", "stdio", "ours"), ("A", "stdio", "nobody"), "per_second") is None


def test_nothing_is_a_part_of_nothing() -> None:
    samples = [sample("ours", 0, growth_mb=3.0), sample("floor", 0, growth_mb=0.0)]
    assert median_ratio(samples, ("A", "stdio", "ours"), ("A", "stdio", "floor"), "growth_mb") is None


def test_median_of_a_figure() -> None:
    assert median_of(rates("ours", 1, 3, 2), ("A", "stdio", "ours"), "per_second") == (2, 3)
    assert median_of(rates("ours", 1, 3, 2), ("A", "stdio", "ours"), "p99_us") is None


def test_rows_have_medians_and_ratios() -> None:
    floor, ours = rows(rates("floor", 100, 100) + rates("ours", 150, 250), {("A", "stdio"): "floor"})
    assert (floor.contender, floor.ratio, floor.cpu_ratio) == ("floor", 1.0, 1.0)
    assert (ours.rounds, ours.figures["per_second"], ours.ratio) == (2, 200.0, 2.0)
    assert ours.cpu_ratio == pytest.approx((100 / 150 + 100 / 250) / 2)


def test_where_less_is_better_a_higher_ratio_is_still_the_better_one() -> None:
    samples = [Sample("G", "stdio", "ours", 0, {"ms": 50.0}), Sample("G", "stdio", "theirs", 0, {"ms": 200.0})]
    ours, theirs = rows(samples, {("G", "stdio"): "theirs"})
    assert (ours.ratio, theirs.ratio) == (4.0, 1.0)


def test_what_failed_has_no_row() -> None:
    assert rows([sample("ours", 0)], {}) == []


def test_every_target_and_floor_is_somebody_who_takes_part() -> None:
    for target in TARGETS:
        assert (target.scenario, target.link, target.subject) in LABELS, target
        assert not target.reference or (target.scenario, target.link, target.reference) in LABELS, target
    for pair in BESIDE:
        assert {(pair.scenario, pair.link, name) for name in (pair.subject, pair.reference)} <= LABELS, pair
    for (scenario, link), floor in FLOORS.items():
        assert (scenario, link, floor) in LABELS


def test_every_scenario_and_link_is_run() -> None:
    assert {scenario for scenario, _, _ in LABELS} == set(SCENARIOS)
    assert {link for _, link, _ in LABELS} == set(LINKS)


@pytest.mark.parametrize(
    ("at_least", "value", "met", "missed_by"),
    [(True, 2.0, True, 0.0), (True, 1.5, False, 25.0), (False, 2.0, True, 0.0), (False, 3.0, False, 50.0)],
)
def test_a_verdict_says_by_how_much(at_least: bool, value: float, met: bool, missed_by: float) -> None:
    verdict = Verdict(Target("A", "stdio", "ours", "theirs", "per_second", 2.0, at_least), value, 5)
    assert verdict.met is met
    assert verdict.missed_by == pytest.approx(missed_by)


def test_targets_are_judged_by_their_own_figure() -> None:
    samples = [
        sample("ours", 0, "E", per_second=50.0, p99_us=30.0),
        sample("theirs", 0, "E", per_second=100.0, p99_us=60.0),
    ]
    targets = (
        Target("E", "stdio", "ours", "theirs", "per_second", 0.9),
        Target("E", "stdio", "ours", "theirs", "p99_us", 0.5, at_least=False),
        Target("E", "stdio", "ours", "", "p99_us", 31.0, at_least=False),
        Target("E", "ws", "ours", "theirs", "per_second", 0.9),
    )
    verdicts = judge(samples, targets)
    assert [(verdict.value, verdict.met) for verdict in verdicts] == [
        (0.5, False),
        (0.5, True),
        (30.0, True),
        (None, False),
    ]
    assert verdicts[-1].missed_by == 0.0


def test_the_flood_is_judged_against_the_driving_that_its_target_was_set_with() -> None:
    """The better driving of the same peer is shown beside it, and judged by no bound."""
    samples = [
        sample("mcpl_core inline", 0, "C", per_second=900.0),
        sample("TypeScript core", 0, "C", per_second=500.0),
        sample("TypeScript core, timer", 0, "C", per_second=300.0),
    ]
    (verdict,) = (verdict for verdict in judge(samples) if verdict.value is not None)
    assert (verdict.target.reference, verdict.value, verdict.met) == ("TypeScript core, timer", 3.0, True)
    (beside,) = compare(samples)
    assert (beside.comparison.reference, beside.value, beside.rounds) == ("TypeScript core", 1.8, 1)


def test_what_did_not_run_is_not_compared() -> None:
    (beside,) = compare(rates("ours", 1.0), (Comparison("A", "stdio", "ours", "theirs", "per_second"),))
    assert (beside.value, beside.rounds) == (None, 0)
