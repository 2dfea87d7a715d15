"""From a Python function to an MCP tool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Annotated, Any, Literal, Optional, cast

import jsonschema_rs
import msgspec
import pytest
from msgspec import Meta

from mcpl_core import InvalidValueError, LocalProtocolError
from mcpl_core.server import Context, ServerTool, tool_from_function

CTX = cast("Context", object())


class _RicherContext(Context):
    """What a product on top of this one gives its tools."""


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Range:
    low: float
    high: float | None = None


class Notes:
    """Notes."""

    async def add(self, ctx: Context, text: str) -> str:
        """Adds a note."""
        return text

    def __call__(self, text: str) -> str:
        return text


class Plain:
    def __call__(self, text: str) -> str:
        """Says it."""
        return text


async def search(
    ctx: Context,
    query: Annotated[str, Meta(description="what to look for", min_length=1)],
    limit: int = 10,
    *,
    kind: Literal["all", "new"] = "all",
    where: Point | None = None,
    within: Range | None = None,
    tags: list[str] = [],  # noqa: B006
) -> list[str]:
    """Looks for things.

    Anywhere.
    """
    return [query]


SEARCH = tool_from_function(search)


def test_name_description_and_schemas_follow_from_the_function() -> None:
    definition = SEARCH.definition()
    assert set(definition) == {"name", "description", "inputSchema", "outputSchema"}
    assert definition["name"] == "search"
    assert definition["description"] == "Looks for things.\n\nAnywhere."
    properties = definition["inputSchema"]["properties"]
    assert set(properties) == {"query", "limit", "kind", "where", "within", "tags"}
    assert properties["query"] == {"description": "what to look for", "type": "string", "minLength": 1}
    assert definition["inputSchema"]["required"] == ["query"]
    jsonschema_rs.meta.validate(definition["inputSchema"])
    jsonschema_rs.meta.validate(definition["outputSchema"])


def test_arguments_arrive_as_their_types() -> None:
    values = SEARCH.bind({"query": "a", "where": {"x": 1}, "within": {"low": 1}, "unknown": 1}, CTX)
    assert values == {
        "ctx": CTX,
        "query": "a",
        "limit": 10,
        "kind": "all",
        "where": Point(1),
        "within": Range(1.0),
        "tags": [],
    }


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({}, "$"),
        ({"query": 3}, "$.query"),
        ({"query": ""}, "$.query"),
        ({"query": None}, "$.query"),
        ({"query": "a", "limit": 1.5}, "$.limit"),
        ({"query": "a", "limit": True}, "$.limit"),
        ({"query": "a", "limit": "3"}, "$.limit"),
        ({"query": "a", "kind": "old"}, "$.kind"),
        ({"query": "a", "limit": 3.0, "kind": "old"}, "$.kind"),
        ({"query": "a", "where": {"x": 1, "y": "b"}}, "$.where.y"),
        ({"query": "a", "tags": ["b", 1]}, "$.tags[1]"),
    ],
)
def test_arguments_that_do_not_fit_are_told_where(arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        SEARCH.bind(arguments, CTX)
    assert caught.value.path == path
    assert not jsonschema_rs.validator_for(SEARCH.input_schema).is_valid(arguments)


@pytest.mark.parametrize("arguments", [{"query": "a", "limit": 3.0}, {"query": "a", "where": {"x": 1.0}}])
def test_a_whole_number_is_an_integer_however_it_is_written(arguments: dict[str, Any]) -> None:
    assert jsonschema_rs.validator_for(SEARCH.input_schema).is_valid(arguments)
    values = SEARCH.bind(arguments, CTX)
    assert [type(values["limit"]), type(values["where"].x) if values["where"] else int] == [int, int]


def test_mutable_defaults_are_not_shared() -> None:
    SEARCH.bind({"query": "a"}, CTX)["tags"].append("b")
    assert SEARCH.bind({"query": "a"}, CTX)["tags"] == []


def plain(a: int) -> int:
    return a


def wrapper(function: Any) -> Any:
    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    return call


@pytest.mark.parametrize(
    ("function", "name", "description"),
    [
        (plain, "plain", None),
        (Notes().add, "add", "Adds a note."),
        (Notes(), "Notes", "Notes."),
        (Plain(), "Plain", "Says it."),
        (partial(search, limit=3), "search", "Looks for things.\n\nAnywhere."),
        (wrapper(plain), "plain", None),
    ],
)
def test_whatever_can_be_called_is_a_tool(function: Any, name: str, description: str | None) -> None:
    tool = tool_from_function(function)
    assert (tool.name, tool.description) == (name, description)


def test_the_context_is_found_wherever_it_stands() -> None:
    def last(a: int, *, where: Context) -> None: ...
    def maybe(a: int, where: Optional[Context] = None) -> None: ...  # noqa: UP045
    def marked(where: Annotated[Context, "the context"], a: int) -> None: ...

    def richer(a: int, where: _RicherContext) -> None: ...

    for function in (last, maybe, marked, richer):
        tool = tool_from_function(function)
        assert list(tool.input_schema["properties"]) == ["a"]
        assert tool.bind({"a": 1}, CTX) == {"a": 1, "where": CTX}


def test_what_is_given_goes_before_what_follows() -> None:
    tool = tool_from_function(
        plain, name="other", title="T", description="D", annotations={"readOnlyHint": True}, meta={"k": 1}
    )
    definition = tool.definition()
    assert {name: definition[name] for name in ("name", "title", "description", "annotations", "_meta")} == {
        "name": "other",
        "title": "T",
        "description": "D",
        "annotations": {"readOnlyHint": True},
        "_meta": {"k": 1},
    }


def test_with_a_given_schema_the_function_takes_the_arguments_as_they_came() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}

    def first(ctx: Context, arguments: dict[str, Any]) -> None: ...
    def second(arguments: dict[str, Any], ctx: Context) -> None: ...
    def without() -> None: ...

    for function in (first, second):
        tool = tool_from_function(function, input_schema=schema)
        assert tool.input_schema is schema
        assert tool.bind({"a": "x"}, CTX) == {"arguments": {"a": "x"}, "ctx": CTX}
    assert tool_from_function(without, input_schema=schema).bind({"a": 1}, CTX) == {}


def test_a_given_output_schema_is_the_promise() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert tool_from_function(plain, output_schema=schema).definition()["outputSchema"] is schema


def by_position(a: int, /) -> None: ...
def many(*a: int) -> None: ...
def bad_hint(a: object) -> None: ...
def unresolved(a: "NotDefined") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037
def yields() -> Any:
    yield 1


async def yields_async() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (by_position, {}),
        (many, {}),
        (bad_hint, {}),
        (unresolved, {}),
        (yields, {}),
        (yields_async, {}),
        (lambda a: a, {}),
        (plain, {"name": ""}),
        (plain, {"name": "a b"}),
        (plain, {"name": "x" * 129}),
        (plain, {"input_schema": {"type": "array"}}),
        (plain, {"input_schema": {}}),
        (plain, {"output_schema": {"type": "string"}}),
        (by_position, {"input_schema": {"type": "object"}}),
        (many, {"input_schema": {"type": "object"}}),
    ],
)
def test_what_cannot_be_a_tool_is_refused_at_once(function: Any, options: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        tool_from_function(function, **options)


def test_a_tool_may_be_put_together_by_hand() -> None:
    tool = ServerTool("t", plain, {"type": "object"})
    assert tool.definition() == {"name": "t", "inputSchema": {"type": "object"}}
    assert tool.bind({"a": 1}, CTX) == {}


async def nothing(arguments: Any = None) -> None:
    """Nothing."""


@pytest.mark.parametrize(
    "member",
    [
        {"name": 5},
        {"title": 5},
        {"description": b"x"},
        {"input_schema": [1]},
        {"input_schema": {"type": "object", "x": object()}},
        {"output_schema": "x"},
        {"annotations": [1]},
        {"annotations": {"x": float("nan")}},
        {"meta": {"x": object()}},
    ],
)
def test_a_tool_that_could_not_be_listed_is_refused(member: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        tool_from_function(nothing, **member)


def test_a_tool_that_nests_deeper_than_hosts_read_is_refused() -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"x": deep}
    with pytest.raises(LocalProtocolError):
        tool_from_function(nothing, meta=deep)


def test_a_tool_made_by_hand_is_checked_too() -> None:
    with pytest.raises(LocalProtocolError):
        ServerTool("a b", nothing, {"type": "object"})
    with pytest.raises(LocalProtocolError):
        ServerTool("a", nothing, {"type": "array"})


def test_an_empty_default_is_shown_and_not_shared() -> None:
    def note(tags: list[str] = [], more: dict[str, int] = {}) -> None:  # noqa: B006
        """Notes."""

    made = tool_from_function(note)
    assert made.input_schema["properties"]["tags"]["default"] == []
    assert made.input_schema["properties"]["more"]["default"] == {}
    first, second = made.bind({}, CTX), made.bind({}, CTX)
    assert first == {"tags": [], "more": {}}
    assert first["tags"] is not second["tags"]


class _Called:
    async def __call__(self, text: str) -> str:
        return text


def _plain(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (Notes().add, True),
        (partial(Notes().add, text="a"), True),
        (_Called(), True),
        (partial(partial(_Called())), True),
        (_plain, False),
        (partial(_plain), False),
    ],
)
def test_how_a_tool_is_called_is_known_with_its_function(function: Any, is_async: bool) -> None:
    tool = tool_from_function(function, name="t")
    assert tool.is_async is is_async
    assert replace(tool, function=_plain).is_async is False
    assert replace(tool, function=_Called()).is_async is True


def test_a_parameter_that_was_not_given_may_be_unset() -> None:
    def choose(ctx: Context, a: int | msgspec.UnsetType = msgspec.UNSET, b: int = 2) -> None:
        """Chooses."""

    assert tool_from_function(choose).bind({}, CTX) == {"ctx": CTX, "a": msgspec.UNSET, "b": 2}
