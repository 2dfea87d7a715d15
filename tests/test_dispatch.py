"""Handlers: which one, in what order, how many at once, and what the peer is answered."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcpl_core.connection import McplConnection
from mcpl_core.dispatch import Handler, Handlers, Later, Route, Router
from mcpl_core.errors import (
    CapabilityDenied,
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidParams,
    InvalidValueError,
    LocalProtocolError,
    MessageTooLargeError,
    RpcError,
    TransportError,
    UnencodableError,
)
from mcpl_core.outlet import TURN
from mcpl_core.protocol.methods import MethodTable
from mcpl_core.transports.memory import ScriptedTransport
from mcpl_core.wire.messages import Notification, Request
from mcpl_core.wire.values import decode_value

pytestmark = pytest.mark.anyio

#: A method whose order matters, as the table says.
ORDERED = "featureSets/update"


class Served:
    """A connection that is being served, and the script of its peer."""

    def __init__(self, connection: McplConnection, transport: ScriptedTransport) -> None:
        self.connection = connection
        self.transport = transport
        self.errors: list[BaseException] = []
        self.ended = anyio.Event()
        connection.on_error(self.errors.append)

    async def serve(self, router: Router | Handlers, limit: int, grace: float) -> None:
        try:
            await self.connection.serve(router, limit=limit, grace=grace)
        finally:
            self.ended.set()

    def ask(self, *requests: tuple[int | str, str] | tuple[int | str, str, Any]) -> None:
        """One read that brings these requests."""
        self.transport.feed(*(self._request(*request) for request in requests))

    @staticmethod
    def _request(id: int | str, method: str, params: Any = None) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})

    def notify(self, *methods: str) -> None:
        self.transport.feed(*({"jsonrpc": "2.0", "method": method} for method in methods))

    def take_back(self, id: int | str) -> None:
        self.transport.feed({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

    async def answer(self) -> Any:
        """The next answer, without what all have."""
        text = await self.transport.next_sent()
        assert text.pop("jsonrpc") == "2.0"
        return text

    def answers(self) -> list[Any]:
        return [decode_value(text) for text in self.transport.sent]

    async def rest(self) -> None:
        """Until nothing moves any more: more turns than any chain of tasks here is long."""
        for _ in range(40):
            await checkpoint()


@asynccontextmanager
async def serving(
    router: Router | Handlers, *, limit: int = 100, grace: float = 5.0, **options: Any
) -> AsyncIterator[Served]:
    transport = ScriptedTransport()
    with anyio.fail_after(5):
        async with McplConnection(transport, **options) as connection, anyio.create_task_group() as tasks:
            side = Served(connection, transport)
            tasks.start_soon(side.serve, router, limit, grace)
            await side.rest()
            yield side
            tasks.cancel_scope.cancel()


def is_closed(connection: McplConnection) -> bool:
    """As a call, so that the type checker does not take it for unchanging."""
    return connection.is_closed


class Steps:
    """Handlers that say where they are, and wait until they are let go."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.gates: dict[str, anyio.Event] = {}

    def _gate(self, name: str) -> anyio.Event:
        return self.gates.setdefault(name, anyio.Event())

    async def handler(self, message: Request | Notification) -> str:
        name = str(getattr(message, "id", message.method))
        self.log.append(f"+{name}")
        try:
            await self._gate(name).wait()
        except anyio.get_cancelled_exc_class():
            self.log.append(f"!{name}")
            raise
        self.log.append(f"-{name}")
        return name

    def let_go(self, *names: object) -> None:
        for name in names:
            self._gate(str(name)).set()


@pytest.fixture
def steps() -> Steps:
    return Steps()


def test_more_workers_where_nobody_said_which_library_runs() -> None:
    """In a callback under ``asyncio.run`` AnyIO begins no task by itself."""

    async def main() -> None:
        steps = Steps()
        async with serving({"slow": steps.handler}) as side:
            for id in range(3):
                asyncio.get_running_loop().call_soon(side.ask, (id, "slow"))
                await side.rest()
            assert side.connection.stats.unanswered == 3
            assert len(steps.log) == 3

    asyncio.run(main())


# ---------------------------------------------------------------------------------------- routers


async def nothing(message: object) -> None:
    """A handler."""


def test_a_router_finds_what_was_added() -> None:
    router = Router({"a": nothing})
    assert router.on("b", ordered=True)(nothing) is nothing
    router.add(ORDERED, nothing)
    router.add("featureSets/other", nothing, ordered=False)
    assert list(router) == ["a", "b", ORDERED, "featureSets/other"]
    assert router.find("a") == Route(nothing, ordered=False, inline=False)
    assert router.find("b") == Route(nothing, ordered=True, inline=False)
    assert router.find(ORDERED) == Route(nothing, ordered=True, inline=False)
    assert router.find("c") is None


def test_the_table_and_its_exceptions() -> None:
    assert Router({ORDERED: nothing}, methods=MethodTable()).find(ORDERED) == Route(nothing, False)
    router = Router()
    router.add(ORDERED, nothing, ordered=False)
    assert router.find(ORDERED) == Route(nothing, False)


