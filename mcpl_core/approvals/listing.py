"""Going through the approvals of a store, past those that are damaged.

Owns: the pages, and telling what was passed by. Does not own: the order (``Transaction.records``), and what is
looked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeAlias, TypeVar

from .damage import DamagedRow, OnDamage, readable
from .facts import load_record
from .records import ApprovalRecord
from .statuses import Status
from .store import Transaction

__all__ = ("PAGE", "each_record", "past_damage")

R = TypeVar("R")

_Found: TypeAlias = tuple[R, list[DamagedRow]]

#: Rows that are read at once, at first.
PAGE: Final = 200


def each_record(
    tx: Transaction,
    on_damage: OnDamage,
    *,
    status: Status | None = None,
    run_id: str | None = None,
    tool_name: str | None = None,
    after: str | None = None,
) -> Iterator[ApprovalRecord]:
    """The records that fit, as they are kept, oldest first. It ends with its transaction.

    Args:
        tx: the transaction.
        on_damage: is told each row on the pages that were read which is left out.
        status, run_id, tool_name: what they are to have.
        after: the id of the one that they come after; it may be damaged.

    Raises:
        ApprovalError: ``approval_not_found``: there is no approval ``after``.
    """
    if after is not None:
        readable(after, lambda: load_record(tx, after), lambda damaged: None)
    met = 0
    while True:
        damaged: list[DamagedRow] = []
        # As many again as were met: whoever goes to the end asks a few times, not once for each page.
        limit = max(PAGE, met)
        # Counted, not from the last one on: of a damaged row nothing says where it stands.
        page = tx.records(
            status=status,
            run_id=run_id,
            tool_name=tool_name,
            limit=limit,
            after=after,
            skip=met,
            on_damage=damaged.append,
        )
        for each in damaged:
            on_damage(each)
        yield from page
        met += (found := len(page) + len(damaged))
        if found < limit:
            return


async def past_damage(
    transact: Callable[[Callable[[Transaction], _Found[R]]], Awaitable[_Found[R]]],
    work: Callable[[Transaction, OnDamage], R],
    on_damage: OnDamage,
) -> R:
    """Runs ``work`` in a transaction, and tells what it passed by when that is over.

    Args:
        transact: ``ApprovalStore.read`` or ``write``.
        work: gets the transaction, and what it is to tell.
        on_damage: is told each row once.
    """

    def gather(tx: Transaction) -> _Found[R]:
        damaged: list[DamagedRow] = []
        return work(tx, damaged.append), damaged

    found, damaged = await transact(gather)
    for row in dict.fromkeys(damaged):
        on_damage(row)
    return found
