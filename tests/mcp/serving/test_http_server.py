"""Streamable HTTP over real sockets: who gets in, both eras at one endpoint, and the official SDK as the client."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpl_core.errors import RpcError
from mcpl_core.mcp.serving import (
    ListeningHandle,
    McpRuntime,
    McpToolServer,
    Prompt,
    Resource,
    ServedTool,
    ToolCall,
    function_tool,
    http_transport,
    serve_tools,
)
from mcpl_core.mcp.serving.http_endpoint import DEFAULT_GRACE
from mcpl_core.mcp.transports import Consent
from mcpl_core.server.results import ToolResult
from tests.mcp.serving.clients import LIMIT, MODERN, Reply, call_body, modern_headers, post

sdk = pytest.importorskip("mcp.client")

pytestmark = pytest.mark.anyio

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
ODD_SCHEMA = {"type": "object", "properties": {"z": {"x-odd": [None, 1]}, "a": True}, "default": None}
NOTE = Resource("note", "mem://note", lambda uri, variables: "text", "text/plain")
ASK = Prompt("ask", lambda arguments: "hi")


#: Both loops that the HTTP server runs on, where the loop matters.
LOOPS = pytest.mark.parametrize("anyio_backend", [False, True], ids=["asyncio", "uvloop"], indirect=True)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The HTTP server runs on asyncio alone."""
    uvloop = getattr(request, "param", False)
    if uvloop:
        pytest.importorskip("uvloop")
    return "asyncio", {"use_uvloop": uvloop}


class Counting:
    """A tool that knows how often it ran."""

    name = "count"
    input_schema = ODD_SCHEMA

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.calls: list[ToolCall] = []

    def execute(self, arguments: Any, call: ToolCall) -> str:
        self.ran.append(arguments)
        self.calls.append(call)
        return "done"


@asynccontextmanager
async def served(*tools: Any, **options: Any) -> AsyncIterator[ListeningHandle]:
    with anyio.fail_after(LIMIT):
        async with serve_tools(tools, "http", port=0, name="web", version="4", **options) as handle:
            yield handle


def envelope(params: Any = None) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    }
    return {**(params or {}), "_meta": meta}


async def modern(port: int, method: str, params: Any = None, name: str | None = None) -> Reply:
    return await post(port, call_body(method, envelope(params)), modern_headers(method, name))


async def legacy(port: int, method: str, params: Any = None, version: str | None = "2025-11-25") -> Reply:
    return await post(port, call_body(method, params), {"mcp-protocol-version": version})


CALL = call_body("tools/call", {"name": "count", "arguments": {}})

# ------------------------------------------------------------------------------------ who gets in


HEADERS: list[tuple[dict[str, str | None], int]] = [
    ({}, 200),
    ({"origin": "null"}, 403),
    ({"origin": "https://evil.example"}, 403),
    ({"origin": "http://OWN"}, 200),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "cross-site", "origin": "http://OWN"}, 403),
    ({"host": "evil.example"}, 421),
    ({"host": "evil.example", "origin": "http://evil.example"}, 421),
    ({"host": "localhost"}, 200),
    ({"content-type": "text/plain"}, 415),
    ({"content-type": None}, 415),
    ({"content-type": "application/json; charset=utf-8"}, 200),
    ({"accept": "text/html"}, 406),
]


@pytest.mark.spec("R-mcpserve-5")
async def test_what_a_request_says_decides_before_any_tool_runs() -> None:
    tool = Counting()
    async with served(tool) as handle:
        own = f"127.0.0.1:{handle.port}"
        for headers, status in HEADERS:
            given = {name: value and value.replace("OWN", own) for name, value in headers.items()}
            params = {"name": "count", "arguments": {}}
            for body, more in (
                (call_body("tools/call", params), {}),
                (call_body("tools/call", envelope(params)), modern_headers("tools/call", "count")),
            ):
                ran = len(tool.ran)
                reply = await post(handle.port, body, {**given, **more})
                assert (reply.status, len(tool.ran) - ran) == (status, int(status == 200)), (headers, more)


