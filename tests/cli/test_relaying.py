"""A relay as a command, inside this process: its notices and its statuses."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpl_core.cli import relaying as module
from mcpl_core.cli.listening import ListenOptions
from mcpl_core.cli.notices import Notices
from mcpl_core.cli.options import _WORDS
from mcpl_core.cli.output import CommandError
from mcpl_core.cli.relaying import Relaying
from mcpl_core.cli.target import TargetOptions
from mcpl_core.errors import MalformedMessageError
from mcpl_core.testing import Recorder, ScriptedTransport

CAT = [sys.executable, "-c", "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"]


@pytest.fixture
def stdio(monkeypatch: pytest.MonkeyPatch) -> ScriptedTransport:
    """Stands for standard input and output."""
    script = ScriptedTransport()
    monkeypatch.setattr(module, "StdioTransport", lambda **_: script)
    return script


def made(words: list[str], **listening: Any) -> Relaying:
    context: Any = SimpleNamespace(meta={_WORDS: words})
    return Relaying(TargetOptions(context), ListenOptions(**listening), Notices("relay"))


def test_it_relays_and_records(stdio: ScriptedTransport) -> None:
    stdio.feed(b"1", b"2")
    stdio.end()
    recorder = Recorder()
    assert made(CAT).run(recorder) == 0
    assert stdio.sent == [b"1", b"2"]
    assert sorted((entry.direction, entry.message) for entry in recorder.entries) == [
        ("to-host", b"1"), ("to-host", b"2"), ("to-server", b"1"), ("to-server", b"2"),
    ]  # fmt: skip


def test_what_is_dropped_is_told(stdio: ScriptedTransport, capsys: pytest.CaptureFixture[str]) -> None:
    stdio.malformed(MalformedMessageError("binary"))
    stdio.end()
    assert made(CAT).run() == 0
    assert "malformed message (binary)" in capsys.readouterr().err


def test_a_record_that_cannot_be_written_ends_it(stdio: ScriptedTransport, tmp_path: Path) -> None:
    class Full(Recorder):
        def record(self, *arguments: Any, **options: Any) -> None:
            raise OSError(28, "No space left on device")

    stdio.feed(b"1")
    with pytest.raises(CommandError, match="No space left") as caught:
        made(CAT).run(Full())
    assert caught.value.status == 1


def test_a_server_that_cannot_be_started(stdio: ScriptedTransport) -> None:
    with pytest.raises(CommandError, match="name of the program") as caught:
        made(["/nonexistent/server"]).run()
    assert caught.value.status == 1


def test_the_options_are_looked_at_first() -> None:
    made(CAT).check()
    made(CAT, listen="ws://127.0.0.1:0").check()
    for wrong in (made([]), made(CAT, listen="nonsense"), made(CAT, cert="x")):
        with pytest.raises(CommandError):
            wrong.check()
    with pytest.raises(CommandError):
        made(CAT, cert="x").run()
