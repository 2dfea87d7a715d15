"""One inference from its beginning to its end, as servers hear of it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core.errors import ConnectionClosedError, LocalProtocolError
from mcpl_core.host import DENY_ALL, HostPolicy
from mcpl_core.host.audit import AuditRecord
from mcpl_core.host.lifecycle import Inference
from mcpl_core.protocol import ModelInfo, Usage
from tests.host.raw_server import ALL, CHANNEL, RawServer, embedded

pytestmark = pytest.mark.anyio

EVERYTHING = HostPolicy.allow(*ALL)
MODEL = ModelInfo(id="m-1")


async def phases(raw: RawServer) -> list[str]:
    await raw.settled()
    return [each["params"]["phase"] for each in raw.heard if each.get("method") == "inference/lifecycle"]


@pytest.mark.spec("10.5-1")
async def test_only_servers_that_may_hear_do() -> None:
    async with embedded(EVERYTHING) as (raw, session), embedded(HostPolicy.allow("tools")) as (deaf, other):
        links = lambda: [session.link, other.link]  # noqa: E731
        async with Inference(links, conversation_id="conv", turn_index=2, inference_id="inf_1"):
            pass
        assert await phases(raw) == ["started", "completed"]
        assert await phases(deaf) == []


@pytest.mark.spec("10.5-2", "10.5-3")
async def test_it_is_metadata_and_no_content() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        async with session.inference(
            conversation_id="conv", turn_index=2, inference_id="inf_1", model=MODEL
        ) as inference:
            inference.usage = Usage(input_tokens=1, output_tokens=2)
        await raw.settled()
        base = {"inferenceId": "inf_1", "conversationId": "conv", "turnIndex": 2, "model": {"id": "m-1"}}
        assert [each["params"] for each in raw.heard if each.get("method") == "inference/lifecycle"] == [
            {**base, "phase": "started"},
            {**base, "phase": "completed", "usage": {"inputTokens": 1, "outputTokens": 2}},
        ]
    async with embedded(HostPolicy.allow("inferenceLifecycle")) as (raw, session):
        with pytest.raises(RuntimeError):
            async with session.inference(conversation_id="conv", model=MODEL) as inference:
                inference.usage = Usage(input_tokens=1)
                raise RuntimeError
        await raw.settled()
        heard = [each["params"] for each in raw.heard if each.get("method") == "inference/lifecycle"]
        assert [(each["phase"], "model" in each, "usage" in each) for each in heard] == [
            ("started", False, False),
            ("failed", False, False),
        ]


async def leave_by(how: str, inference: Inference) -> None:
    with anyio.CancelScope() as scope:
        async with inference:
            if how == "raise":
                raise RuntimeError
            if how == "cancel":
                scope.cancel()
                await anyio.lowlevel.checkpoint()
            if how == "abort":
                inference.abort()
            if how == "abort and raise":
                inference.abort()
                raise RuntimeError
            if how == "exit":
                raise SystemExit


@pytest.mark.spec("10.5-4")
@pytest.mark.parametrize(
    ("how", "phase", "error"),
    [
        ("end", "completed", None),
        ("raise", "failed", RuntimeError),
        ("cancel", "aborted", None),
        ("abort", "aborted", None),
        ("abort and raise", "aborted", RuntimeError),
        ("exit", "failed", SystemExit),
    ],
)
async def test_every_way_out_has_one_terminal(how: str, phase: str, error: type[BaseException] | None) -> None:
    async with embedded(EVERYTHING) as (raw, session):
        inference = session.inference(conversation_id="conv")
        if error is None:
            await leave_by(how, inference)
        else:
            with pytest.raises(error):
                await leave_by(how, inference)
        assert await phases(raw) == ["started", phase]


async def test_a_terminal_is_attempted_also_when_the_server_does_not_read() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        async with session.inference(conversation_id="conv"):
            raw.transport.stalled = True
        assert await phases(raw) == ["started", "completed"]
        async with session.inference(conversation_id="conv"):
            raw.transport.release()
        assert await phases(raw) == ["started", "completed"]


async def test_who_did_not_hear_of_a_beginning_hears_of_no_end() -> None:
    async with embedded(HostPolicy.allow("tools")) as (raw, session):
        async with session.inference(conversation_id="conv"), anyio.create_task_group() as tasks:
            tasks.start_soon(session.set_policy, EVERYTHING)
            await raw.policy()
        assert session.grant.allows("inferenceLifecycle")
        assert await phases(raw) == []


async def test_who_may_hear_no_more_hears_no_more() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        async with session.inference(conversation_id="conv"):
            session.adopt(DENY_ALL)
        assert await phases(raw) == ["started"]


async def test_a_dead_server_costs_the_others_nothing() -> None:
    async with embedded(EVERYTHING) as (raw, session), embedded(EVERYTHING) as (dead, other):
        links = lambda: [other.link, session.link]  # noqa: E731
        async with Inference(links, conversation_id="conv"):
            dead.transport.end()
            await anyio.wait_all_tasks_blocked()
        async with Inference(links, conversation_id="conv"):
            pass
        assert await phases(raw) == ["started", "completed", "started", "completed"]


async def test_an_inference_is_entered_once_and_has_an_id_of_its_own() -> None:
    async with embedded(EVERYTHING) as (_, session):
        inference = session.inference(conversation_id="conv")
        async with inference:
            with pytest.raises(LocalProtocolError):
                await inference.__aenter__()
        assert inference.id != session.inference(conversation_id="conv").id


async def test_what_cannot_be_sent_is_recorded() -> None:
    audit: list[AuditRecord] = []
    async with embedded(EVERYTHING, audit=audit) as (_, session):
        model = ModelInfo(id="m", meta={"weight": float("nan")})
        async with session.inference(conversation_id="conv", model=model):
            pass
    failed = [record for record in audit if record.operation == "inference/lifecycle"]
    assert [record.outcome for record in failed] == ["failure"]


# -- hooks and streams of an inference


async def test_hooks_and_streams_have_the_ids_of_the_inference() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        await raw.served("channels/register", {"channels": [CHANNEL]})
        inference = session.inference(conversation_id="conv", inference_id="inf_1", trace="00-trace", model=MODEL)
        async with anyio.create_task_group() as tasks:
            async with inference:

                async def answer() -> None:
                    request = await raw.next("context/beforeInference")
                    assert request["params"]["inferenceId"] == "inf_1"
                    assert request["params"]["_meta"] == {"traceparent": "00-trace"}
                    raw.reply(request, {"featureSet": "t.push", "contextInjections": []})

                tasks.start_soon(answer)
                assert (await inference.before("hello")).items == ()
                assert inference.chunk(session, CHANNEL["id"], moderated="Hi ")
                assert inference.chunk(session, CHANNEL["id"], moderated="there")
        await raw.settled()
        methods = [
            each["method"] for each in raw.heard if each.get("method", "").startswith(("channels/", "inference/"))
        ]
        assert methods == [
            "inference/lifecycle",
            "channels/outgoing/chunk",
            "channels/outgoing/chunk",
            "channels/outgoing/complete",
            "inference/lifecycle",
        ]


async def test_a_stream_may_be_closed_early_and_is_closed_once() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        await raw.served("channels/register", {"channels": [CHANNEL]})
        async with session.inference(conversation_id="conv") as inference:
            inference.chunk(session, CHANNEL["id"], moderated="Hi")
            assert inference.complete(session, CHANNEL["id"], "Hi!")
            assert not inference.complete(session, CHANNEL["id"])
        await raw.settled()
        closing = [each["params"] for each in raw.heard if each.get("method") == "channels/outgoing/complete"]
        assert [each["content"] for each in closing] == ["Hi!"]


class Gone:
    """A server that is not connected."""

    @property
    def link(self) -> Any:
        raise ConnectionClosedError("not-sent")


async def test_a_server_that_is_away_hears_nothing() -> None:
    async with embedded(EVERYTHING) as (_, session), session.inference(conversation_id="conv") as inference:
        assert not inference.chunk(Gone(), "c", moderated="x")
        assert not inference.complete(Gone(), "c")


def test_the_hook_timeout_is_five_seconds() -> None:
    inference = Inference(list[Any], conversation_id="conv")
    assert inference._hook_timeout == 5.0


@pytest.mark.parametrize(
    ("given", "expected"), [({}, {"traceparent": "00-host"}), ({"trace": "00-own"}, {"traceparent": "00-own"})]
)
async def test_hooks_carry_the_hosts_trace_context(given: Any, expected: Any) -> None:
    def trace() -> dict[str, str]:
        return {"traceparent": "00-host"}

    async with embedded(EVERYTHING, trace=trace) as (raw, session):
        async with session.inference(conversation_id="conv", **given) as inference, anyio.create_task_group() as tasks:
            tasks.start_soon(inference.before)
            request = await raw.next("context/beforeInference")
            assert request["params"]["_meta"] == expected
            raw.reply(request, {"featureSet": "t.push", "contextInjections": []})
