"""Questions to a person as MCP's elicitation forms, and the answers back (MCP ``elicitation/create``).

Owns: a few typed questions, the flat schema that they make, the questions that a schema is, and reading what was
answered. Does not own: sending, and showing a form.

A form is flat: texts, numbers, truth values, choices. A range of time is two members of it, both or neither answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from ..errors import InvalidValueError

__all__ = ("Question", "QuestionKind", "form_of", "questions_of", "read_answers")

#: ``choice``: a text out of ``options``; ``time-range``: two points in time (ISO 8601), as a pair.
QuestionKind = Literal["text", "number", "integer", "boolean", "choice", "time", "time-range"]
_KINDS: Final = get_args(QuestionKind)

#: The two members of a range.
_FROM, _TO = "_from", "_to"


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        name: of the answer.
        kind: see ``QuestionKind``.
        title, description: for the person.
        required: whether it must be answered.
        options: the values of a ``choice``, and of nothing else.
        labels: what the person sees in their place, one for each.

    Raises:
        InvalidValueError: options where there is no choice, none where there is one, labels that do not fit, or a
            member of another type.
    """

    name: str
    kind: QuestionKind = "text"
    title: str | None = None
    description: str | None = None
    required: bool = False
    options: Sequence[str] = ()
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise InvalidValueError("kind", f"a question is one of {', '.join(_KINDS)}", f"$.{self.name}")
        if not isinstance(self.name, str) or not self.name:
            raise InvalidValueError("name", "a question has a name", "$")
        if not _are_texts(self.options) or len(set(self.options)) < len(self.options):
            raise InvalidValueError("options", "options are texts, each of them once", f"$.{self.name}")
        if not _are_texts(self.labels):
            raise InvalidValueError("labels", "labels are texts", f"$.{self.name}")
        if (self.kind == "choice") != bool(self.options):
            raise InvalidValueError("options", "a choice has options, and nothing else has", f"$.{self.name}")
        if self.labels and len(self.labels) != len(self.options):
            raise InvalidValueError("labels", "one label for each option is needed", f"$.{self.name}")
        object.__setattr__(self, "options", tuple(self.options))
        object.__setattr__(self, "labels", tuple(self.labels))