async def test_listed_origins_are_served_and_no_others() -> None:
    tool = Counting()
    async with served(tool, allowed_origins=["https://app.example"]) as handle:
        good = {"origin": "https://app.example", "sec-fetch-site": "cross-site"}
        assert (await post(handle.port, CALL, good)).status == 200
        assert (await post(handle.port, CALL, {"origin": f"http://127.0.0.1:{handle.port}"})).status == 403
    assert len(tool.ran) == 1


async def test_other_paths_and_methods_are_not_served() -> None:
    tool = Counting()
    async with served(tool, path="/tools") as handle:
        assert (await post(handle.port, CALL)).status == 404
        for method in ("GET", "DELETE"):
            refused = await post(handle.port, b"", path="/tools", method=method)
            assert (refused.status, refused.headers["allow"]) == (405, "POST")
        assert (await post(handle.port, CALL, path="/tools")).status == 200
    assert len(tool.ran) == 1


@pytest.mark.spec("R-mcpserve-5")
async def test_a_body_is_bounded() -> None:
    tool = Counting()
    async with served(tool, max_body_bytes=1_000) as handle:
        big = call_body("tools/call", {"name": "count", "arguments": {"x": "y" * 2_000}})
        assert (await post(handle.port, big)).status == 413
        chunked = {"content-length": None, "transfer-encoding": "chunked"}
        assert (await post(handle.port, b"%x\r\n%s\r\n0\r\n\r\n" % (len(big), big), chunked)).status == 413
        both = await post(handle.port, b"%x\r\n%s\r\n0\r\n\r\n" % (len(CALL), CALL), {"transfer-encoding": "chunked"})
        assert (both.status, both.headers["connection"]) == (400, "close")
        assert (await post(handle.port, CALL)).status == 200
    assert len(tool.ran) == 1


async def test_what_is_no_message_is_refused_and_the_server_goes_on() -> None:
    tool = Counting()
    async with served(tool) as handle:
        for body in (b"no json", b"[]", b"3", b"", b"[" * 5_000):
            for headers in ({}, modern_headers("tools/call", "count")):
                assert (await post(handle.port, body, headers)).status == 400, (body, headers)
        assert (await post(handle.port, CALL)).status == 200
    assert len(tool.ran) == 1


async def test_authenticate_tells_who_calls_or_nobody_gets_in(caplog: pytest.LogCaptureFixture) -> None:
    tool = Counting()
    seen: list[Any] = []

    async def authenticate(request: Any) -> Any:
        seen.append((request.method, request.path, request.query, "accept" in request.headers, request.peer[:10]))
        if request.token == "broken":
            raise ValueError("CANARY")
        return {"ann-key": "ann", "in": True, "out": False, "zero": 0}.get(request.token)

    async with served(tool, authenticate=authenticate) as handle:
        statuses = {}
        for token in ("ann-key", "in", "out", "nobody", "broken", "zero"):
            # What a request says of where it came from is for nobody to believe.
            headers = {"authorization": f"Bearer {token}", "x-forwarded-for": "6.6.6.6"}
            reply = await post(handle.port, CALL, headers, path="/mcp?x=1")
            statuses[token] = reply.status
            assert b"CANARY" not in reply.body
            if reply.status == 401:
                assert reply.headers["www-authenticate"] == "Bearer"
    assert statuses == {"ann-key": 200, "in": 200, "out": 401, "nobody": 401, "broken": 500, "zero": 200}
    assert [call.peer.principal for call in tool.calls] == ["ann", "local", 0]
    assert set(seen) == {("POST", "/mcp", "x=1", True, "127.0.0.1:")}
    assert "CANARY" not in caplog.text
    assert "ValueError" in caplog.text


