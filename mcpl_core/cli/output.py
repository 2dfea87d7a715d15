"""What the commands print, and how they read what they are given.

Owns: colour and tables on a terminal and plain text elsewhere, the reading of JSON files, and the error that ends
a command. Does not own: what is printed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcpl_core.wire.values import load_lenient

__all__ = ("CommandError", "Output", "read_json", "read_text", "safe_text")

#: What a terminal acts upon instead of showing it: control characters, and those that turn the writing direction.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069]")


def safe_text(text: str) -> str:
    """Text from elsewhere, fit for a terminal: what is no character to be seen is written as its code."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class CommandError(Exception):
    """A command cannot go on. Its text is one line that says what to do.

    Attributes:
        status: the exit status.
    """

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


class Output:
    """Standard output: through ``rich`` on a terminal, plain elsewhere.

    Args:
        stderr: whether to write to standard error instead, where the output belongs to a protocol.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        self._file = sys.stderr if stderr else sys.stdout
        self._console = Console(file=self._file, highlight=False, soft_wrap=True) if self._file.isatty() else None

    def line(self, text: str, style: str = "") -> None:
        """One line. ``style`` is a colour for a terminal."""
        text = safe_text(text)
        if self._console is None:
            print(text, file=self._file, flush=True)
        else:
            self._console.print(Text(text, style))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table whose columns are text on the left and numbers on the right."""
        cells = [[safe_text(str(cell)) for cell in row] for row in rows]
        numeric = [all(isinstance(row[index], int) for row in rows) for index in range(len(columns))]
        if self._console is not None:
            table = Table()
            for column, number in zip(columns, numeric, strict=True):
                table.add_column(column, justify="right" if number else "left")
            for row in cells:
                table.add_row(*map(Text, row))
            self._console.print(table)
            return
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        for line in [list(columns), *cells]:
            padded = (
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(line, widths, numeric, strict=True)
            )
            print("  ".join(padded).rstrip(), file=self._file, flush=True)


def read_text(source: str) -> bytes:
    """The bytes of a file, or of standard input for ``-``.

    Raises:
        CommandError: it cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as exc:
        raise CommandError(f"cannot read {source}: {exc.strerror or exc}") from exc


def read_json(source: str) -> Any:
    """The JSON value in a file, or on standard input for ``-``.

    Raises:
        CommandError: it cannot be read or is no JSON.
    """
    try:
        return load_lenient(read_text(source))
    except RecursionError as exc:
        raise CommandError(f"{source} is nested too deeply to be read") from exc
    except ValueError as exc:
        raise CommandError(f"{source} is no JSON: {exc}") from exc
