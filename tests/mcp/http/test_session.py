"""A session over Streamable HTTP, against real sockets."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpl_core.errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    MethodNotFound,
    RemoteProtocolError,
    RpcError,
    TransportError,
    UnencodableError,
)
from mcpl_core.mcp import ConsentRequiredError, CredentialsUnavailableError
from mcpl_core.mcp.http import HttpStatusError, RedirectRefusedError, SessionEndedError
from mcpl_core.mcp.outcomes import TerminateOutcome
from mcpl_core.mcp.session import WatchedSession
from mcpl_core.mcp.transports import Consent, CredentialRequest, HttpRequest
from tests.mcp.http.opened import INFO, opened
from tests.mcp.http.scripted_server import (
    Reply,
    Reset,
    ScriptedServer,
    Seen,
    error,
    events,
    initialized,
    result,
    serving,
    stream_events,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Without uvloop: these tests are many, and nothing here knows the loop."""
    return request.param


CALL = {"name": "echo", "arguments": {"x": 1}}


def answering(rpc: str, reply: Any) -> ScriptedServer:
    """A server that answers one kind of request as the test says."""

    async def script(seen: Seen) -> Reply | None:
        if seen.rpc != rpc:
            return None
        made = reply(seen) if callable(reply) else reply
        if isinstance(made, Exception):
            raise made
        found: Reply | None = await made if hasattr(made, "__await__") else made
        return found

    return ScriptedServer(script)


# -- who is there


async def test_the_handshake_and_what_the_server_said_of_itself() -> None:
    async with serving(ScriptedServer()) as server:
        async with opened(server) as session:
            assert isinstance(session, WatchedSession)
            assert session.protocol_version == "2025-11-25"
            assert session.server_info == {"name": "scripted", "version": "1", "odd": True}
            assert session.capabilities == {"tools": {}, "experimental": {"odd": {"deep": [1, None]}}}
            assert session.instructions == "be kind"
            await session.request("tools/list")
        assert [seen.rpc for seen in server.seen][:2] == ["initialize", "notifications/initialized"]
        assert server.seen[0].message["params"]["clientInfo"] == INFO
        assert server.seen[0].message["params"]["capabilities"] == {}


async def test_a_server_of_the_handshake_era_is_asked_first_and_greeted_then() -> None:
    async with serving(ScriptedServer()) as server:
        async with opened(server, era="auto") as session:
            assert session.protocol_version == "2025-11-25"
            await session.request("tools/list")
        assert [seen.rpc for seen in server.seen][:3] == ["server/discover", "initialize", "notifications/initialized"]


async def test_the_modern_era_alone_is_not_the_handshake() -> None:
    async with serving(ScriptedServer()) as server:
        with pytest.raises(RemoteProtocolError):
            async with opened(server, era="modern"):
                pass


@pytest.mark.parametrize(
    "value",
    [
        {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "n", "version": "1"}},
        {"protocolVersion": "2025-11-25", "capabilities": {}},
        {},
    ],
)
async def test_a_handshake_that_is_not_understood(value: Any) -> None:
    async with serving(answering("initialize", lambda seen: result(seen, value))) as server:
        with pytest.raises(InvalidResultError) as caught:
            async with opened(server):
                pass
        assert caught.value.method == "initialize"


async def test_a_carrier_that_cannot_be_made() -> None:
    def carrier() -> Any:
        raise RuntimeError("canary")

    with pytest.raises(TransportError) as caught:
        async with opened("http://127.0.0.1:9/mcp", carrier=carrier):
            pass
    assert "canary" not in str(caught.value)


async def test_nobody_is_there_behind_tls_either() -> None:
    async with serving(ScriptedServer()) as server:
        url = server.url.replace("http:", "https:")
    with pytest.raises(ConnectionClosedError) as caught:
        async with opened(url):
            pass
    assert caught.value.outcome == "not-sent"


async def test_who_is_cancelled_while_connecting_leaves_nothing_behind() -> None:
    async with serving(hanging("initialize")) as server:
        async with anyio.create_task_group() as tasks:

            async def connect() -> None:
                async with opened(server):
                    pytest.fail("nobody answered")

            tasks.start_soon(connect)
            await server.wait_for(lambda: bool(server.of("initialize")))
            tasks.cancel_scope.cancel()
        await server.wait_for(lambda: server.open == 0 or len(server.seen) == 1)


@pytest.mark.parametrize("era", ["auto", "handshake"])
@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
async def test_an_http_status_in_the_place_of_a_handshake(era: str, status: int) -> None:
    async def refuse(seen: Seen) -> Reply:
        return Reply(status)

    async with serving(ScriptedServer(refuse)) as server:
        with pytest.raises(HttpStatusError) as caught:
            async with opened(server, era=era, retry_on_throttle=False):
                pass
        assert caught.value.status == status


