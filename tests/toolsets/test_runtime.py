"""All principals of a server at once: what each of them sees, whatever happens in whatever order."""

from __future__ import annotations

import gc
from collections import Counter as Tally
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream, TaskGroup, TaskStatus
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from mcpl_core import LocalProtocolError, McplConnection
from mcpl_core.server import Context
from mcpl_core.toolsets import InstanceContext, ToolsetContext, ToolsetServer
from mcpl_core.toolsets.keeping import Row
from mcpl_core.toolsets.principal import ENDED_KEPT
from tests.server.raw_host import Json, Lines, memory_byte_streams
from tests.toolsets.toolset_kit import Counter, FakeClock, SetHost, counter_toolset, hosted_set, quiet, served, text_of

LIMIT = 100.0
HELD = 3


class MemoryStore:
    """A store that a restarted server finds again."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], bytes] = {}

    def load(self) -> list[tuple[str, str, bytes]]:
        return [(*key, data) for key, data in self.rows.items()]

    def apply(self, rows: Any) -> None:
        for row in rows:
            assert isinstance(row, Row)
            if row.data is None:
                self.rows.pop((row.principal, row.id), None)
            else:
                self.rows[row.principal, row.id] = row.data

    def close(self) -> None:
        pass


# -- the model


@dataclass
class Owner:
    """What one principal has."""

    counts: dict[str, int] = field(default_factory=dict)
    made: int = 0
    ended: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    idle_since: float | None = None

    def visible(self) -> dict[str, list[str]]:
        return {id: ["up", "down"] if count else ["up"] for id, count in self.counts.items()}


class SeenHost:
    """A connection, as the model sees it."""

    def __init__(self, host: SetHost) -> None:
        self.host = host
        self.left = anyio.Event()
        self.granted = True
        self.view: dict[str, list[str]] = {}
        self.expected: list[str] = []
        self.applied = 0

    def take(self, statement: Json) -> None:
        self.view = {each["id"]: each["visible"] for each in statement["toolsets"][0]["openInstances"]}
        self.applied = len(self.host.hints)
        assert statement["rev"] == self.applied

    def apply(self) -> None:
        for hint in self.host.hints[self.applied :]:
            self.applied += 1
            assert hint["rev"] == self.applied
            if hint["open"]:
                self.view[hint["instance"]] = hint["visible"]
            else:
                del self.view[hint["instance"]]


class World:
    """A server, its hosts, and what they must see. A connection's number says whose it is."""

    tasks: TaskGroup
    stopping: anyio.Event
    stopped: anyio.Event

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.owners = {"a": Owner(), "b": Owner()}
        self.hosts: dict[int, SeenHost] = {}
        self.bodies: dict[tuple[str, str], Counter] = {}
        self.server = self.made()

    def made(self) -> ToolsetServer:
        def remember(ctx: InstanceContext, body: Counter) -> Counter:
            self.bodies[ctx.principal, str(ctx.instance)] = body
            return body

        async def open(ctx: InstanceContext, options: Any) -> Counter:
            return remember(ctx, Counter(ctx))

        async def load(ctx: InstanceContext, text: str) -> Counter:
            return remember(ctx, Counter.load(ctx, text))

        toolset = counter_toolset(instances=True, open=open, load=load)
        return ToolsetServer(
            "s",
            "1",
            toolsets={"game": toolset},
            idle_close=LIMIT,
            held_events=HELD,
            store=self.store,
            clock=self.clock,
        )

    @staticmethod
    def name(slot: int) -> str:
        return "a" if slot < 2 else "b"

    def owner(self, slot: int) -> Owner:
        return self.owners[self.name(slot)]

    def seen(self, name: str, but: int | None = None) -> list[SeenHost]:
        return [each for slot, each in self.hosts.items() if self.name(slot) == name and each.granted and slot != but]

    def pick(self, name: str, which: int) -> str | None:
        ids = list(self.owners[name].counts)
        return ids[which % len(ids)] if ids else None

    def open_count(self) -> int:
        return sum(len(owner.counts) for owner in self.owners.values())

    # -- what happens

    async def connect(self, slot: int) -> None:
        if slot in self.hosts:
            return
        ours, theirs = memory_byte_streams()
        self.hosts[slot] = seen = SeenHost(SetHost(Lines(ours)))
        self.tasks.start_soon(self._serve, seen, theirs, self.name(slot))
        statement = await seen.host.join()
        seen.take(statement)
        owner = self.owner(slot)
        owner.idle_since = None
        assert [record["instance"] for record in statement["ended"]] == owner.ended
        seen.expected += owner.held
        owner.held = []

    async def disconnect(self, slot: int) -> None:
        seen = self.hosts.pop(slot, None)
        if seen is not None:
            await seen.host.wire.aclose()
            await seen.left.wait()
            if not any(self.name(other) == self.name(slot) for other in self.hosts):
                self.owner(slot).idle_since = self.clock.now

    async def open(self, slot: int) -> None:
        if (seen := self.hosts.get(slot)) is None:
            return
        if not seen.granted:
            assert (await seen.host.error("toolsets/open", {"toolset": "game"}))["code"] == -32002
            return
        owner = self.owner(slot)
        owner.made += 1
        result = await seen.host.open("game")
        assert result["instance"] == f"game-{owner.made}"
        owner.counts[result["instance"]] = 0

    async def close(self, slot: int, which: int) -> None:
        seen, id = self.hosts.get(slot), self.pick(self.name(slot), which)
        if seen is not None and seen.granted and id is not None:
            assert await seen.host.close("game", id)
            owner = self.owner(slot)
            del owner.counts[id]
            owner.ended.append(id)

    async def call(self, slot: int, which: int) -> None:
        seen, id = self.hosts.get(slot), self.pick(self.name(slot), which)
        if seen is None or not seen.granted or id is None:
            return
        owner, tool = self.owner(slot), "down" if which % 3 else "up"
        result = await seen.host.call(tool, id)
        allowed = tool == "up" or owner.counts[id] > 0
        assert result.get("isError", False) is not allowed
        if allowed:
            owner.counts[id] += 1 if tool == "up" else -1

    async def event(self, slot: int, which: int) -> None:
        """Something happens in an instance, outside of every call."""
        name = self.name(slot)
        id = self.pick(name, which)
        body = None if id is None else self.bodies.get((name, id))
        # After a restart it is made again when its principal connects.
        if id is None or body is None or id not in [key[1] for key in self.bodies if key[0] == name]:
            return
        body.count += 1
        event = body.ctx.event("it moved")
        owner = self.owners[name]
        owner.counts[id] += 1
        takers = self.seen(name)
        for seen in takers:
            seen.expected.append(event)
        if not takers:
            owner.held = [*owner.held, event][-HELD:]

    async def revoke(self, slot: int) -> None:
        if (seen := self.hosts.get(slot)) is not None:
            await seen.host.grant()
            seen.granted = False

    async def grant(self, slot: int) -> None:
        if (seen := self.hosts.get(slot)) is not None:
            await seen.host.grant("tools", "pushEvents")
            seen.granted = True
            await self.relist(slot)

    async def relist(self, slot: int) -> None:
        seen = self.hosts.get(slot)
        if seen is not None and seen.granted:
            seen.take(await seen.host.list())
            seen.expected += self.owner(slot).held
            self.owner(slot).held = []

    async def idle(self, which: int) -> None:
        self.clock.advance(LIMIT * (0.4 + which % 2))
        for name, owner in self.owners.items():
            if owner.idle_since is not None and self.clock.now >= owner.idle_since + LIMIT:
                self.owners[name] = Owner()
                self.bodies = {key: body for key, body in self.bodies.items() if key[0] != name}
                while name in self.server.principals:
                    await quiet()

    async def restart(self) -> None:
        for other in list(self.hosts):
            await self.disconnect(other)
        await self.stop()
        self.bodies.clear()
        for owner in self.owners.values():
            # What nobody was told of is not stored.
            owner.held = []
        self.server = self.made()
        await self.start()

    async def _serve(self, seen: SeenHost, stream: ByteStream, name: str) -> None:
        try:
            async with McplConnection.from_streams(stream) as connection:
                await self.server.serve(connection, name)
        finally:
            seen.left.set()

    async def start(self) -> None:
        """The server runs, in a task of its own."""
        self.stopping, self.stopped = anyio.Event(), anyio.Event()

        async def run(task_status: TaskStatus[None]) -> None:
            async with self.server:
                task_status.started()
                await self.stopping.wait()
            self.stopped.set()

        await self.tasks.start(run)

    async def stop(self) -> None:
        self.stopping.set()
        await self.stopped.wait()

    # -- what is seen

    async def check(self) -> None:
        await quiet()
        for slot, seen in self.hosts.items():
            await seen.host.settled()
            while len(seen.host.pushed) < len(seen.expected):
                await seen.host.settled()
            assert seen.host.pushed == seen.expected
            if seen.granted:
                seen.apply()
                assert seen.view == self.owner(slot).visible()
            else:
                assert len(seen.host.hints) == seen.applied

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as self.tasks:
            await self.start()
            try:
                yield
            finally:
                for seen in self.hosts.values():
                    await seen.host.wire.aclose()
                    with anyio.CancelScope(shield=True):
                        await seen.left.wait()
                self.tasks.cancel_scope.cancel()


