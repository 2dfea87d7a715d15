"""The runs in a store: beginning, taking, leaving and ending them.

Owns: the operations on ``Run``. Does not own: what a run does, and approvals (``gateway``).

A worker takes a run for a while and gets a ``RunLease``. Whoever takes it later, after the lease ran out or was given
back, gets a higher epoch, and nothing that shows an earlier one is accepted any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

from ..errors import InvalidValueError
from .clock import Clock
from .errors import refuse
from .fields import identity, integer
from .runs import Run, RunLease
from .store import ApprovalStore, Transaction

__all__ = ("DEFAULT_LEASE_MS", "RunLedger", "released")

#: How long a lease is good without being renewed.
DEFAULT_LEASE_MS: Final = 60_000


class RunLedger:
    """The runs in one store.

    Args:
        store: where they are kept.
        clock: the host's clock; share it with the gateway.
    """

    def __init__(self, store: ApprovalStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def begin(
        self,
        run_id: str,
        *,
        principal_id: str,
        preset_fingerprint: str,
        root_run_id: str | None = None,
        deadline_ms: int | None = None,
    ) -> Run:
        """Begins a run. Beginning it again with the same facts returns it as it is.

        Args:
            run_id: its id.
            principal_id: on whose behalf it acts.
            preset_fingerprint: digest of its configuration.
            root_run_id: the run that it belongs to, which exists, stands alone, and acts on behalf of the same
                principal; left out: it stands alone.
            deadline_ms: milliseconds since the epoch.

        Raises:
            ApprovalError: ``approval_run_conflict``: it exists with other facts, or its root is none for it.
            InvalidValueError: an argument is not what it must be.
        """
        run = Run(run_id, root_run_id or run_id, principal_id, preset_fingerprint, deadline_ms=deadline_ms)

        def work(tx: Transaction) -> Run:
            kept = tx.run(run_id)
            if kept is None:
                if run.root_run_id != run_id and not _roots(tx.run(run.root_run_id), run):
                    refuse("approval_run_conflict")
                tx.save_run(run)
                return run
            if _facts(kept) != _facts(run):
                refuse("approval_run_conflict")
            return kept

        return await self._store.write(work)

    async def find(self, run_id: str) -> Run | None:
        """The run, as it is kept."""
        return await self._store.read(lambda tx: tx.run(run_id))

    async def acquire(self, run_id: str, owner: str, *, ttl_ms: int = DEFAULT_LEASE_MS) -> RunLease:
        """Takes a run that nobody holds.

        Args:
            run_id: the run.
            owner: names the worker.
            ttl_ms: how long, in milliseconds.

        Raises:
            ApprovalError: ``agent_run_lease_lost``: somebody holds it; ``approval_run_terminal``: it ended;
                ``approval_run_conflict``: there is none.
        """
        identity(owner, "$.owner")
        integer(1)(ttl_ms, "$.ttl_ms")

        def change(run: Run, now: int) -> Run:
            if run.status != "running":
                refuse("approval_run_terminal")
            if not run.idle(now):
                refuse("agent_run_lease_lost")
            return replace(run, lease_owner=owner, lease_epoch=run.lease_epoch + 1, lease_expires_ms=now + ttl_ms)

        taken = await self._change(run_id, change)
        return RunLease(run_id, owner, taken.lease_epoch)

    async def renew(self, lease: RunLease, *, ttl_ms: int = DEFAULT_LEASE_MS) -> None:
        """Keeps a run for a while longer, from now on.

        Raises:
            ApprovalError: ``agent_run_lease_lost``.
        """
        integer(1)(ttl_ms, "$.ttl_ms")
        await self._held(lease, lambda run, now: replace(run, lease_expires_ms=now + ttl_ms))

    async def release(self, lease: RunLease) -> None:
        """Gives a run back.

        Raises:
            ApprovalError: ``agent_run_lease_lost``.
        """
        await self._held(lease, lambda run, _: released(run))

    async def cancel(self, run_id: str) -> None:
        """Asks a run to end, and all that belong to it; for good. No lease is needed. A run that ended stays as it is.

        Raises:
            ApprovalError: ``approval_run_conflict``: there is none.
        """

        def change(run: Run, now: int) -> Run:
            return run if run.over else replace(run, cancel_requested_ms=now)

        await self._change(run_id, change)

    async def finish(self, lease: RunLease, status: Literal["completed", "failed", "canceled"]) -> None:
        """Ends a run, and gives it back.

        Raises:
            ApprovalError: ``agent_run_lease_lost``.
            InvalidValueError: another status.
        """
        if status not in ("completed", "failed", "canceled"):
            raise InvalidValueError("literal", "completed, failed or canceled", "$.status")
        await self._held(lease, lambda run, _: replace(released(run), status=status))

    async def begin_invocation(self, lease: RunLease, invocation_id: str) -> None:
        """Says that the model is about to be called; until it is settled nothing is dispatched.

        Raises:
            ApprovalError: ``agent_run_lease_lost``; ``approval_invocation_unsettled``: another one is open.
        """

        def change(run: Run, now: int) -> Run:
            if run.open_invocation not in (None, invocation_id):
                refuse("approval_invocation_unsettled")
            return replace(run, open_invocation=invocation_id)

        await self._held(lease, change)

    async def settle_invocation(self, lease: RunLease, invocation_id: str) -> None:
        """Says that the outcome of the model's call is known.

        Raises:
            ApprovalError: ``agent_run_lease_lost``; ``approval_invocation_unsettled``: it is not the open one.
        """

        def change(run: Run, now: int) -> Run:
            if run.open_invocation != invocation_id:
                refuse("approval_invocation_unsettled")
            return replace(run, open_invocation=None, settled_invocation=invocation_id)

        await self._held(lease, change)

    async def _held(self, lease: RunLease, change: Callable[[Run, int], Run]) -> None:
        def guarded(run: Run, now: int) -> Run:
            if not run.held_by(lease, now):
                refuse("agent_run_lease_lost")
            return change(run, now)

        await self._change(lease.run_id, guarded)

    async def _change(self, run_id: str, change: Callable[[Run, int], Run]) -> Run:
        def work(tx: Transaction) -> Run:
            run = tx.run(run_id)
            if run is None:
                refuse("approval_run_conflict")
            changed = change(run, self._clock())
            if changed != run:
                tx.save_run(changed)
            return changed

        return await self._store.write(work)


def released(run: Run) -> Run:
    """The run in nobody's hands; its epoch stays."""
    return replace(run, lease_owner=None, lease_expires_ms=None)


def _roots(root: Run | None, run: Run) -> bool:
    # What ends a root ends all that belongs to it: one step, and nobody else's.
    return root is not None and root.root_run_id == root.run_id and root.principal_id == run.principal_id


def _facts(run: Run) -> tuple[object, ...]:
    return run.root_run_id, run.principal_id, run.preset_fingerprint, run.deadline_ms
