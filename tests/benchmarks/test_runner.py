"""Rounds and processes of the benchmarks: interleaved, bounded in time, and no figure from a wrong answer."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from benchmarks import __main__ as command
from benchmarks import workload
from benchmarks.__main__ import main
from benchmarks.catalog import CONTENDERS, Contender, Run, runs
from benchmarks.figures import Sample
from benchmarks.record import read_record
from benchmarks.runner import ROOT, command_of, run_once, run_rounds, two_processors
from benchmarks.workload import Order

A, B = (Run(Contender(name, name, "", {"stdio": ("A",)}), Order("A")) for name in ("a", "b"))


class Machine:
    """Runs nothing, and takes a second for it."""

    def __init__(self, failing: str = "") -> None:
        self.now = 100.0
        self.failing = failing
        self.told: list[tuple[int, str]] = []
        self.timeouts: list[float | None] = []

    def clock(self) -> float:
        return self.now

    def once(self, run: Run, round: int, timeout: float | None) -> Sample:
        self.now += 1.0
        self.timeouts.append(timeout)
        error = "it failed" if run.label == self.failing else ""
        return Sample("A", "stdio", run.label, round, {} if error else {"per_second": 1.0}, error)

    def tell(self, run: Run, sample: Sample) -> None:
        self.told.append((sample.round, run.label))


def test_contenders_take_turns_in_each_round() -> None:
    machine = Machine()
    samples, left_out = run_rounds([A, B], 2, tell=machine.tell, clock=machine.clock, once=machine.once)
    assert machine.told == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert (len(samples), left_out, machine.timeouts) == (4, [], [None] * 4)


def test_who_fails_twice_is_left_out() -> None:
    machine = Machine(failing="a")
    run_rounds([A, B], 4, tell=machine.tell, once=machine.once)
    assert [label for _, label in machine.told] == ["a", "b", "a", "b", "b", "b"]


def test_nothing_is_begun_when_the_time_is_up() -> None:
    machine = Machine()
    samples, left_out = run_rounds([A, B], 2, seconds_in_all=2.5, clock=machine.clock, once=machine.once)
    assert [sample.contender for sample in samples] == ["a", "b", "a"]
    assert left_out == [B]
    assert machine.timeouts == [12.5, 11.5, 10.5], "what hangs is given up soon after"


def test_a_process_that_hangs_is_given_up() -> None:
    run = next(run for run in runs() if run.label == "floor")
    assert "not done within" in run_once(run, timeout=0).error


def test_a_process_that_dies_says_why() -> None:
    run = Run(Contender("wrong", "floor", "", {"stdio": ("Z",)}), Order("Z"))
    sample = run_once(run, 3)
    assert (sample.figures, sample.round) == ({}, 3)
    assert "no scenario Z" in sample.error.splitlines()[-1]


def test_two_processors_or_none() -> None:
    assert len(two_processors()) in (0, 2)


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_every_program_is_there(contender: Contender) -> None:
    folder = ROOT / "benchmarks" / "contenders"
    name = contender.program if contender.program.endswith(".mjs") else f"{contender.program}.py"
    assert (folder / name).is_file()
    assert command_of(Run(contender, Order("A")))[-2:] == ["client", Order("A").text]


def test_the_program_for_node_sends_the_same() -> None:
    path = ROOT / "benchmarks" / "contenders" / "typescript_core.mjs"
    text = path.read_text(encoding="utf-8")
    for value in workload.SMALL.values():
        assert json.dumps(value).strip('"') in text
    widths = {name: width for name, width in workload.WIDTHS.items() if name != "T"}
    assert f"const WIDTHS = {{ {', '.join(f'{name}: {width}' for name, width in widths.items())} }};" in text
    assert f"const FLOOD_ROUND = {workload.FLOOD_ROUND};" in text
    assert f"const NOTE_BYTES = {workload.NOTE_BYTES};" in text
    if node := shutil.which("node"):
        subprocess.run([node, "--check", path], check=True)


QUICKLY = {"seconds": 0.02, "warm_up": 0.01, "servers": 2, "stalled_bytes": 100_000, "settle": 0.0}


def _run(label: str, scenario: str, link: str) -> Run:
    run = next(run for run in runs() if (run.label, run.order.scenario, run.order.link) == (label, scenario, link))
    return run._replace(order=replace(run.order, **QUICKLY))


@pytest.mark.parametrize(
    ("label", "scenario", "link"),
    [
        ("floor", "B", "stdio"),
        ("floor, blocking", "C", "stdio"),
        ("websockets", "E", "ws"),
        ("mcpl_core, trio", "C", "stdio"),
        ("mcpl_core router", "A", "stdio"),
        ("floor, blocking", "A", "stdio"),
        ("floor, blocking", "D1", "stdio"),
        ("mcpl_core", "F", "stdio"),
        ("mcpl_core", "F", "ws"),
        ("websockets", "F", "ws"),
        ("mcpl_core inline", "B", "ws"),
        ("mcpl_core tools", "T", "stdio"),
        ("mcpl_core host", "S", "memory"),
        ("mcpl_core relay", "R", "ws"),
        ("canonical_bytes", "H", "memory"),
        ("import msgspec, anyio", "G", "stdio"),
    ],
)
def test_a_few_messages_through_real_processes(label: str, scenario: str, link: str) -> None:
    """Right answers and right counts, whatever the time they take; a wrong one would be an error."""
    sample = run_once(_run(label, scenario, link))
    assert sample.error == ""
    assert sample.figures.get("drained", 1) == 1, "what waited for a stalled reader did not arrive"
    assert all(value >= 0 for name, value in sample.figures.items() if name != "added_us")


@pytest.mark.skipif(find_spec("mcp") is None, reason="the peer is not installed")
def test_a_few_messages_through_a_peer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "series.json"
    chosen = ["--only", "^mcp tools$", "--scenario", "T", "--link", "memory"]
    assert main([*chosen, "--rounds", "1", "--seconds", "0.02", "--json", str(path)]) == 0
    (sample,) = read_record(path).samples
    assert sample.figures["operations"] >= 64
    assert "mcp tools" in capsys.readouterr().out


class Interrupted:
    """The second measurement is interrupted."""

    def __init__(self, first: Sample | None) -> None:
        self.first = first

    def __call__(self, plan: list[Run], rounds: int, **more: Any) -> None:
        if self.first is not None:
            more["tell"](plan[0], self.first)
        raise KeyboardInterrupt


def test_what_was_measured_before_an_interruption_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "series.json"
    arguments = ["--only", "^floor$", "--scenario", "A", "--json", str(path)]
    monkeypatch.setattr(command, "run_rounds", Interrupted(None))
    assert main(arguments) == 130
    assert not path.exists()
    sample = Sample("A", "stdio", "floor", 0, {"per_second": 4321.0})
    monkeypatch.setattr(command, "run_rounds", Interrupted(sample))
    assert main(arguments) == 130
    assert read_record(path).samples == [sample]
    assert "4,321" in capsys.readouterr().out


def test_an_interruption_ends_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def interrupt(process: subprocess.Popen[bytes], **more: Any) -> None:
        begun.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_once(next(run for run in runs() if run.label == "floor"))
    (process,) = begun
    assert process.returncode == -signal.SIGKILL


def test_nothing_to_run_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "^nobody$"]) == 2
    assert main(["--only", "^nobody$", "--list"]) == 0
    assert capsys.readouterr().err


def test_listing_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only", "^floor$", "--scenario", "A"]) == 0
    assert capsys.readouterr().out == "A stdio floor\n"
