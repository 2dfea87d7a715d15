"""One task that owns the session of a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

from mcpl_core.errors import ConnectionClosedError, InvalidValueError, LocalProtocolError, TransportError
from mcpl_core.mcp.keeper import Reconnect, SessionKeeper
from mcpl_core.mcp.mock import MockSession
from mcpl_core.mcp.session import RawSession
from tests.mcp.peers import LIMIT

pytestmark = pytest.mark.anyio


class Watched(MockSession):
    """A session that tells when it is over."""

    def __init__(self) -> None:
        super().__init__()
        self.over = anyio.Event()
        self.is_closed = False
        self.reason: BaseException | None = None

    async def wait_closed(self) -> BaseException | None:
        await self.over.wait()
        return self.reason


class World:
    """Opens sessions, and waits for nothing unless a test lets it."""

    def __init__(self, *, watched: bool = True, jitter: float = 1.0, **reconnect: Any) -> None:
        self.watched = watched
        self.sessions: list[Any] = []
        self.left = 0
        self.delays: list[float] = []
        self.failures: list[BaseException] = []
        self.blocked: anyio.Event | None = None
        self.reconnect = Reconnect(sleep=self._sleep, jitter=lambda: jitter, **reconnect)

    async def _sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        await anyio.lowlevel.checkpoint()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RawSession]:
        if self.blocked is not None:
            self.blocked.set()
            await anyio.sleep_forever()
        if self.failures:
            raise self.failures.pop(0)
        session = Watched() if self.watched else MockSession()
        self.sessions.append(session)
        try:
            yield session
        finally:
            self.left += 1


@asynccontextmanager
async def kept(world: World, reconnect: bool = True) -> AsyncIterator[SessionKeeper]:
    keeper = SessionKeeper(world.open, world.reconnect if reconnect else None)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            await tasks.start(keeper.run)
            yield keeper
            await keeper.aclose()


async def test_a_session_is_there_until_it_is_closed() -> None:
    world = World()
    async with kept(world) as keeper:
        assert keeper.session is world.sessions[0]
        assert await keeper.connected() is keeper.session
        assert (keeper.number, keeper.is_closed, keeper.failure) == (1, False, None)
    assert keeper.is_closed
    assert world.left == 1
    with pytest.raises(ConnectionClosedError) as caught:
        _ = keeper.session
    assert caught.value.outcome == "not-sent"
    with pytest.raises(ConnectionClosedError):
        await keeper.connected()
    await keeper.aclose()


async def test_a_broken_session_is_replaced() -> None:
    world = World()
    async with kept(world) as keeper:
        for number in (1, 2, 3):
            assert keeper.number == number
            world.sessions[-1].reason = TransportError("reset")
            world.sessions[-1].over.set()
            await anyio.wait_all_tasks_blocked()
        assert world.delays == [0.5, 1.0, 2.0]
        assert keeper.session is world.sessions[3]
        assert (world.left, keeper.failure) == (3, None)


async def test_attempts_that_fail_are_repeated_with_growing_delays() -> None:
    world = World(longest_delay=3.0)
    async with kept(world) as keeper:
        world.failures = [TransportError("a"), TransportError("b"), TransportError("c"), TransportError("d")]
        world.sessions[-1].over.set()
        await anyio.wait_all_tasks_blocked()
        assert world.delays == [0.5, 1.0, 2.0, 3.0, 3.0]
        assert keeper.number == 2


async def test_a_session_that_lasted_starts_the_series_anew() -> None:
    world = World(stable_after=0.0)
    async with kept(world) as keeper:
        for _ in range(3):
            world.sessions[-1].over.set()
            await anyio.wait_all_tasks_blocked()
        assert world.delays == [0.5, 0.5, 0.5]
        assert keeper.number == 4


async def test_attempts_can_be_bounded() -> None:
    world = World(attempts=2)
    async with kept(world) as keeper:
        world.failures = [TransportError("a"), TransportError("b"), TransportError("c")]
        world.sessions[-1].over.set()
        with pytest.raises(ConnectionClosedError) as caught:
            while True:
                await keeper.connected()
                await anyio.lowlevel.checkpoint()
        assert isinstance(caught.value.reason, TransportError)
        assert caught.value.reason.__traceback__ is None
        assert (len(world.delays), keeper.is_closed) == (2, True)


async def test_without_reconnecting_the_end_is_the_end() -> None:
    world = World()
    async with kept(world, reconnect=False) as keeper:
        world.sessions[-1].reason = TransportError("reset")
        world.sessions[-1].over.set()
        await anyio.wait_all_tasks_blocked()
        assert keeper.is_closed
        with pytest.raises(ConnectionClosedError) as caught:
            _ = keeper.session
        assert isinstance(caught.value.reason, TransportError)


@pytest.mark.parametrize("final", [InvalidValueError("url", "x"), LocalProtocolError("x")])
async def test_what_would_fail_again_is_not_tried_again(final: Exception) -> None:
    world = World()
    async with kept(world) as keeper:
        world.failures = [TransportError("once"), final]
        world.sessions[-1].over.set()
        await anyio.wait_all_tasks_blocked()
        assert keeper.is_closed
        assert keeper.failure is final
        assert len(world.delays) == 2


async def test_a_session_that_nothing_watches_is_given_up_by_its_users() -> None:
    world = World(watched=False)
    async with kept(world) as keeper:
        first = keeper.session
        keeper.lost(MockSession(), TransportError("another's"))
        await anyio.wait_all_tasks_blocked()
        assert keeper.session is first
        keeper.lost(first, TransportError("gone"))
        keeper.lost(first, TransportError("gone"))
        await anyio.wait_all_tasks_blocked()
        assert keeper.session is world.sessions[1]
        keeper.lost(first, TransportError("gone"))
        await anyio.wait_all_tasks_blocked()
        assert keeper.session is world.sessions[1]


async def test_a_session_that_tells_of_its_end_is_not_given_up_over_one_request() -> None:
    world = World()
    async with kept(world) as keeper:
        keeper.lost(keeper.session, TransportError("one request"))
        await anyio.wait_all_tasks_blocked()
        first: Watched = world.sessions[0]
        assert keeper.session is first
        assert keeper.failure is None
        first.is_closed = True
        with pytest.raises(ConnectionClosedError):
            _ = keeper.session
        keeper.lost(first, TransportError("the whole of it"))
        with pytest.raises(ConnectionClosedError):
            _ = keeper.session
        assert await keeper.connected() is world.sessions[1]


async def test_a_session_that_said_that_it_is_over_is_not_waited_for() -> None:
    world = World()
    async with kept(world) as keeper:
        first: Watched = world.sessions[0]
        first.is_closed = True
        found: list[Any] = []

        async def wait() -> None:
            found.append(await keeper.connected())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert found == []
            first.over.set()
        assert found == [world.sessions[1]]


async def test_the_first_failure_is_the_callers() -> None:
    world = World()
    world.failures = [TransportError("nobody")]
    with pytest.raises(TransportError):
        await SessionKeeper(world.open, world.reconnect).run()
    assert world.delays == []


async def test_closing_while_the_first_one_is_being_opened() -> None:
    world = World()
    world.blocked = anyio.Event()
    keeper = SessionKeeper(world.open, world.reconnect)
    failures: list[BaseException] = []

    async def start(*, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        try:
            await keeper.run(task_status=task_status)
        except ConnectionClosedError as exc:
            failures.append(exc)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            await world.blocked.wait()
            await keeper.aclose()
    assert [type(each) for each in failures] == [ConnectionClosedError]


async def test_closing_while_waiting_to_connect_again() -> None:
    world = World()
    sleeping = anyio.Event()

    async def sleep(seconds: float) -> None:
        sleeping.set()
        await anyio.sleep_forever()

    world.reconnect = Reconnect(sleep=sleep)
    async with kept(world):
        world.sessions[-1].over.set()
        await sleeping.wait()
    assert world.left == 1


async def test_closing_from_many_tasks() -> None:
    world = World()
    async with kept(world) as keeper, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(keeper.aclose)
    assert world.left == 1


async def test_a_keeper_that_never_began_closes_at_once() -> None:
    await SessionKeeper(World().open, None).aclose()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"first_delay": -1.0}, "first_delay"),
        ({"longest_delay": float("nan")}, "longest_delay"),
        ({"stable_after": -1.0}, "stable_after"),
        ({"attempts": -1}, "attempts"),
    ],
)
def test_numbers_that_make_no_sense(options: Any, code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Reconnect(**options)
    assert caught.value.code == code


def test_delays_are_spread_over_their_upper_half() -> None:
    low, high = (Reconnect(jitter=lambda value=value: value) for value in (0.0, 1.0))  # type: ignore[misc]
    assert [low.delay(n) for n in (1, 2, 9)] == [0.25, 0.5, 30.0]
    assert [high.delay(n) for n in (1, 2, 9)] == [0.5, 1.0, 60.0]


async def test_a_session_that_is_being_left_is_given_to_nobody() -> None:
    leaving = anyio.Event()
    left = anyio.Event()
    session = Watched()

    @asynccontextmanager
    async def slow() -> AsyncIterator[RawSession]:
        yield session
        leaving.set()
        await left.wait()

    keeper = SessionKeeper(slow, None)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            await tasks.start(keeper.run)
            session.over.set()
            await leaving.wait()
            with pytest.raises(ConnectionClosedError):
                _ = keeper.session
            left.set()
    assert keeper.is_closed


async def test_only_a_session_that_is_watched_is_believed_that_it_is_over() -> None:
    # Nothing would ever end it, and whoever waits for the next one would wait forever.
    world = World(watched=False)
    async with kept(world) as keeper:
        world.sessions[0].is_closed = True
        assert keeper.session is await keeper.connected() is world.sessions[0]
