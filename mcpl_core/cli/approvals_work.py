"""What the commands of ``mcpl approvals`` do.

Owns: reading from the store for ``list`` and ``show``, and the calls of the gate for the others. Does not own: the
command line (``approvals``, which loads this module when a command is given) and how things are shown
(``approvals_view``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..approvals import STATUSES, ApprovalGateway, ApprovalRecord, DecisionCommand, Outcome, Status, reconcile
from ..approvals.diagnosis import status_now
from ..approvals.facts import load_record
from ..approvals.store import Transaction
from ..errors import InvalidValueError
from .approvals_options import StoreOptions
from .approvals_store import at_the_gate
from .approvals_view import Shown, list_json, show_list, show_one, shown_json
from .output import CommandError, Output, read_json

__all__ = ("Wanted", "enable_store", "give_decision", "print_diagnosis", "print_list", "print_one", "settle")

#: Approvals that are read at once.
_PAGE = 200


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


def print_diagnosis(options: StoreOptions, run_id: str) -> None:
    """Prints counts as JSON.

    Raises:
        CommandError: as ``at_the_gate``.
    """
    print(json.dumps(at_the_gate(options, lambda gateway: gateway.diagnose(run_id or None)).to_json(), indent=2))


def print_list(options: StoreOptions, wanted: Wanted, *, as_json: bool) -> None:
    """Prints the approvals that fit, with the status that they have by now.

    Raises:
        CommandError: no such status, or as ``at_the_gate``.
    """
    if wanted.status and wanted.status not in STATUSES:
        raise CommandError(f"--status is one of {', '.join(STATUSES)}")

    async def work(gateway: ApprovalGateway) -> list[tuple[ApprovalRecord, Status]]:
        return await gateway.store.read(lambda tx: _list(tx, wanted, gateway.clock()))

    found = at_the_gate(options, work)
    rows = found[: wanted.limit]
    if as_json:
        print(json.dumps(list_json(rows)))
        return
    output = Output()
    show_list(output, rows)
    if len(found) > len(rows):
        output.line(f"there are more: --after {rows[-1][0].approval_id}")


def _list(tx: Transaction, wanted: Wanted, now: int) -> list[tuple[ApprovalRecord, Status]]:
    """One row more than is wanted, if there is one."""
    rows: list[tuple[ApprovalRecord, Status]] = []
    last = load_record(tx, wanted.after).approval_id if wanted.after else None
    while len(rows) <= wanted.limit:
        page = tx.records(run_id=wanted.run_id or None, tool_name=wanted.tool or None, limit=_PAGE, after=last)
        for record in page:
            status = status_now(tx, record, now)
            if wanted.status in ("", status):
                rows.append((record, status))
        if len(page) < _PAGE:
            break
        last = page[-1].approval_id
    return rows[: wanted.limit + 1]


def print_one(options: StoreOptions, approval: str, *, as_json: bool) -> None:
    """Prints one approval and what became of it.

    Raises:
        CommandError: as ``at_the_gate``.
    """

    async def work(gateway: ApprovalGateway) -> Shown:
        def read(tx: Transaction) -> Shown:
            record = load_record(tx, approval)
            return Shown(
                record,
                status_now(tx, record, gateway.clock()),
                tx.claim_of(approval),
                tx.receipt_of(approval),
                tx.events(approval),
            )

        return await gateway.store.read(read)

    found = at_the_gate(options, work)
    if as_json:
        print(json.dumps(shown_json(found)))
    else:
        show_one(Output(), found)


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
