"""Tools of a server: from a Python function to an MCP tool, and from what it returns to a ``tools/call`` result.

Owns: the JSON Schema of a function's parameters and result (msgspec's, JSON Schema 2020-12), reading arguments as
those types, and the shape of results. Does not own: who may call (``session``), and checking arguments against a
schema that the application gave (a ``validate`` function does).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from ..content import ContentBlock, text_content, to_mcp
from ..errors import InvalidValueError, LocalProtocolError
from ..protocol import StateRecord, ToolsCallResult
from ..wire.values import encode_value
from .context import Context

__all__ = ("ServerTool", "ToolError", "ToolResult", "tool_from_function", "tool_result")


class ToolError(Exception):
    """Raised by a tool to answer with an error that the model reads: ``isError: true`` with this text (MCP)."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's answer in full, where a plain return value does not say enough.

    Attributes:
        content: a text, a content block, or a list of blocks and texts.
        structured: the ``structuredContent`` member, an object; left out when ``UNSET``.
        is_error: the model should read this as a failure.
        state: the state that this call led to (SPEC 8.2).
        meta: the ``_meta`` member.
    """

    content: Any = ()
    structured: Any = UNSET
    is_error: bool = False
    state: StateRecord | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class ServerTool:
    """One tool.

    Attributes:
        name: its name on the wire.
        function: what is called, with keyword arguments, or with the arguments object when ``model`` is ``None``.
        input_schema, output_schema: JSON Schemas; the latter ``None`` when the result is text.
        description, title, annotations, meta: as in MCP's tool definition.
        model: the type that the arguments are read as.
        context: the name of the parameter that takes the ``Context``, or ``None``.
        wrapped: the result is no object, so it travels as ``{"result": ...}``.
    """

    name: str
    function: Callable[..., Any]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    description: str | None = None
    title: str | None = None
    annotations: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    model: type[msgspec.Struct] | None = None
    context: str | None = None
    wrapped: bool = False
    parameters: tuple[str, ...] = field(default=(), repr=False)

    def definition(self) -> dict[str, Any]:
        """The tool as ``tools/list`` shows it."""
        optional = {
            "title": self.title,
            "description": self.description,
            "outputSchema": self.output_schema,
            "annotations": self.annotations,
            "_meta": self.meta,
        }
        shown = {name: value for name, value in optional.items() if value is not None}
        return {"name": self.name, "inputSchema": self.input_schema, **shown}

    def bind(self, arguments: Mapping[str, Any], ctx: Context) -> Callable[[], Any]:
        """The call, ready to be made.

        Raises:
            InvalidValueError: the arguments do not fit the parameters; ``path`` says where.
        """
        extra = {} if self.context is None else {self.context: ctx}
        if self.model is None:
            return lambda: self.function(dict(arguments), **extra)
        try:
            values = msgspec.convert(dict(arguments), self.model)
        except msgspec.ValidationError as exc:
            detail, _, path = str(exc).partition(" - at `")
            raise InvalidValueError("arguments", detail, path.rstrip("`") or "$") from exc
        keywords = {name: getattr(values, name) for name in self.parameters}
        return lambda: self.function(**keywords, **extra)


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
    """Makes a tool of a function, sync or async.

    Its name, docstring and type hints become name, description and schemas, where they are not given. A parameter
    annotated as ``Context`` takes the call's context and is not part of the schema. With ``input_schema`` given, the
    function takes the whole arguments object as its first parameter.

    Raises:
        LocalProtocolError: the parameters have no JSON Schema (``*args``, a type that JSON has no form for).
    """
    hints = get_type_hints(function, include_extras=True)
    returns = hints.pop("return", Any)
    parameters = inspect.signature(function).parameters
    context = next((name for name, hint in hints.items() if hint is Context), None)
    model: type[msgspec.Struct] | None = None
    names: tuple[str, ...] = ()
    if input_schema is None:
        model = _model(function, parameters, hints, context)
        names = model.__struct_fields__
        input_schema = _schema(model)
    wrapped = False
    if output_schema is None:
        output_schema, wrapped = _result_schema(returns)
    return ServerTool(
        name=name or function.__name__,
        function=function,
        input_schema=input_schema,
        output_schema=output_schema,
        description=description if description is not None else inspect.getdoc(function),
        title=title,
        annotations=annotations,
        meta=meta,
        model=model,
        context=context,
        wrapped=wrapped,
        parameters=names,
    )


_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _model(
    function: Callable[..., Any],
    parameters: Mapping[str, inspect.Parameter],
    hints: dict[str, Any],
    context: str | None,
) -> type[msgspec.Struct]:
    """A struct with the function's parameters as its fields."""
    fields: list[Any] = []
    for name, parameter in parameters.items():
        if name == context:
            continue
        if parameter.kind not in _KEYWORD_KINDS:
            raise LocalProtocolError(f"tool {function.__name__}: parameter {name} cannot be passed by name")
        hint = hints.get(name, Any)
        if parameter.default is inspect.Parameter.empty:
            fields.append((name, hint))
        else:
            fields.append((name, hint, _default(parameter.default)))
    return msgspec.defstruct(f"{function.__name__}_arguments", fields, kw_only=True)


