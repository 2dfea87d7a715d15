"""Closing: once, on the first cause; effects before reports; the error once, then the close."""

from __future__ import annotations

import asyncio
import gc
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcpl_core.connection import McplConnection
from mcpl_core.errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    LocalProtocolError,
    MalformedMessageError,
    Outcome,
    QueueOverflowError,
    TransportError,
)
from mcpl_core.inbox import InboxLimits
from mcpl_core.transports.base import Sink
from mcpl_core.transports.loop import EventLoop
from mcpl_core.transports.memory import ScriptedTransport
from mcpl_core.wire.messages import Request
from mcpl_core.wire.values import encode_value

pytestmark = pytest.mark.anyio

REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "queued"}
LATE = encode_value({"jsonrpc": "2.0", "method": "late"})


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine that does not wait for anything returns, from code that cannot await."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise AssertionError("it waits")


class Watched:
    """A connection over a script, and the log of its reports, each with what could be seen from inside it."""

    def __init__(self, **options: Any) -> None:
        self.transport = ScriptedTransport()
        self.connection = McplConnection(self.transport, **options)
        self.log: list[Any] = []
        self.outcomes: list[Outcome | None] = []

    def watch(self) -> None:
        self.connection.on_error(self._error)
        self.connection.on_close(self._close)

    def _error(self, error: BaseException) -> None:
        if not isinstance(error, MalformedMessageError):
            self.log.append(error)
            self._look()

    def _close(self) -> None:
        self.log.append("close")
        self._look()

    def _look(self) -> None:
        """By the time anything is reported: nothing more is sent or read, and nobody waits any more."""
        connection, transport = self.connection, self.transport
        assert connection.is_closed
        assert transport.paused
        assert connection.stats.pending == 0
        before = (len(transport.sent), connection.stats)
        at_once(connection.send_notification("late"))
        at_once(connection.send_response(1, "late"))
        at_once(connection.send_response("never asked", "late"))
        at_once(connection.send_error(1, 1, "late"))
        with pytest.raises(ConnectionClosedError) as caught:
            at_once(connection.send_request("late"))
        assert caught.value.outcome == "not-sent"
        assert caught.value.reason is connection.close_reason
        connection._intake.messages_received([LATE])
        connection._intake.message_malformed(MalformedMessageError("binary"))
        assert (len(transport.sent), connection.stats) == before

    async def request(self) -> None:
        with pytest.raises(ConnectionClosedError) as caught:
            await self.connection.send_request("pending", timeout=None)
        self.outcomes.append(caught.value.outcome)
        assert caught.value.reason is self.connection.close_reason


@asynccontextmanager
async def watched(**options: Any) -> AsyncIterator[Watched]:
    side = Watched(**options)
    with anyio.fail_after(5):
        async with side.connection:
            side.watch()
            await turns()
            yield side


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await checkpoint()


RESET = TransportError("reset")
BROKEN = TransportError("broken pipe")


async def _ended(side: Watched) -> None:
    side.transport.end()


async def _reset(side: Watched) -> None:
    side.transport.end(RESET)


async def _output_gone(side: Watched) -> None:
    side.transport.fail_output()


async def _output_broken(side: Watched) -> None:
    side.transport.fail_output(BROKEN)


async def _closed(side: Watched) -> None:
    await side.connection.aclose()


#: What closes a connection, and the error that is reported for it.
CAUSES: dict[str, tuple[Callable[[Watched], Awaitable[None]], TransportError | None]] = {
    "the input ended": (_ended, None),
    "the input failed": (_reset, RESET),
    "the output is gone": (_output_gone, None),
    "the output failed": (_output_broken, BROKEN),
    "we closed": (_closed, None),
}


