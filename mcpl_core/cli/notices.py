"""What a command has to say while it works, on standard error: the output may belong to a protocol.

Owns: the two forms, a line for people and a JSON object for programs. Does not own: what is said.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from rich.console import Console
from rich.text import Text

from .output import safe_text

__all__ = ("Notices",)


class Notices:
    """Says what happens.

    Args:
        command: who says it.
        as_json: whether to write JSON objects, one a line.
        quiet: whether to keep everything back but warnings.
    """

    def __init__(self, command: str, *, as_json: bool = False, quiet: bool = False) -> None:
        self._command = command
        self._as_json = as_json
        self._quiet = quiet
        self._console = Console(stderr=True, highlight=False, soft_wrap=True) if sys.stderr.isatty() else None

    def say(self, event: str, text: str, **facts: Any) -> None:
        """Something happened.

        Args:
            event: a word for programs.
            text: a line for people.
            facts: members of the JSON object.
        """
        if not self._quiet:
            self._write(event, text, "dim", facts)

    def warn(self, event: str, text: str, **facts: Any) -> None:
        """Something is wrong."""
        self._write(event, text, "yellow", facts)

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Shows, on a terminal, that something is under way, for the length of a block."""
        if self._console is None or self._quiet or self._as_json:
            return nullcontext()
        return self._console.status(Text(safe_text(text)))

    def server_line(self, line: str) -> None:
        """A line that a server wrote to its standard error."""
        if not self._quiet:
            self._write("stderr", line, "", {"line": line}, plain=True)

    def _write(self, event: str, text: str, style: str, facts: dict[str, Any], *, plain: bool = False) -> None:
        line = text if plain else f"mcpl {self._command}: {safe_text(' '.join(text.split()))}"
        with suppress(OSError):  # nobody reads it any more
            if self._as_json:
                print(json.dumps({"event": event, "text": text} | facts), file=sys.stderr, flush=True)
            elif self._console is not None:
                self._console.print(Text(line, style))
            else:
                print(line, file=sys.stderr, flush=True)
