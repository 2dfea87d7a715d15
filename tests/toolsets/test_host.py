"""Toolsets at a host, against a server that says exactly what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpl_core.capabilities import EXTENSION_CAPABILITIES, VOCABULARY
from mcpl_core.content import content_text
from mcpl_core.errors import (
    ERR_CAPABILITY_DENIED,
    ERR_FEATURE_SET_NOT_ENABLED,
    ERR_INTERNAL_ERROR,
    ERR_INVALID_PARAMS,
    ERR_METHOD_NOT_FOUND,
    CapabilityDenied,
    ConnectionClosedError,
    FeatureSetNotEnabled,
    InvalidParams,
    InvalidResultError,
    LocalProtocolError,
    McplError,
    MethodNotFound,
)
from mcpl_core.host import DENY_ALL, HostHandlers, HostPolicy, HostSession, McplHost
from mcpl_core.host.audit import AuditRecord
from mcpl_core.protocol import AccessTokenParams, AccessTokenResult
from mcpl_core.toolsets.host import HostToolsets, ServerToolsets
from mcpl_core.toolsets.host_view import VisibleTool
from tests.host.raw_server import LIMIT, MANIFEST, QUICK, RawServer, embedded, event

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

TOOLS = HostPolicy.allow("tools", "pushEvents")
SCHEMA: Json = {"type": "object"}


def tool(name: str, kind: str | None = None, toolset: str | None = None) -> Json:
    presence = {"kind": kind, "visible": False} | ({} if toolset is None else {"toolset": toolset})
    return {"name": name, "inputSchema": SCHEMA} | ({} if kind is None else {"_meta": {"mcpl/presence": presence}})


LISTED = {
    "tools": [
        tool("rules", "static"),
        tool("play", "dynamic", "game"),
        tool("resign", "dynamic", "game"),
        tool("read", "dynamic", "notes"),
        tool("plain"),
        tool("odd", "sometimes"),
    ]
}


def statement(
    rev: int = 0, games: dict[str, list[str]] | None = None, notes: list[str] | None = None, ended: Any = ()
) -> Json:
    """A full statement: ``game`` has instances, ``notes`` has none. Names are those of the visible tools."""
    instances = [
        {"id": id, "title": id.upper(), "visible": names, "content": "a board", "openedAt": "2026-01-01T00:00:00Z"}
        for id, names in (games or {}).items()
    ]
    game = {"name": "game", "title": "Game", "summary": "", "default": "closed", "instances": True, "open": bool(games)}
    note = {
        "name": "notes",
        "title": "Notes",
        "summary": "",
        "default": "closed",
        "instances": False,
        "open": notes is not None,
    }
    toolsets = [
        {**game, "tools": ["play", "resign"], "visible": [], "openInstances": instances},
        {**note, "tools": ["read"], "visible": notes or []},
    ]
    return {"rev": rev, "toolsets": toolsets, "ended": list(ended)}


def change(rev: int, visible: list[str] | None, instance: str | None = None) -> Json:
    """A change of an instance of ``game``, or without one of ``notes``; ``None``: closed."""
    key = {"toolset": "notes"} if instance is None else {"toolset": "game", "instance": instance}
    return {"rev": rev, **key, "open": visible is not None, "visible": visible or []}


def changed(*changes: Json) -> Json:
    return RawServer.note("toolsets/changed", {"hints": list(changes)})


def record(instance: str, reason: str = "closed") -> Json:
    return {
        "toolset": "game", "instance": instance, "title": "G", "reason": reason, "endedAt": "2026-01-01T00:00:00Z",
    }  # fmt: skip


class Table:
    """A raw server, the host's session with it, and what the host knows of its toolsets."""

    def __init__(self, raw: RawServer, session: HostSession, host: HostToolsets) -> None:
        self.raw = raw
        self.session = session
        self.host = host
        self.toolsets = host["raw"]

    async def state(self, value: Any = None) -> None:
        """Answers the next ``toolsets/list``."""
        self.raw.reply(await self.raw.next("toolsets/list"), statement() if value is None else value)

    async def lists(self) -> int:
        """How many ``toolsets/list`` wait for an answer, when all that can happen happened."""
        await anyio.wait_all_tasks_blocked()
        return len(await self.raw.waiting("toolsets/list"))

    @property
    def visible(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(each.tool, each.instances) for each in self.toolsets.visible()]