async def test_a_handshake_that_is_refused_in_words() -> None:
    async with serving(answering("initialize", lambda seen: error(seen, -32000, "full", {"a": 1}))) as server:
        with pytest.raises(RpcError) as caught:
            async with opened(server):
                pass
        assert (caught.value.code, caught.value.message, caught.value.data) == (-32000, "full", {"a": 1})


@pytest.mark.parametrize("era", ["auto", "handshake"])
async def test_nobody_is_there(era: str) -> None:
    async with serving(ScriptedServer()) as server:
        url = server.url
    with pytest.raises(ConnectionClosedError) as caught:
        async with opened(url, era=era):
            pass
    assert caught.value.outcome == "not-sent"
    assert isinstance(caught.value.reason, TransportError)


async def test_a_handshake_has_a_bound() -> None:
    async with serving(hanging("initialize")) as server:
        with pytest.raises(ConnectionTimeoutError) as caught:
            async with opened(server, timeout=0.05):
                pass
        assert (caught.value.method, caught.value.timeout) == ("initialize", 0.05)


async def test_a_handshake_need_have_no_bound() -> None:
    async with serving(ScriptedServer()) as server, opened(server, timeout=None) as session:
        assert await session.request("tools/list")


@pytest.mark.spec("R-mcphttp-15")
async def test_an_outage_says_nothing_about_the_era() -> None:
    async with serving(answering("server/discover", Reset())) as server:
        with pytest.raises(ConnectionClosedError) as caught:
            async with opened(server, era="auto"):
                pass
        assert caught.value.outcome == "no-response"
        assert server.of("initialize") == []


# -- requests and results


@pytest.mark.spec("R-mcphttp-1")
async def test_results_are_what_the_peer_sent() -> None:
    odd = {"content": [{"type": "odd", "x": None}], "structuredContent": [1.5, "\ud800", 12345678901234567890], "z": {}}

    async with serving(answering("tools/call", lambda seen: result(seen, odd))) as server:
        async with opened(server) as session:
            assert await session.request("tools/call", CALL) == odd


async def test_params_are_what_the_caller_gave() -> None:
    deep: Any = []
    for _ in range(230):
        deep = [deep]
    params = {"name": "t", "arguments": {"a": None, "b": "\ud800\u2028", "deep": deep}, "_meta": {"x": None}}
    async with serving(ScriptedServer()) as server, opened(server) as session:
        await session.request("tools/call", params)
        await session.request("tools/list")
        assert server.of("tools/call")[0].message["params"] == params
        assert "params" not in server.of("tools/list")[0].message


async def test_params_without_a_json_form_are_not_sent() -> None:
    async with serving(ScriptedServer()) as server, opened(server) as session:
        for value in (float("nan"), object()):
            with pytest.raises(UnencodableError):
                await session.request("tools/call", {"name": "t", "arguments": {"x": value}})
        assert server.of("tools/call") == []
        assert await session.request("tools/list") == {"tools": [], "odd": {"x": None}}


async def test_errors_of_the_peer() -> None:
    async with serving(answering("tools/call", lambda seen: error(seen, -32601, "no such", [1]))) as server:
        async with opened(server) as session:
            with pytest.raises(MethodNotFound) as caught:
                await session.request("tools/call", CALL)
            assert (caught.value.message, caught.value.data) == ("no such", [1])


async def test_an_error_of_the_peer_beside_a_status() -> None:
    async with serving(answering("tools/call", lambda seen: error(seen, -32602, "bad", status=400))) as server:
        async with opened(server) as session:
            with pytest.raises(RpcError) as caught:
                await session.request("tools/call", CALL)
            assert (caught.value.code, caught.value.message) == (-32602, "bad")


@pytest.mark.parametrize("value", [[], "text", None, 3])
async def test_a_result_is_an_object(value: Any) -> None:
    async with serving(answering("tools/call", lambda seen: result(seen, value))) as server:
        async with opened(server) as session:
            with pytest.raises(InvalidResultError):
                await session.request("tools/call", CALL)
            assert await session.request("tools/list")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": "application/json"}, b"{"),
        ({"content-type": "application/json"}, b"[]"),
        ({"content-type": "application/json"}, b'{"jsonrpc":"2.0","method":"x"}'),
        ({"content-type": "text/html"}, b"<html>"),
        ({}, b""),
        ({"content-type": "text/event-stream"}, b"data: nonsense\n\n"),
        ({"content-type": "text/event-stream"}, b""),
    ],
)
@pytest.mark.spec("R-mcphttp-2")
async def test_what_is_no_answer(headers: dict[str, str], body: bytes) -> None:
    async with serving(answering("tools/call", Reply(200, headers, body))) as server:
        async with opened(server) as session:
            with pytest.raises(ConnectionClosedError) as caught:
                await session.request("tools/call", CALL)
            assert caught.value.outcome == "no-response"
            assert await session.request("tools/list")


