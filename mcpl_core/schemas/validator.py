"""Values against JSON Schema, 2020-12 and older.

Owns: the validator of one schema: bounds, references, defaults and verdicts put together. Does not own: what the
keywords mean; that is the library ``jsonschema-rs`` (extras ``toolsets`` and ``mcp``), which is loaded when the first
validator is constructed.

- Nothing is ever fetched. A reference that leads out of the schema is an error at construction; the published
  meta-schemas are known to the library.
- ``format`` is an annotation, as 2020-12 has it, and checked only with ``formats=True``; formats that the library does
  not know are annotations then too.
- Regular expressions (``pattern``, ``patternProperties``) run in linear time. What cannot, look-around and
  back-references, runs on an engine that backtracks: with a bound on its steps, and only on values with no more text
  than ``max_backtracking_text``; a match that is not found within them counts as none. ``backtracking=False`` refuses
  such schemas instead.
- A check takes time in proportion to the values times the schemas that apply to each. The most that may be is known
  before it begins, and a value for which it is over ``max_work`` is not checked (``work``).
- Lone surrogates, which JSON can carry and Unicode text cannot, are read as U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote

from ..manifest import copy_tree
from ..trees import at_steps, json_pointer
from .bounds import SchemaLimits, check_bounds, check_value, count_expansions
from .defaults import Defaults
from .errors import SchemaError, SchemaLibraryMissingError, SchemaTooLargeError, SchemaViolation
from .explain import explain
from .references import References, Schema, Steps
from .work import Width, text_weight

__all__ = ("Checker", "SchemaValidator", "ValidatorFactory", "refuse_retrieval")

_DOCUMENT: Final = "mcpl-schema:document"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: Steps of one match on the engine that backtracks.
_BACKTRACKS: Final = 1_000
#: Bytes of one compiled pattern.
_PATTERN_SIZE: Final = 1 << 20


class Checker(Protocol):
    """What validates values against one schema. ``SchemaValidator`` is one; an application may bring its own."""

    def fill(self, value: Any) -> Any:
        """``value`` with the schema's defaults filled in; ``value`` itself is not changed."""
        ...

    def check(self, value: Any) -> None:
        """Raises ``SchemaViolation`` when ``value`` does not fit."""
        ...


#: Makes the checker of a schema: ``SchemaValidator``, or what an application brings.
ValidatorFactory: TypeAlias = Callable[[Schema], Checker]


