"""The opening handshake, without I/O (RFC 6455 section 4).

Owns: where it ends in the bytes that arrive, and its bound. The library's ``Protocol`` parses and checks it. Does not
own: who may connect (``websocket_policy``), and where to (``websocket_client``).
"""

from __future__ import annotations

from websockets.frames import Frame
from websockets.http11 import Request, Response
from websockets.protocol import Protocol, Side
from websockets.streams import StreamReader

from ..errors import UpgradeRefusedError

__all__ = ("MAX_HEAD_BYTES", "OpeningHandshake")

#: The longest request or response, in bytes.
MAX_HEAD_BYTES = 64 * 1024


class OpeningHandshake:
    """What the peer sends before its first frame.

    Args:
        protocol: the library's state machine, in its state CONNECTING.

    Attributes:
        rest: what arrived after the handshake.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.rest = b""
        self._protocol = protocol
        self._head = bytearray()

    def receive(self, data: bytes) -> Request | Response | None:
        """Takes bytes.

        Returns:
            The peer's request or response once it is complete. A response that refuses comes without its body.

        Raises:
            UpgradeRefusedError: it is no opening handshake. The protocol may hold an answer to send.
        """
        head = self._head
        head += data
        end = head.find(b"\r\n\r\n") + 4
        if end < 4:
            if len(head) > MAX_HEAD_BYTES:
                raise UpgradeRefusedError("the opening handshake is too long")
            return None
        self.rest = bytes(head[end:])
        opening = bytes(head[:end])
        response = _response_head(opening) if self._protocol.side is Side.CLIENT else None
        if response is not None and response.status_code != 101:
            return response
        self._protocol.receive_data(opening)
        if (flaw := self._protocol.handshake_exc) is not None:
            status = None if response is None else response.status_code
            raise UpgradeRefusedError(f"the opening handshake is invalid: {flaw}", status) from flaw
        event = self._protocol.events_received()[0]
        assert not isinstance(event, Frame)
        return event


def _response_head(head: bytes) -> Response:
    """The status line and headers of an HTTP response."""
    reader = StreamReader()
    reader.feed_data(head)
    parser = Response.parse(reader.read_line, reader.read_exact, reader.read_to_eof, proxy=True)
    try:
        next(parser)
    except StopIteration as done:
        response: Response = done.value
        return response
    except Exception as exc:
        raise UpgradeRefusedError("the peer does not speak HTTP") from exc
    raise UpgradeRefusedError("the peer does not speak HTTP")  # pragma: no cover - the head is complete
