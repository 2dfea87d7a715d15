"""The states that a host keeps for its servers: a tree of checkpoints for each feature set (SPEC 8).

Owns: the trees, what is recorded, refused and forgotten, and what goes with the next call. Does not own: JSON Patch
(``patches``), the file behind it (``store``), and the messages. Pure, but for a store that is given.

A record is taken as a whole or refused with a reason; a refused one leaves everything as it was.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

from msgspec import UNSET, UnsetType

from ..errors import InvalidValueError
from ..wire.values import encode_value
from .patches import PatchLimits, apply_patch

__all__ = (
    "Checkpoint",
    "StateLimits",
    "StateProblem",
    "StateReason",
    "StateStore",
    "StateTree",
    "States",
)

#: Why a record was refused.
StateReason = Literal[
    "both_forms",  # data and a patch
    "parent_mismatch",  # its parent is not the current checkpoint
    "unknown_parent",  # a patch of a checkpoint that is not known (any more)
    "opaque_parent",  # a patch of a checkpoint whose state the server keeps
    "checkpoint_exists",  # another state has this id
    "patch_failed",
    "patch_unsupported",  # the extra that applies patches is not installed
    "too_large",
]

_LONGEST_ID: Final = 1024


class StateProblem(NamedTuple):
    """A refused record.

    Attributes:
        reason: why.
        detail: for people; what was wrong with a patch.
    """

    reason: StateReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StateLimits:
    """What is kept.

    Attributes:
        checkpoints: of one tree; the oldest are forgotten, the current one never.
        state_bytes: of one state.
        tree_bytes: of all states of one tree.
        patch: see ``PatchLimits``.
    """

    checkpoints: int = 100
    state_bytes: int = 4 * 1024 * 1024
    tree_bytes: int = 16 * 1024 * 1024
    patch: PatchLimits = field(default_factory=PatchLimits)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One state.

    Attributes:
        id: its name, the server's.
        parent: the state before; ``None`` for the first.
        data: the whole state, any JSON; ``UNSET`` when the server keeps it.
        size: of ``data``, in bytes.
    """

    id: str
    parent: str | None
    data: Any = UNSET
    size: int = 0