class SchemaValidator:
    """The validator of one schema.

    Args:
        schema: an object or a boolean; it is copied.
        limits: what the schema may measure.
        defaults: whether ``fill`` fills in defaults; the defaults are checked then.
        formats: whether ``format`` is checked.
        backtracking: whether patterns with look-around and back-references are taken, within bounds.

    Raises:
        SchemaError: the schema cannot be used; ``code`` says why (``SchemaTooLargeError`` when it is over a limit).
        SchemaLibraryMissingError: the library is not installed.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        limits: SchemaLimits = SchemaLimits(),  # noqa: B008 - frozen
        defaults: bool = True,
        formats: bool = False,
        backtracking: bool = True,
    ) -> None:
        library = _load()
        check_bounds(schema, limits)
        self._limits = limits
        self._references = References(copy_tree(schema) if isinstance(schema, dict) else schema)
        count_expansions(self._references, limits)
        self._width = Width(self._references)
        self._text_width = Width(self._references, text_weight)
        self._patterns = self._text_width.at(limits.max_value_depth) > 1
        if self._width.at(0) > limits.max_work:
            raise SchemaTooLargeError("max_work", limits.max_work)
        self._judge = _Judge(library, self._references, formats)
        self._judge.compile(backtracking)
        self._defaults = Defaults(self._references, limits) if defaults else None
        if self._defaults is not None:
            self._check_defaults(self._defaults)

    @property
    def backtracking(self) -> bool:
        """Whether the schema has patterns that may backtrack."""
        return self._judge.backtracking

    def fill(self, value: Any) -> Any:
        """``value`` with the schema's defaults filled in (``defaults``). What was not changed is shared with it.

        Raises:
            SchemaViolation: it nests too deeply, or more would be filled in than ``max_filled``.
        """
        return value if self._defaults is None else self._defaults.fill(value)

    def check(self, value: Any) -> None:
        """Checks a plain JSON value, as far as the schema looks into it.

        Raises:
            SchemaViolation: it does not fit, is no JSON, nests deeper than ``max_value_depth``, has more text than the
                schema's patterns may be run on, or its check may be more than ``max_work``.
        """
        width = self._bound(value)
        try:
            if self._judge.fits((), value):
                return
            violation = explain(self._references, self._judge, value, self._limits.max_work // width)
        except ValueError:
            violation = SchemaViolation((), "", "is no JSON value")
        raise violation

    def _bound(self, value: Any) -> int:
        """How much work one value inside of ``value`` is at most."""
        measure = check_value(value, self._limits, text=self._judge.backtracking, patterns=self._patterns)
        width = self._width.at(measure.depth)
        if measure.values * width > self._limits.max_work:
            raise SchemaViolation((), "", "is too large for what its schema would look at")
        if measure.characters * self._text_width.at(measure.depth) > self._limits.max_work:
            raise SchemaViolation((), "pattern", "has more text than the patterns of its schema may be run on")
        return width

    def _check_defaults(self, defaults: Defaults) -> None:
        for holder in defaults.holders:
            value = defaults.fill_part(holder, holder["default"])
            fits = self._judge.fits(self._references.place(holder).steps, value)
            if not fits:
                raise SchemaError("default", "the default does not fit its own schema", defaults.place(holder))


class _Judge:
    """The library's verdicts on the schemas of one document.

    Attributes:
        backtracking: some pattern of the document needs the engine that backtracks.
    """

    def __init__(self, library: ModuleType, references: References, formats: bool) -> None:
        self._library = library
        self._references = references
        self._options: dict[str, Any] = {"retriever": refuse_retrieval, "validate_formats": formats}
        self._compiled: dict[Steps, Any] = {}
        self._patterns: dict[str, Any] = {}
        self._registry: Any = None
        self.backtracking = False

    def compile(self, backtracking: bool) -> None:
        """Compiles the document.

        Raises:
            SchemaError: the library cannot (``not_schema``, ``reference``, ``pattern``).
        """
        linear = self._library.RegexOptions(size_limit=_PATTERN_SIZE, dfa_size_limit=_PATTERN_SIZE)
        try:
            self._compiled[()] = self._compile(self._references.root.schema, linear)
        except SchemaError as exc:
            if exc.code != "pattern" or not backtracking:
                raise
            bounded = self._library.FancyRegexOptions(
                backtrack_limit=_BACKTRACKS, size_limit=_PATTERN_SIZE, dfa_size_limit=_PATTERN_SIZE
            )
            self._compiled[()] = self._compile(self._references.root.schema, bounded)
            self.backtracking = True

    def fits(self, steps: Steps, value: Any) -> bool:
        """Whether ``value`` is valid by the schema that stands there in the document.

        Raises:
            ValueError: it is no JSON.
        """
        if steps not in self._compiled:
            self._compiled[steps] = self._compile_part(steps)
        return _valid(self._compiled[steps], value)

    def meets(self, keywords: dict[str, Any], value: Any) -> bool:
        """Whether ``value`` is valid by these keywords alone, without any reference."""
        return _valid(self._new(keywords), value)

    def matches(self, pattern: str, name: str) -> bool:
        """Whether the name of a member matches a pattern of the document."""
        if pattern not in self._patterns:
            self._patterns[pattern] = self._new({"pattern": pattern})
        return _valid(self._patterns[pattern], name)

    def _compile(self, schema: Schema, patterns: Any) -> Any:
        self._options["pattern_options"] = patterns
        try:
            return self._new(schema)
        except self._library.ValidationError as exc:
            raise _schema_error(exc) from None
        except ValueError:
            raise SchemaError("not_schema", "it holds a lone surrogate") from None

    def _compile_part(self, steps: Steps) -> Any:
        if self._registry is None:
            draft = getattr(self._library, self._references.dialect.removesuffix("Validator"))
            document = (_DOCUMENT, self._references.root.schema)
            self._registry = self._library.Registry([document], draft=draft, retriever=refuse_retrieval)
        return self._new({"$ref": f"{_DOCUMENT}#{quote(json_pointer(steps))}"}, registry=self._registry)

    def _new(self, schema: Schema, **more: Any) -> Any:
        return getattr(self._library, self._references.dialect)(schema, **self._options, **more)


def _load() -> ModuleType:
    try:
        import jsonschema_rs
    except ModuleNotFoundError as exc:
        raise SchemaLibraryMissingError() from exc
    return jsonschema_rs


def refuse_retrieval(uri: str) -> Any:
    """What the library is given to fetch references with.

    Raises:
        LookupError: always.
    """
    raise LookupError("nothing is fetched")


def _valid(validator: Any, value: Any) -> bool:
    try:
        return bool(validator.is_valid(value))
    except UnicodeEncodeError:
        return bool(validator.is_valid(_without_surrogates(value)))


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case dict():
            return {_without_surrogates(name): _without_surrogates(member) for name, member in value.items()}
        case list() | tuple():
            return [_without_surrogates(element) for element in value]
        case _:
            return value


def _schema_error(error: Any) -> SchemaError:
    """What the library says of a schema, as ours. Its message may hold parts of the schema, so only facts are taken."""
    path = at_steps(error.instance_path)
    kind = error.kind
    if type(kind).__name__ == "Referencing":
        return SchemaError("reference", "a reference leads nowhere; nothing is fetched", path)
    if getattr(kind, "format", None) == "regex":
        return SchemaError("pattern", "a regular expression that is not one, is too large, or may backtrack", path)
    return SchemaError("not_schema", f"it is against the rules of its dialect ({kind.name})", path)
