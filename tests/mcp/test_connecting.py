"""What a caller says, and what client that makes."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec import UNSET

from mcpl_core._version import __version__
from mcpl_core.errors import ConnectionClosedError, InvalidValueError, McplError
from mcpl_core.mcp.client import McpClient
from mcpl_core.mcp.connecting import CLIENT_INFO, mcp_client
from mcpl_core.mcp.errors import McpExtraMissingError, McpRediscoveryRequiredError, UnknownEffectError
from mcpl_core.mcp.http import HttpStatusError, Timing
from mcpl_core.mcp.keeper import Reconnect
from mcpl_core.mcp.mock import MockSession
from mcpl_core.mcp.replay import Replay, ToolReplay
from mcpl_core.mcp.transports import GatewayTransport, HttpRequest, HttpTransport, StdioTransport, WebSocketTransport
from tests.mcp.http.scripted_server import Reply, Reset, Script, ScriptedServer, Seen, result, serving
from tests.mcp.peers import LIMIT, FakeServer, served, text
from tests.mcp.test_given import Given

pytestmark = pytest.mark.anyio

HTTP = HttpTransport("http://127.0.0.1:1/mcp")


async def vend(request: Any) -> dict[str, str]:
    return {}


def error_of(**options: Any) -> InvalidValueError:
    with pytest.raises(InvalidValueError) as caught:
        mcp_client(**options)
    return caught.value


async def test_the_server_is_told_who_we_are() -> None:
    server = FakeServer()
    async with served(server):
        async with mcp_client(transport=server.connect) as client:
            assert client.name == "mcp"
        async with mcp_client(transport=server.connect, client_info={"name": "me", "version": "2", "title": "Me"}):
            pass
    told = [each["params"]["clientInfo"] for each in server.of("initialize")]
    assert told == [{"name": "mcp-live-core", "version": __version__}, {"name": "me", "version": "2", "title": "Me"}]
    assert told[0] == CLIENT_INFO


@pytest.mark.parametrize(
    "transport",
    [
        StdioTransport(["server"]),
        HTTP,
        GatewayTransport("http://127.0.0.1:1/mcp", vend),
        WebSocketTransport("ws://127.0.0.1:1/"),
        FakeServer().connect,
    ],
)
def test_nothing_is_dialled_before_it_is_entered(transport: Any) -> None:
    assert isinstance(mcp_client(transport=transport), McpClient)


@pytest.mark.parametrize("arm", ["connection", "session"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transport", HTTP),
        ("client_info", {"name": "x", "version": "1"}),
        ("retry_on_throttle", False),
        ("replay", {"policy": "compatibility"}),
        ("sdk", object()),
        ("http_options", {"timing": None}),
        ("era", "handshake"),
        ("handlers", {}),
        ("reconnect", Reconnect()),
    ],
)
def test_what_belongs_to_a_connection_does_not_go_with_one_that_is_there(arm: str, name: str, value: Any) -> None:
    given = Given() if arm == "connection" else MockSession()
    error = error_of(**{arm: given, name: value})
    assert (error.code, error.path) == ("combination", f"$.{name}")
    assert len(error.detail) > len(f"{name} does not go with {arm}: ")


def test_one_way_is_chosen() -> None:
    assert error_of(connection=Given(), session=MockSession()).path == "$.session"
    assert error_of().code == "combination"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"name": ""}, "name"),
        ({"name": 7}, "name"),
        ({"result_mode": "json"}, "result_mode"),
        ({"replay": {"polic": "compatibility"}}, "unknown_member"),
        ({"transport": "http://example.com"}, "transport"),
        ({"transport": ["server"]}, "transport"),
        ({"transport": HTTP, "era": "tomorrow"}, "era"),
        ({"transport": HTTP, "sdk": object()}, "sdk"),
        ({"transport": HTTP, "http_options": {"carier": None}}, "http_options"),
        ({"transport": HTTP, "retry_on_throttle": {"attempts": 3}}, "unknown_member"),
        ({"transport": StdioTransport(["s"]), "era": "tomorrow"}, "era"),
        ({"transport": StdioTransport(["s"]), "sdk": object()}, "combination"),
        ({"transport": StdioTransport(["s"]), "http_options": {"timing": None}}, "combination"),
        ({"session": object()}, "session"),
        ({"prefix": ""}, "prefix"),
        ({"prefix": 7}, "prefix"),
        ({"client_info": {"name": "x"}}, "client_info"),
        ({"client_info": "me"}, "client_info"),
        ({"client_info": 7}, "client_info"),
        ({"client_info": [1]}, "client_info"),
        ({"handlers": [len]}, "handlers"),
        ({"handlers": {7: len}}, "handlers"),
        ({"handlers": {"": len}}, "handlers"),
        ({"handlers": {"ping": len}}, "handlers"),
        ({"transport": HTTP, "http_options": 7}, "http_options"),
        ({"transport": HTTP, "http_options": ["timing"]}, "http_options"),
        ({"reconnect": 7}, "reconnect"),
        ({"reconnect": True}, "reconnect"),
        ({"max_total": -1}, "max_total"),
        ({"max_total": "5"}, "max_total"),
        ({"client_info": {"name": "x", "version": 1}}, "client_info"),
        ({"handlers": {"roots/list": {"roots": []}}}, "handlers"),
        ({"json_schema_validator": len}, "json_schema_validator"),
        ({"timeout": "30"}, "timeout"),
        ({"timeout": -1.0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"max_total": None}, "max_total"),
        ({"observer": 7}, "observer"),
        ({"observer": vend}, "observer"),
        ({"trace": vend}, "trace"),
        ({"trace": {"traceparent": "x"}}, "trace"),
    ],
)
def test_what_makes_no_sense_is_refused_at_construction(options: Any, code: str) -> None:
    assert error_of(**options).code == code


def test_without_the_sdk_http_alone_fails_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "mcp" or name.startswith("mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(McpExtraMissingError) as caught:
        mcp_client(transport=HTTP)
    assert (caught.value.library, caught.value.extra) == ("mcp", "mcp")
    for options in ({"transport": StdioTransport(["server"])}, {"connection": Given()}, {"session": MockSession()}):
        mcp_client(**options)


def test_nothing_optional_is_needed_to_begin_with() -> None:
    code = (
        "import sys\n"
        "for name in ('mcp', 'mcp_types', 'httpx2', 'jsonschema_rs', 'uvicorn', 'starlette', 'pydantic'):\n"
        "    sys.modules[name] = None\n"
        "import anyio\n"
        "from mcpl_core.mcp import mock_mcp_client\n"
        "async def main():\n"
        "    async with mock_mcp_client('x', ['echo']) as client:\n"
        "        print(await client.call('echo'))\n"
        "anyio.run(main)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("[mock result]\n", "")


async def test_a_session_that_is_there_stays_its_owners() -> None:
    session = MockSession(["echo"])
    async with mcp_client("own", session=session) as client:
        assert await client.call("echo") == "[mock result]"
    assert await session.request("tools/list") == {"tools": session.tools}


# -- over HTTP


def text_result(seen: Seen, words: str) -> Reply:
    """The answer to a call."""
    return result(seen, text(words))


def script(tool: dict[str, Any]) -> Script:
    """A server with a tool, whose n-th call is answered by the n-th script."""
    calls: list[Any] = list(tool.pop("calls", ()))

    async def answer(seen: Seen) -> Reply | None:
        if seen.rpc == "tools/list":
            return result(seen, {"tools": [tool]})
        if seen.rpc == "tools/call" and calls:
            reply: Any = calls.pop(0)
            if isinstance(reply, Exception):
                raise reply
            found: Reply = reply(seen) if callable(reply) else reply
            return found
        return None

    return answer


@asynccontextmanager
async def over_http(tool: dict[str, Any], **options: Any) -> AsyncIterator[tuple[ScriptedServer, McpClient]]:
    how = {key: options.pop(key) for key in ("headers", "request_hook", "credentials") if key in options}
    at_once = Reconnect(first_delay=0.0, longest_delay=0.0)
    with anyio.fail_after(LIMIT):
        async with serving(ScriptedServer(script(tool))) as server:
            kind: Any = GatewayTransport if "credentials" in how else HttpTransport
            made = mcp_client(
                "web", transport=kind(server.url, **how), **{"era": "handshake", "reconnect": at_once, **options}
            )
            async with made as client:
                yield server, client


async def test_a_server_over_http() -> None:
    tool = {"name": "echo", "outputSchema": {"type": "object", "required": ["name"]}}
    async with over_http(tool, result_mode="structured") as (server, client):
        assert await client.call("echo", {"a": 1}) == {"name": "echo", "arguments": {"a": 1}}
        assert client.session.server_info["name"] == "scripted"
        outcome = await client.terminate()
        assert (outcome.kind, outcome.status, outcome.resolved) == ("terminated", 204, True)
        assert len(server.of("DELETE")) == 1


async def test_closing_leaves_the_session_at_the_server() -> None:
    async with over_http({"name": "echo"}) as (server, client):
        await client.close()
        assert server.of("DELETE") == []


async def test_a_lost_request_is_no_lost_session_and_a_forgotten_one_is() -> None:
    tool = {"name": "echo", "calls": [Reset(), lambda seen: text_result(seen, "hi"), Reply(404)]}
    async with over_http(tool) as (server, client):
        await client.tools()
        with pytest.raises(ConnectionClosedError) as lost:
            await client.call("echo")
        assert lost.value.outcome == "no-response"
        assert await client.call("echo") == "hi"
        forgotten = client.session
        with pytest.raises(ConnectionClosedError):
            await client.call("echo")
        await client.connected()
        assert client.session is not forgotten
        assert len(server.of("initialize")) == 2
        with pytest.raises(McpRediscoveryRequiredError):
            await client.call("echo")
        await client.refresh()
        assert len(server.of("tools/call")) == 3


async def test_a_session_that_ended_under_an_unknown_effect_is_not_handed_out_again() -> None:
    tool = {"name": "echo", "calls": [Reset(), Reply(404)]}
    replay = Replay(tools={"echo": ToolReplay(on=("network",))})

    async def sleep(seconds: float) -> None:
        pass

    async with over_http(tool, replay=replay, http_options={"timing": Timing(sleep=sleep)}) as (server, client):
        await client.tools()
        forgotten = client.session
        with pytest.raises(UnknownEffectError):
            await client.call("echo")
        await client.connected()
        assert client.session is not forgotten
        assert len(server.of("initialize")) == 2


async def test_throttling_and_replay_are_handed_on() -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    throttled = Reply(429, {"retry-after": "2"})
    tool = {"name": "echo", "calls": [throttled, lambda seen: text_result(seen, "hi"), throttled, throttled, Reset()]}
    records: list[Any] = []
    replay = Replay(tools={"echo": ToolReplay(on=("throttle",))}, on_record=records.append)
    timing = Timing(sleep=sleep)
    async with over_http(tool, replay=replay, http_options={"timing": timing}) as (_, client):
        assert await client.call("echo") == "hi"
        assert delays == [2.0]
        with pytest.raises(UnknownEffectError) as caught:
            await client.call("echo")
        assert [attempt.outcome for attempt in caught.value.attempts] == ["throttled", "throttled", "no-answer"]
        assert (caught.value.server, caught.value.tool) == ("web", "echo")
    assert [record.effect for record in records] == ["applied", "unknown"]
    async with over_http({"name": "echo", "calls": [throttled]}, retry_on_throttle=False) as (server, client):
        with pytest.raises(HttpStatusError):
            await client.call("echo")
        assert len(server.of("tools/call")) == 1


async def test_no_credential_is_seen_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    async def sign(request: HttpRequest) -> dict[str, str]:
        return {"x-signature": "canary-signature"}

    async def vend(request: Any) -> dict[str, str]:
        return {"authorization": "canary-vended"}

    events: list[Any] = []
    failures: list[BaseException] = []
    options = {"headers": {"x-key": "canary-static"}, "request_hook": sign, "credentials": vend}
    tool = {"name": "echo", "calls": [Reply(500), Reset(), Reply(429, {"retry-after": "9999"}), Reply(404)]}
    with caplog.at_level(logging.DEBUG):
        async with over_http(tool, observer=events.append, **options) as (server, client):
            await client.tools()
            for _ in range(4):
                with pytest.raises(McplError) as caught:
                    await client.call("echo")
                failures.append(caught.value)
            shown = [repr(client), repr(client.__dict__), repr(vars(client._keeper)), repr(client._settings)]
        sent = server.of("tools/call")[0]
        assert [sent.header(name) for name in ("x-key", "authorization", "x-signature")] == [
            "canary-static", "canary-vended", "canary-signature",
        ]  # fmt: skip
    texts = [caplog.text, repr(events), *shown]
    for failure in failures:
        texts += ["".join(traceback.format_exception(failure)), repr(failure), repr(vars(failure))]
    assert [each for each in texts if "canary" in each] == []
    assert len(failures) == 4


@pytest.mark.parametrize(("options", "waits"), [({}, UNSET), ({"timeout": 3.0}, 3.0), ({"timeout": None}, None)])
async def test_a_borrowed_session_waits_as_the_caller_says(options: Any, waits: Any) -> None:
    asked: list[Any] = []

    class Noting(MockSession):
        async def request(self, method: str, params: Any = None, *, timeout: Any = UNSET, **more: Any) -> Any:
            asked.append(timeout)
            return await super().request(method, params, **more)

    async with mcp_client(session=Noting(["echo"]), **options) as client:
        await client.call("echo")
        await client.call("echo", timeout=7.0)
    assert asked == [waits, waits, 7.0]


@pytest.mark.spec("R-mcp-13")
async def test_only_terminating_ends_a_session_that_is_somebody_elses() -> None:
    session = MockSession(["echo"])
    async with mcp_client(session=session) as client:
        await client.close()
    assert await session.request("tools/list") == {"tools": session.tools}
    async with mcp_client(session=session) as client:
        assert (await client.terminate()).kind == "no-session"
    with pytest.raises(ConnectionClosedError):
        await session.request("tools/list")
