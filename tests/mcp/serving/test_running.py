"""Starting, stopping, and what an endpoint ends of."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from mcpl_core.errors import LocalProtocolError, TransportError
from mcpl_core.mcp.serving.answers import Answers
from mcpl_core.mcp.serving.endpoints import Endpoint
from mcpl_core.mcp.serving.running import Runner
from tests.mcp.serving.clients import LIMIT, answers_of

pytestmark = pytest.mark.anyio


class Recorded(Endpoint):
    def __init__(self, failure: Exception | None = None, *, fails_late: bool = False) -> None:
        self.log: list[str] = []
        self.stopped = anyio.Event()
        self.failure = failure
        self.fails_late = fails_late

    async def run(self, answers: Answers, ready: Callable[[], None]) -> None:
        self.log.append("run")
        if self.failure is not None and not self.fails_late:
            raise self.failure
        ready()
        await self.stopped.wait()
        if self.failure is not None:
            raise self.failure
        self.log.append("ended")

    async def stop(self) -> None:
        self.log.append("stop")
        self.stopped.set()


def answers() -> Answers:
    return answers_of(len_of)


def len_of(text: str) -> int:
    return len(text)


async def test_what_began_ends_with_the_block() -> None:
    endpoint = Recorded()
    async with Runner() as runner:
        await runner.start(endpoint, answers())
        assert endpoint.log == ["run"]
    assert endpoint.log == ["run", "stop", "ended"]


async def test_it_is_stopped_any_number_of_times_from_any_task() -> None:
    endpoint = Recorded()
    with anyio.fail_after(LIMIT):
        async with Runner() as runner:
            await runner.stop()
            await runner.start(endpoint, answers())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runner.stop)
                tasks.start_soon(runner.wait)
            await runner.stop()
            assert endpoint.log.count("ended") == 1
            assert endpoint.log.count("stop") > 1


class Slow(Recorded):
    """Takes its time, before it stops and afterwards."""

    async def run(self, answers: Answers, ready: Callable[[], None]) -> None:
        try:
            await super().run(answers, ready)
        finally:
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            self.log.append("over")

    async def stop(self) -> None:
        await anyio.lowlevel.checkpoint()
        await super().stop()


async def test_stopping_returns_when_it_has_ended() -> None:
    endpoint = Slow()
    async with Runner() as runner:
        await runner.start(endpoint, answers())
        await runner.stop()
        assert endpoint.log == ["run", "stop", "ended", "over"]


async def test_a_block_that_is_cancelled_stops_what_it_began() -> None:
    endpoint = Slow()
    with anyio.CancelScope() as scope:
        async with Runner() as runner:
            await runner.start(endpoint, answers())
            scope.cancel()
    # Its task was cancelled with the block; all the same it was told.
    assert endpoint.log == ["run", "stop"]


async def test_only_one_is_started_and_the_first_goes_on() -> None:
    first, second = Recorded(), Recorded()
    async with Runner() as runner:
        await runner.start(first, answers())
        with pytest.raises(LocalProtocolError):
            await runner.start(second, answers())
        assert (first.log, second.log) == (["run"], [])


@pytest.mark.spec("R-mcpserve-15")
async def test_it_is_entered_before_and_once() -> None:
    runner = Runner()
    with pytest.raises(LocalProtocolError):
        await runner.start(Recorded(), answers())
    async with runner:
        with pytest.raises(LocalProtocolError):
            await runner.__aenter__()


async def test_what_cannot_be_reached_fails_where_it_is_started() -> None:
    failure = TransportError("nobody home")
    reports: list[BaseException] = []
    async with Runner() as runner:
        with pytest.raises(TransportError) as raised:
            await runner.start(Recorded(failure), answers_of(len_of, reports=reports))
        assert raised.value is failure
        assert reports == []
        # Another address may do.
        await runner.start(Recorded(), answers())


async def test_a_later_failure_is_for_who_waits_and_for_the_log() -> None:
    failure = TransportError("gone")
    endpoint = Recorded(failure, fails_late=True)
    reports: list[BaseException] = []
    async with Runner() as runner:
        await runner.start(endpoint, answers_of(len_of, reports=reports))
        assert reports == []
        endpoint.stopped.set()
        with pytest.raises(TransportError):
            await runner.wait()
    assert reports == [failure]


async def test_an_exception_of_the_block_comes_out_as_itself() -> None:
    endpoint = Recorded()
    with pytest.raises(ValueError, match="mine"):
        async with Runner() as runner:
            await runner.start(endpoint, answers())
            raise ValueError("mine")
    assert endpoint.log[-1] == "ended"


async def test_its_grace_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.mcp.serving.running._STOP_TIMEOUT", 0)

    endpoint = Slow()
    endpoint.grace = LIMIT
    async with Runner() as runner:
        await runner.start(endpoint, answers())
    assert endpoint.log == ["run", "stop", "ended", "over"]


async def test_one_that_does_not_stop_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.mcp.serving.running._STOP_TIMEOUT", 0)

    class Deaf(Recorded):
        async def stop(self) -> None:
            self.log.append("stop")
            await anyio.sleep_forever()

    endpoint = Deaf()
    with anyio.fail_after(LIMIT):
        async with Runner() as runner:
            await runner.start(endpoint, answers())
    assert endpoint.log == ["run", "stop"]
