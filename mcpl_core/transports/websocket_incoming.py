"""From WebSocket frames to messages, without I/O (RFC 6455 section 5).

Owns: which incoming bytes are a message, and what the end of the connection means. It stands on the sans-I/O
``Protocol`` of the ``websockets`` library, which handles control frames, fragments, compression and every error; whole
text frames, nearly all of the traffic, are taken before it. Does not own: what is sent (``websocket_outgoing``),
sockets, tasks and timers (``websocket_engine``), and JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side
from websockets.streams import StreamReader

from ..errors import MalformedMessageError, WebSocketClosedError

try:
    from websockets.speedups import apply_mask
except ImportError:  # pragma: no cover - the library was built without its C extension
    from websockets.utils import apply_mask

__all__ = ("Incoming",)

#: RFC 6455 section 7.4.1: normal closure, going away, no code.
_ORDINARY_CODES = frozenset((1000, 1001, 1005))

#: What the library's parser stopped for, and the close code that goes with it; anything else is our own fault.
_FAILURE_CODES: tuple[tuple[type[Exception], int], ...] = (
    (PayloadTooBig, 1009),
    (UnicodeDecodeError, 1007),
    (ProtocolError, 1002),
    (EOFError, 1006),
)
_INTERNAL_ERROR = 1011

_FIN_TEXT = 0x81
_EXCERPT_BYTES = 200

#: The sizes of glibc's blocks that are mapped one by one, and between which that bound moves (``mallopt(3)``).
_MAPPED_BYTES = 128 * 1024
_MAPPED_LIMIT = 32 * 1024 * 1024 - 64 * 1024


class Incoming:
    """The incoming direction of one open WebSocket.

    Args:
        protocol: the library's state machine.
        max_message_bytes: the longest message, in bytes of its text.

    Attributes:
        malformed: what came in and was no message; the caller empties it.
        ended: nothing more comes in, and nothing but a close frame may go out.
        end_error: why, when it was no ordinary end.
    """

    def __init__(self, protocol: Protocol, max_message_bytes: int) -> None:
        self.malformed: list[MalformedMessageError] = []
        self.ended = False
        self.end_error: WebSocketClosedError | None = None
        self._protocol = protocol
        # Kept, because whoever takes over an open connection puts its own in their place.
        self._hand_over, self._hand_over_eof = protocol.receive_data, protocol.receive_eof
        protocol.max_message_size = self._limit = max_message_bytes
        self._masked = protocol.side is Side.SERVER
        #: Where frames begin is not known: the library parsed before us.
        self._blind = False
        #: The beginning of a frame header.
        self._tail = b""
        #: Bytes of the current frame that are still to be handed to the library.
        self._passing = 0
        #: A text frame that is still arriving: what there is (unmasked), what is missing, and its masking key. A
        #: ``BytesIO`` grows in place and gives its ``bytes`` away without a copy; on a large message a copy costs
        #: more than all the rest.
        self._text_parts = BytesIO()
        self._missing = 0
        self._key = b""
        #: What arrived of a fragmented message, and of which kind it is.
        self._fragments: bytearray | None = None
        self._fragments_binary = False

    # ------------------------------------------------------------------------------------ taking over

    def take_over(self, frames: Sequence[Frame]) -> list[bytes]:
        """Begins in the middle of an open connection, which the library parsed until now.

        Args:
            frames: data frames that the library parsed and nobody took.

        Returns:
            The messages in them.
        """
        self._blind = not _between_frames(self._protocol)
        messages: list[bytes] = []
        for frame in frames:
            self._frame(frame, messages)
        self._look_for_end()
        return messages

    # ------------------------------------------------------------------------------------ receiving

    def receive(self, data: bytes) -> list[bytes]:
        """Takes bytes of the connection and returns the messages they complete. Look at ``malformed``, ``ended``
        and ``control`` afterwards."""
        messages: list[bytes] = []
        if self._tail:
            data, self._tail = self._tail + data, b""
        if self._blind:
            self._passing = len(data)
        at, size = 0, len(data)
        while at < size and not self.ended:
            if self._missing:
                at = self._collect(data, at, messages)
            elif self._passing:
                at = self._pass(data, at, messages)
            else:
                if self._fragments is None:
                    at = self._whole_texts(data, at, messages)
                if at < size and not self.ended:
                    at = self._begin_frame(data, at)
        return messages

    def receive_eof(self) -> None:
        """The carrier ended."""
        self._hand_over_eof()
        self._look_for_end()
        if not self.ended:
            self._end(WebSocketClosedError(1006, "the connection ended without a close frame"))

    def _whole_texts(self, data: bytes, at: int, messages: list[bytes]) -> int:
        """Takes unfragmented, uncompressed text frames as long as they are whole and short; returns where it
        stopped. Everything else, right or wrong, is left to others."""
        size, limit, masked = len(data), self._limit, self._masked
        shortest = 6 if masked else 2
        while size - at >= shortest and data[at] == _FIN_TEXT:
            length = data[at + 1]
            if masked:
                length -= 128
            begin = at + shortest
            if length == 126:
                begin += 2
                length = data[at + 2] << 8 | data[at + 3] if begin <= size else size
            elif length > 126 or length < 0:
                break
            end = begin + length
            if end > size or length > limit:
                break
            text = data[begin:end]
            if masked:
                text = apply_mask(text, data[begin - 4 : begin])
            at = end
            if not text.isascii() and not self._is_utf8(text):
                break
            messages.append(text)
        return at

    def _begin_frame(self, data: bytes, at: int) -> int:
        """Reads a frame header, and decides who gets the frame; returns where its payload begins, or the frame
        itself when the library is to see it."""
        header = _header_size(data, at)
        if len(data) - at < header:
            self._tail = data[at:]
            return len(data)
        length = data[at + 1] & 0x7F
        if length > 125:
            length = int.from_bytes(data[at + 2 : at + (4 if length == 126 else 10)], "big")
        is_masked = data[at + 1] > 0x7F
        is_ours = data[at] == _FIN_TEXT and is_masked == self._masked and self._fragments is None
        if not (is_ours and 0 < length <= self._limit):
            self._passing = header + length
            return at
        begin = at + header
        self._key = data[begin - 4 : begin] if is_masked else b""
        self._missing = length
        if length >= _MAPPED_BYTES:
            _keep_memory(length)
        return begin

    def _collect(self, data: bytes, at: int, messages: list[bytes]) -> int:
        """Takes the next part of a text frame. Each part is unmasked while it is in the processor's cache."""
        part = data[at : at + self._missing]
        if self._key:
            turn = len(part) % 4
            masked, key = part, self._key
            part = apply_mask(masked, key)
            self._key = key[turn:] + key[:turn]
        self._text_parts.write(part)
        self._missing -= len(part)
        if not self._missing:
            text, self._text_parts = self._text_parts.getvalue(), BytesIO()
            self._text(text, messages)
        return at + len(part)

    def _pass(self, data: bytes, at: int, messages: list[bytes]) -> int:
        """Hands bytes of one frame to the library, no more, so that the next frame begins with us again."""
        end = min(at + self._passing, len(data))
        self._passing -= end - at
        self._hand_over(data[at:end])
        for event in self._protocol.events_received():
            assert isinstance(event, Frame)
            self._frame(event, messages)
        if self._blind:
            self._blind = not _between_frames(self._protocol)
        self._look_for_end()
        return end

    def _frame(self, frame: Frame, messages: list[bytes]) -> None:
        opcode = frame.opcode
        if opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if opcode is not Opcode.CONT:
            self._fragments_binary = opcode is Opcode.BINARY
        data = frame.data
        if self._fragments is not None:
            # Of a binary message nothing but the excerpt is wanted.
            if not (self._fragments_binary and len(self._fragments) >= _EXCERPT_BYTES):
                self._fragments += data
            data = self._fragments
        if not frame.fin:
            self._fragments = bytearray(data) if self._fragments is None else self._fragments
            return
        self._fragments = None
        if self._fragments_binary:
            self.malformed.append(MalformedMessageError("binary", "a binary message", bytes(data[:_EXCERPT_BYTES])))
        else:
            self._text(bytes(data), messages)

    def _text(self, text: bytes, messages: list[bytes]) -> None:
        if text.isascii() or self._is_utf8(text):
            messages.append(text)

    def _is_utf8(self, text: bytes) -> bool:
        try:
            text.decode()
        except UnicodeDecodeError as exc:
            detail = f"{exc.reason} at byte {exc.start}"
            self.malformed.append(MalformedMessageError("invalid-utf8", detail, text))
            self._protocol.fail(1007, detail)
            self._end(WebSocketClosedError(1007, detail))
            return False
        return True

    # ------------------------------------------------------------------------------------ the end

    def _look_for_end(self) -> None:
        if self.ended:
            return
        failure, close = self._protocol.parser_exc, self._protocol.close_rcvd
        if failure is not None:
            self._failed(failure)
        elif close is not None:
            ordinary = close.code in _ORDINARY_CODES
            self._end(None if ordinary else WebSocketClosedError(int(close.code), close.reason))

    def _failed(self, failure: Exception) -> None:
        code = next((code for kind, code in _FAILURE_CODES if isinstance(failure, kind)), _INTERNAL_ERROR)
        detail = str(failure)
        if code == 1009:
            detail = f"a message of more than {self._limit} bytes"
            self.malformed.append(MalformedMessageError("too-long", detail))
        error = WebSocketClosedError(code, detail)
        error.__cause__ = failure
        self._end(error)

    def _end(self, error: WebSocketClosedError | None) -> None:
        self.ended = True
        self.end_error = error
        self._text_parts = BytesIO()
        self._fragments = None

    def give_up(self, detail: str) -> None:
        """Ends the connection because the peer does not answer (close code 1011)."""
        self._protocol.fail(_INTERNAL_ERROR, detail)
        self._end(WebSocketClosedError(_INTERNAL_ERROR, detail))

    def lost(self, cause: BaseException | None) -> None:
        """The carrier ended; ``cause``: the error of the socket, if there was one."""
        was_ended = self.ended
        self.receive_eof()
        if self.end_error is not None and not was_ended and cause is not None:
            self.end_error.__cause__ = cause


def _keep_memory(size: int) -> None:
    """Makes the C library keep memory for messages of this size. By itself glibc maps every block of the size that
    it saw last and returns it to the kernel at once; to get the pages again costs several times what this package
    does with the message. A larger block that comes and goes, untouched, moves that bound; elsewhere it does
    nothing."""
    bytes(min(2 * size, _MAPPED_LIMIT))


def _header_size(data: bytes, at: int) -> int:
    """How many bytes the header of the frame at ``at`` has, as far as can be seen."""
    if len(data) - at < 2:
        return 2
    second = data[at + 1]
    length = second & 0x7F
    return 2 + (0 if length < 126 else 2 if length == 126 else 8) + (4 if second > 0x7F else 0)


def _between_frames(protocol: Protocol) -> bool:
    """Whether the library's parser waits for the first byte of a frame and holds none. It is a chain of
    generators, of which the innermost shows what it waits for."""
    if protocol.reader.buffer:
        return False
    innermost = protocol.parser
    while (inner := getattr(innermost, "gi_yieldfrom", None)) is not None:
        innermost = inner
    return getattr(innermost, "__name__", "") == StreamReader.at_eof.__name__
