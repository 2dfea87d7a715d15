"""The host's branches, as servers may ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.capabilities import EXTENSION_CAPABILITIES, VOCABULARY
from mcpl_core.errors import BranchNotFound
from mcpl_core.host import HostPolicy, MemoryBranches
from mcpl_core.protocol import BranchesChangedParams
from tests.host.raw_server import MANIFEST, embedded

EXTENDED = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
NAMES = ("list", "create", "switch", "delete")
POLICY = HostPolicy.allow("tools", *(f"branches.{name}" for name in NAMES), vocabulary=EXTENDED)
BRANCHING = {
    **MANIFEST,
    "branches": dict.fromkeys(NAMES, True),
    "featureSets": {"edit": {"description": "Edits", "uses": [f"branches.{name}" for name in NAMES]}},
}


# -- in memory


def test_branches_come_and_go() -> None:
    told: list[BranchesChangedParams] = []
    branches = MemoryBranches(changed=told.append)
    branches.advance(5)
    assert (branches.current().name, branches.current().head) == ("main", 5)
    created = branches.create("draft")
    assert (created.accepted, created.name, created.head) == (True, "draft", 5)
    switched = branches.switch("draft")
    assert (switched.previous, switched.name) == ("main", "draft")
    branches.switch("draft")
    branches.advance(9)
    listed = {branch.name: branch for branch in branches.list().branches}
    assert (listed["draft"].is_current, listed["draft"].head, listed["draft"].parent) == (True, 9, "main")
    assert (listed["draft"].branch_point, listed["main"].is_current) == (5, False)
    assert branches.delete("main").accepted
    assert [each.event for each in told] == ["created", "switched", "deleted"]
    assert (told[1].previous, told[0].parent) == ("main", "main")


def test_the_current_branch_is_not_deleted() -> None:
    branches = MemoryBranches()
    assert (branches.delete("main").accepted, branches.delete("main").reason) == (False, "current_branch")


def test_a_taken_name_is_changed() -> None:
    branches = MemoryBranches()
    assert [branches.create("x").name for _ in range(3)] == ["x", "x-2", "x-3"]


def test_what_is_not_there_is_said_so() -> None:
    branches = MemoryBranches()
    for call in (branches.switch, branches.delete, lambda name: branches.create("x", name)):
        with pytest.raises(BranchNotFound):
            call("never")


@pytest.mark.parametrize(("arguments", "reason"), [(("",), "name"), (("x" * 300,), "name")])
def test_names_are_bounded(arguments: Any, reason: str) -> None:
    assert MemoryBranches().create(*arguments).reason == reason


def test_branches_are_bounded_and_checkpoints_are_not_mapped() -> None:
    branches = MemoryBranches(limit=1)
    assert branches.create("x").reason == "limit"
    assert branches.create("x", at_checkpoint="seq_5").reason == "checkpoint_not_supported"


# -- on the wire


@pytest.mark.anyio
async def test_a_server_may_ask_for_them() -> None:
    branches = MemoryBranches()
    async with embedded(POLICY, BRANCHING, branches=branches) as (raw, _):
        mcpl = raw.heard[0]["params"]["capabilities"]["experimental"]["mcpl"]
        assert mcpl["branches"] == dict.fromkeys(sorted(NAMES), True)
        claim = {"featureSet": "edit"}
        created = await raw.served("branches/create", {**claim, "name": "draft", "from": "main"})
        assert created == {"accepted": True, "name": "draft", "head": 0}
        switched = await raw.served("branches/switch", {**claim, "name": "draft"})
        assert switched["previous"] == "main"
        assert await raw.served("branches/current", claim) == {"name": "draft", "head": 0}
        assert [each["name"] for each in (await raw.served("branches/list", claim))["branches"]] == ["main", "draft"]
        assert not (await raw.served("branches/delete", {**claim, "name": "draft"}))["accepted"]
        assert (await raw.refused("branches/switch", {**claim, "name": "never"}))["code"] == -32025


class Later:
    """A keeper whose methods are coroutine functions."""

    async def list(self) -> Any:
        return {"branches": []}


@pytest.mark.anyio
async def test_a_keeper_may_take_its_time() -> None:
    async with embedded(POLICY, BRANCHING, branches=Later()) as (raw, _):
        assert await raw.served("branches/list", {"featureSet": "edit"}) == {"branches": []}


@pytest.mark.anyio
async def test_who_may_not_is_refused() -> None:
    some = HostPolicy.allow("tools", "branches.list", vocabulary=EXTENDED)
    manifest = {
        **BRANCHING,
        "featureSets": {
            "look": {"description": "Looks", "uses": ["branches.list"]},
            "other": {"description": "Acts", "uses": ["tools"]},
        },
    }
    async with embedded(some, manifest, branches=MemoryBranches()) as (raw, _):
        assert (await raw.refused("branches/create", {"featureSet": "look", "name": "x"}))["code"] == -32002
        assert (await raw.refused("branches/list", {"featureSet": "other"}))["data"]["reason"] == "declaration_mismatch"
        assert (await raw.refused("branches/list", {"featureSet": "never"}))["code"] == -32003
        assert (await raw.served("branches/list", {"featureSet": "look"}))["branches"]
    async with embedded(some, manifest) as (raw, _):
        assert (await raw.refused("branches/list", {"featureSet": "look"}))["code"] == -32601