SLOT, WHICH = st.integers(0, 3), st.integers(0, 11)
SEVERAL = st.lists(WHICH, min_size=1, max_size=HELD + 1)


class Principals(RuleBasedStateMachine):
    """Two principals, with two connections each. The server runs in an event loop of its own, in a thread."""

    backend: str

    def __init__(self) -> None:
        super().__init__()
        self.entered = ExitStack()
        self.portal = self.entered.enter_context(start_blocking_portal(self.backend))
        self.world = self.portal.call(World)
        self.entered.enter_context(self.portal.wrap_async_context_manager(self.world.running()))

    def teardown(self) -> None:
        self.entered.close()

    def do(self, step: Callable[..., Awaitable[None]], *args: int) -> None:
        async def bounded() -> None:
            with anyio.fail_after(10):
                await step(*args)

        self.portal.call(bounded)

    @staticmethod
    def of(slots: list[int], number: int) -> int:
        return slots[number % len(slots)]

    def connected(self, number: int) -> int:
        return self.of(list(self.world.hosts), number)

    @precondition(lambda self: len(self.world.hosts) < 4)
    @rule(slot=SLOT)
    def connect(self, slot: int) -> None:
        self.do(self.world.connect, self.of([slot for slot in range(4) if slot not in self.world.hosts], slot))

    @precondition(lambda self: bool(self.world.hosts))
    @rule(slot=SLOT)
    def disconnect(self, slot: int) -> None:
        self.do(self.world.disconnect, self.connected(slot))

    @precondition(lambda self: bool(self.world.hosts))
    @rule(slot=SLOT)
    def open(self, slot: int) -> None:
        self.do(self.world.open, self.connected(slot))

    @precondition(lambda self: self.world.open_count() > 0 and bool(self.world.hosts))
    @rule(slot=SLOT, which=WHICH)
    def close(self, slot: int, which: int) -> None:
        self.do(self.world.close, self.connected(slot), which)

    @precondition(lambda self: self.world.open_count() > 0 and bool(self.world.hosts))
    @rule(slot=SLOT, several=SEVERAL)
    def call(self, slot: int, several: list[int]) -> None:
        for which in several:
            self.do(self.world.call, self.connected(slot), which)

    @precondition(lambda self: self.world.open_count() > 0)
    @rule(slot=SLOT, several=SEVERAL)
    def event(self, slot: int, several: list[int]) -> None:
        for which in several:
            self.do(self.world.event, slot, which)

    @precondition(lambda self: bool(self.world.hosts))
    @rule(slot=SLOT)
    def revoke(self, slot: int) -> None:
        self.do(self.world.revoke, self.connected(slot))

    @precondition(lambda self: bool(self.world.hosts))
    @rule(slot=SLOT)
    def grant(self, slot: int) -> None:
        self.do(self.world.grant, self.connected(slot))

    @precondition(lambda self: bool(self.world.hosts))
    @rule(slot=SLOT)
    def relist(self, slot: int) -> None:
        self.do(self.world.relist, self.connected(slot))

    @precondition(lambda self: self.world.open_count() > 0 and len(self.world.hosts) < 4)
    @rule(which=WHICH)
    def idle(self, which: int) -> None:
        self.do(self.world.idle, which)

    @precondition(lambda self: self.world.open_count() > 2)
    @rule()
    def restart(self) -> None:
        self.do(self.world.restart)

    @invariant()
    def everybody_sees_their_own(self) -> None:
        self.do(self.world.check)


