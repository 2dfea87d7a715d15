"""What the benchmarks print, write and draw."""

from __future__ import annotations

import traceback
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from benchmarks import __main__ as command
from benchmarks import markdown, plot, report
from benchmarks.__main__ import main
from benchmarks.catalog import FLOORS
from benchmarks.drive import WrongAnswerError
from benchmarks.figures import Sample, rows
from benchmarks.record import Record, combine, machine, read_record, write_record
from benchmarks.targets import Beside, Comparison, compare, judge

SAMPLES = [
    Sample("A", "stdio", "floor", 0, {"per_second": 10_000.0, "cpu_us": 60.0, "p50_us": 90.0, "p99_us": 150.0}),
    Sample("A", "stdio", "mcpl_core", 0, {"per_second": 8_000.0, "cpu_us": 66.0, "p50_us": 95.0, "p99_us": 160.0}),
    Sample("A", "stdio", "pygls", 0, {}, "Traceback\nConnectionResetError: the server ended"),
    Sample("E", "ws", "websockets", 0, {"per_second": 40_000.0, "cpu_us": 30.0, "p99_us": 600.0}),
    Sample("A", "stdio", "mcpl_core inline", 0, {"per_second": 8_000.0, "cpu_us": 60.0, "p99_us": 150.0}),
    Sample("D1", "stdio", "mcpl_core", 0, {"per_second": 200.0, "cpu_us": 5_000.0}),
    Sample("F", "stdio", "mcpl_core", 0, {"growth_mb": 1.5, "sender_mb": 0.5, "receiver_mb": 1.0}),
    Sample("G", "stdio", "import mcpl_core", 0, {"ms": 50.0}),
    Sample("G", "stdio", "import mcp", 0, {"ms": 500.0}),
]
ROWS = rows(SAMPLES, FLOORS)
VERDICTS = judge(SAMPLES)
COMPARED = compare(SAMPLES, (Comparison("A", "stdio", "mcpl_core inline", "floor", "per_second"),))
RECORD = Record({"kind": "a machine", "python": "Python", "command": "python -m benchmarks --rounds 1"}, SAMPLES)


def test_the_tables_show_what_was_measured() -> None:
    text = report.tables(ROWS)
    assert "A, stdio: one request after the other" in text
    line = next(line for line in text.splitlines() if line.startswith("mcpl_core"))
    assert {"8,000", "0.80", "1.10"} <= set(line.split())


def test_verdicts_name_what_is_missed_and_by_how_much() -> None:
    text = report.verdicts(VERDICTS)
    assert "2 of 3 that were measured are met" in text
    assert "missed by 11 %" in text


def test_what_is_compared_beside_the_targets_has_a_line_of_its_own() -> None:
    line = report.beside(COMPARED).splitlines()[-1]
    assert line.split() == ["A", "stdio", "mcpl_core", "inline", "floor", "per_second", "0.80", "1"]
    assert report.beside([Beside(COMPARED[0].comparison, None, 0)]) == ""


def test_one_round_has_no_spread() -> None:
    once, twice = (report.tables(rows(SAMPLES[:1] * times, {})).split() for times in (1, 2))
    assert (once[-2:], twice[-2:]) == (["60.0", "1"], ["0", "2"])


def test_failures_show_the_last_line() -> None:
    (line,) = report.failures(SAMPLES)
    assert "pygls" in line and line.endswith("ConnectionResetError: the server ended")


def test_failures_of_a_group_show_the_last_line_that_says_something() -> None:
    try:
        raise ExceptionGroup("several", [ValueError("the first"), WrongAnswerError("the second")])
    except ExceptionGroup:
        said = traceback.format_exc()
    (line,) = report.failures([Sample("B", "stdio", "peer", 0, {}, said.strip())])
    assert line.endswith(": benchmarks.drive.WrongAnswerError: the second")
    assert report.failures([Sample("B", "stdio", "peer", 0, {}, "---")])[0].endswith("---")


def test_the_short_tables_are_markdown() -> None:
    text = markdown.summary(ROWS, VERDICTS, COMPARED, RECORD.machine)
    lines = text.splitlines()
    assert "`python -m benchmarks --rounds 1`: a machine" in text
    assert "| mcpl_core | 8,000 (0.80) | 5.00 |" in lines
    assert "| websockets | 40,000 (1.00) | 600 |" in lines
    assert any("10.0 x import mcp" in line for line in lines)
    assert any("missed by 11 %" in line for line in lines)
    assert [line for line in lines if "beside the targets" in line and "0.80 of floor" in line] == lines[-1:]
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1


def test_the_plot_is_well_formed_and_has_a_bar_for_each_row() -> None:
    root = ElementTree.fromstring(plot.draw(ROWS, "ours & theirs"))
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "ours & theirs" in texts
    assert {row.contender for row in ROWS} <= set(texts)
    of_latency = [row for row in ROWS if row.scenario == "E"]
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == 1 + len(ROWS) + len(of_latency)
    assert {"E, ws", "E, ws: latency", "600"} <= set(texts)


def test_a_plot_of_nothing_is_a_picture_too() -> None:
    assert ElementTree.fromstring(plot.draw([], "nothing")).tag.endswith("svg")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "series.json"
    write_record(path, RECORD, ROWS, VERDICTS, COMPARED)
    assert read_record(path) == RECORD
    whole = msgspec.json.decode(path.read_bytes())
    assert len(whole["rows"]) == len(ROWS)
    assert {"scenario", "bound", "value", "met"} <= whole["verdicts"][0].keys()
    assert [(pair["reference"], pair["value"], pair["rounds"]) for pair in whole["beside"]] == [("floor", 0.8, 1)]


def test_series_are_put_together_round_after_round() -> None:
    whole = combine([RECORD, RECORD, RECORD])
    assert len(whole.samples) == 3 * len(SAMPLES)
    assert {sample.round for sample in whole.samples} == {0, 1, 2}


def test_earlier_series_are_reported_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    series, picture, again = tmp_path / "series.json", tmp_path / "figure.svg", tmp_path / "again.json"
    write_record(series, RECORD, ROWS, VERDICTS, COMPARED)
    status = main(["--from", str(series), str(series), "--markdown", "--plot", str(picture), "--json", str(again)])
    assert status == 1, "a failure in it is one"
    assert "medians of 2 rounds" in capsys.readouterr().out
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert len(read_record(again).samples) == 2 * len(SAMPLES)


def test_what_is_no_record_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "series.json"
    path.write_text("[]")
    assert main(["--from", str(path)]) == 2
    assert main(["--from", str(tmp_path / "absent.json")]) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize(("option", "name"), [("--json", "series.json"), ("--plot", "figure.svg")])
def test_where_nothing_can_be_written_is_said_before_anything_is_measured(
    option: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run_rounds", lambda *arguments, **more: pytest.fail("it was measured"))
    assert main(["--scenario", "A", option, str(tmp_path / "absent" / name)]) == 2
    assert name in capsys.readouterr().err


def test_what_stands_in_a_file_is_kept_until_there_is_something_else(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.svg"
    old.write_text("[]")
    assert main(["--from", str(tmp_path / "absent.json"), "--json", str(old), "--plot", str(new)]) == 2
    assert (old.read_text(), new.exists()) == ("[]", False)


def test_the_machine_is_a_kind_and_not_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (3.25, 2.0, 1.0), raising=False)
    facts = machine()
    assert {"kind", "python", "msgspec"} <= facts.keys()
    assert facts["load"] == "3.2"
    assert "cores" in facts["kind"]