@asynccontextmanager
async def table(
    policy: HostPolicy = TOOLS,
    first: Json | None = None,
    manifest: Json = MANIFEST,
    audit: list[AuditRecord] | None = None,
    **options: Any,
) -> AsyncIterator[Table]:
    """At a table; ``first``: the first statement, answered already."""
    host = HostToolsets(**options)
    async with embedded(policy, manifest, extensions=[host], audit=audit) as (raw, session):
        made = Table(raw, session, host)
        if first is not None:
            await made.state(first)
            await made.toolsets.listed()
        yield made


async def both(first: Callable[[], Any], *others: Callable[[], Any]) -> Any:
    """The result of the first function, with the others beside it."""
    results: list[Any] = []

    async def keep() -> None:
        results.append(await first())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep)
        for other in others:
            tasks.start_soon(other)
    return results[0]


# ---------------------------------------------------------------------------------------- the view


@pytest.mark.spec("R-toolsets-1")
async def test_the_host_says_that_it_understands_hints() -> None:
    async with table() as at:
        said = next(each for each in at.raw.heard if each.get("method") == "initialize")
        assert said["params"]["capabilities"]["experimental"]["mcpl"]["toolsets"] is True


@pytest.mark.spec("R-hints-3")
async def test_after_each_connect_the_whole_is_asked_for() -> None:
    async with table() as at:
        request = await at.raw.next("toolsets/list")
        assert (request["params"], at.toolsets.toolsets) == ({}, {})
        at.raw.reply(request, statement(games={"g1": ["play"]}, notes=["read"]))
        known = await at.toolsets.listed()
        assert known["game"].open_instances["g1"].title == "G1"
        assert content_text(known["game"].open_instances["g1"].content) == "a board"
        assert at.toolsets.visible() == [VisibleTool("game", "play", ("g1",)), VisibleTool("notes", "read", ())]
        assert await at.lists() == 0


async def test_dynamic_tools_stand_in_no_list_that_is_read_once() -> None:
    async with table(first=statement(games={"g1": ["play"]})) as at:

        async def answer() -> None:
            at.raw.reply(await at.raw.next("tools/list"), LISTED)

        static = await both(at.toolsets.static_tools, answer)
        assert [each["name"] for each in static] == ["rules", "plain", "odd"]
        assert [each["name"] for each in await at.toolsets.visible_tools()] == ["play"]
        at.raw.send(changed(change(1, ["resign"], "g1"), change(2, ["read"])))
        assert [each["name"] for each in await at.toolsets.visible_tools()] == ["resign", "read"]
        assert await at.toolsets.static_tools() == static


async def test_changes_are_taken_in_the_order_of_the_wire() -> None:
    """All in one read: a notification, an event, a result, a notification; nothing runs in between."""
    told: list[str] = []
    async with table(first=statement(), on_change=told.append) as at, anyio.create_task_group() as tasks:
        tasks.start_soon(at.session.call_tool, "play")
        call = await at.raw.next("tools/call")
        result = {"content": [], "_meta": {"mcpl/hints": [change(3, ["play"], "g2")]}}
        told.clear()
        at.raw.send(
            changed(change(1, ["play"], "g1")),
            at.raw.request("push/event", event(hints=[change(2, ["resign"], "g1")])),
            at.raw.result(call, result),
            changed(change(4, ["read"]), change(5, None, "g2")),
        )
        assert at.visible == [("resign", ("g1",)), ("read", ())]
        assert told == ["raw"] * 4
        assert await at.lists() == 0