@pytest.mark.spec("R-toolsets-3", "R-toolsets-5", "R-toolsets-9")
@pytest.mark.parametrize(("backend", "examples"), [("asyncio", 40), ("trio", 15)])
def test_each_principal_sees_its_own_whatever_happens(backend: str, examples: int) -> None:
    machine = type("Machine", (Principals,), {"backend": backend})
    bounds = settings(max_examples=examples, stateful_step_count=30, deadline=None, database=None)
    run_state_machine_as_test(machine, settings=settings(bounds, suppress_health_check=list(HealthCheck)))


pytestmark = pytest.mark.anyio


def server(**options: Any) -> ToolsetServer:
    facts: dict[str, Any] = {"toolsets": {"game": counter_toolset(instances=True)}, "clock": FakeClock()}
    return ToolsetServer("s", "1", **{**facts, **options})


# -- memory


async def test_ten_thousand_instances_leave_nothing_behind() -> None:
    made = server()
    async with served(made, 60), hosted_set(made) as host:
        await host.join()
        principal, instances = made._runtime._principals["local"], made._runtime.instances

        async def cycle(times: int) -> None:
            for number in range(times):
                if number % 20 == 0:
                    opened = await host.open("game")
                    assert await host.close("game", opened["instance"])
                else:
                    opened_here, _ = await instances.open(principal, "game")
                    assert await instances.end(principal, opened_here, "closed")
            for kept in (host.all, host.hints, host.heard):
                kept.clear()

        def objects() -> Tally[str]:
            gc.collect()
            return Tally(type(each).__name__ for each in gc.get_objects())

        # More than the ended instances that are kept.
        await cycle(1_000)
        before = objects()
        await cycle(10_000)
        grown = {name: count for name, count in (objects() - before).items() if count > 50}
        assert grown == {}


