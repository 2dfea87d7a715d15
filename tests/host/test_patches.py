"""JSON Patch within bounds."""

from __future__ import annotations

import builtins
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.host.patches import PatchLimits, apply_patch

DOCUMENT: dict[str, Any] = {"notes": [{"id": 1}, {"id": 2}], "a/b": {"~": 0}, "n": None}


@pytest.mark.parametrize(
    ("operation", "path", "expected"),
    [
        ({"op": "add", "path": "/notes/-", "value": 3}, ["notes"], [{"id": 1}, {"id": 2}, 3]),
        ({"op": "add", "path": "/notes/0", "value": 0}, ["notes"], [0, {"id": 1}, {"id": 2}]),
        ({"op": "add", "path": "/notes/2", "value": 0}, ["notes"], [{"id": 1}, {"id": 2}, 0]),
        ({"op": "add", "path": "/n", "value": 1}, ["n"], 1),
        ({"op": "add", "path": "", "value": [1]}, [], [1]),
        ({"op": "remove", "path": "/notes/0"}, ["notes"], [{"id": 2}]),
        ({"op": "remove", "path": "/a~1b/~0"}, ["a/b"], {}),
        ({"op": "replace", "path": "/notes/1/id", "value": 5}, ["notes", 1, "id"], 5),
        ({"op": "replace", "path": "", "value": None}, [], None),
        ({"op": "move", "from": "/notes/0", "path": "/first"}, ["first"], {"id": 1}),
        ({"op": "move", "from": "/notes", "path": "/notes"}, ["notes"], [{"id": 1}, {"id": 2}]),
        ({"op": "copy", "from": "/notes/0", "path": "/notes/-"}, ["notes", 2], {"id": 1}),
        ({"op": "test", "path": "/notes/0", "value": {"id": 1.0}}, ["notes", 0], {"id": 1}),
        ({"op": "test", "path": "", "value": DOCUMENT}, [], DOCUMENT),
    ],
)
@pytest.mark.spec("8.3-1")
def test_each_operation(operation: dict[str, Any], path: list[Any], expected: Any) -> None:
    before = copy.deepcopy(DOCUMENT)
    result = apply_patch(DOCUMENT, [operation])
    for step in path:
        result = result[step]
    assert result == expected
    assert before == DOCUMENT


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (7, "patch_form"),
        ({}, "patch_form"),
        ({"op": "add", "path": "/x"}, "patch_form"),
        ({"op": "add", "path": 7, "value": 1}, "patch_form"),
        ({"op": "merge", "path": "/x", "value": 1}, "patch_form"),
        ({"op": ["add"], "path": "/x", "value": 1}, "patch_form"),
        ({"op": "move", "path": "/x"}, "patch_form"),
        ({"op": "replace", "path": "/n"}, "patch_form"),
        ({"op": "add", "path": "x", "value": 1}, "patch_pointer"),
        ({"op": "add", "path": "/~2", "value": 1}, "patch_pointer"),
        ({"op": "add", "path": "/missing/x", "value": 1}, "patch_target"),
        ({"op": "add", "path": "/notes/01", "value": 1}, "patch_target"),
        ({"op": "add", "path": "/notes/3", "value": 1}, "patch_target"),
        ({"op": "add", "path": "/notes/+1", "value": 1}, "patch_target"),
        ({"op": "add", "path": "/n/x", "value": 1}, "patch_target"),
        ({"op": "remove", "path": ""}, "patch_target"),
        ({"op": "remove", "path": "/notes/-"}, "patch_target"),
        ({"op": "remove", "path": "/notes/9"}, "patch_target"),
        ({"op": "replace", "path": "/missing", "value": 1}, "patch_target"),
        ({"op": "move", "from": "/missing", "path": "/x"}, "patch_target"),
        ({"op": "move", "from": "/notes", "path": "/notes/0"}, "patch_target"),
        ({"op": "move", "from": "/n", "path": "/missing/x"}, "patch_target"),
        ({"op": "copy", "from": "/notes/7", "path": "/x"}, "patch_target"),
        ({"op": "test", "path": "/n", "value": False}, "patch_test"),
        ({"op": "test", "path": "/notes/0/id", "value": True}, "patch_test"),
        ({"op": "test", "path": "/notes", "value": [{"id": 1}]}, "patch_test"),
        ({"op": "test", "path": "/notes/0", "value": {"id": 1, "x": 2}}, "patch_test"),
        ({"op": "test", "path": "/notes/0", "value": [1]}, "patch_test"),
    ],
)
def test_what_cannot_be_applied_changes_nothing(operation: Any, code: str) -> None:
    before = copy.deepcopy(DOCUMENT)
    with pytest.raises(InvalidValueError) as caught:
        apply_patch(DOCUMENT, [{"op": "add", "path": "/x", "value": 1}, operation])
    assert (caught.value.code, caught.value.path) == (code, "$[1]")
    assert before == DOCUMENT