def test_what_has_no_handler_goes_to_the_fallback() -> None:
    router = Router()
    router.otherwise(nothing)
    assert router.find("anything") == Route(nothing, ordered=False)
    assert router.find(ORDERED) == Route(nothing, ordered=True)
    assert list(router) == []


def test_a_method_has_one_handler() -> None:
    router = Router({"a": nothing})
    with pytest.raises(LocalProtocolError):
        router.add("a", nothing)


def test_an_inline_handler_is_a_plain_function() -> None:
    router = Router()
    with pytest.raises(LocalProtocolError):
        router.add("a", nothing, inline=True)
    assert router.find("a") is None
    router.add("a", len, inline=True)
    assert router.find("a") == Route(len, ordered=False, inline=True)


# ---------------------------------------------------------------------------------------- answers


@pytest.mark.spec("6.6-6")
async def test_sync_and_async_handlers_answer_with_what_they_return() -> None:
    async def later(message: Request) -> Any:
        await checkpoint()
        return {"params": message.params}

    async with serving({"now": lambda message: [message.method], "later": later}) as side:
        side.ask((1, "now"), ("x", "later", {"a": None}), (3, "later"))
        answers = [await side.answer() for _ in range(3)]
        assert sorted(answers, key=str) == sorted(
            [
                {"id": 1, "result": ["now"]},
                {"id": "x", "result": {"params": {"a": None}}},
                {"id": 3, "result": {"params": None}},
            ],
            key=str,
        )
        assert side.connection.stats.unanswered == 0


async def test_any_awaitable_will_do() -> None:
    class Soon:
        def __await__(self) -> Any:
            return checkpoint().__await__()

    async with serving({"m": lambda message: Soon()}) as side:
        side.ask((1, "m"))
        assert await side.answer() == {"id": 1, "result": None}


@pytest.mark.spec("6.6-6")
async def test_a_request_that_nobody_handles() -> None:
    async with serving({}) as side:
        side.notify("nobody/cares")
        side.ask((1, "no/such"))
        answer = await side.answer()
        assert (answer["id"], answer["error"]["code"]) == (1, -32601)
        assert (side.errors, len(side.transport.sent)) == ([], 1)


async def test_the_fallback_gets_requests_and_notifications() -> None:
    seen: list[str] = []
    router = Router({"known": lambda message: "known"})
    router.otherwise(lambda message: seen.append(message.method) or "fallback")  # type: ignore[func-returns-value]
    async with serving(router) as side:
        side.notify("n")
        side.ask((1, "known"), (2, "r"))
        assert [await side.answer(), await side.answer()] == [
            {"id": 1, "result": "known"},
            {"id": 2, "result": "fallback"},
        ]
        assert seen == ["n", "r"]


def raising(error: BaseException) -> Handler:
    def handler(message: object) -> None:
        raise error

    return handler


def raising_later(error: BaseException) -> Handler:
    async def handler(message: object) -> None:
        await checkpoint()
        raise error

    return handler


@pytest.mark.parametrize("handler", [raising, raising_later])
async def test_an_rpc_error_is_the_answer(handler: Callable[[BaseException], Handler]) -> None:
    error = CapabilityDenied(data={"capability": "tools"})
    async with serving({"m": handler(error), "n": handler(RpcError(7, "seven"))}) as side:
        side.ask((1, "m"))
        assert await side.answer() == {
            "id": 1,
            "error": {"code": -32002, "message": error.message, "data": {"capability": "tools"}},
        }
        side.ask((2, "n"))
        assert await side.answer() == {"id": 2, "error": {"code": 7, "message": "seven"}}
        assert side.errors == []


