"""The command as a whole: its errors, its help, and the command without its extra."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mcpl_core._version import __version__
from mcpl_core.cli import app, main
from mcpl_core.cli.output import CommandError


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "conformance, digest"),
        (["nonsense"], "nonsense"),
        (["nonsense"], "; mcpl --help says more"),
        (["digest"], "file"),
        (["digest"], "; mcpl digest --help says more"),
        (["approvals", "show"], "; mcpl approvals show --help says more"),
        (["digest", "a", "b"], "b"),
        (["conformance", "--nonsense"], "--nonsense"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_a_usage_error_is_one_line(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mcpl: ") and captured.err.count("\n") == 1
    assert word in captured.err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mcpl {__version__}\n"


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert [name for name, _ in app.COMMANDS if name not in text] == []
    assert [name for name, _ in app.GROUPS if name not in text] == []
    for name, _ in [*app.COMMANDS, *app.GROUPS]:
        assert main([name, "--help"]) == 0


def test_the_arguments_of_the_process_are_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mcpl", "--version"])
    assert main() == 0
    assert __version__ in capsys.readouterr().out


class Raises:
    """Stands for the argument parser when a command ends in an exception."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, **_: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (CommandError("do this\nand that"), 2, "mcpl: do this and that\n"),
        (CommandError("failed", 1), 1, "mcpl: failed\n"),
        (KeyboardInterrupt(), 130, "mcpl: interrupted\n"),
    ],
)
def test_how_a_command_may_end(
    error: BaseException, status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "_app", Raises(error))
    assert app.run([]) == status
    assert capsys.readouterr().err == text


def test_nothing_in_an_error_acts_upon_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "_app", Raises(CommandError("no \x1b[2J\u202efile\x9b")))
    assert app.run([]) == 2
    assert capsys.readouterr().err == "mcpl: no \\u001b[2J\\u202efile\\u009b\n"


def test_a_defect_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_app", Raises(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        app.run([])


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_extra_the_command_says_how_to_get_it(missing: str) -> None:
    done = python(
        f"import sys; sys.modules[{missing!r}] = None\nfrom mcpl_core.cli import main\nsys.exit(main(['--help']))"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'mcp-live-core[cli]'" in done.stderr and done.stderr.count("\n") == 1


def test_another_missing_module_is_not_blamed_on_the_extra() -> None:
    done = python("import sys; sys.modules['mcpl_core.cli.app'] = None\nimport mcpl_core.cli")
    assert done.returncode == 1 and "ModuleNotFoundError" in done.stderr
