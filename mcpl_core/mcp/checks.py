"""The checks that a tool carries from its listing on, for as long as anybody holds it.

Owns: the refusal of tools that run only as tasks, and results against the output schema that was listed with the tool.
Does not own: JSON Schema (``mcpl_core.schemas``, or the caller's own validator), and reading results (``results``).

A schema comes from the server: it is compiled within bounds, without the network, and one that cannot be compiled
leaves its tool listed and refuses its calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ..manifest import copy_tree
from ..schemas import SchemaValidator, SchemaViolation
from .errors import McpOutputMismatchError, McpOutputUncheckedError, McpTaskRequiredError

__all__ = ("BoundedValidator", "JsonSchemaValidator", "OutputChecker", "ToolChecks")

#: Returns what is wrong with a value, in words that hold nothing of it; ``None`` when it fits.
OutputChecker: TypeAlias = Callable[[Any], str | None]


@runtime_checkable
class JsonSchemaValidator(Protocol):
    """Makes checkers. One serves all tools of a client."""

    def get_validator(self, schema: dict[str, Any]) -> OutputChecker:
        """The checker of a schema. What it raises, the tool cannot be checked for."""


#: Characters of the place of a violation; members have the names that the server gave them.
_LONGEST_PLACE = 200


class BoundedValidator:
    """The validator of a client that was given no other: within bounds, and nothing is fetched.

    Raises, where a schema is compiled:
        SchemaError: it cannot be, or is over a bound.
        SchemaLibraryMissingError: the library is not installed.
    """

    def get_validator(self, schema: dict[str, Any]) -> OutputChecker:
        """See ``JsonSchemaValidator``."""
        validator = SchemaValidator(schema, defaults=False)

        def check(value: Any) -> str | None:
            try:
                validator.check(value)
            except SchemaViolation as exc:
                # Its text may show the value.
                return f"{exc.keyword or 'the schema'} is not met at {exc.pointer[:_LONGEST_PLACE] or 'its root'}"
            return None

        return check


class ToolChecks:
    """The checks of one tool, made of its definition as it was listed. A schema is compiled with the first call.

    Args:
        server: the name that the caller gave the server.
        definition: the tool, as received.
        validator: what compiles its output schema; ``None``: there is nothing that does.

    Attributes:
        declares_output: whether an output schema was listed.
        task_only: whether it runs only as a task.
    """

    __slots__ = ("_checker", "_failure", "_schema", "_server", "_tool", "_validator", "declares_output", "task_only")

    def __init__(self, server: str, definition: dict[str, Any], validator: JsonSchemaValidator | None) -> None:
        self._server = server
        self._tool = str(definition.get("name"))
        execution = definition.get("execution")
        self.task_only = isinstance(execution, dict) and execution.get("taskSupport") == "required"
        schema = definition.get("outputSchema")
        self.declares_output = schema is not None
        # A copy: whoever holds the definition may change it.
        self._schema: dict[str, Any] | None = copy_tree(schema) if isinstance(schema, dict) else None
        self._validator = validator
        self._checker: OutputChecker | None = None
        self._failure: Exception | None = None

    @property
    def unchecked(self) -> bool:
        """Whether a result would have to be checked and cannot be."""
        if self._schema is not None and self._validator is not None:
            schema, self._schema = self._schema, None
            try:
                self._checker = self._validator.get_validator(schema)
            except Exception as exc:
                # Also of a validator that is the caller's: what it raises must not cost the other tools.
                self._failure = exc
        return self.declares_output and self._checker is None

    def before(self) -> None:
        """Looks whether the tool may be called at all.

        Raises:
            McpTaskRequiredError, McpOutputUncheckedError: it may not.
        """
        if self.task_only:
            raise McpTaskRequiredError(self._server, self._tool)
        if self.unchecked:
            raise McpOutputUncheckedError(self._server, self._tool) from self._failure

    def after(self, result: dict[str, Any]) -> None:
        """Looks at a result. One that says that the tool failed promises nothing.

        Raises:
            McpOutputMismatchError: ``structuredContent`` is missing, or does not fit the schema.
            McpOutputUncheckedError: the checker itself failed.
        """
        if self._checker is None or result.get("isError") is True:
            return
        if "structuredContent" not in result:
            detail = "the tool has an output schema, and there is no structuredContent"
            raise McpOutputMismatchError(self._server, self._tool, detail, "$")
        try:
            problem = self._checker(result["structuredContent"])
        except Exception as exc:
            raise McpOutputUncheckedError(self._server, self._tool, sent=True) from exc
        if problem is not None:
            raise McpOutputMismatchError(self._server, self._tool, str(problem))
