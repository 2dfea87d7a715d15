"""Paging and its limits, each at its edge and one beyond."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core.catalog import CatalogError, CatalogLimits, CatalogMonitor, PeerFailure, PeerResult
from mcpl_core.catalog.listing import LONGEST_CURSOR, list_tools
from mcpl_core.catalog.monitor import Lease
from mcpl_core.catalog.results import json_size
from tests.catalog.kit import CANARY, ManualTimer, ScriptedPeer, tool

pytestmark = pytest.mark.anyio
Json = dict[str, Any]


def pages(count: int) -> list[Any]:
    """So many pages of one tool each."""
    found: list[Any] = [{"tools": [tool(f"t{index}")], "nextCursor": f"c{index}"} for index in range(count)]
    del found[-1]["nextCursor"]
    return found


async def listed(peer: ScriptedPeer, limits: CatalogLimits | None = None, monitor: CatalogMonitor | None = None) -> Any:
    if monitor is None:
        monitor = CatalogMonitor()
        peer.watch(monitor)
    return await list_tools(peer, Lease(monitor), limits or CatalogLimits(), anyio.move_on_after)


async def code(peer: ScriptedPeer, limits: CatalogLimits | None = None, monitor: CatalogMonitor | None = None) -> str:
    with pytest.raises(CatalogError) as caught:
        await listed(peer, limits, monitor)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    return caught.value.code


async def test_all_pages_in_order() -> None:
    peer = ScriptedPeer(pages=pages(3))
    assert list(await listed(peer)) == ["t0", "t1", "t2"]
    assert peer.sent == [("tools/list", {}), ("tools/list", {"cursor": "c0"}), ("tools/list", {"cursor": "c1"})]


async def test_pages_at_the_limit() -> None:
    assert len(await listed(ScriptedPeer(pages=pages(32)))) == 32
    peer = ScriptedPeer(pages=pages(33))
    assert await code(peer) == "mcp_catalog_limit_exceeded"
    assert len(peer.sent) == 32


async def test_tools_at_the_limit_over_all_pages() -> None:
    both = [{"tools": [tool(f"a{i}", description="") for i in range(128)], "nextCursor": "c"}]
    assert len(await listed(ScriptedPeer(pages=[*both, {"tools": [tool(f"b{i}") for i in range(128)]}]))) == 256
    over = ScriptedPeer(pages=[*both, {"tools": [tool(f"b{i}") for i in range(129)]}])
    assert await code(over) == "mcp_catalog_limit_exceeded"


async def test_bytes_at_the_limit_over_all_pages() -> None:
    def padded(size: int) -> list[Any]:
        found = pages(2)
        found[0]["x"] = ""
        found[0]["x"] = "x" * (size - sum(json_size(page) or 0 for page in found))
        return found

    assert len(await listed(ScriptedPeer(pages=padded(1_048_576)))) == 2
    assert await code(ScriptedPeer(pages=padded(1_048_577))) == "mcp_catalog_limit_exceeded"


@pytest.mark.spec("R-catalog-5")
@pytest.mark.parametrize("cursor", ["", "x" * LONGEST_CURSOR, "é" * (LONGEST_CURSOR // 2)])
async def test_what_is_a_cursor(cursor: str) -> None:
    assert LONGEST_CURSOR == 512
    peer = ScriptedPeer(pages=[{"tools": [], "nextCursor": cursor}, {"tools": [], "nextCursor": None}])
    assert await listed(peer) == {}
    assert peer.sent[1] == ("tools/list", {"cursor": cursor})


@pytest.mark.spec("R-catalog-5")
@pytest.mark.parametrize("cursor", ["x" * (LONGEST_CURSOR + 1), "é" * (LONGEST_CURSOR // 2) + "x", 7, False, ["c"], {}])
async def test_what_is_none(cursor: Any) -> None:
    assert await code(ScriptedPeer(pages=[{"tools": [], "nextCursor": cursor}])) == "mcp_pagination_invalid"


@pytest.mark.spec("R-catalog-5")
@pytest.mark.parametrize("cursor", ["c", ""])
async def test_a_cursor_that_comes_again(cursor: str) -> None:
    peer = ScriptedPeer(pages=[{"tools": [], "nextCursor": cursor}])
    assert await code(peer) == "mcp_pagination_invalid"
    assert len(peer.sent) == 2


async def test_a_name_that_comes_again() -> None:
    again = [{"tools": [tool("a")], "nextCursor": "c"}, {"tools": [tool("a")]}]
    assert await code(ScriptedPeer(pages=again)) == "mcp_name_conflict"
    assert await code(ScriptedPeer([tool("a"), tool("a")])) == "mcp_name_conflict"


@pytest.mark.spec("R-catalog-9")
@pytest.mark.parametrize(
    "page",
    [None, [], {}, {"tools": None}, {"tools": {}}, {"tools": [7]}, {"tools": [{}]}, {"tools": [{"name": 7}]}],
)
async def test_what_is_no_page(page: Any) -> None:
    assert await code(ScriptedPeer(pages=[page])) == "mcp_result_invalid"


async def test_a_page_without_a_json_form() -> None:
    class Odd(ScriptedPeer):
        async def request(self, method: Any, params: Json) -> Any:

            return PeerResult({"tools": [], "x": object()})

    assert await code(Odd()) == "mcp_result_invalid"


@pytest.mark.parametrize(
    "failure", ["mcp_timeout", "mcp_protocol_error", "mcp_transport_error", "mcp_tools_unavailable"]
)
async def test_a_failed_request_is_its_code_and_is_not_repeated(failure: Any) -> None:
    peer = ScriptedPeer(pages=[PeerFailure(failure)])
    assert await code(peer) == failure
    assert len(peer.sent) == 1


async def test_a_peer_that_raises() -> None:
    def rude() -> Any:
        raise RuntimeError(CANARY)

    assert await code(ScriptedPeer(pages=[rude])) == "mcp_transport_error"


async def test_a_peer_that_is_silent() -> None:
    timer, monitor, peer = ManualTimer(), CatalogMonitor(), ScriptedPeer(pages=[anyio.sleep_forever])
    peer.watch(monitor)
    codes: list[str] = []

    async def ask() -> None:
        with pytest.raises(CatalogError) as caught:
            await list_tools(peer, Lease(monitor), CatalogLimits(), timer)
        codes.append(caught.value.code)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            timer.advance(30)
    assert codes == ["mcp_timeout"]


@pytest.mark.parametrize(
    ("event", "expected"), [("list_changed", "mcp_catalog_stale"), ("close", "mcp_connection_closed")]
)
async def test_what_changes_between_pages(event: str, expected: str) -> None:
    monitor = CatalogMonitor()

    def page() -> Any:
        getattr(monitor, event)()
        return {"tools": [], "nextCursor": "c"}

    peer = ScriptedPeer(pages=[page])
    peer.watch(monitor)
    assert await code(peer, monitor=monitor) == expected
    assert len(peer.sent) == 1
