"""Opening the store of approvals that a command works with.

Owns: which store the options name, and turning what goes wrong with it into one line. Does not own: the stores.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from ..approvals import (
    ApprovalError,
    ApprovalGateway,
    ApprovalStorageError,
    DamagedRow,
    OnDamage,
    PostgresApprovalStore,
    SqliteApprovalStore,
)
from ..approvals.postgres.store import DEFAULT_SCHEMA
from ..errors import InvalidValueError, LocalProtocolError
from .approvals_options import StoreOptions
from .output import CommandError, Output
from .running import run_until_stopped

__all__ = ("at_the_gate", "open_store", "print_damage")

T = TypeVar("T")


def open_store(
    options: StoreOptions, *, create: bool = False, read_only: bool = False
) -> AbstractAsyncContextManager[Any]:
    """The store, to be entered.

    Args:
        options: name it.
        create: whether one that is not there is made.
        read_only: whether nothing is written: a file needs no right to write then.

    Raises:
        CommandError: the options name none, or two, or a part of the other.
        InvalidValueError: the schema has no plain name.
        LocalProtocolError: the database's library is not installed.
    """
    if bool(options.store) == bool(options.postgres_env):
        raise CommandError("name the store: either --store FILE or --postgres-env VARIABLE")
    if options.store:
        if options.schema:
            raise CommandError("--schema is of a database: it does not go with --store")
        return SqliteApprovalStore(options.store, create=create, read_only=read_only)
    dsn = os.environ.get(options.postgres_env)
    if not dsn:
        raise CommandError(f"the environment variable {options.postgres_env} is not set")
    return PostgresApprovalStore(dsn, schema=options.schema or DEFAULT_SCHEMA, create=create)


def print_damage(row: DamagedRow) -> None:
    """Says on standard error what was passed by."""
    Output(stderr=True).line(f"mcpl: damaged: {row.id}: {row.reason}")


def _allow(principal: str, record: object, command: object) -> bool:
    return True


def at_the_gate(
    options: StoreOptions,
    work: Callable[[ApprovalGateway], Awaitable[T]],
    *,
    create: bool = False,
    read_only: bool = False,
    on_damage: OnDamage = print_damage,
) -> T:
    """Opens the store, does the work at its gate, and closes it. Who may use the store may decide.

    Args:
        options: name the store.
        work: gets the gate.
        create: as in ``open_store``.
        read_only: as in ``open_store``.
        on_damage: is told what the gate passed by.

    Raises:
        CommandError: status 1: the store cannot be used, or the gate refused; status 2: an argument is not what it must
            be.
    """

    async def open_and_work() -> T:
        async with open_store(options, create=create, read_only=read_only) as store:
            return await work(ApprovalGateway(store, authorize=_allow, on_damage=on_damage))

    try:
        return run_until_stopped(open_and_work)
    except ApprovalError as exc:
        raise CommandError(f"{exc.code}: {exc}", 1) from exc
    except ApprovalStorageError as exc:
        raise CommandError(str(exc), 1) from exc
    except (InvalidValueError, LocalProtocolError) as exc:
        raise CommandError(str(exc)) from exc