@pytest.mark.parametrize("refused", [{"feature_set": "t.tools"}, {"featureSet": 5}])
@pytest.mark.spec("R-hints-2")
async def test_the_changes_of_an_event_hold_whatever_becomes_of_the_event(refused: Json) -> None:
    async with table(first=statement()) as at:
        answer = await at.raw.ask(
            "push/event",
            {**event(), **refused, "hints": [change(1, ["read"])]}
            if "featureSet" in refused
            else event(**refused, hints=[change(1, ["read"])]),
        )
        assert "error" in answer
        assert at.visible == [("read", ())]
        at.raw.send(changed(change(2, None)))
        assert (at.visible, await at.lists()) == ([], 0)


async def test_without_push_events_the_grant_of_tools_suffices_for_changes() -> None:
    async with table(HostPolicy.allow("tools"), first=statement()) as at:
        error = await at.raw.refused("push/event", event(hints=[change(1, ["read"])]))
        assert (error["code"], at.visible) == (ERR_CAPABILITY_DENIED, [("read", ())])


@pytest.mark.spec("R-hints-2")
async def test_without_tools_no_change_is_looked_at_and_nothing_asked() -> None:
    audit: list[AuditRecord] = []
    async with table(HostPolicy.allow("pushEvents"), audit=audit) as at:
        await at.lists()
        before = len(audit)
        assert "error" not in await at.raw.ask("push/event", event(hints=[change(1, ["read"])]))
        # Were it looked at, one before it would be missed.
        at.raw.send(changed(change(5, ["read"])))
        assert (at.visible, await at.lists()) == ([], 0)
        assert "toolsets/list" not in [record.operation for record in audit[before:]]
        with pytest.raises(CapabilityDenied):
            await at.toolsets.listed()
        with pytest.raises(CapabilityDenied):
            await at.toolsets.open("game")


async def test_an_event_whose_hints_are_no_changes_is_an_event_all_the_same() -> None:
    async with table(first=statement()) as at:
        assert (await at.raw.served("push/event", event(hints={"rev": 1})))["accepted"] is True
        assert await at.lists() == 1


@pytest.mark.spec("R-hints-1", "R-hints-3")
async def test_a_gap_is_told_by_asking_for_the_whole() -> None:
    audit: list[AuditRecord] = []
    async with table(first=statement(), audit=audit) as at:
        at.raw.send(changed(change(2, ["read"])))
        assert at.visible == [("read", ())]
        assert await at.lists() == 1
        at.raw.send(changed(change(4, ["play"], "g1")))
        await at.state(statement(4, games={"g1": ["play"], "g2": ["play"]}))
        # The change behind the gap was under way when the whole was asked for: it is asked for once more.
        await at.state(statement(4, games={"g1": ["play"], "g2": ["play"]}))
        await anyio.wait_all_tasks_blocked()
        assert at.visible == [("play", ("g1", "g2"))]
        at.raw.send(changed(change(5, None, "g1")), changed(change(5, None, "g2")))
        assert (at.visible, await at.lists()) == ([("play", ("g2",))], 0)
    assert [each.code for each in audit if each.operation == "toolsets/changed"] == ["old_hint"]


async def test_changes_before_the_first_statement_are_counted() -> None:
    async with table() as at:
        request = await at.raw.next("toolsets/list")
        at.raw.send(changed(change(1, ["read"])), at.raw.result(request, statement(1, notes=["read"])))
        await at.toolsets.listed()
        at.raw.send(changed(change(2, None)))
        assert (at.visible, await at.lists()) == ([], 0)


async def test_the_application_asks_for_the_whole_when_it_likes() -> None:
    async with table(first=statement()) as at:
        known = await both(at.toolsets.refresh, lambda: at.state(statement(notes=["read"])))
        assert known["notes"].visible == ("read",)


async def test_what_is_revoked_is_gone_at_once_and_asked_for_again_when_it_is_back() -> None:
    told: list[str] = []
    async with table(first=statement(notes=["read"]), on_change=told.append) as at, anyio.create_task_group() as tasks:
        told.clear()
        tasks.start_soon(at.session.set_policy, DENY_ALL)
        await at.raw.policy()
        assert (at.visible, told) == ([], ["raw"])
        with pytest.raises(CapabilityDenied):
            await at.toolsets.listed()
        tasks.start_soon(at.session.set_policy, TOOLS)
        await at.raw.policy()
        await at.state(statement(7, notes=["read"]))
        assert (await at.toolsets.listed())["notes"].open
        at.raw.send(changed(change(8, None)))
        assert await at.lists() == 0


