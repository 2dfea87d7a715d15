"""A tool's entry in the list, and what is no tool."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpl_core.mcp.serving import ServableTool, ServedTool, ServingRefusedError
from mcpl_core.mcp.serving.tools import checked_tool, needs_of, tool_entry
from mcpl_core.mcp.transports import CredentialRequest

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"z": {"type": "string", "x-odd": [1, None]}, "a": {"$ref": "#/$defs/q"}},
    "$defs": {"q": True},
    "default": None,
}


def run(arguments: Any, call: Any) -> Any:
    return arguments


def test_schemas_stand_in_the_entry_as_they_are() -> None:
    entry = tool_entry(ServedTool("t", run, input_schema=SCHEMA, output_schema=SCHEMA))
    assert json.dumps(entry["inputSchema"]) == json.dumps(SCHEMA)
    assert json.dumps(entry["outputSchema"]) == json.dumps(SCHEMA)


def test_a_tool_without_a_schema_has_that_of_an_empty_object() -> None:
    assert tool_entry(ServedTool("t", run)) == {"name": "t", "inputSchema": {"type": "object", "properties": {}}}


def test_the_entry_has_the_members_of_mcp_in_their_order_and_no_others() -> None:
    tool = ServedTool(
        "t",
        run,
        description="d",
        input_schema=SCHEMA,
        output_schema=SCHEMA,
        title="T",
        annotations={"readOnlyHint": True},
        meta={"m": 1},
        needs=("mail",),
        details={"tier": 1},
    )
    members = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"]
    assert list(tool_entry(tool)) == members


def test_what_a_tool_needs_is_read_as_requests() -> None:
    asked = CredentialRequest("files", ("read",), "user")
    assert needs_of(ServedTool("t", run, needs=("mail", asked))) == (CredentialRequest("mail"), asked)
    assert needs_of(object()) == ()

    class One:
        needs = "mail"

    assert needs_of(One()) == (CredentialRequest("mail"),)


def test_the_checked_tool_is_the_object_itself() -> None:
    tool = ServedTool("t", run)
    assert checked_tool(tool) is tool
    assert isinstance(tool, ServableTool)


@pytest.mark.parametrize(
    "tool",
    [
        object(),
        ServedTool("", run),
        ServedTool(3, run),  # type: ignore[arg-type]
        ServedTool("t", None),  # type: ignore[arg-type]
        ServedTool("t", run, description=3),  # type: ignore[arg-type]
        ServedTool("t", run, input_schema=[]),  # type: ignore[arg-type]
        ServedTool("t", run, input_schema={"type": "object", "default": object()}),
        ServedTool("t", run, meta={"n": float("nan")}),
        ServedTool("t", run, needs=(3,)),  # type: ignore[arg-type]
        ServedTool("t", run, needs=3),  # type: ignore[arg-type]
    ],
)
def test_what_could_not_be_told_to_a_client_is_refused(tool: Any) -> None:
    with pytest.raises(ServingRefusedError) as refused:
        checked_tool(tool)
    assert refused.value.code == "not-a-tool"
