"""Who allows that a tool call is sent once more, and what is recorded of it."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.replay import (
    REFUSED_BEFORE_EXECUTION,
    AttemptOutcome,
    AttemptRecord,
    CallRecord,
    Cause,
    Effect,
    Permission,
    Replay,
    ReplayPolicy,
    ToolReplay,
    Watched,
    may_have_run,
    permission_for,
    replay_unavailable,
)

ASSUMED = Permission("compatibility", "throttle", REFUSED_BEFORE_EXECUTION)


def test_compatibility_repeats_a_throttled_call_of_any_tool_on_an_assumption() -> None:
    replay = Replay()
    assert permission_for(replay, "any", {}, "throttle") == ASSUMED
    assert permission_for(replay, "any", {}, "network") is None
    assert not replay.declares("any")


def test_app_authorized_repeats_only_what_was_declared() -> None:
    replay = Replay("app-authorized", {"read": ToolReplay(on=("network",)), "busy": ToolReplay(on=("throttle",))})
    assert permission_for(replay, "read", {}, "network") == Permission("app-authorized", "network")
    assert permission_for(replay, "read", {}, "throttle") is None
    assert permission_for(replay, "busy", {}, "throttle") == Permission("app-authorized", "throttle")
    assert permission_for(replay, "undeclared", {}, "throttle") is None
    assert replay.declares("undeclared")


def test_compatibility_keeps_to_declared_causes_too() -> None:
    replay = Replay(tools={"read": ToolReplay(on=("network",))})
    assert permission_for(replay, "read", {}, "network") == Permission("app-authorized", "network")
    assert permission_for(replay, "read", {}, "throttle") == ASSUMED
    assert replay.declares("read")


@pytest.mark.parametrize("policy", ["compatibility", "app-authorized"])
@pytest.mark.parametrize("cause", ["throttle", "network"])
def test_what_changes_something_is_repeated_only_with_its_key(policy: ReplayPolicy, cause: Cause) -> None:
    bare = Replay(policy, {"pay": ToolReplay(on=("throttle", "network"), changes=True)})
    keyed = Replay(policy, {"pay": ToolReplay(on=("throttle", "network"), changes=True, deduplicates="key")})
    assert permission_for(bare, "pay", {"key": "k1"}, cause) is None
    for arguments in ({}, {"key": None}, {"key": ""}, None, ["key"]):
        assert permission_for(keyed, "pay", arguments, cause) is None
    assert permission_for(keyed, "pay", {"key": "k1"}, cause) == Permission("app-authorized", cause, None, "key")


def test_a_key_that_is_zero_or_false_is_carried() -> None:
    keyed = Replay(tools={"pay": ToolReplay(on=("network",), changes=True, deduplicates="key")})
    assert permission_for(keyed, "pay", {"key": 0}, "network") is not None
    assert permission_for(keyed, "pay", {"key": False}, "network") is not None


def test_compatibility_names_the_key_of_a_tool_without_declared_causes() -> None:
    replay = Replay(tools={"pay": ToolReplay(changes=True, deduplicates="key")})
    assert permission_for(replay, "pay", {"key": 1}, "throttle") == Permission(
        "compatibility", "throttle", REFUSED_BEFORE_EXECUTION, "key"
    )
    assert permission_for(replay, "pay", {"key": 1}, "network") is None


def test_plain_data_is_read_once_into_a_policy() -> None:
    data: dict[str, Any] = {
        "policy": "app-authorized",
        "tools": {
            "a": {"on": ["throttle", "network"]},
            "b": {"on": ["network"], "changes": True, "deduplicates": {"argument": "key"}},
            "c": {"deduplicates": "key"},
            "d": ToolReplay(),
        },
    }
    replay = Replay.read(data)
    data["tools"]["a"]["on"] = []
    data["tools"].clear()
    assert replay.policy == "app-authorized"
    assert dict(replay.tools) == {
        "a": ToolReplay(("throttle", "network")),
        "b": ToolReplay(("network",), True, "key"),
        "c": ToolReplay(deduplicates="key"),
        "d": ToolReplay(),
    }
    assert Replay.read(replay) is replay
    assert Replay.read(None) == Replay()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"polcy": "compatibility"}, "unknown_member"),
        ({"tools": {"a": {"readOnly": True}}}, "unknown_member"),
        ({"tools": {"a": {"deduplicates": {"argument": "k", "more": 1}}}}, "unknown_member"),
        ({"policy": "always"}, "replay_policy"),
        ({"tools": ["a"]}, "replay_tools"),
        ({"tools": {"a": "network"}}, "replay"),
        ({"tools": {"a": {"on": "network"}}}, "replay_cause"),
        ({"tools": {"a": {"on": ["reset"]}}}, "replay_cause"),
        ({"tools": {"a": {"on": [["network"]]}}}, "replay_cause"),
        ({"tools": {"a": {"changes": 1}}}, "replay_changes"),
        ({"tools": {"a": {"deduplicates": ""}}}, "replay_argument"),
        ({"tools": {"a": {"deduplicates": 3}}}, "replay_argument"),
        ("app-authorized", "replay"),
    ],
)
def test_what_is_no_policy_is_refused(value: Any, code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Replay.read(value)
    assert caught.value.code == code


def test_tools_are_declarations() -> None:
    tools: Any = {"a": {"on": []}}
    with pytest.raises(InvalidValueError) as caught:
        Replay(tools=tools)
    assert caught.value.code == "replay_tools"


@pytest.mark.parametrize(
    ("outcome", "effect", "open_question"),
    [
        ("completed", "applied", False),
        ("tool-error", "unknown", False),
        ("input-required", "unknown", False),
        ("rpc-error", "unknown", False),
        ("throttled", "unknown", False),
        ("refused", "unknown", False),
        ("no-answer", "unknown", True),
        ("timed-out", "unknown", True),
        ("cancelled", "unknown", True),
        ("not-sent", "not-sent", False),
    ],
)
def test_the_effect_of_an_attempt(outcome: AttemptOutcome, effect: Effect, open_question: bool) -> None:
    attempt = AttemptRecord(1, outcome)
    assert attempt.effect == effect
    assert CallRecord("s", "t", (attempt,)).effect == effect
    assert may_have_run((AttemptRecord(1, "throttled", 429, ASSUMED), attempt)) is open_question


def test_the_effect_of_a_call_is_the_surest_of_its_attempts() -> None:
    lost, kept, done = AttemptRecord(1, "no-answer"), AttemptRecord(2, "not-sent"), AttemptRecord(3, "completed", 200)
    assert CallRecord("s", "t", (lost, kept)).effect == "unknown"
    assert CallRecord("s", "t", (lost, kept, done)).effect == "applied"
    assert CallRecord("s", "t", ()).effect == "not-sent"


@pytest.mark.parametrize(
    ("watched", "reason"),
    [
        (None, "requests-unwatched"),
        (Watched(), "requests-unwatched"),
        (Watched(requests=True), "request-unmatched"),
        (Watched(requests=True, matched=True), "answers-unobserved"),
        (Watched(requests=True, matched=True, answered=True), None),
    ],
)
def test_a_policy_is_kept_wholly_or_not_at_all(watched: Watched | None, reason: str | None) -> None:
    assert replay_unavailable(Replay("app-authorized"), watched) == reason
    assert replay_unavailable(Replay(), watched) is None
