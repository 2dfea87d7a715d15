"""The answers to MCP's requests, without any wire."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from mcpl_core import text_content
from mcpl_core.errors import CapabilityDenied, InternalError, InvalidParams, MethodNotFound, RpcError
from mcpl_core.mcp.serving import Peer, Prompt, PromptArgument, Resource, ServedTool, ToolCall
from mcpl_core.mcp.serving.answers import RESOURCE_NOT_FOUND, SERVED_METHODS, Identity, error_object, is_modern
from tests.mcp.serving.clients import MODERN, answers_of

pytestmark = pytest.mark.anyio

ECHO = ServedTool("echo", lambda arguments, call: json.dumps([arguments, call.time, call.peer.principal]))
NOTE = Resource("note", "mem://note", lambda uri, variables: "text", "text/plain")
PROMPT = Prompt("ask", lambda arguments: f"about {arguments['topic']}", (PromptArgument("topic", required=True),))


async def nobody(method: str, params: dict[str, Any]) -> None:
    """Nobody hears."""


async def answer(method: str, params: Any, *capabilities: Any, version: str = "2025-11-25", **options: Any) -> Any:
    answers = answers_of(*(capabilities or (ECHO, NOTE, PROMPT)), **options)
    return json.loads(bytes(await answers.answer(method, params, Peer("ann", protocol_version=version), nobody)))


async def error(method: str, params: Any, *capabilities: Any, **options: Any) -> RpcError:
    with pytest.raises(RpcError) as raised:
        await answer(method, params, *capabilities, **options)
    return raised.value


def test_only_what_there_is_is_promised() -> None:
    assert answers_of(ECHO).capabilities() == {"tools": {}}
    assert answers_of(ECHO, NOTE, PROMPT).capabilities() == {"tools": {}, "resources": {}, "prompts": {}}
    assert [method for method in SERVED_METHODS if answers_of(ECHO).serves(method)] == ["tools/list", "tools/call"]


def test_the_identity_has_a_title_when_there_is_one() -> None:
    assert Identity("n", "1").info == {"name": "n", "version": "1"}
    assert Identity("n", "1", "N").info == {"name": "n", "version": "1", "title": "N"}


@pytest.mark.parametrize(
    ("version", "modern"), [("", False), ("2024-11-05", False), ("2025-11-25", False), (MODERN, True)]
)
def test_eras_are_told_apart_by_the_version(version: str, modern: bool) -> None:
    assert is_modern(version) is modern


async def test_a_method_that_is_not_promised_does_not_exist() -> None:
    for method in ("resources/list", "prompts/get", "sampling/createMessage"):
        assert isinstance(await error(method, {}, ECHO), MethodNotFound)


async def test_tools_are_listed_and_called() -> None:
    assert [tool["name"] for tool in (await answer("tools/list", None))["tools"]] == ["echo"]
    params = {"name": "echo", "arguments": [1, None], "_meta": {"mcpl/time": "noon"}}
    result = await answer("tools/call", params)
    assert json.loads(result["content"][0]["text"]) == [[1, None], "noon", "ann"]
    assert json.loads((await answer("tools/call", {"name": "echo"}))["content"][0]["text"]) == [None, None, "ann"]


@pytest.mark.spec("R-mcpserve-7")
async def test_an_unknown_tool_is_a_tool_error() -> None:
    result = await answer("tools/call", {"name": "nope"})
    assert result["isError"] is True
    assert "echo" in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("tools/list", [], "$"),
        ("tools/list", {"cursor": ""}, "$.cursor"),
        ("resources/list", {"cursor": "2"}, "$.cursor"),
        ("tools/call", {}, "$.name"),
        ("tools/call", {"name": 3}, "$.name"),
        ("resources/read", {"uri": None}, "$.uri"),
        ("prompts/get", {"name": "ask", "arguments": [1]}, "$.arguments"),
        ("prompts/get", {"name": "ask", "arguments": {"topic": 1}}, "$.arguments"),
        ("prompts/get", {"name": "ask"}, "$.arguments"),
    ],
)
async def test_params_that_do_not_fit_say_where(method: str, params: Any, path: str) -> None:
    refused = await error(method, params)
    assert isinstance(refused, InvalidParams)
    assert refused.data["path"] == path


async def test_a_cursor_of_null_is_none() -> None:
    assert (await answer("prompts/list", {"cursor": None}))["prompts"][0]["name"] == "ask"


async def test_resources_and_templates_are_listed_apart() -> None:
    template = Resource("one", "mem://{id}", lambda uri, variables: variables["id"])
    assert (await answer("resources/list", {}, NOTE, template))["resources"] == [
        {"uri": "mem://note", "name": "note", "mimeType": "text/plain"}
    ]
    listed = await answer("resources/templates/list", {}, NOTE, template)
    assert listed["resourceTemplates"] == [{"uriTemplate": "mem://{id}", "name": "one"}]


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", {"text": "text"}),
        (b"\x00\xff", {"blob": base64.b64encode(b"\x00\xff").decode()}),
        ({"a": 1}, {"text": '{"a":1}'}),
    ],
)
async def test_a_resource_is_text_bytes_or_json(value: Any, content: Any) -> None:
    resource = Resource("r", "mem://r", lambda uri, variables: value, "x/y")
    assert (await answer("resources/read", {"uri": "mem://r"}, resource))["contents"] == [
        {"uri": "mem://r", "mimeType": "x/y", **content}
    ]


async def test_a_resource_may_give_all_its_contents_itself() -> None:
    contents = [{"uri": "mem://a", "text": "a"}, {"uri": "mem://b", "text": "b"}]
    resource = Resource("r", "mem://r", lambda uri, variables: contents)
    assert (await answer("resources/read", {"uri": "mem://r"}, resource))["contents"] == contents


async def test_a_named_resource_comes_before_a_template() -> None:
    template = Resource("any", "mem://{id}", lambda uri, variables: variables["id"])
    named = Resource("note", "mem://note", lambda uri, variables: "named")
    for uri, text in (("mem://note", "named"), ("mem://x%2Fy", "x/y")):
        (content,) = (await answer("resources/read", {"uri": uri}, template, named))["contents"]
        assert (content["uri"], content["text"]) == (uri, text)


@pytest.mark.parametrize(
    ("version", "code"), [("2024-11-05", -32002), ("2025-11-25", RESOURCE_NOT_FOUND), (MODERN, -32602)]
)
@pytest.mark.spec("R-mcpserve-14")
async def test_what_is_not_there_has_the_code_of_its_era(version: str, code: int) -> None:
    refused = await error("resources/read", {"uri": "mem://none"}, version=version)
    assert (refused.code, refused.data) == (code, {"uri": "mem://none"})


async def test_prompts_are_got_with_their_arguments() -> None:
    result = await answer("prompts/get", {"name": "ask", "arguments": {"topic": "owls"}})
    assert result == {"messages": [{"role": "user", "content": {"type": "text", "text": "about owls"}}]}


async def test_a_prompt_may_be_blocks_and_messages() -> None:
    own = {"role": "assistant", "content": {"type": "text", "text": "yes?"}}
    prompt = Prompt("p", lambda arguments: [text_content("hello"), own], description="d")
    assert await answer("prompts/get", {"name": "p", "arguments": None}, prompt) == {
        "description": "d",
        "messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}, own],
    }


async def test_a_missing_prompt_is_an_error() -> None:
    refused = await error("prompts/get", {"name": "none"})
    assert (refused.code, refused.data) == (-32602, {"prompt": "none"})


async def test_what_fails_inside_says_nothing_outside() -> None:
    def broken(*given: Any) -> Any:
        raise ValueError("CANARY")

    def refusing(*given: Any) -> Any:
        raise CapabilityDenied(message="not you")

    reports: list[BaseException] = []
    failed = await error("resources/read", {"uri": "mem://r"}, Resource("r", "mem://r", broken), reports=reports)
    assert isinstance(failed, InternalError)
    assert "CANARY" not in failed.message
    assert [type(report) for report in reports] == [ValueError]
    assert isinstance(await error("prompts/get", {"name": "p"}, Prompt("p", broken)), InternalError)
    assert isinstance(await error("prompts/get", {"name": "p"}, Prompt("p", refusing)), CapabilityDenied)


async def test_contents_that_no_connection_would_carry_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpl_core.mcp.serving.calling.MAX_RESULT_BYTES", 1_000)
    resource = Resource("r", "mem://r", lambda uri, variables: "x" * 1_000)
    assert isinstance(await error("resources/read", {"uri": "mem://r"}, resource), InternalError)


async def test_what_cannot_be_sent_is_the_failure_of_what_gave_it() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    for value in (object(), [3], [{"text": "no uri"}], [{"uri": "mem://r", "deep": deep}], float("nan")):
        reports: list[BaseException] = []
        resource = Resource("r", "mem://r", lambda uri, variables, value=value: value)  # type: ignore[misc]
        failed = await error("resources/read", {"uri": "mem://r"}, resource, reports=reports)
        assert (type(failed), failed.message, len(reports)) == (InternalError, "r failed", 1)
    for value in (deep, object(), None, [{"role": "user", "content": deep}]):
        prompt = Prompt("p", lambda arguments, value=value: value)  # type: ignore[misc]
        assert isinstance(await error("prompts/get", {"name": "p"}, prompt), InternalError)


def test_an_error_is_told_as_plain_json() -> None:
    reports: list[BaseException] = []
    assert error_object(RpcError(1, "no"), reports.append) == {"code": 1, "message": "no"}
    assert error_object(RpcError(1, "no", {"a": (1,)}), reports.append)["data"] == {"a": [1]}
    assert reports == []
    assert error_object(RpcError(1, "no", object()), reports.append) == {"code": 1, "message": "no"}
    assert len(reports) == 1


async def test_a_tool_hears_of_the_progress_token() -> None:
    sent: list[Any] = []

    async def notify(method: str, params: dict[str, Any]) -> None:
        sent.append(params)

    async def run(arguments: Any, call: ToolCall) -> None:
        await call.report_progress(1)

    answers = answers_of(ServedTool("t", run))
    await answers.answer("tools/call", {"name": "t", "_meta": {"progressToken": 9}}, Peer(), notify)
    assert sent == [{"progressToken": 9, "progress": 1}]
    odd = await answers.answer("tools/call", {"name": "t", "_meta": 3}, Peer(), notify)
    assert "isError" not in json.loads(bytes(odd))
    assert len(sent) == 1