@pytest.mark.parametrize(
    ("code", "kind"), [(ERR_METHOD_NOT_FOUND, MethodNotFound), (ERR_FEATURE_SET_NOT_ENABLED, FeatureSetNotEnabled)]
)
@pytest.mark.spec("R-hints-3")
async def test_a_server_without_toolsets_says_so_once(code: int, kind: type[McplError]) -> None:
    async with table() as at, anyio.create_task_group() as tasks:
        at.raw.refuse(await at.raw.next("toolsets/list"), code)
        with pytest.raises(kind):
            await at.toolsets.listed()
        tasks.start_soon(at.session.set_policy, HostPolicy.allow("tools"))
        await at.raw.policy()
        # A set that was off may be on under another policy; a method that is not there will not be.
        assert await at.lists() == (0 if kind is MethodNotFound else 1)


async def test_an_answer_under_an_earlier_grant_says_nothing_of_the_one_in_force() -> None:
    async with table() as at, anyio.create_task_group() as tasks:
        early = await at.raw.next("toolsets/list")
        tasks.start_soon(at.session.set_policy, HostPolicy.allow("tools"))
        await at.raw.policy()
        at.raw.refuse(early, ERR_FEATURE_SET_NOT_ENABLED)
        assert list(await both(at.toolsets.listed, at.state)) == ["game", "notes"]


async def test_a_statement_that_is_none_is_told_and_a_later_one_holds() -> None:
    async with table() as at:
        at.raw.reply(await at.raw.next("toolsets/list"), {"rev": "x"})
        with pytest.raises(InvalidResultError):
            await at.toolsets.listed()
        await both(at.toolsets.refresh, at.state)
        assert list(await at.toolsets.listed()) == ["game", "notes"]


@pytest.mark.spec("R-hints-4")
async def test_a_plain_server_has_no_toolsets_and_all_its_tools_are_shown() -> None:
    host = HostToolsets()
    async with embedded(TOOLS, None, extensions=[host]) as (raw, session):
        with pytest.raises(LocalProtocolError):
            await host["raw"].listed()
        tools = await both(host["raw"].static_tools, lambda: _answer_list(raw))
        assert len(tools) == len(LISTED["tools"])
        assert await host["raw"].visible_tools() == []


async def _answer_list(raw: RawServer) -> None:
    raw.reply(await raw.next("tools/list"), LISTED)


@pytest.mark.spec("R-hints-5")
async def test_each_ended_instance_is_told_once_over_all_connections() -> None:
    told: list[tuple[str, str]] = []
    host = HostToolsets(on_ended=lambda server, ended: told.append((server, f"{ended.instance} {ended.reason}")))
    for ended in ([record("a")], [record("a"), record("b", "idle")]):
        async with embedded(TOOLS, extensions=[host]) as (raw, _):
            raw.reply(await raw.next("toolsets/list"), statement(ended=ended))
            await host["raw"].listed()
    assert told == [("raw", "a closed"), ("raw", "b idle")]


async def test_what_the_application_raises_is_reported_and_the_view_goes_on() -> None:
    def fail(*told: Any) -> None:
        raise ZeroDivisionError

    audit: list[AuditRecord] = []
    async with table(first=statement(ended=[record("a")]), audit=audit, on_change=fail, on_ended=fail) as at:
        at.raw.send(changed(change(1, ["read"])))
        assert at.visible == [("read", ())]
    assert len([each for each in audit if each.code == "ZeroDivisionError"]) == 4  # the last one: it is gone


async def test_after_the_connection_nothing_is_left() -> None:
    async with table(first=statement(notes=["read"])) as at:
        toolsets = at.toolsets
    assert toolsets.toolsets == {}
    for call in (
        toolsets.listed,
        toolsets.refresh,
        toolsets.static_tools,
        lambda: toolsets.open("game"),
        lambda: toolsets.call("play"),
    ):
        with pytest.raises(ConnectionClosedError) as caught:
            await call()
        assert caught.value.outcome == "not-sent"
        assert toolsets.id in str(caught.value.reason)


