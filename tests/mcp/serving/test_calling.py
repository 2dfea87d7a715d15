"""From a call to its result, whatever happens on the way."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpl_core import text_content
from mcpl_core.errors import LocalProtocolError, UnencodableError
from mcpl_core.mcp.serving import Ask, Deny, Failed, ServedTool, ToolCall, function_tool
from mcpl_core.mcp.serving.call import call_here
from mcpl_core.mcp.serving.calling import MAX_ERROR_TEXT, CallRunner, contained, unknown_tool
from mcpl_core.mcp.serving.middleware import MiddlewareChain
from mcpl_core.server.calling import Caller
from mcpl_core.server.results import ToolError, ToolResult
from tests.mcp.serving.clients import LIMIT, runner

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def returning(value: Any, **more: Any) -> ServedTool:
    return ServedTool("t", lambda arguments, call: value, **more)


def raising(error: BaseException) -> ServedTool:
    def run(arguments: Any, call: ToolCall) -> Any:
        raise error

    return ServedTool("t", run)


async def result(tool: Any, *links: Any, arguments: Any = None, **options: Any) -> Json:
    made: Json = json.loads(bytes(await runner(*links, **options).run(ToolCall(tool, arguments))))
    return made


def text_of(made: Json) -> str:
    (block,) = made["content"]
    text: str = block["text"]
    return text


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ("as it is\n", "as it is\n", None),
        (None, "", None),
        ({"a": [1, None]}, '{"a":[1,null]}', {"a": [1, None]}),
        ([1, 2], "[1,2]", {"result": [1, 2]}),
        (True, "true", {"result": True}),
        (1.5, "1.5", {"result": 1.5}),
        ("", "", None),
    ],
)
@pytest.mark.spec("R-mcpserve-8")
async def test_what_a_tool_returns_becomes_content(value: Any, text: str, structured: Any) -> None:
    made = await result(returning(value))
    assert made["content"] == [{"type": "text", "text": text}]
    assert made.get("structuredContent") == structured
    assert "isError" not in made


async def test_content_blocks_and_whole_results_stay_as_they_are() -> None:
    assert (await result(returning([text_content("a"), text_content("b")])))["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    whole = await result(returning(ToolResult("x", structured={"a": 1}, is_error=True, meta={"m": 1})))
    assert whole == {
        "content": [{"type": "text", "text": "x"}],
        "structuredContent": {"a": 1},
        "isError": True,
        "_meta": {"m": 1},
    }


async def test_an_output_schema_has_structured_content() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert (await result(returning({"a": 1}, output_schema=schema)))["structuredContent"] == {"a": 1}
    assert (await result(returning([1], output_schema=schema)))["isError"] is True

    def typed() -> list[int]:
        return [1]

    assert (await result(function_tool(typed)))["structuredContent"] == {"result": [1]}


@pytest.mark.parametrize("arguments", [None, {}, [1, 2], 7, "text", {"a": {"b": None}}])
async def test_arguments_reach_the_tool_unchanged(arguments: Any) -> None:
    seen: list[Any] = []
    await result(ServedTool("t", lambda given, call: seen.append(given)), arguments=arguments)
    assert seen == [arguments]


async def test_a_tool_that_raises_says_why_and_is_reported() -> None:
    reports: list[BaseException] = []
    error = ValueError("no luck")
    made = await result(raising(error), reports=reports)
    assert (made["isError"], text_of(made)) == (True, "t failed: no luck")
    assert reports == [error]
    assert text_of(await result(raising(KeyError()))) == "t failed (KeyError)"
    assert text_of(await result(raising(ToolError("for the model")), reports=reports)) == "for the model"
    assert len(reports) == 1
    assert text_of(await result(raising(SystemExit(3)))).startswith("t failed")


@pytest.mark.spec("R-mcpserve-7")
async def test_what_the_caller_reads_of_a_failure_is_bounded() -> None:
    text = text_of(await result(raising(ValueError("x" * 10_000))))
    assert len(text) == MAX_ERROR_TEXT


async def test_a_result_without_a_json_form_is_an_error_and_no_crash() -> None:
    circular: list[Any] = []
    circular.append(circular)
    for value in (circular, object(), float("inf"), {"a": {1, 2}} | {"b": object()}):
        reports: list[BaseException] = []
        made = await result(returning(value), reports=reports)
        assert made["isError"] is True
        assert len(reports) == 1


def test_an_unknown_tool_is_answered_with_those_that_there_are() -> None:
    made = json.loads(bytes(unknown_tool("nope", ["a", "b"])))
    assert made["isError"] is True
    assert "'nope'" in text_of(made)
    assert "a, b" in text_of(made)
    many = text_of(json.loads(bytes(unknown_tool("x" * 5_000, [f"t{index}" for index in range(150)]))))
    assert "and 50 more" in many
    assert len(many) <= MAX_ERROR_TEXT
    assert "none" in text_of(json.loads(bytes(unknown_tool("a", []))))


async def test_the_order_is_middleware_credentials_tool_middleware_cleanups() -> None:
    log: list[str] = []

    class Link:
        name = "link"

        def before(self, call: ToolCall) -> None:
            log.append(f"before {dict(call.credentials)}")

        def after(self, call: ToolCall, outcome: Any) -> None:
            log.append(f"after {outcome}")

    async def provider(request: Any) -> str:
        log.append(f"credential {request.service}")
        return "key"

    async def cleanup() -> None:
        log.append("cleanup 1")

    def run(arguments: Any, call: ToolCall) -> str:
        call.on_cleanup(cleanup)
        call.on_cleanup(lambda: log.append("cleanup 2"))
        log.append(f"tool {dict(call.credentials)}")
        return "done"

    await result(ServedTool("t", run, needs=("mail",)), Link(), credentials=provider)
    assert log == [
        "before {}",
        "credential mail",
        "tool {'mail': 'key'}",
        "after done",
        "cleanup 2",
        "cleanup 1",
    ]


async def test_after_links_hear_only_of_calls_that_ran() -> None:
    heard: list[Any] = []

    class Listening:
        def after(self, call: ToolCall, outcome: Any) -> None:
            heard.append(outcome)

    def deny(call: ToolCall) -> Deny:
        return Deny()

    async def provider(request: Any) -> None:
        return None

    assert (await result(returning("x"), Listening(), deny))["isError"] is True
    assert (await result(returning("x", needs=("mail",)), Listening(), credentials=provider))["isError"] is True
    assert heard == []
    error = ValueError("no")
    await result(raising(error), Listening())
    assert heard == [Failed(error)]


async def test_a_withheld_result_is_an_error() -> None:
    class Withholding:
        name = "w"

        def after(self, call: ToolCall, outcome: Any) -> Any:
            return Deny("private")

    assert text_of(await result(returning("CANARY"), Withholding())) == "the result of t was withheld by w: private"


async def test_a_tool_without_its_credentials_or_that_wants_consent_does_not_run() -> None:
    ran: list[Any] = []
    for more in ({"needs": ("mail",)}, {"requires_consent": True}):
        tool = ServedTool("t", lambda arguments, call: ran.append(call), **more)
        assert (await result(tool))["isError"] is True
    assert ran == []


@pytest.mark.spec("R-mcpserve-13")
async def test_cleanups_run_when_the_tool_failed_and_none_costs_the_others() -> None:
    log: list[str] = []
    reports: list[BaseException] = []

    def broken() -> None:
        raise ValueError("broken")

    def run(arguments: Any, call: ToolCall) -> str:
        call.on_cleanup(lambda: log.append("first"))
        call.on_cleanup(broken)
        raise KeyError("no")

    assert (await result(ServedTool("t", run), reports=reports))["isError"] is True
    assert log == ["first"]
    assert [type(report) for report in reports] == [KeyError, ValueError]


async def test_a_cancelled_call_cleans_up_and_its_tool_knows() -> None:
    log: list[str] = []
    began = anyio.Event()

    async def cleanup() -> None:
        await anyio.lowlevel.checkpoint()
        log.append("cleanup")

    async def run(arguments: Any, call: ToolCall) -> None:
        call.on_cleanup(cleanup)
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            log.append("cancelled")

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner().run, ToolCall(ServedTool("t", run)))
            await began.wait()
            tasks.cancel_scope.cancel()
    assert log == ["cancelled", "cleanup"]


async def test_when_the_call_is_over_its_credentials_are_gone() -> None:
    kept: list[ToolCall] = []
    returned: list[Any] = []

    def run(arguments: Any, call: ToolCall) -> None:
        kept.append(call)
        call.on_cleanup(lambda: returned.append(dict(call.credentials)))

    async def provider(request: Any) -> str:
        return "key"

    await result(ServedTool("t", run, needs=("mail",)), credentials=provider)
    assert returned == [{"mail": "key"}]
    assert kept[0].credentials == {}


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_what_a_tool_awaited_and_was_cancelled_is_a_failure_of_the_tool(anyio_backend: Any) -> None:
    async def run(arguments: Any, call: ToolCall) -> None:
        given_up = asyncio.ensure_future(asyncio.Event().wait())
        given_up.cancel()
        await given_up

    async def guard(call: ToolCall) -> None:
        raise asyncio.CancelledError

    assert (await result(ServedTool("t", run)))["isError"] is True
    assert "guard" in text_of(await result(returning("x"), guard))


@pytest.mark.parametrize(
    "error", [GeneratorExit(), SystemExit(3), BaseExceptionGroup("two", [SystemExit(), GeneratorExit()])]
)
async def test_what_is_no_exception_ends_the_call_and_nothing_else(error: BaseException) -> None:
    async def run(arguments: Any, call: ToolCall) -> None:
        raise error

    for tool in (raising(error), ServedTool("t", run)):
        reports: list[BaseException] = []
        made = await result(tool, reports=reports)
        assert made["isError"] is True
        assert type(error).__name__ in text_of(made)
        assert type(reports[0].__cause__) is type(error)


async def test_the_wish_to_end_the_process_goes_on() -> None:
    for error in (KeyboardInterrupt(), BaseExceptionGroup("two", [KeyboardInterrupt(), SystemExit()])):
        with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
            await result(raising(error))


def test_a_coroutine_that_is_closed_from_outside_ends() -> None:
    class Never:
        def __await__(self) -> Any:
            yield

    async def run() -> None:
        await Never()

    closed: list[str] = []

    async def watched() -> None:
        try:
            await contained(call_here, run)
        finally:
            closed.append("closed")

    coroutine = watched()
    coroutine.send(None)
    coroutine.close()
    assert closed == ["closed"]


async def test_an_error_without_a_text_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("CANARY")

    tool = raising(Mute())
    assert text_of(await result(tool)) == "t failed (Mute)"
    made = json.loads(bytes(await CallRunner(MiddlewareChain(), Caller(1)).run(ToolCall(tool))))
    assert text_of(made) == "t failed (Mute)"
    assert [record.getMessage() for record in caplog.records] == ["Mute: "]


async def test_a_tool_whose_attributes_raise_has_failed_calls() -> None:
    class Broken:
        name = "broken"

        def __init__(self, attribute: str) -> None:
            self.attribute = attribute

        def execute(self, arguments: Any, call: ToolCall) -> str:
            return "x"

        def __getattr__(self, name: str) -> Any:
            if name == self.attribute:
                raise ValueError("CANARY")
            raise AttributeError(name)

    for attribute in ("needs", "requires_consent", "output_schema", "promised"):
        reports: list[BaseException] = []
        tool: Any = Broken(attribute)
        made = await result(tool, reports=reports)
        assert (made["isError"], text_of(made)) == (True, "the call failed")
        assert [type(report) for report in reports] == [ValueError]


async def test_a_result_that_wants_to_ask_is_none() -> None:
    class Asking:
        name = "asking"

        def after(self, call: ToolCall, outcome: Any) -> Any:
            return Ask("CANARY")

    for made in (await result(returning(Ask("CANARY"))), await result(returning("x"), Asking())):
        assert made["isError"] is True
        assert "nobody to ask" in text_of(made)
        assert "CANARY" not in json.dumps(made)


async def test_meta_that_is_no_object_cannot_be_sent() -> None:
    made = await result(returning(ToolResult("x", meta=[1])))  # type: ignore[arg-type]
    assert made["isError"] is True
    assert "_meta" in text_of(made)


async def test_a_result_that_no_connection_would_carry_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.mcp.serving.calling.MAX_RESULT_BYTES", 1_000)
    assert "isError" not in await result(returning("x" * 900))
    reports: list[BaseException] = []
    made = await result(returning("x" * 1_000), reports=reports)
    assert made["isError"] is True
    assert "more than 1000" in text_of(made)
    assert [type(report) for report in reports] == [UnencodableError]


async def test_a_cleanup_may_leave_another_and_after_the_last_there_is_none() -> None:
    log: list[str] = []
    kept: list[ToolCall] = []

    def run(arguments: Any, call: ToolCall) -> None:
        def first() -> None:
            log.append("first")
            call.on_cleanup(lambda: log.append("second"))

        kept.append(call)
        call.on_cleanup(first)

    await result(ServedTool("t", run))
    assert log == ["first", "second"]
    with pytest.raises(LocalProtocolError):
        kept[0].on_cleanup(lambda: log.append("third"))


async def test_a_cleanup_that_does_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.mcp.serving.calling._CLEANUP_TIMEOUT", 0)

    async def run(arguments: Any, call: ToolCall) -> str:
        call.on_cleanup(anyio.sleep_forever)
        return "done"

    with anyio.fail_after(LIMIT):
        assert text_of(await result(ServedTool("t", run))) == "done"


async def test_a_plain_function_runs_beside_the_event_loop() -> None:
    import threading

    here = threading.get_ident()
    seen: list[int] = []
    await result(ServedTool("t", lambda arguments, call: seen.append(threading.get_ident())))
    assert seen != [here]


async def test_the_object_itself_runs_with_what_it_is_wrapped_in() -> None:
    class Counted:
        name = "counted"
        count = 0

        def execute(self, arguments: Any, call: ToolCall) -> str:
            assert call.tool is self
            self.count += 1
            return "x"

    tool = Counted()
    await result(tool)
    inner = tool.execute
    tool.execute = lambda arguments, call: inner(arguments, call).upper()  # type: ignore[method-assign]
    assert text_of(await result(tool)) == "X"
    assert tool.count == 2
