"""Names of tools, the table behind them, and reading a list to its end."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from mcpl_core.errors import InvalidResultError, InvalidValueError
from mcpl_core.host.tools import LONGEST_NAME, HostTool, ToolTable, exposed_name, list_tools
from mcpl_core.protocol import ToolsListResult

SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def test_a_plain_name_is_server_and_tool() -> None:
    assert exposed_name("memory", "remember") == "memory__remember"


def test_a_long_name_is_cut_and_marked() -> None:
    plain = f"memory__{'x' * 100}"
    name = exposed_name("memory", "x" * 100)
    assert len(name) == LONGEST_NAME
    assert name == f"{plain[:55]}_{sha256(plain.encode()).hexdigest()[:8]}"
    assert exposed_name("memory", "x" * 56) == f"memory__{'x' * 56}"


@given(st.text(max_size=80), st.text(max_size=80))
def test_every_name_is_one_that_models_accept(server: str, tool: str) -> None:
    assert SAFE.fullmatch(exposed_name(server, tool))


PARTS = st.text("ab_", min_size=1, max_size=4)


@given(st.lists(st.tuples(PARTS, PARTS), max_size=20))
def test_names_are_unique_and_lead_back(pairs: list[tuple[str, str]]) -> None:
    table = ToolTable()
    tools = {pair: table.add(pair[0], {"name": pair[1]}) for pair in pairs}
    assert len({tool.name for tool in tools.values()}) == len(tools)
    assert {table.find(tool.name) for tool in tools.values()} == set(tools)
    assert [table.add(server, {"name": tool}).name for server, tool in tools] == [each.name for each in tools.values()]


def test_equal_tools_of_two_servers_stay_apart() -> None:
    table = ToolTable()
    one = table.add("a__b", {"name": "c", "inputSchema": {}, "x": 1})
    other = table.add("a", {"name": "b__c"})
    assert one == HostTool("a__b__c", "a__b", "c", {"name": "a__b__c", "inputSchema": {}, "x": 1})
    assert other.name != one.name
    assert (table.find(one.name), table.find(other.name)) == (("a__b", "c"), ("a", "b__c"))
    table.forget("a__b")
    assert table.find(other.name) == ("a", "b__c")
    with pytest.raises(InvalidValueError) as caught:
        table.find(one.name)
    assert caught.value.code == "unknown_tool"


class Pages:
    """A server's list, page by page."""

    def __init__(self, *pages: tuple[list[Any], Any]) -> None:
        self.pages = list(pages)
        self.asked: list[dict[str, Any]] = []

    async def ask(self, params: dict[str, Any]) -> ToolsListResult:
        self.asked.append(params)
        tools, cursor = self.pages[min(len(self.asked), len(self.pages)) - 1]
        return ToolsListResult(tools=tools, next_cursor=cursor)


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {}}


@pytest.mark.anyio
@pytest.mark.parametrize("last", [None, UNSET])
async def test_every_page_is_read(last: Any) -> None:
    pages = Pages(([tool("a")], "1"), ([tool("b")], ""), ([tool("c")], last))
    assert await list_tools(pages.ask, 100) == ([tool("a"), tool("b"), tool("c")], 0)
    assert pages.asked == [{}, {"cursor": "1"}, {"cursor": ""}]


@pytest.mark.anyio
async def test_what_is_no_tool_is_left_out_and_counted() -> None:
    pages = Pages(([tool("a"), 7, {"name": 1}, {}, tool("a"), tool("b")], None))
    assert await list_tools(pages.ask, 100) == ([tool("a"), tool("b")], 4)


@pytest.mark.anyio
@pytest.mark.parametrize("cursors", [["x", "x"], ["x", "y", "x"], ["", ""]])
async def test_a_cursor_that_comes_again_is_an_endless_list(cursors: list[str]) -> None:
    pages = Pages(*(([tool(str(index))], cursor) for index, cursor in enumerate(cursors)))
    with pytest.raises(InvalidResultError) as caught:
        await list_tools(pages.ask, 100)
    assert caught.value.path == "$.nextCursor"
    assert len(pages.asked) == len(cursors)


@pytest.mark.anyio
async def test_pages_are_bounded() -> None:
    pages = Pages(*(([tool(str(number))], str(number)) for number in range(200)))
    with pytest.raises(InvalidResultError):
        await list_tools(pages.ask, 100)
    assert len(pages.asked) == 100
    exact = Pages(*(([tool(str(number))], str(number) if number < 99 else None) for number in range(100)))
    tools, _ = await list_tools(exact.ask, 100)
    assert len(tools) == 100


@pytest.mark.anyio
async def test_tools_are_bounded() -> None:
    pages = Pages(*(([tool(f"{page}-{number}") for number in range(4000)], str(page)) for page in range(4)))
    with pytest.raises(InvalidResultError) as caught:
        await list_tools(pages.ask, 100)
    assert caught.value.path == "$.tools"


def test_a_name_that_a_server_foresaw_is_not_given_twice() -> None:
    table = ToolTable()
    for foreseen in range(3):
        marked = exposed_name("a__b", "x", mark=foreseen)
        assert table.add("a", {"name": marked.removeprefix("a__")}).name == marked
    mine = table.add("a__b", {"name": "x"})
    assert mine.name == exposed_name("a__b", "x", mark=3)
    assert table.find(mine.name) == ("a__b", "x")
    assert table.find(exposed_name("a__b", "x"))[0] == "a"
