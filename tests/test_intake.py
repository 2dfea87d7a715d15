"""The way in, without a connection: texts are pushed, tasks take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from anyio.abc import TaskGroup
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from mcpl_core.dispatch import Handler
from mcpl_core.errors import (
    ConnectionClosedError,
    MalformedMessageError,
    MethodNotFound,
    QueueOverflowError,
    RpcError,
    TransportError,
)
from mcpl_core.inbox import InboxLimits
from mcpl_core.intake import Intake
from mcpl_core.observers import Observers
from mcpl_core.outlet import TURN, Outlet
from mcpl_core.transports.guards import CancelGuard
from mcpl_core.transports.loop import EventLoop, TimerHandle, Waiter, current_loop
from mcpl_core.transports.memory import ScriptedTransport
from mcpl_core.wire.messages import Notification, Request
from mcpl_core.wire.peer import Peer, PeerState, Trigger
from mcpl_core.wire.values import decode_value, encode_value

pytestmark = pytest.mark.anyio

LIMITS = InboxLimits(high_messages=4, high_bytes=10_000, hard_messages=8, hard_bytes=20_000)


class In:
    """An intake, and what a connection would do around it."""

    def __init__(self, loop: EventLoop, limits: InboxLimits, discard_unread: bool) -> None:
        self.loop = loop
        self.peer: Peer[Waiter] = Peer()
        self.transport = ScriptedTransport()
        self.observers = Observers("script")
        self.errors: list[BaseException] = []
        self.observers.error.append(self.errors.append)
        self.moves: list[tuple[Trigger, BaseException | None]] = []
        self.outlet = Outlet(self.transport, limits.hard_bytes, lambda error: None, lambda: self.intake.relieve())
        self.intake = Intake(self.peer, self.transport, self.outlet, limits, discard_unread, self.observers, self._move)
        self.outlet.start(loop)

    def _move(self, trigger: Trigger, error: BaseException | None) -> None:
        self.moves.append((trigger, error))
        if self.peer.move(trigger) and self.peer.state is PeerState.CLOSED:
            self.intake.close(error)

    def push(self, *messages: dict[str, Any] | bytes) -> None:
        """One read."""
        texts = [message if isinstance(message, bytes) else encode_value(message) for message in messages]
        self.intake.messages_received(texts)

    def notify(self, *methods: str) -> None:
        self.push(*({"jsonrpc": "2.0", "method": method} for method in methods))

    async def next(self) -> str:
        return (await self.intake.next(self.loop)).method

    def ask(self) -> tuple[int, Waiter]:
        waiter = self.loop.waiter()
        return self.peer.request("ask", UNSET, waiter)[0], waiter

    def paused(self) -> bool:
        assert self.intake.paused == self.transport.paused
        return self.transport.paused


@asynccontextmanager
async def taking(limits: InboxLimits = LIMITS, *, discard_unread: bool = False) -> AsyncIterator[In]:
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            yield In(current_loop(tasks), limits, discard_unread)
            tasks.cancel_scope.cancel()


# ---------------------------------------------------------------------------------------- answers


async def test_an_answer_wakes_who_waits_for_it() -> None:
    async with taking() as side:
        (first, one), (second, two) = side.ask(), side.ask()
        side.push({"jsonrpc": "2.0", "id": second, "result": "b"}, {"jsonrpc": "2.0", "id": first, "result": "a"})
        assert [decode_value(await waiter) for waiter in (one, two)] == ["a", "b"]
        assert (side.intake.received, side.intake.stray, len(side.intake.inbox)) == (2, 0, 0)


async def test_an_error_wakes_who_waits_for_it() -> None:
    async with taking() as side:
        id, waiter = side.ask()
        side.push({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
        with pytest.raises(MethodNotFound):
            await waiter


async def test_an_answer_for_somebody_who_left_in_this_turn_is_dropped() -> None:
    async with taking() as side:
        for answer in ({"result": 1}, {"error": {"code": 1, "message": "x"}}):
            id, waiter = side.ask()
            waiter.set_result("gone")
            side.push({"jsonrpc": "2.0", "id": id} | answer)
            assert await waiter == "gone"
        assert side.intake.stray == 0


async def test_an_answer_that_nobody_waits_for_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcpl_core")
    async with taking() as side:
        id, _ = side.ask()
        answer = {"jsonrpc": "2.0", "id": id, "result": 1}
        side.push(answer, answer, {"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": ""}})
        assert (side.intake.received, side.intake.stray, side.errors) == (3, 2, [])
        assert len(caplog.records) == 2


# ---------------------------------------------------------------------------------------- malformed


async def test_what_is_no_message_is_reported_and_answered_where_it_can_be() -> None:
    async with taking() as side:
        side.push(b"banner", b"[]", {"jsonrpc": "2.0", "id": 5, "method": 7}, {"jsonrpc": "2.0", "method": "fine"})
        assert [error.kind for error in side.errors if isinstance(error, MalformedMessageError)] == [
            "not-json", "batch", "invalid-request",
        ]  # fmt: skip
        replies = [decode_value(text) for text in side.transport.sent]
        assert [(reply["id"], reply["error"]["code"]) for reply in replies] == [(None, -32600), (5, -32600)]
        assert await side.next() == "fine"
        assert (side.intake.malformed, side.intake.received) == (3, 4)


async def test_a_frame_that_is_no_message_is_reported() -> None:
    async with taking() as side:
        error = MalformedMessageError("binary")
        side.intake.message_malformed(error)
        assert (side.errors, side.intake.malformed) == ([error], 1)


async def test_an_error_without_an_id_is_reported() -> None:
    async with taking() as side:
        side.push({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}})
        (error,) = side.errors
        assert isinstance(error, RpcError)
        assert error.code == -32700
        assert side.transport.sent == []


async def test_what_cannot_be_sent_any_more_is_not_answered() -> None:
    async with taking() as side:
        side.peer.move(Trigger.SEND_EOF)
        side.push(b"[]")
        assert (len(side.errors), side.transport.sent) == (1, [])


async def test_a_peer_that_reads_no_answers_is_read_no_more() -> None:
    async with taking() as side:
        side.transport.stalled = True
        side.push(b"[]")
        assert side.paused()
        await anyio.wait_all_tasks_blocked()
        side.transport.release()
        await anyio.wait_all_tasks_blocked()
        assert not side.paused()


def test_so_it_is_where_nobody_said_which_library_runs() -> None:
    """In a callback under ``asyncio.run`` AnyIO begins no task by itself."""

    async def main() -> None:
        async with taking() as side:
            side.transport.stalled = True
            asyncio.get_running_loop().call_soon(side.push, b"[]")
            await anyio.lowlevel.checkpoint()
            assert side.paused()
            side.transport.release()
            await anyio.wait_all_tasks_blocked()
            assert not side.paused()

    asyncio.run(main())


async def test_unless_we_wait_for_a_reply() -> None:
    async with taking() as side:
        id, _ = side.ask()
        side.transport.stalled = True
        side.push(b"[]")
        assert not side.paused()
        side.push({"jsonrpc": "2.0", "id": id, "result": 1})
        assert side.paused()


async def test_what_is_behind_an_answer_that_closed_is_not_looked_at() -> None:
    async with taking() as side:
        write = side.transport.write

        def breaking(text: bytes) -> None:
            write(text)
            side.intake.output_failed(None)

        side.transport.write = breaking  # type: ignore[method-assign,assignment]
        side.push(b"[]", {"jsonrpc": "2.0", "method": "late"})
        assert (len(side.intake.inbox), side.moves) == (0, [(Trigger.OUTPUT_FAILED, None)])


# ---------------------------------------------------------------------------------------- the ends


@pytest.mark.parametrize(
    ("serving", "error", "trigger"),
    [
        (False, None, Trigger.INPUT_ENDED),
        (True, None, Trigger.INPUT_ENDED_SERVING),
        (False, TransportError("x"), Trigger.INPUT_FAILED),
        (True, TransportError("x"), Trigger.INPUT_FAILED),
    ],
)
async def test_the_end_of_the_input(serving: bool, error: TransportError | None, trigger: Trigger) -> None:
    async with taking() as side:
        side.intake.dispatcher = object() if serving else None  # type: ignore[assignment]
        side.peer.move(Trigger.CLOSE)
        side.intake.input_ended(error)
        assert side.moves == [(trigger, error)]


async def test_the_end_of_the_output() -> None:
    async with taking() as side:
        error = TransportError("x")
        side.intake.output_failed(error)
        assert side.moves == [(Trigger.OUTPUT_FAILED, error)]


async def test_after_closing_nothing_is_looked_at() -> None:
    async with taking() as side:
        side.notify("before")
        side.intake.output_failed(None)
        side.notify("after")
        side.push(b"[]")
        side.intake.message_malformed(MalformedMessageError("binary"))
        assert (side.intake.received, side.intake.malformed, side.errors) == (1, 0, [])
        assert await side.next() == "before"


# ---------------------------------------------------------------------------------------- taking


async def test_messages_are_taken_in_the_order_of_the_wire() -> None:
    async with taking() as side:
        side.push({"jsonrpc": "2.0", "id": 1, "method": "a"}, {"jsonrpc": "2.0", "method": "b", "params": [1]})
        first, second = await side.intake.next(side.loop), await side.intake.next(side.loop)
        assert isinstance(first, Request)
        assert isinstance(second, Notification)
        assert (first.method, first.id, second.method, second.params) == ("a", 1, "b", [1])


async def test_each_message_wakes_one_of_those_that_wait() -> None:
    async with taking() as side:
        taken: list[str] = []

        async def take() -> None:
            taken.append(await side.next())

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            assert side.intake.has_takers
            side.notify("a", "b")
            assert side.intake.has_takers
            await anyio.wait_all_tasks_blocked()
            assert taken == ["a", "b"]
            assert side.intake.has_takers
            side.notify("c")
        assert taken == ["a", "b", "c"]
        assert not side.intake.has_takers


async def test_who_comes_while_another_was_woken_waits_for_the_next_message() -> None:
    async with taking() as side:
        taken: list[str] = []

        async def take_and_go_on() -> None:
            taken.append(f"woken:{await side.next()}")
            side.notify("b")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_and_go_on)
            await anyio.wait_all_tasks_blocked()
            side.notify("a")
            # The message is there, and the other task did not run yet.
            assert len(side.intake.inbox) == 1
            taken.append(f"late:{await side.next()}")
        assert taken == ["woken:a", "late:b"]


async def test_cancelling_who_waits_loses_nothing() -> None:
    async with taking() as side:
        with anyio.move_on_after(0):
            await side.next()
        assert not side.intake.has_takers
        side.notify("a")
        assert await side.next() == "a"


async def test_cancelled_and_then_a_message_in_one_turn() -> None:
    """The message is the next one's, who waits already."""
    async with taking() as side:
        taken: list[str] = []
        scope = anyio.CancelScope()

        async def take(name: str) -> None:
            taken.append(f"{name}:{await side.next()}")

        async def cancelled() -> None:
            with scope:
                await take("cancelled")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancelled)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(take, "other")
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            side.notify("a")
        assert taken == ["other:a"]
        assert not side.intake.has_takers


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})], ids=["asyncio"])
@pytest.mark.parametrize("waiting", [True, False])
async def test_a_message_and_then_cancelled_in_one_turn(waiting: bool) -> None:
    """Only ``Task.cancel`` strikes a task that was woken already. The message is the next one's."""
    async with taking() as side:
        taken: list[str] = []

        async def take() -> None:
            taken.append(await side.next())

        struck = asyncio.create_task(take())
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            if waiting:
                tasks.start_soon(take)
                await anyio.wait_all_tasks_blocked()
            side.notify("a")
            struck.cancel()
            if not waiting:
                tasks.start_soon(take)
        assert taken == ["a"]
        assert struck.cancelled()
        assert not side.intake.has_takers


