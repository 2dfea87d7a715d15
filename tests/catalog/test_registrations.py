"""Registrations: what they say of a tool, and that a write cannot be called."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

import pytest

from mcpl_core.catalog import CatalogError, CatalogMonitor, GateRequiredError, WriteRegistration, compare
from mcpl_core.catalog.errors import CatalogCode
from mcpl_core.catalog.outcomes import CallOutcome
from mcpl_core.catalog.permits import mint_permit
from mcpl_core.errors import McplError
from tests.catalog.kit import (
    CALLER,
    CANARY,
    INPUT,
    OUTPUT,
    ScriptedPeer,
    hop,
    read,
    read_binding,
    text_result,
    tool,
    write,
)

pytestmark = pytest.mark.anyio


async def test_what_a_registration_says() -> None:
    peer = ScriptedPeer([tool(outputSchema=OUTPUT)])
    catalog, registration = await read(peer, read_binding(concurrency_safe=True))
    assert (registration.server_id, registration.remote_name, registration.local_name) == (
        "fixture",
        "remote.search",
        "search",
    )
    assert (registration.title, registration.description) == ("Search", "Search documents")
    assert registration.catalog_digest == catalog.snapshot.revision_digest
    assert registration.concurrency_safe
    assert hop(dict(catalog.snapshot.to_json()["entries"][0]["inputSchema"])) == INPUT
    assert registration.input_schema.schema["required"] == ("q",)
    assert registration.output_schema is not None


@pytest.mark.spec("R-catalog-13")
async def test_nothing_of_the_server_is_shown_where_its_data_are_not() -> None:
    """Not by a ``repr``, nor in the frames of what is raised, where local variables stand."""
    words = {"enum": [CANARY], "title": CANARY}
    schema = {"type": "object", "description": CANARY, "properties": {CANARY: words, "q": words}}
    said = text_result(CANARY, structuredContent={"q": CANARY})
    peer = ScriptedPeer([tool(description=CANARY, inputSchema=schema, outputSchema=schema)], result=said)
    catalog, registration = await read(peer)
    written, write_registration = await write(peer)
    outcome = await registration.call({"q": CANARY}, CALLER)
    assert outcome.text == (CANARY,)
    shown = [catalog, catalog.snapshot, registration, registration.input_schema, outcome, written, write_registration]
    shown += compare(catalog.snapshot, written.snapshot).changes
    frames: list[str] = []
    for call in (
        lambda: registration.fit({"q": 1}),
        lambda: registration.input_schema.validate({"q": 1}),
        lambda: catalog.find("other"),
        lambda: write_registration(),
        lambda: mint_permit(write_registration, {"q": 1}, "claim"),
    ):
        with pytest.raises(McplError) as caught:
            call()
        # From the first frame that is not this test's.
        tail = caught.tb.tb_next
        frames += traceback.TracebackException(type(caught.value), caught.value, tail, capture_locals=True).format()
    assert "ReadRegistration(" in "".join(frames)
    assert CANARY not in "".join(map(repr, shown)) + "".join(frames)


async def test_a_tool_without_words_has_its_title() -> None:
    _, registration = await read(ScriptedPeer([{"name": "remote.search", "inputSchema": INPUT}]))
    assert registration.description == "Search"
    assert registration.output_schema is None


async def test_nothing_is_scheduled_by_a_declaration() -> None:
    """Declared safe or not, the calls are the same; whoever schedules reads the declaration."""
    for safe in (False, True):
        peer = ScriptedPeer()
        _, registration = await read(peer, read_binding(concurrency_safe=safe))
        assert (await registration.call({"q": "x"}, CALLER)).ok
        assert len(peer.calls) == 1


async def test_arguments_are_fitted_without_sending() -> None:
    peer = ScriptedPeer()
    _, registration = await read(peer)
    assert registration.fit({"q": "x", "n": 2.0}) == {"q": "x", "n": 2}
    with pytest.raises(CatalogError) as caught:
        registration.fit({"q": "x", "more": 1})
    assert caught.value.code == "mcp_invalid_arguments"
    assert caught.value.__context__ is None
    assert peer.calls == []


@pytest.mark.parametrize(("event", "code"), [("list_changed", "mcp_catalog_stale"), ("close", "mcp_connection_closed")])
async def test_a_registration_whose_catalog_is_over(event: str, code: CatalogCode) -> None:
    monitor, peer = CatalogMonitor(), ScriptedPeer()
    peer.watch(monitor)
    _, registration = await read(peer, monitor=monitor)
    registration.check()
    assert not registration.stale
    getattr(monitor, event)()
    with pytest.raises(CatalogError) as caught:
        registration.check()
    assert (registration.stale, registration.lease.problem(), caught.value.code) == (True, code, code)
    assert await registration.call({"q": "x"}, CALLER) == CallOutcome(error_code=code, effect="not_started")


@pytest.mark.spec("R-catalog-7")
async def test_a_write_cannot_be_called() -> None:
    peer = ScriptedPeer()
    _, registration = await write(peer)
    attempts: list[Any] = [
        lambda: registration(),
        lambda: registration({"q": "x"}, CALLER),
        lambda: registration.call({"q": "x"}, CALLER),
        lambda: registration.call(arguments={"q": "x"}),
    ]
    for attempt in attempts:
        with pytest.raises(GateRequiredError) as caught:
            attempt()
        assert caught.value.reason == "no_permit"
    assert peer.calls == []
    awaitable = [name for name, member in inspect.getmembers(WriteRegistration) if inspect.iscoroutinefunction(member)]
    assert awaitable == []


async def test_a_write_says_what_an_approval_is_bound_to() -> None:
    catalog, registration = await write(ScriptedPeer(result=text_result("x")))
    assert registration.approval_binding.to_json() == {
        "bindingId": "binding",
        "bindingRevision": catalog.snapshot.revision_digest,
        "scopeId": "scope",
        "scopeRevision": "1",
        "effect": "write",
    }
    assert (registration.effect, registration.host_binding_revision) == ("write", "1")
    assert registration.concurrency_safe is False
    assert registration.fit({"q": "x"}) == {"q": "x"}