@pytest.mark.parametrize("handler", [raising, raising_later])
@pytest.mark.parametrize(
    "error",
    [
        KeyError("secret"),
        # Conditions of other calls, which mean nothing to this peer.
        ConnectionTimeoutError("other/method", 5),
        ConnectionClosedError("no-response"),
        LocalProtocolError("secret"),
        StopAsyncIteration(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_any_other_exception_is_reported_and_answered_without_a_word_of_it(
    handler: Callable[[BaseException], Handler], error: Exception
) -> None:
    async with serving({"m": handler(error), "ok": lambda message: True}) as side:
        side.ask((1, "m"), (2, "ok"))
        assert sorted([await side.answer(), await side.answer()], key=str) == [
            {"id": 1, "error": {"code": -32603, "message": "Internal error"}},
            {"id": 2, "result": True},
        ]
        assert side.errors == [error]


@pytest.mark.parametrize("handler", [raising, raising_later])
@pytest.mark.parametrize("error", [KeyError("x"), InvalidParams()], ids=["KeyError", "RpcError"])
async def test_an_exception_of_a_notification_handler_is_reported(
    handler: Callable[[BaseException], Handler], error: Exception
) -> None:
    async with serving({"n": handler(error), "ok": lambda message: True}) as side:
        side.notify("n")
        side.ask((2, "ok"))
        assert await side.answer() == {"id": 2, "result": True}
        assert (side.errors, len(side.transport.sent)) == ([error], 1)


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("result", [object(), {"a": float("nan")}, {1, lambda: 0}], ids=["object", "nan", "set"])
async def test_a_result_without_a_json_form_is_answered_once(result: object, inline: bool) -> None:
    router = Router()
    router.add("m", lambda message: result, inline=inline)
    async with serving(router) as side:
        side.ask((1, "m"))
        assert await side.answer() == {"id": 1, "error": {"code": -32603, "message": "Internal error"}}
        await side.rest()
        assert [type(error) for error in side.errors] == [UnencodableError]
        assert (len(side.transport.sent), side.connection.stats.unanswered) == (1, 0)


@pytest.mark.parametrize("inline", [False, True])
async def test_a_result_that_is_too_large(inline: bool) -> None:
    router = Router()
    router.add("m", lambda message: "x" * 1000, inline=inline)
    async with serving(router, max_message_bytes=500) as side:
        side.ask((1, "m"))
        assert await side.answer() == {"id": 1, "error": {"code": -32603, "message": "Internal error"}}
        assert [type(error) for error in side.errors] == [MessageTooLargeError]


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RpcError(-32002, "no", {"capability": object()}), -32002),
        (RpcError(5, "x" * 1000), 5),
        (RpcError(float("nan"), "no number"), -32603),  # type: ignore[arg-type]
        (RpcError(10**600, "no code"), -32603),
    ],
    ids=["data", "message", "nan", "long"],
)
async def test_an_error_without_a_json_form_keeps_its_code(error: RpcError, code: int, inline: bool) -> None:
    router = Router()
    router.add("m", raising(error), inline=inline)
    async with serving(router, max_message_bytes=500) as side:
        side.ask((1, "m"))
        assert await side.answer() == {"id": 1, "error": {"code": code, "message": "Internal error"}}
        assert len(side.errors) == 1
        assert side.connection.stats.unanswered == 0


@pytest.mark.parametrize("inline", [False, True])
async def test_a_handler_that_answered_by_itself(inline: bool) -> None:
    """Its own answer counts; that it returned another one is reported."""
    async with serving(router := Router()) as side:

        async def handler(message: Request) -> int:
            await side.connection.send_response(message.id, "mine")
            return 2

        def inline_handler(message: Request) -> int:
            text = side.connection._peer.respond(message.id, "mine")
            assert text is not None
            side.connection._outlet.push(text)
            return 2

        router.add("m", inline_handler if inline else handler, inline=inline)
        router.add("ok", lambda message: True)
        side.ask((1, "m"), (2, "ok"))
        assert await side.answer() == {"id": 1, "result": "mine"}
        assert await side.answer() == {"id": 2, "result": True}
        assert [type(error) for error in side.errors] == [LocalProtocolError]


async def test_a_request_that_was_answered_before_its_handler_could_begin() -> None:
    calls: list[object] = []
    async with serving({"m": calls.append}) as side:
        side.connection.on_message(lambda message: side.connection._peer.respond(message.id, 1))  # type: ignore[union-attr]
        side.ask((1, "m"))
        await side.rest()
        assert (calls, side.errors, side.transport.sent) == ([], [], [])


# ---------------------------------------------------------------------------------------- order and limits


async def test_handlers_start_in_the_order_of_the_wire_and_run_concurrently(steps: Steps) -> None:
    async with serving({"m": steps.handler}) as side:
        side.ask(*((id, "m") for id in range(10)))
        await side.rest()
        assert steps.log == [f"+{id}" for id in range(10)]
        steps.let_go(7)
        assert await side.answer() == {"id": 7, "result": "7"}


async def test_what_is_behind_an_order_sensitive_message_waits_for_it(steps: Steps) -> None:
    async with serving({"m": steps.handler, ORDERED: steps.handler}) as side:
        side.ask((1, "m"), (2, ORDERED), (3, "m"), (4, ORDERED), (5, "m"))
        await side.rest()
        assert steps.log == ["+1", "+2"]
        side.ask((6, "m"))
        await side.rest()
        assert steps.log == ["+1", "+2"]
        steps.let_go(2)
        await side.rest()
        assert steps.log == ["+1", "+2", "-2", "+3", "+4"]
        steps.let_go(4)
        await side.rest()
        assert steps.log[5:] == ["-4", "+5", "+6"]
        steps.let_go(1, 3, 5, 6)
        await side.rest()
        assert len(side.transport.sent) == 6


async def test_the_answer_to_an_order_sensitive_message_is_written_before_anything_behind_it_runs() -> None:
    async with serving(router := Router()) as side:
        sent: list[int] = []
        router.add(ORDERED, lambda message: "ordered")
        router.add("m", lambda message: sent.append(len(side.transport.sent)))
        side.ask((1, ORDERED), (2, "m"))
        side.transport.stalled = True
        side.ask((3, ORDERED), (4, "m"))
        await side.rest()
        # Also while the transport is behind: it is handed over, and only waits there.
        assert sent == [1, 3]


