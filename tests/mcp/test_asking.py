"""What one call of a tool says."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec import UNSET

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.asking import TIME_META, call_params, request_options
from mcpl_core.mcp.serving import call as serving

NOTHING: dict[str, Any] = {
    "time": UNSET, "meta": None, "trace": None, "input_responses": None, "request_state": None,
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "timeout": UNSET, "max_total": UNSET, "reset_on_progress": False, "on_progress": None, "default_max_total": 600.0,
}  # fmt: skip


@pytest.mark.spec("R-mcp-9")
def test_nothing_is_added_that_nobody_said() -> None:
    assert call_params("t", {"a": 1}, **NOTHING) == {"name": "t", "arguments": {"a": 1}}
    assert call_params("t", None, **{**NOTHING, "meta": {}, "trace": lambda: None}) == {"name": "t", "arguments": {}}


def test_what_was_said_is_there() -> None:
    said: dict[str, Any] = {"time": None, "meta": {"own": 1}, "input_responses": {"q": {}}, "request_state": ""}
    assert call_params("t", {}, **{**NOTHING, **said}) == {
        "name": "t",
        "arguments": {},
        "_meta": {"own": 1, TIME_META: None},
        "inputResponses": {"q": {}},
        "requestState": "",
    }


def test_both_directions_mean_the_same_time() -> None:
    assert TIME_META == serving.TIME_META


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("meta", [1]), ("meta", 7), ("meta", "x"), ("meta", []),
        ("input_responses", 7), ("input_responses", []), ("request_state", 7), ("request_state", b"x"),
    ],
)  # fmt: skip
def test_what_is_of_another_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        call_params("t", {}, **{**NOTHING, name: value})
    assert caught.value.code == name


def test_a_source_of_traces_that_fails_costs_no_call(caplog: pytest.LogCaptureFixture) -> None:
    def trace() -> dict[str, str]:
        raise RuntimeError("canary")

    with caplog.at_level(logging.DEBUG):
        assert "_meta" not in call_params("t", {}, **{**NOTHING, "trace": trace})
    assert "RuntimeError" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (UNSET, None, False)),
        ({"reset_on_progress": True}, (UNSET, 600.0, True)),
        ({"reset_on_progress": True, "timeout": None}, (None, None, True)),
        ({"reset_on_progress": True, "timeout": None, "max_total": 9}, (None, 9, True)),
        ({"reset_on_progress": True, "max_total": None}, (UNSET, None, True)),
        ({"timeout": 0, "max_total": 5.0}, (0, 5.0, False)),
    ],
)
def test_progress_extends_within_a_cap(options: Any, expected: Any) -> None:
    found = request_options(**{**DEFAULTS, **options})
    assert (found["timeout"], found["max_total"], found["reset_on_progress"]) == expected


@pytest.mark.parametrize("name", ["timeout", "max_total"])
@pytest.mark.parametrize("value", ["5", True, -1, float("nan"), [1]])
def test_seconds_are_a_number(name: str, value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        request_options(**{**DEFAULTS, name: value})
    assert caught.value.code == name


async def nobody_waits(params: Any) -> None:
    raise AssertionError("it ran")


def test_progress_is_told_to_a_function() -> None:
    assert request_options(**{**DEFAULTS, "on_progress": len})["on_progress"] is len
    for wrong in (7, "x", nobody_waits):
        with pytest.raises(InvalidValueError) as caught:
            request_options(**{**DEFAULTS, "on_progress": wrong})
        assert caught.value.code == "on_progress"
