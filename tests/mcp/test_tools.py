"""A tool as it was listed."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.mcp.checks import ToolChecks
from mcpl_core.mcp.tools import McpTool

pytestmark = pytest.mark.anyio


def tool(**members: Any) -> McpTool:
    definition = {"name": "read", **members}
    return McpTool("files__read", "files", "read", definition, ToolChecks("files", definition, None))


def test_known_members_are_read_and_others_kept() -> None:
    found = tool(
        title="Read", description="Reads", inputSchema={"type": "object", "x": 1}, outputSchema={"type": "object"},
        annotations={"readOnlyHint": True}, execution={"taskSupport": "optional"}, _meta={"a": 1}, later={"b": 2},
    )  # fmt: skip
    assert (found.title, found.description, found.task_support) == ("Read", "Reads", "optional")
    assert (found.input_schema, found.output_schema) == ({"type": "object", "x": 1}, {"type": "object"})
    assert (found.annotations, found.meta) == ({"readOnlyHint": True}, {"a": 1})
    assert found.definition["later"] == {"b": 2}
    assert repr(found) == "<McpTool files__read of files>"


@pytest.mark.parametrize("bad", [None, 7, [], True])
def test_members_of_another_type_read_as_absent(bad: Any) -> None:
    names = ("title", "description", "inputSchema", "outputSchema", "annotations", "execution", "_meta")
    for found in (tool(), tool(**dict.fromkeys(names, bad))):
        assert (found.title, found.description, found.input_schema) == (None, "", {"type": "object"})
        assert (found.output_schema, found.annotations, found.meta) == (None, {}, {})
        assert found.task_support == "forbidden"


@pytest.mark.parametrize(
    ("support", "read"),
    [("required", "required"), ("optional", "optional"), ("forbidden", "forbidden"), ("x", "forbidden")],
)
def test_task_support(support: str, read: str) -> None:
    assert tool(execution={"taskSupport": support}).task_support == read


async def test_calling_it_goes_through_its_client() -> None:
    calls: list[Any] = []

    async def call(known: McpTool, arguments: Any, **options: Any) -> str:
        calls.append((known, arguments, options))
        return "done"

    definition = {"name": "read"}
    found = McpTool("read", "files", "read", definition, ToolChecks("files", definition, None), _call=call)
    assert await found({"a": 1}, timeout=3.0) == "done"
    assert calls == [(found, {"a": 1}, {"timeout": 3.0})]
