"""Clearing a claim whose effect was unknown, by what somebody found out elsewhere.

Owns: the conditions, and what is recorded. Does not own: finding out. Nothing in this package looks at a server's data
or at any log of its own to answer that; the evidence comes from outside.
"""

from __future__ import annotations

from ..errors import InvalidValueError
from .claims import Outcome, Receipt
from .errors import ApprovalCode, refuse
from .facts import load_facts, log
from .fields import identity
from .gateway import ApprovalGateway
from .store import Transaction

__all__ = ("reconcile",)


async def reconcile(
    gateway: ApprovalGateway,
    approval_id: str,
    *,
    intent_digest: str,
    principal_id: str,
    result: Outcome | None = None,
    not_executed: bool = False,
    evidence: str | None = None,
) -> None:
    """Settles a claim: with the result that is now known, or with proof that the call was never made.

    After a result the approval is used up. After a proof of non-execution it is unused, and can be dispatched as long
    as it lasts. A run that ended stays ended.

    Args:
        gateway: the gate.
        approval_id: whose claim it is.
        intent_digest: of the intent that was looked into.
        principal_id: who found out.
        result: what came of the call; its effect is known.
        not_executed: whether there is proof that it was not made. Exactly one of the two is given.
        evidence: where it is to be found, for people; up to 1,024 characters.

    Raises:
        ApprovalError: ``approval_claim_conflict``: there is no such claim, or it belongs to something else;
            ``approval_reconciliation_requires_idle_run``, ``approval_reconciliation_requires_known_effect``. The claim
            is kept.
        InvalidValueError: both a result and a proof, or neither.
    """
    if (result is None) is not (not_executed is True):
        raise InvalidValueError("reconciliation", "a result, or proof that the call was not made", "$")
    identity(principal_id, "$.principal_id")
    note = {} if evidence is None else {"evidence": identity(evidence, "$.evidence")}

    def work(tx: Transaction) -> ApprovalCode | None:
        now = gateway.clock()
        record = tx.record(approval_id)
        if record is None:
            return "approval_not_found"
        facts = load_facts(tx, record.intent.run_id, approval_id, now)
        claim = facts.claim
        association = None if claim is None else claim.association
        if claim is None or association is None or record.decision is None:
            return "approval_claim_conflict"
        if (intent_digest, record.decision.revision) != (association.intent_digest, association.approval_revision):
            return "approval_claim_conflict"
        if facts.run is None or not facts.run.idle(now):
            return "approval_reconciliation_requires_idle_run"
        if result is not None and result.effect_state == "unknown":
            return "approval_reconciliation_requires_known_effect"
        tx.remove_claim(claim.key)
        if result is not None:
            receipt = Receipt(claim, result, now, source="reconciliation", principal_id=principal_id)
            tx.save_receipt(receipt)
        state = "not_executed" if result is None else result.effect_state
        log(tx, approval_id, "reconciled", now, principalId=principal_id, effectState=state, **note)
        gateway.on_step("reconcile.saved")
        return None

    code = await gateway.store.write(work)
    gateway.on_step("reconcile.committed")
    if code is not None:
        refuse(code)
