"""A host and a server of this package that both know toolsets: what one believes is what the other has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.capabilities import EXTENSION_CAPABILITIES, VOCABULARY
from mcpl_core.errors import CapabilityDenied, ConnectionClosedError, FeatureSetNotEnabled, InvalidParams
from mcpl_core.host import EventAnswer, HostHandlers, HostPolicy, McplHost, PushEvent
from mcpl_core.protocol import AccessTokenParams, AccessTokenResult
from mcpl_core.toolsets import AccessDenied, InstanceContext, ToolsetContext, ToolsetServer
from mcpl_core.toolsets.host import HostToolsets, ServerToolsets
from mcpl_core.toolsets.host_view import carried_events
from tests.host.raw_server import LIMIT, QUICK

pytestmark = pytest.mark.anyio

POLICY = HostPolicy.allow("tools", "pushEvents")
PATHS = VOCABULARY.extend(*EXTENSION_CAPABILITIES)


class Box:
    """Keeps one thing."""

    title = "Box"
    instances = True
    options = {"type": "object", "properties": {"thing": {"type": "string", "default": "air"}}}
    tools = [
        {
            "name": "put",
            "inputSchema": {"type": "object", "properties": {"thing": {"type": "string"}}, "required": ["thing"]},
        },
        {"name": "take"},
        {"name": "ring"},
        {"name": "ring_later"},
    ]

    def __init__(self, ctx: InstanceContext, options: dict[str, Any]) -> None:
        self.ctx = ctx
        self.thing = options["thing"]
        self.rung = anyio.Event()

    def visible(self) -> list[str]:
        return [*(("take",) if self.thing else ("put",)), "ring", "ring_later"]

    def content(self) -> str:
        return f"It holds {self.thing or 'nothing'}."

    async def call(self, tool: str, args: dict[str, Any]) -> str:
        if tool == "ring":
            self.ctx.event("ring", tags=["box:ring"])
        elif tool == "ring_later":
            self.ctx.start_soon(self.ring)
        else:
            self.thing = args.get("thing", "")
        return self.content()

    async def ring(self) -> None:
        await self.rung.wait()
        self.thing = ""
        self.ctx.event("ring", tags=["box:ring"])


class Lamp:
    """Gives light."""

    title = "Lamp"
    default = "open"
    tools = [{"name": "switch"}]

    def __init__(self, ctx: InstanceContext, options: dict[str, Any]) -> None:
        self.ctx = ctx

    async def call(self, tool: str, args: dict[str, Any]) -> str:
        await self.ctx.close()
        return "dark"


boxes: list[Box] = []


def build(**options: Any) -> ToolsetServer:
    boxes.clear()

    class Kept(Box):
        def __init__(self, ctx: InstanceContext, options: dict[str, Any]) -> None:
            super().__init__(ctx, options)
            boxes.append(self)

    Kept.__doc__ = Box.__doc__

    async def fetch(ctx: ToolsetContext, audience: str) -> str:
        """Fetches with a credential of the host's person."""
        try:
            return f"fetched until {(await ctx.access(audience, reason='to fetch')).expires_at}"
        except AccessDenied as exc:
            return f"denied {exc.code}"

    return ToolsetServer("shop", "1", tools=[fetch], toolsets={"box": Kept, "lamp": Lamp}, **options)


class Joined:
    """A host with toolsets at a server."""

    def __init__(self, host: McplHost, toolsets: HostToolsets, tasks: Any) -> None:
        self.host = host
        self.toolsets = toolsets
        self.tasks = tasks

    @property
    def shop(self) -> ServerToolsets:
        return self.toolsets["shop"]

    def visible(self) -> dict[str, tuple[str, ...]]:
        return {each.tool: each.instances for each in self.shop.visible()}

    async def agree(self) -> None:
        """What the host followed is what the server states."""
        followed = self.shop.visible()
        stated = await self.shop.refresh()
        assert self.shop.visible() == followed
        assert stated