async def test_an_order_sensitive_message_that_fails_or_is_taken_back_holds_up_nothing(steps: Steps) -> None:
    async with serving({ORDERED: steps.handler, "bad": raising(KeyError()), "m": steps.handler}) as side:
        side.ask((1, ORDERED), (2, "m"))
        await side.rest()
        side.take_back(1)
        await side.rest()
        assert steps.log == ["+1", "!1", "+2"]
        side.ask((3, ORDERED, "no params"), (4, "m"))
        await side.rest()
        side.take_back(3)
        await side.rest()
        assert steps.log[3:] == ["+3", "!3", "+4"]


async def test_order_sensitive_notifications(steps: Steps) -> None:
    async with serving({ORDERED: steps.handler, "n": steps.handler}) as side:
        side.notify(ORDERED, "n")
        await side.rest()
        assert steps.log == [f"+{ORDERED}"]
        steps.let_go(ORDERED)
        await side.rest()
        assert steps.log == [f"+{ORDERED}", f"-{ORDERED}", "+n"]


async def test_an_order_sensitive_message_that_nobody_handles_holds_up_nothing(steps: Steps) -> None:
    async with serving({"m": steps.handler}) as side:
        side.ask((1, ORDERED), (2, "m"))
        assert (await side.answer())["error"]["code"] == -32601
        await side.rest()
        assert steps.log == ["+2"]


@pytest.mark.parametrize("limit", [1, 3])
async def test_only_so_many_run_at_once(steps: Steps, limit: int) -> None:
    async with serving({"m": steps.handler}, limit=limit) as side:
        side.ask(*((id, "m") for id in range(6)))
        await side.rest()
        assert steps.log == [f"+{id}" for id in range(limit)]
        steps.let_go(*range(6))
        await side.rest()
        assert len(side.transport.sent) == 6
        assert max(_running(steps.log)) == limit


def _running(log: list[str]) -> list[int]:
    counts, now = [], 0
    for entry in log:
        now += {"+": 1, "-": -1}[entry[0]]
        counts.append(now)
    return counts


async def test_at_least_one_must_be_allowed() -> None:
    async with McplConnection(ScriptedTransport()) as connection:
        with pytest.raises(InvalidValueError) as caught:
            await connection.serve({}, limit=0)
        assert caught.value.code == "limit"


async def test_handlers_that_do_not_wait_share_a_worker() -> None:
    tasks: set[int] = set()
    async with serving({"n": lambda message: tasks.add(anyio.get_current_task().id)}) as side:
        for _ in range(10):
            side.notify(*["n"] * 50)
            await side.rest()
        assert len(tasks) <= 3


async def test_workers_are_kept_for_the_next_burst(steps: Steps) -> None:
    seen: set[int] = set()

    async def handler(message: Request) -> None:
        seen.add(anyio.get_current_task().id)
        await steps.handler(message)

    async with serving({"m": handler}) as side:
        for burst in range(3):
            ids = range(burst * 20, burst * 20 + 20)
            side.ask(*((id, "m") for id in ids))
            await side.rest()
            steps.let_go(*ids)
            await side.rest()
        assert len(side.transport.sent) == 60
        assert len(seen) <= 21


async def test_a_flood_of_handlers_that_do_not_wait_gives_others_their_turn() -> None:
    async with serving({"n": nothing}) as side:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while side.connection.stats.queued:
                turns += 1
                await checkpoint()

        side.notify(*["n"] * TURN * 6)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
        assert turns >= 3


async def test_handlers_see_the_context_of_who_serves(steps: Steps) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="default")
    token = variable.set("server")
    seen: list[str] = []

    async def handler(message: Request) -> None:
        seen.append(variable.get())
        await steps.handler(message)

    try:
        async with serving({"m": handler}) as side:
            variable.set("the read callback's")
            for id in range(5):
                # All workers are busy: each message makes one more, from the context in which it came.
                side.ask((id, "m"))
                await side.rest()
        assert seen == ["server"] * 5
    finally:
        variable.reset(token)


# ---------------------------------------------------------------------------------------- cancelling


@pytest.mark.spec("R-wire-6")
async def test_a_running_handler_is_cancelled_and_not_answered(steps: Steps) -> None:
    async with serving({"m": steps.handler, "ok": lambda message: True}) as side:
        side.ask((1, "m"), (2, "m"))
        await side.rest()
        side.take_back(1)
        await side.rest()
        assert steps.log == ["+1", "+2", "!1"]
        side.ask((3, "ok"))
        assert await side.answer() == {"id": 3, "result": True}
        steps.let_go(2)
        assert await side.answer() == {"id": 2, "result": "2"}
        assert (side.errors, side.connection.stats.unanswered) == ([], 0)


async def test_a_queued_request_that_is_taken_back_is_not_handled(steps: Steps) -> None:
    async with serving({"m": steps.handler}, limit=1) as side:
        side.ask((1, "m"), (2, "m"), (3, "m"))
        side.take_back(2)
        await side.rest()
        steps.let_go(1, 2, 3)
        await side.rest()
        assert steps.log == ["+1", "-1", "+3", "-3"]
        assert [answer["id"] for answer in side.answers()] == [1, 3]
        # Its id is free again.
        side.ask((2, "m"))
        await side.rest()
        assert side.answers()[2:] == [{"jsonrpc": "2.0", "id": 2, "result": "2"}]


