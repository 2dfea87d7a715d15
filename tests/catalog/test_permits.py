"""The permit: one dispatch of one call, and what is known of its effect."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path
from typing import Any

import anyio
import pytest

import mcpl_core
from mcpl_core.catalog import CatalogError, CatalogMonitor, GateRequiredError, PeerFailure, WriteRegistration
from mcpl_core.catalog.outcomes import CallOutcome
from mcpl_core.catalog.permits import WritePermit, dispatch_write, mint_permit
from tests.catalog.kit import (
    CALLER,
    CANARY,
    OUTPUT,
    ManualTimer,
    ScriptedPeer,
    read,
    text_result,
    tool,
    write,
    write_binding,
)

pytestmark = pytest.mark.anyio
ARGUMENTS: dict[str, Any] = {"q": "x"}


async def dispatched(peer: ScriptedPeer, registration: WriteRegistration) -> CallOutcome:
    permit = mint_permit(registration, ARGUMENTS, "claim-1")
    outcome = await dispatch_write(permit, registration, ARGUMENTS, CALLER)
    assert permit.outcome is outcome
    return outcome


def refused(attempt: Any) -> str:
    with pytest.raises(GateRequiredError) as caught:
        attempt()
    return caught.value.reason


@pytest.mark.spec("R-catalog-7")
def test_only_the_approval_gate_imports_it() -> None:
    root = Path(mcpl_core.__file__).parent
    importers = set()
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "permits" in text else ():
            if isinstance(node, ast.ImportFrom) and "permits" in {
                *(node.module or "").split("."),
                *(alias.name for alias in node.names),
            }:
                importers.add(path.relative_to(root).parts[0])
    assert importers <= {"approvals"}
    assert not {"WritePermit", "mint_permit", "dispatch_write"} & set(mcpl_core.catalog.__all__)


async def test_a_committed_write() -> None:
    peer = ScriptedPeer([tool(outputSchema=OUTPUT)], result=text_result("done", structuredContent={"count": 1}))
    _, registration = await write(peer)
    outcome = await dispatched(peer, registration)
    assert (outcome.effect, outcome.error_code, outcome.text) == ("committed", None, ("done",))
    assert peer.calls == [{"name": "remote.search", "arguments": ARGUMENTS}]


@pytest.mark.spec("R-catalog-7")
async def test_a_permit_is_good_once() -> None:
    peer = ScriptedPeer()
    _, registration = await write(peer)
    permit = mint_permit(registration, ARGUMENTS, "claim-1")
    assert (permit.claim, permit.outcome) == ("claim-1", None)
    await dispatch_write(permit, registration, ARGUMENTS, CALLER)
    for _ in range(2):
        with pytest.raises(GateRequiredError) as caught:
            await dispatch_write(permit, registration, ARGUMENTS, CALLER)
        assert caught.value.reason == "spent"
    assert len(peer.calls) == 1


@pytest.mark.spec("R-catalog-7")
async def test_two_dispatches_at_once_are_one() -> None:
    peer = ScriptedPeer()
    _, registration = await write(peer)
    permit = mint_permit(registration, ARGUMENTS, "claim-1")
    reasons: list[str] = []

    async def race() -> None:
        try:
            await dispatch_write(permit, registration, ARGUMENTS, CALLER)
        except GateRequiredError as exc:
            reasons.append(exc.reason)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(race)
    assert (reasons, len(peer.calls)) == (["spent", "spent"], 1)


@pytest.mark.spec("R-catalog-7")
async def test_a_permit_is_for_one_call_alone() -> None:
    peer = ScriptedPeer([tool(), tool("remote.other")])
    _, registration = await write(peer)
    _, twin = await write(peer)
    for other, arguments in ((twin, ARGUMENTS), (registration, {"q": "y"}), (registration, {"q": "toolong"})):
        permit = mint_permit(registration, ARGUMENTS, "claim-1")
        with pytest.raises(GateRequiredError) as caught:
            await dispatch_write(permit, other, arguments, CALLER)
        assert caught.value.reason == "other_call"
        with pytest.raises(GateRequiredError) as caught:
            await dispatch_write(permit, registration, ARGUMENTS, CALLER)
        assert caught.value.reason == "spent"
    assert peer.calls == []


async def test_arguments_that_are_changed_after_the_permit() -> None:
    peer = ScriptedPeer()
    _, registration = await write(peer)
    arguments = {"q": "x"}
    permit = mint_permit(registration, arguments, "claim-1")
    arguments["q"] = "y"
    with pytest.raises(GateRequiredError):
        await dispatch_write(permit, registration, arguments, CALLER)
    permit = mint_permit(registration, {"q": "x", "n": 1}, "claim-1")
    # The same value, spelled otherwise.
    assert (await dispatch_write(permit, registration, {"n": 1.0, "q": "x"}, CALLER)).ok
    assert peer.calls == [{"name": "remote.search", "arguments": {"q": "x", "n": 1}}]


@pytest.mark.spec("R-catalog-7")
async def test_a_permit_cannot_be_made_otherwise() -> None:
    peer = ScriptedPeer()
    _, registration = await write(peer)
    _, reading = await read(peer)
    permit = mint_permit(registration, ARGUMENTS, "claim-1")
    anything: Any = WritePermit
    assert refused(lambda: anything(object(), registration, ARGUMENTS, "claim-1")) == "no_permit"
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        assert refused(lambda attempt=attempt: attempt(permit)) == "not_copyable"
    for forged in (None, object(), "claim-1", object.__new__(WritePermit)):
        lie: Any = forged
        with pytest.raises(GateRequiredError) as caught:
            await dispatch_write(lie, registration, ARGUMENTS, CALLER)
        assert caught.value.reason == "no_permit"
    wrong: Any = reading
    assert refused(lambda: mint_permit(wrong, ARGUMENTS, "claim-1")) == "no_permit"
    for claim in ("", None, 7):
        nothing: Any = claim
        assert refused(lambda nothing=nothing: mint_permit(registration, ARGUMENTS, nothing)) == "no_permit"
    assert peer.calls == []


async def test_what_cannot_be_sent_has_no_permit() -> None:
    monitor, peer = CatalogMonitor(), ScriptedPeer()
    peer.watch(monitor)
    _, registration = await write(peer, monitor=monitor)
    with pytest.raises(CatalogError) as caught:
        mint_permit(registration, {"q": 7}, "claim-1")
    assert caught.value.code == "mcp_invalid_arguments"
    monitor.list_changed()
    with pytest.raises(CatalogError) as caught:
        mint_permit(registration, ARGUMENTS, "claim-1")
    assert caught.value.code == "mcp_catalog_stale"


@pytest.mark.spec("R-catalog-6")
@pytest.mark.parametrize(
    ("result", "code"),
    [
        (PeerFailure("mcp_timeout"), "mcp_timeout"),
        (PeerFailure("mcp_protocol_error"), "mcp_protocol_error"),
        (PeerFailure("mcp_transport_error"), "mcp_transport_error"),
        (text_result(CANARY, isError=True), "mcp_tool_error"),
        (text_result(CANARY), "mcp_result_invalid"),
        ({"content": [{"type": "image"}]}, "mcp_result_unsupported"),
        (text_result(CANARY * 9_000), "mcp_result_too_large"),
    ],
)
async def test_after_it_was_sent_nothing_proves_that_it_did_not_happen(result: Any, code: Any) -> None:
    peer = ScriptedPeer([tool(outputSchema=OUTPUT)], result=result)
    _, registration = await write(peer)
    assert await dispatched(peer, registration) == CallOutcome(error_code=code, effect="unknown")
    assert len(peer.calls) == 1


@pytest.mark.spec("R-catalog-6")
@pytest.mark.parametrize(("event", "code"), [("list_changed", "mcp_catalog_stale"), ("close", "mcp_connection_closed")])
@pytest.mark.parametrize("when", ["before", "scope", "request"])
async def test_a_catalog_that_ends(event: str, code: Any, when: str) -> None:
    monitor = CatalogMonitor()

    def happens(*given: Any) -> Any:
        getattr(monitor, event)()
        return True if given else text_result("done")

    peer = ScriptedPeer(result=happens if when == "request" else None)
    peer.watch(monitor)
    _, registration = await write(peer, write_binding(scope=happens if when == "scope" else None), monitor=monitor)
    permit = mint_permit(registration, ARGUMENTS, "claim-1")
    if when == "before":
        happens()
    outcome = await dispatch_write(permit, registration, ARGUMENTS, CALLER)
    sent = when == "request"
    assert outcome == CallOutcome(error_code=code, effect="unknown" if sent else "not_started")
    assert len(peer.calls) == int(sent)


@pytest.mark.spec("R-catalog-6")
async def test_what_is_known_not_to_have_been_sent() -> None:
    for failure in ("mcp_connection_closed", "mcp_transport_error", "mcp_tools_unavailable"):
        code: Any = failure
        peer = ScriptedPeer(result=PeerFailure(code, submitted=False))
        _, registration = await write(peer)
        assert await dispatched(peer, registration) == CallOutcome(error_code=code, effect="not_started")
    peer = ScriptedPeer()
    _, registration = await write(peer, write_binding(scope=lambda context, arguments: "not today"))
    assert await dispatched(peer, registration) == CallOutcome(error_code="mcp_scope_denied", effect="not_started")
    assert peer.calls == []


@pytest.mark.spec("R-catalog-6")
@pytest.mark.parametrize("when", ["scope", "request"])
async def test_a_cancelled_dispatch(when: str) -> None:
    """The cancellation goes on to the caller; the permit keeps what is known."""

    async def wait(*given: Any) -> None:
        await anyio.sleep_forever()

    peer = ScriptedPeer(result=wait)
    _, registration = await write(peer, write_binding(scope=wait if when == "scope" else None))
    permit = mint_permit(registration, ARGUMENTS, "claim-1")
    after: list[str] = []

    async def dispatch() -> None:
        await dispatch_write(permit, registration, ARGUMENTS, CALLER)
        after.append("went on")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(dispatch)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    effect: Any = "unknown" if when == "request" else "not_started"
    assert permit.outcome == CallOutcome(error_code="mcp_canceled", effect=effect)
    assert after == []
    with pytest.raises(GateRequiredError):
        await dispatch_write(permit, registration, ARGUMENTS, CALLER)


@pytest.mark.spec("R-catalog-6")
async def test_a_dispatch_that_runs_out_of_time() -> None:
    timer, outcomes = ManualTimer(), []
    peer = ScriptedPeer(result=anyio.sleep_forever)
    _, registration = await write(peer, timer=timer)

    async def dispatch() -> None:
        outcomes.append(await dispatched(peer, registration))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(dispatch)
            await anyio.wait_all_tasks_blocked()
            timer.advance(30)
    assert outcomes == [CallOutcome(error_code="mcp_timeout", effect="unknown")]


async def test_a_permit_shows_no_arguments() -> None:
    _, registration = await write(ScriptedPeer())
    permit = mint_permit(registration, {"q": "abc"}, "claim-1")
    assert repr(permit) == "<WritePermit save spent=False>"


@pytest.mark.spec("R-catalog-6")
@pytest.mark.parametrize("reply", [None, "done", PeerFailure("mcp_pin_invalid", submitted=False)])
async def test_a_peer_that_returns_what_it_must_not(reply: Any) -> None:
    """Nothing is known then."""

    class Odd(ScriptedPeer):
        async def request(self, method: Any, params: Any) -> Any:
            return reply if method == "tools/call" else await super().request(method, params)

    _, registration = await write(Odd())
    permit = mint_permit(registration, {"q": "x"}, "claim")
    outcome = await dispatch_write(permit, registration, {"q": "x"}, CALLER)
    assert (outcome.error_code, outcome.effect) == ("mcp_transport_error", "unknown")
    assert permit.outcome == outcome


@pytest.mark.spec("R-catalog-6")
async def test_the_last_look_comes_after_the_scope_and_what_it_raises_keeps_the_write_back() -> None:
    steps: list[str] = []

    def scope(context: Any, arguments: Any) -> None:
        steps.append("scope")

    async def look() -> None:
        steps.append("look")
        if steps.count("look") == 1:
            raise LookupError

    peer = ScriptedPeer()
    _, registration = await write(peer, write_binding(scope=scope))
    permit = mint_permit(registration, ARGUMENTS, "claim")
    with pytest.raises(LookupError):
        await dispatch_write(permit, registration, ARGUMENTS, CALLER, look)
    assert permit.outcome == CallOutcome(error_code="mcp_canceled", effect="not_started")
    assert (steps, peer.calls) == (["scope", "look"], [])
    permit = mint_permit(registration, ARGUMENTS, "claim")
    assert (await dispatch_write(permit, registration, ARGUMENTS, CALLER, look)).effect == "committed"
    assert (steps, len(peer.calls)) == (["scope", "look"] * 2, 1)
