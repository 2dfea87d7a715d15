"""A tap shows every message, changes none, and loses none when its observer fails."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from mcpl_core import ConnectionClosedError, McplConnection, TransportError
from mcpl_core.errors import MalformedMessageError
from mcpl_core.transports.memory import ScriptedTransport, memory_transports
from mcpl_core.transports.tap import TappedTransport
from mcpl_core.wire.values import decode_value

pytestmark = pytest.mark.anyio


async def test_both_directions_are_shown_in_order_and_arrive() -> None:
    left, right = memory_transports()
    seen: list[tuple[str, Any]] = []
    tapped = TappedTransport(left, lambda direction, text: seen.append((direction, decode_value(text).get("method"))))
    async with McplConnection(tapped) as host, McplConnection(right) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, {"echo": lambda request: request.params})
        with anyio.fail_after(5):
            assert await host.send_request("echo", {"a": 1}) == {"a": 1}
            await host.send_notification("bye")
            await host.aclose()
    assert seen == [("sent", "echo"), ("received", None), ("sent", "bye")]


async def test_an_observer_that_raises_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(direction: str, text: bytes) -> None:
        raise ValueError(direction)

    script = ScriptedTransport()
    with caplog.at_level(logging.ERROR, "mcpl_core"), anyio.fail_after(5):
        async with McplConnection(TappedTransport(script, fail)) as conn:
            script.feed({"jsonrpc": "2.0", "method": "hello"})
            assert (await conn.next_message()).method == "hello"
            await conn.send_notification("back")
    assert len(script.sent) == 1
    assert len(caplog.records) == 2


async def test_the_rest_of_the_contract_passes_through() -> None:
    script = ScriptedTransport(max_message_bytes=99)
    tapped = TappedTransport(script, lambda direction, text: None)
    assert tapped.max_message_bytes == 99
    errors: list[BaseException] = []
    conn = McplConnection(tapped)
    conn.on_error(errors.append)
    with anyio.fail_after(5):
        async with conn:
            assert conn.transport.name == "script"
            script.malformed(MalformedMessageError("binary"))
            script.stalled = True
            assert tapped.behind
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tapped.drain)
                await anyio.lowlevel.checkpoint()
                script.release()
            tapped.pause_reading()
            assert script.paused
            tapped.resume_reading()
            assert [script.paused] == [False]
            await conn.send_eof()
            assert script.eof_sent == 1
            script.end(TransportError("gone"))
            with pytest.raises(ConnectionClosedError):
                await conn.next_message()
    assert [type(error) for error in errors] == [MalformedMessageError, TransportError]
    assert script.closed >= 1


async def test_an_output_that_fails_closes() -> None:
    script = ScriptedTransport()
    with anyio.fail_after(5):
        async with McplConnection(TappedTransport(script, lambda direction, text: None)) as conn:
            script.fail_output()
            with pytest.raises(ConnectionClosedError):
                await conn.next_message()
