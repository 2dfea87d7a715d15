"""A client of one server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpl_core.errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    InvalidValueError,
    LocalProtocolError,
    RpcError,
    TransportError,
)
from mcpl_core.mcp.client import McpClient
from mcpl_core.mcp.connecting import mcp_client
from mcpl_core.mcp.errors import (
    McpOutputMismatchError,
    McpOutputUncheckedError,
    McpRediscoveryRequiredError,
    McpReplayUnavailableError,
    McpResultError,
    McpTaskRequiredError,
    McpToolError,
    McpToolListIncompleteError,
)
from mcpl_core.mcp.keeper import Reconnect
from mcpl_core.mcp.mock import MockSession
from mcpl_core.mcp.observing import ToolCallEnded, ToolCallStarted
from mcpl_core.mcp.outcomes import TerminateOutcome
from mcpl_core.testing import RawPeer
from mcpl_core.transports.memory import memory_transports
from tests.mcp.peers import ECHO, LIMIT, FakeServer, refuse, served, text

pytestmark = pytest.mark.anyio

COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
AT_ONCE = Reconnect(first_delay=0.0, longest_delay=0.0)


@asynccontextmanager
async def connected(server: FakeServer, **options: Any) -> AsyncIterator[McpClient]:
    async with served(server):
        async with mcp_client("fake", transport=server.connect, **{"reconnect": AT_ONCE, **options}) as client:
            yield client


def tool(name: str = "echo", **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


# -- tools


@pytest.mark.spec("R-mcp-5")
async def test_tools_are_listed_once_until_refresh() -> None:
    server = FakeServer()
    async with connected(server) as client:
        first = await client.tools()
        assert [(each.name, each.source, each.description) for each in first] == [("echo", "fake", "Says it again")]
        assert (await client.tools())[0] is first[0]
        assert len(server.of("tools/list")) == 1
        server.tools = [tool("other")]
        assert [each.name for each in await client.refresh()] == ["other"]
        assert [each.name for each in await client.tools()] == ["other"]
        assert [each["params"] for each in server.of("tools/list")] == [None, None]


async def test_asking_at_once_lists_once() -> None:
    server = FakeServer()
    async with connected(server) as client, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(client.tools)
    assert len(server.of("tools/list")) == 1


async def test_a_refresh_that_fails_keeps_what_was_known() -> None:
    pages: dict[str | None, Any] = {None: {"tools": [tool("a", outputSchema=COUNT)]}}
    server = FakeServer(lambda cursor: pages[cursor], call=lambda params: {"structuredContent": {"count": "x"}})
    async with connected(server) as client:
        before = await client.tools()
        pages[None] = {"tools": [tool("b")], "nextCursor": "2"}
        pages["2"] = {"tools": "broken"}
        with pytest.raises(InvalidResultError):
            await client.refresh()
        assert await client.tools() == before
        with pytest.raises(McpOutputMismatchError):
            await client.call("a")
        pages["2"] = {"tools": [], "nextCursor": "2"}
        with pytest.raises(McpToolListIncompleteError) as caught:
            await client.refresh()
        assert (caught.value.server, caught.value.reason) == ("fake", "repeated-cursor")
        assert [each["name"] for each in caught.value.tools] == ["b"]
        assert await client.tools() == before


async def test_giving_up_between_pages_leaves_the_old_list() -> None:
    hanging = anyio.Event()

    async def page(cursor: str | None) -> Any:
        if cursor is None:
            return {"tools": [tool("new")], "nextCursor": "2"}
        hanging.set()
        await anyio.sleep_forever()

    server = FakeServer()
    async with connected(server) as client:
        await client.tools()
        server.tools = page
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.refresh)
            await hanging.wait()
            tasks.cancel_scope.cancel()
        await server.next("notifications/cancelled")
        assert [each.name for each in await client.tools()] == ["echo"]
        assert client.session.connection.stats.pending == 0  # type: ignore[attr-defined]


async def test_names_with_a_prefix_lead_back() -> None:
    server = FakeServer([tool("read file"), tool("read_file")])
    async with connected(server, prefix="files") as client:
        names = [each.name for each in await client.tools()]
        for name in names:
            await client.call(name)
        assert [each["params"]["name"] for each in server.of("tools/call")] == ["read file", "read_file"]
        with pytest.raises(InvalidValueError):
            await client.call("read_file")


# -- calls


async def test_a_call_sends_its_name_and_arguments_and_no_more() -> None:
    server = FakeServer()
    async with connected(server) as client:
        assert await client.call("echo", {"a": 1}) == "{'a': 1}"
        assert server.of("tools/call")[0]["params"] == {"name": "echo", "arguments": {"a": 1}}


@pytest.mark.parametrize("arguments", [None, [1], 7, "x"])
async def test_arguments_that_are_no_object_are_empty_ones(arguments: Any) -> None:
    server = FakeServer()
    async with connected(server) as client:
        await client.call("echo", arguments)
        assert server.of("tools/call")[0]["params"]["arguments"] == {}


@pytest.mark.spec("R-mcp-9")
async def test_meta_is_there_only_when_it_has_members() -> None:
    context: dict[str, str] | None = None
    server = FakeServer()
    async with connected(server, trace=lambda: context) as client:
        await client.call("echo", time="2026-01-01T00:00:00Z")
        await client.call("echo", meta={"own": 1}, time=None)
        await client.call("echo", meta={})
        context = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "x=1", "other": "no"}
        await client.call("echo", meta={"own": 1})
    metas = [each["params"].get("_meta") for each in server.of("tools/call")]
    assert metas == [
        {"mcpl/time": "2026-01-01T00:00:00Z"},
        {"own": 1, "mcpl/time": None},
        None,
        {"own": 1, "traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "x=1"},
    ]


async def test_a_tool_may_be_called_as_an_object() -> None:
    async with connected(FakeServer()) as client:
        (echo,) = await client.tools()
        assert await echo({"b": 2}) == "{'b': 2}"
        answer = await client.answer(echo, {"b": 3})
        assert (answer.value, answer.result) == ("{'b': 3}", text("{'b': 3}"))


async def test_a_tool_of_another_client_is_not_called() -> None:
    server = FakeServer()
    async with served(server):
        async with mcp_client("a", transport=server.connect) as a, mcp_client("b", transport=server.connect) as b:
            (foreign,) = await a.tools()
            await b.tools()
            with pytest.raises(InvalidValueError) as caught:
                await b.call(foreign)
            assert caught.value.code == "foreign_tool"
    assert server.of("tools/call") == []


async def test_results_are_read_in_the_clients_mode() -> None:
    result = text('{"a": 1}')
    server = FakeServer(call=lambda params: result)
    async with connected(server, result_mode="structured-or-json") as client:
        assert await client.call("echo") == {"a": 1}
        result["structuredContent"] = [1]
        with pytest.raises(McpResultError) as caught:
            await client.call("echo")
        assert (caught.value.server, caught.value.tool, caught.value.fault) == ("fake", "echo", "structured-not-object")


async def test_failures_keep_their_kind() -> None:
    server = FakeServer(call=lambda params: text("no such file", isError=True))
    async with connected(server) as client:
        with pytest.raises(McpToolError) as failed:
            await client.call("echo")
        assert (failed.value.server, failed.value.tool, failed.value.text) == ("fake", "echo", "no such file")
        server.call = refuse(-32602)
        with pytest.raises(RpcError):
            await client.call("echo")
        with pytest.raises(InvalidValueError) as unknown:
            await client.call("nothing")
        assert unknown.value.code == "unknown_tool"


async def test_timeouts_of_a_call() -> None:
    async def never(params: Any) -> Any:
        await anyio.sleep_forever()

    server = FakeServer(call=never)
    async with connected(server) as client:
        await client.tools()
        with pytest.raises(ConnectionTimeoutError):
            await client.call("echo", timeout=0.0)
        with pytest.raises(ConnectionTimeoutError):
            await client.call("echo", max_total=0.0)
        await server.next("notifications/cancelled", 2)


class Spy:
    """What a call hands to its session."""

    def __init__(self, client: McpClient) -> None:
        self.options: list[Any] = []
        session: Any = client.session
        request = session.request

        async def spy(method: str, params: Any = None, **options: Any) -> Any:
            self.options.append(options)
            return await request(method, params, **options)

        session.request = spy


@pytest.mark.spec("R-mcp-10")
@pytest.mark.parametrize(
    ("options", "of_call", "expected"),
    [
        ({}, {}, (False, None)),
        ({"reset_on_progress": True}, {}, (True, 600.0)),
        ({"reset_on_progress": True, "max_total": 50.0}, {}, (True, 50.0)),
        ({"reset_on_progress": True}, {"timeout": None}, (True, None)),
        ({"reset_on_progress": True}, {"max_total": 5.0}, (True, 5.0)),
        ({"reset_on_progress": True}, {"reset_on_progress": False}, (False, None)),
        ({}, {"reset_on_progress": True, "max_total": None}, (True, None)),
    ],
)
async def test_progress_extends_within_a_cap(options: Any, of_call: Any, expected: Any) -> None:
    async with connected(FakeServer(), **options) as client:
        await client.tools()
        spy = Spy(client)
        await client.call("echo", **of_call)
        (given,) = spy.options
        assert (given["reset_on_progress"], given["max_total"]) == expected


async def test_progress_is_heard() -> None:
    seen: list[Any] = []

    async def call(params: Any) -> Any:
        token = params["_meta"]["progressToken"]
        await server.connections[-1].send_notification(
            "notifications/progress", {"progressToken": token, "progress": 1}
        )
        return text("done")

    server = FakeServer(call=call)
    async with connected(server) as client:
        await client.call("echo", on_progress=seen.append)
    assert [each["progress"] for each in seen] == [1]


# -- checks for life


async def test_what_cannot_be_called_is_not_sent() -> None:
    tools = [tool("task", execution={"taskSupport": "required"}), tool("odd", outputSchema={"type": 7})]
    server = FakeServer(tools)
    async with connected(server) as client:
        with pytest.raises(McpTaskRequiredError):
            await client.call("task")
        with pytest.raises(McpOutputUncheckedError) as caught:
            await client.call("odd")
        assert not caught.value.sent
    assert server.of("tools/call") == []


@pytest.mark.spec("R-mcp-6")
async def test_a_tool_keeps_the_checks_of_its_listing() -> None:
    server = FakeServer([tool(outputSchema=COUNT)], call=lambda params: text("7"))
    async with connected(server) as client:
        (held,) = await client.tools()
        server.tools = [ECHO]
        await client.refresh()
        assert await client.call("echo") == "7"
        with pytest.raises(McpOutputMismatchError):
            await client.call(held)


async def test_tools_of_every_page_are_checked() -> None:
    pages = {
        None: {"tools": [tool("a", outputSchema=COUNT)], "nextCursor": "2"},
        "2": {"tools": [tool("b", outputSchema=COUNT)]},
    }
    server = FakeServer(pages.__getitem__, call=lambda params: {"structuredContent": {}})
    async with connected(server) as client:
        for name in ("a", "b"):
            with pytest.raises(McpOutputMismatchError):
                await client.call(name)


@pytest.mark.spec("R-mcp-6")
async def test_a_list_that_is_read_meanwhile_may_want_a_check() -> None:
    called, answer = anyio.Event(), anyio.Event()

    async def call(params: Any) -> Any:
        called.set()
        await answer.wait()
        return text("7")

    failures: list[Any] = []
    server = FakeServer(call=call)
    async with connected(server) as client:
        (echo,) = await client.tools()

        async def run() -> None:
            with pytest.raises(McpOutputUncheckedError) as caught:
                await client.call(echo)
            failures.append(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await called.wait()
            server.tools = [tool(outputSchema={"type": 7})]
            await client.refresh()
            answer.set()
    assert [failure.sent for failure in failures] == [True]


async def test_no_request_goes_around_the_checks() -> None:
    async with connected(FakeServer()) as client:
        for method in ("tools/call", "tools/list"):
            with pytest.raises(LocalProtocolError):
                await client.request(method, {})
        assert await client.request("resources/list", {"a": 1}) == {"resources": [], "asked": {"a": 1}}


async def test_a_list_that_changed_is_told_and_not_listed() -> None:
    heard: list[Any] = []
    server = FakeServer()
    async with connected(server) as client:
        await client.tools()
        remove = client.on_notification(lambda method, params: heard.append(method))
        await server.connections[-1].send_notification("notifications/tools/list_changed")
        await anyio.wait_all_tasks_blocked()
        remove()
        remove()
        await server.connections[-1].send_notification("notifications/tools/list_changed")
        await client.call("echo")
    assert heard == ["notifications/tools/list_changed"]
    assert len(server.of("tools/list")) == 1


# -- events


async def test_an_observer_hears_of_each_call() -> None:
    events: list[Any] = []
    server = FakeServer(call=lambda params: text("canary", isError=bool(params["arguments"])))
    async with connected(server, observer=events.append, prefix="p") as client:
        await client.call("p__echo")
        with pytest.raises(McpToolError):
            await client.call("p__echo", {"secret": "canary"})
    started = [each for each in events if isinstance(each, ToolCallStarted)]
    ended = [each for each in events if isinstance(each, ToolCallEnded)]
    assert started == [ToolCallStarted("fake", "echo", 1), ToolCallStarted("fake", "echo", 2)]
    assert [(each.number, each.outcome, each.error_class) for each in ended] == [
        (1, "success", None),
        (2, "tool-error", "McpToolError"),
    ]
    assert all(each.duration >= 0 for each in ended)
    assert "canary" not in repr(events)


async def test_giving_up_is_heard_of_too() -> None:
    events: list[Any] = []

    async def never(params: Any) -> Any:
        await anyio.sleep_forever()

    server = FakeServer(call=never)
    async with connected(server, observer=events.append) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call, "echo")
            request = await server.next("tools/call")
            tasks.cancel_scope.cancel()
        notice = await server.next("notifications/cancelled")
        assert notice["params"]["requestId"] == request["id"]
    assert [each.outcome for each in events if isinstance(each, ToolCallEnded)] == ["cancelled"]


# -- connecting again


@pytest.mark.spec("R-mcp-8")
async def test_after_connecting_again_tools_are_listed_before_they_are_called() -> None:
    server = FakeServer()
    async with connected(server) as client:
        (held,) = await client.tools()
        await server.kill()
        await server.next("initialize", 2)
        await client.connected()
        for name in ("echo", held):
            with pytest.raises(McpRediscoveryRequiredError):
                await client.call(name)
        assert server.of("tools/call") == []
        await client.refresh()
        assert await client.call("echo") == "{}"
        assert await client.call(held) == "{}"


@pytest.mark.spec("R-mcp-8")
async def test_what_was_on_its_way_is_settled_and_not_sent_again() -> None:
    async def never(params: Any) -> Any:
        await anyio.sleep_forever()

    server = FakeServer(call=never)
    outcomes: list[Any] = []
    async with connected(server) as client:
        await client.tools()

        async def call() -> None:
            with pytest.raises(ConnectionClosedError) as caught:
                await client.call("echo")
            outcomes.append(caught.value.outcome)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            tasks.start_soon(call)
            await server.next("tools/call", 2)
            await server.kill()
        await server.next("initialize", 2)
        await client.connected()
        await client.refresh()
        await anyio.wait_all_tasks_blocked()
    assert outcomes == ["no-response", "no-response"]
    assert len(server.of("tools/call")) == 2


async def test_a_server_that_comes_and_goes() -> None:
    server = FakeServer()
    async with connected(server) as client:
        for number in range(2, 12):
            await server.kill()
            await server.next("initialize", number)
            await client.connected()
            await client.refresh()
            assert await client.call("echo") == "{}"


async def test_without_a_connection_nothing_is_sent() -> None:
    server = FakeServer()
    async with connected(server, reconnect=None) as client:
        await client.tools()
        await server.kill()
        await anyio.wait_all_tasks_blocked()
        for call in (client.tools, client.refresh, lambda: client.call("echo"), client.terminate):
            with pytest.raises(ConnectionClosedError) as caught:
                await call()
            assert caught.value.outcome == "not-sent"


# -- life


async def test_a_client_is_entered_once_and_first() -> None:
    server = FakeServer()
    client = mcp_client("fake", transport=server.connect)
    with pytest.raises(LocalProtocolError):
        await client.tools()
    async with served(server):
        async with client:
            with pytest.raises(LocalProtocolError):
                await client.__aenter__()
    with pytest.raises(LocalProtocolError):
        await client.__aenter__()
    assert repr(client) == "<McpClient fake>"


async def test_a_server_that_is_not_there() -> None:
    server = FakeServer()
    server.refusing = TransportError("nobody")
    async with served(server):
        with pytest.raises(TransportError):
            async with mcp_client("fake", transport=server.connect):
                raise AssertionError("it opened")


async def test_giving_up_while_connecting_leaves_nothing() -> None:
    left, right = memory_transports()
    with anyio.fail_after(LIMIT):
        async with RawPeer(left) as peer:
            async with anyio.create_task_group() as tasks:

                async def enter() -> None:
                    async with mcp_client("slow", transport=lambda: right):
                        raise AssertionError("it opened")

                tasks.start_soon(enter)
                assert b"initialize" in await peer.receive()
                tasks.cancel_scope.cancel()
            with pytest.raises(ConnectionClosedError):
                await peer.receive()


async def test_a_validator_of_the_callers_own_checks_every_tool() -> None:
    schemas: list[Any] = []

    class Own:
        def get_validator(self, schema: dict[str, Any]) -> Callable[[Any], str | None]:
            schemas.append(schema)
            return lambda value: None if value == {"count": 7} else "it is not seven"

    pages = {
        None: {"tools": [tool("a", outputSchema=COUNT)], "nextCursor": "2"},
        "2": {"tools": [tool("b", outputSchema={"type": 7})]},
    }
    result = {"structuredContent": {"count": 7}}
    server = FakeServer(pages.__getitem__, call=lambda params: result)
    async with connected(server, json_schema_validator=Own(), result_mode="structured") as client:
        for name in ("a", "b"):
            assert await client.call(name) == {"count": 7}
        assert schemas == [COUNT, {"type": 7}]
        result["structuredContent"] = {"count": 8}
        for known in await client.tools():
            with pytest.raises(McpOutputMismatchError):
                await client.call(known)


async def test_a_call_while_a_list_is_read_is_checked() -> None:
    listing, go_on = anyio.Event(), anyio.Event()
    server = FakeServer([tool(outputSchema=COUNT)], call=lambda params: text("7"))

    async def page(cursor: str | None) -> Any:
        listing.set()
        await go_on.wait()
        return {"tools": [ECHO]}

    async with connected(server) as client, anyio.create_task_group() as tasks:
        await client.tools()
        server.tools = page
        tasks.start_soon(client.refresh)
        await listing.wait()
        with pytest.raises(McpOutputMismatchError):
            await client.call("echo")
        go_on.set()


async def test_closing_from_any_task_any_number_of_times() -> None:
    server = FakeServer()
    async with connected(server) as client, anyio.create_task_group() as tasks:
        (echo,) = await client.tools()
        for _ in range(3):
            tasks.start_soon(client.close)
        await anyio.wait_all_tasks_blocked()
        assert client.is_closed
        calls: list[Callable[[], Any]] = [client.tools, client.refresh, client.terminate, echo, client.connected]
        for call in calls:
            with pytest.raises(ConnectionClosedError) as caught:
                await call()
            assert caught.value.outcome == "not-sent"
        with pytest.raises(ConnectionClosedError):
            _ = client.session
        await client.close()


async def test_ending_a_session_that_there_is_only_once() -> None:
    async with connected(FakeServer()) as client:
        first = await client.terminate()
        assert (first.kind, first.resolved, first.status) == ("no-session", True, None)
        assert client.is_closed
        assert await client.terminate() is first


@pytest.mark.spec("R-mcp-13")
async def test_a_session_that_was_lost_cannot_be_ended() -> None:
    server = FakeServer()
    waiting = anyio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await anyio.sleep_forever()

    async with connected(server, reconnect=Reconnect(sleep=sleep)) as client:
        await server.kill()
        await waiting.wait()
        outcome = await client.terminate()
        assert (outcome.kind, outcome.resolved) == ("handle-lost", False)
        assert outcome.error_class == "LocalSessionHandleLostError"
        assert client.is_closed


async def test_whatever_comes_of_ending_it_this_side_is_closed() -> None:
    async with connected(FakeServer()) as client:
        session: Any = client.session
        expected = TerminateOutcome("failed", 0.1, 500)

        async def terminate(timeout: float) -> TerminateOutcome:
            assert timeout == 5.0
            return expected

        session.terminate = terminate
        assert await client.terminate() is expected
        assert client.is_closed


@pytest.mark.parametrize(
    ("failing", "kind", "error_class"), [("raises", "failed", "RuntimeError"), ("hangs", "timed-out", None)]
)
async def test_a_session_of_another_make_is_ended_within_the_bound(
    failing: str, kind: str, error_class: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpl_core.mcp.client._END_GRACE", 0.0)

    class Odd(MockSession):
        async def terminate(self, timeout: float = 5.0) -> TerminateOutcome:
            if failing == "raises":
                raise RuntimeError("canary")
            await anyio.sleep_forever()
            raise AssertionError("unreachable")

    async with mcp_client("odd", session=Odd()) as client:
        outcome = await client.terminate(timeout=0.0 if failing == "hangs" else 5.0)
        assert (outcome.kind, outcome.error_class, outcome.resolved) == (kind, error_class, False)
        assert client.is_closed
        assert await client.terminate() is outcome


async def test_two_clients_close_in_any_order() -> None:
    first, second = FakeServer(), FakeServer()
    async with served(first), served(second):
        for order in ((0, 1), (1, 0)) * 20:
            async with mcp_client("a", transport=first.connect) as a, mcp_client("b", transport=second.connect) as b:
                async with anyio.create_task_group() as tasks:
                    for index in order:
                        tasks.start_soon((a, b)[index].close)


async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError):
        async with connected(FakeServer()):
            raise KeyError("ours")


# -- replay without HTTP


@pytest.mark.spec("R-mcp-14")
async def test_a_policy_that_cannot_be_kept_refuses_calls_and_nothing_else() -> None:
    server = FakeServer()
    async with connected(server, replay={"policy": "app-authorized"}) as client:
        assert len(await client.tools()) == 1
        with pytest.raises(McpReplayUnavailableError) as caught:
            await client.call("echo")
        assert (caught.value.server, caught.value.reason) == ("fake", "requests-unwatched")
    assert server.of("tools/call") == []
    async with connected(server, replay={"policy": "compatibility"}, retry_on_throttle={"max_attempts": 9}) as client:
        assert await client.call("echo") == "{}"


async def test_nothing_of_a_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = FakeServer(call=refuse(-32000, "canary-text"))
    with caplog.at_level(logging.DEBUG):
        async with connected(server) as client:
            with pytest.raises(RpcError):
                await client.call("echo", {"password": "canary-argument"}, meta={"x": "canary-meta"})
    assert "canary" not in caplog.text


async def test_a_callback_that_raises_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def broken(method: str, params: Any) -> None:
        raise RuntimeError("canary")

    session = MockSession(["echo"])
    async with mcp_client(session=session) as client:
        client.on_notification(broken)
        client.on_notification(lambda method, params: heard.append(method))
        session.push("notifications/tools/list_changed")
    assert heard == ["notifications/tools/list_changed"]
    assert "RuntimeError" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize("options", [{"timeout": "5"}, {"meta": 7}, {"on_progress": 7}, {"input_responses": []}])
async def test_options_that_make_no_sense_send_nothing(options: Any) -> None:
    server = FakeServer()
    events: list[Any] = []
    async with connected(server, observer=events.append) as client:
        with pytest.raises(InvalidValueError):
            await client.call("echo", **options)
        assert server.of("tools/call") == []
    assert (events[-1].outcome, events[-1].error_class) == ("not-sent", "InvalidValueError")


async def test_a_session_that_nothing_watches_is_given_up_with_the_first_call_that_finds_its_end() -> None:
    session = MockSession(["echo"])
    async with mcp_client(session=session) as client:
        await client.tools()
        await session.aclose()
        with pytest.raises(ConnectionClosedError) as caught:
            await client.call("echo")
        assert caught.value.outcome == "not-sent"
        await client._keeper._ended.wait()
        assert client.is_closed


async def test_a_list_belongs_to_the_session_that_gave_it() -> None:
    class Replaced(MockSession):
        """While it lists, its client gets another session."""

        async def request(self, method: str, params: Any = None, **options: Any) -> Any:
            answer = await super().request(method, params, **options)
            client._keeper.number += 1
            return answer

    async with mcp_client(session=Replaced(["echo"])) as client:
        await client.tools()
        with pytest.raises(McpRediscoveryRequiredError):
            await client.call("echo")


@pytest.mark.spec("R-mcp-8")
async def test_a_server_that_breaks_again_and_again() -> None:
    async def hang(params: Any) -> Any:
        await anyio.sleep_forever()

    server = FakeServer(call=hang)
    ends: list[str | None] = []
    async with connected(server) as client:
        for number in range(1, 21):
            await client.refresh()

            async def call() -> None:
                with pytest.raises(ConnectionClosedError) as caught:
                    await client.call("echo")
                ends.append(caught.value.outcome)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                tasks.start_soon(call)
                await server.next("tools/call", 2 * number)
                await server.kill()
            await client.connected()
    assert ends == ["no-response"] * 40
    # What was on its way is over, and was never sent again.
    assert len(server.of("tools/call")) == 40
    assert len(server.of("initialize")) == 21
