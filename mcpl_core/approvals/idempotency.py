"""Effects that happen once for each key, whoever asks for them again.

Owns: claiming a key before a call, and what a second call with it gets. Does not own: approvals (``gateway``, which
uses the same claims and receipts).

A key belongs to a principal and a tool. It is claimed, durably, before the call; the answer replaces the claim by a
receipt, which answers every later call with the key until it expires. A claim whose process died stays: nobody knows
what came of it, and only a reconciliation clears it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from anyio import CancelScope

from .claims import Claim, ClaimKey, Outcome, Receipt, new_attempt
from .clock import Clock
from .errors import ApprovalError, ApprovalStorageError, refuse
from .fields import integer
from .records import arguments_digest
from .store import ApprovalStore, Transaction

__all__ = ("DEFAULT_RECEIPT_TTL_MS", "Idempotency", "keep_outcome", "live_receipt", "settled_receipt", "take_back")

#: How long a receipt answers for its key: a day.
DEFAULT_RECEIPT_TTL_MS: Final = 24 * 60 * 60 * 1000


class Idempotency:
    """Calls with idempotency keys, in one store.

    Args:
        store: where claims and receipts are kept.
        clock: the host's clock; share it with the gateway.
        ttl_ms: how long a receipt answers for its key, in milliseconds.
    """

    def __init__(self, store: ApprovalStore, clock: Clock, *, ttl_ms: int = DEFAULT_RECEIPT_TTL_MS) -> None:
        self._store = store
        self._clock = clock
        self._ttl_ms = integer(1)(ttl_ms, "$.ttl_ms")

    @property
    def store(self) -> ApprovalStore:
        """Where claims and receipts are kept."""
        return self._store

    async def execute_once(
        self,
        key: ClaimKey,
        arguments: Mapping[str, Any],
        operation: Callable[[], Awaitable[Outcome]],
    ) -> Outcome:
        """Makes a call unless it was made before; then returns what came of it.

        The claim is on the disk before ``operation`` begins. An outcome that is ``not_started`` frees the key; one that
        is ``unknown``, an exception and a cancellation leave the claim, since nobody knows.

        Args:
            key: principal, tool and key.
            arguments: of the call.
            operation: makes the call.

        Raises:
            ApprovalError: ``idempotency_in_flight``: it was begun and is not settled; ``idempotency_key_conflict``: the
                key was used with other arguments.
            Exception: whatever ``operation`` raised.
        """
        digest, attempt = arguments_digest(arguments), new_attempt()

        def begin(tx: Transaction) -> Outcome | Claim:
            now = self._clock()
            known = settled_receipt(tx, key, digest, now)
            if known is not None:
                return known.outcome
            claim = Claim(key, digest, now, attempt=attempt)
            tx.save_claim(claim)
            return claim

        def free(tx: Transaction) -> None:
            claim = tx.claim(key)
            if claim is not None and claim.attempt == attempt:
                tx.remove_claim(key)

        try:
            begun = await self._store.write(begin)
        except ApprovalError:
            raise
        except BaseException:
            # The claim may be there; that the operation did not begin is known.
            await take_back(self._store, free)
            raise
        if isinstance(begun, Outcome):
            return begun
        outcome = await operation()
        await keep_outcome(self._store, lambda tx: self._settle(tx, begun, outcome))
        return outcome

    def _settle(self, tx: Transaction, claim: Claim, outcome: Outcome) -> None:
        now, kept = self._clock(), tx.claim(claim.key)
        if kept is not None and kept.attempt != claim.attempt:
            # Somebody settled this one, and the key was claimed again: that call speaks for itself.
            return
        if kept is not None and outcome.effect_state == "unknown":
            tx.save_claim(replace(claim, error_code=outcome.error_code))
        elif outcome.effect_state != "unknown":
            tx.remove_claim(claim.key)
            if outcome.effect_state == "committed" and live_receipt(tx, claim.key, now) is None:
                tx.save_receipt(Receipt(claim, outcome, now, now + self._ttl_ms))

    async def reconcile(self, key: ClaimKey, *, principal_id: str, result: Outcome | None) -> None:
        """Clears a claim by what somebody found out. The approval gateway has its own way for its claims.

        Args:
            key: the claim's.
            principal_id: who found out.
            result: what came of the call; ``None``: proof that it was not made.

        Raises:
            ApprovalError: ``approval_claim_conflict``: there is no such claim, or it is that of an approval;
                ``approval_reconciliation_requires_known_effect``.
        """

        def work(tx: Transaction) -> None:
            claim = tx.claim(key)
            if claim is None or claim.association is not None:
                refuse("approval_claim_conflict")
            if result is not None and result.effect_state == "unknown":
                refuse("approval_reconciliation_requires_known_effect")
            tx.remove_claim(key)
            if result is not None:
                now = self._clock()
                tx.save_receipt(Receipt(claim, result, now, now + self._ttl_ms, "reconciliation", principal_id))

        await self._store.write(work)

    async def forget_expired(self) -> int:
        """Takes the receipts away that are over. Returns how many there were."""
        return await self._store.write(lambda tx: tx.remove_expired_receipts(self._clock()))


async def take_back(store: ApprovalStore, work: Callable[[Transaction], None]) -> None:
    """Frees what a claim held whose call was not begun, as far as the store can be reached."""
    with CancelScope(shield=True), suppress(ApprovalError, ApprovalStorageError):
        await store.write(work)


async def keep_outcome(store: ApprovalStore, work: Callable[[Transaction], None]) -> None:
    """Records what came of a call, also for a caller that is cancelled.

    A connection may have been lost while the call took its time. What is known is worth a second try, which finds out
    whether the first one was kept.

    Raises:
        ApprovalStorageError: both failed, or what is kept of the call cannot be read or written any more.
    """
    with CancelScope(shield=True):
        try:
            try:
                await store.write(work)
            except ApprovalStorageError:
                await store.write(work)
        except ApprovalError as exc:
            # A refusal would say that nothing was sent.
            raise ApprovalStorageError(f"what came of the call is not recorded: {exc}") from exc


def live_receipt(tx: Transaction, key: ClaimKey, now_ms: int) -> Receipt | None:
    """The receipt that answers for a key now."""
    receipt = tx.receipt(key)
    return None if receipt is None or receipt.over(now_ms) else receipt


def settled_receipt(tx: Transaction, key: ClaimKey, digest: str, now_ms: int) -> Receipt | None:
    """What is known of a key for these arguments; ``None`` when it is free.

    Raises:
        ApprovalError: ``idempotency_in_flight`` or ``idempotency_key_conflict``.
    """
    claim = tx.claim(key)
    if claim is not None:
        refuse("idempotency_in_flight" if claim.arguments_digest == digest else "idempotency_key_conflict")
    receipt = live_receipt(tx, key, now_ms)
    if receipt is not None and receipt.claim.arguments_digest != digest:
        refuse("idempotency_key_conflict")
    return receipt
