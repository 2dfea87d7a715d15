"""From messages to WebSocket frames, without I/O (RFC 6455 section 5).

Owns: the frames we send. Does not own: when (``websocket_engine``), and what the library's ``Protocol`` sends by
itself: pongs and the answer to a close frame.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from struct import pack

from websockets.protocol import OPEN, Protocol, Side

try:
    from websockets.speedups import apply_mask
except ImportError:  # pragma: no cover - the library was built without its C extension
    from websockets.utils import apply_mask

__all__ = ("LARGE_MESSAGE", "PIECE_BYTES", "Outgoing")

#: From this size on, a frame is not copied to put its header in front of it.
LARGE_MESSAGE = 64 * 1024

#: The pieces of a large frame. A multiple of four, the length of a masking key.
PIECE_BYTES = 64 * 1024

_FIN_TEXT = 0x81
_KEY_POOL_BYTES = 4096


class Outgoing:
    """The outgoing direction of one open WebSocket.

    Args:
        protocol: the library's state machine.
    """

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._masked = protocol.side is Side.CLIENT
        self._keys = b""
        self._key_at = 0

    def encode(self, message: bytes) -> bytes:
        """One text frame."""
        return b"".join(self.encode_parts(message))

    def encode_parts(self, message: bytes) -> Sequence[bytes]:
        """One text frame, as pieces to be written one after the other; the message is not copied when the protocol
        does not need it to be."""
        if self._protocol.extensions:
            if self._protocol.state is not OPEN:
                return ()
            self._protocol.send_text(message)
            return self._protocol.data_to_send()
        header = self._header(len(message))
        if not self._masked:
            return header, message
        key = self._next_key()
        return header, key, apply_mask(message, key)

    def encode_large(self, message: bytes) -> Iterator[bytes | memoryview]:
        """One text frame, piece by piece, so that no more of it than the carrier has room for exists twice. To be
        begun when everything before it was taken."""
        if self._protocol.extensions:
            yield from self.encode_parts(message)
            return
        header, rest = self._header(len(message)), memoryview(message)
        if not self._masked:
            yield header + rest[:PIECE_BYTES]
            for at in range(PIECE_BYTES, len(message), PIECE_BYTES):
                yield rest[at : at + PIECE_BYTES]
            return
        key = self._next_key()
        yield b"".join((header, key, apply_mask(rest[:PIECE_BYTES], key)))
        for at in range(PIECE_BYTES, len(message), PIECE_BYTES):
            yield apply_mask(rest[at : at + PIECE_BYTES], key)

    def _header(self, size: int) -> bytes:
        mask_bit = 0x80 if self._masked else 0
        if size < 126:
            return bytes((_FIN_TEXT, mask_bit | size))
        if size < 65536:
            return pack("!BBH", _FIN_TEXT, mask_bit | 126, size)
        return pack("!BBQ", _FIN_TEXT, mask_bit | 127, size)

    def _next_key(self) -> bytes:
        """A masking key that the peer cannot foresee (RFC 6455 section 10.3); drawn by the thousand, because
        asking the operating system costs more than the masking."""
        at = self._key_at
        if at == len(self._keys):
            self._keys = secrets.token_bytes(_KEY_POOL_BYTES)
            at = 0
        self._key_at = at + 4
        return self._keys[at : at + 4]

    def close(self, code: int = 1000) -> None:
        """Says goodbye, unless somebody did already."""
        if self._protocol.state is OPEN:
            self._protocol.send_close(code)

    def ping(self) -> None:
        """Asks for a sign of life."""
        if self._protocol.state is OPEN:
            self._protocol.send_ping(b"")

    def pong(self) -> None:
        """Gives one unasked (RFC 6455 section 5.5.3)."""
        if self._protocol.state is OPEN:
            self._protocol.send_pong(b"")

    def control(self) -> list[bytes]:
        """What the protocol itself wants to send: handshake, pongs, close frames. An empty ``bytes`` in it means
        the end of the output."""
        return self._protocol.data_to_send()
