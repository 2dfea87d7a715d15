"""The command line of the benchmarks: what it chooses, what it refuses, and what is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import meter
from benchmarks.catalog import Contender, missing, runs
from benchmarks.options import QUICK, chosen, parse
from benchmarks.targets import BESIDE, TARGETS
from benchmarks.workload import Order


def test_what_stands_for_what() -> None:
    options = parse(
        ["--scenario", "A,D", "--loop", "trio", "--rounds", "3", "--seconds", "0.2", "--only", "^mcpl_core,"]
    )
    plan, _ = chosen(options, (0, 1))
    assert {run.order.scenario for run in plan} == {"A", "D1", "D16"}
    assert {run.label for run in plan} <= {"mcpl_core, trio"}
    assert {(run.order.seconds, run.order.warm_up, run.order.cpus) for run in plan} <= {(0.2, 0.1, (0, 1))}
    assert options.rounds == 3


def test_without_options_everything_that_is_there_is_run() -> None:
    options = parse([])
    plan, absent = chosen(options, ())
    assert (options.rounds, options.seconds, options.seconds_in_all) == (5, 0.5, None)
    assert len(plan) == sum(not missing(run.contender, run.order) for run in runs())
    assert bool(absent) == (len(plan) < len(list(runs())))


def test_quick_is_a_choice_within_a_minute() -> None:
    options = parse(["--quick"])
    labels = {(run.order.scenario, run.order.link, run.label) for run in runs()}
    assert {(*place, name) for place, names in QUICK.items() for name in names} <= labels
    assert (options.rounds, options.seconds_in_all is not None and options.seconds_in_all < 60) == (1, True)
    plan, _ = chosen(options, ())
    places = [(run.order.scenario, run.order.link) for run in plan]
    assert list(dict.fromkeys(places)) == [place for place in QUICK if place in places]


def test_quick_runs_what_the_targets_of_its_scenarios_judge() -> None:
    for pair in (*TARGETS, *BESIDE):
        names = QUICK.get((pair.scenario, pair.link))
        assert names is None or {pair.subject, pair.reference} - {""} <= set(names), pair


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scenario", "Z"],
        ["--scenario", ""],
        ["--link", "carrier pigeon"],
        ["--loop", "twisted"],
        ["--rounds", "0"],
        ["--rounds", "many"],
        ["--seconds", "0"],
        ["--seconds", "-1"],
        ["--seconds", "nan"],
        ["--seconds", "long"],
        ["--only", "("],
        ["--plot", "figure.gif"],
    ],
)
def test_nonsense_is_refused_at_once(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(arguments)
    assert caught.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_peer_that_is_not_installed_is_passed_over_with_one_line() -> None:
    absent = Contender("absent", "nowhere", "", {"stdio": ("A", "B")}, ("asyncio", "uvloop"), ("no_such_library",))
    plan, lines = chosen(parse(["--loop", "asyncio"]), (), runs((absent,)))
    assert plan == []
    assert len(lines) == 1 and "no_such_library" in lines[0]


def test_one_line_names_all_that_the_same_thing_keeps_out() -> None:
    one, two = (Contender(name, name, "", {"stdio": ("A", "B")}, needs=("no_such_library",)) for name in ("one", "two"))
    _, (line,) = chosen(parse([]), (), runs((one, two)))
    assert line.endswith(": one (stdio); two (stdio)")


def test_memory_is_measured_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "LINUX", False)
    peer = Contender("peer", "program", "", {"stdio": ("A", "F")})
    assert not missing(peer, Order("A"))
    assert missing(peer, Order("F"))


def test_a_setting_that_names_no_file_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    peer = Contender("peer", "program", "", {"stdio": ("A",)}, settings={"": "PEER_A", "ws": "PEER_B"})
    monkeypatch.delenv("PEER_A", raising=False)
    monkeypatch.setenv("PEER_B", str(tmp_path / "absent"))
    assert "PEER_A" in missing(peer, Order("A"))
    (tmp_path / "present").touch()
    monkeypatch.setenv("PEER_A", str(tmp_path / "present"))
    assert missing(peer, Order("A")) == ""
    assert "PEER_B" in missing(peer, Order("A", "ws"))


def test_an_order_travels_as_text() -> None:
    order = Order("F", "ws", "trio", "pull", cpus=(0, 1), gate="g")
    assert Order.read(order.text) == order
    assert Order.read('{"scenario": "A"}') == Order("A")