# -- events for who is away


@pytest.mark.spec("R-toolsets-5")
async def test_events_are_held_for_who_is_away_and_come_after_the_list() -> None:
    bodies: list[Counter] = []

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        bodies.append(Counter(ctx))
        return bodies[-1]

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)}, held_events=2)
    async with served(made):
        async with hosted_set(made) as host:
            await host.join()
            await host.open("game")
        ids = [bodies[0].ctx.event(text, tags=["game:x"]) for text in ("dropped", "one", "two")]
        async with hosted_set(made) as host:
            await host.hello()
            await host.grant("tools", "pushEvents")
            await host.settled()
            assert not host.pushed
            live = bodies[0].ctx.event("live")
            await host.next("push/event")
            assert host.pushed == [live]
            host.answers_events = False
            listing = host.request("toolsets/list", {})
            await host.send(listing)
            await host.answer(listing["id"])
            first = await host.next("push/event")
            assert host.all[-2]["id"] == listing["id"]
            assert first["params"]["eventId"] == ids[1]
            # The next comes when this one is answered, whatever the answer.
            await host.reply(first, {"accepted": False})
            second = await host.next("push/event")
            assert second["params"]["eventId"] == ids[2]
        async with hosted_set(made) as host:
            await host.join()
            again = await host.next("push/event")
            assert (again["params"]["eventId"], again["params"]["tags"]) == (ids[2], ["game:x"])
            assert "hints" not in again["params"]
            await quiet()
            await host.list()
            await host.settled()
            assert host.pushed == [ids[2]]


