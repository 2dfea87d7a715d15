"""Requests that may take long."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.errors import ConnectionTimeoutError
from mcpl_core.host.calls import Calls
from mcpl_core.protocol import ProgressParams
from mcpl_core.transports.memory import ScriptedTransport
from mcpl_core.wire.messages import Notification

pytestmark = pytest.mark.anyio


class Peer:
    """A connection whose peer is the test, with the calls under test."""

    def __init__(self, **options: Any) -> None:
        self.transport = ScriptedTransport()
        self.connection = McplConnection(self.transport)
        self.now = 0.0
        self.calls = Calls(self.connection, lambda: self.now, **options)
        self.extended: list[float] = []
        self.reports: list[BaseException] = []

    async def serve(self) -> None:
        self.connection.on_error(self.reports.append)
        extend = self.connection.extend_timeout

        def spy(id: Any, timeout: float) -> None:
            self.extended.append(timeout)
            extend(id, timeout)

        self.connection.extend_timeout = spy  # type: ignore[method-assign]
        async for message in self.connection:
            if isinstance(message, Notification) and message.method == "notifications/progress":
                self.calls.progress(message)

    def progress(self, token: Any, progress: Any, **more: Any) -> None:
        params = {"progressToken": token, "progress": progress, **more}
        self.transport.feed({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


async def run(peer: Peer, script: Any, **options: Any) -> Any:
    """The result of one call, while a script plays the server."""
    outcome: list[Any] = []
    options = {"timeout": 30.0, "limit": 600.0, **options}
    with anyio.fail_after(10):
        async with peer.connection, anyio.create_task_group() as tasks:
            tasks.start_soon(peer.serve)

            async def play() -> None:
                await script(peer, await peer.transport.next_sent())

            tasks.start_soon(play)
            try:
                outcome.append(await peer.calls.request("tools/call", {"name": "x"}, **options))
            except ConnectionTimeoutError as exc:
                outcome.append(exc)
            tasks.cancel_scope.cancel()
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


async def answer(peer: Peer, request: Any) -> None:
    peer.transport.feed({"jsonrpc": "2.0", "id": request["id"], "result": request["params"]})


async def test_every_call_has_a_token_of_its_own() -> None:
    first, second = await run(Peer(), answer), await run(Peer(), answer)
    assert first == {"name": "x", "_meta": {"progressToken": "progress-1"}}
    assert second == first


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        ("00-a", {"traceparent": "00-a"}),
        ({"traceparent": "00-a", "baggage": "b"}, {"traceparent": "00-a", "baggage": "b"}),
    ],
)
async def test_a_trace_context_is_carried(trace: Any, expected: Any) -> None:
    sent = await run(Peer(), answer, trace=trace)
    assert sent["_meta"] == {**expected, "progressToken": "progress-1"}
    assert (await run(Peer(trace=lambda: expected), answer))["_meta"] == sent["_meta"]
    assert Peer().calls.meta() == {}


async def test_progress_gives_as_much_time_again_up_to_the_limit() -> None:
    seen: list[ProgressParams] = []

    async def script(peer: Peer, request: Any) -> None:
        token = request["params"]["_meta"]["progressToken"]
        for at, progress in ((10, 1), (590, 2), (599, 3), (601, 4)):
            peer.now = at
            peer.progress(token, progress, total=9, message="m")
            await anyio.wait_all_tasks_blocked()
        await answer(peer, request)

    peer = Peer()
    await run(peer, script, on_progress=seen.append)
    assert peer.extended == [30.0, 10.0, 1.0]
    assert [(each.progress, each.total, each.message) for each in seen] == [(value, 9, "m") for value in (1, 2, 3, 4)]


async def test_progress_that_is_not_ours_or_does_not_grow_gives_nothing() -> None:
    async def script(peer: Peer, request: Any) -> None:
        token = request["params"]["_meta"]["progressToken"]
        for other in ("other", 1, True, None):
            peer.progress(other, 1)
        peer.progress(token, "far")
        peer.progress(token, 5)
        peer.progress(token, 5)
        peer.progress(token, 4)
        await anyio.wait_all_tasks_blocked()
        await answer(peer, request)

    peer = Peer()
    await run(peer, script)
    assert peer.extended == [30.0]
    # It is over: its token means nothing any more.
    peer.calls.progress(Notification("notifications/progress"))


async def test_a_call_without_a_timeout_is_not_extended() -> None:
    async def script(peer: Peer, request: Any) -> None:
        peer.progress(request["params"]["_meta"]["progressToken"], 1)
        await anyio.wait_all_tasks_blocked()
        await answer(peer, request)

    peer = Peer()
    await run(peer, script, timeout=None)
    assert peer.extended == []


async def test_what_a_progress_handler_raises_is_reported() -> None:
    async def script(peer: Peer, request: Any) -> None:
        peer.progress(request["params"]["_meta"]["progressToken"], 1)
        await anyio.wait_all_tasks_blocked()
        await answer(peer, request)

    def handler(params: ProgressParams) -> None:
        raise RuntimeError("no")

    peer = Peer()
    await run(peer, script, on_progress=handler)
    assert [type(report) for report in peer.reports] == [RuntimeError]


async def test_progress_keeps_a_call_alive_and_its_end_does_not() -> None:
    """In real time, but short. Where a busy machine brings progress too late, once more with longer times."""
    for timeout in (0.1, 0.5, 2.0):
        peer = Peer()
        peer.calls = Calls(peer.connection, anyio.current_time)
        times = [anyio.current_time()]

        async def script(peer: Peer, request: Any, times: list[float] = times, pause: float = timeout / 2) -> None:
            for step in range(6):
                with anyio.move_on_after(pause):
                    await anyio.Event().wait()
                times.append(anyio.current_time())
                peer.progress(request["params"]["_meta"]["progressToken"], step)
            await anyio.sleep_forever()

        with pytest.raises(ConnectionTimeoutError):
            await run(peer, script, timeout=timeout, limit=60.0)
        if all(later - sooner < 0.9 * timeout for sooner, later in pairwise(times)):
            # To the microsecond: a difference of two clock readings is 0.0999999999985 where 0.1 went by.
            assert round(anyio.current_time() - times[-1], 6) >= timeout
            if len(times) == 7:
                return
    raise AssertionError("progress was late each time")


async def test_the_limit_holds_whatever_progress_there_is() -> None:
    async def script(peer: Peer, request: Any) -> None:
        token = request["params"]["_meta"]["progressToken"]
        for step in range(10_000):
            with anyio.move_on_after(0.01):
                await anyio.Event().wait()
            peer.progress(token, step)

    peer = Peer()
    peer.calls = Calls(peer.connection, anyio.current_time)
    with pytest.raises(ConnectionTimeoutError):
        await run(peer, script, timeout=0.1, limit=0.2)


async def test_the_limit_is_below_a_longer_timeout() -> None:
    async def script(peer: Peer, request: Any) -> None:
        await anyio.sleep_forever()

    with pytest.raises(ConnectionTimeoutError) as caught:
        await run(Peer(), script, timeout=30.0, limit=0.01)
    assert caught.value.timeout == 0.01


async def test_a_limit_holds_for_a_call_without_a_timeout() -> None:
    async def script(peer: Peer, request: Any) -> None:
        await anyio.sleep_forever()

    with pytest.raises(ConnectionTimeoutError) as caught:
        await run(Peer(), script, timeout=None, limit=0.01)
    assert caught.value.timeout == 0.01
