"""What is said meanwhile: a line for people, an object for programs."""

from __future__ import annotations

import io
import json
import sys

import pytest

from mcpl_core.cli.notices import Notices


def test_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notices("relay")
    notices.say("listening", "listening on\n x \x1b[2J", endpoint="x")
    notices.warn("problem", "oh")
    notices.server_line("as it came")
    with notices.busy("waiting"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "mcpl relay: listening on x \\u001b[2J\nmcpl relay: oh\nas it came\n"


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notices("relay", as_json=True)
    notices.say("listening", "listening on x", endpoint="x")
    notices.server_line("hello")
    assert [json.loads(line) for line in capsys.readouterr().err.splitlines()] == [
        {"event": "listening", "text": "listening on x", "endpoint": "x"},
        {"event": "stderr", "text": "hello", "line": "hello"},
    ]


def test_quiet_warns_only(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notices("relay", quiet=True)
    notices.say("listening", "listening")
    notices.server_line("hello")
    notices.warn("problem", "oh")
    assert capsys.readouterr().err == "mcpl relay: oh\n"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    notices = Notices("relay")
    notices.warn("problem", "oh [bold]")
    with notices.busy("waiting"):
        pass
    text = screen.getvalue()
    assert "oh [bold]" in text and "\x1b[33m" in text
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l") > 0


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_nobody_reads_it_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Closed())
    Notices("relay").say("listening", "listening")