async def test_an_authenticate_that_does_not_answer_lets_nobody_in() -> None:
    async with served(Counting(), authenticate=lambda request: anyio.sleep_forever(), client_timeout=0.01) as handle:
        assert (await post(handle.port, CALL)).status == 500


# ------------------------------------------------------------------------------------ both eras, without sessions


async def test_the_handshake_of_each_version() -> None:
    notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    async with served(Counting()) as handle:
        for version in VERSIONS:
            params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            reply = await post(handle.port, call_body("initialize", params))
            assert not {"mcp-session-id", "server"} & set(reply.headers)
            assert reply.message["result"]["protocolVersion"] == version
            assert reply.message["result"]["serverInfo"] == {"name": "web", "version": "4"}
            assert reply.message["result"]["capabilities"] == {"tools": {}}
            assert (await post(handle.port, notice)).status == 202
            listed = (await legacy(handle.port, "tools/list", version=version)).message["result"]
            assert json.dumps(listed["tools"][0]["inputSchema"]) == json.dumps(ODD_SCHEMA)


@pytest.mark.spec("R-mcpserve-1")
async def test_the_era_without_a_handshake() -> None:
    async with served(Counting(), instructions="Count.") as handle:
        found = (await modern(handle.port, "server/discover")).message["result"]
        assert (found["supportedVersions"], found["capabilities"]) == ([MODERN], {"tools": {}})
        assert found["instructions"] == "Count."
        listed = (await modern(handle.port, "tools/list")).message["result"]
        assert json.dumps(listed["tools"][0]["inputSchema"]) == json.dumps(ODD_SCHEMA)
        assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 0, "private")
        called = (await modern(handle.port, "tools/call", {"name": "count"}, "count")).message["result"]
        assert called["content"] == [{"type": "text", "text": "done"}]
        assert called["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "web", "version": "4"}
        assert (called["resultType"], "ttlMs" in called) == ("complete", False)
        unknown = await modern(handle.port, "ping")
        assert (unknown.status, unknown.message["error"]["code"]) == (404, -32601)
        mismatch = await post(handle.port, call_body("tools/list", envelope()), modern_headers("tools/call"))
        assert (mismatch.status, mismatch.message["error"]["code"]) == (400, -32020)


async def test_the_header_that_a_schema_declares_is_compared_with_the_argument() -> None:
    tool = Counting()
    tool.input_schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    async with served(tool) as handle:
        body = call_body("tools/call", envelope({"name": "count", "arguments": {"region": "eu"}}))
        headers = modern_headers("tools/call", "count")
        assert (await post(handle.port, body, {**headers, "mcp-param-region": "us"})).message["error"]["code"] == -32020
        assert (await post(handle.port, body, {**headers, "mcp-param-region": "eu"})).status == 200
    assert len(tool.ran) == 1


@pytest.mark.parametrize("sessions", [False, True])
async def test_the_schema_of_a_header_is_that_of_the_callers_own_tool(sessions: bool) -> None:
    tool = Counting()
    tool.input_schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    server = McpToolServer(None if sessions else McpRuntime(tool), resolver=(lambda peer: "s") if sessions else None)
    if sessions:
        server.register_session("s", McpRuntime(tool))
    endpoint = http_transport(0)
    with anyio.fail_after(LIMIT):
        async with server:
            await server.start(endpoint)
            body = call_body("tools/call", envelope({"name": "count", "arguments": {"region": "eu"}}))
            headers = modern_headers("tools/call", "count")
            wrong = await post(endpoint.port, body, {**headers, "mcp-param-region": "us"})
            assert wrong.message["error"]["code"] == -32020
            assert (await post(endpoint.port, body, {**headers, "mcp-param-region": "eu"})).status == 200
            other = call_body("tools/call", envelope({"name": "none", "arguments": {"region": "eu"}}))
            assert (await post(endpoint.port, other, modern_headers("tools/call", "none"))).status == 200
    assert len(tool.ran) == 1


async def test_with_sessions_that_come_later_no_schema_is_known_beforehand() -> None:
    tool = Counting()
    tool.input_schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    server = McpToolServer(McpRuntime(tool))
    endpoint = http_transport(0)
    body = call_body("tools/call", envelope({"name": "count", "arguments": {"region": "eu"}}))
    headers = {**modern_headers("tools/call", "count"), "mcp-param-region": "us"}
    with anyio.fail_after(LIMIT):
        async with server:
            await server.start(endpoint)
            assert (await post(endpoint.port, body, headers)).message["error"]["code"] == -32020
            server.register_session("s", McpRuntime(Counting()))
            # Nobody's call, and not one to check by the tools that were there before.
            assert (await post(endpoint.port, body, headers)).message["error"]["data"] == {
                "reason": "unresolved_tenant"
            }
    assert tool.ran == []


async def test_more_clients_than_there_may_be_are_sent_away() -> None:
    began = anyio.Event()

    async def run(arguments: Any, call: ToolCall) -> None:
        began.set()
        await anyio.sleep_forever()

    async with served(ServedTool("wait", run), max_connections=1, grace=0.01) as handle:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post, handle.port, call_body("tools/call", {"name": "wait"}))
            await began.wait()
            assert (await post(handle.port, call_body("ping"))).status == 503
            tasks.cancel_scope.cancel()


