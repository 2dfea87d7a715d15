"""A server's handle, which outlives its connections."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import ConnectionClosedError
from mcpl_core.grants import GrantState
from mcpl_core.host import DENY_ALL, HostedServer, HostPolicy
from mcpl_core.host.connect import Dialer
from mcpl_core.host.hosted import reconnect_delay
from tests.host.raw_server import MANIFEST, embedded


@given(st.integers(1, 200), st.floats(0, 1))
def test_delays_double_up_to_a_limit_and_are_spread(attempt: int, jitter: float) -> None:
    delay = reconnect_delay(attempt, jitter, 0.5, 60.0)
    full = min(60.0, 0.5 * 2 ** (attempt - 1))
    assert full / 2 <= delay <= full


def test_the_series() -> None:
    assert [reconnect_delay(attempt, 1.0, 1.0, 8.0) for attempt in range(1, 7)] == [1, 2, 4, 8, 8, 8]


def handle(target: Any = "mcpl://Example.com") -> HostedServer:
    return HostedServer("memory", Dialer(target), DENY_ALL, reconnect=True)


@pytest.mark.anyio
async def test_a_server_that_is_not_connected_has_nothing_and_can_be_asked_nothing() -> None:
    server = handle()
    assert (server.mode, server.grant, server.receipt, server.degraded) == ("close", GrantState(), None, ())
    for ask in (lambda: server.link, lambda: server.calls, lambda: server.session):
        with pytest.raises(ConnectionClosedError) as caught:
            ask()
        assert caught.value.outcome == "not-sent"
    with pytest.raises(ConnectionClosedError):
        await server.call_tool("x")


@pytest.mark.anyio
@pytest.mark.spec("RFC4-5-3")
async def test_a_description_keeps_its_facts_apart() -> None:
    description = handle("mcpl://Example.com?invite=secret").describe()
    assert (description.configured, description.canonical, description.resolved) == (
        "mcpl://Example.com?invite=secret",
        "mcpl://example.com/?invite=secret",
        "wss://example.com/?invite=secret",
    )
    assert (description.state, description.advertised, description.revision) == ("connecting", (), None)
    assert "secret" not in f"{description!r} {handle('mcpl://h?invite=secret')!r}"
    async with embedded(HostPolicy.allow("pushEvents"), MANIFEST) as (_, session):
        server = handle(["program"])
        server.move("ready", session)
        description = server.describe()
        assert description.configured == ("program",)
        assert description.grant.effective_capabilities == ("pushEvents",)
        assert "modelInfo" in description.advertised
        assert session.manifest is not None and description.revision == session.manifest.digest
        assert (description.info["name"], description.mode, server.session) == ("raw", "mcpl", session)
        assert (server.receipt, server.degraded) == (session.receipt, ())


@pytest.mark.anyio
async def test_waiting_for_where_it_stands() -> None:
    server = handle()
    got: list[str] = []

    async def wait() -> None:
        got.append(await server.wait("ready", "closed"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            server.move("waiting")
            await anyio.wait_all_tasks_blocked()
            assert got == []
            server.move("closed")
    assert got == ["closed", "closed"]
    assert await server.wait("closed") == "closed"
