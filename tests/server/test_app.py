"""What an application declares, and the hosts it serves at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from mcpl_core import (
    EXTENSION_CAPABILITIES,
    METHODS,
    VOCABULARY,
    ConnectionClosedError,
    InvalidValueError,
    LocalProtocolError,
    McplConnection,
    UnencodableError,
)
from mcpl_core.protocol import Method
from mcpl_core.server import (
    LOCAL_PRINCIPAL,
    Context,
    FeatureSet,
    FileOutboxStore,
    McplServer,
    Outbox,
    Settings,
    tool_from_function,
)
from tests.server.raw_host import Lines, RawHost, hosted, memory_byte_streams

pytestmark = pytest.mark.anyio

BEFORE = "contextHooks.beforeInference.inject.beforeUser"


def server(**options: Any) -> McplServer:
    made = McplServer("s", "1.0", **options)
    made.feature_set("s.push", "Push", uses=["tools", "pushEvents"])
    return made


def say(text: str) -> str:
    return text


# -- declaring


def test_what_is_declared_stands_in_the_manifest() -> None:
    made = McplServer("s", "1", capabilities=["modelInfo"], manifest_extra={"x": 1})
    declared = made.feature_set("s.a", "A", uses=["tools", "pushEvents"], rollback=True)
    assert declared == FeatureSet("s.a", "A", ("tools", "pushEvents"), True)
    manifest = made.manifest
    revision = manifest.pop("revision")
    assert revision.startswith("sha256:")
    assert manifest == {
        "version": "0.5",
        "x": 1,
        "modelInfo": True,
        "pushEvents": True,
        "featureSets": {"s.a": {"description": "A", "uses": ["pushEvents", "tools"], "rollback": True}},
    }
    # A copy.
    made.manifest["version"] = "9"
    assert made.manifest["version"] == "0.5"


def test_a_revision_does_not_depend_on_the_order_or_the_process() -> None:
    def build(*names: str) -> McplServer:
        made = McplServer("s", "1")
        for name in names:
            made.feature_set(name, name, uses=["tools", "pushEvents"] if name < "b" else ["pushEvents"])
        return made

    assert build("a", "b").manifest["revision"] == build("b", "a").manifest["revision"]


def test_a_bad_declaration_changes_nothing() -> None:
    made = server()
    before = made.manifest
    for name, uses in (("s.push", ["tools"]), ("s.b", ["nothing"]), ("s b", ["tools"])):
        with pytest.raises(LocalProtocolError):
            made.feature_set(name, "x", uses=uses)
    with pytest.raises(LocalProtocolError):
        McplServer("s", "1", capabilities=["nothing"])
    assert made.manifest == before


@pytest.mark.spec("6.4-6")
def test_what_is_bound_to_a_set_must_be_among_what_the_set_uses() -> None:
    made = server()
    other = made.feature_set("s.info", "Info", uses=["modelInfo"])
    with pytest.raises(LocalProtocolError):
        made.tool(feature_set=other)(say)
    with pytest.raises(LocalProtocolError):
        made.before_inference(other)
    with pytest.raises(LocalProtocolError):
        made.tool(feature_set="s.none")(say)
    made.tool(feature_set="s.push")(say)


def test_a_decorator_gives_the_function_back() -> None:
    made = server()
    made.feature_set("s.hook", "Hook", uses=[BEFORE])
    for register in (
        made.tool,
        made.tool(name="other"),
        made.before_inference("s.hook"),
        made.on_inference,
        made.handler("channels/publish"),
        made.on_connect,
        made.on_ready,
        made.on_policy,
        made.on_close,
    ):
        assert register(say) is say


def test_names_of_tools_are_taken_once() -> None:
    made = server()
    made.tool(say)
    with pytest.raises(LocalProtocolError):
        made.add_tool(tool_from_function(say))
    made.remove_tool("say")
    made.remove_tool("say")
    made.add_tool(tool_from_function(say))


def test_a_handler_belongs_to_a_set_that_uses_what_its_method_needs() -> None:
    made = server()
    for name, feature_set in [("tools/call", "s.none"), ("channels/publish", "s.push"), ("x/own", "s.push")]:
        with pytest.raises(LocalProtocolError):
            made.handler(name, feature_set=feature_set)
    made.feature_set("s.call", "Call", uses=["tools"])
    made.handler("tools/call", feature_set="s.call")(say)


@pytest.mark.parametrize(
    "name",
    ["initialize", "ping", "featureSets/update", "mcpl/manifest", "context/beforeInference", "inference/lifecycle",
     "inference/chunk", "notifications/cancelled", "notifications/initialized", "push/event", "channels/incoming"],
)  # fmt: skip
def test_some_methods_are_not_for_handlers(name: str) -> None:
    with pytest.raises(LocalProtocolError):
        server().handler(name)


def test_a_method_has_one_handler() -> None:
    made = server()
    made.handler("channels/publish")(say)
    with pytest.raises(LocalProtocolError):
        made.handler("channels/publish")


def test_what_a_handler_needs_is_advertised() -> None:
    made = server()
    made.handler("channels/publish")(say)
    made.handler("state/rollback")(say)
    made.handler("resources/list")(say)
    made.handler("branches/changed")(say)
    made.on_inference(say)
    manifest = made.manifest
    assert (manifest["channels"], manifest["inferenceLifecycle"]) == ({"publish": True}, True)
    assert "branches" not in manifest
    extended = McplServer("s", "1", vocabulary=VOCABULARY.extend(*EXTENSION_CAPABILITIES))
    extended.handler("branches/changed")(say)
    assert extended.manifest["branches"] == {"list": True}


async def test_a_method_of_the_applications_own_is_typed_and_gated() -> None:
    row = Method(name="x/do", direction="host->server", form="request", params=dict[str, int], result=dict[str, int],
                 capabilities=frozenset({"x.do"}))  # fmt: skip
    made = McplServer("s", "1", methods=METHODS.extend(row), vocabulary=VOCABULARY.extend("x.do"))
    made.handler("x/do")(lambda ctx, params: {"sum": sum(params.values())})
    assert made.manifest["x"] == {"do": True}
    async with hosted(made) as host:
        await host.begin("tools")
        assert (await host.error("x/do", {"a": 1}))["code"] == -32002
        await host.grant("x.do")
        assert (await host.error("x/do", {"a": "b"}))["code"] == -32602
        assert await host.result("x/do", {"a": 1, "b": 2}) == {"sum": 3}


def test_tools_are_advertised_by_a_set_that_uses_them() -> None:
    assert server()._offer.capabilities == {"tools": {"listChanged": True}}
    assert server(mcp_capabilities={"tools": {}, "logging": {}})._offer.capabilities == {"tools": {}, "logging": {}}


# -- the manifest, on every connection


async def test_every_host_is_told_what_differs_from_what_it_knows() -> None:
    made = server()
    async with hosted(made) as first:
        await first.begin("tools")
        made.feature_set("s.info", "Info", uses=["modelInfo"])
        changed = await first.next("mcpl/manifestChanged")
        assert changed["params"]["domains"] == ["capabilities", "featureSets"]
        async with hosted(made) as second:
            await second.begin("tools")
            with made.edit_manifest() as manifest:
                manifest["featureSets"]["s.info"]["description"] = "More"
                manifest["featureSets"]["s.push"]["tagOntology"] = {"tags": {"a:b": {}}}
            for host in (first, second):
                changed = await host.next("mcpl/manifestChanged")
                assert changed["params"] == {
                    "revision": made.manifest["revision"],
                    "domains": ["featureSets", "tagOntology"],
                }
                assert await host.result("mcpl/manifest") == made.manifest


async def test_edits_in_one_batch_are_one_announcement_and_an_edit_that_fails_is_none() -> None:
    made = server()
    async with hosted(made) as host:
        await host.begin("tools")
        before = made.manifest
        with pytest.raises(KeyError), made.edit_manifest() as manifest:
            manifest["modelInfo"] = True
            raise KeyError
        with pytest.raises(InvalidValueError), made.edit_manifest() as manifest:
            manifest["modéle"] = True
        assert made.manifest == before
        with made.edit_manifest() as manifest:
            manifest["modelInfo"] = True
            more = made.feature_set("s.more", "More", uses=["tools", BEFORE])
            made.before_inference(more)(say)
            made.tool(name="more", feature_set=more)(say)
        await host.next("mcpl/manifestChanged")
        await host.next("notifications/tools/list_changed")
        await host.settled()
        assert list(host.heard) == []
        assert set(made.manifest["featureSets"]) == {"s.push", "s.more"}


async def test_a_manifest_as_a_whole_takes_the_place_of_all_that_was_declared() -> None:
    made = server()
    async with hosted(made) as host:
        await host.begin("pushEvents", "tools")
        update = made.set_manifest({"version": "0.5"})
        assert (update.changed, update.domains) == (True, ("capabilities", "featureSets", "tagOntology"))
        await host.next("mcpl/manifestChanged")
        (session,) = made.sessions
        assert not session.policy.enabled("s.push")
        with pytest.raises(LocalProtocolError):
            await made.push_event("s.push", "x")
        assert not made.set_manifest({"version": "0.5"}).changed
        # Declaring goes on from there.
        made.feature_set("s.push", "Again", uses=["pushEvents"])
        assert session.policy.enabled("s.push")


async def test_a_changed_declaration_counts_for_calls_at_once() -> None:
    made = server()
    async with hosted(made) as host:
        await host.begin("pushEvents", "tools")
        with made.edit_manifest() as manifest:
            manifest["featureSets"]["s.push"]["uses"] = ["modelInfo"]
        (session,) = made.sessions
        assert not session.policy.enabled("s.push")


# -- events


def ids(host: RawHost) -> list[str]:
    return [message["params"]["eventId"] for message in host.heard if message["method"] == "push/event"]


@pytest.mark.spec("9.2-1", "6.5-1")
async def test_an_event_goes_to_every_host_that_may_have_it() -> None:
    made = server()
    async with hosted(made) as one, hosted(made) as two, hosted(made) as off, hosted(made) as plain:
        await one.begin("tools", "pushEvents")
        await two.begin("tools", "pushEvents")
        await off.begin("tools")
        await plain.initialize(mcpl=False)
        event_id = await made.push_event("s.push", "hello", tags=["s:new"])
        for host in (one, two):
            event = await host.next("push/event")
            assert event["params"]["eventId"] == event_id
            assert set(event["params"]) == {"featureSet", "eventId", "timestamp", "tags", "payload"}
            await host.reply(event, {"accepted": True})
            await host.settled()
        for host in (off, plain):
            await host.settled()
            assert list(host.heard) == []
        while made._offer.outbox.waiting(LOCAL_PRINCIPAL):
            await one.settled()


@pytest.mark.spec("9.4-2")
async def test_an_event_outlives_a_host_that_went_away_with_it() -> None:
    made = server()
    async with hosted(made) as first:
        await first.begin("tools", "pushEvents")
        await made.push_event("s.push", "hello")
        event = await first.next("push/event")
    async with hosted(made) as second:
        await second.begin("tools", "pushEvents")
        again = await second.next("push/event")
        assert again["params"] == event["params"]
        await second.reply(again, {"accepted": True})
        await second.settled()
    assert made._offer.outbox.waiting(LOCAL_PRINCIPAL) == 0


async def test_an_event_is_for_one_principal_when_one_is_named() -> None:
    made = server()
    async with hosted(made, principal="alice") as alice, hosted(made, principal="bob") as bob:
        await alice.begin("tools", "pushEvents")
        await bob.begin("tools", "pushEvents")
        await made.push_event("s.push", "x", principal="bob", event_id="e1")
        assert (await bob.next("push/event"))["params"]["eventId"] == "e1"
        await alice.settled()
        assert ids(alice) == []
        assert made._offer.outbox.waiting("alice") == 0


async def test_everyone_who_was_here_gets_what_came_meanwhile() -> None:
    made = server()
    async with hosted(made, principal="alice") as alice:
        await alice.begin("tools", "pushEvents")
    await made.push_event("s.push", "x", event_id="e1")
    async with hosted(made, principal="alice") as alice:
        await alice.begin("tools", "pushEvents")
        assert (await alice.next("push/event"))["params"]["eventId"] == "e1"


async def test_before_anybody_came_an_event_waits_for_the_local_user() -> None:
    made = server()
    await made.push_event("s.push", "x", event_id="e1")
    async with hosted(made) as host:
        await host.begin("tools", "pushEvents")
        assert (await host.next("push/event"))["params"]["eventId"] == "e1"


@pytest.mark.parametrize(
    ("feature_set", "content", "options", "error"),
    [
        ("s.none", "x", {}, LocalProtocolError),
        ("s.tools", "x", {}, LocalProtocolError),
        ("s.push", 3, {}, InvalidValueError),
        ("s.push", "x", {"tags": ["bare"]}, InvalidValueError),
        ("s.push", "x", {"origin": {"a": object()}}, UnencodableError),
    ],
)
async def test_an_event_that_no_host_would_take_is_refused_at_once(
    feature_set: str, content: Any, options: Any, error: type[Exception]
) -> None:
    made = server()
    made.feature_set("s.tools", "Tools", uses=["tools"])
    with pytest.raises(error):
        await made.push_event(feature_set, content, **options)
    assert made._offer.outbox.principals == ()


@pytest.mark.spec("9.4-2")
async def test_events_survive_the_server_when_they_are_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"

    async def run(use: Callable[[McplServer], Awaitable[None]]) -> None:
        outbox = Outbox(store=FileOutboxStore(path))
        try:
            await use(server(outbox=outbox))
        finally:
            outbox.close()

    async def push(made: McplServer) -> None:
        for id in "12":
            await made.push_event("s.push", id, event_id=id)

    async def answer_one(made: McplServer) -> None:
        async with hosted(made) as host:
            await host.begin("tools", "pushEvents")
            event = await host.next("push/event")
            assert event["params"]["eventId"] == "1"
            await host.reply(event, {"accepted": True})
            await host.next("push/event")
            await host.settled()

    async def the_other_is_left(made: McplServer) -> None:
        async with hosted(made) as host:
            await host.begin("tools", "pushEvents")
            event = await host.next("push/event")
            assert event["params"]["eventId"] == "2"
            assert event["params"]["payload"] == {"content": [{"type": "text", "text": "2"}]}

    for use in (push, answer_one, the_other_is_left):
        await run(use)


async def test_a_host_that_does_not_answer_costs_the_others_nothing() -> None:
    made = server(settings=Settings(event_window=2))
    async with hosted(made, principal="dead") as dead, hosted(made, principal="alive") as alive:
        await dead.begin("tools", "pushEvents")
        await alive.begin("tools", "pushEvents")
        for number in range(20):
            await made.push_event("s.push", "x", event_id=str(number))
        for number in range(20):
            event = await alive.next("push/event")
            assert event["params"]["eventId"] == str(number)
            await alive.reply(event, {"accepted": True})
        await alive.settled()
        while made._offer.outbox.waiting("alive"):
            await alive.settled()
        assert made._offer.outbox.waiting("dead") == 20


# -- many hosts


async def test_each_connection_has_a_state_of_its_own() -> None:
    made = server()

    @made.tool
    async def count(ctx: Context) -> int:
        ctx.session_state["n"] = ctx.session_state.get("n", 0) + 1
        return int(ctx.session_state["n"])

    async with hosted(made) as one, hosted(made) as two:
        await one.begin("tools", "pushEvents")
        await two.begin("pushEvents")
        assert [(await one.tool("count"))["structuredContent"]["result"] for _ in range(2)] == [1, 2]
        assert (await two.error("tools/call", {"name": "count"}))["code"] == -32002
        await two.grant("tools")
        assert (await two.tool("count"))["structuredContent"]["result"] == 1
        assert len(made.sessions) == 2


async def test_a_host_may_come_and_go_while_all_are_told_something() -> None:
    made = server()
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(hosted(made)) for _ in range(5)]
        for host in hosts:
            await host.begin("tools", "pushEvents")
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(made.push_event, "s.push", str(number))
                tasks.start_soon(hosts[number].wire.aclose)
                made.feature_set(f"s.x{number}", "x", uses=["tools"])
        made.tool(say)


async def served_over(made: McplServer, endpoint: str, use: Callable[[str], Awaitable[None]], **options: Any) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            where = await tasks.start(lambda task_status: made.listen(endpoint, task_status=task_status, **options))
            await use(where)
            tasks.cancel_scope.cancel()


async def dial(where: str) -> RawHost:
    host, _, port = where.removeprefix("tcp://").rpartition(":")
    return RawHost(Lines(await anyio.connect_tcp(host, int(port))))


async def test_listening_serves_many_and_one_that_breaks_touches_no_other() -> None:
    made = server()
    made.tool(say)
    seen: list[str] = []

    def principal(connection: McplConnection) -> str:
        seen.append(connection.transport.name)
        if len(seen) == 2:
            raise KeyError("bug")
        return f"host-{len(seen)}"

    async def use(where: str) -> None:
        first, second, third = [await dial(where) for _ in range(3)]
        await first.begin("tools", "pushEvents")
        # The second one's principal could not be told: it is not served.
        with pytest.raises(anyio.EndOfStream):
            await second._read()
        await third.begin("tools", "pushEvents")
        await third.wire.send_text("this is no JSON")
        await third.wire.aclose()
        assert "content" in await first.tool("say", {"text": "a"})
        assert [session.principal for session in made.sessions][:1] != []
        await first.wire.aclose()
        await second.wire.aclose()

    await served_over(made, "tcp://127.0.0.1:0", use, principal=principal)
    assert made.sessions == ()


async def test_a_host_that_does_not_read_costs_the_others_nothing() -> None:
    made = server(settings=Settings(event_window=4))
    large = "x" * 300_000

    async def use(where: str) -> None:
        stuck, alive = [await dial(where) for _ in range(2)]
        for host in (stuck, alive):
            await host.begin("tools", "pushEvents")
        for number in range(20):
            await made.push_event("s.push", large, event_id=str(number))
            made.tool(name=f"t{number}")(lambda: None)
            with made.edit_manifest() as manifest:
                manifest["n"] = number
        for number in range(20):
            event = await alive.next("push/event")
            assert event["params"]["eventId"] == str(number)
            await alive.reply(event, {"accepted": True})
        assert (await alive.result("mcpl/manifest"))["n"] == 19
        (behind, _) = sorted(made.sessions, key=lambda session: -session.connection.stats.pending)
        # The window bounds what is on its way to it.
        assert behind.connection.stats.pending == 4
        for host in (stuck, alive):
            await host.wire.aclose()

    await served_over(made, "tcp://127.0.0.1:0", use, principal=lambda connection: str(id(connection)))


async def test_the_manifest_may_change_at_every_moment_of_an_end() -> None:
    made = server()
    number = 0
    for turns in range(30):
        async with hosted(made) as host:
            await host.begin("tools", "pushEvents")
            await host.wire.aclose()
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            while made.sessions:
                number += 1
                with made.edit_manifest() as manifest:
                    manifest["n"] = number
                await anyio.lowlevel.checkpoint()
    assert made.manifest["n"] == number


def test_what_is_offered_changes_where_nobody_said_which_library_runs() -> None:
    """In a callback of the application's under ``asyncio.run`` AnyIO begins no task by itself."""

    async def main() -> None:
        made = server()
        made.tool(say)
        async with hosted(made) as host:
            await host.begin("tools")
            asyncio.get_running_loop().call_soon(made.remove_tool, "say")
            await host.next("notifications/tools/list_changed")

    asyncio.run(main())