@pytest.mark.spec("R-mcpserve-14")
async def test_what_is_not_there_has_the_code_of_its_era() -> None:
    async with served(Counting(), resources=[NOTE], prompts=[ASK]) as handle:
        for version in VERSIONS:
            error = (await legacy(handle.port, "resources/read", {"uri": "mem://x"}, version)).message["error"]
            assert (error["code"], error["data"]) == (-32002, {"uri": "mem://x"})
        gone = await modern(handle.port, "resources/read", {"uri": "mem://x"}, "mem://x")
        assert (gone.status, gone.message["error"]["code"]) == (400, -32602)
        there = await modern(handle.port, "resources/read", {"uri": "mem://note"}, "mem://note")
        assert there.message["result"]["contents"][0]["text"] == "text"
        assert (await legacy(handle.port, "prompts/get", {"name": "x"})).message["error"]["code"] == -32602
        assert (await legacy(handle.port, "resources/subscribe", {"uri": "x"})).message["error"]["code"] == -32601


async def test_arguments_reach_the_tool_unchanged() -> None:
    tool = Counting()
    given: list[Any] = [None, [1, None], 7, "text", {"a": {"b": None}}]
    async with served(tool) as handle:
        for arguments in given:
            await legacy(handle.port, "tools/call", {"name": "count", "arguments": arguments})
            await modern(handle.port, "tools/call", {"name": "count", "arguments": arguments}, "count")
    assert tool.ran == [arguments for arguments in given for _ in range(2)]


async def test_a_call_knows_who_calls_and_what_time_it_is() -> None:
    tool = Counting()
    async with served(tool) as handle:
        await legacy(handle.port, "tools/call", {"name": "count", "_meta": {"mcpl/time": "noon"}}, None)
        await modern(handle.port, "tools/call", {"name": "count"}, "count")
    first, second = tool.calls
    assert (first.time, second.time) == ("noon", None)
    assert (first.peer.transport, first.peer.protocol_version, first.peer.client) == ("http", "2025-03-26", None)
    assert second.peer.protocol_version == MODERN
    assert second.peer.client == {"name": "raw", "version": "1"}
    assert first.peer.headers["content-type"] == "application/json"


