"""One call: the order of the checks, the deadline, every code, and no word of the peer anywhere."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import anyio
import pytest

from mcpl_core.catalog import CatalogLimits, CatalogMonitor, PeerFailure
from mcpl_core.catalog.calls import Course, ask, perform
from mcpl_core.catalog.errors import CALL_CODES
from mcpl_core.catalog.outcomes import CallOutcome
from tests.catalog.kit import (
    CALLER,
    CANARY,
    FIXTURES,
    OUTPUT,
    ManualTimer,
    ScriptedPeer,
    read,
    read_binding,
    text_result,
    tool,
)

pytestmark = pytest.mark.anyio
Json = dict[str, Any]


@pytest.mark.spec("R-catalog-9")
@pytest.mark.parametrize("case", FIXTURES["calls"], ids=lambda case: str(case["name"]))
async def test_fixture(case: Json, caplog: pytest.LogCaptureFixture) -> None:
    members = {"outputSchema": FIXTURES["output"]} if case.get("output") else {}
    result = case.get("result", text_result(*["x"] * case.get("repeat", 0)))
    peer = ScriptedPeer([tool(inputSchema=FIXTURES["input"], **members)], result=result)
    _, registration = await read(peer)
    with caplog.at_level(logging.DEBUG):
        outcome = await registration.call(case["arguments"], CALLER)
    assert outcome.error_code == case.get("code")
    assert len(peer.calls) == (1 if case.get("sent", True) else 0)
    assert outcome.effect == "not_started"
    if "code" in case:
        assert outcome.envelope() == {"text": [], "structured": None}
        assert CANARY not in repr(outcome) + outcome.to_text() + caplog.text
    elif "text" in case:
        assert outcome.envelope() == {"text": case["text"], "structured": case["structured"]}


async def test_what_is_sent_is_what_was_checked() -> None:
    arguments: Json = {"q": "x", "n": 1.0}

    def scope(context: Any, given: Json) -> None:
        given["q"] = "longer than allowed"
        given["extra"] = 1
        arguments["q"] = "also longer"

    peer = ScriptedPeer()
    _, registration = await read(peer, read_binding(scope=scope))
    assert (await registration.call(arguments, CALLER)).ok
    assert peer.calls == [{"name": "remote.search", "arguments": {"q": "x", "n": 1}}]


async def test_arguments_at_the_limit_of_bytes() -> None:
    schema = {"type": "object"}
    peer = ScriptedPeer([tool(inputSchema=schema)])
    _, registration = await read(peer)
    # {"q":"..."} is eight bytes and the text.
    assert (await registration.call({"q": "x" * (65_536 - 8)}, CALLER)).ok
    assert (await registration.call({"q": "x" * (65_536 - 7)}, CALLER)).error_code == "mcp_invalid_arguments"
    assert len(peer.calls) == 1


@pytest.mark.parametrize("arguments", [None, "q", 7, {"q": object()}, {1: 2}, {"q": "\ud800"}, {"q": float("nan")}])
async def test_arguments_that_are_no_json(arguments: Any) -> None:
    peer = ScriptedPeer()
    _, registration = await read(peer)
    assert (await registration.call(arguments, CALLER)).error_code == "mcp_invalid_arguments"
    assert peer.calls == []


class Steps:
    """The order in which a call looks at things."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def scope(self, context: Any, arguments: Json) -> bool:
        self.seen.append("scope")
        return False


async def test_the_catalog_is_looked_at_before_the_arguments_and_those_before_the_scope() -> None:
    steps, monitor = Steps(), CatalogMonitor()
    peer = ScriptedPeer()
    peer.watch(monitor)
    _, registration = await read(peer, read_binding(scope=steps.scope), monitor=monitor)
    assert (await registration.call({}, CALLER)).error_code == "mcp_invalid_arguments"
    assert steps.seen == []
    assert (await registration.call({"q": "x"}, CALLER)).error_code == "mcp_scope_denied"
    assert steps.seen == ["scope"]
    monitor.list_changed()
    assert (await registration.call({}, CALLER)).error_code == "mcp_catalog_stale"
    monitor.close()
    assert (await registration.call({}, CALLER)).error_code == "mcp_connection_closed"
    assert peer.calls == []


@pytest.mark.parametrize(("event", "code"), [("list_changed", "mcp_catalog_stale"), ("close", "mcp_connection_closed")])
@pytest.mark.parametrize("when", ["scope", "request"])
async def test_what_changes_meanwhile(event: str, code: str, when: str) -> None:
    monitor = CatalogMonitor()

    def happens(*given: Any) -> Any:
        getattr(monitor, event)()
        return text_result(CANARY) if not given else None

    peer = ScriptedPeer(result=happens if when == "request" else None)
    peer.watch(monitor)
    _, registration = await read(peer, read_binding(scope=happens if when == "scope" else None), monitor=monitor)
    outcome = await registration.call({"q": "x"}, CALLER)
    assert outcome == CallOutcome(error_code=code, effect="not_started")  # type: ignore[arg-type]
    assert len(peer.calls) == (1 if when == "request" else 0)


async def test_a_cancelled_caller_sends_nothing_after_the_scope() -> None:
    with anyio.CancelScope() as cancelled:

        def scope(context: Any, arguments: Json) -> None:
            cancelled.cancel()

        peer = ScriptedPeer()
        _, registration = await read(peer, read_binding(scope=scope))
        await registration.call({"q": "x"}, CALLER)
    assert cancelled.cancelled_caught
    assert peer.calls == []