@pytest.mark.parametrize("cause", CAUSES)
async def test_each_cause(cause: str) -> None:
    act, error = CAUSES[cause]
    async with watched() as side:
        connection = side.connection
        assert not connection.is_closed
        assert connection.close_reason is None
        side.transport.feed(REQUEST, {"jsonrpc": "2.0", "method": "queued, too"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(side.request)
            tasks.start_soon(side.request)
            await turns()
            assert side.log == []
            await act(side)
        assert side.log == ([] if error is None else [error]) + ["close"]
        assert side.outcomes == ["no-response", "no-response"]
        assert connection.close_reason is error
        # What came before is still there, and cannot be answered.
        first, second = await connection.next_message(), await connection.next_message()
        assert isinstance(first, Request)
        assert (first.method, second.method) == ("queued", "queued, too")
        await connection.send_response(first.id, "late")
        with pytest.raises(ConnectionClosedError) as caught:
            await connection.next_message()
        assert (caught.value.outcome, caught.value.reason) == (None, error)
        assert len(side.transport.sent) == 2
    assert side.log == ([] if error is None else [error]) + ["close"]
    assert side.transport.closed == 1


@pytest.mark.parametrize("second", CAUSES)
@pytest.mark.parametrize("first", CAUSES)
async def test_the_first_cause_counts_and_what_comes_later_is_silent(first: str, second: str) -> None:
    act, error = CAUSES[first]
    async with watched() as side:
        await act(side)
        expected = ([] if error is None else [error]) + ["close"]
        assert side.log == expected
        await CAUSES[second][0](side)
        # Also what the transport finds out without having been asked.
        side.connection._intake.input_ended(TransportError("late"))
        side.connection._intake.output_failed(TransportError("late"))
        await turns()
        assert side.log == expected
        assert side.connection.close_reason is error


async def test_too_much_unread_closes() -> None:
    async with watched(limits=InboxLimits(1, 10_000, 2, 20_000)) as side:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(side.request)
            await turns()
            side.transport.feed(*({"jsonrpc": "2.0", "method": "flood"} for _ in range(3)))
        error, close = side.log
        assert isinstance(error, QueueOverflowError)
        assert (close, error.messages, error.method) == ("close", 2, "flood")
        assert side.connection.close_reason is error
        assert side.outcomes == ["no-response"]
        assert [message.method async for message in side.connection] == ["flood", "flood"]


async def test_a_peer_that_never_reads_our_answers_closes() -> None:
    async with watched(limits=InboxLimits(10, 10_000, 20, 300)) as side:
        side.transport.stalled = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(side.request)
            await turns()
            side.transport.feed(*[b"[]"] * 10)
        error, close = side.log
        assert isinstance(error, TransportError)
        assert (close, side.connection.close_reason, side.outcomes) == ("close", error, ["no-response"])


async def test_tasks_that_wait_learn_of_it_whatever_they_wait_for() -> None:
    for act, _ in CAUSES.values():
        async with watched() as side:
            log: list[str] = []

            async def pull(side: Watched = side, log: list[str] = log) -> None:
                with pytest.raises(ConnectionClosedError) as caught:
                    await side.connection.next_message()
                assert caught.value.outcome is None
                log.append("pull")

            async def iterate(side: Watched = side, log: list[str] = log) -> None:
                async for _ in side.connection:
                    pytest.fail("nothing came")
                log.append("iterate")

            async def send(side: Watched = side, log: list[str] = log) -> None:
                await side.connection.send_notification("n")
                log.append("send")

            side.transport.stalled = True
            async with anyio.create_task_group() as tasks:
                for task in (pull, iterate, send, send, side.request):
                    tasks.start_soon(task)
                await turns()
                assert log == []
                await act(side)
            assert sorted(log) == ["iterate", "pull", "send", "send"]


async def test_an_output_that_fails_while_the_input_still_has_data() -> None:
    """What was taken from the wire can be read; what was not is not read any more."""
    async with watched(limits=InboxLimits(2, 10_000, 10, 20_000)) as side:
        for number in range(5):
            side.transport.feed({"jsonrpc": "2.0", "method": "n", "params": [number]})
        side.transport.fail_output(BROKEN)
        assert side.log == [BROKEN, "close"]
        assert [message.params[0] async for message in side.connection] == [0, 1]
        await turns()
        assert side.connection.stats.received == 2


# ---------------------------------------------------------------------------------------- half-close


async def test_output_that_ends_on_purpose_leaves_the_input() -> None:
    async with watched() as side:
        connection = side.connection
        side.transport.feed(REQUEST)
        results: list[Any] = []

        async def request() -> None:
            results.append(await connection.send_request("before"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await turns()
            assert connection.can_ask
            await connection.send_eof()
            await connection.send_eof()
            assert (side.transport.eof_sent, connection.is_closed, connection.can_ask) == (1, False, False)
            # Nothing is sent any more, and the answer to what was sent still comes.
            await connection.send_notification("late")
            await connection.send_response(1, "late")
            with pytest.raises(ConnectionClosedError) as caught:
                await connection.send_request("late")
            assert caught.value.outcome == "not-sent"
            side.transport.feed({"jsonrpc": "2.0", "id": 1, "result": "answer"}, {"jsonrpc": "2.0", "method": "more"})
        assert results == ["answer"]
        assert [(await connection.next_message()).method for _ in range(2)] == ["queued", "more"]
        assert (len(side.transport.sent), side.log) == (1, [])
        side.transport.end()
        assert side.log == ["close"]
    assert side.transport.closed == 1


@pytest.mark.parametrize("error", [None, RESET], ids=["ended", "failed"])
async def test_after_a_half_close_the_end_of_the_input_closes(error: TransportError | None) -> None:
    async with watched() as side:
        await side.connection.send_eof()
        side.transport.fail_output(BROKEN)
        assert side.log == []
        side.transport.end(error)
        assert side.log == ([] if error is None else [error]) + ["close"]


async def test_a_timeout_after_a_half_close_sends_nothing() -> None:
    async with watched() as side:
        async with anyio.create_task_group() as tasks:
            with pytest.raises(ConnectionTimeoutError):
                await side.connection.send_request(
                    "m", timeout=0.2, on_sent=lambda id: tasks.start_soon(side.connection.send_eof)
                )
        assert len(side.transport.sent) == 1


async def test_a_half_close_while_the_input_has_ended_already_closes() -> None:
    async with watched() as side, anyio.create_task_group() as tasks:
        started = anyio.Event()

        async def handler(message: Request) -> None:
            started.set()
            await anyio.sleep_forever()

        tasks.start_soon(side.connection.serve, {"queued": handler})
        await turns()
        side.transport.feed(REQUEST)
        await started.wait()
        side.transport.end()
        assert not side.connection.is_closed
        await side.connection.send_eof()
        assert side.log == ["close"]
        assert side.transport.eof_sent == 0


async def test_half_close_and_close_of_what_was_never_entered() -> None:
    connection = McplConnection(transport := ScriptedTransport())
    log: list[str] = []
    connection.on_close(lambda: log.append("close"))
    with pytest.raises(LocalProtocolError):
        await connection.send_eof()
    await connection.aclose()
    await connection.aclose()
    assert (log, connection.is_closed, transport.eof_sent) == (["close"], True, 0)
    assert transport.closed >= 1
    with pytest.raises(LocalProtocolError):
        await connection.__aenter__()


# ---------------------------------------------------------------------------------------- born closed


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (lambda transport: transport.end(), ["close"]),
        (lambda transport: transport.end(RESET), [RESET, "close"]),
        (lambda transport: transport.fail_output(), ["close"]),
        (lambda transport: transport.fail_output(BROKEN), [BROKEN, "close"]),
    ],
)
async def test_born_closed(script: Callable[[ScriptedTransport], None], expected: list[Any]) -> None:
    side = Watched()
    side.transport.feed(REQUEST)
    script(side.transport)
    with anyio.fail_after(5):
        async with side.connection:
            side.watch()
            assert side.log == []
            await turns()
            assert side.log == expected
            assert (await side.connection.next_message()).method == "queued"
            with pytest.raises(ConnectionClosedError):
                await side.connection.next_message()


async def test_a_request_on_a_connection_that_is_born_closed() -> None:
    side = Watched()
    side.transport.end(RESET)
    with anyio.fail_after(5):
        async with side.connection:
            side.watch()
            with pytest.raises(ConnectionClosedError) as caught:
                await side.connection.send_request("m")
            assert (caught.value.outcome, caught.value.reason) == ("no-response", RESET)


class Refused(ScriptedTransport):
    """There is nobody to talk to."""

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        await checkpoint()
        raise RESET


async def test_a_transport_that_does_not_start() -> None:
    connection = McplConnection(Refused())
    log: list[Any] = []
    connection.on_error(log.append)
    connection.on_close(lambda: log.append("close"))
    with pytest.raises(TransportError) as caught:
        async with connection:
            raise AssertionError
    assert caught.value is RESET
    # The caller has got the error; there was no connection to be closed.
    assert (log, connection.is_closed) == ([], True)
    with pytest.raises(LocalProtocolError):
        await connection.send_notification("m")
    with pytest.raises(LocalProtocolError):
        await connection.__aenter__()
    await connection.aclose()


async def test_cancelled_while_it_starts() -> None:
    class Slow(ScriptedTransport):
        async def start(self, sink: Sink, loop: EventLoop) -> None:
            await anyio.sleep_forever()

    connection = McplConnection(Slow())
    with anyio.move_on_after(0) as scope:
        async with connection:
            raise AssertionError
    assert scope.cancelled_caught
    assert connection.is_closed


async def test_closed_by_another_task_while_it_starts() -> None:
    class Slow(ScriptedTransport):
        async def start(self, sink: Sink, loop: EventLoop) -> None:
            await turns(3)
            await super().start(sink, loop)

    connection = McplConnection(transport := Slow())
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.aclose)
            async with connection:
                assert connection.is_closed
                with pytest.raises(ConnectionClosedError):
                    await connection.next_message()
    assert transport.closed == 1


# ---------------------------------------------------------------------------------------- aclose


async def test_closing_twice() -> None:
    async with watched() as side:
        await side.connection.aclose()
        await side.connection.aclose()
        assert (side.log, side.transport.closed) == (["close"], 1)
    await side.connection.aclose()
    assert (side.log, side.transport.closed) == (["close"], 1)


async def test_closing_from_other_tasks_at_once() -> None:
    async with watched() as side:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(side.connection.aclose)
        assert (side.log, side.transport.closed) == (["close"], 1)


async def test_each_call_returns_when_it_is_done() -> None:
    async with watched() as side:
        let_go = anyio.Event()
        returned: list[int] = []
        aclose = side.transport.aclose

        async def slow() -> None:
            await let_go.wait()
            await aclose()

        side.transport.aclose = slow  # type: ignore[method-assign]

        async def close() -> None:
            await side.connection.aclose()
            returned.append(side.transport.closed)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close)
            tasks.start_soon(close)
            await turns()
            assert side.connection.is_closed
            assert (side.log, returned) == (["close"], [])
            let_go.set()
        assert returned == [1, 1]