async def test_closing_wakes_all_and_those_that_get_nothing_learn_why() -> None:
    async with taking() as side:
        error = TransportError("gone")
        outcomes: list[str] = []

        async def take() -> None:
            try:
                outcomes.append(await side.next())
            except ConnectionClosedError as exc:
                assert (exc.outcome, exc.reason) == (None, error)
                outcomes.append("closed")

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            side.notify("a")
            side.intake.input_ended(error)
        assert sorted(outcomes) == ["a", "closed", "closed"]
        with pytest.raises(ConnectionClosedError):
            await side.next()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})], ids=["asyncio"])
async def test_closed_and_cancelled_in_one_turn() -> None:
    async with taking() as side:
        struck = asyncio.create_task(side.next())
        await anyio.wait_all_tasks_blocked()
        side.intake.output_failed(None)
        struck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await struck
        assert not side.intake.has_takers


async def test_cancelled_and_then_closed_in_one_turn() -> None:
    async with taking() as side:
        scope = anyio.CancelScope()

        async def take() -> None:
            with scope:
                await side.next()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            side.intake.output_failed(None)
        assert scope.cancelled_caught
        assert not side.intake.has_takers


async def test_who_takes_without_end_gives_others_their_turn() -> None:
    count = 4 * TURN
    async with taking(InboxLimits()) as side:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()

        side.notify(*["m"] * count)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            for _ in range(count):
                await side.next()
            tasks.cancel_scope.cancel()
        assert turns >= 2


