"""Messages to frames, as the library's parser reads them."""

from __future__ import annotations

import pytest
from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode
from websockets.protocol import CLOSING, OPEN, Protocol
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from mcpl_core.transports.websocket_outgoing import LARGE_MESSAGE, PIECE_BYTES, Outgoing


def protocols(side: str) -> tuple[Protocol, Protocol]:
    """A protocol and its peer."""
    client = ClientProtocol(parse_uri("ws://localhost/"), state=OPEN, max_size=None)
    server = ServerProtocol(state=OPEN, max_size=None)
    return (client, server) if side == "client" else (server, client)


def received(peer: Protocol, data: bytes) -> list[Frame]:
    peer.receive_data(data)
    return [event for event in peer.events_received() if isinstance(event, Frame)]


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 65537, LARGE_MESSAGE + 7, 1_000_003])
def test_a_message_is_one_text_frame(side: str, size: int) -> None:
    protocol, peer = protocols(side)
    message = (b'{"text":"\xc3\xa9\n"}' * (size // 14 + 1))[:size]
    outgoing = Outgoing(protocol)
    for data in (outgoing.encode(message), b"".join(outgoing.encode_large(message))):
        (frame,) = received(peer, data)
        assert (frame.opcode, bytes(frame.data), frame.fin) == (Opcode.TEXT, message, True)


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_large_message_comes_in_pieces(side: str) -> None:
    protocol, _ = protocols(side)
    pieces = list(Outgoing(protocol).encode_large(b"x" * 1_000_000))
    assert len(pieces) == 16
    assert all(len(piece) <= PIECE_BYTES + 14 for piece in pieces)


def test_a_client_masks_with_a_fresh_key_each_time() -> None:
    protocol, peer = protocols("client")
    outgoing = Outgoing(protocol)
    frames = [outgoing.encode(b"same") for _ in range(3000)]
    assert len({frame[2:6] for frame in frames}) > 2990
    assert [bytes(frame.data) for frame in received(peer, b"".join(frames))] == [b"same"] * 3000


def test_a_server_does_not_copy_the_message() -> None:
    protocol, _ = protocols("server")
    message = b"x" * LARGE_MESSAGE
    assert any(part is message for part in Outgoing(protocol).encode_parts(message))


def test_with_compression_the_frame_is_compressed_until_the_goodbye() -> None:
    protocol, peer = protocols("client")
    protocol.extensions, peer.extensions = (
        [PerMessageDeflate(False, False, 15, 15)],
        [PerMessageDeflate(False, False, 15, 15)],
    )
    outgoing = Outgoing(protocol)
    data = outgoing.encode(b"a" * 1000)
    assert len(data) < 100
    data += b"".join(outgoing.encode_large(b"b" * 100_000))
    assert [bytes(frame.data) for frame in received(peer, data)] == [b"a" * 1000, b"b" * 100_000]
    outgoing.close()
    assert outgoing.encode(b"late") == b""


def test_control_frames() -> None:
    protocol, peer = protocols("client")
    outgoing = Outgoing(protocol)
    assert outgoing.control() == []
    outgoing.ping()
    outgoing.pong()
    outgoing.close(1001)
    assert protocol.state is CLOSING
    frames = received(peer, b"".join(outgoing.control()))
    assert [frame.opcode for frame in frames] == [Opcode.PING, Opcode.PONG, Opcode.CLOSE]
    assert peer.close_rcvd is not None and peer.close_rcvd.code == 1001


def test_after_the_goodbye_there_is_nothing_to_send() -> None:
    protocol, _ = protocols("server")
    outgoing = Outgoing(protocol)
    outgoing.close()
    outgoing.control()
    outgoing.ping()
    outgoing.pong()
    outgoing.close()
    assert outgoing.control() == []
