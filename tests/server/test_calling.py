"""Calling the application's functions: where they run, and what becomes of their failures."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from mcpl_core import CapabilityDenied, ConnectionClosedError, ConnectionTimeoutError, InvalidParams, InvalidValueError
from mcpl_core.protocol import ToolsCallParams
from mcpl_core.server import Context, ServerTool, ToolError, tool_from_function
from mcpl_core.server.calling import ArgumentCheck, Caller

pytestmark = pytest.mark.anyio
CTX = cast("Context", object())
VAR: ContextVar[str] = ContextVar("VAR", default="unset")


class Async:
    async def __call__(self) -> int:
        return threading.get_ident()


async def coroutine() -> int:
    return threading.get_ident()


def plain() -> int:
    return threading.get_ident()


def disguised() -> Any:
    return coroutine()


@pytest.mark.parametrize("function", [coroutine, partial(coroutine), Async(), partial(partial(Async()))])
async def test_a_coroutine_runs_in_the_event_loop(function: Any) -> None:
    assert await Caller(1).call(function) == threading.get_ident()


async def test_a_plain_function_runs_in_a_thread() -> None:
    assert await Caller(1).call(plain) != threading.get_ident()


async def test_what_a_plain_function_returns_is_awaited_in_the_event_loop() -> None:
    assert await Caller(1).call(disguised) == threading.get_ident()


async def test_arguments_and_context_variables_arrive() -> None:
    def function(a: int, *, b: int) -> tuple[int, int, str]:
        return a, b, VAR.get()

    VAR.set("set")
    assert await Caller(1).call(function, 1, b=2) == (1, 2, "set")


async def test_no_more_threads_than_the_limit() -> None:
    caller = Caller(2)
    running, most, lock = 0, 0, threading.Lock()
    release = threading.Event()
    both = threading.Barrier(2)

    def function() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            first = most == 2 and running == 2
        if not release.is_set():
            both.wait()
        if first:
            release.set()
        with lock:
            running -= 1

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(caller.call, function)
    assert most == 2


async def test_a_cancelled_call_does_not_wait_for_its_thread() -> None:
    caller, release, begun = Caller(1), threading.Event(), anyio.Event()

    def function() -> None:
        anyio.from_thread.run_sync(begun.set)
        release.wait()

    with anyio.fail_after(5):
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(caller.call, function)
                await begun.wait()
                tasks.cancel_scope.cancel()
        finally:
            release.set()


async def test_threads_that_do_not_end_are_counted_and_further_calls_fail() -> None:
    caller, release = Caller(1), threading.Event()

    async def give_up() -> None:
        begun = anyio.Event()

        def function() -> None:
            anyio.from_thread.run_sync(begun.set)
            release.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, function)
            await begun.wait()
            tasks.cancel_scope.cancel()

    with anyio.fail_after(5):
        try:
            await give_up()
            with pytest.raises(RuntimeError):
                await caller.call(plain)
        finally:
            release.set()
        while caller._given_up:
            await anyio.lowlevel.checkpoint()
        # What held them is gone, and so is the refusal.
        assert await caller.call(plain) != threading.get_ident()


async def exits() -> None:
    raise SystemExit(3)


def exits_in_a_thread() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("function", [exits, exits_in_a_thread])
async def test_no_function_ends_the_process(function: Any) -> None:
    with pytest.raises(RuntimeError) as caught:
        await Caller(1).call(function)
    assert isinstance(caught.value.__cause__, SystemExit)


class Odd(BaseException):
    """What no application should raise, and some do."""


def odd_in_a_thread() -> None:
    raise Odd


async def odd_in_a_group() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(odd)


async def odd() -> None:
    raise Odd


@pytest.mark.parametrize("function", [odd, odd_in_a_thread, odd_in_a_group])
async def test_what_is_no_exception_ends_nothing_but_the_call(function: Any) -> None:
    with pytest.raises(RuntimeError):
        await Caller(1).call(function)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
async def test_what_is_not_the_applications_goes_on(kind: type[BaseException]) -> None:
    async def function() -> None:
        raise kind

    async def among_others() -> None:
        raise BaseExceptionGroup("several", [kind(), Odd()])

    with pytest.raises(kind):
        await Caller(1).call(function)
    with pytest.raises(BaseExceptionGroup) as caught:
        await Caller(1).call(among_others)
    assert [type(each) for each in caught.value.exceptions] == [kind]


async def test_the_end_of_a_generator_in_a_thread_is_the_functions_own() -> None:
    def function() -> None:
        raise GeneratorExit

    with pytest.raises(RuntimeError):
        await Caller(1).call(function)


async def test_a_cancellation_goes_on() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await Caller(1).call(anyio.sleep_forever)
    assert scope.cancelled_caught


async def test_a_function_raises_what_it_raises() -> None:
    def function() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await Caller(1).call(function)


def test_one_caller_serves_event_loop_after_event_loop() -> None:
    caller = Caller(1)
    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(caller.call, plain, backend=backend)


# -- tools


async def called(
    function: Callable[..., Any] | ServerTool, arguments: Any = None, validate: ArgumentCheck | None = None
) -> tuple[dict[str, Any], list[BaseException]]:
    reported: list[BaseException] = []
    tool = function if isinstance(function, ServerTool) else tool_from_function(function, name="t")
    params = ToolsCallParams(name="t", arguments=arguments or {})
    raw = await Caller(1).call_tool(tool, params, CTX, validate, reported.append)
    return json.loads(bytes(raw)), reported


async def test_a_result() -> None:
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert await called(add, {"a": 1}) == (
        {"content": [{"type": "text", "text": "2"}], "structuredContent": {"result": 2}},
        [],
    )


@pytest.mark.parametrize("arguments", [{}, {"a": "x"}])
async def test_bad_arguments_are_an_error_that_the_model_reads(arguments: Any) -> None:
    def function(a: int) -> None:
        raise AssertionError("not called")

    result, reported = await called(function, arguments)
    assert result["isError"] is True
    assert reported == []


def failing(exc: BaseException) -> Callable[[], Any]:
    async def function() -> None:
        raise exc

    return function


@pytest.mark.parametrize(
    ("exc", "in_text", "reported"),
    [
        (ToolError("no luck"), "no luck", False),
        (ValueError("boom"), "boom", True),
        (KeyError(), "failed", True),
        (InvalidValueError("tag", "bad"), "bad", True),
        (InvalidParams(message="mine"), "mine", False),
        (CapabilityDenied(data={"capability": "pushEvents"}), "pushEvents", False),
        (ConnectionTimeoutError("push/event", 3), "push/event", False),
        (ConnectionClosedError("no-response"), "closed", False),
        (SystemExit(1), "failed", True),
        (ExceptionGroup("many", [ValueError("one")]), "many", True),
    ],
)
async def test_what_a_tool_raises_is_an_error_that_the_model_reads(
    exc: BaseException, in_text: str, reported: bool
) -> None:
    result, reports = await called(failing(exc))
    assert result["isError"] is True
    assert in_text in result["content"][0]["text"]
    assert "Traceback" not in result["content"][0]["text"]
    assert bool(reports) is reported


@pytest.mark.parametrize("value", [object(), float("inf"), {1: object()}])
async def test_a_result_that_cannot_be_sent_is_an_error(value: Any) -> None:
    result, reported = await called(lambda: value)
    assert result["isError"] is True
    assert len(reported) == 1


async def test_a_result_that_was_not_promised_is_an_error() -> None:
    def function() -> int:
        return "x"  # type: ignore[return-value]

    result, reported = await called(function)
    assert (result["isError"], len(reported)) == (True, 1)
    assert "structuredContent" not in result


@pytest.mark.parametrize(
    ("exc", "reported"), [(InvalidValueError("a", "b", "$.x"), 0), (ToolError("no"), 0), (RuntimeError("bug"), 1)]
)
async def test_the_applications_own_check_goes_first(exc: Exception, reported: int) -> None:
    def validate(tool: ServerTool, arguments: dict[str, Any]) -> None:
        assert (tool.name, arguments) == ("t", {"x": 1})
        raise exc

    def function(ctx: Context, arguments: dict[str, Any]) -> None:
        raise AssertionError("not called")

    tool = tool_from_function(function, name="t", input_schema={"type": "object"})
    result, reports = await called(tool, {"x": 1}, validate)
    assert (result["isError"], len(reports)) == (True, reported)


async def test_plain_functions_run_at_most_so_many_at_once() -> None:
    caller = Caller(2)
    release = threading.Event()
    two = anyio.Event()
    running: list[int] = []
    most: list[int] = []

    def work() -> None:
        running.append(1)
        most.append(len(running))
        if len(running) == 2:
            anyio.from_thread.run_sync(two.set)
        release.wait(20)
        running.pop()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(caller.call, work)
            await two.wait()
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            assert len(running) == 2
            release.set()
    assert (len(most), max(most)) == (6, 2)


async def test_a_task_that_was_cancelled_is_a_failure_of_who_waits_for_it() -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        pytest.skip("of asyncio alone")
    task = loop.create_task(anyio.sleep_forever())
    task.cancel()

    async def waits() -> None:
        await task

    with pytest.raises(RuntimeError) as caught:
        await Caller(1).call(waits)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
