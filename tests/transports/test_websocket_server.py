"""Admitting clients: what a listener refuses, and its bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from websockets.http11 import Response

from mcpl_core.transports.base import Transport
from mcpl_core.transports.websocket import WebSocketListener, WebSocketTransport
from mcpl_core.transports.websocket_handshake import MAX_HEAD_BYTES
from mcpl_core.transports.websocket_policy import UpgradeRequest
from tests.transports.recording import LIMIT, event_loop, started, turns
from tests.transports.websocket_peers import EndOfInput, foreign_client, opened_client, raw_client, status_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]


class Listening:
    """A listener and what it accepted."""

    def __init__(self, listener: WebSocketListener, accepted: list[WebSocketTransport]) -> None:
        self.listener = listener
        self.accepted = accepted

    async def until_accepted(self, count: int = 1) -> list[WebSocketTransport]:
        """What it accepted, which the client may know before we do."""
        with anyio.fail_after(LIMIT):
            while len(self.accepted) < count:
                await anyio.lowlevel.checkpoint()
        return self.accepted

    async def until_status(self, status: int, path: str = "/") -> None:
        """Asks until it gets this status: the listener may not have noticed yet that somebody left."""
        with anyio.fail_after(LIMIT):
            while True:
                with suppress(EndOfInput):
                    if await status_of(self.endpoint, path=path) == status:
                        return

    @property
    def endpoint(self) -> str:
        return self.listener.endpoint


@asynccontextmanager
async def listening(**options: Any) -> AsyncIterator[Listening]:
    """A listener whose accepted transports are never started."""

    def accept(transport: Transport) -> None:
        assert isinstance(transport, WebSocketTransport)
        accepted.append(transport)

    accepted: list[WebSocketTransport] = []
    listener = WebSocketListener(**{"close_timeout": 0.05, **options})
    async with event_loop() as loop:
        await listener.start(loop, accept)
        try:
            yield Listening(listener, accepted)
        finally:
            with anyio.CancelScope(shield=True):
                await listener.aclose()
                for transport in accepted:
                    await transport.aclose()


# ---------------------------------------------------------------------------------------- refusals


async def test_a_page_of_another_origin_is_refused() -> None:
    async with listening(origins=["https://good.example"]) as server:
        assert await status_of(server.endpoint, ("Origin", "https://evil.example")) == 403
        assert await status_of(server.endpoint, ("Origin", "https://good.example")) == 101
        assert await status_of(server.endpoint) == 101
        assert len(await server.until_accepted(2)) == 2


async def test_no_page_may_connect_by_default() -> None:
    async with listening() as server:
        assert await status_of(server.endpoint, ("Origin", "http://localhost")) == 403
        assert server.accepted == []


async def test_a_name_that_somebody_made_point_here_is_refused() -> None:
    async with listening() as server:
        assert await status_of(server.endpoint, ("Host", "evil.example")) == 421
        port = server.endpoint.rpartition(":")[2]
        assert await status_of(server.endpoint, ("Host", f"localhost:{port}")) == 101
    async with listening(allowed_hosts=["mcpl.example"]) as server:
        assert await status_of(server.endpoint, ("Host", "mcpl.example")) == 101


async def test_another_path_is_not_found() -> None:
    async with listening(path="/mcpl") as server:
        assert await status_of(server.endpoint, path="/other?x=/mcpl") == 404
        assert await status_of(server.endpoint, path="/mcpl?token=t") == 101


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Upgrade", "h2c", 426),
        ("Connection", "close", 426),
        ("Sec-WebSocket-Key", "short", 400),
        ("Sec-WebSocket-Version", "8", 400),
    ],
)
async def test_what_is_no_upgrade_is_refused(header: str, value: str, status: int) -> None:
    async with listening() as server:
        assert await status_of(server.endpoint, (header, value)) == status
        assert server.accepted == []


async def test_a_post_is_refused() -> None:
    async with listening() as server, raw_client(server.endpoint) as stream:
        port = server.endpoint.rpartition(":")[2]
        await stream.send(f"POST / HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 0\r\n\r\n".encode())
        assert (await stream.receive()).startswith(b"HTTP/1.1 405 ")


# ---------------------------------------------------------------------------------------- authenticate


@pytest.mark.parametrize("principal", [None, False])
async def test_nobody_we_know_is_asked_to_authenticate(principal: Any) -> None:
    async with listening(authenticate=lambda _: principal) as server, foreign_client(server.endpoint) as peer:
        response = await peer.event()
        assert isinstance(response, Response)
        assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert await peer.until_end() == []
        assert server.accepted == []


@pytest.mark.parametrize("principal", ["alice", 0, "", {"name": "alice"}])
async def test_anything_else_is_the_principal(principal: Any) -> None:
    async with listening(authenticate=lambda _: principal) as server, opened_client(server.endpoint):
        assert [transport.principal for transport in await server.until_accepted()] == [principal]


async def test_authenticate_that_fails_is_a_server_error_that_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: UpgradeRequest) -> str:
        raise RuntimeError("the database is down")

    async with listening(authenticate=fail) as server:
        assert await status_of(server.endpoint, path="/?token=secret") == 500
        assert server.accepted == []
    (record,) = [record for record in caplog.records if record.name.startswith("mcpl_core")]
    assert record.levelno == logging.ERROR and record.exc_info is not None
    assert "secret" not in caplog.text


async def test_a_request_that_is_refused_anyway_is_not_authenticated() -> None:
    asked: list[UpgradeRequest] = []
    async with listening(authenticate=asked.append, path="/mcpl") as server:
        assert await status_of(server.endpoint, path="/") == 404
        assert await status_of(server.endpoint, ("Origin", "x")) == 403
        assert await status_of(server.endpoint, ("Upgrade", "x")) == 426
    assert asked == []


async def test_authenticate_is_bounded_in_time() -> None:
    async def hang(request: UpgradeRequest) -> None:
        await anyio.sleep_forever()

    async with listening(authenticate=hang, open_timeout=0.05) as server, foreign_client(server.endpoint) as peer:
        with pytest.raises(EndOfInput):
            await peer.event()
        assert server.accepted == []


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})], ids=["asyncio"])
def test_clients_are_admitted_where_nobody_said_which_library_runs() -> None:
    """In a callback under ``asyncio.run`` AnyIO begins no task by itself."""

    async def main() -> None:
        async with listening() as server, opened_client(server.endpoint):
            await server.until_accepted()

    asyncio.run(main())


# ---------------------------------------------------------------------------------------- bounds


async def test_a_client_that_says_nothing_is_cut_off() -> None:
    async with listening(open_timeout=0.05) as server, raw_client(server.endpoint) as stream:
        with anyio.fail_after(LIMIT), pytest.raises(EndOfInput):
            await stream.receive()


async def test_a_client_that_never_comes_to_an_end_is_cut_off() -> None:
    async with listening() as server, raw_client(server.endpoint) as stream:
        await stream.send(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (MAX_HEAD_BYTES // 6 + 1))
        with anyio.fail_after(LIMIT), pytest.raises(EndOfInput):
            while True:
                await stream.receive()
        assert server.accepted == []


async def test_a_line_that_is_too_long_is_told_so() -> None:
    async with listening() as server, raw_client(server.endpoint) as stream:
        await stream.send(b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n")
        assert (await stream.receive()).startswith(b"HTTP/1.1 414 ")


async def test_a_client_that_leaves_in_the_middle_leaves_nothing() -> None:
    async with listening(max_connections=1) as server:
        async with raw_client(server.endpoint) as stream:
            await stream.send(b"GET / HT")
        await server.until_status(101)
        assert len(await server.until_accepted()) == 1


async def test_more_handshakes_than_connections_are_cut_off() -> None:
    async with listening(max_connections=1) as server, raw_client(server.endpoint), raw_client(server.endpoint) as two:
        with anyio.fail_after(LIMIT), pytest.raises(EndOfInput):
            await two.receive()


async def test_a_refused_client_does_not_count_as_open() -> None:
    async with listening(max_connections=1, authenticate=lambda request: request.token) as server:
        for _ in range(5):
            await server.until_status(401)
        await server.until_status(101, "/?token=t")
        await server.until_status(503, "/?token=t")


async def test_a_client_that_leaves_makes_room() -> None:
    async with listening(max_connections=1) as server:
        for _ in range(3):
            async with opened_client(server.endpoint) as peer:
                transport = (await server.until_accepted()).pop()
                async with started(transport) as sink:
                    await peer.close()
                    assert await sink.until_input_ended() is None


async def test_closing_cuts_off_those_who_are_still_opening() -> None:
    async with listening() as server, raw_client(server.endpoint) as stream:
        await stream.send(b"GET / HT")
        await turns(20)
        await server.listener.aclose()
        with anyio.fail_after(LIMIT), pytest.raises(EndOfInput):
            await stream.receive()


async def test_compression_is_accepted_only_when_asked_for() -> None:
    offer = ("Sec-WebSocket-Extensions", "permessage-deflate")
    for compression in (False, True):
        async with listening(compression=compression) as server, foreign_client(server.endpoint, offer) as peer:
            response = await peer.head()
            assert ("Sec-WebSocket-Extensions" in response.headers) is compression
