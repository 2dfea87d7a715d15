"""Using an approval: claim, send, record.

Owns: the order in which a write is dispatched, and what is recorded of it. Does not own: the checks (``checks``),
asking and deciding (``gateway``), and the request itself (``mcpl_core.catalog.permits``).

The claim is on the disk before the permit is minted, the registration is compared once more after that, and when the
scope check, which may wait for anything, has allowed the call, the store is asked a last time whether claim, lease and
approval are still there. What comes back is recorded also when the caller is cancelled. Whatever cuts this off after
the claim leaves the claim, and so ``unknown``: nothing is ever sent a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..catalog.bounded import copy_bounded
from ..catalog.errors import CatalogError
from ..catalog.identity import IDENTITY_BUDGET
from ..catalog.outcomes import CallOutcome, failed
from ..catalog.permits import WritePermit, dispatch_write, mint_permit
from ..catalog.registrations import WriteRegistration
from ..catalog.scopes import CallContext
from .checks import (
    DISPATCH_CHECKS,
    RECEIPT_CHECKS,
    REPLAY_CHECKS,
    SEND_CHECKS,
    Facts,
    binding_matches,
    first_refusal,
)
from .claims import Association, Claim, Outcome, Receipt, new_attempt
from .errors import ApprovalCode, ApprovalError, refuse
from .facts import claim_key, keep_refreshed, load_facts, log
from .gateway import ApprovalGateway
from .idempotency import keep_outcome, live_receipt, settled_receipt, take_back
from .records import ApprovalIntent, approval_id_of, arguments_digest
from .runs import Run, RunLease, ToolCall
from .store import Transaction

__all__ = ("FindRegistration", "dispatch")

#: The registration of a tool that holds *now*, by local name; ``None``: there is none.
FindRegistration: TypeAlias = Callable[[str], WriteRegistration | None]


@dataclass(frozen=True, slots=True)
class _Asked:
    approval_id: str
    lease: RunLease
    call: ToolCall
    binding: dict[str, str] | None
    attempt: str


@dataclass(frozen=True, slots=True)
class _Claimed:
    claim: Claim
    intent: ApprovalIntent
    run: Run


async def dispatch(
    gateway: ApprovalGateway,
    lease: RunLease,
    call: ToolCall,
    find: FindRegistration,
    *,
    agent_id: str | None = None,
) -> Outcome:
    """Makes one approved call, at most once.

    Args:
        gateway: the gate.
        lease: that of the worker.
        call: the call of the checkpoint.
        find: the registration that holds now; it is asked before the claim and again right before the request.
        agent_id: of the agent that calls, for the scope check.

    Returns:
        What came of it. A call that was recorded before is not made: its outcome is returned again. After ``unknown``
        the claim stays; after ``not_started`` it is taken back, and the approval can be used while it lasts.

    Raises:
        ApprovalError: a check failed; nothing was sent.
        ApprovalStorageError: the store failed: at the claim, then nothing was sent; or afterwards, then the claim stays
            and what came of the call is not recorded.
    """
    approval_id = approval_id_of(lease.run_id, call.call_id)
    gateway.on_step("dispatch.begun")
    binding = _binding(_current(find, call.tool_name))
    asked = _Asked(approval_id, lease, call, binding, new_attempt())
    try:
        claimed = await gateway.store.write(lambda tx: _claim(gateway, tx, asked))
    except ApprovalError:
        raise
    except BaseException:
        # The claim may be there; that nothing was sent under it is known.
        await take_back(gateway.store, lambda tx: _take_back(gateway, tx, asked))
        raise
    if isinstance(claimed, str):
        refuse(claimed)
    if isinstance(claimed, Outcome):
        return claimed
    gateway.on_step("dispatch.claimed")
    return await _send(gateway, claimed, lease, find, agent_id)


def _current(find: FindRegistration, name: str) -> WriteRegistration | None:
    found = find(name)
    # Tools of one catalog may share an authority, and never a name.
    return found if found is not None and found.local_name == name else None


def _binding(registration: WriteRegistration | None) -> dict[str, str] | None:
    return None if registration is None else registration.approval_binding.to_json()


def _claim(gateway: ApprovalGateway, tx: Transaction, asked: _Asked) -> _Claimed | Outcome | ApprovalCode:
    lease, call = asked.lease, asked.call
    facts = replace(load_facts(tx, lease.run_id, asked.approval_id, gateway.clock()), lease=lease, call=call)
    code = first_refusal(facts, REPLAY_CHECKS)
    if code is not None:
        return code
    if facts.receipt is not None:
        return first_refusal(facts, RECEIPT_CHECKS) or facts.receipt.outcome
    facts = replace(keep_refreshed(tx, facts), binding=asked.binding)
    return first_refusal(facts, DISPATCH_CHECKS) or _begin(gateway, tx, facts, asked)


def _take_back(gateway: ApprovalGateway, tx: Transaction, asked: _Asked) -> None:
    claim = tx.claim_of(asked.approval_id)
    if claim is not None and claim.attempt == asked.attempt:
        tx.remove_claim(claim.key)
        log(tx, asked.approval_id, "released", gateway.clock(), effectState="not_started")


def _begin(gateway: ApprovalGateway, tx: Transaction, facts: Facts, asked: _Asked) -> _Claimed | Outcome:
    lease, call = asked.lease, asked.call
    record, run = facts.record, facts.run
    assert record is not None and run is not None and record.decision is not None
    key, digest = claim_key(run, call, record.approval_id), arguments_digest(call.arguments)
    known = settled_receipt(tx, key, digest, facts.now_ms)
    if known is not None:
        # What answered an approved call once answers it from now on, whatever time its key was given.
        tx.save_receipt(replace(known, expires_at_ms=None))
        return known.outcome
    association = Association(
        record.approval_id,
        record.intent.digest,
        record.decision.revision,
        run.run_id,
        lease.owner,
        lease.epoch,
    )
    claim = Claim(key, digest, facts.now_ms, association, attempt=asked.attempt)
    tx.save_claim(claim)
    log(tx, record.approval_id, "executed", facts.now_ms, leaseOwner=lease.owner, leaseEpoch=lease.epoch)
    gateway.on_step("dispatch.claim_saved")
    return _Claimed(claim, record.intent, run)


async def _send(
    gateway: ApprovalGateway, claimed: _Claimed, lease: RunLease, find: FindRegistration, agent_id: str | None
) -> Outcome:
    arguments: dict[str, Any] = copy_bounded(claimed.intent.arguments, IDENTITY_BUDGET)
    association = claimed.claim.association
    assert association is not None
    registration = _current(find, claimed.intent.tool_name)
    binding = _binding(registration)
    if registration is None or binding is None or not binding_matches(claimed.intent, binding):
        await _record(gateway, claimed.claim, Outcome("not_started", error_code="approval_intent_conflict"))
        refuse("approval_intent_conflict")
    try:
        permit = mint_permit(registration, arguments, association.approval_id)
    except CatalogError as exc:
        return await _record(gateway, claimed.claim, _outcome(failed(exc.code, "not_started")))
    context = CallContext(
        principal=claimed.run.principal_id,
        run_id=claimed.run.run_id,
        root_run_id=claimed.run.root_run_id,
        agent_id=agent_id,
        lease_owner=lease.owner,
        lease_epoch=lease.epoch,
    )
    gateway.on_step("dispatch.permitted")
    return await _exchange(gateway, claimed, lease, permit, registration, arguments, context)


async def _exchange(
    gateway: ApprovalGateway,
    claimed: _Claimed,
    lease: RunLease,
    permit: WritePermit,
    registration: WriteRegistration,
    arguments: dict[str, Any],
    context: CallContext,
) -> Outcome:
    async def last_look() -> None:
        code = await gateway.store.read(lambda tx: _not_any_more(gateway, tx, claimed, lease))
        if code is not None:
            refuse(code)

    try:
        came = await dispatch_write(permit, registration, arguments, context, last_look)
    finally:
        # A caller that is cancelled, or refused in the end, must not take with it what is known of the effect.
        if permit.outcome is not None and permit.outcome.error_code == "mcp_canceled":
            await _record(gateway, claimed.claim, _outcome(permit.outcome))
    gateway.on_step("dispatch.answered")
    return await _record(gateway, claimed.claim, _outcome(came))


def _not_any_more(gateway: ApprovalGateway, tx: Transaction, claimed: _Claimed, lease: RunLease) -> ApprovalCode | None:
    facts = load_facts(tx, lease.run_id, approval_id_of(lease.run_id, claimed.intent.tool_call_id), gateway.clock())
    if facts.claim is None or facts.claim.attempt != claimed.claim.attempt:
        return "approval_claim_conflict"
    return first_refusal(replace(facts, lease=lease), SEND_CHECKS)


async def _record(gateway: ApprovalGateway, claim: Claim, outcome: Outcome) -> Outcome:
    await keep_outcome(gateway.store, lambda tx: _settle(gateway, tx, claim, outcome))
    gateway.on_step("dispatch.recorded")
    return outcome


def _settle(gateway: ApprovalGateway, tx: Transaction, claim: Claim, outcome: Outcome) -> None:
    association = claim.association
    assert association is not None
    now, approval_id = gateway.clock(), association.approval_id
    facts = {"effectState": outcome.effect_state, "errorCode": outcome.error_code}
    kept, known = tx.claim(claim.key), live_receipt(tx, claim.key, now)
    if known is not None and known.claim.attempt == claim.attempt and known.source == "answer":
        # The first try was kept, though the store could not say so.
        return
    if kept is not None and kept.attempt != claim.attempt:
        # Somebody proved that it was not made, and it was claimed again: what came of this one is for people to see.
        log(tx, approval_id, "unknown", now, **facts, late=True)
    elif outcome.effect_state == "unknown":
        if kept is not None:
            tx.save_claim(replace(claim, error_code=outcome.error_code))
        log(tx, approval_id, "unknown", now, **facts)
    elif outcome.effect_state == "not_started":
        if kept is not None:
            tx.remove_claim(claim.key)
        log(tx, approval_id, "released", now, **facts)
    else:
        tx.remove_claim(claim.key)
        tx.save_receipt(replace(known or Receipt(claim, outcome, now), expires_at_ms=None))
        log(tx, approval_id, "returned", now, **facts)
    gateway.on_step("dispatch.outcome_saved")


def _outcome(came: CallOutcome) -> Outcome:
    return Outcome(came.effect, came.envelope(), came.error_code)