@asynccontextmanager
async def joined(
    server: ToolsetServer, policy: HostPolicy = POLICY, principal: str = "ann", on_event: Any = None, **options: Any
) -> AsyncIterator[Joined]:
    toolsets = HostToolsets(**options)
    handlers = HostHandlers(extensions=[toolsets], on_event=on_event)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:

            async def serve(connection: McplConnection) -> None:
                async with connection:
                    await server.serve(connection, principal)

            def dial() -> McplConnection:
                ours, theirs = McplConnection.memory_pair()
                tasks.start_soon(serve, theirs)
                return ours

            async with McplHost("h", "1", policy=policy, settings=QUICK, handlers=handlers) as host:
                await host.add("shop", dial)
                yield Joined(host, toolsets, tasks)
            tasks.cancel_scope.cancel()


async def event_of(host: McplHost) -> PushEvent:
    async for event in host.events():
        if isinstance(event, PushEvent):
            return event
    raise AssertionError


async def test_the_host_follows_what_the_server_has() -> None:
    async with build() as server, joined(server) as at:
        known = await at.shop.listed()
        assert (known["lamp"].open, known["box"].open, at.visible()) == (True, False, {"switch": ()})
        first = await at.shop.open("box", {"thing": "tea"})
        second = await at.shop.open("box", instance="mine")
        assert (first.text, second.text, second.instance) == ("It holds tea.", "It holds air.", "mine")
        await at.shop.call("take", instance="mine")
        assert at.visible() == {
            "put": ("mine",),
            "take": (str(first.instance),),
            "ring": (str(first.instance), "mine"),
            "ring_later": (str(first.instance), "mine"),
            "switch": (),
        }
        await at.agree()
        await at.shop.call("switch")
        assert "switch" not in at.visible()
        assert await at.shop.close("box", "mine")
        assert not await at.shop.close("box", "mine")
        await at.agree()


async def test_arguments_are_checked_and_an_error_names_the_place() -> None:
    async with build() as server, joined(server) as at:
        await at.shop.listed()
        box = str((await at.shop.open("box")).instance)
        await at.shop.call("take", instance=box)
        wrong = await at.shop.call("put", {"thing": 5}, instance=box)
        assert wrong.is_error
        assert "thing" in wrong.text
        assert boxes[0].thing == ""
        with pytest.raises(InvalidParams):
            await at.shop.open("box", {"thing": 5})
        hidden = await at.shop.call("take", instance=box)
        assert hidden.is_error


async def test_an_event_of_a_call_stands_in_its_result_and_a_later_one_is_pushed() -> None:
    async with build() as server, joined(server) as at:
        await at.shop.listed()
        box = str((await at.shop.open("box")).instance)
        result = await at.shop.call("ring", instance=box)
        assert [event.text for event in carried_events(result)] == ["ring"]
        await at.shop.call("ring_later", instance=box)
        boxes[0].rung.set()
        event = await event_of(at.host)
        assert (event.text, event.tags, event.feature_set) == ("ring", ("box:ring",), "shop.events")
        assert at.visible()["put"] == (box,)
        await at.agree()


async def test_a_refused_event_still_told_what_became_visible() -> None:
    def refuse(event: Any) -> EventAnswer:
        heard.set()
        return EventAnswer(accepted=False, reason="not_now")

    heard = anyio.Event()
    async with build() as server, joined(server, on_event=refuse) as at:
        await at.shop.listed()
        box = str((await at.shop.open("box")).instance)
        await at.shop.call("ring_later", instance=box)
        boxes[0].rung.set()
        await heard.wait()
        assert at.visible()["put"] == (box,)
        await at.agree()


async def test_instances_outlive_a_connection_and_ended_ones_are_told_once() -> None:
    ended: list[str] = []
    async with build() as server, joined(server, on_ended=lambda server, record: ended.append(record.instance)) as at:
        await at.shop.listed()
        kept, closed = [str((await at.shop.open("box")).instance) for _ in range(2)]
        await at.shop.close("box", closed)
        for _ in range(2):
            old = at.host["shop"].session
            await old.aclose()
            await at.host["shop"].wait("waiting", "connecting")
            await at.host["shop"].wait("ready")
            known = await at.shop.listed()
            assert at.host["shop"].session is not old
            assert list(known["box"].open_instances) == [kept]
            assert at.visible()["take"] == (kept,)
        assert ended == [closed]