async def test_an_answered_request_cannot_be_taken_back(steps: Steps) -> None:
    async with serving({"m": lambda message: 1, "slow": steps.handler}) as side:
        side.ask((1, "m"), (2, "slow"))
        await side.rest()
        side.take_back(1)
        side.take_back("never asked")
        await side.rest()
        assert steps.log == ["+2"]
        assert side.errors == []


async def test_initialize_cannot_be_taken_back(steps: Steps) -> None:
    async with serving({"initialize": steps.handler}) as side:
        side.ask((1, "initialize"))
        await side.rest()
        side.take_back(1)
        await side.rest()
        assert steps.log == ["+1"]
        steps.let_go(1)
        assert await side.answer() == {"id": 1, "result": "1"}


async def test_a_handler_may_hear_of_cancellations_itself(steps: Steps) -> None:
    heard: list[Any] = []
    router = Router({"m": steps.handler, "notifications/cancelled": lambda message: heard.append(message.params)})
    async with serving(router) as side:
        side.ask((1, "m"))
        await side.rest()
        side.take_back(1)
        await side.rest()
        assert (steps.log, heard) == (["+1", "!1"], [{"requestId": 1}])


async def test_a_handler_that_swallows_its_cancellation_is_not_answered_and_serving_goes_on() -> None:
    started = anyio.Event()

    async def stubborn(message: Request) -> str:
        try:
            started.set()
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "all the same"
        raise AssertionError

    async with serving({"m": stubborn, "ok": lambda message: True}) as side:
        side.ask((1, "m"))
        await started.wait()
        side.take_back(1)
        await side.rest()
        assert side.transport.sent == []
        for id in (2, 3):
            side.ask((id, "ok"))
            assert await side.answer() == {"id": id, "result": True}


async def test_a_handler_that_fails_while_it_is_cancelled() -> None:
    async def failing(message: Request) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError("cleaning up")

    async with serving({"m": failing}) as side:
        side.ask((1, "m"))
        await side.rest()
        side.take_back(1)
        await side.rest()
        assert (side.transport.sent, [type(error) for error in side.errors]) == ([], [KeyError])


async def test_scopes_and_task_groups_inside_a_handler() -> None:
    log: list[str] = []
    children = anyio.Event()

    async def child(name: str) -> None:
        try:
            children.set()
            await anyio.sleep_forever()
        finally:
            log.append(name)

    async def structured(message: Request) -> str:
        with anyio.move_on_after(0) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child, "one")
            tasks.start_soon(child, "two")
            await checkpoint()
            if message.method == "short":
                tasks.cancel_scope.cancel()
        return "done"

    async with serving({"short": structured, "long": structured}) as side:
        side.ask((1, "short"))
        assert await side.answer() == {"id": 1, "result": "done"}
        assert sorted(log) == ["one", "two"]
        children = anyio.Event()
        side.ask((2, "long"))
        await children.wait()
        await side.rest()
        side.take_back(2)
        await side.rest()
        assert sorted(log) == ["one", "one", "two", "two"]
        side.ask((3, "short"))
        assert await side.answer() == {"id": 3, "result": "done"}


async def test_a_handler_that_answered_already_is_not_cancelled_with_another(steps: Steps) -> None:
    async with serving(router := Router()) as side:

        async def answering(message: Request) -> None:
            await side.connection.send_response(message.id, "mine")
            await steps.handler(message)

        router.add("m", answering)
        router.add("n", steps.handler)
        side.ask((1, "m"), (2, "n"))
        await side.rest()
        side.take_back(2)
        await side.rest()
        assert steps.log == ["+1", "+2", "!2"]


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})], ids=["asyncio"])
class TestAsyncio:
    """What trio cannot do at all."""

    async def test_something_cancelled_that_a_handler_awaits_is_a_failure_of_that_handler(self) -> None:
        async def handler(message: Request) -> None:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

        async with serving({"m": handler, "n": handler, "ok": lambda message: True}) as side:
            side.ask((1, "m"))
            assert await side.answer() == {"id": 1, "error": {"code": -32603, "message": "Internal error"}}
            side.notify("n")
            side.ask((2, "ok"))
            assert await side.answer() == {"id": 2, "result": True}
            assert [type(error) for error in side.errors] == [RuntimeError, RuntimeError]

    async def test_a_handler_that_cancels_its_own_task_does_not_end_serving_silently(self) -> None:
        async def handler(message: Request) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await anyio.sleep_forever()

        async with McplConnection(transport := ScriptedTransport()) as connection:
            transport.feed(Served._request(1, "m"))
            with pytest.raises(LocalProtocolError), anyio.fail_after(5):
                await connection.serve({"m": handler})
            assert not connection.is_closed


# ---------------------------------------------------------------------------------------- more than Exception


class Stop(BaseException):
    """As KeyboardInterrupt and SystemExit, which a test runner would take for its own."""


