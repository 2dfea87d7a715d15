"""The tools that a client knows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.catalogue import Catalogue, CatalogueMaker
from mcpl_core.mcp.listing import Listing


async def call(*args: Any, **options: Any) -> None:
    raise AssertionError("nothing is called here")


def maker(prefix: str | None = None) -> CatalogueMaker:
    return CatalogueMaker("files", prefix, None, call)


def made(*names: str, prefix: str | None = None, dropped: int = 0) -> Catalogue:
    return maker(prefix).make(Listing(tuple({"name": name} for name in names), dropped, 1))


def test_tools_keep_the_servers_order_and_names() -> None:
    catalogue = made("b", "a", "weird name!")
    assert [tool.name for tool in catalogue] == ["b", "a", "weird name!"]
    assert {tool.source for tool in catalogue} == {"files"}
    assert catalogue.find("a") is catalogue.of_server("a") is catalogue.tools[1]


@pytest.mark.parametrize("name", ["c", "", None, 7, ["a"], "x" * 1000])
def test_what_was_not_listed_is_unknown(name: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        made("a").find(name)
    assert caught.value.code == "unknown_tool"
    assert len(str(caught.value)) < 200


def test_a_prefix_stands_before_every_name() -> None:
    catalogue = made("read", "re ad", "r" * 80, prefix="files")
    names = [tool.name for tool in catalogue]
    assert names[0] == "files__read"
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert len(set(names)) == 3
    assert [catalogue.find(name).tool for name in names] == ["read", "re ad", "r" * 80]
    with pytest.raises(InvalidValueError):
        catalogue.find("read")


def test_a_name_stays_what_it_is_over_listings() -> None:
    making = maker("p")
    first = making.make(Listing(({"name": "a b"}, {"name": "a_b"}), 0, 1))
    second = making.make(Listing(({"name": "a_b"}, {"name": "a b"}), 0, 1))
    assert {tool.tool: tool.name for tool in first} == {tool.tool: tool.name for tool in second}
    assert (first.number, second.number) == (1, 2)


def test_entries_that_are_no_tools_are_told(caplog: pytest.LogCaptureFixture) -> None:
    made("a", dropped=2)
    assert "2 entries" in caplog.text


@given(st.lists(st.text(min_size=1, max_size=90), unique=True, max_size=8), st.text(min_size=1, max_size=90))
def test_names_lead_back_to_their_tools(names: list[str], prefix: str) -> None:
    catalogue = made(*names, prefix=prefix)
    shown = [tool.name for tool in catalogue]
    assert len(set(shown)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in shown)
    assert [catalogue.find(name).tool for name in shown] == names
