"""The options that name a store of approvals."""

from __future__ import annotations

import inspect

from mcpl_core.cli import approvals
from mcpl_core.cli.approvals_options import StoreOptions


def test_every_command_has_them() -> None:
    for command in (approvals.list_approvals, approvals.show, approvals.decide, approvals.reconcile_claim):
        assert {"store", "postgres_env", "schema"} <= inspect.signature(command).parameters.keys()


def test_none_is_named_unless_it_is_said() -> None:
    assert StoreOptions() == StoreOptions(store="", postgres_env="", schema="")
