"""The messages in a stream of server-sent events, read beside the SDK, byte for byte as they came.

Owns: the framing of events (WHATWG HTML, 9.2.6), as far as their data goes. Does not own: ids, reconnecting and limits
(the SDK), and what the messages mean.

The SDK gives a message only after it was validated, and puts errors of its own in the place of an answer that is
missing. What was really answered stands in the stream.
"""

from __future__ import annotations

__all__ = ("EventReader",)


class EventReader:
    """Reads a stream in pieces of any size.

    Args:
        limit: the most bytes that one event may have. What is longer is skipped.

    Attributes:
        last_id: the id of the latest event that had one, by which a stream is resumed.
        retry: milliseconds that the server wants to pass before that.
        too_long: an event was skipped.
    """

    __slots__ = (
        "_data", "_event", "_first", "_length", "_limit", "_line", "_size", "_skip_lf", "_skipping", "last_id",
        "retry", "too_long",
    )  # fmt: skip

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        #: Bytes of the line and of the event so far, kept or not.
        self._length = 0
        self._size = 0
        self._data: list[bytes] = []
        self._event = b""
        self._skipping = False
        self._skip_lf = False
        self._first = True
        self.last_id = b""
        self.retry: int | None = None
        self.too_long = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events of type ``message`` that end in this piece."""
        found: list[bytes] = []
        if not chunk:
            return found
        if self._skip_lf and chunk[:1] == b"\n":
            chunk = chunk[1:]
        # A CR at the end may be half of a CRLF.
        self._skip_lf = chunk.endswith(b"\r")
        lines = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for ended in lines[:-1]:
            self._append(ended)
            self._end_line(found)
        self._append(lines[-1])
        return found

    def _append(self, piece: bytes) -> None:
        self._length += len(piece)
        self._size += len(piece)
        if self._size > self._limit:
            self._skipping = self.too_long = True
            self._line.clear()
            self._data.clear()
        else:
            self._line += piece

    def _end_line(self, found: list[bytes]) -> None:
        line, length = bytes(self._line), self._length
        self._line.clear()
        self._length = 0
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line[:1] == b":":
            self._size -= length
        elif length:
            self._field(line)
        else:
            if self._data and not self._skipping and self._event in (b"", b"message"):
                found.append(b"\n".join(self._data))
            self._data, self._event, self._size, self._skipping = [], b"", 0, False

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if self._skipping:
            return
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value
        elif name == b"id" and b"\0" not in value:
            self.last_id = value
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = int(value)