async def test_a_request_that_is_accepted_and_never_answered() -> None:
    async with serving(answering("tools/call", Reply(202))) as server, opened(server) as session:
        with pytest.raises(ConnectionClosedError) as caught:
            await session.request("tools/call", CALL)
        assert caught.value.outcome == "no-response"


@pytest.mark.parametrize("status", [400, 401, 403, 405, 500, 502, 503, 504])
async def test_a_status_is_an_answer_and_is_not_repeated(status: int) -> None:
    async with serving(answering("tools/call", Reply(status, {"retry-after": "3"}, b"busy"))) as server:
        async with opened(server) as session:
            with pytest.raises(HttpStatusError) as caught:
                await session.request("tools/call", CALL)
            assert (caught.value.status, caught.value.retry_after) == (status, 3.0)
            assert len(server.of("tools/call")) == 1
            assert await session.request("tools/list")


@pytest.mark.spec("R-mcphttp-3")
async def test_a_reset_loses_one_request_and_not_the_session() -> None:
    async with serving(answering("tools/call", Reset())) as server, opened(server) as session:
        with pytest.raises(ConnectionClosedError) as caught:
            await session.request("tools/call", CALL)
        assert caught.value.outcome == "no-response"
        assert isinstance(caught.value.reason, TransportError)
        assert len(server.of("tools/call")) == 1
        assert await session.request("tools/list")


async def test_a_body_that_is_cut_off() -> None:
    async def cut(seen: Seen) -> None:
        await seen.stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
        raise Reset

    async with serving(answering("tools/call", cut)) as server, opened(server) as session:
        with pytest.raises(ConnectionClosedError) as caught:
            await session.request("tools/call", CALL)
        assert caught.value.outcome == "no-response"
        assert await session.request("tools/list")


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_that_is_too_long(kind: str) -> None:
    async with serving(answering("tools/call", Reply(200, {"content-type": kind}, b"data: " + b"x" * 5000))) as server:
        async with opened(server, max_message_bytes=1000) as session:
            with pytest.raises(ConnectionClosedError) as caught:
                await session.request("tools/call", CALL)
            assert isinstance(caught.value.reason, TransportError)
            assert await session.request("tools/list")


async def test_concurrent_requests_are_told_apart() -> None:
    async with serving(ScriptedServer()) as server, opened(server) as session:
        found: dict[int, Any] = {}

        async def call(number: int) -> None:
            params = {"name": "echo", "arguments": {"x": number}}
            found[number] = (await session.request("tools/call", params))["structuredContent"]["arguments"]["x"]

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(call, number)
        assert found == {number: number for number in range(8)}


# -- streams of events


async def test_events_before_an_answer_come_in_the_order_of_the_wire() -> None:
    log: list[Any] = []

    async def answer(seen: Seen) -> Reply:
        token = seen.message["params"]["_meta"]["progressToken"]
        notes = [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n}}
            for n in (1, 2, 2, 1, 3)
        ]
        other = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x", "odd": None}}
        done = {"jsonrpc": "2.0", "id": seen.message["id"], "result": {"odd": None}}
        return Reply(200, {"content-type": "text/event-stream"}, events(*notes, other, done))

    async with serving(answering("tools/call", answer)) as server, opened(server) as session:
        remove = session.on_notification(lambda method, params: log.append((method, params)))
        found = await session.request("tools/call", CALL, on_progress=lambda params: log.append(params["progress"]))
        assert found == {"odd": None}
        assert [each for each in log if isinstance(each, int)] == [1, 2, 3]
        assert [each[0] for each in log if isinstance(each, tuple)] == ["notifications/progress"] * 5 + [
            "notifications/message"
        ]
        assert log[-1] == ("notifications/message", {"data": "x", "odd": None})
        remove()
        remove()
        count = len(log)
        await session.request("tools/call", CALL, on_progress=log.append)
        assert len(log) == count + 3


async def test_observers_that_fail_lose_nothing() -> None:
    def fail(*arguments: Any) -> None:
        raise ValueError

    async def answer(seen: Seen) -> Reply:
        token = seen.message["params"]["_meta"]["progressToken"]
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
        done = {"jsonrpc": "2.0", "id": seen.message["id"], "result": {}}
        return Reply(200, {"content-type": "text/event-stream"}, events(note, done))

    async with serving(answering("tools/call", answer)) as server, opened(server) as session:
        session.on_notification(fail)
        assert await session.request("tools/call", CALL, on_progress=fail) == {}


async def test_an_answer_counts_though_the_stream_stays_open() -> None:
    async def answer(seen: Seen) -> None:
        await stream_events(seen, events({"jsonrpc": "2.0", "id": seen.message["id"], "result": {"a": 1}}))
        await anyio.sleep_forever()

    async with serving(answering("tools/call", answer)) as server, opened(server) as session:
        assert await session.request("tools/call", CALL) == {"a": 1}


