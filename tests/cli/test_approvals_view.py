"""How approvals are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcpl_core.approvals import ApprovalEvent, Outcome, Receipt
from mcpl_core.cli.approvals_view import Shown, list_json, show_list, show_one, shown_json
from mcpl_core.cli.output import Output
from tests.approvals.test_checks import APPROVED, CLAIM, PENDING

SHOWN = Shown(PENDING, "expired", None, None, [ApprovalEvent(PENDING.approval_id, "proposed", 1_000, {"a\r": "x\ny"})])


def test_times_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    show_list(Output(), [(PENDING, "pending"), (replace(PENDING, expires_at_ms=2**53 - 1), "pending")])
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("1970-01-01T00:00:02+00:00")
    assert second.endswith("9007199254740991 ms")


def test_an_event_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_one(Output(), SHOWN)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1970-01-01T00:00:01+00:00  proposed    a\\r x\\ny"
    assert "status        expired" in lines


@pytest.mark.parametrize(
    ("shown", "effect"),
    [
        (SHOWN, "none"),
        (replace(SHOWN, record=APPROVED, claim=CLAIM), "unknown"),
        (replace(SHOWN, record=APPROVED, receipt=Receipt(CLAIM, Outcome("committed"), 1)), "committed"),
    ],
)
def test_what_is_known_of_the_effect(shown: Shown, effect: str) -> None:
    assert shown.effect == shown_json(shown)["effect"] == effect


def test_programs_get_both_statuses() -> None:
    assert list_json([(PENDING, "expired")]) == [PENDING.to_json() | {"statusNow": "expired"}]
