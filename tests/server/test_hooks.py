"""From what context hooks return to one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpl_core import InvalidValueError, LocalProtocolError, resource_link, text_content
from mcpl_core.protocol import ContextInjection
from mcpl_core.server import ServerPolicy
from mcpl_core.server.hooks import HOOK_PATHS, POSITION_PATHS, hook_result, injections_of
from mcpl_core.wire.values import encode_value

BEFORE, AFTER, SYSTEM = POSITION_PATHS["beforeUser"], POSITION_PATHS["afterUser"], POSITION_PATHS["system"]
DECLARED = {
    "m.recall": {"description": "A", "uses": [BEFORE]},
    "m.rules": {"description": "B", "uses": [SYSTEM, AFTER]},
}


def injection(position: Any = "beforeUser", content: Any = "x", **more: Any) -> ContextInjection:
    return ContextInjection(namespace="m", position=position, content=content, **more)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("x", [text_content("x")]),
        (text_content("x"), [text_content("x")]),
        ({"type": "text", "text": "x"}, [text_content("x")]),
        (["x", text_content("y")], [text_content("x"), text_content("y")]),
    ],
)
def test_plain_content_is_one_injection_at_the_sets_own_position(value: Any, content: Any) -> None:
    (made,) = injections_of(value, [BEFORE], "memory")
    assert (made.namespace, made.position, made.content) == ("memory", "beforeUser", content)


@pytest.mark.parametrize(
    ("uses", "position"), [([SYSTEM, AFTER], "afterUser"), ([SYSTEM], "system"), ([SYSTEM, BEFORE], "beforeUser")]
)
def test_of_several_positions_the_least_consequential_is_taken(uses: list[str], position: str) -> None:
    assert injections_of("x", uses, "m")[0].position == position


def test_injections_stay_as_they_are_in_the_shape_of_the_spec() -> None:
    made = injection("system", [resource_link("memory://1", "one")], metadata={"a": 1})
    for value in (made, [made], (made,)):
        (kept,) = injections_of(value, [], "other")
        assert (kept.namespace, kept.position, kept.metadata) == ("m", "system", {"a": 1})
        assert [block.type for block in kept.blocks] == ["resource"]
    assert injections_of(injection(content="x"), [], "m")[0].content == "x"


def test_nothing_is_nothing() -> None:
    assert injections_of(None, [], "m") == []
    assert injections_of([], [BEFORE], "m") == []


def test_a_set_without_a_position_can_inject_nothing_plain() -> None:
    with pytest.raises(LocalProtocolError):
        injections_of("x", ["contextHooks.beforeInference.observe"], "m")


@pytest.mark.parametrize("value", [3, [injection(), 3], object(), {"position": "system"}])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValueError):
        injections_of(value, [BEFORE], "m")


def test_what_a_set_needs_one_of_to_have_a_hook() -> None:
    assert frozenset({"contextHooks.beforeInference.observe", BEFORE, AFTER, SYSTEM}) == HOOK_PATHS


# -- the answer


def answer(results: Any, *granted: str, disabled: tuple[str, ...] = ()) -> tuple[Any, list[BaseException]]:
    policy = ServerPolicy(lambda: DECLARED)
    policy.update({"effectiveCapabilities": list(granted), "disabled": list(disabled)}, "request")
    reported: list[BaseException] = []
    return json.loads(encode_value(hook_result(results, policy, reported.append))), reported


@pytest.mark.spec("6.5-2", "10.4-1")
def test_the_answer_names_the_set_and_has_all_injections() -> None:
    found, reported = answer([("m.recall", [injection(), injection(content="y")])], BEFORE)
    assert found == {
        "featureSet": "m.recall",
        "contextInjections": [
            {"namespace": "m", "position": "beforeUser", "content": "x"},
            {"namespace": "m", "position": "beforeUser", "content": "y"},
        ],
    }
    assert reported == []


def test_the_set_that_is_named_is_one_that_said_something() -> None:
    found, _ = answer([("m.rules", []), ("m.recall", [injection()])], BEFORE, AFTER, SYSTEM)
    assert found["featureSet"] == "m.recall"
    assert answer([("m.rules", []), ("m.recall", [])], BEFORE, AFTER, SYSTEM)[0] == {
        "featureSet": "m.rules",
        "contextInjections": [],
    }
    assert answer([], BEFORE)[0] == {"contextInjections": []}


@pytest.mark.spec("6.7-18")
def test_what_is_not_granted_any_more_is_left_out() -> None:
    results = [("m.recall", [injection()]), ("m.rules", [injection("system")])]
    found, reported = answer(results, BEFORE)
    assert [each["position"] for each in found["contextInjections"]] == ["beforeUser"]
    assert len(reported) == 1
    found, reported = answer(results, BEFORE, SYSTEM, AFTER, disabled=("m.recall",))
    assert [each["position"] for each in found["contextInjections"]] == ["system"]
    assert len(reported) == 1


@pytest.mark.spec("6.4-6")
def test_a_position_that_the_set_does_not_use_is_left_out_and_reported() -> None:
    found, reported = answer([("m.recall", [injection("system"), injection()])], BEFORE, SYSTEM, AFTER)
    assert [each["position"] for each in found["contextInjections"]] == ["beforeUser"]
    assert len(reported) == 1


@pytest.mark.parametrize("bad", [injection("middle"), injection(metadata=object()), injection(content=float("nan"))])
def test_one_bad_injection_costs_no_other(bad: ContextInjection) -> None:
    found, reported = answer([("m.recall", [bad, injection(content="y")])], BEFORE)
    assert [each["content"] for each in found["contextInjections"]] == ["y"]
    assert len(reported) == 1


def test_a_set_that_is_not_declared_any_more_injects_nothing() -> None:
    found, reported = answer([("m.gone", [injection()])], BEFORE)
    assert found["contextInjections"] == []
    assert len(reported) == 1
