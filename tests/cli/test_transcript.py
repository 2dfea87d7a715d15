"""Messages as people read them."""

from __future__ import annotations

import io
from typing import Literal

import pytest
from rich.console import Console

from mcpl_core.cli.transcript import Transcript


def _shown(*messages: tuple[str, bytes], terminal: bool = False, width: int = 160) -> str:
    colours: Literal["truecolor"] | None = "truecolor" if terminal else None
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=colours)
    transcript = Transcript(console)
    for direction, message in messages:
        transcript.show("sent" if direction == ">" else "received", message)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_request_and_its_answer() -> None:
    lines = _shown(
        (">", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'),
        ("<", b'{"jsonrpc":"2.0","id":1,"method":"push/event","params":{"a":1}}'),
        ("<", b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'),
        (">", b'{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no"}}'),
    ).splitlines()
    assert ["tools/list #1  {}" in lines[0], 'push/event #1  {"a":1}' in lines[1]] == [True, True]
    assert 'tools/list #1 answered  {"tools":[]}' in lines[2]
    assert "push/event #1 failed" in lines[3]
    assert "\u25b6 server" in lines[0]
    assert "host \u25c0" in lines[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"hello", "not JSON"),
        (b"[1]", "not a message"),
        (b'{"jsonrpc":"2.0","id":9,"result":1}', "? #9 answered"),
        (b'{"jsonrpc":"2.0","method":"a","params":"\\ud800 [bold]x[/bold]"}', "\\ud800 [bold]x[/bold]"),
    ],
)
def test_what_is_odd_is_shown_all_the_same(text: bytes, expected: str) -> None:
    assert expected in _shown(("<", text))


def test_plain_without_a_terminal_and_coloured_with_one() -> None:
    message = (">", b'{"jsonrpc":"2.0","method":"a"}')
    assert "\x1b[" not in _shown(message)
    assert "\x1b[" in _shown(message, terminal=True)


def test_a_long_message_is_one_line_of_the_terminal() -> None:
    message = (">", b'{"jsonrpc":"2.0","method":"a","params":["' + b"x" * 5000 + b'"]}')
    assert [len(line) for line in _shown(message, width=160).splitlines()] == [160]
