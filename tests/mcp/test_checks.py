"""The checks that a tool carries for life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcpl_core.mcp.checks import BoundedValidator, JsonSchemaValidator, ToolChecks
from mcpl_core.mcp.errors import McpOutputMismatchError, McpOutputUncheckedError, McpTaskRequiredError
from mcpl_core.schemas import SchemaError, SchemaLibraryMissingError
from tests.mcp.peers import text

COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


def checks(validator: JsonSchemaValidator | None = None, **definition: Any) -> ToolChecks:
    return ToolChecks("s", {"name": "t", **definition}, BoundedValidator() if validator is None else validator)


class Own:
    """A validator of the caller's own."""

    def __init__(self, check: Callable[[Any], str | None]) -> None:
        self.check = check
        self.schemas: list[Any] = []

    def get_validator(self, schema: dict[str, Any]) -> Callable[[Any], str | None]:
        self.schemas.append(schema)
        return self.check


def refuse(value: Any) -> str | None:
    raise RuntimeError("broken")


def test_a_tool_that_promises_nothing_is_not_checked() -> None:
    plain = checks(outputSchema=None)
    plain.before()
    plain.after(text("anything"))
    assert not plain.declares_output
    assert not plain.unchecked


@pytest.mark.parametrize(
    ("execution", "refused"),
    [
        ({"taskSupport": "required"}, True),
        ({"taskSupport": "optional"}, False),
        ({"taskSupport": "forbidden"}, False),
        ({}, False),
        (None, False),
        ("required", False),
    ],
)
def test_a_tool_that_runs_only_as_a_task_is_refused(execution: Any, refused: bool) -> None:
    found = checks(execution=execution)
    assert found.task_only is refused
    if refused:
        with pytest.raises(McpTaskRequiredError):
            found.before()
    else:
        found.before()


def test_results_are_held_against_the_schema() -> None:
    found = checks(outputSchema=COUNT)
    found.before()
    found.after({"structuredContent": {"count": 1}})
    for bad in ({"structuredContent": {"count": "canary"}}, {"structuredContent": None}, text("7"), {}):
        with pytest.raises(McpOutputMismatchError) as caught:
            found.after(bad)
        assert (caught.value.server, caught.value.tool) == ("s", "t")
        assert "canary" not in str(caught.value)
    found.after(text("failed", isError=True))


def test_a_violation_names_its_rule_and_place() -> None:
    found = checks(outputSchema={**COUNT, "default": "canary"})
    found.before()
    for value, rule in (({"count": "x"}, "type is not met at /count"), ({}, "required is not met at its root")):
        with pytest.raises(McpOutputMismatchError) as caught:
            found.after({"structuredContent": value})
        assert caught.value.detail == rule


def test_a_place_is_no_longer_than_anybody_reads() -> None:
    name = "n" * 5000
    found = checks(outputSchema={"type": "object", "properties": {name: {"type": "integer"}}})
    found.before()
    with pytest.raises(McpOutputMismatchError) as caught:
        found.after({"structuredContent": {name: "x"}})
    assert caught.value.detail == f"type is not met at /{'n' * 199}"


def test_a_schema_that_was_listed_counts_whatever_becomes_of_the_definition() -> None:
    definition: dict[str, Any] = {"name": "t", "outputSchema": {"type": "object", "required": ["a"]}}
    found = ToolChecks("s", definition, BoundedValidator())
    definition["outputSchema"]["required"].clear()
    found.before()
    with pytest.raises(McpOutputMismatchError):
        found.after({"structuredContent": {}})


@pytest.mark.parametrize(
    "schema", [{"type": 7}, {"$ref": "https://example.com/schema.json"}, {"a": "x" * 70_000}, True, [], "x"]
)
def test_a_schema_that_cannot_be_used_refuses_the_call_before_it_is_sent(schema: Any) -> None:
    found = checks(outputSchema=schema)
    with pytest.raises(McpOutputUncheckedError) as caught:
        found.before()
    assert not caught.value.sent
    assert (caught.value.__cause__ is None) is not isinstance(schema, dict)
    if isinstance(schema, dict):
        assert isinstance(caught.value.__cause__, SchemaError)


def test_without_a_validator_nothing_is_sent() -> None:
    found = ToolChecks("s", {"name": "t", "outputSchema": COUNT}, None)
    with pytest.raises(McpOutputUncheckedError):
        found.before()


def test_without_the_library_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jsonschema_rs", None)
    with pytest.raises(McpOutputUncheckedError) as caught:
        checks(outputSchema=COUNT).before()
    assert isinstance(caught.value.__cause__, SchemaLibraryMissingError)


def test_a_validator_of_the_callers_own() -> None:
    own = Own(lambda value: None if value == 7 else "it is not seven")
    found = checks(own, outputSchema=COUNT)
    assert own.schemas == []
    found.before()
    found.before()
    found.after({"structuredContent": 7})
    assert own.schemas == [COUNT]
    with pytest.raises(McpOutputMismatchError) as caught:
        found.after({"structuredContent": 8})
    assert caught.value.detail == "it is not seven"


def test_a_checker_that_breaks_lets_nothing_through() -> None:
    found = checks(Own(refuse), outputSchema=COUNT)
    found.before()
    with pytest.raises(McpOutputUncheckedError) as caught:
        found.after({"structuredContent": {"count": 1}})
    assert caught.value.sent
    assert isinstance(caught.value.__cause__, RuntimeError)
