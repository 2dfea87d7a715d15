"""Where approvals are kept: what a store promises.

Owns: the protocols ``Transaction`` and ``ApprovalStore``, and the formats. Does not own: the tables (``sql``), the
databases (``sqlite.store``, ``postgres.store``), and what a transaction does (``gateway``, ``ledger`` and others).

A store has a format. Format 1 keeps runs and claims; format 2, which is enabled by hand, keeps approvals too. Each
transaction looks at the format first, so that a program which does not know it writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from .claims import Claim, ClaimKey, Receipt
from .damage import OnDamage
from .errors import refuse
from .events import ApprovalEvent
from .records import ApprovalRecord
from .runs import Checkpoint, Run
from .statuses import Status

__all__ = ("APPROVALS_FORMAT", "ApprovalStore", "Transaction", "check_format")

R = TypeVar("R", covariant=True)

#: The format that keeps approvals.
APPROVALS_FORMAT: Final = 2


class Transaction(Protocol):
    """What is done at once or not at all. It is used inside ``ApprovalStore.write`` or ``read`` only, in their thread.

    Whatever is about approvals raises ``approval_storage_not_enabled`` in a store of format 1, and every reader raises
    ``approval_record_conflict`` at a row that is damaged or is not what its key says. Where ``on_damage`` is given, it
    is told such rows, and they are left out.
    """

    def run(self, run_id: str) -> Run | None:
        """The run."""

    def save_run(self, run: Run) -> None:
        """Adds it, or puts it in the place of the one before."""

    def checkpoint(self, run_id: str) -> Checkpoint | None:
        """Where the run stands."""

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Puts it in the place of the one before."""

    def record(self, approval_id: str) -> ApprovalRecord | None:
        """The approval."""

    def records(
        self,
        *,
        status: Status | None = None,
        run_id: str | None = None,
        tool_name: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        skip: int = 0,
        on_damage: OnDamage | None = None,
    ) -> list[ApprovalRecord]:
        """The approvals that fit, oldest first: of those that come after the approval ``after``, all but the first
        ``skip``, and of these at most ``limit``, counting what is damaged. There is no skipping without a limit."""

    def open_records(self, run_id: str | None = None, *, on_damage: OnDamage | None = None) -> list[ApprovalRecord]:
        """Those, of one run or of all, that can still expire or be canceled, as far as is kept: pending, or approved
        and not used."""

    def count_records(self, run_id: str | None = None, *, on_damage: OnDamage | None = None) -> dict[Status, int]:
        """How many approvals, of one run or of all, have which status, as far as is kept. None is read; damaged is one
        whose status is none."""

    def count_used(self, run_id: str | None = None) -> tuple[int, int]:
        """How many approvals, of one run or of all, have a claim, and how many a receipt."""

    def save_record(self, record: ApprovalRecord) -> None:
        """Adds it, or puts it in the place of the revision before."""

    def claim(self, key: ClaimKey) -> Claim | None:
        """The claim of this key."""

    def claim_of(self, approval_id: str) -> Claim | None:
        """The claim under this approval."""

    def claims(self) -> list[Claim]:
        """Every claim."""

    def save_claim(self, claim: Claim) -> None:
        """Adds it, or puts it in the place of the one with its key."""

    def remove_claim(self, key: ClaimKey) -> None:
        """Takes it away."""

    def receipt(self, key: ClaimKey) -> Receipt | None:
        """The receipt of this key."""

    def receipt_of(self, approval_id: str) -> Receipt | None:
        """The receipt under this approval."""

    def save_receipt(self, receipt: Receipt) -> None:
        """Adds it, or puts it in the place of an expired one."""

    def remove_expired_receipts(self, now_ms: int) -> int:
        """Takes away the receipts that are over. Returns how many there were."""

    def append_event(self, event: ApprovalEvent) -> None:
        """Adds to the story of an approval."""

    def events(self, approval_id: str) -> list[ApprovalEvent]:
        """The story of an approval, in order."""

    def open_work(self) -> tuple[int, int]:
        """How many runs have not ended, and how many claims there are."""


class ApprovalStore(Protocol):
    """A database. Every method may be called from any task of the event loop that opened it."""

    async def write(self, work: Callable[[Transaction], R]) -> R:
        """Runs ``work`` in a transaction that no other one runs beside; what it returned is on the disk.

        Raises:
            ApprovalError: ``approval_storage_version``, or whatever ``work`` raised: then nothing changed.
            ApprovalStorageError: the database failed; whether it was committed is not known.
        """

    async def read(self, work: Callable[[Transaction], R]) -> R:
        """Runs ``work`` on one state of the database, which it cannot change. It may run again, on a later state, when
        the first could not be held.

        Raises:
            ApprovalError: as ``write``.
            ApprovalStorageError: the database failed.
        """

    async def activate(self) -> None:
        """Enables approvals. To be done while no host works with the store; doing it twice is doing it once.

        Raises:
            ApprovalError: ``approval_activation_pending``: runs or claims are open.
        """

    async def aclose(self) -> None:
        """Ends the use of the database."""


def check_format(found: int, known: int) -> int:
    """The format of a store, which this program must know.

    Raises:
        ApprovalError: ``approval_storage_version``.
    """
    if not 1 <= found <= known:
        refuse("approval_storage_version")
    return found