async def test_a_stream_that_ends_without_an_answer() -> None:
    async def answer(seen: Seen) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
        await stream_events(seen, events(note), done=True)
        raise anyio.ClosedResourceError

    async with serving(answering("tools/call", answer)) as server, opened(server) as session:
        with pytest.raises(ConnectionClosedError) as caught:
            await session.request("tools/call", CALL)
        assert caught.value.outcome == "no-response"


async def test_a_stream_that_can_be_resumed_is_resumed() -> None:
    ids: list[Any] = []

    async def script(seen: Seen) -> Reply | None:
        if seen.rpc == "tools/call":
            ids.append(seen.message["id"])
            return Reply(200, {"content-type": "text/event-stream"}, b"id: e1\nretry: 1\ndata:\n\n")
        if seen.rpc == "GET" and seen.header("last-event-id") == "e1":
            done = {"jsonrpc": "2.0", "id": ids[0], "result": {"resumed": None}}
            return Reply(200, {"content-type": "text/event-stream"}, events(done))
        return None

    async with serving(ScriptedServer(script)) as server, opened(server) as session:
        assert await session.request("tools/call", CALL) == {"resumed": None}


async def test_notifications_of_no_request() -> None:
    seen_get = anyio.Event()
    found: list[Any] = []
    heard = anyio.Event()

    async def script(seen: Seen) -> Reply | None:
        if seen.rpc != "GET":
            return None
        note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"odd": 1}}
        await seen_get.wait()
        await stream_events(seen, events(note))
        await anyio.sleep_forever()
        return None

    def hear(method: str, params: Any) -> None:
        found.append((method, params))
        heard.set()

    async with serving(ScriptedServer(script)) as server, opened(server) as session:
        session.on_notification(hear)
        seen_get.set()
        with anyio.fail_after(5):
            await heard.wait()
        assert found == [("notifications/tools/list_changed", {"odd": 1})]


# -- requests of the server


async def test_requests_of_the_server_are_answered() -> None:
    asked = [
        {"jsonrpc": "2.0", "id": "p", "method": "ping"},
        {"jsonrpc": "2.0", "id": "e", "method": "elicitation/create", "params": {"message": "?"}},
        {"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": {}},
        {"jsonrpc": "2.0", "id": "r", "method": "roots/list", "params": {}},
    ]

    async def elicit(params: Any) -> dict[str, Any]:
        return {"action": "accept", "content": params, "odd": None}

    def fail(params: Any) -> dict[str, Any]:
        raise ValueError("canary")

    server = ScriptedServer()

    async def script(seen: Seen) -> Reply | None:
        if seen.rpc != "tools/call":
            return None
        await stream_events(seen, events(*asked))
        await server.wait_for(lambda: len(server.of("answer")) == 4)
        done = {"jsonrpc": "2.0", "id": seen.message["id"], "result": {}}
        await stream_events(seen, events(done), done=True)
        raise anyio.ClosedResourceError

    server.script = script
    handlers = {"elicitation/create": elicit, "roots/list": fail}
    async with serving(server), opened(server, handlers=handlers) as session:
        assert await session.request("tools/call", CALL) == {}
        answers = {seen.message["id"]: seen.message for seen in server.of("answer")}
        assert answers["p"]["result"] == {}
        assert answers["e"]["result"] == {"action": "accept", "content": {"message": "?"}, "odd": None}
        assert answers["s"]["error"]["code"] == -32601
        assert answers["r"]["error"] == {"code": -32603, "message": "Internal error"}
        assert set(server.seen[0].message["params"]["capabilities"]) == {"elicitation", "roots"}


# -- time and cancellation


def hanging(rpc: str = "tools/call") -> ScriptedServer:
    async def hang(seen: Seen) -> None:
        await anyio.sleep_forever()

    return answering(rpc, hang)


async def test_a_timeout_tells_the_server() -> None:
    async with serving(hanging()) as server, opened(server) as session:
        with pytest.raises(ConnectionTimeoutError) as caught:
            await session.request("tools/call", CALL, timeout=1.0)
        assert (caught.value.method, caught.value.outcome) == ("tools/call", "no-response")
        await server.wait_for(lambda: bool(server.of("notifications/cancelled")))
        cancelled = server.of("notifications/cancelled")[0].message["params"]
        assert cancelled["requestId"] == server.of("tools/call")[0].message["id"]
        assert await session.request("tools/list")


async def test_the_session_has_a_timeout_of_its_own() -> None:
    async with serving(hanging()) as server, opened(server, timeout=0.5) as session:
        with pytest.raises(ConnectionTimeoutError):
            await session.request("tools/call", CALL)


@pytest.mark.spec("R-mcphttp-14")
async def test_a_caller_that_is_cancelled_tells_the_server_and_frees_the_connection() -> None:
    async with serving(hanging()) as server, opened(server) as session:
        open_before = server.open
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.request, "tools/call", CALL)
            await server.wait_for(lambda: bool(server.of("tools/call")))
            tasks.cancel_scope.cancel()
        await server.wait_for(lambda: bool(server.of("notifications/cancelled")))
        cancelled = server.of("notifications/cancelled")[0].message["params"]
        assert cancelled["requestId"] == server.of("tools/call")[0].message["id"]
        await session.request("tools/list")
        assert server.open <= open_before + 2
        assert session._channel._waiting == {}
        assert session._watch._open == {}


