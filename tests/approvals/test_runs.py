"""Runs, leases, calls and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mcpl_core.approvals.runs import Checkpoint, Run, RunLease, ToolCall
from mcpl_core.errors import InvalidValueError

RUN = Run("run", "root", "alice", "preset")
HELD = replace(RUN, lease_owner="worker", lease_epoch=2, lease_expires_ms=1_000)
CALL = ToolCall("call", "store_value", {"value": "x", "list": [1]})


@pytest.mark.parametrize(
    "record", [RUN, HELD, CALL, replace(CALL, idempotency_key="k"), Checkpoint("run", "i", (CALL, CALL))]
)
def test_through_json(record: Any) -> None:
    text = json.loads(json.dumps(record.to_json()))
    assert type(record).from_json(text) == record
    with pytest.raises(InvalidValueError) as caught:
        type(record).from_json(text | {"more": 1})
    assert caught.value.code == "unknown_member"


@pytest.mark.parametrize(
    "make",
    [
        lambda: replace(RUN, run_id=""),
        lambda: replace(RUN, status="waiting"),  # type: ignore[arg-type]
        lambda: replace(RUN, lease_owner="worker"),
        lambda: replace(RUN, lease_expires_ms=1),
        lambda: replace(RUN, deadline_ms=-1),
        lambda: replace(CALL, arguments=None),  # type: ignore[arg-type]
        lambda: replace(CALL, idempotency_key=""),
        lambda: Checkpoint("run", "i", ()),
        lambda: Checkpoint("run", "i", ("call",)),  # type: ignore[arg-type]
        lambda: Checkpoint("run", "i", (CALL,), phase="later"),  # type: ignore[arg-type]
        lambda: Checkpoint.from_json(
            {"schemaVersion": 1, "phase": "tool_ready", "runId": "r", "invocationId": "i", "calls": 1}
        ),
    ],
)
def test_what_they_refuse(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidValueError):
        make()


def test_a_lease_is_good_until_it_ends() -> None:
    lease = RunLease("run", "worker", 2)
    assert HELD.held_by(lease, 999)
    assert not HELD.held_by(lease, 1_000)
    assert not RUN.held_by(lease, 0)
    for other in (replace(lease, run_id="other"), replace(lease, owner="other"), replace(lease, epoch=1)):
        assert not HELD.held_by(other, 999)
    assert (RUN.idle(0), HELD.idle(999), HELD.idle(1_000)) == (True, False, True)


def test_a_run_is_over_when_it_ended_or_was_asked_to() -> None:
    assert not RUN.over
    assert replace(RUN, cancel_requested_ms=0).over
    assert replace(RUN, status="failed").over


def test_an_invocation_is_settled_while_no_other_is_open() -> None:
    settled = replace(RUN, settled_invocation="i")
    assert settled.settled("i")
    assert not settled.settled("j")
    assert not replace(settled, open_invocation="j").settled("i")
    assert not RUN.settled("i")


def test_every_part_of_a_call_is_in_its_digest() -> None:
    others = [
        replace(CALL, call_id="other"),
        replace(CALL, tool_name="other"),
        replace(CALL, arguments={"value": "y", "list": [1]}),
        replace(CALL, idempotency_key="k"),
    ]
    assert len({call.digest for call in (CALL, *others)}) == 5
    assert replace(CALL, arguments={"list": [1.0], "value": "x"}).digest == CALL.digest
