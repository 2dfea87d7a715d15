"""Connections of this package as peers. What all kinds of peers do alike is in the contract of peers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.catalog import CatalogMonitor, ConnectionPeer, HostPeer, PeerFailure, PeerResult, discover_tools
from mcpl_core.catalog.outcomes import CallOutcome
from mcpl_core.errors import ConnectionClosedError, InvalidValueError, TransportError
from mcpl_core.host import HostPolicy, McplHost, connect_server
from mcpl_core.protocol import method
from mcpl_core.server import McplServer
from tests.catalog.kit import CALLER, read_binding
from tests.catalog.peers.wire import WireServer, connection_peer, host_peer
from tests.host.raw_server import QUICK, embedded

pytestmark = pytest.mark.anyio
ANSWER = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}


@pytest.mark.parametrize("answer", [None, [], {}, {"protocolVersion": 7}, "2025-11-25"])
async def test_an_answer_to_the_handshake_that_is_none(answer: Any) -> None:
    near, _ = McplConnection.memory_pair()
    with pytest.raises(InvalidValueError) as caught:
        ConnectionPeer(near, answer)
    assert caught.value.code == "initialize_result"


@pytest.mark.parametrize("capabilities", [None, 7, []])
async def test_capabilities_that_are_none(capabilities: Any) -> None:
    near, _ = McplConnection.memory_pair()
    peer = ConnectionPeer(near, ANSWER | {"capabilities": capabilities})
    assert peer.capabilities is None
    assert repr(peer) == "<ConnectionPeer>"


async def test_a_connection_that_was_closed_before_anybody_watched() -> None:
    near, far = McplConnection.memory_pair()
    async with near, far:
        await near.aclose()
        monitor = CatalogMonitor()
        ConnectionPeer(near, ANSWER).watch(monitor)
    assert monitor.closed


async def test_closing_is_told_at_once() -> None:
    near, far = McplConnection.memory_pair()
    async with near, far:
        peer, left, monitor = ConnectionPeer(near, ANSWER), CatalogMonitor(), CatalogMonitor()
        peer.watch(left)()
        peer.watch(monitor)
        await near.aclose()
    assert (monitor.closed, left.closed) == (True, False)


async def test_other_observers_of_the_connection_go_on() -> None:
    server, seen = WireServer(), []
    async with connection_peer(server) as peer:
        assert isinstance(peer, ConnectionPeer)
        peer._line._connection.on_message(lambda message: seen.append(message.method))
        monitor = CatalogMonitor()
        peer.watch(monitor)
        await server.changed()
        await peer.request("tools/list", {})
    assert (seen, monitor.revision) == ([method.TOOLS_LIST_CHANGED], 1)


async def test_a_request_of_that_name_is_no_notice() -> None:
    server = WireServer()
    async with connection_peer(server) as peer:
        monitor = CatalogMonitor()
        peer.watch(monitor)
        await server.send({"id": 5, "method": method.TOOLS_LIST_CHANGED})
        await peer.request("tools/list", {})
    assert monitor.revision == 0


async def test_what_is_too_large_to_be_sent_was_not_sent() -> None:
    near, far = McplConnection.memory_pair(max_message_bytes=200)
    async with near, far:
        reply = await ConnectionPeer(near, ANSWER).request("tools/call", {"name": "a", "arguments": {"q": "x" * 300}})
    assert reply == PeerFailure("mcp_transport_error", submitted=False)


def a_server() -> McplServer:
    server = McplServer("memory", "1.0.0")

    @server.tool
    def search(q: str) -> str:
        """Search."""
        return f"found {q}"

    return server


async def test_a_call_goes_out_under_the_grant() -> None:
    """An MCPL server whose host does not grant tools is not asked for them; a grant taken away stops calls."""
    server = a_server()
    near, far = McplConnection.memory_pair()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                async with far:
                    await server.serve(far)

            tasks.start_soon(serve)
            async with connect_server(near, policy=HostPolicy.allow("tools"), server="memory") as session:
                peer, monitor = HostPeer(session), CatalogMonitor()
                assert "memory" in repr(peer)
                peer.watch(monitor)
                reply = await peer.request("tools/call", {"name": "search", "arguments": {"q": "x"}})
                assert isinstance(reply, PeerResult)
                assert reply.value["content"] == [{"type": "text", "text": "found x"}]
                assert "state" not in reply.value
                await session.set_policy(HostPolicy.allow("pushEvents"))
                assert peer.capabilities is None
                denied = PeerFailure("mcp_tools_unavailable", submitted=False)
                assert await peer.request("tools/call", {"name": "search", "arguments": {"q": "x"}}) == denied
                await session.set_policy(HostPolicy.allow("tools"))
                assert peer.capabilities is not None


@pytest.mark.spec("R-catalog-10")
async def test_no_state_travels_with_a_call() -> None:
    """Also to a server whose state its host keeps."""
    async with embedded(HostPolicy.allow("tools")) as (raw, session):
        replies: list[Any] = []

        async def call() -> None:
            replies.append(await HostPeer(session).request("tools/call", {"name": "a", "arguments": {}}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            request = await raw.next("tools/call")
            raw.reply(request, {"content": [], "state": {"checkpoint": "c1", "data": {}}})
    assert request["params"] == {"name": "a", "arguments": {}}
    assert replies == [PeerResult({"content": [], "state": {"checkpoint": "c1", "data": {}}})]


async def test_a_server_of_a_host_after_a_reconnect_is_another_peer() -> None:
    """Nothing that was discovered before is revived by the connection that comes back."""
    server, far = a_server(), []
    dialled, waiting = anyio.create_memory_object_stream[McplConnection](2)

    def dial() -> McplConnection:
        near, other = McplConnection.memory_pair()
        far.append(other)
        dialled.send_nowait(other)
        return near

    async def serve() -> None:
        with dialled, waiting:
            async for connection in waiting:
                async with connection:
                    await server.serve(connection)

    bindings = {"search": read_binding()}
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            async with McplHost("h", "1", policy=HostPolicy.allow("tools"), settings=QUICK) as host:
                memory = await host.add("memory", dial)
                peer, monitor = HostPeer(memory), CatalogMonitor()
                peer.watch(monitor)
                # The schema of this server has no keyword outside the profile.
                catalog = await discover_tools(peer, "memory", bindings, monitor=monitor)
                assert (await catalog.find("search").call({"q": "x"}, CALLER)).text == ("found x",)
                await far[0].aclose()
                await memory.wait("waiting", "connecting")
                await memory.wait("ready")
                refused = CallOutcome(error_code="mcp_connection_closed", effect="not_started")
                assert await catalog.find("search").call({"q": "x"}, CALLER) == refused
                again, fresh = HostPeer(memory), CatalogMonitor()
                again.watch(fresh)
                catalog = await discover_tools(again, "memory", bindings, monitor=fresh)
                assert (await catalog.find("search").call({"q": "y"}, CALLER)).text == ("found y",)
            tasks.cancel_scope.cancel()


async def test_a_server_that_is_not_connected() -> None:
    async with McplHost("h", "1", policy=HostPolicy.allow("tools")) as host:
        near, _ = McplConnection.memory_pair()
        waiting = await host.add("memory", near, wait=False)
        with pytest.raises(ConnectionClosedError):
            HostPeer(waiting)


async def test_a_plain_server_of_a_host() -> None:
    server = WireServer()
    async with host_peer(server) as peer:
        monitor = CatalogMonitor()
        peer.watch(monitor)
        catalog = await discover_tools(peer, "wire", {"remote.search": read_binding()}, monitor=monitor)
        assert (await catalog.registrations[0].call({"q": "x"}, CALLER)).ok
        call = await server.heard("tools/call")
    assert set(call["params"]) == {"name", "arguments"}


@pytest.mark.spec("R-catalog-13")
async def test_a_connection_logs_as_before_when_it_is_watched_no_more(caplog: pytest.LogCaptureFixture) -> None:
    connection, far = McplConnection.memory_pair()
    async with connection, far:
        leave = ConnectionPeer(connection, {"protocolVersion": "2025-11-25"}).watch(CatalogMonitor())
        connection.report(TransportError("first"))
        leave()
        connection.report(TransportError("second"))
    assert "first" not in caplog.text
    assert "TransportError" in caplog.text and "second" in caplog.text