async def test_a_server_that_is_slow_to_hear_of_it_holds_up_nothing() -> None:
    async def script(seen: Seen) -> Reply | None:
        if seen.rpc in ("tools/call", "notifications/cancelled"):
            await anyio.sleep_forever()
        return None

    async with serving(ScriptedServer(script)) as server, opened(server) as session:
        with pytest.raises(ConnectionTimeoutError):
            await session.request("tools/call", CALL, timeout=1.0)
        with anyio.fail_after(10):
            assert await session.request("tools/list")


async def test_a_caller_that_is_cancelled_before_it_asks_sends_nothing() -> None:
    async with serving(ScriptedServer()) as server, opened(server) as session:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await session.request("tools/call", CALL)
        await session.request("tools/list")
        assert server.of("tools/call") == []
        assert server.of("notifications/cancelled") == []


# -- what every request carries


async def test_static_headers_are_on_every_request() -> None:
    async with serving(ScriptedServer()) as server:
        async with opened(server, headers={"X-Static": "s", "User-Agent": "mine"}) as session:
            await session.request("tools/list")
            await session.request("tools/call", CALL)
            await session.notify("notifications/roots/list_changed")
            await server.wait_for(lambda: bool(server.of("GET")))
            await session.terminate()
        kinds = {seen.rpc for seen in server.seen}
        assert kinds >= {"initialize", "notifications/initialized", "tools/list", "tools/call", "GET", "DELETE"}
        assert {(seen.header("x-static"), seen.header("user-agent")) for seen in server.seen} == {("s", "mine")}


async def test_a_hook_signs_every_request_over_its_body() -> None:
    async def sign(request: HttpRequest) -> Mapping[str, str]:
        text = f"{request.method} {request.url}\n".encode() + request.body
        return {"x-signature": hmac.new(b"key", text, hashlib.sha256).hexdigest()}

    async with serving(ScriptedServer()) as server:
        async with opened(server, request_hook=sign, era="auto") as session:
            await session.request("tools/list")
            await session.request("tools/call", CALL)
            await server.wait_for(lambda: bool(server.of("GET")))
            await session.terminate()
        assert {"server/discover", "initialize", "GET", "DELETE", "tools/call"} <= {seen.rpc for seen in server.seen}
        for seen in server.seen:
            text = f"{seen.method} {server.url}\n".encode() + seen.body
            assert seen.header("x-signature") == hmac.new(b"key", text, hashlib.sha256).hexdigest()


async def test_a_hook_that_does_nothing_changes_no_byte() -> None:
    async def look(request: HttpRequest) -> None:
        return None

    sent = []
    for options in ({}, {"request_hook": look}):
        async with serving(ScriptedServer()) as server:
            async with opened(server, **options) as session:
                await session.request("tools/call", CALL)
            port = str(server.port)
            sent.append(
                [
                    ([(name, value.replace(port, "")) for name, value in seen.headers], seen.body)
                    for seen in server.seen
                    if seen.rpc != "GET"
                ]
            )
    assert sent[0] == sent[1]


async def test_credentials_are_vended_for_each_request() -> None:
    asked: list[CredentialRequest] = []

    async def vend(wanted: CredentialRequest) -> Mapping[str, str]:
        asked.append(wanted)
        return {"authorization": f"Bearer {len(asked)}"}

    async with serving(ScriptedServer()) as server:
        options: dict[str, Any] = {"credentials": vend, "scopes": ["a"], "mode": "user", "service": "svc"}
        async with opened(server, **options) as session:
            await session.request("tools/list")
            await session.request("tools/list")
        tokens = [seen.header("authorization") for seen in server.seen]
        assert len(set(tokens)) == len(tokens) >= 4
        assert set(asked) == {CredentialRequest("svc", ("a",), "user")}


@pytest.mark.parametrize("era", ["auto", "handshake"])
async def test_consent_is_needed_before_anything_is_sent(era: str) -> None:
    async def vend(wanted: CredentialRequest) -> Consent:
        return Consent("https://auth.example/go")

    async with serving(ScriptedServer()) as server:
        with pytest.raises(ConsentRequiredError) as caught:
            async with opened(server, credentials=vend, era=era):
                pass
        assert caught.value.authorization_url == "https://auth.example/go"
        assert server.seen == []


async def test_credentials_that_fail_later_fail_one_request() -> None:
    failing = False

    async def vend(wanted: CredentialRequest) -> Mapping[str, str]:
        if failing:
            raise ValueError("canary")
        return {"authorization": "t"}

    async with serving(ScriptedServer()) as server, opened(server, credentials=vend) as session:
        failing = True
        with pytest.raises(CredentialsUnavailableError):
            await session.request("tools/call", CALL)
        failing = False
        assert await session.request("tools/list")
        assert server.of("tools/call") == []


