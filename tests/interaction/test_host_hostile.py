"""A host against servers that are slow, lie or die, over every transport: nothing they send moves its decisions."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest

from mcpl_core.errors import ConnectionClosedError, ConnectionTimeoutError, MalformedMessageError, TransportError
from mcpl_core.grants import GrantState
from mcpl_core.host import HostHandlers, HostPolicy, HostSettings, McplHost
from mcpl_core.host.audit import AuditRecord
from mcpl_core.protocol import InferenceRequestResult, ModelInfo
from mcpl_core.transports.base import Transport
from mcpl_core.transports.endpoints import listener_for
from mcpl_core.transports.loop import EventLoop, current_loop
from mcpl_core.transports.memory import memory_transports
from tests.interaction import hostile

pytestmark = pytest.mark.anyio

HOOK = "contextHooks.beforeInference"
POLICY = HostPolicy.allow("tools", "pushEvents", "channels.*", f"{HOOK}.inject.beforeUser", channels="chat:*")
QUICK = HostSettings(
    hook_timeout=0.2, policy_timeout=0.2, manifest_interval=3600.0, changelog_delay=3600.0, close_timeout=2.0
)
EVERYWHERE = pytest.mark.parametrize("kind", ["memory", "tcp", "unix", "ws", "stdio"])


class TransportWire:
    """A hostile server's wire over one of our transports: whole texts, and nothing that understands them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._messages: deque[bytes] = deque()
        self._ended = False
        self._news = anyio.Event()

    async def start(self, loop: EventLoop) -> None:
        await self._transport.start(self, loop)

    def messages_received(self, messages: list[bytes]) -> None:
        self._messages.extend(messages)
        self._news.set()

    def message_malformed(self, error: MalformedMessageError) -> None:
        raise AssertionError(error)

    def input_ended(self, error: TransportError | None) -> None:
        self._ended = True
        self._news.set()

    def output_failed(self, error: TransportError | None) -> None:
        self._ended = True
        self._news.set()

    async def send(self, *messages: Any) -> None:
        for message in messages:
            self._transport.write(json.dumps(message).encode())
        await self._transport.drain()

    async def receive(self) -> Any:
        while not self._messages:
            if self._ended:
                raise EOFError
            self._news = anyio.Event()
            await self._news.wait()
        return json.loads(self._messages.popleft())

    async def die(self) -> None:
        await self._transport.aclose()


async def serve(transport: Transport, scenario: str) -> None:
    async with anyio.create_task_group() as tasks:
        wire = TransportWire(transport)
        await wire.start(current_loop(tasks))
        try:
            await hostile.play(wire, scenario)
        finally:
            with anyio.CancelScope(shield=True):
                await transport.aclose()
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def reachable(kind: str, scenario: str) -> AsyncIterator[Any]:
    """Where a host finds the server."""
    if kind == "stdio":
        yield [sys.executable, str(Path(hostile.__file__)), scenario]
        return
    with TemporaryDirectory() as folder:
        async with anyio.create_task_group() as tasks:
            if kind == "memory":

                def make() -> Transport:
                    ours, theirs = memory_transports()
                    tasks.start_soon(serve, theirs, scenario)
                    return ours

                yield make
            else:
                endpoint = {"tcp": "tcp://127.0.0.1:0", "unix": f"unix://{folder}/s", "ws": "ws://127.0.0.1:0"}[kind]
                listener = listener_for(endpoint)

                def accepted(transport: Transport) -> None:
                    tasks.start_soon(serve, transport, scenario)

                await listener.start(current_loop(tasks), accepted)
                yield listener.endpoint
                await listener.aclose()
            tasks.cancel_scope.cancel()


class Embedded:
    """A host with one hostile server.

    Attributes:
        server: its handle.
        audit: the records.
    """

    def __init__(self, host: McplHost, server: Any, audit: list[AuditRecord]) -> None:
        self.host = host
        self.server = server
        self.audit = audit

    async def report(self) -> Any:
        """What the server saw, by its tool."""
        return json.loads((await self.server.call_tool("report")).text)

    def codes(self, outcome: str) -> set[tuple[str, Any]]:
        return {(record.operation, record.code) for record in self.audit if record.outcome == outcome}


@asynccontextmanager
async def embedded(
    kind: str, scenario: str, policy: HostPolicy = POLICY, settings: HostSettings = QUICK, **handlers: Any
) -> AsyncIterator[Embedded]:
    audit: list[AuditRecord] = []
    made = McplHost(
        "h", "1", policy=policy, settings=settings, handlers=HostHandlers(on_audit=audit.append, **handlers)
    )
    with anyio.fail_after(20):
        async with reachable(kind, scenario) as endpoint, made as host:
            yield Embedded(host, await host.add("hostile", endpoint, reconnect=False), audit)


def result(call: Any) -> InferenceRequestResult:
    return InferenceRequestResult(content="thought", model="m")


ALL_SERVED: dict[str, Any] = {"inference": result, "model_info": ModelInfo(id="m")}


@EVERYWHERE
@pytest.mark.spec("5.3-3", "5.3-7")
async def test_nothing_privileged_before_the_receipt_and_everything_right_behind_it(kind: str) -> None:
    policy = HostPolicy.allow("tools", "pushEvents", "channels.*", "modelInfo", "inferenceRequest")
    async with embedded(kind, "early", policy, **ALL_SERVED) as made:
        seen = await made.report()
        denied = [-32002] * len(hostile.PRIVILEGED)
        for moment in ("before the handshake", "before the policy", "before the receipt"):
            assert seen[moment] == denied, moment
        assert seen["behind the receipt"] == {"accepted": True}
        assert made.server.link.channels.listing() == []
        assert (await anext(made.host.events())).text == "behind"
        assert len(made.host.events()) == 0


