"""A console for programs: what would be printed for people, as one JSON object a line.

Owns: the three kinds of lines: ``{"section"}``, ``{"text"}`` and ``{"direction", "message"}``. Does not own: what is
told.
"""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.text import Text

from ..errors import InvalidValueError
from ..transports.tap import Direction
from ..wire.values import decode_value

__all__ = ("JsonConsole",)


class JsonConsole(Console):
    """Takes what a ``Console`` takes, and prints it without colour, width and markup."""

    def print(self, *objects: Any, **options: Any) -> None:
        """One ``{"text"}`` line for what has text."""
        text = " ".join(Text.from_markup(item).plain if isinstance(item, str) else str(item) for item in objects)
        if text.strip():
            self._line({"text": text.strip()})

    def rule(self, title: Any = "", **options: Any) -> None:
        """A ``{"section"}`` line."""
        self._line({"section": str(title)})

    def show(self, direction: Direction, message: bytes) -> None:
        """A message as it passed: the JSON value, or its text when it is none."""
        value: Any
        try:
            value = decode_value(message)
        except InvalidValueError:
            value = message.decode(errors="replace")
        self._line({"direction": direction, "message": value})

    def _line(self, value: dict[str, Any]) -> None:
        self.file.write(json.dumps(value) + "\n")
        self.file.flush()