@pytest.mark.spec("R-mcphttp-6")
async def test_credentials_that_ran_out_are_read_again() -> None:
    tokens = count(1)

    async def vend(wanted: CredentialRequest) -> Mapping[str, str]:
        return {"authorization": str(next(tokens))}

    async def script(seen: Seen) -> Reply | None:
        return Reply(401) if seen.rpc == "tools/call" and len(server.of("tools/call")) == 1 else None

    server = ScriptedServer(script)
    async with serving(server), opened(server, credentials=vend) as session:
        assert await session.request("tools/call", CALL)
        first, second = server.of("tools/call")
        assert first.body == second.body
        assert first.header("authorization") != second.header("authorization")


async def test_what_a_hook_raises_is_what_the_caller_gets() -> None:
    failure: Exception | None = None

    async def hook(request: HttpRequest) -> None:
        if failure is not None:
            raise failure

    async with serving(ScriptedServer()) as server, opened(server, request_hook=hook) as session:
        failure = LookupError("no key")
        with pytest.raises(LookupError) as caught:
            await session.request("tools/call", CALL)
        assert caught.value is failure
        assert server.of("tools/call") == []


# -- redirects


@pytest.mark.spec("R-mcphttp-7")
async def test_a_redirect_within_the_origin_is_followed_and_signed_anew() -> None:
    count = 0

    async def hook(request: HttpRequest) -> Mapping[str, str]:
        nonlocal count
        count += 1
        return {"x-count": str(count)}

    async def script(seen: Seen) -> Reply | None:
        return Reply(307, {"location": "/mcp/"}) if seen.rpc == "tools/call" and seen.path == "/mcp" else None

    async with serving(ScriptedServer(script)) as server, opened(server, request_hook=hook) as session:
        found = await session.request("tools/call", CALL)
        assert found["structuredContent"] == CALL
        first, second = server.of("tools/call")
        assert first.body == second.body
        assert first.header("x-count") != second.header("x-count")


@pytest.mark.spec("R-mcphttp-7")
async def test_a_redirect_to_another_origin_is_refused() -> None:
    async with serving(ScriptedServer()) as other:
        location = {"location": other.url}
        async with serving(answering("tools/call", Reply(307, location))) as server:
            async with opened(server, headers={"authorization": "t"}) as session:
                with pytest.raises(RedirectRefusedError) as caught:
                    await session.request("tools/call", CALL)
                assert (caught.value.status, caught.value.origin) == (307, f"http://127.0.0.1:{other.port}")
                assert await session.request("tools/list")
        assert other.seen == []


async def test_redirects_without_end() -> None:
    async with serving(answering("tools/call", Reply(307, {"location": "/mcp"}))) as server:
        async with opened(server) as session:
            with pytest.raises(RedirectRefusedError) as caught:
                await session.request("tools/call", CALL)
            assert caught.value.origin == f"http://127.0.0.1:{server.port}"


# -- the end


async def test_closing_leaves_the_remote_session() -> None:
    async with serving(ScriptedServer()) as server:
        async with opened(server) as session:
            await session.aclose()
            await session.aclose()
            assert await session.wait_closed() is None
            with pytest.raises(ConnectionClosedError) as caught:
                await session.request("tools/list")
            assert caught.value.outcome == "not-sent"
            await session.notify("notifications/roots/list_changed")
            with pytest.raises(ConnectionClosedError):
                await session.terminate()
        assert server.of("DELETE") == []
        assert server.of("tools/list") == []


async def test_closing_from_another_task_settles_what_waits() -> None:
    outcomes: list[Any] = []

    async with serving(hanging()) as server, opened(server) as session:

        async def call() -> None:
            try:
                await session.request("tools/call", CALL)
            except ConnectionClosedError as exc:
                outcomes.append(exc.outcome)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await server.wait_for(lambda: bool(server.of("tools/call")))
            tasks.start_soon(session.aclose)
        assert outcomes == ["no-response"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(200, "terminated"), (204, "terminated"), (404, "already-gone"), (405, "not-offered"), (500, "failed")],
)
@pytest.mark.spec("R-mcphttp-16")
async def test_the_status_of_ending_a_session(status: int, kind: str) -> None:
    async with serving(answering("DELETE", Reply(status))) as server, opened(server) as session:
        outcome = await session.terminate()
        assert (outcome.kind, outcome.status, outcome.error_class) == (kind, status, None)
        assert outcome.duration >= 0
        assert await session.terminate() is outcome
        assert server.of("DELETE")[0].header("mcp-session-id") == "session-1"
        assert server.of("DELETE")[0].header("mcp-protocol-version") == "2025-11-25"
        assert len(server.of("DELETE")) == 1
        with pytest.raises(ConnectionClosedError):
            await session.request("tools/list")


