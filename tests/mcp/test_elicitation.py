"""Questions to a person, as forms and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.elicitation import Question, QuestionKind, form_of, questions_of, read_answers


def code_of(call: Any) -> str:
    with pytest.raises(InvalidValueError) as caught:
        call()
    assert "canary" not in str(caught.value)
    return caught.value.code


def test_a_form_is_flat() -> None:
    questions = [
        Question("name", title="Your name", required=True),
        Question("age", "integer"),
        Question("colour", "choice", options=["r", "g"], labels=["Red", "Green"]),
        Question("when", "time-range", description="Off", required=True),
    ]
    assert form_of(questions) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name"},
            "age": {"type": "integer"},
            "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
            "when_from": {"type": "string", "format": "date-time", "description": "Off"},
            "when_to": {"type": "string", "format": "date-time", "description": "Off"},
        },
        "required": ["name", "when_from", "when_to"],
    }


NAMES = st.text("abcde", min_size=1, max_size=6)
WORDS = st.none() | st.text(max_size=5)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    kind: QuestionKind = draw(st.sampled_from(["text", "number", "integer", "boolean", "choice", "time", "time-range"]))
    options = draw(st.lists(st.text(max_size=4), min_size=1, max_size=3, unique=True)) if kind == "choice" else []
    labels = draw(st.just([]) | st.lists(st.text(max_size=4), min_size=len(options), max_size=len(options)))
    return Question(draw(NAMES), kind, draw(WORDS), draw(WORDS), draw(st.booleans()), options, labels)


@given(st.lists(questions(), max_size=5, unique_by=lambda question: question.name))
def test_questions_survive_the_round_trip(asked: list[Question]) -> None:
    assert questions_of(form_of(asked)) == asked


ANSWERS: dict[QuestionKind, tuple[Any, Any]] = {
    "text": ("x", 7),
    "number": (1.5, True),
    "integer": (7, 1.5),
    "boolean": (True, 1),
    "choice": ("r", "canary"),
    "time": ("2026-01-01T00:00:00Z", 7),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_is_of_its_kind(kind: QuestionKind) -> None:
    good, bad = ANSWERS[kind]
    question = Question("q", kind, options=["r", "g"] if kind == "choice" else [])
    assert read_answers([question], {"q": good}) == {"q": good}
    assert code_of(lambda: read_answers([question], {"q": bad})) == "answer"
    assert code_of(lambda: read_answers([question], {"q": None})) == "answer"


@pytest.mark.spec("R-mcp-16")
def test_a_range_is_answered_as_a_whole_or_not_at_all() -> None:
    question = Question("when", "time-range")
    assert read_answers([question], {"when_from": "a", "when_to": "b"}) == {"when": ("a", "b")}
    assert read_answers([question], {}) == {}
    assert code_of(lambda: read_answers([question], {"when_from": "a"})) == "range"


@pytest.mark.parametrize(
    ("content", "code"),
    [({}, "missing"), ({"q": "x", "canary": 1}, "unasked"), ([], "answer"), (None, "answer"), ({"q": 7}, "answer")],
)
def test_answers_that_are_none(content: Any, code: str) -> None:
    asked = [Question("q", required=True)]
    with pytest.raises(InvalidValueError) as caught:
        read_answers(asked, content)
    assert caught.value.code == code


def test_numbers_are_finite() -> None:
    assert code_of(lambda: read_answers([Question("n", "number")], {"n": float("inf")})) == "answer"
    assert code_of(lambda: read_answers([Question("n", "integer")], {"n": float("nan")})) == "answer"


@pytest.mark.parametrize("kind", ["number", "integer"])
def test_whole_numbers_may_be_larger_than_any_float(kind: QuestionKind) -> None:
    assert read_answers([Question("n", kind)], {"n": 10**400}) == {"n": 10**400}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"kind": "date"}, "kind"),
        ({"options": ["a"]}, "options"),
        ({"kind": "number", "options": ["1"]}, "options"),
        ({"kind": "boolean", "options": ["yes"]}, "options"),
        ({"kind": "choice"}, "options"),
        ({"kind": "choice", "options": ["a"], "labels": ["A", "B"]}, "labels"),
        ({"kind": "choice", "options": ["a"], "labels": [1]}, "labels"),
        ({"kind": "choice", "options": ["a"], "labels": "A"}, "labels"),
        ({"kind": "choice", "options": "ab"}, "options"),
        ({"kind": "choice", "options": [1]}, "options"),
        ({"kind": "choice", "options": ["a", "a"]}, "options"),
        ({"kind": "choice", "options": 7}, "options"),
        ({"name": ""}, "name"),
        ({"name": 7}, "name"),
    ],
)
def test_questions_that_make_no_sense(options: Any, code: str) -> None:
    assert code_of(lambda: Question(**{"name": "q", **options})) == code


def test_a_name_is_used_once() -> None:
    assert code_of(lambda: form_of([Question("a_from"), Question("a", "time-range")])) == "duplicate"


TEXT = {"type": "string"}
TIME = {"type": "string", "format": "date-time"}


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (None, "form"),
        ({"type": "object"}, "form"),
        ({"type": "array", "properties": {}}, "form"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, "form"),
        ({"type": "object", "properties": {"a": {"type": "array", "items": TEXT}}}, "form"),
        ({"type": "object", "properties": {"a": True}}, "form"),
        ({"type": "object", "properties": {"a": TEXT}, "required": ["b"]}, "form"),
        ({"type": "object", "properties": {"a": TEXT}, "required": "a"}, "form"),
        ({"type": "object", "properties": {"a": {"type": "number", "enum": [1, 2]}}}, "enum"),
        ({"type": "object", "properties": {"a": {"type": "boolean", "enum": [True]}}}, "enum"),
        ({"type": "object", "properties": {"a": {"type": "string", "enum": [1]}}}, "enum"),
        ({"type": "object", "properties": {"a": {"type": "string", "enum": []}}}, "enum"),
        ({"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "x"]}}}, "enum"),
        ({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"], "enumNames": ["1", "2"]}}}, "labels"),
        ({"type": "object", "properties": {"": TEXT}}, "name"),
        ({"type": "object", "properties": {"_from": TIME, "_to": TIME}}, "name"),
        ({"type": "object", "properties": {"a_from": TIME}}, "range"),
        ({"type": "object", "properties": {"a_from": TIME, "a_to": TEXT}}, "range"),
    ],
)
def test_forms_that_are_none(schema: Any, code: str) -> None:
    assert code_of(lambda: questions_of(schema)) == code


def test_the_later_form_of_a_choice_is_read() -> None:
    entries = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
    schema = {"type": "object", "properties": {"c": {"type": "string", "oneOf": entries}, "t_to": TIME}}
    assert questions_of(schema) == [
        Question("c", "choice", options=["r", "g"], labels=["Red", "Green"]),
        Question("t_to", "time"),
    ]