async def test_those_who_wait_for_a_statement_hear_of_the_end() -> None:
    async with table() as at:
        await at.raw.next("toolsets/list")
        heard: list[McplError] = []

        async def wait() -> None:
            try:
                await at.toolsets.listed()
            except McplError as exc:
                heard.append(exc)

        await both(wait, lambda: _close_when_idle(at.session))
        assert [type(exc) for exc in heard] == [ConnectionClosedError]


async def _close_when_idle(session: HostSession) -> None:
    await anyio.wait_all_tasks_blocked()
    await session.aclose()


# ---------------------------------------------------------------------------------------- opening, closing, calling


async def test_an_opening_is_known_as_its_answer_arrives() -> None:
    async with table(first=statement()) as at, anyio.create_task_group() as tasks:
        results: list[Any] = []

        async def open() -> None:
            results.append(await at.toolsets.open("game", {"size": 3}, instance="mine"))

        tasks.start_soon(open)
        request = await at.raw.next("toolsets/open")
        assert request["params"] == {"toolset": "game", "options": {"size": 3}, "instance": "mine"}
        hints = [change(1, ["play", "resign"], "mine")]
        answer = {"toolset": "game", "instance": "mine", "title": "Mine", "content": "new", "visible": ["play"]}
        at.raw.send(
            at.raw.result(request, {**answer, "_meta": {"mcpl/hints": hints}}), changed(change(2, ["play"], "mine"))
        )
        instance = at.toolsets.toolsets["game"].open_instances["mine"]
        assert (instance.title, content_text(instance.content), instance.visible) == ("Mine", "new", ("play",))
        await anyio.wait_all_tasks_blocked()
        assert (results[0].instance, results[0].text) == ("mine", "new")


async def test_without_options_and_instance_none_are_sent() -> None:
    async with table(first=statement()) as at:

        async def answer() -> None:
            request = await at.raw.next("toolsets/open")
            assert request["params"] == {"toolset": "notes"}
            at.raw.reply(request, {"toolset": "notes", "content": [], "visible": ["read"]})

        result = await both(lambda: at.toolsets.open("notes"), answer)
        assert result.visible == ["read"]


async def test_a_refused_opening_raises_the_servers_error() -> None:
    async with table(first=statement()) as at:

        async def refuse() -> None:
            at.raw.refuse(await at.raw.next("toolsets/open"), ERR_INVALID_PARAMS)

        async def open() -> None:
            with pytest.raises(InvalidParams):
                await at.toolsets.open("game")

        await both(open, refuse)


async def test_an_answer_that_is_none_still_brings_its_changes() -> None:
    async with table(first=statement()) as at:

        async def answer() -> None:
            meta = {"mcpl/hints": [change(1, ["play"], "g1")]}
            at.raw.reply(await at.raw.next("toolsets/open"), {"toolset": 5, "_meta": meta})

        async def open() -> None:
            with pytest.raises(InvalidResultError):
                await at.toolsets.open("game")

        await both(open, answer)
        assert at.visible == [("play", ("g1",))]


@pytest.mark.parametrize("was_open", [True, False])
async def test_a_closing_says_whether_it_was_open(was_open: bool) -> None:
    async with table(first=statement(games={"g1": ["play"]})) as at:

        async def answer() -> None:
            request = await at.raw.next("toolsets/close")
            assert request["params"] == {"toolset": "game", "instance": "g1"}
            meta = {"mcpl/hints": [change(1, None, "g1")] if was_open else []}
            at.raw.reply(request, {"closed": was_open, "_meta": meta})

        assert await both(lambda: at.toolsets.close("game", "g1"), answer) is was_open
        assert at.visible == ([] if was_open else [("play", ("g1",))])


