"""Faults between real processes, as a connection sees them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core import (
    ConnectionClosedError,
    InboxLimits,
    McplConnection,
    ProcessExitedError,
    QueueOverflowError,
    Request,
    RpcError,
)
from mcpl_core.errors import ERROR_CLASSES
from mcpl_core.transports.subprocess import SubprocessTransport
from tests.transports.certificate import client_context, server_context

pytestmark = pytest.mark.anyio

#: Answers requests by what they ask for; raw lines, without this package.
PEER = r"""
import json, os, signal, sys, time

def say(**members):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **members}) + "\n")
    sys.stdout.flush()

for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params")
    if method == "pid":
        say(id=message["id"], result=os.getpid())
    elif method == "echo":
        say(id=message["id"], result=params)
    elif method == "fail":
        say(id=message["id"], error=params)
    elif method == "flood":
        count = 0
        while True:
            say(method="noise", params={"n": count, "text": "x" * 1000})
            count += 1
    elif method == "die":
        say(method="before")
        sys.stdout.write('{"jsonrpc":"2.0","method":"half')
        sys.stdout.flush()
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    elif method == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif method == "close output":
        os.close(1)
"""


def child(**options: Any) -> McplConnection:
    return McplConnection.spawn([sys.executable, "-u", "-c", PEER], **options)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_killed_in_the_middle_of_a_message() -> None:
    errors: list[BaseException] = []
    with anyio.fail_after(20):
        async with child() as conn:
            conn.on_error(errors.append)
            with pytest.raises(ConnectionClosedError) as caught:
                await conn.send_request("die")
            assert caught.value.outcome == "no-response"
            # What came whole before is still there.
            assert (await conn.next_message()).method == "before"
            with pytest.raises(ConnectionClosedError):
                await conn.next_message()
            reason = conn.close_reason
            assert isinstance(reason, ProcessExitedError)
            assert reason.returncode == -signal.SIGKILL
            assert "last words" in reason.stderr
    assert errors[-1] is reason


async def test_a_flood_while_a_request_waits_closes_and_names_the_method() -> None:
    limits = InboxLimits(hard_messages=5000)
    with anyio.fail_after(30):
        async with child(limits=limits) as conn:
            conn.on_error(lambda error: None)
            with pytest.raises(ConnectionClosedError) as caught:
                await conn.send_request("flood")
            assert isinstance(caught.value.reason, QueueOverflowError)
            assert caught.value.reason.method == "noise"
            assert caught.value.reason.messages <= 5001


async def test_a_flood_that_nobody_waits_behind_is_not_read() -> None:
    with anyio.fail_after(30):
        async with child() as conn:
            await conn.send_notification("flood")
            before = resident()
            numbers = [(await conn.next_message()).params["n"] for _ in range(20_000)]
            assert numbers == list(range(20_000))
            # 20 MB went through; what waits is bounded by the high-water mark.
            assert conn.stats.queued <= 2048
            assert resident() - before < 64 * 1024 * 1024


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
async def test_a_process_that_stops_reading_while_200_mb_are_offered() -> None:
    sent = 0
    text = "x" * 1_000_000
    with anyio.fail_after(30):
        async with child() as conn:
            pid = await conn.send_request("pid")
            await conn.send_notification("stop")
            before = resident()
            with anyio.move_on_after(0.5):
                for _ in range(200):
                    await conn.send_notification("note", {"text": text})
                    sent += 1
            assert sent < 50
            assert resident() - before < 64 * 1024 * 1024
            os.kill(pid, signal.SIGKILL)
            conn.on_error(lambda error: None)
            with pytest.raises(ConnectionClosedError):
                await conn.next_message()


async def test_a_caller_that_is_cancelled_in_a_send_tears_no_message() -> None:
    with anyio.fail_after(30):
        async with child() as conn:
            for size in (10, 100_000, 1_000_000):
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await conn.send_request("echo", ["x" * size])
            assert await conn.send_request("echo", ["whole"]) == ["whole"]


async def test_closed_from_another_task_while_a_request_waits() -> None:
    with anyio.fail_after(30):
        async with child() as conn, anyio.create_task_group() as tasks:
            assert await conn.send_request("echo", [1]) == [1]
            tasks.start_soon(conn.aclose)
            with pytest.raises(ConnectionClosedError) as caught:
                await conn.send_request("unanswered")
            assert caught.value.outcome in ("not-sent", "no-response")
        transport = conn.transport
        assert isinstance(transport, SubprocessTransport)
        assert transport.returncode is not None


async def test_every_code_arrives_as_its_class() -> None:
    with anyio.fail_after(30):
        async with child() as conn:
            for code, kind in ERROR_CLASSES.items():
                with pytest.raises(kind) as caught:
                    await conn.send_request("fail", {"code": code, "message": "no", "data": {"code": code}})
                assert (type(caught.value), caught.value.code) == (kind, code)
                assert (caught.value.message, caught.value.data) == ("no", {"code": code})
            with pytest.raises(RpcError) as plain:
                await conn.send_request("fail", {"code": 7, "message": "other"})
            assert type(plain.value) is RpcError


async def test_a_secure_endpoint_by_its_mcpl_uri() -> None:
    with anyio.fail_after(30):
        listening = McplConnection.listen("wss://127.0.0.1:0/mcpl", listener_options={"ssl": server_context()})
        async with listening as listener, anyio.create_task_group() as tasks:
            uri = listener.endpoint.replace("wss://", "mcpl://") + "?room=1"
            dialled = McplConnection.connect(uri, transport_options={"ssl": client_context()})

            async def answer() -> None:
                async with await anext(listener) as accepted:
                    async for message in accepted:
                        assert isinstance(message, Request)
                        await accepted.send_response(message.id, message.params)

            tasks.start_soon(answer)
            async with dialled as conn:
                assert conn.transport.name.startswith("wss://127.0.0.1:")
                assert "room" not in conn.transport.name
                assert await conn.send_request("echo", {"a": 1}) == {"a": 1}
