"""The tables of checks, each row alone: one thing is wrong, and its code comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mcpl_core.approvals.checks import (
    BINDING_MEMBERS,
    CREATE_CHECKS,
    DECISION_CHECKS,
    DISPATCH_CHECKS,
    PREPARE_CHECKS,
    RECEIPT_CHECKS,
    REPLAY_CHECKS,
    RESUME_CHECKS,
    Facts,
    batch_refusal,
    binding_matches,
    deadline,
    first_refusal,
    refreshed,
)
from mcpl_core.approvals.claims import Association, Claim, ClaimKey, Outcome, Receipt
from mcpl_core.approvals.records import ApprovalIntent, ApprovalRecord, Decision, DecisionCommand, approval_id_of
from mcpl_core.approvals.runs import Checkpoint, Run, RunLease, ToolCall

NOW = 1_500
CALL = ToolCall("call", "store_value", {"value": "x"})
INTENT = ApprovalIntent(
    "run", "root", "call", "store_value", {"value": "x"}, "preset", "values", "catalog", "tenant", "7", "write"
)
PENDING = ApprovalRecord(approval_id_of("run", "call"), INTENT, 1, "pending", 1_000, 2_000)
COMMAND = DecisionCommand(PENDING.approval_id, 1, INTENT.digest, "key", "approve")
APPROVED = replace(PENDING, status="approved", revision=2, decision=Decision(COMMAND, "bob", 1_200, 2))
REJECTED = replace(
    PENDING,
    status="rejected",
    revision=2,
    decision=Decision(replace(COMMAND, decision="reject"), "bob", 1_200, 2),
)
EXPIRED = replace(PENDING, status="expired", revision=2)
CANCELED = replace(PENDING, status="canceled", revision=2)
RUN = Run(
    "run",
    "root",
    "alice",
    "preset",
    lease_owner="worker",
    lease_epoch=1,
    lease_expires_ms=3_000,
    settled_invocation="invocation",
)
ROOT = Run("root", "root", "alice", "other preset")
BINDING = {member: getattr(INTENT, name) for member, name in BINDING_MEMBERS.items()}
CLAIM = Claim(
    ClaimKey("alice", "store_value", "k"),
    "digest",
    1_300,
    Association(PENDING.approval_id, INTENT.digest, 2, "run", "worker", 1),
)
RECEIPT = Receipt(CLAIM, Outcome("committed"), 1_400)
GOOD = Facts(
    NOW,
    run=RUN,
    root=ROOT,
    lease=RunLease("run", "worker", 1),
    checkpoint=Checkpoint("run", "invocation", (CALL,)),
    call=CALL,
    record=APPROVED,
    binding=BINDING,
)
ASKING = replace(GOOD, intent=INTENT, record=None, call=None, binding=None)
DECIDING = replace(GOOD, record=PENDING, command=COMMAND)

CASES: list[tuple[str, Sequence[Any], Facts, dict[str, Any]]] = [
    ("agent_run_lease_lost", REPLAY_CHECKS, GOOD, {"run": None}),
    ("agent_run_lease_lost", REPLAY_CHECKS, GOOD, {"lease": None}),
    ("agent_run_lease_lost", REPLAY_CHECKS, GOOD, {"lease": RunLease("run", "worker", 2)}),
    ("agent_run_lease_lost", REPLAY_CHECKS, GOOD, {"now_ms": 3_000}),
    ("approval_not_found", REPLAY_CHECKS, GOOD, {"record": None}),
    ("approval_run_conflict", REPLAY_CHECKS, GOOD, {"root": None}),
    ("approval_run_conflict", REPLAY_CHECKS, GOOD, {"run": replace(RUN, root_run_id="x")}),
    ("approval_checkpoint_conflict", REPLAY_CHECKS, GOOD, {"checkpoint": None}),
    ("approval_checkpoint_conflict", REPLAY_CHECKS, GOOD, {"call": None}),
    ("approval_checkpoint_conflict", REPLAY_CHECKS, GOOD, {"call": replace(CALL, arguments={"value": "y"})}),
    (
        "approval_checkpoint_conflict",
        REPLAY_CHECKS,
        GOOD,
        {"checkpoint": Checkpoint("run", "invocation", (CALL, CALL))},
    ),
    ("approval_invocation_unsettled", REPLAY_CHECKS, GOOD, {"run": replace(RUN, open_invocation="next")}),
    ("approval_invocation_unsettled", REPLAY_CHECKS, GOOD, {"run": replace(RUN, settled_invocation=None)}),
    ("approval_claim_conflict", DISPATCH_CHECKS, GOOD, {"claim": CLAIM}),
    ("approval_pending", DISPATCH_CHECKS, GOOD, {"record": PENDING}),
    ("approval_rejected", DISPATCH_CHECKS, GOOD, {"record": REJECTED}),
    ("approval_expired", DISPATCH_CHECKS, GOOD, {"record": EXPIRED}),
    ("approval_canceled", DISPATCH_CHECKS, GOOD, {"record": CANCELED}),
    ("approval_canceled", DISPATCH_CHECKS, GOOD, {"run": replace(RUN, cancel_requested_ms=1)}),
    ("approval_canceled", DISPATCH_CHECKS, GOOD, {"root": replace(ROOT, status="failed")}),
    ("approval_expired", DISPATCH_CHECKS, GOOD, {"now_ms": 2_000}),
    ("approval_expired", DISPATCH_CHECKS, GOOD, {"run": replace(RUN, deadline_ms=NOW)}),
    ("approval_expired", DISPATCH_CHECKS, GOOD, {"root": replace(ROOT, deadline_ms=NOW)}),
    ("approval_configuration_mismatch", DISPATCH_CHECKS, GOOD, {"run": replace(RUN, preset_fingerprint="x")}),
    ("approval_intent_conflict", DISPATCH_CHECKS, GOOD, {"binding": None}),
    *(("approval_intent_conflict", DISPATCH_CHECKS, GOOD, {"binding": BINDING | {name: "x"}}) for name in BINDING),
    ("approval_claim_conflict", RECEIPT_CHECKS, GOOD, {"receipt": None}),
    (
        "approval_claim_conflict",
        RECEIPT_CHECKS,
        GOOD,
        {"receipt": replace(RECEIPT, claim=replace(CLAIM, association=None))},
    ),
    ("agent_run_lease_lost", PREPARE_CHECKS, ASKING, {"lease": RunLease("run", "other", 1)}),
    (
        "approval_batch_unsupported",
        PREPARE_CHECKS,
        ASKING,
        {"checkpoint": Checkpoint("run", "invocation", (CALL, CALL))},
    ),
    ("approval_checkpoint_conflict", PREPARE_CHECKS, ASKING, {"checkpoint": None}),
    ("approval_checkpoint_conflict", PREPARE_CHECKS, ASKING, {"intent": replace(INTENT, arguments={})}),
    ("approval_run_conflict", PREPARE_CHECKS, ASKING, {"intent": replace(INTENT, root_run_id="x")}),
    ("approval_invocation_unsettled", PREPARE_CHECKS, ASKING, {"run": replace(RUN, open_invocation="next")}),
    ("approval_intent_conflict", PREPARE_CHECKS, ASKING, {"record": APPROVED, "intent": replace(INTENT, scope_id="x")}),
    ("approval_configuration_mismatch", PREPARE_CHECKS, ASKING, {"run": replace(RUN, preset_fingerprint="x")}),
    ("approval_run_terminal", CREATE_CHECKS, ASKING, {"root": None}),
    ("approval_run_terminal", CREATE_CHECKS, ASKING, {"run": replace(RUN, status="completed")}),
    ("approval_rejected", RESUME_CHECKS, GOOD, {"record": REJECTED}),
    ("approval_expired", RESUME_CHECKS, GOOD, {"record": EXPIRED}),
    ("approval_canceled", RESUME_CHECKS, GOOD, {"record": CANCELED}),
    ("approval_run_conflict", DECISION_CHECKS, DECIDING, {"run": None}),
    ("approval_expired", DECISION_CHECKS, DECIDING, {"record": EXPIRED}),
    ("approval_canceled", DECISION_CHECKS, DECIDING, {"record": CANCELED}),
    ("approval_revision_conflict", DECISION_CHECKS, DECIDING, {"command": None}),
    ("approval_revision_conflict", DECISION_CHECKS, DECIDING, {"command": replace(COMMAND, expected_revision=2)}),
    ("approval_revision_conflict", DECISION_CHECKS, DECIDING, {"command": replace(COMMAND, intent_digest="x")}),
    (
        "approval_revision_conflict",
        DECISION_CHECKS,
        DECIDING,
        {"record": APPROVED, "command": replace(COMMAND, expected_revision=2)},
    ),
    ("approval_configuration_mismatch", DECISION_CHECKS, DECIDING, {"run": replace(RUN, preset_fingerprint="x")}),
]


@pytest.mark.parametrize(("code", "checks", "facts", "wrong"), CASES)
def test_each_row(code: str, checks: Sequence[Any], facts: Facts, wrong: dict[str, Any]) -> None:
    assert first_refusal(replace(facts, **wrong), checks) == code


@pytest.mark.parametrize(
    ("checks", "facts"),
    [
        (REPLAY_CHECKS, GOOD),
        (DISPATCH_CHECKS, GOOD),
        (RECEIPT_CHECKS, replace(GOOD, receipt=RECEIPT)),
        (PREPARE_CHECKS, ASKING),
        (CREATE_CHECKS, ASKING),
        (PREPARE_CHECKS, replace(ASKING, record=APPROVED)),
        (RESUME_CHECKS, GOOD),
        (DECISION_CHECKS, DECIDING),
    ],
)
def test_nothing_is_wrong(checks: Sequence[Any], facts: Facts) -> None:
    assert first_refusal(facts, checks) is None


def test_every_row_is_tried() -> None:
    for checks in (
        REPLAY_CHECKS,
        DISPATCH_CHECKS,
        RECEIPT_CHECKS,
        PREPARE_CHECKS,
        CREATE_CHECKS,
        RESUME_CHECKS,
        DECISION_CHECKS,
    ):
        assert {code for code, _ in checks} == {code for code, table, *_ in CASES if table is checks}


def test_a_binding_has_these_members_and_no_other() -> None:
    assert binding_matches(INTENT, BINDING)
    assert not binding_matches(INTENT, BINDING | {"more": 1})
    assert not binding_matches(INTENT, {name: value for name, value in BINDING.items() if name != "effect"})


@pytest.mark.parametrize(
    ("own", "of_root", "end"),
    [(None, None, 2_000), (1_900, None, 1_900), (None, 1_800, 1_800), (1_900, 1_800, 1_800), (5_000, 5_000, 2_000)],
)
def test_the_earliest_end_counts(own: int | None, of_root: int | None, end: int) -> None:
    assert deadline(PENDING, replace(RUN, deadline_ms=own), replace(ROOT, deadline_ms=of_root)) == end


def test_what_time_and_runs_do_to_a_record() -> None:
    canceled = replace(ROOT, cancel_requested_ms=1)
    for record in (PENDING, APPROVED):
        assert refreshed(record, RUN, ROOT, now_ms=1_999, used=False) is record
        assert refreshed(record, RUN, ROOT, now_ms=2_000, used=True) is record
        assert refreshed(record, RUN, ROOT, now_ms=2_000, used=False).status == "expired"
        assert refreshed(record, RUN, canceled, now_ms=2_000, used=False).status == "canceled"
        assert refreshed(record, RUN, canceled, now_ms=0, used=False).revision == record.revision + 1
    for record in (REJECTED, EXPIRED, CANCELED):
        assert refreshed(record, RUN, canceled, now_ms=9_999, used=False) is record


def test_batches() -> None:
    assert batch_refusal(["write"], {"write"}) is None
    assert batch_refusal(["read", "read"], {"write"}) is None
    assert batch_refusal(["read", "write"], {"write"}) == "approval_batch_unsupported"
    assert batch_refusal(["write", "write"], {"write"}) == "approval_batch_unsupported"
