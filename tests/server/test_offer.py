"""What a server declared, as its sessions read it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcpl_core import InvalidValueError, UnencodableError
from mcpl_core.manifest import ManifestTracker
from mcpl_core.server import Outbox
from mcpl_core.server.offer import DeclaredTool, Offer, Settings
from mcpl_core.server.tools import ServerTool


def offer(manifest: Any = None, **capabilities: Any) -> Offer:
    return Offer(
        info={"name": "x", "version": "1"},
        instructions=None,
        capabilities=capabilities,
        tracker=ManifestTracker(manifest or {"version": "0.5"}),
        outbox=Outbox(),
    )


def test_the_manifest_stands_beside_other_experiments() -> None:
    made = offer(experimental={"other": {}}, resources={})
    manifest = made.tracker.snapshot()
    assert made.outer_capabilities(manifest) == {"resources": {}, "experimental": {"other": {}, "mcpl": manifest}}


def test_tools_are_advertised_when_there_are_some() -> None:
    made = offer()
    assert "tools" not in made.outer_capabilities({})
    made.tools["t"] = DeclaredTool(ServerTool("t", print, {"type": "object"}), 1)
    assert made.outer_capabilities({})["tools"] == {"listChanged": True}
    made.capabilities["tools"] = {}
    assert made.outer_capabilities({})["tools"] == {}


def test_declared_sets_are_those_of_the_manifest_in_force() -> None:
    made = offer()
    assert made.declared_feature_sets() is None
    made.tracker.set({"version": "0.5", "featureSets": {"a": {"description": "x", "uses": ["tools"]}}})
    assert made.declared_feature_sets() == {"a": {"description": "x", "uses": ["tools"]}}
    # One copy for each manifest, not for each question.
    assert made.declared_feature_sets() is made.declared_feature_sets()


@pytest.mark.parametrize(
    ("sets", "uses"),
    [
        ({"a": {"uses": ["tools", "pushEvents"]}}, ("pushEvents", "tools")),
        ({"a": {"uses": ["tools", 3]}}, ("tools",)),
        ({"a": {"uses": "tools"}}, ()),
        ({"a": {}}, ()),
        ({"a": 3}, ()),
        ({}, ()),
        ([], ()),
        (None, ()),
    ],
)
def test_what_a_set_uses(sets: Any, uses: tuple[str, ...]) -> None:
    assert offer({"version": "0.5", "featureSets": sets}).uses("a") == uses


def test_settings_have_sound_defaults() -> None:
    settings = Settings()
    assert settings.first_retry < settings.longest_retry
    assert settings.page_size is None


@pytest.mark.parametrize(
    "change",
    [
        {"handler_limit": 0},
        {"event_window": 0},
        {"event_attempts": 0},
        {"page_size": 0},
        {"inference_timeout": 0},
        {"first_retry": 0},
        {"longest_retry": -1.0},
        {"event_timeout": float("nan")},
    ],
)
def test_numbers_that_would_stop_a_server_are_refused(change: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Settings(**change)
    assert caught.value.code == next(iter(change))


@pytest.mark.parametrize(
    ("member", "code"),
    [
        ({"info": {"name": 5, "version": "1"}}, "name"),
        ({"info": {"name": "x", "version": 1}}, "version"),
        ({"info": {"name": "x", "version": "1", "title": object()}}, "title"),
        ({"instructions": 5}, "instructions"),
        ({"capabilities": {"experimental": 5}}, "mcp_capabilities"),
    ],
)
def test_what_no_host_could_be_told_is_refused(member: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        replace(offer(), **member)
    assert caught.value.code == code


def test_capabilities_have_a_json_form() -> None:
    with pytest.raises(UnencodableError):
        offer(resources=object())