@pytest.mark.spec("R-mcpserve-3")
async def test_failures_of_a_tool_and_results_that_cannot_be_sent_are_results() -> None:
    def broken() -> str:
        raise ValueError("no luck")

    def circular() -> Any:
        endless: list[Any] = []
        endless.append(endless)
        return endless

    def lone() -> str:
        return "\ud800!"

    async with served(broken, circular, lone) as handle:

        async def legacy_call(name: str) -> Any:
            return (await legacy(handle.port, "tools/call", {"name": name})).message["result"]

        async def modern_call(name: str) -> Any:
            return (await modern(handle.port, "tools/call", {"name": name}, name)).message["result"]

        for call in (legacy_call, modern_call):
            assert "no luck" in (await call("broken"))["content"][0]["text"]
            assert (await call("circular"))["isError"] is True
            assert "circular" in (await call("none"))["content"][0]["text"]
            assert (await call("lone"))["content"][0]["text"] == "\N{REPLACEMENT CHARACTER}!"


async def test_errors_that_nobody_could_read_are_told_without_what_is_wrong_with_them() -> None:
    def odd(uri: str, variables: Any) -> Any:
        raise RpcError(-32050, "\ud800!", {"text": "\udfff"})

    def unsendable(uri: str, variables: Any) -> Any:
        raise RpcError(-32050, "no", object())

    resources = [Resource("odd", "mem://odd", odd), Resource("unsendable", "mem://unsendable", unsendable)]
    async with served(Counting(), resources=resources) as handle:

        async def errors(uri: str) -> list[Any]:
            params = {"uri": uri}
            return [
                (await legacy(handle.port, "resources/read", params)).message["error"],
                (await modern(handle.port, "resources/read", params, uri)).message["error"],
            ]

        sign = "\N{REPLACEMENT CHARACTER}"
        assert await errors("mem://odd") == [{"code": -32050, "message": f"{sign}!", "data": {"text": sign}}] * 2
        assert await errors("mem://unsendable") == [{"code": -32050, "message": "no"}] * 2


async def test_what_is_no_exception_ends_no_server(caplog: pytest.LogCaptureFixture) -> None:
    leaving = True

    async def ends(*given: Any) -> Any:
        if leaving:
            raise SystemExit("CANARY")
        return "ann"

    async def generator(arguments: Any, call: ToolCall) -> None:
        raise GeneratorExit

    async with served(Counting(), authenticate=ends) as handle:
        assert (await post(handle.port, CALL)).status == 500
        leaving = False
        assert (await post(handle.port, CALL)).status == 200
    leaving = True
    tools = [ServedTool("g", generator), ServedTool("n", lambda arguments, call: "x", needs=("mail",)), Counting()]
    async with served(*tools, credentials=ends) as handle:
        for name in ("g", "n"):
            assert (await legacy(handle.port, "tools/call", {"name": name})).message["result"]["isError"] is True
            assert (await modern(handle.port, "tools/call", {"name": name}, name)).message["result"]["isError"] is True
        assert (await post(handle.port, CALL)).status == 200
    assert "CANARY" not in caplog.text

    with anyio.fail_after(LIMIT):
        async with McpToolServer(resolver=ends) as server:
            endpoint = http_transport(0)
            await server.start(endpoint)
            for _ in range(2):
                assert (await legacy(endpoint.port, "tools/list")).message["error"]["code"] == -32603


async def test_an_answer_that_breaks_is_an_internal_error() -> None:
    def resolver(peer: Any) -> str:
        raise ValueError("CANARY")

    with anyio.fail_after(LIMIT):
        async with McpToolServer(resolver=resolver) as server:
            endpoint = http_transport(0)
            await server.start(endpoint)
            for reply in (await legacy(endpoint.port, "tools/list"), await modern(endpoint.port, "tools/list")):
                assert reply.message["error"]["code"] == -32603
                assert b"CANARY" not in reply.body


async def test_the_meta_of_a_tool_goes_with_that_of_the_era_and_before_it() -> None:
    own = {"m": 1, "io.modelcontextprotocol/serverInfo": {"name": "inner", "version": "1"}}
    async with served(ServedTool("t", lambda arguments, call: ToolResult("x", meta=own))) as handle:
        called = (await modern(handle.port, "tools/call", {"name": "t"}, "t")).message["result"]
        assert called["_meta"] == own
        assert (await legacy(handle.port, "tools/call", {"name": "t"})).message["result"]["_meta"] == own


