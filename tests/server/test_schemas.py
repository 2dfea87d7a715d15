"""JSON Schemas from type hints, and signatures of all that can be called."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union

import jsonschema_rs
import msgspec
import pytest
from msgspec import Meta

from mcpl_core import ContentBlock, ImageContent, LocalProtocolError, TextContent
from mcpl_core.protocol import ToolsCallResult
from mcpl_core.server import ToolResult
from mcpl_core.server.schemas import arguments_type, read_signature, result_schema, schema_of

WHOLE = (ToolResult, ToolsCallResult)
Number = NewType("Number", int)


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Tree(msgspec.Struct):
    name: str
    children: list[Tree] = []


class Options(TypedDict, total=False):
    limit: int


@dataclass
class Place:
    point: Point
    when: datetime.datetime | None = None


class Service:
    """A service."""

    def method(self, text: str) -> str:
        """Says it."""
        return text

    def __call__(self, text: str, times: int = 1) -> str:
        return text * times


def kwargs_only(*, a: int, b: str = "x") -> None: ...
def nothing() -> None: ...
def unhinted(a, b=2): ...  # type: ignore[no-untyped-def]


SERVICE = Service()


@pytest.mark.parametrize(
    ("function", "names", "returns"),
    [
        (kwargs_only, ["a", "b"], type(None)),
        (nothing, [], type(None)),
        (unhinted, ["a", "b"], Any),
        (SERVICE.method, ["text"], str),
        (SERVICE, ["text", "times"], str),
        (partial(SERVICE, times=2), ["text", "times"], str),
        (partial(SERVICE.method), ["text"], str),
        (lambda x: x, ["x"], Any),
    ],
)
def test_whatever_can_be_called_has_a_signature(function: Any, names: list[str], returns: Any) -> None:
    signature = read_signature(function, "t")
    assert (list(signature.parameters), signature.returns) == (names, returns)


def test_a_bound_argument_of_a_partial_is_no_parameter() -> None:
    assert list(read_signature(partial(unhinted, 1), "t").parameters) == ["b"]


def test_hints_that_cannot_be_resolved_are_named() -> None:
    def bad(a: NotDefined) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(LocalProtocolError, match="NotDefined"):
        read_signature(bad, "t")


def test_what_has_no_signature_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        read_signature(3, "t")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, {"type": "integer"}),
        (Any, {}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (Literal["a", 1], {"enum": [1, "a"]}),
        (Colour, {"enum": ["red"]}),
        (Number, {"type": "integer"}),
        (list[Colour], {"type": "array", "items": {"$ref": "#/$defs/Colour"}}),
        (Annotated[int, Meta(ge=1, description="how many")], {"type": "integer", "minimum": 1}),
        (Annotated[str, "a remark"], {"type": "string"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Options, {"type": "object", "properties": {"limit": {"type": "integer"}}, "required": []}),
        (Point, {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}}}),
    ],
)
def test_hints_become_schemas(hint: Any, schema: dict[str, Any]) -> None:
    found = schema_of(hint, "t")
    assert {name: found.get(name) for name in schema} == schema
    assert "title" not in found
    jsonschema_rs.meta.validate(found)


def test_inner_types_are_definitions() -> None:
    schema = schema_of(Place, "t")
    assert schema["properties"]["point"] == {"$ref": "#/$defs/Point"}
    assert set(schema["$defs"]) == {"Point"}


def test_a_type_that_holds_itself_keeps_its_definition() -> None:
    schema = schema_of(Tree, "t")
    assert schema["type"] == "object"
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"name": "a", "children": [{"name": "b", "children": []}]})
    assert not validator.is_valid({"name": "a", "children": [{"name": 3}]})


@pytest.mark.parametrize("hint", [object, Callable[[], int], Service, list[Service], TextContent])
def test_what_json_has_no_form_for_is_refused(hint: Any) -> None:
    with pytest.raises(LocalProtocolError):
        schema_of(hint, "t")


# -- parameters


def model(function: Any, without: str | None = None) -> type[msgspec.Struct]:
    return arguments_type(read_signature(function, "t"), "t", without)


def test_parameters_become_fields_with_their_defaults() -> None:
    schema = schema_of(model(kwargs_only), "t")
    assert schema["properties"] == {"a": {"type": "integer"}, "b": {"type": "string", "default": "x"}}
    assert schema["required"] == ["a"]


def test_a_parameter_may_be_left_out() -> None:
    assert model(kwargs_only, "a").__struct_fields__ == ("b",)


def test_a_mutable_default_is_not_shared() -> None:
    def f(a: list[int] = [1], b: dict[str, list[int]] = {"x": [1]}) -> None: ...  # noqa: B006

    kind = model(f)
    first, second = kind(), kind()
    first.a.append(2)  # type: ignore[attr-defined]
    first.b["x"].append(2)  # type: ignore[attr-defined]
    assert (second.a, second.b) == ([1], {"x": [1]})  # type: ignore[attr-defined]


def by_position(a: int, /) -> None: ...
def many(*a: int) -> None: ...
def open_ended(**a: int) -> None: ...


@pytest.mark.parametrize("function", [by_position, many, open_ended])
def test_a_parameter_that_cannot_be_given_by_name_is_refused(function: Any) -> None:
    with pytest.raises(LocalProtocolError, match="parameter a"):
        model(function)


def test_a_default_that_json_cannot_carry_is_refused() -> None:
    marker = object()

    def f(a: Any = marker) -> None: ...

    with pytest.raises(LocalProtocolError):
        schema_of(model(f), "t")


def test_a_default_that_would_be_shared_is_refused() -> None:
    def f(a: Any = bytearray(b"x")) -> None: ...  # noqa: B008

    with pytest.raises(LocalProtocolError):
        model(f)


# -- results


@pytest.mark.parametrize(
    "hint",
    [
        str,
        None,
        type(None),
        Any,
        str | None,
        Optional[str],  # noqa: UP045
        Annotated[str, "a remark"],
        ToolResult,
        ToolResult | str,
        ToolsCallResult,
        TextContent,
        ContentBlock,
        list[TextContent],
        list[TextContent | ImageContent],
        Union[str, TextContent],  # noqa: UP007
        list[str | TextContent],
        TextContent | int,
    ],
)
def test_content_promises_nothing(hint: Any) -> None:
    assert result_schema(hint, "t", WHOLE).schema is None


@pytest.mark.parametrize(
    ("hint", "wrapped"),
    [
        (Point, False),
        (Place, False),
        (Tree, False),
        (Options, False),
        (dict[str, Any], False),
        (Point | None, True),
        (int, True),
        (list[int], True),
        (list[str], True),
        (list[Tree], True),
        (Literal["a", "b"], True),
        (Colour, True),
        (str | int, True),
        (bytes, True),
    ],
)
def test_everything_else_promises_an_object(hint: Any, wrapped: bool) -> None:
    promised = result_schema(hint, "t", WHOLE)
    assert promised.wrapped is wrapped
    assert promised.schema is not None
    assert promised.schema["type"] == "object"
    jsonschema_rs.meta.validate(promised.schema)


def test_definitions_of_a_wrapped_result_stand_at_the_root() -> None:
    schema = result_schema(list[Tree], "t", WHOLE).schema
    assert schema is not None
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"result": [{"name": "a"}]})
    assert not validator.is_valid({"result": [{"name": 1}]})


def test_a_result_that_json_has_no_form_for_promises_nothing() -> None:
    assert result_schema(Service, "t", WHOLE).schema is None
