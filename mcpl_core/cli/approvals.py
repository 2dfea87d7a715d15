"""``mcpl approvals``: the approvals of a store, for those who decide.

Owns: the command lines. Does not own: what they do (``approvals_work``), the gate (``mcpl_core.approvals``),
and who may use the store: whoever can open it can decide.

Exit statuses: 0: done; 1: the gate refused (the message names its code), the store cannot be used, or something in it
is damaged (what can be read was printed); 2: the command line is not understood.

The gate is loaded by the command that needs it: every other command would start later by a third.
"""

from __future__ import annotations

from typing import Annotated

import typer

from .approvals_options import StoreOptions
from .options import with_option_groups
from .output import CommandError

__all__ = ("approvals", "decide", "diagnose_store", "enable", "list_approvals", "reconcile_claim", "show")

approvals = typer.Typer(
    help="Approvals of writes: look at them, decide them, and settle what is unknown.\n\n"
    "Exit status 1: the gate refused, and the message names its code; the store cannot be used; or some of it is"
    " damaged, which is said beside the rest.",
)

_JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_ID = Annotated[str, typer.Argument(metavar="APPROVAL", help="The id of the approval.")]
_PRINCIPAL = Annotated[str, typer.Option("--principal", metavar="NAME", help="Who you are; it is kept.")]
_DIGEST = Annotated[str, typer.Option("--digest", metavar="HEX", help="The intent digest that was looked at.")]


@with_option_groups
def enable(options: StoreOptions) -> int:
    """Make a store of approvals, or enable approvals in one that keeps runs and claims alone, none of them open."""
    from .approvals_work import enable_store

    enable_store(options)
    return 0


@with_option_groups
def list_approvals(
    options: StoreOptions,
    status: Annotated[
        str,
        typer.Option("--status", help="Only those that are pending, approved, rejected, expired or canceled by now."),
    ] = "",
    run_id: Annotated[str, typer.Option("--run", metavar="ID", help="Only those of this run.")] = "",
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="Only those of this tool.")] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most.")] = 100,
    after: Annotated[
        str, typer.Option("--after", metavar="APPROVAL", help="Only those that come after this one.")
    ] = "",
    as_json: _JSON = False,
) -> int:
    """List approvals, oldest first, with the status that they have by now. Nothing is changed."""
    from .approvals_work import Wanted, print_list

    return print_list(options, Wanted(status, run_id, tool, limit, after), as_json=as_json)


@with_option_groups
def show(options: StoreOptions, approval: _ID, as_json: _JSON = False) -> int:
    """Show one approval: the exact call, the hash of what is shown, and what became of it. Nothing is changed."""
    from .approvals_work import print_one

    return print_one(options, approval, as_json=as_json)


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
    from .approvals_work import give_decision

    if decision not in ("approve", "reject"):
        raise CommandError(f"the decision is approve or reject, not {decision}")
    command = {
        "approvalId": approval,
        "expectedRevision": revision,
        "intentDigest": digest,
        "commandKey": key,
        "decision": decision,
    }
    give_decision(options, command, principal, preview, as_json=as_json)
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
    from .approvals_work import settle

    settle(options, approval, digest, principal, result, evidence)
    return 0


@with_option_groups
def diagnose_store(
    options: StoreOptions,
    run_id: Annotated[str, typer.Option("--run", metavar="ID", help="Only what belongs to this run.")] = "",
) -> int:
    """Count approvals, unknown effects, receipts and open runs, as JSON. Nothing is changed, and nothing permitted."""
    from .approvals_work import print_diagnosis

    return print_diagnosis(options, run_id)


for _name, _function in (
    ("enable", enable),
    ("list", list_approvals),
    ("show", show),
    ("decide", decide),
    ("reconcile", reconcile_claim),
    ("diagnose", diagnose_store),
):
    approvals.command(_name)(_function)
