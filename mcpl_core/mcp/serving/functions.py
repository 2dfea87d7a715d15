"""Tools made of Python functions.

Owns: reading a function's name, docstring and type hints as a tool, and giving it the arguments one by one. Does not
own: schemas and results (``mcpl_core.server``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_args

from ...errors import InvalidValueError
from ...server.results import WHOLE_RESULTS, ToolError
from ...server.schemas import ResultSchema, arguments_type, read_signature, result_schema, schema_of
from ...server.tools import ServerTool
from ..transports import CredentialRequest
from .call import ToolCall

__all__ = ("FunctionTool", "function_tool")


class FunctionTool:
    """A function as a tool. A parameter annotated as ``ToolCall`` takes the call; the others are its arguments.

    Args:
        definition: the tool as ``mcpl_core.server`` has it.
        needs: see ``ServedTool``.

    Attributes:
        name, title, description, input_schema, output_schema, annotations, meta, needs: see ``ServedTool``.
        function: the function.
        execute: ``execute(arguments, call)``; raises ``ToolError`` when the arguments do not fit the parameters.
        promised: its output schema, with the type that results are checked against.
    """

    def __init__(self, definition: ServerTool, needs: tuple[str | CredentialRequest, ...] = ()) -> None:
        self._definition = definition
        self.name = definition.name
        self.title = definition.title
        self.description = definition.description
        self.input_schema: Mapping[str, Any] = definition.input_schema
        self.output_schema: Mapping[str, Any] | None = definition.promised.schema
        self.annotations = definition.annotations
        self.meta = definition.meta
        self.needs = needs
        self.function = definition.function
        self.promised: ResultSchema = definition.promised
        # A coroutine function needs no worker thread, and whoever runs this can tell by looking at it.
        self.execute: Callable[[Any, Any], Any] = (
            self._execute_here if inspect.iscoroutinefunction(definition.function) else self._execute
        )

    async def _execute_here(self, arguments: Any, call: Any) -> Any:
        return await self._execute(arguments, call)

    def _execute(self, arguments: Any, call: Any) -> Any:
        if not isinstance(arguments, Mapping | None):
            raise ToolError(f"invalid arguments at $: an object is wanted, not {type(arguments).__name__}")
        try:
            keywords = self._definition.bind(arguments or {}, call)
        except InvalidValueError as exc:
            raise ToolError(f"invalid arguments at {exc.path}: {exc.detail}") from exc
        return self.function(**keywords)


def function_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    needs: tuple[str | CredentialRequest, ...] = (),
) -> FunctionTool:
    """Makes a tool of a function, sync or async; what is not given comes from its name, docstring and hints.

    Raises:
        LocalProtocolError: it has no name that MCP allows, or parameters without a JSON Schema.
    """
    if name is None:
        name = str(getattr(function, "__name__", type(function).__name__))
    signature = read_signature(function, name)
    context = next((each for each, hint in signature.hints.items() if _is_call(hint)), None)
    model = arguments_type(signature, name, context)
    doc = inspect.getdoc(function) if inspect.isroutine(function) else None
    definition = ServerTool(
        name=name,
        function=function,
        input_schema=schema_of(model, name),
        promised=result_schema(signature.returns, name, WHOLE_RESULTS),
        description=doc if description is None else description,
        title=title,
        annotations=annotations,
        meta=meta,
        model=model,
        context=context,
    )
    return FunctionTool(definition, needs)


def _is_call(hint: Any) -> bool:
    return hint is ToolCall or any(_is_call(part) for part in get_args(hint))
