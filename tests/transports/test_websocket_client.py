"""Opening a WebSocket: the request, redirects, proxies, and what each failure is."""

from __future__ import annotations

import logging
import socket
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from mcpl_core.errors import InvalidValueError, TransportError, UpgradeRefusedError
from mcpl_core.transports.base import Transport
from mcpl_core.transports.websocket import WebSocketListener, WebSocketTransport
from mcpl_core.transports.websocket_client import MAX_REDIRECTS
from tests.transports.certificate import client_context, server_context
from tests.transports.recording import LIMIT, RecordingSink, event_loop, started
from tests.transports.websocket_peers import (
    EndOfInput,
    ForeignPeer,
    RawStream,
    accepted_peer,
    answer_http,
    foreign_server,
    tcp_server,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]


async def failure_of(url: str, **options: Any) -> TransportError:
    """What a dial fails with."""
    sink = RecordingSink()
    transport = WebSocketTransport(url, **options)
    async with event_loop() as loop:
        with anyio.fail_after(LIMIT), pytest.raises(TransportError) as caught:
            await transport.start(sink, loop)
        await transport.aclose()
    assert sink.log == []
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert "secret" not in shown.replace("secret={", "")
    return caught.value


def refused_of(error: TransportError) -> tuple[int | None, str | None]:
    assert isinstance(error, UpgradeRefusedError)
    return error.status, error.location


@asynccontextmanager
async def http_server(status: str, **headers: str) -> AsyncIterator[str]:
    """Answers each request like this; yields the URL of a WebSocket there."""

    async def answer(stream: RawStream) -> None:
        await answer_http(stream, status, **headers)

    async with tcp_server(answer) as port:
        yield f"ws://127.0.0.1:{port}/path?token=secret"


# ---------------------------------------------------------------------------------------- the request


async def test_the_request_has_the_path_the_query_and_the_headers() -> None:
    async def serve(stream: RawStream) -> None:
        requests.append(await answer_http(stream, "400 Bad"))

    requests: list[bytes] = []
    async with tcp_server(serve) as port:
        await failure_of(
            f"ws://localhost:{port}/a/b?token=secret",
            headers=[("Authorization", "Bearer x"), ("X-A", "1"), ("X-A", "2")],
            subprotocols=["one", "two"],
        )
    (request,) = requests
    lines = request.decode().split("\r\n")
    assert lines[0] == "GET /a/b?token=secret HTTP/1.1"
    expected = {f"Host: localhost:{port}", "Authorization: Bearer x", "X-A: 1", "X-A: 2"}
    assert expected | {"Sec-WebSocket-Protocol: one, two"} <= set(lines)
    assert any(line.startswith("User-Agent: mcpl_core/") for line in lines)
    assert not any(line.startswith(("Origin:", "Sec-WebSocket-Extensions:")) for line in lines)


async def test_compression_is_offered_only_when_asked_for() -> None:
    async def serve(stream: RawStream) -> None:
        requests.append(await answer_http(stream, "400 Bad"))

    requests: list[bytes] = []
    async with tcp_server(serve) as port:
        await failure_of(f"ws://127.0.0.1:{port}/", compression=True)
    assert b"permessage-deflate" in requests[0]


# ---------------------------------------------------------------------------------------- failures


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    error = await failure_of(f"ws://127.0.0.1:{port}/?token=secret")
    assert not isinstance(error, UpgradeRefusedError)
    assert isinstance(error.__cause__, OSError)
    assert f"ws://127.0.0.1:{port}" in str(error)


async def test_a_host_that_does_not_exist() -> None:
    assert isinstance((await failure_of("ws://nowhere.invalid/?token=secret")).__cause__, OSError)


@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized", "403 Forbidden", "404 Not Found", "503 Busy"])
async def test_a_refusal_has_its_status(status: str) -> None:
    async with http_server(status, Content_Length="1000000") as url:
        assert refused_of(await failure_of(url)) == (int(status[:3]), None)