async def test_closing_after_the_peer_closed_releases_the_output() -> None:
    async with watched() as side:
        side.transport.end()
        assert (side.log, side.transport.closed) == (["close"], 0)
        await side.connection.aclose()
        assert (side.log, side.transport.closed) == (["close"], 1)


async def test_a_close_observer_that_fails_keeps_nothing_from_being_released() -> None:
    async with watched() as side:

        def failing() -> None:
            raise KeyError("observer")

        side.connection.on_close(failing)
        side.connection.on_close(lambda: side.log.append("told, too"))
        await side.connection.aclose()
        close, error, told = side.log
        assert (close, type(error), told) == ("close", KeyError, "told, too")
        assert side.transport.closed == 1


async def test_an_error_observer_that_fails_does_not_keep_the_close_from_being_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with watched() as side:

        def failing(error: BaseException) -> None:
            raise KeyError("observer")

        side.connection.on_error(failing)
        side.transport.end(RESET)
        assert side.log == [RESET, "close"]
        assert len(caplog.records) == 1


async def test_without_an_observer_the_error_that_closed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with McplConnection(transport := ScriptedTransport()):
        await turns()
        transport.end(RESET)
    (record,) = caplog.records
    assert record.args == ("script", RESET)


class Slow(ScriptedTransport):
    """Takes its time to close, unless it is cancelled."""

    given_up = 0

    async def aclose(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.given_up += 1
            self.closed += 1


async def test_cancelling_the_wait_leaves_the_closing_under_way() -> None:
    transport = Slow()
    with anyio.fail_after(5):
        with anyio.CancelScope() as outer:
            async with McplConnection(transport) as connection:
                with anyio.move_on_after(0):
                    await connection.aclose()
                await turns()
                assert (connection.is_closed, transport.given_up) == (True, 0)
                outer.cancel()
        assert transport.given_up == 1


async def test_leaving_the_block_by_cancellation_gives_up_what_was_not_flushed() -> None:
    transport = Slow()
    log: list[str] = []
    with anyio.fail_after(5):
        with anyio.CancelScope() as scope:
            async with McplConnection(transport) as connection:
                connection.on_close(lambda: log.append("close"))
                scope.cancel()
                await checkpoint()
        assert scope.cancelled_caught
    assert (transport.given_up, transport.closed, log) == (1, 1, ["close"])


async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError) as caught:
        async with watched() as side:
            raise KeyError("the application's")
    assert caught.value.__context__ is None
    assert (side.log, side.transport.closed) == (["close"], 1)


