"""Calls of the state and branches extensions (SPEC_NOTES R-ext-1).

Owns: their shapes. Does not own: the check and the sending (``calls``).
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from ..errors import LocalProtocolError
from ..protocol import (
    BranchesCreateParams,
    BranchesCreateResult,
    BranchesCurrentParams,
    BranchesCurrentResult,
    BranchesDeleteParams,
    BranchesDeleteResult,
    BranchesListParams,
    BranchesListResult,
    BranchesSwitchParams,
    BranchesSwitchResult,
    StateGetParams,
    StateGetResult,
    StateUpdateParams,
    StateUpdateResult,
    method,
)
from .features import FeatureSet, name_of

__all__ = ("ExtensionCalls",)


class ExtensionCalls:
    """Calls that a host may grant beyond SPEC 0.5; off unless it does. They raise as ``HostCalls`` says."""

    async def call(self, name: str, params: Any = None) -> Any:
        """See ``HostCalls``."""
        raise NotImplementedError

    async def state_update(
        self,
        feature_set: FeatureSet | str,
        checkpoint: str,
        parent: str | None,
        *,
        data: Any = UNSET,
        patch: list[dict[str, Any]] | UnsetType = UNSET,
    ) -> StateUpdateResult:
        """``state/update``: a state that changed outside of any call (state extension).

        Raises:
            LocalProtocolError: both ``data`` and ``patch`` are given.
        """
        params = StateUpdateParams(
            feature_set=name_of(feature_set), checkpoint=checkpoint, parent=parent, data=data, patch=patch
        )
        if params.form == "both":
            raise LocalProtocolError("a state update carries data or a patch, not both")
        result: StateUpdateResult = await self.call(method.STATE_UPDATE, params)
        return result

    async def state_get(self, feature_set: FeatureSet | str) -> StateGetResult:
        """``state/get``: what the host keeps (state extension)."""
        result: StateGetResult = await self.call(method.STATE_GET, StateGetParams(feature_set=name_of(feature_set)))
        return result

    async def list_branches(self, feature_set: FeatureSet | str) -> BranchesListResult:
        """``branches/list`` (branches extension)."""
        params = BranchesListParams(feature_set=name_of(feature_set))
        result: BranchesListResult = await self.call(method.BRANCHES_LIST, params)
        return result

    async def current_branch(self, feature_set: FeatureSet | str) -> BranchesCurrentResult:
        """``branches/current`` (branches extension)."""
        params = BranchesCurrentParams(feature_set=name_of(feature_set))
        result: BranchesCurrentResult = await self.call(method.BRANCHES_CURRENT, params)
        return result

    async def create_branch(
        self,
        feature_set: FeatureSet | str,
        name: str,
        *,
        from_branch: str | UnsetType = UNSET,
        at_checkpoint: str | UnsetType = UNSET,
    ) -> BranchesCreateResult:
        """``branches/create``; the host may choose another name (branches extension)."""
        params = BranchesCreateParams(
            feature_set=name_of(feature_set), name=name, source=from_branch, at_checkpoint=at_checkpoint
        )
        result: BranchesCreateResult = await self.call(method.BRANCHES_CREATE, params)
        return result

    async def switch_branch(self, feature_set: FeatureSet | str, name: str) -> BranchesSwitchResult:
        """``branches/switch`` (branches extension)."""
        params = BranchesSwitchParams(feature_set=name_of(feature_set), name=name)
        result: BranchesSwitchResult = await self.call(method.BRANCHES_SWITCH, params)
        return result

    async def delete_branch(self, feature_set: FeatureSet | str, name: str) -> BranchesDeleteResult:
        """``branches/delete`` (branches extension)."""
        params = BranchesDeleteParams(feature_set=name_of(feature_set), name=name)
        result: BranchesDeleteResult = await self.call(method.BRANCHES_DELETE, params)
        return result