def _default(value: Any) -> Any:
    # Mutable defaults are shared between calls in Python; here each call gets its own.
    return msgspec.field(default_factory=value.copy) if isinstance(value, list | dict | set) else value


def _schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type, with an object at its root."""
    try:
        (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    except (TypeError, NotImplementedError) as exc:
        raise LocalProtocolError(f"no JSON Schema for {kind!r}: {exc}") from exc
    reference = schema.get("$ref", "")
    if reference:
        schema = components.pop(reference.removeprefix("#/$defs/"))
    schema.pop("title", None)
    return {**schema, "$defs": components} if components else schema


_TEXT_RESULTS = (str, None, type(None), Any, ToolResult, ToolsCallResult, inspect.Signature.empty)


def _result_schema(returns: Any) -> tuple[dict[str, Any] | None, bool]:
    """The output schema that follows from a return hint, and whether the result must be wrapped in an object."""
    if returns in _TEXT_RESULTS or _holds_blocks(returns):
        return None, False
    try:
        schema = _schema(returns)
    except LocalProtocolError:
        return None, False
    if schema.get("type") == "object":
        return schema, False
    defs = schema.pop("$defs", None)
    wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    return ({**wrapped, "$defs": defs} if defs else wrapped), True


def _holds_blocks(hint: Any) -> bool:
    """Whether a return hint speaks of content blocks anywhere."""
    arguments = getattr(hint, "__args__", ())
    return (isinstance(hint, type) and issubclass(hint, ContentBlock)) or any(_holds_blocks(part) for part in arguments)


def tool_result(tool: ServerTool, value: Any) -> dict[str, Any]:
    """What a tool returned, as the result of ``tools/call`` (MCP; SPEC 8.2 for ``state``).

    A text is one text block; content blocks stay as they are, in MCP's shapes; ``ToolResult`` says all; anything else
    becomes ``structuredContent`` and, for hosts that do not read that, its JSON text.

    Raises:
        UnencodableError: the value has no JSON form.
    """
    if isinstance(value, ToolsCallResult):
        return dict(msgspec.to_builtins(value))
    if isinstance(value, ToolResult):
        return _full_result(value)
    if value is None and tool.output_schema is None:
        return {"content": []}
    if _is_content(value):
        return {"content": _blocks(value)}
    return _structured(tool, value)


def _full_result(value: ToolResult) -> dict[str, Any]:
    result: dict[str, Any] = {"content": _blocks(value.content)}
    if value.structured is not UNSET:
        result["structuredContent"] = value.structured
        if not result["content"]:
            result["content"] = _blocks(encode_value(value.structured).decode())
    if value.is_error:
        result["isError"] = True
    if value.state is not UNSET:
        result["state"] = value.state
    if value.meta is not UNSET:
        result["_meta"] = value.meta
    return result


def _structured(tool: ServerTool, value: Any) -> dict[str, Any]:
    text = encode_value(value)
    plain = msgspec.json.decode(text)
    if tool.wrapped or not isinstance(plain, dict):
        plain = {"result": plain}
    return {"content": _blocks(text.decode()), "structuredContent": plain}


def _is_content(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(item, ContentBlock) for item in value)
    return isinstance(value, str | ContentBlock)


def _blocks(content: Any) -> list[Any]:
    items = content if isinstance(content, list | tuple) else [content]
    return [to_mcp(text_content(item) if isinstance(item, str) else item) for item in items]
