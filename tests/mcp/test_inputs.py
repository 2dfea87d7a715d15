"""Requests that the server answers with questions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.errors import InvalidResultError
from mcpl_core.mcp.connecting import mcp_client
from mcpl_core.mcp.errors import McpInputRequiredError
from mcpl_core.mcp.inputs import INPUT_METHODS, MOST_ROUNDS, with_inputs
from mcpl_core.mcp.transports import HttpTransport
from tests.mcp.peers import LIMIT, FakeServer, served, text

pytestmark = pytest.mark.anyio

ROOTS = {"method": "roots/list", "params": {"a": 1}}


def required(questions: Any = None, state: Any = None) -> dict[str, Any]:
    result: dict[str, Any] = {"resultType": "input_required"}
    result |= {} if questions is None else {"inputRequests": questions}
    return result | ({} if state is None else {"requestState": state})


class Rounds:
    """A server of one request: the n-th time it gives the n-th answer, at last always the same."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.sent: list[Any] = []

    async def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        self.sent.append(params)
        result: dict[str, Any] = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        return result


async def run(rounds: Rounds, params: Any = None, **handlers: Any) -> Any:
    named = {name.replace("_", "/"): handler for name, handler in handlers.items()}
    return await with_inputs("s", "tools/call", {"name": "t"} if params is None else params, rounds, named)


def test_the_bound_and_the_methods() -> None:
    assert MOST_ROUNDS == 10
    assert INPUT_METHODS == {"tools/call", "prompts/get", "resources/read"}


async def test_without_questions_there_is_one_round() -> None:
    rounds = Rounds({"content": [], "resultType": "complete"})
    assert await run(rounds) == {"content": [], "resultType": "complete"}
    assert rounds.sent == [{"name": "t"}]


@pytest.mark.spec("R-mcp-18")
async def test_answers_go_back_with_the_state() -> None:
    async def roots(params: Any) -> Any:
        return {"roots": [], "asked": params}

    rounds = Rounds(required({"q": ROOTS, "r": {"method": "roots/list"}}, "s1"), required(None, "s2"), {"content": []})
    assert await run(rounds, roots_list=roots) == {"content": []}
    assert rounds.sent == [
        {"name": "t"},
        {
            "name": "t",
            "inputResponses": {"q": {"roots": [], "asked": {"a": 1}}, "r": {"roots": [], "asked": None}},
            "requestState": "s1",
        },
        {"name": "t", "requestState": "s2"},
    ]


async def test_earlier_answers_are_not_sent_again() -> None:
    rounds = Rounds(required({"q": ROOTS}), {"content": []})
    await run(rounds, {"name": "t", "inputResponses": {"old": 1}, "requestState": "old"}, roots_list=lambda params: 7)
    assert rounds.sent[1] == {"name": "t", "inputResponses": {"q": 7}}


@pytest.mark.spec("R-mcp-18")
async def test_a_question_that_nobody_answers() -> None:
    rounds = Rounds(required({"q": ROOTS, "e": {"method": "elicitation/create"}}, "canary"))
    asked: list[Any] = []
    with pytest.raises(McpInputRequiredError) as caught:
        await run(rounds, roots_list=asked.append)
    error = caught.value
    assert (error.server, error.method, error.request_state) == ("s", "tools/call", "canary")
    assert list(error.input_requests) == ["q", "e"]
    assert asked == []
    assert "canary" not in str(error)


async def test_rounds_are_bounded() -> None:
    rounds = Rounds(required({"q": ROOTS}, "s"))
    with pytest.raises(McpInputRequiredError):
        await run(rounds, roots_list=lambda params: {})
    assert len(rounds.sent) == MOST_ROUNDS + 1


@pytest.mark.parametrize(
    ("result", "path"),
    [
        (required(), "$.requestState"),
        (required({}), "$.requestState"),
        (required({"q": ROOTS}, 7), "$.requestState"),
        (required([ROOTS]), "$.inputRequests"),
        (required({"q": "roots/list"}), "$.inputRequests"),
        (required({"q": {"method": 7}}), "$.inputRequests"),
    ],
)
async def test_questions_that_are_none(result: Any, path: str) -> None:
    with pytest.raises(InvalidResultError) as caught:
        await run(Rounds(result), roots_list=lambda params: {})
    assert caught.value.path == path


async def test_a_client_answers_and_can_be_helped() -> None:
    def call(params: Any) -> Any:
        answers = params.get("inputResponses")
        return required({"q": ROOTS}, "s1") if answers is None else text(f"{answers} {params['requestState']}")

    server = FakeServer(call=call)
    async with served(server):
        handlers: Any = {"roots/list": lambda params: {"roots": []}}
        async with mcp_client("s", transport=server.connect, handlers=handlers) as client:
            assert await client.call("echo") == "{'q': {'roots': []}} s1"
        async with mcp_client("s", transport=server.connect) as client:
            with pytest.raises(McpInputRequiredError) as caught:
                await client.call("echo", {"a": 1})
            state = caught.value.request_state
            assert await client.call("echo", {"a": 1}, input_responses={"q": 7}, request_state=state) == "{'q': 7} s1"


@pytest.mark.parametrize("anyio_backend", [("asyncio", {})])
async def test_the_official_server_asks_first() -> None:
    program = str(Path(__file__).with_name("official_asking.py"))
    handlers: Any = {"roots/list": lambda params: {"roots": [{"uri": "file:///project/"}]}}
    process = await anyio.open_process([sys.executable, program])
    assert process.stdin is not None and process.stdout is not None
    try:
        with anyio.fail_after(LIMIT):
            port = int(await process.stdout.receive())
            transport = HttpTransport(f"http://127.0.0.1:{port}/mcp")
            async with mcp_client("asking", transport=transport, handlers=handlers, era="modern") as client:
                assert client.session.protocol_version == "2026-07-28"
                assert await client.call("places") == "file:///project/"
    finally:
        await process.aclose()
