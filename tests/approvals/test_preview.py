"""What an approver is shown, and its hash."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from mcpl_core.approvals.preview import preview_of
from mcpl_core.approvals.records import ApprovalIntent, ApprovalRecord, Decision, DecisionCommand, approval_id_of


def record(**changes: Any) -> ApprovalRecord:
    facts: dict[str, Any] = {"arguments": {"b": 1, "a": "x"}, "tool_name": "store_value"} | changes
    intent = ApprovalIntent(
        run_id="run",
        root_run_id="root",
        tool_call_id="call",
        preset_fingerprint="preset",
        binding_id="values",
        binding_revision="catalog",
        scope_id="tenant",
        scope_revision="7",
        effect="write",
        **facts,
    )
    return ApprovalRecord(approval_id_of("run", "call"), intent, 1, "pending", 1_000, 2_000)


def test_it_shows_the_exact_call() -> None:
    lines = preview_of(record()).text.splitlines()
    assert lines == [
        f"approval      {record().approval_id}",
        f"intent digest {record().intent.digest}",
        "tool          store_value",
        "effect        write",
        "run           run",
        "root run      root",
        "call          call",
        "binding       values at catalog",
        "scope         tenant at 7",
        "preset        preset",
        "created at ms 1000",
        "expires at ms 2000",
        "arguments",
        "{",
        '  "a": "x",',
        '  "b": 1',
        "}",
    ]


@pytest.mark.spec("R-approvals-12")
def test_the_hash_is_that_of_what_is_seen() -> None:
    preview = preview_of(record())
    assert preview.digest == sha256(preview.text.encode()).hexdigest()


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "a\nrun           other", "\x7f", "\u202eevil", "\u200b", "\x9b31m", "é", "\U0001f600", "\r"]
)
@pytest.mark.spec("R-approvals-12")
def test_nothing_that_a_terminal_acts_upon(text: str) -> None:
    for made in (record(arguments={text: text}), record(tool_name=f"x{text}x")):
        shown = preview_of(made).text
        assert all(32 <= ord(character) < 127 for line in shown.split("\n") for character in line)
        assert len(shown.split("\n")) == (16 if text in made.intent.arguments else 17)


def test_other_arguments_have_another_hash() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"arguments": {"a": "x", "b": 2}},
        {"arguments": {"a": "x"}},
        {"arguments": {"a": "X", "b": 1}},
        {"arguments": {"a": "x", "b": "1"}},
        {"tool_name": "store_valu\u0435"},
    ]
    assert len({preview_of(record(**change)).digest for change in changes}) == len(changes)


def test_a_decision_does_not_change_it() -> None:
    made = record()
    command = DecisionCommand(made.approval_id, 1, made.intent.digest, "key", "approve")
    decided = replace(made, status="approved", revision=2, decision=Decision(command, "bob", 1_500, 2))
    assert preview_of(decided) == preview_of(made)