@pytest.mark.parametrize("text", ["/0", "/text/0", "/text/-"])
def test_a_string_is_no_container(text: str) -> None:
    document = "abc" if text == "/0" else {"text": "abc"}
    for operation in ({"op": "add", "path": text, "value": 1}, {"op": "remove", "path": text}):
        with pytest.raises(InvalidValueError) as caught:
            apply_patch(document, [operation])
        assert caught.value.code == "patch_target"


@pytest.mark.parametrize("patch", [None, {}, "[]", 7])
def test_a_patch_is_an_array(patch: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        apply_patch({}, patch)
    assert caught.value.code == "patch_form"


def limit_of(document: Any, patch: Any, **limits: int) -> InvalidValueError:
    with pytest.raises(InvalidValueError) as caught:
        apply_patch(document, patch, PatchLimits(**limits))
    assert caught.value.code == "patch_limit"
    return caught.value


def test_the_number_of_operations_is_bounded() -> None:
    noop = {"op": "test", "path": "", "value": {}}
    assert apply_patch({}, [noop] * 5, PatchLimits(operations=5)) == {}
    limit_of({}, [noop] * 6, operations=5)


def test_doubling_is_stopped_before_it_is_done() -> None:
    doubling = [{"op": "copy", "from": "", "path": "/-"}] * 60
    assert limit_of(["b" * 100], doubling, size=10_000).path == "$[6]"
    limit_of([1], [{"op": "copy", "from": "/0", "path": "/-"}] * 100, size=200)


def test_a_document_that_is_too_large_or_too_deep_is_not_begun() -> None:
    assert limit_of("x" * 1000, [], size=2000, work=900).path == "$"
    deep: Any = 0
    for _ in range(70):
        deep = [deep]
    limit_of(deep, [])
    limit_of({"a": {"b": {}}}, [{"op": "add", "path": "/a/b/c", "value": {"d": [1]}}], depth=5)
    limit_of({"a": {"b": {"c": 1}}, "d": {}}, [{"op": "move", "from": "/a", "path": "/d/a"}], depth=4)


def test_nesting_a_document_in_itself_is_bounded() -> None:
    limit_of({}, [{"op": "copy", "from": "", "path": "/x"}] * 100, size=10**9)


def test_looking_costs_too() -> None:
    document = {"a": ["x"] * 1000}
    limit_of(document, [{"op": "test", "path": "/a", "value": ["x"] * 1000}] * 50, work=100_000)
    limit_of({}, [{"op": "remove", "path": "/" + "x" * 5000}])


def test_replacing_makes_room() -> None:
    patch = [{"op": "replace", "path": "/a", "value": "y" * 500}] * 50
    assert apply_patch({"a": "x" * 500}, patch, PatchLimits(size=1200)) == {"a": "y" * 500}
    patch = [{"op": "remove", "path": "/a"}, {"op": "add", "path": "/a", "value": "z" * 500}] * 20
    assert apply_patch({"a": "x" * 500}, patch, PatchLimits(size=1200)) == {"a": "z" * 500}


def test_a_missing_extra_is_one_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "jsonpatch":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError) as caught:
        apply_patch({}, [])
    assert caught.value.name == "jsonpatch"
    assert "mcp-live-core[host]" in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=8,
)
POINTERS = st.text("/ab01~-", max_size=6)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": POINTERS},
    optional={"from": POINTERS, "value": JSON},
)


@given(JSON, st.lists(OPERATIONS, max_size=5))
def test_nothing_but_our_errors_and_never_a_half_patch(document: Any, patch: list[Any]) -> None:
    before = copy.deepcopy(document)
    given_patch = copy.deepcopy(patch)
    try:
        apply_patch(document, patch)
    except InvalidValueError as exc:
        assert exc.code.startswith("patch_")
    assert (document, patch) == (before, given_patch)
