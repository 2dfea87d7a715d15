"""An MCPL server under a host, as an MCP session."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core.errors import (
    CapabilityDenied,
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    LocalProtocolError,
)
from mcpl_core.host import DENY_ALL, HostPolicy, McplHost
from mcpl_core.mcp.connecting import mcp_client
from mcpl_core.mcp.errors import McpRediscoveryRequiredError
from mcpl_core.mcp.hosted import HostedRawSession, hosted_session
from mcpl_core.mcp.session import WatchedSession
from tests.host.raw_server import LIMIT, QUICK, RawServer, embedded
from tests.mcp.peers import ECHO, FakeServer, served, text

pytestmark = pytest.mark.anyio

TOOLS = HostPolicy.allow("tools")


async def answer(raw: RawServer, method: str, result: Any) -> Any:
    """Answers the next request of a method; the request."""
    request = await raw.next(method)
    raw.reply(request, result)
    return request


async def test_a_server_under_a_host_has_tools() -> None:
    async with embedded(TOOLS) as (raw, session):
        async with mcp_client("raw", session=session) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(answer, raw, "tools/list", {"tools": [ECHO], "later": 1})
            (echo,) = await client.tools()
            requests: list[Any] = []

            async def serve() -> None:
                requests.append(await answer(raw, "tools/call", text("hi", later={"x": 1}, toolResult=7)))

            tasks.start_soon(serve)
            said = await client.answer(echo, {"a": 1}, meta={"own": 1})
            assert said.value == "hi"
            assert said.result == text("hi", later={"x": 1}, toolResult=7)
            assert requests[0]["params"]["arguments"] == {"a": 1}
            assert requests[0]["params"]["_meta"]["own"] == 1
            assert not session.is_closed
        assert not session.is_closed


async def test_it_tells_what_the_session_is() -> None:
    async with embedded(TOOLS) as (_, session):
        raw_session: WatchedSession = HostedRawSession(session)
        assert raw_session.protocol_version == session.protocol_version == "2025-11-25"
        assert raw_session.server_info == {"name": "raw", "version": "1"}
        assert raw_session.capabilities is session.capabilities
        assert raw_session.instructions == "Be kind."


async def test_the_grant_decides() -> None:
    async with embedded(DENY_ALL) as (raw, session):
        hosted = HostedRawSession(session)
        with pytest.raises(CapabilityDenied):
            await hosted.request("tools/call", {"name": "echo", "arguments": {}})
        assert await raw.waiting("tools/call") == []


async def test_other_methods_go_the_hosts_way() -> None:
    async with embedded(TOOLS) as (raw, session), anyio.create_task_group() as tasks:
        hosted = HostedRawSession(session)
        tasks.start_soon(answer, raw, "resources/list", {"resources": []})
        assert await hosted.request("resources/list", {}) == {"resources": []}
        tasks.start_soon(answer, raw, "tools/list", [])
        with pytest.raises(InvalidResultError):
            await hosted.request("tools/list")


async def test_time_and_progress_are_those_of_the_host() -> None:
    async with embedded(TOOLS) as (raw, session):
        hosted = HostedRawSession(session)
        for options in ({"timeout": 0.0}, {"timeout": 30.0, "reset_on_progress": True, "max_total": 0.0}):
            with pytest.raises(ConnectionTimeoutError):
                await hosted.request("tools/call", {"name": "echo"}, **options)  # type: ignore[arg-type]
            await raw.next("tools/call")
        seen: list[Any] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hosted.request, "tools/call", {"name": "echo"})
            request = await raw.next("tools/call")
            token = request["params"]["_meta"]["progressToken"]
            progress = raw.note("notifications/progress", {"progressToken": token, "progress": 1})
            raw.send(progress, raw.result(request, text("hi")))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: hosted.request("tools/call", {"name": "echo"}, on_progress=seen.append))
            request = await raw.next("tools/call")
            token = request["params"]["_meta"]["progressToken"]
            raw.send(
                raw.note("notifications/progress", {"progressToken": token, "progress": 1, "total": 2}),
                raw.result(request, text("hi")),
            )
        assert seen == [{"progressToken": token, "progress": 1, "total": 2}]


async def test_notifications_are_heard_and_sent_by_the_hosts_rules() -> None:
    heard: list[Any] = []
    async with embedded(TOOLS) as (raw, session):
        hosted = HostedRawSession(session)
        remove = hosted.on_notification(lambda method, params: heard.append((method, params)))
        raw.send(raw.note("notifications/tools/list_changed", {"a": 1}), raw.request("ping"))
        await raw.settled()
        remove()
        remove()
        raw.send(raw.note("notifications/tools/list_changed"))
        await raw.settled()
        with pytest.raises(LocalProtocolError):
            await hosted.notify("notifications/roots/list_changed", {"a": 1})
        hosted.on_notification(lambda method, params: heard.append("late"))
        await hosted.aclose()
        raw.send(raw.note("notifications/tools/list_changed"))
        await raw.settled()
    assert heard == [("notifications/tools/list_changed", {"a": 1})]


async def test_the_session_is_the_hosts_to_end() -> None:
    async with embedded(TOOLS) as (_, session):
        async with mcp_client("raw", session=session) as client:
            outcome = await client.terminate()
        assert (outcome.kind, outcome.resolved) == ("unavailable", False)
        assert not session.is_closed


async def test_a_session_that_is_over() -> None:
    async with embedded(TOOLS) as (_, session):
        async with hosted_session(session) as hosted, anyio.create_task_group() as tasks:
            tasks.start_soon(session.aclose)
            assert not hosted.is_closed
            assert await hosted.wait_closed() is None
            assert hosted.is_closed
        assert await HostedRawSession(session).wait_closed() is None
        with pytest.raises(ConnectionClosedError):
            async with hosted_session(session):
                raise AssertionError("it opened")


async def test_a_server_that_its_host_connects_again_is_discovered_again() -> None:
    server = FakeServer()
    with anyio.fail_after(LIMIT):
        async with served(server), McplHost("host", "1", policy=TOOLS, settings=QUICK) as host:
            hosted = await host.add("fake", server.connect)
            async with mcp_client("fake", session=hosted) as client:
                (held,) = await client.tools()
                assert await client.call("echo", {"a": 1}) == "{'a': 1}"
                await server.kill()
                await server.next("initialize", 2)
                await client.connected()
                with pytest.raises(McpRediscoveryRequiredError):
                    await client.call("echo")
                await client.refresh()
                assert await client.call(held) == "{}"
                await host.remove("fake")
                await client._keeper._ended.wait()
                assert client.is_closed


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"timeout": 7.0}, 7.0),
        ({"timeout": 7.0, "max_total": 3.0, "reset_on_progress": True}, 3.0),
        ({"timeout": None, "max_total": 3.0}, 3.0),
        ({}, None),
    ],
)
async def test_progress_gives_time_only_where_that_is_asked_for(
    options: Any, limit: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[Any] = []
    async with embedded(TOOLS) as (_, session):

        async def call_tool(*arguments: Any, on_answer: Any, **more: Any) -> None:
            limits.append(more["limit"])
            on_answer(b"{}")

        monkeypatch.setattr(session, "call_tool", call_tool)
        await HostedRawSession(session).request("tools/call", {"name": "echo"}, **options)
    assert limits == [limit]
