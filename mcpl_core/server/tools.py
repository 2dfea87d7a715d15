"""Tools of a server: from a Python function to an MCP tool.

Owns: the definition of a tool, and reading arguments as the types of its parameters. Does not own: schemas
(``schemas``), results (``results``), who may call (``session``), and checking arguments against a schema that the
application gave (a ``validate`` function does).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from ..errors import InvalidValueError, LocalProtocolError, UnencodableError
from ..protocol.base import read_plain
from ..wire.values import depth_exceeds, encode_value
from .context import Context
from .results import MAX_RESULT_DEPTH, WHOLE_RESULTS
from .schemas import ResultSchema, Signature, arguments_type, read_signature, result_schema, schema_of

__all__ = ("ServerTool", "is_coroutine_function", "tool_from_function")

#: MCP 2025-11-25, tool names.
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


@dataclass(frozen=True, slots=True)
class ServerTool:
    """One tool.

    Attributes:
        name: its name on the wire.
        function: what is called, with keyword arguments.
        input_schema: the JSON Schema of its arguments.
        promised: its output schema, if it has one.
        description, title, annotations, meta: as in MCP's tool definition.
        model: the type that the arguments are read as; ``None``: they are given as they came.
        context: the name of the parameter that takes the ``Context``, or ``None``.
        whole: without a model, the name of the parameter that takes all arguments, or ``None``.
        is_async: ``function`` is a coroutine function.

    Raises:
        LocalProtocolError: it cannot be listed: a member is not what MCP says, or has no JSON form. One such tool would
            cost a host the whole list.
    """

    name: str
    function: Callable[..., Any]
    input_schema: dict[str, Any]
    promised: ResultSchema = ResultSchema()
    description: str | None = None
    title: str | None = None
    annotations: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    model: type[msgspec.Struct] | None = field(default=None, repr=False)
    context: str | None = field(default=None, repr=False)
    whole: str | None = field(default=None, repr=False)
    is_async: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", is_coroutine_function(self.function))
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise LocalProtocolError(f"{self.name!r} is no name for a tool: 1 to 128 of A-Z a-z 0-9 _ - . /")
        for member in (self.title, self.description):
            if not isinstance(member, str | None):
                raise LocalProtocolError(f"tool {self.name}: title and description are texts")
        for tree in (self.input_schema, self.promised.schema):
            if tree is not None and not (isinstance(tree, dict) and tree.get("type") == "object"):
                raise LocalProtocolError(f"tool {self.name}: MCP wants schemas of an object, with type: object")
        for tree in (self.annotations, self.meta):
            if not isinstance(tree, dict | None):
                raise LocalProtocolError(f"tool {self.name}: annotations and meta are objects")
        try:
            too_deep = depth_exceeds(encode_value(self.definition()), MAX_RESULT_DEPTH)
        except UnencodableError as exc:
            raise LocalProtocolError(f"tool {self.name}: {exc}") from exc
        if too_deep:
            raise LocalProtocolError(f"tool {self.name} nests deeper than hosts read")

    def definition(self) -> dict[str, Any]:
        """The tool as ``tools/list`` shows it."""
        optional = {
            "title": self.title,
            "description": self.description,
            "outputSchema": self.promised.schema,
            "annotations": self.annotations,
            "_meta": self.meta,
        }
        shown = {name: value for name, value in optional.items() if value is not None}
        return {"name": self.name, "inputSchema": self.input_schema, **shown}

    def bind(self, arguments: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
        """The keyword arguments of a call.

        Raises:
            InvalidValueError: the arguments do not fit the parameters; ``path`` says where.
        """
        values: dict[str, Any] = {}
        if self.model is not None:
            values = msgspec.structs.asdict(_read(dict(arguments), self.model))
        elif self.whole is not None:
            values[self.whole] = dict(arguments)
        if self.context is not None:
            values[self.context] = ctx
        return values


def is_coroutine_function(function: Any) -> bool:
    """Whether calling it gives a coroutine; also of a ``functools.partial``, and of an object with ``__call__``."""
    while isinstance(function, partial):
        function = function.func
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _read(arguments: dict[str, Any], model: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        return read_plain(arguments, model)
    except InvalidValueError:
        whole = _whole_numbers(arguments)
        if whole == arguments and repr(whole) == repr(arguments):
            raise
    # JSON has one number type: 3.0 is an integer to its sender and to the schema.
    return read_plain(whole, model)


def _whole_numbers(value: Any) -> Any:
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is list:
        return [_whole_numbers(item) for item in value]
    if type(value) is dict:
        return {name: _whole_numbers(item) for name, item in value.items()}
    return value


def tool_from_function(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    annotations: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
) -> ServerTool:
    """Makes a tool of a function, method, ``functools.partial`` or callable object, sync or async.

    Its name, docstring and type hints become name, description and schemas, where they are not given. A parameter
    annotated as ``Context`` takes the call's context and is not part of the schema. With ``input_schema`` given, the
    first other parameter takes the whole arguments object.

    Raises:
        LocalProtocolError: it has no name that MCP allows, parameters without a JSON Schema or that cannot be given by
            name, or a given schema is none of an object.
    """
    inner = inspect.unwrap(getattr(function, "func", function))
    if name is None:
        name = str(getattr(function, "__name__", getattr(inner, "__name__", type(inner).__name__)))
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise LocalProtocolError(f"tool {name} must return its result, not yield")
    signature = read_signature(function, name)
    context = next((each for each, hint in signature.hints.items() if _is_context(hint)), None)
    model: type[msgspec.Struct] | None = None
    whole: str | None = None
    if input_schema is None:
        model = arguments_type(signature, name, context)
        input_schema = schema_of(model, name)
    else:
        whole = _whole_parameter(signature, name, context)
    promised = (
        ResultSchema(output_schema)
        if output_schema is not None
        else result_schema(signature.returns, name, WHOLE_RESULTS)
    )
    return ServerTool(
        name=name,
        function=function,
        input_schema=input_schema,
        promised=promised,
        description=description if description is not None else _description(function, inner),
        title=title,
        annotations=annotations,
        meta=meta,
        model=model,
        context=context,
        whole=whole,
    )


def _is_context(hint: Any) -> bool:
    if get_origin(hint) in (Annotated, Union, UnionType):
        return any(_is_context(part) for part in get_args(hint))
    return isinstance(hint, type) and issubclass(hint, Context)


def _whole_parameter(signature: Signature, name: str, context: str | None) -> str | None:
    others = [parameter for parameter in signature.parameters.values() if parameter.name != context]
    if not others:
        return None
    if others[0].kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
        raise LocalProtocolError(f"tool {name}: parameter {others[0].name} cannot be given by name")
    return others[0].name


def _description(function: Any, inner: Any) -> str | None:
    """The docstring, not that of a class that the application did not write."""
    for candidate in (inner, None if inspect.isroutine(inner) else type(inner).__call__):
        text = getattr(candidate, "__doc__", None)
        if isinstance(text, str):
            return inspect.cleandoc(text)
    return None