# ---------------------------------------------------------------------------------------- observers


async def test_message_observers_see_each_before_it_is_queued() -> None:
    async with taking() as side:
        seen: list[tuple[str, int]] = []
        side.observers.message.append(lambda message: seen.append((message.method, len(side.intake.inbox))))

        def failing(message: object) -> None:
            raise KeyError("observer")

        side.observers.message.append(failing)
        side.notify("a", "b")
        side.push({"jsonrpc": "2.0", "id": 9, "result": "nobody sees it"})
        assert seen == [("a", 0), ("b", 1)]
        assert [type(error) for error in side.errors] == [KeyError, KeyError]
        assert [await side.next(), await side.next()] == ["a", "b"]


# ---------------------------------------------------------------------------------------- serving


class FakeDispatcher:
    """Handles ``inline`` and ``acting`` at once, and counts what else it is told."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.log: list[str] = []
        self.inline: dict[str, Handler] = dict.fromkeys(["inline", "later", "acting"], lambda message: None)

    def wake(self) -> None:
        self.log.append("wake")

    def cancel_taken_back(self) -> None:
        self.log.append("cancel")

    def handle_inline(self, handler: Handler, message: Request | Notification) -> bool:
        assert handler is self.inline[message.method]
        self.log.append(message.method)
        if message.method == "acting":
            self.act()
        return message.method in ("inline", "acting")


async def test_a_dispatcher_is_asked_first_and_woken_for_the_rest() -> None:
    async with taking() as side:
        side.intake.dispatcher = dispatcher = FakeDispatcher(list)  # type: ignore[assignment]
        side.notify("inline")
        assert dispatcher.log == ["inline"]
        side.notify("a", "later", "inline", "notifications/cancelled")
        assert dispatcher.log[1:] == ["later", "inline", "cancel", "wake"]
        assert len(side.intake.inbox) == 3


async def test_what_is_behind_a_message_that_closed_is_not_looked_at() -> None:
    async with taking() as side:
        dispatcher = FakeDispatcher(lambda: side.intake.output_failed(None))
        side.intake.dispatcher = dispatcher  # type: ignore[assignment]
        side.notify("acting", "late")
        assert dispatcher.log == ["acting"]
        assert len(side.intake.inbox) == 0


# ---------------------------------------------------------------------------------------- the fast ways in


def told(method: str, **members: Any) -> bytes:
    return encode_value({"jsonrpc": "2.0", "method": method} | members)


TEXTS = [
    *(encode_value({"jsonrpc": "2.0", "id": id, "result": [id]}) for id in (1, 2, 3, 9, "1")),
    *(encode_value({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "m"}}) for id in (2, 3, 9, None)),
    *(told(method) for method in ("a", "inline", "later", "notifications/cancelled", "acting")),
    *(told(method, id=id) for method in ("a", "inline", "acting") for id in (1, 2)),
    told("notifications/cancelled", params={"requestId": 1}),
    b"banner",
    encode_value({"jsonrpc": "2.0", "id": 5, "method": 7}),
]


class Way:
    """A way in, and all that can be seen after texts came through it."""

    def __init__(self, act: str, *, fast: bool, serving: bool, observing: bool, discarding: bool = False) -> None:
        self.fast = fast
        side = self.side = In(FakeLoop(self._act), LIMITS, discarding)
        self.waiters = [cast(FakeWaiter, side.ask()[1]) for _ in range(3)]
        self.seen: list[Any] = []
        self.dispatcher = FakeDispatcher(self._act)
        self._acts = [ACTS[act]]
        if serving:
            side.intake.dispatcher = self.dispatcher  # type: ignore[assignment]
        if observing:
            side.observers.message += [self.seen.append, lambda message: self._act()]

    def _act(self) -> None:
        if self._acts:
            self._acts.pop()(self)

    def take(self, texts: list[bytes]) -> None:
        """One read. Not fast: text after text, without ``messages_received``."""
        intake, peer = self.side.intake, self.side.peer
        if self.fast:
            intake.messages_received(texts)
        elif peer.state is not PeerState.CLOSED:
            intake.received += len(texts)
            for text in texts:
                intake._take_in(peer.receive(text), len(text))
                if intake._closed:
                    return
            intake.wake()
            intake.balance()

    def outcome(self) -> list[Any]:
        side, intake = self.side, self.side.intake
        return [
            [waiter.outcome for waiter in self.waiters],
            self.dispatcher.log,
            self.seen,
            list(intake.inbox),
            intake.inbox.bytes,
            (intake.received, intake.stray, intake.malformed, intake.discarded, intake.paused),
            side.transport.sent,
            [(trigger, type(error)) for trigger, error in side.moves],
            list(map(str, side.errors)),
            list(side.peer.pending),
            side.peer.unanswered,
        ]


#: What the first who is told of something does about it, be it who waits for an answer, an observer or a handler.
ACTS: dict[str, Callable[[Way], object]] = {
    "nothing": lambda way: None,
    "closes": lambda way: way.side.intake.output_failed(None),
    "observes": lambda way: way.side.observers.message.append(way.seen.append),
    "observes no more": lambda way: way.side.observers.message.clear(),
    "serves": lambda way: setattr(way.side.intake, "dispatcher", way.dispatcher),
    "serves no more": lambda way: setattr(way.side.intake, "dispatcher", None),
    "asks": lambda way: way.side.ask(),
    "answers": lambda way: way.take([told("inline"), told("a", id=7), *TEXTS[:3], told("a")]),
}


class FakeWaiter:
    """Says what was set, and calls ``tell`` as it is."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self.tell = tell
        self.outcome: Any = None

    def done(self) -> bool:
        return self.outcome is not None

    def set_result(self, result: Any, /) -> None:
        assert self.outcome is None
        self.outcome = ("result", bytes(result) if isinstance(result, Raw) else result)
        self.tell()

    def set_exception(self, exception: BaseException, /) -> None:
        assert self.outcome is None
        self.outcome = ("error", str(exception))

    def __await__(self) -> Any:
        raise AssertionError


