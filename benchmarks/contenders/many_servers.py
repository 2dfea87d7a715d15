"""One host with many servers at once: all but a few in memory, the others child processes.

Styles: ``host`` (``McplHost``) and ``clients`` (as many clients of the ``mcp`` SDK, all in memory). Every server is one
of its own, with a handshake, a grant and a tool. What is measured: connecting them all, resident memory for each, and
calls to all of them at once, each followed by the next to the same server. Child processes are few, since two hundred
of them would measure the system's scheduler; they see to it that both kinds live under one host.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio

from mcpl_core import McplConnection
from mcpl_core.host import McplHost

from ..drive import check_echo
from ..meter import Meter, percentiles, resident_mb
from ..workload import SMALL, Order
from .program import main, server_command
from .tool_calls import POLICY, tool_server

__all__ = ("PROCESSES", "client", "serve")

#: How many of the servers are child processes.
PROCESSES = 4

Call = Callable[[], Awaitable[Any]]


async def client(order: Order) -> dict[str, float]:
    """Connects to all servers, and calls all of them."""
    before = resident_mb()
    began = time.perf_counter()
    async with (_hosted if order.style == "host" else _clients)(order) as calls:
        connect_ms = (time.perf_counter() - began) * 1e3
        each = (resident_mb() - before) / len(calls)
        for call in calls:
            check_echo(await call(), SMALL)
        return await _call_all(calls, order.seconds) | {"connect_ms": connect_ms, "mb_each": each}


async def serve(order: Order) -> None:
    """One of the servers that are child processes."""
    await tool_server().serve_stdio()


@asynccontextmanager
async def _hosted(order: Order) -> AsyncIterator[list[Call]]:
    async with anyio.create_task_group() as serving, McplHost("bench", "1.0.0", policy=POLICY) as host:

        async def serve_in_memory(connection: McplConnection) -> None:
            async with connection:
                await tool_server().serve(connection)

        async def add(number: int) -> None:
            if number < min(PROCESSES, order.servers // 2):
                await host.add(f"process-{number}", server_command(__spec__.name, order))
                return
            ours, theirs = McplConnection.memory_pair()
            serving.start_soon(serve_in_memory, theirs)
            await host.add(f"memory-{number}", ours)

        async with anyio.create_task_group() as adding:
            for number in range(order.servers):
                adding.start_soon(add, number)

        def call_of(server: Any) -> Call:
            async def call() -> Any:
                return (await server.call_tool("echo", SMALL)).structured_content

            return call

        yield [call_of(server) for server in host.servers.values()]
        await host.aclose()
        serving.cancel_scope.cancel()


@asynccontextmanager
async def _clients(order: Order) -> AsyncIterator[list[Call]]:
    # The program of a contender that is not installed is not started; this one serves two.
    from mcp import Client

    from .mcp_sdk import tool_server as sdk_server

    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(Client(sdk_server())) for _ in range(order.servers)]

        def call_of(caller: Client) -> Call:
            async def call() -> Any:
                return (await caller.call_tool("echo", SMALL)).structured_content

            return call

        yield [call_of(caller) for caller in callers]


async def _call_all(calls: list[Call], seconds: float) -> dict[str, float]:
    latencies: list[int] = []

    async def one_after_the_other(call: Call, end: int) -> None:
        began = time.perf_counter_ns()
        while True:  # once at least, however late it begins
            check_echo(await call(), SMALL)
            ended = time.perf_counter_ns()
            latencies.append(ended - began)
            began = ended
            if ended >= end:
                return

    with Meter() as meter:
        end = time.perf_counter_ns() + int(seconds * 1e9)
        async with anyio.create_task_group() as tasks:
            for call in calls:
                tasks.start_soon(one_after_the_other, call, end)
    return meter.figures(len(latencies)) | percentiles(latencies)


if __name__ == "__main__":
    main(client, serve)
