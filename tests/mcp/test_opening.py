"""From descriptions to sessions: real child processes and real sockets."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidValueError,
    ProcessExitedError,
    TransportError,
    UpgradeRefusedError,
)
from mcpl_core.mcp.connecting import mcp_client
from mcpl_core.mcp.errors import McpOutputMismatchError, McpRediscoveryRequiredError, McpToolError
from mcpl_core.mcp.keeper import Reconnect
from mcpl_core.mcp.mock import MockSession
from mcpl_core.mcp.opening import borrowed_session, dialer_of
from mcpl_core.mcp.transports import StdioTransport, WebSocketTransport
from mcpl_core.transports.memory import memory_transports
from tests.mcp.peers import LIMIT, FakeServer, served

pytestmark = pytest.mark.anyio

OFFICIAL = [sys.executable, str(Path(__file__).with_name("official_stdio.py"))]


def is_uvloop(backend: tuple[str, dict[str, Any]]) -> bool:
    return bool(backend[1].get("use_uvloop"))


# -- standard input and output: the official SDK's server


@pytest.mark.spec("R-mcp-7")
async def test_the_official_server_over_stdio(
    anyio_backend: tuple[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    progress: list[Any] = []
    transport = StdioTransport(OFFICIAL, env={"ADDED": "1"}, cwd=tmp_path)
    at_once = Reconnect(first_delay=0.0, longest_delay=0.0)
    with anyio.fail_after(LIMIT):
        async with mcp_client(
            "official", transport=transport, result_mode="structured-or-json", reconnect=at_once
        ) as client:
            session = client.session
            assert session.server_info["name"] == "official"
            assert session.protocol_version == "2025-11-25"
            assert session.instructions == "Be kind."
            tools = {tool.name: tool for tool in await client.tools()}
            assert tools["add"].description == "Adds."
            assert tools["add"].checks.declares_output
            assert await client.call("add", {"a": 1, "b": 2}) == {"sum": 3}

            where = await client.call("surroundings")
            assert isinstance(where, dict)
            assert Path(where["cwd"]) == tmp_path
            assert "ADDED" in where["names"] and "PATH" in where["names"]
            assert "SECRET_TOKEN" not in where["names"]

            said = await client.answer("steps", on_progress=progress.append, reset_on_progress=True)
            assert (said.structured, [each["progress"] for each in progress]) == ({"result": "done"}, [1, 2, 3])

            with pytest.raises(McpToolError) as failed:
                await client.call("fail")
            assert "fail" in failed.value.text
            cancelled: Any = None
            while cancelled != {"result": True}:
                # What was given up before it began was not cancelled: once more.
                with pytest.raises(ConnectionTimeoutError):
                    await client.call("hang", timeout=0.05)
                with suppress(ConnectionTimeoutError):
                    cancelled = await client.call("was_cancelled", timeout=2.0)

            if is_uvloop(anyio_backend):
                return
            with pytest.raises(ConnectionClosedError) as died:
                await client.call("die")
            assert died.value.outcome == "no-response"
            assert isinstance(died.value.reason, ProcessExitedError)
            await client.connected()
            with pytest.raises(McpRediscoveryRequiredError):
                await client.call("add", {"a": 1, "b": 2})
            await client.refresh()
            assert await client.call(tools["add"], {"a": 2, "b": 2}) == {"sum": 4}


PEEK = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "p", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": "names", "inputSchema": {}}]}
    elif asked["method"] == "tools/call":
        result = {"structuredContent": {"names": sorted(os.environ), "meta": asked["params"].get("_meta")}}
    else:
        continue
    print("noise", file=sys.stderr, flush=True)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.spec("R-mcp-7")
async def test_an_environment_can_be_replaced_as_a_whole() -> None:
    noise: list[str] = []
    command = [sys.executable, "-I", "-c", PEEK]
    transport = StdioTransport(command, replace_env={"ONLY": "1", "LC_CTYPE": "C.UTF-8"}, on_stderr=noise.append)
    with anyio.fail_after(LIMIT):
        async with mcp_client("peek", transport=transport, result_mode="structured") as client:
            assert await client.call("names") == {"names": ["LC_CTYPE", "ONLY"], "meta": None}
    assert noise == ["noise"] * 3


async def test_a_trace_goes_on_in_another_process() -> None:
    context = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "baggage": "user=1"}
    transport = StdioTransport([sys.executable, "-I", "-c", PEEK])
    with anyio.fail_after(LIMIT):
        async with mcp_client("peek", transport=transport, result_mode="structured", trace=lambda: context) as client:
            said = await client.call("names")
            assert isinstance(said, dict)
            assert said["meta"] == context


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(TransportError):
        async with mcp_client(transport=StdioTransport(["/nowhere/at/all"])):
            raise AssertionError("it opened")


# -- WebSockets


@asynccontextmanager
async def listening(server: FakeServer, **options: Any) -> AsyncIterator[str]:
    """Serves over a real socket; its URL."""
    async with served(server), McplConnection.listen("ws://127.0.0.1:0/mcp", listener_options=options) as listener:
        async with anyio.create_task_group() as tasks:

            async def accept() -> None:
                async for connection in listener:
                    tasks.start_soon(server.serve, connection)

            tasks.start_soon(accept)
            yield listener.endpoint
            tasks.cancel_scope.cancel()


async def test_a_server_over_a_websocket() -> None:
    server = FakeServer([{"name": "echo", "outputSchema": {"type": "object"}}])
    async with listening(server) as url:
        async with mcp_client("ws", transport=WebSocketTransport(url)) as client:
            with pytest.raises(McpOutputMismatchError):
                await client.call("echo", {"a": 1})
            assert (await client.terminate()).kind == "no-session"
    assert server.of("tools/call")[0]["params"] == {"name": "echo", "arguments": {"a": 1}}


class Tokens:
    """Credentials that run out."""

    def __init__(self, *accepted: str) -> None:
        self.accepted = set(accepted)
        self.given = 0
        self.seen: list[str | None] = []

    async def headers(self) -> dict[str, str]:
        self.given += 1
        return {"Authorization": f"token-{self.given}"}

    def authenticate(self, request: Any) -> str | None:
        self.seen.append(request.headers.get("authorization"))
        return "somebody" if self.seen[-1] in self.accepted else None


async def test_credentials_are_read_anew_for_each_time_of_connecting() -> None:
    tokens = Tokens("token-2", "token-3")
    server = FakeServer()
    async with listening(server, authenticate=tokens.authenticate) as url:
        transport = WebSocketTransport(url, tokens.headers)
        at_once = Reconnect(first_delay=0.0, longest_delay=0.0)
        async with mcp_client("ws", transport=transport, reconnect=at_once) as client:
            assert await client.call("echo") == "{}"
            await server.kill()
            await server.next("initialize", 2)
            await client.connected()
            await client.refresh()
            assert await client.call("echo") == "{}"
    assert tokens.seen == ["token-1", "token-2", "token-3"]


async def test_one_refusal_is_answered_with_new_credentials_and_no_more() -> None:
    tokens = Tokens()
    async with listening(FakeServer(), authenticate=tokens.authenticate) as url:
        with pytest.raises(UpgradeRefusedError) as caught:
            async with mcp_client("ws", transport=WebSocketTransport(url, tokens.headers)):
                raise AssertionError("it opened")
        assert caught.value.status == 401
        assert tokens.seen == ["token-1", "token-2"]
        with pytest.raises(UpgradeRefusedError):
            async with mcp_client("ws", transport=WebSocketTransport(url, {"Authorization": "fixed"})):
                raise AssertionError("it opened")
        assert tokens.seen[2:] == ["fixed"]


async def test_another_refusal_is_no_matter_of_credentials() -> None:
    tokens = Tokens()
    async with listening(FakeServer(), authenticate=tokens.authenticate) as url:
        transport = WebSocketTransport(url + "/elsewhere", tokens.headers)
        with pytest.raises(UpgradeRefusedError) as caught:
            async with mcp_client("ws", transport=transport):
                raise AssertionError("it opened")
        assert caught.value.status == 404
    assert (tokens.seen, tokens.given) == ([], 1)


# -- anything else


async def test_a_function_makes_connections_or_transports() -> None:
    left, right = memory_transports()
    server = FakeServer()
    async with served(server):
        server.begin(McplConnection(left))
        async with mcp_client("memory", transport=lambda: right) as client:
            assert await client.call("echo", {"b": 1}) == "{'b': 1}"


@pytest.mark.parametrize("wrong", [None, 7, "ws://example.com", ["server"]])
def test_what_is_no_transport_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        dialer_of(wrong)
    assert caught.value.code == "transport"


async def test_a_connection_that_is_there_is_no_way_to_make_one() -> None:
    connection, _ = McplConnection.memory_pair()
    for wrong in (connection, connection.transport):
        with pytest.raises(InvalidValueError):
            dialer_of(wrong)  # type: ignore[arg-type]


async def test_a_borrowed_session_stays_open() -> None:
    session = MockSession()
    async with borrowed_session(session) as borrowed:
        assert borrowed is session
    assert await session.request("tools/list") == {"tools": []}


@pytest.mark.parametrize("made", [None, 7, object()])
async def test_a_maker_makes_connections(made: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        async with mcp_client(transport=lambda: made):
            raise AssertionError("it opened")
    assert caught.value.code == "transport"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (None, "headers"),
        (7, "headers"),
        ({"A": 7}, "header_value"),
        ({7: "x"}, "header_name"),
        ({"A": "x\r\ny"}, "header_value"),
    ],
)
async def test_credentials_that_are_none_are_not_done_without(headers: Any, code: str) -> None:
    transport = WebSocketTransport("ws://127.0.0.1:1/", lambda: headers)
    with pytest.raises(InvalidValueError) as caught:
        async with mcp_client(transport=transport):
            raise AssertionError("it opened")
    assert caught.value.code == code