@EVERYWHERE
@pytest.mark.spec("6.4-4", "6.4-5", "6.7-11")
async def test_a_server_that_asks_for_more_gets_what_the_policy_says(kind: str) -> None:
    async with embedded(kind, "greedy", **ALL_SERVED) as made:
        before = made.server.grant
        seen = await made.report()
        assert seen["granted"] == list(before.effective_capabilities)
        assert seen["not granted"] == [-32002, -32002]
        assert seen["claims"] == [{"accepted": True}, -32002, -32001, -32003]
        assert made.server.grant == before
        assert not before.allows("inferenceRequest")
        assert ("push/event", "declaration_mismatch") in made.codes("diagnostic")


@EVERYWHERE
@pytest.mark.spec("14.5-1", "14.5-2", "14.5-6", "14.5-8")
async def test_nine_forbidden_channels_do_not_come_in_with_an_allowed_one(kind: str) -> None:
    async with embedded(kind, "nine") as made:
        seen = await made.report()
        assert seen["accepted"] == seen["listed"] == ["chat:#one"]
        assert seen["all forbidden"] == -32017
        assert seen["heard"] == [False] * 4 + [True] + [False] * 5
        assert seen["after removal"] == -32023
        assert len(made.host.events()) == 1
        assert ("channels/changed", "channels_filtered") in made.codes("diagnostic")


@EVERYWHERE
@pytest.mark.spec("5.4-14", "10.1-2")
async def test_a_hook_answered_after_a_revocation_injects_nothing(kind: str) -> None:
    async with embedded(kind, "revoked", settings=HostSettings(changelog_delay=3600.0)) as made:
        async with made.host.inference(conversation_id="c") as inference:
            items: list[Any] = []

            async def ask() -> None:
                items.append(await inference.before("the secret"))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                while not made.server.link.in_hook:
                    await anyio.lowlevel.checkpoint()
                await made.host.set_policy(HostPolicy.allow("tools", f"{HOOK}.observe"))
        assert items[0].items == ()
        assert (await made.report())["user message"] is None
        assert ("context/beforeInference", "capability_denied") in made.codes("denied")


@EVERYWHERE
@pytest.mark.spec("5.4-13", "10.8-1", "13.4-3")
async def test_only_the_granted_position_is_injected_at(kind: str) -> None:
    policy = POLICY.also("inferenceRequest")
    async with embedded(kind, "positions", policy, HostSettings(), **ALL_SERVED) as made:
        async with made.host.inference(conversation_id="c") as inference:
            injections = await inference.before("hello")
        assert [item.position for item in injections.items] == ["beforeUser"]
        assert (await made.report())["nested"] == -32002


@EVERYWHERE
@pytest.mark.spec("17.8-3", "17.8-4")
async def test_a_flood_stays_outside(kind: str) -> None:
    async with embedded(kind, "flood") as made:
        seen = await made.report()
        assert (seen["accepted"], seen["reasons"], seen["further fetches"]) == (1024, ["queue_full"], 0)
        assert len(made.host.events()) == 1024
        assert made.host.events().refused == {"hostile": 3000 - 1024}
        assert ("mcpl/manifestChanged", "manifest_flood") in made.codes("diagnostic")


@EVERYWHERE
async def test_a_server_that_dies_takes_its_own_call_with_it(kind: str) -> None:
    async with embedded(kind, "dying") as made:
        with pytest.raises(ConnectionClosedError) as caught:
            await made.server.call_tool("report")
        assert caught.value.outcome == "no-response"
        assert await made.server.wait("closed") == "closed"
        assert made.server.grant == GrantState()


@EVERYWHERE
@pytest.mark.spec("10.6-2", "13.3-1")
async def test_a_server_that_falls_silent_costs_its_own_contribution(kind: str) -> None:
    async with embedded(kind, "mute") as made:
        async with made.host.inference(conversation_id="c") as inference:
            injections = await inference.before("hello")
        assert (injections.items, [skipped.reason for skipped in injections.skipped]) == ((), ["timeout"])
        with pytest.raises(ConnectionTimeoutError):
            await made.server.call_tool("report", timeout=0.05)
        assert made.server.state == "ready"


@EVERYWHERE
@pytest.mark.spec("6.7-13", "6.7-16")
@pytest.mark.parametrize("scenario", ["stubborn", "refusing"])
async def test_without_a_receipt_there_is_no_grant_and_tools_work(kind: str, scenario: str) -> None:
    async with embedded(kind, scenario) as made:
        assert (made.server.mode, made.server.grant) == ("mcp-only", GrantState())
        assert (await made.report())["pushed"] == -32002


@EVERYWHERE
@pytest.mark.spec("RFC4-6-3", "RFC4-7-1")
async def test_a_plain_server_is_a_plain_server_whatever_it_tries(kind: str) -> None:
    async with embedded(kind, "plain", **ALL_SERVED) as made:
        assert (made.server.mode, made.server.grant) == ("mcp-only", GrantState())
        assert (await made.report())["tried"] == [-32002] * len(hostile.PRIVILEGED)
        assert [tool.name for tool in await made.host.tools()] == ["hostile__report"]


@EVERYWHERE
@pytest.mark.spec("17.5-7")
async def test_what_stands_behind_a_smaller_manifest_stands_under_it(kind: str) -> None:
    settings = HostSettings(changelog_delay=3600.0, manifest_interval=0.0)
    async with embedded(kind, "shrinking", settings=settings) as made:
        assert (await made.report())["late"] == -32002
        assert not made.server.grant.allows("pushEvents")


def test_every_scenario_is_played() -> None:
    folder = Path(__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("test_host_*.py"))
    assert [name for name in hostile.SCENARIOS if f'"{name}"' not in source] == []
