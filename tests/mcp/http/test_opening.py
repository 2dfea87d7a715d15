"""Sessions as callers open them: with the official SDK's server in both eras, with an SDK of the caller's own, and with
secrets wherever there can be some."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
import httpx2
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse

from mcpl_core.errors import ConnectionClosedError, ConnectionTimeoutError, TransportError
from mcpl_core.mcp import McpReplayUnavailableError
from mcpl_core.mcp.http import RetrySettings, open_session
from mcpl_core.mcp.http.config import HttpConfig
from mcpl_core.mcp.replay import CallRecord, Replay, ToolReplay
from mcpl_core.mcp.transports import Consent, CredentialRequest, HttpRequest, HttpTransport
from tests.mcp.http.fakes import FakeTime
from tests.mcp.http.opened import INFO, opened
from tests.mcp.http.scripted_server import Reply, Reset, ScriptedServer, Seen, error, result, serving

pytestmark = pytest.mark.anyio

ERAS = {"modern": "2026-07-28", "handshake": "2025-11-25"}
CALL = {"name": "echo", "arguments": {}}


@pytest.fixture(scope="module")
def official() -> Iterator[str]:
    """The URL of the official SDK's server."""
    command = [sys.executable, str(Path(__file__).with_name("official_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        process.communicate(timeout=10)
    assert process.returncode == 0


# -- the official server


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.spec("R-mcphttp-18")
async def test_the_official_server(official: str, era: str) -> None:
    async with opened(official, era=era) as session:
        assert session.protocol_version == ERAS[era]
        assert session.server_info["name"] == "official"
        assert "tools" in session.capabilities
        listed = await session.request("tools/list")
        assert {tool["name"] for tool in listed["tools"]} >= {"add", "steps", "hang", "fail"}
        assert ("resultType" in listed) is (era == "modern")
        answer = await session.request("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
        assert answer["structuredContent"] == {"result": 5}
        failed = await session.request("tools/call", {"name": "fail", "arguments": {}})
        assert failed["isError"] is True


@pytest.mark.parametrize("era", ERAS)
async def test_progress_of_the_official_server(official: str, era: str) -> None:
    seen: list[Any] = []
    async with opened(official, era=era) as session:
        await session.request("tools/call", {"name": "steps", "arguments": {}}, on_progress=seen.append)
    assert [(params["progress"], params["message"]) for params in seen] == [(n, f"step {n}") for n in (1, 2, 3)]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.spec("R-mcphttp-14")
async def test_giving_up_reaches_the_official_server(official: str, era: str) -> None:
    async def cancelled() -> int:
        answer = await session.request("tools/call", {"name": "count_cancelled", "arguments": {}})
        number: int = answer["structuredContent"]["result"]
        return number

    async with opened(official, era=era) as session:
        before = await cancelled()
        with anyio.fail_after(20):
            while await cancelled() == before:
                # What was given up before it began was not cancelled: once more.
                with pytest.raises(ConnectionTimeoutError):
                    await session.request("tools/call", {"name": "hang", "arguments": {}}, timeout=0.2)


@pytest.mark.spec("R-mcphttp-21")
async def test_questions_in_results_are_handed_on(official: str) -> None:
    async def nobody(params: Any) -> dict[str, Any]:
        raise AssertionError("in this era the server sends no requests")

    records: list[CallRecord] = []
    options: dict[str, Any] = {"handlers": {"elicitation/create": nobody}, "replay": Replay(on_record=records.append)}
    async with opened(official, era="modern", **options) as session:
        asked = await session.request("tools/call", {"name": "ask", "arguments": {}})
        assert asked["resultType"] == "input_required"
        (question,) = asked["inputRequests"].values()
        assert question["method"] == "elicitation/create"
    assert [(attempt.outcome, attempt.effect) for attempt in records[0].attempts] == [("input-required", "unknown")]


async def test_eras_are_agreed_on(official: str) -> None:
    async with opened(official, era="auto") as session:
        assert session.protocol_version == "2026-07-28"
        assert (await session.terminate()).kind == "no-session"
    async with opened(official, era="handshake") as session:
        assert (await session.terminate()).kind == "terminated"


@pytest.mark.parametrize("era", ERAS)
async def test_errors_of_the_official_server(official: str, era: str) -> None:
    async with opened(official, era=era) as session:
        with pytest.raises(Exception) as caught:
            await session.request("no/such")
        assert getattr(caught.value, "code", None) == -32601
        assert (await session.request("tools/list"))["tools"]


# -- an SDK of the caller's own


class Installed:
    """The installed one, given."""

    Client = mcp.Client
    streamable_http_client = staticmethod(streamable_http_client)


async def test_an_sdk_that_is_given_is_used() -> None:
    calls: list[Any] = []

    def counting(*arguments: Any, **options: Any) -> Any:
        calls.append(options)
        return streamable_http_client(*arguments, **options)

    class Counted(Installed):
        pass

    Counted.streamable_http_client = staticmethod(counting)
    async with serving(ScriptedServer()) as server, opened(server, sdk=Counted) as session:
        assert await session.request("tools/list")
    assert [options["terminate_on_close"] for options in calls] == [False]


def stub_sdk(post: Callable[[httpx2.AsyncClient, JSONRPCRequest], Any]) -> Any:
    """An SDK whose transport answers by itself, and does with the HTTP client what a test says."""

    @asynccontextmanager
    async def stub(url: str, *, http_client: httpx2.AsyncClient, **options: Any) -> Any:
        to_us, read = anyio.create_memory_object_stream[Any](8)
        write, from_us = anyio.create_memory_object_stream[SessionMessage](8)

        async def answer() -> None:
            try:
                await speak()
            except anyio.ClosedResourceError:
                await to_us.aclose()

        async def speak() -> None:
            async for item in from_us:
                if isinstance(item.message, JSONRPCRequest):
                    await post(http_client, item.message)
                    value: dict[str, Any] = {"content": [], "tools": []}
                    if item.message.method == "initialize":
                        info = {"name": "stub", "version": "1"}
                        value = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
                    await to_us.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=item.message.id, result=value)))

        async with to_us, read, write, from_us, anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            yield read, write
            tasks.cancel_scope.cancel()

    class Stub(Installed):
        pass

    made: Any = Stub
    made.streamable_http_client = staticmethod(stub)
    return made


async def unwatched(client: httpx2.AsyncClient, message: JSONRPCRequest) -> None:
    """Goes another way."""


async def unmatched(client: httpx2.AsyncClient, message: JSONRPCRequest) -> None:
    """Sends what nobody can read."""

    async def body() -> Any:
        yield message.model_dump_json().encode()

    await client.post("http://127.0.0.1:9/mcp", content=body())


async def unobserved(client: httpx2.AsyncClient, message: JSONRPCRequest) -> None:
    """Sends it where no answer comes from, and has the answer from elsewhere."""
    await client.post("http://127.0.0.1:9/mcp", json=message.model_dump(mode="json", by_alias=True, exclude_none=True))


@pytest.mark.parametrize(
    ("way", "reason"),
    [(unwatched, "requests-unwatched"), (unmatched, "request-unmatched"), (unobserved, "answers-unobserved")],
)
@pytest.mark.spec("R-mcphttp-13")
async def test_a_replay_policy_that_this_way_cannot_keep(way: Any, reason: str) -> None:
    class Accepting(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(202)

    options: dict[str, Any] = {"sdk": stub_sdk(way), "carrier": Accepting}
    declared = Replay("app-authorized", {"echo": ToolReplay(on=("network", "throttle"))})
    async with opened("http://127.0.0.1:9/mcp", replay=declared, **options) as session:
        assert session.server_info == {"name": "stub", "version": "1"}
        with pytest.raises(McpReplayUnavailableError) as caught:
            await session.request("tools/call", CALL)
        assert caught.value.reason == reason
    # Without the policy the SDK's word is taken.
    async with opened("http://127.0.0.1:9/mcp", sdk=stub_sdk(unwatched), carrier=Accepting) as session:
        assert await session.request("tools/call", CALL) == {"content": [], "tools": []}


async def test_a_transport_that_ends_by_itself_ends_the_session() -> None:
    async def end(client: httpx2.AsyncClient, message: JSONRPCRequest) -> None:
        if message.method == "tools/list":
            raise anyio.ClosedResourceError

    sdk = stub_sdk(end)
    async with opened("http://127.0.0.1:9/mcp", sdk=sdk) as session:
        with pytest.raises(ConnectionClosedError) as caught:
            await session.request("tools/list")
        assert caught.value.outcome == "no-response"
        assert isinstance(caught.value.reason, TransportError)
        assert await session.wait_closed() is caught.value.reason


# -- secrets


CANARY = "hunter2-canary"


def _shown(exc: BaseException) -> Iterator[str]:
    """An exception and whatever hangs on it, as somebody could log it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [exc]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield f"{each!r} {each} {each.args!r} {getattr(each, '__notes__', '')} {vars(each)!r}"
        yield "".join(traceback.format_exception(each))
        waiting += [each.__cause__, each.__context__, getattr(each, "reason", None)]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions


def _own_frames(tb: TracebackType | None) -> Iterator[Mapping[str, Any]]:
    while tb is not None:
        if "mcpl_core" in tb.tb_frame.f_code.co_filename and "tests" not in tb.tb_frame.f_code.co_filename:
            yield tb.tb_frame.f_locals
        tb = tb.tb_next


class Trouble:
    """What a server, a provider and a hook can do wrong, one after the other."""

    def __init__(self) -> None:
        self.kind = ""
        self.other = ""

    async def script(self, seen: Seen) -> Reply | None:
        if seen.rpc != "tools/call":
            return None
        if self.kind == "reset":
            raise Reset
        text = CANARY.encode()
        json_type, event_type = {"content-type": "application/json"}, {"content-type": "text/event-stream"}
        replies = {
            "status": Reply(500, {"x-echo": CANARY}, text),
            "throttled": Reply(429, {"retry-after": "1"}, text),
            "garbage": Reply(200, json_type, b'{"' + text),
            "garbage-events": Reply(200, event_type, b"data: " + text + b"\n\n"),
            "no-object": result(seen, [CANARY]),
            "coded": Reply(200, {"content-encoding": "gzip", **json_type}, text),
            "coded-events": Reply(200, {"content-encoding": "gzip", **event_type}, text),
            "other-id": Reply(200, json_type, b'{"jsonrpc":"2.0","id":"' + text + b'","result":{"a":"' + text + b'"}}'),
            "event-id": Reply(200, event_type, b"id: " + text + b"\nretry: 1\n\n"),
            "type": Reply(200, {"content-type": CANARY}, text),
            "redirect": Reply(307, {"location": f"{self.other}/{CANARY}?{CANARY}"}),
            "session": error(seen, -32600, "Session not found", status=404),
        }
        return replies.get(self.kind)

    async def vend(self, wanted: CredentialRequest) -> Mapping[str, str] | Consent:
        if self.kind == "provider":
            raise ValueError(CANARY)
        if self.kind == "provider-protocol":
            return {"mcp-session-id": CANARY}
        if self.kind == "provider-header":
            return {"authorization": f"{CANARY}\n"}
        return {"authorization": f"Bearer {CANARY}"}

    async def hook(self, request: HttpRequest) -> Mapping[str, str]:
        assert CANARY not in repr(request)
        return {"x-signature": f"{CANARY}\r" if self.kind == "hook-header" else CANARY}


KINDS = [
    "reset", "status", "throttled", "garbage", "garbage-events", "no-object", "coded", "coded-events", "other-id",
    "event-id", "type", "redirect", "provider", "provider-header", "provider-protocol", "hook-header", "timeout",
    "session",
]  # fmt: skip


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
@pytest.mark.spec("R-mcphttp-17")
async def test_no_secret_is_shown_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    """Headers that are static, vended or signed, the query of the URL, and bodies: not in logs, representations,
    exceptions with their chains, records or reports."""
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    records: list[CallRecord] = []
    reports: list[Any] = []
    trouble, time = Trouble(), FakeTime()
    async with serving(ScriptedServer(trouble.script), f"/mcp?token={CANARY}") as server:
        async with serving(ScriptedServer()) as other:
            trouble.other = f"http://127.0.0.1:{other.port}"
            options: dict[str, Any] = {
                "credentials": trouble.vend,
                "headers": {"x-static": CANARY},
                "request_hook": trouble.hook,
                "replay": Replay("app-authorized", {"echo": ToolReplay(on=("network", "throttle"))}, records.append),
                "retry_on_throttle": RetrySettings(on_retry=reports.append),
                "timing": time.timing,
            }
            async with opened(server, **options) as session:
                for kind in KINDS:
                    trouble.kind = kind
                    call = {"name": "echo", "arguments": {"x": CANARY}}
                    with pytest.raises(Exception) as caught:
                        await session.request("tools/call", call, timeout=0 if kind == "timeout" else 5)
                    shown += _shown(caught.value)
                    shown.append(f"{kind} {session!r}")
                await session.terminate()
            assert any(seen.header("x-static") == CANARY for seen in server.seen)
            assert other.seen == []
    shown += [repr(records), repr(reports), caplog.text]
    shown += [repr(each) for each in gc.get_objects() if isinstance(each, HttpConfig)]
    leaks = [text for text in shown if CANARY in text]
    assert len(records) == len(KINDS)
    assert reports != []
    # pytest prints source lines of this file in tracebacks; the word itself stands in none of them.
    assert leaks == []


async def test_no_secret_of_connecting_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def refuse(seen: Seen) -> Reply:
        return Reply(401, {"www-authenticate": CANARY}, CANARY.encode())

    trouble = Trouble()
    async with serving(ScriptedServer(refuse), f"/mcp?token={CANARY}") as server:
        with pytest.raises(Exception) as caught:
            async with opened(server, credentials=trouble.vend, headers={"x-static": CANARY}, era="auto"):
                pass
    assert [text for text in [*_shown(caught.value), caplog.text] if CANARY in text] == []
    for variables in _own_frames(caught.value.__traceback__):
        assert CANARY not in repr(variables)


def test_nothing_is_dialled_before_it_is_entered() -> None:
    assert hasattr(open_session(HttpTransport("http://127.0.0.1:9/mcp"), client_info=INFO), "__aenter__")
