"""What is registered: three kinds, and the last of a name wins within its own."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import LocalProtocolError
from mcpl_core.mcp.serving import (
    McpRuntime,
    Prompt,
    PromptArgument,
    Resource,
    ServedTool,
    ServingRefusedError,
    create_mcp_runtime,
)


def read(uri: str, variables: dict[str, str]) -> str:
    return uri


def test_one_name_may_stand_in_each_kind() -> None:
    tool = ServedTool("x", lambda arguments, call: None)
    resource, prompt = Resource("x", "mem://x", read), Prompt("x", lambda arguments: "hi")
    runtime = create_mcp_runtime(tool, resource, prompt)
    assert (runtime.tools["x"], runtime.resources["x"], runtime.prompts["x"]) == (tool, resource, prompt)


def test_the_last_of_a_name_takes_its_place() -> None:
    runtime = McpRuntime()
    first, second = (ServedTool("x", lambda arguments, call: None, description=text) for text in ("1", "2"))
    for tool in (first, ServedTool("y", first.execute), second):
        runtime.register_capability(tool)
    assert list(runtime.tools) == ["x", "y"]
    assert runtime.tools["x"] is second
    for number in (1, 2):
        runtime.register_capability(Resource("r", f"mem://{number}", read))
        runtime.register_capability(Prompt("p", lambda arguments: "", description=str(number)))
    assert [each.uri for each in runtime.resources.values()] == ["mem://2"]
    assert [each.description for each in runtime.prompts.values()] == ["2"]


def test_a_function_is_a_tool_and_nothing_else_is() -> None:
    def greet(name: str) -> str:
        return name

    assert list(McpRuntime(greet).tools) == ["greet"]
    for thing in (object(), "greet", None):
        with pytest.raises(ServingRefusedError):
            McpRuntime(thing)  # type: ignore[arg-type]


def test_a_resource_is_listed_with_what_it_has() -> None:
    assert Resource("r", "mem://r", read).entry() == {"uri": "mem://r", "name": "r"}
    full = Resource("r", "mem://{id}", read, "text/plain", "R", "a note")
    assert full.entry() == {
        "uriTemplate": "mem://{id}",
        "name": "r",
        "title": "R",
        "description": "a note",
        "mimeType": "text/plain",
    }


@pytest.mark.parametrize(
    ("template", "uri", "variables"),
    [
        ("mem://a", "mem://a", {}),
        ("mem://a", "mem://b", None),
        ("mem://a", "mem://a/b", None),
        ("mem://{a}{b}", "mem://xyz", {"a": "x", "b": "yz"}),
        ("mem://{a}{b}", "mem://x", None),
        ("mem://{a}-{b}.json", "mem://x-y-z.json", {"a": "x", "b": "y-z"}),
        ("mem://{a}.json", "mem://x.json.json", {"a": "x.json"}),
        ("mem://{a}-{b}", "mem://-x", None),
        ("mem://{a}-{b}", "mem://x-", None),
        ("mem://aa{a}aa", "mem://aaa", None),
        ("mem://{a}/{b}", "mem://x/y", {"a": "x", "b": "y"}),
        ("mem://{id}/data", "mem://7/data", {"id": "7"}),
        ("mem://{id}/data", "mem://7/8/data", None),
        ("mem://{id}/data", "mem:///data", None),
        ("mem://{a}.{b}", "mem://x%20y.z", {"a": "x y", "b": "z"}),
        ("mem://a.c/{x}", "mem://abc/1", None),
    ],
)
def test_a_template_matches_one_segment_for_each_variable(template: str, uri: str, variables: Any) -> None:
    assert Resource("r", template, read).match(uri) == variables


@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_a_template_gives_back_what_was_put_in(value: str) -> None:
    resource = Resource("r", "mem://{id}/data", read)
    assert resource.match(f"mem://{quote(value, safe='')}/data") == {"id": value}


@given(st.lists(st.sampled_from(["a", "-", "{}"]), min_size=1, max_size=6), st.text("a-", max_size=8))
def test_a_template_matches_what_a_regular_expression_would(parts: list[str], text: str) -> None:
    template = "".join(f"{{v{index}}}" if part == "{}" else part for index, part in enumerate(parts))
    pattern = "".join("[^/]+" if part == "{}" else part for part in parts)
    found = Resource("r", f"mem:{template}", read).match(f"mem:{text}")
    assert (found is not None) == (re.fullmatch(pattern, text) is not None)


def test_a_long_uri_keeps_nobody_busy() -> None:
    resource = Resource("r", "mem://{a}-{b}-{c}-{d}-{e}!", read)
    assert resource.match("mem://" + "-" * 100_000) is None


def test_a_variable_stands_once() -> None:
    with pytest.raises(LocalProtocolError):
        Resource("r", "mem://{a}/{a}", read)


def test_a_prompt_is_listed_with_what_it_has() -> None:
    assert Prompt("p", str).entry() == {"name": "p"}
    arguments = (PromptArgument("a", "what", required=True), PromptArgument("b"))
    assert Prompt("p", str, arguments, "P", "a prompt").entry() == {
        "name": "p",
        "title": "P",
        "description": "a prompt",
        "arguments": [{"name": "a", "description": "what", "required": True}, {"name": "b", "required": False}],
    }