def form_of(questions: Iterable[Question]) -> dict[str, Any]:
    """The ``requestedSchema`` of some questions.

    Raises:
        InvalidValueError: two of them have the same member in it (``duplicate``).
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    for question in questions:
        for name, schema in _members(question).items():
            if name in properties:
                raise InvalidValueError("duplicate", "the name is used twice", f"$.properties.{name}")
            properties[name] = schema
            required += [name] if question.required else []
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def questions_of(schema: Any) -> list[Question]:
    """The questions that a ``requestedSchema`` of a server is, in its order.

    Raises:
        InvalidValueError: it is no flat form (``form``), has a choice of anything but texts (``enum``), labels that do
            not fit (``labels``), half a range (``range``), or a member without a name (``name``).
    """
    properties = schema.get("properties") if isinstance(schema, dict) and schema.get("type") == "object" else None
    if not isinstance(properties, dict):
        raise InvalidValueError("form", "a form is an object with properties", "$")
    listed = schema.get("required", [])
    if not isinstance(listed, list) or not all(name in properties for name in listed if isinstance(name, str)):
        raise InvalidValueError("form", "required names properties", "$.required")
    found: list[Question] = []
    for name, member in properties.items():
        path = f"$.properties.{name}"
        if not isinstance(member, dict):
            raise InvalidValueError("form", "a property is an object", path)
        if member.get("format") == "date-time" and name.endswith(_TO) and name[: -len(_TO)] + _FROM in properties:
            continue  # the other half stands before
        found.append(_question(name, member, properties, name in listed, path))
    return found


def read_answers(questions: Iterable[Question], content: Any) -> dict[str, Any]:
    """What was answered, by the names of the questions; what was left open is absent. A range is a pair.

    Raises:
        InvalidValueError: something is answered that was not asked (``unasked``), not answered that must be
            (``missing``), half a range (``range``), or of another type or choice (``answer``). The error shows no
            answer.
    """
    if not isinstance(content, dict):
        raise InvalidValueError("answer", "answers are an object")
    asked = list(questions)
    known = {name for question in asked for name in _names(question)}
    for name in content:
        if name not in known:
            raise InvalidValueError("unasked", "this was not asked", f"$.{str(name)[:64]}")
    found: dict[str, Any] = {}
    for question in asked:
        given = [name for name in _names(question) if name in content]
        if len(given) not in (0, len(_names(question))):
            raise InvalidValueError("range", "half a range of time is none", f"$.{question.name}")
        if not given and question.required:
            raise InvalidValueError("missing", "this must be answered", f"$.{question.name}")
        values = tuple(_checked(question, content[name], f"$.{name}") for name in given)
        if values:
            found[question.name] = values if question.kind == "time-range" else values[0]
    return found


def _names(question: Question) -> tuple[str, ...]:
    name = question.name
    return (name + _FROM, name + _TO) if question.kind == "time-range" else (name,)


def _members(question: Question) -> dict[str, dict[str, Any]]:
    words = {"title": question.title, "description": question.description}
    shown = {name: value for name, value in words.items() if value is not None}
    if question.kind == "choice":
        schema: dict[str, Any] = {"type": "string", "enum": list(question.options)}
        if question.labels:
            schema["enumNames"] = list(question.labels)
    elif question.kind in ("time", "time-range"):
        schema = {"type": "string", "format": "date-time"}
    else:
        schema = {"type": "string" if question.kind == "text" else question.kind}
    return {name: {**schema, **shown} for name in _names(question)}


def _question(name: str, member: dict[str, Any], properties: Mapping[str, Any], required: bool, path: str) -> Question:
    kind = member.get("type")
    options, labels = _choice(member, kind, path)
    if kind not in ("string", "number", "integer", "boolean"):
        raise InvalidValueError("form", "a property is a text, a number or a truth value", path)
    asked: QuestionKind = "text" if kind == "string" else kind
    if options:
        asked = "choice"
    elif member.get("format") == "date-time":
        asked = "time"
        if name.endswith(_FROM):
            other = properties.get(name[: -len(_FROM)] + _TO)
            if not isinstance(other, dict) or other.get("format") != "date-time":
                raise InvalidValueError("range", "half a range of time is none", path)
            asked, name = "time-range", name[: -len(_FROM)]
    words = {word: member[word] for word in ("title", "description") if isinstance(member.get(word), str)}
    return Question(name, asked, required=required, options=options, labels=labels, **words)


def _choice(member: dict[str, Any], kind: Any, path: str) -> tuple[list[str], list[str]]:
    """Values and labels of a choice, in the two forms that MCP has."""
    options, labels = member.get("enum"), member.get("enumNames", [])
    if options is None and isinstance(member.get("oneOf"), list):
        entries = [entry for entry in member["oneOf"] if isinstance(entry, dict)]
        options, labels = [entry.get("const") for entry in entries], [str(entry.get("title", "")) for entry in entries]
    if options is None:
        return [], []
    texts = isinstance(options, list) and bool(options) and _are_texts(options)
    if kind != "string" or not texts or len(set(options)) < len(options):
        raise InvalidValueError("enum", "a choice is one of texts, each of them once", path)
    return options, labels if isinstance(labels, list) and all(isinstance(label, str) for label in labels) else []


def _are_texts(values: Any) -> bool:
    is_list = isinstance(values, Sequence) and not isinstance(values, str | bytes)
    return is_list and all(isinstance(value, str) for value in values)


def _is_number(value: Any) -> bool:
    # A whole number may be larger than any float.
    return not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    )


_FITS: Final[dict[QuestionKind, Callable[[Any], bool]]] = {
    "text": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "boolean": lambda value: isinstance(value, bool),
    "choice": lambda value: isinstance(value, str),
    "time": lambda value: isinstance(value, str),
    "time-range": lambda value: isinstance(value, str),
}


def _checked(question: Question, value: Any, path: str) -> Any:
    if not _FITS[question.kind](value) or (question.kind == "choice" and value not in question.options):
        raise InvalidValueError("answer", f"no answer to a question of kind {question.kind}", path)
    return value
