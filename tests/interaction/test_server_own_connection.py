"""A server and this package's own connection as its host, over every transport."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest

from mcpl_core import CapabilityDenied, McplConnection, Request, RpcError, method
from mcpl_core.protocol import FeatureSetsUpdateResult, InitializeResult, ToolsCallResult
from mcpl_core.server import McplServer
from tests.server.kitchen import build

pytestmark = pytest.mark.anyio

KITCHEN = Path(__file__).resolve().parent.parent / "server" / "kitchen.py"
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"experimental": {"mcpl": {"version": "0.5"}}},
    "clientInfo": {"name": "own", "version": "1"},
}


@asynccontextmanager
async def listening(server: McplServer, endpoint: str, **options: Any) -> AsyncIterator[str]:
    async with anyio.create_task_group() as tasks:
        yield await tasks.start(lambda task_status: server.listen(endpoint, task_status=task_status, **options))
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def connected(kind: str) -> AsyncIterator[McplConnection]:
    with anyio.fail_after(20):
        async with AsyncExitStack() as stack:
            if kind == "stdio":
                yield await stack.enter_async_context(McplConnection.spawn([sys.executable, str(KITCHEN)]))
            elif kind == "memory":
                tasks = await stack.enter_async_context(anyio.create_task_group())
                ours, theirs = McplConnection.memory_pair()
                await stack.enter_async_context(theirs)
                tasks.start_soon(build().serve, theirs)
                yield await stack.enter_async_context(ours)
            else:
                folder = stack.enter_context(TemporaryDirectory())
                endpoint = {"tcp": "tcp://127.0.0.1:0", "unix": f"unix://{folder}/s", "ws": "ws://127.0.0.1:0"}[kind]
                where = await stack.enter_async_context(listening(build(), endpoint))
                yield await stack.enter_async_context(McplConnection.connect(where))


async def grant(host: McplConnection, *paths: str) -> FeatureSetsUpdateResult:
    return await host.send_request(
        method.FEATURE_SETS_UPDATE, {"effectiveCapabilities": list(paths)}, result_type=FeatureSetsUpdateResult
    )


async def call(host: McplConnection, name: str, **arguments: Any) -> ToolsCallResult:
    params = {"name": name, "arguments": arguments}
    return await host.send_request(method.TOOLS_CALL, params, result_type=ToolsCallResult)


@pytest.mark.parametrize("kind", ["memory", "tcp", "unix", "ws", "stdio"])
async def test_a_conversation(kind: str) -> None:
    async with connected(kind) as host:
        hello = await host.send_request(method.INITIALIZE, HELLO, result_type=InitializeResult)
        assert hello.server_info.name == "kitchen"
        await host.send_notification(method.INITIALIZED)
        with pytest.raises(CapabilityDenied):
            await call(host, "add", a=1)
        receipt = await grant(host, "tools", "pushEvents")
        assert receipt.accepted
        assert (await call(host, "add", a=1)).structured_content == {"result": 2}

        results: list[ToolsCallResult] = []

        async def push() -> None:
            results.append(await call(host, "push", text="soup"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(push)
            event = await host.next_message()
            assert isinstance(event, Request)
            assert event.method == method.PUSH_EVENT
            await host.send_response(event.id, {"accepted": False, "reason": "not hungry"})
        assert results[0].structured_content == {"result": False}

        with anyio.move_on_after(0.1):
            await call(host, "wait")
        with pytest.raises(RpcError) as caught:
            await call(host, "none")
        assert caught.value.code == -32602
        assert (await host.send_request(method.MCPL_MANIFEST)) == hello.mcpl


async def test_a_listener_says_who_is_at_the_other_end() -> None:
    server = build()
    principals: list[str] = []
    server.on_connect(lambda ctx: principals.append(ctx.principal))

    def authenticate(request: Any) -> Any:
        # What a predicate says is nobody in particular.
        return True if request.token == "anybody" else request.token

    with anyio.fail_after(10):
        async with listening(server, "ws://127.0.0.1:0", listener_options={"authenticate": authenticate}) as where:
            for name in ("alice", "bob", "anybody"):
                options = {"headers": {"Authorization": f"Bearer {name}"}}
                async with McplConnection.connect(where, transport_options=options) as host:
                    await host.send_request(method.INITIALIZE, HELLO)
    assert principals == ["alice", "bob", "local"]
