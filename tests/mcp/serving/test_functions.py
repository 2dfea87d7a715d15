"""Functions as tools."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import pytest

from mcpl_core.errors import LocalProtocolError
from mcpl_core.mcp.serving import ToolCall, function_tool
from mcpl_core.server.results import ToolError

pytestmark = pytest.mark.anyio


async def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


def whoami(call: ToolCall, loud: bool = False) -> str:
    return f"{call.peer.principal}{'!' if loud else ''}"


def test_name_description_and_schemas_come_from_the_function() -> None:
    tool = function_tool(add)
    assert (tool.name, tool.description, tool.function) == ("add", "Adds.", add)
    assert tool.input_schema["required"] == ["a"]
    assert tool.output_schema is not None
    assert tool.output_schema["properties"]["result"] == {"type": "integer"}


def test_what_is_given_comes_first() -> None:
    tool = function_tool(
        add, name="sum", title="Sum", description="", annotations={"a": 1}, meta={"m": 1}, needs=("x",)
    )
    assert (tool.name, tool.title, tool.description, tool.annotations, tool.meta, tool.needs) == (
        "sum",
        "Sum",
        "",
        {"a": 1},
        {"m": 1},
        ("x",),
    )


def test_the_call_is_no_argument() -> None:
    tool = function_tool(whoami)
    assert list(tool.input_schema["properties"]) == ["loud"]
    assert tool.description is None
    assert tool.execute({"loud": True}, ToolCall(tool)) == "local!"

    def optional(call: Annotated[ToolCall, "it"]) -> str:
        return call.name

    assert function_tool(optional).input_schema["properties"] == {}


async def test_a_coroutine_function_is_one_as_a_tool_too() -> None:
    tool = function_tool(add)
    assert inspect.iscoroutinefunction(tool.execute)
    assert await tool.execute({"a": 2, "b": 3}, None) == 5


@pytest.mark.parametrize("arguments", [[1], "a", 3, {"a": "two"}, {}, None])
async def test_arguments_that_do_not_fit_are_the_callers_fault(arguments: Any) -> None:
    with pytest.raises(ToolError):
        await function_tool(add).execute(arguments, None)


def test_no_arguments_are_none() -> None:
    tool = function_tool(whoami)
    assert tool.execute(None, ToolCall(tool)) == "local"


def test_what_cannot_be_a_tool_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        function_tool(lambda: None)
    with pytest.raises(LocalProtocolError):
        function_tool(lambda *values: None, name="many")
