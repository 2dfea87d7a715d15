"""Many servers under one roof."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcpl_core.capabilities import EXTENSION_CAPABILITIES, VOCABULARY
from mcpl_core.errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidValueError,
    LocalProtocolError,
    PolicyRefusedError,
    TransportError,
)
from mcpl_core.host import DENY_ALL, HostHandlers, HostPolicy, HostSettings, McplHost, MemoryBranches
from mcpl_core.host.audit import AuditRecord
from mcpl_core.transports.memory import ScriptedTransport
from tests.host.raw_server import ALL, LIMIT, MANIFEST, QUICK, RawServer, event

pytestmark = pytest.mark.anyio

POLICY = HostPolicy.allow("tools", "pushEvents", "inferenceLifecycle")
TOOLS = {"tools": [{"name": "echo", "inputSchema": {}}]}


class Roof:
    """A host, and raw servers to add to it."""

    def __init__(self, policy: HostPolicy = POLICY, **options: Any) -> None:
        self.audit: list[AuditRecord] = []
        handlers = options.pop("handlers", {})
        self.host = McplHost(
            "h",
            "1",
            policy=policy,
            settings=options.pop("settings", QUICK),
            handlers=HostHandlers(on_audit=self.audit.append, **handlers),
            **options,
        )
        self.made: dict[str, list[RawServer]] = {}
        self.tasks: Any = None

    async def __aenter__(self) -> Roof:
        self._limit = anyio.fail_after(LIMIT)
        self._limit.__enter__()
        self.tasks = anyio.create_task_group()
        await self.tasks.__aenter__()
        await self.host.__aenter__()
        return self

    async def __aexit__(self, *args: Any) -> None:
        await self.host.__aexit__(*args)
        self.tasks.cancel_scope.cancel()
        await self.tasks.__aexit__(None, None, None)
        self._limit.__exit__(*args)

    def endpoint(self, name: str, manifest: Any = MANIFEST, **begin: Any) -> Callable[[], ScriptedTransport]:
        """Makes a new raw server for each attempt; it plays the beginning by itself."""

        def make() -> ScriptedTransport:
            raw = RawServer()
            self.made.setdefault(name, []).append(raw)
            self.tasks.start_soon(raw.begin, manifest, begin.get("receipt", {"accepted": True}))
            return raw.transport

        return make

    async def add(self, name: str, manifest: Any = MANIFEST, **options: Any) -> Any:
        server = await self.host.add(name, self.endpoint(name, manifest), **options)
        await anyio.wait_all_tasks_blocked()
        return server

    def raw(self, name: str, attempt: int = -1) -> RawServer:
        return self.made[name][attempt]


async def test_servers_are_added_and_told_apart() -> None:
    async with Roof() as roof:
        one, two = await roof.add("one"), await roof.add("two", None)
        assert (one.mode, two.mode) == ("mcpl", "mcp-only")
        assert list(roof.host.servers) == ["one", "two"]
        assert roof.host["one"] is one
        assert [(each.id, each.state) for each in roof.host.describe()] == [("one", "ready"), ("two", "ready")]
        await roof.raw("one").served("push/event", event("1"))
        assert (await anext(roof.host.events())).server == "one"
        assert (await roof.raw("two").refused("push/event", event("1")))["code"] == -32002


@pytest.mark.parametrize("id", ["", "a b", "a/b", "ä", "x" * 65, "-a", "a\n"])
async def test_an_id_is_a_plain_word(id: str) -> None:
    async with Roof() as roof:
        with pytest.raises(InvalidValueError) as caught:
            await roof.add(id)
        assert caught.value.code == "server_id"


async def test_an_id_is_taken_once_and_may_be_taken_again() -> None:
    async with Roof() as roof:
        await roof.add("one")
        with pytest.raises(LocalProtocolError):
            await roof.add("one")
        await roof.host.remove("one")
        assert roof.raw("one").transport.closed == 1
        await roof.add("one")


async def test_a_server_that_is_not_there_is_our_error() -> None:
    async with Roof() as roof:
        with pytest.raises(LocalProtocolError):
            await roof.host.remove("one")
        with pytest.raises(LocalProtocolError):
            await roof.host.set_policy(DENY_ALL, server="one")


async def test_a_tool_of_a_server_that_is_being_removed_is_not_found() -> None:
    async with Roof() as roof:
        await roof.add("one")
        roof.tasks.start_soon(serving(roof.raw("one"), TOOLS))
        await roof.host.tools()
        roof.tasks.start_soon(roof.host.remove, "one")
        while roof.host.servers:
            await anyio.lowlevel.checkpoint()
        with pytest.raises(InvalidValueError) as caught:
            await roof.host.call_tool("one__echo")
        assert caught.value.code == "unknown_tool"


async def test_servers_are_added_while_the_host_is_entered() -> None:
    host = McplHost("h", "1")
    with pytest.raises(LocalProtocolError):
        await host.add("one", ["true"])
    async with host:
        with pytest.raises(LocalProtocolError):
            await host.__aenter__()
        await host.aclose()
        with pytest.raises(LocalProtocolError):
            await host.add("one", ["true"])


async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError):
        async with McplHost("h", "1"):
            raise KeyError("mine")


# -- failures


async def test_a_server_that_cannot_be_reached_is_an_error_and_leaves_nothing() -> None:
    async with Roof() as roof:

        def fail() -> ScriptedTransport:
            raise TransportError("nobody")

        with pytest.raises(TransportError):
            await roof.host.add("one", fail)
        assert roof.host.servers == {}
        await roof.add("one")


async def test_without_waiting_a_server_is_tried_again() -> None:
    attempts: list[int] = []
    async with Roof() as roof:
        make = roof.endpoint("one")

        def unreliable() -> ScriptedTransport:
            attempts.append(1)
            if len(attempts) < 3:
                raise TransportError("nobody")
            return make()

        server = await roof.host.add("one", unreliable, wait=False)
        assert await server.wait("ready") == "ready"
        assert (len(attempts), server.failure) == (3, None)


@pytest.mark.parametrize("target", ["foo", "http://h", "tcp://h", []])
async def test_an_endpoint_outside_its_grammar_is_not_tried_again(target: Any) -> None:
    async with Roof() as roof:
        server = await roof.host.add("one", target, wait=False)
        assert await server.wait("closed", "waiting") == "closed"
        assert isinstance(server.failure, InvalidValueError)
        with pytest.raises(InvalidValueError):
            await roof.host.add("two", target)
        assert list(roof.host.servers) == ["one"]


async def test_a_failure_that_is_kept_holds_no_credentials() -> None:
    def failing() -> Any:
        secret = ["canary"]
        try:
            raise ExceptionGroup("both", [ValueError(secret is None)])
        except ExceptionGroup as exc:
            raise TransportError("nobody is there") from exc

    async with Roof() as roof:
        server = await roof.host.add("one", failing, wait=False)
        await server.wait("waiting")
        failure = server.failure
        assert isinstance(failure, TransportError)
        group = failure.__cause__
        assert isinstance(group, ExceptionGroup)
        assert [each.__traceback__ for each in (failure, group, *group.exceptions)] == [None] * 3


async def test_a_server_that_refuses_and_closes_is_not_asked_again() -> None:
    async with Roof() as roof:
        receipt = {"accepted": False, "fallback": "close", "reason": "no"}
        with pytest.raises(PolicyRefusedError):
            await roof.host.add("one", roof.endpoint("one", receipt=receipt))
        server = await roof.host.add("two", roof.endpoint("two", receipt=receipt), wait=False)
        assert await server.wait("closed") == "closed"
        assert isinstance(server.failure, PolicyRefusedError)
        assert len(roof.made["two"]) == 1


async def test_giving_up_on_adding_leaves_nothing() -> None:
    async with Roof() as roof:
        raw = RawServer()
        with anyio.move_on_after(0.01):
            await roof.host.add("silent", raw.transport)
        await anyio.wait_all_tasks_blocked()
        assert roof.host.servers == {}
        assert raw.transport.closed == 1


async def test_a_connection_that_was_handed_over_is_not_made_again() -> None:
    async with Roof() as roof:
        raw = RawServer()
        roof.tasks.start_soon(raw.begin)
        server = await roof.host.add("one", raw.transport)
        raw.transport.end()
        assert await server.wait("closed") == "closed"


async def test_one_failing_server_is_in_nobodys_way() -> None:
    async with Roof() as roof:
        good = await roof.add("good")
        dying = await roof.add("dying", reconnect=False)
        broken = await roof.add("broken")
        roof.raw("dying").transport.end(TransportError("reset"))
        roof.raw("broken").transport.feed("{", "[]", '"x"', "\0")
        assert await dying.wait("closed") == "closed"
        assert isinstance(dying.failure, TransportError)
        for name in ("good", "broken"):
            assert await roof.raw(name).served("push/event", event(name)) == {"accepted": True}
        assert (good.state, broken.state) == ("ready", "ready")
        with pytest.raises(ConnectionClosedError):
            await dying.call_tool("x")


# -- connecting again


async def test_a_reconnect_has_a_new_handshake_and_a_new_grant() -> None:
    waits: list[float] = []
    gate = anyio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await gate.wait()

    settings = HostSettings(first_retry=2.0, longest_retry=60.0, changelog_delay=3600)
    async with Roof(settings=settings, sleep=sleep, jitter=lambda: 1.0) as roof:
        server = await roof.add("one")
        first = roof.raw("one")
        await first.served("push/event", event("1"))
        first.transport.end()
        assert await server.wait("waiting") == "waiting"
        assert (server.mode, server.grant.effective_capabilities) == ("close", ())
        gate.set()
        assert await server.wait("ready") == "ready"
        second = roof.raw("one")
        assert second is not first
        assert [each["method"] for each in second.heard] == [
            "initialize", "notifications/initialized", "featureSets/update",
        ]  # fmt: skip
        assert waits == [2.0]
        # What was handled is known over the reconnect, and state belongs to no connection.
        assert await second.served("push/event", event("1")) == {"accepted": True}
        assert len(roof.host.events()) == 1


async def test_whoever_lost_an_answer_waits_for_the_next_connection() -> None:
    settings = HostSettings(first_retry=0.001, changelog_delay=3600)
    async with Roof(settings=settings) as roof:
        server = await roof.add("one")
        first, seen = roof.raw("one"), []

        async def ask() -> None:
            with pytest.raises(ConnectionClosedError):
                await server.call_tool("x")
            # Its host has not come to know of the end yet.
            seen.append(server.state)
            await server.wait("ready")
            seen.append(server.session.is_closed)

        roof.tasks.start_soon(ask)
        await first.next("tools/call")
        first.transport.end()
        while len(seen) < 2:
            await anyio.lowlevel.checkpoint()
        assert (seen, len(roof.made["one"])) == (["connecting", False], 2)


async def test_attempts_are_further_and_further_apart_until_one_lasts() -> None:
    waits: list[float] = []
    now = [0.0]

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    settings = HostSettings(first_retry=1.0, longest_retry=4.0, stable_after=30.0, changelog_delay=3600)
    async with Roof(settings=settings, sleep=sleep, jitter=lambda: 1.0, clock=lambda: now[0]) as roof:
        server = await roof.add("one")
        for lasted in (0, 0, 0, 31, 0):
            now[0] += lasted
            roof.raw("one").transport.end()
            await server.wait("connecting", "waiting")
            await server.wait("ready")
            await anyio.wait_all_tasks_blocked()
        assert waits == [1.0, 2.0, 4.0, 1.0, 2.0]


async def test_a_manifest_that_grew_meanwhile_is_judged_by_the_policy_at_the_next_handshake() -> None:
    manifests = iter([{**MANIFEST, "pushEvents": False}, MANIFEST])
    async with Roof() as roof:
        server = await roof.host.add("one", lambda: roof.endpoint("one", next(manifests))())
        assert server.grant.effective_capabilities == ("inferenceLifecycle", "tools")
        roof.raw("one").transport.end()
        await server.wait("connecting", "waiting")
        await server.wait("ready")
        assert "pushEvents" in server.grant.effective_capabilities


# -- policy


async def test_a_reduction_holds_for_all_before_any_is_told() -> None:
    async with Roof() as roof:
        await roof.add("one")
        await roof.add("two")
        await roof.add("own", policy=HostPolicy.allow("pushEvents"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(roof.host.set_policy, HostPolicy.allow("tools"))
            await roof.raw("one").next("featureSets/update")
            for name in ("one", "two"):
                assert roof.host[name].grant.effective_capabilities == ("tools",)
                assert (await roof.raw(name).refused("push/event", event()))["code"] == -32002
            assert await roof.raw("own").served("push/event", event()) == {"accepted": True}
            tasks.cancel_scope.cancel()


async def test_a_policy_for_one_server_is_its_own() -> None:
    async with Roof() as roof:
        await roof.add("one")
        await roof.add("two")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial_set(roof, HostPolicy.allow("tools"), "one"))
            await roof.raw("one").policy()
        assert roof.host["one"].grant.effective_capabilities == ("tools",)
        assert roof.host["two"].grant.allows("pushEvents")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(roof.host.set_policy, DENY_ALL)
            await roof.raw("two").policy()
        assert roof.host["one"].grant.effective_capabilities == ("tools",)


def partial_set(roof: Roof, policy: HostPolicy, server: str) -> Any:
    async def run() -> None:
        await roof.host.set_policy(policy, server=server)

    return run


async def test_of_two_policies_at_once_the_last_one_holds() -> None:
    # The tasks that tell the server run in any order; often enough, so that it is not by chance.
    for _ in range(10):
        async with Roof() as roof:
            server = await roof.add("one")
            roof.tasks.start_soon(answering(roof.raw("one")))
            async with anyio.create_task_group() as tasks:
                for path in ("tools", "modelInfo"):
                    tasks.start_soon(roof.host.set_policy, HostPolicy.allow(path))
            assert server.session.link.authority.policy is roof.host.policy
            assert server.grant.effective_capabilities == roof.host.policy.rules[0].allow


def answering(raw: RawServer) -> Any:
    async def run() -> None:
        while True:
            await raw.policy()

    return run


async def test_a_policy_reaches_servers_that_are_away() -> None:
    async with Roof() as roof:
        server = await roof.add("one")
        roof.raw("one").transport.end()
        await server.wait("connecting", "waiting")
        await roof.host.set_policy(HostPolicy.allow("tools"))
        await server.wait("ready")
        assert server.grant.effective_capabilities == ("tools",)


@pytest.mark.parametrize("moment", ["before the handshake", "before the receipt"])
async def test_a_policy_reaches_a_server_that_is_just_being_connected(moment: str) -> None:
    async with Roof() as roof:
        raw = RawServer()
        server = await roof.host.add("one", raw.transport, wait=False)
        await raw.transport.started.wait()

        async def change() -> None:
            await roof.host.set_policy(HostPolicy.allow("tools"))

        if moment == "before the handshake":
            await change()
            await raw.initialize(MANIFEST)
        else:
            await raw.initialize(MANIFEST)
            first = await raw.next("featureSets/update")
            assert "pushEvents" in first["params"]["effectiveCapabilities"]
            roof.tasks.start_soon(change)
            await anyio.wait_all_tasks_blocked()
            raw.reply(first, {"accepted": True})
            await raw.settled()
            assert server.attempt is not None
            assert server.attempt.grant.effective_capabilities == ("tools",)
        told = await raw.policy()
        assert told["params"]["effectiveCapabilities"] == ["tools"]
        await server.wait("ready")
        assert server.grant.effective_capabilities == ("tools",)


async def test_a_server_that_does_not_answer_its_policy_holds_up_no_other() -> None:
    settings = HostSettings(policy_timeout=0.5, changelog_delay=3600)
    async with Roof(settings=settings) as roof:
        await roof.add("mute")
        await roof.add("one")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(roof.host.set_policy, HostPolicy.allow("tools", "modelInfo"))
            await roof.raw("one").policy()
        assert roof.host["one"].grant.allows("modelInfo")
        assert not roof.host["mute"].grant.allows("modelInfo")


# -- tools


def serving(raw: RawServer, tools: Any) -> Callable[[], Any]:
    async def run() -> None:
        raw.reply(await raw.next("tools/list"), tools)

    return run


async def test_tools_of_all_servers_have_unique_names_and_lead_back() -> None:
    async with Roof() as roof:
        for name in ("one", "two"):
            await roof.add(name)
            roof.tasks.start_soon(serving(roof.raw(name), TOOLS))
        tools = await roof.host.tools()
        assert [tool.name for tool in tools] == ["one__echo", "two__echo"]
        assert tools[0].definition == {"name": "one__echo", "inputSchema": {}}
        results: list[Any] = []

        async def call() -> None:
            results.append(await roof.host.call_tool("two__echo", {"a": 1}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            request = await roof.raw("two").next("tools/call")
            roof.raw("two").reply(request, {"content": [{"type": "text", "text": "hi"}]})
        assert (request["params"]["name"], results[0].text) == ("echo", "hi")


async def test_a_name_is_looked_up_and_never_guessed() -> None:
    async with Roof() as roof:
        await roof.add("one")
        raw = roof.raw("one")
        results: list[Any] = []

        async def call() -> None:
            results.append(await roof.host.call_tool("one__echo"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            raw.reply(await raw.next("tools/list"), TOOLS)
            raw.reply(await raw.next("tools/call"), {"content": []})
        assert len(results) == 1
        with pytest.raises(InvalidValueError) as caught:
            await roof.host.call_tool("one__secret")
        assert caught.value.code == "unknown_tool"


async def test_tools_that_may_not_be_called_and_servers_that_do_not_answer_are_passed_over() -> None:
    policy = HostPolicy.allow("pushEvents").also("tools", servers="good")
    async with Roof(policy) as roof:
        for name in ("good", "silent"):
            await roof.add(name)
        await roof.add("failing", policy=HostPolicy.allow("tools"))
        roof.tasks.start_soon(serving(roof.raw("good"), TOOLS))

        async def fail() -> None:
            roof.raw("failing").refuse(await roof.raw("failing").next("tools/list"), -32603)

        roof.tasks.start_soon(fail)
        assert [tool.name for tool in await roof.host.tools()] == ["good__echo"]
        assert await roof.raw("silent").waiting("tools/list") == []


# -- all together


async def test_an_inference_is_heard_by_all_that_may() -> None:
    async with Roof(HostPolicy.allow(*ALL)) as roof:
        await roof.add("one")
        await roof.add("two", policy=HostPolicy.allow("tools"))
        async with roof.host.inference(conversation_id="conv") as inference:
            async with anyio.create_task_group() as tasks:

                async def answer() -> None:
                    request = await roof.raw("one").next("context/beforeInference")
                    roof.raw("one").reply(
                        request,
                        {"contextInjections": [{"namespace": "n", "position": "system", "content": "x"}]},
                    )

                tasks.start_soon(answer)
                injections = await inference.before("hello")
            assert [item.server for item in injections.items] == ["one"]
        phases = [each["params"]["phase"] for each in await roof.raw("one").waiting("inference/lifecycle")]
        assert phases == ["started", "completed"]
        assert await roof.raw("two").waiting("inference/lifecycle") == []


async def test_the_hosts_trace_context_goes_along_with_hooks() -> None:
    policy = HostPolicy.allow("contextHooks.beforeInference.observe")
    async with Roof(policy, handlers={"trace": lambda: {"traceparent": "00-host"}}) as roof:
        await roof.add("one")
        async with roof.host.inference(conversation_id="c") as inference, anyio.create_task_group() as tasks:
            tasks.start_soon(inference.before)
            request = await roof.raw("one").next("context/beforeInference")
            assert request["params"]["_meta"] == {"traceparent": "00-host"}
            roof.raw("one").reply(request, {"featureSet": "t.push", "contextInjections": []})


async def test_changes_of_branches_are_told_to_who_may_list_them() -> None:
    vocabulary = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
    policy = HostPolicy.allow("tools", vocabulary=vocabulary).also("branches.list", servers="editor")
    branches = MemoryBranches()
    async with Roof(policy, handlers={"branches": branches}) as roof:
        branches.changed = roof.host.branches_changed
        manifest = {**MANIFEST, "branches": {"list": True}}
        await roof.add("editor", manifest)
        await roof.add("other", manifest)
        branches.create("draft")
        (told,) = await roof.raw("editor").waiting("branches/changed")
        assert told["params"] == {"event": "created", "branch": "draft", "head": 0, "parent": "main"}
        assert await roof.raw("other").waiting("branches/changed") == []


async def test_closing_says_goodbye_to_all_and_ends_the_events() -> None:
    async with Roof() as roof:
        for name in ("one", "two"):
            await roof.add(name)
        got: list[Any] = []

        async def take() -> None:
            got.extend([each async for each in roof.host.events()])

        roof.tasks.start_soon(take)
        await roof.host.aclose()
        await roof.host.aclose()
        assert [roof.raw(name).transport.closed for name in ("one", "two")] == [1, 1]
        assert {server.state for server in roof.host.servers.values()} == {"closed"}
    assert got == []


async def test_a_server_that_does_not_let_go_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = HostSettings(close_timeout=0.05, changelog_delay=3600)
    async with Roof(settings=settings) as roof:
        raw = RawServer()
        monkeypatch.setattr(raw.transport, "aclose", anyio.sleep_forever)
        roof.tasks.start_soon(raw.begin)
        server = await roof.host.add("stuck", raw.transport)
        await roof.add("good")
        began = anyio.current_time()
        await roof.host.aclose()
        assert anyio.current_time() - began < 5
        assert server.state == "closed"


async def test_a_timeout_of_one_call_leaves_the_server_connected() -> None:
    async with Roof() as roof:
        server = await roof.add("one")
        with pytest.raises(ConnectionTimeoutError):
            await server.call_tool("x", timeout=0.01)
        assert server.state == "ready"