async def test_a_peer_that_closes_does_not_cancel_the_block() -> None:
    async with watched() as side:
        side.transport.end(RESET)
        await turns()
        reached = True
    assert reached


async def test_a_transport_whose_task_fails_ends_the_block() -> None:
    """A bug of a transport is not swallowed; an ``ExceptionGroup`` is for such."""

    class Buggy(ScriptedTransport):
        async def start(self, sink: Sink, loop: EventLoop) -> None:
            await super().start(sink, loop)
            loop.tasks.start_soon(self._fail)

        async def _fail(self) -> None:
            raise KeyError("bug")

    with pytest.raises(BaseExceptionGroup) as caught, anyio.fail_after(5):
        async with McplConnection(transport := Buggy()):
            await anyio.sleep_forever()
    assert caught.group_contains(KeyError, depth=1)
    assert transport.closed == 1


async def test_leaving_the_block_without_closing_closes() -> None:
    async with watched() as side:
        pass
    assert (side.log, side.connection.close_reason, side.transport.closed) == (["close"], None, 1)


async def test_a_connection_is_entered_once() -> None:
    async with watched() as side:
        with pytest.raises(LocalProtocolError):
            await side.connection.__aenter__()
    with pytest.raises(LocalProtocolError):
        await side.connection.__aenter__()


