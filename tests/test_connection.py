"""Requests, answers, notifications and the pull side of a connection. Closing has a file of its own, so has flow."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint

from mcpl_core.connection import McplConnection
from mcpl_core.errors import (
    ERROR_CLASSES,
    CapabilityDenied,
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    InvalidValueError,
    LocalProtocolError,
    MalformedMessageError,
    MessageTooLargeError,
    MethodNotFound,
    RpcError,
    TransportError,
    UnencodableError,
)
from mcpl_core.outlet import TURN
from mcpl_core.transports.memory import ScriptedTransport
from mcpl_core.wire.messages import Notification, Request
from mcpl_core.wire.peer import Trigger
from mcpl_core.wire.values import decode_value

pytestmark = pytest.mark.anyio


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await checkpoint()


class Side:
    """A connection and the script of its peer."""

    def __init__(self, connection: McplConnection, transport: ScriptedTransport) -> None:
        self.connection = connection
        self.transport = transport
        self.errors: list[BaseException] = []
        connection.on_error(self.errors.append)

    def sent(self) -> list[Any]:
        return [decode_value(text) for text in self.transport.sent]

    def answer(self, id: int | str, result: Any) -> None:
        self.transport.feed({"jsonrpc": "2.0", "id": id, "result": result})

    def refuse(self, id: int | str, **error: Any) -> None:
        self.transport.feed({"jsonrpc": "2.0", "id": id, "error": error})

    @property
    def pending(self) -> int:
        return self.connection.stats.pending


@asynccontextmanager
async def side_of(**options: Any) -> AsyncIterator[Side]:
    transport = ScriptedTransport()
    with anyio.fail_after(5):
        async with McplConnection(transport, **options) as connection:
            await turns(3)
            yield Side(connection, transport)


@asynccontextmanager
async def pair(**options: Any) -> AsyncIterator[tuple[McplConnection, McplConnection]]:
    left, right = McplConnection.memory_pair(**options)
    with anyio.fail_after(5):
        async with left, right:
            yield left, right


# ---------------------------------------------------------------------------------------- requests


@pytest.mark.spec("4-1", "4.1-1")
async def test_what_a_request_looks_like_and_what_it_returns() -> None:
    async with side_of() as side, anyio.create_task_group() as tasks:
        results: dict[str, Any] = {}

        async def request(method: str, *params: Any) -> None:
            results[method] = await side.connection.send_request(method, *params)

        tasks.start_soon(request, "a")
        assert await side.transport.next_sent() == {"jsonrpc": "2.0", "id": 1, "method": "a"}
        tasks.start_soon(request, "b", {"x": [1, None, "é"]})
        sent = {"jsonrpc": "2.0", "id": 2, "method": "b", "params": {"x": [1, None, "é"]}}
        assert await side.transport.next_sent() == sent
        tasks.start_soon(request, "c", [])
        assert await side.transport.next_sent() == {"jsonrpc": "2.0", "id": 3, "method": "c", "params": []}
        assert side.pending == 3
        side.answer(1, {"deep": [{}, [1.5]]})
        side.answer(2, None)
        side.answer(3, "x")
        await turns()
        assert results == {"a": {"deep": [{}, [1.5]]}, "b": None, "c": "x"}
        assert side.pending == 0


async def test_answers_out_of_order() -> None:
    async with side_of() as side:
        results: dict[int, Any] = {}

        async def request(number: int) -> None:
            results[number] = await side.connection.send_request("m", [number])

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(request, number)
            await turns()
            asked = {message["id"]: message["params"][0] for message in side.sent()}
            side.transport.feed(
                *({"jsonrpc": "2.0", "id": id, "result": asked[id] * 10} for id in sorted(asked, reverse=True))
            )
        assert results == {number: number * 10 for number in range(10)}


async def test_the_same_ids_in_both_directions_do_not_cross() -> None:
    async with pair() as (left, right):
        router = {"m": lambda message: [message.id, message.params]}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(left.serve, router)
            tasks.start_soon(right.serve, router)
            for number in range(1, 4):
                assert await left.send_request("m", ["left"]) == [number, ["left"]]
                assert await right.send_request("m", ["right"]) == [number, ["right"]]
            await left.aclose()


@pytest.mark.spec("R-wire-3", "R-wire-4")
async def test_answers_of_an_id_written_otherwise() -> None:
    """An integral float is its integer; a string is not."""
    async with side_of() as side, anyio.create_task_group() as tasks:
        results: list[Any] = []

        async def request() -> None:
            results.append(await side.connection.send_request("m"))

        tasks.start_soon(request)
        await turns()
        side.answer("1", "not this one")
        await turns()
        assert (results, side.connection.stats.stray) == ([], 1)
        side.transport.feed('{"jsonrpc":"2.0","id":1.0,"result":"this one"}')
        await turns()
        assert results == ["this one"]


async def test_what_arrives_while_a_request_waits_is_queued() -> None:
    async with side_of() as side:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(side.connection.send_request, "m")
            await turns()
            side.transport.feed(
                {"jsonrpc": "2.0", "method": "n"},
                {"jsonrpc": "2.0", "id": 1, "method": "r"},
                {"jsonrpc": "2.0", "id": 1, "result": 1},
            )
        first, second = await side.connection.next_message(), await side.connection.next_message()
        assert isinstance(first, Notification)
        assert isinstance(second, Request)
        assert (first.method, second.method, second.id) == ("n", "r", 1)


# ---------------------------------------------------------------------------------------- errors and results


@pytest.mark.spec("6.6-2")
@pytest.mark.parametrize("code", [*ERROR_CLASSES, 7, -32099])
async def test_an_error_is_of_the_class_of_its_code(code: int) -> None:
    async with side_of() as side, anyio.create_task_group() as tasks:

        async def request() -> None:
            with pytest.raises(RpcError) as caught:
                await side.connection.send_request("m")
            error = caught.value
            assert type(error) is ERROR_CLASSES.get(code, RpcError)
            assert (error.code, error.message, error.data) == (code, "the peer's own words", {"capability": "x"})
            assert str(error) == "the peer's own words"

        tasks.start_soon(request)
        await turns()
        side.refuse(1, code=code, message="the peer's own words", data={"capability": "x"})


async def test_results_are_decoded_as_the_type_that_was_asked_for() -> None:
    class Point(msgspec.Struct):
        x: int
        y: int = 0

    async with side_of() as side, anyio.create_task_group() as tasks:
        results: list[Any] = []

        async def request() -> None:
            results.append(await side.connection.send_request("m", result_type=Point))

        tasks.start_soon(request)
        await turns()
        side.answer(1, {"x": 5, "unknown": True})
        await turns()
        assert results == [Point(5)]


@pytest.mark.parametrize(
    ("result", "type_", "path"),
    [
        ('{"x":"no number"}', dict[str, int], "$[...]"),
        ("null", int, "$"),
        ('{"x":1e999}', None, "$[...]"),
    ],
)
async def test_a_result_of_another_shape(result: str, type_: Any, path: str) -> None:
    async with side_of() as side, anyio.create_task_group() as tasks:

        async def request() -> None:
            with pytest.raises(InvalidResultError) as caught:
                await side.connection.send_request("some/method", result_type=type_)
            assert (caught.value.method, caught.value.path) == ("some/method", path)
            assert caught.value.detail

        tasks.start_soon(request)
        await turns()
        side.transport.feed(f'{{"jsonrpc":"2.0","id":1,"result":{result}}}')
        await turns()
        assert (side.pending, side.connection.is_closed) == (0, False)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"a": float("nan")}, UnencodableError),
        ({"a": object()}, UnencodableError),
        ({"a": "x" * 1000}, MessageTooLargeError),
    ],
    ids=["nan", "object", "large"],
)
async def test_what_cannot_be_sent_leaves_nothing_behind(params: Any, error: type[Exception]) -> None:
    async with side_of(max_message_bytes=500) as side:
        with pytest.raises(error):
            await side.connection.send_request("m", params)
        with pytest.raises(error):
            await side.connection.send_notification("m", params)
        assert (side.transport.sent, side.pending) == ([], 0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(side.connection.send_request, "m")
            # Not even an id was used up.
            assert (await side.transport.next_sent())["id"] == 1
            side.answer(1, None)


# ---------------------------------------------------------------------------------------- timeouts


@pytest.mark.parametrize(
    ("default", "arguments", "expected"),
    [
        (0.01, {}, 0.01),
        (0.064, {}, 0.064),
        (100, {"timeout": 0.01}, 0.01),
        (None, {"timeout": 0.01}, 0.01),
        (100, {"timeout": 0}, 0),
        (100, {"timeout": -5}, -5),
    ],
)
async def test_no_answer_in_time(default: float | None, arguments: dict[str, Any], expected: float) -> None:
    async with side_of(request_timeout=default) as side:
        with pytest.raises(ConnectionTimeoutError) as caught:
            await side.connection.send_request("slow/method", **arguments)
        error = caught.value
        assert isinstance(error, RpcError)
        assert (error.code, error.outcome, error.method, error.timeout) == (
            -32000, "no-response", "slow/method", expected,
        )  # fmt: skip
        assert (error.__cause__, error.__suppress_context__) == (None, True)
        request, notice = side.sent()
        assert request["method"] == "slow/method"
        assert notice["method"] == "notifications/cancelled"
        assert notice["params"]["requestId"] == 1
        assert "id" not in notice
        assert side.pending == 0
        # A late answer is counted, and nothing more.
        side.answer(1, "late")
        assert (side.connection.stats.stray, side.errors, side.connection.stats.queued) == (1, [], 0)


@pytest.mark.parametrize(("default", "arguments"), [(0.001, {"timeout": None}), (None, {}), (0.001, {"timeout": 1e9})])
async def test_all_the_time_it_takes(default: float | None, arguments: dict[str, Any]) -> None:
    async with side_of(request_timeout=default) as side:
        results: list[Any] = []

        async def request() -> None:
            results.append(await side.connection.send_request("m", **arguments))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await turns()
            # Longer than the default takes; another request shows that it does.
            with pytest.raises(ConnectionTimeoutError):
                await side.connection.send_request("other", timeout=0.002)
            assert results == []
            side.answer(1, "at last")
        assert results == ["at last"]


async def test_a_timeout_that_never_comes() -> None:
    async with side_of() as side, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: side.connection.send_request("m", timeout=float("inf")))
        await turns()
        side.answer(1, None)


async def test_a_timeout_that_is_no_number() -> None:
    async with side_of() as side:
        with pytest.raises(InvalidValueError) as caught:
            await side.connection.send_request("m", timeout=float("nan"))
        assert caught.value.code == "timeout"
        assert (side.transport.sent, side.pending) == ([], 0)


async def test_the_usual_timeout_may_be_changed_at_any_time() -> None:
    async with side_of(request_timeout=100) as side, anyio.create_task_group() as tasks:
        tasks.start_soon(side.connection.send_request, "before")
        await turns()
        side.connection.request_timeout = 0.001
        with pytest.raises(ConnectionTimeoutError) as caught:
            await side.connection.send_request("after")
        assert caught.value.timeout == 0.001
        side.connection.request_timeout = None
        tasks.start_soon(side.connection.send_request, "endless")
        await turns()
        side.connection.request_timeout = 0.2
        with pytest.raises(ConnectionTimeoutError):
            await side.connection.send_request("after")
        assert side.pending == 2
        side.answer(1, None)
        side.answer(3, None)


@pytest.mark.parametrize(
    ("timeout", "error"),
    [(float("nan"), InvalidValueError), (10**400, OverflowError), ("5", TypeError)],
    ids=["nan", "huge", "a text"],
)
async def test_and_is_looked_at_before_anything_is_sent(timeout: Any, error: type[Exception]) -> None:
    async with side_of() as side:
        side.connection.request_timeout = timeout
        for arguments in ({}, {"timeout": timeout}):
            with pytest.raises(error):
                await side.connection.send_request("m", **arguments)
        assert (side.transport.sent, side.pending) == ([], 0)


async def test_requests_time_out_each_at_its_own_time() -> None:
    async with side_of() as side:
        order: list[float] = []

        async def request(timeout: float) -> None:
            with pytest.raises(ConnectionTimeoutError):
                await side.connection.send_request("m", timeout=timeout)
            order.append(timeout)

        async with anyio.create_task_group() as tasks:
            for timeout in (0.3, 0.1, 0.2):
                tasks.start_soon(request, timeout)
        assert order == [0.1, 0.2, 0.3]


async def test_a_timeout_may_be_extended_while_it_runs() -> None:
    async with side_of() as side:
        results: list[Any] = []
        ids: list[Any] = []

        def extend(id: Any) -> None:
            ids.append(id)
            side.connection.extend_timeout(id, 100)
            side.connection.extend_timeout("not ours", 100)

        async def request() -> None:
            results.append(await side.connection.send_request("m", timeout=0.02, on_sent=extend))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await turns()
            with pytest.raises(ConnectionTimeoutError):
                await side.connection.send_request("other", timeout=0.03)
            assert results == []
            side.answer(ids[0], "in time")
        assert results == ["in time"]
    McplConnection(ScriptedTransport()).extend_timeout(1, 1)


async def test_an_initialize_that_times_out_is_not_cancelled() -> None:
    async with side_of() as side:
        with pytest.raises(ConnectionTimeoutError):
            await side.connection.send_request("initialize", {}, timeout=0)
        assert [message["method"] for message in side.sent()] == ["initialize"]
        assert side.pending == 0


async def test_answered_requests_leave_no_deadline_behind() -> None:
    async with side_of() as side:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(side.connection.send_request, "first")
            await turns(3)

            async def others() -> None:
                for id in range(2, 2000):
                    side.transport.sent.clear()
                    await side.connection.send_request(
                        "m", timeout=30 + id % 2, on_sent=lambda id: loop.call_soon(lambda: side.answer(id, 0))
                    )

            assert side.connection._loop is not None
            loop = side.connection._loop
            await others()
            assert side.connection._deadlines is not None
            assert len(side.connection._deadlines._heap) < 100
            assert len(side.connection._deadlines._others) < 100
            assert 1 not in side.connection._deadlines._others
            side.answer(1, None)
        assert side.pending == 0


# ---------------------------------------------------------------------------------------- cancelling


async def test_a_request_that_is_cancelled_tells_the_peer_once() -> None:
    async with side_of() as side:
        with anyio.move_on_after(0.001):
            await side.connection.send_request("m")
        request, notice = side.sent()
        assert notice["method"] == "notifications/cancelled"
        assert notice["params"]["requestId"] == request["id"]
        assert side.pending == 0
        side.answer(request["id"], "late")
        assert side.connection.stats.stray == 1
        assert len(side.transport.sent) == 2


async def test_an_initialize_that_is_cancelled_does_not() -> None:
    async with side_of() as side:
        with anyio.move_on_after(0.001):
            await side.connection.send_request("initialize")
        assert [message["method"] for message in side.sent()] == ["initialize"]
        assert side.pending == 0


async def test_cancelled_and_answered_in_one_turn() -> None:
    """Whichever came first: one outcome, and no notice about what was answered."""
    for cancel_first in (True, False):
        async with side_of() as side:
            scope = anyio.CancelScope()
            outcomes: list[str] = []

            async def request(
                side: Side = side, scope: anyio.CancelScope = scope, outcomes: list[str] = outcomes
            ) -> None:
                with scope:
                    outcomes.append(await side.connection.send_request("m"))
                if scope.cancelled_caught:
                    outcomes.append("cancelled")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(request)
                await turns()
                if cancel_first:
                    scope.cancel()
                side.answer(1, "answered")
                scope.cancel()
            assert len(outcomes) == 1
            assert len(side.transport.sent) == 1
            assert (side.pending, side.connection.stats.stray) == (0, 0)


async def test_timed_out_and_cancelled_in_one_turn() -> None:
    async with side_of() as side:
        scope = anyio.CancelScope()

        async def request() -> None:
            with scope:
                with pytest.raises((ConnectionTimeoutError, anyio.get_cancelled_exc_class())):
                    await side.connection.send_request("m", timeout=100)
                await checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await turns()
            assert side.connection._deadlines is not None
            side.connection._expire(1, 100)
            scope.cancel()
        assert [message["method"] for message in side.sent()] == ["m", "notifications/cancelled"]


@pytest.mark.parametrize("first", ["timed out", "the other"])
@pytest.mark.parametrize("other", ["answered", "refused", "closed", "failed", "given up"])
@pytest.mark.parametrize("telling", [False, True])
async def test_timed_out_and_something_else_in_one_turn(
    anyio_backend: tuple[str, dict[str, Any]], other: str, first: str, telling: bool
) -> None:
    """One outcome, that of whichever came first, and at most one notice; nothing complains that nobody looked."""
    complaints: list[Any] = []
    told: list[Any] = []
    outcomes: list[Any] = []
    if anyio_backend[0] == "asyncio":
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with side_of() as side, anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def request() -> None:
            with scope:
                try:
                    outcomes.append(await side.connection.send_request("m", on_answer=told.append if telling else None))
                except Exception as exc:
                    outcomes.append(type(exc))
            if scope.cancelled_caught:
                outcomes.append("cancelled")

        tasks.start_soon(request)
        await turns()

        def expire() -> None:
            if side.pending:
                side.connection._expire(1, 30.0)

        events: dict[str, Callable[[], object]] = {
            "answered": lambda: side.answer(1, "late"),
            "refused": lambda: side.refuse(1, code=-32601, message="no"),
            "closed": lambda: side.connection._move(Trigger.CLOSE, None),
            "failed": lambda: side.transport.fail_output(TransportError("broken")),
            "given up": scope.cancel,
        }
        steps: list[Callable[[], object]] = [expire, events[other]]
        for step in steps if first == "timed out" else reversed(steps):
            step()
        await turns()
        expected = {"answered": "late", "refused": MethodNotFound, "given up": "cancelled"}
        came = ConnectionTimeoutError if first == "timed out" else expected.get(other, ConnectionClosedError)
        if other == "given up":
            assert outcomes in ([came], ["cancelled"])
        else:
            assert outcomes == [came]
        assert len(told) == (telling and outcomes == ["late"])
        notices = [message for message in side.sent() if message["method"] == "notifications/cancelled"]
        assert len(notices) == (other == "given up")
        assert side.pending == 0
        gc.collect()
    assert complaints == []


async def test_cancelling_a_send_that_waits_tears_no_frame() -> None:
    async with side_of() as side:
        side.transport.stalled = True
        for number in range(3):
            with anyio.move_on_after(0):
                await side.connection.send_notification("n", [number])
        side.transport.release()
        await side.connection.send_notification("n", [3])
        assert [message["params"] for message in side.sent()] == [[0], [1], [2], [3]]


async def test_cancelling_a_receive_loses_no_message() -> None:
    async with pair() as (left, right):
        received: list[int] = []
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                for number in range(200):
                    await left.send_notification("n", [number])
                    if number % 7 == 0:
                        await checkpoint()

            tasks.start_soon(send)
            while len(received) < 200:
                with anyio.CancelScope() as scope:
                    tasks.start_soon(_cancel_soon, scope)
                    received.append((await right.next_message()).params[0])
        assert received == list(range(200))


async def _cancel_soon(scope: anyio.CancelScope) -> None:
    await checkpoint()
    scope.cancel()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})], ids=["asyncio"])
async def test_a_native_cancellation_of_a_request() -> None:
    async with side_of() as side:
        for then_answer in (False, True):
            task = asyncio.create_task(side.connection.send_request("m"))
            await turns()
            id = side.sent()[-1]["id"]
            if then_answer:
                side.answer(id, "in the same turn")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert side.pending == 0
        assert [message["method"] for message in side.sent()] == ["m", "notifications/cancelled", "m"]


# ---------------------------------------------------------------------------------------- callbacks of a request


async def test_on_sent_hears_of_the_id_before_anything_can_answer() -> None:
    async with side_of() as side:
        log: list[Any] = []

        def on_sent(id: Any) -> None:
            log.append((id, len(side.transport.sent)))
            side.answer(id, "at once")

        assert await side.connection.send_request("m", on_sent=on_sent) == "at once"
        assert log == [(1, 1)]


async def test_on_sent_that_fails() -> None:
    async with side_of() as side:

        def on_sent(id: Any) -> None:
            raise KeyError(id)

        with pytest.raises(KeyError):
            await side.connection.send_request("m", on_sent=on_sent)
        assert [message["method"] for message in side.sent()] == ["m", "notifications/cancelled"]
        assert side.pending == 0


async def test_on_answer_hears_of_the_result_as_it_is_taken_from_the_wire() -> None:
    async with side_of() as side:
        log: list[Any] = []
        side.connection.on_message(lambda message: log.append(message.method))

        async def request() -> None:
            log.append(await side.connection.send_request("m", on_answer=lambda raw: log.append(bytes(raw))))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await turns()
            side.transport.feed(
                {"jsonrpc": "2.0", "method": "before"},
                {"jsonrpc": "2.0", "id": 1, "result": [1]},
                {"jsonrpc": "2.0", "method": "behind"},
            )
        assert log == ["before", b"[1]", "behind", [1]]


async def test_on_answer_that_fails_and_an_error_that_it_does_not_hear() -> None:
    async with side_of() as side, anyio.create_task_group() as tasks:
        heard: list[Any] = []

        def failing(raw: Any) -> None:
            raise KeyError("on_answer")

        async def request() -> None:
            with pytest.raises(KeyError):
                await side.connection.send_request("m", on_answer=failing)
            with pytest.raises(CapabilityDenied):
                await side.connection.send_request("m", on_answer=heard.append)

        tasks.start_soon(request)
        await turns()
        side.answer(1, 1)
        await turns()
        side.refuse(2, code=-32002, message="no")
        await turns()
        assert (heard, side.errors) == ([], [])


async def test_an_answer_that_on_answer_refuses_leaves_nothing_behind() -> None:
    class Kept:
        pass

    async def refused(side: Any) -> weakref.ref[Kept]:
        kept = Kept()

        def failing(raw: Any) -> None:
            raise KeyError(id(kept))

        with pytest.raises(KeyError):
            await side.connection.send_request("m", on_answer=failing)
        return weakref.ref(kept)

    async with side_of() as side, anyio.create_task_group() as tasks:
        refs: list[weakref.ref[Kept]] = []

        async def request() -> None:
            refs.append(await refused(side))

        tasks.start_soon(request)
        await turns()
        side.answer(1, 1)
        await turns()
        gc.collect()
        assert [ref() for ref in refs] == [None]


async def test_on_answer_is_not_called_for_somebody_who_left() -> None:
    async with side_of() as side:
        heard: list[Any] = []
        scope = anyio.CancelScope()

        async def request() -> None:
            with scope:
                await side.connection.send_request("m", on_answer=heard.append)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await turns()
            scope.cancel()
            side.answer(1, 1)
        assert heard == []


# ---------------------------------------------------------------------------------------- notifications and answers


@pytest.mark.spec("4.1-2")
async def test_notifications() -> None:
    async with side_of() as side:
        await side.connection.send_notification("a")
        await side.connection.send_notification("b", {"x": 1})
        side.connection.push_notification("c", [])
        assert side.sent() == [
            {"jsonrpc": "2.0", "method": "a"},
            {"jsonrpc": "2.0", "method": "b", "params": {"x": 1}},
            {"jsonrpc": "2.0", "method": "c", "params": []},
        ]


async def test_who_sends_on_and_on_gives_others_their_turn() -> None:
    async with side_of() as side, anyio.create_task_group() as tasks:
        others = 0

        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await checkpoint()

        tasks.start_soon(other)
        await turns(1)
        before, sent = others, side.connection.stats.sent
        for _ in range(10 * TURN):
            await side.connection.send_notification("n")
        assert others - before >= 8
        assert side.connection.stats.sent - sent == 10 * TURN
        tasks.cancel_scope.cancel()


async def test_raw_params_are_sent_as_they_are() -> None:
    async with side_of() as side:
        await side.connection.send_notification("n", msgspec.Raw(b'{"a":1.00}'))
        assert side.transport.sent == [b'{"jsonrpc":"2.0","method":"n","params":{"a":1.00}}']


@pytest.mark.spec("4.1-1")
async def test_answering() -> None:
    async with side_of() as side:
        for id in (1, "1", "x"):
            side.transport.feed({"jsonrpc": "2.0", "id": id, "method": "m"})
        assert side.connection.stats.unanswered == 3
        await side.connection.send_response("1", {"a": 1})
        await side.connection.send_error(1, -32002, "no", {"capability": "x"})
        await side.connection.send_error("x", 5, "five")
        assert side.sent() == [
            {"jsonrpc": "2.0", "id": "1", "result": {"a": 1}},
            {"jsonrpc": "2.0", "id": 1, "error": {"code": -32002, "message": "no", "data": {"capability": "x"}}},
            {"jsonrpc": "2.0", "id": "x", "error": {"code": 5, "message": "five"}},
        ]
        assert side.connection.stats.unanswered == 0
        for answer in (
            side.connection.send_response(1, None),
            side.connection.send_error(1, 1, ""),
            side.connection.send_response("never asked", None),
        ):
            with pytest.raises(LocalProtocolError):
                await answer
        assert len(side.transport.sent) == 3


async def test_an_answer_that_cannot_be_sent_can_be_sent_otherwise() -> None:
    async with side_of(max_message_bytes=500) as side:
        side.transport.feed({"jsonrpc": "2.0", "id": 1, "method": "m"})
        with pytest.raises(UnencodableError):
            await side.connection.send_response(1, object())
        with pytest.raises(MessageTooLargeError):
            await side.connection.send_error(1, 1, "x" * 1000)
        assert (side.transport.sent, side.connection.stats.unanswered) == ([], 1)
        await side.connection.send_response(1, "otherwise")
        assert side.connection.stats.unanswered == 0


async def test_a_request_that_was_taken_back_is_not_answered() -> None:
    async with side_of() as side:
        side.transport.feed(
            {"jsonrpc": "2.0", "id": 1, "method": "m"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        )
        assert [(await side.connection.next_message()).method for _ in range(2)] == ["m", "notifications/cancelled"]
        await side.connection.send_response(1, "late")
        assert (side.transport.sent, side.connection.stats.unanswered) == ([], 0)


async def test_concurrent_senders_never_interleave() -> None:
    async with pair() as (left, right):

        async def send(name: str) -> None:
            for number in range(100):
                await left.send_notification(name, ["x" * 500, number])

        async with anyio.create_task_group() as tasks:
            for name in ("a", "b", "c"):
                tasks.start_soon(send, name)
            seen: dict[str, list[int]] = {"a": [], "b": [], "c": []}
            for _ in range(300):
                message = await right.next_message()
                seen[message.method].append(message.params[1])
        assert seen == {name: list(range(100)) for name in "abc"}


async def test_what_is_handed_over_leaves_in_the_order_of_the_calls() -> None:
    async with side_of() as side, anyio.create_task_group() as tasks:
        tasks.start_soon(side.connection.send_request, "1")
        await turns(3)
        await side.connection.send_notification("2")
        side.transport.feed({"jsonrpc": "2.0", "id": 9, "method": "m"})
        await side.connection.send_response(9, "3")
        assert [message.get("method", message.get("result")) for message in side.sent()] == ["1", "2", "3"]
        side.answer(1, None)


# ---------------------------------------------------------------------------------------- pulling


async def test_messages_can_be_iterated_over() -> None:
    async with side_of() as side:
        side.transport.feed(
            {"jsonrpc": "2.0", "id": "x", "method": "r", "params": {"a": 1}},
            {"jsonrpc": "2.0", "method": "n", "params": [1]},
            {"jsonrpc": "2.0", "method": "bare"},
        )
        side.transport.end()
        messages = [message async for message in side.connection]
        assert [(type(message), message.method, message.params) for message in messages] == [
            (Request, "r", {"a": 1}),
            (Notification, "n", [1]),
            (Notification, "bare", None),
        ]
        assert bytes(messages[0].raw_params) == b'{"a":1}'


@pytest.mark.spec("R-wire-7")
async def test_malformed_messages_are_reported_and_those_behind_them_arrive() -> None:
    async with side_of() as side:
        side.transport.feed(b"Welcome to my server!", b"\xff\xfe", b"[1]", b"7", {"jsonrpc": "1.0", "method": "old"})
        side.transport.malformed(MalformedMessageError("too-long"))
        side.transport.feed({"jsonrpc": "2.0", "method": "fine"})
        assert (await side.connection.next_message()).method == "fine"
        kinds = [error.kind for error in side.errors if isinstance(error, MalformedMessageError)]
        assert kinds == ["not-json", "invalid-utf8", "batch", "invalid-request", "invalid-request", "too-long"]
        assert side.connection.stats.malformed == 6
        assert not side.connection.is_closed


async def test_two_of_our_own_never_argue() -> None:
    """Whatever one side gets wrong, the answer to it is not answered again."""
    async with pair() as (left, right):
        errors: list[BaseException] = []
        left.on_error(errors.append)
        right.on_error(errors.append)
        for text in (b"[]", b"banner", b'{"jsonrpc":"2.0","id":{},"method":"m"}', b'{"id":1,"method":"m"}', b"{}"):
            left.transport.write(text)
        await turns(100)
        assert right.stats.sent <= 5
        assert left.stats.sent == 0


async def test_nothing_works_before_it_is_entered() -> None:
    connection = McplConnection(ScriptedTransport())
    calls = (
        connection.send_request("m"),
        connection.send_notification("m"),
        connection.send_response(1, None),
        connection.send_error(1, 1, ""),
        connection.next_message(),
        connection.send_eof(),
    )
    for call in calls:
        with pytest.raises(LocalProtocolError):
            await call
    with pytest.raises(LocalProtocolError):
        connection.push_notification("m")
    with pytest.raises(LocalProtocolError):
        await anext(aiter(connection))


async def test_the_counters() -> None:
    async with side_of() as side, anyio.create_task_group() as tasks:
        tasks.start_soon(side.connection.send_request, "m")
        await turns()
        side.transport.feed(
            {"jsonrpc": "2.0", "id": 7, "method": "r"},
            {"jsonrpc": "2.0", "method": "n"},
            b"no",
            {"jsonrpc": "2.0", "id": 99, "result": 1},
        )
        stats = side.connection.stats
        assert (stats.sent, stats.received, stats.malformed, stats.stray) == (1, 4, 1, 1)
        assert (stats.pending, stats.unanswered, stats.queued, stats.discarded) == (1, 1, 2, 0)
        assert stats.queued_bytes == sum(
            len(text) for text in (b'{"jsonrpc":"2.0","id":7,"method":"r"}', b'{"jsonrpc":"2.0","method":"n"}')
        )
        side.answer(1, None)


async def test_reports_of_others_go_the_same_way() -> None:
    async with side_of() as side:
        error = KeyError("theirs")
        side.connection.report(error)
        assert side.errors == [error]


@pytest.mark.parametrize("early", [False, True])
async def test_a_failed_request_is_no_cycle_of_references(early: bool) -> None:
    """What it raised is freed with the last reference, not at some collection."""
    async with side_of() as side:

        def refuse(id: Any) -> None:
            side.refuse(id, code=1, message="no")

        gc.collect()
        gc.disable()
        try:
            try:
                await side.connection.send_request("m", timeout=0, on_sent=refuse if early else None)
            except RpcError as error:
                reference = weakref.ref(error)
            await turns(3)
            assert reference() is None
        finally:
            gc.enable()
