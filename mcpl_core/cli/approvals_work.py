"""What the commands of ``mcpl approvals`` do.

Owns: reading from the store for ``list`` and ``show``, and the calls of the gate for the others. Does not own: the
command line (``approvals``, which loads this module when a command is given) and how things are shown
(``approvals_view``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from ..approvals import (
    STATUSES,
    ApprovalGateway,
    ApprovalRecord,
    DamagedRow,
    DecisionCommand,
    OnDamage,
    Outcome,
    Status,
    reconcile,
)
from ..approvals.damage import readable
from ..approvals.diagnosis import status_now
from ..approvals.facts import load_record
from ..approvals.listing import each_record, past_damage
from ..approvals.store import Transaction
from ..errors import InvalidValueError
from .approvals_options import StoreOptions
from .approvals_store import at_the_gate, print_damage
from .approvals_view import Shown, list_json, show_list, show_one, shown_json
from .output import CommandError, Output, read_json

__all__ = ("Wanted", "enable_store", "give_decision", "print_diagnosis", "print_list", "print_one", "settle")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which approvals are listed. Empty: whatever they have.

    Attributes:
        status: that they have by now.
        run_id: their run.
        tool: their tool.
        limit: how many at most.
        after: the id of the one that they come after.
    """

    status: str
    run_id: str
    tool: str
    limit: int
    after: str


def enable_store(options: StoreOptions) -> None:
    """Makes the store if there is none, and enables approvals in it.

    Raises:
        CommandError: as ``at_the_gate``.
    """
    at_the_gate(options, lambda gateway: gateway.store.activate(), create=True)
    Output().line("approvals are enabled", "bold")


def print_diagnosis(options: StoreOptions, run_id: str) -> int:
    """Prints counts as JSON.

    Returns:
        The exit status: 1 when something is damaged.

    Raises:
        CommandError: as ``at_the_gate``.
    """
    found = at_the_gate(options, lambda gateway: gateway.diagnose(run_id or None), read_only=True)
    print(json.dumps(found.to_json(), indent=2))
    return int(found.damaged > 0)


def print_list(options: StoreOptions, wanted: Wanted, *, as_json: bool) -> int:
    """Prints the approvals that fit, with the status that they have by now; on standard error those that are damaged.

    Returns:
        The exit status: 1 when one is damaged.

    Raises:
        CommandError: no such status, or as ``at_the_gate``.
    """
    if wanted.status and wanted.status not in STATUSES:
        raise CommandError(f"--status is one of {', '.join(STATUSES)}")

    damaged: list[DamagedRow] = []

    async def work(gateway: ApprovalGateway) -> list[tuple[ApprovalRecord, Status]]:
        def read(tx: Transaction, tell: OnDamage) -> list[tuple[ApprovalRecord, Status]]:
            # One more than is wanted, if there is one.
            return list(islice(_listed(tx, wanted, gateway.clock(), tell), wanted.limit + 1))

        return await past_damage(gateway.store.read, read, damaged.append)

    found = at_the_gate(options, work, read_only=True)
    rows = found[: wanted.limit]
    if as_json:
        print(json.dumps(list_json(rows)))
    else:
        output = Output()
        show_list(output, rows)
        if len(found) > len(rows):
            output.line(f"there are more: --after {rows[-1][0].approval_id}")
    for row in damaged:
        print_damage(row)
    return int(bool(damaged))


def _listed(tx: Transaction, wanted: Wanted, now: int, tell: OnDamage) -> Iterator[tuple[ApprovalRecord, Status]]:
    after = wanted.after or None
    for record in each_record(tx, tell, run_id=wanted.run_id or None, tool_name=wanted.tool or None, after=after):
        status = readable(record.approval_id, partial(status_now, tx, record, now), tell)
        if status is not None and wanted.status in ("", status):
            yield record, status


def print_one(options: StoreOptions, approval: str, *, as_json: bool) -> int:
    """Prints one approval and what became of it, as far as it can be read.

    Returns:
        The exit status: 1 when something of it is damaged.

    Raises:
        CommandError: as ``at_the_gate``; the approval itself is damaged.
    """

    async def work(gateway: ApprovalGateway) -> Shown:
        return await gateway.store.read(lambda tx: _shown(tx, approval, gateway.clock()))

    found = at_the_gate(options, work, read_only=True)
    if as_json:
        print(json.dumps(shown_json(found)))
    else:
        show_one(Output(), found)
    return int(bool(found.damaged))


def _shown(tx: Transaction, approval: str, now: int) -> Shown:
    record = load_record(tx, approval)
    damaged: list[DamagedRow] = []
    status = readable("status", lambda: status_now(tx, record, now), damaged.append)
    claim = readable("claim", lambda: tx.claim_of(approval), damaged.append)
    receipt = readable("receipt", lambda: tx.receipt_of(approval), damaged.append)
    events = readable("events", lambda: tx.events(approval), damaged.append)
    return Shown(record, status or record.status, claim, receipt, events or (), tuple(damaged))


def give_decision(
    options: StoreOptions, command: dict[str, Any], principal: str, preview: str, *, as_json: bool
) -> None:
    """Decides, and prints the receipt.

    Args:
        options: name the store.
        command: the members of a decision command.
        principal: who decides.
        preview: the hash of what was seen; empty: not said.
        as_json: whether to print JSON.

    Raises:
        CommandError: as ``at_the_gate``.
    """

    async def work(gateway: ApprovalGateway) -> Any:
        given = DecisionCommand.from_json(command)
        return await gateway.decide(given, principal_id=principal, preview_digest=preview or None)

    receipt = at_the_gate(options, work)
    if as_json:
        print(json.dumps(receipt.to_json()))
    else:
        Output().line(f"{receipt.status}  {receipt.approval_id}  revision {receipt.revision}", "bold")


def settle(options: StoreOptions, approval: str, digest: str, principal: str, result: str, evidence: str) -> None:
    """Settles a claim.

    Args:
        options: name the store.
        approval: its approval.
        digest: of the intent.
        principal: who found out.
        result: the file of the result; empty: there is proof that the call was not made.
        evidence: where it is to be found; empty: not said.

    Raises:
        CommandError: the file holds no result, or as ``at_the_gate``.
    """
    outcome = _outcome(result) if result else None

    async def work(gateway: ApprovalGateway) -> None:
        await reconcile(
            gateway,
            approval,
            intent_digest=digest,
            principal_id=principal,
            result=outcome,
            not_executed=outcome is None,
            evidence=evidence or None,
        )

    at_the_gate(options, work)
    Output().line(f"settled  {approval}  {'not executed' if outcome is None else outcome.effect_state}", "bold")


def _outcome(source: str) -> Outcome:
    try:
        return Outcome.from_json(read_json(source))
    except InvalidValueError as exc:
        raise CommandError(f"{source} is no result: {exc}") from exc
