"""Parts of a host beside every session: where they are asked and told, and that they are in nobody's way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import pytest
from msgspec import Raw

from mcpl_core.errors import LocalProtocolError
from mcpl_core.host import DENY_ALL, HostExtension, HostHandlers, HostPolicy, HostSession, McplHost
from mcpl_core.host.audit import AuditRecord
from mcpl_core.host.extensions import joint_advertisement, joint_handlers
from mcpl_core.host.hub import Hub, host_manifest
from mcpl_core.host.link import ServerLink
from mcpl_core.protocol import method
from tests.host.raw_server import LIMIT, QUICK, RawServer, embedded

pytestmark = pytest.mark.anyio

TOOLS = HostPolicy.allow("tools")
LISTED = {"tools": [{"name": "plain", "inputSchema": {}}, {"name": "hidden", "inputSchema": {}}]}


class Part(HostExtension):
    """Notes all that it is told."""

    def __init__(self, *, fails: bool = False) -> None:
        self.told: list[Any] = []
        self.running = anyio.Event()
        self.ended = False
        self.fails = fails

    def _note(self, *what: Any) -> None:
        self.told.append(what)
        if self.fails:
            raise ZeroDivisionError

    @property
    def advertises(self) -> Mapping[str, Any]:
        return {"toolsets": True}

    @property
    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        return {method.TOOLSETS_CHANGED: lambda session, params: self._note("changed", params.hints)}

    def ready(self, session: HostSession) -> Callable[[], Awaitable[None]] | None:
        self._note("ready", session.link.open)
        return self._run

    async def _run(self) -> None:
        self.running.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.ended = True

    def grant_changed(self, session: HostSession) -> None:
        self._note("grant", session.grant.allows("tools"))

    def tool_answered(self, link: ServerLink, result: Raw) -> None:
        self._note("answer", link.server, bytes(result))

    def shows_tool(self, link: ServerLink, definition: Mapping[str, Any]) -> bool:
        return bool(definition["name"] != "hidden")


async def test_an_extension_is_told_of_each_session_before_anybody_asks_its_server() -> None:
    part = Part()
    async with embedded(TOOLS, extensions=[part]) as (raw, session):
        assert part.told[-1] == ("ready", True)
        assert ("grant", True) in part.told
        assert [each["method"] for each in raw.heard if "method" in each][-1] == "featureSets/update"
        await part.running.wait()
        part.told.clear()
        session.adopt(DENY_ALL)
        assert part.told == [("grant", False)]
        assert not part.ended
    assert part.ended


async def test_it_speaks_and_handles_beside_the_host() -> None:
    part = Part()
    async with embedded(TOOLS, extensions=[part]) as (raw, _):
        said = next(each for each in raw.heard if each.get("method") == "initialize")
        assert said["params"]["capabilities"]["experimental"]["mcpl"]["toolsets"] is True
        raw.send(raw.note("toolsets/changed", {"hints": [1]}))
        assert part.told[-1] == ("changed", [1])


async def test_it_sees_the_result_of_a_tool_before_what_comes_behind() -> None:
    part = Part()
    answers: list[bytes] = []
    async with embedded(TOOLS, extensions=[part]) as (raw, session), anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: session.call_tool("t", on_answer=lambda result: answers.append(bytes(result))))
        request = await raw.next("tools/call")
        raw.send(raw.result(request, {"content": []}), raw.note("toolsets/changed", {"hints": []}))
        assert part.told[-2:] == [("answer", "raw", b'{"content":[]}'), ("changed", [])]
        assert answers == [b'{"content":[]}']


async def test_what_it_raises_is_reported_and_nothing_else() -> None:
    part, audit = Part(fails=True), list[AuditRecord]()
    async with embedded(TOOLS, extensions=[part], audit=audit) as (raw, session):
        assert not part.running.is_set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, "t")
            raw.reply(await raw.next("tools/call"), {"content": []})
        await raw.settled()
    assert {"ready", "grant", "answer"} <= {told[0] for told in part.told}
    assert len([record for record in audit if record.code == "ZeroDivisionError"]) == len(part.told)


async def test_what_runs_beside_a_session_may_fail_and_the_session_goes_on() -> None:
    class Failing(HostExtension):
        def ready(self, session: HostSession) -> Callable[[], Awaitable[None]]:
            async def fail() -> None:
                failed.set()
                raise ZeroDivisionError

            return fail

    failed, audit = anyio.Event(), list[AuditRecord]()
    async with embedded(TOOLS, extensions=[Failing()], audit=audit) as (raw, _):
        await failed.wait()
        await raw.settled()
    assert "ZeroDivisionError" in {record.code for record in audit}


async def test_one_that_says_nothing_changes_nothing() -> None:
    async with embedded(TOOLS, extensions=[HostExtension()]) as (raw, session):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, "t")
            raw.reply(await raw.next("tools/call"), {"content": []})
        assert HostExtension().shows_tool(session.link, {})
        session.adopt(DENY_ALL)


async def test_a_host_shows_the_tools_that_all_extensions_show_or_those_that_are_asked_for() -> None:
    raw = RawServer()
    with anyio.fail_after(LIMIT):
        async with (
            McplHost("h", "1", policy=TOOLS, settings=QUICK, handlers=HostHandlers(extensions=[Part()])) as host,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(raw.begin)
            await host.add("raw", raw.transport)

            async def answer() -> None:
                raw.reply(await raw.next("tools/list"), LISTED)

            tasks.start_soon(answer)
            assert [tool.name for tool in await host.tools()] == ["raw__plain"]
            every = await host.tools(lambda link, definition: link.server == "raw")
            assert [tool.name for tool in every] == ["raw__plain", "raw__hidden"]


@pytest.mark.parametrize("name", ["version", "pushEvents", "branches"])
def test_what_is_the_hosts_to_say_no_extension_says(name: str) -> None:
    class Loud(HostExtension):
        @property
        def advertises(self) -> Mapping[str, Any]:
            return {name: True}

    with pytest.raises(LocalProtocolError):
        joint_advertisement([Loud()])


def test_two_extensions_for_one_thing_are_refused() -> None:
    with pytest.raises(LocalProtocolError):
        joint_advertisement([Part(), Part()])
    with pytest.raises(LocalProtocolError):
        joint_handlers([Part()], {method.TOOLSETS_CHANGED: print})
    with pytest.raises(LocalProtocolError):
        Hub(name="h", version="1", handlers=HostHandlers(extensions=[Part(), Part()]))


def test_an_extension_handles_no_method_of_the_hosts_own() -> None:
    class Greedy(HostExtension):
        @property
        def handlers(self) -> Mapping[str, Callable[..., Any]]:
            return {method.PUSH_EVENT: print}

    with pytest.raises(LocalProtocolError):
        Hub(name="h", version="1", handlers=HostHandlers(extensions=[Greedy()]))


def test_without_extensions_the_host_speaks_for_itself() -> None:
    assert joint_advertisement([]) == {}
    assert joint_handlers([], {"x": print}) == {"x": print}
    assert "toolsets" not in host_manifest(Hub(name="h", version="1"))