async def test_a_call_names_its_instance_and_keeps_other_meta() -> None:
    async with table(first=statement()) as at:

        async def answer(meta: Json) -> None:
            request = await at.raw.next("tools/call")
            sent = {k: v for k, v in request["params"]["_meta"].items() if k != "progressToken"}
            assert (request["params"]["name"], request["params"]["arguments"], sent) == ("play", {"cell": 5}, meta)
            at.raw.reply(request, {"content": [{"type": "text", "text": "done"}]})

        result = await both(
            lambda: at.toolsets.call("play", {"cell": 5}, instance="g1", meta={"x": 1}),
            lambda: answer({"x": 1, "mcpl/instance": "g1"}),
        )
        assert result.text == "done"
        await both(lambda: at.toolsets.call("play", {"cell": 5}), lambda: answer({}))


async def test_the_changes_of_a_call_that_nobody_waits_for_any_more_are_missed_and_noticed() -> None:
    async with table(first=statement()) as at:
        async with anyio.create_task_group() as calling:
            calling.start_soon(at.toolsets.call, "play")
            request = await at.raw.next("tools/call")
            calling.cancel_scope.cancel()
        at.raw.reply(request, {"content": [], "_meta": {"mcpl/hints": [change(1, ["play"], "g1")]}})
        assert at.visible == []
        at.raw.send(changed(change(2, ["read"])))
        await at.state(statement(2, games={"g1": ["play"]}, notes=["read"]))
        await anyio.wait_all_tasks_blocked()
        assert at.visible == [("play", ("g1",)), ("read", ())]


# ---------------------------------------------------------------------------------------- many servers


async def test_under_a_roof_the_model_sees_static_tools_and_what_is_visible_now() -> None:
    toolsets = HostToolsets()
    raw = RawServer()
    with anyio.fail_after(LIMIT):
        handlers = HostHandlers(extensions=[toolsets])
        async with McplHost("h", "1", policy=TOOLS, settings=QUICK, handlers=handlers) as host:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(raw.begin)
                await host.add("raw", raw.transport)
            raw.reply(await raw.next("toolsets/list"), statement(games={"g1": ["play"]}))
            await toolsets["raw"].listed()
            tools = await both(host.tools, lambda: _answer_list(raw))
            assert [each.name for each in tools] == ["raw__rules", "raw__plain", "raw__odd"]
            assert [each.name for each in await toolsets.visible_tools(host)] == ["raw__play"]

            async def answer() -> None:
                request = await raw.next("tools/call")
                assert request["params"]["name"] == "play"
                raw.reply(request, {"content": []})

            await both(lambda: host.call_tool("raw__play"), answer)


async def test_a_server_that_comes_back_is_asked_again() -> None:
    toolsets = HostToolsets()
    made: list[RawServer] = []
    arrived = anyio.Event()

    def dial() -> Any:
        nonlocal arrived
        made.append(RawServer())
        arrived.set()
        return made[-1].transport

    with anyio.fail_after(LIMIT):
        handlers = HostHandlers(extensions=[toolsets])
        async with McplHost("h", "1", policy=TOOLS, settings=QUICK, handlers=handlers) as host:
            await host.add("raw", dial, wait=False)
            for number in (1, 2):
                await arrived.wait()
                arrived = anyio.Event()
                await made[-1].begin()
                made[-1].reply(await made[-1].next("toolsets/list"), statement(number, notes=["read"]))
                await host["raw"].wait("ready")
                assert (await toolsets["raw"].listed())["notes"].open
                made[-1].transport.end()
                await host["raw"].wait("connecting", "waiting")
            assert len(made) >= 2


# ---------------------------------------------------------------------------------------- credentials

TOKEN = AccessTokenResult(token="secret-token", expires_at="2026-01-01T01:00:00Z")
PATHS = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
ACCESS = HostPolicy.allow("tools", "access.token", vocabulary=PATHS)
ASKS = {**MANIFEST, "access": {"token": True}}
WANTED = {"audience": "https://api.example", "scopes": ["read"], "reason": "to look"}


