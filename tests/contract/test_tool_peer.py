"""One contract for every kind of session that a catalog borrows.

It proves how the sessions are used. Of servers of others it proves nothing, and neither does a handshake that works.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpl_core.catalog import CatalogError, CatalogLimits, CatalogMonitor, ReadRegistration, ToolPeer, discover_tools
from mcpl_core.catalog.outcomes import CallOutcome
from tests.catalog.kit import CALLER, CANARY, FIXTURES, ManualTimer, read_binding, text_result, tool
from tests.catalog.peers.wire import PEERS, WireServer

pytestmark = pytest.mark.anyio
Json = dict[str, Any]

BINDINGS = {"remote.search": read_binding()}


@pytest.fixture(params=list(PEERS))
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    if found in ("sdk", "http"):
        pytest.importorskip("mcp")
    return found


class Scene:
    """A server, a peer at it, and what was discovered."""

    def __init__(self, peer: ToolPeer, monitor: CatalogMonitor, registration: ReadRegistration) -> None:
        self.peer = peer
        self.monitor = monitor
        self.registration = registration

    async def call(self) -> CallOutcome:
        return await self.registration.call({"q": "x"}, CALLER)


@asynccontextmanager
async def scene(kind: str, server: WireServer, **options: Any) -> AsyncIterator[Scene]:
    async with PEERS[kind](server) as peer:
        monitor = CatalogMonitor()
        peer.watch(monitor)
        catalog = await discover_tools(peer, "wire", BINDINGS, monitor=monitor, **options)
        yield Scene(peer, monitor, catalog.registrations[0])


async def test_a_call_from_end_to_end(kind: str) -> None:
    server = WireServer()
    async with scene(kind, server) as at:
        outcome = await at.call()
        assert (outcome.text, outcome.structured, outcome.error_code) == (("found",), None, None)
        call = await server.heard("tools/call")
        assert call["params"]["name"] == "remote.search"
        assert call["params"]["arguments"] == {"q": "x"}
    # Nothing beside the two methods, and nothing twice.
    assert server.methods() == ["tools/list", "tools/call"]


@pytest.mark.spec("R-catalog-12")
async def test_none_of_these_repeats_by_itself(kind: str) -> None:
    async with PEERS[kind](WireServer()) as peer:
        assert peer.may_repeat is False


async def test_the_same_catalog_through_every_peer(kind: str) -> None:
    digests = set()
    for one in (kind, "connection"):
        async with PEERS[one](WireServer()) as peer:
            monitor = CatalogMonitor()
            peer.watch(monitor)
            digests.add((await discover_tools(peer, "wire", BINDINGS, monitor=monitor)).snapshot.revision_digest)
    assert len(digests) == 1


@pytest.mark.parametrize("name", ["both", "wrong_output", "tool_error", "image", "resource_link", "text_only"])
async def test_cases_of_the_fixtures(kind: str, name: str) -> None:
    (case,) = (case for case in FIXTURES["calls"] if case["name"] == name)
    members = {"outputSchema": FIXTURES["output"]} if case.get("output") else {}
    server = WireServer([tool(inputSchema=FIXTURES["input"], **members)])

    async def answer(message: Json) -> None:
        await server.answer(message, case["result"])

    server.call = answer
    async with scene(kind, server) as at:
        outcome = await at.registration.call(case["arguments"], CALLER)
    assert outcome.error_code == case.get("code")
    if "text" in case:
        assert outcome.envelope() == {"text": case["text"], "structured": case["structured"]}


async def test_null_arguments_travel(kind: str) -> None:
    server = WireServer([tool(inputSchema={"type": "object"})])
    async with scene(kind, server) as at:
        assert (await at.registration.call({"a": None, "b": {"c": [None]}}, CALLER)).ok
        call = await server.heard("tools/call")
    assert call["params"]["arguments"] == {"a": None, "b": {"c": [None]}}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_the_version_is_that_of_the_answer(kind: str, version: str) -> None:
    server = WireServer(version=version)
    async with PEERS[kind](server) as peer:
        monitor = CatalogMonitor()
        peer.watch(monitor)
        catalog = await discover_tools(peer, "wire", BINDINGS, monitor=monitor)
    assert (monitor.protocol_version, catalog.snapshot.protocol_version) == (version, version)


async def test_a_version_that_the_catalog_does_not_know(kind: str) -> None:
    async with PEERS[kind](WireServer(version="2025-03-26")) as peer:
        monitor = CatalogMonitor()
        with pytest.raises(CatalogError) as caught:
            peer.watch(monitor)
    assert caught.value.code == "mcp_protocol_unsupported"
    assert monitor.closed
    # It is the server's word, and stands in no frame but those of this test.
    tail = caught.tb.tb_next
    frames = traceback.TracebackException(CatalogError, caught.value, tail, capture_locals=True).format()
    assert "2025-03-26" not in "".join(frames)


async def test_a_server_without_tools(kind: str) -> None:
    server = WireServer(capabilities={"prompts": {}})
    async with PEERS[kind](server) as peer:
        monitor = CatalogMonitor()
        peer.watch(monitor)
        with pytest.raises(CatalogError) as caught:
            await discover_tools(peer, "wire", BINDINGS, monitor=monitor)
    assert caught.value.code == "mcp_tools_unavailable"
    assert server.methods() == []


async def test_a_notice_reaches_everybody_who_watches(kind: str) -> None:
    server = WireServer()
    async with scene(kind, server) as at:
        other = CatalogMonitor()
        leave = at.peer.watch(other)
        await server.changed()
        # An answer behind it: what came before was seen.
        assert (await at.call()).error_code == "mcp_catalog_stale"
        assert (at.monitor.revision, other.revision) == (1, 1)
        leave()
        await server.changed()
        await at.peer.request("tools/list", {})
        assert (at.monitor.revision, other.revision) == (2, 1)


async def test_a_notice_before_the_answer_discards_it(kind: str) -> None:
    server = WireServer()

    async def answer(message: Json) -> None:
        await server.changed()
        await server.answer(message, text_result(CANARY))

    server.call = answer
    async with scene(kind, server) as at:
        assert await at.call() == CallOutcome(error_code="mcp_catalog_stale", effect="not_started")


@pytest.mark.spec("R-catalog-4")
@pytest.mark.parametrize("number", [-32602, -32603, -32001, -32000, 408, 7])
async def test_an_error_of_the_server(kind: str, number: int, caplog: pytest.LogCaptureFixture) -> None:
    server = WireServer()

    async def refuse(message: Json) -> None:
        await server.error(message, number, CANARY)

    server.call = refuse
    with caplog.at_level(logging.WARNING):
        async with scene(kind, server) as at:
            outcome = await at.call()
    by_number = {-32001: "mcp_timeout", 408: "mcp_timeout", -32000: "mcp_transport_error"} if kind == "sdk" else {}
    assert outcome.error_code == by_number.get(number, "mcp_protocol_error")
    assert CANARY not in repr(outcome) + caplog.text
    assert server.methods() == ["tools/list", "tools/call"]


@pytest.mark.spec("R-catalog-13")
@pytest.mark.parametrize(
    "said",
    [
        f"{CANARY} starting",
        json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": CANARY}}),
        json.dumps({"jsonrpc": "2.0", "id": CANARY, "result": {}}),
        json.dumps({"jsonrpc": "2.0", "method": CANARY, "params": CANARY}),
        json.dumps({"jsonrpc": "2.0", "id": CANARY, "method": CANARY}),
        f'{{"jsonrpc":"2.0","id":9,"result":{{"content":NaN,"{CANARY}":1}}}}',
    ],
    ids=["a-banner", "an-error-of-nothing", "an-answer-to-nothing", "a-notification", "a-request", "no-json"],
)
@pytest.mark.parametrize("kind", [kind for kind in PEERS if kind != "sdk"])
async def test_nothing_of_what_else_the_server_says_is_logged(
    kind: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = WireServer()

    async def babble(message: Json) -> None:
        assert server._send is not None
        await server._send(said.encode())
        await server.answer(message, text_result("found"))

    server.call = babble
    # On a way that is the answer's own, an error without an id is a refusal.
    refused = kind == "http" and '"id": null' in said
    with caplog.at_level(logging.DEBUG):
        async with scene(kind, server) as at:
            assert (await at.call()).error_code == ("mcp_protocol_error" if refused else None)
    assert CANARY not in caplog.text


async def test_the_deadline_takes_the_request_back_on_the_wire(kind: str) -> None:
    """A server that reads and never answers; its answer after all is dropped."""
    server, timer, outcomes = WireServer(), ManualTimer(), []
    waiting: list[Json] = []

    async def wait(message: Json) -> None:
        waiting.append(message)

    server.call = wait
    async with scene(kind, server, timer=timer) as at:

        async def call() -> None:
            outcomes.append(await at.call())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            request = await server.heard("tools/call")
            timer.advance(30)
            notice = await server.heard("notifications/cancelled")
        assert notice["params"]["requestId"] == request["id"]
        assert outcomes == [CallOutcome(error_code="mcp_timeout", effect="not_started")]
        await server.answer(waiting[0], text_result(CANARY))
        server.call = server._found
        assert (await at.call()).text == ("found",)
    assert server.methods() == ["tools/list", "tools/call", "notifications/cancelled", "tools/call"]


async def test_a_caller_that_is_cancelled_tells_the_server(kind: str) -> None:
    server, after = WireServer(), []

    async def wait(message: Json) -> None:
        pass

    server.call = wait
    async with scene(kind, server) as at:

        async def call() -> None:
            await at.call()
            after.append("returned")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            request = await server.heard("tools/call")
            tasks.cancel_scope.cancel()
        notice = await server.heard("notifications/cancelled")
        assert notice["params"]["requestId"] == request["id"]
        server.call = server._found
        assert (await at.call()).ok
    assert after == []


async def test_a_server_that_vanishes_in_the_middle(kind: str) -> None:
    server = WireServer()

    async def vanish(message: Json) -> None:
        await server.vanish()

    server.call = vanish
    async with scene(kind, server) as at:
        assert await at.call() == CallOutcome(error_code="mcp_transport_error", effect="not_started")
        # Nothing is sent any more. A session of the SDK tells nobody that it is over; ours do.
        over = "mcp_transport_error" if kind == "sdk" else "mcp_connection_closed"
        assert (await at.call()).error_code == over
        assert at.monitor.closed is (kind != "sdk")
    assert server.methods() == ["tools/list", "tools/call"]


async def test_an_error_of_the_server_ends_no_session(kind: str) -> None:
    """Whatever its number: -32000 is a server error for many."""
    server = WireServer()

    async def refuse(message: Json) -> None:
        await server.error(message, -32000, CANARY)

    server.call = refuse
    async with scene(kind, server) as at:
        assert not (await at.call()).ok
        server.call = server._found
        assert (await at.call()).ok


async def test_the_server_may_ask_for_nothing(kind: str) -> None:
    """No client feature is advertised on this way, and a request of the server is refused."""
    server = WireServer()
    async with scene(kind, server):
        asked = await server.heard("initialize")
        advertised = asked["params"]["capabilities"]
        assert not {"sampling", "elicitation", "roots", "tasks"} & {
            name for name in advertised if advertised[name] is not None
        }
        await server.send({"id": 77, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
        while not any(message.get("id") == 77 for message in server.received):
            await server._heard.wait()
        (refused,) = (message for message in server.received if message.get("id") == 77)
        assert refused["error"]["code"] in (-32601, -32600, -32602)


async def test_pages_and_cursors(kind: str) -> None:
    """An empty cursor is one, and travels as one."""
    server = WireServer()
    pages: dict[Any, Json] = {
        None: {"tools": [tool("a")], "nextCursor": ""},
        "": {"tools": [tool()], "nextCursor": None},
    }
    asked: list[Any] = []
    plain = server.handle

    async def handle(text: bytes) -> None:
        message = json.loads(text)
        if message.get("method") != "tools/list":
            await plain(text)
            return
        server.received.append(message)
        asked.append((message.get("params") or {}).get("cursor"))
        await server.answer(message, {key: value for key, value in pages[asked[-1]].items() if value is not None})

    server.handle = handle  # type: ignore[method-assign]
    async with scene(kind, server, limits=CatalogLimits(max_pages=2)) as at:
        assert at.registration.remote_name == "remote.search"
    assert asked == [None, ""]