@pytest.mark.parametrize("handler", [raising, raising_later])
@pytest.mark.parametrize("request_", [True, False], ids=["request", "notification"])
async def test_what_is_no_exception_of_the_handler_ends_serving(
    handler: Callable[[BaseException], Handler], request_: bool
) -> None:
    async with McplConnection(transport := ScriptedTransport()) as connection:
        transport.feed(Served._request(1, "m") if request_ else {"jsonrpc": "2.0", "method": "m"})
        with pytest.raises(BaseExceptionGroup) as caught, anyio.fail_after(5):
            await connection.serve({"m": handler(Stop())})
        assert caught.group_contains(Stop, depth=1)
        assert transport.sent == []
        assert not connection.is_closed


# ---------------------------------------------------------------------------------------- inline


async def test_an_inline_handler_acts_as_its_message_is_taken_from_the_wire() -> None:
    log: list[str] = []
    router = Router({"n": lambda message: log.append("n")})
    router.add("inline", lambda message: log.append("inline"), inline=True)
    async with serving(router) as side:
        side.transport.feed({"jsonrpc": "2.0", "method": "n"}, {"jsonrpc": "2.0", "id": 1, "method": "inline"})
        assert log == ["inline"]
        assert side.answers() == [{"jsonrpc": "2.0", "id": 1, "result": None}]
        await side.rest()
        assert log == ["inline", "n"]
        side.notify("inline")
        assert log[2:] == ["inline"]


async def test_what_an_inline_handler_raises() -> None:
    router = Router()
    router.add("rpc", raising(InvalidParams(data={"path": "$"})), inline=True)
    router.add("other", raising(KeyError("x")), inline=True)
    async with serving(router) as side:
        side.ask((1, "rpc"), (2, "other"))
        first, second = side.answers()
        assert first["error"] == {"code": -32602, "message": "Invalid params", "data": {"path": "$"}}
        assert second["error"] == {"code": -32603, "message": "Internal error"}
        side.notify("rpc", "other")
        assert [type(error) for error in side.errors] == [KeyError, InvalidParams, KeyError]


async def test_an_inline_handler_that_turns_out_to_be_a_coroutine_function() -> None:
    router = Router()
    router.add("m", lambda message: nothing(message), inline=True)
    async with serving(router) as side:
        side.ask((1, "m"))
        side.notify("m")
        gc.collect()
        assert side.answers() == [{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}}]
        assert [type(error) for error in side.errors] == [LocalProtocolError] * 2


async def test_inline_answers_that_nobody_reads_stop_the_reading() -> None:
    router = Router()
    router.add("m", lambda message: "x" * 100, inline=True)
    async with serving(router) as side:
        side.transport.stalled = True
        side.ask((1, "m"))
        assert side.transport.paused
        await side.rest()
        side.transport.release()
        await side.rest()
        assert not side.transport.paused


async def test_an_inline_handler_may_leave_the_rest_for_later(steps: Steps) -> None:
    log: list[str] = []

    def begin(message: Request) -> Later:
        log.append(f"begun {message.id}")
        return Later(lambda: steps.handler(message) if message.id != 3 else "now")

    router = Router({"m": steps.handler})
    router.add("later", begin, inline=True)
    async with serving(router, limit=2) as side:
        side.ask((0, "m"), (1, "later"), (2, "later"), (3, "later"))
        assert log == ["begun 1", "begun 2", "begun 3"]
        side.take_back(2)
        await side.rest()
        assert steps.log == ["+0", "+1"]
        steps.let_go(0, 1)
        await side.rest()
        assert {answer["id"]: answer["result"] for answer in side.answers()} == {0: "0", 1: "1", 3: "now"}
        assert log == ["begun 1", "begun 2", "begun 3"]


async def test_what_is_left_for_later_may_fail_and_be_cancelled(steps: Steps) -> None:
    router = Router()
    router.add("fail", lambda message: Later(lambda: raising(InvalidParams())(message)), inline=True)
    router.add("wait", lambda message: Later(lambda: steps.handler(message)), inline=True)
    async with serving(router) as side:
        side.ask((1, "fail"), (2, "wait"))
        assert (await side.answer())["error"]["code"] == -32602
        await side.rest()
        side.take_back(2)
        await side.rest()
        assert steps.log == ["+2", "!2"]


async def test_a_notification_has_nobody_to_be_answered_later() -> None:
    router = Router()
    router.add("n", lambda message: Later(lambda: pytest.fail("called")), inline=True)
    async with serving(router) as side:
        side.notify("n")
        assert [type(error) for error in side.errors] == [LocalProtocolError]


async def test_what_was_queued_before_serving_began_is_handled_by_its_inline_handlers() -> None:
    router = Router()
    router.add("m", lambda message: "plain", inline=True)
    router.add("later", lambda message: Later(lambda: "later"), inline=True)
    async with McplConnection(transport := ScriptedTransport()) as connection:
        transport.feed(Served._request(1, "m"), Served._request(2, "later"))
        await anyio.wait_all_tasks_blocked()
        assert connection.stats.queued == 2
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.serve, router)
            assert [(await transport.next_sent())["result"] for _ in range(2)] == ["plain", "later"]
            tasks.cancel_scope.cancel()


# ---------------------------------------------------------------------------------------- who serves


