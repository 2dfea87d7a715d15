"""What a server may ask of its host: checked before a byte is sent, sent in the SPEC's shape, read as its type."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from mcpl_core import (
    METHODS,
    CapabilityDenied,
    ConnectionTimeoutError,
    FeatureSetNotEnabled,
    InvalidResultError,
    InvalidValueError,
    LocalProtocolError,
    Notification,
    Request,
    RpcError,
    UnknownFeatureSet,
    method,
)
from mcpl_core.protocol import (
    ChannelDescriptor,
    IncomingMessage,
    InferenceChunkParams,
    MessageAuthor,
    Method,
)
from mcpl_core.server import HostCalls
from mcpl_core.server.inference import inside_hook
from tests.server.host_calls import ends, quiet

pytestmark = pytest.mark.anyio

Call = Callable[[HostCalls], Awaitable[Any]]
CHANNEL = ChannelDescriptor(id="x:1", type="x", label="one", direction="inbound")
MESSAGE = IncomingMessage(
    channel_id="x:1", message_id="m1", author=MessageAuthor(id="u"), timestamp="2026-01-01T00:00:00Z", content="hi"
)
INFERRED = {"content": "c", "model": "m"}

#: Call, its method, the capability, the params on the wire (as far as given), and a result.
CALLS: list[tuple[Call, str, str, dict[str, Any], dict[str, Any]]] = [
    (
        lambda c: c.push_event("a", "x", tags=["a:b"], event_id="e"),
        method.PUSH_EVENT,
        "pushEvents",
        {"featureSet": "a", "eventId": "e", "tags": ["a:b"], "payload": {"content": [{"type": "text", "text": "x"}]}},
        {"accepted": True},
    ),
    (
        lambda c: c.register_channels([CHANNEL]),
        method.CHANNELS_REGISTER,
        "channels.register",
        {"channels": [{"id": "x:1", "type": "x", "label": "one", "direction": "inbound"}]},
        {"results": [{"id": "x:1", "accepted": True}]},
    ),
    (
        lambda c: c.change_channels(removed=["x:1"]),
        method.CHANNELS_CHANGED,
        "channels.register",
        {"removed": ["x:1"]},
        {"results": []},
    ),
    (lambda c: c.list_channels(), method.CHANNELS_LIST, "channels.register", {}, {"channels": []}),
    (
        lambda c: c.incoming([MESSAGE]),
        method.CHANNELS_INCOMING,
        "channels.incoming",
        {
            "messages": [
                {
                    "channelId": "x:1",
                    "messageId": "m1",
                    "author": {"id": "u"},
                    "timestamp": "2026-01-01T00:00:00Z",
                    "content": [{"type": "text", "text": "hi"}],
                }
            ]
        },
        {"results": [{"messageId": "m1", "accepted": True}]},
    ),
    (
        lambda c: c.request_inference("a", "hi", max_tokens=3),
        method.INFERENCE_REQUEST,
        "inferenceRequest",
        {"featureSet": "a", "messages": [{"role": "user", "content": "hi"}], "preferences": {"maxTokens": 3}},
        INFERRED,
    ),
    (lambda c: c.model_info(), method.MODEL_INFO, "modelInfo", {}, {"id": "m"}),
    (
        lambda c: c.call(method.TOOLSETS_CHANGED, {"hints": []}),
        method.TOOLSETS_CHANGED,
        "tools",
        {},
        {},
    ),
]
REQUESTS = [call for call in CALLS if METHODS[call[1]].form != "notification"]
ALL = tuple(path for path in METHODS[method.CONTEXT_BEFORE_INFERENCE].capabilities) + (
    "pushEvents",
    "tools",
    "modelInfo",
    "inferenceRequest",
    "inferenceRequest.streaming",
    "inferenceLifecycle",
    *(
        f"channels.{leaf}"
        for leaf in ("register", "lifecycle", "publish", "incoming", "streaming", "acknowledge", "typing")
    ),
    "stateUpdate",
    "branches.list",
    "branches.create",
    "branches.switch",
    "branches.delete",
    "access.token",
)


def named(calls: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("call", "name", "path", "params", "result"), calls, ids=[c[1] for c in calls])


@named(REQUESTS)
@pytest.mark.spec("14.1-1")
async def test_a_call_that_is_granted_goes_out_and_its_answer_is_typed(
    call: Call, name: str, path: str, params: Any, result: Any
) -> None:
    found: list[Any] = []

    async def run() -> None:
        found.append(await call(end.calls))

    async with ends(*ALL) as end:
        end.tasks.start_soon(run)
        request = await end.next(name)
        assert {key: request.params.get(key) for key in params} == params
        assert isinstance(request.params, dict)
        await end.host.send_response(request.id, result)
        await quiet()
        assert isinstance(found[0], METHODS[name].result)
        assert msgspec.to_builtins(found[0]).items() >= result.items()


@named(CALLS)
@pytest.mark.spec("5.3-6", "14.1-1")
async def test_a_call_that_is_not_granted_is_denied_before_a_byte_is_sent(
    call: Call, name: str, path: str, params: Any, result: Any
) -> None:
    async with ends() as end:
        for others in ((), tuple(other for other in ALL if other != path)):
            if others:
                end.grant(*others)
            with pytest.raises(CapabilityDenied) as caught:
                await call(end.calls)
            assert caught.value.data["capability"] == path
            assert ("reason" in caught.value.data) is (not others)
        assert end.calls.connection.stats.sent == 0


@pytest.mark.spec("14.5-4", "R-chan-2")
async def test_changed_channels_are_always_a_request() -> None:
    async with ends("channels.register") as end:
        end.tasks.start_soon(lambda: end.calls.change_channels(added=[CHANNEL]))
        await end.next(method.CHANNELS_CHANGED)


async def test_a_notification_is_sent_as_one() -> None:
    async with ends("tools") as end:
        await end.calls.call(method.TOOLSETS_CHANGED, {"hints": []})
        assert isinstance(await end.host.next_message(), Notification)


@pytest.mark.parametrize(
    ("feature_set", "error"),
    [("b", FeatureSetNotEnabled), ("none", UnknownFeatureSet), ("c", CapabilityDenied)],
)
async def test_the_feature_set_that_a_call_names_must_stand(feature_set: str, error: type[RpcError]) -> None:
    async with ends("pushEvents", "inferenceRequest") as end:
        with pytest.raises(error):
            await end.calls.push_event(feature_set, "x")
        with pytest.raises(error):
            await end.calls.call(method.PUSH_EVENT, event(feature_set))
        assert end.calls.connection.stats.sent == 0


def event(feature_set: str) -> dict[str, Any]:
    return {"featureSet": feature_set, "eventId": "e", "timestamp": "t", "payload": {"content": []}}


@pytest.mark.spec("6.7-18")
async def test_a_reduction_counts_for_the_very_next_call() -> None:
    async with ends(*ALL) as end:
        end.tasks.start_soon(lambda: end.calls.push_event("a", "x"))
        await end.next(method.PUSH_EVENT)
        end.grant(*ALL, disabled=["a"])
        with pytest.raises(FeatureSetNotEnabled):
            await end.calls.push_event("a", "x")
        end.grant(*(path for path in ALL if path != "modelInfo"))
        with pytest.raises(CapabilityDenied):
            await end.calls.model_info()


async def test_what_is_allowed_and_enabled_can_be_asked() -> None:
    async with ends("tools") as end:
        assert (end.calls.allows("tools"), end.calls.allows("pushEvents")) == (True, False)
        assert (end.calls.enabled("b"), end.calls.enabled("a"), end.calls.enabled("none")) == (True, False, False)


# -- any method


@pytest.mark.parametrize("name", ["no/such", method.TOOLS_CALL, method.INFERENCE_CHUNK])
async def test_a_method_that_no_server_sends_is_refused(name: str) -> None:
    async with ends(*ALL) as end:
        with pytest.raises(LocalProtocolError):
            await end.calls.call(name)
        assert end.calls.connection.stats.sent == 0


async def test_a_method_of_the_application_is_checked_like_any() -> None:
    row = Method(name="x/do", direction="server->host", form="request", params=Any, result=dict[str, int],
                 capabilities=frozenset({"tools"}))  # fmt: skip
    async with ends() as end:
        calls = HostCalls(end.calls.connection, end.calls.policy, METHODS.extend(row))
        with pytest.raises(CapabilityDenied):
            await calls.call("x/do")
        end.grant("tools")
        found: list[Any] = []

        async def run() -> None:
            found.append(await calls.call("x/do", {"a": 1}))

        end.tasks.start_soon(run)
        request = await end.next("x/do")
        await end.host.send_response(request.id, {"b": 2})
        await quiet()
        assert found == [{"b": 2}]


async def test_plain_params_are_read_before_they_are_judged() -> None:
    async with ends("inferenceRequest") as end:
        plain = {"featureSet": "a", "messages": [], "stream": True}
        with pytest.raises(CapabilityDenied) as caught:
            await end.calls.call(method.INFERENCE_REQUEST, plain)
        assert caught.value.data["capability"] == "inferenceRequest.streaming"
        with pytest.raises(InvalidValueError) as wrong:
            await end.calls.call(method.INFERENCE_REQUEST, {"featureSet": 3, "messages": []})
        assert wrong.value.path == "$.featureSet"
        assert end.calls.connection.stats.sent == 0


async def test_a_result_that_does_not_fit_says_where() -> None:
    caught: list[InvalidResultError] = []

    async def run() -> None:
        try:
            await end.calls.push_event("a", "x")
        except InvalidResultError as exc:
            caught.append(exc)

    async with ends(*ALL) as end:
        end.tasks.start_soon(run)
        request = await end.next(method.PUSH_EVENT)
        await end.host.send_response(request.id, {"accepted": "yes"})
        await quiet()
    assert [(exc.method, exc.path) for exc in caught] == [(method.PUSH_EVENT, "$.accepted")]


@pytest.mark.spec("16.1-5")
async def test_incoming_messages_are_checked() -> None:
    async with ends(*ALL) as end:
        for bad in ({"tags": ["bare"]}, {"content": 3}):
            with pytest.raises(InvalidValueError):
                await end.calls.incoming([MESSAGE, msgspec.structs.replace(MESSAGE, **bad)])
        plain: Any = {"channelId": "x:1"}
        with pytest.raises(TypeError):
            await end.calls.incoming([plain])
        assert end.calls.connection.stats.sent == 0


# -- inference


@pytest.mark.spec("10.7-1")
async def test_inside_a_hook_no_inference_is_asked_for_in_whatever_way() -> None:
    async with ends(*ALL) as end:
        with inside_hook():
            with pytest.raises(LocalProtocolError):
                await end.calls.request_inference("a", "x")
            with pytest.raises(LocalProtocolError):
                async with end.calls.stream_inference("a", "x"):
                    raise AssertionError("not entered")
            with pytest.raises(LocalProtocolError):
                await end.calls.call(method.INFERENCE_REQUEST, {"featureSet": "a", "messages": []})
        assert end.calls.connection.stats.sent == 0


async def test_streaming_needs_its_own_path_and_the_set_must_use_it() -> None:
    async with ends("inferenceRequest") as end:
        with pytest.raises(CapabilityDenied):
            async with end.calls.stream_inference("c", "x"):
                raise AssertionError("not entered")
        end.grant("inferenceRequest", "inferenceRequest.streaming")
        with pytest.raises(CapabilityDenied) as caught:
            async with end.calls.stream_inference("c", "x"):
                raise AssertionError("not entered")
        assert caught.value.data["reason"] == "declaration_mismatch"


def chunk(request: Request, index: int, delta: str) -> InferenceChunkParams:
    return InferenceChunkParams(request_id=request.id, index=index, delta=delta)


async def test_two_streams_at_once_keep_their_pieces_apart() -> None:
    heard: dict[str, list[str]] = {"one": [], "two": []}
    results: dict[str, str] = {}

    async def listen(name: str) -> None:
        async with end.calls.stream_inference("a", name) as stream:
            async for piece in stream:
                heard[name].append(piece)
            assert stream.result is not None
            results[name] = stream.result.content

    async with ends(*ALL) as end:
        end.tasks.start_soon(listen, "one")
        first = await end.next(method.INFERENCE_REQUEST)
        end.tasks.start_soon(listen, "two")
        second = await end.next(method.INFERENCE_REQUEST)
        for index, (request, delta) in enumerate([(first, "1a"), (second, "2a"), (first, "1b"), (second, "2b")]):
            end.calls.take_chunk(chunk(request, index, delta))
        await end.host.send_response(second.id, {**INFERRED, "content": "2"})
        await end.host.send_response(first.id, {**INFERRED, "content": "1"})
        await quiet()
        assert heard == {"one": ["1a", "1b"], "two": ["2a", "2b"]}
        assert results == {"one": "1", "two": "2"}
        # A chunk that comes late goes nowhere.
        end.calls.take_chunk(chunk(first, 9, "late"))


async def test_a_chunk_that_is_not_granted_now_goes_nowhere() -> None:
    heard: list[str] = []

    async def listen() -> None:
        async with end.calls.stream_inference("a", "x") as stream:
            heard.extend([piece async for piece in stream])

    async with ends(*ALL) as end:
        end.tasks.start_soon(listen)
        request = await end.next(method.INFERENCE_REQUEST)
        # The policy itself, and nobody was told of it yet.
        end.calls.policy.update({"effectiveCapabilities": ["inferenceRequest"]}, "request")
        with pytest.raises(CapabilityDenied):
            end.calls.take_chunk(chunk(request, 0, "a"))
        await end.host.send_response(request.id, INFERRED)
        await quiet()
    assert heard == []


async def test_leaving_a_stream_early_takes_the_request_back() -> None:
    async def listen() -> None:
        async with end.calls.stream_inference("a", "x") as stream:
            async for _ in stream:
                break

    async with ends(*ALL) as end:
        end.tasks.start_soon(listen)
        request = await end.next(method.INFERENCE_REQUEST)
        end.calls.take_chunk(chunk(request, 0, "a"))
        notice = await end.host.next_message()
        assert notice.method == method.CANCELLED
        assert notice.params["requestId"] == request.id
        assert list(end.calls.inferences) == []


async def test_what_the_body_raises_leaves_a_stream_as_it_is() -> None:
    async with ends(*ALL) as end:
        with pytest.raises(KeyError):
            async with end.calls.stream_inference("a", "x"):
                raise KeyError("mine")
        assert list(end.calls.inferences) == []


async def test_a_stream_whose_request_failed_raises_that() -> None:
    raised: list[BaseException] = []

    async def listen() -> None:
        try:
            async with end.calls.stream_inference("a", "x") as stream:
                async for _ in stream:
                    pass
                raise AssertionError("not reached")
        except RpcError as exc:
            raised.append(exc)

    async with ends(*ALL) as end:
        end.tasks.start_soon(listen)
        request = await end.next(method.INFERENCE_REQUEST)
        await end.host.send_error(request.id, -32001, "no", {"featureSet": "a"})
        await quiet()
        assert [type(exc) for exc in raised] == [FeatureSetNotEnabled]


@pytest.mark.spec("6.7-18")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_reduction_takes_an_inference_back_that_is_on_its_way(stream: bool) -> None:
    raised: list[BaseException] = []

    async def ask() -> None:
        try:
            if not stream:
                await end.calls.request_inference("a", "x")
            async with end.calls.stream_inference("a", "x") as pieces:
                async for _ in pieces:
                    pass
        except RpcError as exc:
            raised.append(exc)

    async with ends(*ALL) as end:
        end.tasks.start_soon(ask)
        request = await end.next(method.INFERENCE_REQUEST)
        # What does not concern it leaves it alone.
        end.grant("inferenceRequest", "inferenceRequest.streaming", *(path for path in ALL if path != "access.token"))
        await quiet()
        assert raised == []
        end.grant(*ALL, disabled=["a"])
        notice = await end.host.next_message()
        assert (notice.method, notice.params["requestId"]) == (method.CANCELLED, request.id)
        await quiet()
        assert [type(exc) for exc in raised] == [FeatureSetNotEnabled]


async def test_chunks_are_refused_when_streaming_is_not_granted() -> None:
    async with ends(*ALL) as end:
        end.tasks.start_soon(lambda: end.calls.request_inference("a", "x"))
        request = await end.next(method.INFERENCE_REQUEST)
        # Nobody asked for pieces.
        end.calls.take_chunk(chunk(request, 0, "a"))


async def test_the_wait_for_an_inference_has_an_end_and_counts_anew_from_each_chunk() -> None:
    async with ends(*ALL) as end:
        with pytest.raises(ConnectionTimeoutError):
            await end.calls.request_inference("a", "x", timeout=0.01)
        extended: list[tuple[Any, float]] = []
        end.calls.connection.extend_timeout = lambda id, timeout: extended.append((id, timeout))  # type: ignore[method-assign]
        await end.next(method.INFERENCE_REQUEST)
        await end.host.next_message()

        async def listen(timeout: float | None) -> None:
            async with end.calls.stream_inference("a", "x", timeout=timeout) as stream:
                async for _ in stream:
                    pass

        end.tasks.start_soon(listen, 7.0)
        request = await end.next(method.INFERENCE_REQUEST)
        end.calls.take_chunk(chunk(request, 0, "a"))
        end.calls.take_chunk(chunk(request, 0, "again"))
        assert extended == [(request.id, 7.0)]
        end.tasks.start_soon(listen, None)
        request = await end.next(method.INFERENCE_REQUEST)
        end.calls.take_chunk(chunk(request, 0, "a"))
        assert len(extended) == 1