async def test_what_is_offered_changes_in_the_event_loop_or_not_at_all() -> None:
    made = server()
    made.tool(say)

    def everything() -> list[str]:
        refused = []
        for change in (
            lambda: made.tool(name="late")(say),
            lambda: made.remove_tool("say"),
            lambda: made.set_manifest({"version": "0.5"}),
            lambda: made.feature_set("s.late", "Late", uses=["tools"]),
        ):
            with pytest.raises(LocalProtocolError):
                change()
            refused.append("refused")
        return refused

    made.tool(everything)

    @made.tool
    def properly() -> None:
        anyio.from_thread.run_sync(made.remove_tool, "say")

    async with hosted(made) as host:
        await host.begin("tools")
        before = made.manifest
        assert len((await host.tool("everything"))["structuredContent"]["result"]) == 4
        names = [tool["name"] for tool in (await host.result("tools/list"))["tools"]]
        assert (names, made.manifest) == (["say", "everything", "properly"], before)
        # What was refused has not left the host without news of what comes.
        await host.tool("properly")
        await host.next("notifications/tools/list_changed")
        made.tool(name="later")(say)
        await host.next("notifications/tools/list_changed")


async def test_a_tool_that_raises_anything_touches_no_other_host() -> None:
    made = server()

    class Odd(BaseException):
        pass

    @made.tool
    async def odd() -> None:
        raise Odd

    async def use(where: str) -> None:
        first, second = [await dial(where) for _ in range(2)]
        for host in (first, second):
            await host.begin("tools")
        for host in (first, second, first):
            assert (await host.tool("odd"))["isError"] is True
        for host in (first, second):
            await host.wire.aclose()

    await served_over(made, "tcp://127.0.0.1:0", use)