class StateTree:
    """The checkpoints of one feature set.

    Args:
        limits: see ``StateLimits``.

    Attributes:
        current: the checkpoint that holds now, ``None`` when nothing was recorded.
    """

    def __init__(self, limits: StateLimits = StateLimits()) -> None:
        self._limits = limits
        self.current: str | None = None
        self._checkpoints: OrderedDict[str, Checkpoint] = OrderedDict()

    def __len__(self) -> int:
        return len(self._checkpoints)

    def find(self, id: str) -> Checkpoint | None:
        """A checkpoint, ``None`` when it is not known (any more)."""
        return self._checkpoints.get(id)

    @property
    def head(self) -> Checkpoint | None:
        """The current checkpoint."""
        return None if self.current is None else self._checkpoints[self.current]

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """All that are kept, the oldest first."""
        return tuple(self._checkpoints.values())

    def members(self) -> dict[str, Any]:
        """What a call carries: ``state``, or ``checkpoint``, or nothing (SPEC 8.4)."""
        head = self.head
        if head is None:
            return {}
        return {"checkpoint": head.id} if head.data is UNSET else {"state": head.data}

    def record(
        self,
        id: str,
        parent: str | None | UnsetType,
        data: Any = UNSET,
        patch: Any = UNSET,
        *,
        successor: bool = False,
    ) -> StateProblem | None:
        """Takes a state, which holds from now on (SPEC 8.2, 8.3).

        Args:
            id: of the checkpoint.
            parent: the state before; ``UNSET``: the current one.
            data: the whole state.
            patch: the change from the parent. A patch of nothing starts from ``{}``.
            successor: the parent must be the current checkpoint.

        Returns:
            ``None``, or why it was refused.
        """
        before = self.current if parent is UNSET else parent
        assert before is None or isinstance(before, str)
        if data is not UNSET and patch is not UNSET:
            return StateProblem("both_forms")
        if len(id) > _LONGEST_ID or (before is not None and len(before) > _LONGEST_ID):
            return StateProblem("too_large")
        if successor and before != self.current:
            return StateProblem("parent_mismatch")
        if patch is not UNSET:
            made = self._patched(before, patch)
            if isinstance(made, StateProblem):
                return made
            data = made[0]
        return self._keep(Checkpoint(id, before, data, 0 if data is UNSET else len(encode_value(data))))

    def _patched(self, parent: str | None, patch: Any) -> tuple[Any] | StateProblem:
        base: Any = {}
        if parent is not None:
            checkpoint = self._checkpoints.get(parent)
            if checkpoint is None:
                return StateProblem("unknown_parent")
            if checkpoint.data is UNSET:
                return StateProblem("opaque_parent")
            base = checkpoint.data
        try:
            return (apply_patch(base, patch, self._limits.patch),)
        except InvalidValueError as exc:
            return StateProblem("patch_failed", str(exc))
        except ModuleNotFoundError as exc:
            return StateProblem("patch_unsupported", str(exc))

    def _keep(self, checkpoint: Checkpoint) -> StateProblem | None:
        if checkpoint.size > self._limits.state_bytes:
            return StateProblem("too_large")
        known = self._checkpoints.get(checkpoint.id)
        if known is not None and checkpoint.data is not UNSET:
            if known.data is UNSET or encode_value(known.data) != encode_value(checkpoint.data):
                return StateProblem("checkpoint_exists")
        if known is None:
            self._checkpoints[checkpoint.id] = checkpoint
        self.current = checkpoint.id
        self._trim()
        return None

    def rolled_back(self, asked: str, answered: str, data: Any = UNSET) -> None:
        """The server went back to ``asked`` (SPEC 8.6).

        Args:
            answered: the checkpoint that holds now, as the server names it; some give it a new name.
            data: the whole state there, when the server sent it.
        """
        known = self._checkpoints.get(answered) or self._checkpoints.get(asked)
        if data is UNSET and known is not None:
            data = known.data
        parent = asked if answered != asked else (known.parent if known is not None else None)
        size = 0 if data is UNSET else len(encode_value(data))
        if size > self._limits.state_bytes or len(answered) > _LONGEST_ID:
            data, size, answered = UNSET, 0, answered[:_LONGEST_ID]
        self._checkpoints[answered] = Checkpoint(answered, parent, data, size)
        self._checkpoints.move_to_end(answered)
        self.current = answered
        self._trim()

    def forget(self, id: str) -> None:
        """The server does not know this checkpoint (any more, SPEC 8.7)."""
        if self._checkpoints.pop(id, None) is not None and self.current == id:
            self.current = None

    def restore(self, checkpoints: Iterable[Checkpoint], current: str | None) -> None:
        """Takes what a store kept."""
        self._checkpoints = OrderedDict((checkpoint.id, checkpoint) for checkpoint in checkpoints)
        self.current = current if current in self._checkpoints else None
        self._trim()

    def _trim(self) -> None:
        total = sum(checkpoint.size for checkpoint in self._checkpoints.values())
        for id in list(self._checkpoints):
            if len(self._checkpoints) <= self._limits.checkpoints and total <= self._limits.tree_bytes:
                return
            if id != self.current:
                total -= self._checkpoints.pop(id).size


class StateStore(Protocol):
    """Where trees outlive the process: ``mcpl_core.host.store.FileStateStore``, or one's own. Calls come from one
    thread."""

    def load(self) -> Iterable[tuple[str, str, list[Checkpoint], str | None]]:
        """Everything kept: server, feature set (empty: unnamed), checkpoints oldest first, the current one."""

    def save(self, server: str, feature_set: str, checkpoints: Iterable[Checkpoint], current: str | None) -> None:
        """Keeps a tree in the place of what was kept of it."""

    def remove(self, server: str) -> None:
        """Forgets all trees of a server."""

    def close(self) -> None:
        """Releases what the store holds."""


class States:
    """The trees of all servers of a host. They live longer than any connection.

    Args:
        limits: of each tree.
        store: where they outlive the process; left out, they do not.
    """

    def __init__(self, limits: StateLimits = StateLimits(), store: StateStore | None = None) -> None:
        self._limits = limits
        self._store = store
        self._trees: dict[tuple[str, str], StateTree] = {}
        for server, feature_set, checkpoints, current in store.load() if store is not None else ():
            self.tree(server, feature_set).restore(checkpoints, current)

    def tree(self, server: str, feature_set: str | None = None) -> StateTree:
        """The tree of a feature set of a server; ``None``: its unnamed one. Made when there is none."""
        key = (server, feature_set or "")
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = StateTree(self._limits)
        return tree

    def saved(self, server: str, feature_set: str | None = None) -> None:
        """The tree changed: it is handed to the store."""
        if self._store is not None:
            tree = self.tree(server, feature_set)
            self._store.save(server, feature_set or "", tree.checkpoints, tree.current)

    def forget(self, server: str) -> None:
        """Drops all trees of a server."""
        for key in [key for key in self._trees if key[0] == server]:
            del self._trees[key]
        if self._store is not None:
            self._store.remove(server)

    def close(self) -> None:
        """Releases the store."""
        if self._store is not None:
            self._store.close()
