"""A connection that the caller brought along."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from mcpl_core import McplConnection
from mcpl_core.errors import ConnectionTimeoutError, InvalidResultError, InvalidValueError, LocalProtocolError
from mcpl_core.mcp.connecting import mcp_client
from mcpl_core.mcp.errors import McpToolError
from mcpl_core.mcp.given import GivenSession, checked_connection
from mcpl_core.mcp.transports import HttpTransport
from mcpl_core.protocol import ToolsCallResult
from tests.mcp.peers import ECHO, LIMIT, text

pytestmark = pytest.mark.anyio


class Given:
    """A connection of another library."""

    def __init__(self, page: Any = None, result: Any = None) -> None:
        self.page = {"tools": [ECHO]} if page is None else page
        self.result = text("hi") if result is None else result
        self.calls: list[Any] = []
        self.closed = 0

    async def list_tools(self, **options: Any) -> Any:
        self.calls.append(("list", options))
        return self.page

    async def call_tool(self, name: str, arguments: Any, **options: Any) -> Any:
        self.calls.append((name, arguments, options))
        return await self.result() if callable(self.result) else self.result

    async def close(self) -> None:
        self.closed += 1


class Plain(Given):
    """With plain functions."""

    def list_tools(self) -> Any:  # type: ignore[override]
        return [ECHO]

    def close(self) -> None:  # type: ignore[override]
        self.closed += 1


class Model:
    """As pydantic's models have it."""

    def __init__(self, members: dict[str, Any]) -> None:
        self.members = members

    def model_dump(self, **options: Any) -> Any:
        assert options == {"mode": "json", "by_alias": True, "exclude_unset": True}
        return self.members


async def test_it_is_used_and_closed_once() -> None:
    given = Given()
    async with mcp_client("own", connection=given) as client:
        assert [tool.source for tool in await client.tools()] == ["own"]
        assert await client.call("echo", {"a": 1}) == "hi"
        await client.call("echo", meta={"b": 2})
        assert given.calls == [("list", {}), ("echo", {"a": 1}, {}), ("echo", {}, {"meta": {"b": 2}})]
        await client.close()
        await client.close()
        assert given.closed == 1
    assert given.closed == 1


@pytest.mark.spec("R-mcp-13")
async def test_ending_its_session_is_not_ours_to_do() -> None:
    given = Given()
    async with mcp_client("own", connection=given) as client:
        outcome = await client.terminate()
    assert (outcome.kind, outcome.resolved) == ("unavailable", False)
    assert given.closed == 1


async def test_ending_closes_by_itself() -> None:
    given = Given()
    session = GivenSession(given, None)
    assert (await session.terminate()).kind == "unavailable"
    assert given.closed == 1
    await session.aclose()
    assert given.closed == 1


async def test_plain_functions_and_plain_lists_will_do() -> None:
    given = Plain()
    async with mcp_client("own", connection=given) as client:
        assert [tool.name for tool in await client.tools()] == ["echo"]
    assert given.closed == 1


async def test_pages_are_asked_for_by_cursor() -> None:
    given = Given()
    session = GivenSession(given, None)
    assert await session.request("tools/list", {"cursor": ""}) == {"tools": [ECHO]}
    assert given.calls == [("list", {"cursor": ""})]


@pytest.mark.parametrize(
    "result",
    [
        text("hi"),
        Model(text("hi")),
        ToolsCallResult(content=[{"type": "text", "text": "hi"}]),
    ],
)
async def test_results_of_every_library_are_plain_json(result: Any) -> None:
    async with mcp_client("own", connection=Given(result=result)) as client:
        assert await client.call("echo") == "hi"


@pytest.mark.parametrize("result", [None, 7, [1], "x", msgspec.UNSET])
async def test_a_result_is_an_object(result: Any) -> None:
    given = Given()
    given.result = result
    with pytest.raises(InvalidResultError):
        await GivenSession(given, None).request("tools/call", {"name": "echo", "arguments": {}})


@pytest.mark.parametrize("options", [{"timeout": 0.0}, {"max_total": 0.0}])
async def test_time_is_bounded_here(options: Any) -> None:
    session = GivenSession(Given(result=anyio.sleep_forever), 30.0)
    with pytest.raises(ConnectionTimeoutError):
        await session.request("tools/call", {"name": "echo", "arguments": {}}, **options)


