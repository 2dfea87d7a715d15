"""The outcomes of ending a remote session."""

from __future__ import annotations

import pytest

from mcpl_core.mcp.outcomes import TerminateKind, TerminateOutcome, outcome_of_status


@pytest.mark.parametrize(
    ("status", "kind", "resolved"),
    [
        (200, "terminated", True),
        (204, "terminated", True),
        (299, "terminated", True),
        (404, "already-gone", True),
        (405, "not-offered", False),
        (199, "failed", False),
        (300, "failed", False),
        (307, "failed", False),
        (400, "failed", False),
        (429, "failed", False),
        (500, "failed", False),
    ],
)
def test_status_says_what_became_of_it(status: int, kind: TerminateKind, resolved: bool) -> None:
    outcome = outcome_of_status(status, 0.25)
    assert outcome == TerminateOutcome(kind, 0.25, status)
    assert outcome.resolved is resolved


@pytest.mark.parametrize(
    ("kind", "resolved"),
    [("no-session", True), ("timed-out", False), ("handle-lost", False), ("unavailable", False), ("failed", False)],
)
def test_outcomes_without_a_status(kind: TerminateKind, resolved: bool) -> None:
    outcome = TerminateOutcome(kind)
    assert (outcome.status, outcome.error_class, outcome.resolved) == (None, None, resolved)