@pytest.mark.spec("R-toolsets-5")
async def test_a_host_without_hints_reads_held_events_in_its_next_result() -> None:
    bodies: list[Counter] = []

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        bodies.append(Counter(ctx))
        return bodies[-1]

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})

    @made.tool
    async def say(ctx: ToolsetContext) -> str:
        ctx.event("and this")
        return "said"

    async with served(made):
        async with hosted_set(made) as plain:
            await plain.hello(mcpl=False)
            await plain.tool("toolset_open", {"toolset": "game"})
            bodies[0].ctx.event("it moved")
            assert text_of(await plain.tool("say")) == "said\nit moved\nand this"
            assert text_of(await plain.tool("say")) == "said\nand this"
        async with hosted_set(made) as host:
            await host.hello(toolsets=False)
            await host.grant("tools")
            bodies[0].ctx.event("not pushed")
            result = await host.tool("say")
            assert text_of(result) == "said\nnot pushed\nand this"
            assert [event["content"][0]["text"] for event in result["_meta"]["mcpl/events"]] == ["and this"]


# -- tasks of instances


async def test_tasks_of_an_instance_end_with_it_and_hurt_nobody() -> None:
    ended: list[str] = []
    contexts: list[InstanceContext] = []
    again = anyio.Event()

    async def forever(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(name)

    async def broken() -> None:
        again.set()
        raise SystemExit

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        contexts.append(ctx)
        ctx.start_soon(forever, str(ctx.instance))
        if options["start"] == 9:
            raise RuntimeError("not this one")
        return Counter(ctx)

    reported: list[BaseException] = []
    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})

    @made.on_connect
    async def watch(ctx: Context) -> None:
        ctx.connection.on_error(reported.append)

    async with served(made), hosted_set(made) as host:
        await host.join()
        for _ in range(3):
            await host.open("game")
        assert (await host.error("toolsets/open", {"toolset": "game", "options": {"start": 9}}))["code"] == -32603
        await quiet()
        assert ended == []
        contexts[0].start_soon(broken)
        await again.wait()
        await host.close("game", "game-1")
        await quiet()
        assert ended == ["game-1"]
        with pytest.raises(LocalProtocolError):
            contexts[0].start_soon(broken)

        async def give_up() -> None:
            assert await contexts[1].close()
            assert not await contexts[1].close()
            await anyio.sleep_forever()

        contexts[1].start_soon(give_up)
        await host.next("toolsets/changed")
        await quiet()
        assert ended == ["game-1", "game-2"]
    assert sorted(ended) == ["game-1", "game-2", "game-3"]
    with pytest.raises(LocalProtocolError):
        contexts[2].start_soon(broken)


