"""The steps of the gate, by name: where a host may look on, and where it may be cut off.

Owns: the names, in order. Does not own: what happens in between. A step is told when it is behind us; those inside a
transaction are told in the thread of the store, before the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, get_args

__all__ = ("STEPS", "Step", "StepHook", "no_hook")

Step: TypeAlias = Literal[
    "prepare.begun",
    "prepare.record_saved",  # in the transaction
    "prepare.checkpoint_saved",  # in the transaction
    "prepare.committed",
    "decide.authorized",
    "decide.record_saved",  # in the transaction
    "decide.committed",
    "dispatch.begun",
    "dispatch.claim_saved",  # in the transaction
    "dispatch.claimed",
    "dispatch.permitted",  # the registration was compared again; the next thing is the request
    "dispatch.answered",
    "dispatch.outcome_saved",  # in the transaction
    "dispatch.recorded",
    "reconcile.saved",  # in the transaction
    "reconcile.committed",
]

STEPS: Final[tuple[Step, ...]] = get_args(Step)

#: Is told each step. What it raises ends the operation there.
StepHook: TypeAlias = Callable[[Step], object]


def no_hook(step: Step) -> None:
    """Looks on at nothing."""
