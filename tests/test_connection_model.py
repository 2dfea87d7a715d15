"""Any interleaving of pushing, taking, asking, cancelling and closing, against a model of lists.

Every message is delivered once, in the order of the wire; every request has one outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.connection import McplConnection
from mcpl_core.errors import ConnectionClosedError, RpcError
from mcpl_core.inbox import InboxLimits
from mcpl_core.transports.memory import ScriptedTransport
from mcpl_core.wire.values import decode_value

BACKENDS = [
    pytest.param("asyncio", {"use_uvloop": False}, id="asyncio"),
    pytest.param("asyncio", {"use_uvloop": True}, id="uvloop"),
    pytest.param("trio", {}, id="trio"),
]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.integers(1, 6)),
        st.tuples(st.just("take"), st.integers(1, 3)),
        st.tuples(st.just("cancel taker"), st.integers(0, 5)),
        st.tuples(st.just("ask"), st.integers(1, 3)),
        st.tuples(st.just("answer"), st.integers(0, 5)),
        st.tuples(st.just("cancel asker"), st.integers(0, 5)),
        st.tuples(st.just("turn"), st.integers(1, 3)),
        st.tuples(st.just("end"), st.just(0)),
        st.tuples(st.just("close"), st.just(0)),
    ),
    max_size=40,
)


class Cancellable:
    """Tasks that can be cancelled one by one: through a scope, or on asyncio through the task itself."""

    def __init__(self, tasks: anyio.abc.TaskGroup, native: bool) -> None:
        self._tasks = tasks
        self._native = native
        self._cancels: list[Callable[[], object]] = []
        self.native_tasks: list[asyncio.Task[None]] = []

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        if self._native:
            task = asyncio.create_task(self._run(work))
            self.native_tasks.append(task)
            self._cancels.append(task.cancel)
        else:
            scope = anyio.CancelScope()
            self._tasks.start_soon(self._run_in, scope, work)
            self._cancels.append(scope.cancel)

    @staticmethod
    async def _run(work: Callable[[], Awaitable[None]]) -> None:
        await work()

    @staticmethod
    async def _run_in(scope: anyio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
        with scope:
            await work()

    def cancel(self, which: int) -> None:
        if self._cancels:
            self._cancels.pop(which % len(self._cancels))()


class Run:
    """One interleaving."""

    def __init__(self, connection: McplConnection, transport: ScriptedTransport, tasks: Any, native: bool) -> None:
        self.connection = connection
        self.transport = transport
        self.takers = Cancellable(tasks, native)
        self.askers = Cancellable(tasks, native)
        self.fed: list[int] = []
        self.taken: list[int] = []
        self.asked = 0
        self.answered: set[int] = set()
        self.outcomes: dict[int, list[Any]] = {}
        self.over = False

    async def take(self) -> None:
        try:
            message = await self.connection.next_message()
        except ConnectionClosedError:
            return
        self.taken.append(message.params[0])

    async def ask(self, number: int) -> None:
        try:
            outcome: Any = await self.connection.send_request("ask", [number], timeout=None)
        except ConnectionClosedError as error:
            outcome = error.outcome
        except RpcError as error:
            outcome = error.code
        except BaseException:
            self.outcomes.setdefault(number, []).append("cancelled")
            raise
        self.outcomes.setdefault(number, []).append(outcome)

    def feed(self, count: int) -> None:
        numbers = range(len(self.fed), len(self.fed) + count)
        self.transport.feed(*({"jsonrpc": "2.0", "method": "n", "params": [number]} for number in numbers))
        if not self.over:
            self.fed += numbers

    def answer(self, which: int) -> None:
        waiting = [decode_value(text) for text in self.transport.sent]
        asked = [m for m in waiting if m["method"] == "ask" and m["id"] not in self.answered]
        if asked:
            message = asked[which % len(asked)]
            self.answered.add(message["id"])
            body = {"result": message["params"][0]} if which % 2 else {"error": {"code": 7, "message": ""}}
            self.transport.feed({"jsonrpc": "2.0", "id": message["id"]} | body)

    def take_some(self, count: int) -> None:
        for _ in range(count):
            self.takers.start(self.take)

    def ask_some(self, count: int) -> None:
        for number in range(self.asked, self.asked + count):
            self.askers.start(lambda number=number: self.ask(number))  # type: ignore[misc]
        self.asked += count

    def end(self, _: int) -> None:
        self.over = True
        self.transport.end()

    async def close(self, _: int) -> None:
        self.over = True
        await self.connection.aclose()

    async def turn(self, count: int) -> None:
        for _ in range(count):
            await checkpoint()

    async def step(self, what: str, value: int) -> None:
        act: dict[str, Callable[[int], Any]] = {
            "feed": self.feed,
            "take": self.take_some,
            "cancel taker": self.takers.cancel,
            "ask": self.ask_some,
            "answer": self.answer,
            "cancel asker": self.askers.cancel,
            "turn": self.turn,
            "end": self.end,
            "close": self.close,
        }
        outcome = act[what](value)
        if outcome is not None:
            await outcome


async def interleave(steps: list[tuple[str, int]], native: bool) -> None:
    transport = ScriptedTransport()
    limits = InboxLimits(3, 10_000, 1_000, 1_000_000)
    arrived: list[int] = []
    with anyio.fail_after(2):
        async with McplConnection(transport, limits=limits) as connection, anyio.create_task_group() as tasks:
            connection.on_message(lambda message: arrived.append(message.params[0]))
            run = Run(connection, transport, tasks, native)
            await checkpoint()
            for what, value in steps:
                await run.step(what, value)
            complete = not run.over
            run.take_some(len(run.fed))
            while complete and len(run.taken) < len(run.fed):
                await checkpoint()
            await connection.aclose()
            run.taken += [message.params[0] async for message in connection]
            await run.turn(5)
            for task in (*run.takers.native_tasks, *run.askers.native_tasks):
                await asyncio.wait([task])
        # In the order of the wire, and each once.
        assert run.taken == arrived == run.fed[: len(arrived)]
        assert not complete or len(arrived) == len(run.fed)
        # Each request that began has one outcome; an answer is its own.
        for number, outcomes in run.outcomes.items():
            assert len(outcomes) == 1
            assert outcomes[0] in (number, 7, "no-response", "not-sent", "cancelled")
        assert connection.stats.pending == 0
        assert not connection._intake.has_takers


@pytest.mark.parametrize("native", [False, True], ids=["scopes", "tasks"])
@pytest.mark.parametrize(("backend", "options"), BACKENDS)
@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_each_message_is_delivered_once_and_in_order(
    backend: str, options: dict[str, Any], native: bool, steps: list[tuple[str, int]]
) -> None:
    if native and backend == "trio":
        return
    anyio.run(interleave, steps, native, backend=backend, backend_options=options)
