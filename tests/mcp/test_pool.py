"""Clients that several conversations use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcpl_core.errors import ConnectionClosedError, InvalidValueError, LocalProtocolError, TransportError
from mcpl_core.mcp.client import McpClient
from mcpl_core.mcp.connecting import mcp_client
from mcpl_core.mcp.pool import McpClientPool, configuration_of
from mcpl_core.mcp.transports import GatewayTransport, HttpTransport, StdioTransport, WebSocketTransport
from tests.mcp.peers import FakeServer, served

pytestmark = pytest.mark.anyio

CANARY = "canary-9b1c"


async def vend(request: Any) -> dict[str, str]:
    return {}


URL = "https://example.com/mcp"
SAME: list[tuple[Any, Any]] = [
    (StdioTransport(["a", "b"]), StdioTransport(("a", "b"))),
    (StdioTransport(["a"], env={"X": "1"}), StdioTransport(["a"], env={"X": "2"})),
    (HttpTransport(URL, {"Authorization": "1"}), HttpTransport(URL, {"authorization": "2"})),
    (GatewayTransport(URL, vend, scopes=["a"]), GatewayTransport(URL, vend, scopes=("a",))),
    (WebSocketTransport("wss://a/", {"X": "1"}), WebSocketTransport("wss://a/", {"x": "2"})),
    (HttpTransport(URL, settings={"mode": "read", "n": 1}), HttpTransport(URL, settings={"n": 1, "mode": "read"})),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (StdioTransport(["a"]), StdioTransport(["b"])),
    (StdioTransport(["a"]), StdioTransport(["a"], cwd="/tmp")),
    (StdioTransport(["a"], env={"X": "1"}), StdioTransport(["a"], env={"Y": "1"})),
    (StdioTransport(["a"], env={"X": "1"}), StdioTransport(["a"], replace_env={"X": "1"})),
    (HttpTransport(URL), HttpTransport(URL + "/other")),
    (HttpTransport(URL), HttpTransport(URL, {"X": "1"})),
    (HttpTransport(URL, settings={"mode": "read"}), HttpTransport(URL, settings={"mode": "write"})),
    (HttpTransport(URL), GatewayTransport(URL, vend)),
    (GatewayTransport(URL, vend), GatewayTransport(URL, vend, mode="user")),
    (GatewayTransport(URL, vend), GatewayTransport(URL, vend, service="mail")),
    (WebSocketTransport("wss://a/"), WebSocketTransport("wss://a/", dict)),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_values_that_may_be_secret_do_not_tell_configurations_apart(left: Any, right: Any) -> None:
    assert configuration_of(left) == configuration_of(right)
    assert hash(configuration_of(left)) == hash(configuration_of(right))


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_names_places_and_settings_do(left: Any, right: Any) -> None:
    assert configuration_of(left) != configuration_of(right)


def test_a_configuration_holds_no_value_and_shows_nothing() -> None:
    kept = configuration_of(HttpTransport(URL, {"Authorization": CANARY}))
    assert CANARY not in repr([getattr(kept, name) for name in kept.__slots__])
    assert URL not in repr(kept)
    assert CANARY not in repr(configuration_of(StdioTransport(["a"], env={"X": CANARY})).names)


class Pooled:
    """A pool whose clients reach a server in memory, whatever their transport says."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.made: list[McpClient] = []
        self.pool = McpClientPool(result_mode="text")
        self.pool._make = self._make

    def _make(self, name: str, *, transport: Any, **options: Any) -> McpClient:
        assert options == {"result_mode": "text"}
        client = mcp_client(name, transport=self.server.connect, reconnect=None, **options)
        self.made.append(client)
        return client


def http(token: str = "1", **more: Any) -> HttpTransport:
    return HttpTransport(URL, {"Authorization": token}, **more)