async def test_the_deadline_to_the_millisecond() -> None:
    """A peer that never answers, and one that answers just in time."""
    timer, answer = ManualTimer(), anyio.Event()

    async def wait() -> Json:
        await answer.wait()
        return text_result("late")

    outcomes: list[CallOutcome] = []

    async def call(registration: Any) -> None:
        outcomes.append(await registration.call({"q": "x"}, CALLER))

    peer = ScriptedPeer(result=wait)
    _, registration = await read(peer, timer=timer)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, registration)
            await anyio.wait_all_tasks_blocked()
            timer.advance(29.999)
            await anyio.wait_all_tasks_blocked()
            assert outcomes == []
            timer.advance(0.001)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, registration)
            await anyio.wait_all_tasks_blocked()
            timer.advance(29.999)
            answer.set()
    assert [(outcome.error_code, outcome.text) for outcome in outcomes] == [("mcp_timeout", ()), (None, ("late",))]
    assert len(peer.calls) == 2


async def test_the_deadline_is_the_limit_of_the_catalog() -> None:
    seen: list[float] = []

    def timer(seconds: float) -> anyio.CancelScope:
        seen.append(seconds)
        return anyio.CancelScope()

    _, registration = await read(ScriptedPeer(), limits=CatalogLimits(timeout_ms=1), timer=timer)
    await registration.call({"q": "x"}, CALLER)
    assert seen == [0.001, 0.001]


class Hostile(Exception):
    """An exception of a session that says what the peer said."""

    def __init__(self) -> None:
        super().__init__(CANARY)
        self.__notes__ = [CANARY]


def rude() -> Any:
    raise Hostile from ValueError(CANARY)


async def scripted(code: str, monitor: CatalogMonitor) -> tuple[Any, Any, Any]:
    """A peer, a scope and arguments with which a call comes to ``code``."""
    block = {"type": "image", "data": CANARY, "mimeType": "x/y"}

    def stale() -> Json:
        monitor.list_changed()
        return text_result(CANARY)

    results: dict[str, Any] = {
        "mcp_catalog_stale": stale,
        "mcp_connection_closed": PeerFailure("mcp_connection_closed", submitted=False),
        "mcp_protocol_error": PeerFailure("mcp_protocol_error"),
        "mcp_result_invalid": {"content": CANARY},
        "mcp_result_too_large": text_result(CANARY * 10_000),
        "mcp_result_unsupported": {"content": [block]},
        "mcp_timeout": PeerFailure("mcp_timeout"),
        "mcp_tool_error": text_result(CANARY, isError=True),
        "mcp_tools_unavailable": PeerFailure("mcp_tools_unavailable", submitted=False),
        "mcp_transport_error": rude,
    }
    scope = (lambda context, arguments: CANARY) if code == "mcp_scope_denied" else None
    arguments = {"q": "x", CANARY: 1} if code == "mcp_invalid_arguments" else {"q": "x"}
    return results.get(code), scope, arguments


#: Codes that no read comes back with: a catalog is never without a version, and a cancelled read just ends.
NOT_OF_READS = {"mcp_not_initialized", "mcp_canceled"}


@pytest.mark.parametrize("code", sorted(CALL_CODES - NOT_OF_READS))
async def test_every_code_is_returned_and_nothing_of_the_peer_with_it(
    code: str, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = CatalogMonitor()
    result, scope, arguments = await scripted(code, monitor)
    peer = ScriptedPeer([tool(outputSchema=OUTPUT) if code == "mcp_result_invalid" else tool()], result=result)
    peer.watch(monitor)
    with caplog.at_level(logging.DEBUG):
        _, registration = await read(peer, read_binding(scope=scope), monitor=monitor)
        outcome = await registration.call(arguments, CALLER)
    assert outcome == CallOutcome(error_code=code, effect="not_started")  # type: ignore[arg-type]
    assert outcome.envelope() == {"text": [], "structured": None}
    assert CANARY not in repr(outcome) + caplog.text + repr(registration)
    # Nothing is tried twice, and nothing is listed anew.
    assert len(peer.calls) <= 1
    assert [method for method, _ in peer.sent].count("tools/list") == 1


async def test_what_a_peer_raises_gets_no_further(caplog: pytest.LogCaptureFixture) -> None:
    peer = ScriptedPeer(result=rude)
    _, registration = await read(peer)
    assert repr(registration._tool) == "<BoundTool remote.search>"
    try:
        outcome = await registration.call({"q": "x"}, CALLER)
        assert outcome.error_code == "mcp_transport_error"
        # Its type is in the log, for whoever wrote that peer.
        assert "Hostile" in caplog.text and CANARY not in caplog.text
        raise RuntimeError("of our own")
    except RuntimeError as exc:
        assert CANARY not in "".join(traceback.format_exception(exc))


async def test_how_far_a_call_came() -> None:
    """What a gate needs to know when a call is cut off."""
    limits, course, sent = CatalogLimits(), Course(), []
    peer = ScriptedPeer(result=PeerFailure("mcp_connection_closed", submitted=False))
    _, registration = await read(peer)
    for failure in (peer.result, PeerFailure("mcp_timeout"), PeerFailure("mcp_protocol_error")):
        peer.result = failure
        assert await perform(registration._tool, {"q": "x"}, CALLER, course) == failure.code
        sent.append(course.submitted)
    assert sent == [False, True, True]
    peer.result = rude
    assert await ask(peer, "tools/call", {}, limits, anyio.move_on_after) == PeerFailure("mcp_transport_error")