async def test_one_thing_takes_the_messages() -> None:
    async with serving({}) as side:
        with pytest.raises(LocalProtocolError):
            await side.connection.serve({})
        with pytest.raises(LocalProtocolError):
            await side.connection.next_message()
        assert not side.ended.is_set()


async def test_serving_while_another_task_pulls() -> None:
    async with McplConnection(ScriptedTransport()) as connection, anyio.create_task_group() as tasks:
        tasks.start_soon(connection.next_message)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(LocalProtocolError):
            await connection.serve({})
        tasks.cancel_scope.cancel()


async def test_a_connection_must_be_entered_to_be_served() -> None:
    with pytest.raises(LocalProtocolError):
        await McplConnection(ScriptedTransport()).serve({})


async def test_when_serving_is_cancelled_the_messages_can_be_pulled() -> None:
    async with McplConnection(transport := ScriptedTransport()) as connection:
        await anyio.wait_all_tasks_blocked()
        with anyio.CancelScope() as scope:
            transport.feed(Served._request(1, "m"), Served._request(2, "m"))

            async def handler(message: Request) -> None:
                scope.cancel()
                await anyio.sleep_forever()

            await connection.serve({"m": handler}, limit=1)
        assert scope.cancelled_caught
        transport.feed(Served._request(3, "m"))
        messages = [await connection.next_message() for _ in range(2)]
        assert [message.id for message in messages if isinstance(message, Request)] == [2, 3]
        assert not connection.is_closed


async def test_a_message_that_comes_as_serving_is_cancelled_can_be_pulled(steps: Steps) -> None:
    async with McplConnection(transport := ScriptedTransport()) as connection:
        scope = anyio.CancelScope()

        async def serve() -> None:
            with scope:
                await connection.serve({"m": steps.handler})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            transport.feed(Served._request(1, "m"))
        assert (await connection.next_message()).method == "m"
        assert steps.log == []


async def test_messages_that_come_while_the_last_handler_cleans_up(steps: Steps) -> None:
    """Serving was cancelled, and waits for a handler that takes its time; nothing new begins meanwhile."""
    cleaned = anyio.Event()

    async def slow(message: Request) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await cleaned.wait()

    async with McplConnection(transport := ScriptedTransport()) as connection:
        scope = anyio.CancelScope()

        async def serve() -> None:
            with scope:
                await connection.serve({"slow": slow, "m": steps.handler})

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve)
                await anyio.wait_all_tasks_blocked()
                transport.feed(Served._request(1, "slow"))
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
                for id in range(2, 5):
                    await anyio.wait_all_tasks_blocked()
                    transport.feed(Served._request(id, "m"))
                cleaned.set()
            assert [(await connection.next_message()).method for _ in range(3)] == ["m", "m", "m"]
        assert steps.log == []


async def test_a_router_may_serve_many_connections() -> None:
    router = Router({"m": lambda message: message.params})
    async with serving(router) as one, serving(router) as two:
        one.ask((1, "m", [1]))
        two.ask((1, "m", [2]))
        assert [await one.answer(), await two.answer()] == [{"id": 1, "result": [1]}, {"id": 1, "result": [2]}]


# ---------------------------------------------------------------------------------------- the end


@pytest.mark.spec("6.6-6")
async def test_when_the_input_ends_accepted_requests_are_finished_and_answered(steps: Steps) -> None:
    async with serving({"m": steps.handler, "n": steps.handler}, limit=2) as side:
        side.ask((1, "m"), (2, "m"), (3, "m"))
        side.notify("n")
        side.transport.end()
        await side.rest()
        assert not is_closed(side.connection)
        assert not side.ended.is_set()
        steps.let_go(2, 1, 3)
        await side.rest()
        assert not side.ended.is_set()
        steps.let_go("n")
        await side.ended.wait()
        assert is_closed(side.connection)
        assert sorted(answer["id"] for answer in side.answers()) == [1, 2, 3]
        assert (side.errors, side.connection.close_reason) == ([], None)


async def test_when_the_input_ends_and_nothing_is_left_it_closes(steps: Steps) -> None:
    async with serving({"m": steps.handler}) as side:
        side.transport.end()
        await side.ended.wait()
        assert side.connection.is_closed


async def test_what_is_not_finished_within_the_grace_is_cancelled(steps: Steps) -> None:
    async with serving({"m": steps.handler}, limit=2, grace=0.01) as side:
        side.ask((1, "m"), (2, "m"), (3, "m"))
        side.transport.end()
        await side.ended.wait()
        assert side.connection.is_closed
        assert sorted(steps.log) == ["!1", "!2", "+1", "+2"]
        assert (side.transport.sent, side.errors) == ([], [])


async def test_a_handler_that_waits_for_the_peer_learns_that_no_answer_comes() -> None:
    async with serving(router := Router()) as side:

        async def handler(message: Request) -> str:
            try:
                await side.connection.send_request("back")
            except ConnectionClosedError as error:
                return str(error.outcome)
            raise AssertionError

        router.add("m", handler)
        side.ask((1, "m"))
        assert (await side.answer())["method"] == "back"
        side.ask((2, "m"))
        side.transport.end()
        await side.ended.wait()
        answers = {answer.get("id"): answer.get("result") for answer in side.answers()}
        assert (answers[1], answers[2]) == ("no-response", "not-sent")