@pytest.mark.spec("R-mcp-11")
async def test_one_client_for_the_same_configuration_of_one_principal() -> None:
    pooled = Pooled()
    async with served(pooled.server), pooled.pool as pool:
        async with (
            pool.client("a", http(), principal="alice") as first,
            pool.client("a", http(), principal="alice") as second,
        ):
            assert first is second
            assert await first.call("echo") == "{}"
        async with pool.client("a", http(), principal="alice") as third:
            assert third is first
        assert not first.is_closed
    assert first.is_closed


@pytest.mark.parametrize(
    "other",
    [
        lambda pool: pool.client("a", http(), principal="bob"),
        lambda pool: pool.client("b", http(), principal="alice"),
        lambda pool: pool.client("a", http(settings={"mode": "read"}), principal="alice"),
        lambda pool: pool.client("a", HttpTransport(URL), principal="alice"),
    ],
)
async def test_anything_else_has_a_client_of_its_own(other: Callable[[McpClientPool], Any]) -> None:
    pooled = Pooled()
    async with served(pooled.server), pooled.pool as pool:
        async with pool.client("a", http(), principal="alice") as first, other(pool) as second:
            assert first is not second
        assert len(pool) == 2


@pytest.mark.spec("R-mcp-11")
async def test_other_credentials_replace_a_client_when_its_last_lease_ends() -> None:
    pooled = Pooled()
    async with served(pooled.server), pooled.pool as pool:
        async with pool.client("a", http("old"), principal="alice") as old:
            async with pool.client("a", http("new"), principal="alice") as new:
                assert new is not old
                assert await old.call("echo") == "{}"
            assert len(pool) == 1
        await anyio.wait_all_tasks_blocked()
        assert old.is_closed
        assert not new.is_closed


async def test_other_credentials_end_a_client_that_nobody_uses_at_once() -> None:
    pooled = Pooled()
    async with served(pooled.server), pooled.pool as pool:
        async with pool.client("a", http("old"), principal="alice") as old:
            pass
        async with pool.client("a", http("new"), principal="alice"):
            await old._keeper._ended.wait()
            assert old.is_closed
            assert len(pool) == 1


async def test_a_client_that_was_closed_is_replaced() -> None:
    pooled = Pooled()
    async with served(pooled.server), pooled.pool as pool:
        async with pool.client("a", http(), principal="alice") as first:
            await first.close()
        async with pool.client("a", http(), principal="alice") as second:
            assert await second.call("echo") == "{}"


async def test_asking_at_once_opens_one() -> None:
    pooled = Pooled()

    async def use() -> None:
        async with pooled.pool.client("a", http(), principal="alice") as client:
            await client.call("echo")

    async with served(pooled.server), pooled.pool, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(use)
    assert len(pooled.made) == 1


async def test_a_server_that_is_not_there_is_asked_for_again() -> None:
    pooled = Pooled()
    async with served(pooled.server), pooled.pool as pool:
        pooled.server.refusing = TransportError("nobody")
        with pytest.raises(TransportError):
            async with pool.client("a", http(), principal="alice"):
                raise AssertionError("it opened")
        assert len(pool) == 0
        pooled.server.refusing = None
        async with pool.client("a", http(), principal="alice") as client:
            assert await client.call("echo") == "{}"


async def test_a_pool_closes_what_is_still_used() -> None:
    pooled = Pooled()
    with pytest.raises(KeyError):
        async with served(pooled.server), pooled.pool as pool:
            lease = pool.client("a", http(), principal="alice")
            await lease.__aenter__()
            raise KeyError("ours")
    assert pooled.made[0].is_closed


async def test_a_pool_is_entered_once_and_first() -> None:
    pool = McpClientPool()
    with pytest.raises(LocalProtocolError):
        async with pool.client("a", http(), principal="alice"):
            raise AssertionError("it opened")
    async with pool:
        with pytest.raises(LocalProtocolError):
            await pool.__aenter__()