async def test_the_official_client_as_a_connection() -> None:
    from mcp import Client

    from tests.mcp.official_stdio import server

    class Official:
        """It opens and closes itself, and so has no ``close``."""

        def __init__(self, client: Client) -> None:
            self.list_tools = client.list_tools
            self.call_tool = client.call_tool
            self.closed = 0

        def close(self) -> None:
            self.closed += 1

    async with Client(server) as official:
        given = Official(official)
        async with mcp_client("own", connection=given, result_mode="structured") as client:
            assert "add" in [tool.name for tool in await client.tools()]
            assert await client.call("add", {"a": 1, "b": 2}) == {"sum": 3}
            with pytest.raises(McpToolError):
                await client.call("fail")
        assert given.closed == 1


async def test_there_is_nothing_else() -> None:
    session = GivenSession(Given(), None)
    with pytest.raises(LocalProtocolError):
        await session.request("resources/list")
    await session.notify("x/y")
    session.on_notification(lambda method, params: None)()
    assert (session.protocol_version, session.server_info, session.capabilities) == ("", {}, {})


async def test_what_is_no_connection_is_refused() -> None:
    connection, _ = McplConnection.memory_pair()
    for wrong, code in (
        (HttpTransport("http://example.com"), "transport_given"),
        (connection.transport, "transport_given"),
        (connection, "connection"),
        (object(), "connection"),
    ):
        with pytest.raises(InvalidValueError) as caught:
            checked_connection(wrong)
        assert caught.value.code == code


class Entry:
    """A model in a list."""

    def model_dump(self, **options: Any) -> Any:
        return ECHO


@pytest.mark.parametrize(
    "page", [[Entry()], (Entry(),), {"tools": [Entry()]}, {"tools": (ECHO,)}, Model({"tools": [ECHO]})]
)
async def test_tools_of_every_library_are_plain_json(page: Any) -> None:
    async with mcp_client("own", connection=Given(page)) as client:
        assert [tool.definition for tool in await client.tools()] == [ECHO]


@pytest.mark.spec("R-mcp-20")
async def test_blocks_of_every_library_are_plain_json() -> None:
    block = Model({"type": "text", "text": "hi"})
    async with mcp_client("own", connection=Given(result=text() | {"content": [block]})) as client:
        assert await client.call("echo") == "hi"


class Bad:
    def model_dump(self, **options: Any) -> Any:
        raise KeyError("canary")


@pytest.mark.parametrize("value", [{"content": [object()]}, {"content": [msgspec.UNSET]}, Bad(), {"content": [Bad()]}])
async def test_what_has_no_json_form_is_refused(value: Any) -> None:
    with pytest.raises(InvalidResultError) as caught:
        await GivenSession(Given(result=value), None).request("tools/call", {"name": "echo", "arguments": {}})
    assert "canary" not in str(caught.value)


async def test_a_result_that_holds_itself_is_refused() -> None:
    result = text("hi")
    result["content"].append(result)
    with pytest.raises(InvalidResultError):
        await GivenSession(Given(result=result), None).request("tools/call", {"name": "echo", "arguments": {}})


@pytest.mark.parametrize("options", [{"timeout": "1"}, {"max_total": -1}])
async def test_seconds_are_a_number(options: Any) -> None:
    given = Given()
    with pytest.raises(InvalidValueError):
        await GivenSession(given, None).request("tools/list", **options)
    assert given.calls == []


class Stuck(Given):
    async def close(self) -> None:
        self.closed += 1
        await anyio.sleep_forever()


@pytest.mark.spec("R-mcp-20")
async def test_a_connection_that_does_not_close_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.mcp.given.DEFAULT_TERMINATE_BOUND", 0.0)
    given = Stuck()
    with anyio.fail_after(LIMIT):
        async with mcp_client("own", connection=given) as client:
            await client.close()
            assert client.is_closed
    assert given.closed == 1


async def test_a_connection_that_fails_to_close_is_closed_nevertheless() -> None:
    class Failing(Given):
        async def close(self) -> None:
            self.closed += 1
            raise RuntimeError("canary")

    given = Failing()
    async with mcp_client("own", connection=given) as client:
        outcome = await client.terminate()
        assert (outcome.kind, outcome.resolved, outcome.error_class) == ("unavailable", False, "RuntimeError")
        assert client.is_closed
    async with mcp_client("own", connection=given) as client:
        await client.close()
    assert given.closed == 2


async def test_ending_a_connection_that_does_not_close_takes_no_longer_than_its_bound() -> None:
    given = Stuck()
    with anyio.fail_after(LIMIT):
        async with mcp_client("own", connection=given) as client:
            assert (await client.terminate(timeout=0.0)).kind == "unavailable"
    assert given.closed == 1
