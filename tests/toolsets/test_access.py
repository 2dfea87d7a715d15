"""Credentials: asked for, kept, dropped, never shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import pytest
from anyio.abc import TaskGroup

from mcpl_core import CapabilityDenied, InvalidResultError, McplConnection, Request, RpcError
from mcpl_core.protocol import AccessTokenResult
from mcpl_core.server import Context, HostCalls, ServerPolicy
from mcpl_core.toolsets import AccessDenied
from mcpl_core.toolsets.access import AccessDesk
from mcpl_core.toolsets.link import FeatureSetNames, Link
from mcpl_core.toolsets.principal import Principal
from mcpl_core.toolsets.wire import time_text
from tests.toolsets.toolset_kit import FakeClock, quiet

pytestmark = pytest.mark.anyio

SECRET = "s3cret"


class End(NamedTuple):
    desk: AccessDesk
    link: Link
    host: McplConnection
    clock: FakeClock
    tasks: TaskGroup

    async def get(self, audience: str = "https://a", scopes: tuple[str, ...] = ()) -> AccessTokenResult:
        return await self.desk.get(self.link, audience, scopes, None, 5)

    async def answer(self, lasts: float = 3600, **more: Any) -> Request:
        """Answers the next question."""
        request = await self.host.next_message()
        assert isinstance(request, Request)
        result = {"token": SECRET, "tokenType": "Bearer", "expiresAt": time_text(self.clock.now + lasts), **more}
        await self.host.send_response(request.id, result)
        return request


@asynccontextmanager
async def ends(mcpl: bool = True) -> AsyncIterator[End]:
    server, host = McplConnection.memory_pair()
    clock = FakeClock()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks, server, host:
            calls = HostCalls(server, ServerPolicy(lambda: {}))
            link = Link(Principal("p", [], 1, 256), server, FeatureSetNames("s"))
            link.see(Context(calls, principal="p", host={}, protocol_version="1", mcpl=mcpl, session_state={}))
            yield End(AccessDesk(clock.time), link, host, clock, tasks)
            tasks.cancel_scope.cancel()


@pytest.mark.spec("R-toolsets-8")
async def test_it_is_kept_until_shortly_before_its_end() -> None:
    async with ends() as end:
        end.tasks.start_soon(end.answer)
        first = await end.get(scopes=("b", "a", "a"))
        assert (first.token, SECRET in repr(first)) == (SECRET, False)
        assert await end.get(scopes=("a", "b")) is first
        end.clock.advance(3600 - 30.5)
        assert await end.get(scopes=("a", "b")) is first
        end.clock.advance(1)
        end.tasks.start_soon(
            end.answer,
            60,
        )
        assert await end.get(scopes=("a", "b")) is not first
        for audience, scopes in (("https://b", ("a", "b")), ("https://a", ())):
            end.tasks.start_soon(end.answer)
            await end.get(audience, scopes)
        assert end.host.stats.received == 4
        assert SECRET not in repr(end.desk._kept)


async def test_what_ends_too_soon_is_given_once() -> None:
    async with ends() as end:
        for _ in range(2):
            end.tasks.start_soon(end.answer, 29)
            assert (await end.get()).token == SECRET
        assert end.host.stats.received == 2


async def test_a_host_is_asked_once_for_what_several_want() -> None:
    async with ends() as end:
        got: list[AccessTokenResult] = []

        async def want() -> None:
            got.append(await end.get())

        for _ in range(5):
            end.tasks.start_soon(want)
        await quiet()
        assert end.host.stats.received == 1
        await end.answer()
        await quiet()
        assert len(got) == 5
        assert len({id(each) for each in got}) == 1


async def test_who_gives_up_leaves_the_question_to_the_next() -> None:
    async with ends() as end:
        with anyio.CancelScope() as scope:
            end.tasks.start_soon(quiet_then, scope.cancel)
            await end.get()
        first = await end.host.next_message()
        assert isinstance(first, Request)
        await end.host.next_message()
        end.tasks.start_soon(end.answer)
        assert (await end.get()).token == SECRET


async def quiet_then(do: Any) -> None:
    await quiet()
    do()


@pytest.mark.spec("R-toolsets-8")
@pytest.mark.parametrize("code", [-32601, -32002])
async def test_a_refusal(code: int) -> None:
    async with ends() as end:

        async def refuse() -> None:
            request = await end.host.next_message()
            assert isinstance(request, Request)
            await end.host.send_error(request.id, code, "no")

        end.tasks.start_soon(refuse)
        with pytest.raises(AccessDenied) as caught:
            await end.get()
        assert (caught.value.audience, caught.value.code) == ("https://a", code)


async def test_other_errors_are_the_hosts_own() -> None:
    async with ends() as end:

        async def fail() -> None:
            request = await end.host.next_message()
            assert isinstance(request, Request)
            await end.host.send_error(request.id, -32050, "ask later")

        end.tasks.start_soon(fail)
        with pytest.raises(RpcError) as caught:
            await end.get()
        assert caught.value.code == -32050
        assert not isinstance(caught.value, CapabilityDenied)


async def test_nobody_to_ask() -> None:
    async with ends() as end:
        with pytest.raises(AccessDenied) as caught:
            await end.desk.get(None, "https://a", (), None, 1)
        assert caught.value.code is None
    async with ends(mcpl=False) as end:
        with pytest.raises(AccessDenied) as caught:
            await end.get()
        assert (caught.value.code, end.host.stats.received) == (-32601, 0)


@pytest.mark.parametrize("more", [{"expiresAt": "soon"}, {"expiresAt": 3}, {"token": [SECRET]}, {"tokenType": "MAC"}])
async def test_what_is_no_credential_is_not_repeated(more: dict[str, Any]) -> None:
    async with ends() as end:
        end.tasks.start_soon(lambda: end.answer(**more))
        with pytest.raises(InvalidResultError) as caught:
            await end.get()
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.spec("R-toolsets-8")
async def test_what_was_dropped_is_asked_for_again() -> None:
    async with ends() as end:
        end.tasks.start_soon(end.answer)
        await end.get()
        other = Link(end.link.principal, end.link.connection, end.link.names)
        end.desk.drop(other)
        await end.get()
        for drop in (end.link, None):
            end.desk.drop(drop)
            end.tasks.start_soon(end.answer)
            await end.get()
        assert end.host.stats.received == 3


async def test_what_came_after_a_reduction_is_not_kept() -> None:
    async with ends() as end:
        got: list[str] = []

        async def want() -> None:
            got.append((await end.get()).token)

        end.tasks.start_soon(want)
        await quiet()
        end.link.grants += 1
        await end.answer()
        await quiet()
        assert got == [SECRET]
        end.tasks.start_soon(want)
        await quiet()
        assert end.host.stats.received == 2
        end.link.gone = True
        await end.answer()
        await quiet()
        assert end.desk._kept == {}


async def test_what_is_over_is_not_kept_for_ever() -> None:
    async with ends() as end:
        for number in range(3):
            end.tasks.start_soon(end.answer)
            await end.get(f"https://{number}")
            end.clock.advance(4000)
        assert len(end.desk._kept) == 1