async def test_a_server_that_speaks_something_else() -> None:
    async def serve(stream: RawStream) -> None:
        await stream.send(b"220 mail.example ESMTP secret={}\r\n\r\n")
        await stream.receive()

    async with tcp_server(serve) as port:
        assert refused_of(await failure_of(f"ws://127.0.0.1:{port}/")) == (None, None)


async def test_a_server_that_accepts_something_else() -> None:
    async def serve(stream: RawStream) -> None:
        await answer_http(stream, "101 Switching", Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Accept="x")

    async with tcp_server(serve) as port:
        assert refused_of(await failure_of(f"ws://127.0.0.1:{port}/")) == (101, None)


async def test_a_subprotocol_that_was_not_offered() -> None:
    async def lie(stream: RawStream) -> None:
        peer = ForeignPeer(stream, ServerProtocol(subprotocols=None, select_subprotocol=lambda *_: Subprotocol("x")))
        request = await peer.event()
        assert isinstance(request, Request) and isinstance(peer.protocol, ServerProtocol)
        peer.protocol.send_response(peer.protocol.accept(request))
        await stream.send(b"".join(peer.protocol.data_to_send()))

    async with tcp_server(lie) as port:
        assert refused_of(await failure_of(f"ws://127.0.0.1:{port}/", subprotocols=["y"])) == (101, None)


@pytest.mark.parametrize("reset", [False, True])
async def test_a_server_that_hangs_up(reset: bool) -> None:
    async def serve(stream: RawStream) -> None:
        await stream.receive()
        if reset:
            await ForeignPeer(stream, None).reset()  # type: ignore[arg-type]

    async with tcp_server(serve) as port:
        error = await failure_of(f"ws://127.0.0.1:{port}/?token=secret")
        assert not isinstance(error, UpgradeRefusedError)


async def test_a_server_that_does_not_answer() -> None:
    async def serve(stream: RawStream) -> None:
        with pytest.raises(EndOfInput):
            while True:
                await stream.receive()
        ended.set()

    ended = anyio.Event()
    async with tcp_server(serve) as port:
        error = await failure_of(f"ws://127.0.0.1:{port}/?token=secret", open_timeout=0.05)
        assert isinstance(error.__cause__, TimeoutError)
        with anyio.fail_after(LIMIT):
            await ended.wait()


async def test_a_start_that_is_cancelled_leaves_no_socket() -> None:
    async def serve(stream: RawStream) -> None:
        await stream.receive()
        asked.set()
        with pytest.raises(EndOfInput):
            await stream.receive()
        ended.set()

    asked, ended = anyio.Event(), anyio.Event()
    async with tcp_server(serve) as port, event_loop() as loop:
        transport = WebSocketTransport(f"ws://127.0.0.1:{port}/")
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(transport.start, RecordingSink(), loop)
                await asked.wait()
                tasks.cancel_scope.cancel()
            await ended.wait()
            await transport.aclose()


async def test_closing_ends_a_start_that_is_under_way() -> None:
    async def serve(stream: RawStream) -> None:
        await stream.receive()
        asked.set()
        await anyio.sleep_forever()

    async def start() -> None:
        with pytest.raises(TransportError):
            await transport.start(RecordingSink(), loop)
        failed.set()

    asked, failed = anyio.Event(), anyio.Event()
    async with tcp_server(serve) as port, event_loop() as loop, anyio.create_task_group() as tasks:
        transport = WebSocketTransport(f"ws://127.0.0.1:{port}/")
        tasks.start_soon(start)
        with anyio.fail_after(LIMIT):
            await asked.wait()
            await transport.aclose()
            await failed.wait()


