"""Where an opening handshake ends."""

from __future__ import annotations

import pytest
from websockets.client import ClientProtocol
from websockets.http11 import Request, Response
from websockets.protocol import Protocol
from websockets.server import ServerProtocol
from websockets.uri import parse_uri
from websockets.utils import accept_key

from mcpl_core.errors import UpgradeRefusedError
from mcpl_core.transports.websocket_handshake import MAX_HEAD_BYTES, OpeningHandshake

REQUEST = (
    b"GET /x?token=secret HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def client() -> tuple[ClientProtocol, OpeningHandshake]:
    protocol = ClientProtocol(parse_uri("ws://localhost/"))
    return protocol, OpeningHandshake(protocol)


def accepted(protocol: ClientProtocol, accept: str | None = None) -> bytes:
    key = accept_key(protocol.key) if accept is None else accept
    head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
    return (head + key + "\r\n\r\n").encode()


def fed(handshake: OpeningHandshake, data: bytes, step: int) -> list[Request | Response]:
    events = []
    for at in range(0, len(data), step):
        if (event := handshake.receive(data[at : at + step])) is not None:
            events.append(event)
            break
    return events


@pytest.mark.parametrize("step", [1, 50, 10_000])
def test_a_request_however_it_arrives(step: int) -> None:
    protocol = ServerProtocol()
    (event,) = fed(OpeningHandshake(protocol), REQUEST, step)
    assert isinstance(event, Request) and event.path == "/x?token=secret"


def test_what_follows_the_handshake_is_kept() -> None:
    handshake = OpeningHandshake(ServerProtocol())
    assert handshake.receive(REQUEST + b"\x81\x80frame") is not None
    assert handshake.rest == b"\x81\x80frame"
    protocol, handshake = client()
    response = handshake.receive(accepted(protocol) + b"\x81\x02{}\r\n\r\n")
    assert isinstance(response, Response) and response.status_code == 101
    assert handshake.rest == b"\x81\x02{}\r\n\r\n"


@pytest.mark.parametrize("head", ["Content-Length: 1000000", "Transfer-Encoding: chunked", "X: y"])
def test_a_refusal_comes_without_waiting_for_its_body(head: str) -> None:
    _, handshake = client()
    response = handshake.receive(f"HTTP/1.1 401 Unauthorized\r\n{head}\r\n\r\n".encode())
    assert isinstance(response, Response) and response.status_code == 401


@pytest.mark.parametrize(
    "head", [b"SSH-2.0-OpenSSH\r\n\r\n", b"\x00\x01\r\n\r\n", b"HTTP/1.1 abc x\r\n\r\n", b"\r\n\r\n"]
)
def test_a_server_that_speaks_something_else(head: bytes) -> None:
    _, handshake = client()
    with pytest.raises(UpgradeRefusedError) as caught:
        handshake.receive(head)
    assert caught.value.status is None


def test_an_acceptance_of_another_key_is_refused() -> None:
    protocol, handshake = client()
    with pytest.raises(UpgradeRefusedError) as caught:
        handshake.receive(accepted(protocol, "bm8="))
    assert caught.value.status == 101


@pytest.mark.parametrize("head", [b"POST / HTTP/3\r\n\r\n", b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"])
def test_a_client_that_speaks_something_else(head: bytes) -> None:
    with pytest.raises(UpgradeRefusedError):
        OpeningHandshake(ServerProtocol()).receive(head)


def test_a_line_that_is_too_long_gets_an_answer() -> None:
    protocol: Protocol = ServerProtocol()
    with pytest.raises(UpgradeRefusedError):
        OpeningHandshake(protocol).receive(b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n")
    assert protocol.data_to_send()[0].startswith(b"HTTP/1.1 414 ")


def test_a_handshake_without_end_is_refused() -> None:
    handshake = OpeningHandshake(ServerProtocol())
    with pytest.raises(UpgradeRefusedError):
        for _ in range(MAX_HEAD_BYTES // 1000 + 1):
            handshake.receive(b"x" * 1000)