async def test_two_hosts_of_one_principal_see_the_same_and_another_principal_does_not() -> None:
    async with build() as server, joined(server) as one, joined(server) as two, joined(server, principal="bob") as bob:
        for at in (one, two, bob):
            await at.shop.listed()
        box = str((await one.shop.open("box")).instance)
        await two.shop.call("take", instance=box)
        for at in (one, two):
            await anyio.wait_all_tasks_blocked()
            assert at.visible()["put"] == (box,)
            await at.agree()
        assert "put" not in bob.visible()
        stranger = await bob.shop.call("put", {"thing": "x"}, instance=box)
        assert stranger.is_error
        assert not await bob.shop.close("box", box)


async def test_what_is_revoked_is_closed_at_once_and_kept() -> None:
    async with build() as server, joined(server) as at:
        await at.shop.listed()
        box = str((await at.shop.open("box")).instance)
        await at.host.set_policy(HostPolicy.allow("pushEvents"))
        assert at.visible() == {}
        for call in (lambda: at.shop.open("box"), lambda: at.shop.call("take", instance=box)):
            with pytest.raises(CapabilityDenied):
                await call()
        await at.host.set_policy(HostPolicy.allow("tools", disable="shop.tools"))
        with pytest.raises(FeatureSetNotEnabled):
            await at.shop.listed()
        await at.host.set_policy(POLICY)
        known = await at.shop.listed()
        assert list(known["box"].open_instances) == [box]


@pytest.mark.parametrize("says", [{"access": True}, {"capabilities": ["access.token"], "vocabulary": PATHS}])
@pytest.mark.parametrize("granted", [True, False])
async def test_a_credential_is_given_only_by_policy_and_application(granted: bool, says: dict[str, Any]) -> None:
    asked: list[AccessTokenParams] = []

    def decide(server: str, params: AccessTokenParams) -> AccessTokenResult | None:
        asked.append(params)
        if params.audience != "https://api.example":
            return None
        return AccessTokenResult(token="secret", expires_at="2999-01-01T00:00:00Z")

    policy = HostPolicy.allow("tools", *(("access.token",) if granted else ()), vocabulary=PATHS)
    # A server that acts for people says so; a host can grant only what is advertised.
    async with (
        build(**says) as server,
        joined(server, policy, access=decide) as at,
    ):
        texts = [
            (await at.shop.call("fetch", {"audience": audience})).text
            for audience in ("https://api.example", "https://api.example", "https://other.example")
        ]
        if granted:
            assert texts == ["fetched until 2999-01-01T00:00:00Z"] * 2 + ["denied -32002"]
            assert [each.audience for each in asked] == ["https://api.example", "https://other.example"]
        else:
            assert (texts, asked) == (["denied -32002"] * 3, [])


async def test_many_calls_at_once_leave_no_gap() -> None:
    lists: list[str] = []
    async with build() as server, joined(server, on_change=lists.append) as at:
        await at.shop.listed()
        opened = [str((await at.shop.open("box", {"thing": ""})).instance) for _ in range(8)]
        lost: list[Any] = []
        at.shop._want = lambda: lost.append(1)  # type: ignore[method-assign]

        async def use(box: str) -> None:
            for _ in range(8):
                await at.shop.call("put", {"thing": "x"}, instance=box)
                await at.shop.call("take", instance=box)

        async with anyio.create_task_group() as calls:
            for box in opened:
                calls.start_soon(use, box)
        assert lost == []
        await at.agree()


async def test_a_server_that_is_gone_leaves_nothing_to_call() -> None:
    async with build() as server, joined(server) as at:
        await at.shop.listed()
        await at.host.remove("shop")
        assert at.visible() == {}
        with pytest.raises(ConnectionClosedError):
            await at.shop.call("take")
