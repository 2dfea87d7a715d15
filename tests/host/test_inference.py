"""Inference for servers, and what they may know of models."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core.host import DENY_ALL, HostPolicy, InferenceCall
from mcpl_core.host.audit import AuditRecord
from mcpl_core.protocol import InferenceRequestResult, ModelInfo, Usage
from tests.host.raw_server import embedded

pytestmark = pytest.mark.anyio

POLICY = HostPolicy.allow("inferenceRequest", "inferenceRequest.*", "modelInfo", "contextHooks.*.observe")
MODEL = ModelInfo(id="m-1", vendor="v", context_window=1000)


def ask(feature_set: str = "t.infer", **more: Any) -> dict[str, Any]:
    return {"featureSet": feature_set, "messages": [{"role": "user", "content": "Sum up"}], **more}


def result(text: str = "done") -> InferenceRequestResult:
    return InferenceRequestResult(
        content=text, model="m-1", finish_reason="end_turn", usage=Usage(input_tokens=1, output_tokens=2)
    )


async def test_a_handler_infers() -> None:
    calls: list[InferenceCall] = []

    async def handler(call: InferenceCall) -> InferenceRequestResult:
        calls.append(call)
        assert not await call.chunk("ignored")
        return result()

    audit: list[AuditRecord] = []
    async with embedded(POLICY, inference=handler, audit=audit) as (raw, _):
        params = ask(conversationId="conv", preferences={"maxTokens": 5, "tier": "low"})
        assert await raw.served("inference/request", params) == {
            "content": "done",
            "model": "m-1",
            "finishReason": "end_turn",
            "usage": {"inputTokens": 1, "outputTokens": 2},
        }
        assert await raw.waiting("inference/chunk") == []
    (call,) = calls
    assert (call.server, call.feature_set, call.conversation_id, call.messages[0].text) == (
        "raw", "t.infer", "conv", "Sum up",
    )  # fmt: skip
    assert (call.preferences.max_tokens, call.streams) == (5, False)
    (record,) = [record for record in audit if record.operation == "inference/request"]
    assert (record.outcome, record.feature_set, "m-1" in record.detail) == ("success", "t.infer", True)


@pytest.mark.spec("11.4-1")
async def test_chunks_come_before_the_result_and_in_order() -> None:
    async def handler(call: InferenceCall) -> InferenceRequestResult:
        assert call.conversation_id is None
        for piece in ("a", "b", "c"):
            assert await call.chunk(piece)
        return result("abc")

    async with embedded(POLICY, inference=handler) as (raw, _):
        request = raw.request("inference/request", ask(stream=True))
        raw.send(request)
        assert (await raw.answer(request))["result"]["content"] == "abc"
        sent = [each for each in raw.heard if each.get("method") == "inference/chunk"]
        assert [each["params"] for each in sent] == [
            {"requestId": request["id"], "index": index, "delta": delta} for index, delta in enumerate("abc")
        ]


async def test_a_plain_function_may_infer() -> None:
    async with embedded(POLICY, inference=lambda call: result()) as (raw, _):
        assert (await raw.served("inference/request", ask()))["content"] == "done"


@pytest.mark.spec("12-1")
@pytest.mark.parametrize(("name", "params"), [("inference/request", ask()), ("model/info", {})])
async def test_without_a_handler_there_is_an_error_and_no_silence(name: str, params: Any) -> None:
    async with embedded(POLICY) as (raw, _):
        assert (await raw.refused(name, params))["code"] == -32601
        mcpl = raw.heard[0]["params"]["capabilities"]["experimental"]["mcpl"]
        assert "inferenceRequest" not in mcpl and "modelInfo" not in mcpl
    async with embedded(DENY_ALL, inference=result, model_info=MODEL) as (raw, _):
        assert (await raw.refused(name, params))["code"] == -32002
        mcpl = raw.heard[0]["params"]["capabilities"]["experimental"]["mcpl"]
        assert (mcpl["inferenceRequest"], mcpl["modelInfo"]) == ({"streaming": True}, True)


@pytest.mark.parametrize(
    ("policy", "params", "code", "reason"),
    [
        (POLICY, ask("never"), -32003, None),
        (POLICY, ask("t.push"), -32001, "capability_denied"),
        (HostPolicy.allow("inferenceRequest", "tools"), ask("t.tools"), -32002, "declaration_mismatch"),
        (HostPolicy.allow("inferenceRequest"), ask("t.once", stream=True), -32002, None),
        (POLICY, ask("t.once", stream=True), -32002, "declaration_mismatch"),
        (POLICY, ask(messages=7), -32602, None),
        (POLICY, ask(preferences={"maxTokens": "x"}), -32602, None),
    ],
)
async def test_who_may_not_is_refused(policy: HostPolicy, params: Any, code: int, reason: str | None) -> None:
    async with embedded(policy, inference=lambda call: result()) as (raw, _):
        error = await raw.refused("inference/request", params)
        assert (error["code"], (error.get("data") or {}).get("reason")) == (code, reason)


async def test_no_inference_is_begun_inside_a_hook() -> None:
    async with embedded(POLICY, inference=lambda call: result()) as (raw, session):
        async with anyio.create_task_group() as tasks, session.inference(conversation_id="c") as inference:
            tasks.start_soon(inference.before, "hello")
            hook = await raw.next("context/beforeInference")
            error = await raw.refused("inference/request", ask())
            assert (error["code"], error["data"]["reason"]) == (-32002, "inside_hook")
            raw.reply(hook, {"featureSet": "t.infer", "contextInjections": []})
        assert (await raw.served("inference/request", ask()))["content"] == "done"


async def test_what_was_taken_away_while_the_model_ran_is_not_handed_out() -> None:
    go = anyio.Event()

    async def handler(call: InferenceCall) -> InferenceRequestResult:
        assert await call.chunk("a")
        await go.wait()
        assert not await call.chunk("b")
        return result()

    async with embedded(POLICY, inference=handler) as (raw, session):
        request = raw.request("inference/request", ask(stream=True))
        raw.send(request)
        await raw.next("inference/chunk")
        session.adopt(HostPolicy.allow("inferenceRequest"))
        go.set()
        assert (await raw.answer(request))["error"]["code"] == -32002
        assert await raw.waiting("inference/chunk") == []


async def test_a_request_that_is_taken_back_cancels_its_handler() -> None:
    ended = anyio.Event()

    async def handler(call: InferenceCall) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with embedded(POLICY, inference=handler) as (raw, _):
        request = raw.request("inference/request", ask())
        raw.send(request)
        await anyio.wait_all_tasks_blocked()
        raw.send(raw.note("notifications/cancelled", {"requestId": request["id"]}))
        await ended.wait()


async def test_a_handler_that_fails_is_recorded() -> None:
    audit: list[AuditRecord] = []

    def handler(call: InferenceCall) -> None:
        raise RuntimeError("secret")

    async with embedded(POLICY, inference=handler, audit=audit) as (raw, _):
        error = await raw.refused("inference/request", ask())
        assert (error["code"], "secret" in str(error)) == (-32603, False)
    assert ("failure", "handler_failed") in [(record.outcome, record.code) for record in audit]


# -- models


async def ask_later(server: str) -> ModelInfo:
    return ModelInfo(id=f"for-{server}")


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (MODEL, {"id": "m-1", "vendor": "v", "contextWindow": 1000}),
        (lambda server: ModelInfo(id=f"for-{server}"), {"id": "for-raw"}),
        (ask_later, {"id": "for-raw"}),
    ],
)
async def test_models_are_told(info: Any, expected: Any) -> None:
    async with embedded(POLICY, model_info=info) as (raw, _):
        assert await raw.served("model/info") == expected


async def test_a_model_that_is_asked_for_late_is_not_told() -> None:
    async with embedded(POLICY, model_info=ask_later) as (raw, session):
        request = raw.request("model/info", {})
        raw.send(request)
        session.adopt(DENY_ALL)
        assert (await raw.answer(request))["error"]["code"] == -32002
