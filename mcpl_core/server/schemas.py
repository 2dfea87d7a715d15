"""JSON Schemas from Python's type hints (JSON Schema 2020-12, made by msgspec).

Owns: the schema of a function's parameters and of its result, and the types that values are read as. Does not own:
what a tool is (``tools``), and schemas that the application gave.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from ..content import ContentBlock
from ..errors import LocalProtocolError
from ..wire.values import encode_value

__all__ = ("ResultSchema", "Signature", "arguments_type", "read_signature", "result_schema", "schema_of")


class Signature(NamedTuple):
    """What a function takes and returns.

    Attributes:
        parameters: by name, without bound ones, in order.
        hints: the resolved type hints of parameters.
        returns: the resolved hint of the result; ``Any`` without one.
    """

    parameters: Mapping[str, inspect.Parameter]
    hints: Mapping[str, Any]
    returns: Any


class ResultSchema(NamedTuple):
    """What a tool promises of its results.

    Attributes:
        schema: an object schema; ``None``: nothing is promised, results are content.
        kind: the type that a result must fit, when there is a schema.
        wrapped: the result is no object, so it travels as ``{"result": ...}``.
    """

    schema: dict[str, Any] | None = None
    kind: Any = Any
    wrapped: bool = False


def read_signature(function: Callable[..., Any], name: str) -> Signature:
    """The signature of a function, method, ``functools.partial`` or object with ``__call__``.

    Args:
        name: what to call it in errors.

    Raises:
        LocalProtocolError: it has no signature, or a hint names what is not to be found in its module.
    """
    hinted: Any = function
    while isinstance(hinted, partial):
        hinted = hinted.func
    if not inspect.isroutine(hinted):
        hinted = type(hinted).__call__
    try:
        parameters = inspect.signature(function).parameters
        hints = get_type_hints(hinted, include_extras=True)
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError) as exc:
        raise LocalProtocolError(f"tool {name}: its type hints cannot be read: {exc}") from exc
    return Signature(parameters, hints, hints.pop("return", Any))


_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def arguments_type(signature: Signature, name: str, without: str | None = None) -> type[msgspec.Struct]:
    """A struct with the parameters as its fields.

    Args:
        name: the tool's.
        without: a parameter that is no argument.

    Raises:
        LocalProtocolError: a parameter cannot be given by name, or its default is none that msgspec takes.
    """
    fields: list[Any] = []
    for parameter in signature.parameters.values():
        if parameter.name == without:
            continue
        if parameter.kind not in _KEYWORD_KINDS:
            raise LocalProtocolError(f"tool {name}: parameter {parameter.name} cannot be given by name")
        field: tuple[Any, ...] = (parameter.name, signature.hints.get(parameter.name, Any))
        if parameter.default is not inspect.Parameter.empty:
            field = (*field, _default(parameter.default))
        fields.append(field)
    try:
        return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True)
    except (TypeError, ValueError) as exc:
        raise LocalProtocolError(f"tool {name}: {exc}") from exc


def _default(value: Any) -> Any:
    # Python shares a mutable default between calls; here each call gets its own.
    if type(value) in (list, dict, set) and not value:
        # The schema shows this one.
        return msgspec.field(default_factory=type(value))
    return msgspec.field(default_factory=partial(copy.deepcopy, value)) if type(value) in (list, dict, set) else value


def schema_of(kind: Any, name: str) -> dict[str, Any]:
    """The JSON Schema of a type, without a reference at its root.

    Args:
        name: the tool's, for errors.

    Raises:
        LocalProtocolError: JSON has no form for it.
    """
    try:
        (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    except (TypeError, ValueError, NotImplementedError, RecursionError) as exc:
        raise LocalProtocolError(f"tool {name}: no JSON Schema for {kind!r}: {exc}") from exc
    reference = schema.pop("$ref", "")
    if reference:
        component = reference.removeprefix("#/$defs/")
        schema = {**components[component], **schema}
        # A type that holds itself stays where it is referred to.
        if f'"{reference}"'.encode() not in encode_value(components):
            del components[component]
        schema.pop("title", None)
    return {**schema, "$defs": components} if components else schema


def result_schema(returns: Any, name: str, content: tuple[Any, ...]) -> ResultSchema:
    """What a return hint promises.

    Args:
        name: the tool's.
        content: types that are a tool's answer as they are, beside text, blocks and nothing.
    """
    if _is_content(returns, content):
        return ResultSchema()
    try:
        schema = schema_of(returns, name)
    except LocalProtocolError:
        return ResultSchema()
    if schema.get("type") == "object":
        return ResultSchema(schema, returns)
    definitions = schema.pop("$defs", None)
    wrapped: dict[str, Any] = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    return ResultSchema(wrapped | ({"$defs": definitions} if definitions else {}), returns, wrapped=True)


def _is_content(hint: Any, content: tuple[Any, ...]) -> bool:
    """Whether results of this type are content and nothing else: a text, nothing, anything, or blocks anywhere."""
    if get_origin(hint) is Annotated:
        return _is_content(get_args(hint)[0], content)
    if hint in (str, None, type(None), Any, *content):
        return True
    if get_origin(hint) in (Union, UnionType) and all(_is_content(part, content) for part in get_args(hint)):
        return True
    return _holds(hint, content)


def _holds(hint: Any, content: tuple[Any, ...]) -> bool:
    """Whether a type has content blocks, or an answer as it is, in it."""
    if isinstance(hint, type) and issubclass(hint, (ContentBlock, *content)):
        return True
    return any(_holds(part, content) for part in get_args(hint))
