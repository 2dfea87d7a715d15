"""Plain text elsewhere, colour and tables on a terminal; files and the errors of reading them."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from mcpl_core.cli.output import CommandError, Output, read_json, read_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


ROWS = [("uris", 9, "a"), ("tags [x]", 10, "longer")]


def test_plain_lines_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    output.line("[bold]text[/] " + "x" * 200, "red")
    output.table(("family", "n", "file"), ROWS)
    assert capsys.readouterr().out == (
        "[bold]text[/] " + "x" * 200 + "\n"
        "family     n  file\n"
        "uris       9  a\n"
        "tags [x]  10  longer\n"
    )  # fmt: skip


def test_a_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(("family", "n"), [])
    assert capsys.readouterr().out == "family  n\n"


def test_a_terminal_gets_colour_and_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    output = Output()
    output.line("[text] " + "x" * 200, "red")
    output.line("plain")
    output.table(("family", "n", "file"), ROWS)
    text = terminal.getvalue()
    assert "\x1b[31m[text] " + "x" * 200 in text
    assert "plain\n" in text
    assert "tags [x]" in text and "\u2502" in text


@pytest.mark.parametrize(
    ("content", "value"),
    [(b'{"a": 1}', {"a": 1}), ('"\u00e9"'.encode(), "\u00e9"), (b'"\\ud800"', "\ud800"), (b" [] ", [])],
)
def test_json_files(content: bytes, value: object, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert read_json(str(path)) == value


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[1]")))
    assert read_json("-") == [1]


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"a": NaN}', b"[1e400]", b'"\xff"', b"[" * 100_000 + b"]" * 100_000, b"\xef\xbb\xbf{}"]
)
def test_what_is_no_json(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(CommandError) as caught:
        read_json(str(path))
    assert caught.value.status == 2
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(CommandError) as caught:
            read_text(str(path))
        assert caught.value.status == 2
