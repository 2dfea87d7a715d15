"""The host's branches of a conversation, as servers may ask for them (extension; SPEC_NOTES R-ext-1).

Owns: the seam to whoever keeps branches, a keeper in memory, and the way of ``branches/*`` to it. Does not own: what a
branch holds (the application), and the grant's first word (``session``).

The host owns its branches and may refuse everything. Whoever changes one, every server that may list them is told.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from msgspec import UNSET, UnsetType

from ..dispatch import Later
from ..errors import BranchNotFound, MethodNotFound
from ..protocol import (
    BranchesChangedParams,
    BranchesCreateResult,
    BranchesCurrentResult,
    BranchesDeleteResult,
    BranchesListResult,
    BranchesSwitchResult,
    BranchInfo,
    decode_params,
    method,
)
from ..wire.messages import Request
from .link import Effect, ServerLink

__all__ = ("BranchDesk", "Branches", "BranchesChanged", "MemoryBranches")

#: Is told of each change, whoever made it.
BranchesChanged = Callable[[BranchesChangedParams], object]


class Branches(Protocol):
    """Who keeps branches. Each method may be a coroutine function; a refusal is a result with ``accepted`` false, a
    branch that is not there a ``BranchNotFound``."""

    def list(self) -> Any:
        """``BranchesListResult``."""

    def current(self) -> Any:
        """``BranchesCurrentResult``."""

    def create(self, name: str, source: str | UnsetType, at_checkpoint: str | UnsetType) -> Any:
        """``BranchesCreateResult``; the name may be another one."""

    def switch(self, name: str) -> Any:
        """``BranchesSwitchResult``."""

    def delete(self, name: str) -> Any:
        """``BranchesDeleteResult``. The current branch is never deleted."""


class MemoryBranches:
    """Branches in memory: names, heads, and where each left its parent.

    Args:
        name: of the first branch.
        changed: is told of each change; ``McplHost.branches_changed`` passes it on to servers.
        limit: how many branches there may be.
    """

    def __init__(self, name: str = "main", changed: BranchesChanged | None = None, limit: int = 1000) -> None:
        self.changed = changed
        self._limit = limit
        self._current = name
        self._branches: dict[str, BranchInfo] = {name: _branch(name, 0, None, None)}

    def advance(self, head: int) -> None:
        """The current branch has grown to this sequence number."""
        branch = self._branches[self._current]
        self._branches[self._current] = _branch(branch.name, head, branch.parent, branch.branch_point)

    def list(self) -> BranchesListResult:
        """All branches."""
        branches = [
            BranchInfo(
                name=branch.name,
                head=branch.head,
                is_current=branch.name == self._current,
                parent=branch.parent,
                branch_point=branch.branch_point,
            )
            for branch in self._branches.values()
        ]
        return BranchesListResult(branches=branches)

    def current(self) -> BranchesCurrentResult:
        """The current branch."""
        return BranchesCurrentResult(name=self._current, head=self._branches[self._current].head)

    def create(
        self, name: str, source: str | UnsetType = UNSET, at_checkpoint: str | UnsetType = UNSET
    ) -> BranchesCreateResult:
        """A new branch at the head of ``source``. Checkpoints are not mapped to sequence numbers: one is refused."""
        origin = self._find(self._current if source is UNSET else source)
        if at_checkpoint is not UNSET:
            return BranchesCreateResult(accepted=False, reason="checkpoint_not_supported")
        if not name or len(name) > 200 or len(self._branches) >= self._limit:
            return BranchesCreateResult(accepted=False, reason="name" if len(self._branches) < self._limit else "limit")
        number, chosen = 1, name
        while chosen in self._branches:
            number += 1
            chosen = f"{name}-{number}"
        self._branches[chosen] = _branch(chosen, origin.head, origin.name, origin.head)
        self._tell(BranchesChangedParams(event="created", branch=chosen, head=origin.head, parent=origin.name))
        return BranchesCreateResult(accepted=True, name=chosen, head=origin.head)

    def switch(self, name: str) -> BranchesSwitchResult:
        """Another branch becomes current."""
        branch = self._find(name)
        previous, self._current = self._current, name
        if previous != name:
            self._tell(BranchesChangedParams(event="switched", branch=name, previous=previous, head=branch.head))
        return BranchesSwitchResult(accepted=True, name=name, head=branch.head, previous=previous)

    def delete(self, name: str) -> BranchesDeleteResult:
        """A branch goes, unless it is the current one."""
        self._find(name)
        if name == self._current:
            return BranchesDeleteResult(accepted=False, name=name, reason="current_branch")
        del self._branches[name]
        self._tell(BranchesChangedParams(event="deleted", branch=name))
        return BranchesDeleteResult(accepted=True, name=name)

    def _find(self, name: str) -> BranchInfo:
        branch = self._branches.get(name)
        if branch is None:
            raise BranchNotFound(data={"name": name[:200]})
        return branch

    def _tell(self, change: BranchesChangedParams) -> None:
        if self.changed is not None:
            self.changed(change)


def _branch(name: str, head: int, parent: Any, point: Any) -> BranchInfo:
    return BranchInfo(name=name, head=head, is_current=False, parent=parent, branch_point=point)


class BranchDesk:
    """``branches/*`` of one server.

    Args:
        link: the session's facts.
    """

    def __init__(self, link: ServerLink) -> None:
        self._link = link

    def effects(self) -> dict[str, Effect]:
        """What its messages do. They wait for a worker, in their order."""
        return {name: partial(self._receive, name) for name in _CALLS}

    def _receive(self, name: str, message: Request) -> Later:
        params = decode_params(self._link.row(name), message.raw_params)
        self._link.check_claim(name, params.feature_set)
        if self._link.hub.handlers.branches is None:
            raise MethodNotFound(message="this host tells nothing of its branches")
        return Later(partial(self._serve, name, params))

    async def _serve(self, name: str, params: Any) -> Any:
        self._link.check_claim(name, params.feature_set)
        result = _CALLS[name](self._link.hub.handlers.branches, params)
        if inspect.isawaitable(result):
            result = await result
        self._link.audit.record(name, "success", feature_set=params.feature_set)
        return result


_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    method.BRANCHES_LIST: lambda branches, params: branches.list(),
    method.BRANCHES_CURRENT: lambda branches, params: branches.current(),
    method.BRANCHES_CREATE: lambda branches, params: branches.create(params.name, params.source, params.at_checkpoint),
    method.BRANCHES_SWITCH: lambda branches, params: branches.switch(params.name),
    method.BRANCHES_DELETE: lambda branches, params: branches.delete(params.name),
}
