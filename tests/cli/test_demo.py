"""The demo, as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcpl_core.cli import demo as demo_module
from mcpl_core.cli import main


def test_it_shows_both_transports(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mcpl_core", "demo"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    for part in ("over stdio", "over a WebSocket"):
        assert part in run.stdout
    for line in ("initialize #1 answered", "featureSets/update #2 answered", "tools/list", "tools/call", "push/event"):
        assert run.stdout.count(line) >= 2, line
    assert run.stdout.count("recomputed: equal") == 2
    assert "\x1b[" not in run.stdout


def test_a_server_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_module, "resource_path", lambda name: tmp_path)
    assert main(["demo"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("mcpl: the demo failed: ")
    assert error.count("\n") == 1


def test_the_same_for_a_program(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mcpl_core", "demo", "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert [line["section"].partition(":")[0] for line in lines if "section" in line] == [
        "over stdio",
        "over a WebSocket",
        "a host and its servers",
        "tools that come and go",
    ]
    sent = [
        line["message"]["method"] for line in lines if line.get("direction") == "sent" and "method" in line["message"]
    ]
    assert sent[:2] == ["initialize", "notifications/initialized"]
    assert lines[-1] == {"text": "done"}
