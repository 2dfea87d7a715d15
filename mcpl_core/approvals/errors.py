"""What goes wrong at the approval gate: one exception whose code is the fact, and one signal that is no failure.

Owns: the codes, in one table with the sentence of each. Does not own: when a code is given (``checks``, ``gateway`` and
the stores decide), nor the codes of the tools themselves (``mcpl_core.catalog.errors``).

No text of a server, a model or an approver is ever part of one of these errors.
"""

from __future__ import annotations

from typing import Final, Literal, NoReturn, TypeAlias

from ..errors import McplError

__all__ = ("CODES", "ApprovalCode", "ApprovalError", "ApprovalRequired", "ApprovalStorageError", "refuse")

#: Why the gate refused. ``CODES`` has a sentence for each.
ApprovalCode: TypeAlias = Literal[
    "agent_run_lease_lost",
    "approval_activation_pending",
    "approval_authorization_denied",
    "approval_authorization_failed",
    "approval_batch_unsupported",
    "approval_canceled",
    "approval_checkpoint_conflict",
    "approval_claim_conflict",
    "approval_command_conflict",
    "approval_configuration_mismatch",
    "approval_expired",
    "approval_idempotency_unavailable",
    "approval_intent_conflict",
    "approval_invocation_unsettled",
    "approval_not_found",
    "approval_pending",
    "approval_preview_conflict",
    "approval_reconciliation_requires_idle_run",
    "approval_reconciliation_requires_known_effect",
    "approval_record_conflict",
    "approval_rejected",
    "approval_revision_conflict",
    "approval_run_conflict",
    "approval_run_terminal",
    "approval_storage_not_enabled",
    "approval_storage_version",
    "idempotency_in_flight",
    "idempotency_key_conflict",
]

#: Code -> what it says.
CODES: Final[dict[ApprovalCode, str]] = {
    "agent_run_lease_lost": "the worker does not hold the lease of this run any more",
    "approval_activation_pending": "approvals cannot be enabled while runs or claims are open",
    "approval_authorization_denied": "the authorizer did not allow the decision",
    "approval_authorization_failed": "the authorizer failed",
    "approval_batch_unsupported": "a write that needs an approval is the only call of its batch",
    "approval_canceled": "the run, or the run that it belongs to, was canceled",
    "approval_checkpoint_conflict": "the call is not the one that the checkpoint holds",
    "approval_claim_conflict": "the call was begun before and is not settled, or there is no such claim to settle",
    "approval_command_conflict": "the command key was used for another decision, or by somebody else",
    "approval_configuration_mismatch": "the run is configured otherwise than when approval was asked for",
    "approval_expired": "the approval is over",
    "approval_idempotency_unavailable": "the gate, its receipts and the names of its tools belong together",
    "approval_intent_conflict": "what was approved is not what is asked for now",
    "approval_invocation_unsettled": "the model invocation that made the call is not settled",
    "approval_not_found": "there is no such approval",
    "approval_pending": "nobody decided yet",
    "approval_preview_conflict": "the approver saw something else than what is kept",
    "approval_reconciliation_requires_idle_run": "somebody still works on the run",
    "approval_reconciliation_requires_known_effect": "an unknown effect settles nothing",
    "approval_record_conflict": "a stored record is damaged, or not the one that its key names",
    "approval_rejected": "the approval was rejected",
    "approval_revision_conflict": "the approval changed since it was looked at, or is another one",
    "approval_run_conflict": "there is no such run, or it belongs to another root",
    "approval_run_terminal": "the run has ended",
    "approval_storage_not_enabled": "approvals are not enabled in this store",
    "approval_storage_version": "the store has a format that this version of the package does not know",
    "idempotency_in_flight": "a call with this key was begun, and what became of it is not known",
    "idempotency_key_conflict": "this key was used with other arguments",
}


class ApprovalError(McplError):
    """The gate refused. Nothing was sent by the operation that raises it.

    Attributes:
        code: one of ``CODES``.
        row: of a damaged record the columns of its row, as printable ASCII; ``None`` otherwise.
        damage: of a damaged record its table and what is wrong, without a value of it; ``None`` otherwise.
    """

    def __init__(self, code: ApprovalCode, row: str | None = None, damage: str | None = None) -> None:
        super().__init__(code, row, damage)
        self.code: ApprovalCode = code
        self.row = row
        self.damage = damage

    def __str__(self) -> str:
        facts = [CODES[self.code], *(fact for fact in (self.row, self.damage) if fact is not None)]
        return ": ".join(facts)


class ApprovalRequired(McplError):
    """Not a failure: intent and checkpoint are saved, and the worker is to leave the run until somebody decided.

    Attributes:
        run_id: the run that waits.
        approval_id: what is to be decided.
    """

    code: Final = "approval_required"

    def __init__(self, run_id: str, approval_id: str) -> None:
        super().__init__(run_id, approval_id)
        self.run_id = run_id
        self.approval_id = approval_id

    def __str__(self) -> str:
        return f"the run waits for approval {self.approval_id}"


class ApprovalStorageError(McplError):
    """The store cannot be reached, or failed; ``__cause__`` has the original.

    When it comes from a transaction that writes, the transaction may have been committed; asking again tells.

    Attributes:
        detail: what failed.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


def refuse(code: ApprovalCode) -> NoReturn:
    """Raises ``ApprovalError``."""
    raise ApprovalError(code)