async def test_observers_can_be_taken_away() -> None:
    async with watched() as side:
        removed: list[Any] = []
        for remove in (
            side.connection.on_error(removed.append),
            side.connection.on_close(lambda: removed.append("close")),
            side.connection.on_message(removed.append),
        ):
            remove()
            remove()
        side.transport.feed(REQUEST)
        side.transport.end(RESET)
        assert (removed, side.log) == ([], [RESET, "close"])


# ---------------------------------------------------------------------------------------- nothing is left


async def test_opened_and_closed_in_any_order_by_other_tasks() -> None:
    """A, B opened; A, B closed from elsewhere; 1,000 times: no warning, no task, no ``ExceptionGroup``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(1000):
            one, two = McplConnection.memory_pair()
            three, four = McplConnection.memory_pair()
            opened = anyio.Event()

            async def hold(first: McplConnection, second: McplConnection, opened: anyio.Event = opened) -> None:
                async with first, second:
                    opened.set()
                    async for _ in first:
                        pytest.fail("nothing was sent")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hold, one, three)
                tasks.start_soon(hold, two, four)
                await opened.wait()
                order = [one, two, three, four]
                for connection in order[number % 4 :] + order[: number % 4]:
                    tasks.start_soon(connection.aclose)
            assert all(connection.is_closed for connection in order)
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


async def test_closed_connections_are_collected() -> None:
    """Nothing outside keeps one: no timer, no callback, no task."""
    references = []

    async def use(request: bool) -> None:
        left, right = McplConnection.memory_pair()
        references.extend([weakref.ref(left), weakref.ref(right)])
        async with left, right, anyio.create_task_group() as tasks:
            tasks.start_soon(right.serve, {"m": lambda message: 1})
            await left.send_request("m")
            if request:
                with pytest.raises(ConnectionClosedError):
                    tasks.start_soon(right.aclose)
                    await left.send_request("never answered")
            await left.aclose()

    await use(False)
    await use(True)
    await turns()
    gc.collect()
    assert [reference() for reference in references] == [None] * 4


async def test_a_closed_connection_has_no_timer() -> None:
    async with watched() as side:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(side.request)
            await turns()
            await side.connection.aclose()
        assert side.connection._deadlines is not None
        assert side.connection._deadlines._timer is None


@pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})],
    ids=["asyncio", "uvloop"],
)
class TestAsyncio:
    """Native cancellation, and what asyncio says behind our backs."""

    async def test_a_native_timeout_around_a_connection(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001), McplConnection(ScriptedTransport()) as connection:
                    await connection.next_message()
            assert task.cancelling() == 0
        await asyncio.sleep(0)

    async def test_a_native_cancellation_of_the_block(self) -> None:
        transport = ScriptedTransport()

        async def hold() -> None:
            async with McplConnection(transport) as connection:
                await connection.send_request("m")

        task = asyncio.create_task(hold())
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transport.closed == 1

    async def test_wait_for(self) -> None:
        async with watched() as side:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(side.connection.next_message(), 0.001)
            side.transport.feed(REQUEST)
            assert (await asyncio.wait_for(side.connection.next_message(), 1)).method == "queued"

    async def test_asyncio_has_nothing_to_complain_about(self) -> None:
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        async with watched() as side:
            # Rejected, and cancelled in the same turn: nobody looks at the rejection.
            tasks = [asyncio.create_task(side.connection.send_request("m")) for _ in range(5)]
            await turns()
            side.transport.end(RESET)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        del tasks, task
        gc.collect()
        await turns()
        assert complaints == []


async def test_nothing_can_be_asked_before_entering() -> None:
    near, _ = McplConnection.memory_pair()
    assert not near.can_ask
