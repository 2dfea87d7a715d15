"""From accepted transports to connections, over a listener that the test drives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcpl_core.connection import McplConnection
from mcpl_core.errors import LocalProtocolError, TransportError
from mcpl_core.listening import ConnectionListener
from mcpl_core.transports.base import Listener, Transport
from mcpl_core.transports.loop import EventLoop
from mcpl_core.transports.memory import MemoryTransport, ScriptedTransport, memory_transports

pytestmark = pytest.mark.anyio


class FakeListener(Listener):
    """Accepts what the test hands over."""

    endpoint = "fake:1"

    def __init__(self, failure: TransportError | None = None) -> None:
        super().__init__()
        self.failure = failure
        self.closed = 0
        self.accept: Callable[[Transport], None] = lambda transport: pytest.fail("not started")

    async def start(self, loop: EventLoop, accepted: Callable[[Transport], None]) -> None:
        if self.failure is not None:
            raise self.failure
        self.accept = accepted

    async def aclose(self) -> None:
        self.closed += 1
        await anyio.lowlevel.checkpoint()


class Named(ScriptedTransport):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


@pytest.fixture
def fake() -> FakeListener:
    return FakeListener()


@pytest.fixture
def listener(fake: FakeListener) -> ConnectionListener[McplConnection]:
    return ConnectionListener(fake, McplConnection)


Fixture = ConnectionListener[McplConnection]


async def test_each_accepted_transport_becomes_a_connection(fake: FakeListener, listener: Fixture) -> None:
    async with listener:
        assert listener.endpoint == "fake:1"
        fake.accept(Named("a"))
        fake.accept(Named("b"))
        connections = [await anext(listener), await anext(listener)]
        assert [connection.transport.name for connection in connections] == ["a", "b"]
        async with connections[0] as connection:
            assert not connection.is_closed


async def test_tasks_wait_for_peers_and_get_one_each(fake: FakeListener, listener: Fixture) -> None:
    names: list[str] = []

    async def take() -> None:
        names.append((await anext(listener)).transport.name)

    with anyio.fail_after(5):
        async with listener, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            fake.accept(Named("a"))
            fake.accept(Named("b"))
            await anyio.wait_all_tasks_blocked()
            assert sorted(names) == ["a", "b"]
            fake.accept(Named("c"))
    assert sorted(names) == ["a", "b", "c"]


async def test_cancelling_who_waits_loses_no_peer(fake: FakeListener, listener: Fixture) -> None:
    async with listener:
        for _ in range(100):
            with anyio.move_on_after(0):
                await anext(listener)
        assert len(listener._waiters) <= 1
        fake.accept(Named("a"))
        assert (await anext(listener)).transport.name == "a"


async def test_cancelled_in_the_turn_in_which_a_peer_came(fake: FakeListener, listener: Fixture) -> None:
    names: list[str] = []
    scope = anyio.CancelScope()

    async def take() -> None:
        names.append((await anext(listener)).transport.name)

    async def cancelled() -> None:
        with scope:
            await take()

    with anyio.fail_after(5):
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(cancelled)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            fake.accept(Named("a"))
            await anyio.wait_all_tasks_blocked()
            fake.accept(Named("b"))
            if len(names) == 1:
                await take()
    assert sorted(names) in (["a"], ["a", "b"])


async def test_closing_ends_every_iteration(fake: FakeListener, listener: Fixture) -> None:
    ended: list[int] = []

    async def iterate() -> None:
        async for _ in listener:
            pytest.fail("nobody came")
        ended.append(1)

    with anyio.fail_after(5):
        async with listener, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(iterate)
            await anyio.wait_all_tasks_blocked()
            await listener.aclose()
            await listener.aclose()
        assert ended == [1, 1, 1]
        with pytest.raises(StopAsyncIteration):
            await anext(listener)


async def test_those_that_nobody_took_are_closed(fake: FakeListener, listener: Fixture) -> None:
    left, taken = Named("left"), Named("taken")
    async with listener:
        fake.accept(taken)
        await anext(listener)
        fake.accept(left)
    assert (left.closed, taken.closed, fake.closed) == (1, 0, 1)


async def test_even_when_closing_is_cancelled(fake: FakeListener, listener: Fixture) -> None:
    class Slow(ScriptedTransport):
        async def aclose(self) -> None:
            self.closed += 1
            await anyio.sleep_forever()

    transports = [Slow() for _ in range(5)]
    with anyio.move_on_after(0):
        async with listener:
            for transport in transports:
                fake.accept(transport)
    assert [transport.closed for transport in transports] == [1] * 5


async def test_who_comes_while_it_closes_is_closed(fake: FakeListener, listener: Fixture) -> None:
    late = Named("late")

    async def aclose() -> None:
        fake.accept(late)

    fake.aclose = aclose  # type: ignore[method-assign]
    async with listener:
        pass
    assert late.closed == 1


async def test_connections_that_were_taken_live_on(fake: FakeListener, listener: Fixture) -> None:
    here, there = memory_transports()
    messages: list[str] = []

    async def read(connection: McplConnection) -> None:
        async with connection:
            messages.extend([message.method async for message in connection])

    with anyio.fail_after(5):
        async with McplConnection(there) as client, anyio.create_task_group() as tasks:
            async with listener:
                fake.accept(here)
                tasks.start_soon(read, await anext(listener))
            await client.send_notification("hello")
            await client.aclose()
    assert messages == ["hello"]


async def test_a_taken_connection_that_is_not_entered_can_be_closed(fake: FakeListener, listener: Fixture) -> None:
    async with listener:
        fake.accept(transport := Named("a"))
        connection = await anext(listener)
        await connection.aclose()
        assert (transport.closed, connection.is_closed) == (1, True)


async def test_it_is_entered_once(listener: Fixture) -> None:
    async with listener:
        with pytest.raises(LocalProtocolError):
            await listener.__aenter__()


async def test_it_is_not_entered_after_it_was_closed(fake: FakeListener, listener: Fixture) -> None:
    await listener.aclose()
    with pytest.raises(LocalProtocolError):
        await listener.__aenter__()
    assert fake.closed == 1


async def test_it_must_be_entered(listener: Fixture) -> None:
    with pytest.raises(LocalProtocolError):
        await anext(listener)


async def test_an_address_that_cannot_be_bound() -> None:
    failure = TransportError("taken")
    with pytest.raises(TransportError) as caught:
        async with ConnectionListener(FakeListener(failure), McplConnection):
            raise AssertionError
    assert caught.value is failure


async def test_what_the_block_raises_comes_out_as_it_is(listener: Fixture) -> None:
    with pytest.raises(KeyError):
        async with listener:
            raise KeyError


async def test_the_makers_failure_reaches_who_takes(fake: FakeListener) -> None:
    def refuse(transport: Transport) -> Any:
        raise KeyError

    async with ConnectionListener(fake, refuse) as listener:
        fake.accept(MemoryTransport())
        with pytest.raises(KeyError):
            await anext(listener)
