"""The exceptions of the JSON Schema validator.

Owns: what can be wrong with a schema, and with a value that was checked. Does not own: deciding when. No text repeats
a value of any length.

    McplError
    +-- SchemaLibraryMissingError      the library jsonschema-rs is not installed
    +-- InvalidValueError
        +-- SchemaViolation            a value does not fit its schema
        +-- SchemaError                a schema cannot be used
            +-- SchemaTooLargeError    it is over a limit
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from ..errors import InvalidValueError, McplError
from ..trees import at_steps, json_pointer

__all__ = ("SchemaError", "SchemaErrorCode", "SchemaLibraryMissingError", "SchemaTooLargeError", "SchemaViolation")

#: Characters of a path that a sentence shows; the names in it are the value's own.
_LONGEST_PATH: Final = 200

#: Why a schema cannot be used.
SchemaErrorCode = Literal[
    "not_schema",  # neither an object nor a boolean, no JSON, or against the rules of its dialect
    "dialect",  # ``$schema`` names a dialect that nobody here knows
    "reference",  # a reference that leads nowhere inside the schema; nothing is ever fetched
    "pattern",  # a regular expression that cannot be used
    "default",  # a default that its own schema refuses, or that never ends
    "limit",  # over a limit
]


class SchemaError(InvalidValueError):
    """A schema cannot be used. Raised where the validator is constructed, never where a value is checked.

    Attributes:
        code: one of ``SchemaErrorCode``.
        path: where in the schema, as ``$.a.b[0]``.
        detail: what is wrong there.
    """

    code: SchemaErrorCode

    def __init__(self, code: SchemaErrorCode, detail: str, path: str = "$") -> None:
        super().__init__(code, detail, path)


class SchemaTooLargeError(SchemaError):
    """A schema is over one of its limits.

    Attributes:
        limit: the name of the limit, as in ``SchemaLimits``.
        allowed: what it allows.
    """

    def __init__(self, limit: str, allowed: int, path: str = "$") -> None:
        super().__init__("limit", f"the schema is over the limit {limit} ({allowed:,})", path)
        self.args = (limit, allowed, path)
        self.limit = limit
        self.allowed = allowed


class SchemaViolation(InvalidValueError):
    """A value does not fit its schema.

    Attributes:
        code: ``keyword``, or ``schema`` where a schema is ``false``, the value is no JSON, or nests too deeply.
        keyword: the keyword of the schema that was not met; empty where ``code`` is ``schema``.
        steps: where in the value: member names and indices from the outside in.
        detail: what is expected there, in words that a model can act on; at most a few hundred characters.
    """

    def __init__(self, steps: Iterable[str | int], keyword: str, detail: str) -> None:
        self.steps = tuple(steps)
        self.keyword = keyword
        super().__init__(keyword or "schema", detail, at_steps(self.steps))
        self.args = (self.steps, keyword, detail)

    @property
    def pointer(self) -> str:
        """Where in the value, as a JSON pointer (RFC 6901); empty for the whole value."""
        return json_pointer(self.steps)

    def __str__(self) -> str:
        where = self.pointer
        if len(where) > _LONGEST_PATH:
            where = f"{where[: _LONGEST_PATH - 3]}..."
        return f"{where or 'the value'} {self.detail}"


class SchemaLibraryMissingError(McplError, ImportError):
    """The library that validates is not installed. Raised where a validator is constructed.

    Attributes:
        library: its name.
        extras: the extras of this distribution that bring it.
    """

    def __init__(self, library: str = "jsonschema-rs", extras: tuple[str, ...] = ("toolsets", "mcp")) -> None:
        super().__init__(library, extras)
        self.library = library
        self.extras = extras

    def __str__(self) -> str:
        ways = " or ".join(f"pip install 'mcp-live-core[{extra}]'" for extra in self.extras)
        return f"validation needs the library {self.library}: {ways}"