@pytest.mark.parametrize("how", ["input", "output"])
async def test_when_the_connection_breaks_requests_are_cancelled_and_notifications_are_handled(
    steps: Steps, how: str
) -> None:
    error = TransportError("reset")
    async with serving({"m": steps.handler, "n": steps.handler}, limit=2) as side:
        side.ask((1, "m"), (2, "m"), (3, "m"))
        side.notify("n")
        await side.rest()
        (side.transport.end if how == "input" else side.transport.fail_output)(error)
        await side.rest()
        assert side.connection.is_closed
        assert steps.log[:2] == ["+1", "+2"]
        assert sorted(steps.log[2:]) == ["!1", "!2", "+n"]
        assert not side.ended.is_set()
        steps.let_go("n")
        await side.ended.wait()
        assert (side.errors, side.transport.sent) == ([error], [])


async def test_a_notification_that_is_being_handled_when_it_breaks_is_handled_to_its_end(steps: Steps) -> None:
    async with serving({"n": steps.handler}) as side:
        side.notify("n")
        await side.rest()
        side.transport.end(TransportError("reset"))
        await side.rest()
        assert steps.log == ["+n"]
        steps.let_go("n")
        await side.ended.wait()
        assert steps.log == ["+n", "-n"]


async def test_notifications_that_came_before_it_broke_have_a_grace_too(steps: Steps) -> None:
    async with serving({"n": steps.handler}, grace=0.01) as side:
        side.notify("n")
        await side.rest()
        side.transport.end(TransportError("reset"))
        await side.ended.wait()
        assert steps.log == ["+n", "!n"]


async def test_a_connection_that_breaks_while_it_drains(steps: Steps) -> None:
    async with serving({"m": steps.handler}) as side:
        side.ask((1, "m"))
        side.transport.end()
        await side.rest()
        side.transport.fail_output()
        await side.ended.wait()
        assert (steps.log, side.connection.is_closed) == (["+1", "!1"], True)


@pytest.mark.parametrize("draining", [False, True])
async def test_closing_it_ourselves_cancels_everything_at_once(steps: Steps, draining: bool) -> None:
    async with serving({"m": steps.handler, "n": steps.handler}, limit=2, grace=1000) as side:
        side.ask((1, "m"))
        side.notify("n")
        side.ask((2, "m"))
        await side.rest()
        if draining:
            side.transport.end()
            await side.rest()
        await side.connection.aclose()
        await side.ended.wait()
        assert sorted(steps.log) == ["!1", "!n", "+1", "+n"]
        assert side.errors == []


async def test_a_handler_may_close_the_connection(steps: Steps) -> None:
    async with serving(router := Router({"m": steps.handler})) as side:
        flushed = anyio.Event()
        aclose = side.transport.aclose

        async def slow_aclose() -> None:
            await checkpoint()
            await checkpoint()
            await aclose()
            flushed.set()

        side.transport.aclose = slow_aclose  # type: ignore[method-assign]

        async def shutdown(message: Request) -> None:
            await side.connection.send_response(message.id, "bye")
            await side.connection.aclose()

        router.add("shutdown", shutdown)
        side.ask((1, "m"), (2, "shutdown"))
        await side.ended.wait()
        # Its own task was cancelled meanwhile; what it sent is flushed all the same.
        await flushed.wait()
        assert side.answers() == [{"jsonrpc": "2.0", "id": 2, "result": "bye"}]
        assert (steps.log, side.errors) == (["+1", "!1"], [])


async def test_that_a_handler_could_not_finish_because_of_the_end_is_not_reported_again() -> None:
    error = TransportError("reset")
    async with serving(router := Router()) as side:

        async def handler(message: object) -> None:
            await side.connection.send_request("back")

        router.add("m", handler)
        router.add("n", handler)
        side.ask((1, "m"))
        side.notify("n")
        await side.rest()
        side.transport.end(error)
        await side.ended.wait()
        assert side.errors == [error]


async def test_serving_a_closed_connection_handles_the_notifications_that_are_left(steps: Steps) -> None:
    steps.let_go("n")
    async with McplConnection(transport := ScriptedTransport()) as connection:
        transport.feed({"jsonrpc": "2.0", "method": "n"}, Served._request(1, "m"))
        transport.end()
        await checkpoint()
        await checkpoint()
        assert is_closed(connection)
        with anyio.fail_after(5):
            await connection.serve({"n": steps.handler, "m": steps.handler})
        assert (steps.log, transport.sent) == (["+n", "-n"], [])


async def test_after_our_output_ended_requests_are_handled_and_not_answered() -> None:
    handled: list[str] = []
    async with serving({"m": lambda message: handled.append(message.method)}) as side:
        await side.connection.send_eof()
        side.ask((1, "m"))
        await side.rest()
        assert (handled, side.transport.sent, side.errors) == (["m"], [], [])
        side.transport.end()
        await side.ended.wait()
