"""Any session of the right shape as a peer. What all kinds of peers do alike is in the contract of peers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import mcpl_core.catalog
from mcpl_core.catalog import (
    CatalogError,
    CatalogMonitor,
    PeerFailure,
    PeerResult,
    RawPeer,
    discover_tools,
    discover_write_tools,
)
from mcpl_core.catalog.permits import dispatch_write, mint_permit
from mcpl_core.errors import ConnectionClosedError
from tests.catalog.kit import CALLER, read_binding, text_result, tool, write_binding

pytestmark = pytest.mark.anyio


class Session:
    """The least that is asked of a session."""

    def __init__(self) -> None:
        self.protocol_version = "2025-11-25"
        self.capabilities: dict[str, Any] = {"tools": {}}
        self.may_repeat = False
        self.callbacks: list[Callable[[str, Any], None]] = []
        self.asked: list[Any] = []
        self.failure: Exception | None = None

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, timeout: float | None = 30.0
    ) -> dict[str, Any]:
        self.asked.append((method, params, timeout))
        if self.failure is not None:
            raise self.failure
        return {"tools": [tool()]} if method == "tools/list" else text_result("found")

    def on_notification(self, callback: Callable[[str, Any], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)

    def notify(self, method: str) -> None:
        for callback in self.callbacks:
            callback(method, None)


class Watched(Session):
    """One that tells when it is over."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()
        self.over = anyio.Event()
        self.end_with = failure

    async def wait_closed(self) -> None:
        await self.over.wait()
        if self.end_with is not None:
            raise self.end_with


async def test_the_least_that_a_session_needs() -> None:
    session, monitor = Session(), CatalogMonitor()
    peer = RawPeer(session)
    leave = peer.watch(monitor)
    catalog = await discover_tools(peer, "s", {"remote.search": read_binding()}, monitor=monitor)
    assert (await catalog.registrations[0].call({"q": "x"}, CALLER)).ok
    # The deadline is the catalog's, and no other.
    assert [timeout for _, _, timeout in session.asked] == [None, None]
    stale = []
    for method in ("notifications/message", "notifications/tools/list_changed"):
        session.notify(method)
        stale.append(catalog.stale)
    assert stale == [False, True]
    leave()
    assert session.callbacks == []
    assert repr(peer) == "<RawPeer>"


async def test_a_session_that_is_over_is_noticed_by_the_next_request() -> None:
    session, monitor = Session(), CatalogMonitor()
    peer = RawPeer(session)
    peer.watch(monitor)
    session.failure = ConnectionClosedError("not-sent")
    assert await peer.request("tools/call", {}) == PeerFailure("mcp_connection_closed", submitted=False)
    assert monitor.closed
    session.failure = None
    assert isinstance(await peer.request("tools/list", {}), PeerResult)


@pytest.mark.parametrize("failure", [None, ConnectionClosedError("no-response")])
async def test_a_session_that_is_over_is_noticed_by_whoever_follows(failure: Exception | None) -> None:
    session, monitor = Watched(failure), CatalogMonitor()
    peer = RawPeer(session)
    peer.watch(monitor)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.follow)
            await anyio.wait_all_tasks_blocked()
            assert not monitor.closed
            session.over.set()
    assert monitor.closed


async def test_a_session_that_does_not_tell_is_not_followed() -> None:
    monitor = CatalogMonitor()
    peer = RawPeer(Session())
    peer.watch(monitor)
    await peer.follow()
    assert not monitor.closed


async def test_capabilities_and_versions_that_are_none() -> None:
    session: Any = Session()
    session.capabilities = None
    assert RawPeer(session).capabilities is None
    session.protocol_version = ""
    with pytest.raises(CatalogError) as caught:
        RawPeer(session).watch(CatalogMonitor())
    assert caught.value.code == "mcp_protocol_unsupported"


@pytest.mark.spec("R-catalog-12")
async def test_only_a_session_that_says_so_does_not_repeat() -> None:
    session: Any = Session()
    assert RawPeer(session).may_repeat is False
    for says in (True, None, 0):
        session.may_repeat = says
        assert RawPeer(session).may_repeat is True
    del session.may_repeat
    assert RawPeer(session).may_repeat is True


async def test_no_client_of_this_package_is_imported() -> None:
    for path in Path(mcpl_core.catalog.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert (node.module or "").split(".")[0] not in {"mcp", "toolsets", "approvals"}


class TestOverHttp:
    """With a session of this package, whose server refuses a write for the moment, and then cannot be reached."""

    @pytest.fixture
    def anyio_backend(self) -> Any:
        return "asyncio"

    @pytest.fixture
    def http(self) -> Any:
        pytest.importorskip("mcp")
        return pytest.importorskip("tests.mcp.http.test_calls")

    def server(self, http: Any) -> Any:
        async def script(seen: Any) -> Any:
            if seen.rpc == "tools/list":
                return http.result(seen, {"tools": [tool()]})
            # Whoever says "elsewhere" may have written before.
            return http.Reply(307, {"location": "/elsewhere"}) if seen.rpc == "tools/call" else None

        return http.ScriptedServer(script)

    @pytest.mark.spec("R-catalog-12")
    @pytest.mark.parametrize(
        "options",
        [{}, {"retry_on_throttle": False, "replay": {"tools": {"remote.search": {"on": ["network"]}}}}],
        ids=["as-it-comes", "replay"],
    )
    async def test_no_writes_through_a_session_that_may_repeat(self, http: Any, options: Any) -> None:
        monitor = CatalogMonitor()
        async with http.serving(self.server(http)) as server, http.opened(server, **options) as session:
            peer = RawPeer(session)
            peer.watch(monitor)
            with pytest.raises(CatalogError) as caught:
                await discover_write_tools(peer, "s", {"remote.search": write_binding()}, monitor=monitor)
            assert caught.value.code == "mcp_peer_repeats"
            assert server.of("tools/list") == []
            await discover_tools(peer, "s", {"remote.search": read_binding()}, monitor=monitor)

    @pytest.mark.spec("R-catalog-6", "R-catalog-12")
    async def test_a_write_that_was_sent_and_redirected_is_never_said_not_to_have_been(self, http: Any) -> None:
        monitor = CatalogMonitor()
        options = {"retry_on_throttle": False, "carrier": http.Breaking}
        async with http.serving(self.server(http)) as server, http.opened(server, **options) as session:
            peer = RawPeer(session)
            peer.watch(monitor)
            catalog = await discover_write_tools(peer, "s", {"remote.search": write_binding()}, monitor=monitor)
            registration = catalog.registrations[0]
            permit = mint_permit(registration, {"q": "x"}, "claim")
            outcome = await dispatch_write(permit, registration, {"q": "x"}, CALLER)
            assert (outcome.error_code, outcome.effect) == ("mcp_transport_error", "unknown")
            assert len(server.of("tools/call")) == 1