# ---------------------------------------------------------------------------------------- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_within_the_origin_is_followed(status: int) -> None:
    async def serve(stream: RawStream) -> None:
        if not paths:
            paths.append((await answer_http(stream, f"{status} Elsewhere", Location="/other?x=1")).split()[1])
            return
        peer = await accepted_peer(stream)
        assert peer.request is not None
        paths.append(peer.request.path.encode())
        authorizations.append(peer.request.headers["Authorization"])
        await peer.text("here")
        await peer.until_end()

    paths: list[bytes] = []
    authorizations: list[str] = []
    async with tcp_server(serve) as port:
        transport = WebSocketTransport(
            f"ws://127.0.0.1:{port}/path?token=secret", headers={"Authorization": "Bearer x"}, close_timeout=0.05
        )
        async with started(transport) as sink:
            assert await sink.until_messages(1) == [b"here"]
    assert paths == [b"/path?token=secret", b"/other?x=1"]
    assert authorizations == ["Bearer x"]


@pytest.mark.parametrize(
    ("location", "origin"),
    [
        ("ws://127.0.0.1:1/path?token=secret", "ws://127.0.0.1:1"),
        ("https://evil.example/secret", "wss://evil.example"),
        ("http://localhost/secret", "ws://localhost"),
    ],
)
@pytest.mark.spec("RFC4-7-2")
async def test_a_redirect_to_another_origin_fails_and_names_it(location: str, origin: str) -> None:
    async with http_server("307 Temporary Redirect", Location=location) as url:
        error = await failure_of(url)
    assert refused_of(error) == (307, origin)
    assert origin in str(error)


async def test_a_redirect_to_no_websocket_fails() -> None:
    async with http_server("302 Found", Location="mailto:secret") as url:
        assert refused_of(await failure_of(url)) == (302, None)


async def test_a_redirect_without_a_location_is_a_refusal() -> None:
    async with http_server("302 Found") as url:
        assert refused_of(await failure_of(url)) == (302, None)


async def test_redirects_without_end_are_not_followed_for_ever() -> None:
    async def serve(stream: RawStream) -> None:
        requests.append(await answer_http(stream, "302 Found", Location="/again"))

    requests: list[bytes] = []
    async with tcp_server(serve) as port:
        assert isinstance(await failure_of(f"ws://127.0.0.1:{port}/"), UpgradeRefusedError)
    assert len(requests) == MAX_REDIRECTS + 1


# ---------------------------------------------------------------------------------------- proxies


@asynccontextmanager
async def proxy_server(status: str = "200 OK") -> AsyncIterator[tuple[str, list[bytes]]]:
    """An HTTP proxy that connects every request to where it says; yields its URL and the requests."""
    requests: list[bytes] = []

    async def serve(stream: RawStream) -> None:
        request = await answer_http(stream, status)
        requests.append(request)
        if not status.startswith("200"):
            return
        host, _, port = request.split()[1].decode().rpartition(":")
        with socket.create_connection((host, int(port))) as sock:
            other = RawStream(sock)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(copy, stream, other, tasks.cancel_scope)
                tasks.start_soon(copy, other, stream, tasks.cancel_scope)

    async def copy(source: RawStream, target: RawStream, scope: anyio.CancelScope) -> None:
        try:
            while True:
                await target.send(await source.receive())
        except (EndOfInput, OSError):
            scope.cancel()

    async with tcp_server(serve) as port:
        yield f"http://user:secret@127.0.0.1:{port}", requests


async def echo(peer: ForeignPeer) -> None:
    await peer.text(await peer.frame())
    await peer.until_end()


async def test_through_a_proxy() -> None:
    async with foreign_server(echo) as url, proxy_server() as (proxy, requests):
        transport = WebSocketTransport(url, proxy=proxy, close_timeout=0.05)
        async with started(transport) as sink:
            transport.write(b"{}")
            assert await sink.until_messages(1) == [b"{}"]
    (request,) = requests
    assert request.startswith(b"CONNECT 127.0.0.1:") and b"Proxy-Authorization: Basic " in request
    assert b"token" not in request


