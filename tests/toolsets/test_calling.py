"""What hosts ask, and what the answers carry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from mcpl_core.server import Context, Settings, ToolError, ToolResult
from mcpl_core.toolsets import InstanceContext, Toolset, ToolsetContext, ToolsetServer
from tests.toolsets.toolset_kit import BY, Counter, FakeClock, counter_toolset, hosted_set, quiet, served, text_of

pytestmark = pytest.mark.anyio


def server(**options: Any) -> ToolsetServer:
    facts: dict[str, Any] = {
        "toolsets": {"game": counter_toolset(instances=True), "lamp": counter_toolset("lamp_")},
        "clock": FakeClock(),
    }
    return ToolsetServer("s", "1", **{**facts, **options})


def toolset(**facts: Any) -> Toolset:
    """A toolset of one tool, ``go``, whose function is ``call``."""
    call = facts.pop("call")

    class Body:
        def __init__(self, ctx: InstanceContext, options: Any) -> None:
            self.ctx = ctx

        async def call(self, tool: str, args: dict[str, Any]) -> Any:
            return await call(self.ctx, tool, args)

    given: dict[str, Any] = {"title": "T", "summary": "S", "tools": [{"name": "go"}], "open": Body, **facts}
    return Toolset(**given)


@pytest.fixture
def silent() -> Iterator[None]:
    """What is reported goes nowhere."""
    logger = logging.getLogger("mcpl_core")
    logger.disabled = True
    yield
    logger.disabled = False


# -- lists


@pytest.mark.spec("R-toolsets-2")
async def test_the_list_is_full_and_fixed_and_says_what_is_visible() -> None:
    made = server()

    @made.tool
    async def ping(ctx: Context) -> str:
        return "pong"

    async with served(made), hosted_set(made) as host:
        await host.join()
        before = (await host.result("tools/list"))["tools"]
        assert [(tool["name"], tool["_meta"]["mcpl/presence"]) for tool in before] == [
            ("ping", {"kind": "static", "visible": True}),
            ("up", {"kind": "dynamic", "visible": False, "toolset": "game"}),
            ("down", {"kind": "dynamic", "visible": False, "toolset": "game"}),
            ("lamp_up", {"kind": "dynamic", "visible": False, "toolset": "lamp"}),
            ("lamp_down", {"kind": "dynamic", "visible": False, "toolset": "lamp"}),
        ]
        await host.open("game")
        await host.open("game", options={"start": 3})
        after = (await host.result("tools/list"))["tools"]
        assert [tool["name"] for tool in after] == [tool["name"] for tool in before]
        shown = {tool["name"]: tool["_meta"]["mcpl/presence"]["visible"] for tool in after}
        assert shown == {"ping": True, "up": True, "down": True, "lamp_up": False, "lamp_down": False}
        assert not [message for message in host.heard if "list_changed" in message["method"]]
        assert (await host.error("tools/list", {"cursor": "1"}))["code"] == -32602


@pytest.mark.spec("R-toolsets-3")
async def test_a_list_of_toolsets_is_a_full_statement() -> None:
    made = server()
    async with served(made), hosted_set(made) as host:
        first = await host.join()
        assert first["rev"] == 0
        assert first["ended"] == []
        game, lamp = first["toolsets"]
        assert {name: game[name] for name in ("name", "title", "summary", "default", "instances", "open")} == {
            "name": "game",
            "title": "Counters",
            "summary": "Count up and down",
            "default": "closed",
            "instances": True,
            "open": False,
        }
        assert (game["tools"], game["visible"], game["openInstances"]) == (["up", "down"], [], [])
        assert game["optionsSchema"]["type"] == "object"
        assert "openInstances" not in lamp
        await host.open("game", options={"title": "Mine"})
        await host.open("game", options={"start": 1})
        await host.close("game", "game-1")
        await host.open("lamp")
        second = await host.list()
        assert second["rev"] == 4
        game, lamp = second["toolsets"]
        assert game["openInstances"] == [
            {
                "id": "game-2",
                "title": "Counter",
                "visible": ["up", "down"],
                "content": [{"type": "text", "text": "The count is 1."}],
                "openedAt": "2027-01-15T08:00:00.000Z",
            }
        ]
        assert (game["open"], game["visible"]) == (True, ["up", "down"])
        assert (lamp["open"], lamp["visible"]) == (True, ["lamp_up"])
        assert second["ended"] == [
            {
                "toolset": "game",
                "instance": "game-1",
                "title": "Mine",
                "reason": "closed",
                "endedAt": "2027-01-15T08:00:00.000Z",
            }
        ]


async def test_what_opens_while_a_list_is_made_is_in_it() -> None:
    waiting, go = anyio.Event(), anyio.Event()

    class Slow(Counter):
        async def content(self) -> str:  # type: ignore[override]
            waiting.set()
            await go.wait()
            return "slow"

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Slow(ctx) if not waiting.is_set() and options.get("start") else Counter(ctx)

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made), hosted_set(made) as host:
        await host.join()
        opening = host.request("toolsets/open", {"toolset": "game", "options": {"start": 1}})
        await host.send(opening)
        await waiting.wait()
        go.set()
        await host.answer(opening["id"])
        go, waiting = anyio.Event(), anyio.Event()
        listing = host.request("toolsets/list", {})
        await host.send(listing)
        await waiting.wait()
        await host.open("game")
        go.set()
        statement = (await host.answer(listing["id"]))["result"]
        assert [each["id"] for each in statement["toolsets"][0]["openInstances"]] == ["game-1", "game-2"]
        assert statement["rev"] == 2


# -- changes in results


@pytest.mark.spec("R-toolsets-3")
async def test_a_change_of_a_call_rides_in_its_result_and_is_not_pushed() -> None:
    made = server()
    async with served(made), hosted_set(made) as host, hosted_set(made) as other:
        await host.join()
        await other.join()
        opened = await host.open("game")
        assert opened["_meta"]["mcpl/hints"] == [
            {"rev": 1, "toolset": "game", "instance": "game-1", "open": True, "visible": ["up"]}
        ]
        assert (opened["instance"], opened["title"], opened["visible"]) == ("game-1", "Counter", ["up"])
        assert "_meta" not in await host.call("up", by=200)
        assert (await host.call("up"))["_meta"]["mcpl/hints"] == [
            {"rev": 2, "toolset": "game", "instance": "game-1", "open": True, "visible": ["up", "down"]}
        ]
        await host.open("lamp")
        assert await host.close("lamp")
        await quiet()
        await host.settled()
        assert [message["method"] for message in host.all if "method" in message] == []
        await other.settled()
        assert [hint["rev"] for hint in other.hints] == list(range(1, len(other.hints) + 1))
        assert {message["method"] for message in other.heard} == {"toolsets/changed"}
        assert other.hints[-1] == {"rev": other.hints[-1]["rev"], "toolset": "lamp", "open": False, "visible": []}


async def test_no_change_is_told_before_the_first_list_nor_to_a_host_without_hints() -> None:
    made = server()
    async with served(made), hosted_set(made) as host, hosted_set(made) as without:
        await host.hello()
        await host.grant("tools")
        await without.hello(toolsets=False)
        await without.grant("tools")
        await without.list()
        assert "_meta" not in await host.open("game")
        assert "_meta" not in await without.call("up")
        await host.result("tools/list")
        assert (await host.call("down"))["_meta"]["mcpl/hints"][0]["rev"] == 1
        assert without.hints == []
        await without.settled()
        assert not without.heard


@pytest.mark.spec("R-toolsets-3")
async def test_numbers_have_no_gap_under_64_calls_at_once() -> None:
    gate = anyio.Event()
    arrived = 0

    async def call(ctx: InstanceContext, tool: str, args: dict[str, Any]) -> str:
        nonlocal arrived
        arrived += 1
        if arrived == 64:
            gate.set()
        await gate.wait()
        return "ok"

    class Flip(Counter):
        async def call(self, tool: str, args: dict[str, Any]) -> Any:
            result = await call(self.ctx, tool, args)
            self.count = 1 - self.count
            self.ctx.event("flipped")
            return result

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Flip(ctx)

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made, 20), hosted_set(made) as host, hosted_set(made) as other:
        await host.join()
        await other.join()
        for _ in range(4):
            await host.open("game")
        calls = [
            host.request("tools/call", {"name": "up", "arguments": {}, "_meta": {"mcpl/instance": f"game-{1 + n % 4}"}})
            for n in range(64)
        ]
        await host.send(*calls)
        for request in calls:
            answer = await host.answer(request["id"])
            assert len(answer["result"]["_meta"]["mcpl/events"]) == 1
        await quiet()
        await host.settled()
        assert [hint["rev"] for hint in host.hints] == list(range(1, len(host.hints) + 1))
        while len(other.pushed) < 64:
            await other.settled()
        assert [hint["rev"] for hint in other.hints] == list(range(1, len(other.hints) + 1))
        for each in (host, other):
            last = {hint["instance"]: hint["visible"] for hint in each.hints}
            stated = (await each.list())["toolsets"][0]["openInstances"]
            assert last == {instance["id"]: instance["visible"] for instance in stated}
        assert not host.pushed


async def test_an_answer_that_is_not_wanted_any_more_carries_nothing_away() -> None:
    started = anyio.Event()
    release = threading.Event()

    class Stubborn(Counter):
        def call(self, tool: str, args: dict[str, Any]) -> Any:
            started_in_loop()
            release.wait(5)
            self.count = 5
            self.ctx.event("done all the same")
            return "late"

    def started_in_loop() -> None:
        anyio.from_thread.run_sync(started.set)

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Stubborn(ctx)

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
        call = host.request("tools/call", {"name": "up", "arguments": {}})
        await host.send(call)
        await started.wait()
        await host.notify("notifications/cancelled", {"requestId": call["id"]})
        await host.settled()
        release.set()
        # The thread could not be stopped: what it did counts.
        event = await host.next("push/event")
        assert event["params"]["payload"]["content"][0]["text"] == "done all the same"
        while len(host.hints) < 2:
            await host.settled()
        assert [hint["rev"] for hint in host.hints] == [1, 2]
        assert host.hints[1]["visible"] == ["up", "down"]


async def test_a_call_that_goes_on_after_it_was_taken_back_counts_all_the_same() -> None:
    begun = anyio.Event()

    class Deaf(Counter):
        async def call(self, tool: str, args: dict[str, Any]) -> Any:
            begun.set()
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                self.count = 5
                self.ctx.event("done all the same")
            return "late"

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Deaf(ctx)

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
        call = host.request("tools/call", {"name": "up", "arguments": {}})
        await host.send(call)
        await begun.wait()
        await host.notify("notifications/cancelled", {"requestId": call["id"]})
        assert (await host.next("push/event"))["params"]["payload"]["content"][0]["text"] == "done all the same"
        while len(host.hints) < 2:
            await host.settled()
        assert [hint["rev"] for hint in host.hints] == [1, 2]
        assert call["id"] not in host.answers


async def test_an_answer_that_is_too_long_with_them_leaves_changes_and_events_to_others() -> None:
    async def call(ctx: InstanceContext, tool: str, args: dict[str, Any]) -> str:
        ctx.event("e" * 2000)
        return "r" * 2500

    made = server(toolsets={"game": toolset(call=call)})
    async with served(made), hosted_set(made, max_message_bytes=4000) as host:
        await host.join()
        await host.open("game")
        assert "_meta" not in await host.call("go")
        assert (await host.next("push/event"))["params"]["payload"]["content"][0]["text"] == "e" * 2000


# -- events


@pytest.mark.spec("R-toolsets-4")
async def test_an_event_of_a_call_rides_in_its_result_and_is_pushed_elsewhere() -> None:
    after = anyio.Event()
    kept: list[InstanceContext] = []

    async def call(ctx: InstanceContext, tool: str, args: dict[str, Any]) -> str:
        kept.append(ctx)
        ctx.event("first", tags=["game:a"])

        async def later() -> None:
            await after.wait()
            ctx.event("third")

        async def inner() -> None:
            ctx.event("second")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(inner)
        ctx.start_soon(later)
        return "ok"

    made = server(toolsets={"game": toolset(call=call, instances=True)})
    async with served(made), hosted_set(made) as host, hosted_set(made) as other, hosted_set(made, "bob") as bob:
        for each in (host, other, bob):
            await each.join()
        await host.open("game")
        result = await host.call("go")
        first, second = result["_meta"]["mcpl/events"]
        assert (first["content"], first["tags"]) == ([{"type": "text", "text": "first"}], ["game:a"])
        assert "tags" not in second
        while len(other.pushed) < 2:
            await other.settled()
        assert other.pushed == [first["eventId"], second["eventId"]]
        pushed = other.heard[-1]["params"]
        assert (pushed["featureSet"], pushed["origin"]) == ("s.events", {"toolset": "game", "instance": "game-1"})
        assert not host.pushed
        # Its task was begun by the call, and is not over with it.
        after.set()
        third = await host.next("push/event")
        assert third["params"]["payload"]["content"][0]["text"] == "third"
        assert (await other.next("push/event"))["params"]["eventId"]
        await bob.settled()
        assert not bob.heard


async def test_events_of_a_plain_function_in_its_thread_belong_to_its_call() -> None:
    class Plain(Counter):
        def call(self, tool: str, args: dict[str, Any]) -> Any:
            self.ctx.event("from a thread")
            self.ctx.changed()
            self.count = 1
            return threading.get_ident()

    def open(ctx: InstanceContext, options: Any) -> Counter:
        return Plain(ctx)

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
        result = await host.call("up")
        assert result["structuredContent"]["result"] != threading.get_ident()
        assert [event["content"][0]["text"] for event in result["_meta"]["mcpl/events"]] == ["from a thread"]
        assert result["_meta"]["mcpl/hints"][0]["visible"] == ["up", "down"]
        await quiet()
        await host.settled()
        assert not host.heard


async def test_events_of_a_call_that_has_no_answer_are_pushed() -> None:
    begun = anyio.Event()

    async def call(ctx: InstanceContext, tool: str, args: dict[str, Any]) -> str:
        ctx.event("before")
        begun.set()
        await anyio.sleep_forever()
        return ""

    made = server(toolsets={"game": toolset(call=call)})
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
        call_request = host.request("tools/call", {"name": "go", "arguments": {}})
        await host.send(call_request)
        await begun.wait()
        await host.notify("notifications/cancelled", {"requestId": call_request["id"]})
        assert (await host.next("push/event"))["params"]["payload"]["content"][0]["text"] == "before"


async def test_events_of_opening_and_closing_ride_too() -> None:
    class Talking(Counter):
        async def close(self) -> None:
            self.ctx.event("bye")

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        ctx.event("hello")
        return Talking(ctx)

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made), hosted_set(made) as host:
        await host.join()
        opened = await host.open("game")
        assert [event["content"][0]["text"] for event in opened["_meta"]["mcpl/events"]] == ["hello"]
        closed = await host.result("toolsets/close", {"toolset": "game", "instance": "game-1"})
        assert [event["content"][0]["text"] for event in closed["_meta"]["mcpl/events"]] == ["bye"]
        assert closed["_meta"]["mcpl/hints"][0]["open"] is False


async def test_an_instance_that_is_over_in_a_call_ends_with_it() -> None:
    ended: list[bool] = []

    async def call(ctx: InstanceContext, tool: str, args: dict[str, Any]) -> str:
        ended.append(await ctx.close())
        return "won"

    made = server(toolsets={"game": toolset(call=call, instances=True)})
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
        result = await host.call("go")
        assert result["_meta"]["mcpl/hints"] == [
            {"rev": 2, "toolset": "game", "instance": "game-1", "open": False, "visible": []}
        ]
        assert ended == [True]
        assert [record["reason"] for record in (await host.list())["ended"]] == ["closed"]


async def test_an_instance_that_is_over_in_a_call_without_an_answer_ends_all_the_same() -> None:
    begun = anyio.Event()

    async def call(ctx: InstanceContext, tool: str, args: dict[str, Any]) -> str:
        await ctx.close()
        begun.set()
        await anyio.sleep_forever()
        return ""

    made = server(toolsets={"game": toolset(call=call, instances=True)})
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game")
        request = host.request("tools/call", {"name": "go", "arguments": {}})
        await host.send(request)
        await begun.wait()
        await host.notify("notifications/cancelled", {"requestId": request["id"]})
        assert (await host.next("toolsets/changed"))["params"]["hints"][0]["open"] is False


async def test_a_list_that_is_not_wanted_any_more_states_nothing() -> None:
    begun = anyio.Event()

    class Deaf(Counter):
        async def content(self) -> str:  # type: ignore[override]
            if self.count == 1:
                begun.set()
                try:
                    await anyio.sleep_forever()
                except anyio.get_cancelled_exc_class():
                    self.count = 0
            return "deaf"

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        bodies.append(Deaf(ctx))
        return bodies[-1]

    bodies: list[Counter] = []
    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made), hosted_set(made) as host, hosted_set(made) as other:
        await host.join()
        await host.open("game")
        await other.hello()
        await other.grant("tools")
        bodies[0].count = 1
        request = other.request("toolsets/list", {})
        await other.send(request)
        await begun.wait()
        await other.notify("notifications/cancelled", {"requestId": request["id"]})
        await other.settled()
        # Nothing was stated, so there is nothing that a change could build on.
        await host.call("up", by=3)
        await quiet()
        await other.settled()
        assert other.hints == []
        assert (await other.list())["rev"] == 0


async def test_one_instance_that_says_nothing_holds_up_no_list(silent: None) -> None:
    class Mute(Counter):
        async def visible(self) -> list[str]:  # type: ignore[override]
            if self.title == "mute" and self.ctx.instance in listed:
                await anyio.sleep_forever()
            return ["up"]

        async def content(self) -> str:  # type: ignore[override]
            if self.title == "mute" and self.ctx.instance in listed:
                await anyio.sleep_forever()
            return "here"

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Mute(ctx, **options)

    listed: list[Any] = []
    made = server(toolsets={"game": counter_toolset(instances=True, open=open)}, settings=Settings(grace=0.02))
    async with served(made, 5), hosted_set(made) as host:
        await host.join()
        opened = [await host.open("game", options={"title": title}) for title in ("mute", "t", "mute")]
        listed += [each["instance"] for each in opened]
        instances = (await host.list())["toolsets"][0]["openInstances"]
        assert [(each["visible"], len(each["content"])) for each in instances] == [
            (["up"], 0),
            (["up"], 1),
            (["up"], 0),
        ]
        assert len((await host.result("tools/list"))["tools"]) == 2


async def test_a_list_that_is_too_long_with_contents_says_what_can_be_called() -> None:
    class Long(Counter):
        def content(self) -> str:
            return "x" * (3000 if self.count else 1)

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        return Long(ctx)

    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})
    async with served(made), hosted_set(made, max_message_bytes=4000) as host:
        await host.join()
        await host.open("game")
        await host.open("game")
        assert [len(each["content"]) for each in (await host.list())["toolsets"][0]["openInstances"]] == [1, 1]
        for instance in ("game-1", "game-2"):
            await host.call("up", instance)
        stated = await host.list()
        assert [(each["visible"], each["content"]) for each in stated["toolsets"][0]["openInstances"]] == [
            (["up", "down"], []),
            (["up", "down"], []),
        ]
        assert stated["rev"] == 4


@pytest.mark.spec("R-toolsets-7")
async def test_a_flood_of_openings_has_a_bound() -> None:
    made = server(open_limit=3)
    async with served(made), hosted_set(made) as host, hosted_set(made) as plain:
        await host.join()
        requests = [host.request("toolsets/open", {"toolset": "game"}) for _ in range(50)]
        await host.send(*requests)
        answers = [await host.answer(each["id"]) for each in requests]
        refused = [each["error"] for each in answers if "error" in each]
        assert len(refused) == 47
        assert {(each["code"], each["data"]["limit"]) for each in refused} == {(-32602, 3)}
        # Toolsets without instances are not counted.
        assert (await host.open("lamp"))["visible"]
        await plain.hello(mcpl=False)
        full = await plain.tool("toolset_open", {"toolset": "game"})
        assert full["isError"]
        assert "3" in text_of(full)
        await host.close("game", "game-2")
        assert (await host.open("game"))["instance"] == "game-4"


async def test_a_list_that_cannot_be_sent_states_nothing() -> None:
    made = server()
    async with served(made), hosted_set(made) as host, hosted_set(made, max_message_bytes=1500) as other:
        await host.join()
        await host.open("game", options={"title": "t" * 2000})
        await other.hello()
        await other.grant("tools")
        assert (await other.error("toolsets/list", {}))["code"] == -32603
        await host.call("up")
        await quiet()
        await other.settled()
        # There is nothing that a change could build on.
        assert other.hints == []


# -- which instance


@pytest.mark.spec("R-toolsets-6")
async def test_a_call_names_its_instance_where_there_are_several() -> None:
    made = server()
    async with served(made), hosted_set(made) as host:
        await host.join()
        none = await host.call("up")
        assert none["isError"]
        await host.open("game", options={"title": "A"})
        assert text_of(await host.call("up")) == "1"
        await host.open("game", instance="mine", options={"title": "B"})
        several = await host.call("up")
        assert several["isError"]
        assert all(word in text_of(several) for word in ("game-1 (A)", "mine (B)"))
        assert text_of(await host.call("up", "mine", by=7)) == "7"
        unknown = await host.call("up", "game-9")
        assert unknown["isError"]
        assert "game-1 (A)" in text_of(unknown)
        assert (await host.call("lamp_up"))["isError"]
        assert (await host.tool("up", {}, _meta={"mcpl/instance": 3}))["isError"]
        assert (await host.call("down", "mine", by=7))["_meta"]["mcpl/hints"][0]["instance"] == "mine"
        not_now = await host.call("down", "mine")
        assert not_now["isError"]
        assert "up" in text_of(not_now)


async def test_a_call_sent_behind_the_opening_waits_for_it() -> None:
    go = anyio.Event()

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        await go.wait()
        return Counter(ctx)

    made = server(
        toolsets={"game": counter_toolset(instances=True, open=open), "lamp": counter_toolset("lamp_", default="open")}
    )
    async with served(made), hosted_set(made) as host:
        await host.join()
        opening = host.request("toolsets/open", {"toolset": "game", "instance": "g"})
        call = host.request("tools/call", {"name": "up", "arguments": {}})
        await host.send(opening, call)
        # Nobody else waits.
        assert text_of(await host.call("lamp_up")) == "1"
        go.set()
        assert (await host.answer(opening["id"]))["result"]["instance"] == "g"
        assert text_of((await host.answer(call["id"]))["result"]) == "1"
        go = anyio.Event()
        opening = host.request("toolsets/open", {"toolset": "game", "instance": "h"})
        closing = host.request("toolsets/close", {"toolset": "game", "instance": "h"})
        await host.send(opening, closing)
        await host.settled()
        go.set()
        assert (await host.answer(opening["id"]))["result"]["instance"] == "h"
        assert (await host.answer(closing["id"]))["result"]["closed"] is True


# -- bad input


@pytest.mark.spec("R-toolsets-7")
async def test_bad_input_has_one_answer_and_the_server_goes_on() -> None:
    made = server()
    async with served(made), hosted_set(made) as host:
        await host.join()
        await host.open("game", instance="taken")
        cases: list[tuple[str, Any, Any]] = [
            ("toolsets/open", {"toolset": "none"}, {"path": "$.toolset", "toolset": "none"}),
            ("toolsets/open", {"toolset": "game", "instance": "taken"}, {"path": "$.instance", "instance": "taken"}),
            ("toolsets/open", {"toolset": "game", "instance": "a b"}, {"path": "$.instance", "instance": "a b"}),
            ("toolsets/open", {"toolset": "lamp", "instance": "x"}, {"path": "$.instance"}),
            ("toolsets/open", {"toolset": "game", "options": {"start": "x"}}, {"path": "$.options.start"}),
            ("toolsets/open", {"toolset": "game", "options": {"no": 1}}, {"path": "$.options"}),
            ("toolsets/close", {"toolset": "none"}, {"path": "$.toolset", "toolset": "none"}),
            ("toolsets/close", {"toolset": "game"}, {"path": "$.instance"}),
            ("toolsets/close", {"toolset": "lamp", "instance": "x"}, {"path": "$.instance"}),
            ("tools/call", {"name": "none"}, {"tool": "none"}),
            ("tools/call", {"name": "toolset_open", "arguments": {"toolset": "game"}}, {"tool": "toolset_open"}),
        ]
        for name, params, data in cases:
            error = await host.error(name, params)
            assert (name, error["code"], error["data"]) == (name, -32602, data)
        for name, params in [("toolsets/open", {}), ("toolsets/open", {"toolset": 1}), ("toolsets/close", [])]:
            assert (await host.error(name, params))["code"] == -32602
        assert await host.close("game", "none") is False
        assert await host.close("lamp") is False
        bad = await host.call("up", by=0)
        assert bad["isError"]
        assert "$.by" in text_of(bad)
        assert (await host.call("up", by=101))["isError"]
        assert text_of(await host.call("up")) == "1"


async def test_a_handler_that_never_returns_holds_up_nobody_and_ends_with_its_connection() -> None:
    ended: list[str] = []

    async def forever(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(name)

    class Hanging(Counter):
        async def call(self, tool: str, args: dict[str, Any]) -> Any:
            await forever("call")

        async def close(self) -> None:
            await forever("close")

    async def open(ctx: InstanceContext, options: Any) -> Counter:
        if options["start"] == 1:
            await forever("open")
        return Hanging(ctx)

    toolsets = {"game": counter_toolset(instances=True, open=open), "lamp": counter_toolset("lamp_")}
    made = server(toolsets=toolsets, settings=Settings(grace=0.01))
    async with served(made):
        async with hosted_set(made) as host:
            await host.join()
            await host.open("game")
            await host.open("game")
            await host.open("lamp")
            await host.send(
                host.request("toolsets/open", {"toolset": "game", "options": {"start": 1}}),
                host.request("tools/call", {"name": "up", "_meta": {"mcpl/instance": "game-1"}}),
                host.request("toolsets/close", {"toolset": "game", "instance": "game-2"}),
            )
            assert text_of(await host.call("lamp_up")) == "1"
            closing = await host.list()
            assert closing["ended"] == []
            assert await host.close("game", "game-2") is False
            assert (await host.call("up", "game-3"))["isError"]
            # It is not called any more.
            assert (await host.call("up", "game-2"))["isError"]
        assert sorted(ended) == ["call", "close", "open"]
        async with hosted_set(made) as host:
            again = await host.join()
            assert [(record["instance"], record["reason"]) for record in again["ended"]] == [("game-2", "failed")]
            assert [each["id"] for each in again["toolsets"][0]["openInstances"]] == ["game-1"]


async def test_functions_that_raise_have_defined_answers() -> None:
    class Broken(Counter):
        def visible(self) -> list[str]:
            if self.count:
                raise RuntimeError("visible")
            return ["up", "strange", "down"]

        def content(self) -> str:
            raise RuntimeError("content")

        async def call(self, tool: str, args: dict[str, Any]) -> Any:
            self.count = 1
            raise KeyError("call")

        async def close(self) -> None:
            raise RuntimeError("close")

    async def open(ctx: InstanceContext, options: Any) -> Any:
        failures = {1: RuntimeError("secret"), 2: ToolError("no more games today")}
        if (failure := failures.get(options["start"])) is not None:
            raise failure
        return object() if options["start"] == 3 else Broken(ctx)

    reported: list[BaseException] = []
    made = server(toolsets={"game": counter_toolset(instances=True, open=open)})

    @made.on_connect
    async def watch(ctx: Context) -> None:
        ctx.connection.on_error(reported.append)

    async with served(made), hosted_set(made) as host:
        await host.join()
        opened = await host.open("game")
        assert (opened["content"], opened["visible"]) == ([], ["up", "down"])
        failed = await host.call("up")
        assert failed["isError"]
        assert "_meta" not in failed
        for start, message in [(1, "game could not be opened"), (2, "no more games today"), (3, "game could not be")]:
            error = await host.error("toolsets/open", {"toolset": "game", "options": {"start": start}})
            assert (error["code"], error["data"]) == (-32603, {"toolset": "game"})
            assert error["message"].startswith(message)
        assert await host.close("game", "game-1") is True
        assert [record["reason"] for record in (await host.list())["ended"]] == ["failed"]
    assert len(reported) >= 6


# -- tools outside of toolsets


async def test_own_tools_get_checked_arguments_and_the_richer_context() -> None:
    made = server()
    notes = made.feature_set("s.notes", "Notes", uses=["tools"])
    seen: list[Any] = []

    @made.tool
    async def note(ctx: ToolsetContext, text: str, pages: int = 2) -> ToolResult:
        seen.append((ctx.principal, text, pages, ctx.request_id is not None))
        ctx.event("noted", toolset="game", instance="g")
        return ToolResult("ok", meta={"own": 1})

    @made.tool(name="raw", input_schema=BY, feature_set=notes)
    def raw(args: dict[str, Any]) -> str:
        return str(args)

    async with served(made), hosted_set(made, "alice") as host:
        await host.join("tools")
        result = await host.tool("note", {"text": "a"})
        assert seen == [("alice", "a", 2, True)]
        assert result["_meta"]["own"] == 1
        assert result["_meta"]["mcpl/events"][0]["content"][0]["text"] == "noted"
        assert (await host.tool("note", {"text": 1}))["isError"]
        assert (await host.tool("note", {"pages": 1}))["isError"]
        assert text_of(await host.tool("raw")) == "{'by': 1}"
        await host.grant("tools", disabled=["s.notes"])
        assert (await host.error("tools/call", {"name": "raw"}))["code"] == -32001
    async with served(made), hosted_set(made, "bob") as plain:
        await plain.hello(mcpl=False)
        assert text_of(await plain.tool("raw")) == "{'by': 1}"


async def test_a_checker_that_fails_is_a_failed_call() -> None:
    class Checker:
        def fill(self, value: Any) -> Any:
            return value

        def check(self, value: Any) -> None:
            raise RuntimeError("bug")

    made = server(validate=lambda schema: Checker())
    made.tool(name="own")(lambda: "never")
    async with served(made), hosted_set(made) as host:
        await host.join()
        assert (await host.tool("own"))["isError"]


# -- grants


@pytest.mark.spec("R-toolsets-7")
async def test_the_capability_goes_before_the_feature_set() -> None:
    made = server()
    asked = [
        ("tools/call", {"name": "up"}),
        ("toolsets/list", {}),
        ("toolsets/open", {"toolset": "game"}),
        ("toolsets/close", {"toolset": "game", "instance": "game-1"}),
    ]
    async with served(made), hosted_set(made) as host:
        await host.hello()
        for name, params in asked:
            error = await host.error(name, params)
            assert (name, error["code"]) == (name, -32002)
            assert error["data"] == {"capability": "tools", "reason": "not_ready"}
        await host.grant("pushEvents", disabled=["s.tools"])
        for name, params in asked:
            error = await host.error(name, params)
            assert (name, error["code"], error["data"]) == (name, -32002, {"capability": "tools"})
        await host.grant("tools", disabled=["s.tools"])
        for name, params in asked:
            error = await host.error(name, params)
            assert (name, error["code"], error["data"]["featureSet"]) == (name, -32001, "s.tools")
        assert len((await host.result("tools/list"))["tools"]) == 4
        await host.grant("tools")
        assert (await host.open("game"))["instance"] == "game-1"


@pytest.mark.spec("R-toolsets-7")
async def test_a_revocation_closes_the_door_at_once_and_keeps_what_is_open() -> None:
    made = server()
    async with served(made), hosted_set(made) as host, hosted_set(made) as other:
        await host.join()
        await other.join()
        await host.open("game")
        await host.send(
            {"method": "featureSets/update", "params": {"disabled": ["s.tools"]}},
            refused := host.request("tools/call", {"name": "up", "arguments": {}}),
        )
        assert (await host.answer(refused["id"]))["error"]["code"] == -32001
        await other.call("up")
        await quiet()
        await host.settled()
        assert len(host.hints) == 1
        await host.grant("tools")
        assert (await host.next("toolsets/changed"))["params"]["hints"] == [
            {"rev": 2, "toolset": "game", "instance": "game-1", "open": True, "visible": ["up", "down"]}
        ]
        assert text_of(await host.call("up")) == "2"


@pytest.mark.spec("R-toolsets-7")
async def test_toolsets_do_not_exist_for_a_plain_host() -> None:
    made = server()
    async with served(made), hosted_set(made) as plain:
        await plain.hello(mcpl=False)
        for name in ("toolsets/list", "toolsets/open", "toolsets/close"):
            assert (await plain.error(name, {"toolset": "game"}))["code"] == -32601
