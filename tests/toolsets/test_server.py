"""The server: declarations, principals, idle closing, restarts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core import InvalidValueError, LocalProtocolError, McplConnection
from mcpl_core.schemas import SchemaError
from mcpl_core.server import Context, Settings, tool_from_function
from mcpl_core.toolsets import FileToolsetStore, InstanceContext, Toolset, ToolsetServer, ToolsetStoreError
from mcpl_core.toolsets.keeping import Row
from tests.toolsets.toolset_kit import Counter, FakeClock, counter_toolset, hosted_set, quiet, served, text_of

pytestmark = pytest.mark.anyio

DAY = 24 * 3600.0


def say(text: str) -> str:
    return text


def server(**options: Any) -> ToolsetServer:
    facts: dict[str, Any] = {
        "toolsets": {"game": counter_toolset(instances=True), "lamp": counter_toolset("lamp_", default="open")},
        "clock": FakeClock(),
    }
    return ToolsetServer("s", "1", **{**facts, **options})


def clock_of(made: ToolsetServer) -> FakeClock:
    clock = made._runtime.clock
    assert isinstance(clock, FakeClock)
    return clock


@pytest.fixture
def silent() -> Iterator[None]:
    """What is reported outside of calls goes nowhere."""
    logger = logging.getLogger("mcpl_core")
    logger.disabled = True
    yield
    logger.disabled = False


# -- construction


@pytest.mark.parametrize("name", ["", "a.b", "a b", "x" * 65, None, "ä"])
def test_the_name_begins_the_names_of_feature_sets(name: Any) -> None:
    with pytest.raises(LocalProtocolError):
        ToolsetServer(name, "1")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"idle_close": -1}, "idle_close"),
        ({"idle_close": float("nan")}, "idle_close"),
        ({"held_events": 0}, "held_events"),
        ({"open_limit": 0}, "open_limit"),
    ],
)
def test_numbers_that_make_no_sense(options: Any, code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        server(**options)
    assert caught.value.code == code


def test_names_are_taken_once_and_some_are_kept() -> None:
    made = server(tools=[say, tool_from_function(say, name="other")])
    for name in ("say", "other", "up", "toolset_open", "toolset_close", "toolset_use"):
        with pytest.raises(LocalProtocolError):
            made.add_tool(tool_from_function(say, name=name))
    with pytest.raises(LocalProtocolError):
        server(toolsets={"a": counter_toolset(), "b": counter_toolset()})
    with pytest.raises(LocalProtocolError):
        server(toolsets={"a": counter_toolset("toolset_", tools=[{"name": "toolset_open"}])})
    with pytest.raises(SchemaError):
        made.tool(name="broken", input_schema={"type": "object", "properties": 3})(say)


def test_feature_sets_are_declared_and_toolsets_are_not_advertised_by_a_server() -> None:
    manifest = server().manifest
    assert {name: entry["uses"] for name, entry in manifest["featureSets"].items()} == {
        "s.tools": ["tools"],
        "s.events": ["pushEvents"],
    }


# -- principals


@pytest.mark.spec("R-toolsets-9")
async def test_instances_belong_to_the_principal_and_outlive_connections() -> None:
    made = server()
    async with served(made):
        async with hosted_set(made, "alice") as host:
            await host.join()
            await host.open("game", options={"title": "hers"})
            await host.call("up", by=5)
            await host.call("lamp_up")
            await host.close("lamp")
        async with (
            hosted_set(made, "alice") as again,
            hosted_set(made, "alice") as second,
            hosted_set(made, "bob") as bob,
        ):
            stated = await again.join()
            assert [each["title"] for each in stated["toolsets"][0]["openInstances"]] == ["hers"]
            # What is open by default is opened once: it was closed.
            assert stated["toolsets"][1]["open"] is False
            assert stated["rev"] == 0
            assert text_of(await again.call("up")) == "6"
            assert (await second.join())["toolsets"] == (await again.list())["toolsets"]
            foreign = await bob.join()
            assert foreign["toolsets"][0]["openInstances"] == []
            assert foreign["toolsets"][1]["open"] is True
            assert (await bob.call("up", "game-1"))["isError"]
            assert await bob.close("game", "game-1") is False
            assert (await bob.open("game"))["instance"] == "game-1"
            await quiet()
            await again.settled()
            await second.settled()
            assert again.hints == [] and second.hints == []
        assert sorted(made.principals) == ["alice", "bob"]


async def test_ids_are_never_made_twice() -> None:
    made = server()
    async with served(made), hosted_set(made) as host:
        await host.join()
        ids = []
        for proposed in (None, "game-7", None, "own", None):
            opened = await host.open("game", **({} if proposed is None else {"instance": proposed}))
            ids.append(opened["instance"])
            await host.close("game", opened["instance"])
        assert ids == ["game-1", "game-7", "game-8", "own", "game-9"]
        for taken in ("game-1", "game-3", "game-9", "own"):
            assert (await host.error("toolsets/open", {"toolset": "game", "instance": taken}))["code"] == -32602


async def test_opening_twice_is_once_without_instances() -> None:
    opened = 0
    go = anyio.Event()

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        nonlocal opened
        opened += 1
        await go.wait()
        return Counter(ctx)

    made = server(toolsets={"lamp": counter_toolset(open=open)})
    async with served(made), hosted_set(made) as host, hosted_set(made) as other:
        await host.join()
        await other.join()
        first, second = (each.request("toolsets/open", {"toolset": "lamp"}) for each in (host, other))
        await host.send(first)
        await other.send(second)
        await quiet()
        go.set()
        for each, request in ((host, first), (other, second)):
            assert (await each.answer(request["id"]))["result"]["visible"] == ["up"]
        assert opened == 1
        assert (await host.open("lamp"))["content"] == [{"type": "text", "text": "The count is 0."}]


async def test_a_default_that_cannot_be_opened_is_closed(silent: None) -> None:
    async def open(ctx: InstanceContext, options: Any) -> Counter:
        raise RuntimeError("no lamp")

    made = server(toolsets={"lamp": counter_toolset(open=open, default="open")})
    async with served(made), hosted_set(made) as host:
        assert (await host.join())["toolsets"][0]["open"] is False


async def test_a_default_that_takes_too_long_stays_closed(silent: None) -> None:
    async def open(ctx: InstanceContext, options: Any) -> Counter:
        await anyio.sleep_forever()
        return Counter(ctx)

    made = server(toolsets={"lamp": counter_toolset(open=open, default="open")}, settings=Settings(grace=0.01))
    async with served(made), hosted_set(made) as host:
        assert (await host.join())["toolsets"][0]["open"] is False


async def test_a_default_that_never_opens_ends_with_its_connection() -> None:
    ended = anyio.Event()

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return Counter(ctx)

    made = server(toolsets={"lamp": counter_toolset(open=open, default="open")})
    with anyio.fail_after(5):
        async with served(made), anyio.create_task_group() as tasks:
            ours, theirs = McplConnection.memory_pair()
            async with ours, theirs:
                tasks.start_soon(made.serve, theirs, "slow")
                await quiet()
                await ours.aclose()
                await ended.wait()


# -- idle


@pytest.mark.spec("R-toolsets-9")
async def test_what_is_idle_is_closed_in_time_and_the_principal_forgotten() -> None:
    bodies: list[Counter] = []

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        bodies.append(Counter(ctx))
        return bodies[-1]

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    clock = clock_of(made)
    async with served(made):
        for principal in ("alice", "bob"):
            async with hosted_set(made, principal) as host:
                await host.join()
                await host.open("game")
            clock.advance(10)
        clock.advance(DAY - 20.5)
        await quiet()
        assert not bodies[0].closed
        clock.advance(1)
        await quiet()
        assert [body.closed for body in bodies] == [True, False]
        assert made.principals == ("bob",)
        async with hosted_set(made, "bob") as bob:
            await bob.join()
            clock.advance(2 * DAY)
            await quiet()
            assert text_of(await bob.call("up")) == "1"
        async with hosted_set(made, "alice") as alice:
            assert (await alice.join())["ended"] == []
            assert (await alice.open("game"))["instance"] == "game-1"


async def test_who_hangs_at_its_end_holds_up_no_other() -> None:
    ended: list[str] = []
    all_closing = anyio.Event()

    class Hanging(Counter):
        async def close(self) -> None:
            ended.append(str(self.ctx.instance))
            if len(ended) == 3:
                all_closing.set()
            await all_closing.wait()

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Hanging(ctx)

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made):
        for principal in ("alice", "bob"):
            async with hosted_set(made, principal) as host:
                await host.join()
                for _ in range(3):
                    await host.open("game")
            if principal == "alice":
                clock_of(made).advance(DAY)
                async with anyio.create_task_group() as tasks:
                    for _ in range(3):
                        tasks.start_soon(made.close_idle)
                await quiet()
                assert (made.principals, len(ended)) == ((), 3)
                ended.clear()
                all_closing = anyio.Event()
    assert sorted(ended) == ["game-1", "game-2", "game-3"]


async def test_who_gives_up_closing_what_is_idle_leaves_nothing_half_closed() -> None:
    begun, go, scope = anyio.Event(), anyio.Event(), anyio.CancelScope()
    bodies: list[Counter] = []

    class Slow(Counter):
        async def close(self) -> None:
            begun.set()
            await go.wait()
            self.closed = True

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        bodies.append(Slow(ctx))
        return bodies[-1]

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    with anyio.fail_after(5):
        async with hosted_set(made) as host:
            await host.join()
            await host.open("game")
        clock_of(made).advance(DAY + 1)

        async def close() -> None:
            with scope:
                await made.close_idle()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close)
            await begun.wait()
            scope.cancel()
            go.set()
    assert bodies[0].closed
    assert made.principals == ()


async def test_zero_keeps_them() -> None:
    made = server(idle_close=0)
    async with served(made):
        async with hosted_set(made) as host:
            await host.join()
            await host.open("game")
        clock_of(made).advance(1000 * DAY)
        await quiet()
        await made.close_idle()
        async with hosted_set(made) as host:
            assert len((await host.join())["toolsets"][0]["openInstances"]) == 1


async def test_who_cannot_be_made_again_holds_up_the_end_of_no_other(tmp_path: Path, silent: None) -> None:
    path = tmp_path / "games"
    made = await restart(path)
    async with served(made):
        for name in ("alice", "bob"):
            async with hosted_set(made, name) as host:
                await host.join()
                await host.open("game")
    made.close_store()

    async def load(ctx: InstanceContext, text: str) -> Counter:
        if ctx.principal == "alice":
            await anyio.sleep_forever()
        closing.append(Watched.load(ctx, text))
        return closing[-1]

    class Watched(Counter):
        async def close(self) -> None:
            closed.set()

    closing: list[Counter] = []
    closed = anyio.Event()
    toolsets = {"game": counter_toolset(instances=True, load=load)}
    again = await restart(path, toolsets=toolsets, settings=Settings(grace=0.05))
    async with served(again, 5):
        clock_of(again).advance(DAY + 1)
        await closed.wait()
        assert again.principals == ()
        async with hosted_set(again, "alice") as host:
            # Welcome when the old one is gone.
            assert (await host.join())["toolsets"][0]["openInstances"] == []
    again.close_store()


async def test_a_server_ends_whatever_its_instances_do(silent: None) -> None:
    class Hanging(Counter):
        async def dump(self) -> str:  # type: ignore[override]
            if self.count:
                await anyio.sleep_forever()
            return super().dump()

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Hanging(ctx)

    store = FailingStore()
    toolsets = {"game": counter_toolset(instances=True, open=open)}
    made = server(store=store, toolsets=toolsets, settings=Settings(grace=0.02))
    async with served(made, 5), hosted_set(made) as host:
        await host.join()
        for _ in range(20):
            await host.open("game")
        # The call stands, and the game is stored as it was before.
        assert text_of(await host.call("up", "game-1")) == "1"
    assert b"[0" in store.rows["local", "instance game-1"]


async def test_a_store_of_an_application_that_fails_in_its_own_way_ends_nothing(silent: None) -> None:
    class Own(FailingStore):
        def apply(self, rows: Any) -> None:
            if self.fails:
                raise OSError("no space")
            super().apply(rows)

    store = Own()
    made = server(store=store)
    async with served(made):
        async with hosted_set(made) as host:
            await host.join()
            await host.open("game")
            await host.open("game")
            store.fails = True
            assert (await host.error("toolsets/open", {"toolset": "game"}))["data"]["reason"] == "store"
            assert await host.close("game", "game-1")
            assert await made.evict("local", "game", "game-2")
        clock_of(made).advance(DAY + 1)
        await quiet()
        assert made.principals == ()
        store.fails = False
    assert list(store.rows) == []


@pytest.mark.parametrize("name", ["\ud800", None, 5])
async def test_a_principal_is_named_by_a_text(name: Any) -> None:
    made = server()
    near, far = McplConnection.memory_pair()
    async with near, far:
        with pytest.raises(LocalProtocolError):
            await made.serve(near, name)
    assert made.principals == ()


async def test_the_end_of_the_server_closes_what_is_open() -> None:
    bodies: list[Counter] = []

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        bodies.append(Counter(ctx))
        return bodies[-1]

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made):
        async with hosted_set(made) as host:
            await host.join()
            await host.open("game")
        with pytest.raises(LocalProtocolError):
            await made.__aenter__()
    assert bodies[0].closed
    # It may be used again.
    async with served(made), hosted_set(made) as host:
        assert [record["reason"] for record in (await host.join())["ended"]] == ["closed"]


async def test_a_server_that_was_not_entered_serves_as_well() -> None:
    made = server()
    with anyio.fail_after(10):
        async with hosted_set(made) as host, hosted_set(made) as other:
            await host.join()
            await other.join()
            await host.open("game")
            await other.call("up")
            await host.next("toolsets/changed")
        async with hosted_set(made) as host:
            stated = (await host.join())["toolsets"][0]["openInstances"]
            assert [instance["id"] for instance in stated] == ["game-1"]


async def test_what_serving_raises_is_raised() -> None:
    made = server()
    ours, theirs = McplConnection.memory_pair()
    async with served(made), ours, theirs, anyio.create_task_group() as tasks:
        tasks.start_soon(theirs.serve, {})
        await quiet()
        with pytest.raises(LocalProtocolError):
            await made.serve(theirs)
        tasks.cancel_scope.cancel()


async def test_a_connection_is_served_once() -> None:
    made = server()
    async with served(made), hosted_set(made) as host:
        await host.join()
        (session,) = made.sessions
        with pytest.raises(LocalProtocolError):
            await made.serve(session.connection)
        assert text_of(await host.call("lamp_up")) == "1"


async def test_who_comes_back_while_it_is_forgotten_is_new_once_the_old_is_gone() -> None:
    closing, go = anyio.Event(), anyio.Event()

    class Slow(Counter):
        async def close(self) -> None:
            closing.set()
            await go.wait()

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Slow(ctx)

    store = FailingStore()
    made = server(store=store, toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made):
        async with hosted_set(made) as host:
            await host.join()
            await host.open("game")
        clock_of(made).advance(DAY)
        await closing.wait()
        async with hosted_set(made) as host:
            hello = host.request("initialize", {})
            await host.send(hello)
            await quiet()
            go.set()
            assert (await host.answer(hello["id"]))["error"]["code"] == -32602
            stated = await host.join()
            assert (stated["toolsets"][0]["openInstances"], stated["ended"]) == ([], [])
            assert (await host.open("game"))["instance"] == "game-1"
            go.set()
    assert ("local", "instance game-1") in store.rows


async def test_access_is_advertised_by_who_uses_it() -> None:
    assert "access" not in server().manifest
    assert server(access=True, manifest_extra={"own": 1}).manifest["access"] == {"token": True}


async def test_eviction_is_told() -> None:
    made = server()
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
        assert await made.evict("local", "game", "game-1")
        assert not await made.evict("local", "game", "game-1")
        assert not await made.evict("nobody", "game", "game-1")
        assert (await host.next("toolsets/changed"))["params"]["hints"][0]["open"] is False
        assert [record["reason"] for record in (await host.list())["ended"]] == ["evicted"]
        assert await made.evict("local", "lamp")
        assert (await host.next("toolsets/changed"))["params"]["hints"][0]["toolset"] == "lamp"


async def test_listening_runs_the_server() -> None:
    made = server()
    started: list[str] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            endpoint = await tasks.start(made.listen, "tcp://127.0.0.1:0")
            async with McplConnection.connect(endpoint) as connection:
                hello = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "c", "version": "1"},
                }
                started.append((await connection.send_request("initialize", hello))["serverInfo"]["name"])
            tasks.cancel_scope.cancel()
    assert started == ["s"]


# -- restarts


async def restart(path: Path, **options: Any) -> ToolsetServer:
    return server(store=FileToolsetStore(path), **options)


@pytest.mark.spec("R-toolsets-9")
async def test_a_restart_finds_the_instances(tmp_path: Path) -> None:
    path = tmp_path / "games"
    made = await restart(path)
    async with served(made):
        async with hosted_set(made, "alice") as host:
            await host.join()
            await host.open("game", options={"title": "one"})
            await host.open("game", instance="own")
            await host.open("game")
            await host.call("up", "own", by=7)
            await host.call("lamp_up", by=3)
            await host.close("game", "game-2")
        clock_of(made).advance(60)
    made.close_store()
    again = await restart(path)
    assert again.principals == ("alice",)
    async with served(again), hosted_set(again, "alice") as host, hosted_set(again, "bob") as bob:
        stated = await host.join()
        game, lamp = stated["toolsets"]
        assert [(each["id"], each["title"]) for each in game["openInstances"]] == [
            ("game-1", "one"),
            ("own", "Counter"),
        ]
        assert game["openInstances"][1]["content"] == [{"type": "text", "text": "The count is 7."}]
        assert text_of(await host.call("lamp_up")) == "4"
        assert lamp["open"]
        assert (await host.open("game"))["instance"] == "game-3"
        assert (await bob.join())["toolsets"][0]["openInstances"] == []
    again.close_store()


async def test_what_is_open_by_default_is_so_after_a_restart_unless_it_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "lamps"
    toolsets = {
        "kept": counter_toolset("kept_", default="open"),
        "closed": counter_toolset("closed_", default="open"),
        "new": counter_toolset("new_", default="open", load=None),
    }
    made = await restart(path, toolsets=toolsets)
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.call("kept_up", by=2)
        await host.call("new_up", by=2)
        await host.close("closed")
    made.close_store()
    again = await restart(path, toolsets=toolsets)
    async with served(again), hosted_set(again) as host:
        assert [toolset["open"] for toolset in (await host.join())["toolsets"]] == [True, False, True]
        assert text_of(await host.call("kept_up")) == "3"
        assert text_of(await host.call("new_up")) == "1"
    again.close_store()


async def test_what_cannot_be_made_again_has_failed(tmp_path: Path, silent: None) -> None:
    path = tmp_path / "games"
    made = await restart(path)
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
    made.close_store()

    def load(ctx: InstanceContext, text: str) -> Counter:
        raise ValueError("an older format")

    again = await restart(path, toolsets={"game": counter_toolset(instances=True, load=load)})
    async with served(again), hosted_set(again) as host:
        ended = (await host.join())["ended"]
        assert [(record["toolset"], record["reason"]) for record in ended] == [("game", "failed")]
    again.close_store()
    third = await restart(path)
    async with served(third), hosted_set(third) as host:
        assert (await host.join())["toolsets"][0]["openInstances"] == []
        assert (await host.open("game"))["instance"] == "game-2"
    third.close_store()


async def test_a_principal_that_never_comes_back_is_forgotten_after_a_restart(tmp_path: Path, silent: None) -> None:
    path = tmp_path / "games"
    made = await restart(path)
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
    made.close_store()
    closed = anyio.Event()

    class Watched(Counter):
        async def close(self) -> None:
            closed.set()

    again = await restart(path, toolsets={"game": counter_toolset(instances=True, load=Watched.load)})
    async with served(again):
        clock_of(again).advance(DAY + 1)
        await closed.wait()
        await quiet()
        assert again.principals == ()
    again.close_store()
    store = FileToolsetStore(path)
    assert list(store.load()) == []
    store.close()


class FailingStore:
    """Fails when it is told to."""

    def __init__(self) -> None:
        self.fails = False
        self.rows: dict[tuple[str, str], bytes] = {}

    def load(self) -> list[tuple[str, str, bytes]]:
        return [(*key, data) for key, data in self.rows.items()]

    def apply(self, rows: Any) -> None:
        if self.fails:
            raise ToolsetStoreError("full")
        for row in rows:
            assert isinstance(row, Row)
            if row.data is None:
                self.rows.pop((row.principal, row.id), None)
            else:
                self.rows[row.principal, row.id] = row.data

    def close(self) -> None:
        pass


@pytest.mark.spec("R-toolsets-9")
async def test_a_store_that_fails_refuses_what_is_new_and_loses_nothing_that_is_there() -> None:
    store = FailingStore()
    reported: list[BaseException] = []
    made = server(store=store, toolsets={"game": counter_toolset(instances=True)})

    @made.on_connect
    async def watch(ctx: Context) -> None:
        ctx.connection.on_error(reported.append)

    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
        store.fails = True
        error = await host.error("toolsets/open", {"toolset": "game"})
        assert (error["code"], error["data"]) == (-32603, {"toolset": "game", "reason": "store"})
        assert text_of(await host.call("up", by=4)) == "4"
        assert {type(exc) for exc in reported} == {ToolsetStoreError}
        store.fails = False
        await host.open("game")
    assert sorted(id for _, id in store.rows) == ["", "instance game-1", "instance game-3"]
    assert b"[4" in store.rows["local", "instance game-1"]


async def test_dumps_that_are_none_are_reported() -> None:
    class Undumpable(Counter):
        def dump(self) -> Any:
            return 7

    def open(ctx: InstanceContext, options: Any) -> Counter:
        return Undumpable(ctx) if options["start"] else Counter(ctx)

    class Plain:
        def __init__(self, ctx: InstanceContext, options: Any) -> None: ...
        def call(self, tool: str, args: Any) -> str:
            return "ok"

    store = FailingStore()
    plain = Toolset(title="P", summary="", tools=[{"name": "go"}], open=Plain, instances=True)
    made = server(store=store, toolsets={"game": counter_toolset(instances=True, open=open), "plain": plain})
    async with served(made), hosted_set(made) as host:
        await host.join()
        assert (await host.error("toolsets/open", {"toolset": "game", "options": {"start": 1}}))["code"] == -32603
        await host.open("plain")
        await host.open("game")
        assert text_of(await host.call("go")) == "ok"
    assert sorted(id for _, id in store.rows) == ["", "ended plain-1", "instance game-2"]


async def test_settings_and_other_declarations_are_the_server_runtimes_own() -> None:
    made = server(settings=Settings(handler_limit=3), title="T", instructions="I")
    made.feature_set("s.more", "More", uses=["tools"])
    async with served(made), hosted_set(made) as host:
        hello = await host.hello()
        assert (hello["serverInfo"]["title"], hello["instructions"]) == ("T", "I")
