"""The options that name a store of approvals.

Owns: the options. Does not own: opening what they name (``approvals_store``).

A database's address may hold a password, and a command line can be read by everybody on the machine: so it is given as
the name of the environment variable that holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

__all__ = ("StoreOptions",)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Which store, and which part of it."""

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
    schema: Annotated[
        str, typer.Option("--schema", metavar="NAME", help="The schema in that database; left out: the usual one.")
    ] = ""
