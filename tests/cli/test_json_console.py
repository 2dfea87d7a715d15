"""What a program reads in the place of what people see."""

from __future__ import annotations

import io
import json
from typing import Any

from rich.text import Text

from mcpl_core.cli.json_console import JsonConsole


def _lines(use: Any) -> list[dict[str, Any]]:
    file = io.StringIO()
    use(JsonConsole(file=file))
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_text_without_markup_and_without_width() -> None:
    def use(console: JsonConsole) -> None:
        console.print("\n[bold]a \\[b][/]", soft_wrap=True)
        console.print(Text("x" * 500), "[green]y[/]")
        console.print()

    assert _lines(use) == [{"text": "a [b]"}, {"text": "x" * 500 + " y"}]


def test_sections() -> None:
    assert _lines(lambda console: console.rule("over stdio")) == [{"section": "over stdio"}]


def test_messages_as_values_or_as_text() -> None:
    def use(console: JsonConsole) -> None:
        console.show("sent", b'{"a":[1,"\\ud800"]}')
        console.show("received", b"hello \xff")

    assert _lines(use) == [
        {"direction": "sent", "message": {"a": [1, "\ud800"]}},
        {"direction": "received", "message": "hello \ufffd"},
    ]
