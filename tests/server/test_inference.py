"""Inferences that a server asks for."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

import anyio
import msgspec
import pytest

from mcpl_core import InvalidValueError, LocalProtocolError, RpcError, image_content
from mcpl_core.protocol import InferenceChunkParams, InferenceMessage, InferenceRequestResult
from mcpl_core.server.inference import (
    InferenceStream,
    RunningInference,
    RunningInferences,
    inference_params,
    inside_hook,
    refuse_inside_hook,
)


def wire(*args: Any, **options: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(inference_params(*args, **options)))


@pytest.mark.spec("11.2-1", "6.5-1")
def test_a_text_is_one_message_of_the_user() -> None:
    assert wire("a.b", "hello") == {
        "featureSet": "a.b",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": False,
    }


def test_everything_that_is_given_is_said() -> None:
    image = image_content(b"\x00", "image/png")
    messages = [InferenceMessage(role="system", content="s"), {"role": "user", "content": ["a", image]}]
    assert wire(
        "a.b", messages, conversation_id="c", max_tokens=5, temperature=0.5, preferences={"tier": "low"}, stream=True
    ) == {
        "featureSet": "a.b",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, image]},
        ],
        "conversationId": "c",
        "preferences": {"tier": "low", "maxTokens": 5, "temperature": 0.5},
        "stream": True,
    }


@pytest.mark.parametrize(
    ("messages", "options"),
    [
        ([{"role": "user"}], {}),
        ([{"content": "x"}], {}),
        ([3], {}),
        ([{"role": "user", "content": [3]}], {}),
        ("x", {"max_tokens": "many"}),
        ("x", {"conversation_id": 3}),
    ],
)
def test_what_does_not_fit_is_refused(messages: Any, options: Any) -> None:
    with pytest.raises(InvalidValueError):
        inference_params("a", messages, **options)


# -- hooks


@pytest.mark.spec("10.7-1")
def test_inside_a_hook_no_inference_is_begun() -> None:
    refuse_inside_hook()
    with inside_hook(), pytest.raises(LocalProtocolError):
        refuse_inside_hook()
    refuse_inside_hook()


@pytest.mark.spec("10.7-1")
def test_what_a_hook_started_is_free_when_the_hook_has_ended() -> None:
    with inside_hook():
        started = copy_context()
        with pytest.raises(LocalProtocolError):
            started.run(refuse_inside_hook)
    started.run(refuse_inside_hook)


def test_hooks_side_by_side_do_not_end_each_other() -> None:
    with inside_hook():
        with inside_hook():
            pass
        with pytest.raises(LocalProtocolError):
            refuse_inside_hook()


# -- streams


def chunk(index: int, delta: str = "x", id: int = 1) -> InferenceChunkParams:
    return InferenceChunkParams(request_id=id, index=index, delta=delta)


RESULT = InferenceRequestResult(content="ab", model="m")


@pytest.mark.anyio
async def test_a_stream_gives_the_pieces_and_then_the_result() -> None:
    stream = InferenceStream()
    heard: list[str] = []

    async def listen() -> None:
        async for piece in stream:
            assert stream.result is None or heard == ["a"]
            heard.append(piece)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            assert stream.add(chunk(0, "a"))
            await anyio.wait_all_tasks_blocked()
            assert heard == ["a"]
            stream.add(chunk(1, "b"))
            stream.end(RESULT)
    assert heard == ["a", "b"]
    assert stream.result is RESULT
    assert not stream.add(chunk(2))


@pytest.mark.anyio
async def test_pieces_come_in_order_and_once() -> None:
    stream = InferenceStream()
    # Gaps and a beginning at 1 are the host's affair; going back is not.
    taken = [stream.add(chunk(index, str(index))) for index in (1, 1, 0, 4, 2, 5)]
    stream.end(RESULT)
    assert taken == [True, False, False, True, False, True]
    assert [piece async for piece in stream] == ["1", "4", "5"]


@pytest.mark.anyio
async def test_a_stream_raises_what_the_request_raised_after_its_pieces() -> None:
    stream = InferenceStream()
    stream.add(chunk(0, "a"))
    stream.end(failure=RpcError(-32001, "no"))
    heard = []
    with pytest.raises(RpcError):
        async for piece in stream:
            heard.append(piece)  # noqa: PERF401
    assert heard == ["a"]


@pytest.mark.anyio
async def test_running_inferences_are_found_by_their_id_until_they_are_over() -> None:
    running = RunningInferences()
    first, second = (RunningInference(inference_params("a", "x"), 1, InferenceStream()) for _ in range(2))
    running.add(first)
    running.add(second)
    assert running.find(1) is None
    running.sent(first, 1)
    running.sent(second, 2)
    assert (running.find(1), running.find(2)) == (first, second)
    running.remove(first)
    running.remove(first)
    assert (running.find(1), list(running)) == (None, [second])


@pytest.mark.anyio
@pytest.mark.spec("6.7-18")
async def test_one_that_is_taken_back_is_cancelled_and_knows_why() -> None:
    running = RunningInferences()
    inference = RunningInference(inference_params("a", "x"), 1, None)
    running.add(inference)
    running.sent(inference, 1)
    denied = RpcError(-32002, "no")
    with anyio.fail_after(5):
        with inference.scope:
            running.take_back(inference, denied)
            await anyio.sleep_forever()
    assert inference.denied is denied
    assert (running.find(1), list(running)) == (None, [])


@pytest.mark.anyio
async def test_what_was_read_waits_no_longer() -> None:
    stream = InferenceStream()
    for index in range(100):
        stream.add(chunk(index, "x" * 100_000))
        assert not stream.overflows
        await stream.__anext__()
    for index in range(100, 140):
        stream.add(chunk(index, "x" * 100_000))
    assert stream.overflows
