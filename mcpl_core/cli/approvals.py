"""``mcpl approvals``: the approvals of a store, for those who decide.

Owns: the commands ``list``, ``show``, ``decide`` and ``reconcile``. Does not own: the gate (``mcpl_core.approvals``),
and who may use the store: whoever can open it can decide.

Exit statuses: 0: done; 1: the gate refused (the message begins with its code), or the store cannot be used; 2: the
command line is not understood.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ..approvals import STATUSES, ApprovalGateway, DecisionCommand, Outcome, reconcile
from ..approvals.diagnosis import status_now
from ..approvals.facts import load_record
from ..approvals.store import Transaction
from ..errors import InvalidValueError
from .approvals_store import StoreOptions, at_the_gate
from .approvals_view import Shown, list_json, show_list, show_one, shown_json
from .options import with_option_groups
from .output import CommandError, Output, read_json

__all__ = ("approvals", "decide", "list_approvals", "reconcile_claim", "show")

approvals = typer.Typer(
    help="Approvals of writes: look at them, decide them, and settle what is unknown.\n\n"
    "Exit status 1: the gate refused, and the message begins with its code; or the store cannot be used.",
    no_args_is_help=False,
)

_JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_ID = Annotated[str, typer.Argument(metavar="APPROVAL", help="The id of the approval.")]
_PRINCIPAL = Annotated[str, typer.Option("--principal", metavar="NAME", help="Who you are; it is kept.")]
_DIGEST = Annotated[str, typer.Option("--digest", metavar="HEX", help="The intent digest that was looked at.")]


@with_option_groups
def list_approvals(
    options: StoreOptions,
    status: Annotated[
        str, typer.Option("--status", help=f"Only those that are now: {', '.join(STATUSES)}.", show_default=False)
    ] = "",
    run_id: Annotated[str, typer.Option("--run", metavar="ID", help="Only those of this run.")] = "",
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="Only those of this tool.")] = "",
    as_json: _JSON = False,
) -> int:
    """List approvals, oldest first, with the status that they have by now. Nothing is changed."""
    if status and status not in STATUSES:
        raise CommandError(f"--status is one of {', '.join(STATUSES)}")

    async def work(gateway: ApprovalGateway) -> Any:
        def read(tx: Transaction) -> Any:
            now = gateway.clock()
            records = tx.records(run_id=run_id or None, tool_name=tool or None)
            return [(record, status_now(tx, record, now)) for record in records]

        return await gateway.store.read(read)

    rows = [row for row in at_the_gate(options, work) if not status or row[1] == status]
    if as_json:
        print(json.dumps(list_json(rows)))
    else:
        show_list(Output(), rows)
    return 0


@with_option_groups
def show(options: StoreOptions, approval: _ID, as_json: _JSON = False) -> int:
    """Show one approval: the exact call, the hash of what is shown, and what became of it. Nothing is changed."""

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
    return 0


@with_option_groups
def decide(
    options: StoreOptions,
    approval: _ID,
    decision: Annotated[str, typer.Argument(metavar="approve|reject", help="The decision.")],
    revision: Annotated[int, typer.Option("--revision", metavar="N", help="The revision that was looked at.")],
    digest: _DIGEST,
    principal: _PRINCIPAL,
    key: Annotated[
        str, typer.Option("--key", metavar="TEXT", help="Names this decision: given again, it changes nothing.")
    ],
    preview: Annotated[
        str, typer.Option("--preview", metavar="HEX", help="The hash of what show printed; it is compared and kept.")
    ] = "",
    as_json: _JSON = False,
) -> int:
    """Approve or reject, if the approval is still what was looked at."""

    async def work(gateway: ApprovalGateway) -> Any:
        command = DecisionCommand(approval, revision, digest, key, decision)  # type: ignore[arg-type]
        return await gateway.decide(command, principal_id=principal, preview_digest=preview or None)

    receipt = at_the_gate(options, work)
    if as_json:
        print(json.dumps(receipt.to_json()))
    else:
        Output().line(f"{receipt.status}  {receipt.approval_id}  revision {receipt.revision}", "bold")
    return 0


@with_option_groups
def reconcile_claim(
    options: StoreOptions,
    approval: _ID,
    digest: _DIGEST,
    principal: _PRINCIPAL,
    result: Annotated[
        str,
        typer.Option(
            "--result",
            metavar="FILE",
            help='What came of the call: JSON {"effectState", "result", "errorCode"}; - reads it from input.',
        ),
    ] = "",
    not_executed: Annotated[
        bool, typer.Option("--not-executed", help="There is proof that the call was not made.")
    ] = False,
    evidence: Annotated[
        str, typer.Option("--evidence", metavar="TEXT", help="Where the proof is to be found; it is kept.")
    ] = "",
) -> int:
    """Settle a call whose effect is unknown, by what you found out at the server. The run must be idle."""
    if bool(result) == not_executed:
        raise CommandError("say either --result FILE or --not-executed")
    outcome = _outcome(result) if result else None

    async def work(gateway: ApprovalGateway) -> None:
        await reconcile(
            gateway,
            approval,
            intent_digest=digest,
            principal_id=principal,
            result=outcome,
            not_executed=not_executed,
            evidence=evidence or None,
        )

    at_the_gate(options, work)
    Output().line(f"settled  {approval}  {'not executed' if outcome is None else outcome.effect_state}", "bold")
    return 0


def _outcome(source: str) -> Outcome:
    try:
        return Outcome.from_json(read_json(source))
    except InvalidValueError as exc:
        raise CommandError(f"{source} is no result: {exc}") from exc


for _name, _function in (
    ("list", list_approvals),
    ("show", show),
    ("decide", decide),
    ("reconcile", reconcile_claim),
):
    approvals.command(_name)(_function)