async def test_a_change_outside_of_calls_is_told_alone_or_with_its_event() -> None:
    bodies: list[Counter] = []

    class Waiting(Counter):
        async def visible(self) -> list[str]:  # type: ignore[override]
            return super().visible()

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        bodies.append(Waiting(ctx) if options["start"] else Counter(ctx))
        bodies[-1].count = 0
        return bodies[-1]

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
        await host.open("game", options={"start": 1})
        for body in bodies:
            body.count = 1
            body.ctx.changed()
            alone = await host.next("toolsets/changed")
            assert alone["params"]["hints"][0]["visible"] == ["up", "down"]
        bodies[0].count = 0
        bodies[0].ctx.event("down again")
        event = await host.next("push/event")
        assert [hint["visible"] for hint in event["params"]["hints"]] == [["up"]]
        bodies[1].count = 0
        bodies[1].ctx.event("down again")
        await host.next("push/event")
        while len(host.hints) < 6:
            await host.settled()
        assert (host.hints[-1]["instance"], host.hints[-1]["visible"]) == ("game-2", ["up"])
        assert [hint["rev"] for hint in host.hints] == list(range(1, 7))


@pytest.mark.spec("R-toolsets-9")
async def test_what_ended_is_told_after_a_restart_until_the_principal_is_forgotten() -> None:
    store, clock = MemoryStore(), FakeClock()

    def made() -> ToolsetServer:
        sets = {"game": counter_toolset(instances=True), "note": counter_toolset("n", instances=True, load=None)}
        return server(toolsets=sets, store=store, clock=clock, idle_close=LIMIT)

    async with served(first := made()), hosted_set(first) as host:
        await host.join()
        for toolset, id in (("game", "own"), ("game", "other"), ("note", "mine")):
            await host.open(toolset, instance=id)
        await host.close("game", "own")
        # With its answer, whatever becomes of the process.
        assert ("local", "ended own") in store.rows
        told = (await host.list())["ended"]
    async with served(second := made()):
        async with hosted_set(second) as host:
            ended = (await host.join())["ended"]
            assert ended[:1] == told
            assert [(each["instance"], each["reason"]) for each in ended] == [("own", "closed"), ("mine", "closed")]
            # What a host was told of is not the id of another.
            taken = await host.error("toolsets/open", {"toolset": "game", "instance": "own"})
            assert taken["data"]["path"] == "$.instance"
        clock.advance(LIMIT + 1)
        while second.principals:
            await quiet()
        async with hosted_set(second) as host:
            assert (await host.join())["ended"] == []
    async with served(third := made()), hosted_set(third) as host:
        assert (await host.join())["ended"] == []
    assert not [id for _, id in store.rows if id.startswith("ended")]


async def test_what_cannot_be_made_again_has_failed_for_good() -> None:
    def fails(ctx: InstanceContext, text: str) -> Counter:
        raise ValueError(text)

    store = MemoryStore()
    for load in (Counter.load, fails, Counter.load):
        made = server(toolsets={"game": counter_toolset(instances=True, load=load)}, store=store)
        async with served(made), hosted_set(made) as host:
            ended = (await host.join())["ended"]
            if not store.rows:
                await host.open("game")
    assert [(each["instance"], each["reason"]) for each in ended] == [("game-1", "failed")]


async def test_records_that_newer_ones_push_out_are_not_stored_any_more() -> None:
    store = MemoryStore()
    made = server(toolsets={"game": counter_toolset(instances=True)}, store=store)
    async with served(made), hosted_set(made) as host:
        await host.join()
        for number in range(ENDED_KEPT + 2):
            await host.open("game")
            await host.close("game", f"game-{number + 1}")
    kept = [id for _, id in store.rows if id.startswith("ended")]
    assert (len(kept), kept[0]) == (ENDED_KEPT, "ended game-3")


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("asked", ["visible", "title", "dump"])
@pytest.mark.parametrize("says", ["changed", "event", "other"])
async def test_what_is_asked_and_says_that_it_changed_settles(
    says: str, asked: str, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    made_of: list[Stirred] = []
    looks = 0

    def stir(body: Stirred) -> None:
        nonlocal looks
        looks += 1
        if says == "event":
            body.ctx.event("was asked")
        else:
            each = body if says == "changed" else made_of[1 - made_of.index(body)]
            each.ctx.changed()

    class Stirred(Counter):
        title: Any

        def dump(self) -> str:
            return str(self.count)

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        body = Stirred(ctx)
        usual = {"visible": body.visible, "title": lambda: "Counter", "dump": body.dump}[asked]

        def plain() -> Any:
            if len(made_of) == 2:
                stir(body)
            return usual()

        async def waiting() -> Any:
            await anyio.lowlevel.checkpoint()
            return plain()

        setattr(body, asked, waiting if waits else plain)
        made_of.append(body)
        return body

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)}, store=MemoryStore())
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
        await host.open("game")
        await quiet()
        for number, body in enumerate(made_of, 1):
            looks, body.count = 0, 1
            body.ctx.changed()
            shown = (f"game-{number}", ["up", "down"])
            while shown not in [(hint["instance"], hint["visible"]) for hint in host.hints]:
                await host.settled()
            await quiet()
            assert looks == 1
    reports = [record for record in caplog.records if record.exc_info and record.exc_info[0] is LocalProtocolError]
    assert len(reports) <= 1


