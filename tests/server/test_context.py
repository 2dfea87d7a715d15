"""What a handler is given beside its params."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core import Request, method
from mcpl_core.protocol import ToolsCallParams
from mcpl_core.server import Context
from tests.server.host_calls import End, ends, quiet

pytestmark = pytest.mark.anyio


def context(end: End, params: Any = None) -> Context:
    return Context(
        end.calls, principal="p", host={}, protocol_version="2025-11-25", mcpl=True, session_state={}, params=params
    )


def params(meta: Any) -> ToolsCallParams:
    return ToolsCallParams(name="t", meta=meta)


async def progress(end: End) -> list[Any]:
    await quiet()
    found = []
    while end.host.stats.queued:
        message = await end.host.next_message()
        assert message.method == method.PROGRESS
        found.append(message.params)
    return found


@pytest.mark.parametrize("token", ["t", "", 0, 7])
async def test_progress_goes_to_who_asked_for_it(token: Any) -> None:
    async with ends() as end:
        ctx = context(end, params({"progressToken": token}))
        await ctx.progress(1)
        await ctx.progress(2.5, 10, "on the way")
        assert await progress(end) == [
            {"progressToken": token, "progress": 1},
            {"progressToken": token, "progress": 2.5, "total": 10, "message": "on the way"},
        ]


@pytest.mark.parametrize("meta", [None, {}, {"progressToken": None}, {"progressToken": True}, {"progressToken": {}}, 3])
async def test_nobody_who_did_not_ask_hears_of_progress(meta: Any) -> None:
    async with ends() as end:
        await context(end, params(meta)).progress(1)
        await context(end).progress(1)
        assert await progress(end) == []


async def test_no_progress_after_the_answer() -> None:
    async with ends() as end:
        ctx = context(end, params({"progressToken": 1}))
        ctx.ended = True
        await ctx.progress(1)
        assert await progress(end) == []


async def test_a_context_shares_the_connections_calls_and_grant() -> None:
    async with ends("pushEvents") as end:
        first, second = context(end), context(end)
        assert first.inferences is second.inferences is end.calls.inferences
        assert first.grant is end.calls.policy.grant
        end.grant()
        assert not first.allows("pushEvents")


async def test_meta_is_an_object() -> None:
    async with ends() as end:
        assert [context(end, params(meta)).meta for meta in ({"a": 1}, None, 3)] == [{"a": 1}, {}, {}]
        assert context(end, {"plain": 1}).meta == {}


async def test_whether_the_answer_is_wanted() -> None:
    async with ends() as end:
        seen: list[bool] = []

        async def handle(request: Request) -> dict[str, Any]:
            ctx = Context(
                end.calls,
                principal="p",
                host={},
                protocol_version="2025-11-25",
                mcpl=True,
                session_state={},
                request_id=request.id,
            )
            seen.append(ctx.wanted)
            try:
                await anyio.sleep_forever()
            finally:
                seen.append(ctx.wanted)
                ctx.ended = True
                seen.append(ctx.wanted)
            return {}

        end.tasks.start_soon(end.calls.connection.serve, {"tools/call": handle})
        with anyio.move_on_after(5) as giving_up:
            end.tasks.start_soon(_cancel_when, giving_up, seen)
            await end.host.send_request("tools/call", {})
        while len(seen) < 3:
            await quiet()
        assert seen == [True, False, False]
        assert not context(end).wanted
        answered = Context(
            end.calls,
            principal="p",
            host={},
            protocol_version="2025-11-25",
            mcpl=True,
            session_state={},
            request_id=99,
        )
        assert not answered.wanted
        await end.calls.connection.aclose()
        assert not answered.wanted


async def _cancel_when(scope: anyio.CancelScope, seen: list[bool]) -> None:
    while not seen:
        await quiet()
    scope.cancel()