class FakeLoop(EventLoop):
    """A loop in which nothing waits."""

    def __init__(self, tell: Callable[[], object]) -> None:
        super().__init__(cast(TaskGroup, None))
        self.tell = tell

    def waiter(self) -> Waiter:
        return FakeWaiter(self.tell)

    def time(self) -> float:
        raise AssertionError

    def call_soon(self, callback: Callable[[], object]) -> None:
        raise AssertionError

    def call_at(self, when: float, callback: Callable[[], object]) -> TimerHandle:
        raise AssertionError

    def cancel_guard(self) -> CancelGuard:
        raise AssertionError


@given(
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=20),
    st.sampled_from(sorted(ACTS)),
    st.fixed_dictionaries(dict.fromkeys(("serving", "observing", "discarding"), st.booleans())),
    st.booleans(),
)
@example([TEXTS[0], told("inline"), told("a")], "serves", {"serving": False, "observing": False}, False)
@example([told("acting"), told("inline"), told("a")], "serves no more", {"serving": True, "observing": False}, False)
@example([told("acting"), told("a"), told("b")], "observes", {"serving": True, "observing": False}, False)
@example([TEXTS[0], told("a")], "closes", {"serving": False, "observing": False}, False)
@example([told("a"), told("acting"), told("a")], "closes", {"serving": True, "observing": False}, False)
@example([TEXTS[2]], "nothing", {"serving": False, "observing": False}, True)
def test_they_do_what_the_slow_way_does(texts: list[bytes], act: str, how: dict[str, bool], gone: bool) -> None:
    outcomes = []
    for fast in (True, False):
        way = Way(act, fast=fast, **how)
        if gone:
            way.waiters[2].outcome = "gone"
        way.take(texts)
        way.take(texts[:1])
        outcomes.append(way.outcome())
    assert outcomes[0] == outcomes[1]