@pytest.mark.parametrize(
    ("transport", "principal", "code"),
    [(lambda: None, "alice", "transport"), (http(), "", "principal"), (http(), None, "principal")],
)
async def test_what_cannot_be_compared_or_attributed_is_refused(transport: Any, principal: Any, code: str) -> None:
    async with McpClientPool() as pool:
        with pytest.raises(InvalidValueError) as caught:
            async with pool.client("a", transport, principal=principal):
                raise AssertionError("it opened")
        assert caught.value.code == code


async def test_leaving_a_pool_ends_what_is_being_opened() -> None:
    pooled = Pooled()
    ended: list[type[BaseException]] = []

    async def use() -> None:
        try:
            async with pooled.pool.client("a", http(), principal="alice"):
                raise AssertionError("it opened")
        except (ConnectionClosedError, LocalProtocolError) as exc:
            ended.append(type(exc))

    async def silent(request: Any) -> Any:
        await anyio.sleep_forever()

    pooled.server._initialize = silent  # type: ignore[assignment,method-assign]
    async with served(pooled.server), anyio.create_task_group() as tasks:
        async with pooled.pool:
            tasks.start_soon(use)
            tasks.start_soon(use)
            await pooled.server.next("initialize")
    assert sorted(each.__name__ for each in ended) == ["ConnectionClosedError", "LocalProtocolError"]
    assert not pooled.pool._all


async def test_a_pool_that_was_left_opens_nothing() -> None:
    pooled = Pooled()
    async with served(pooled.server):
        async with pooled.pool as pool:
            pass
        with pytest.raises(LocalProtocolError):
            async with pool.client("a", http(), principal="alice"):
                raise AssertionError("it opened")


async def test_nothing_is_kept_of_what_is_over() -> None:
    pooled = Pooled()
    async with served(pooled.server), pooled.pool as pool:
        for number in range(20):
            async with pool.client("a", http(), principal=f"p{number}") as client:
                await client.close()
        await anyio.wait_all_tasks_blocked()
        assert (len(pool), len(pool._locks), len(pool._all)) == (0, 0, 0)


async def test_a_principal_can_be_forgotten() -> None:
    pooled = Pooled()
    async with served(pooled.server), pooled.pool as pool:
        async with (
            pool.client("a", http(), principal="alice") as hers,
            pool.client("a", http(), principal="bob") as his,
        ):
            pool.forget("alice")
            pool.forget("nobody")
            assert len(pool) == 1
            assert await hers.call("echo") == "{}"
            async with pool.client("a", http(), principal="alice") as again:
                assert again is not hers
        await anyio.wait_all_tasks_blocked()
        assert hers.is_closed
        assert not again.is_closed
        assert not his.is_closed


async def test_many_principals_never_meet() -> None:
    pooled = Pooled()
    async with served(pooled.server), pooled.pool as pool:
        seen: dict[str, set[int]] = {}

        async def use(principal: str) -> None:
            for _ in range(2):
                async with pool.client("a", http(), principal=principal) as client:
                    assert await client.call("echo") == "{}"
                    seen.setdefault(principal, set()).add(id(client))

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(use, f"p{number}")
        assert all(len(clients) == 1 for clients in seen.values())
        assert len(set.union(*seen.values())) == len(pool) == 100


async def test_a_principal_can_be_forgotten_while_a_client_is_opened() -> None:
    pooled = Pooled()
    go_on = anyio.Event()
    used: list[McpClient] = []
    answer = pooled.server._initialize

    async def later(request: Any) -> Any:
        await go_on.wait()
        return answer(request)

    async def use() -> None:
        async with pooled.pool.client("a", http(), principal="alice") as client:
            assert await client.call("echo") == "{}"
            used.append(client)

    pooled.server._initialize = later  # type: ignore[assignment,method-assign]
    async with served(pooled.server), pooled.pool as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            await pooled.server.next("initialize")
            pool.forget("alice")
            go_on.set()
        assert len(pool) == 0
        await anyio.wait_all_tasks_blocked()
        assert used[0].is_closed
