"""A session over a connection of this package."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    LocalProtocolError,
    MethodNotFound,
    RpcError,
    TransportError,
)
from mcpl_core.mcp.native import NativeSession, client_capabilities, native_session
from mcpl_core.transports.memory import ScriptedTransport
from tests.mcp.peers import LIMIT, FakeServer, refuse, served, text

pytestmark = pytest.mark.anyio

INFO = {"name": "test", "version": "1"}


@asynccontextmanager
async def opened(server: FakeServer, **options: Any) -> AsyncIterator[NativeSession]:
    async def dial() -> McplConnection:
        return server.connect()

    async with served(server):
        async with native_session(dial, client_info=INFO, **{"timeout": 30.0, **options}) as session:
            yield session


class Peer:
    """A server that the test plays, message by message."""

    def __init__(self) -> None:
        self.transport = ScriptedTransport()

    async def next(self, method: str) -> Any:
        while True:
            message = await self.transport.next_sent()
            if message.get("method") == method or (method == "" and "method" not in message):
                return message

    def reply(self, request: Any, result: Any) -> None:
        self.transport.feed({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def note(self, method: str, params: Any) -> None:
        self.transport.feed({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, id: Any, method: str, params: Any = None) -> None:
        self.transport.feed({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})


@asynccontextmanager
async def scripted(**options: Any) -> AsyncIterator[tuple[Peer, NativeSession]]:
    peer = Peer()

    async def dial() -> McplConnection:
        return McplConnection(peer.transport)

    async def shake() -> None:
        request = await peer.next("initialize")
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        peer.reply(request, result)
        await peer.next("notifications/initialized")
        shaken.set()

    shaken = anyio.Event()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shake)
            async with native_session(dial, client_info=INFO, **{"timeout": 30.0, **options}) as session:
                await shaken.wait()
                yield peer, session


# -- the handshake


@pytest.mark.spec("R-mcp-1")
async def test_the_first_message_is_initialize() -> None:
    server = FakeServer(instructions="Be kind.", capabilities={"tools": {"listChanged": True}})
    async with opened(server) as session:
        assert session.protocol_version == "2025-11-25"
        assert session.server_info == {"name": "fake", "version": "1"}
        assert session.capabilities == {"tools": {"listChanged": True}}
        assert session.instructions == "Be kind."
        await server.next("notifications/initialized")
        assert [each["method"] for each in server.heard] == ["initialize", "notifications/initialized"]
        assert server.heard[0]["params"] == {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": INFO,
        }


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_versions_with_a_handshake_are_spoken(version: str) -> None:
    async with opened(FakeServer(protocolVersion=version)) as session:
        assert session.protocol_version == version


@pytest.mark.parametrize("version", ["2026-07-28", "2024-10-07", None, 7])
async def test_other_versions_are_not(version: Any) -> None:
    server = FakeServer(protocolVersion=version)
    with pytest.raises(InvalidResultError) as caught:
        async with opened(server):
            raise AssertionError("it opened")
    assert caught.value.path == "$.protocolVersion"
    assert server.of("notifications/initialized") == []


async def test_odd_members_of_the_handshake_read_as_absent() -> None:
    async with opened(FakeServer(serverInfo=None, capabilities=[], instructions=7)) as session:
        assert (session.server_info, session.capabilities, session.instructions) == ({}, {}, None)


async def test_a_server_that_is_not_there() -> None:
    async def dial() -> McplConnection:
        raise TransportError("nobody")

    with pytest.raises(TransportError):
        async with native_session(dial, client_info=INFO, timeout=None):
            raise AssertionError("it opened")


async def test_what_a_client_says_follows_from_its_handlers() -> None:
    assert client_capabilities({}) == {}
    handlers = dict.fromkeys(["elicitation/create", "roots/list", "sampling/createMessage", "x/y"], len)
    assert client_capabilities(handlers) == {"elicitation": {}, "sampling": {}, "roots": {}}


# -- requests


async def test_results_come_as_they_are() -> None:
    result = text("hi", later={"x": [1, None]}, _meta={"y": 1}, toolResult=7)
    async with opened(FakeServer(call=lambda params: result)) as session:
        assert await session.request("tools/call", {"name": "echo", "arguments": {}}) == result
        assert await session.request("resources/list") == {"resources": [], "asked": None}


@pytest.mark.spec("R-mcp-9")
async def test_without_a_wish_for_progress_nothing_is_added() -> None:
    server = FakeServer()
    async with opened(server) as session:
        await session.request("tools/call", {"name": "echo", "arguments": {}})
        assert server.of("tools/call")[0]["params"] == {"name": "echo", "arguments": {}}
        await session.request(
            "tools/call", {"name": "echo", "_meta": {"a": 1}, "arguments": {}}, reset_on_progress=True
        )
        assert server.of("tools/call")[1]["params"]["_meta"] == {"a": 1, "progressToken": "progress-3"}


async def test_errors_keep_their_class() -> None:
    async with opened(FakeServer(call=refuse(-32099, "busy", {"a": 1}))) as session:
        with pytest.raises(RpcError) as caught:
            await session.request("tools/call", {"name": "echo", "arguments": {}})
        assert (caught.value.code, caught.value.message, caught.value.data) == (-32099, "busy", {"a": 1})
        with pytest.raises(MethodNotFound):
            await session.request("prompts/list")


@pytest.mark.parametrize("result", [None, 7, "x", [1]])
async def test_a_result_is_an_object(result: Any) -> None:
    async with opened(FakeServer(call=lambda params: result)) as session:
        with pytest.raises(InvalidResultError):
            await session.request("tools/call", {})


@pytest.mark.parametrize("options", [{"timeout": 0.0}, {"timeout": 30.0, "max_total": 0.0}])
async def test_a_request_that_takes_too_long_is_given_up_and_told(options: Any) -> None:
    async with scripted() as (peer, session):
        with pytest.raises(ConnectionTimeoutError) as caught:
            await session.request("tools/call", {}, **options)
        assert (caught.value.method, caught.value.outcome) == ("tools/call", "no-response")
        request = await peer.next("tools/call")
        notice = await peer.next("notifications/cancelled")
        assert notice["params"]["requestId"] == request["id"]


async def test_the_session_has_a_timeout_of_its_own() -> None:
    async with scripted() as (_, session):
        session._timeout = 0.0
        with pytest.raises(ConnectionTimeoutError):
            await session.request("tools/call", {})


async def test_a_caller_that_is_cancelled_tells_the_server() -> None:
    async with scripted() as (peer, session), anyio.create_task_group() as tasks:
        tasks.start_soon(session.request, "tools/call", {})
        request = await peer.next("tools/call")
        tasks.cancel_scope.cancel()
    assert (await peer.next("notifications/cancelled"))["params"]["requestId"] == request["id"]


# -- progress


async def test_progress_is_heard_in_order_and_gives_time() -> None:
    seen: list[Any] = []
    deadlines: list[float] = []
    async with scripted() as (peer, session), anyio.create_task_group() as tasks:

        async def call() -> None:
            await session.request("tools/call", {}, timeout=50.0, reset_on_progress=True, on_progress=seen.append)

        tasks.start_soon(call)
        request = await peer.next("tools/call")
        token = request["params"]["_meta"]["progressToken"]
        (waiting,) = session._waiting.requests
        deadlines.append(waiting.scope.deadline)
        waiting.budget._due = deadlines[0] - 10.0
        peer.note("notifications/progress", {"progressToken": token, "progress": 1, "message": "so far"})
        for odd in (
            {"progressToken": "other", "progress": 2},
            {"progressToken": True, "progress": 3},
            {"progress": 4},
            7,
        ):
            peer.note("notifications/progress", odd)
        peer.note("notifications/progress", {"progressToken": token, "progress": 0.5})
        peer.note("notifications/progress", {"progressToken": token, "progress": 1})
        peer.note("notifications/progress", {"progressToken": token, "progress": 2.5, "total": 3})
        peer.ask("q", "ping")
        await peer.next("")
        deadlines.append(waiting.scope.deadline)
        peer.reply(request, {})
    assert [each["progress"] for each in seen] == [1, 2.5]
    assert seen[0] == {"progressToken": token, "progress": 1, "message": "so far"}
    assert deadlines[1] >= deadlines[0]


async def test_after_its_end_a_request_hears_of_no_progress() -> None:
    seen: list[Any] = []
    async with scripted() as (peer, session), anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: session.request("tools/call", {}, on_progress=seen.append))
        request = await peer.next("tools/call")
        params = {"progressToken": request["params"]["_meta"]["progressToken"], "progress": 1}
        # In one read: the request is over before whoever made it can know.
        peer.transport.feed(
            {"jsonrpc": "2.0", "id": request["id"], "result": {}},
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": params},
        )
        peer.ask("q", "ping")
        await peer.next("")
    assert seen == []
    assert session._waiting.tokens == {}


# -- what the server asks


async def test_the_server_is_answered() -> None:
    async def elicit(params: Any) -> Any:
        return {"action": "accept", "content": params["asked"]}

    handlers = {"elicitation/create": elicit, "roots/list": lambda params: {"roots": []}}
    async with scripted(handlers=handlers) as (peer, _):
        peer.ask("a", "elicitation/create", {"asked": {"x": 1}})
        assert (await peer.next(""))["result"] == {"action": "accept", "content": {"x": 1}}
        peer.ask("b", "roots/list")
        assert (await peer.next(""))["result"] == {"roots": []}
        peer.ask("c", "ping")
        assert (await peer.next(""))["result"] == {}
        peer.ask("d", "sampling/createMessage")
        assert (await peer.next(""))["error"]["code"] == -32601


@pytest.mark.spec("R-mcp-10")
async def test_while_a_person_is_asked_no_request_runs_out_of_time() -> None:
    asked, answered = anyio.Event(), anyio.Event()

    async def elicit(params: Any) -> Any:
        asked.set()
        await answered.wait()
        return {"action": "decline"}

    async with scripted(handlers={"elicitation/create": elicit}) as (peer, session):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: session.request("tools/call", {}, timeout=60.0))
            first = await peer.next("tools/call")
            peer.ask("a", "elicitation/create")
            peer.ask("b", "elicitation/create")
            await asked.wait()
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(lambda: session.request("tools/list", {}, timeout=60.0))
            second = await peer.next("tools/list")
            assert {waiting.scope.deadline for waiting in session._waiting.requests} == {float("inf")}
            answered.set()
            await peer.next("")
            await peer.next("")
            assert all(waiting.scope.deadline < float("inf") for waiting in session._waiting.requests)
            peer.reply(first, {})
            peer.reply(second, {})


async def test_progress_may_give_time_and_be_heard_by_nobody() -> None:
    async with scripted() as (peer, session), anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: session.request("tools/call", {}, reset_on_progress=True))
        request = await peer.next("tools/call")
        token = request["params"]["_meta"]["progressToken"]
        peer.note("notifications/progress", {"progressToken": token, "progress": 1})
        peer.reply(request, {})


async def test_serving_that_breaks_ends_the_session() -> None:
    reports: list[BaseException] = []
    async with scripted() as (_, session):

        async def serve(*args: Any, **options: Any) -> None:
            raise LocalProtocolError("broken")

        session.connection.on_error(reports.append)
        session.connection.serve = serve  # type: ignore[method-assign]
        await session.serve()
        await session.wait_closed()
    assert [type(each) for each in reports] == [LocalProtocolError]


async def test_a_handler_that_fails_is_reported_and_answered() -> None:
    async def broken(params: Any) -> Any:
        raise RuntimeError("broken")

    reports: list[BaseException] = []
    async with scripted(handlers={"roots/list": broken}) as (peer, session):
        session.connection.on_error(reports.append)
        peer.ask("a", "roots/list")
        assert (await peer.next(""))["error"]["code"] == -32603
    assert [type(each) for each in reports] == [RuntimeError]


# -- notifications


async def test_notifications_are_heard_in_order_and_by_each() -> None:
    first: list[Any] = []
    second: list[Any] = []
    reports: list[BaseException] = []

    def broken(method: str, params: Any) -> None:
        raise RuntimeError("broken")

    async with scripted() as (peer, session):
        session.connection.on_error(reports.append)
        remove = session.on_notification(lambda method, params: first.append((method, params)))
        session.on_notification(broken)
        session.on_notification(lambda method, params: second.append(method))
        peer.note("notifications/tools/list_changed", {"a": 1})
        peer.note("x/y", [])
        peer.ask("q", "ping")
        await peer.next("")
        remove()
        remove()
        peer.note("later", {})
        peer.ask("q", "ping")
        await peer.next("")
    assert first == [("notifications/tools/list_changed", {"a": 1}), ("x/y", [])]
    assert second == ["notifications/tools/list_changed", "x/y", "later"]
    assert len(reports) == 3


async def test_a_notification_is_sent() -> None:
    server = FakeServer()
    async with opened(server) as session:
        await session.notify("notifications/roots/list_changed", {"a": 1})
        assert (await server.next("notifications/roots/list_changed"))["params"] == {"a": 1}


# -- the end


async def test_a_broken_connection_settles_what_was_out() -> None:
    async def never(params: Any) -> Any:
        await anyio.Event().wait()

    server = FakeServer(call=never)
    failures: list[ConnectionClosedError] = []
    async with opened(server) as session:

        async def call() -> None:
            with pytest.raises(ConnectionClosedError) as caught:
                await session.request("tools/call", {})
            failures.append(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await server.next("tools/call")
            await server.kill()
        assert await session.wait_closed() is None
        with pytest.raises(ConnectionClosedError) as late:
            await session.request("tools/call", {})
    assert [failure.outcome for failure in failures] == ["no-response"]
    assert late.value.outcome == "not-sent"


@pytest.mark.spec("R-mcp-13")
@pytest.mark.parametrize("how", ["aclose", "terminate"])
async def test_closing(how: str) -> None:
    async with opened(FakeServer()) as session:
        if how == "aclose":
            await session.aclose()
            await session.aclose()
        else:
            outcome = await session.terminate()
            assert (outcome.kind, outcome.resolved, outcome.status) == ("no-session", True, None)
            assert outcome.duration >= 0
        await session.wait_closed()


async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    async def run(server: FakeServer, raised: Callable[[], None]) -> None:
        async def dial() -> McplConnection:
            return server.connect()

        async with native_session(dial, client_info=INFO, timeout=None):
            raised()

    def fail() -> None:
        raise KeyError("ours")

    server = FakeServer()
    async with served(server):
        with pytest.raises(KeyError):
            await run(server, fail)


async def test_functions_that_raise_cost_nobody_else_anything() -> None:
    failures: list[BaseException] = []
    heard: list[str] = []

    def broken(*arguments: Any) -> None:
        raise RuntimeError("ours")

    async with scripted() as (peer, session), anyio.create_task_group() as tasks:
        session.connection.on_error(failures.append)
        session.on_notification(broken)
        session.on_notification(lambda method, params: heard.append(method))
        tasks.start_soon(lambda: session.request("tools/call", {}, on_progress=broken))
        request = await peer.next("tools/call")
        token = request["params"]["_meta"]["progressToken"]
        peer.note("notifications/progress", {"progressToken": token, "progress": 1})
        peer.reply(request, {})
    assert heard == ["notifications/progress"]
    assert [type(each) for each in failures] == [RuntimeError, RuntimeError]


async def test_a_server_that_says_no_more_is_asked_no_more() -> None:
    asked, answered = anyio.Event(), anyio.Event()

    async def answer(params: Any) -> dict[str, Any]:
        asked.set()
        await answered.wait()
        return {}

    async with scripted(handlers={"elicitation/create": answer}) as (peer, session):
        peer.ask("e", "elicitation/create")
        await asked.wait()
        before = session.is_closed
        peer.transport.end()
        await anyio.wait_all_tasks_blocked()
        assert (before, session.is_closed, session.connection.is_closed) == (False, True, False)
        with pytest.raises(ConnectionClosedError) as caught:
            await session.request("tools/list")
        assert caught.value.outcome == "not-sent"
        answered.set()
        await session.wait_closed()