def test_what_comes_most_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Intake, "_take_in", None)
    way = Way("nothing", fast=True, serving=True, observing=False)
    way.take([TEXTS[0], told("a"), told("inline")])
    assert way.waiters[0].outcome == ("result", b"[1]")
    assert (way.dispatcher.log, len(way.side.intake.inbox)) == (["inline", "wake"], 1)


# ---------------------------------------------------------------------------------------- flow


async def test_reading_stops_at_the_high_water_mark_and_goes_on_at_half_of_it() -> None:
    async with taking() as side:
        side.notify("1", "2", "3")
        assert not side.paused()
        side.notify("4", "5")
        assert side.paused()
        for expected in (True, True, False, False):
            await side.next()
            assert side.paused() is expected


async def test_so_does_it_by_bytes() -> None:
    async with taking(InboxLimits(100, 1000, 200, 20_000)) as side:
        side.push({"jsonrpc": "2.0", "method": "big", "params": ["x" * 1000]})
        assert side.paused()
        await side.next()
        assert not side.paused()


async def test_while_a_reply_is_awaited_reading_goes_on() -> None:
    async with taking() as side:
        id, _ = side.ask()
        side.notify("1", "2", "3", "4", "5")
        assert not side.paused()
        side.push({"jsonrpc": "2.0", "id": id, "result": 1})
        assert side.paused()
        side.intake.resume()
        assert not side.paused()


