"""Sessions of the official SDK as peers; and a server of the SDK in a process of its own, behind two kinds of peers.

What all kinds of peers do alike is in the contract of peers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.catalog import (
    CatalogError,
    CatalogMonitor,
    ConnectionPeer,
    SdkNotices,
    SdkPeer,
    ToolPeer,
    discover_tools,
)
from mcpl_core.catalog.outcomes import CallOutcome
from mcpl_core.errors import LocalProtocolError
from tests.catalog.kit import CALLER, CANARY, FIXTURES, ManualTimer, read_binding, text_result
from tests.catalog.peers.wire import WireServer, sdk_peer

mcp = pytest.importorskip("mcp")
memory = pytest.importorskip("mcp.shared.memory")
stdio = pytest.importorskip("mcp.client.stdio")

pytestmark = pytest.mark.anyio
#: What a server of the SDK can answer with.
CASES = {
    case["name"]: case for case in FIXTURES["calls"] if "result" in case and case.get("code") != "mcp_result_invalid"
}
PROGRAM = str(Path(__file__).parent / "sdk_server.py")


async def test_notices_go_to_the_monitors_and_then_to_the_host() -> None:
    monitor, heard = CatalogMonitor(), []

    async def inner(message: Any) -> None:
        heard.append((message, monitor.revision, monitor.closed))

    notices = SdkNotices(inner)
    leave = notices.watchers.add(monitor)
    changed = type("Notice", (), {"method": "notifications/tools/list_changed"})()
    other = type("Notice", (), {"method": "notifications/message"})()
    broken = RuntimeError(CANARY)
    for message in (other, changed, broken):
        await notices(message)
    assert heard == [(other, 0, False), (changed, 1, False), (broken, 1, True)]
    leave()
    await SdkNotices()(changed)


async def test_without_the_sdk_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    session: Any = None
    with pytest.raises(LocalProtocolError) as caught:
        SdkPeer(session, SdkNotices())
    assert caught.value.__cause__ is None
    assert "mcp-live-core[mcp]" in str(caught.value)


async def test_an_exception_of_the_stream_ends_it() -> None:
    """What the SDK hands to its message handler when its stream fails."""
    server = WireServer()
    async with sdk_peer(server) as peer:
        monitor = CatalogMonitor()
        peer.watch(monitor)
        catalog = await discover_tools(peer, "s", {"remote.search": read_binding()}, monitor=monitor)
        assert isinstance(peer, SdkPeer)
        await peer._notices(ValueError(CANARY))
        outcome = await catalog.registrations[0].call({"q": "x"}, CALLER)
    assert outcome == CallOutcome(error_code="mcp_connection_closed", effect="not_started")
    assert server.methods() == ["tools/list"]


async def test_a_notice_that_is_still_being_handed_over_is_heard() -> None:
    """The SDK handles each notice in a task of its own: it may be waiting for its turn when the answer is there."""
    changed = type("Notice", (), {"method": "notifications/tools/list_changed"})()
    notices, monitor = SdkNotices(), CatalogMonitor()
    notices.watchers.add(monitor)

    class Session:
        async def send_request(self, request: Any, result_type: Any) -> Any:
            tasks.start_soon(notices, changed)
            return result_type.model_validate({"tools": []}, by_name=False)

    session: Any = Session()
    async with anyio.create_task_group() as tasks:
        await SdkPeer(session, notices).request("tools/list", {})
        assert monitor.revision == 1


async def test_a_session_that_is_not_initialized() -> None:
    async with memory.create_client_server_memory_streams() as ((read, write), _):
        async with mcp.ClientSession(read, write) as session:
            peer, monitor = SdkPeer(session, SdkNotices()), CatalogMonitor()
            peer.watch(monitor)
            assert (peer.capabilities, monitor.protocol_version) == (None, None)
            with pytest.raises(CatalogError) as caught:
                await discover_tools(peer, "s", {"a": read_binding()}, monitor=monitor)
    assert caught.value.code == "mcp_not_initialized"
    assert "SdkPeer" in repr(peer)


async def test_a_result_that_its_models_refuse() -> None:
    server = WireServer()

    async def answer(message: Any) -> None:
        await server.answer(message, {"content": [{"type": "text", "text": 7, "x": CANARY}]})

    server.call = answer
    async with sdk_peer(server) as peer:
        monitor = CatalogMonitor()
        peer.watch(monitor)
        catalog = await discover_tools(peer, "s", {"remote.search": read_binding()}, monitor=monitor)
        outcome = await catalog.registrations[0].call({"q": "x"}, CALLER)
    assert outcome == CallOutcome(error_code="mcp_result_invalid", effect="not_started")


async def test_members_that_its_models_do_not_know_count_as_they_came() -> None:
    """The limit of bytes is that of the result as it came, not of what a model kept of it."""
    server = WireServer()

    async def answer(message: Any) -> None:
        await server.answer(message, text_result("x", unknown="y" * 70_000))

    server.call = answer
    async with sdk_peer(server) as peer:
        monitor = CatalogMonitor()
        peer.watch(monitor)
        catalog = await discover_tools(peer, "s", {"remote.search": read_binding()}, monitor=monitor)
        outcome = await catalog.registrations[0].call({"q": "x"}, CALLER)
    assert outcome.error_code == "mcp_result_too_large"


class Told:
    """What a child says, through a pipe with a name."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        # For writing, too: its end does not come when the child closes it.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._text = b""

    @property
    def lines(self) -> list[str]:
        return self._text.decode().splitlines()

    async def line(self, text: str) -> None:
        """Returns when the child said it."""
        while text not in self.lines:
            await anyio.wait_readable(self._descriptor)
            self._text += os.read(self._descriptor, 65_536)

    def close(self) -> None:
        os.close(self._descriptor)


