"""The last words of a child process.

Owns: keeping the last lines of its standard error, within bounds, and passing each line on to whoever wants it. Does
not own: reading them (``subprocess`` drains the pipe always, so the child never waits for us).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

__all__ = ("StderrTail",)

#: What is kept of it.
_TAIL_LINES = 50
_TAIL_BYTES = 16 * 1024

_logger = logging.getLogger("mcpl_core")


class StderrTail:
    """Takes the bytes of standard error.

    Args:
        on_line: called with each line, without its ending; undecodable bytes are replaced. What it raises is logged.
        on_progress: called after bytes came in and at the end.

    Attributes:
        over: nothing more comes.
    """

    def __init__(self, on_line: Callable[[str], object] | None, on_progress: Callable[[int], object]) -> None:
        self._on_line = on_line
        self._on_progress = on_progress
        self._lines: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._size = 0
        self._rest = b""
        self.over = False

    def __str__(self) -> str:
        return b"\n".join([*self._lines, self._rest]).decode(errors="replace").strip("\n")

    def data_received(self, data: bytes) -> None:
        """For the input."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)
        while len(self._rest) > _TAIL_BYTES:
            # A line without end is passed on in pieces, else it would be kept whole.
            self._take(self._rest[:_TAIL_BYTES])
            self._rest = self._rest[_TAIL_BYTES:]
        self._on_progress(len(data))

    def input_lost(self, cause: BaseException | None) -> None:
        """For the input."""
        if not self.over:
            self.over = True
            if self._rest:
                self._take(self._rest)
                self._rest = b""
            self._on_progress(0)

    def _take(self, line: bytes) -> None:
        line = line.removesuffix(b"\r")
        self._keep(line)
        if self._on_line is not None:
            try:
                self._on_line(line.decode(errors="replace"))
            except Exception:
                _logger.exception("the callback for lines of standard error failed")

    def _keep(self, line: bytes) -> None:
        line = line[-_TAIL_BYTES:]
        if len(self._lines) == _TAIL_LINES:
            self._size -= len(self._lines[0])
        self._lines.append(line)
        self._size += len(line)
        while self._size > _TAIL_BYTES:
            self._size -= len(self._lines.popleft())
