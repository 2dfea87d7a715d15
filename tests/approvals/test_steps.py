"""The names of the steps."""

from __future__ import annotations

from mcpl_core.approvals.steps import STEPS, no_hook


def test_they_are_named_once_and_grouped() -> None:
    assert len(set(STEPS)) == len(STEPS)
    assert list(dict.fromkeys(step.split(".")[0] for step in STEPS)) == ["prepare", "decide", "dispatch", "reconcile"]


def test_looking_on_at_nothing() -> None:
    for step in STEPS:
        no_hook(step)