# -- access


@pytest.mark.spec("R-toolsets-8")
async def test_access_is_asked_of_the_host_of_the_call_or_the_one_that_became_ready_last() -> None:
    contexts: list[InstanceContext] = []

    class Asking(Counter):
        async def call(self, tool: str, args: dict[str, Any]) -> Any:
            return (await self.ctx.access("https://api", scopes=["r"], reason="to read")).token

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        contexts.append(ctx)
        return Asking(ctx)

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    tokens: list[str] = []

    async def outside() -> None:
        tokens.append((await contexts[0].access("https://other")).token)

    async def grants(host: SetHost, token: str) -> Json:
        asked = await host.next("access/token")
        await host.reply(asked, {"token": token, "tokenType": "Bearer", "expiresAt": "2099-01-01T00:00:00Z"})
        return asked

    async with served(made), hosted_set(made) as host, hosted_set(made) as last, anyio.create_task_group() as tasks:
        await host.join()
        await last.join()
        await host.open("game")
        call = host.request("tools/call", {"name": "up", "arguments": {}})
        await host.send(call)
        asked = await grants(host, "one")
        assert asked["params"] == {"audience": "https://api", "reason": "to read", "scopes": ["r"]}
        assert text_of((await host.answer(call["id"]))["result"]) == "one"
        # It is the principal's, and kept.
        assert text_of(await last.call("up")) == "one"
        tasks.start_soon(outside)
        await grants(last, "two")
        await quiet()
        assert tokens == ["two"]
        # What this host gave is over with what it allows.
        await host.grant("tools")
        call = last.request("tools/call", {"name": "up", "arguments": {}})
        await last.send(call)
        await grants(last, "three")
        assert text_of((await last.answer(call["id"]))["result"]) == "three"


@pytest.mark.spec("R-toolsets-8")
async def test_credentials_end_with_the_connection_that_brought_them_and_with_its_policy() -> None:
    got: list[str] = []
    made = server()

    @made.tool
    async def ask(ctx: ToolsetContext) -> str:
        got.append((await ctx.access("https://api")).token)
        return got[-1]

    async def asked(host: SetHost, token: str, between: Any = None) -> None:
        call = host.request("tools/call", {"name": "ask", "arguments": {}})
        await host.send(call)
        request = await host.next("access/token")
        if between is not None:
            await between()
        await host.reply(request, {"token": token, "tokenType": "Bearer", "expiresAt": "2099-01-01T00:00:00Z"})
        assert text_of((await host.answer(call["id"]))["result"]) == token

    async with served(made), hosted_set(made) as host:
        await host.join()
        async with hosted_set(made) as other:
            await other.join()
            await asked(other, "one")
            assert text_of(await host.tool("ask")) == "one"
        await quiet()
        await asked(host, "two", lambda: host.grant("tools"))
        await asked(host, "three")
        assert text_of(await host.tool("ask")) == "three"