async def test_ending_a_session_that_was_never_issued() -> None:
    async with serving(ScriptedServer(session=None)) as server, opened(server) as session:
        outcome = await session.terminate()
        assert (outcome.kind, outcome.resolved, outcome.status) == ("no-session", True, None)
        assert server.of("DELETE") == []


async def test_ending_a_session_without_an_answer() -> None:
    async with serving(answering("DELETE", Reset())) as server, opened(server) as session:
        outcome = await session.terminate()
        assert (outcome.kind, outcome.status, outcome.error_class) == ("failed", None, "TransportError")


async def test_ending_a_session_has_a_bound() -> None:
    async with serving(hanging("DELETE")) as server, opened(server) as session:
        outcome = await session.terminate(0.05)
        assert (outcome.kind, outcome.resolved, outcome.status) == ("timed-out", False, None)
        assert await session.wait_closed() is None


async def test_ending_a_session_twice_at_once() -> None:
    async with serving(ScriptedServer()) as server, opened(server) as session:
        outcomes: list[TerminateOutcome] = []

        async def end() -> None:
            outcomes.append(await session.terminate())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end)
            tasks.start_soon(end)
        assert outcomes[0] is outcomes[1]
        assert len(server.of("DELETE")) == 1


@pytest.mark.spec("R-mcphttp-3")
async def test_a_server_that_forgot_the_session() -> None:
    async with serving(answering("tools/call", lambda seen: error(seen, -32600, "?", status=404))) as server:
        async with opened(server) as session:
            with pytest.raises(SessionEndedError) as caught:
                await session.request("tools/call", CALL)
            assert caught.value.status == 404
            assert session.is_closed
            with anyio.fail_after(5):
                assert isinstance(await session.wait_closed(), SessionEndedError)
            with pytest.raises(ConnectionClosedError) as later:
                await session.request("tools/list")
            assert later.value.outcome == "not-sent"
            assert isinstance(later.value.reason, SessionEndedError)
            outcome = await session.terminate()
            assert (outcome.kind, outcome.status) == ("already-gone", 404)


async def test_without_a_session_404_is_a_status() -> None:
    async def script(seen: Seen) -> Reply | None:
        return Reply(404) if seen.rpc == "tools/call" else None

    async with serving(ScriptedServer(script, session=None)) as server, opened(server) as session:
        with pytest.raises(HttpStatusError):
            await session.request("tools/call", CALL)
        assert await session.request("tools/list")


@pytest.mark.spec("R-mcphttp-3")
async def test_what_breaks_inside_is_one_end_for_all() -> None:
    """The SDK reports a failure in its background as a group of exceptions."""
    outcomes: list[Any] = []

    async with serving(hanging()) as server, opened(server) as session:

        async def call() -> None:
            try:
                await session.request("tools/call", CALL)
            except ConnectionClosedError as exc:
                outcomes.append((exc.outcome, type(exc.reason)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await server.wait_for(lambda: bool(server.of("tools/call")))
            broken: Any = session._channel
            broken._spawn(_break)
        assert outcomes == [("no-response", TransportError)]
        assert isinstance(await session.wait_closed(), TransportError)
        outcome = await session.terminate()
        assert (outcome.kind, outcome.error_class) == ("handle-lost", "LocalSessionHandleLostError")
        assert server.of("DELETE") == []


async def _break() -> None:
    raise ExceptionGroup("in the background", [ExceptionGroup("deeper", [OSError("canary")])])


async def test_the_exceptions_of_a_block_come_out_as_they_are() -> None:
    async with serving(ScriptedServer()) as server:
        failure = LookupError("mine")
        with pytest.raises(LookupError) as caught:
            async with opened(server):
                raise failure
        assert caught.value is failure


async def test_many_sessions_closed_in_any_order_from_other_tasks() -> None:
    async with serving(ScriptedServer()) as server:
        for _ in range(5):
            async with opened(server) as first, opened(server) as second:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(first.aclose)
                    tasks.start_soon(second.aclose)
    assert server.of("DELETE") == []


async def test_a_session_shows_its_name_and_nothing_else() -> None:
    async with serving(ScriptedServer()) as server:
        async with opened(server, headers={"authorization": "canary"}, name="files") as session:
            assert repr(session) == "<HttpSession files>"
            assert "canary" not in repr(session._config)
        assert json.loads(server.seen[0].body)["method"] == "initialize"
        assert initialized(server.seen[0]).status == 200


# -- what servers should not do


async def test_who_gives_up_leaves_no_stream_that_is_being_resumed() -> None:
    asked = anyio.Event()

    async def script(seen: Seen) -> Reply | None:
        if seen.rpc == "tools/call":
            return Reply(200, {"content-type": "text/event-stream"}, b"id: e1\nretry: 1\n\n")
        if seen.rpc == "GET" and seen.header("last-event-id") == "e1":
            await stream_events(seen, b": hello\n\n")
            asked.set()
            await anyio.sleep_forever()
        return None

    async with serving(ScriptedServer(script)) as server, opened(server) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.request, "tools/call", CALL)
            with anyio.fail_after(5):
                await asked.wait()
            tasks.cancel_scope.cancel()
        assert await session.request("tools/list")
        await server.wait_for(lambda: server.open <= 2)


async def test_calls_that_wait_are_as_many_as_their_callers_want() -> None:
    came, all_came = count(1), anyio.Event()

    async def answer(seen: Seen) -> Reply:
        if next(came) == 120:
            all_came.set()
        await all_came.wait()
        return result(seen, {})

    async with serving(answering("tools/call", answer)) as server, opened(server, timeout=30.0) as session:
        async with anyio.create_task_group() as tasks:
            for _ in range(120):
                tasks.start_soon(session.request, "tools/call", CALL)


async def test_ending_a_session_closes_this_side_though_it_is_cancelled() -> None:
    async with serving(hanging("DELETE")) as server, opened(server) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.terminate)
            await server.wait_for(lambda: bool(server.of("DELETE")))
            tasks.cancel_scope.cancel()
        with pytest.raises(ConnectionClosedError):
            await session.request("tools/list")
        assert (await session.terminate()).kind == "timed-out"