@asynccontextmanager
async def through_the_sdk(*arguments: str) -> AsyncIterator[ToolPeer]:
    notices = SdkNotices()
    async with stdio.stdio_client(mcp.StdioServerParameters(command=sys.executable, args=[*arguments])) as streams:
        async with mcp.ClientSession(*streams, message_handler=notices) as session:
            await session.initialize()
            yield SdkPeer(session, notices)


@asynccontextmanager
async def through_a_connection(*arguments: str) -> AsyncIterator[ToolPeer]:
    async with McplConnection.spawn([sys.executable, *arguments]) as connection, anyio.create_task_group() as tasks:
        tasks.start_soon(connection.serve, {})
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        answer = await connection.send_request("initialize", params)
        await connection.send_notification("notifications/initialized")
        yield ConnectionPeer(connection, answer)
        await connection.aclose()
        tasks.cancel_scope.cancel()


#: Real children are slow to start: one for each kind of peer.
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("through", [through_the_sdk, through_a_connection])
async def test_a_server_of_the_sdk_in_its_own_process(through: Any, tmp_path: Path) -> None:
    told, timer = Told(tmp_path / "told"), ManualTimer()
    bindings = {name: read_binding(name) for name in [*CASES, "silent"]}
    outcomes: dict[str, CallOutcome] = {}
    with anyio.fail_after(20):
        async with through(PROGRAM, told.path) as peer:
            monitor = CatalogMonitor()
            peer.watch(monitor)
            catalog = await discover_tools(peer, "sdk", bindings, monitor=monitor, timer=timer)
            for name, case in CASES.items():
                outcomes[name] = await catalog.find(name).call(case["arguments"], CALLER)
            async with anyio.create_task_group() as tasks:

                async def call() -> None:
                    outcomes["silent"] = await catalog.find("silent").call({}, CALLER)

                tasks.start_soon(call)
                await told.line("call silent")
                timer.advance(30)
            # The server was told, and gave up.
            await told.line("cancelled")
    told.close()
    assert outcomes["silent"].error_code == "mcp_timeout"
    codes = {name: case.get("code") for name, case in CASES.items()}
    assert {name: outcomes[name].error_code for name in CASES} == codes
    for name, case in CASES.items():
        if "text" in case:
            assert outcomes[name].envelope() == {"text": case["text"], "structured": case["structured"]}
    calls = [line.split()[1] for line in told.lines if line.startswith("call ")]
    assert calls == [*CASES, "silent"]