async def test_a_proxy_that_refuses() -> None:
    async with proxy_server("407 Proxy Authentication Required") as (proxy, _):
        error = await failure_of("ws://example.invalid/?token=secret", proxy=proxy)
        assert refused_of(error) == (407, None)
        assert "ws://example.invalid" in str(error)


async def test_a_proxy_that_speaks_something_else() -> None:
    async def serve(stream: RawStream) -> None:
        await stream.receive()
        await stream.send(b"SSH-2.0\r\n\r\n")

    async with tcp_server(serve) as port:
        error = await failure_of("ws://example.invalid/", proxy=f"http://127.0.0.1:{port}")
        assert not isinstance(error, UpgradeRefusedError)


async def test_a_proxy_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    await failure_of("ws://example.invalid/?token=secret", proxy=f"http://u:secret@127.0.0.1:{port}")


async def test_socks_is_refused() -> None:
    with pytest.raises(InvalidValueError) as caught:
        WebSocketTransport("ws://h/", proxy="socks5://127.0.0.1:1080")
    assert caught.value.code == "proxy"


# ---------------------------------------------------------------------------------------- TLS


@asynccontextmanager
async def secure_server() -> AsyncIterator[int]:
    """Our listener with TLS, which echoes."""

    def accepted(transport: Transport) -> None:
        sink = RecordingSink()
        sink.on_messages = lambda messages: list(map(transport.write, messages))

        async def serve() -> None:
            await transport.start(sink, loop)
            await sink.until_input_ended()
            await transport.aclose()

        tasks.start_soon(serve)

    async with event_loop() as loop, anyio.create_task_group() as tasks:
        listener = WebSocketListener("localhost", ssl=server_context(), close_timeout=0.05)
        await listener.start(loop, accepted)
        assert listener.endpoint.startswith("wss://localhost:")
        yield int(listener.endpoint.rpartition(":")[2])
        await listener.aclose()


async def test_over_tls() -> None:
    text = b"x" * 3_000_000
    async with secure_server() as port:
        transport = WebSocketTransport(f"wss://localhost:{port}/", ssl=client_context())
        async with started(transport) as sink:
            transport.write(b"{}")
            transport.write(text)
            assert await sink.until_messages(2) == [b"{}", text]


async def test_over_tls_through_a_proxy() -> None:
    async with secure_server() as port, proxy_server() as (proxy, requests):
        transport = WebSocketTransport(f"wss://localhost:{port}/", ssl=client_context(), proxy=proxy)
        async with started(transport) as sink:
            transport.write(b"{}")
            assert await sink.until_messages(1) == [b"{}"]
    assert requests[0].startswith(b"CONNECT localhost:")


async def test_a_certificate_that_nobody_trusts_through_a_proxy() -> None:
    async with secure_server() as port, proxy_server() as (proxy, _):
        error = await failure_of(f"wss://localhost:{port}/?token=secret", proxy=proxy)
        assert not isinstance(error, UpgradeRefusedError)


async def test_a_certificate_that_nobody_trusts() -> None:
    async with secure_server() as port:
        error = await failure_of(f"wss://localhost:{port}/?token=secret")
        assert not isinstance(error, UpgradeRefusedError)
        error = await failure_of(f"wss://127.0.0.1:{port}/?token=secret")
        assert f"wss://127.0.0.1:{port}" in str(error)


async def test_a_server_without_tls() -> None:
    async def serve(stream: RawStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with tcp_server(serve) as port:
        await failure_of(f"wss://127.0.0.1:{port}/?token=secret", ssl=client_context())


# ---------------------------------------------------------------------------------------- logs


async def test_nothing_of_the_url_or_the_messages_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with foreign_server(echo) as url:
            transport = WebSocketTransport(url, headers={"Authorization": "Bearer secret"}, close_timeout=0.05)
            async with started(transport) as sink:
                transport.write(b'"secret"')
                await sink.until_messages(1)
    assert "secret" not in caplog.text
