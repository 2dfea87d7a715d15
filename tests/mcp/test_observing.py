"""What an observer hears of calls."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mcpl_core.errors import ConnectionClosedError, ConnectionTimeoutError, InvalidResultError, RpcError
from mcpl_core.mcp.errors import (
    CredentialsUnavailableError,
    McpOutputUncheckedError,
    McpTaskRequiredError,
    McpToolError,
    UnknownEffectError,
)
from mcpl_core.mcp.observing import ToolCallEnded, ToolCallStarted, outcome_of, tell


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (None, "success"),
        (McpToolError("s", "t", ""), "tool-error"),
        (McpTaskRequiredError("s", "t"), "not-sent"),
        (McpOutputUncheckedError("s", "t"), "not-sent"),
        (McpOutputUncheckedError("s", "t", True), "failure"),
        (CredentialsUnavailableError("x"), "not-sent"),
        (ConnectionClosedError("not-sent"), "not-sent"),
        (ConnectionClosedError("no-response"), "unknown"),
        (ConnectionTimeoutError("tools/call", 1.0), "unknown"),
        (UnknownEffectError("s", "t"), "unknown"),
        (RpcError(-32602), "failure"),
        (InvalidResultError("tools/call", "x"), "failure"),
        (ValueError(), "unknown"),
        (KeyboardInterrupt(), "cancelled"),
    ],
)
def test_each_end_has_a_name(failure: BaseException | None, outcome: str) -> None:
    assert outcome_of(failure) == outcome


def test_events_hold_names_numbers_and_classes_alone() -> None:
    assert [field.name for field in dataclasses.fields(ToolCallStarted)] == ["source", "tool", "number"]
    names = [field.name for field in dataclasses.fields(ToolCallEnded)]
    assert names == ["source", "tool", "number", "outcome", "duration", "error_class"]


def test_an_observer_that_breaks_is_logged_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: Any) -> None:
        raise RuntimeError("canary")

    tell(broken, ToolCallStarted("s", "t", 1))
    assert "RuntimeError" in caplog.text
    assert "canary" not in caplog.text


def test_without_an_observer_nothing_happens() -> None:
    seen: list[Any] = []
    tell(None, ToolCallStarted("s", "t", 1))
    tell(seen.append, ToolCallStarted("s", "t", 2))
    assert seen == [ToolCallStarted("s", "t", 2)]


@pytest.mark.parametrize(
    "failure", [ValueError(), InvalidResultError("tools/call", "x"), ConnectionTimeoutError("x", 1.0)]
)
def test_before_the_session_is_asked_nothing_is_sent(failure: Exception) -> None:
    assert outcome_of(failure, asked=False) == "not-sent"
    assert outcome_of(None, asked=False) == "success"
    assert outcome_of(KeyboardInterrupt(), asked=False) == "cancelled"