async def test_who_is_at_the_other_end_is_the_local_user_unless_said_otherwise() -> None:
    made = server()

    async def use(where: str) -> None:
        host = await dial(where)
        await host.begin("tools")
        assert [session.principal for session in made.sessions] == [LOCAL_PRINCIPAL]
        await host.wire.aclose()

    await served_over(made, "tcp://127.0.0.1:0", use)


async def test_options_of_the_connections_are_passed_on() -> None:
    made = server()

    async def use(where: str) -> None:
        host = await dial(where)
        await host.begin("tools")
        (session,) = made.sessions
        assert session.connection.request_timeout == 3
        await host.wire.aclose()

    await served_over(made, "tcp://127.0.0.1:0", use, options={"request_timeout": 3})


async def test_a_server_serves_one_event_loop_after_another() -> None:
    made = server()
    made.tool(say)
    for _ in range(2):
        ours, theirs = memory_byte_streams()
        async with theirs, McplConnection.from_streams(theirs) as connection, anyio.create_task_group() as tasks:
            tasks.start_soon(made.serve, connection)
            host = RawHost(Lines(ours))
            await host.begin("tools", "pushEvents")
            assert "content" in await host.tool("say", {"text": "a"})
            await ours.aclose()


async def test_a_connection_whose_principal_cannot_be_told_ends_alone() -> None:
    made = McplServer("server", "1.0.0")
    asked: list[McplConnection] = []

    def principal(connection: McplConnection) -> str:
        asked.append(connection)
        if len(asked) == 1:
            raise ValueError("nobody knows")
        return "somebody"

    async def use(where: str) -> None:
        async with McplConnection.connect(where) as first:
            with pytest.raises(ConnectionClosedError):
                await first.next_message()
        async with McplConnection.connect(where) as second:
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            assert (await second.send_request("initialize", hello))["serverInfo"]["name"] == "server"

    await served_over(made, "tcp://127.0.0.1:0", use, principal=principal)
    assert len(asked) == 2
