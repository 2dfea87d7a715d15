"""Served over a transport of somebody's own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpl_core.errors import RpcError
from mcpl_core.mcp.serving import McpTransport, Resource, ServedTool, ToolCall
from mcpl_core.mcp.serving.answers import Answers
from mcpl_core.mcp.serving.endpoints import Endpoint
from mcpl_core.mcp.serving.plugged import PluggedEndpoint
from tests.mcp.serving.clients import LIMIT, answers_of

pytestmark = pytest.mark.anyio

ECHO = ServedTool("echo", lambda arguments, call: json.dumps([arguments, call.peer.transport, call.peer.client]))
HELLO = {"protocolVersion": "2025-11-25"}


class Toy:
    """A transport in memory, of an application's own."""

    def __init__(self) -> None:
        self.handler: Any = None
        self.sent: list[Any] = []
        self.log: list[str] = []

    async def start(self, handler: Any) -> None:
        self.log.append("start")
        self.handler = handler

    async def stop(self) -> None:
        self.log.append("stop")

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def ask(self, method: str, params: Any = None, id: Any = 1) -> Any:
        return await self.handler({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


@asynccontextmanager
async def plugged(toy: Any, *capabilities: Any, **options: Any) -> AsyncIterator[None]:
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            endpoint = PluggedEndpoint(toy)
            ready = anyio.Event()
            tasks.start_soon(endpoint.run, answers_of(*(capabilities or (ECHO,)), **options), ready.set)
            await ready.wait()
            yield
            await endpoint.stop()


async def test_a_transport_of_ones_own_needs_only_the_shape() -> None:
    toy = Toy()
    assert isinstance(toy, McpTransport)
    async with plugged(toy):
        assert (await toy.ask("tools/list"))["error"]["code"] == -32600
        started = await toy.ask("initialize", {"protocolVersion": "2025-06-18", "clientInfo": 3}, id="a")
        assert (started["id"], started["result"]["protocolVersion"]) == ("a", "2025-06-18")
        assert (await toy.ask("ping"))["result"] == {}
        called = (await toy.ask("tools/call", {"name": "echo", "arguments": {}}))["result"]
        assert json.loads(called["content"][0]["text"]) == [{}, "custom", None]
        assert await toy.handler({"jsonrpc": "2.0", "method": "notifications/initialized"}) is None
    assert toy.log == ["start", "stop"]


NO_REQUESTS: list[Any] = [
    None,
    [],
    {},
    {"jsonrpc": "1.0", "id": 1, "method": "ping"},
    {"jsonrpc": "2.0", "id": 1, "method": 3},
    *({"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (None, True, 1.5, [1])),
]


@pytest.mark.parametrize("message", NO_REQUESTS)
async def test_what_is_no_request_is_answered_as_such(message: Any) -> None:
    toy = Toy()
    async with plugged(toy):
        answer = await toy.handler(message)
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)


async def test_notifications_about_a_call_go_where_they_can() -> None:
    async def run(arguments: Any, call: ToolCall) -> None:
        await call.report_progress(1)

    params = {"name": "t", "_meta": {"progressToken": 1}}
    toy = Toy()
    async with plugged(toy, ServedTool("t", run)):
        await toy.ask("initialize", {"protocolVersion": "2025-11-25"})
        assert "error" not in await toy.ask("tools/call", params)
    assert [message["method"] for message in toy.sent] == ["notifications/progress"]

    class Mute:
        handler: Any = None

        async def start(self, handler: Any) -> None:
            self.handler = handler

        async def stop(self) -> None: ...

    mute = Mute()
    async with plugged(mute, ServedTool("t", run)):
        await Toy.ask(mute, "initialize", {"protocolVersion": "2025-11-25"})  # type: ignore[arg-type]
        assert "error" not in await Toy.ask(mute, "tools/call", params)  # type: ignore[arg-type]


async def test_what_breaks_inside_is_an_internal_error() -> None:
    reports: list[BaseException] = []

    class Broken(Answers):
        async def answer(self, *given: Any) -> Any:
            raise ValueError("CANARY")

    made = answers_of(ECHO, reports=reports)
    toy = Toy()
    endpoint: Endpoint = PluggedEndpoint(toy)
    async with anyio.create_task_group() as tasks:
        ready = anyio.Event()
        broken = Broken(made.identity, made._offer, made.kinds, made.runner)
        tasks.start_soon(endpoint.run, broken, ready.set)
        await ready.wait()
        await toy.ask("initialize", {"protocolVersion": "2025-11-25"})
        error = (await toy.ask("tools/list"))["error"]
        await endpoint.stop()
    assert error["code"] == -32603
    assert "CANARY" not in json.dumps(error)
    assert [type(report) for report in reports] == [ValueError]


@pytest.mark.spec("R-mcpserve-6")
async def test_a_call_that_is_cancelled_ends_without_an_answer() -> None:
    began, ended = anyio.Event(), anyio.Event()
    answers: list[Any] = []

    async def run(arguments: Any, call: ToolCall) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    toy = Toy()
    async with plugged(toy, ServedTool("wait", run)), anyio.create_task_group() as tasks:
        await toy.ask("initialize", HELLO)

        async def asking() -> None:
            answers.append(await toy.ask("tools/call", {"name": "wait"}, id="w"))

        async def give_up(params: Any) -> None:
            notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            assert await toy.handler(notice) is None

        tasks.start_soon(asking)
        await began.wait()
        strangers: list[Any] = [None, [], {}, {"requestId": []}, {"requestId": "other"}, {"requestId": True}]
        for params in strangers:
            await give_up(params)
        assert (await toy.ask("ping", id="w"))["error"]["code"] == -32600
        assert not ended.is_set()
        await give_up({"requestId": "w"})
        await ended.wait()
        await give_up({"requestId": "w"})
    assert answers == [None]


async def test_an_error_is_plain_json() -> None:
    def odd(uri: str, variables: Any) -> Any:
        raise RpcError(-32050, "no", {"tuple": (1,)})

    def unsendable(uri: str, variables: Any) -> Any:
        raise RpcError(-32050, "no", object())

    reports: list[BaseException] = []
    toy = Toy()
    async with plugged(toy, Resource("a", "mem://a", odd), Resource("b", "mem://b", unsendable), ECHO, reports=reports):
        await toy.ask("initialize", HELLO)
        said = await toy.ask("resources/read", {"uri": "mem://a"})
        assert said["error"] == {"code": -32050, "message": "no", "data": {"tuple": [1]}}
        assert (await toy.ask("resources/read", {"uri": "mem://b"}))["error"] == {"code": -32050, "message": "no"}
    assert len(reports) == 1


async def test_a_server_that_is_cancelled_tears_its_transport_down() -> None:
    class Slow(Toy):
        async def stop(self) -> None:
            await anyio.lowlevel.checkpoint()
            await super().stop()

    toy = Slow()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            ready = anyio.Event()
            tasks.start_soon(PluggedEndpoint(toy).run, answers_of(ECHO), ready.set)
            await ready.wait()
            tasks.cancel_scope.cancel()
    assert toy.log == ["start", "stop"]


async def test_a_transport_that_does_not_tear_down_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.mcp.serving.plugged._STOP_TIMEOUT", 0)

    class Stuck(Toy):
        async def stop(self) -> None:
            self.log.append("stop")
            await anyio.sleep_forever()

    toy = Stuck()
    async with plugged(toy):
        pass
    assert toy.log == ["start", "stop"]
