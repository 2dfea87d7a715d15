"""Which store of approvals a command works with.

Owns: the options that name it, and turning what goes wrong with it into one line. Does not own: the stores.

A database's address may hold a password, and a command line can be read by everybody on the machine: so it is given as
the name of the environment variable that holds it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from ..approvals import ApprovalError, ApprovalGateway, ApprovalStorageError, PostgresApprovalStore, SqliteApprovalStore
from ..approvals.postgres.store import DEFAULT_SCHEMA
from ..errors import InvalidValueError, LocalProtocolError
from .output import CommandError
from .running import run_until_stopped

__all__ = ("StoreOptions", "at_the_gate")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options that name a store."""

    store: Annotated[
        str, typer.Option("--store", metavar="FILE", envvar="MCPL_APPROVALS", help="The SQLite file of the store.")
    ] = ""
    postgres_env: Annotated[
        str,
        typer.Option(
            "--postgres-env",
            metavar="VARIABLE",
            help="The PostgreSQL database whose address is in this environment variable.",
        ),
    ] = ""
    schema: Annotated[str, typer.Option("--schema", help="The schema in that database.")] = DEFAULT_SCHEMA

    def open(self) -> AbstractAsyncContextManager[Any]:
        """The store, to be entered.

        Raises:
            CommandError: the options name none, or two.
        """
        if bool(self.store) == bool(self.postgres_env):
            raise CommandError("name the store: either --store FILE or --postgres-env VARIABLE")
        if self.store:
            return SqliteApprovalStore(self.store, create=False)
        dsn = os.environ.get(self.postgres_env)
        if not dsn:
            raise CommandError(f"the environment variable {self.postgres_env} is not set")
        return PostgresApprovalStore(dsn, schema=self.schema)


def at_the_gate(options: StoreOptions, work: Callable[[ApprovalGateway], Awaitable[T]]) -> T:
    """Opens the store, does the work at its gate, and closes it. Who may use the store may decide.

    Args:
        options: name the store.
        work: gets the gate.

    Raises:
        CommandError: status 1: the store cannot be used, or the gate refused; status 2: an argument is not what it must
            be.
    """

    async def open_and_work() -> T:
        async with options.open() as store:
            return await work(ApprovalGateway(store, authorize=lambda principal, record, command: True))

    try:
        return run_until_stopped(open_and_work)
    except ApprovalError as exc:
        raise CommandError(f"{exc.code}: {exc}", 1) from exc
    except ApprovalStorageError as exc:
        raise CommandError(str(exc), 1) from exc
    except (InvalidValueError, LocalProtocolError) as exc:
        raise CommandError(str(exc)) from exc
