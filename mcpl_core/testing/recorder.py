"""Recording what passes on a connection.

Owns: from messages that pass to entries, with time and direction and without secrets, in memory or in a file. Does not
own: the form of a line (``transcripts``), what is secret (``redaction``), and where messages pass (a tap, a relay).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from ..transports.base import Transport
from ..transports.tap import Direction, TapObserver, TappedTransport
from ..wire.values import decode_value, encode_value
from .redaction import DEFAULT_REDACTION, Redaction
from .transcripts import Entry, Role, Way, encode_entry, is_json

__all__ = ("Recorder",)

_WAYS: dict[tuple[Role, Direction], Way] = {
    ("host", "sent"): "to-server",
    ("host", "received"): "to-host",
    ("server", "sent"): "to-host",
    ("server", "received"): "to-server",
}


def _now() -> datetime:
    return datetime.now(UTC)


class Recorder:
    """Records messages. A context manager where it writes a file, which is then closed.

    Args:
        path: a file to write, for its owner's eyes only, each message as it passes; what it held before is lost.
            Left out: the entries are kept in ``entries``.
        redaction: what is secret and does not get into the record.
        now: tells the time.

    Attributes:
        entries: what was recorded, when there is no file.
        count: how many messages were recorded.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        redaction: Redaction = DEFAULT_REDACTION,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self.entries: list[Entry] = []
        self.count = 0
        self._redaction = redaction
        self._now = now
        self._file = None if path is None else open(path, "wb", buffering=0, opener=_private)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. Idempotent; nothing can be recorded any more."""
        if self._file is not None:
            self._file.close()

    def tap(self, transport: Transport, role: Role = "host", *, connection: int = 1) -> TappedTransport:
        """``transport`` with this recorder listening.

        Args:
            transport: what carries the messages; owned by what is returned.
            role: what our own side of it is.
            connection: its number.
        """
        return TappedTransport(transport, self.observer(role, connection=connection))

    def observer(self, role: Role = "host", *, connection: int = 1) -> TapObserver:
        """An observer for a ``TappedTransport`` or a ``Relay``.

        Args:
            role: who it is that sends what is ``"sent"``; a relay's left side.
            connection: the connection's number.
        """

        def observe(direction: Direction, message: bytes) -> None:
            self.record(_WAYS[role, direction], message, connection=connection)

        return observe

    def record(self, direction: Way, message: bytes, *, connection: int = 1) -> None:
        """Records one message.

        Raises:
            OSError: the file cannot be written.
            ValueError: it was closed.
        """
        time = self._now().astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
        message, paths = _redacted(message, self._redaction)
        entry = Entry(direction, message, time, paths, connection)
        if self._file is None:
            self.entries.append(entry)
        else:
            line = encode_entry(entry)
            while line:  # one call of an unbuffered file may take only a part
                line = line[self._file.write(line) :]
        self.count += 1


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _redacted(message: bytes, redaction: Redaction) -> tuple[bytes, tuple[str, ...]]:
    """The message without what is secret, and untouched when nothing is."""
    if not is_json(message):
        text = message.decode(errors="replace")
        cleaned = redaction.text(text)
        return (message, ()) if cleaned == text else (cleaned.encode(), ("$",))
    value, paths = redaction.value(decode_value(message))
    return (encode_value(value), tuple(sorted(paths))) if paths else (message, ())
