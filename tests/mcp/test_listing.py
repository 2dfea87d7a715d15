"""Reading a list of tools to its end."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core.errors import InvalidResultError
from mcpl_core.mcp.errors import McpToolListIncompleteError
from mcpl_core.mcp.listing import MOST_REQUESTS, Listing, list_all_tools

pytestmark = pytest.mark.anyio


class Pages:
    """A server of pages: cursor -> page."""

    def __init__(self, pages: dict[str | None, Any]) -> None:
        self.pages = pages
        self.asked: list[Any] = []

    async def __call__(self, params: dict[str, Any] | None) -> dict[str, Any]:
        self.asked.append(params)
        page: dict[str, Any] = self.pages[None if params is None else params["cursor"]]
        return page


def chain(length: int) -> Pages:
    """So many pages with a tool each."""
    pages: dict[str | None, Any] = {}
    for number in range(length):
        cursor = None if number == 0 else f"c{number}"
        pages[cursor] = {"tools": [{"name": f"t{number}"}]} | (
            {"nextCursor": f"c{number + 1}"} if number + 1 < length else {}
        )
    return Pages(pages)


async def test_the_first_page_is_asked_for_without_params() -> None:
    pages = chain(3)
    listing = await list_all_tools("s", pages)
    assert pages.asked == [None, {"cursor": "c1"}, {"cursor": "c2"}]
    assert listing == Listing(({"name": "t0"}, {"name": "t1"}, {"name": "t2"}), 0, 3)


@pytest.mark.spec("R-mcp-5")
async def test_a_hundred_pages_are_read_and_one_more_is_not() -> None:
    assert len((await list_all_tools("s", chain(MOST_REQUESTS))).tools) == MOST_REQUESTS == 100
    pages = chain(101)
    with pytest.raises(McpToolListIncompleteError) as caught:
        await list_all_tools("s", pages)
    assert (caught.value.server, caught.value.reason, caught.value.requests) == ("s", "limit", 100)
    assert len(caught.value.tools) == len(pages.asked) == 100


async def test_a_cursor_that_comes_back_is_noticed() -> None:
    pages = Pages({None: {"tools": [{"name": "a"}], "nextCursor": "x"}, "x": {"tools": [], "nextCursor": "x"}})
    with pytest.raises(McpToolListIncompleteError) as caught:
        await list_all_tools("s", pages)
    assert (caught.value.reason, caught.value.requests, caught.value.tools) == ("repeated-cursor", 2, ({"name": "a"},))


@pytest.mark.spec("R-mcp-5")
async def test_an_empty_string_is_a_cursor_and_null_is_none() -> None:
    pages = Pages({None: {"tools": [], "nextCursor": ""}, "": {"tools": [{"name": "a"}], "nextCursor": None}})
    assert len((await list_all_tools("s", pages)).tools) == 1
    assert pages.asked == [None, {"cursor": ""}]


async def test_entries_that_are_no_tools_are_left_out() -> None:
    entries = [{"name": "a", "later": 1}, {"name": "a"}, {"name": ""}, {"name": 7}, {}, "x", None]
    listing = await list_all_tools("s", Pages({None: {"tools": entries}}))
    assert (listing.tools, listing.dropped) == (({"name": "a", "later": 1},), 6)


@pytest.mark.parametrize(
    ("page", "path"),
    [({}, "$.tools"), ({"tools": {}}, "$.tools"), ({"tools": [], "nextCursor": 7}, "$.nextCursor")],
)
async def test_a_page_that_is_none(page: Any, path: str) -> None:
    with pytest.raises(InvalidResultError) as caught:
        await list_all_tools("s", Pages({None: page}))
    assert (caught.value.method, caught.value.path) == ("tools/list", path)


async def test_after_giving_up_nothing_is_asked_and_nothing_taken() -> None:
    pages = chain(3)
    with anyio.CancelScope() as scope:

        async def ask(params: dict[str, Any] | None) -> dict[str, Any]:
            page = await pages(params)
            if len(pages.asked) == 2:
                scope.cancel()
            return page

        await list_all_tools("s", ask)
        raise AssertionError("it went on")
    assert scope.cancelled_caught
    assert len(pages.asked) == 2


async def test_who_gave_up_before_asks_nothing() -> None:
    pages = chain(1)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await list_all_tools("s", pages)
    assert scope.cancelled_caught
    assert pages.asked == []


async def test_a_last_page_that_comes_too_late_is_not_taken() -> None:
    taken: list[Any] = []
    with anyio.CancelScope() as scope:

        async def ask(params: dict[str, Any] | None) -> dict[str, Any]:
            scope.cancel()
            return {"tools": []}

        taken.append(await list_all_tools("s", ask))
    assert scope.cancelled_caught
    assert taken == []