async def test_past_the_hard_limit_the_connection_closes() -> None:
    async with taking() as side:
        side.ask()
        side.notify("a", *["flood"] * 7)
        assert side.moves == []
        side.notify("one too many", "never looked at")
        ((trigger, error),) = side.moves
        assert trigger is Trigger.INPUT_FAILED
        assert isinstance(error, QueueOverflowError)
        assert (error.messages, error.method) == (8, "flood")
        assert [await side.next() for _ in range(8)] == ["a", *["flood"] * 7]
        with pytest.raises(ConnectionClosedError) as caught:
            await side.next()
        assert caught.value.reason is error


async def test_or_notifications_are_dropped_and_counted() -> None:
    async with taking(discard_unread=True) as side:
        side.ask()
        side.notify(*["flood"] * 11)
        assert (side.intake.discarded, side.moves) == (3, [])
        side.push({"jsonrpc": "2.0", "id": 1, "method": "a request is never dropped"})
        assert [trigger for trigger, _ in side.moves] == [Trigger.INPUT_FAILED]


async def test_a_closed_connection_is_neither_paused_nor_resumed() -> None:
    async with taking() as side:
        side.notify("1", "2", "3", "4")
        assert side.paused()
        side.intake.output_failed(None)
        for _ in range(4):
            await side.next()
        side.intake.resume()
        assert side.transport.paused
    async with taking() as side:
        id, _ = side.ask()
        side.notify("1", "2", "3", "4")
        side.intake.output_failed(None)
        side.peer.forget(id, "")
        side.intake.balance()
        assert not side.paused()
