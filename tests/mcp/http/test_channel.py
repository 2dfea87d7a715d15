"""The SDK's streams, shared: what is ours, what is the SDK's, and what the server asks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from mcpl_core.errors import ConnectionClosedError, MessageTooLargeError, MethodNotFound, RpcError, UnencodableError
from mcpl_core.mcp.http.channel import Channel
from mcpl_core.mcp.http.exchange import CallLog, Exchange
from mcpl_core.mcp.http.quiet import LOUD_LOGGERS, quiet
from mcpl_core.mcp.http.retry import RetrySeries, RetrySettings
from mcpl_core.mcp.replay import Watched
from mcpl_core.wire.messages import Notification, Request, decode_message, encode_request

pytestmark = pytest.mark.anyio


class Watch:
    """Keeps what is announced; observes nothing."""

    def __init__(self) -> None:
        self.open: dict[Any, Exchange] = {}
        self.watched = Watched()

    def expect(self, id: Any, exchange: Exchange) -> None:
        self.open[id] = exchange

    def forget(self, id: Any) -> None:
        self.open.pop(id, None)


class Ends:
    """Both ends of a channel."""

    def __init__(
        self,
        channel: Channel,
        watch: Watch,
        to_us: MemoryObjectSendStream[Any],
        from_us: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        self.channel = channel
        self.watch = watch
        self.to_us = to_us
        self.from_us = from_us

    async def sent(self) -> Any:
        with anyio.fail_after(5):
            return (await self.from_us.receive()).message

    async def say(self, message: Any) -> None:
        await self.to_us.send(SessionMessage(message))


@asynccontextmanager
async def channel(**handlers: Callable[[Any], Any]) -> AsyncIterator[Ends]:
    to_us, read = anyio.create_memory_object_stream[Any](8)
    write, from_us = anyio.create_memory_object_stream[SessionMessage](8)
    watch: Any = Watch()
    named = {name.replace("__", "/"): handler for name, handler in handlers.items()}
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        made = Channel(read, write, watch, tasks.start_soon, named, 10_000)
        tasks.start_soon(made.pump)
        try:
            yield Ends(made, watch, to_us, from_us)
        except Exception as exc:
            failure = exc
        finally:
            tasks.cancel_scope.cancel()
    for stream in (to_us, read, write, from_us, made.for_sdk):
        stream.close()
    if failure is not None:
        raise failure


def exchange() -> Exchange:
    return Exchange(CallLog(RetrySeries(RetrySettings(), 0.0)))


async def test_requests_have_ids_of_their_own_and_get_what_the_sdk_says() -> None:
    found: list[Any] = []
    async with channel() as ends, anyio.create_task_group() as tasks:

        async def ask(method: str) -> None:
            found.append(await ends.channel.attempt(method, {"a": 1}, {"h": "1"}, exchange()))

        tasks.start_soon(ask, "x/one")
        first = await ends.from_us.receive()
        tasks.start_soon(ask, "x/two")
        second = await ends.sent()
        assert isinstance(first.metadata, ClientMessageMetadata)
        assert first.metadata.headers == {"h": "1"}
        assert isinstance(first.message, JSONRPCRequest)
        assert first.message.params == {"a": 1}
        assert first.message.id != second.id
        assert set(ends.watch.open) == {first.message.id, second.id}
        await ends.say(JSONRPCResponse(jsonrpc="2.0", id=second.id, result={"odd": None}))
        error = ErrorData(code=-32601, message="no")
        await ends.say(JSONRPCError(jsonrpc="2.0", id=first.message.id, error=error))
    assert found[0] == {"odd": None}
    assert isinstance(found[1], MethodNotFound)
    assert ends.watch.open == {}


async def test_an_answer_that_was_observed_is_enough() -> None:
    mine = exchange()
    async with channel() as ends, anyio.create_task_group() as tasks:
        tasks.start_soon(ends.channel.attempt, "x", None, {}, mine)
        message = await ends.sent()
        assert "params" not in message.model_fields_set
        assert mine.on_answer is not None
        mine.on_answer()
    # What the SDK says of it later is nobody's.
    async with channel() as ends:
        await ends.say(JSONRPCResponse(jsonrpc="2.0", id=4711, result={}))
        await anyio.wait_all_tasks_blocked()
        assert ends.channel.for_sdk.statistics().current_buffer_used == 0


async def test_the_answers_of_the_sdk_s_own_requests_are_the_sdk_s() -> None:
    async with channel() as ends:
        await ends.say(JSONRPCResponse(jsonrpc="2.0", id=1, result={"protocolVersion": "x"}))
        with anyio.fail_after(5):
            item = await ends.channel.for_sdk.receive()
        assert isinstance(item, SessionMessage)
        assert isinstance(item.message, JSONRPCResponse)


async def test_what_the_sdk_cannot_write_is_sent_all_the_same() -> None:
    deep: Any = []
    for _ in range(240):
        deep = [deep]
    for params in ({"x": "\ud800"}, {"x": deep}):
        mine = exchange()
        async with channel() as ends, anyio.create_task_group() as tasks:
            tasks.start_soon(ends.channel.attempt, "x", params, {}, mine)
            message = await ends.sent()
            assert "params" not in message.model_fields_set
            assert mine.body is not None
            decoded = decode_message(mine.body)
            assert isinstance(decoded, Request)
            assert decoded.params == params
            tasks.cancel_scope.cancel()


async def test_params_without_a_json_form_go_nowhere() -> None:
    async with channel() as ends:
        with pytest.raises(UnencodableError):
            await ends.channel.attempt("x", {"a": float("inf")}, {}, exchange())
        with pytest.raises(MessageTooLargeError):
            await ends.channel.attempt("x", {"a": "x" * 10_000}, {}, exchange())
        for params in ({"a": object()}, {"a": "\ud800"}):
            with pytest.raises(UnencodableError):
                await ends.channel.notify("notifications/x", params, {})
        with pytest.raises(MessageTooLargeError):
            await ends.channel.notify("notifications/x", {"a": "x" * 10_000}, {})
        assert ends.watch.open == {}
        assert ends.from_us.statistics().current_buffer_used == 0


@pytest.mark.parametrize(
    ("seen", "sent", "matched", "told"),
    [(True, True, True, True), (True, False, True, False), (False, False, True, False), (False, False, False, True)],
)
async def test_a_server_is_told_only_of_what_it_was_sent(seen: bool, sent: bool, matched: bool, told: bool) -> None:
    mine = exchange()
    async with channel() as ends:
        ends.watch.watched.matched = matched
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ends.channel.attempt, "x", None, {}, mine)
            request = await ends.sent()
            mine.seen, mine.sent = seen, sent
            tasks.cancel_scope.cancel()
        assert mine.aborted
        assert ends.watch.open == {}
        if told:
            notice = await ends.sent()
            assert (notice.method, notice.params["requestId"]) == ("notifications/cancelled", request.id)
        assert ends.from_us.statistics().current_buffer_used == 0


async def test_the_end_of_the_streams_is_the_end_of_all_waiting() -> None:
    found: list[Any] = []
    async with channel() as ends:

        async def ask() -> None:
            found.append(await ends.channel.attempt("x", None, {}, exchange()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await ends.sent()
            await ends.to_us.aclose()
        assert found == [None]
        with pytest.raises(ConnectionClosedError) as caught:
            await ends.channel.attempt("x", None, {}, exchange())
        assert caught.value.outcome == "not-sent"
        await ends.channel.notify("notifications/x", None, {})


async def test_a_message_of_the_limit_is_not_too_large() -> None:
    mine = exchange()
    fill = "x" * (10_000 - len(encode_request(1001, "x", {"a": ""})))
    async with channel() as ends, anyio.create_task_group() as tasks:
        tasks.start_soon(ends.channel.attempt, "x", {"a": fill}, {}, mine)
        assert (await ends.sent()).params == {"a": fill}
        assert mine.body is not None and len(mine.body) == 10_000
        tasks.cancel_scope.cancel()
    async with channel() as ends:
        with pytest.raises(MessageTooLargeError) as caught:
            await ends.channel.attempt("x", {"a": f"{fill}x"}, {}, exchange())
        assert (caught.value.size, caught.value.limit) == (10_001, 10_000)


async def test_notifications_are_sent_with_their_headers() -> None:
    async with channel() as ends:
        await ends.channel.notify("notifications/x", {"a": None}, {"h": "1"})
        item = await ends.from_us.receive()
        assert isinstance(item.message, JSONRPCNotification)
        assert item.message.params == {"a": None}
        assert isinstance(item.metadata, ClientMessageMetadata)
        assert item.metadata.headers == {"h": "1"}
        await ends.channel.notify("notifications/y", None, {})
        item = await ends.from_us.receive()
        assert "params" not in item.message.model_fields_set
        assert item.metadata is None


async def test_what_comes_is_heard_in_its_order(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    def fail(method: str, params: Any) -> None:
        raise ValueError("canary")

    async with channel() as ends:
        ends.channel.on_progress = lambda params: heard.append(params)
        ends.channel.on_notification(fail)
        remove = ends.channel.on_notification(lambda method, params: heard.append((method, params)))
        note = {"progressToken": "p", "progress": 1}
        await ends.say(JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params=note))
        await ends.say(JSONRPCNotification(jsonrpc="2.0", method="notifications/x"))
        await ends.to_us.send(ValueError("canary"))
        await anyio.wait_all_tasks_blocked()
        remove()
        remove()
        mine = exchange()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ends.channel.attempt, "x", None, {}, mine)
            await ends.sent()
            assert mine.on_message is not None
            for text in (b'{"jsonrpc":"2.0","method":"a"}', b'{"jsonrpc":"2.0","method":"b","params":3}'):
                message = decode_message(text)
                assert isinstance(message, Notification)
                mine.on_message(message)
            tasks.cancel_scope.cancel()
    assert heard == [note, ("notifications/progress", note), ("notifications/x", None)]
    assert "canary" not in caplog.text


async def test_the_server_s_requests_are_answered_from_wherever_they_come() -> None:
    began: list[Any] = []

    async def elicit(params: Any) -> dict[str, Any]:
        return {"got": params}

    def refuse(params: Any) -> dict[str, Any]:
        raise RpcError(-1, "not today", {"a": 1})

    def fail(params: Any) -> dict[str, Any]:
        raise ValueError("canary")

    handlers: dict[str, Any] = {"elicitation__create": elicit, "roots__list": refuse, "sampling__createMessage": fail}
    async with channel(**handlers) as ends:
        ends.channel.on_handling = lambda method, change: began.append((method, change))
        answers = {}
        for id, method in (("p", "ping"), (5, "x/odd"), ("e", "elicitation/create"), ("r", "roots/list")):
            await ends.say(JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params={"odd": None}))
            answers[id] = await ends.sent()
        mine = exchange()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ends.channel.attempt, "x", None, {}, mine)
            await ends.sent()
            message = decode_message(b'{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage"}')
            assert isinstance(message, Request)
            assert mine.on_message is not None
            mine.on_message(message)
            answers["s"] = await ends.sent()
            tasks.cancel_scope.cancel()
    assert answers["p"].result == {}
    assert answers[5].error.code == -32601
    assert answers["e"].result == {"got": {"odd": None}}
    assert (answers["r"].error.code, answers["r"].error.message, answers["r"].error.data) == (-1, "not today", {"a": 1})
    assert (answers["s"].error.code, answers["s"].error.message) == (-32603, "Internal error")
    assert began[:2] == [("elicitation/create", 1), ("elicitation/create", -1)]
    assert sum(change for _, change in began) == 0


@pytest.mark.parametrize("value", [float("nan"), "\ud800", object(), "x" * 10_000])
async def test_answers_that_cannot_be_written_are_errors(value: Any) -> None:
    def refuse(params: Any) -> dict[str, Any]:
        raise RpcError(-1, "no", {"a": value})

    async with channel(roots__list=lambda params: {"a": value}, elicitation__create=refuse) as ends:
        await ends.say(JSONRPCRequest(jsonrpc="2.0", id=1, method="roots/list"))
        assert (await ends.sent()).error.code == -32603
        await ends.say(JSONRPCRequest(jsonrpc="2.0", id=2, method="elicitation/create"))
        answer = await ends.sent()
        assert (answer.error.code, answer.error.data) == (-1, None)


async def test_the_sdk_s_tasks_know_whose_message_they_carry(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    class Stream:
        async def send(self, item: Any) -> None:
            logging.getLogger(LOUD_LOGGERS[0]).error("canary")

        def __aiter__(self) -> Any:
            raise NotImplementedError

    watch: Any = Watch()
    made = Channel(Stream(), Stream(), watch, lambda job: None, {}, 1000)
    with quiet():
        await made.notify("notifications/x", None, {})
    assert "canary" not in caplog.text
    made._to_sdk.close()
    made.for_sdk.close()


@pytest.mark.parametrize(("taken_back", "answered"), [(9, False), ("9", True), (None, True), ([], True), (True, True)])
@pytest.mark.spec("R-mcphttp-26")
async def test_a_request_that_the_server_takes_back_is_not_answered(taken_back: Any, answered: bool) -> None:
    began, go_on, ended = anyio.Event(), anyio.Event(), anyio.Event()

    async def elicit(params: Any) -> dict[str, Any]:
        began.set()
        try:
            await go_on.wait()
        finally:
            ended.set()
        return {"answered": True}

    async with channel(elicitation__create=elicit) as ends:
        with anyio.fail_after(5):
            await ends.say(JSONRPCRequest(jsonrpc="2.0", id=9, method="elicitation/create"))
            await began.wait()
            params = {"requestId": taken_back}
            await ends.say(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params))
            await anyio.wait_all_tasks_blocked()
            assert ended.is_set() is not answered
            go_on.set()
            await ends.say(JSONRPCRequest(jsonrpc="2.0", id=10, method="ping"))
            ids = {(await ends.sent()).id for _ in range(2 if answered else 1)}
            assert ids == ({9, 10} if answered else {10})


async def test_a_server_has_only_so_many_requests_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    go_on, asked = anyio.Event(), 0

    async def elicit(params: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        await go_on.wait()
        return {}

    monkeypatch.setattr("mcpl_core.mcp.http.channel._MOST_ANSWERING", 2)
    async with channel(elicitation__create=elicit) as ends:
        for id in range(3):
            await ends.say(JSONRPCRequest(jsonrpc="2.0", id=id, method="elicitation/create"))
        await anyio.wait_all_tasks_blocked()
        assert (asked, len(caplog.records)) == (2, 1)
        go_on.set()
        assert {(await ends.sent()).id for _ in range(2)} == {0, 1}
        await ends.say(JSONRPCRequest(jsonrpc="2.0", id=3, method="elicitation/create"))
        assert (await ends.sent()).id == 3


async def test_a_request_with_the_id_of_another_can_be_taken_back_after_that_one() -> None:
    first, second, ended = anyio.Event(), anyio.Event(), anyio.Event()
    waiting = iter((first, second))

    async def elicit(params: Any) -> dict[str, Any]:
        try:
            await next(waiting).wait()
        except BaseException:
            ended.set()
            raise
        return {}

    async with channel(elicitation__create=elicit) as ends:
        for _ in range(2):
            await ends.say(JSONRPCRequest(jsonrpc="2.0", id=9, method="elicitation/create"))
            await anyio.wait_all_tasks_blocked()
        first.set()
        assert (await ends.sent()).id == 9
        note = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 9})
        await ends.say(note)
        with anyio.fail_after(5):
            await ended.wait()