async def test_progress_comes_before_the_result() -> None:
    async def run(arguments: Any, call: ToolCall) -> str:
        await call.report_progress(1, 2, "half")
        return "done"

    async with served(ServedTool("t", run)) as handle:
        params = {"name": "t", "_meta": {"progressToken": "p"}}
        reply = await post(handle.port, call_body("tools/call", params), {"mcp-protocol-version": "2025-11-25"})
        first, last = reply.messages
        assert first["params"] == {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
        assert last["result"]["content"][0]["text"] == "done"


async def test_replicas_may_be_asked_in_turn() -> None:
    tools = [Counting(), Counting()]
    async with AsyncExitStack() as stack:
        handles = [await stack.enter_async_context(served(tool)) for tool in tools]
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        assert (await post(handles[0].port, call_body("initialize", params))).status == 200
        for index in range(4):
            reply = await legacy(handles[(index + 1) % 2].port, "tools/call", {"name": "count"})
            assert reply.message["result"]["content"][0]["text"] == "done"
            assert (await modern(handles[index % 2].port, "tools/list")).status == 200
    assert [len(tool.ran) for tool in tools] == [2, 2]


@LOOPS
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.spec("R-mcpserve-6")
async def test_a_client_that_hangs_up_cancels_its_call(era: str) -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def run(arguments: Any, call: ToolCall) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with served(ServedTool("wait", run)) as handle:
        ask = (
            legacy(handle.port, "tools/call", {"name": "wait"})
            if era == "legacy"
            else modern(handle.port, "tools/call", {"name": "wait"}, "wait")
        )
        async with anyio.create_task_group() as tasks:

            async def asking() -> None:
                await ask

            tasks.start_soon(asking)
            await began.wait()
            tasks.cancel_scope.cancel()
        await ended.wait()
        assert (await legacy(handle.port, "ping")).status == 200


async def test_stopping_gives_calls_their_grace_and_then_cancels_them() -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def run(arguments: Any, call: ToolCall) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with served(ServedTool("wait", run), grace=0.01) as handle, anyio.create_task_group() as tasks:

        async def asking() -> None:
            await post(handle.port, call_body("tools/call", {"name": "wait"}))

        tasks.start_soon(asking)
        await began.wait()
        with anyio.fail_after(DEFAULT_GRACE - 1):
            await handle.close()
        await handle.close()
        assert ended.is_set()
        await handle.wait_closed()
        tasks.cancel_scope.cancel()


async def test_stopping_waits_for_no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.mcp.serving.http_server._TICK", 60.0)
    async with served(Counting()) as handle:
        assert (await post(handle.port, CALL)).status == 200
        with anyio.fail_after(DEFAULT_GRACE):
            await handle.close()


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_stopping_waits_for_calls_that_end_in_time(era: str) -> None:
    began, release = anyio.Event(), anyio.Event()
    replies: list[Reply] = []

    async def run(arguments: Any, call: ToolCall) -> str:
        began.set()
        await release.wait()
        return "in time"

    async with served(ServedTool("wait", run)) as handle, anyio.create_task_group() as tasks:

        async def asking() -> None:
            params = {"name": "wait"}
            if era == "modern":
                replies.append(await modern(handle.port, "tools/call", params, "wait"))
            else:
                replies.append(await legacy(handle.port, "tools/call", params))

        tasks.start_soon(asking)
        await began.wait()
        tasks.start_soon(handle.close)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        release.set()
    assert replies[0].message["result"]["content"][0]["text"] == "in time"


async def test_a_link_to_consent_is_not_for_the_caller() -> None:
    async def provider(request: Any) -> Consent:
        return Consent("https://accounts.example/CANARY")

    async with served(ServedTool("t", lambda arguments, call: "x", needs=("mail",)), credentials=provider) as handle:
        for reply in (
            await legacy(handle.port, "tools/call", {"name": "t"}),
            await modern(handle.port, "tools/call", {"name": "t"}, "t"),
        ):
            assert reply.message["result"]["isError"] is True
            assert "mail" in reply.message["result"]["content"][0]["text"]
            assert b"CANARY" not in reply.body


def filters_of_loggers() -> dict[str, int]:
    loggers = ((name, logging.getLogger(name)) for name in tuple(logging.root.manager.loggerDict))
    return {name: len(logger.filters) for name, logger in loggers if logger.filters}


async def test_secrets_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    filters = filters_of_loggers()

    def secret(call: ToolCall, text: str) -> str:
        return f"CANARY-result {call.credentials['mail']}"

    async def provider(request: Any) -> str:
        return "CANARY-credential"

    tool = function_tool(secret, needs=("mail",))
    async with served(tool, credentials=provider) as handle:
        params = {"name": "secret", "arguments": {"text": "CANARY-argument"}}
        headers = {"authorization": "Bearer CANARY-header"}
        for reply in (
            await post(handle.port, call_body("tools/call", params), headers, path="/mcp?token=CANARY-query"),
            await post(
                handle.port, call_body("tools/call", envelope(params)), headers | modern_headers("tools/call", "secret")
            ),
        ):
            assert reply.message["result"]["content"][0]["text"] == "CANARY-result CANARY-credential"
        for headers in (modern_headers("notifications/CANARY"), {}):
            notice = {"jsonrpc": "2.0", "method": "notifications/CANARY", "params": {"text": "CANARY"}}
            assert (await post(handle.port, json.dumps(notice).encode(), headers)).status == 202
        assert "CANARY" not in repr(handle)
    assert filters_of_loggers() == filters
    said = [record.getMessage() for record in caplog.records if not record.name.startswith("tests")]
    assert [text for text in said if "CANARY" in text] == []


# ------------------------------------------------------------------------------------ the official SDK


@LOOPS
@pytest.mark.parametrize("mode", ["legacy", "auto", MODERN])
@pytest.mark.spec("R-mcpserve-1")
async def test_the_official_client_in_both_eras(mode: Any) -> None:
    async def add(a: int, b: int = 1) -> int:
        """Adds."""
        return a + b

    def fails() -> str:
        raise ValueError("no luck")

    seen: list[Any] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def steps(call: ToolCall) -> str:
        for step in (1, 2):
            await call.report_progress(step, 2)
        return "done"

    async with served(add, fails, steps, resources=[NOTE], prompts=[ASK]) as handle:
        async with sdk.Client(f"http://127.0.0.1:{handle.port}/mcp", mode=mode) as client:
            assert client.protocol_version == ("2025-11-25" if mode == "legacy" else MODERN)
            if mode != MODERN:  # a pinned version asks for nothing beforehand
                assert client.server_info.name == "web"
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == list(handle.tool_names) == ["add", "fails", "steps"]
            # The client checks it against the output schema.
            assert (await client.call_tool("add", {"a": 2})).structured_content == {"result": 3}
            failed = await client.call_tool("fails", {})
            assert failed.is_error is True
            assert (await client.call_tool("none", {})).is_error is True
            assert (await client.call_tool("steps", {}, progress_callback=heard)).is_error is False
            assert (await client.read_resource("mem://note")).contents[0].text == "text"
            assert (await client.get_prompt("ask")).messages[0].content.text == "hi"
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["ask"]
    assert seen == [(1, 2, None), (2, 2, None)]


@LOOPS
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_giving_up_reaches_the_tool(mode: Any) -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def run(arguments: Any, call: ToolCall) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with served(ServedTool("wait", run)) as handle:
        async with sdk.Client(f"http://127.0.0.1:{handle.port}/mcp", mode=mode) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "wait", {})
                await began.wait()
                tasks.cancel_scope.cancel()
        # In the handshake era at the latest when the client goes: its notice of the cancellation has no session to
        # find the call by.
        await ended.wait()
