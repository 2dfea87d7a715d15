"""Writes under authority: an approval for each exact call, kept on disk, and at most one write for each approval.

A host asks for an approval at a checkpoint of its run (``DurableWrites.prepare``), somebody decides
(``ApprovalGateway.decide``, or ``mcpl approvals``), and the run goes on (``DurableWrites.dispatch``): a claim is
written before the call is sent, a receipt after its effect is known. Where it is not known the claim stays, nothing is
sent again, and ``reconcile`` clears it by what somebody found out.
"""

from .claims import Association, Claim, ClaimKey, Outcome, Receipt
from .clock import Clock, SteadyClock
from .damage import DamagedRow, OnDamage
from .diagnosis import Diagnosis
from .dispatching import FindRegistration, dispatch
from .durable import DurableWrites, intent_of
from .errors import CODES, ApprovalCode, ApprovalError, ApprovalRequired, ApprovalStorageError
from .events import ApprovalEvent, EventKind
from .gateway import ApprovalGateway, Authorizer
from .idempotency import Idempotency
from .ledger import RunLedger
from .postgres import PostgresApprovalStore
from .preview import Preview, preview_of
from .reconciling import reconcile
from .records import (
    ApprovalIntent,
    ApprovalRecord,
    Decision,
    DecisionCommand,
    DecisionReceipt,
    approval_id_of,
)
from .runs import Checkpoint, Run, RunLease, ToolCall
from .sqlite import SqliteApprovalStore
from .statuses import STATUSES, Status
from .store import ApprovalStore, Transaction

__all__ = (
    "CODES",
    "STATUSES",
    "ApprovalCode",
    "ApprovalError",
    "ApprovalEvent",
    "ApprovalGateway",
    "ApprovalIntent",
    "ApprovalRecord",
    "ApprovalRequired",
    "ApprovalStorageError",
    "ApprovalStore",
    "Association",
    "Authorizer",
    "Checkpoint",
    "Claim",
    "ClaimKey",
    "Clock",
    "DamagedRow",
    "Decision",
    "DecisionCommand",
    "DecisionReceipt",
    "Diagnosis",
    "DurableWrites",
    "EventKind",
    "FindRegistration",
    "Idempotency",
    "OnDamage",
    "Outcome",
    "PostgresApprovalStore",
    "Preview",
    "Receipt",
    "Run",
    "RunLease",
    "RunLedger",
    "SqliteApprovalStore",
    "Status",
    "SteadyClock",
    "ToolCall",
    "Transaction",
    "approval_id_of",
    "dispatch",
    "intent_of",
    "preview_of",
    "reconcile",
)