async def test_a_credential_is_given_as_the_application_decides() -> None:
    asked: list[tuple[str, AccessTokenParams]] = []

    async def decide(server: str, params: AccessTokenParams) -> AccessTokenResult:
        asked.append((server, params))
        return TOKEN

    audit: list[AuditRecord] = []
    async with table(ACCESS, manifest=ASKS, audit=audit, access=decide) as at:
        assert await at.raw.served("access/token", WANTED) == {
            "token": "secret-token", "tokenType": "Bearer", "expiresAt": "2026-01-01T01:00:00Z",
        }  # fmt: skip
    assert asked == [("raw", AccessTokenParams(audience="https://api.example", scopes=["read"], reason="to look"))]
    assert [each.outcome for each in audit if each.operation == "access/token"] == ["success"]
    assert "secret-token" not in repr(audit)


@pytest.mark.parametrize("access", [None, lambda server, params: None], ids=["nobody decides", "refused"])
@pytest.mark.spec("R-access-1")
async def test_it_is_refused_by_default_and_when_the_application_says_so(access: Any) -> None:
    audit: list[AuditRecord] = []
    async with table(ACCESS, manifest=ASKS, audit=audit, access=access) as at:
        error = await at.raw.refused("access/token", WANTED)
        assert (error["code"], error["data"]) == (ERR_CAPABILITY_DENIED, {"capability": "access.token"})
    assert [each.outcome for each in audit if each.operation == "access/token"] == ["denied"]


@pytest.mark.parametrize(
    "policy",
    [
        TOOLS,
        HostPolicy.allow("tools", "*", vocabulary=PATHS),
        HostPolicy.allow("access.token", deny="access.token", vocabulary=PATHS),
    ],
    ids=["unknown", "star", "denied"],
)
@pytest.mark.spec("R-access-1")
async def test_no_policy_grants_it_that_does_not_name_it(policy: HostPolicy) -> None:
    asked: list[Any] = []
    async with table(policy, manifest=ASKS, access=lambda *wanted: asked.append(wanted)) as at:
        error = await at.raw.refused("access/token", WANTED)
        assert (error["code"], asked) == (ERR_CAPABILITY_DENIED, [])


@pytest.mark.spec("R-access-1")
async def test_a_feature_set_cannot_use_it() -> None:
    claims = {"t.tokens": {"description": "Acts for you", "uses": ["access.token"]}}
    async with table(ACCESS, manifest={**ASKS, "featureSets": claims}) as at:
        status = at.session.link.authority.statuses["t.tokens"]
        assert not status.enabled


@pytest.mark.spec("R-access-1")
async def test_what_was_revoked_while_somebody_thought_stays_refused() -> None:
    asked, decided = anyio.Event(), anyio.Event()

    async def decide(server: str, params: AccessTokenParams) -> AccessTokenResult:
        asked.set()
        await decided.wait()
        return TOKEN

    async with table(ACCESS, manifest=ASKS, access=decide) as at:
        request = at.raw.request("access/token", WANTED)
        at.raw.send(request)
        await asked.wait()
        at.session.adopt(TOOLS)
        decided.set()
        answer = await at.raw.answer(request)
        assert answer["error"]["code"] == ERR_CAPABILITY_DENIED


@pytest.mark.parametrize("access", [lambda *wanted: "secret-token", lambda *wanted: 1 / 0])
async def test_an_application_that_fails_gives_nothing_away(access: Any) -> None:
    async with table(ACCESS, manifest=ASKS, access=access) as at:
        error = await at.raw.refused("access/token", WANTED)
        assert error["code"] == ERR_INTERNAL_ERROR
        assert "secret-token" not in str(error)


async def test_what_is_no_question_is_not_asked() -> None:
    asked: list[Any] = []
    async with table(ACCESS, manifest=ASKS, access=lambda *wanted: asked.append(wanted)) as at:
        error = await at.raw.refused("access/token", {"scopes": []})
        assert (error["code"], asked) == (ERR_INVALID_PARAMS, [])


def test_a_server_that_was_never_connected_has_toolsets_to_wait_for() -> None:
    host = HostToolsets()
    assert isinstance(host["later"], ServerToolsets)
    assert host["later"] is host["later"]
    assert host["later"].visible() == []
