"""Tools of several clients under one roof."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError, MethodNotFound
from mcpl_core.mcp.combining import McpTools
from mcpl_core.mcp.connecting import mcp_client
from mcpl_core.mcp.mock import MockSession, mock_mcp_client

pytestmark = pytest.mark.anyio


def says(name: str) -> Any:
    return lambda tool, arguments: f"{name}:{tool}"


async def test_equal_names_stay_apart_and_lead_back() -> None:
    long = "x" * 70
    async with (
        mock_mcp_client("a", ["read", "read file", long], says("a")) as a,
        mock_mcp_client("b", ["read", "read_file"], says("b")) as b,
    ):
        tools = McpTools({"files": a, "mail box": b})
        listed = await tools.tools()
        names = [tool.name for tool in listed]
        assert names[0] == "files__read"
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
        assert len(set(names)) == 5
        assert [tools.origin(name) for name in names] == [
            ("files", "read"), ("files", "read file"), ("files", long), ("mail box", "read"), ("mail box", "read_file"),
        ]  # fmt: skip
        said = [await tools.call(name) for name in names]
        assert said == ["a:read", "a:read file", f"a:{long}", "b:read", "b:read_file"]
        assert [tool.source for tool in listed] == ["a", "a", "a", "b", "b"]
        assert list(tools) == ["files", "mail box"]


async def test_a_call_lists_first() -> None:
    async with mock_mcp_client("a", ["read"], says("a")) as a:
        assert await McpTools({"x": a}).call("x__read") == "a:read"
        with pytest.raises(InvalidValueError) as caught:
            await McpTools({"x": a}).call("y__read")
        assert caught.value.code == "unknown_tool"


async def test_what_is_no_longer_listed_is_not_called() -> None:
    session = MockSession(["read", "write"], says("a"))
    async with mcp_client("a", session=session) as a:
        tools = McpTools({"x": a})
        await tools.tools()
        session.tools = session.tools[:1]
        assert len(await tools.tools()) == 2
        assert len(await tools.tools(refresh=True)) == 1
        with pytest.raises(InvalidValueError):
            await tools.call("x__write")


class Broken(MockSession):
    async def request(self, method: str, params: Any = None, **options: Any) -> Any:
        raise MethodNotFound


async def test_a_client_that_cannot_list_costs_only_its_own_tools() -> None:
    async with mock_mcp_client("a", ["read"], says("a")) as a, mcp_client("b", session=Broken()) as b:
        tools = McpTools({"x": a, "y": b})
        assert [tool.name for tool in await tools.tools()] == ["x__read"]
        assert {prefix: type(failure) for prefix, failure in tools.failures.items()} == {"y": MethodNotFound}


def test_a_prefix_is_a_text() -> None:
    with pytest.raises(InvalidValueError):
        McpTools({"": mock_mcp_client()})


async def test_whatever_a_connection_of_the_callers_own_raises_stays_with_it() -> None:
    class Odd(MockSession):
        async def request(self, method: str, params: Any = None, **options: Any) -> Any:
            raise RuntimeError("gone")

    async with mock_mcp_client("a", ["read"], says("a")) as a, mcp_client("b", session=Odd()) as b:
        tools = McpTools({"x": a, "y": b})
        assert [tool.name for tool in await tools.tools()] == ["x__read"]
        assert isinstance(tools.failures["y"], RuntimeError)


async def test_a_client_may_have_names_of_its_own() -> None:
    async with mock_mcp_client("a", ["read"], says("a"), prefix="own") as a:
        tools = McpTools({"x": a})
        assert [tool.name for tool in await tools.tools()] == ["x__read"]
        assert await tools.call("x__read") == "a:read"
