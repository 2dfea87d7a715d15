"""Discovery: what the host bound, what the server may not widen, and every refusal."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
import traceback
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.catalog import (
    CatalogError,
    CatalogLimits,
    CatalogMonitor,
    PeerResult,
    ToolPolicy,
    discover_tools,
    discover_write_tools,
)
from mcpl_core.catalog.profile import DIALECT
from mcpl_core.catalog.results import json_size
from mcpl_core.errors import InvalidValueError
from tests.catalog.kit import (
    CALLER,
    CANARY,
    FIXTURES,
    INPUT,
    OUTPUT,
    ScriptedPeer,
    hop,
    read,
    read_binding,
    tool,
    write,
    write_binding,
)
from tests.catalog.test_identity import VECTOR, VECTOR_DIGEST

Json = dict[str, Any]


async def refused(peer: Any, bindings: Any = None, **options: Any) -> str:
    """The code that discovery ends with; nothing of the peer is in the exception."""
    if "monitor" not in options:
        options["monitor"] = CatalogMonitor()
        peer.watch(options["monitor"])
    bindings = {"remote.search": read_binding()} if bindings is None else bindings
    with pytest.raises(CatalogError) as caught:
        await discover_tools(peer, options.pop("server_id", "fixture"), bindings, **options)
    error = caught.value
    assert error.__cause__ is None and error.__context__ is None
    # Not even in the local variables of the frames that it came through. The first of them is this one.
    tracebacks = list(traceback.walk_tb(error.__traceback__))[1:]
    frames = traceback.StackSummary.extract(tracebacks, capture_locals=True)
    assert CANARY not in "".join(frames.format()) + repr(error)
    assert str(error) == "the tool boundary refused the operation"
    return error.code


def test_it_needs_no_extra() -> None:
    code = (
        "import json, sys\n"
        "for name in ('mcp', 'pydantic', 'jsonschema_rs', 'jsonpatch', 'psycopg', 'typer'): sys.modules[name] = None\n"
        "import mcpl_core.catalog as catalog\n"
        "class Notices: pass\n"
        "try: catalog.SdkPeer(None, Notices())\n"
        "except catalog.CatalogError: print('wrong')\n"
        "except Exception as exc: print(type(exc).__name__, exc)\n"
    )
    run = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.startswith("LocalProtocolError ")
    assert "pip install 'mcp-live-core[mcp]'" in run.stdout


@pytest.mark.anyio
class TestDiscovery:
    @pytest.mark.spec("R-catalog-1")
    async def test_the_published_vector(self) -> None:
        entry = VECTOR["entries"][0]
        peer = ScriptedPeer([tool(inputSchema=entry["inputSchema"], outputSchema=entry["outputSchema"])])
        catalog, _ = await read(peer, read_binding(concurrency_safe=True))
        assert catalog.snapshot.revision_digest == VECTOR_DIGEST
        assert catalog.snapshot.to_json() == {**VECTOR, "revisionDigest": VECTOR_DIGEST}

    @pytest.mark.spec("R-catalog-1")
    @pytest.mark.parametrize("case", FIXTURES["snapshots"], ids=lambda case: str(case["name"]))
    async def test_snapshots_of_both_schemas(self, case: Json) -> None:
        (entry,) = case["snapshot"]["entries"]
        listed = {"name": entry["remoteName"], **{key: entry[key] for key in ("description", "inputSchema")}}
        peer, monitor = ScriptedPeer([{**listed, "outputSchema": entry["outputSchema"]}]), CatalogMonitor()
        peer.watch(monitor)
        found: Any
        if case["name"] == "reads":
            reads = {entry["remoteName"]: read_binding(entry["localName"], concurrency_safe=True)}
            found = await discover_tools(peer, "fixture", reads, monitor=monitor)
        else:
            writes = {entry["remoteName"]: write_binding(entry["localName"])}
            found = await discover_write_tools(peer, "fixture", writes, monitor=monitor)
        assert hop(found.snapshot.to_json()) == case["snapshot"]

    async def test_what_the_server_says_of_itself_grants_nothing(self) -> None:
        digests = set()
        for flag in (True, False):
            annotations = dict.fromkeys(("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"), flag)
            peer = ScriptedPeer([tool(annotations=annotations, title="T" * flag, _meta={"x": flag}, icons=[])])
            catalog, registration = await read(peer)
            assert (await registration.call({"q": "x"}, CALLER)).ok
            digests.add(catalog.snapshot.revision_digest)
        catalog, _ = await read(ScriptedPeer())
        assert digests == {catalog.snapshot.revision_digest}

    async def test_only_what_is_bound_is_registered(self) -> None:
        exotic: list[Json] = [
            {"name": "a", "inputSchema": {"$ref": "https://example.com"}},
            {"name": "b", "inputSchema": 7, "description": 7},
            {"name": "c", "execution": {"taskSupport": "required"}},
            {"name": "d" * 500, "description": "x" * 9_000},
            {"name": "no grammar at all"},
        ]
        catalog, registration = await read(ScriptedPeer([*exotic, tool()]))
        assert catalog.registrations == (registration,)
        assert catalog.find("search") is registration
        for name in ("a", "remote.search", ""):
            with pytest.raises(InvalidValueError) as caught:
                catalog.find(name)
            assert caught.value.code == "unknown_tool"
        alone, _ = await read(ScriptedPeer())
        assert alone.snapshot == catalog.snapshot

    async def test_registrations_are_sorted_by_local_name(self) -> None:
        peer = ScriptedPeer([tool("a"), tool("b"), tool("c")])
        monitor = CatalogMonitor()
        peer.watch(monitor)
        bindings = {"a": read_binding("z"), "b": read_binding("Y"), "c": read_binding("x")}
        catalog = await discover_tools(peer, "s", bindings, monitor=monitor)
        assert [one.local_name for one in catalog.registrations] == ["Y", "x", "z"]
        peer.pages = [{"tools": [tool("c"), tool("b"), tool("a")]}]
        again = await discover_tools(peer, "s", dict(reversed(bindings.items())), monitor=monitor)
        assert again.snapshot == catalog.snapshot

    async def test_a_catalog_never_gains_a_tool(self) -> None:
        peer, monitor = ScriptedPeer(), CatalogMonitor()
        peer.watch(monitor)
        bindings = {"remote.search": read_binding()}
        catalog = await discover_tools(peer, "s", bindings, monitor=monitor)
        peer.pages = [{"tools": [tool(), tool("more")]}]
        bindings["more"] = read_binding("more")
        monitor.list_changed()
        assert catalog.stale and "stale=True" in repr(catalog)
        assert [one.local_name for one in catalog.registrations] == ["search"]
        assert (await catalog.find("search").call({"q": "x"}, CALLER)).error_code == "mcp_catalog_stale"
        fresh = await discover_tools(peer, "s", bindings, monitor=monitor)
        assert [one.local_name for one in fresh.registrations] == ["more", "search"]
        assert not fresh.stale
        assert peer.calls == []

    async def test_a_new_connection_revives_nothing(self) -> None:
        peer, before = ScriptedPeer(), CatalogMonitor()
        peer.watch(before)
        catalog, registration = await read(peer, monitor=before)
        before.close()
        after = CatalogMonitor()
        peer.watch(after)
        assert catalog.stale
        assert (await registration.call({"q": "x"}, CALLER)).error_code == "mcp_connection_closed"
        _, fresh = await read(peer, monitor=after)
        assert (await fresh.call({"q": "x"}, CALLER)).ok

    async def test_a_session_is_borrowed(self) -> None:
        class Spy(ScriptedPeer):
            touched: list[str] = []

            def __getattr__(self, name: str) -> Any:
                self.touched.append(name)
                raise AttributeError(name)

        peer = Spy()
        catalog, registration = await read(peer)
        await registration.call({"q": "x"}, CALLER)
        del catalog, registration
        gc.collect()
        assert peer.touched == []

    async def test_only_two_methods_are_ever_sent(self) -> None:
        peer = ScriptedPeer(pages=[{"tools": [], "nextCursor": "c"}, {"tools": [tool()]}])
        _, registration = await read(peer)
        for arguments in ({"q": "x"}, {"q": 1}, {"q": "y"}):
            await registration.call(arguments, CALLER)
        assert [method for method, _ in peer.sent] == ["tools/list", "tools/list", "tools/call", "tools/call"]

    async def test_without_a_version_nothing_is_sent(self) -> None:
        peer = ScriptedPeer()
        assert await refused(peer, monitor=CatalogMonitor()) == "mcp_not_initialized"
        closed = CatalogMonitor()
        closed.close()
        assert await refused(peer, monitor=closed) == "mcp_connection_closed"
        assert peer.sent == []

    async def test_a_monitor_that_came_late(self) -> None:
        monitor = CatalogMonitor(revision=4)
        monitor.accept_version("2025-06-18")
        catalog, registration = await read(ScriptedPeer(), monitor=monitor)
        assert catalog.snapshot.protocol_version == "2025-06-18"
        assert (await registration.call({"q": "x"}, CALLER)).ok

    @pytest.mark.parametrize("capabilities", [None, {}, {"tools": None}, {"tools": True}, {"prompts": {}}])
    async def test_a_server_without_tools(self, capabilities: Any) -> None:
        peer = ScriptedPeer()
        peer.capabilities = capabilities
        assert await refused(peer) == "mcp_tools_unavailable"
        assert peer.sent == []

    @pytest.mark.parametrize(
        ("bindings", "code"),
        [
            ({}, "mcp_binding_invalid"),
            (7, "mcp_binding_invalid"),
            ({"remote.search": write_binding()}, "mcp_binding_invalid"),
            ({"no grammar": read_binding()}, "mcp_binding_invalid"),
            ({"remote.search": read_binding("a"), "b": read_binding("a")}, "mcp_name_conflict"),
            ({f"t{index}": read_binding(f"t{index}") for index in range(257)}, "mcp_binding_invalid"),
        ],
    )
    async def test_bindings_that_are_none(self, bindings: Any, code: str) -> None:
        peer = ScriptedPeer()
        assert await refused(peer, bindings) == code
        assert peer.sent == []

    async def test_as_many_bindings_as_tools(self) -> None:
        many = [tool(f"t{index}", inputSchema={"type": "object"}, description="") for index in range(256)]
        monitor, peer = CatalogMonitor(), ScriptedPeer(many)
        peer.watch(monitor)
        bindings = {f"t{index}": read_binding(f"t{index}") for index in range(256)}
        assert len((await discover_tools(peer, "s", bindings, monitor=monitor)).registrations) == 256

    async def test_other_arguments_that_are_none(self) -> None:
        wrong: Any = object()
        assert await refused(ScriptedPeer(), server_id="no grammar") == "mcp_binding_invalid"
        assert await refused(ScriptedPeer(), monitor=wrong) == "mcp_binding_invalid"
        assert await refused(ScriptedPeer(), limits=wrong) == "mcp_binding_invalid"

    async def test_a_tool_that_is_not_there(self) -> None:
        assert await refused(ScriptedPeer([tool("other")])) == "mcp_binding_missing"
        assert await refused(ScriptedPeer([])) == "mcp_binding_missing"

    @pytest.mark.spec("R-catalog-2")
    @pytest.mark.parametrize(
        "case", [case for case in FIXTURES["schemas"] if not case["supported"]], ids=lambda case: str(case["name"])
    )
    async def test_schemas_outside_the_profile(self, case: Json) -> None:
        for members in ({"inputSchema": case["schema"]}, {"outputSchema": case["schema"]}):
            peer = ScriptedPeer([tool(**members)])
            assert await refused(peer) == "mcp_schema_unsupported"
            assert peer.calls == []

    async def test_a_tool_without_a_schema_for_its_input(self) -> None:
        assert await refused(ScriptedPeer([{"name": "remote.search"}])) == "mcp_schema_unsupported"
        assert await refused(ScriptedPeer([tool(inputSchema=None)])) == "mcp_schema_unsupported"

    async def test_bytes_of_a_schema_with_its_declaration(self) -> None:
        schema = {"$schema": DIALECT, **INPUT}
        size = json_size(schema)
        assert size is not None
        catalog, _ = await read(ScriptedPeer([tool(inputSchema=schema)]), limits=CatalogLimits(max_schema_bytes=size))
        assert catalog.snapshot.entries[0]["inputSchema"]["$schema"] == DIALECT
        tight = CatalogLimits(max_schema_bytes=size - 1)
        assert await refused(ScriptedPeer([tool(inputSchema=schema)]), limits=tight) == "mcp_schema_unsupported"
        plain, _ = await read(ScriptedPeer([tool(inputSchema=INPUT)]))
        assert plain.snapshot.revision_digest != catalog.snapshot.revision_digest

    async def test_bytes_of_a_description(self) -> None:
        fitting = "é" * 4_096
        catalog, _ = await read(ScriptedPeer([tool(description=fitting)]))
        assert catalog.snapshot.entries[0]["description"] == fitting
        assert await refused(ScriptedPeer([tool(description=fitting + "x")])) == "mcp_catalog_limit_exceeded"

    @pytest.mark.parametrize(("description", "code"), [(7, "mcp_result_invalid"), ([CANARY], "mcp_result_invalid")])
    async def test_a_description_that_is_none(self, description: Any, code: str) -> None:
        assert await refused(ScriptedPeer([tool(description=description)])) == code

    async def test_what_has_no_digest(self) -> None:
        assert await refused(ScriptedPeer([tool(description="\ud800")])) == "mcp_catalog_limit_exceeded"
        wide = {"type": "object", "properties": {f"p{index}": {} for index in range(2_000)}}
        names = [f"t{index}" for index in range(17)]
        monitor = CatalogMonitor()
        peer = ScriptedPeer([tool(name, inputSchema=wide) for name in names])
        peer.watch(monitor)
        bindings = {name: read_binding(name) for name in names}
        # Each fits its own budget; all of them together do not fit that of a digest.
        assert await refused(peer, bindings, monitor=monitor) == "mcp_catalog_limit_exceeded"

    @pytest.mark.parametrize(
        ("execution", "supported"),
        [
            (None, True),
            ({}, True),
            ({"taskSupport": None}, True),
            ({"taskSupport": "forbidden"}, True),
            ({"taskSupport": "optional"}, True),
            ({"taskSupport": "required"}, False),
            ({"taskSupport": "sometimes"}, False),
            ({"taskSupport": []}, False),
            ("required", False),
        ],
    )
    async def test_tools_that_only_run_as_tasks(self, execution: Any, supported: bool) -> None:
        peer = ScriptedPeer([tool(execution=execution)])
        if supported:
            await read(peer)
        else:
            assert await refused(peer) == "mcp_tool_unsupported"

    async def test_nothing_of_the_server_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG):
            for members in (
                {"inputSchema": {"type": "object", CANARY: CANARY}},
                {"description": CANARY * 2_000},
                {"execution": {"taskSupport": CANARY}},
                {"name": CANARY},
            ):
                await refused(ScriptedPeer([tool() | members]))
            await refused(ScriptedPeer(pages=[{"tools": CANARY}]))
            await refused(ScriptedPeer(pages=[{"tools": [], "nextCursor": [CANARY]}]))
        assert CANARY not in caplog.text

    async def test_a_change_right_at_the_end(self) -> None:
        """The list changes while the last page is on its way."""
        monitor = CatalogMonitor()

        def page() -> Json:
            monitor.list_changed()
            return {"tools": [tool()]}

        peer = ScriptedPeer(pages=[page])
        peer.watch(monitor)
        assert await refused(peer, monitor=monitor) == "mcp_catalog_stale"


@pytest.mark.anyio
class TestWrites:
    async def test_the_snapshot_of_writes(self) -> None:
        catalog, _ = await write(ScriptedPeer([tool(outputSchema=OUTPUT)]), write_binding(effect="destructive"))
        whole = catalog.snapshot.to_json()
        assert whole["schemaVersion"] == 2
        assert json.loads(json.dumps(whole["entries"])) == [
            {
                "remoteName": "remote.search",
                "localName": "save",
                "description": "Search documents",
                "inputSchema": INPUT,
                "outputSchema": OUTPUT,
                "policy": {"mode": "confirm", "title": "Save", "riskLevel": "destructive"},
                "concurrencySafe": False,
                "authorization": {
                    "bindingId": "binding",
                    "bindingRevision": "1",
                    "scopeId": "scope",
                    "scopeRevision": "1",
                    "effect": "destructive",
                },
            }
        ]

    async def test_whatever_changes_in_the_catalog_changes_the_effective_revision(self) -> None:
        _, before = await write(ScriptedPeer())
        revisions = [before.approval_binding.binding_revision]
        others: list[tuple[list[Json], Any]] = [
            ([tool()], write_binding(binding_id="other")),
            ([tool()], write_binding(binding_revision="2")),
            ([tool()], write_binding(scope_id="other")),
            ([tool()], write_binding(scope_revision="2")),
            ([tool()], write_binding(effect="destructive")),
            ([tool()], write_binding("store")),
            ([tool(description="Search document")], write_binding()),
            ([tool(outputSchema=OUTPUT)], write_binding()),
            ([tool(inputSchema={**INPUT, "required": []})], write_binding()),
        ]
        for tools, binding in others:
            _, registration = await write(ScriptedPeer(tools), binding)
            assert registration.approval_binding.binding_revision == registration.catalog_digest
            revisions.append(registration.approval_binding.binding_revision)
        monitor = CatalogMonitor()
        monitor.accept_version("2025-06-18")
        _, registration = await write(ScriptedPeer(), monitor=monitor)
        revisions.append(registration.approval_binding.binding_revision)
        monitor, peer = CatalogMonitor(), ScriptedPeer()
        peer.watch(monitor)
        catalog = await discover_write_tools(peer, "other", {"remote.search": write_binding()}, monitor=monitor)
        revisions.append(catalog.registrations[0].approval_binding.binding_revision)
        assert len(set(revisions)) == len(revisions)
        assert "1" not in revisions and "2" not in revisions

    async def test_another_tool_of_the_catalog_changes_it_too(self) -> None:
        monitor, peer = CatalogMonitor(), ScriptedPeer([tool(), tool("b")])
        peer.watch(monitor)
        bindings = {"remote.search": write_binding()}
        one = await discover_write_tools(peer, "s", bindings, monitor=monitor)
        two = await discover_write_tools(peer, "s", {**bindings, "b": write_binding("b")}, monitor=monitor)
        revisions = {one.find("save").approval_binding.binding_revision, two.find("save").catalog_digest}
        assert len(revisions) == 2
        again = await discover_write_tools(peer, "s", bindings, monitor=monitor)
        assert again.find("save").approval_binding == one.find("save").approval_binding

    async def test_reads_do_not_come_in_here(self) -> None:
        monitor, peer = CatalogMonitor(), ScriptedPeer()
        peer.watch(monitor)
        wrong: Any = {"remote.search": read_binding()}
        with pytest.raises(CatalogError) as caught:
            await discover_write_tools(peer, "s", wrong, monitor=monitor)
        assert caught.value.code == "mcp_binding_invalid"
        assert peer.sent == []

    @pytest.mark.spec("R-catalog-12")
    @pytest.mark.parametrize("says", [True, None, "no", 0])
    async def test_a_session_that_may_repeat_is_none_for_writes(self, says: Any) -> None:
        peer = ScriptedPeer()
        peer.may_repeat = says
        with pytest.raises(CatalogError) as caught:
            await write(peer)
        assert caught.value.code == "mcp_peer_repeats"
        del peer.may_repeat
        with pytest.raises(CatalogError):
            await write(peer)
        assert peer.sent == []
        assert (await read(peer))[1].local_name == "search"

    async def test_a_policy_of_a_read_is_none_of_a_write(self) -> None:
        with pytest.raises(CatalogError):
            read_binding(policy=ToolPolicy(title="T", mode="confirm"))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=6,
)
members = st.sampled_from(["description", "inputSchema", "outputSchema", "execution", "annotations", "name"])
tools = st.builds(lambda more: tool() | more, st.dictionaries(members, anything, max_size=2))
pages = anything | st.fixed_dictionaries(
    {"tools": anything | st.lists(tools | anything, max_size=2)}, optional={"nextCursor": anything}
)
blocks = st.fixed_dictionaries({"type": anything | st.sampled_from(["text", "image"])}, optional={"text": anything})
results = anything | st.fixed_dictionaries(
    {"content": st.lists(blocks, max_size=2) | anything},
    optional={"structuredContent": anything, "isError": anything},
)


class Fuzzed(ScriptedPeer):
    """Hands on what no JSON could carry, too."""

    async def request(self, method: Any, params: Json) -> Any:
        return PeerResult(self.pages[0] if method == "tools/list" else self.result)


@settings(max_examples=150, deadline=None)
@given(pages, results)
def test_whatever_a_server_answers_comes_to_a_code(page: Any, result: Any) -> None:
    async def discover_and_call() -> None:
        peer = Fuzzed(pages=[page], result=result)
        try:
            catalog, _ = await read(peer)
        except CatalogError:
            peer.pages = [{"tools": [tool(outputSchema=OUTPUT)]}]
            catalog, _ = await read(peer)
        outcome = await catalog.registrations[0].call({"q": "x"}, CALLER)
        assert outcome.ok or outcome.envelope() == {"text": [], "structured": None}
        outcome.to_text()

    anyio.run(discover_and_call)
