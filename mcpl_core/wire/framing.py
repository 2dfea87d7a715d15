"""Line framing: bytes in any chunks to whole messages, and back.

Owns: where a message ends on a byte stream. A message is one line, ended by LF (0x0A) and by nothing else;
the end of input ends the last one. CR before LF and blank lines are tolerated; U+2028, U+2029, NEL, VT and FF
are ordinary bytes of their message. Does not own: what is inside a line (``messages``), and I/O.
"""

from __future__ import annotations

from ..errors import MalformedMessageError

__all__ = ("DEFAULT_MAX_MESSAGE_BYTES", "LineDecoder", "encode_line")

#: 16 MiB. An inline image in base64 fits; a peer that never ends its line is stopped.
DEFAULT_MAX_MESSAGE_BYTES = 16 * 1024 * 1024

#: Shorter pieces of an unfinished line are joined at once: kept one by one, they would take many times their size.
_SMALL_PIECE = 4096

#: As numbers: looking for these in bytes takes a fraction of the time that it takes for ``b"\n"``.
_LF, _CR = b"\n\r"

#: Below it, of a line's first byte, lies all that a blank line may consist of, and no JSON text but an indented one.
_ABOVE_BLANK = b"!"


def encode_line(message: bytes) -> bytes:
    """One message as a line.

    JSON text holds a raw LF or CR only as white space between tokens (inside strings both must be escaped,
    RFC 8259 section 7), so replacing them keeps the value of a message that was pretty-printed elsewhere.
    """
    if _LF in message or _CR in message:
        message = message.replace(b"\r", b" ").replace(b"\n", b" ")
    return message + b"\n"


class LineDecoder:
    """Splits a byte stream into messages, incrementally.

    An over-long line is skipped up to its LF without being buffered; its error lands in ``errors``, which
    the caller empties.

    Args:
        max_message_bytes: the longest line that is a message, in bytes, without its line ending.
    """

    __slots__ = ("_held", "_parts", "_skipping", "errors", "max_message_bytes")

    def __init__(self, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        self.max_message_bytes = max_message_bytes
        self.errors: list[MalformedMessageError] = []
        #: The unfinished line, and its size.
        self._parts: list[bytes | bytearray] = []
        self._held = 0
        #: Whether the rest of an over-long line is being dropped.
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that ``data`` completes, in order, without line endings and without blank lines."""
        if _LF not in data:
            self._hold(data)
            return []
        lines = data.split(b"\n")
        if self._parts or self._skipping:
            lines[0] = self._finish(lines[0])
        tail = lines.pop()
        if len(data) > self.max_message_bytes:
            lines = [self._checked(line) for line in lines]
        if tail:
            self._hold(tail)
        if _CR in data:
            # A CR may also have arrived at the end of the chunk before.
            lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
        elif lines[0].endswith(b"\r"):
            lines[0] = lines[0][:-1]
        if min(lines) > _ABOVE_BLANK:
            return lines
        # VT and FF are white space for Python and not for JSON; a line of them is malformed, not blank.
        return [line for line in lines if line and (not line.isspace() or line.strip(b" \t\r"))]

    def finish(self) -> list[bytes]:
        """The last message when the input ended without LF: a list of one, or empty."""
        return self.feed(b"\n") if self._parts or self._skipping else []

    def _hold(self, data: bytes) -> None:
        if self._skipping:
            return
        parts = self._parts
        if len(data) >= _SMALL_PIECE:
            parts.append(data)
        elif parts and isinstance(parts[-1], bytearray):
            parts[-1] += data
        else:
            parts.append(bytearray(data))
        self._held += len(data)
        # One byte more, for the CR that may end the line.
        if self._held > self.max_message_bytes + 1:
            # Of two parts in a row one is no small piece.
            self._refuse(b"".join(part[:200] for part in parts[:2]))
            self._skipping = True
            parts.clear()
            self._held = 0

    def _finish(self, rest: bytes) -> bytes:
        """The line whose beginning was held back; empty when it was over-long."""
        if self._skipping:
            self._skipping = False
            return b""
        self._parts.append(rest)
        line = b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        return self._checked(line)

    def _checked(self, line: bytes) -> bytes:
        if len(line) - line.endswith(b"\r") <= self.max_message_bytes:
            return line
        self._refuse(line)
        return b""

    def _refuse(self, beginning: bytes) -> None:
        detail = f"a line of more than {self.max_message_bytes} bytes"
        self.errors.append(MalformedMessageError("too-long", detail, beginning))
