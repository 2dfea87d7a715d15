"""A registry's entries as tools: which, in what order, run by whom."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.serving import (
    ServedTool,
    ServingRefusedError,
    ToolCall,
    ToolDefinition,
    adapt_tools,
    project_tool_definition,
)
from mcpl_core.mcp.serving.tools import tool_entry
from tests.mcp.serving.clients import runner

pytestmark = pytest.mark.anyio

FULL = ToolDefinition(
    "full",
    "All of it",
    {"type": "object"},
    category="files",
    tier=2,
    cost_category="high",
    requires_gpu=True,
    entry_point="main",
    role="worker",
    details={"owner": "ops"},
)


@dataclass
class Runtime:
    tools: Any


async def called(tool: Any, arguments: Any = None) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(bytes(await runner().run(ToolCall(tool, arguments))))
    return made


def test_the_wire_has_three_members_and_the_rest_stays_inside() -> None:
    tool = adapt_tools(Runtime([FULL]))["full"]
    assert tool_entry(tool) == {"name": "full", "description": "All of it", "inputSchema": {"type": "object"}}
    assert tool.definition is FULL


def test_a_registered_tool_is_the_same_on_the_wire() -> None:
    registered = ServedTool("full", lambda arguments, call: None, FULL.description, FULL.input_schema)
    assert json.dumps(tool_entry(registered)) == json.dumps(tool_entry(adapt_tools(Runtime([FULL]))["full"]))


@pytest.mark.parametrize("kind", ["list", "mapping", "registry"])
def test_a_registry_may_have_several_shapes(kind: str) -> None:
    entries = [ToolDefinition("a"), ToolDefinition("b")]
    registry: Any = {
        "list": entries,
        "mapping": {entry.name: entry for entry in entries},
        "registry": SimpleNamespace(list_tools=lambda: iter(entries)),
    }[kind]
    assert list(adapt_tools(Runtime(registry))) == ["a", "b"]


def test_without_a_registry_there_are_no_tools() -> None:
    assert adapt_tools(None) == {}
    assert adapt_tools(object()) == {}
    assert adapt_tools(Runtime(None)) == {}


@pytest.mark.spec("R-mcpserve-12")
def test_the_order_depends_on_the_entries_alone() -> None:
    entries = [
        ToolDefinition("d"),
        ToolDefinition("c", entry_point="two"),
        ToolDefinition("b", entry_point="one"),
        ToolDefinition("e", entry_point=True),
        ToolDefinition("a", entry_point=False),
    ]
    expected = ["e", "b", "c", "a", "d"]
    assert list(adapt_tools(Runtime(entries))) == expected
    assert list(adapt_tools(Runtime(entries[::-1]))) == expected


def test_a_hundred_tools_are_taken_unless_said_otherwise() -> None:
    runtime = Runtime([ToolDefinition(f"t{index:03}") for index in range(101)])
    assert len(adapt_tools(runtime)) == 100
    assert "t100" not in adapt_tools(runtime)
    assert list(adapt_tools(runtime, max_tools=2)) == ["t000", "t001"]


def test_entries_that_cannot_be_served_are_refused() -> None:
    with pytest.raises(ServingRefusedError) as refused:
        adapt_tools(Runtime([ToolDefinition("a"), ToolDefinition("a")]))
    assert refused.value.code == "duplicate-name"
    for entry in (object(), ToolDefinition("a", input_schema=3)):  # type: ignore[arg-type]
        with pytest.raises(ServingRefusedError) as refused:
            adapt_tools(Runtime([entry]))
        assert refused.value.code == "not-a-tool"


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_the_executor_gets_the_original_and_its_outcome_is_the_result(asynchronous: bool) -> None:
    seen: list[Any] = []

    def executor(definition: Any, arguments: Any, call: ToolCall) -> dict[str, Any]:
        seen.append((definition, arguments, call.runtime))
        return {"success": True, "output": {"sum": 3}}

    async def later(definition: Any, arguments: Any, call: ToolCall) -> dict[str, Any]:
        return executor(definition, arguments, call)

    runtime = Runtime([FULL])
    tool = adapt_tools(runtime, later if asynchronous else executor)["full"]
    made = await called(tool, {"a": 1})
    assert made["structuredContent"] == {"sum": 3}
    ((definition, arguments, seen_runtime),) = seen
    assert definition is FULL
    assert arguments == {"a": 1}
    assert seen_runtime is runtime
    assert not hasattr(runtime, "execute")


@pytest.mark.parametrize(
    ("error", "text", "structured"),
    [
        ("no luck", "no luck", None),
        ({"code": "busy", "message": "later"}, "later", {"error": {"code": "busy", "message": "later"}}),
        ({"code": "busy"}, '{"error":{"code":"busy"}}', {"error": {"code": "busy"}}),
        (None, "", None),
    ],
)
async def test_a_failure_of_the_executor_is_an_error(error: Any, text: str, structured: Any) -> None:
    tool = adapt_tools(Runtime([FULL]), lambda *given: {"success": False, "error": error})["full"]
    made = await called(tool)
    assert (made["isError"], made["content"][0]["text"], made.get("structuredContent")) == (True, text, structured)


@pytest.mark.parametrize(("output", "text"), [(None, ""), ("", ""), (0, "0"), ([], "[]"), (False, "false")])
async def test_an_output_that_is_little_is_one(output: Any, text: str) -> None:
    tool = adapt_tools(Runtime([FULL]), lambda *given: {"success": True, "output": output, "error": "none"})["full"]
    made = await called(tool)
    assert ("isError" in made, made["content"][0]["text"]) == (False, text)


@pytest.mark.parametrize("max_tools", [-1, None, "3"])
def test_a_number_of_tools_is_one(max_tools: Any) -> None:
    assert adapt_tools(Runtime([FULL]), max_tools=0) == {}
    with pytest.raises(InvalidValueError) as refused:
        adapt_tools(Runtime([FULL]), max_tools=max_tools)
    assert refused.value.code == "max_tools"


@pytest.mark.parametrize("outcome", [None, "done", {}, {"success": "yes"}])
async def test_an_outcome_of_another_shape_is_an_error(outcome: Any) -> None:
    assert (await called(adapt_tools(Runtime([FULL]), lambda *given: outcome)["full"]))["isError"] is True


async def test_without_an_executor_a_call_says_so() -> None:
    for tool in (adapt_tools(Runtime([FULL]))["full"], project_tool_definition(FULL)):
        made = await called(tool)
        assert made["isError"] is True
        assert made["structuredContent"]["error"]["code"] == "no-executor"
