"""The steps of an instance."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core import InternalError, InvalidParams
from mcpl_core.server.calling import Caller
from mcpl_core.toolsets import InstanceContext
from mcpl_core.toolsets.checking import checker_of
from mcpl_core.toolsets.instances import DeclaredToolset, Instances, InstancesSettings
from mcpl_core.toolsets.keeping import InstanceRecord, Keeper, PrincipalRecord, Row
from mcpl_core.toolsets.principal import Principal
from mcpl_core.toolsets.wire import Key
from mcpl_core.wire.values import encode_value
from tests.toolsets.toolset_kit import Counter, FakeClock, counter_toolset, quiet

pytestmark = pytest.mark.anyio


class Bench:
    """Instances without a server around them."""

    def __init__(self, keeper: Keeper | None = None, grace: float = 5, **facts: Any) -> None:
        self.reported: list[BaseException] = []
        self.stopped: list[Key] = []
        self.principal = Principal("p", ["game"], 3, 256)
        surroundings: Any = None
        declared = counter_toolset(**{"instances": True, **facts})
        options = None if declared.options is None else checker_of(dict(declared.options), None)
        self.instances = Instances(
            InstancesSettings(
                toolsets={"game": DeclaredToolset("game", declared, options)},
                caller=Caller(10),
                clock=FakeClock(),
                keeper=keeper or Keeper(None),
                place=lambda principal, key: InstanceContext(surroundings, principal, key),
                begin=lambda principal, key: None,
                stop=lambda principal, key: self.stopped.append(key),
                report=self.reported.append,
                grace=grace,
            )
        )

    async def open(self, **options: Any) -> Any:
        return (await self.instances.open(self.principal, "game", options)).instance


async def test_what_is_open_is_known_with_the_last_step() -> None:
    bench = Bench()
    seen: list[Any] = []

    async def before() -> None:
        seen.append((bench.principal.open(), bench.instances.alive(bench.principal, ("game", "game-1"))))

    opened, content = await bench.instances.open(bench.principal, "game", {}, None, before)
    assert seen == [([], True)]
    assert (bench.principal.open(), content[0]["text"]) == ([opened], "The count is 0.")

    async def before_end() -> None:
        seen.append((bench.principal.open(), opened.closing))

    assert await bench.instances.end(bench.principal, opened, "closed", before=before_end)
    assert seen[1] == ([opened], True)
    assert (bench.principal.open(), bench.stopped) == ([], [("game", "game-1")])
    assert not bench.instances.alive(bench.principal, opened.key)


async def test_a_toolset_without_options_takes_none() -> None:
    bench = Bench(options=None, open=lambda ctx, options: Counter(ctx))
    with pytest.raises(InvalidParams) as caught:
        await bench.open(start=1)
    assert caught.value.data == {"path": "$.options"}
    assert (await bench.open()).title == "Counter"


async def test_only_what_a_function_says_itself_is_told() -> None:
    failure: list[Exception] = [InvalidParams(message="own", data={"own": 1}), OSError("secret")]

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        raise failure.pop(0)

    bench = Bench(open=open)
    with pytest.raises(InvalidParams) as own:
        await bench.open()
    assert own.value.data == {"own": 1}
    with pytest.raises(InternalError) as hidden:
        await bench.open()
    assert "secret" not in hidden.value.message
    assert [type(exc) for exc in bench.reported] == [OSError]


async def test_what_was_made_and_cannot_be_opened_is_closed() -> None:
    bodies: list[Counter] = []

    class Blind(Counter):
        def visible(self) -> list[str]:
            raise RuntimeError("blind")

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        bodies.append(Blind(ctx))
        return bodies[-1]

    bench = Bench(open=open)
    with pytest.raises(InternalError):
        await bench.open()
    assert (bodies[0].closed, bench.principal.open(), bench.stopped) == (True, [], [("game", "game-1")])

    async def never() -> None:
        await anyio.sleep_forever()

    bench = Bench()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.instances.open, bench.principal, "game", {}, None, never)
        await quiet()
        tasks.cancel_scope.cancel()
    assert (bench.principal.open(), bench.stopped) == ([], [("game", "game-1")])


async def test_what_a_close_that_fails_after_all_costs() -> None:
    class Sticky(Counter):
        def visible(self) -> list[str]:
            raise RuntimeError("blind")

        async def close(self) -> None:
            raise RuntimeError("sticky")

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Sticky(ctx)

    bench = Bench(open=open)
    with pytest.raises(InternalError):
        await bench.open()
    assert len(bench.reported) == 2


@pytest.mark.spec("R-toolsets-3")
async def test_a_later_look_counts() -> None:
    gates: list[anyio.Event] = []

    class Slow(Counter):
        async def visible(self) -> list[str]:  # type: ignore[override]
            count = self.count
            if len(gates) > 1:
                gate = gates.pop(0)
                await gate.wait()
            return ["up", "down"] if count else ["up"]

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Slow(ctx)

    bench = Bench(open=open)
    opened = await bench.open()
    gates += [anyio.Event(), anyio.Event()]
    slow = gates[0]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.instances.look, bench.principal, opened)
        await quiet()
        opened.body.count = 1
        await bench.instances.look(bench.principal, opened)
        assert bench.principal.presence.get(opened.key) == ("up", "down")
        slow.set()
    assert bench.principal.presence.get(opened.key) == ("up", "down")


async def test_what_can_be_seen_without_waiting() -> None:
    class Async(Counter):
        async def visible(self) -> list[str]:  # type: ignore[override]
            return ["down"]

    class Hidden(Counter):
        def visible(self) -> Any:
            return self.later()

        async def later(self) -> list[str]:
            await quiet()
            return ["down"]

    kinds: list[type[Counter]] = [Counter, Async, Hidden]

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        made: Counter = kinds[options["start"]](ctx)
        return made

    bench = Bench(open=open)
    for number, now in enumerate((True, False, False)):
        opened = await bench.open(start=number)
        opened.body.count = 5
        assert bench.instances.look_now(bench.principal, opened) is now


async def test_titles_and_contents_in_all_forms() -> None:
    class Async:
        async def title(self) -> str:
            return "later"

        async def content(self) -> Any:
            return None

        async def call(self, tool: str, args: Any) -> None: ...

    class Plain:
        def call(self, tool: str, args: Any) -> None: ...

    class Odd(Plain):
        def title(self) -> int:
            return 3

        def content(self) -> Any:
            return 3

        def visible(self) -> str:
            return "up"

    kinds = [Async, Plain, Odd]
    bench = Bench(open=lambda ctx, options: kinds[options["start"]]())
    found = []
    for number in (0, 1):
        opened, content = await bench.instances.open(bench.principal, "game", {"start": number})
        found.append((opened.title, content, bench.principal.presence.get(opened.key)))
        assert await bench.instances.end(bench.principal, opened, "closed")
    assert found == [("later", [], ("up", "down")), ("Counters", [], ("up", "down"))]
    with pytest.raises(InternalError):
        await bench.open(start=2)
    assert len(bench.reported) == 2


async def test_an_end_that_nobody_waits_for_is_bounded() -> None:
    class Endless(Counter):
        async def close(self) -> None:
            await anyio.sleep_forever()

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Endless(ctx)

    bench = Bench(grace=0.01, open=open)
    opened = await bench.open()
    assert await bench.instances.end(bench.principal, opened, "idle")
    assert [record.reason for record in bench.principal.ended()] == ["failed"]
    assert not await bench.instances.end(bench.principal, opened, "idle")


async def test_what_is_kept_of_a_principal() -> None:
    for load, kept in ((Counter.load, ["game"]), (None, [])):
        bench = Bench(keeper := Keeper(store := Remembering()), load=load)
        bench.principal.reserve("game")
        bench.principal.defaults_opened.add("game")
        bench.principal.idle_since = 4.0
        bench.instances.note(bench.principal)
        await keeper.write()
        (row,) = store.rows
        record = PrincipalRecord(counters={"game": 1}, defaults_opened=kept, idle_since=4.0)
        assert row.data == encode_value(record)


async def test_an_id_that_was_not_used_after_all_is_free_again() -> None:
    bench = Bench()
    with pytest.raises(InternalError):
        await bench.instances.open(bench.principal, "game", {"start": 0}, "own", _fail)
    opened, _ = await bench.instances.open(bench.principal, "game", {}, "own")
    assert opened.key == ("game", "own")


async def _fail() -> None:
    raise RuntimeError("not now")


class Remembering:
    """A store that remembers what it was told."""

    def __init__(self, *known: tuple[str, str, bytes]) -> None:
        self.known = known
        self.rows: list[Row] = []

    def load(self) -> tuple[tuple[str, str, bytes], ...]:
        return self.known

    def apply(self, rows: Any) -> None:
        self.rows += rows

    def close(self) -> None: ...


async def test_what_ended_meanwhile_is_not_stored_again() -> None:
    go = anyio.Event()

    class Slow(Counter):
        async def dump(self) -> str:  # type: ignore[override]
            if self.count:
                await go.wait()
            return "text"

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Slow(ctx)

    store = Remembering()
    bench = Bench(Keeper(store), open=open)
    opened = await bench.open()
    assert bench.instances.is_kept(opened)
    opened.body.count = 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.instances.keep, bench.principal, opened)
        await quiet()
        assert await bench.instances.end(bench.principal, opened, "closed")
        go.set()
    assert [(row.id, row.data is None) for row in store.rows if row.id.startswith("instance")][-1] == (
        "instance game-1",
        True,
    )
    assert bench.reported == []


async def test_what_is_open_by_itself_is_waited_for() -> None:
    closing, go = anyio.Event(), anyio.Event()

    class Slow(Counter):
        async def close(self) -> None:
            closing.set()
            await go.wait()

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Slow(ctx)

    bench = Bench(open=open, instances=False)
    first = await bench.open()
    second: list[Any] = []

    async def again() -> None:
        second.append(await bench.open())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: bench.instances.end(bench.principal, first, "closed", bounded=False))
        await closing.wait()
        tasks.start_soon(again)
        tasks.start_soon(again)
        await quiet()
        assert second == []
        go.set()
    assert second[0] is second[1] is not first
    with pytest.raises(InvalidParams):
        await bench.instances.open(bench.principal, "game", {}, "id")


# -- made again


def kept(instance: str | None = "game-1") -> Keeper:
    record = InstanceRecord(toolset="game", instance=instance, title="T", opened_at=1.0, dump='[1, "T"]')
    return Keeper(
        Remembering(("p", "toolset game" if instance is None else f"instance {instance}", encode_value(record)))
    )


@pytest.mark.spec("R-toolsets-9")
async def test_what_takes_too_long_is_made_again_another_time() -> None:
    hanging = True

    async def load(ctx: InstanceContext, text: str) -> Counter:
        if hanging:
            await anyio.sleep_forever()
        return Counter.load(ctx, text)

    bench = Bench(kept(), grace=0.05, load=load)
    with anyio.fail_after(5):
        await bench.instances.make_again(bench.principal)
        assert (len(bench.reported), bench.principal.open(), list(bench.principal.ended())) == (1, [], [])
        hanging = False
        await bench.instances.make_again(bench.principal)
    assert [opened.key for opened in bench.principal.open()] == [("game", "game-1")]


@pytest.mark.parametrize(("instances", "instance"), [(True, None), (False, "game-1")])
async def test_what_was_an_instance_is_none_of_a_toolset_without(instances: bool, instance: str | None) -> None:
    bench = Bench(kept(instance), instances=instances)
    await bench.instances.make_again(bench.principal)
    assert (bench.principal.open(), len(bench.reported)) == ([], 1)
    assert [record.reason for record in bench.principal.ended()] == (["failed"] if instance else [])


async def test_what_was_made_again_and_cannot_be_asked_is_closed() -> None:
    bodies: list[Counter] = []

    class Broken(Counter):
        def visible(self) -> list[str]:
            raise RuntimeError

        @classmethod
        def load(cls, ctx: InstanceContext, text: str) -> Counter:
            bodies.append(super().load(ctx, text))
            return bodies[-1]

    bench = Bench(kept(), load=Broken.load)
    await bench.instances.make_again(bench.principal)
    assert [record.reason for record in bench.principal.ended()] == ["failed"]
    assert bodies[0].closed


async def test_a_checker_that_fails_opens_nothing() -> None:
    class Failing:
        def fill(self, value: Any) -> Any:
            raise KeyError("a bug")

        def check(self, value: Any) -> None: ...

    bench = Bench()
    declared = bench.instances.declared("game")
    bench.instances._toolsets = {"game": declared._replace(options=Failing())}
    with pytest.raises(InternalError) as caught:
        await bench.open()
    assert caught.value.data == {"toolset": "game"}
    assert [type(exc) for exc in bench.reported] == [KeyError]


async def test_what_is_about_to_end_is_not_stored_again() -> None:
    keeper = Keeper(store := Remembering())
    bench = Bench(keeper)
    opened = await bench.open()
    ending, go = anyio.Event(), anyio.Event()

    async def wait() -> None:
        ending.set()
        await go.wait()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            end = bench.instances.end
            tasks.start_soon(lambda: end(bench.principal, opened, "closed", before=wait))
            await ending.wait()
            # A call that came before is answered now.
            await bench.instances.keep(bench.principal, opened)
            go.set()
    assert [row.data for row in store.rows if row.id.startswith("instance ")][-1] is None
