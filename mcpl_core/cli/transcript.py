"""Messages on their way, for people to read: one line each, coloured where there is a terminal.

Owns: how a message looks. Does not own: where it comes from (``transports.tap``).
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from ..errors import InvalidValueError
from ..transports.tap import Direction
from ..wire.values import decode_value, encode_value

__all__ = ("Transcript",)

_ARROWS: dict[Direction, tuple[str, str]] = {
    "sent": ("host \u2500\u2500\u25b6 server", "cyan"),
    "received": ("host \u25c0\u2500\u2500 server", "green"),
}


class Transcript:
    """Prints messages as they pass. Give its ``show`` to a ``TappedTransport``.

    Args:
        console: where to.
        width: characters of a line at most; the console's own where it is a terminal.
    """

    def __init__(self, console: Console, width: int = 160) -> None:
        self._console = console
        self._width = console.width if console.is_terminal else width
        #: Methods of requests by direction and id, so that an answer can say what it answers.
        self._asked: dict[tuple[Direction, Any], str] = {}

    def show(self, direction: Direction, message: bytes) -> None:
        """Prints one message."""
        arrow, colour = _ARROWS[direction]
        title, rest = self._describe(direction, message)
        line = Text.assemble((arrow, colour), "  ", (title, f"bold {colour}"), "  ", (rest, "dim"))
        line.truncate(self._width, overflow="ellipsis")
        self._console.print(line, soft_wrap=True)

    def _describe(self, direction: Direction, message: bytes) -> tuple[str, str]:
        try:
            value = decode_value(message)
        except InvalidValueError:
            return "not JSON", repr(message[:80])
        if not isinstance(value, dict):
            return "not a message", _text(value)
        id = value.get("id")
        other: Direction = "received" if direction == "sent" else "sent"
        if "method" in value:
            method = str(value["method"])
            if "id" in value:
                self._asked[direction, str(id)] = method
            return method + (f" #{id}" if "id" in value else ""), _text(value.get("params", {}))
        method = self._asked.pop((other, str(id)), "?")
        if "error" in value:
            return f"{method} #{id} failed", _text(value["error"])
        return f"{method} #{id} answered", _text(value.get("result"))


def _text(value: Any) -> str:
    return encode_value(value).decode()