@pytest.mark.parametrize("way", ["json", "events", "throttled", "resumed", "asking"])
async def test_whenever_a_caller_gives_up_nothing_is_left_behind(way: str) -> None:
    """At each of its first steps, wherever that is."""
    events_type = {"content-type": "text/event-stream"}

    async def script(seen: Seen) -> Reply | None:
        if seen.rpc != "tools/call":
            return None
        done = events({"jsonrpc": "2.0", "id": seen.message["id"], "result": {}})
        asked = events({"jsonrpc": "2.0", "id": 4, "method": "elicitation/create", "params": {}})
        replies = {
            "json": result(seen, {}),
            "events": Reply(200, events_type, done),
            "throttled": Reply(429, {"retry-after": "0"}),
            "resumed": Reply(200, events_type, b"id: 1\nretry: 1\n\n"),
            "asking": Reply(200, events_type, asked + done),
        }
        return replies[way]

    async def step(*arguments: Any) -> dict[str, Any]:
        await anyio.lowlevel.checkpoint()
        return {"x-step": "1"}

    async def give_up(steps: int, scope: anyio.CancelScope) -> None:
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        scope.cancel()

    options: dict[str, Any] = {"credentials": step, "request_hook": step, "handlers": {"elicitation/create": step}}
    given_up = 0
    async with serving(ScriptedServer(script)) as server, opened(server, **options) as session:
        for steps in range(0, 48, 2):
            async with anyio.create_task_group() as tasks:
                with anyio.CancelScope() as scope:
                    tasks.start_soon(give_up, steps, scope)
                    with suppress(HttpStatusError):
                        await session.request("tools/call", CALL, on_progress=lambda params: None)
                given_up += scope.cancelled_caught
                tasks.cancel_scope.cancel()
        assert await session.request("tools/list")
        await server.wait_for(lambda: server.open <= 3)
        calls = session._calls._waiting
        left = (session._channel._waiting, session._watch._open, calls.requests, calls.tokens)
        assert [len(each) for each in left] == [0, 0, 0, 0]
        assert (session._channel._asked, calls._asked) == ({}, 0)
    assert given_up >= 5


async def test_a_stream_of_the_modern_era_is_not_resumed() -> None:
    discovered = {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {},
        "ttlMs": 0,
        "cacheScope": "private",
    }

    async def script(seen: Seen) -> Reply | None:
        if seen.rpc == "server/discover":
            return result(seen, discovered)
        return Reply(200, {"content-type": "text/event-stream"}, b"id: e1\nretry: 1\n\n") if seen.body else None

    async with serving(ScriptedServer(script)) as server, opened(server, era="modern") as session:
        with pytest.raises(ConnectionClosedError) as caught:
            await session.request("tools/call", CALL)
        assert caught.value.outcome == "no-response"
        assert server.of("GET") == []


@pytest.mark.spec("R-mcphttp-25")
async def test_a_session_whose_id_could_not_be_sent_back() -> None:
    async with serving(ScriptedServer(session="a b")) as server:
        with pytest.raises(ConnectionClosedError) as caught:
            async with opened(server):
                pass
        assert type(caught.value.reason) is RemoteProtocolError


async def test_a_redirect_to_a_path_that_is_no_ascii() -> None:
    def answer(seen: Seen) -> Reply | None:
        return Reply(307, {"location": "/\xe9"}) if seen.path == "/mcp" else None

    async with serving(answering("tools/call", answer)) as server, opened(server) as session:
        assert await session.request("tools/call", CALL)
        assert [seen.path for seen in server.of("tools/call")] == ["/mcp", "/%C3%A9"]
