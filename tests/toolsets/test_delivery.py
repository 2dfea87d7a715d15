"""Sending what no call carries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import pytest

from mcpl_core import McplConnection, Notification, Request
from mcpl_core.protocol import PushEventParams, PushPayload
from mcpl_core.server import Context, HostCalls, ServerPolicy, Settings
from mcpl_core.toolsets.delivery import Delivery
from mcpl_core.toolsets.link import FeatureSetNames, Link
from mcpl_core.toolsets.principal import Principal
from mcpl_core.toolsets.wire import Key
from tests.toolsets.toolset_kit import quiet

pytestmark = pytest.mark.anyio

A: Key = ("game", "game-1")
DECLARED = {
    "s.tools": {"description": "", "uses": ["tools"]},
    "s.events": {"description": "", "uses": ["pushEvents"]},
}


class End(NamedTuple):
    link: Link
    host: McplConnection
    policy: ServerPolicy
    reported: list[BaseException]

    def event(self, id: str, content: Any = "it moved") -> None:
        payload = PushPayload(content=content)
        params = PushEventParams(feature_set="s.events", event_id=id, timestamp="t", payload=payload)
        self.link.principal.events.raise_event(params, [self.link], None)

    def show(self, *visible: str) -> None:
        self.link.principal.presence.set(A, visible)

    def grant(self, *paths: str) -> None:
        self.policy.update({"effectiveCapabilities": list(paths)}, "request")
        self.link.wake()

    async def next(self) -> tuple[str, Any, Callable[..., Any]]:
        """The next message: what it is about, its changes, and how to answer it."""
        message = await self.host.next_message()
        hints = [hint["rev"] for hint in message.params.get("hints", ())]
        if isinstance(message, Notification):
            return message.method, hints, quiet
        assert isinstance(message, Request)
        id = message.id

        async def answer(code: int | None = None, **result: Any) -> None:
            if code is None:
                await self.host.send_response(id, {"accepted": True, **result})
            else:
                await self.host.send_error(id, code, "no")

        return message.params["eventId"], hints, answer


@asynccontextmanager
async def ends(**settings: Any) -> AsyncIterator[End]:
    connection, host = McplConnection.memory_pair()
    reported: list[BaseException] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks, connection, host:
            connection.on_error(reported.append)
            policy = ServerPolicy(lambda: DECLARED)
            link = Link(Principal("p", [], 9, 256), connection, FeatureSetNames("s"))
            context = Context(
                HostCalls(connection, policy),
                principal="p",
                host={},
                protocol_version="1",
                mcpl=True,
                advertised={"toolsets": True},
                session_state={},
            )
            link.see(context)
            assert link.view is not None
            link.view.base()
            end = End(link, host, policy, reported)
            end.grant("tools", "pushEvents")
            tasks.start_soon(Delivery(link, Settings(**{"first_retry": 1e-6, "longest_retry": 1e-6, **settings})).run)
            yield end
            tasks.cancel_scope.cancel()


@pytest.mark.spec("R-toolsets-3")
async def test_a_change_rides_on_an_event_or_travels_alone() -> None:
    async with ends() as end:
        end.show("up")
        name, hints, _ = await end.next()
        assert (name, hints) == ("toolsets/changed", [1])
        end.show("down")
        end.show("up", "down")
        end.event("a")
        name, hints, answer = await end.next()
        assert (name, hints) == ("a", [2])
        # One that would wait behind an event does not.
        end.event("b")
        end.show()
        assert (await end.next())[:2] == ("toolsets/changed", [3])
        await answer(accepted=False)
        assert (await end.next())[:2] == ("b", [])


@pytest.mark.spec("R-toolsets-5")
async def test_events_go_out_one_after_the_other_and_any_answer_ends_one() -> None:
    async with ends() as end:
        for id in "abc":
            end.event(id)
        for id in "abc":
            name, _, answer = await end.next()
            assert name == id
            await quiet()
            assert end.host.stats.queued == 0
            await answer(accepted=id == "a", reason="queue_full")
        await quiet()
        assert (list(end.link.queue), end.link.principal.events.held, end.reported) == ([], [], [])


async def test_a_failure_is_tried_again_without_changes_and_not_for_ever() -> None:
    async with ends(event_attempts=3) as end:
        end.show("up")
        end.event("a")
        for number in range(3):
            name, hints, answer = await end.next()
            assert (name, hints) == ("a", [1] if number == 0 else [])
            await answer(-32603)
        await quiet()
        assert (len(end.reported), list(end.link.queue)) == (1, [])


async def test_no_answer_in_time_is_a_failure() -> None:
    async with ends(event_timeout=0.001) as end:
        end.event("a")
        assert (await end.next())[0] == "a"
        while True:
            message = await end.host.next_message()
            if isinstance(message, Request):
                assert message.params["eventId"] == "a"
                break


async def test_a_reduction_gives_events_back() -> None:
    async with ends() as end:
        end.event("a")
        _, _, answer = await end.next()
        end.grant("tools")
        await answer(-32002)
        await quiet()
        assert [event.params.event_id for event in end.link.principal.events.held] == ["a"]
        end.show("up")
        assert (await end.next())[0] == "toolsets/changed"
        end.grant()
        end.show()
        await quiet()
        assert end.host.stats.queued == 0
        end.grant("tools")
        assert (await end.next())[1] == [2]


async def test_what_the_host_refuses_for_other_reasons_is_reported_and_over() -> None:
    async with ends() as end:
        for code in (-32001, -32602):
            end.event("a")
            _, _, answer = await end.next()
            await answer(code)
            await quiet()
        assert [getattr(exc, "code", None) for exc in end.reported] == [-32001, -32602]
        assert list(end.link.queue) == []


async def test_an_event_that_cannot_be_sent_is_reported_and_holds_up_no_other() -> None:
    async with ends() as end:
        end.event("a", [{"type": "own", "value": float("nan")}])
        end.event("b")
        assert (await end.next())[0] == "b"
        assert len(end.reported) == 1


async def test_the_end_of_the_connection_gives_events_back() -> None:
    async with ends() as end:
        end.event("a")
        await end.next()
        end.event("b")
        await end.host.aclose()
        await quiet()
        held = end.link.principal.events.held
        assert [event.params.event_id for event in held] == ["a", "b"]
        assert [event.tried for event in held] == [True, False]
